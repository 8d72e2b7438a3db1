//! One module per command: each takes validated options and returns an exit code. A command calls
//! the crates below and prints their result; it decides nothing itself.

mod aws_ask;
mod aws_data;
mod aws_serve;
mod controller;
mod controller_process;
mod crds;
mod plan;
mod sandbox;
mod validate;

use std::num::NonZeroUsize;

use crate::args::Command;
use crate::exit::{CommandFailure, Exit, Problem};
use crate::output::Messages;
use crate::program::Program;

/// Runs a command and prints its result.
pub(crate) fn run(command: Command, program: &Program, messages: &mut Messages<'_>) -> Result<Exit, CommandFailure> {
    match command {
        Command::Controller(options) => controller::run(&options, program),
        Command::Plan(options) => plan::run(&options, messages),
        Command::Crds(options) => crds::run(&options),
        Command::Sandbox(options) => {
            options.settings.warnings.iter().for_each(|warning| messages.print_warning(warning));
            sandbox::run(options)
        }
        Command::SandboxRun(options) => {
            options.settings.warnings.iter().for_each(|warning| messages.print_warning(warning));
            sandbox::simulate(&options, messages)
        }
        Command::SandboxAws(options) => sandbox::change_account(&options),
        Command::Validate(options) => validate::run(&options, messages),
        Command::AwsAsk(options) => aws_ask::run(&options),
        Command::AwsData(options) => aws_data::run(&options),
        Command::AwsServe(options) => aws_serve::run(&options),
    }
}

/// Runs a command and returns what it would print to stdout. Only `kerf plan` is supported.
pub(crate) fn run_to_bytes(command: &Command, messages: &mut Messages<'_>) -> Result<(Vec<u8>, Exit), CommandFailure> {
    match command {
        Command::Plan(options) => plan::run_to_bytes(options, messages),
        Command::AwsAsk(_)
        | Command::AwsData(_)
        | Command::AwsServe(_)
        | Command::Controller(_)
        | Command::Crds(_)
        | Command::Sandbox(_)
        | Command::SandboxRun(_)
        | Command::SandboxAws(_)
        | Command::Validate(_) => {
            Err(CommandFailure::bad_input(Problem::new("only `kerf plan` can return its output as bytes")))
        }
    }
}

/// Number of threads that this process can run at once; at least 1.
fn available_threads() -> NonZeroUsize {
    std::thread::available_parallelism().unwrap_or(NonZeroUsize::MIN)
}
