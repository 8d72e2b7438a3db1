//! The cluster after a command: its nodes are deleted, their pods run where the plan states, and
//! each replacement is the instance of the estimate, initialized at the time of the plan.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde_json::{Value, json};

use super::rules::{find_node, node_claim_of, object_name, objects_of_kind, reschedulable_pods};
use crate::catalogue::Catalogue;
use crate::check::possible_launches;
use crate::manifests::{Pool, decode};
use crate::plan::{PlanClaim, PlanCommand};
use crate::resources::Resources;

/// Returns the manifests after the command.
pub fn apply_command(
    cluster: &Value,
    catalogue: &Catalogue,
    command: &PlanCommand,
    at: Timestamp,
) -> Result<Value, String> {
    let moved = reschedulable_pods(cluster, &command.nodes)?;
    let mut next = without_nodes(cluster, &command.nodes, &moved);
    let mut target_nodes: BTreeMap<&String, &String> = BTreeMap::new();
    for placement in &command.existing_nodes {
        target_nodes.extend(placement.pods.iter().map(|pod| (pod, &placement.node)));
    }
    let mut launched = Vec::new();
    for claim in &command.replacements {
        launched.extend(replacement_objects(cluster, catalogue, claim, at)?);
        target_nodes.extend(claim.pods.iter().map(|pod| (pod, &claim.name)));
    }
    let receiving: Vec<Value> = target_nodes
        .iter()
        .filter(|(pod, _)| moved.contains(pod))
        .filter_map(|(_, target_node)| Some(find_node(cluster, target_node)?["spec"]["providerID"].clone()))
        .collect();
    let items = next["items"].as_array_mut().ok_or("the manifests are not a list")?;
    for object in items.iter_mut() {
        if object["kind"] == "NodeClaim" && receiving.contains(&object["status"]["providerID"]) {
            object["status"]["lastPodEventTime"] = json!(at.to_string());
        }
        if object["kind"] == "Pod"
            && let Some(target_node) =
                target_nodes.get(&json_pod_key(object)).filter(|_| moved.contains(&json_pod_key(object)))
        {
            object["spec"]["nodeName"] = json!(target_node);
            object["status"]["phase"] = json!("Running");
        }
    }
    items.extend(launched);
    Ok(next)
}

/// Returns the manifests without these nodes. Their pods in `moved` are pending, their other pods
/// are deleted.
pub(super) fn without_nodes(cluster: &Value, nodes: &[String], moved: &[String]) -> Value {
    let removed_nodes: Vec<&Value> = nodes.iter().filter_map(|name| find_node(cluster, name)).collect();
    let claims: Vec<&str> =
        removed_nodes.iter().filter_map(|node| node_claim_of(cluster, node)).map(object_name).collect();
    let is_removed =
        |wanted: &Value| removed_nodes.iter().any(|node| object_name(node) == wanted.as_str().unwrap_or_default());
    let keep = |object: &Value| match object["kind"].as_str().unwrap_or_default() {
        "Node" => !is_removed(&object["metadata"]["name"]),
        "NodeClaim" => !claims.contains(&object_name(object)),
        "Pod" => !is_removed(&object["spec"]["nodeName"]) || moved.contains(&json_pod_key(object)),
        _ => true,
    };
    let items = cluster["items"].as_array().into_iter().flatten().filter(|object| keep(object));
    let items: Vec<Value> = items
        .map(|object| {
            let mut object = object.clone();
            if object["kind"] == "Pod" && is_removed(&object["spec"]["nodeName"]) {
                if let Some(spec) = object["spec"].as_object_mut() {
                    spec.remove("nodeName");
                }
                object["status"] = json!({"phase": "Pending"});
            }
            object
        })
        .collect();
    json!({"apiVersion": "v1", "kind": "List", "items": items})
}

fn json_pod_key(pod: &Value) -> String {
    format!("{}/{}", pod["metadata"]["namespace"].as_str().unwrap_or("default"), object_name(pod))
}

/// Returns the NodeClaim and the Node of a replacement that is launched as estimated.
fn replacement_objects(
    cluster: &Value,
    catalogue: &Catalogue,
    claim: &PlanClaim,
    at: Timestamp,
) -> Result<[Value; 2], String> {
    let pool = objects_of_kind(cluster, "NodePool")
        .find(|pool| object_name(pool) == claim.node_pool)
        .ok_or("the NodePool of a claim does not exist")?;
    let decoded: Pool = decode(pool).map_err(|error| error.to_string())?;
    let estimate = &claim.estimate;
    let possible = possible_launches(&decoded, &claim.requirements, &claim.instance_types, catalogue);
    let expected = possible.iter().find(|launch| {
        launch.instance_type.name == estimate.instance_type
            && launch.offering.zone() == estimate.zone
            && launch.offering.capacity_type() == estimate.capacity_type
    });
    let expected = expected.ok_or_else(|| format!("the catalogue has no offering for {estimate:?}"))?;
    let mut labels = json!(expected.labels);
    let provider_id = format!("kwok://{}", claim.name);
    let written = |resources: &Resources| -> Value {
        resources.iter().map(|(name, amount)| (name.to_owned(), json!(amount.to_string()))).collect()
    };
    let (capacity, allocatable) =
        (written(&expected.instance_type.capacity), written(&expected.instance_type.allocatable));
    let now = at.to_string();
    let conditions: Vec<Value> = ["Launched", "Registered", "Initialized", "Ready"]
        .iter()
        .map(|kind| json!({"type": kind, "status": "True", "reason": kind, "message": "", "lastTransitionTime": now}))
        .collect();
    let template = &pool["spec"]["template"]["spec"];
    let node_claim = json!({
        "apiVersion": "karpenter.sh/v1", "kind": "NodeClaim",
        "metadata": {"name": claim.name, "labels": labels, "creationTimestamp": now},
        "spec": {
            "nodeClassRef": template["nodeClassRef"], "expireAfter": "Never",
            "requirements": [{"key": "node.kubernetes.io/instance-type", "operator": "In", "values": [estimate.instance_type]}],
        },
        "status": {
            "providerID": provider_id, "nodeName": claim.name, "capacity": capacity, "allocatable": allocatable,
            "conditions": conditions,
        },
    });
    labels["kubernetes.io/hostname"] = json!(claim.name);
    let node = json!({
        "apiVersion": "v1", "kind": "Node",
        "metadata": {"name": claim.name, "labels": labels, "creationTimestamp": now},
        "spec": {"providerID": provider_id},
        "status": {
            "capacity": capacity, "allocatable": allocatable,
            "conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": now}],
        },
    });
    Ok([node_claim, node])
}
