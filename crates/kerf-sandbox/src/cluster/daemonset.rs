//! The DaemonSet controller: one pod on each node that the template allows.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::core::v1 as core;
use kerf_referee::selectors::node_affinity_matches;
use kerf_referee::taints::{prevents_scheduling, tolerates};
use serde_json::{Value, json};
use smol_str::SmolStr;

use super::control_plane::{ControlPlane, RunAgain};
use super::events::{EventComponent, EventType};
use super::kind::ControlPlaneKind;
use super::objects::{AnyObject, Node, Pod, Workload, resolve_int_or_percent};
use super::pods::{count_ready, from_template, ignore_not_found_or_conflict};
use super::replicaset::status_differs;
use super::revisions::{self, REVISION_HASH};
use crate::api::object;
use crate::api::status::ApiResult;
use crate::api::storage::ObjectKey;

const EVENT_COMPONENT: EventComponent = EventComponent::Controller("daemonset-controller");
/// Tolerations of every DaemonSet pod: taints that report an unhealthy or cordoned node.
const DAEMON_TOLERATIONS: [(&str, &str); 6] = [
    ("node.kubernetes.io/not-ready", "NoExecute"),
    ("node.kubernetes.io/unreachable", "NoExecute"),
    ("node.kubernetes.io/disk-pressure", "NoSchedule"),
    ("node.kubernetes.io/memory-pressure", "NoSchedule"),
    ("node.kubernetes.io/pid-pressure", "NoSchedule"),
    ("node.kubernetes.io/unschedulable", "NoSchedule"),
];

/// How a DaemonSet relates to a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum DaemonFit {
    /// The node should have a pod.
    ShouldRun,
    /// An existing pod may stay, but no pod is created.
    MayStay,
    /// An existing pod is deleted.
    MustNotRun,
}

/// Creates and deletes pods until each eligible node has one, and rolls out a new template.
pub(crate) fn sync(plane: &mut ControlPlane, key: &ObjectKey) -> ApiResult<RunAgain> {
    let Some(set) = plane.cache.daemon_sets.get(key) else { return Ok(RunAgain::WhenChanged) };
    let pods = plane.claim_pods(ControlPlaneKind::DaemonSet, &set.metadata, set.selector().as_ref())?;
    if set.metadata.is_deleting() {
        return Ok(RunAgain::WhenChanged);
    }
    let revision = revisions::ensure_current(plane, ControlPlaneKind::DaemonSet, &set)?;
    let template = template(&set, &revision);
    let template_pod = template_as_pod(&template);
    let mut by_node: BTreeMap<SmolStr, Vec<Arc<Pod>>> = BTreeMap::new();
    for pod in &pods {
        by_node.entry(target_node(pod)).or_default().push(pod.clone());
    }
    let nodes: Vec<(SmolStr, DaemonFit)> = plane
        .cache
        .nodes
        .iter()
        .map(|(_, node)| (node.metadata.name.clone(), daemon_fit(&template_pod, node)))
        .collect();
    for (node, fit) in &nodes {
        let node_pods = by_node.get(node).map_or(&[][..], Vec::as_slice);
        manage_node_pods(plane, &set, &template, node, *fit, node_pods)?;
    }
    // Pod garbage collection deletes the pods whose node was deleted. Unbound pods for such a node
    // could never be scheduled.
    for (node, node_pods) in &by_node {
        if plane.cache.nodes.get(&ObjectKey::new(None, node)).is_none() {
            for pod in node_pods.iter().filter(|pod| pod.spec.node_name.is_empty() && pod.is_active()) {
                ignore_not_found_or_conflict(plane.controller_client.delete(
                    ControlPlaneKind::Pod,
                    &pod.metadata.key(),
                    &pod.metadata.uid,
                ))?;
            }
        }
    }
    if set.spec.update_strategy.kind != "OnDelete" {
        rolling_update(plane, &set, &revision, &nodes, &by_node)?;
    }
    let in_use: Vec<String> = pods.iter().map(|pod| revision_name(&set, pod)).chain([revision.clone()]).collect();
    revisions::delete_old_revisions(plane, &set, &in_use.iter().map(String::as_str).collect::<Vec<_>>())?;
    write_status(plane, key, &set, &revision, &nodes, &by_node)
}

