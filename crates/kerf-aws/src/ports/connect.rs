//! A failure to set up the connection to AWS.

use std::fmt;

/// Why the connection to AWS could not be set up. The failure is found before the first call, so it
/// has no service and no operation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConnectError {
    /// The problem in one sentence without a full stop, for example `no AWS region is configured`.
    pub problem: String,
    /// Advice to the user: the variables to set, or the parts to check.
    pub hint: String,
}

impl ConnectError {
    /// Returns an error with this problem and this hint.
    pub fn new(problem: impl Into<String>, hint: impl Into<String>) -> Self {
        Self { problem: problem.into(), hint: hint.into() }
    }
}

/// The problem without the hint, which the edge prints on a line of its own.
impl fmt::Display for ConnectError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.problem)
    }
}

impl std::error::Error for ConnectError {}
