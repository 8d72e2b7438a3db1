//! Exit codes on which scripts rely, and the failures that lead to them (spec 09 section 1). A
//! failure holds every problem that was found, not only the first. A problem has a message and,
//! where possible, a hint on what to do next.

use std::fmt;
use std::process::ExitCode;

/// Outcome of the program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Exit {
    /// 0: the command succeeded.
    Done,
    /// 1: the command could not be carried out.
    Failed,
    /// 2: bad usage or bad input.
    BadInput,
    /// 3: the command succeeded, and a gate of `--fail-on` tripped.
    GateTripped,
    /// The exit code of the program that `kerf sandbox -- CMD` ran.
    ChildExitCode(u8),
}

impl Exit {
    /// Returns the code for the operating system.
    pub(crate) fn code(self) -> u8 {
        match self {
            Self::Done => 0,
            Self::Failed => 1,
            Self::BadInput => 2,
            Self::GateTripped => 3,
            Self::ChildExitCode(code) => code,
        }
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit.code())
    }
}

/// The reason why a command has no result.
#[derive(Debug)]
pub(crate) enum CommandFailure {
    /// Arguments or input are wrong; lists every problem found.
    BadInput(Vec<Problem>),
    /// The command was valid and could not be carried out.
    ExecutionFailed(anyhow::Error),
}

impl CommandFailure {
    /// Returns a failure with a single problem of the arguments or the input.
    pub(crate) fn bad_input(problem: Problem) -> Self {
        Self::BadInput(vec![problem])
    }

    /// Returns the exit code of this failure.
    pub(crate) fn exit(&self) -> Exit {
        match self {
            Self::BadInput(_) => Exit::BadInput,
            Self::ExecutionFailed(_) => Exit::Failed,
        }
    }
}

/// A problem with an optional hint.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Problem {
    severity: Severity,
    /// Description of the problem; begins with the file, document and line if it concerns an
    /// object.
    message: String,
    /// Advice on what to type or change; `None` if there is none.
    hint: Option<String>,
}

/// Severity of a problem.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Severity {
    /// The problem makes the command fail.
    Error,
    /// The problem does not make the command fail; it is printed together with the errors.
    Warning,
}

impl Problem {
    /// Returns an error without a hint.
    pub(crate) fn new(message: impl Into<String>) -> Self {
        Self { severity: Severity::Error, message: message.into(), hint: None }
    }

    /// Returns a warning that is printed together with the errors, so that the user can fix
    /// everything at once.
    pub(crate) fn warning(message: impl Into<String>) -> Self {
        Self { severity: Severity::Warning, ..Self::new(message) }
    }

    pub(crate) fn severity(&self) -> Severity {
        self.severity
    }

    /// Adds a hint.
    pub(crate) fn with_hint(self, hint: impl Into<String>) -> Self {
        Self { hint: Some(hint.into()), ..self }
    }

    pub(crate) fn hint(&self) -> Option<&str> {
        self.hint.as_deref()
    }
}

/// A problem can also be the cause of [`CommandFailure::ExecutionFailed`]; its hint is printed too.
impl std::error::Error for Problem {}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}
