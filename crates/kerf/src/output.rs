//! Prints results to stdout and everything else to stderr.

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

/// Size of the buffer for stdout.
const BUFFER_BYTES: usize = 1 << 16;

/// State of stdout after a write. A reader that closed the pipe has read enough: this is not a
/// failure, and the exit code still describes the result. The caller should not write more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum StdoutState {
    Open,
    Closed,
}

/// Writes a result to stdout. The result must be complete before the first byte is written, so that
/// only the output device can fail after that.
pub(crate) fn print(write: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> Result<StdoutState, CommandFailure> {
    let mut stdout = io::BufWriter::with_capacity(BUFFER_BYTES, io::stdout().lock());
    match write(&mut stdout).and_then(|()| stdout.flush()) {
        Ok(()) => Ok(StdoutState::Open),
        Err(cause) => {
            // The rest of the buffer cannot be written any more; drop it without a flush.
            drop(stdout.into_parts());
            if cause.kind() == ErrorKind::BrokenPipe {
                return Ok(StdoutState::Closed);
            }
            Err(stdout_write_failure(cause))
        }
    }
}

/// Returns the failure for an error of stdout, such as a full disk.
pub(crate) fn stdout_write_failure(cause: io::Error) -> CommandFailure {
    CommandFailure::ExecutionFailed(anyhow::Error::new(cause).context("cannot write the result to stdout"))
}

/// Writes a text to stdout.
pub(crate) fn print_text(result: &str) -> Result<StdoutState, CommandFailure> {
    print(|writer| writer.write_all(result.as_bytes()))
}
