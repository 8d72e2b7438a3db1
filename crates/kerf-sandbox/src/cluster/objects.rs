//! The objects that the control plane acts on, reduced to the fields that it reads. They are
//! decoded from the stored bytes once per change and shared by all controllers.
//!
//! Invariant: decoding ignores unknown fields and never fails on an object that the API server has
//! accepted. A missing field has the API's default.

mod autoscaler;
mod batch;
mod small_kinds;
mod volumes;

use std::fmt;

use jiff::Timestamp;
use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde_json::Value;
use smol_str::SmolStr;

use crate::api::selector::LabelSelector;
use crate::api::storage::ObjectKey;

pub(crate) use autoscaler::HorizontalPodAutoscaler;
pub(crate) use batch::{CronJob, Job};
pub(crate) use small_kinds::{ControllerRevision, Namespace, PodDisruptionBudget};
pub(crate) use volumes::{PersistentVolume, PersistentVolumeClaim, VolumeAttachment};

/// Labels or annotations, ordered by key.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Pairs(Vec<(SmolStr, SmolStr)>);

impl Pairs {
    pub(crate) fn get(&self, key: &str) -> Option<&str> {
        self.0.iter().find(|(name, _)| name == key).map(|(_, value)| value.as_str())
    }

    pub(crate) fn as_slice(&self) -> &[(SmolStr, SmolStr)] {
        &self.0
    }
}

impl<'de> Deserialize<'de> for Pairs {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct PairsVisitor;
        impl<'de> Visitor<'de> for PairsVisitor {
            type Value = Pairs;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a map of strings")
            }

            fn visit_unit<E>(self) -> Result<Pairs, E> {
                Ok(Pairs::default())
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Pairs, A::Error> {
                let mut pairs = Vec::with_capacity(map.size_hint().unwrap_or_default());
                while let Some(pair) = map.next_entry()? {
                    pairs.push(pair);
                }
                Ok(Pairs(pairs))
            }
        }
        deserializer.deserialize_any(PairsVisitor)
    }
}

/// Metadata of any object.
#[derive(Clone, Debug, Default, serde::Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Meta {
    pub(crate) name: SmolStr,
    pub(crate) namespace: SmolStr,
    pub(crate) uid: SmolStr,
    pub(crate) resource_version: SmolStr,
    pub(crate) generation: i64,
    pub(crate) labels: Pairs,
    pub(crate) annotations: Pairs,
    pub(crate) creation_timestamp: Option<Timestamp>,
    pub(crate) deletion_timestamp: Option<Timestamp>,
    pub(crate) deletion_grace_period_seconds: Option<i64>,
    pub(crate) finalizers: Vec<SmolStr>,
    pub(crate) owner_references: Vec<OwnerReference>,
}

impl Meta {
    pub(crate) fn key(&self) -> ObjectKey {
        ObjectKey::new((!self.namespace.is_empty()).then_some(&self.namespace), &self.name)
    }

    pub(crate) fn is_deleting(&self) -> bool {
        self.deletion_timestamp.is_some()
    }

    /// Returns the finalizers except one, as a patch needs them: null if none is left.
    pub(crate) fn finalizers_without(&self, finalizer: &str) -> Value {
        let remaining: Vec<&str> =
            self.finalizers.iter().map(SmolStr::as_str).filter(|name| *name != finalizer).collect();
        if remaining.is_empty() { Value::Null } else { remaining.into() }
    }

    /// Returns the owner reference of the controller, if there is one.
    pub(crate) fn controller(&self) -> Option<&OwnerReference> {
        self.owner_references.iter().find(|owner| owner.controller)
    }
}

/// One entry of `metadata.ownerReferences`.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct OwnerReference {
    pub(crate) api_version: SmolStr,
    pub(crate) kind: SmolStr,
    pub(crate) name: SmolStr,
    pub(crate) uid: SmolStr,
    pub(crate) controller: bool,
    pub(crate) block_owner_deletion: bool,
}

/// Any object, decoded for its metadata only.
#[derive(Clone, Debug, Default, serde::Deserialize)]
#[serde(default)]
pub(crate) struct AnyObject {
    pub(crate) metadata: Meta,
}

/// A status condition of any kind.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Condition {
    #[serde(rename = "type")]
    pub(crate) kind: SmolStr,
    pub(crate) status: SmolStr,
    pub(crate) reason: SmolStr,
    pub(crate) message: SmolStr,
    pub(crate) last_transition_time: Option<Timestamp>,
    pub(crate) last_update_time: Option<Timestamp>,
    pub(crate) last_heartbeat_time: Option<Timestamp>,
}

/// Returns the condition of this type.
pub(crate) fn find_condition<'a>(conditions: &'a [Condition], kind: &str) -> Option<&'a Condition> {
    conditions.iter().find(|condition| condition.kind == kind)
}

