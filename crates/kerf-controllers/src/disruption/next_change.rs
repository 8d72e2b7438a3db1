//! The next time at which time alone can change what may be disrupted (spec 03 §2.2, §5.5, §6.2).

use jiff::Timestamp;
use kerf_api::annotations::DO_NOT_DISRUPT;
use kerf_api::duration::{DoNotDisrupt, Duration, evaluate_do_not_disrupt};
use kerf_api::nodepool::Budget;
use kerf_api::schedule::Schedule;
use kerf_engine::{BlockReason, DisruptionPlan, Input};

/// Returns the earliest time after `input.at` at which a block reason, nomination, launch back-off,
/// budget window or pod protection ends or begins. Returns `latest` if there is none before it.
pub(crate) fn next_change_at(input: &Input, plan: &DisruptionPlan, latest: Timestamp) -> Timestamp {
    let block_ends = plan.blocked.iter().flat_map(|node| &node.reasons).filter_map(BlockReason::ends_at);
    let nomination_ends = input.node_claims.iter().filter_map(|claim| claim.lifecycle.nominated_until);
    let backoff_ends = input.launch_backoffs.iter().map(|backoff| backoff.until);
    let budgets = input.pools.iter().flat_map(|pool| &pool.disruption.budgets);
    let windows = budgets.flat_map(|budget| windows(budget, input.at)).flatten();
    let protection_ends = input.pods.iter().filter(|pod| pod.spec.node_name.is_some()).filter_map(|pod| {
        let value = pod.metadata.annotations.get(DO_NOT_DISRUPT)?;
        match evaluate_do_not_disrupt(value, pod.status.start_time, input.at) {
            DoNotDisrupt::Protected { until } => until,
            DoNotDisrupt::Elapsed { .. } | DoNotDisrupt::Invalid { .. } => None,
        }
    });
    let changes = block_ends.chain(nomination_ends).chain(backoff_ends).chain(windows).chain(protection_ends);
    changes.filter(|at| *at > input.at).min().unwrap_or(latest).min(latest)
}

/// Returns when the budget's next window opens, and when an open window closes. A budget without a
/// valid schedule and duration has no windows.
fn windows(budget: &Budget, now: Timestamp) -> [Option<Timestamp>; 2] {
    let schedule = budget.schedule.as_deref().and_then(|text| text.parse::<Schedule>().ok());
    let duration = budget.duration.as_ref().and_then(|text| text.as_str().parse::<Duration>().ok());
    let (Some(schedule), Some(duration)) = (schedule, duration) else { return [None, None] };
    let current = schedule.next_after(duration.before(now)).filter(|opening| *opening <= now);
    [schedule.next_after(now), current.map(|opening| duration.after(opening))]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_window_opens_and_closes() {
        let at = |text: &str| text.parse::<Timestamp>().unwrap_or_default();
        let budget = Budget {
            schedule: Some("@daily".into()),
            duration: Some(kerf_api::unparsed::DurationText::from("30m")),
            ..Budget::default()
        };
        let noon = at("2026-01-01T12:00:00Z");
        assert_eq!(windows(&budget, noon), [Some(at("2026-01-02T00:00:00Z")), None]);
        let inside = at("2026-01-02T00:10:00Z");
        assert_eq!(windows(&budget, inside), [Some(at("2026-01-03T00:00:00Z")), Some(at("2026-01-02T00:30:00Z"))]);
    }
}
