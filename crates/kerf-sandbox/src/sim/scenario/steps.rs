//! The steps of a scenario.

use std::time::Duration;

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value};

use super::super::faults::FaultSetting;
use super::expect::{ConditionExpectation, ExpectStep, LabelExpectation};
use super::read::WORKLOAD_REPLICAS_MAX;
use crate::aws_step::AwsStep;
use crate::durations::{self, DurationText};

/// Actions that happen at one time, or repeatedly.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ScenarioStep {
    /// Time of the step, since the start.
    #[serde(deserialize_with = "durations::required")]
    #[schemars(with = "DurationText")]
    pub at: Duration,
    /// Interval at which the step is repeated until the end, at least 1s. Without it the step
    /// happens once.
    #[serde(default, deserialize_with = "durations::optional")]
    #[schemars(with = "DurationText")]
    pub every: Option<Duration>,
    /// Text to print when the step happens.
    #[serde(default)]
    pub say: Option<String>,
    /// Facts that must hold at this time, before the other actions of the step.
    #[serde(default)]
    pub expect: Option<ExpectStep>,
    /// Objects to apply, as `kubectl apply --server-side` does.
    #[serde(default)]
    pub apply: Vec<Map<String, Value>>,
    /// A workload to scale.
    #[serde(default)]
    pub scale: Option<ScaleStep>,
    /// A workload whose pods are all replaced, as `kubectl rollout restart` does.
    #[serde(default)]
    pub restart: Option<ScenarioTarget>,
    /// An object to patch.
    #[serde(default)]
    pub patch: Option<PatchStep>,
    /// An object whose status is edited, as `kubectl edit --subresource status` does.
    #[serde(default)]
    pub edit_status: Option<EditStatusStep>,
    /// An object to delete.
    #[serde(default)]
    pub delete: Option<ScenarioTarget>,
    /// Changes of the AWS account, with `provider: aws`.
    #[serde(default)]
    pub aws: Option<Box<AwsStep>>,
    /// Instances that the cloud terminates.
    #[serde(default)]
    pub interrupt: Option<InterruptStep>,
    /// Faults that are active from now on, instead of all previous ones.
    #[serde(default)]
    pub faults: Option<Vec<FaultSetting>>,
    /// Kills the leader of the controllers without notice. It starts again after a second.
    #[serde(default)]
    pub kill: Option<ControllerName>,
    /// Stops the leader of the controllers for a while: time passes, and none of its tasks runs.
    #[serde(default)]
    pub stop: Option<StopStep>,
    /// Number of replicas of the controller from now on, which elect a leader.
    #[serde(default)]
    #[schemars(range(max = 10))]
    pub replicas: Option<u32>,
    /// A jump of the cluster's wall clock.
    #[serde(default)]
    pub clock: Option<ClockStep>,
}

/// The process that a step kills.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum ControllerName {
    /// The leader of the controllers, or the first replica if there is no leader.
    Controller,
}

/// A process that is stopped for a while, as by SIGSTOP and SIGCONT.
#[derive(Clone, Copy, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct StopStep {
    /// Time for which the leader of the controllers does not run.
    #[serde(deserialize_with = "durations::required")]
    #[schemars(with = "DurationText")]
    pub controller: Duration,
}

/// A jump of the wall clock of the whole cluster. Timers do not change, nor do the times of steps.
#[derive(Clone, Copy, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ClockStep {
    /// Time by which the clock jumps ahead.
    #[serde(deserialize_with = "durations::required")]
    #[schemars(with = "DurationText")]
    pub jump: Duration,
}

/// Reference to an object of the cluster: by name, or some object of a NodePool.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ScenarioTarget {
    /// Kind of the object, such as `NodePool`.
    pub kind: String,
    /// Name of the object.
    #[serde(default)]
    pub name: Option<String>,
    /// Some Node or NodeClaim of this NodePool, instead of `name`; the seed selects it.
    #[serde(default)]
    pub pool: Option<String>,
    /// Namespace of the object; `default` if it is namespaced and none is given.
    #[serde(default)]
    pub namespace: Option<String>,
}

/// A new number of replicas for a workload.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ScaleStep {
    /// `Deployment`, `StatefulSet` or `ReplicaSet`.
    pub kind: String,
    /// Name of the workload.
    pub name: String,
    /// Namespace of the workload; `default` if none is given.
    #[serde(default)]
    pub namespace: Option<String>,
    /// Desired number of replicas.
    #[schemars(range(max = WORKLOAD_REPLICAS_MAX))]
    pub replicas: u32,
}

