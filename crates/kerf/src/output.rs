//! How answers are shown: stdout for results, stderr for everything else.

pub(crate) mod json;
mod messages;
mod plan;
mod progress;
mod report;
mod table;

use std::io::{self, ErrorKind, Write};

pub(crate) use messages::Messages;
pub(crate) use plan::{PublishedPlan, PublishedStats};
pub(crate) use progress::StageProgress;
pub(crate) use report::render_report;
pub(crate) use table::table;

use crate::exit::CommandFailure;

/// How much is written at once.
const BUFFER_BYTES: usize = 1 << 16;

/// Whether there is still somebody who reads stdout. One who has gone away has read enough: that is no failure, and what the exit code
/// says of the result is as true as before. Whoever would write more has nobody left to write it for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum StdoutState {
    Open,
    Closed,
}

/// Writes a result to stdout. What is written must be complete before the first byte leaves: a failure after that can only be the
/// disk's.
pub(crate) fn print(write: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> Result<StdoutState, CommandFailure> {
    let mut stdout = io::BufWriter::with_capacity(BUFFER_BYTES, io::stdout().lock());
    match write(&mut stdout).and_then(|()| stdout.flush()) {
        Ok(()) => Ok(StdoutState::Open),
        Err(cause) => {
            // What is still in the buffer has nowhere to go.
            drop(stdout.into_parts());
            if cause.kind() == ErrorKind::BrokenPipe {
                return Ok(StdoutState::Closed);
            }
            Err(stdout_write_failure(cause))
        }
    }
}

/// What came of writing to a full disk, or to one that is broken.
pub(crate) fn stdout_write_failure(cause: io::Error) -> CommandFailure {
    CommandFailure::ExecutionFailed(anyhow::Error::new(cause).context("cannot write the result to stdout"))
}

/// Writes a text to stdout.
pub(crate) fn print_text(result: &str) -> Result<StdoutState, CommandFailure> {
    print(|to| to.write_all(result.as_bytes()))
}
