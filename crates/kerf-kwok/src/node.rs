//! Builds the Node that represents a simulated instance (spec 04 §14.3). KWOK or the sandbox's
//! kubelets then make it ready.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Node, NodeSpec, NodeStatus, Taint};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity as ApiQuantity;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kerf_api::labels::LabelRules;
use kerf_api::nodeclaim::NodeClaim;
use kerf_api::slim::{ResourceList, Str};
use kerf_api::unparsed::{QuantityText, Resources};
use kerf_api::{labels, taints};
use kerf_cloud::Instance;
use kerf_engine::Price;
use kerf_engine::catalogue::{InstanceType, Offering};
use kerf_engine::requirement::{EffectiveOperator, Requirement, Requirements};

use crate::availability::OfferingKey;

/// Prefix of the provider IDs of simulated instances.
pub(crate) const PROVIDER_ID_PREFIX: &str = "kwok://";
/// Label and annotation that mark a node as simulated.
const FAKE_NODE_KEY: &str = "kwok.x-k8s.io/node";
/// Label that assigns a node to a KWOK controller.
const PARTITION_LABEL: &str = "kwok-partition";
/// Label with the price in dollars per hour, which `eks-node-viewer` reads.
const PRICE_LABEL: &str = "eks-node-viewer/instance-price";
/// Label with the name of the claim that the node was created for; it is the host name.
const CLAIM_LABEL: &str = labels::HOSTNAME;

/// Beta labels that a kubelet sets, each with the label whose value it repeats. If they are
/// missing, the node controller adds them to one node at a time. That uses up the rate limit that
/// also delays the removal of taints from nodes that have become ready.
const KUBELET_LABELS: [(&str, &str); 2] =
    [("beta.kubernetes.io/arch", labels::ARCH), ("beta.kubernetes.io/os", labels::OS)];

/// The instance type and offering that an instance is launched with.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ChosenOffering<'c> {
    pub(crate) instance_type: &'c InstanceType,
    pub(crate) offering: &'c Offering,
}

/// Returns the key of an offering. Returns `None` if the offering has no zone or capacity type.
pub(crate) fn offering_key(name: &Str, offering: &Offering) -> Option<OfferingKey> {
    let single_value = |key: &str| offering.requirements.get(key)?.allowed_values()?.first().cloned();
    Some((name.clone(), single_value(labels::ZONE)?, single_value(labels::CAPACITY_TYPE)?))
}

/// Returns the node's name, which is derived from the claim's name and UID, so that a repeated
/// launch finds the node that it created before.
pub(crate) fn node_name(claim: &NodeClaim) -> String {
    format!("kwok-{}-{}", claim.metadata.name.as_deref().unwrap_or_default(), claim_hash(claim))
}

/// Returns the provider ID of the claim's instance.
pub(crate) fn provider_id(claim: &NodeClaim) -> String {
    format!("{PROVIDER_ID_PREFIX}{}", node_name(claim))
}

/// Returns the claim's requirements. A requirement that admission would reject is ignored.
pub(crate) fn requirements(claim: &NodeClaim, label_rules: &LabelRules) -> Requirements {
    let entries = claim.spec.requirements.iter();
    entries
        .filter_map(|r| {
            let values: Vec<Str> = r.values.iter().flatten().map(Str::from).collect();
            Requirement::new(label_rules, &r.key, &r.operator, &values, None).ok()
        })
        .collect()
}

/// Returns a number that depends only on the claim's UID. It replaces randomness in a launch, so
/// that a repeated launch makes the same choice.
pub(crate) fn claim_hash(claim: &NodeClaim) -> u32 {
    let uid = claim.metadata.uid.as_deref().unwrap_or_default();
    // FNV-1a: short, and equal on every platform.
    uid.bytes().fold(0x811c_9dc5, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193))
}

