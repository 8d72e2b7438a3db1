//! Checks each planned NodeClaim by itself: every launch that it allows must suit every pod on it.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::core::v1::Pod;

use super::daemons::overhead_range;
use super::launch::{PossibleLaunch, launches_with_free_reservations, possible_launches};
use super::{DaemonPods, PlanRule, Violation};
use crate::catalogue::{Catalogue, InstanceType};
use crate::manifests::{ClusterManifests, Pool};
use crate::placement::{namespace, pod_key};
use crate::plan::{Plan, PlanClaim};
use crate::ports;
use crate::price::Price;
use crate::resources::{Resources, sum_of_requests};
use crate::selectors::{Labels, node_affinity_matches};
use crate::storage::{
    VolumeClaimState, VolumeObjects, can_class_provision_for, is_volume_usable_on_new_node, volume_claim_names,
};
use crate::taints::first_untolerated_taint;

pub(super) fn check(cluster: &ClusterManifests, catalogue: &Catalogue, plan: &Plan) -> Vec<Violation> {
    let daemons = DaemonPods::of(cluster);
    let pods: BTreeMap<String, &Pod> = cluster.pods.iter().map(|pod| (pod_key(pod), pod)).collect();
    let mut violations = Vec::new();
    for (index, claim) in plan.provisioning.node_claims.iter().enumerate() {
        let mut report = ClaimReport { node: claim_name(index, claim), violations: &mut violations };
        let Some(pool) = cluster.pool(&claim.node_pool).filter(|pool| pool.is_usable) else {
            report.add_violation(PlanRule::Claim, None, format!("pool {} cannot be used", claim.node_pool));
            continue;
        };
        let claim_pods: Vec<&Pod> = claim.pods.iter().filter_map(|key| pods.get(key).copied()).collect();
        if claim_pods.is_empty() {
            report.add_violation(PlanRule::Claim, None, "has no pods".to_owned());
        }
        for name in claim.instance_types.iter().filter(|name| !catalogue.contains_key(*name)) {
            report.add_violation(PlanRule::Claim, None, format!("type {name} does not exist"));
        }
        let launches = possible_launches(pool, &claim.requirements, &claim.instance_types, catalogue);
        let with_free_reservations =
            launches_with_free_reservations(pool, &claim.requirements, &claim.instance_types, catalogue);
        check_types(&mut report, claim, catalogue, &with_free_reservations);
        check_taints(&mut report, pool, &claim_pods);
        check_labels(&mut report, &claim_pods, &launches, &cluster.storage());
        check_resources(&mut report, pool, claim, catalogue, &daemons, &claim_pods);
        check_host_ports(&mut report, pool, claim, catalogue, &daemons, &claim_pods);
        check_requests(&mut report, pool, claim, catalogue, &daemons, &claim_pods);
        check_min_values(&mut report, cluster, pool, claim, catalogue);
        check_estimate(&mut report, claim, &launches);
        check_price_order(&mut report, claim, &launches);
    }
    violations
}

/// Returns the name of a claim in violations.
pub(crate) fn claim_name(index: usize, claim: &PlanClaim) -> String {
    format!("claim {index} ({})", claim.node_pool)
}

/// Collects the violations of one claim.
struct ClaimReport<'v> {
    node: String,
    violations: &'v mut Vec<Violation>,
}

impl ClaimReport<'_> {
    fn add_violation(&mut self, rule: PlanRule, pod: Option<&Pod>, detail: String) {
        self.violations.push(Violation { rule, pod: pod.map(pod_key), node: Some(self.node.clone()), detail });
    }
}

fn listed_types<'c>(claim: &PlanClaim, catalogue: &'c Catalogue) -> Vec<&'c InstanceType> {
    claim.instance_types.iter().filter_map(|name| catalogue.get(name)).collect()
}

