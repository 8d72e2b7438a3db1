//! Launches and evictions that Kerf remembers and the API server does not show yet: the pods that
//! claims were created for, nodes that were never Ready, and requested evictions.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use kerf_api::slim::{Pod, PodDisruptionBudget, Str};
use kerf_engine::LaunchFacts;

use crate::cluster::Cluster;
use crate::intents::NeverReadyClaim;
use crate::kinds::Tracked as _;
use crate::object_table::ObjectChange;

impl Cluster {
    /// Records that a claim was launched for a pod. Until the pod is bound, later decisions try the
    /// claim's node first for this pod. Unlike [`nominate`](Self::nominate), this does not protect
    /// the node from disruption.
    pub fn record_launched_for(&mut self, pod: Str, claim: Str) {
        self.intents.record_launched_for(pod, claim);
    }

    /// Records that a claim was just created for these pods, pending or on a node that is being
    /// deleted. Until the claim is launched, decisions leave the pods out.
    pub fn record_created_for(&mut self, pods: &[Str], claim: &Str, now: Timestamp) {
        let known = pods.iter().filter_map(|key| Some((key, self.pods.get(key)?.as_ref())));
        self.launch_attempts.begin(claim, known, now);
        self.intents.forget_never_ready(pods);
        self.assign_pods(pods, claim);
    }

    /// Assigns pods to a claim that was created for them, as
    /// [`record_created_for`](Self::record_created_for) does, without counting whether they start
    /// there. For replacements of nodes on which the pods run.
    pub fn assign_pods(&mut self, pods: &[Str], claim: &Str) {
        for pod in pods {
            self.intents.record_launched_for(pod.clone(), claim.clone());
        }
    }

    /// Returns the pods of claims that are not launched yet.
    pub fn pods_of_unlaunched_claims(&self) -> BTreeSet<Str> {
        self.unlaunched.iter().flat_map(|claim| self.intents.pods_launched_for(claim)).cloned().collect()
    }

    /// Records that a claim is about to be deleted because its node was never Ready. The next claim
    /// for its pods replaces it. If its pods are not known, because its pool is static or an
    /// earlier process created it, the next claim of its pool within an hour replaces it. To record
    /// a claim again, because its deletion failed, changes nothing.
    pub fn record_never_ready(&mut self, claim: &NeverReadyClaim, now: Timestamp) {
        let pool = self.claims.get(&claim.name).and_then(|tracked| self.pools.get(tracked.pool()?));
        let is_created_here = self.intents.is_created_here(&claim.name);
        let pool = pool.filter(|pool| pool.spec.replicas.is_some() || !is_created_here).map(|pool| pool.key());
        let pods = &self.pods;
        self.intents.record_never_ready(claim, pool.as_deref(), now, |pod| pods.get(pod).is_some());
    }

    /// Returns the claim that a new claim for these pods replaces because its node was never Ready.
    pub fn never_ready_claim_of(&self, pods: &[Str]) -> Option<NeverReadyClaim> {
        self.intents.never_ready_claim_of(pods).cloned()
    }

    /// Removes and returns a claim without known pods that the next claim of the pool replaces
    /// because its node was never Ready. If the creation of that claim fails, call
    /// [`put_back_never_ready_of_pool`](Self::put_back_never_ready_of_pool).
    pub fn take_never_ready_of_pool(&mut self, pool: &str, now: Timestamp) -> Option<NeverReadyClaim> {
        self.intents.take_never_ready_of_pool(pool, now)
    }

    /// Adds a claim again that [`take_never_ready_of_pool`](Self::take_never_ready_of_pool)
    /// removed, unless the pool was deleted.
    pub fn put_back_never_ready_of_pool(&mut self, pool: &str, claim: NeverReadyClaim, now: Timestamp) {
        if self.pools.get(pool).is_some() {
            self.intents.push_never_ready_of_pool(pool, claim, now);
        }
    }

