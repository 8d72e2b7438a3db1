//! How many pods each ReplicaSet may have while a Deployment moves from one template to another: never more than wanted plus the
//! surge, never fewer available than wanted less what may be unavailable.

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
    sets.map(|set| set.counted("availableReplicas")).sum()
}

/// The size that the new ReplicaSet may have now, if it has `current` pods.
pub(super) fn new_size(rollout: &Rollout, current: i64) -> i64 {
    if rollout.deployment.spec.strategy.kind == "Recreate" {
        return rollout.wanted();
    }
    let (surge, _) = rollout.bounds();
    let room = rollout.wanted() + surge - total(rollout.all());
    if room <= 0 { current } else { current + room.min(rollout.wanted() - current) }
}

/// One step of a rolling update. Returns whether anything had to be written.
pub(super) fn roll(plane: &mut ControlPlane, rollout: &Rollout) -> ApiResult<bool> {
    let Some(new) = &rollout.new else { return Ok(false) };
    let wanted = rollout.wanted();
    let size = if new.replicas() >= wanted { wanted } else { new_size(rollout, new.replicas()) };
    if rollout.scale(plane, new, size)? {
        return Ok(true);
    }
    shrink_old(plane, rollout, new)
}

/// Takes pods from the old ReplicaSets: first those that are not available anyway, then as many as may be missed.
fn shrink_old(plane: &mut ControlPlane, rollout: &Rollout, new: &Workload) -> ApiResult<bool> {
    let (_, unavailable) = rollout.bounds();
    let least = rollout.wanted() - unavailable;
    let not_yet = new.replicas() - new.counted("availableReplicas");
    let spare = total(rollout.all()) - least - not_yet;
    if total(rollout.old.iter()) == 0 || spare <= 0 {
        return Ok(false);
    }
    let mut sizes: Vec<i64> = rollout.old.iter().map(|set| set.replicas()).collect();
    let mut left = spare;
    for (size, set) in sizes.iter_mut().zip(&rollout.old) {
        let unhealthy = (*size - set.counted("availableReplicas")).max(0).min(left);
        *size -= unhealthy;
        left -= unhealthy;
    }
    let mut spare = available(rollout.all()) - least;
    for size in &mut sizes {
        let fewer = (*size).min(spare).max(0);
        *size -= fewer;
        spare -= fewer;
    }
    let mut moved = false;
    for (set, size) in rollout.old.iter().zip(sizes) {
        if size != set.replicas() {
            moved |= rollout.scale(plane, set, size)?;
        }
    }
    Ok(moved)
}

/// One step of a recreation: first the old pods go, all of them, then the new ones come.
pub(super) fn recreate(plane: &mut ControlPlane, rollout: &Rollout) -> ApiResult<bool> {
    let mut moved = false;
    for set in rollout.old.iter().filter(|set| set.replicas() > 0) {
        moved |= rollout.scale(plane, set, 0)?;
    }
    if moved || old_pods_run(plane, rollout) {
        return Ok(moved);
    }
    match &rollout.new {
        Some(new) => rollout.scale(plane, new, rollout.wanted()),
        None => Ok(false),
    }
}

/// Whether pods of old ReplicaSets have not ended yet.
pub(super) fn old_pods_run(plane: &ControlPlane, rollout: &Rollout) -> bool {
    rollout.old.iter().any(|set| {
        set.replicas() > 0 || plane.world.pods.managed_by(&set.metadata.uid).iter().any(|pod| !pod.has_ended())
    })
}

/// Whether the wanted number has changed since the ReplicaSets were sized.
pub(super) fn is_resized(rollout: &Rollout) -> bool {
    let wanted = rollout.wanted().to_string();
    rollout
        .all()
        .filter(|set| set.replicas() > 0)
        .any(|set| set.metadata.annotations.get(DESIRED_REPLICAS_ANNOTATION).is_some_and(|desired| desired != wanted))
}

/// Brings the ReplicaSets to a new wanted number without moving the rollout on. Returns whether anything had to be written.
pub(super) fn resize(plane: &mut ControlPlane, rollout: &Rollout) -> ApiResult<bool> {
    let wanted = rollout.wanted();
    let active: Vec<Arc<Workload>> = rollout.all().filter(|set| set.replicas() > 0).cloned().collect();
    if active.len() <= 1 {
        // One set, or none: then the newest.
        let only = active.first().or(rollout.new.as_ref()).or(rollout.old.last());
        return only.map_or(Ok(false), |set| rollout.scale(plane, set, wanted));
    }
    let saturated = rollout.new.as_ref().is_some_and(|new| {
        new.replicas() == wanted
            && new.metadata.annotations.get(DESIRED_REPLICAS_ANNOTATION) == Some(wanted.to_string().as_str())
            && new.counted("availableReplicas") == wanted
    });
    let mut moved = false;
    if saturated {
        for set in rollout.old.iter().filter(|set| set.replicas() > 0) {
            moved |= rollout.scale(plane, set, 0)?;
        }
        return Ok(moved);
    }
    if rollout.deployment.spec.strategy.kind == "Recreate" {
        return Ok(false);
    }
    for (set, size) in proportional(rollout, active) {
        moved |= rollout.scale(plane, &set, size)?;
    }
    Ok(moved)
}

/// Shares a new total among the ReplicaSets in proportion to what they have; what is left over goes to the largest.
fn proportional(rollout: &Rollout, mut active: Vec<Arc<Workload>>) -> Vec<(Arc<Workload>, i64)> {
    let (surge, _) = rollout.bounds();
    let wanted = rollout.wanted();
    let allowed = if wanted > 0 { wanted + surge } else { 0 };
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
            let own = if to_add == 0 { 0 } else { fraction(rollout, &set, wanted, surge) };
            let rest = to_add - added;
            let own = if to_add > 0 { own.min(rest) } else { own.max(rest) };
            added += own;
            let size = set.replicas() + own;
            (set, size)
        })
        .collect();
    if let Some((_, first)) = sizes.first_mut() {
        *first = (*first + to_add - added).max(0);
    }
    sizes
}

/// What a ReplicaSet's share of a new total is, as a change of its size.
fn fraction(rollout: &Rollout, set: &Workload, wanted: i64, surge: i64) -> i64 {
    if wanted == 0 {
        return -set.replicas();
    }
    let remembered =
        set.metadata.annotations.get(MAX_REPLICAS_ANNOTATION).and_then(|maximum| maximum.parse::<i64>().ok());
    let before = remembered.unwrap_or_else(|| rollout.deployment.counted("replicas")).max(1);
    // Rounded to the nearest.
    (set.replicas() * (wanted + surge) * 2 + before).div_euclid(2 * before) - set.replicas()
}
