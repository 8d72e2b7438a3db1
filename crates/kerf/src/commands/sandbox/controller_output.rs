//! Log and metrics of the controllers of a simulation, collected for the expectations of its
//! scenario.

use std::sync::{Arc, Mutex, PoisonError};

use kerf_controllers::Metrics;
use kerf_operator::logs::{Level, LineFormat, LogLayer, LogSettings};
use kerf_runtime::Clock;
use kerf_sandbox::sim::{ControllerOutput, ExpectedLog, Scenario};

/// The least important level that expectations of a scenario can find in the log.
pub(super) const LOG_LEVEL_OF_EXPECTATIONS: Level = Level::Info;

/// The metrics of the process that started last; `None` before the first start.
pub(super) type LastMetrics = Arc<Mutex<Option<Arc<Metrics>>>>;

/// Log and metrics, collected in memory.
pub(super) struct CollectedOutput {
    clock: Clock,
    log: Option<ExpectedLog>,
    metrics: LastMetrics,
}

impl CollectedOutput {
    /// Returns an empty collection for the expectations of a scenario.
    pub(super) fn new(clock: Clock, scenario: &Scenario) -> Self {
        Self { clock, log: ExpectedLog::of(scenario), metrics: LastMetrics::default() }
    }

    /// Returns the layer that writes the log. Returns `None` if the scenario expects nothing of it.
    pub(super) fn log_layer(&self) -> Option<LogLayer> {
        let settings = LogSettings { level: LOG_LEVEL_OF_EXPECTATIONS, format: LineFormat::Json };
        self.log.as_ref().map(|log| LogLayer::new(settings, self.clock, vec![Box::new(log.clone())]))
    }

    /// Returns the place where a process puts its metrics when it starts.
    pub(super) fn metrics_slot(&self) -> LastMetrics {
        self.metrics.clone()
    }
}

impl ControllerOutput for CollectedOutput {
    fn log(&self) -> Option<&ExpectedLog> {
        self.log.as_ref()
    }

    fn metrics(&self) -> String {
        let metrics = self.metrics.lock().unwrap_or_else(PoisonError::into_inner).clone();
        metrics.map(|metrics| metrics.text(self.clock.now())).unwrap_or_default()
    }
}
