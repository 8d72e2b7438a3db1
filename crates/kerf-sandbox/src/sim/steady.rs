//! Checks that a cluster with constant demand becomes steady: pods of unchanged workloads are not
//! evicted, and the nodes cost little more than the best plan for the same pods.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};
use kerf_api::slim::{Pod, Str};

use super::report::{CostComparison, SteadyReport};

/// Evictions and cost comparisons of a cluster that has to be steady.
#[derive(Debug, Default)]
pub(super) struct SteadyCheck {
    /// Age from which a workload counts as unchanged, so that its pods must not be evicted. `None`
    /// until the scenario demands a steady cluster.
    unchanged_for: Option<SignedDuration>,
    /// Creation time of the first pod of each owner, by the owner's uid. A new template has a new
    /// ReplicaSet and hence a new owner.
    owners: BTreeMap<Str, Timestamp>,
    evictions: usize,
    unchanged_evicted: usize,
    comparisons: Vec<CostComparison>,
}

impl SteadyCheck {
    /// Starts the check: from now on, pods of workloads that are at least this old must not be
    /// evicted.
    pub(super) fn start(&mut self, unchanged_for: SignedDuration) {
        self.unchanged_for = Some(unchanged_for);
    }

    /// Moves the ages of all workloads, because the wall clock has jumped.
    pub(super) fn shift(&mut self, by: SignedDuration) {
        for since in self.owners.values_mut() {
            *since = since.saturating_add(by).unwrap_or(Timestamp::MAX);
        }
    }

    /// Records a pod that was created.
    pub(super) fn record_pod(&mut self, pod: &Pod, now: Timestamp) {
        self.owners.entry(owner_uid(pod)).or_insert(now);
    }

    /// Records an eviction. Returns true if it is a violation: the check has started, and the pod's
    /// workload is unchanged.
    pub(super) fn record_eviction(&mut self, pod: &Pod, now: Timestamp) -> bool {
        let Some(unchanged_for) = self.unchanged_for else { return false };
        let since = self.owners.get(&owner_uid(pod)).copied().unwrap_or(now);
        let is_unchanged = now.duration_since(since) >= unchanged_for;
        self.evictions += 1;
        self.unchanged_evicted += usize::from(is_unchanged);
        is_unchanged
    }

    /// Records a comparison of the actual cost with the best plan's cost.
    pub(super) fn add_comparison(&mut self, comparison: CostComparison) {
        self.comparisons.push(comparison);
    }

    pub(super) fn report(self) -> Option<SteadyReport> {
        self.unchanged_for?;
        let most_expensive = self.comparisons.iter().max_by_key(|comparison| comparison.permille()).copied();
        Some(SteadyReport {
            evictions: self.evictions,
            unchanged_evicted: self.unchanged_evicted,
            cost_comparisons: self.comparisons.len(),
            most_expensive,
        })
    }
}

/// Returns the uid of a pod's controller, or the pod's own uid if it has none.
fn owner_uid(pod: &Pod) -> Str {
    pod.metadata.controller().map_or_else(|| pod.metadata.uid.clone(), |owner| owner.uid.clone())
}
