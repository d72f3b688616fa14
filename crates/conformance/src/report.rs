//! What the checks found.

use std::fmt;

use serde::Serialize;

/// How a check ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case", tag = "outcome")]
pub enum Outcome {
    /// As it should be.
    Pass,
    /// Not so.
    Fail {
        /// What should have been seen.
        expected: String,
        /// What was.
        seen: String,
    },
    /// It could not be looked at here.
    Skip {
        /// Why not.
        why: String,
    },
}

/// What a check's function returns: an error ends it.
pub(crate) type Checked = Result<(), Outcome>;

/// One check.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Check {
    /// `surface/what`.
    pub name: String,
    /// How it ended.
    #[serde(flatten)]
    pub outcome: Outcome,
}

/// All checks, in order.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Report {
    /// The checks.
    pub checks: Vec<Check>,
}

/// Ends a check: `seen` instead of `expected`.
pub(crate) fn fail<T>(expected: impl fmt::Display, seen: impl fmt::Display) -> Result<T, Outcome> {
    let seen: String = seen.to_string().chars().take(600).collect();
    Err(Outcome::Fail { expected: expected.to_string(), seen })
}

/// Ends a check that cannot be made.
pub(crate) fn skip<T>(why: impl fmt::Display) -> Result<T, Outcome> {
    Err(Outcome::Skip { why: why.to_string() })
}

/// Goes on if `is_so`.
pub(crate) fn ensure(is_so: bool, expected: impl fmt::Display, seen: impl fmt::Display) -> Checked {
    if is_so { Ok(()) } else { fail(expected, seen) }
}

/// Goes on if the two are equal.
pub(crate) fn equal<T: PartialEq + fmt::Debug>(what: &str, seen: &T, expected: &T) -> Checked {
    ensure(seen == expected, format!("{what} {expected:?}"), format!("{seen:?}"))
}

impl Report {
    pub(crate) fn add(&mut self, name: impl Into<String>, checked: Checked) {
        let outcome = checked.err().unwrap_or(Outcome::Pass);
        self.checks.push(Check { name: name.into(), outcome });
    }

    /// Whether nothing failed. What was skipped did not fail.
    pub fn passes(&self) -> bool {
        self.failed().next().is_none()
    }

    /// The checks that failed.
    pub fn failed(&self) -> impl Iterator<Item = &Check> {
        self.checks.iter().filter(|check| matches!(check.outcome, Outcome::Fail { .. }))
    }
}

impl fmt::Display for Check {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.outcome {
            Outcome::Pass => write!(f, "pass  {}", self.name),
            Outcome::Skip { why } => write!(f, "skip  {}: {why}", self.name),
            Outcome::Fail { expected, seen } => {
                write!(f, "FAIL  {}\n        expected: {expected}\n        seen:     {seen}", self.name)
            }
        }
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for check in &self.checks {
            writeln!(f, "{check}")?;
        }
        let count = |is: fn(&Outcome) -> bool| self.checks.iter().filter(|check| is(&check.outcome)).count();
        let passed = count(|outcome| matches!(outcome, Outcome::Pass));
        let skipped = count(|outcome| matches!(outcome, Outcome::Skip { .. }));
        write!(f, "{passed} passed, {} failed, {skipped} skipped", self.failed().count())
    }
}
