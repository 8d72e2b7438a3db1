//! How a command ends (spec 09 section 1): the exit codes that scripts rely on, and the failures that lead to them. A failure holds
//! every problem that was found, not the first; each says what is wrong, and where there is one, what to do next.

use std::fmt;
use std::process::ExitCode;

/// How the program ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Exit {
    /// 0: done.
    Done,
    /// 1: the work failed.
    Failed,
    /// 2: bad usage or bad input.
    BadInput,
    /// 3: done, and a gate that was asked for has tripped.
    GateTripped,
    /// The code of a command that was run for the person.
    ChildExitCode(u8),
}

impl Exit {
    /// The code that it is known by.
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

/// Why a command has no result.
#[derive(Debug)]
pub(crate) enum CommandFailure {
    /// What was asked or given is wrong: every problem found.
    BadInput(Vec<Problem>),
    /// The work itself failed.
    ExecutionFailed(anyhow::Error),
}

impl CommandFailure {
    /// One thing that is wrong with what was asked or given.
    pub(crate) fn bad_input(problem: Problem) -> Self {
        Self::BadInput(vec![problem])
    }

    /// The exit code that it leads to.
    pub(crate) fn exit(&self) -> Exit {
        match self {
            Self::BadInput(_) => Exit::BadInput,
            Self::ExecutionFailed(_) => Exit::Failed,
        }
    }
}

/// Something that is wrong, and what to do about it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Problem {
    /// Whether it stops anything.
    severity: Severity,
    /// What is wrong, with its place in front.
    message: String,
    /// What to type or change.
    hint: Option<String>,
}

/// Whether a problem stops anything.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Severity {
    /// It does.
    Error,
    /// It would not by itself; it is told with those that do.
    Warning,
}

impl Problem {
    /// A problem whose message says it all.
    pub(crate) fn new(message: impl Into<String>) -> Self {
        Self { severity: Severity::Error, message: message.into(), hint: None }
    }

    /// What a person who mends the rest should know too.
    pub(crate) fn warning(message: impl Into<String>) -> Self {
        Self { severity: Severity::Warning, ..Self::new(message) }
    }

    /// Whether it stops anything.
    pub(crate) fn severity(&self) -> Severity {
        self.severity
    }

    /// The same with advice.
    pub(crate) fn with_hint(self, hint: impl Into<String>) -> Self {
        Self { hint: Some(hint.into()), ..self }
    }

    /// What to do about it.
    pub(crate) fn hint(&self) -> Option<&str> {
        self.hint.as_deref()
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}
