//! Prints results to stdout and everything else to stderr.

pub(crate) mod json;
mod messages;
mod plan;
mod progress;
mod report;
mod table;

use std::borrow::Cow;
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

/// Writes a text to stdout. Control characters are escaped.
pub(crate) fn print_text(result: &str) -> Result<StdoutState, CommandFailure> {
    print(|writer| writer.write_all(escape_control_characters(result).as_bytes()))
}

/// Escapes the characters that a terminal would interpret, except line breaks and tabs. Names and
/// values in manifests may contain any character, and files may come from other people.
pub(crate) fn escape_control_characters(text: &str) -> Cow<'_, str> {
    escape(text, |character| is_control(character) && !matches!(character, '\n' | '\t'))
}

/// Like [`escape_control_characters`], for text that is part of a line: escapes line breaks and
/// tabs as well.
pub(crate) fn escape_line(text: &str) -> Cow<'_, str> {
    escape(text, is_control)
}

fn escape(text: &str, is_escaped: impl Fn(char) -> bool) -> Cow<'_, str> {
    if !text.contains(&is_escaped) {
        return Cow::Borrowed(text);
    }
    let mut escaped = String::with_capacity(text.len() + 8);
    for character in text.chars() {
        if is_escaped(character) {
            escaped.extend(character.escape_default());
        } else {
            escaped.push(character);
        }
    }
    Cow::Owned(escaped)
}

/// Returns true for control characters, and for the characters that change the direction of text.
fn is_control(character: char) -> bool {
    character.is_control()
        || matches!(character, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_are_escaped() {
        assert_eq!(escape_control_characters("a \u{1b}[31mred\u{7}\nb\tc"), "a \\u{1b}[31mred\\u{7}\nb\tc");
        assert_eq!(escape_control_characters("\u{202e}txt.exe"), "\\u{202e}txt.exe");
        assert_eq!(escape_line("a\nerror: b\r"), "a\\nerror: b\\r");
        assert!(matches!(escape_line("größe 日本 ✓"), Cow::Borrowed(_)));
    }
}
