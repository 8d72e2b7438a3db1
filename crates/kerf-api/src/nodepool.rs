//! NodePool, `karpenter.sh/v1`: template of a pool's nodes, limits, and disruption settings (spec
//! 01 §3).
//!
//! Kerf sets no defaults: the API server has already set them. `None`, an empty list and zero have
//! different meanings (`budgets: []` removes all limits, absent budgets get the default), so the
//! types distinguish them.

use std::cmp::Ordering;
use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::conditions::{self, Condition};
use crate::kind::{AGE_COLUMN, Column, CustomKind, READY_COLUMN, ScaleSubresource, column, kind, wide_column};
use crate::open_enum::open_enum;
use crate::requirement::{self, RequirementWithMinValues};
use crate::schema::{CelRule, DURATION, DURATION_OR_NEVER, LabelKeys, LabelValue, rule};
use crate::taints::Taint;
use crate::unparsed::{DurationText, Resources};

/// Resource name that counts nodes, in limits and in the status of a pool.
pub const NODES_RESOURCE: &str = "nodes";

kind! {
    /// NodePool describes the nodes that may be launched for pods that fit on no existing node, and
    /// how and when these nodes may be disrupted.
    pub struct NodePool {
        /// Desired state of the pool.
        spec: required NodePoolSpec,
        /// Observed state of the pool.
        status: NodePoolStatus,
    }
    "karpenter.sh" / "v1", "nodepools", ClusterResourceScope
}

impl CustomKind for NodePool {
    const NAMESPACED: bool = false;
    const SHORT_NAMES: &'static [&'static str] = &[];
    const CATEGORIES: &'static [&'static str] = &["karpenter"];
    const COLUMNS: &'static [Column] = &[
        column("NodeClass", "string", ".spec.template.spec.nodeClassRef.name"),
        column("Nodes", "string", ".status.nodes"),
        READY_COLUMN,
        AGE_COLUMN,
        wide_column("Weight", "integer", ".spec.weight"),
        wide_column("CPU", "string", ".status.resources.cpu"),
        wide_column("Memory", "string", ".status.resources.memory"),
    ];
    const SCALE: Option<ScaleSubresource> =
        Some(ScaleSubresource { spec_replicas_path: ".spec.replicas", status_replicas_path: ".status.nodes" });
}

const MODE_IS_FIXED: CelRule = rule(
    "has(self.replicas) == has(oldSelf.replicas)",
    "Cannot transition NodePool between static (replicas set) and dynamic (replicas unset) provisioning modes",
);
const STATIC_LIMITS: CelRule = rule(
    "!has(self.replicas) || !has(self.limits) || self.limits.size() == (('nodes' in self.limits) ? 1 : 0)",
    "only 'limits.nodes' is supported on static NodePools",
);
const STATIC_WEIGHT: CelRule =
    rule("!has(self.replicas) || !has(self.weight)", "'weight' is not supported on static NodePools");

/// Template, limits and disruption settings of a pool.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = [MODE_IS_FIXED, STATIC_LIMITS, STATIC_WEIGHT]))]
pub struct NodePoolSpec {
    /// Settings for replacing and removing nodes of the pool, and limits on how many at a time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("default" = { "consolidateAfter": "0s" }))]
    pub disruption: Option<Disruption>,
    /// Upper bounds on the total resources of all nodes of the pool. The resource nodes limits
    /// their number. Resources that are not listed have no limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limits: Option<Resources>,
    /// Number of nodes to keep, even if no pods need them. A pool with replicas is static: it does
    /// not react to pods and is not consolidated. A pool cannot change between static and dynamic.
    /// Alpha.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("minimum" = 0))]
    pub replicas: Option<i64>,
    /// Template of the nodes of the pool.
    pub template: NodeClaimTemplate,
    /// Precedence among pools: pools with a larger weight are tried first. A pool without a weight
    /// has weight 0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("minimum" = 1, "maximum" = 100))]
    pub weight: Option<i32>,
}

/// Disruption settings of a pool.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Disruption {
    /// Limits on how many nodes may be disrupted at once. The strictest of all budgets that are
    /// active and cover the reason applies. An empty list means no limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend(
        "default" = [{ "nodes": "10%" }],
        "maxItems" = 50,
        "x-kubernetes-list-type" = "atomic",
        "x-kubernetes-validations" = [SCHEDULE_WITH_DURATION],
    ))]
    pub budgets: Option<Vec<Budget>>,
    /// Time without a change of its pods after which a node may be consolidated. Never disables
    /// consolidation. Ignored for static pools.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("default" = "0s", "pattern" = DURATION_OR_NEVER))]
    pub consolidate_after: Option<DurationText>,
    /// Nodes that may be consolidated: those without pods (`WhenEmpty`), also those whose pods fit
    /// on other nodes or on a cheaper node (`WhenEmptyOrUnderutilized`), or those where the saving
    /// outweighs the disruption (`Balanced`). Ignored for static pools.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("default" = "WhenEmptyOrUnderutilized"))]
    pub consolidation_policy: Option<ConsolidationPolicy>,
}

const SCHEDULE_WITH_DURATION: CelRule =
    rule("self.all(x, has(x.schedule) == has(x.duration))", "'schedule' must be set with 'duration'");

open_enum! {
    /// Nodes that may be consolidated.
    pub enum ConsolidationPolicy {
        /// Nodes without pods.
        WhenEmpty = "WhenEmpty",
        /// Also nodes whose pods fit on other nodes or on a cheaper node.
        WhenEmptyOrUnderutilized = "WhenEmptyOrUnderutilized",
        /// Nodes where the saving outweighs the disruption.
        Balanced = "Balanced",
    }
}

