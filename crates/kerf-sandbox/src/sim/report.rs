//! The report of a simulation, for people and programs. Money is in millionths of a US dollar and
//! times are in milliseconds, so that two runs can be compared exactly.

use std::collections::BTreeMap;

use serde::Serialize;

/// Outcome of a simulation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct SimulationReport {
    /// Name of the scenario.
    pub scenario: String,
    /// Seed of all random numbers.
    pub seed: u64,
    /// Duration of the simulation on the cluster's clock.
    pub virtual_seconds: u64,
    /// Counts and start times of pods.
    pub pods: PodReport,
    /// Counts of nodes.
    pub nodes: NodeReport,
    /// Number of NodeClaims deleted, by disruption reason; `Other` if they were not disrupted.
    pub moves: BTreeMap<String, usize>,
    /// Number of pods evicted.
    pub evictions: usize,
    /// Number of pods evicted, by the disruption reason of their node; `Other` if there is none.
    pub evictions_by_reason: BTreeMap<String, usize>,
    /// Cost of the nodes.
    pub cost: CostReport,
    /// Evictions and cost while the cluster had to be steady; `None` if the scenario does not
    /// demand that.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub steady: Option<SteadyReport>,
    /// Price of the nodes and of the best plan on average; `None` if the scenario compares none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub plan_comparison: Option<PlanComparisonReport>,
    /// Samples over time, oldest first.
    pub timeline: Vec<Sample>,
    /// Violations of invariants. Empty if the simulation succeeded.
    pub violations: Vec<Violation>,
    /// Hash of everything that was written. Runs with the same seed have the same fingerprint.
    pub fingerprint: String,
}

/// Counts and start times of pods.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PodReport {
    /// Number of pods created.
    pub created: usize,
    /// Number of pods that reached the phase `Running`.
    pub ran: usize,
    /// Number of pods pending at the end.
    pub pending: usize,
    /// Number of pods that ran on an instance of the attached cloud when it ended, for example two
    /// minutes after the notice of an interruption. Pods of DaemonSets do not count.
    pub killed: usize,
    /// Time from creation to `Running`.
    pub time_to_run: TimesToRun,
}

/// Percentiles of the time from creation to `Running`, in milliseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct TimesToRun {
    /// Median.
    pub p50_millis: u64,
    /// 95th percentile.
    pub p95_millis: u64,
    /// Longest time.
    pub max_millis: u64,
}

/// Counts of nodes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct NodeReport {
    /// Number of nodes created, initial nodes included.
    pub launched: usize,
    /// Largest number of nodes at one time.
    pub peak: usize,
    /// Number of nodes at the end.
    pub at_end: usize,
}

/// Cost of the nodes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct CostReport {
    /// Total cost.
    pub spent_micro_dollars: u64,
    /// Additional cost if no node had ever been removed.
    pub saved_micro_dollars: u64,
    /// Highest price per hour.
    pub peak_micro_dollars_per_hour: u64,
    /// Price per hour at the end.
    pub at_end_micro_dollars_per_hour: u64,
}

/// Evictions and cost comparisons while the cluster had to be steady.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct SteadyReport {
    /// Number of pods evicted, without pods of DaemonSets.
    pub evictions: usize,
    /// Number of evicted pods whose workloads were unchanged. Each is a violation.
    pub unchanged_evicted: usize,
    /// Number of cost comparisons.
    #[serde(rename = "appraisals")]
    pub cost_comparisons: usize,
    /// The comparison with the highest cost relative to the best plan; `None` if there was none.
    #[serde(rename = "dearest")]
    pub most_expensive: Option<CostComparison>,
}

/// Price of the nodes at one time, and price of the best plan for the same pods.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct CostComparison {
    /// Seconds since the start of the simulation.
    pub at_seconds: u64,
    /// Price of the nodes per hour.
    pub micro_dollars_per_hour: u64,
    /// Price of the best plan per hour.
    pub best_micro_dollars_per_hour: u64,
}

impl CostComparison {
    /// Returns the price in thousandths of the best plan's price.
    pub fn permille(&self) -> u64 {
        let (price, best) = (u128::from(self.micro_dollars_per_hour), u128::from(self.best_micro_dollars_per_hour));
        u64::try_from(price * 1000 / best.max(1)).unwrap_or(u64::MAX)
    }
}

/// Price of the nodes and price of the best plan for the same pods, on average over all
/// comparisons.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PlanComparisonReport {
    /// Number of comparisons.
    pub comparisons: usize,
    /// Average price of the nodes per hour.
    pub micro_dollars_per_hour: u64,
    /// Average price of the best plan per hour.
    pub best_micro_dollars_per_hour: u64,
}

impl PlanComparisonReport {
    /// Returns the average of comparisons; `None` if there is none.
    pub(super) fn of(comparisons: &[CostComparison]) -> Option<Self> {
        let average = |price: fn(&CostComparison) -> u64| {
            comparisons.iter().map(price).sum::<u64>().checked_div(comparisons.len() as u64)
        };
        Some(Self {
            comparisons: comparisons.len(),
            micro_dollars_per_hour: average(|comparison| comparison.micro_dollars_per_hour)?,
            best_micro_dollars_per_hour: average(|comparison| comparison.best_micro_dollars_per_hour)?,
        })
    }

    /// Returns the price of the nodes in thousandths of the best plan's price.
    pub fn permille(&self) -> u64 {
        let (price, best) = (self.micro_dollars_per_hour, self.best_micro_dollars_per_hour);
        CostComparison { at_seconds: 0, micro_dollars_per_hour: price, best_micro_dollars_per_hour: best }.permille()
    }
}

/// State of the cluster at one time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Sample {
    /// Seconds since the start of the simulation.
    pub at_seconds: u64,
    /// Number of pending pods.
    pub pending: usize,
    /// Number of running pods.
    pub running: usize,
    /// Number of nodes.
    pub nodes: usize,
    /// Price of the nodes per hour.
    pub micro_dollars_per_hour: u64,
}

/// A violation of an invariant.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Violation {
    /// Seconds since the start of the simulation.
    pub at_seconds: u64,
    /// The invariant that was violated.
    pub rule: &'static str,
    /// The objects that violated it.
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
    fn the_average_of_comparisons_is_that_of_both_prices() {
        let comparison = |micro_dollars_per_hour, best_micro_dollars_per_hour| CostComparison {
            at_seconds: 0,
            micro_dollars_per_hour,
            best_micro_dollars_per_hour,
        };
        assert_eq!(PlanComparisonReport::of(&[]), None);
        let report = PlanComparisonReport::of(&[comparison(120, 100), comparison(300, 300)]).unwrap();
        assert_eq!((report.comparisons, report.permille()), (2, 1050));
    }

    #[test]
    fn percentiles_are_values_that_occurred() {
        let times = TimesToRun::of((1..=100).rev().collect());
        assert_eq!((times.p50_millis, times.p95_millis, times.max_millis), (50, 95, 100));
        assert_eq!(TimesToRun::of(vec![7]), TimesToRun { p50_millis: 7, p95_millis: 7, max_millis: 7 });
        assert_eq!(TimesToRun::of(Vec::new()), TimesToRun::default());
    }
}