#[derive(Clone, Debug, Default, serde::Deserialize)]
#[serde(default)]
pub(crate) struct Pod {
    pub(crate) metadata: Meta,
    pub(crate) spec: PodSpec,
    pub(crate) status: PodStatus,
}

#[derive(Clone, Debug, Default, serde::Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct PodSpec {
    pub(crate) node_name: SmolStr,
    pub(crate) restart_policy: SmolStr,
    pub(crate) host_network: bool,
    pub(crate) active_deadline_seconds: Option<i64>,
    pub(crate) containers: Vec<Container>,
    pub(crate) init_containers: Vec<Container>,
    pub(crate) readiness_gates: Vec<ReadinessGate>,
    pub(crate) tolerations: Vec<Toleration>,
    pub(crate) volumes: Vec<Volume>,
    pub(crate) affinity: Affinity,
}

/// The part of an affinity by which a DaemonSet's pod names its node.
#[derive(Clone, Debug, Default, serde::Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Affinity {
    node_affinity: NodeAffinity,
}

#[derive(Clone, Debug, Default, serde::Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct NodeAffinity {
    required_during_scheduling_ignored_during_execution: NodeSelector,
}

#[derive(Clone, Debug, Default, serde::Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct NodeSelector {
    node_selector_terms: Vec<NodeSelectorTerm>,
}

#[derive(Clone, Debug, Default, serde::Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct NodeSelectorTerm {
    match_fields: Vec<FieldRequirement>,
}

#[derive(Clone, Debug, Default, serde::Deserialize)]
#[serde(default)]
struct FieldRequirement {
    values: Vec<SmolStr>,
}

impl Affinity {
    /// Returns the one node that the affinity requires by name, or an empty string.
    pub(crate) fn required_node_name(&self) -> SmolStr {
        let terms = &self.node_affinity.required_during_scheduling_ignored_during_execution.node_selector_terms;
        terms
            .first()
            .and_then(|term| term.match_fields.first())
            .and_then(|field| field.values.first())
            .cloned()
            .unwrap_or_default()
    }
}

#[derive(Clone, Debug, Default, serde::Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Container {
    pub(crate) name: SmolStr,
    pub(crate) image: SmolStr,
    pub(crate) restart_policy: SmolStr,
}

#[derive(Clone, Debug, Default, serde::Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct ReadinessGate {
    pub(crate) condition_type: SmolStr,
}

#[derive(Clone, Debug, Default, serde::Deserialize)]
#[serde(rename_all = "camelCase", default)]
#[allow(clippy::struct_field_names, reason = "this is the field name in the API")]
pub(crate) struct Toleration {
    pub(crate) key: SmolStr,
    pub(crate) operator: SmolStr,
    pub(crate) value: SmolStr,
    pub(crate) effect: SmolStr,
    pub(crate) toleration_seconds: Option<i64>,
}

#[derive(Clone, Debug, Default, serde::Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Volume {
    pub(crate) name: SmolStr,
    pub(crate) persistent_volume_claim: Option<VolumeClaimSource>,
    pub(crate) ephemeral: Option<Value>,
}

#[derive(Clone, Debug, Default, serde::Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct VolumeClaimSource {
    pub(crate) claim_name: SmolStr,
}

#[derive(Clone, Debug, Default, serde::Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct PodStatus {
    pub(crate) phase: SmolStr,
    #[serde(rename = "podIP")]
    pub(crate) pod_ip: SmolStr,
    pub(crate) start_time: Option<Timestamp>,
    pub(crate) conditions: Vec<Condition>,
    pub(crate) container_statuses: Vec<ContainerStatus>,
}

#[derive(Clone, Debug, Default, serde::Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct ContainerStatus {
    pub(crate) restart_count: i64,
}

impl Pod {
    /// Returns true if the pod has succeeded or failed.
    pub(crate) fn is_terminal(&self) -> bool {
        matches!(self.status.phase.as_str(), "Succeeded" | "Failed")
    }

    /// Returns true if the pod counts as one of its owner's replicas: neither terminal nor being
    /// deleted.
    pub(crate) fn is_active(&self) -> bool {
        !self.is_terminal() && !self.metadata.is_deleting()
    }

    pub(crate) fn is_ready(&self) -> bool {
        find_condition(&self.status.conditions, "Ready").is_some_and(|ready| ready.status == "True")
    }

    /// Returns the time since which the pod is ready, or `None` if it is not ready.
    pub(crate) fn ready_since(&self) -> Option<Timestamp> {
        find_condition(&self.status.conditions, "Ready")
            .filter(|ready| ready.status == "True")
            .and_then(|ready| ready.last_transition_time)
    }

