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
        is_watched: bool,
        patience: Duration,
        mut to: impl Write + Send + 'static,
    ) -> Self {
        let watcher = is_watched.then(|| {
            let (ended, end) = mpsc::channel();
            let watch = move || {
                if end.recv_timeout(patience) == Err(RecvTimeoutError::Timeout) {
                    // The line is only informative; ignore errors.
                    let _ = writeln!(to, "{stage} …");
                }
            };
            (ended, std::thread::spawn(watch))
        });
        Self { watcher }
    }
}

impl Drop for StageProgress {
    fn drop(&mut self) {
        if let Some((ended, watcher)) = self.watcher.take() {
            drop(ended);
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
    fn a_stage_that_takes_long_is_named_to_a_person() {
        let (tell, told) = mpsc::channel();
        let progress = StageProgress::start_with("reading", true, Duration::ZERO, ChannelWriter(tell));
        // Waits for the first part of the line, not for a period of time.
        assert_eq!(told.recv().unwrap(), b"reading");
        drop(progress);
    }

    #[test]
    fn a_short_stage_and_a_pipe_are_left_alone() {
        for (is_watched, patience) in [(true, Duration::MAX), (false, Duration::ZERO)] {
            let (tell, told) = mpsc::channel();
            drop(StageProgress::start_with("reading", is_watched, patience, ChannelWriter(tell)));
            assert!(told.recv().is_err(), "nobody is told, and the sender is gone");
        }
    }
}
