//! Progress on a terminal: if a stage takes more than a second, a line on stderr names it. Nothing
//! is written to pipes and files. The line is written before any later output.

use std::io::{IsTerminal, Write};
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread::JoinHandle;
use std::time::Duration;

/// Duration of a stage after which its name is printed.
const PROGRESS_DELAY: Duration = Duration::from_secs(1);

/// Watches one stage; dropping it ends the stage.
pub(crate) struct StageProgress {
    watcher: Option<(Sender<()>, JoinHandle<()>)>,
}

impl StageProgress {
    /// Starts to watch a stage if stderr is a terminal.
    pub(crate) fn start(stage: &'static str) -> Self {
        Self::start_with(stage, std::io::stderr().is_terminal(), PROGRESS_DELAY, std::io::stderr())
    }

    fn start_with(
        stage: &'static str,
        is_terminal: bool,
        delay: Duration,
        mut writer: impl Write + Send + 'static,
    ) -> Self {
        let watcher = is_terminal.then(|| {
            let (end_sender, end_receiver) = mpsc::channel();
            let watch = move || {
                if end_receiver.recv_timeout(delay) == Err(RecvTimeoutError::Timeout) {
                    // The line is only informative; ignore errors.
                    let _ = writeln!(writer, "{stage} …");
                }
            };
            (end_sender, std::thread::spawn(watch))
        });
        Self { watcher }
    }
}

impl Drop for StageProgress {
    fn drop(&mut self) {
        if let Some((end_sender, watcher)) = self.watcher.take() {
            drop(end_sender);
            // A panic of the watcher thread does not matter.
            let _ = watcher.join();
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test may fail by panicking")]

    use super::*;

    /// Sends every write to a channel.
    struct ChannelWriter(Sender<Vec<u8>>);

    impl Write for ChannelWriter {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.send(bytes.to_vec()).map_err(std::io::Error::other)?;
            Ok(bytes.len())
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    // spec 09 #14: the progress line; time and memory are measured, not tested
    #[test]
    fn a_long_stage_is_named_on_a_terminal() {
        let (sender, receiver) = mpsc::channel();
        let progress = StageProgress::start_with("reading", true, Duration::ZERO, ChannelWriter(sender));
        // Waits for the first part of the line, not for a period of time.
        assert_eq!(receiver.recv().unwrap(), b"reading");
        drop(progress);
    }

    #[test]
    fn a_short_stage_or_a_pipe_gets_no_line() {
        for (is_terminal, delay) in [(true, Duration::MAX), (false, Duration::ZERO)] {
            let (sender, receiver) = mpsc::channel();
            drop(StageProgress::start_with("reading", is_terminal, delay, ChannelWriter(sender)));
            assert!(receiver.recv().is_err(), "nothing is written, and the sender is dropped");
        }
    }
}