/// Builds the Node for a claim with the chosen instance type and offering.
pub(crate) fn build_node(
    claim: &NodeClaim,
    requirements: &Requirements,
    choice: ChosenOffering<'_>,
    partition: &str,
) -> Node {
    let name = node_name(claim);
    let mut labels = claim.metadata.labels.clone().unwrap_or_default();
    labels.extend(single_value_labels(requirements));
    labels.insert(labels::INSTANCE_TYPE.to_owned(), choice.instance_type.name.to_string());
    labels.extend(single_value_labels(&choice.instance_type.requirements));
    labels.extend(single_value_labels(&choice.offering.requirements));
    labels.insert(PRICE_LABEL.to_owned(), six_decimals(choice.offering.price));
    labels.insert(PARTITION_LABEL.to_owned(), partition.to_owned());
    labels.insert(CLAIM_LABEL.to_owned(), claim.metadata.name.clone().unwrap_or_default());
    labels.insert(FAKE_NODE_KEY.to_owned(), "fake".to_owned());
    for (beta_label, label) in KUBELET_LABELS {
        if let Some(value) = labels.get(label).cloned() {
            labels.insert(beta_label.to_owned(), value);
        }
    }
    let mut annotations = claim.metadata.annotations.clone().unwrap_or_default();
    annotations.insert(FAKE_NODE_KEY.to_owned(), "fake".to_owned());

    let requested = claim.spec.resources.as_ref().and_then(|resources| resources.requests.clone()).unwrap_or_default();
    let status = NodeStatus {
        phase: Some("Pending".to_owned()),
        capacity: Some(quantities(&requested, &choice.instance_type.capacity)),
        allocatable: Some(quantities(&requested, &choice.instance_type.allocatable())),
        ..NodeStatus::default()
    };
    let unregistered = Taint { key: taints::UNREGISTERED.into(), effect: "NoExecute".into(), ..Taint::default() };
    let spec =
        NodeSpec { provider_id: Some(provider_id(claim)), taints: Some(vec![unregistered]), ..NodeSpec::default() };
    let metadata =
        ObjectMeta { name: Some(name), labels: Some(labels), annotations: Some(annotations), ..ObjectMeta::default() };
    Node { metadata, spec: Some(spec), status: Some(status) }
}

/// Returns true if this provider manages the node: the node has the label that [`build_node`] sets,
/// or a node class label from registration (`classes` are the label keys). Other tools may simulate
/// nodes with the same provider ID prefix in one cluster.
pub(crate) fn is_managed_node(node: &Node, classes: &[String]) -> bool {
    let has_prefix = |id: &String| id.starts_with(PROVIDER_ID_PREFIX);
    let is_own_label = |label: &String| label == PARTITION_LABEL || classes.contains(label);
    node.spec.as_ref().and_then(|spec| spec.provider_id.as_ref()).is_some_and(has_prefix)
        && node.metadata.labels.as_ref().is_some_and(|labels| labels.keys().any(is_own_label))
}

/// Converts a Node to the instance that it represents.
pub(crate) fn instance_from_node(node: &Node) -> Instance {
    let status = node.status.as_ref();
    let mut labels = node.metadata.labels.clone().unwrap_or_default();
    labels.retain(|key, _| KUBELET_LABELS.iter().all(|(beta_label, _)| beta_label != key));
    Instance {
        provider_id: node.spec.as_ref().and_then(|spec| spec.provider_id.clone()).unwrap_or_default(),
        claim: labels.get(CLAIM_LABEL).cloned(),
        labels,
        annotations: node.metadata.annotations.clone().unwrap_or_default(),
        image_id: None,
        capacity: texts(status.and_then(|status| status.capacity.as_ref())),
        allocatable: texts(status.and_then(|status| status.allocatable.as_ref())),
        launched_at: node.metadata.creation_timestamp.as_ref().map(|time| time.0),
        is_terminating: node.metadata.deletion_timestamp.is_some(),
    }
}

/// Returns a label for each requirement that allows exactly one value.
fn single_value_labels(requirements: &Requirements) -> impl Iterator<Item = (String, String)> {
    requirements.iter().filter(|r| r.operator() == EffectiveOperator::In).filter_map(|r| match r.values() {
        [value] => Some((r.key().to_string(), value.to_string())),
        _ => None,
    })
}

/// Returns the requested quantities, overridden by those of the instance type.
fn quantities(requested: &Resources, of_type: &ResourceList) -> BTreeMap<String, ApiQuantity> {
    let from_claim = requested.iter().map(|(name, amount)| (name.clone(), ApiQuantity(amount.to_string())));
    let from_type = of_type.iter().map(|(name, amount)| (name.to_string(), ApiQuantity(amount.to_string())));
    from_claim.chain(from_type).collect()
}

fn texts(quantities: Option<&BTreeMap<String, ApiQuantity>>) -> Resources {
    quantities.into_iter().flatten().map(|(name, q)| (name.clone(), QuantityText::from(q.0.as_str()))).collect()
}

/// Formats dollars per hour with six decimals, rounded half up.
fn six_decimals(price: Price) -> String {
    let micros = (price + Price::from_nanos(500)).micro_dollars();
    format!("{}.{:06}", micros / 1_000_000, micros % 1_000_000)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prices_have_six_decimals() {
        assert_eq!(six_decimals(Price::from_nanos(27_147_484)), "0.027147");
        assert_eq!(six_decimals(Price::from_nanos(1_999_999_999)), "2.000000");
    }
}
