//! Checks placements on existing nodes: the pods must fit beside the pods on the node and the
//! DaemonSet pods that are still to come.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::Pod;

use super::launch::with_label_aliases;
use super::{DaemonPods, PlanRule, Violation};
use crate::filters::volume_claims_by_driver;
use crate::manifests::{ClusterManifests, ExistingNode};
use crate::placement::{namespace, pod_key};
use crate::plan::Plan;
use crate::ports;
use crate::resources::{Resources, sum_of_requests};
use crate::selectors::node_affinity_matches;
use crate::storage::{
    VolumeClaimState, VolumeObjects, can_class_provision_for, is_volume_usable_on_new_node, volume_claim_names,
};
use crate::taints::first_untolerated_taint;

pub(super) fn check(cluster: &ClusterManifests, plan: &Plan) -> Vec<Violation> {
    let daemons = DaemonPods::of(cluster);
    let storage = cluster.storage();
    let nodes = cluster.existing_nodes();
    let pods: BTreeMap<String, &Pod> = cluster.pods.iter().map(|pod| (pod_key(pod), pod)).collect();
    let mut violations = Vec::new();
    for placement in &plan.provisioning.existing_nodes {
        let mut add_violation = |rule, pod: Option<&Pod>, detail: String| {
            let node = Some(placement.node.clone());
            violations.push(Violation { rule, pod: pod.map(pod_key), node, detail });
        };
        let Some(node) = nodes.iter().find(|node| node.name == placement.node) else {
            add_violation(PlanRule::Claim, None, "the node does not exist".to_owned());
            continue;
        };
        if node.is_deleting {
            add_violation(PlanRule::Claim, None, "the node is being deleted".to_owned());
        }
        let placed: Vec<&Pod> = placement.pods.iter().filter_map(|key| pods.get(key).copied()).collect();
        for shortage in sum_of_requests(placed.iter().copied()).shortages_in(&remaining_resources(node, &daemons)) {
            add_violation(PlanRule::Resources, None, shortage.to_string());
        }
        for (i, pod) in placed.iter().enumerate() {
            for (rule, detail) in node_mismatches(pod, node, &storage) {
                add_violation(rule, Some(pod), detail);
            }
            let others = node.pods.iter().chain(&placed[..i]);
            if let Some((port, other_port)) = others.into_iter().find_map(|other| ports::conflict(pod, other)) {
                add_violation(PlanRule::HostPorts, Some(pod), format!("{port} against {other_port}"));
            }
        }
        for (driver, count, limit) in exceeded_volume_limits(node, &placed, &storage, cluster) {
            add_violation(PlanRule::VolumeLimits, None, format!("{driver}: {count} volumes, {limit} allowed"));
        }
    }
    violations
}

/// Returns the allocatable resources less the requests of the node's pods and of missing DaemonSet
/// pods.
pub(crate) fn remaining_resources(node: &ExistingNode<'_>, daemons: &DaemonPods) -> Resources {
    let used = sum_of_requests(node.pods.iter().copied());
    node.allocatable.minus(&used).minus(&daemons.missing_requests(node))
}

/// Returns the reasons why the node does not suit the pod, regardless of other pods.
pub(crate) fn node_mismatches(
    pod: &Pod,
    node: &ExistingNode<'_>,
    storage: &VolumeObjects<'_>,
) -> Vec<(PlanRule, String)> {
    let mut mismatches = Vec::new();
    let labels = with_label_aliases(node.labels.clone());
    if let Some(taint) = first_untolerated_taint(pod, &node.taints) {
        mismatches.push((PlanRule::Taints, format!("{}:{}", taint.key, taint.effect)));
    }
    if !node_affinity_matches(pod, &node.name, &labels) {
        mismatches.push((PlanRule::NodeAffinity, "node affinity does not allow the node".to_owned()));
    }
    for name in volume_claim_names(pod) {
        let is_usable = match storage.claim_state(namespace(pod), &name) {
            VolumeClaimState::Bound(volume) => is_volume_usable_on_new_node(volume, &labels),
            VolumeClaimState::Waiting(class) => can_class_provision_for(class, &labels),
            VolumeClaimState::Missing => false,
            VolumeClaimState::Deleting | VolumeClaimState::Lost | VolumeClaimState::Unbound => true,
        };
        if !is_usable {
            mismatches.push((PlanRule::Volumes, format!("volume claim {name} cannot be used on the node")));
        }
    }
    mismatches
}

/// Returns the drivers that would have to attach more volumes than they can: driver, volumes,
/// limit.
pub(crate) fn exceeded_volume_limits(
    node: &ExistingNode<'_>,
    placed: &[&Pod],
    storage: &VolumeObjects<'_>,
    cluster: &ClusterManifests,
) -> Vec<(String, usize, usize)> {
    let drivers = cluster.csi_node(&node.name).into_iter().flat_map(|csi| &csi.spec.drivers);
    let limits = drivers.filter_map(|d| Some((&d.name, usize::try_from(d.allocatable.as_ref()?.count?).ok()?)));
    let volumes_of = |pods: &[&Pod], driver: &String| {
        let claims = pods.iter().filter_map(|pod| volume_claims_by_driver(pod, storage).remove(driver)).flatten();
        claims.collect::<std::collections::BTreeSet<_>>()
    };
    limits
        .filter_map(|(driver, limit)| {
            let placed_volumes = volumes_of(placed, driver);
            let volume_count = placed_volumes.union(&volumes_of(&node.pods, driver)).count();
            (!placed_volumes.is_empty() && volume_count > limit).then(|| (driver.clone(), volume_count, limit))
        })
        .collect()
}
