//! What a person sees: the command line. The only crate that knows of terminals and of output formats.
//!
//! Arguments are read as typed and turned into what is meant (`args`), files into objects that remember where they came from (`input`);
//! a command (`commands`) asks the crates below, and its answer is shown (`output`). Always: results go to stdout and everything else
//! to stderr, a result is printed whole or not at all, and the exit code is one of four.

mod args;
mod commands;
mod exit;
mod input;
mod output;

use std::ffi::OsString;
use std::io::{ErrorKind, Write as _};
use std::process::ExitCode;

use exit::Exit;
use output::Messages;

/// Runs the program with these arguments, the first of which is its own name.
pub fn run<I>(arguments: I) -> ExitCode
where
    I: IntoIterator,
    I::Item: Into<OsString> + Clone,
{
    let exit = match args::parse(arguments) {
        Ok(wish) => {
            let mut messages = Messages::on_stderr();
            let outcome = wish
                .resolve(&|name| std::env::var(name).ok())
                .and_then(|command| commands::run(command, &mut messages));
            outcome.unwrap_or_else(|failure| messages.print_failure(&failure))
        }
        Err(answer) => print_parser_message(&answer),
    };
    exit.into()
}

/// What a run of the program left behind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunOutput {
    /// Its exit code.
    pub code: u8,
    /// The result.
    pub stdout: Vec<u8>,
    /// Everything else.
    pub stderr: String,
}

/// What [`run`] would print for `kerf plan` with these arguments, in an environment that says nothing: for whoever asks so often that starting
/// the program and compiling the CRDs would take longer than the answers.
pub fn plan<I>(arguments: I) -> RunOutput
where
    I: IntoIterator,
    I::Item: Into<OsString> + Clone,
{
    let mut said = Vec::new();
    let (stdout, exit) = match args::parse(arguments) {
        Ok(wish) => {
            let mut messages = Messages::to_buffer(&mut said);
            let outcome = wish.resolve(&|_| None).and_then(|command| commands::run_to_bytes(&command, &mut messages));
            outcome.unwrap_or_else(|failure| (Vec::new(), messages.print_failure(&failure)))
        }
        Err(answer) => {
            said = answer.to_string().into_bytes();
            (Vec::new(), Exit::BadInput)
        }
    };
    RunOutput { code: exit.code(), stdout, stderr: String::from_utf8_lossy(&said).into_owned() }
}

/// The parser's own answers: help and version on stdout, bad usage on stderr.
fn print_parser_message(answer: &clap::Error) -> Exit {
    let exit = if answer.use_stderr() { Exit::BadInput } else { Exit::Done };
    // What stdout keeps in its buffer is not written yet.
    match answer.print().and_then(|()| std::io::stdout().flush()) {
        // A reader that has gone away has read enough.
        Err(cause) if cause.kind() != ErrorKind::BrokenPipe && exit == Exit::Done => {
            Messages::on_stderr().print_failure(&output::stdout_write_failure(cause))
        }
        Ok(()) | Err(_) => exit,
    }
}
