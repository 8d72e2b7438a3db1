//! Predicates about pods that a drain uses (spec 04 §4.13 and §7.6).

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use kerf_api::annotations::DO_NOT_DISRUPT;
use kerf_api::duration::{DoNotDisrupt, evaluate_do_not_disrupt};
use kerf_api::slim::{Pod, TaintEffect, Toleration, TolerationOperator};
use kerf_api::taints::DISRUPTED;

/// A pod that still exists this long after its grace period ended counts as stuck.
const STUCK_AFTER: SignedDuration = SignedDuration::from_mins(1);
/// The shortest time that timers can distinguish.
const TIMER_RESOLUTION: Duration = Duration::from_millis(1);

/// Eviction order. Pods of a tier are evicted when all pods of the tiers before are gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Tier {
    Plain,
    Daemon,
    Critical,
    CriticalDaemon,
}

pub(super) fn tier(pod: &Pod) -> Tier {
    match (pod.spec.is_critical, pod.is_owned_by_daemonset()) {
        (false, false) => Tier::Plain,
        (false, true) => Tier::Daemon,
        (true, false) => Tier::Critical,
        (true, true) => Tier::CriticalDaemon,
    }
}

/// Returns false for pods that the drain ignores: pods that tolerate the disrupted taint, stuck
/// pods and static pods.
pub(super) fn is_drainable(pod: &Pod, now: Timestamp) -> bool {
    let is_stuck = pod.metadata.deletion_timestamp.is_some_and(|end| now.duration_since(end) > STUCK_AFTER);
    !tolerates_disruption(pod) && !is_stuck && !pod.is_mirror()
}

/// Returns true if the drain is not complete before this pod is gone.
pub(super) fn is_waiting(pod: &Pod, now: Timestamp) -> bool {
    !pod.is_terminal() && is_drainable(pod, now)
}

/// Returns true if the pod needs a place on another node after its eviction.
pub(crate) fn is_reschedulable(pod: &Pod) -> bool {
    let is_active = !pod.is_terminal() && !pod.is_terminating();
    let is_recreated = pod.is_owned_by_statefulset() && pod.is_terminating();
    (is_active || is_recreated) && !pod.is_owned_by_daemonset() && !pod.is_mirror()
}

/// Evaluates the pod's do-not-disrupt annotation. Returns `None` if the pod has none.
pub(super) fn protection(pod: &Pod, now: Timestamp) -> Option<DoNotDisrupt> {
    let value = pod.metadata.annotations.get(DO_NOT_DISRUPT)?;
    Some(evaluate_do_not_disrupt(value, pod.status.start_time, now))
}

/// Returns true if a do-not-disrupt annotation protects the pod at this time.
pub(crate) fn is_protected(pod: &Pod, now: Timestamp) -> bool {
    protection(pod, now).is_some_and(|protection| protection.is_protected())
}

/// Returns true if the pod may be evicted through the eviction API.
pub(super) fn is_evictable(pod: &Pod, now: Timestamp) -> bool {
    !pod.is_terminal()
        && !pod.is_terminating()
        && !tolerates_disruption(pod)
        && !pod.is_mirror()
        && !is_protected(pod, now)
}

/// Returns true if the pod must be deleted now, whatever protects it, because its node terminates
/// at `deadline`. The pod is deleted early enough to have its whole grace period if possible.
pub(super) fn needs_force_delete(pod: &Pod, deadline: Option<Timestamp>, now: Timestamp) -> bool {
    match (deadline, pod.metadata.deletion_timestamp) {
        (Some(deadline), Some(end)) => end > deadline,
        (Some(_), None) => latest_deletion_start(pod, deadline).is_some_and(|latest| now > latest),
        (None, _) => false,
    }
}

/// Returns the time until the pod must be deleted. Returns `None` if it need not be deleted, is
/// deleting already or is due now.
pub(super) fn until_force_delete(pod: &Pod, deadline: Option<Timestamp>, now: Timestamp) -> Option<Duration> {
    let latest = latest_deletion_start(pod, deadline).filter(|latest| !pod.is_terminating() && now <= *latest)?;
    // `needs_force_delete` is true only after `latest`.
    Some(Duration::try_from(latest.duration_since(now)).ok()? + TIMER_RESOLUTION)
}

/// Returns the last time at which a deletion leaves the pod its whole grace period before its node
/// terminates. Returns `None` without a deadline or a grace period.
fn latest_deletion_start(pod: &Pod, deadline: Option<Timestamp>) -> Option<Timestamp> {
    let grace = SignedDuration::from_secs(pod.spec.termination_grace_period_seconds?);
    Some(deadline?.saturating_sub(grace).unwrap_or(Timestamp::MIN))
}

/// Returns true if the pod tolerates the disrupted taint.
fn tolerates_disruption(pod: &Pod) -> bool {
    let matches = |toleration: &Toleration| {
        let effect = toleration.effect.as_ref().is_none_or(|effect| *effect == TaintEffect::NoSchedule);
        let key = toleration.key.is_empty() || toleration.key == DISRUPTED;
        let value = match toleration.operator {
            TolerationOperator::Exists => true,
            TolerationOperator::Equal => !toleration.key.is_empty() && toleration.value.is_empty(),
            // The disrupted taint has no value to compare with.
            TolerationOperator::Lt | TolerationOperator::Gt | TolerationOperator::Unsupported(_) => false,
        };
        effect && key && value
    };
    pod.spec.tolerations.iter().any(matches)
}
