//! Overrides of single keys from the command line: `--set chain.shards=8`.

use crate::{Fault, Place};

/// A key (or a section) and the YAML text that replaces its value in the scenario before anything is checked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Override {
    path: String,
    value: String,
}

/// An override is not of the form `key=value`.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is not `key=value`, such as `chain.shards=8`")]
pub struct OverrideError {
    /// The text as it was written.
    pub text: String,
}

impl From<OverrideError> for Fault {
    fn from(error: OverrideError) -> Self {
        let message = "is not `key=value`, such as `chain.shards=8`".to_owned();
        Self { place: Place::Override { text: error.text }, path: String::new(), message, help: None }
    }
}

impl Override {
    /// Reads `chain.shards=8`. Whether the key exists and the value fits is checked by [`load`](crate::load), together
    /// with the file.
    ///
    /// # Errors
    /// When there is no `=`, or nothing before it.
    pub fn parse(text: &str) -> Result<Self, OverrideError> {
        match text.split_once('=') {
            Some((path, value)) if !path.trim().is_empty() => {
                Ok(Self { path: path.trim().to_owned(), value: value.trim().to_owned() })
            }
            _ => Err(OverrideError { text: text.to_owned() }),
        }
    }

    /// The key or section.
    pub fn path(&self) -> &str {
        &self.path
    }

    /// The YAML text of the new value.
    pub fn value(&self) -> &str {
        &self.value
    }

    /// The override as one would type it.
    pub(crate) fn text(&self) -> String {
        format!("{}={}", self.path, self.value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn key_and_value_are_split_at_the_first_equals_sign() {
        let read = Override::parse(" node.binary = ./a=b ").unwrap();
        assert_eq!((read.path(), read.value()), ("node.binary", "./a=b"));
        assert_eq!(Override::parse("chain.shards=").unwrap().value(), "");
        assert!(Override::parse("chain.shards").is_err());
        assert_eq!(
            Override::parse("=8").unwrap_err().to_string(),
            "`=8` is not `key=value`, such as `chain.shards=8`"
        );
    }
}
