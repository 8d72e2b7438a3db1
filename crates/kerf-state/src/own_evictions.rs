//! Evictions that Kerf has requested and that PodDisruptionBudgets in cluster state do not count
//! yet. The API server counts an eviction in the budget's status before it deletes the pod, but the
//! watch may show that later. Until then each of them is subtracted from `disruptionsAllowed`, so
//! that no decision spends the budget twice (spec 03 §5.3).

use std::time::Duration;

use jiff::Timestamp;
use kerf_api::slim::{Labels, Pod, PodDisruptionBudget, Str};
use kerf_engine::budget_selects;

/// Time after which a requested eviction is forgotten. Kubernetes itself drops an entry of
/// `disruptedPods` after this time.
const EVICTION_TTL: Duration = Duration::from_mins(2);
/// Time for which an eviction is still subtracted after the pod was deleted. The watch of budgets
/// may lag behind the watch of pods by this much.
const DELETED_POD_TTL: Duration = Duration::from_secs(15);

/// The requested evictions, oldest first.
#[derive(Debug, Default)]
pub(crate) struct OwnEvictions(Vec<OwnEviction>);

#[derive(Debug)]
struct OwnEviction {
    namespace: Str,
    name: Str,
    uid: Str,
    labels: Labels,
    requested: Timestamp,
}

impl OwnEvictions {
    /// Records an eviction before it is requested. A repeated request renews the record.
    pub(crate) fn record(&mut self, pod: &Pod, now: Timestamp) {
        self.forget(pod);
        let metadata = &pod.metadata;
        self.0.push(OwnEviction {
            namespace: metadata.namespace.clone(),
            name: metadata.name.clone(),
            uid: metadata.uid.clone(),
            labels: metadata.labels.clone(),
            requested: now,
        });
    }

    /// Forgets an eviction that the API server rejected.
    pub(crate) fn forget(&mut self, pod: &Pod) {
        self.0.retain(|eviction| eviction.uid != pod.metadata.uid || eviction.name != pod.metadata.name);
    }

    /// Forgets the evictions that a budget's status counts.
    pub(crate) fn on_budget(&mut self, budget: &PodDisruptionBudget) {
        if self.0.is_empty() || budget.disrupted_pods.is_empty() {
            return;
        }
        self.0.retain(|eviction| {
            eviction.namespace != budget.metadata.namespace || !budget.disrupted_pods.contains(&eviction.name)
        });
    }

    /// Forgets evictions that are too old. `uid_of` returns the UID of the pod with this
    /// `namespace/name`.
    pub(crate) fn expire<'p>(&mut self, now: Timestamp, uid_of: impl Fn(&str) -> Option<&'p Str>) {
        self.0.retain(|eviction| eviction.holds_at(now, &uid_of));
    }

    /// Returns the number of evictions that the budget does not count yet.
    pub(crate) fn uncounted_by<'p>(
        &self,
        budget: &PodDisruptionBudget,
        now: Timestamp,
        uid_of: impl Fn(&str) -> Option<&'p Str>,
    ) -> i32 {
        let is_uncounted = |eviction: &&OwnEviction| {
            budget_selects(budget, &eviction.namespace, &eviction.labels) && eviction.holds_at(now, &uid_of)
        };
        i32::try_from(self.0.iter().filter(is_uncounted).count()).unwrap_or(i32::MAX)
    }
}

impl OwnEviction {
    /// Returns true if the eviction is not too old to be subtracted.
    fn holds_at<'p>(&self, now: Timestamp, uid_of: impl Fn(&str) -> Option<&'p Str>) -> bool {
        let is_present = uid_of(&format!("{}/{}", self.namespace, self.name)) == Some(&self.uid);
        let ttl = if is_present { EVICTION_TTL } else { DELETED_POD_TTL };
        now < self.requested.saturating_add(ttl).unwrap_or(Timestamp::MAX)
    }
}
