//! The pods that a plan has to place: pending pods (spec 02 §2.1) and pods on nodes that are being
//! deleted (§2.3). Also which of them no plan may place (§2.2, §9.1).

use k8s_openapi::api::core::v1::{NodeSelectorRequirement, Pod};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

use super::ClusterManifests;
use super::pools::NODEPOOL;
use crate::placement::{is_terminal, is_terminating, namespace, pod_key};
use crate::selectors::{node_selector, pod_labels, required_node_affinity_terms, selects};
use crate::storage::{HOSTNAME, VolumeClaimState, volume_claim_names};
use crate::taints::tolerates;

/// A pod that a plan has to place.
#[derive(Debug, Clone, Copy)]
pub struct PendingPod<'w> {
    /// The pod object.
    pub pod: &'w Pod,
    /// True if the pod still runs on a node that is being deleted.
    pub is_on_deleting_node: bool,
}

/// Reason why a plan must not place a pending pod.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NotPlannableReason {
    /// The pod excludes nodes of a NodePool. A plan need not mention such a pod.
    ExcludesManagedNodes,
    /// The pod requires something that a pod may not require; the text names it.
    Invalid(String),
}

impl ClusterManifests {
    /// Returns the pods that a plan has to place or to explain, by namespace and name.
    pub fn pending_pods(&self) -> Vec<PendingPod<'_>> {
        let unbound = self.pods.iter().filter(|pod| is_provisionable(pod));
        let mut pending: Vec<_> = unbound.map(|pod| PendingPod { pod, is_on_deleting_node: false }).collect();
        for node in self.existing_nodes().iter().filter(|node| node.is_deleting && node.node.is_some()) {
            let movable = node.pods.iter().copied().filter(|pod| self.is_reschedulable(pod));
            pending.extend(movable.map(|pod| PendingPod { pod, is_on_deleting_node: true }));
        }
        pending.sort_by_key(|pending| pod_key(pending.pod));
        pending
    }

    /// Returns the reason why a plan must not place the pod, or `None` if it may. Pods on nodes
    /// that are being deleted are only checked for resource claims.
    pub fn not_plannable_reason(&self, pending: PendingPod<'_>) -> Option<NotPlannableReason> {
        let pod = pending.pod;
        if has_resource_claims(pod) {
            return Some(NotPlannableReason::Invalid("asks for devices, which are not planned for".to_owned()));
        }
        if pending.is_on_deleting_node {
            return None;
        }
        if node_affinity_expressions(pod).any(|e| e.key == NODEPOOL && e.operator == "DoesNotExist") {
            return Some(NotPlannableReason::ExcludesManagedNodes);
        }
        let keys = node_selector(pod).map(|(key, _)| key).chain(node_affinity_expressions(pod).map(|e| &e.key));
        if let Some(key) = keys.into_iter().find(|key| is_restricted_label(key)) {
            return Some(NotPlannableReason::Invalid(format!(
                "asks for label {key}, which is not for pods to ask for"
            )));
        }
        if required_node_affinity_terms(pod).unwrap_or_default().iter().any(|term| term.match_fields.is_some()) {
            return Some(NotPlannableReason::Invalid("asks for a field of the node".to_owned()));
        }
        let storage = self.storage();
        volume_claim_names(pod).into_iter().find_map(|name| match storage.claim_state(namespace(pod), &name) {
            VolumeClaimState::Bound(_) | VolumeClaimState::Waiting(_) => None,
            state => Some(NotPlannableReason::Invalid(format!("its volume claim {name} is {state:?}"))),
        })
    }

    /// Returns true if the pod must run on another node once its node is deleted.
    fn is_reschedulable(&self, pod: &Pod) -> bool {
        let stateful = is_owned_by_kind(pod, "apps/v1", "StatefulSet");
        let annotation = pod.metadata.annotations.as_ref().and_then(|a| a.get("karpenter.sh/do-not-disrupt"));
        let active = !is_terminal(pod) && !is_terminating(pod);
        (active || (is_terminating(pod) && stateful))
            && !is_owned_by_kind(pod, "apps/v1", "DaemonSet")
            && !is_owned_by_kind(pod, "v1", "Node")
            && !(active && annotation.is_some_and(|annotation| annotation == "true"))
            && !(active && !tolerates_disruption_taint(pod) && self.is_eviction_blocked(pod))
    }

    /// Returns true if PodDisruptionBudgets will never allow the pod's eviction.
    fn is_eviction_blocked(&self, pod: &Pod) -> bool {
        let pod_namespace = namespace(pod);
        let budgets: Vec<_> = self
            .disruption_budgets
            .iter()
            .filter(|budget| budget.metadata.namespace.as_deref().unwrap_or("default") == pod_namespace)
            .filter(|budget| selects(budget.spec.as_ref().and_then(|s| s.selector.as_ref()), pod_labels(pod)))
            .collect();
        match budgets.as_slice() {
            [] => false,
            [budget] => never_allows_eviction(budget) && !(always_allows_unhealthy_eviction(budget) && is_unready(pod)),
            [_, _, ..] => true,
        }
    }
}

