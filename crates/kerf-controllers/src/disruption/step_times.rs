//! Time of the last start of each step of the disruption loop. A step that has not started for long
//! is logged (spec 03 §4 item 1): either an earlier step keeps the loop busy, or cluster state is
//! never synced.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};
use kerf_engine::Method;
use tracing::debug;

/// Time without a start after which a step is logged.
const STEP_OVERDUE_AFTER: SignedDuration = SignedDuration::from_mins(15);

/// Name of the whole loop as a step.
pub(crate) const LOOP_STEP: &str = "disruption-loop";

/// The last start of each step, by name.
#[derive(Debug, Default)]
pub(crate) struct StepTimes(BTreeMap<&'static str, StepStart>);

#[derive(Debug)]
struct StepStart {
    started: Timestamp,
    /// True if it was logged that the step is overdue.
    is_logged: bool,
}

/// Returns the name under which operators know a method.
pub(crate) fn step_name(method: Method) -> &'static str {
    match method {
        Method::Emptiness => "emptiness",
        Method::StaticDrift => "static-drift",
        Method::Drift => "drift",
        Method::MultiNode => "multi-node-consolidation",
        Method::SingleNode => "single-node-consolidation",
        Method::Move => "move",
    }
}

impl StepTimes {
    /// Records that a step starts.
    pub(crate) fn record_start(&mut self, name: &'static str, now: Timestamp) {
        self.0.insert(name, StepStart { started: now, is_logged: false });
    }

    /// Logs the steps that have not started for [`STEP_OVERDUE_AFTER`]. Each is logged once until
    /// it starts again.
    pub(crate) fn log_overdue(&mut self, now: Timestamp) {
        for (name, since) in self.take_overdue(now) {
            let time_since =
                kerf_api::duration::Duration::from_nanos(i64::try_from(since.as_nanos()).unwrap_or(i64::MAX));
            debug!(name, time_since = %time_since, "abnormal time between runs");
        }
    }

    fn take_overdue(&mut self, now: Timestamp) -> Vec<(&'static str, SignedDuration)> {
        let mut overdue = Vec::new();
        for (name, step) in &mut self.0 {
            let since = now.duration_since(step.started);
            if since > STEP_OVERDUE_AFTER && !step.is_logged {
                step.is_logged = true;
                overdue.push((*name, since));
            }
        }
        overdue
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // spec 03 §4 item 1
    #[test]
    fn a_step_that_has_not_started_for_15_minutes_is_logged_once() {
        let at = |minutes| Timestamp::UNIX_EPOCH + SignedDuration::from_mins(minutes);
        let mut step_times = StepTimes::default();
        step_times.record_start(LOOP_STEP, at(0));
        step_times.record_start(step_name(Method::Drift), at(10));
        assert_eq!(step_times.take_overdue(at(15)), []);
        assert_eq!(step_times.take_overdue(at(16)), [(LOOP_STEP, SignedDuration::from_mins(16))]);
        assert_eq!(step_times.take_overdue(at(17)), []);
        step_times.record_start(LOOP_STEP, at(17));
        assert_eq!(step_times.take_overdue(at(26)), [("drift", SignedDuration::from_mins(16))]);
        assert_eq!(step_times.take_overdue(at(33)), [(LOOP_STEP, SignedDuration::from_mins(16))]);
    }
}
