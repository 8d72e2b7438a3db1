//! The facts about each pod that the drain of a terminating node needs (spec 04 §4.13 and §7.6):
//! its tier, whether the drain waits for it, whether it may be evicted, and when it must be deleted
//! because the node terminates.
//!
//! Nothing here evicts or deletes a pod or reads the clock; the eviction queue acts. The API server
//! checks PodDisruptionBudgets. `kerf-engine` has the same rules for disruption, in
//! `disrupt::pods`.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use kerf_api::annotations::DO_NOT_DISRUPT;
use kerf_api::duration::{DoNotDisrupt, evaluate_do_not_disrupt};
use kerf_api::slim::{Pod, TaintEffect, Toleration, TolerationOperator};
use kerf_api::taints::DISRUPTED;

/// A pod that still exists this long after its grace period ended counts as stuck.
const STUCK_AFTER: SignedDuration = SignedDuration::from_mins(1);
/// Resolution of tokio's timers.
const TIMER_RESOLUTION: Duration = Duration::from_millis(1);

/// The order of eviction: the pods of a tier are evicted once no pod of an earlier tier is left.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Tier {
    /// Neither critical nor of a DaemonSet.
    Plain,
    /// Of a DaemonSet.
    Daemon,
    /// Of a system-critical priority class.
    Critical,
    /// Both critical and of a DaemonSet.
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

/// Returns true if the drain concerns the pod. It ignores pods that tolerate the disrupted taint,
/// stuck pods and mirror pods.
pub(super) fn is_drainable(pod: &Pod, now: Timestamp) -> bool {
    let is_stuck = pod.metadata.deletion_timestamp.is_some_and(|end| now.duration_since(end) > STUCK_AFTER);
    !tolerates_disrupted_taint(pod) && !is_stuck && !pod.is_mirror()
}

/// Returns true if the drain must wait until this pod is finished or deleted.
pub(super) fn blocks_drain(pod: &Pod, now: Timestamp) -> bool {
    !pod.is_terminal() && is_drainable(pod, now)
}

/// Returns true if the pod must run on another node when its node is removed. This excludes
/// DaemonSet, mirror and finished pods, and terminating pods that do not belong to a StatefulSet.
pub(crate) fn is_reschedulable(pod: &Pod) -> bool {
    let is_active = !pod.is_terminal() && !pod.is_terminating();
    let is_recreated = pod.is_owned_by_statefulset() && pod.is_terminating();
    (is_active || is_recreated) && !pod.is_owned_by_daemonset() && !pod.is_mirror()
}

/// Evaluates the pod's do-not-disrupt annotation. Returns `None` if the pod has none.
pub(super) fn do_not_disrupt_of(pod: &Pod, now: Timestamp) -> Option<DoNotDisrupt> {
    let value = pod.metadata.annotations.get(DO_NOT_DISRUPT)?;
    Some(evaluate_do_not_disrupt(value, pod.status.start_time, now))
}

/// Returns true if a do-not-disrupt annotation protects the pod at this time.
pub(crate) fn is_protected(pod: &Pod, now: Timestamp) -> bool {
    do_not_disrupt_of(pod, now).is_some_and(|annotation| annotation.is_protected())
}

/// Returns true if the eviction queue may try to evict the pod. A PodDisruptionBudget may still
/// reject the eviction.
pub(super) fn is_evictable(pod: &Pod, now: Timestamp) -> bool {
    !pod.is_terminal()
        && !pod.is_terminating()
        && !tolerates_disrupted_taint(pod)
        && !pod.is_mirror()
        && !is_protected(pod, now)
}

/// Returns true if the pod must be deleted now, whatever protects it, because its node terminates
/// at `deadline`. A pod that is not terminating must be deleted as soon as less than its grace
/// period is left. A pod that is terminating already must be deleted again, with a shorter grace
/// period, if its grace period ends after the deadline.
pub(super) fn must_be_deleted_now(pod: &Pod, deadline: Option<Timestamp>, now: Timestamp) -> bool {
    match (deadline, pod.metadata.deletion_timestamp) {
        (Some(deadline), Some(end)) => end > deadline,
        (Some(_), None) => latest_deletion_start(pod, deadline).is_some_and(|latest| now > latest),
        (None, _) => false,
    }
}

/// Returns the time until the pod must be deleted. Returns `None` if there is no deadline, if the
/// pod has no grace period or is terminating already, or if it must be deleted now.
pub(super) fn time_until_deletion(pod: &Pod, deadline: Option<Timestamp>, now: Timestamp) -> Option<Duration> {
    let latest = latest_deletion_start(pod, deadline).filter(|latest| !pod.is_terminating() && now <= *latest)?;
    // `must_be_deleted_now` is true only after `latest`, so the timer must fire after it.
    Some(Duration::try_from(latest.duration_since(now)).ok()? + TIMER_RESOLUTION)
}

/// Returns the last time at which a deletion leaves the pod its whole grace period before its node
/// terminates. Returns `None` without a deadline or a grace period.
fn latest_deletion_start(pod: &Pod, deadline: Option<Timestamp>) -> Option<Timestamp> {
    let grace = SignedDuration::from_secs(pod.spec.termination_grace_period_seconds?);
    Some(deadline?.saturating_sub(grace).unwrap_or(Timestamp::MIN))
}

/// Returns true if the pod tolerates the taint `karpenter.sh/disrupted:NoSchedule`.
fn tolerates_disrupted_taint(pod: &Pod) -> bool {
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
