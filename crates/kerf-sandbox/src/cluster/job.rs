//! The Job controller: runs pods until enough of them have succeeded. A finalizer keeps each pod
//! until its result is counted, so that a pod that is deleted with its node is not run again
//! without need.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};

use super::control_plane::{ControlPlane, RunAgain};
use super::events::{EventComponent, EventType};
use super::kind::ControlPlaneKind;
use super::objects::{AnyObject, Job, Pod};
use super::pods::{MAX_PODS_PER_PASS, from_template, ignore_not_found_or_conflict};
use crate::api::object::{self, rfc3339_seconds};
use crate::api::selector::LabelSelector;
use crate::api::status::ApiResult;
use crate::api::storage::ObjectKey;

const EVENT_COMPONENT: EventComponent = EventComponent::Controller("job-controller");
/// Finalizer that keeps a pod until its result is counted.
const TRACKING_FINALIZER: &str = "batch.kubernetes.io/job-tracking";
const COMPLETION_INDEX_ANNOTATION: &str = "batch.kubernetes.io/job-completion-index";
/// First and longest delay after a failed pod.
const JOB_INITIAL_BACKOFF: Duration = Duration::from_secs(10);
const JOB_MAX_BACKOFF: Duration = Duration::from_mins(10);

/// Counts the finished pods, and creates missing pods.
pub(crate) fn sync(plane: &mut ControlPlane, key: &ObjectKey) -> ApiResult<RunAgain> {
    let Some(job) = plane.cache.jobs.get(key) else { return Ok(RunAgain::WhenChanged) };
    let selector = LabelSelector::from_object(job.spec.selector.as_ref());
    let pods = plane.claim_pods(ControlPlaneKind::Job, &job.metadata, selector.as_ref())?;
    if let Some((_, at)) = job.finish_condition() {
        remove_tracking_finalizers(plane, &pods)?;
        return delete_if_expired(plane, key, &job, at);
    }
    if job.metadata.is_deleting() {
        remove_tracking_finalizers(plane, &pods)?;
        return Ok(RunAgain::WhenChanged);
    }
    let counts = JobCounts::new(&job, &pods);
    let active: Vec<Arc<Pod>> = pods.iter().filter(|pod| pod.is_active()).cloned().collect();
    let state = job_state(plane, &job, &counts, &active);
    let (running, mut run_again) = match &state {
        JobState::Finished { .. } | JobState::Suspended => {
            for pod in &active {
                plane.controller_client.delete(ControlPlaneKind::Pod, &pod.metadata.key(), &pod.metadata.uid)?;
            }
            (0, RunAgain::WhenChanged)
        }
        JobState::Running => manage_pods(plane, &job, &counts, active, &pods)?,
    };
    write_status(plane, key, &job, &counts, running, &state)?;
    // Pods whose results are in the written status may be deleted.
    remove_tracking_finalizers(plane, &counts.newly_counted)?;
    if let (Some(limit), Some(started_at)) = (job.spec.active_deadline_seconds, job.status.start_time)
        && state == JobState::Running
    {
        let remaining = limit - plane.now().duration_since(started_at).as_secs();
        let remaining = Duration::from_secs(u64::try_from(remaining).unwrap_or_default());
        run_again = run_again.or_after(remaining);
    }
    Ok(run_again)
}

/// Results of a Job's pods so far.
struct JobCounts {
    succeeded: i64,
    failed: i64,
    /// Pods whose results this pass counts for the first time.
    newly_counted: Vec<Arc<Pod>>,
    /// Completed indexes of an indexed Job.
    completed_indexes: BTreeSet<i64>,
}

