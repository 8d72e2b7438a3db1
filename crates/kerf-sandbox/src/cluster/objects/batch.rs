//! Jobs and CronJobs, reduced to the fields that their controllers read.

use jiff::Timestamp;
use serde_json::Value;
use smol_str::SmolStr;

use super::Meta;

#[derive(Clone, Debug, Default, serde::Deserialize)]
#[serde(default)]
pub(crate) struct Job {
    pub(crate) metadata: Meta,
    pub(crate) spec: JobSpec,
    pub(crate) status: JobStatus,
}

#[derive(Clone, Debug, Default, serde::Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct JobSpec {
    pub(crate) parallelism: Option<i64>,
    pub(crate) completions: Option<i64>,
    pub(crate) backoff_limit: Option<i64>,
    pub(crate) active_deadline_seconds: Option<i64>,
    pub(crate) ttl_seconds_after_finished: Option<i64>,
    pub(crate) suspend: bool,
    pub(crate) completion_mode: SmolStr,
    pub(crate) selector: Option<Value>,
    pub(crate) template: Value,
}

#[derive(Clone, Debug, Default, serde::Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct JobStatus {
    pub(crate) succeeded: i64,
    pub(crate) failed: i64,
    pub(crate) completed_indexes: SmolStr,
    pub(crate) start_time: Option<Timestamp>,
    pub(crate) completion_time: Option<Timestamp>,
    pub(crate) conditions: Vec<super::Condition>,
}

impl Job {
    /// Returns `Complete` or `Failed` and the time of that transition, or `None` if the Job has not
    /// finished.
    pub(crate) fn finish_condition(&self) -> Option<(&str, Option<Timestamp>)> {
        let is_finished = |condition: &&super::Condition| {
            condition.status == "True" && matches!(condition.kind.as_str(), "Complete" | "Failed")
        };
        let condition = self.status.conditions.iter().find(is_finished)?;
        Some((condition.kind.as_str(), condition.last_transition_time))
    }
}

#[derive(Clone, Debug, Default, serde::Deserialize)]
#[serde(default)]
pub(crate) struct CronJob {
    pub(crate) metadata: Meta,
    pub(crate) spec: CronJobSpec,
    pub(crate) status: CronJobStatus,
}

#[derive(Clone, Debug, Default, serde::Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct CronJobSpec {
    pub(crate) schedule: SmolStr,
    pub(crate) time_zone: SmolStr,
    pub(crate) concurrency_policy: SmolStr,
    pub(crate) suspend: bool,
    pub(crate) starting_deadline_seconds: Option<i64>,
    pub(crate) successful_jobs_history_limit: Option<i64>,
    pub(crate) failed_jobs_history_limit: Option<i64>,
    pub(crate) job_template: Value,
}

#[derive(Clone, Debug, Default, serde::Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct CronJobStatus {
    pub(crate) active: Vec<Value>,
    pub(crate) last_schedule_time: Option<Timestamp>,
    pub(crate) last_successful_time: Option<Timestamp>,
}
