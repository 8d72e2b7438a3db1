//! NodeClaim, `karpenter.sh/v1`: request for one node, and its observed state (spec 01 §4).
//!
//! The spec never changes after creation, not even in its formatting: Kerf patches only metadata
//! and status.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use crate::conditions::{self, Condition};
use crate::kind::{AGE_COLUMN, Column, CustomKind, READY_COLUMN, ScaleSubresource, column, kind, wide_column};
use crate::nodepool::NodeClassReference;
use crate::requirement::{self, RequirementWithMinValues};
use crate::schema::{DURATION, DURATION_OR_NEVER, rule};
use crate::taints::Taint;
use crate::unparsed::{DurationText, Resources};

kind! {
    /// NodeClaim requests one node with certain requirements, and tracks it from launch to
    /// termination.
    pub struct NodeClaim {
        /// Requirements on the node. Immutable.
        #[schemars(extend("x-kubernetes-validations" = [rule("self == oldSelf", "spec is immutable")]))]
        spec: required NodeClaimSpec,
        /// Observed state of the node.
        status: NodeClaimStatus,
    }
    "karpenter.sh" / "v1", "nodeclaims", ClusterResourceScope
}

impl CustomKind for NodeClaim {
    const NAMESPACED: bool = false;
    const SHORT_NAMES: &'static [&'static str] = &[];
    const CATEGORIES: &'static [&'static str] = &["karpenter"];
    const COLUMNS: &'static [Column] = &[
        column("Type", "string", r".metadata.labels.node\.kubernetes\.io/instance-type"),
        column("Capacity", "string", r".metadata.labels.karpenter\.sh/capacity-type"),
        column("Zone", "string", r".metadata.labels.topology\.kubernetes\.io/zone"),
        column("Node", "string", ".status.nodeName"),
        READY_COLUMN,
        AGE_COLUMN,
        wide_column("ImageID", "string", ".status.imageID"),
        wide_column("ID", "string", ".status.providerID"),
        wide_column("NodePool", "string", r".metadata.labels.karpenter\.sh/nodepool"),
        wide_column("NodeClass", "string", ".spec.nodeClassRef.name"),
        wide_column("Drifted", "string", r#".status.conditions[?(@.type=="Drifted")].status"#),
    ];
    const SCALE: Option<ScaleSubresource> = None;
}

/// Requirements on the node.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NodeClaimSpec {
    /// Age at which the node is replaced, even if pods run on it. Never disables expiration.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("default" = "720h", "pattern" = DURATION_OR_NEVER))]
    pub expire_after: Option<DurationText>,
    /// Node class that configures the instance.
    pub node_class_ref: NodeClassReference,
    /// Requirements that the node must meet.
    #[schemars(transform = requirement::of_nodeclaim)]
    pub requirements: Vec<RequirementWithMinValues>,
    /// Resources that the node must have at least.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resources: Option<ResourceRequirements>,
    /// Taints that the node starts with and that another component removes. The node is not
    /// initialized until all of them are removed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
    pub startup_taints: Option<Vec<Taint>>,
    /// Taints that the node keeps.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
    pub taints: Option<Vec<Taint>>,
    /// Maximum duration of draining, after which the remaining pods are deleted by force. If unset,
    /// draining waits as long as pods and their disruption budgets require.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("pattern" = DURATION))]
    pub termination_grace_period: Option<DurationText>,
}

/// Resources that the node must have.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ResourceRequirements {
    /// Resource requests of the pods planned for the node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub requests: Option<Resources>,
}

/// Observed state of the node.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NodeClaimStatus {
    /// Resources available to pods, as estimated at launch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub allocatable: Option<Resources>,
    /// Total resources of the node, as estimated at launch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub capacity: Option<Resources>,
    /// Conditions of the node.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(transform = conditions::lenient_map_list)]
    pub conditions: Vec<Condition>,
    /// ID of the image of the instance.
    #[serde(default, rename = "imageID", skip_serializing_if = "Option::is_none")]
    pub image_id: Option<String>,
    /// Time at which a pod was last added to or removed from the node. consolidateAfter counts from
    /// this time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<crate::schema::DateTime>")]
    pub last_pod_event_time: Option<Time>,
    /// Name of the Node, once it has registered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node_name: Option<String>,
    /// Provider ID of the instance, as on the Node.
    #[serde(default, rename = "providerID", skip_serializing_if = "Option::is_none")]
    pub provider_id: Option<String>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    // spec 01 #57: a patch computed from the typed object never changes the spec.
    #[test]
    fn a_stored_claim_survives_a_round_trip_byte_for_byte() {
        let stored = json!({
            "apiVersion": "karpenter.sh/v1",
            "kind": "NodeClaim",
            "metadata": { "name": "a", "finalizers": ["karpenter.sh/termination"] },
            "spec": {
                "expireAfter": "60m",
                "nodeClassRef": { "group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default" },
                "requirements": [
                    { "key": "a", "operator": "In", "values": ["1"], "minValues": 1 },
                    { "key": "b", "operator": "Exists" },
                    { "key": "c", "operator": "NotIn", "values": [] },
                ],
                "resources": { "requests": { "memory": "50000", "cpu": 1, "pods": "1e1" } },
                "startupTaints": [],
                "terminationGracePeriod": "1s1h",
            },
        });
        let claim: NodeClaim = serde_json::from_value(stored.clone()).unwrap();
        assert_eq!(serde_json::to_value(&claim).unwrap(), stored);
    }

    #[test]
    fn an_object_of_another_kind_is_rejected_and_one_without_a_kind_is_accepted() {
        let spec = json!({ "nodeClassRef": { "group": "g", "kind": "k", "name": "n" }, "requirements": [] });
        let error = serde_json::from_value::<NodeClaim>(json!({ "kind": "NodePool", "spec": spec })).unwrap_err();
        assert_eq!(error.to_string(), "expected karpenter.sh/v1 NodeClaim, found  NodePool");
        serde_json::from_value::<NodeClaim>(json!({ "spec": spec })).unwrap();
    }
}
