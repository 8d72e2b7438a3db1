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
    seeded: BTreeSet<Str>,
    /// Machines that are to go, by provider id.
    marked: BTreeSet<Str>,
    /// Until when pods are expected on a machine, by provider id.
    nominated: BTreeMap<Str, Timestamp>,
    /// Claims that were launched for a pod, by the pod.
    expected: BTreeMap<Str, Str>,
    /// The same by the claim.
    awaiting: BTreeMap<Str, BTreeSet<Str>>,
    /// Claims that are being created and count against a limit already, by pool.
    reserved: BTreeMap<Str, usize>,
    /// Claims whose replacements are being created.
    replaced: BTreeSet<Str>,
}

impl Intents {
    pub(crate) fn seed(&mut self, claim: Str) {
        self.seeded.insert(claim);
    }

    /// The watch has told of the claim: from now on it knows better than we do.
    pub(crate) fn confirm(&mut self, claim: &str) {
        self.seeded.remove(claim);
    }

    pub(crate) fn is_seeded(&self, claim: &str) -> bool {
        self.seeded.contains(claim)
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

    pub(crate) fn expect(&mut self, pod: Str, claim: Str) {
        let before = self.expected.insert(pod.clone(), claim.clone());
        relink(&mut self.awaiting, &pod, before.as_ref(), Some(&claim));
    }

    /// Pods and the claims that were launched for them, those that `are_waiting` alone; the others are forgotten.
    pub(crate) fn expected(&mut self, are_waiting: impl Fn(&Str, &Str) -> bool) -> &BTreeMap<Str, Str> {
        let awaiting = &mut self.awaiting;
        self.expected.retain(|pod, claim| {
            let waits = are_waiting(pod, claim);
            if !waits {
                relink(awaiting, pod, Some(claim), None);
            }
            waits
        });
        &self.expected
    }

    /// The pods that a claim was launched for; some may have found another place since.
    pub(crate) fn awaiting(&self, claim: &str) -> impl Iterator<Item = &Str> {
        self.awaiting.get(claim).into_iter().flatten()
    }

    pub(crate) fn reserved(&self, pool: &str) -> usize {
        self.reserved.get(pool).copied().unwrap_or_default()
    }

    pub(crate) fn reserve(&mut self, pool: Str, count: usize) {
        if count == 0 {
            self.reserved.remove(&pool);
        } else {
            self.reserved.insert(pool, count);
        }
    }

    pub(crate) fn begin_replacing(&mut self, claim: Str) {
        self.replaced.insert(claim);
    }

    pub(crate) fn end_replacing(&mut self, claim: &str) {
        self.replaced.remove(claim);
    }

    pub(crate) fn is_replaced(&self, claim: &str) -> bool {
        self.replaced.contains(claim)
    }

    /// The machine is gone, and with it all that was meant for it.
    pub(crate) fn forget_machine(&mut self, provider_id: &str) {
        self.marked.remove(provider_id);
        self.nominated.remove(provider_id);
    }
}