/// Returns true if the pod needs a node: it is not bound, nominated, gated or finished, and belongs
/// neither to a DaemonSet nor to a node (static pod).
fn is_provisionable(pod: &Pod) -> bool {
    let status = pod.status.as_ref();
    let bound = pod.spec.as_ref().and_then(|spec| spec.node_name.as_deref()).is_some_and(|name| !name.is_empty());
    let nominated = status.and_then(|s| s.nominated_node_name.as_deref()).is_some_and(|name| !name.is_empty());
    let gated = pod.spec.as_ref().and_then(|s| s.scheduling_gates.as_deref()).is_some_and(|gates| !gates.is_empty());
    let mut scheduled_conditions =
        status.into_iter().flat_map(|s| s.conditions.iter().flatten()).filter(|c| c.type_ == "PodScheduled");
    let unschedulable = scheduled_conditions.next().is_none_or(|c| c.reason.as_deref() == Some("Unschedulable"));
    !(bound || nominated || gated || is_terminal(pod) || is_terminating(pod))
        && unschedulable
        && !is_owned_by_kind(pod, "apps/v1", "DaemonSet")
        && !is_owned_by_kind(pod, "v1", "Node")
}

/// Returns true if an owner of the pod has this API version and kind.
pub(crate) fn is_owned_by_kind(pod: &Pod, api_version: &str, kind: &str) -> bool {
    let owners = pod.metadata.owner_references.as_deref().unwrap_or_default();
    owners.iter().any(|owner| owner.api_version == api_version && owner.kind == kind)
}

fn has_resource_claims(pod: &Pod) -> bool {
    let containers = pod.spec.iter().flat_map(|s| s.containers.iter().chain(s.init_containers.iter().flatten()));
    let mut claims = containers.filter_map(|c| c.resources.as_ref()?.claims.as_ref());
    pod.spec.as_ref().is_some_and(|spec| spec.resource_claims.as_ref().is_some_and(|claims| !claims.is_empty()))
        || claims.any(|claims| !claims.is_empty())
}

fn node_affinity_expressions(pod: &Pod) -> impl Iterator<Item = &NodeSelectorRequirement> {
    required_node_affinity_terms(pod)
        .unwrap_or_default()
        .iter()
        .flat_map(|term| term.match_expressions.iter().flatten())
}

/// Returns true for a label that only the autoscaler may set.
fn is_restricted_label(key: &str) -> bool {
    const DOMAINS: [&str; 3] = ["karpenter.sh", "karpenter.k8s.aws", "karpenter.kwok.sh"];
    const ALLOWED: [&str; 6] = [
        NODEPOOL,
        "karpenter.sh/capacity-type",
        "karpenter.kwok.sh/instance-size",
        "karpenter.kwok.sh/instance-family",
        "karpenter.kwok.sh/instance-cpu",
        "karpenter.kwok.sh/instance-memory",
    ];
    let domain = key.split_once('/').map_or("", |(domain, _)| domain);
    let is_own_domain =
        DOMAINS.iter().any(|is_own_domain| domain == *is_own_domain || domain.ends_with(&format!(".{is_own_domain}")));
    key == HOSTNAME || (is_own_domain && !ALLOWED.contains(&key) && !key.starts_with("karpenter.k8s.aws/instance-"))
}

fn tolerates_disruption_taint(pod: &Pod) -> bool {
    let taint = k8s_openapi::api::core::v1::Taint {
        key: "karpenter.sh/disrupted".to_owned(),
        effect: "NoSchedule".to_owned(),
        ..Default::default()
    };
    tolerates(pod, &taint)
}

fn never_allows_eviction(budget: &PodDisruptionBudget) -> bool {
    let spec = budget.spec.as_ref();
    let is = |value: Option<&IntOrString>, number: Option<i32>, text: &str| match value {
        Some(IntOrString::Int(value)) => Some(*value) == number,
        Some(IntOrString::String(value)) => value == text,
        None => false,
    };
    is(spec.and_then(|s| s.max_unavailable.as_ref()), Some(0), "0%")
        || is(spec.and_then(|s| s.min_available.as_ref()), None, "100%")
}

fn always_allows_unhealthy_eviction(budget: &PodDisruptionBudget) -> bool {
    budget.spec.as_ref().and_then(|s| s.unhealthy_pod_eviction_policy.as_deref()) == Some("AlwaysAllow")
}

fn is_unready(pod: &Pod) -> bool {
    let conditions = pod.status.iter().flat_map(|s| s.conditions.iter().flatten());
    conditions.into_iter().any(|c| c.type_ == "Ready" && c.status == "False")
}