    /// Returns the names of the PersistentVolumeClaims that the pod uses, including those of
    /// ephemeral volumes.
    pub(crate) fn volume_claim_names(&self) -> impl Iterator<Item = SmolStr> + '_ {
        self.spec.volumes.iter().filter_map(|volume| {
            let claim_name = volume.persistent_volume_claim.as_ref().map(|source| source.claim_name.clone());
            let ephemeral_claim_name = || {
                volume.ephemeral.as_ref().map(|_| smol_str::format_smolstr!("{}-{}", self.metadata.name, volume.name))
            };
            claim_name.or_else(ephemeral_claim_name)
        })
    }
}

#[derive(Clone, Debug, Default, serde::Deserialize)]
#[serde(default)]
pub(crate) struct Node {
    pub(crate) metadata: Meta,
    pub(crate) spec: NodeSpec,
    pub(crate) status: NodeStatus,
}

#[derive(Clone, Debug, Default, serde::Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct NodeSpec {
    #[serde(rename = "providerID")]
    pub(crate) provider_id: SmolStr,
    pub(crate) unschedulable: bool,
    pub(crate) taints: Vec<Taint>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Taint {
    pub(crate) key: SmolStr,
    pub(crate) value: SmolStr,
    pub(crate) effect: SmolStr,
    pub(crate) time_added: Option<Timestamp>,
}

#[derive(Clone, Debug, Default, serde::Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct NodeStatus {
    pub(crate) conditions: Vec<Condition>,
}

impl Node {
    pub(crate) fn ready(&self) -> Option<&Condition> {
        find_condition(&self.status.conditions, "Ready")
    }
}

/// A Deployment, ReplicaSet, StatefulSet or DaemonSet: the fields that these kinds share, and
/// fields that only some of them have.
#[derive(Clone, Debug, Default, serde::Deserialize)]
#[serde(default)]
pub(crate) struct Workload {
    pub(crate) metadata: Meta,
    pub(crate) spec: WorkloadSpec,
    /// The status as JSON. Controllers compare it with the desired status and write whole fields.
    pub(crate) status: Value,
}

#[derive(Clone, Debug, Default, serde::Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct WorkloadSpec {
    pub(crate) replicas: Option<i64>,
    pub(crate) selector: Option<Value>,
    pub(crate) template: Value,
    pub(crate) min_ready_seconds: i64,
    pub(crate) paused: bool,
    pub(crate) revision_history_limit: Option<i64>,
    pub(crate) progress_deadline_seconds: Option<i64>,
    pub(crate) strategy: Strategy,
    pub(crate) update_strategy: Strategy,
    pub(crate) pod_management_policy: SmolStr,
    pub(crate) service_name: SmolStr,
    pub(crate) ordinals: Ordinals,
    pub(crate) volume_claim_templates: Vec<Value>,
    pub(crate) persistent_volume_claim_retention_policy: Retention,
}

/// How the workload rolls out a change of its template.
#[derive(Clone, Debug, Default, serde::Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Strategy {
    #[serde(rename = "type")]
    pub(crate) kind: SmolStr,
    pub(crate) rolling_update: RollingUpdate,
}

#[derive(Clone, Debug, Default, serde::Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct RollingUpdate {
    pub(crate) max_surge: Value,
    pub(crate) max_unavailable: Value,
    pub(crate) partition: i64,
}

#[derive(Clone, Debug, Default, serde::Deserialize)]
#[serde(default)]
pub(crate) struct Ordinals {
    pub(crate) start: i64,
}

#[derive(Clone, Debug, Default, serde::Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Retention {
    pub(crate) when_deleted: SmolStr,
    pub(crate) when_scaled: SmolStr,
}

impl Workload {
    pub(crate) fn replicas(&self) -> i64 {
        self.spec.replicas.unwrap_or(1)
    }

    pub(crate) fn selector(&self) -> Option<LabelSelector> {
        LabelSelector::from_object(self.spec.selector.as_ref())
    }

    /// Returns a number from the status, or zero if the field is missing.
    pub(crate) fn status_count(&self, field: &str) -> i64 {
        self.status.get(field).and_then(Value::as_i64).unwrap_or_default()
    }
}

/// Resolves a number or a percentage of `total`: `25%` of 10 is 2 rounded down, 3 rounded up.
pub(crate) fn resolve_int_or_percent(amount: &Value, total: i64, round_up: bool) -> i64 {
    match amount {
        Value::Number(number) => number.as_i64().unwrap_or_default(),
        Value::String(text) => {
            let percent: i64 = text.strip_suffix('%').and_then(|digits| digits.parse().ok()).unwrap_or_default();
            let hundredths = percent.saturating_mul(total);
            if round_up { hundredths.saturating_add(99).div_euclid(100) } else { hundredths.div_euclid(100) }
        }
        _ => 0,
    }
}
