//! The command line of Kerf. Only this crate knows about terminals and output formats.
//!
//! `args` turns arguments into validated options, and `input` turns files into objects with their
//! origin. A command (`commands`) calls the crates below, and `output` prints the result.
//! Invariants: results go to stdout and everything else to stderr; a result is printed completely
//! or not at all; the exit code is one of four (see `exit`).

mod args;
mod commands;
mod exit;
mod input;
mod output;
mod plan_input;
mod program;
mod provider;

use std::ffi::OsString;
use std::io::{ErrorKind, Write as _};
use std::process::ExitCode;

use exit::Exit;
use output::Messages;
pub use program::{ConnectAws, KERF, Program, ProviderName};

/// Runs a program. The first argument is the name of the program.
pub fn run<I>(program: &Program, arguments: I) -> ExitCode
where
    I: IntoIterator,
    I::Item: Into<OsString> + Clone,
{
    let exit = match args::parse(arguments) {
        Ok(typed) => {
            let mut messages = Messages::on_stderr();
            let outcome = typed
                .resolve(&|name| std::env::var(name).ok(), program)
                .and_then(|command| commands::run(command, program, &mut messages));
            outcome.unwrap_or_else(|failure| messages.print_failure(&failure))
        }
        Err(message) => print_parser_message(&message),
    };
    exit.into()
}

/// Output of a run of the program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunOutput {
    /// Exit code of the program.
    pub code: u8,
    /// The bytes that the program would write to stdout: the result.
    pub stdout: Vec<u8>,
    /// The text that the program would write to stderr: warnings, errors and hints.
    pub stderr: String,
}

/// Returns what [`run`] would print for `kerf plan` with these arguments and without environment
/// variables. Use it for many plans: starting the program and compiling the CRDs each time would
/// take longer than planning.
pub fn plan<I>(arguments: I) -> RunOutput
where
    I: IntoIterator,
    I::Item: Into<OsString> + Clone,
{
    let mut stderr = Vec::new();
    let (stdout, exit) = match args::parse(arguments) {
        Ok(typed) => {
            let mut messages = Messages::to_buffer(&mut stderr);
            let outcome =
                typed.resolve(&|_| None, &KERF).and_then(|command| commands::run_to_bytes(&command, &mut messages));
            outcome.unwrap_or_else(|failure| (Vec::new(), messages.print_failure(&failure)))
        }
        Err(message) => {
            stderr = message.to_string().into_bytes();
            (Vec::new(), Exit::BadInput)
        }
    };
    RunOutput { code: exit.code(), stdout, stderr: String::from_utf8_lossy(&stderr).into_owned() }
}

/// Prints clap's message: help and version on stdout, wrong usage on stderr.
fn print_parser_message(message: &clap::Error) -> Exit {
    let exit = if message.use_stderr() { Exit::BadInput } else { Exit::Done };
    // Flush: stdout may still hold the text in its buffer.
    match message.print().and_then(|()| std::io::stdout().flush()) {
        // A closed pipe is not an error: the reader has read enough.
        Err(cause) if cause.kind() != ErrorKind::BrokenPipe && exit == Exit::Done => {
            Messages::on_stderr().print_failure(&output::stdout_write_failure(cause))
        }
        Ok(()) | Err(_) => exit,
    }
}
