//! How answers are shown: stdout for results, stderr for everything else.

mod messages;
mod table;

use std::io::{ErrorKind, Write};

pub(crate) use messages::Messages;
use serde::Serialize;
pub(crate) use table::table;

use crate::exit::Failure;

/// Writes a whole result to stdout. It is put together before the first byte leaves, so that no partial result is ever seen.
pub(crate) fn print(result: &str) -> Result<(), Failure> {
    let mut stdout = std::io::stdout().lock();
    match stdout.write_all(result.as_bytes()).and_then(|()| stdout.flush()) {
        Ok(()) => Ok(()),
        Err(cause) if cause.kind() == ErrorKind::BrokenPipe => Err(Failure::ReaderGone),
        Err(cause) => Err(Failure::Work(anyhow::Error::new(cause).context("cannot write the result to stdout"))),
    }
}

/// A result as JSON, indented: programs do not mind, people do.
pub(crate) fn json(result: &impl Serialize) -> String {
    let text = serde_json::to_string_pretty(result);
    // Published types hold strings, numbers and lists of them; none of that can fail to be written to memory.
    text.expect("published types serialize") + "\n"
}
