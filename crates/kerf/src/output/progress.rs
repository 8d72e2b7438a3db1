//! A sign of life on a terminal: when a stage takes more than a second, a line on stderr says what is going on. Pipes and logs never
//! see it, and it ends before anything else is written.

use std::io::{IsTerminal, Write};
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread::JoinHandle;
use std::time::Duration;

/// How long a person waits without asking what is going on.
const PROGRESS_DELAY: Duration = Duration::from_secs(1);

/// Watches over one stage; its end is this value's end.
pub(crate) struct StageProgress {
    watcher: Option<(Sender<()>, JoinHandle<()>)>,
}

impl StageProgress {
    /// Begins to watch over a stage, if a person is there to be told.
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
                    // Nobody minds if this does not get through.
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
            // A watcher that panicked has nothing more to say.
            let _ = watcher.join();
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test may fail by panicking")]

    use super::*;

    /// Hands every write on to whoever waits for it.
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
        // Waits for the first part of the line, not for a time.
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
