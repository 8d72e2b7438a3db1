//! CapacityBuffer, `autoscaling.x-k8s.io/v1beta1`: free capacity for pods that do not exist yet
//! (spec 01 §6).
//!
//! Cluster Autoscaler defines the same API. Kerf reads the spec and writes the status.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::conditions::{self, Condition};
use crate::kind::{AGE_COLUMN, Column, CustomKind, ScaleSubresource, column, kind};
use crate::schema::{CelRule, rule};
use crate::unparsed::Resources;

/// Default of `spec.provisioningStrategy`.
pub const ACTIVE_CAPACITY: &str = "buffer.x-k8s.io/active-capacity";

kind! {
    /// CapacityBuffer keeps capacity free for a number of identical pods, so that they can start
    /// without waiting for a new node.
    pub struct CapacityBuffer {
        /// Desired size and pod template of the buffer.
        spec: required CapacityBufferSpec,
        /// Observed state of the buffer.
        status: CapacityBufferStatus,
    }
    "autoscaling.x-k8s.io" / "v1beta1", "capacitybuffers", NamespaceResourceScope
}

impl CustomKind for CapacityBuffer {
    const NAMESPACED: bool = true;
    const SHORT_NAMES: &'static [&'static str] = &["cb"];
    const CATEGORIES: &'static [&'static str] = &["autoscaling"];
    const COLUMNS: &'static [Column] = &[
        column("Strategy", "string", ".spec.provisioningStrategy"),
        column("PodTemplate", "string", ".status.podTemplateRef.name"),
        column("Replicas", "integer", ".status.replicas"),
        column("ConditionsType", "string", ".status.conditions[*].type"),
        column("ConditionsStatus", "string", ".status.conditions[*].status"),
        column("ConditionsReason", "string", ".status.conditions[*].reason"),
        AGE_COLUMN,
    ];
    const SCALE: Option<ScaleSubresource> = None;
}

const TEMPLATE_NEEDS_A_COUNT: CelRule = rule(
    "!has(self.podTemplateRef) || has(self.replicas) || has(self.limits)",
    "If podTemplateRef is set, replicas or limits must also be set",
);
const ONE_REFERENCE: CelRule = rule(
    "!has(self.podTemplateRef) || !has(self.scalableRef)",
    "You must define either PodTemplateRef or ScalableRef, but not both",
);

/// Size of a buffer and the pods that it has capacity for.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = [TEMPLATE_NEEDS_A_COUNT, ONE_REFERENCE]))]
pub struct CapacityBufferSpec {
    /// Upper bounds on the resources of the buffer. Without replicas and percentage they define its
    /// size.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limits: Option<Resources>,
    /// Size of the buffer in percent of the replicas of the referenced workload, rounded up. Used
    /// only with scalableRef. If replicas is also set, the larger of the two numbers of pods
    /// applies.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("minimum" = 0))]
    pub percentage: Option<i32>,
    /// `PodTemplate` in the same namespace that defines the pods of the buffer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pod_template_ref: Option<LocalObjectRef>,
    /// Strategy by which the capacity is kept free. The value is not interpreted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("default" = ACTIVE_CAPACITY))]
    pub provisioning_strategy: Option<String>,
    /// Number of pods that the buffer has capacity for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("minimum" = 0))]
    pub replicas: Option<i32>,
    /// Workload in the same namespace whose pod template defines the pods of the buffer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scalable_ref: Option<ScalableRef>,
}

/// Reference to an object in the same namespace.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct LocalObjectRef {
    /// Name of the object.
    #[schemars(extend("minLength" = 1))]
    pub name: String,
}

/// Reference to a workload in the same namespace.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ScalableRef {
    /// API group of the workload; empty means apps.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub api_group: Option<String>,
    /// Kind of the workload: Deployment, StatefulSet or ReplicaSet.
    #[schemars(extend("minLength" = 1))]
    pub kind: String,
    /// Name of the workload.
    #[schemars(extend("minLength" = 1))]
    pub name: String,
}

/// Observed state of a buffer.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CapacityBufferStatus {
    /// Conditions that report if the buffer could be resolved and if its capacity exists.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(transform = conditions::map_list)]
    pub conditions: Vec<Condition>,
    /// Generation of the `PodTemplate` that currently defines the pods.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pod_template_generation: Option<i64>,
    /// `PodTemplate` that currently defines the pods.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pod_template_ref: Option<LocalObjectRef>,
    /// Provisioning strategy that is in use.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provisioning_strategy: Option<String>,
    /// Number of pods that capacity is kept for, after percentage and limits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replicas: Option<i32>,
}