/// A patch of an object.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PatchStep {
    /// Kind of the object.
    pub kind: String,
    /// Name of the object.
    #[serde(default)]
    pub name: Option<String>,
    /// Some Node or NodeClaim of this NodePool, instead of `name`; the seed selects it.
    #[serde(default)]
    pub pool: Option<String>,
    /// Namespace of the object; `default` if it is namespaced and none is given.
    #[serde(default)]
    pub namespace: Option<String>,
    /// The change, as a JSON merge patch.
    pub merge: Map<String, Value>,
}

/// A change of an object's status by a user.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct EditStatusStep {
    /// Kind of the object.
    pub kind: String,
    /// Name of the object.
    #[serde(default)]
    pub name: Option<String>,
    /// Some Node or NodeClaim of this NodePool, instead of `name`; the seed selects it.
    #[serde(default)]
    pub pool: Option<String>,
    /// Namespace of the object; `default` if it is namespaced and none is given.
    #[serde(default)]
    pub namespace: Option<String>,
    /// The change of the status, as a JSON merge patch of `status`.
    #[serde(default)]
    pub status: Option<Map<String, Value>>,
    /// The change, as a JSON merge patch of the object, with the single key `status`. It is another
    /// form of `status`.
    #[serde(default)]
    pub merge: Option<Map<String, Value>>,
}

/// Instances that the cloud terminates without notice. Their Nodes are deleted at once.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct InterruptStep {
    /// Restricts the step to instances of this capacity type.
    #[serde(default)]
    pub capacity_type: Option<String>,
    /// Restricts the step to instances of this NodePool.
    #[serde(default)]
    pub pool: Option<String>,
    /// Number of instances, the first by name.
    #[schemars(range(min = 1, max = 10_000))]
    pub count: usize,
}

impl ScenarioStep {
    /// Names of all actions, for messages.
    pub(super) const ACTIONS: &str = "apply, scale, restart, patch, editStatus, delete, interrupt, aws, faults, \
                                      kill, stop, replicas, clock, expect, say";

    /// Returns true if the step contains an action.
    pub(super) fn has_action(&self) -> bool {
        !self.apply.is_empty()
            || self.scale.is_some()
            || self.restart.is_some()
            || self.patch.is_some()
            || self.edit_status.is_some()
            || self.delete.is_some()
            || self.interrupt.is_some()
            || self.aws.is_some()
            || self.faults.is_some()
            || self.kill.is_some()
            || self.stop.is_some()
            || self.replicas.is_some()
            || self.clock.is_some()
            || self.expect.is_some()
            || self.say.is_some()
    }

    /// Returns all targets of the step with the names of their fields.
    pub(super) fn targets(&self) -> Vec<(&'static str, ScenarioTarget)> {
        let restart = self.restart.clone().map(|target| ("restart", target));
        let patch = self.patch.as_ref().map(|step| ("patch", step.target()));
        let edit_status = self.edit_status.as_ref().map(|step| ("editStatus", step.target()));
        let delete = self.delete.clone().map(|target| ("delete", target));
        [restart, patch, edit_status, delete].into_iter().flatten().collect()
    }
}

impl ConditionExpectation {
    pub(in super::super) fn target(&self) -> ScenarioTarget {
        let Self { kind, name, pool, .. } = self.clone();
        ScenarioTarget { kind, name, pool, namespace: None }
    }
}

impl LabelExpectation {
    pub(in super::super) fn target(&self) -> ScenarioTarget {
        let Self { kind, name, pool, labels: _ } = self.clone();
        ScenarioTarget { kind, name, pool, namespace: None }
    }
}

impl PatchStep {
    pub(in super::super) fn target(&self) -> ScenarioTarget {
        let Self { kind, name, pool, namespace, merge: _ } = self.clone();
        ScenarioTarget { kind, name, pool, namespace }
    }
}

impl EditStatusStep {
    pub(in super::super) fn target(&self) -> ScenarioTarget {
        let Self { kind, name, pool, namespace, status: _, merge: _ } = self.clone();
        ScenarioTarget { kind, name, pool, namespace }
    }

    /// Returns the new fields of the status, or `None` if the step has none.
    pub(in super::super) fn status(&self) -> Option<Value> {
        let merged = self.merge.as_ref().and_then(|merge| merge.get("status")).cloned();
        self.status.clone().map(Value::Object).or(merged)
    }
}
