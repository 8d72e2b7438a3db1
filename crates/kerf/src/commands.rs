//! One module per command: from what is meant to an exit code. A command asks the crates below and shows the answer; it decides nothing.

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

/// Does what was asked for.
pub(crate) fn run(command: Command, messages: &mut Messages<'_>) -> Result<Exit, CommandFailure> {
    match command {
        Command::Controller(wish) => controller::run(&wish),
        Command::Plan(wish) => plan::run(&wish, messages),
        Command::Crds(wish) => crds::run(&wish),
        Command::Sandbox(wish) => sandbox::run(wish),
        Command::SandboxRun(wish) => sandbox::simulate(&wish),
        Command::Validate(wish) => validate::run(&wish, messages),
    }
}

/// What a command would print, if it is one that only answers.
pub(crate) fn run_to_bytes(command: &Command, messages: &mut Messages<'_>) -> Result<(Vec<u8>, Exit), CommandFailure> {
    match command {
        Command::Plan(wish) => plan::run_to_bytes(wish, messages),
        Command::Controller(_)
        | Command::Crds(_)
        | Command::Sandbox(_)
        | Command::SandboxRun(_)
        | Command::Validate(_) => {
            Err(CommandFailure::bad_input(Problem::new("only plans are answered without a program")))
        }
    }
}

/// How many threads the machine gives us.
fn available_threads() -> NonZeroUsize {
    std::thread::available_parallelism().unwrap_or(NonZeroUsize::MIN)
}