open_enum! {
    /// Reason of a voluntary disruption.
    pub enum DisruptionReason {
        /// The node's pods fit on other nodes or on a cheaper node.
        Underutilized = "Underutilized",
        /// The node has no pods.
        Empty = "Empty",
        /// The node no longer matches its NodePool or node class.
        Drifted = "Drifted",
    }
}

/// Limit on how many nodes may be disrupted at once, always or during scheduled windows.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Budget {
    /// Length of each window that the schedule opens, in hours and minutes. Must be set together
    /// with schedule.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("pattern" = "^((([0-9]+(h|m))|([0-9]+h[0-9]+m))(0s)?)$"))]
    pub duration: Option<DurationText>,
    /// Number of nodes, or percentage of the pool's nodes rounded up, that may be disrupted at
    /// once.
    #[schemars(extend("default" = "10%", "pattern" = "^((100|[0-9]{1,2})%|[0-9]+)$"))]
    pub nodes: String,
    /// Reasons that the budget limits. If unset, it limits all reasons; an empty list limits none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("maxItems" = 50, "x-kubernetes-list-type" = "set"))]
    pub reasons: Option<Vec<DisruptionReason>>,
    /// Times in UTC at which windows open: five cron fields, or one of @annually, @yearly,
    /// @monthly, @weekly, @daily, @midnight and @hourly. Must be set together with duration.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend(
        "pattern" = r"^(@(annually|yearly|monthly|weekly|daily|midnight|hourly))|((.+)\s(.+)\s(.+)\s(.+)\s(.+))$"
    ))]
    pub schedule: Option<String>,
}

/// Template of the NodeClaims of a pool.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NodeClaimTemplate {
    /// Labels and annotations of the NodeClaims and Nodes of the pool.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metadata: Option<TemplateMetadata>,
    /// Spec of the NodeClaims of the pool.
    pub spec: NodeClaimTemplateSpec,
}

/// Labels and annotations of a pool's nodes.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TemplateMetadata {
    /// Annotations of the NodeClaims and Nodes of the pool.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-kubernetes-map-type" = "granular"))]
    pub annotations: Option<BTreeMap<String, String>>,
    /// Labels of the NodeClaims and Nodes of the pool. Pods can select nodes by them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<BTreeMap<String, LabelValue>>", extend(
        "maxProperties" = 100,
        "x-kubernetes-map-type" = "atomic",
        "x-kerf-label-keys" = LabelKeys::TemplateLabels,
    ))]
    pub labels: Option<BTreeMap<String, String>>,
}

/// Spec of the NodeClaims of a pool.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NodeClaimTemplateSpec {
    /// Age at which a node is replaced, even if pods run on it. Never disables expiration.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("default" = "720h", "pattern" = DURATION_OR_NEVER))]
    pub expire_after: Option<DurationText>,
    /// Node class that configures the provider's instances.
    #[schemars(extend("x-kubernetes-validations" = [GROUP_IS_IMMUTABLE, KIND_IS_IMMUTABLE]))]
    pub node_class_ref: NodeClassReference,
    /// Requirements that every node of the pool meets. Pods can restrict them further. An empty
    /// list allows every instance type of the provider.
    #[schemars(transform = requirement::of_nodepool)]
    pub requirements: Vec<RequirementWithMinValues>,
    /// Taints that nodes start with and that another component removes. Pods need not tolerate
    /// them. A node is not initialized until all of them are removed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
    pub startup_taints: Option<Vec<Taint>>,
    /// Taints of the nodes of the pool. Pods must tolerate them to be scheduled there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
    pub taints: Option<Vec<Taint>>,
    /// Maximum duration of draining a node, after which its remaining pods are deleted by force. If
    /// unset, draining waits as long as pods and their disruption budgets require.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("pattern" = DURATION))]
    pub termination_grace_period: Option<DurationText>,
}

const GROUP_IS_IMMUTABLE: CelRule = rule("self.group == oldSelf.group", "nodeClassRef.group is immutable");
const KIND_IS_IMMUTABLE: CelRule = rule("self.kind == oldSelf.kind", "nodeClassRef.kind is immutable");

/// Group, kind and name of a node class.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NodeClassReference {
    /// API group of the node class, without a version.
    #[schemars(extend("pattern" = "^[^/]*$", "x-kubernetes-validations" = [rule("self != ''", "group may not be empty")]))]
    pub group: String,
    /// Kind of the node class.
    #[schemars(extend("x-kubernetes-validations" = [rule("self != ''", "kind may not be empty")]))]
    pub kind: String,
    /// Name of the node class.
    #[schemars(extend("x-kubernetes-validations" = [rule("self != ''", "name may not be empty")]))]
    pub name: String,
}

impl NodeClassReference {
    /// Returns true if the reference is to a class of this kind. Objects that refer to other kinds
    /// belong to other controllers.
    pub fn is_kind(&self, group: &str, kind: &str) -> bool {
        self.group == group && self.kind == kind
    }
}

impl NodePool {
    /// Compares pools by precedence: a larger weight comes first, and among equal weights the
    /// alphabetically later name.
    pub fn by_precedence(a: &Self, b: &Self) -> Ordering {
        let key = |pool: &Self| (pool.spec.weight.unwrap_or_default(), pool.metadata.name.clone());
        key(b).cmp(&key(a))
    }
}

/// Observed state of a pool.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NodePoolStatus {
    /// Conditions of the pool.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(transform = conditions::map_list)]
    pub conditions: Vec<Condition>,
    /// Generation of the node class for which registration health was last evaluated.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node_class_observed_generation: Option<i64>,
    /// Number of nodes of the pool.
    // No minimum: the scale subresource itself rejects negative numbers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("default" = 0))]
    pub nodes: Option<i64>,
    /// Total resources of all nodes of the pool.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resources: Option<Resources>,
}
