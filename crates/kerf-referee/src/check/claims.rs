//! Checks each planned NodeClaim by itself: every launch that it allows must suit every pod on it.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::core::v1::Pod;

use super::daemons::overhead_range;
use super::launch::{PossibleLaunch, possible_launches};
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

pub(super) fn check(world: &ClusterManifests, catalogue: &Catalogue, plan: &Plan) -> Vec<Violation> {
    let daemons = DaemonPods::of(world);
    let pods: BTreeMap<String, &Pod> = world.pods.iter().map(|pod| (pod_key(pod), pod)).collect();
    let mut violations = Vec::new();
    for (index, claim) in plan.provisioning.node_claims.iter().enumerate() {
        let mut report = ClaimReport { node: claim_name(index, claim), violations: &mut violations };
        let Some(pool) = world.pool(&claim.node_pool).filter(|pool| pool.is_usable) else {
            report.add_violation(PlanRule::Claim, None, format!("pool {} cannot be used", claim.node_pool));
            continue;
        };
        let claimed: Vec<&Pod> = claim.pods.iter().filter_map(|key| pods.get(key).copied()).collect();
        if claimed.is_empty() {
            report.add_violation(PlanRule::Claim, None, "is for no pod".to_owned());
        }
        for name in claim.instance_types.iter().filter(|name| !catalogue.contains_key(*name)) {
            report.add_violation(PlanRule::Claim, None, format!("type {name} does not exist"));
        }
        let all = possible_launches(pool, &claim.requirements, &claim.instance_types, catalogue);
        check_types(&mut report, claim, catalogue, &all);
        check_taints(&mut report, pool, &claimed);
        check_labels(&mut report, &claimed, &all, &world.storage());
        check_resources(&mut report, pool, claim, catalogue, &daemons, &claimed);
        check_host_ports(&mut report, pool, claim, catalogue, &daemons, &claimed);
        check_requests(&mut report, pool, claim, catalogue, &daemons, &claimed);
        check_min_values(&mut report, world, pool, claim, catalogue);
        check_estimate(&mut report, claim, &all);
        check_price_order(&mut report, claim, &all);
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
fn check_types(report: &mut ClaimReport<'_>, claim: &PlanClaim, catalogue: &Catalogue, all: &[PossibleLaunch<'_>]) {
    let mut seen = BTreeSet::new();
    for name in &claim.instance_types {
        if !seen.insert(name) {
            report.add_violation(PlanRule::Claim, None, format!("type {name} is listed twice"));
        }
    }
    if seen.is_empty() {
        report.add_violation(PlanRule::Claim, None, "lists no type".to_owned());
    }
    if !all.is_empty() && all.iter().all(|launch| launch.offering.reservation_id().is_some()) {
        return;
    }
    for instance_type in listed_types(claim, catalogue) {
        if !all.iter().any(|launch| launch.instance_type.name == instance_type.name) {
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
fn check_labels(report: &mut ClaimReport<'_>, pods: &[&Pod], all: &[PossibleLaunch<'_>], storage: &VolumeObjects<'_>) {
    for pod in pods {
        if let Some(launch) = all.iter().find(|launch| !node_affinity_matches(pod, "", &launch.labels)) {
            report.add_violation(
                PlanRule::NodeAffinity,
                Some(pod),
                format!("does not want {}", describe_launch(launch)),
            );
        }
        for launch in all {
            if let Some(claim) = unusable_volume_claim(pod, &launch.labels, storage) {
                report.add_violation(
                    PlanRule::Volumes,
                    Some(pod),
                    format!("claim {claim} cannot be used on {}", describe_launch(launch)),
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
    let asked = sum_of_requests(pods.iter().copied());
    for instance_type in listed_types(claim, catalogue) {
        let all = asked.plus(&daemons.overhead(pool, instance_type));
        for lack in all.shortages_in(&instance_type.allocatable) {
            report.add_violation(PlanRule::Resources, None, format!("type {}, {lack}", instance_type.name));
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
            if let Some((ours, theirs)) = ports::conflict(pod, other) {
                report.add_violation(
                    PlanRule::HostPorts,
                    Some(pod),
                    format!("{ours} against {theirs} of {}", pod_key(other)),
                );
            }
        }
        for instance_type in listed_types(claim, catalogue) {
            let taken = daemons.on_new_node(pool, instance_type).find_map(|daemon| ports::conflict(pod, daemon));
            if let Some((ours, theirs)) = taken {
                let detail = format!("{ours} against {theirs} of a daemon on type {}", instance_type.name);
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
    let said = Resources::parse(&claim.requests);
    let asked = sum_of_requests(pods.iter().copied());
    let (least, most) = overhead_range(daemons, pool, listed_types(claim, catalogue));
    let (low, high) = (asked.plus(&least), asked.plus(&most));
    for (name, amount) in low.iter().filter(|(name, amount)| said.get(name) < *amount) {
        report.add_violation(
            PlanRule::Requests,
            None,
            format!("{name}: {} said, at least {amount} asked", said.get(name)),
        );
    }
    for (name, amount) in said.iter().filter(|(name, amount)| *amount > high.get(name)) {
        report.add_violation(
            PlanRule::Requests,
            None,
            format!("{name}: {amount} said, at most {} asked", high.get(name)),
        );
    }
}

/// Checks that the listed types offer as many values of each label as the pool's `minValues`
/// requires (spec 02 §3.9).
fn check_min_values(
    report: &mut ClaimReport<'_>,
    world: &ClusterManifests,
    pool: &Pool,
    claim: &PlanClaim,
    catalogue: &Catalogue,
) {
    if world.min_values_best_effort {
        return;
    }
    for (key, wanted, found) in min_values_shortfalls(pool, listed_types(claim, catalogue)) {
        report.add_violation(PlanRule::MinValues, None, format!("{key}: {wanted} values demanded, {found} offered"));
    }
}

/// Returns the labels of which the types offer too few values: label, required number, offered
/// number.
pub(crate) fn min_values_shortfalls<'c>(
    pool: &Pool,
    types: impl IntoIterator<Item = &'c InstanceType> + Clone,
) -> Vec<(String, i64, i64)> {
    let demands = pool.requirements.iter().filter_map(|r| Some((&r.key, r.min_values?)));
    demands
        .filter_map(|(key, wanted)| {
            let offered: BTreeSet<&String> =
                types.clone().into_iter().filter_map(|t| t.values.get(key)).flatten().collect();
            let found = offered.len() as i64;
            (found < wanted).then(|| (key.clone(), wanted, found))
        })
        .collect()
}

/// Checks that the estimate is a launch that the claim allows, and that no launch is cheaper.
fn check_estimate(report: &mut ClaimReport<'_>, claim: &PlanClaim, all: &[PossibleLaunch<'_>]) {
    let said = &claim.estimate;
    let same = all.iter().filter(|launch| {
        launch.instance_type.name == said.instance_type
            && launch.offering.zone() == said.zone
            && launch.offering.capacity_type() == said.capacity_type
    });
    let Some(price) = same.map(PossibleLaunch::price).min() else {
        let detail = format!("{} {} in {} is not allowed", said.capacity_type, said.instance_type, said.zone);
        report.add_violation(PlanRule::Estimate, None, detail);
        return;
    };
    if price != said.price_per_hour {
        report.add_violation(
            PlanRule::Estimate,
            None,
            format!("{} said, {price} in the catalogue", said.price_per_hour),
        );
    }
    if let Some(cheapest) = all.iter().min_by_key(|launch| launch.price()).filter(|launch| launch.price() < price) {
        let detail = format!("{price} said, but {} costs {}", describe_launch(cheapest), cheapest.price());
        report.add_violation(PlanRule::Estimate, None, detail);
    }
}

/// Checks that types are listed by the price of their cheapest allowed offering.
fn check_price_order(report: &mut ClaimReport<'_>, claim: &PlanClaim, all: &[PossibleLaunch<'_>]) {
    let cheapest = |name: &String| {
        let launches = all.iter().filter(|launch| launch.instance_type.name == *name);
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
