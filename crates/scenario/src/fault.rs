//! What is wrong with a scenario, and where.

use std::fmt;

use serde::Serialize;

/// Where a fault was found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Place {
    /// In the scenario's text.
    File {
        /// The source's name.
        file: String,
        /// From 1.
        line: u32,
        /// From 1, in characters.
        column: u32,
    },
    /// In an override from the command line.
    Override {
        /// The override as it was written, such as `chain.shards=8`.
        text: String,
    },
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File { file, line, column } => write!(f, "{file}:{line}:{column}"),
            Self::Override { text } => write!(f, "--set {text}"),
        }
    }
}

/// One thing that is wrong.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Fault {
    /// Where.
    pub place: Place,
    /// The key, such as `chain.shards`; empty when the fault lies with the text as a whole.
    pub path: String,
    /// What is wrong, without the key.
    pub message: String,
    /// What would be right, if it can be said.
    pub help: Option<String>,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: ", self.place)?;
        if !self.path.is_empty() {
            write!(f, "{}: ", self.path)?;
        }
        f.write_str(&self.message)?;
        match &self.help {
            Some(help) => write!(f, "\n    {help}"),
            None => Ok(()),
        }
    }
}

/// All faults of a scenario, those of the file first and in its order, then those of the overrides in theirs. Never empty.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, thiserror::Error)]
pub struct Faults(pub Vec<Fault>);

impl fmt::Display for Faults {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, fault) in self.0.iter().enumerate() {
            if index > 0 {
                f.write_str("\n")?;
            }
            fault.fmt(f)?;
        }
        Ok(())
    }
}
