//! DaemonSets: the pod that each of them adds to a node, decided separately for every pool,
//! instance type and node (spec 02 §4.5).

use std::sync::Arc;

use kerf_api::labels::LabelRules;
use kerf_api::slim::{DaemonSet, HostPort, Pod, Taint, Toleration};

use super::ports;
use crate::pod::requests;
use crate::pod::requirements::node_affinity_alternatives;
use crate::pod::tolerations::{prefer_no_schedule, tolerates_all};
use crate::requirement::Requirement;
use crate::requirement_table::{RequirementSetIx, RequirementTable, UndefinedKeys};
use crate::resources::{Amounts, ResourceNames};

/// The pod that represents a DaemonSet.
#[derive(Debug, Clone)]
pub(crate) struct Daemon {
    pub(crate) requests: Amounts,
    pub(crate) ports: Vec<HostPort>,
    tolerations: Vec<Toleration>,
    /// Alternatives of its required node affinity, as label requirements and hostname. One must be
    /// satisfied.
    alternatives: Vec<(RequirementSetIx, Option<Requirement>)>,
    pub(crate) needs_devices: bool,
}

impl Daemon {
    /// Builds it from the newest pod of the DaemonSet that has not finished, otherwise from the
    /// template.
    pub(crate) fn new(
        set: &DaemonSet,
        pods: &[Arc<Pod>],
        rules: &LabelRules,
        names: &mut ResourceNames,
        table: &mut RequirementTable,
    ) -> Self {
        let newest = pods
            .iter()
            .filter(|pod| is_pod_of(pod, set) && !pod.is_terminal())
            .max_by_key(|pod| (pod.metadata.creation_timestamp, pod.metadata.name.clone()));
        let mut pod = newest.map_or_else(|| from_template(set), |pod| pod.as_ref().clone());
        let template_affinity = set.template.spec.affinity.as_ref().and_then(|a| a.node_affinity.required.clone());
        if template_affinity.is_some() {
            pod.spec.affinity.get_or_insert_default().node_affinity.required = template_affinity;
        }
        let mut tolerations = pod.spec.tolerations.clone();
        tolerations.push(prefer_no_schedule());
        Self {
            requests: requests::effective_requests(&pod, names),
            ports: ports::host_ports(&pod),
            tolerations,
            alternatives: node_affinity_alternatives(&pod.spec, rules)
                .into_iter()
                .map(|requirements| (table.intern(&requirements.labels), requirements.hostname))
                .collect(),
            needs_devices: needs_devices(&pod),
        }
    }

    /// Returns true if the daemon runs on nodes of this instance type from this template.
    pub(crate) fn runs_on_type(
        &self,
        template: RequirementSetIx,
        taints: &[Taint],
        type_set: RequirementSetIx,
        table: &mut RequirementTable,
    ) -> bool {
        tolerates_all(&self.tolerations, taints)
            && self.alternatives.iter().any(|(required, _)| {
                table.intersect_sets(template, *required, UndefinedKeys::AllowWellKnown).is_some()
                    && sets_intersect(type_set, *required, table)
            })
    }

    /// Returns true if the daemon runs on this node.
    pub(crate) fn runs_on_node(
        &self,
        labels: RequirementSetIx,
        hostname: &str,
        taints: &[Taint],
        table: &mut RequirementTable,
    ) -> bool {
        tolerates_all(&self.tolerations, taints)
            && self.alternatives.iter().any(|(required, host)| {
                host.as_ref().is_none_or(|h| h.has(hostname))
                    && table.intersect_sets(labels, *required, UndefinedKeys::Reject).is_some()
            })
    }
}

/// Returns true if the requirements on every key that both sets have can be satisfied together.
fn sets_intersect(a: RequirementSetIx, b: RequirementSetIx, table: &mut RequirementTable) -> bool {
    table.pairs(b).to_vec().into_iter().all(|(key, required)| match table.get(a, key) {
        Some(declared) => table.intersect_requirements(declared, required).1,
        None => true,
    })
}

/// Returns true if the pod belongs to the DaemonSet.
pub(super) fn is_pod_of(pod: &Pod, set: &DaemonSet) -> bool {
    pod.metadata.namespace == set.metadata.namespace
        && pod.metadata.owner_references.iter().any(|owner| {
            owner.kind == "DaemonSet"
                && owner.api_version == "apps/v1"
                && owner.name == set.metadata.name
                && (owner.uid.is_empty() || set.metadata.uid.is_empty() || owner.uid == set.metadata.uid)
        })
}

/// Returns the pod that the DaemonSet's template describes.
pub(super) fn from_template(set: &DaemonSet) -> Pod {
    let mut pod = Pod { spec: set.template.spec.clone(), ..Pod::default() };
    pod.metadata.namespace = set.metadata.namespace.clone();
    pod.metadata.labels = set.template.metadata.labels.clone();
    for container in pod.spec.containers.iter_mut().chain(&mut pod.spec.init_containers) {
        requests::default_requests_to_limits(container);
    }
    pod
}

/// Returns true if the pod or one of its containers requests dynamic resources.
pub(crate) fn needs_devices(pod: &Pod) -> bool {
    pod.spec.has_resource_claims
        || pod.spec.containers.iter().chain(&pod.spec.init_containers).any(|c| c.resources.has_claims)
}
