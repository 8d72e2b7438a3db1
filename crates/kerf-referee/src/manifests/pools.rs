//! NodePools and NodeClaims with the fields on which placement depends.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::Taint;
use serde::{Deserialize, Deserializer};
use serde_json::Value;

use crate::plan::NodeRequirement;
use crate::resources::Resources;
use crate::selectors::Labels;

/// The label with the name of the NodePool.
pub(crate) const NODEPOOL: &str = "karpenter.sh/nodepool";

/// A NodePool with its template.
#[derive(Debug, Clone)]
pub struct Pool {
    /// Name of the NodePool.
    pub name: String,
    /// Pools with a greater weight are used first.
    pub weight: i64,
    /// Labels of the pool's nodes: those of the template, the pool's name and the node class.
    pub labels: Labels,
    /// Requirements on the labels of the pool's nodes.
    pub requirements: Vec<NodeRequirement>,
    /// Taints of the pool's nodes.
    pub taints: Vec<Taint>,
    /// Greatest amount of each resource that the pool's nodes may have together; `nodes` counts the
    /// nodes.
    pub limits: Resources,
    /// True if the pool may launch new nodes for pods: it is ready, has no fixed number of
    /// replicas, and is not being deleted.
    pub is_usable: bool,
}

/// A NodeClaim: a request for a node, and its instance once launched.
#[derive(Debug, Clone)]
pub struct NodeClaim {
    /// Name of the NodeClaim.
    pub name: String,
    /// Labels, which the node will get.
    pub labels: Labels,
    /// Provider ID of the instance; `None` until it is launched.
    pub provider_id: Option<String>,
    /// Permanent taints of the node.
    pub taints: Vec<Taint>,
    /// Taints that the node has until it is initialized.
    pub startup_taints: Vec<Taint>,
    /// All resources of the instance.
    pub capacity: Resources,
    /// Resources that pods can use.
    pub allocatable: Resources,
    /// True if the claim is being deleted or its instance is terminating.
    pub is_deleting: bool,
}

impl<'de> Deserialize<'de> for Pool {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let wire = WireObject::deserialize(deserializer)?;
        let template = wire.spec.template;
        let class = template.spec.node_class_ref;
        let mut labels = template.metadata.labels;
        labels.insert(NODEPOOL.to_owned(), wire.metadata.name.clone());
        labels.insert(format!("{}/{}", class.group, class.kind.to_lowercase()), class.name);
        let ready = wire.status.conditions.is_empty() || is_condition_true(&wire.status.conditions, "Ready");
        Ok(Self {
            name: wire.metadata.name,
            weight: wire.spec.weight,
            labels,
            requirements: template.spec.requirements,
            taints: template.spec.taints,
            limits: parse_quantities(&wire.spec.limits),
            is_usable: ready && wire.spec.replicas.is_none() && wire.metadata.deletion_timestamp.is_none(),
        })
    }
}

impl<'de> Deserialize<'de> for NodeClaim {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let wire = WireObject::deserialize(deserializer)?;
        Ok(Self {
            name: wire.metadata.name,
            labels: wire.metadata.labels,
            provider_id: wire.status.provider_id.filter(|id| !id.is_empty()),
            taints: wire.spec.taints,
            startup_taints: wire.spec.startup_taints,
            capacity: parse_quantities(&wire.status.capacity),
            allocatable: parse_quantities(&wire.status.allocatable),
            is_deleting: wire.metadata.deletion_timestamp.is_some()
                || is_condition_true(&wire.status.conditions, "InstanceTerminating"),
        })
    }
}

/// Wire format of both kinds; each kind has only some of the fields.
#[derive(Deserialize)]
struct WireObject {
    metadata: WireMetadata,
    #[serde(default)]
    spec: WireSpec,
    #[serde(default)]
    status: WireStatus,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct WireMetadata {
    name: String,
    labels: Labels,
    deletion_timestamp: Option<String>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct WireSpec {
    weight: i64,
    replicas: Option<i64>,
    limits: BTreeMap<String, Value>,
    template: WireTemplate,
    taints: Vec<Taint>,
    startup_taints: Vec<Taint>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct WireTemplate {
    metadata: WireMetadata,
    spec: WireTemplateSpec,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct WireTemplateSpec {
    requirements: Vec<NodeRequirement>,
    taints: Vec<Taint>,
    node_class_ref: WireNodeClassRef,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct WireNodeClassRef {
    group: String,
    kind: String,
    name: String,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct WireStatus {
    conditions: Vec<WireCondition>,
    #[serde(rename = "providerID")]
    provider_id: Option<String>,
    capacity: BTreeMap<String, Value>,
    allocatable: BTreeMap<String, Value>,
}

#[derive(Deserialize)]
struct WireCondition {
    #[serde(rename = "type")]
    kind: String,
    status: String,
}

fn is_condition_true(conditions: &[WireCondition], kind: &str) -> bool {
    conditions.iter().any(|condition| condition.kind == kind && condition.status == "True")
}

/// Parses quantities that are JSON strings or numbers.
fn parse_quantities(map: &BTreeMap<String, Value>) -> Resources {
    let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    let map: BTreeMap<String, String> = map.iter().map(|(name, value)| (name.clone(), text(value))).collect();
    Resources::parse(&map)
}
