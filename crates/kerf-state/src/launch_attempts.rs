//! Counts, per owner of pods, the claims in a row on which none of the pods started that the claims
//! were created for (spec 02 §1.5). After three such claims the owner waits before the next one.
//! Without this, a cause that Kerf does not know, such as a pod that preempts the owner's pods on
//! every new node, would create node after node.
//!
//! A claim counts only if its instance was launched, and for a pod only if the pod still needed a
//! node: it was deleted before it started although its node was initialized, or another claim was
//! created for it. A pod that runs elsewhere, or that was deleted while the node still started,
//! does not count. Kept in memory only: a restart ends all waits.
//!
//! After a wait a single pod of the owner may have a claim, whatever the number of its pods. The
//! outcome of this probe decides whether the others follow.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use jiff::Timestamp;
use kerf_api::conditions::INITIALIZED;
use kerf_api::slim::{Pod, PodPhase, Str};
use kerf_engine::{LaunchWait, LaunchWaitEnd};

use crate::claims::TrackedClaim;

/// Number of claims in a row without a started pod after which the owner waits.
const FUTILE_CLAIMS_MAX: u32 = 3;
/// First wait before the next claim for the owner. Doubles with each further wait.
const FIRST_WAIT: Duration = Duration::from_mins(1);
/// Upper bound of the doubled waits.
const LONGEST_WAIT: Duration = Duration::from_mins(30);
/// Interval at which another pod may have the claim after a wait, because the one before cannot
/// have any.
const PROBE_INTERVAL: Duration = Duration::from_mins(1);
/// Time for which a claim without an outcome keeps other pods of the owner waiting.
const PROBE_TIMEOUT: Duration = LONGEST_WAIT;
/// Time after which an owner without a new claim is forgotten.
const OWNER_TTL: Duration = Duration::from_hours(2);

/// Claims that were created for pods, until it is known whether one of the pods started.
#[derive(Debug, Default)]
pub(crate) struct LaunchAttempts {
    /// By UID of the owner.
    owners: BTreeMap<Str, OwnerHistory>,
    /// By claim, then by UID of the owner.
    attempts: BTreeMap<Str, BTreeMap<Str, Attempt>>,
    /// The claim under which a pod is listed in `attempts`.
    claim_by_pod: BTreeMap<Str, Str>,
}

/// Outcomes of the earlier claims for an owner.
#[derive(Debug)]
struct OwnerHistory {
    /// Claims in a row on which none of the pods started.
    futile_claims: u32,
    /// Number of waits since a pod last started.
    waits: u32,
    /// End of the current or last wait.
    wait_until: Option<Timestamp>,
    /// True if a claim turned out futile since the last decision.
    has_new_futile_claim: bool,
    /// Time at which a claim was last created.
    last_claim: Timestamp,
}

/// A claim that was created for pods of one owner.
#[derive(Debug)]
struct Attempt {
    created: Timestamp,
    /// The pods for which the outcome is open.
    pods: BTreeSet<Str>,
    is_launched: bool,
    is_initialized: bool,
    /// True if the claim is being deleted or was deleted.
    is_claim_deleted: bool,
    /// True if a pod needed another node although the claim was launched.
    has_failed_pod: bool,
}

/// Outcome of a claim for one of its pods.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum PodOutcome {
    /// The pod needs another node.
    Failed,
    /// The pod needs no node any more, or runs elsewhere.
    NotNeeded,
}

/// Returns the UID of the object that controls the pod, or the pod's own UID if there is none.
fn owner_of(pod: &Pod) -> &Str {
    let controller = pod.metadata.owner_references.iter().find(|owner| owner.controller);
    controller.map_or(&pod.metadata.uid, |owner| &owner.uid)
}