impl JobCounts {
    fn new(job: &Job, pods: &[Arc<Pod>]) -> Self {
        let mut counts = Self {
            succeeded: job.status.succeeded,
            failed: job.status.failed,
            newly_counted: Vec::new(),
            completed_indexes: parse_indexes(&job.status.completed_indexes),
        };
        let tracked = |pod: &&Arc<Pod>| pod.metadata.finalizers.iter().any(|finalizer| finalizer == TRACKING_FINALIZER);
        for pod in pods.iter().filter(tracked) {
            if pod.status.phase == "Succeeded" {
                if is_indexed(job) {
                    counts.completed_indexes.extend(completion_index(pod));
                }
                counts.succeeded += 1;
            } else if pod.status.phase == "Failed" || (pod.metadata.is_deleting() && pod.spec.node_name.is_empty()) {
                counts.failed += 1;
            } else {
                continue;
            }
            counts.newly_counted.push(pod.clone());
        }
        if is_indexed(job) {
            counts.succeeded = counts.completed_indexes.len() as i64;
        }
        counts
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum JobState {
    Running,
    Suspended,
    Finished { kind: &'static str, reason: &'static str, message: String },
}

fn job_state(plane: &ControlPlane, job: &Job, counts: &JobCounts, active: &[Arc<Pod>]) -> JobState {
    let finished = |kind, reason, message: &str| JobState::Finished { kind, reason, message: message.into() };
    let restarts: i64 =
        active.iter().flat_map(|pod| &pod.status.container_statuses).map(|status| status.restart_count).sum();
    if counts.failed + restarts > job.spec.backoff_limit.unwrap_or(6) {
        return finished("Failed", "BackoffLimitExceeded", "Job has reached the specified backoff limit");
    }
    if let (Some(limit), Some(started_at)) = (job.spec.active_deadline_seconds, job.status.start_time)
        && plane.now().duration_since(started_at).as_secs() >= limit
    {
        return finished("Failed", "DeadlineExceeded", "Job was active longer than specified deadline");
    }
    let complete = match job.spec.completions {
        Some(desired) => counts.succeeded >= desired,
        None => counts.succeeded > 0 && active.is_empty(),
    };
    if complete {
        return finished("Complete", "CompletionsReached", "Reached expected number of succeeded pods");
    }
    if job.spec.suspend { JobState::Suspended } else { JobState::Running }
}

/// Creates or deletes pods until the desired number runs. Returns the number of running pods after
/// that, and when to run again.
fn manage_pods(
    plane: &mut ControlPlane,
    job: &Job,
    counts: &JobCounts,
    mut active: Vec<Arc<Pod>>,
    pods: &[Arc<Pod>],
) -> ApiResult<(i64, RunAgain)> {
    let parallelism = job.spec.parallelism.unwrap_or(1);
    let desired = match job.spec.completions {
        Some(completions) => parallelism.min(completions - counts.succeeded).max(0),
        // Without `completions`, the first success ends the creation of new pods.
        None if counts.succeeded > 0 => (active.len() as i64).min(parallelism),
        None => parallelism,
    };
    let running = active.len() as i64;
    if running > desired {
        super::pods::sort_by_deletion_order(&mut active);
        for pod in active.iter().take((running - desired) as usize) {
            plane.controller_client.delete(ControlPlaneKind::Pod, &pod.metadata.key(), &pod.metadata.uid)?;
        }
        return Ok((desired, RunAgain::WhenChanged));
    }
    // Pods that are still terminating count until they have ended.
    let terminating = pods.iter().filter(|pod| pod.metadata.is_deleting() && !pod.is_terminal()).count() as i64;
    let missing = desired - running - terminating;
    if missing <= 0 {
        return Ok((running, RunAgain::WhenChanged));
    }
    if let Some(backoff) = remaining_backoff(plane, counts, pods) {
        return Ok((running, RunAgain::After(backoff)));
    }
    let mut free_indexes = free_indexes(job, counts, &active);
    let mut created = 0;
    for _ in 0..missing.min(MAX_PODS_PER_PASS as i64) {
        let index = if is_indexed(job) { free_indexes.pop_first() } else { None };
        if is_indexed(job) && index.is_none() {
            break;
        }
        create(plane, job, index)?;
        created += 1;
    }
    Ok((running + created, RunAgain::WhenChanged))
}

/// Returns the remaining delay before the next pod after failures, or `None` if there is none.
fn remaining_backoff(plane: &ControlPlane, counts: &JobCounts, pods: &[Arc<Pod>]) -> Option<Duration> {
    if counts.failed == 0 {
        return None;
    }
    let last_failure = pods
        .iter()
        .filter(|pod| pod.status.phase == "Failed")
        .filter_map(|pod| super::objects::find_condition(&pod.status.conditions, "Ready")?.last_transition_time)
        .max()?;
    let doublings = u32::try_from(counts.failed - 1).unwrap_or(u32::MAX).min(10);
    let backoff = JOB_INITIAL_BACKOFF.saturating_mul(1 << doublings).min(JOB_MAX_BACKOFF);
    let elapsed = plane.now().duration_since(last_failure).unsigned_abs();
    backoff.checked_sub(elapsed).filter(|remaining| !remaining.is_zero())
}

fn is_indexed(job: &Job) -> bool {
    job.spec.completion_mode == "Indexed"
}

fn completion_index(pod: &Pod) -> Option<i64> {
    pod.metadata.annotations.get(COMPLETION_INDEX_ANNOTATION)?.parse().ok()
}

fn free_indexes(job: &Job, counts: &JobCounts, active: &[Arc<Pod>]) -> BTreeSet<i64> {
    let used: BTreeSet<i64> = active.iter().filter_map(|pod| completion_index(pod)).collect();
    (0..job.spec.completions.unwrap_or_default().min(100_000))
        .filter(|index| !used.contains(index) && !counts.completed_indexes.contains(index))
        .collect()
}

fn create(plane: &mut ControlPlane, job: &Job, index: Option<i64>) -> ApiResult<()> {
    let mut pod = from_template(&job.spec.template, (ControlPlaneKind::Job, &job.metadata));
    object::set_meta(&mut pod, "finalizers", json!([TRACKING_FINALIZER]));
    if let Some(index) = index {
        object::ensure_object(&mut pod, &["metadata", "annotations"])
            .insert(COMPLETION_INDEX_ANNOTATION.into(), index.to_string().into());
        object::ensure_object(&mut pod, &["metadata", "labels"])
            .insert(COMPLETION_INDEX_ANNOTATION.into(), index.to_string().into());
        object::set_meta(&mut pod, "generateName", format!("{}-{index}-", job.metadata.name));
        object::ensure_object(&mut pod, &["spec"])
            .insert("hostname".into(), format!("{}-{index}", job.metadata.name).into());
    }
    match plane.controller_client.create(ControlPlaneKind::Pod, &job.metadata.namespace, &pod) {
        Ok(created) => {
            let created: AnyObject = serde_json::from_slice(&created).unwrap_or_default();
            let message = format!("Created pod: {}", created.metadata.name);
            plane.publish_event(
                EVENT_COMPONENT,
                (ControlPlaneKind::Job, &job.metadata),
                EventType::Normal,
                "SuccessfulCreate",
                message,
            );
            Ok(())
        }
        Err(error) => {
            let message = format!("Error creating: {}", error.message());
            plane.publish_event(
                EVENT_COMPONENT,
                (ControlPlaneKind::Job, &job.metadata),
                EventType::Warning,
                "FailedCreate",
                message,
            );
            Err(error)
        }
    }
}

/// Removes the tracking finalizer from these pods.
fn remove_tracking_finalizers(plane: &ControlPlane, pods: &[Arc<Pod>]) -> ApiResult<()> {
    for pod in pods {
        if pod.metadata.finalizers.iter().any(|finalizer| finalizer == TRACKING_FINALIZER) {
            let remaining = pod.metadata.finalizers_without(TRACKING_FINALIZER);
            let patch = json!({"metadata": {"uid": pod.metadata.uid, "finalizers": remaining}});
            ignore_not_found_or_conflict(
                plane.controller_client.merge_patch(&ControlPlaneKind::Pod.path(&pod.metadata.key()), &patch),
            )?;
        }
    }
    Ok(())
}

fn write_status(
    plane: &mut ControlPlane,
    key: &ObjectKey,
    job: &Job,
    counts: &JobCounts,
    running: i64,
    state: &JobState,
) -> ApiResult<()> {
    let now = rfc3339_seconds(plane.now());
    let ready =
        plane.cache.pods.managed_by(&job.metadata.uid).iter().filter(|pod| pod.is_active() && pod.is_ready()).count();
    let mut status = json!({
        "active": running, "ready": ready, "succeeded": counts.succeeded, "failed": counts.failed,
        "uncountedTerminatedPods": {}, "terminating": 0,
    });
    if job.status.start_time.is_none() && *state != JobState::Suspended {
        status["startTime"] = now.as_str().into();
    }
    if is_indexed(job) {
        status["completedIndexes"] = print_indexes(&counts.completed_indexes).into();
    }
    let condition = |kind: &str, status: &str, reason: &str, message: &str| {
        json!({
            "type": kind, "status": status, "reason": reason, "message": message, "lastProbeTime": now, "lastTransitionTime": now,
        })
    };
    let was_suspended =
        super::objects::find_condition(&job.status.conditions, "Suspended").map(|condition| condition.status == "True");
    match state {
        JobState::Finished { kind, reason, message } => {
            let criterion = if *kind == "Complete" { "SuccessCriteriaMet" } else { "FailureTarget" };
            status["conditions"] =
                json!([condition(criterion, "True", reason, message), condition(kind, "True", reason, message)]);
            if *kind == "Complete" {
                status["completionTime"] = now.as_str().into();
                plane.publish_event(
                    EVENT_COMPONENT,
                    (ControlPlaneKind::Job, &job.metadata),
                    EventType::Normal,
                    "Completed",
                    "Job completed".into(),
                );
            } else {
                plane.publish_event(
                    EVENT_COMPONENT,
                    (ControlPlaneKind::Job, &job.metadata),
                    EventType::Warning,
                    reason,
                    message.clone(),
                );
            }
        }
        JobState::Suspended if was_suspended != Some(true) => {
            status["conditions"] = json!([condition("Suspended", "True", "JobSuspended", "Job suspended")]);
            status["startTime"] = Value::Null;
        }
        JobState::Running if was_suspended == Some(true) => {
            status["conditions"] = json!([condition("Suspended", "False", "JobResumed", "Job resumed")]);
        }
        JobState::Suspended | JobState::Running => {}
    }
    let written = plane.controller_client.merge_patch_status(ControlPlaneKind::Job, key, &status);
    ignore_not_found_or_conflict(written)
}

/// Deletes a finished Job once `ttlSecondsAfterFinished` has passed.
fn delete_if_expired(
    plane: &ControlPlane,
    key: &ObjectKey,
    job: &Job,
    finished_at: Option<jiff::Timestamp>,
) -> ApiResult<RunAgain> {
    let (Some(ttl), Some(finished_at)) = (job.spec.ttl_seconds_after_finished, finished_at) else {
        return Ok(RunAgain::WhenChanged);
    };
    let remaining = ttl - plane.now().duration_since(finished_at).as_secs();
    if remaining > 0 {
        return Ok(RunAgain::After(Duration::from_secs(remaining.unsigned_abs())));
    }
    if !job.metadata.is_deleting() {
        plane.controller_client.delete_with_propagation(
            &ControlPlaneKind::Job.path(key),
            &job.metadata.uid,
            super::component_client::Propagation::Foreground,
        )?;
    }
    Ok(RunAgain::WhenChanged)
}

/// Parses indexes such as `0-2,5`.
fn parse_indexes(text: &str) -> BTreeSet<i64> {
    let mut indexes = BTreeSet::new();
    for part in text.split(',').filter(|part| !part.is_empty()) {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        if let (Ok(first), Ok(last)) = (first.parse::<i64>(), last.parse::<i64>()) {
            indexes.extend(first..=last.min(first + 100_000));
        }
    }
    indexes
}

/// Formats indexes as `0-2,5`.
fn print_indexes(indexes: &BTreeSet<i64>) -> String {
    let mut ranges: Vec<(i64, i64)> = Vec::new();
    for index in indexes {
        match ranges.last_mut() {
            Some((_, last)) if *last + 1 == *index => *last = *index,
            _ => ranges.push((*index, *index)),
        }
    }
    let print = |(first, last): &(i64, i64)| if first == last { first.to_string() } else { format!("{first}-{last}") };
    ranges.iter().map(print).collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn indexes_are_read_and_written_as_ranges() {
        for text in ["", "0", "0-2,5", "1,3-4,9"] {
            assert_eq!(print_indexes(&parse_indexes(text)), text);
        }
        assert_eq!(print_indexes(&parse_indexes("x,2-1,3")), "3");
    }
}
