//! What we have done or decided and the API server does not show yet, each with the fact that ends it: claims that were just created
//! (until the watch tells of them), deletion marks (until they are taken back or the machine is gone), nominations (until their time
//! is up), whom a claim was launched for (until the pod is bound or either is gone), room for claims that are being created (until they are there), claims
//! whose replacements are (until they are marked, or it came to nothing). Losing all of it, as a restart does, costs time and never correctness.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use kerf_api::slim::Str;

use crate::cluster::relink;

/// Ours alone.
#[derive(Debug, Default)]
pub(crate) struct Intents {
    /// Claims that we created and no watch has told of yet.
    unobserved_claims: BTreeSet<Str>,
    /// Machines that are to go, by provider id.
    marked: BTreeSet<Str>,
    /// Until when pods are expected on a machine, by provider id.
    nominated: BTreeMap<Str, Timestamp>,
    /// Claims that were launched for a pod, by the pod.
    claim_by_pod: BTreeMap<Str, Str>,
    /// The same by the claim.
    pods_by_claim: BTreeMap<Str, BTreeSet<Str>>,
    /// Claims that are being created and count against a limit already, by pool.
    reserved: BTreeMap<Str, usize>,
    /// Claims whose replacements are being created.
    being_replaced: BTreeSet<Str>,
}

impl Intents {
    pub(crate) fn mark_created(&mut self, claim: Str) {
        self.unobserved_claims.insert(claim);
    }

    /// The watch has told of the claim: from now on it knows better than we do.
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

    /// Repeating extends, and never shortens.
    pub(crate) fn nominate(&mut self, provider_id: Str, until: Timestamp) {
        let stored = self.nominated.entry(provider_id).or_insert(until);
        *stored = (*stored).max(until);
    }

    pub(crate) fn nominated_until(&self, provider_id: &str) -> Option<Timestamp> {
        self.nominated.get(provider_id).copied()
    }

    pub(crate) fn record_launched_for(&mut self, pod: Str, claim: Str) {
        let before = self.claim_by_pod.insert(pod.clone(), claim.clone());
        relink(&mut self.pods_by_claim, &pod, before.as_ref(), Some(&claim));
    }

    /// Pods and the claims that were launched for them, those that `are_waiting` alone; the others are forgotten.
    pub(crate) fn retain_launched_for(&mut self, are_waiting: impl Fn(&Str, &Str) -> bool) -> &BTreeMap<Str, Str> {
        let awaiting = &mut self.pods_by_claim;
        self.claim_by_pod.retain(|pod, claim| {
            let waits = are_waiting(pod, claim);
            if !waits {
                relink(awaiting, pod, Some(claim), None);
            }
            waits
        });
        &self.claim_by_pod
    }

    /// The pods that a claim was launched for; some may have found another place since.
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

    pub(crate) fn begin_replacing(&mut self, claim: Str) {
        self.being_replaced.insert(claim);
    }

    pub(crate) fn end_replacing(&mut self, claim: &str) {
        self.being_replaced.remove(claim);
    }

    pub(crate) fn is_being_replaced(&self, claim: &str) -> bool {
        self.being_replaced.contains(claim)
    }

    /// The machine is gone, and with it all that was meant for it.
    pub(crate) fn forget_provider_id(&mut self, provider_id: &str) {
        self.marked.remove(provider_id);
        self.nominated.remove(provider_id);
    }
}