impl LaunchAttempts {
    /// Records that a claim was created for these pods. Pods that an earlier claim was created for
    /// have not started there.
    pub(crate) fn begin<'p>(&mut self, claim: &Str, pods: impl Iterator<Item = (&'p Str, &'p Pod)>, now: Timestamp) {
        for (key, pod) in pods {
            self.end_pod(key, PodOutcome::Failed);
            let owner = owner_of(pod).clone();
            let history = self.owners.entry(owner.clone()).or_insert_with(|| OwnerHistory::new(now));
            history.last_claim = now;
            let attempts = self.attempts.entry(claim.clone()).or_default();
            attempts.entry(owner).or_insert_with(|| Attempt::new(now)).pods.insert(key.clone());
            self.claim_by_pod.insert(key.clone(), claim.clone());
        }
    }

    /// Returns true if no claim is observed.
    pub(crate) fn is_empty(&self) -> bool {
        self.attempts.is_empty()
    }

    /// Records a change of a claim, or its deletion. The attempts of a claim that was launched
    /// outlive the claim: their outcome is open as long as a pod may need another node.
    pub(crate) fn on_claim(&mut self, claim: &TrackedClaim, is_deleted: bool) {
        let Some(attempts) = self.attempts.get_mut(claim.name()) else { return };
        for attempt in attempts.values_mut() {
            attempt.is_launched |= !claim.engine_claim.provider_id.is_empty();
            attempt.is_initialized |= claim.is_condition_true(INITIALIZED);
            attempt.is_claim_deleted |= is_deleted || claim.is_terminating();
        }
        // Without an instance there is nothing that a pod could have started on.
        if is_deleted && attempts.values().all(|attempt| !attempt.is_launched) {
            self.attempts.remove(claim.name());
            self.claim_by_pod.retain(|_, other| other != claim.name());
        }
    }

    /// Records a change of a pod. `claim` is the claim of the pod's node, if the pod is bound.
    pub(crate) fn on_pod(&mut self, key: &Str, pod: &Pod, claim: Option<&Str>) {
        if pod.spec.node_name.is_none() {
            return;
        }
        let has_started = pod.status.phase != PodPhase::Pending;
        if let Some(claim) = claim.filter(|_| has_started) {
            self.on_started(claim, owner_of(pod));
        }
        if self.claim_by_pod.get(key).is_some_and(|own| Some(own) != claim) {
            self.end_pod(key, PodOutcome::NotNeeded);
        }
    }

    /// Records that a pod was deleted.
    pub(crate) fn on_pod_deleted(&mut self, key: &Str, pod: &Pod) {
        let Some(claim) = self.claim_by_pod.get(key) else { return };
        let attempt = self.attempts.get(claim).and_then(|attempts| attempts.get(owner_of(pod)));
        let is_initialized = attempt.is_some_and(|attempt| attempt.is_initialized);
        self.end_pod(key, if is_initialized { PodOutcome::Failed } else { PodOutcome::NotNeeded });
    }

    /// Records that a pod of the owner has started on the claim's node.
    fn on_started(&mut self, claim: &Str, owner: &Str) {
        let Some(attempts) = self.attempts.get_mut(claim) else { return };
        let Some(attempt) = attempts.remove(owner) else { return };
        if attempts.is_empty() {
            self.attempts.remove(claim);
        }
        for pod in attempt.pods {
            self.claim_by_pod.remove(&pod);
        }
        self.owners.remove(owner);
    }

    fn end_pod(&mut self, key: &Str, outcome: PodOutcome) {
        let Some(claim) = self.claim_by_pod.remove(key) else { return };
        let Some(attempts) = self.attempts.get_mut(&claim) else { return };
        let Some((owner, attempt)) = attempts.iter_mut().find(|(_, attempt)| attempt.pods.contains(key)) else {
            return;
        };
        attempt.pods.remove(key);
        attempt.has_failed_pod |= outcome == PodOutcome::Failed && attempt.is_launched;
        if !attempt.pods.is_empty() {
            return;
        }
        let (owner, is_futile) = (owner.clone(), attempt.has_failed_pod);
        attempts.remove(&owner);
        if attempts.is_empty() {
            self.attempts.remove(&claim);
        }
        if let Some(history) = self.owners.get_mut(&owner).filter(|_| is_futile) {
            history.futile_claims = history.futile_claims.saturating_add(1);
            history.has_new_futile_claim = true;
        }
    }

    /// Starts the waits that are due and forgets old owners. Call it before each decision.
    pub(crate) fn refresh(&mut self, now: Timestamp) {
        let expiry = |history: &OwnerHistory| history.last_claim.saturating_add(OWNER_TTL).unwrap_or(Timestamp::MAX);
        let attempts = &self.attempts;
        self.owners.retain(|owner, history| {
            let is_old = expiry(history) < now && attempts.values().all(|attempts| !attempts.contains_key(owner));
            !is_old
        });
        for history in self.owners.values_mut() {
            let is_due = std::mem::take(&mut history.has_new_futile_claim)
                && history.futile_claims >= FUTILE_CLAIMS_MAX
                && history.wait_until.is_none_or(|until| until <= now);
            if is_due {
                let wait =
                    FIRST_WAIT.saturating_mul(1_u32.checked_shl(history.waits).unwrap_or(u32::MAX)).min(LONGEST_WAIT);
                history.wait_until = Some(now.saturating_add(wait).unwrap_or(Timestamp::MAX));
                history.waits += 1;
            }
        }
    }

    /// Returns true if no owner waits.
    pub(crate) fn has_no_waits(&self) -> bool {
        self.owners.values().all(|history| history.futile_claims < FUTILE_CLAIMS_MAX)
    }

    /// Returns the waits of pending pods. `pending` must be in a fixed order.
    pub(crate) fn waits<'p>(
        &self,
        pending: impl Iterator<Item = (&'p Str, &'p Pod)>,
        now: Timestamp,
    ) -> BTreeMap<Str, LaunchWait> {
        let mut by_owner: BTreeMap<&Str, Vec<&Str>> = BTreeMap::new();
        for (key, pod) in pending {
            by_owner.entry(owner_of(pod)).or_default().push(key);
        }
        let mut waits = BTreeMap::new();
        for (owner, pods) in by_owner {
            let Some(history) = self.owners.get(owner).filter(|history| history.futile_claims >= FUTILE_CLAIMS_MAX)
            else {
                continue;
            };
            let Some(wait_until) = history.wait_until else { continue };
            let (end, probes) = if wait_until <= now {
                (LaunchWaitEnd::OtherPod, self.probes(owner, &pods, wait_until, now))
            } else {
                (LaunchWaitEnd::At(wait_until), BTreeSet::new())
            };
            let wait = LaunchWait { end, nodes: history.futile_claims };
            waits.extend(pods.into_iter().filter(|pod| !probes.contains(pod)).map(|pod| (pod.clone(), wait)));
        }
        waits
    }

    /// Returns the pods of an owner that may have a claim after a wait. These are the pods of a
    /// claim that is still starting: it is the probe. Otherwise it is one pod: the outcome of the
    /// last claim depends on its pods, so one of them has precedence.
    fn probes<'p>(&self, owner: &Str, pods: &[&'p Str], wait_until: Timestamp, now: Timestamp) -> BTreeSet<&'p Str> {
        let is_recent = |attempt: &Attempt| attempt.created.saturating_add(PROBE_TIMEOUT).is_ok_and(|end| end > now);
        let attempts = self.attempts.values().filter_map(|attempts| attempts.get(owner));
        let recent: Vec<&Attempt> = attempts.filter(|attempt| is_recent(attempt)).collect();
        let in_attempts = |is_starting: bool| {
            let of_state = recent.iter().filter(|attempt| attempt.is_starting() == is_starting);
            of_state.flat_map(|attempt| &attempt.pods).collect::<BTreeSet<&Str>>()
        };
        if recent.iter().any(|attempt| attempt.is_starting()) {
            let starting = in_attempts(true);
            return pods.iter().copied().filter(|pod| starting.contains(*pod)).collect();
        }
        let with_outcome = in_attempts(false);
        let mut candidates: Vec<&'p Str> = pods.iter().copied().filter(|pod| with_outcome.contains(*pod)).collect();
        if candidates.is_empty() {
            candidates = pods.to_vec();
        }
        // A pod that cannot have a claim must not keep the others waiting for ever.
        let seconds = now.duration_since(wait_until).as_secs().max(0).unsigned_abs();
        let rounds = seconds / PROBE_INTERVAL.as_secs();
        let index = usize::try_from(rounds % candidates.len().max(1) as u64).unwrap_or(0);
        candidates.get(index).copied().into_iter().collect()
    }
}

impl Attempt {
    fn new(created: Timestamp) -> Self {
        Self {
            created,
            pods: BTreeSet::new(),
            is_launched: false,
            is_initialized: false,
            is_claim_deleted: false,
            has_failed_pod: false,
        }
    }

    /// Returns true if the claim's node may still be initialized.
    fn is_starting(&self) -> bool {
        !self.is_initialized && !self.is_claim_deleted
    }
}

impl OwnerHistory {
    fn new(now: Timestamp) -> Self {
        Self { futile_claims: 0, waits: 0, wait_until: None, has_new_futile_claim: false, last_claim: now }
    }
}
