//! Messages on stderr: warnings, errors and hints. Messages do not depend on colour. Colour is
//! added only on a terminal, and never if `NO_COLOR` is set.

use std::fmt::Display;
use std::io::{IsTerminal, Write};

use kerf_runtime::Causes;

use crate::exit::{CommandFailure, Exit, Problem, Severity};

pub(crate) struct Messages<'t> {
    writer: Box<dyn Write + 't>,
    is_coloured: bool,
}

impl<'t> Messages<'t> {
    /// Returns a writer to stderr, with colour if stderr is a terminal.
    pub(crate) fn on_stderr() -> Self {
        let no_colour = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        let stderr = std::io::stderr();
        Self { is_coloured: stderr.is_terminal() && !no_colour, writer: Box::new(stderr) }
    }

    /// Returns a writer to a buffer, without colour.
    pub(crate) fn to_buffer(writer: &'t mut Vec<u8>) -> Self {
        Self { is_coloured: false, writer: Box::new(writer) }
    }

    /// Prints a message that does not make the command fail.
    pub(crate) fn print_warning(&mut self, text: impl Display) {
        self.write_line("warning", "33", &text);
    }

    /// Prints a fact about the result.
    pub(crate) fn print_note(&mut self, text: impl Display) {
        self.write_line("note", "36", &text);
    }

    /// Prints the reasons of a failure and returns its exit code.
    pub(crate) fn print_failure(&mut self, failure: &CommandFailure) -> Exit {
        match failure {
            CommandFailure::BadInput(problems) => problems.iter().for_each(|problem| self.print_problem(problem)),
            CommandFailure::ExecutionFailed(error) => match error.downcast_ref::<Problem>() {
                Some(problem) => self.print_problem(problem),
                None => self.write_line("error", "31", &Causes(error.as_ref())),
            },
        }
        failure.exit()
    }

    fn print_problem(&mut self, problem: &Problem) {
        match problem.severity() {
            Severity::Error => self.write_line("error", "31", problem),
            Severity::Warning => self.print_warning(problem),
        }
        if let Some(hint) = problem.hint() {
            self.write_line("hint", "32", &hint);
        }
    }

    /// Writes one message; errors are ignored, because there is no other place for messages.
    fn write_line(&mut self, label: &str, colour: &str, text: &dyn Display) {
        // `error: ` and `hint:  ` have the same width, so that the two texts are aligned.
        let gap = if label == "hint" { "  " } else { " " };
        let text = text.to_string();
        let text = super::escape_control_characters(&text);
        let _ = if self.is_coloured {
            writeln!(self.writer, "\x1b[1;{colour}m{label}:\x1b[0m{gap}{text}")
        } else {
            writeln!(self.writer, "{label}:{gap}{text}")
        };
    }
}

#[cfg(test)]
mod tests {
    use anyhow::Context as _;

    use super::*;

    /// An error whose text already contains the text of its source.
    #[derive(Debug, thiserror::Error)]
    #[error("cannot read the file: {0}")]
    struct ReadError(#[source] std::io::Error);

    #[test]
    fn an_error_prints_its_cause_once() {
        let missing = ReadError(std::io::Error::other("no such file"));
        let error = Err::<(), _>(missing).context("cannot start").unwrap_err();
        let mut stderr = Vec::new();
        let exit = Messages::to_buffer(&mut stderr).print_failure(&CommandFailure::ExecutionFailed(error));
        assert_eq!(exit, Exit::Failed);
        assert_eq!(String::from_utf8(stderr).unwrap(), "error: cannot start: cannot read the file: no such file\n");
    }

    #[test]
    fn a_failure_can_have_a_hint() {
        let problem = Problem::new("cannot start").with_hint("try again");
        let failure = CommandFailure::ExecutionFailed(anyhow::Error::new(problem));
        let mut stderr = Vec::new();
        assert_eq!(Messages::to_buffer(&mut stderr).print_failure(&failure), Exit::Failed);
        assert_eq!(String::from_utf8(stderr).unwrap(), "error: cannot start\nhint:  try again\n");
    }
}
