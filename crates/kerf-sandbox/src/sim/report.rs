//! What came of a run, for people and for programs. Money is in millionths of a dollar and time in milliseconds, so that two runs can be
//! compared to the last digit.

use std::collections::BTreeMap;

use serde::Serialize;

/// What came of a run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct SimulationReport {
    /// The scenario's name.
    pub scenario: String,
    /// Where all chance came from.
    pub seed: u64,
    /// How long it took in the cluster's own time.
    pub virtual_seconds: u64,
    /// Pods.
    pub pods: PodReport,
    /// Nodes.
    pub nodes: NodeReport,
    /// Nodes taken away by the autoscaler, by reason.
    pub moves: BTreeMap<String, usize>,
    /// Pods evicted by the autoscaler.
    pub evictions: usize,
    /// The same, by the reason for which their nodes went.
    pub evictions_by_reason: BTreeMap<String, usize>,
    /// Money.
    pub cost: CostReport,
    /// How close to rest it came, if the scenario asks for that.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub steady: Option<SteadyReport>,
    /// How it went over time.
    pub timeline: Vec<Sample>,
    /// What must not have happened.
    pub violations: Vec<Violation>,
    /// Stands for everything that was written: runs of one seed agree on it.
    pub fingerprint: String,
}

/// What became of pods.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PodReport {
    /// How many there were.
    pub created: usize,
    /// How many of them ran.
    pub ran: usize,
    /// How many wait at the end.
    pub pending: usize,
    /// From creation to Running.
    pub time_to_run: TimesToRun,
}

/// From creation to Running, in milliseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct TimesToRun {
    /// Half of the pods took no longer.
    pub p50_millis: u64,
    /// 95 % took no longer.
    pub p95_millis: u64,
    /// The longest.
    pub max_millis: u64,
}

/// What became of nodes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct NodeReport {
    /// How many were launched.
    pub launched: usize,
    /// The most at once.
    pub peak: usize,
    /// How many there are at the end.
    pub at_end: usize,
}

/// What it cost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct CostReport {
    /// All of it.
    pub spent_micro_dollars: u64,
    /// What it would have cost on top if no node had ever been taken away.
    pub saved_micro_dollars: u64,
    /// The highest price an hour.
    pub peak_micro_dollars_per_hour: u64,
    /// The price an hour at the end.
    pub at_end_micro_dollars_per_hour: u64,
}

/// What happened while the cluster was to be at rest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct SteadyReport {
    /// Pods that were evicted meanwhile.
    pub evictions: usize,
    /// Those among them of workloads that had not changed for a while.
    pub unchanged_evicted: usize,
    /// How often the cost was compared.
    pub appraisals: usize,
    /// When the nodes cost the most, in proportion to the best plan.
    pub dearest: Option<Appraisal>,
}

/// What the nodes cost, and what those of the best plan for the same pods would.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Appraisal {
    /// When, counted from the start.
    pub at_seconds: u64,
    /// The price of the nodes an hour.
    pub micro_dollars_per_hour: u64,
    /// The price an hour of the best plan.
    pub best_micro_dollars_per_hour: u64,
}

impl Appraisal {
    /// The price in thousandths of the best plan's.
    pub fn permille(&self) -> u64 {
        let (price, best) = (u128::from(self.micro_dollars_per_hour), u128::from(self.best_micro_dollars_per_hour));
        u64::try_from(price * 1000 / best.max(1)).unwrap_or(u64::MAX)
    }
}

/// How things stood at an instant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Sample {
    /// When, counted from the start.
    pub at_seconds: u64,
    /// Pods that waited.
    pub pending: usize,
    /// Pods that ran.
    pub running: usize,
    /// Nodes.
    pub nodes: usize,
    /// Their price an hour.
    pub micro_dollars_per_hour: u64,
}

/// Something that must not have happened.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Violation {
    /// When, counted from the start.
    pub at_seconds: u64,
    /// Which rule was broken.
    pub rule: &'static str,
    /// By what.
    pub what: String,
}

impl TimesToRun {
    pub(super) fn of(mut millis: Vec<u64>) -> Self {
        millis.sort_unstable();
        let at = |percent: usize| {
            let rank = (millis.len() * percent).div_ceil(100).max(1) - 1;
            millis.get(rank).copied().unwrap_or_default()
        };
        Self { p50_millis: at(50), p95_millis: at(95), max_millis: at(100) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_values_that_occurred() {
        let times = TimesToRun::of((1..=100).rev().collect());
        assert_eq!((times.p50_millis, times.p95_millis, times.max_millis), (50, 95, 100));
        assert_eq!(TimesToRun::of(vec![7]), TimesToRun { p50_millis: 7, p95_millis: 7, max_millis: 7 });
        assert_eq!(TimesToRun::of(Vec::new()), TimesToRun::default());
    }
}
