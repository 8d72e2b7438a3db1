//! Whether a cluster whose demand does not change comes to rest: nobody is evicted for whom nothing changed, and what the nodes cost is
//! close to what the best plan for the same pods would cost.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};
use kerf_api::slim::{Pod, Str};

use super::report::{Appraisal, SteadyReport};

/// What is known about the peace of a cluster.
#[derive(Debug, Default)]
pub(super) struct SteadyCheck {
    /// For how long a workload must have been what it is for its pods to be left alone; none as long as nobody has to be.
    unchanged_for: Option<SignedDuration>,
    /// When the first pod of each owner came: of a set of replicas with this very template, of a job.
    owners: BTreeMap<Str, Timestamp>,
    evictions: usize,
    unchanged_evicted: usize,
    appraisals: Vec<Appraisal>,
}

impl SteadyCheck {
    /// From now on there is to be peace for workloads that have not changed for so long.
    pub(super) fn start(&mut self, unchanged_for: SignedDuration) {
        self.unchanged_for = Some(unchanged_for);
    }

    /// A pod has come.
    pub(super) fn record_pod(&mut self, pod: &Pod, now: Timestamp) {
        self.owners.entry(owner_uid(pod)).or_insert(now);
    }

    /// A pod is evicted. Says whether that breaks the peace: nothing about its workload has changed for a while.
    pub(super) fn record_eviction(&mut self, pod: &Pod, now: Timestamp) -> bool {
        let Some(unchanged_for) = self.unchanged_for else { return false };
        let since = self.owners.get(&owner_uid(pod)).copied().unwrap_or(now);
        let is_unchanged = now.duration_since(since) >= unchanged_for;
        self.evictions += 1;
        self.unchanged_evicted += usize::from(is_unchanged);
        is_unchanged
    }

    /// What the nodes cost, beside what they might.
    pub(super) fn add_appraisal(&mut self, appraisal: Appraisal) {
        self.appraisals.push(appraisal);
    }

    pub(super) fn report(self) -> Option<SteadyReport> {
        self.unchanged_for?;
        let dearest = self.appraisals.iter().max_by_key(|appraisal| appraisal.permille()).copied();
        Some(SteadyReport {
            evictions: self.evictions,
            unchanged_evicted: self.unchanged_evicted,
            appraisals: self.appraisals.len(),
            dearest,
        })
    }
}

/// Who stands behind a pod; the pod itself, if nobody does.
fn owner_uid(pod: &Pod) -> Str {
    pod.metadata.controller().map_or_else(|| pod.metadata.uid.clone(), |owner| owner.uid.clone())
}
