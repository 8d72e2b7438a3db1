//! The CronJob controller: creates a Job at each scheduled time.

use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use kerf_api::schedule::Schedule;
use serde_json::{Value, json};

use super::component_client::Propagation;
use super::control_plane::{ControlPlane, RunAgain};
use super::events::{EventComponent, EventType};
use super::kind::ControlPlaneKind;
use super::objects::{CronJob, Job};
use super::pods::{controller_reference, ignore_not_found_or_conflict};
use crate::api::object::{self, rfc3339_seconds};
use crate::api::status::ApiResult;
use crate::api::storage::ObjectKey;

const EVENT_COMPONENT: EventComponent = EventComponent::Controller("cronjob-controller");
/// Shortest time between two runs of a schedule.
const MIN_RUN_INTERVAL: SignedDuration = SignedDuration::from_mins(1);

/// Creates the Job that is due, and deletes old Jobs.
pub(crate) fn sync(plane: &mut ControlPlane, key: &ObjectKey) -> ApiResult<RunAgain> {
    let Some(cron) = plane.cache.cron_jobs.get(key) else { return Ok(RunAgain::WhenChanged) };
    if cron.metadata.is_deleting() {
        return Ok(RunAgain::WhenChanged);
    }
    let mut jobs = plane.cache.jobs.managed_by(&cron.metadata.uid);
    jobs.sort_by_key(|job| (job.metadata.creation_timestamp, job.metadata.name.clone()));
    delete_old_jobs(plane, &cron, &jobs)?;
    let (started, run_again) =
        if cron.spec.suspend { (None, RunAgain::WhenChanged) } else { start_due_job(plane, &cron, &jobs)? };
    write_status(plane, key, &cron, &jobs, started)?;
    Ok(run_again)
}

/// Returns the schedule in UTC. Publishes a warning and returns `None` if the time zone or the
/// schedule is not supported.
fn schedule(plane: &mut ControlPlane, cron: &CronJob) -> Option<Schedule> {
    if !["", "UTC", "Etc/UTC", "Zulu"].contains(&cron.spec.time_zone.as_str()) {
        let message = format!("invalid timeZone: {:?}: the sandbox supports only UTC", cron.spec.time_zone);
        plane.publish_event(
            EVENT_COMPONENT,
            (ControlPlaneKind::CronJob, &cron.metadata),
            EventType::Warning,
            "UnknownTimeZone",
            message,
        );
        return None;
    }
    match cron.spec.schedule.parse() {
        Ok(schedule) => Some(schedule),
        Err(problem) => {
            let message = format!("unparseable schedule: {:?}: {problem}", cron.spec.schedule);
            plane.publish_event(
                EVENT_COMPONENT,
                (ControlPlaneKind::CronJob, &cron.metadata),
                EventType::Warning,
                "UnparseableSchedule",
                message,
            );
            None
        }
    }
}

/// Creates the Job of the latest scheduled time that has passed. Returns that time, if a Job was
/// created, and when to run again.
fn start_due_job(
    plane: &mut ControlPlane,
    cron: &CronJob,
    jobs: &[Arc<Job>],
) -> ApiResult<(Option<Timestamp>, RunAgain)> {
    let Some(schedule) = schedule(plane, cron) else { return Ok((None, RunAgain::WhenChanged)) };
    let now = plane.now();
    let mut since = cron.status.last_schedule_time.or(cron.metadata.creation_timestamp).unwrap_or(now);
    if let Some(limit) = cron.spec.starting_deadline_seconds {
        let earliest = now.checked_sub(SignedDuration::from_secs(limit)).unwrap_or(since);
        since = since.max(earliest);
    }
    let due = latest_run(&schedule, since, now);
    let next = schedule
        .next_after(now)
        .map_or(RunAgain::WhenChanged, |next| RunAgain::After(next.duration_since(now).unsigned_abs()));
    let Some(due) = due else { return Ok((None, next)) };
    let active: Vec<&Arc<Job>> =
        jobs.iter().filter(|job| job.finish_condition().is_none() && !job.metadata.is_deleting()).collect();
    match cron.spec.concurrency_policy.as_str() {
        "Forbid" if !active.is_empty() => {
            let message = "Not starting job because prior execution is running and concurrency policy is Forbid";
            plane.publish_event(
                EVENT_COMPONENT,
                (ControlPlaneKind::CronJob, &cron.metadata),
                EventType::Normal,
                "JobAlreadyActive",
                message.into(),
            );
            return Ok((None, next));
        }
        "Replace" => {
            for job in active {
                let path = ControlPlaneKind::Job.path(&job.metadata.key());
                plane.controller_client.delete_with_propagation(&path, &job.metadata.uid, Propagation::Background)?;
            }
        }
        _ => {}
    }
    create(plane, cron, due)?;
    Ok((Some(due), next))
}

/// Returns the latest scheduled time after `since` that is not after `now`, or `None` if there is
/// none. Halves the interval at each step, so that its cost does not grow with the number of missed
/// runs.
fn latest_run(schedule: &Schedule, since: Timestamp, now: Timestamp) -> Option<Timestamp> {
    let mut latest = schedule.next_after(since).filter(|time| *time <= now)?;
    // No run is after `end` and not after `now`.
    let mut end = now;
    while end.duration_since(latest) >= MIN_RUN_INTERVAL {
        let middle = latest.checked_add(end.duration_since(latest) / 2).ok()?;
        match schedule.next_after(middle) {
            Some(time) if time <= end => latest = time,
            Some(_) | None => end = middle,
        }
    }
    Some(latest)
}

