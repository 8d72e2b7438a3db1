//! What a drain wants to know of a pod (spec 04 §4.13 and §7.6), each question in one function.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use kerf_api::annotations::DO_NOT_DISRUPT;
use kerf_api::duration::{DoNotDisrupt, evaluate_do_not_disrupt};
use kerf_api::slim::{Pod, TaintEffect, Toleration, TolerationOperator};
use kerf_api::taints::DISRUPTED;

/// A pod that is this late after its grace period will not go by itself.
const STUCK_AFTER: SignedDuration = SignedDuration::from_mins(1);
/// The least that timers tell apart.
const TIMER_RESOLUTION: Duration = Duration::from_millis(1);

/// Pods in the order in which they are evicted: a tier waits until the one before it is gone.
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

/// Whether a drain has to do with the pod at all.
pub(super) fn is_drainable(pod: &Pod, now: Timestamp) -> bool {
    let is_stuck = pod.metadata.deletion_timestamp.is_some_and(|end| now.duration_since(end) > STUCK_AFTER);
    !tolerates_disruption(pod) && !is_stuck && !pod.is_mirror()
}

/// Whether a drain waits for the pod.
pub(super) fn is_waiting(pod: &Pod, now: Timestamp) -> bool {
    !pod.is_terminal() && is_drainable(pod, now)
}

/// Whether the pod runs elsewhere once it has left its node.
pub(crate) fn is_reschedulable(pod: &Pod) -> bool {
    let is_active = !pod.is_terminal() && !pod.is_terminating();
    let comes_back = pod.is_owned_by_statefulset() && pod.is_terminating();
    (is_active || comes_back) && !pod.is_owned_by_daemonset() && !pod.is_mirror()
}

/// What the pod's annotation asks for; none if it has none.
pub(super) fn protection(pod: &Pod, now: Timestamp) -> Option<DoNotDisrupt> {
    let value = pod.metadata.annotations.get(DO_NOT_DISRUPT)?;
    Some(evaluate_do_not_disrupt(value, pod.status.start_time, now))
}

/// Whether the pod asks to be left alone, and still has that wish kept.
pub(crate) fn is_protected(pod: &Pod, now: Timestamp) -> bool {
    protection(pod, now).is_some_and(|protection| protection.is_protected())
}

/// Whether the pod may be asked to leave.
pub(super) fn is_evictable(pod: &Pod, now: Timestamp) -> bool {
    !pod.is_terminal()
        && !pod.is_terminating()
        && !tolerates_disruption(pod)
        && !pod.is_mirror()
        && !is_protected(pod, now)
}

/// Whether the pod must be deleted now, whatever protects it, because its node ends at `deadline`: so that it has its whole grace period if
/// that is possible at all.
pub(super) fn needs_force_delete(pod: &Pod, deadline: Option<Timestamp>, now: Timestamp) -> bool {
    match (deadline, pod.metadata.deletion_timestamp) {
        (Some(deadline), Some(end)) => end > deadline,
        (Some(_), None) => latest_deletion_start(pod, deadline).is_some_and(|latest| now > latest),
        (None, _) => false,
    }
}

/// How long it is until the pod must be deleted; none if nothing says that it must, or if it is time.
pub(super) fn until_force_delete(pod: &Pod, deadline: Option<Timestamp>, now: Timestamp) -> Option<Duration> {
    let latest = latest_deletion_start(pod, deadline).filter(|latest| !pod.is_terminating() && now <= *latest)?;
    // At the very instant it need not be yet.
    Some(Duration::try_from(latest.duration_since(now)).ok()? + TIMER_RESOLUTION)
}

/// The last instant from which the pod has its whole grace period before its node ends.
fn latest_deletion_start(pod: &Pod, deadline: Option<Timestamp>) -> Option<Timestamp> {
    let grace = SignedDuration::from_secs(pod.spec.termination_grace_period_seconds?);
    Some(deadline?.saturating_sub(grace).unwrap_or(Timestamp::MIN))
}

/// Whether the pod puts up with the taint of a node on its way out.
fn tolerates_disruption(pod: &Pod) -> bool {
    let matches = |toleration: &Toleration| {
        let effect = toleration.effect.as_ref().is_none_or(|effect| *effect == TaintEffect::NoSchedule);
        let key = toleration.key.is_empty() || toleration.key == DISRUPTED;
        let value = match toleration.operator {
            TolerationOperator::Exists => true,
            TolerationOperator::Equal => !toleration.key.is_empty() && toleration.value.is_empty(),
            // The taint has no value to compare with.
            TolerationOperator::Lt | TolerationOperator::Gt | TolerationOperator::Unsupported(_) => false,
        };
        effect && key && value
    };
    pod.spec.tolerations.iter().any(matches)
}
