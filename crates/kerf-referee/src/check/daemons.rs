//! The pods that DaemonSets will run on a node (spec 02 §4.5).
//!
//! A DaemonSet is represented by its newest pod, or by a pod from its template if it has none.
//! Preferences, affinity and spread of these pods are ignored.

use k8s_openapi::api::core::v1::{NodeSelectorRequirement, Pod, Taint};
use kerf_api::quantity::Quantity;

use super::launch::sample_label_values;
use crate::catalogue::InstanceType;
use crate::manifests::{ClusterManifests, ExistingNode, Pool};
use crate::placement::namespace;
use crate::resources::{Resources, pod_requests, sum_of_requests};
use crate::selectors::{node_affinity_matches, node_selector, required_node_affinity_terms, satisfies};
use crate::taints::{prevents_scheduling, tolerates};

/// One representative pod for each DaemonSet.
#[derive(Debug, Clone, Default)]
pub(crate) struct DaemonPods {
    pods: Vec<Pod>,
}

impl DaemonPods {
    pub(crate) fn of(cluster: &ClusterManifests) -> Self {
        Self { pods: cluster.daemon_sets.iter().map(|set| representative_pod(cluster, set)).collect() }
    }

    /// Returns the DaemonSet pods that will run on a new node of this type and pool.
    pub(crate) fn on_new_node<'a>(
        &'a self,
        pool: &'a Pool,
        instance_type: &'a InstanceType,
    ) -> impl Iterator<Item = &'a Pod> {
        self.pods.iter().filter(move |pod| runs_on_new_node(pod, pool, instance_type))
    }

    /// Returns the requests of all DaemonSet pods on a new node of this type and pool.
    pub(crate) fn overhead(&self, pool: &Pool, instance_type: &InstanceType) -> Resources {
        let daemons = self.on_new_node(pool, instance_type);
        daemons.fold(Resources::new(), |sum, pod| sum.plus(&pod_requests(pod)))
    }

    /// Returns the requests of DaemonSet pods that should run on the node but do not yet.
    pub(crate) fn missing_requests(&self, node: &ExistingNode<'_>) -> Resources {
        let expected_pods = self.pods.iter().filter(|pod| {
            tolerates_scheduling_taints(pod, &node.taints) && node_affinity_matches(pod, &node.name, &node.labels)
        });
        let expected = expected_pods.fold(Resources::new(), |sum, pod| sum.plus(&pod_requests(pod)));
        let running_pods = node.pods.iter().copied().filter(|pod| is_daemon(pod));
        expected.minus(&sum_of_requests(running_pods)).clamped_to_zero()
    }
}

fn is_daemon(pod: &Pod) -> bool {
    let owners = pod.metadata.owner_references.as_deref().unwrap_or_default();
    owners.iter().any(|owner| owner.api_version == "apps/v1" && owner.kind == "DaemonSet")
}

fn tolerates_scheduling_taints(pod: &Pod, taints: &[Taint]) -> bool {
    taints.iter().all(|taint| !prevents_scheduling(taint) || tolerates(pod, taint))
}

fn representative_pod(cluster: &ClusterManifests, set: &k8s_openapi::api::apps::v1::DaemonSet) -> Pod {
    let own_namespace = set.metadata.namespace.as_deref().unwrap_or("default");
    let is_controlled = |pod: &&Pod| {
        let owners = pod.metadata.owner_references.as_deref().unwrap_or_default();
        let is_set = |owner: &&k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference| {
            owner.kind == "DaemonSet" && Some(&owner.name) == set.metadata.name.as_ref()
        };
        namespace(pod) == own_namespace && owners.iter().any(|owner| is_set(&owner) && owner.controller != Some(false))
    };
    let created = |pod: &&Pod| pod.metadata.creation_timestamp.as_ref().map(|time| time.0);
    let template = set.spec.as_ref().map(|spec| spec.template.clone()).unwrap_or_default();
    let newest = cluster.pods.iter().filter(is_controlled).max_by_key(created);
    let mut pod = newest.cloned().unwrap_or_else(|| {
        let mut pod = Pod { spec: template.spec.clone(), ..Pod::default() };
        if let Some(spec) = &mut pod.spec {
            for container in spec.containers.iter_mut().chain(spec.init_containers.iter_mut().flatten()) {
                default_requests_to_limits(container);
            }
        }
        pod
    });
    let required = |pod: Option<&k8s_openapi::api::core::v1::PodSpec>| {
        pod?.affinity.as_ref()?.node_affinity.as_ref()?.required_during_scheduling_ignored_during_execution.clone()
    };
    let template_affinity = required(template.spec.as_ref());
    if let Some(node) = pod.spec.as_mut().and_then(|s| s.affinity.as_mut()).and_then(|a| a.node_affinity.as_mut()) {
        // A live DaemonSet pod is bound to its node by a match field. For other nodes the affinity
        // of the DaemonSet's template counts.
        node.required_during_scheduling_ignored_during_execution = template_affinity;
    }
    pod
}

