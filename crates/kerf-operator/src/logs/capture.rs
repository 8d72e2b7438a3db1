//! Log lines collected in memory, for tests of what is logged.

use std::io;
use std::sync::{Arc, Mutex, PoisonError};

use kerf_runtime::Clock;
use tracing_subscriber::layer::SubscriberExt as _;

use super::{Level, LineFormat, LogLayer, LogSettings};

/// The time of all captured lines: 2026-08-01T10:00:24.530Z.
const CAPTURE_TIME: jiff::Timestamp = jiff::Timestamp::constant(1_785_578_424, 530_000_000);

/// Collects log output in memory.
#[derive(Clone, Debug, Default)]
pub struct CapturedLog(Arc<Mutex<Vec<u8>>>);

impl CapturedLog {
    /// Returns all lines.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.0.lock().unwrap_or_else(PoisonError::into_inner)).into_owned()
    }
}

impl io::Write for CapturedLog {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Returns a subscriber and the output that it collects.
pub fn capturing_subscriber(level: Level, format: LineFormat) -> (impl tracing::Subscriber, CapturedLog) {
    let lines = CapturedLog::default();
    let clock = Clock::starting_at(CAPTURE_TIME);
    let layer = LogLayer::new(LogSettings { level, format }, clock, vec![Box::new(lines.clone())]);
    // Without a global subscriber, another test's thread could cache the call site of a line as
    // disabled.
    let _ = tracing::subscriber::set_global_default(tracing_subscriber::registry());
    (tracing_subscriber::registry().with(layer), lines)
}
