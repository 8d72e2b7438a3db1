//! Sizes of the ReplicaSets during a rollout. The total never exceeds the desired replicas plus
//! `maxSurge`. The available pods never fall below the desired replicas minus `maxUnavailable`.

use std::cmp::Reverse;
use std::sync::Arc;

use super::{DESIRED_REPLICAS_ANNOTATION, MAX_REPLICAS_ANNOTATION, Rollout};
use crate::api::status::ApiResult;
use crate::cluster::control_plane::ControlPlane;
use crate::cluster::objects::Workload;

fn total<'a>(sets: impl Iterator<Item = &'a Arc<Workload>>) -> i64 {
    sets.map(|set| set.replicas()).sum()
}

fn available<'a>(sets: impl Iterator<Item = &'a Arc<Workload>>) -> i64 {
    sets.map(|set| set.status_count("availableReplicas")).sum()
}

/// Returns the size that the new ReplicaSet may have now, if it has `current` pods.
pub(super) fn new_set_size(rollout: &Rollout, current: i64) -> i64 {
    if rollout.deployment.spec.strategy.kind == "Recreate" {
        return rollout.desired_replicas();
    }
    let (surge, _) = rollout.max_surge_and_unavailable();
    let remaining = rollout.desired_replicas() + surge - total(rollout.all_sets());
    if remaining <= 0 { current } else { current + remaining.min(rollout.desired_replicas() - current) }
}

/// Makes one step of a rolling update. Returns true if a write was needed.
pub(super) fn rolling_update_step(plane: &mut ControlPlane, rollout: &Rollout) -> ApiResult<bool> {
    let Some(new) = &rollout.new else { return Ok(false) };
    let desired = rollout.desired_replicas();
    let size = if new.replicas() >= desired { desired } else { new_set_size(rollout, new.replicas()) };
    if rollout.scale(plane, new, size)? {
        return Ok(true);
    }
    scale_down_old_sets(plane, rollout, new)
}

/// Scales down the old ReplicaSets: first by pods that are unavailable, then by as many as may be
/// unavailable.
fn scale_down_old_sets(plane: &mut ControlPlane, rollout: &Rollout, new: &Workload) -> ApiResult<bool> {
    let (_, unavailable) = rollout.max_surge_and_unavailable();
    let min_available = rollout.desired_replicas() - unavailable;
    let new_unavailable = new.replicas() - new.status_count("availableReplicas");
    let max_scale_down = total(rollout.all_sets()) - min_available - new_unavailable;
    if total(rollout.old.iter()) == 0 || max_scale_down <= 0 {
        return Ok(false);
    }
    let mut sizes: Vec<i64> = rollout.old.iter().map(|set| set.replicas()).collect();
    let mut remaining = max_scale_down;
    for (size, set) in sizes.iter_mut().zip(&rollout.old) {
        let unhealthy = (*size - set.status_count("availableReplicas")).max(0).min(remaining);
        *size -= unhealthy;
        remaining -= unhealthy;
    }
    let mut max_scale_down = available(rollout.all_sets()) - min_available;
    for size in &mut sizes {
        let removed = (*size).min(max_scale_down).max(0);
        *size -= removed;
        max_scale_down -= removed;
    }
    let mut has_written = false;
    for (set, size) in rollout.old.iter().zip(sizes) {
        if size != set.replicas() {
            has_written |= rollout.scale(plane, set, size)?;
        }
    }
    Ok(has_written)
}

/// Makes one step of the strategy `Recreate`: it deletes all old pods before it creates new ones.
/// Returns true if a write was needed.
pub(super) fn recreate(plane: &mut ControlPlane, rollout: &Rollout) -> ApiResult<bool> {
    let mut has_written = false;
    for set in rollout.old.iter().filter(|set| set.replicas() > 0) {
        has_written |= rollout.scale(plane, set, 0)?;
    }
    if has_written || has_running_old_pods(plane, rollout) {
        return Ok(has_written);
    }
    match &rollout.new {
        Some(new) => rollout.scale(plane, new, rollout.desired_replicas()),
        None => Ok(false),
    }
}

