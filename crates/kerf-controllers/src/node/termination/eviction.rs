//! `eviction-queue`: evicts pods, and deletes pods whose node reaches its termination deadline
//! (spec 04 §7.6). Drains add pods to the queue. It is kept in memory only: after a restart the
//! next reconcile of each node adds its pods again.
//! Invariants: a pod is only evicted for the node it was queued for, identified by the pod's uid. A
//! deadline never becomes later.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use jiff::Timestamp;
use kerf_api::conditions::DISRUPTION_REASON;
use kerf_api::slim::{Node, Pod, Str};
use kerf_runtime::{ApiError, Queue, ReconcileAction};
use kerf_state::Tracked as _;
use tracing::debug;

use super::eviction_order::{self, EvictionOrder, PodSize};
use super::pods::{do_not_disrupt_of, is_evictable, must_be_deleted_now, time_until_deletion};
use crate::actions::pod::{self, EvictionOutcome};
use crate::context::Context;
use crate::error::Error;
use crate::events;
use kerf_operator::Reconcile;

/// Disruption reason of nodes that are drained to save money.
const UNDERUTILIZED_REASON: &str = "Underutilized";

/// The controller and the queue that drains fill. Its keys are `namespace/name` of pods.
pub(crate) struct EvictionQueue {
    ctx: Context,
    /// The queued pods, by `namespace/name` and uid.
    pending: Mutex<BTreeMap<(Str, Str), PendingEviction>>,
    order: Mutex<EvictionOrder>,
    queue: OnceLock<Queue<Str>>,
}

/// A queued pod.
#[derive(Debug, Clone, Copy)]
struct PendingEviction {
    /// The termination deadline of the pod's node. `None` if it has none.
    deadline: Option<Timestamp>,
    since: Timestamp,
    size: PodSize,
    /// True if an eviction was refused, or if the pod is protected. Smaller pods do not wait for
    /// it.
    is_blocked: bool,
}

impl EvictionQueue {
    pub(crate) fn new(ctx: Context) -> Self {
        Self { ctx, pending: Mutex::default(), order: Mutex::default(), queue: OnceLock::new() }
    }

    /// Sets the work queue. Called once, when the controller is started.
    pub(crate) fn set_queue(&self, queue: &Queue<Str>) {
        let _ = self.queue.set(queue.clone());
    }

    /// Queues a pod for eviction. The pod is deleted in time for the deadline of its node, if there
    /// is one.
    pub(super) fn add(&self, pod: &Pod, deadline: Option<Timestamp>) {
        let key = pod.key();
        let is_changed = {
            let mut pending = self.pending();
            let id = (key.clone(), pod.metadata.uid.clone());
            match pending.get_mut(&id) {
                Some(known) => {
                    let earlier = [known.deadline, deadline].into_iter().flatten().min();
                    std::mem::replace(&mut known.deadline, earlier) != earlier
                }
                None => {
                    let (since, size) = (self.ctx.now(), PodSize::of(pod));
                    pending.insert(id, PendingEviction { deadline, since, size, is_blocked: false });
                    true
                }
            }
        };
        if is_changed && let Some(queue) = self.queue.get() {
            queue.add(key);
        }
    }

    async fn evict_or_delete(
        &self,
        pod: &Pod,
        eviction: PendingEviction,
        now: Timestamp,
    ) -> Result<ReconcileAction, Error> {
        if must_be_deleted_now(pod, eviction.deadline, now) {
            self.delete_before_deadline(pod, eviction.deadline.unwrap_or(now), now).await
        } else if pod.is_terminal() || pod.is_terminating() {
            Ok(ReconcileAction::Done)
        } else if !is_evictable(pod, now) {
            self.mark_blocked(pod);
            self.publish_protection(pod, now);
            Ok(ReconcileAction::RequeueWithBackoff)
        } else if self.must_wait_for_larger(pod, eviction, now) {
            Ok(ReconcileAction::RequeueAfter(eviction_order::LARGER_PODS_POLL_INTERVAL))
        } else {
            self.evict(pod).await
        }
    }

    async fn evict(&self, pod: &Pod) -> Result<ReconcileAction, Error> {
        let metrics = &self.ctx.metrics;
        // Recorded before the request: if the response is lost, the pod may still be evicted.
        self.ctx.cluster.lock().record_eviction(pod, self.ctx.now());
        let (code, outcome) = pod::evict(&self.ctx, pod).await;
        match outcome {
            EvictionOutcome::Evicted | EvictionOutcome::Failed(_) => {}
            EvictionOutcome::Gone | EvictionOutcome::Blocked | EvictionOutcome::BlockedByMultiplePdbs => {
                self.ctx.cluster.lock().forget_eviction(pod);
            }
        }
        if let Some(code) = code {
            metrics.pods_eviction_requests.inc(&[&code.to_string()]);
        }
        let problem = match outcome {
            EvictionOutcome::Evicted => {
                let reason = self.reason(pod);
                self.ctx.publish(events::evicted(pod, &reason));
                metrics.pods_drained.inc(&[&reason]);
                if reason == UNDERUTILIZED_REASON {
                    self.order().record_evicted(pod, self.ctx.now());
                }
                return Ok(ReconcileAction::Done);
            }
            EvictionOutcome::Gone => return Ok(ReconcileAction::Done),
            EvictionOutcome::Blocked => "evicting pod violates a PDB",
            EvictionOutcome::BlockedByMultiplePdbs => "eviction does not support multiple PDBs",
            EvictionOutcome::Failed(cause) => return Err(Error::Api { operation: "evicting pod", cause }),
        };
        self.mark_blocked(pod);
        if let Some(node) = self.node_of(pod) {
            let why = format!("{problem} (Pod={})", pod.namespaced_name());
            self.ctx.publish(events::failed_draining(&node, &why));
        }
        Ok(ReconcileAction::RequeueWithBackoff)
    }