fn create(plane: &mut ControlPlane, cron: &CronJob, due: Timestamp) -> ApiResult<()> {
    // The name depends on the scheduled time, so that a time cannot get two Jobs.
    let name = format!("{}-{}", cron.metadata.name, due.as_second() / 60);
    let mut job = json!({
        "metadata": {"name": name, "ownerReferences": [controller_reference(ControlPlaneKind::CronJob, &cron.metadata)]},
        "spec": cron.spec.job_template.get("spec").cloned().unwrap_or_default(),
    });
    for field in ["labels", "annotations"] {
        if let Some(value) = object::at(&cron.spec.job_template, &["metadata", field]) {
            object::set_meta(&mut job, field, value.clone());
        }
    }
    object::ensure_object(&mut job, &["metadata", "annotations"])
        .insert("batch.kubernetes.io/cronjob-scheduled-timestamp".into(), rfc3339_seconds(due).into());
    match plane.controller_client.create(ControlPlaneKind::Job, &cron.metadata.namespace, &job) {
        Ok(_) => {
            let message = format!("Created job {name}");
            plane.publish_event(
                EVENT_COMPONENT,
                (ControlPlaneKind::CronJob, &cron.metadata),
                EventType::Normal,
                "SuccessfulCreate",
                message,
            );
            Ok(())
        }
        Err(error) if error.code() == 409 => Ok(()),
        Err(error) => Err(error),
    }
}

/// Deletes the oldest finished Jobs beyond the history limits.
fn delete_old_jobs(plane: &ControlPlane, cron: &CronJob, jobs: &[Arc<Job>]) -> ApiResult<()> {
    for (kind, limit) in
        [("Complete", cron.spec.successful_jobs_history_limit), ("Failed", cron.spec.failed_jobs_history_limit)]
    {
        let Some(limit) = limit.and_then(|limit| usize::try_from(limit).ok()) else { continue };
        let finished: Vec<&Arc<Job>> = jobs
            .iter()
            .filter(|job| {
                job.finish_condition().is_some_and(|(condition, _)| condition == kind) && !job.metadata.is_deleting()
            })
            .collect();
        for job in finished.iter().take(finished.len().saturating_sub(limit)) {
            let path = ControlPlaneKind::Job.path(&job.metadata.key());
            plane.controller_client.delete_with_propagation(&path, &job.metadata.uid, Propagation::Background)?;
        }
    }
    Ok(())
}

fn write_status(
    plane: &ControlPlane,
    key: &ObjectKey,
    cron: &CronJob,
    jobs: &[Arc<Job>],
    started: Option<Timestamp>,
) -> ApiResult<()> {
    let active: Vec<Value> = jobs
        .iter()
        .filter(|job| job.finish_condition().is_none())
        .map(|job| {
            json!({
                "apiVersion": "batch/v1", "kind": "Job", "name": job.metadata.name, "namespace": job.metadata.namespace,
                "uid": job.metadata.uid,
            })
        })
        .collect();
    let names = |active: &[Value]| active.iter().map(|job| job["name"].clone()).collect::<Vec<_>>();
    let succeeded =
        jobs.iter().filter_map(|job| job.status.completion_time).max().max(cron.status.last_successful_time);
    let is_unchanged = names(&active) == names(&cron.status.active)
        && started.is_none()
        && succeeded == cron.status.last_successful_time;
    if is_unchanged {
        return Ok(());
    }
    let mut status = json!({"active": if active.is_empty() { Value::Null } else { active.into() }});
    if let Some(at) = started {
        status["lastScheduleTime"] = rfc3339_seconds(at).into();
    }
    if let Some(at) = succeeded {
        status["lastSuccessfulTime"] = rfc3339_seconds(at).into();
    }
    ignore_not_found_or_conflict(plane.controller_client.merge_patch_status(ControlPlaneKind::CronJob, key, &status))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_latest_run_is_found_among_any_number_of_missed_runs() {
        let at = |text: &str| text.parse::<Timestamp>().unwrap_or_else(|error| panic!("{text}: {error}"));
        for (schedule, since, now, latest) in [
            ("* * * * *", "2026-01-01T00:00:00Z", "2026-01-01T00:00:59Z", None),
            ("* * * * *", "2026-01-01T00:00:00Z", "2026-01-01T00:01:00Z", Some("2026-01-01T00:01:00Z")),
            ("* * * * *", "1996-01-01T00:00:00Z", "2026-01-01T00:01:59Z", Some("2026-01-01T00:01:00Z")),
            // Many runs in one hour of the year, and none for months before `now`.
            ("* 3 1 2 *", "2020-01-01T00:00:00Z", "2026-01-31T00:00:00Z", Some("2025-02-01T03:59:00Z")),
            // The time at which the search starts does not count, the time at which it ends does.
            ("0 0 * * *", "2026-01-01T00:00:00Z", "2026-01-01T12:00:00Z", None),
            ("0 0 * * *", "2026-01-01T00:00:00Z", "2026-01-03T00:00:00Z", Some("2026-01-03T00:00:00Z")),
        ] {
            let parsed: Schedule = schedule.parse().unwrap_or_else(|error| panic!("{schedule}: {error}"));
            assert_eq!(latest_run(&parsed, at(since), at(now)), latest.map(at), "{schedule} from {since} to {now}");
        }
    }
}