    /// Forgets pods that are bound, and pods whose claim no longer exists. Pods of unlaunched
    /// claims are kept: they may run on nodes that are being deleted. Returns what the next
    /// decision must know about earlier launches.
    pub(crate) fn refresh_launch_facts(&mut self, now: Timestamp) -> LaunchFacts {
        let (pods, claims, unlaunched) = (&self.pods, &self.claims, &self.unlaunched);
        let is_pending = |pod: &Str| pods.get(pod).is_some_and(|pod| pod.spec.node_name.is_none());
        let claim_by_pod = self.intents.retain_launched_for(|pod, claim| {
            claims.get(claim).is_some() && (is_pending(pod) || (unlaunched.contains(claim) && pods.get(pod).is_some()))
        });
        let provider_id = |claim| claims.get(claim).map(|claim| claim.engine_claim.provider_id.clone());
        let launched = claim_by_pod.iter().filter_map(|(pod, claim)| Some((pod.clone(), provider_id(claim)?)));
        let provider_ids = launched.filter(|(pod, provider_id)| !provider_id.is_empty() && is_pending(pod)).collect();
        self.launch_attempts.refresh(now);
        let waits = if self.launch_attempts.has_no_waits() {
            BTreeMap::new()
        } else {
            let pods = self.pods.iter().map(|(key, pod)| (key, pod.as_ref()));
            let is_pending = |pod: &Pod| pod.spec.node_name.is_none() && pod.metadata.deletion_timestamp.is_none();
            self.launch_attempts.waits(pods.filter(|(_, pod)| is_pending(pod)), now)
        };
        LaunchFacts { provider_ids, on_unlaunched_claims: self.pods_of_unlaunched_claims(), waits }
    }

    /// Records an eviction, before it is requested. It is subtracted from the budgets of the pod
    /// until cluster state shows that they count it.
    pub fn record_eviction(&mut self, pod: &Pod, now: Timestamp) {
        let pods = &self.pods;
        self.own_evictions.expire(now, |key| pods.get(key).map(|pod| &pod.metadata.uid));
        self.own_evictions.record(pod, now);
    }

    /// Forgets an eviction that the API server rejected.
    pub fn forget_eviction(&mut self, pod: &Pod) {
        self.own_evictions.forget(pod);
    }

    /// Returns the PodDisruptionBudgets, with the recorded evictions subtracted that their status
    /// does not count yet.
    pub fn budgets_with_own_evictions(&self, now: Timestamp) -> Vec<PodDisruptionBudget> {
        let uid_of = |key: &str| self.pods.get(key).map(|pod| &pod.metadata.uid);
        let mut budgets: Vec<PodDisruptionBudget> =
            self.disruption_budgets.values().map(|budget| budget.as_ref().clone()).collect();
        for budget in &mut budgets {
            let uncounted = self.own_evictions.uncounted_by(budget, now, uid_of);
            budget.disruptions_allowed =
                budget.disruptions_allowed.map(|allowed| allowed.saturating_sub(uncounted).max(0));
        }
        budgets
    }

    /// If `change` binds a pod to a node that was launched for other pods, returns the first of the
    /// other pods that is still pending and no longer fits. Otherwise returns `None`.
    pub fn displaced_by(&self, change: &ObjectChange<Pod>) -> Option<Str> {
        let bound = change.after.as_ref()?;
        let node_name = bound.spec.node_name.as_ref()?;
        if change.before.as_ref().is_some_and(|before| before.spec.node_name.is_some()) {
            return None;
        }
        let node = self.nodes.get(node_name)?;
        let claims = self.claims_of(&node.spec.provider_id);
        let launched_for = claims.flat_map(|claim| self.intents.pods_launched_for(claim.name()));
        let mut pending =
            launched_for.filter_map(|key| self.pods.get(key)).filter(|pod| pod.spec.node_name.is_none()).peekable();
        pending.peek()?;
        let mut requested = self.requests_on(node_name).total;
        pending.find_map(|pod| {
            let requests = kerf_engine::pod_requests(pod);
            requests.iter().for_each(|(resource, amount)| *requested.entry(resource.clone()).or_default() += amount);
            let fits = requests.iter().all(|(resource, _)| {
                let allocatable = node.status.allocatable.get(resource).unwrap_or_default();
                requested.get(resource).is_none_or(|requested| *requested <= allocatable)
            });
            (!fits).then(|| pod.key())
        })
    }
}