    /// Records that the pod cannot be evicted now, so that smaller pods do not wait for it.
    fn mark_blocked(&self, pod: &Pod) {
        if let Some(eviction) = self.pending().get_mut(&(pod.key(), pod.metadata.uid.clone())) {
            eviction.is_blocked = true;
        }
    }

    /// Deletes the pod with the time until the deadline as its grace period, whatever protects it.
    async fn delete_before_deadline(
        &self,
        pod: &Pod,
        deadline: Timestamp,
        now: Timestamp,
    ) -> Result<ReconcileAction, Error> {
        // Never zero: deletion without a grace period would allow two running pods of one name.
        let seconds = deadline.duration_since(now).as_secs().max(1);
        self.ctx.publish(events::disrupted(pod, deadline, seconds));
        match pod::delete(&self.ctx, pod, seconds).await {
            Ok(()) => {
                debug!(
                    "pod.grace-period-seconds" = pod.spec.termination_grace_period_seconds.unwrap_or_default(),
                    "delete.grace-period-seconds" = seconds,
                    "nodeclaim.termination-time" = %deadline,
                    "deleting pod"
                );
                self.ctx.metrics.pods_drained.inc(&[&self.reason(pod)]);
                Ok(ReconcileAction::Done)
            }
            Err(ApiError::NotFound | ApiError::Conflict) => Ok(ReconcileAction::Done),
            Err(cause) => Err(Error::Api { operation: "force-deleting pod", cause }),
        }
    }

    /// Returns the disruption reason of the pod's node, for Events and metrics. Empty if the pod's
    /// claim is not known.
    fn reason(&self, pod: &Pod) -> String {
        let cluster = self.ctx.cluster.lock();
        let node = pod.spec.node_name.as_ref().and_then(|name| cluster.get::<Node>(name));
        let Some(node) = node else { return String::new() };
        let mut claims = cluster.claims_of(&node.spec.provider_id);
        let Some(claim) = claims.next().filter(|_| claims.next().is_none()) else { return String::new() };
        let conditions = claim.object.status.as_ref().map_or(&[][..], |status| &status.conditions);
        let disrupted = conditions.iter().find(|condition| condition.condition_type == DISRUPTION_REASON);
        disrupted
            .filter(|condition| condition.status == kerf_api::conditions::ConditionStatus::True)
            .map_or_else(|| "Forceful Termination".to_owned(), |condition| condition.reason.clone())
    }

    fn node_of(&self, pod: &Pod) -> Option<std::sync::Arc<Node>> {
        self.ctx.cluster.lock().get::<Node>(pod.spec.node_name.as_deref()?).cloned()
    }

    fn publish_protection(&self, pod: &Pod, now: Timestamp) {
        if let Some(event) = do_not_disrupt_of(pod, now).and_then(|annotation| events::do_not_disrupt(pod, &annotation))
        {
            self.ctx.publish(event);
        }
    }

    /// Returns true if the pod must wait until larger pods are evicted and placed. This applies
    /// only to nodes that are drained to save money: there the saving is lost unless all pods fit
    /// on other nodes.
    fn must_wait_for_larger(&self, pod: &Pod, eviction: PendingEviction, now: Timestamp) -> bool {
        if self.reason(pod) != UNDERUTILIZED_REASON {
            return false;
        }
        let largest_queued = self.pending().values().filter(|other| !other.is_blocked).map(|other| other.size).max();
        let cluster = self.ctx.cluster.lock();
        let pods = || cluster.all::<Pod>().values().map(AsRef::as_ref).collect();
        self.order().must_wait(eviction.size, eviction.since, now, largest_queued, pods)
    }

    fn pending(&self) -> MutexGuard<'_, BTreeMap<(Str, Str), PendingEviction>> {
        self.pending.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn order(&self) -> MutexGuard<'_, EvictionOrder> {
        self.order.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Reconcile for EvictionQueue {
    type Error = Error;

    async fn reconcile(&self, key: &Str) -> Result<ReconcileAction, Error> {
        let pod = self.ctx.cluster.lock().get::<Pod>(key).cloned();
        let uid = pod.as_ref().map(|pod| pod.metadata.uid.clone());
        // Drop entries of a deleted pod, or of an earlier pod of the same name.
        self.pending().retain(|(name, id), _| name != key || Some(id) == uid.as_ref());
        let Some(pod) = pod else { return Ok(ReconcileAction::Done) };
        let Some(eviction) = self.pending().get(&(key.clone(), pod.metadata.uid.clone())).copied() else {
            return Ok(ReconcileAction::Done);
        };
        let outcome = self.evict_or_delete(&pod, eviction, self.ctx.now()).await;
        if matches!(outcome, Ok(ReconcileAction::Done)) {
            self.pending().remove(&(key.clone(), pod.metadata.uid.clone()));
        } else if let Some(queue) = self.queue.get()
            && let Some(until) = time_until_deletion(&pod, eviction.deadline, self.ctx.now())
        {
            // However long the back-off is, the pod is deleted early enough for its grace period.
            queue.add_after(key.clone(), until);
        }
        outcome
    }
}