fn default_requests_to_limits(container: &mut k8s_openapi::api::core::v1::Container) {
    let Some(resources) = &mut container.resources else { return };
    for (name, limit) in resources.limits.iter().flatten() {
        resources.requests.get_or_insert_default().entry(name.clone()).or_insert_with(|| limit.clone());
    }
}

fn runs_on_new_node(pod: &Pod, pool: &Pool, instance_type: &InstanceType) -> bool {
    let selector: Vec<NodeSelectorRequirement> = node_selector(pod)
        .map(|(key, value)| NodeSelectorRequirement {
            key: key.clone(),
            operator: "In".to_owned(),
            values: Some(vec![value.clone()]),
        })
        .collect();
    let can_satisfy = |expressions: &[NodeSelectorRequirement]| {
        let expressions_of_pod: Vec<_> = selector.iter().chain(expressions).collect();
        expressions_of_pod.iter().all(|expression| {
            let same_key: Vec<_> =
                expressions_of_pod.iter().copied().filter(|other| other.key == expression.key).collect();
            pool_can_satisfy(pool, &expression.key, &same_key)
                && type_can_satisfy(instance_type, &expression.key, &same_key)
        })
    };
    tolerates_scheduling_taints(pod, &pool.taints)
        && match required_node_affinity_terms(pod) {
            None | Some([]) => can_satisfy(&[]),
            Some(terms) => terms.iter().any(|term| can_satisfy(term.match_expressions.as_deref().unwrap_or_default())),
        }
}

/// Returns true if a node of the pool can have a label that satisfies the expressions. Well-known
/// labels exist even if the pool does not mention them; other labels exist only if it does.
fn pool_can_satisfy(pool: &Pool, key: &str, expressions: &[&NodeSelectorRequirement]) -> bool {
    let label = match key {
        "karpenter.sh/registered" | "karpenter.sh/initialized" => Some("true"),
        key => pool.labels.get(key).map(String::as_str),
    };
    let requirements: Vec<_> = pool.requirements.iter().filter(|requirement| requirement.key == key).collect();
    let satisfies_expressions = |value: Option<&str>| {
        expressions.iter().all(|e| satisfies(value, &e.operator, e.values.as_deref().unwrap_or_default()))
    };
    let pool_allows_value = |value: Option<&str>| requirements.iter().all(|requirement| requirement.allows(value));
    if let Some(label) = label {
        return satisfies_expressions(Some(label)) && pool_allows_value(Some(label));
    }
    if requirements.is_empty() {
        return is_well_known(key) || satisfies_expressions(None);
    }
    let required_values =
        requirements.iter().map(|requirement| (requirement.operator.as_str(), requirement.values.as_slice()));
    let expression_values = expressions.iter().map(|e| (e.operator.as_str(), e.values.as_deref().unwrap_or_default()));
    (satisfies_expressions(None) && pool_allows_value(None))
        || sample_label_values(required_values.chain(expression_values))
            .iter()
            .any(|value| satisfies_expressions(Some(value)) && pool_allows_value(Some(value)))
}

fn type_can_satisfy(instance_type: &InstanceType, key: &str, expressions: &[&NodeSelectorRequirement]) -> bool {
    let satisfies_all = |value: &String| {
        expressions.iter().all(|e| satisfies(Some(value), &e.operator, e.values.as_deref().unwrap_or_default()))
    };
    instance_type.values.get(key).is_none_or(|values| values.iter().any(satisfies_all))
}

/// Returns true for labels that every node gets from its provider.
pub(crate) fn is_well_known(key: &str) -> bool {
    matches!(
        key,
        "karpenter.sh/nodepool"
            | "karpenter.sh/capacity-type"
            | "topology.kubernetes.io/zone"
            | "topology.kubernetes.io/region"
            | "node.kubernetes.io/instance-type"
            | "kubernetes.io/arch"
            | "kubernetes.io/os"
            | "node.kubernetes.io/windows-build"
    ) || key.starts_with("karpenter.kwok.sh/instance-")
}

/// Returns the least and the greatest overhead of DaemonSet pods on these types. The least contains
/// only resources that every type's overhead has.
pub(crate) fn overhead_range<'c>(
    daemons: &DaemonPods,
    pool: &Pool,
    types: impl IntoIterator<Item = &'c InstanceType>,
) -> (Resources, Resources) {
    let all: Vec<Resources> = types.into_iter().map(|t| daemons.overhead(pool, t)).collect();
    let least = all.iter().cloned().reduce(|a, b| a.min(&b)).unwrap_or_default();
    let most = all.iter().fold(Resources::new(), |a, b| a.max(b));
    debug_assert!(least.iter().all(|(_, amount)| amount >= Quantity::ZERO), "requests are never negative");
    (least, most)
}