/// Returns the pod template with the labels of the revision and the tolerations of every DaemonSet
/// pod.
fn template(set: &Workload, revision: &str) -> Value {
    let mut template = set.spec.template.clone();
    let hash = revision.rsplit('-').next().unwrap_or_default();
    let labels = object::ensure_object(&mut template, &["metadata", "labels"]);
    labels.insert(REVISION_HASH.into(), hash.into());
    labels.insert("pod-template-generation".into(), set.metadata.generation.to_string().into());
    let host_network = object::flag(&template, &["spec", "hostNetwork"]);
    let extra = host_network.then_some(("node.kubernetes.io/network-unavailable", "NoSchedule"));
    let tolerations = object::ensure_object(&mut template, &["spec"]).entry("tolerations").or_insert_with(|| json!([]));
    if let Some(tolerations) = tolerations.as_array_mut() {
        for (key, effect) in DAEMON_TOLERATIONS.into_iter().chain(extra) {
            tolerations.push(json!({"key": key, "operator": "Exists", "effect": effect}));
        }
    }
    template
}

/// Returns the template as a pod that the referee's predicates accept.
fn template_as_pod(template: &Value) -> core::Pod {
    let spec = template.get("spec").cloned().and_then(|spec| serde_json::from_value(spec).ok());
    core::Pod { spec, ..core::Pod::default() }
}

fn daemon_fit(template_pod: &core::Pod, node: &Node) -> DaemonFit {
    let labels =
        node.metadata.labels.as_slice().iter().map(|(key, value)| (key.to_string(), value.to_string())).collect();
    if !node_affinity_matches(template_pod, &node.metadata.name, &labels) {
        return DaemonFit::MustNotRun;
    }
    let mut fit = DaemonFit::ShouldRun;
    for taint in &node.spec.taints {
        let taint = core::Taint {
            key: taint.key.to_string(),
            value: Some(taint.value.to_string()),
            effect: taint.effect.to_string(),
            time_added: None,
        };
        if prevents_scheduling(&taint) && !tolerates(template_pod, &taint) {
            if taint.effect == "NoExecute" {
                return DaemonFit::MustNotRun;
            }
            fit = DaemonFit::MayStay;
        }
    }
    fit
}

/// Returns the node that a pod was created for.
fn target_node(pod: &Pod) -> SmolStr {
    if pod.spec.node_name.is_empty() { pod.spec.affinity.required_node_name() } else { pod.spec.node_name.clone() }
}

/// Creates the node's pod if it is missing, and deletes failed and surplus pods.
fn manage_node_pods(
    plane: &mut ControlPlane,
    set: &Workload,
    template: &Value,
    node: &SmolStr,
    fit: DaemonFit,
    node_pods: &[Arc<Pod>],
) -> ApiResult<()> {
    let mut active: Vec<&Arc<Pod>> = node_pods.iter().filter(|pod| pod.is_active()).collect();
    for pod in node_pods.iter().filter(|pod| pod.status.phase == "Failed" && !pod.metadata.is_deleting()) {
        let message = format!(
            "Found failed daemon pod {}/{} on node {node}, will try to kill it",
            pod.metadata.namespace, pod.metadata.name
        );
        plane.publish_event(
            EVENT_COMPONENT,
            (ControlPlaneKind::DaemonSet, &set.metadata),
            EventType::Warning,
            "FailedDaemonPod",
            message,
        );
        plane.controller_client.delete(ControlPlaneKind::Pod, &pod.metadata.key(), &pod.metadata.uid)?;
    }
    match fit {
        DaemonFit::ShouldRun if node_pods.is_empty() => create(plane, set, template, node),
        DaemonFit::ShouldRun | DaemonFit::MayStay => {
            // The oldest pod stays.
            active.sort_by_key(|pod| (pod.metadata.creation_timestamp, pod.metadata.name.clone()));
            for pod in active.into_iter().skip(1) {
                plane.controller_client.delete(ControlPlaneKind::Pod, &pod.metadata.key(), &pod.metadata.uid)?;
            }
            Ok(())
        }
        DaemonFit::MustNotRun => {
            for pod in active {
                plane.controller_client.delete(ControlPlaneKind::Pod, &pod.metadata.key(), &pod.metadata.uid)?;
                let message = format!("Deleted pod: {}", pod.metadata.name);
                plane.publish_event(
                    EVENT_COMPONENT,
                    (ControlPlaneKind::DaemonSet, &set.metadata),
                    EventType::Normal,
                    "SuccessfulDelete",
                    message,
                );
            }
            Ok(())
        }
    }
}

