//! Facts about what Kerf has done or decided and the API server does not show yet. Each ends by
//! itself:
//!
//! - a created claim is unobserved until a watch reports it;
//! - a deletion mark lasts until it is removed or the instance no longer exists;
//! - a nomination lasts until its time has passed;
//! - a pod is linked with the claim launched for it until the pod is bound or one of them is
//!   deleted;
//! - a reservation lasts until the claims exist;
//! - a claim is being replaced until it is marked or the replacement is abandoned.
//!
//! A restart loses all of this. That costs time, never correctness.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use jiff::Timestamp;
use kerf_api::slim::Str;

use crate::cluster::move_key;

/// Kerf's own knowledge about claims, instances and pools, in memory only.
#[derive(Debug, Default)]
pub(crate) struct Intents {
    /// Claims that Kerf created and no watch has reported yet.
    unobserved_claims: BTreeSet<Str>,
    /// Claims that this process created, until they are deleted. The pods of all others are not
    /// known.
    created_claims: BTreeSet<Str>,
    /// Provider IDs of instances that are marked for deletion.
    marked: BTreeSet<Str>,
    /// Time until which pods are expected on an instance, by provider ID.
    nominated: BTreeMap<Str, Timestamp>,
    /// The claim that was launched for a pod, by pod.
    claim_by_pod: BTreeMap<Str, Str>,
    /// The pods that a claim was launched for, by claim. The inverse of `claim_by_pod`.
    pods_by_claim: BTreeMap<Str, BTreeSet<Str>>,
    /// Number of claims that are being created and already count against a limit, by pool.
    reserved: BTreeMap<Str, usize>,
    /// Claims whose replacements are being created.
    being_replaced: BTreeSet<Str>,
    /// The claim that was deleted because its node was never Ready, by pod that waited for it.
    never_ready_by_pod: BTreeMap<Str, NeverReadyClaim>,
    /// Such claims whose pods are not known, by pool, with the times at which they were recorded.
    /// The pool's next claims replace them.
    never_ready_by_pool: BTreeMap<Str, VecDeque<(NeverReadyClaim, Timestamp)>>,
    /// Names of the claims that were recorded in `never_ready_by_pool` and are not deleted yet. A
    /// deletion that failed is tried again, and must not record the claim again.
    recorded_never_ready: BTreeSet<Str>,
}

/// Claims of one pool in `never_ready_by_pool`. Beyond it the oldest is dropped.
const NEVER_READY_PER_POOL_MAX: usize = 1000;
/// Time within which a new claim of the pool replaces a claim of `never_ready_by_pool`. The pods of
/// a deleted claim get another one within minutes.
const NEVER_READY_TTL: Duration = Duration::from_hours(1);

/// A claim that was deleted because its node was never Ready.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NeverReadyClaim {
    /// Name of the claim.
    pub name: Str,
    /// Number of claims in a row that were deleted for this reason, this one included.
    pub count: u32,
}

impl Intents {
    pub(crate) fn mark_created_here(&mut self, claim: Str) {
        self.created_claims.insert(claim);
    }

    pub(crate) fn mark_unobserved(&mut self, claim: Str) {
        self.unobserved_claims.insert(claim);
    }

    /// Returns true if this process created the claim, so that the pods it was created for are
    /// known.
    pub(crate) fn is_created_here(&self, claim: &str) -> bool {
        self.created_claims.contains(claim)
    }

    /// Forgets a claim that was deleted.
    pub(crate) fn forget_claim(&mut self, claim: &str) {
        self.created_claims.remove(claim);
        self.recorded_never_ready.remove(claim);
    }

    /// Records that a watch has reported the claim. From now on a list without it means that the
    /// claim was deleted.
    pub(crate) fn mark_observed(&mut self, claim: &str) {
        self.unobserved_claims.remove(claim);
    }

    pub(crate) fn is_unobserved(&self, claim: &str) -> bool {
        self.unobserved_claims.contains(claim)
    }

    pub(crate) fn mark(&mut self, provider_id: Str) {
        self.marked.insert(provider_id);
    }

    pub(crate) fn unmark(&mut self, provider_id: &str) {
        self.marked.remove(provider_id);
    }

    pub(crate) fn is_marked(&self, provider_id: &str) -> bool {
        self.marked.contains(provider_id)
    }

    /// Extends the nomination to `until`. A nomination is never shortened.
    pub(crate) fn nominate(&mut self, provider_id: Str, until: Timestamp) {
        let stored = self.nominated.entry(provider_id).or_insert(until);
        *stored = (*stored).max(until);
    }

    pub(crate) fn nominated_until(&self, provider_id: &str) -> Option<Timestamp> {
        self.nominated.get(provider_id).copied()
    }

