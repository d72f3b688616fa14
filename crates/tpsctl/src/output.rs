//! Data to stdout, talk to stderr. A closed pipe ends output quietly.

use std::io::Write;

use tpsctl_controller::ControllerError;
use tpsctl_localchain::NodeError;
use tpsctl_provider::ProviderError;

use crate::exit::{self, Failure};

/// Prints data. A reader that went away is not an error.
pub(crate) fn data(text: &str) -> Result<(), Failure> {
    let mut stdout = std::io::stdout().lock();
    match stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()) {
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => Err(Failure::new(
            exit::PROVIDER_FAILED,
            anyhow::Error::new(error).context("cannot write to stdout"),
        )),
        _ => Ok(()),
    }
}

/// Prints a value as pretty JSON.
pub(crate) fn json<T: serde::Serialize>(value: &T) -> Result<(), Failure> {
    let text = serde_json::to_string_pretty(value).map_err(|error| {
        Failure::new(exit::INVALID, anyhow::Error::new(error).context("cannot write JSON"))
    })?;
    data(&(text + "\n"))
}

/// Says something on stderr. If nobody reads it, that is no reason to fail.
pub(crate) fn talk(text: &str) {
    let written = writeln!(std::io::stderr().lock(), "{text}");
    drop(written);
}

/// Prints an error with the chain of its causes.
pub(crate) fn fault(failure: &Failure) {
    let error = &failure.error;
    talk(&format!("error: {}{error}", if failure.is_act { "failed to " } else { "" }));
    for cause in error.chain().skip(1) {
        talk(&format!("  caused by: {cause}"));
    }
    let hint = error.chain().find_map(hint_of);
    if let Some(hint) = hint {
        talk(&format!("  what helps: {hint}"));
    }
}

/// What one cause says that helps.
fn hint_of(cause: &(dyn std::error::Error + 'static)) -> Option<String> {
    if let Some(error) = cause.downcast_ref::<ControllerError>() {
        return error.hint();
    }
    if let Some(error) = cause.downcast_ref::<NodeError>() {
        return error.hint();
    }
    let boxed = cause.downcast_ref::<Box<ProviderError>>().map(AsRef::as_ref);
    boxed.or_else(|| cause.downcast_ref::<ProviderError>())?.hint()
}