fn create(plane: &mut ControlPlane, set: &Workload, template: &Value, node: &str) -> ApiResult<()> {
    let mut pod = from_template(template, (ControlPlaneKind::DaemonSet, &set.metadata));
    let on_node =
        json!({"nodeSelectorTerms": [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": [node]}]}]});
    let affinity = object::ensure_object(&mut pod, &["spec", "affinity", "nodeAffinity"]);
    // The template's own terms have already been evaluated. Each of them is restricted to this node
    // as well.
    let required = affinity.entry("requiredDuringSchedulingIgnoredDuringExecution").or_insert(Value::Null);
    match required.get_mut("nodeSelectorTerms").and_then(Value::as_array_mut).filter(|terms| !terms.is_empty()) {
        Some(terms) => {
            for term in terms {
                term["matchFields"] = json!([{"key": "metadata.name", "operator": "In", "values": [node]}]);
            }
        }
        None => *required = on_node,
    }
    let created = plane.controller_client.create(ControlPlaneKind::Pod, &set.metadata.namespace, &pod)?;
    let created: AnyObject = serde_json::from_slice(&created).unwrap_or_default();
    let message = format!("Created pod: {}", created.metadata.name);
    plane.publish_event(
        EVENT_COMPONENT,
        (ControlPlaneKind::DaemonSet, &set.metadata),
        EventType::Normal,
        "SuccessfulCreate",
        message,
    );
    Ok(())
}

fn revision_name(set: &Workload, pod: &Pod) -> String {
    format!("{}-{}", set.metadata.name, pod.metadata.labels.get(REVISION_HASH).unwrap_or_default())
}

/// Deletes pods of old revisions, as long as no more than `maxUnavailable` nodes lack an available
/// pod.
fn rolling_update(
    plane: &ControlPlane,
    set: &Workload,
    revision: &str,
    nodes: &[(SmolStr, DaemonFit)],
    by_node: &BTreeMap<SmolStr, Vec<Arc<Pod>>>,
) -> ApiResult<()> {
    let desired = nodes.iter().filter(|(_, fit)| *fit == DaemonFit::ShouldRun).count() as i64;
    let max_unavailable =
        resolve_int_or_percent(&set.spec.update_strategy.rolling_update.max_unavailable, desired, true).max(1);
    let (mut unavailable, mut old) = (0, Vec::new());
    for (node, _) in nodes.iter().filter(|(_, fit)| *fit == DaemonFit::ShouldRun) {
        let node_pods: Vec<Arc<Pod>> =
            by_node.get(node).into_iter().flatten().filter(|pod| pod.is_active()).cloned().collect();
        let (_, available, _) = count_ready(&node_pods, set.spec.min_ready_seconds, plane.now());
        if available == 0 {
            unavailable += 1;
        }
        old.extend(
            node_pods.into_iter().filter(|pod| revision_name(set, pod) != revision).map(|pod| (available > 0, pod)),
        );
    }
    // Delete unavailable pods first: they do not reduce availability.
    old.sort_by_key(|(available, pod)| (*available, pod.metadata.name.clone()));
    for (available, pod) in old {
        if available {
            if unavailable >= max_unavailable {
                break;
            }
            unavailable += 1;
        }
        plane.controller_client.delete(ControlPlaneKind::Pod, &pod.metadata.key(), &pod.metadata.uid)?;
    }
    Ok(())
}

fn write_status(
    plane: &ControlPlane,
    key: &ObjectKey,
    set: &Workload,
    revision: &str,
    nodes: &[(SmolStr, DaemonFit)],
    by_node: &BTreeMap<SmolStr, Vec<Arc<Pod>>>,
) -> ApiResult<RunAgain> {
    let (mut desired, mut current, mut misplaced, mut ready, mut available, mut updated) = (0, 0, 0, 0, 0, 0);
    let mut run_again = RunAgain::WhenChanged;
    for (node, fit) in nodes {
        let node_pods: Vec<Arc<Pod>> = by_node
            .get(node)
            .into_iter()
            .flatten()
            .filter(|pod| pod.is_active() && !pod.spec.node_name.is_empty())
            .cloned()
            .collect();
        if *fit == DaemonFit::ShouldRun {
            desired += 1;
            if let Some(pod) = node_pods.first() {
                current += 1;
                let (is_ready, is_available, next) =
                    count_ready(std::slice::from_ref(pod), set.spec.min_ready_seconds, plane.now());
                ready += is_ready;
                available += is_available;
                updated += i64::from(revision_name(set, pod) == revision);
                run_again = next.map_or(run_again, |delay| run_again.or_after(delay));
            }
        } else if !node_pods.is_empty() {
            misplaced += 1;
        }
    }
    let status = json!({
        "currentNumberScheduled": current, "desiredNumberScheduled": desired, "numberMisscheduled": misplaced,
        "numberReady": ready, "numberAvailable": available, "numberUnavailable": desired - available,
        "updatedNumberScheduled": updated, "observedGeneration": set.metadata.generation,
    });
    if status_differs(&set.status, &status) {
        ignore_not_found_or_conflict(plane.controller_client.merge_patch_status(
            ControlPlaneKind::DaemonSet,
            key,
            &status,
        ))?;
    }
    Ok(run_again)
}