/// Returns true if an old ReplicaSet has pods that are not terminal.
pub(super) fn has_running_old_pods(plane: &ControlPlane, rollout: &Rollout) -> bool {
    rollout.old.iter().any(|set| {
        set.replicas() > 0 || plane.cache.pods.managed_by(&set.metadata.uid).iter().any(|pod| !pod.is_terminal())
    })
}

/// Returns true if the desired replicas have changed since the ReplicaSets were last scaled.
pub(super) fn is_scaling_event(rollout: &Rollout) -> bool {
    let desired = rollout.desired_replicas().to_string();
    rollout.all_sets().filter(|set| set.replicas() > 0).any(|set| {
        set.metadata.annotations.get(DESIRED_REPLICAS_ANNOTATION).is_some_and(|recorded| recorded != desired)
    })
}

/// Scales the ReplicaSets to a new desired number without advancing the rollout. Returns true if a
/// write was needed.
pub(super) fn scale_sets(plane: &mut ControlPlane, rollout: &Rollout) -> ApiResult<bool> {
    let desired = rollout.desired_replicas();
    let active: Vec<Arc<Workload>> = rollout.all_sets().filter(|set| set.replicas() > 0).cloned().collect();
    if active.len() <= 1 {
        // At most one ReplicaSet has pods. If none has, scale the newest.
        let target = active.first().or(rollout.new.as_ref()).or(rollout.old.last());
        return target.map_or(Ok(false), |set| rollout.scale(plane, set, desired));
    }
    let saturated = rollout.new.as_ref().is_some_and(|new| {
        new.replicas() == desired
            && new.metadata.annotations.get(DESIRED_REPLICAS_ANNOTATION) == Some(desired.to_string().as_str())
            && new.status_count("availableReplicas") == desired
    });
    let mut has_written = false;
    if saturated {
        for set in rollout.old.iter().filter(|set| set.replicas() > 0) {
            has_written |= rollout.scale(plane, set, 0)?;
        }
        return Ok(has_written);
    }
    if rollout.deployment.spec.strategy.kind == "Recreate" {
        return Ok(false);
    }
    for (set, size) in proportional_sizes(rollout, active) {
        has_written |= rollout.scale(plane, &set, size)?;
    }
    Ok(has_written)
}

/// Distributes a new total over the ReplicaSets in proportion to their sizes. The remainder goes to
/// the largest.
fn proportional_sizes(rollout: &Rollout, mut active: Vec<Arc<Workload>>) -> Vec<(Arc<Workload>, i64)> {
    let (surge, _) = rollout.max_surge_and_unavailable();
    let desired = rollout.desired_replicas();
    let allowed = if desired > 0 { desired + surge } else { 0 };
    let to_add = allowed - total(active.iter());
    if to_add > 0 {
        active.sort_by_key(|set| (Reverse(set.replicas()), Reverse(set.metadata.creation_timestamp)));
    } else {
        active.sort_by_key(|set| (Reverse(set.replicas()), set.metadata.creation_timestamp));
    }
    let mut added = 0;
    let mut sizes: Vec<(Arc<Workload>, i64)> = active
        .into_iter()
        .map(|set| {
            let change = if to_add == 0 { 0 } else { proportional_change(rollout, &set, desired, surge) };
            let remaining = to_add - added;
            let change = if to_add > 0 { change.min(remaining) } else { change.max(remaining) };
            added += change;
            let size = set.replicas() + change;
            (set, size)
        })
        .collect();
    if let Some((_, first)) = sizes.first_mut() {
        *first = (*first + to_add - added).max(0);
    }
    sizes
}

/// Returns the change of a ReplicaSet's size that is proportional to the change of the total.
fn proportional_change(rollout: &Rollout, set: &Workload, desired: i64, surge: i64) -> i64 {
    if desired == 0 {
        return -set.replicas();
    }
    let recorded_total =
        set.metadata.annotations.get(MAX_REPLICAS_ANNOTATION).and_then(|maximum| maximum.parse::<i64>().ok());
    let previous_total = recorded_total.unwrap_or_else(|| rollout.deployment.status_count("replicas")).max(1);
    // Rounded to the nearest integer.
    (set.replicas() * (desired + surge) * 2 + previous_total).div_euclid(2 * previous_total) - set.replicas()
}
