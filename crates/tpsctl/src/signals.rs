//! Ctrl-C: the first asks, the second stops waiting. SIGTERM, SIGQUIT and a terminal that goes away (SIGHUP) ask too.

use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

/// What the user asked for.
#[derive(Debug, Clone)]
pub(crate) struct Interrupts {
    /// Cancelled by the first signal: stop the load, tear down, report.
    pub(crate) first: CancellationToken,
    /// Cancelled by the second: stop waiting.
    pub(crate) second: CancellationToken,
}

impl Interrupts {
    /// Tokens that nothing has cancelled yet.
    pub(crate) fn new() -> Self {
        Self { first: CancellationToken::new(), second: CancellationToken::new() }
    }

    /// Listens until the second signal. Runs beside the command and is dropped with it.
    pub(crate) async fn listen(&self) -> std::io::Result<()> {
        let mut interrupt = signal(SignalKind::interrupt())?;
        let mut terminate = signal(SignalKind::terminate())?;
        let mut quit = signal(SignalKind::quit())?;
        let mut hangup = signal(SignalKind::hangup())?;
        for token in [&self.first, &self.second] {
            tokio::select! {
                _ = interrupt.recv() => {}
                _ = terminate.recv() => {}
                _ = quit.recv() => {}
                _ = hangup.recv() => {}
            }
            token.cancel();
        }
        Ok(())
    }
}