    pub(crate) fn record_launched_for(&mut self, pod: Str, claim: Str) {
        let before = self.claim_by_pod.insert(pod.clone(), claim.clone());
        move_key(&mut self.pods_by_claim, &pod, before.as_ref(), Some(&claim));
    }

    /// Removes all entries for which `needs_claim(pod, claim)` is false. Returns the remaining
    /// claims by pod.
    pub(crate) fn retain_launched_for(&mut self, needs_claim: impl Fn(&Str, &Str) -> bool) -> &BTreeMap<Str, Str> {
        let pods_by_claim = &mut self.pods_by_claim;
        self.claim_by_pod.retain(|pod, claim| {
            let stays = needs_claim(pod, claim);
            if !stays {
                move_key(pods_by_claim, pod, Some(claim), None);
            }
            stays
        });
        &self.claim_by_pod
    }

    /// Returns the pods that a claim was launched for. Some may be bound to another node by now.
    pub(crate) fn pods_launched_for(&self, claim: &str) -> impl Iterator<Item = &Str> {
        self.pods_by_claim.get(claim).into_iter().flatten()
    }

    pub(crate) fn reserved(&self, pool: &str) -> usize {
        self.reserved.get(pool).copied().unwrap_or_default()
    }

    pub(crate) fn set_reserved(&mut self, pool: Str, count: usize) {
        if count == 0 {
            self.reserved.remove(&pool);
        } else {
            self.reserved.insert(pool, count);
        }
    }

    /// Records that a claim is deleted because its node was never Ready. With a `pool`, the pool's
    /// next claim replaces it, also if the claim is recorded several times. Forgets earlier pods
    /// for which `exists` is false.
    pub(crate) fn record_never_ready(
        &mut self,
        claim: &NeverReadyClaim,
        pool: Option<&str>,
        now: Timestamp,
        exists: impl Fn(&Str) -> bool,
    ) {
        self.never_ready_by_pod.retain(|pod, _| exists(pod));
        for pod in self.pods_by_claim.get(&claim.name).into_iter().flatten() {
            self.never_ready_by_pod.insert(pod.clone(), claim.clone());
        }
        if let Some(pool) = pool
            && self.recorded_never_ready.insert(claim.name.clone())
        {
            self.push_never_ready_of_pool(pool, claim.clone(), now);
        }
    }

    /// Adds a claim without known pods whose node was never Ready.
    pub(crate) fn push_never_ready_of_pool(&mut self, pool: &str, claim: NeverReadyClaim, now: Timestamp) {
        let claims = self.never_ready_by_pool.entry(Str::from(pool)).or_default();
        claims.push_back((claim, now));
        if claims.len() > NEVER_READY_PER_POOL_MAX {
            claims.pop_front();
        }
    }

    /// Forgets the claims of a pool that was deleted.
    pub(crate) fn forget_pool(&mut self, pool: &str) {
        self.never_ready_by_pool.remove(pool);
    }

    /// Returns the claim that was never Ready and that one of these pods waited for. Of several,
    /// returns the last of the longest row.
    pub(crate) fn never_ready_claim_of(&self, pods: &[Str]) -> Option<&NeverReadyClaim> {
        pods.iter().filter_map(|pod| self.never_ready_by_pod.get(pod)).max_by_key(|claim| claim.count)
    }

    /// Forgets the claims that were never Ready and that these pods waited for.
    pub(crate) fn forget_never_ready(&mut self, pods: &[Str]) {
        for pod in pods {
            self.never_ready_by_pod.remove(pod);
        }
    }

    /// Removes and returns the last recorded claim without known pods whose node was never Ready.
    pub(crate) fn take_never_ready_of_pool(&mut self, pool: &str, now: Timestamp) -> Option<NeverReadyClaim> {
        let claims = self.never_ready_by_pool.get_mut(pool)?;
        claims.retain(|(_, recorded)| recorded.saturating_add(NEVER_READY_TTL).is_ok_and(|end| now < end));
        let claim = claims.pop_back();
        if claims.is_empty() {
            self.never_ready_by_pool.remove(pool);
        }
        claim.map(|(claim, _)| claim)
    }

    pub(crate) fn begin_replacing(&mut self, claim: Str) {
        self.being_replaced.insert(claim);
    }

    pub(crate) fn end_replacing(&mut self, claim: &str) {
        self.being_replaced.remove(claim);
    }

    pub(crate) fn is_being_replaced(&self, claim: &str) -> bool {
        self.being_replaced.contains(claim)
    }

    /// Removes mark and nomination of an instance that no longer exists.
    pub(crate) fn forget_provider_id(&mut self, provider_id: &str) {
        self.marked.remove(provider_id);
        self.nominated.remove(provider_id);
    }
}
