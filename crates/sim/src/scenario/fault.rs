//! What is wrong with a scenario file.

use std::fmt;

/// One thing that is wrong, where it stands, and what would help.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    pub file: String,
    /// Counted from 1.
    pub line: u64,
    pub problem: String,
    pub remedy: String,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}; {}", self.file, self.line, self.problem, self.remedy)
    }
}

impl std::error::Error for Fault {}

/// A fault in a file whose name the finder does not know.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Flaw {
    pub(super) line: u64,
    pub(super) problem: String,
    pub(super) remedy: String,
}

impl Flaw {
    pub(super) fn new(line: u64, problem: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self { line, problem: problem.into(), remedy: remedy.into() }
    }

    pub(super) fn within(self, file: &str) -> Fault {
        Fault { file: file.to_owned(), line: self.line, problem: self.problem, remedy: self.remedy }
    }
}