/// Checks that each listed type is listed once and can be launched. A claim on reservations
/// launches only reserved offerings; the other types that it lists are not checked (spec 02 §7.4).
fn check_types(
    report: &mut ClaimReport<'_>,
    claim: &PlanClaim,
    catalogue: &Catalogue,
    launches: &[PossibleLaunch<'_>],
) {
    let mut seen = BTreeSet::new();
    for name in &claim.instance_types {
        if !seen.insert(name) {
            report.add_violation(PlanRule::Claim, None, format!("type {name} is listed twice"));
        }
    }
    if seen.is_empty() {
        report.add_violation(PlanRule::Claim, None, "lists no instance type".to_owned());
    }
    if !launches.is_empty() && launches.iter().all(|launch| launch.offering.reservation_id().is_some()) {
        return;
    }
    for instance_type in listed_types(claim, catalogue) {
        if !launches.iter().any(|launch| launch.instance_type.name == instance_type.name) {
            let detail = format!("type {} has no available offering that the requirements allow", instance_type.name);
            report.add_violation(PlanRule::Requirements, None, detail);
        }
    }
}

fn check_taints(report: &mut ClaimReport<'_>, pool: &Pool, pods: &[&Pod]) {
    for pod in pods {
        if let Some(taint) = first_untolerated_taint(pod, &pool.taints) {
            let value = taint.value.as_deref().unwrap_or_default();
            report.add_violation(PlanRule::Taints, Some(pod), format!("{}={value}:{}", taint.key, taint.effect));
        }
    }
}

/// Checks that on every launch the node's labels match every pod and its volumes.
fn check_labels(
    report: &mut ClaimReport<'_>,
    pods: &[&Pod],
    launches: &[PossibleLaunch<'_>],
    storage: &VolumeObjects<'_>,
) {
    for pod in pods {
        if let Some(launch) = launches.iter().find(|launch| !node_affinity_matches(pod, "", &launch.labels)) {
            report.add_violation(
                PlanRule::NodeAffinity,
                Some(pod),
                format!("node affinity does not allow {}", describe_launch(launch)),
            );
        }
        for launch in launches {
            if let Some(claim) = unusable_volume_claim(pod, &launch.labels, storage) {
                report.add_violation(
                    PlanRule::Volumes,
                    Some(pod),
                    format!("volume claim {claim} cannot be used on {}", describe_launch(launch)),
                );
                break;
            }
        }
    }
}

/// Returns the name of a volume claim of the pod that cannot be used on a new node with these
/// labels.
pub(crate) fn unusable_volume_claim(pod: &Pod, labels: &Labels, storage: &VolumeObjects<'_>) -> Option<String> {
    volume_claim_names(pod).into_iter().find(|name| match storage.claim_state(namespace(pod), name) {
        VolumeClaimState::Bound(volume) => !is_volume_usable_on_new_node(volume, labels),
        VolumeClaimState::Waiting(class) => !can_class_provision_for(class, labels),
        VolumeClaimState::Missing => true,
        VolumeClaimState::Deleting | VolumeClaimState::Lost | VolumeClaimState::Unbound => false,
    })
}

fn describe_launch(launch: &PossibleLaunch<'_>) -> String {
    let offering = launch.offering;
    format!("{} {} in {}", offering.capacity_type(), launch.instance_type.name, offering.zone())
}

fn check_resources(
    report: &mut ClaimReport<'_>,
    pool: &Pool,
    claim: &PlanClaim,
    catalogue: &Catalogue,
    daemons: &DaemonPods,
    pods: &[&Pod],
) {
    let pod_requests = sum_of_requests(pods.iter().copied());
    for instance_type in listed_types(claim, catalogue) {
        let requests = pod_requests.plus(&daemons.overhead(pool, instance_type));
        for shortage in requests.shortages_in(&instance_type.allocatable) {
            report.add_violation(PlanRule::Resources, None, format!("type {}, {shortage}", instance_type.name));
        }
    }
}

fn check_host_ports(
    report: &mut ClaimReport<'_>,
    pool: &Pool,
    claim: &PlanClaim,
    catalogue: &Catalogue,
    daemons: &DaemonPods,
    pods: &[&Pod],
) {
    for (i, pod) in pods.iter().enumerate() {
        for other in &pods[..i] {
            if let Some((port, other_port)) = ports::conflict(pod, other) {
                report.add_violation(
                    PlanRule::HostPorts,
                    Some(pod),
                    format!("{port} against {other_port} of {}", pod_key(other)),
                );
            }
        }
        for instance_type in listed_types(claim, catalogue) {
            let daemon_conflict =
                daemons.on_new_node(pool, instance_type).find_map(|daemon| ports::conflict(pod, daemon));
            if let Some((port, other_port)) = daemon_conflict {
                let detail = format!("{port} against {other_port} of a daemon on type {}", instance_type.name);
                report.add_violation(PlanRule::HostPorts, Some(pod), detail);
            }
        }
    }
}

/// Checks that the claim's requests are those of its pods plus an overhead between the smallest and
/// the largest DaemonSet overhead of the listed types.
fn check_requests(
    report: &mut ClaimReport<'_>,
    pool: &Pool,
    claim: &PlanClaim,
    catalogue: &Catalogue,
    daemons: &DaemonPods,
    pods: &[&Pod],
) {
    let stated = Resources::parse(&claim.requests);
    let pod_requests = sum_of_requests(pods.iter().copied());
    let (least, most) = overhead_range(daemons, pool, listed_types(claim, catalogue));
    let (low, high) = (pod_requests.plus(&least), pod_requests.plus(&most));
    for (name, amount) in low.iter().filter(|(name, amount)| stated.get(name) < *amount) {
        report.add_violation(
            PlanRule::Requests,
            None,
            format!("{name}: the plan states {}, the pods request at least {amount}", stated.get(name)),
        );
    }
    for (name, amount) in stated.iter().filter(|(name, amount)| *amount > high.get(name)) {
        report.add_violation(
            PlanRule::Requests,
            None,
            format!("{name}: the plan states {amount}, the pods request at most {}", high.get(name)),
        );
    }
}

/// Checks that the listed types offer as many values of each label as the pool's `minValues`
/// requires (spec 02 §3.9).
fn check_min_values(
    report: &mut ClaimReport<'_>,
    cluster: &ClusterManifests,
    pool: &Pool,
    claim: &PlanClaim,
    catalogue: &Catalogue,
) {
    if cluster.min_values_best_effort {
        return;
    }
    for (key, required, offered) in min_values_shortfalls(pool, listed_types(claim, catalogue)) {
        report.add_violation(
            PlanRule::MinValues,
            None,
            format!("{key}: {required} values required, {offered} offered"),
        );
    }
}

/// Returns the labels of which the types offer too few values: label, required number, offered
/// number.
pub(crate) fn min_values_shortfalls<'c>(
    pool: &Pool,
    types: impl IntoIterator<Item = &'c InstanceType> + Clone,
) -> Vec<(String, i64, i64)> {
    let requirements = pool.requirements.iter().filter_map(|r| Some((&r.key, r.min_values?)));
    requirements
        .filter_map(|(key, required)| {
            let offered_values: BTreeSet<&String> =
                types.clone().into_iter().filter_map(|t| t.values.get(key)).flatten().collect();
            let offered_count = offered_values.len() as i64;
            (offered_count < required).then(|| (key.clone(), required, offered_count))
        })
        .collect()
}

/// Checks that the estimate is a launch that the claim allows, and that no launch is cheaper.
fn check_estimate(report: &mut ClaimReport<'_>, claim: &PlanClaim, launches: &[PossibleLaunch<'_>]) {
    let estimate = &claim.estimate;
    let matching_launches = launches.iter().filter(|launch| {
        launch.instance_type.name == estimate.instance_type
            && launch.offering.zone() == estimate.zone
            && launch.offering.capacity_type() == estimate.capacity_type
    });
    let Some(price) = matching_launches.map(PossibleLaunch::price).min() else {
        let detail =
            format!("{} {} in {} is not allowed", estimate.capacity_type, estimate.instance_type, estimate.zone);
        report.add_violation(PlanRule::Estimate, None, detail);
        return;
    };
    if price != estimate.price_per_hour {
        report.add_violation(
            PlanRule::Estimate,
            None,
            format!("the plan states {}, the catalogue {price}", estimate.price_per_hour),
        );
    }
    if let Some(cheapest) = launches.iter().min_by_key(|launch| launch.price()).filter(|launch| launch.price() < price)
    {
        let detail = format!("the plan states {price}, but {} costs {}", describe_launch(cheapest), cheapest.price());
        report.add_violation(PlanRule::Estimate, None, detail);
    }
}

/// Checks that types are listed by the price of their cheapest allowed offering.
fn check_price_order(report: &mut ClaimReport<'_>, claim: &PlanClaim, launches: &[PossibleLaunch<'_>]) {
    let cheapest = |name: &String| {
        let launches = launches.iter().filter(|launch| launch.instance_type.name == *name);
        launches.map(PossibleLaunch::price).min().unwrap_or(Price::MAX)
    };
    for pair in claim.instance_types.windows(2) {
        let [first, second] = pair else { continue };
        let (a, b) = (cheapest(first), cheapest(second));
        if a > b {
            report.add_violation(PlanRule::PriceOrder, None, format!("{first} at {a} before {second} at {b}"));
        }
    }
}
