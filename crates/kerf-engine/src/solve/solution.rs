//! The result of a solve: claims to create with all usable instance types, pods placed on existing
//! nodes, and unplaced pods with reasons.

use std::sync::Arc;

use kerf_api::labels::{self, LabelRules};
use kerf_api::slim::{Labels, ResourceList, Str};
use rustc_hash::FxHashMap;

use super::claim::OpenClaim;
use super::min_values;
use super::pass::{PlacementPass, PlacementTarget};
use super::problem::PodIx;
use crate::bits::Bits;
use crate::catalogue::{PricedRow, RowIx};
use crate::cluster::MinValuesPolicy;
use crate::explain::{self, OtherProviderPools, Reason};
use crate::price::Price;
use crate::requirement::{Requirement, Requirements};
use crate::requirement_table::RequirementSetIx;

/// The placement of all pods that need a node.
#[derive(Debug, Clone)]
pub struct Solution {
    /// Claims to create, sorted by pool and pods.
    pub claims: Vec<PlannedClaim>,
    /// Pods placed on existing nodes, sorted by node name.
    pub nodes: Vec<NodePlacement>,
    /// Pods that stay pending, with the reason of each, sorted by name.
    pub unplaced: Vec<UnplacedPod>,
    /// NodePools that Kerf does not serve, by the API group of their node classes.
    pub not_considered: Vec<OtherProviderPools>,
    /// Size of the problem and number of passes.
    pub stats: SolveStats,
}

/// A NodeClaim to create.
#[derive(Debug, Clone)]
pub struct PlannedClaim {
    /// Name of the NodePool.
    pub pool: Str,
    /// Pods to be scheduled there, as `namespace/name`, sorted.
    pub pods: Vec<Str>,
    /// Instance types, labels and requirements. Shared by claims with equal options.
    pub launch: Arc<LaunchOptions>,
    /// Requests of the pods plus the daemon overhead.
    pub requests: ResourceList,
    /// True if a `minValues` of the pool was lowered (policy `BestEffort`).
    pub min_values_relaxed: bool,
}

/// The instances that a claim may be launched as.
#[derive(Debug, Clone)]
pub struct LaunchOptions {
    /// Names of all usable instance types, cheapest first. Types without a usable offering come
    /// last; only claims with reservations list any.
    pub instance_types: Vec<Str>,
    /// Node labels: those of the pool, and one value for each required custom label.
    pub labels: Labels,
    /// Requirements of the NodeClaim, including instance types and capacity types.
    pub requirements: Requirements,
    /// The expected launch. `None` if no offering is usable.
    pub estimate: Option<LaunchEstimate>,
}

/// The launch that is expected: the cheapest offering of all listed types.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LaunchEstimate {
    /// Name, such as `m5.large`.
    pub instance_type: Str,
    /// Value of `topology.kubernetes.io/zone`.
    pub zone: Str,
    /// `on-demand`, `spot` or `reserved`.
    pub capacity_type: Str,
    /// Price per hour.
    pub price: Price,
}

/// Pods placed on an existing node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodePlacement {
    /// Name of the Node, or of the NodeClaim if its Node has not joined yet.
    pub node: Str,
    /// Pods, as `namespace/name`, sorted.
    pub pods: Vec<Str>,
}

/// A pod that stays pending.
#[derive(Debug, Clone)]
pub struct UnplacedPod {
    /// The pod, as `namespace/name`.
    pub pod: Str,
    /// Why no node or claim accepts the pod.
    pub reason: Reason,
}

/// Size of the problem and number of passes. The engine reads no clock; the caller measures time.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SolveStats {
    /// Pods to place, including those that were left out before placing.
    pub pods: usize,
    /// Existing nodes, including claims whose Node has not joined yet.
    pub nodes: usize,
    /// Instance types over all distinct catalogues.
    pub instance_types: usize,
    /// Classes of the pods to place, without their relaxations.
    pub pod_classes: usize,
    /// Passes that were run, including first fit.
    pub attempts: usize,
    /// Hourly price of the solution of first fit in Karpenter's order.
    pub first_fit_price: Price,
    /// Number of checks in all passes: of a claim or a pool for a pod class, of a topology
    /// constraint of a class, and of each domain of a check that tries many. A measure of the work
    /// that does not depend on the machine.
    pub steps: u64,
    /// Approximate size in bytes of the caches of the search, at their largest, over all threads.
    pub cache_bytes: usize,
}

impl Solution {
    /// Returns the reason as a sentence for users. It ends with the NodePools that were not
    /// considered, if the reason is about NodePools.
    pub fn reason_text(&self, reason: &Reason) -> String {
        if self.not_considered.is_empty() || !reason.is_about_pools() {
            return reason.to_string();
        }
        let pools: Vec<String> = self.not_considered.iter().map(ToString::to_string).collect();
        format!("{reason}; not considered: {}", pools.join(", "))
    }

    /// Returns the estimated hourly price of all claims. Claims without an estimate count as zero.
    pub fn price(&self) -> Price {
        self.claims.iter().filter_map(|c| c.launch.estimate.as_ref()).map(|e| e.price).sum()
    }
}

/// Launch options computed so far, by template, requirements (with the generation of the
/// requirement table) and rows. Errors are cached too.
pub(crate) type LaunchCache = FxHashMap<(usize, u64, RequirementSetIx, Bits), Result<Arc<LaunchOptions>, Reason>>;

/// Builds the solution from a finished pass.
pub(crate) fn build_solution(pass: &mut PlacementPass<'_>, attempts: usize, first_fit_price: Price) -> Solution {
    let problem = pass.problem;
    let (claims, mut unplaced_pods) = planned_claims(pass, &mut LaunchCache::default());
    unplaced_pods.extend(explain::explain_unplaced(pass, |_| true));
    let name = |pod: PodIx| problem.pods[pod.0 as usize].name.clone();
    let mut unplaced: Vec<UnplacedPod> =
        unplaced_pods.into_iter().map(|(pod, reason)| UnplacedPod { pod: name(pod), reason }).collect();
    unplaced.sort_by(|a, b| a.pod.cmp(&b.pod));
    let mut pod_classes: Vec<u32> = pass.state.queue.iter().map(|p| problem.pods[p.0 as usize].class.0).collect();
    pod_classes.sort_unstable();
    pod_classes.dedup();
    let stats = SolveStats {
        pods: pass.state.queue.len(),
        nodes: problem.cluster.nodes.len(),
        instance_types: problem.cluster.catalogues.iter().map(|c| c.types.len()).sum(),
        pod_classes: pod_classes.len(),
        attempts,
        first_fit_price,
        steps: pass.state.steps,
        cache_bytes: pass.state.max_cache_bytes,
    };
    let not_considered = explain::other_provider_pools(&problem.cluster.pools);
    Solution { claims, nodes: node_placements(pass), unplaced, not_considered, stats }
}

impl Solution {
    /// Sorts the claims by pool and pods.
    pub(crate) fn sort_claims(&mut self) {
        self.claims.sort_by(|a, b| a.pool.cmp(&b.pool).then_with(|| a.pods.cmp(&b.pods)));
    }

    /// Adds pods that were left out before placing started.
    pub(crate) fn add_excluded_pods(&mut self, excluded: Vec<(Str, Reason)>) {
        self.stats.pods += excluded.len();
        self.unplaced.extend(excluded.into_iter().map(|(pod, reason)| UnplacedPod { pod, reason }));
        self.unplaced.sort_by(|a, b| a.pod.cmp(&b.pod));
    }
}

/// Returns the claims to create, and the pods of claims that cannot be created, with reasons.
pub(crate) fn planned_claims(
    pass: &mut PlacementPass<'_>,
    launch_cache: &mut LaunchCache,
) -> (Vec<PlannedClaim>, Vec<(PodIx, Reason)>) {
    let (mut claims, mut unplaced) = (Vec::new(), Vec::new());
    let open_claims = std::mem::take(&mut pass.state.claims);
    for claim in &open_claims {
        match plan_claim(pass, launch_cache, claim) {
            Ok(planned) => claims.push(planned),
            Err(reason) => unplaced.extend(claim.pods.iter().map(|pod| (*pod, reason.clone()))),
        }
    }
    pass.state.claims = open_claims;
    claims.sort_by(|a: &PlannedClaim, b| a.pool.cmp(&b.pool).then_with(|| a.pods.cmp(&b.pods)));
    (claims, unplaced)
}

/// Returns the pods placed on existing nodes, by node name.
pub(crate) fn node_placements(pass: &PlacementPass<'_>) -> Vec<NodePlacement> {
    let problem = pass.problem;
    let mut by_node: Vec<(usize, Str)> = pass
        .state
        .queue
        .iter()
        .filter_map(|pod| match pass.state.placements[pod.0 as usize] {
            Some(PlacementTarget::Node(node)) => Some((node, problem.pods[pod.0 as usize].name.clone())),
            Some(PlacementTarget::Claim(_)) | None => None,
        })
        .collect();
    by_node
        .sort_by(|a, b| problem.cluster.nodes[a.0].name.cmp(&problem.cluster.nodes[b.0].name).then_with(|| a.cmp(b)));
    let mut placements: Vec<NodePlacement> = Vec::new();
    for (node, pod) in by_node {
        let name = &problem.cluster.nodes[node].name;
        match placements.last_mut().filter(|last| last.node == *name) {
            Some(last) => last.pods.push(pod),
            None => placements.push(NodePlacement { node: name.clone(), pods: vec![pod] }),
        }
    }
    placements
}

/// Returns the claim as it would be created (spec 02 §6.8, §7.5 and §12.1).
fn plan_claim(
    pass: &mut PlacementPass<'_>,
    launch_cache: &mut LaunchCache,
    claim: &OpenClaim,
) -> Result<PlannedClaim, Reason> {
    let problem = pass.problem;
    let template = &problem.templates[claim.template];
    let requirement_set = launch_set(pass, claim);
    let key = (claim.template, pass.state.table.generation(), requirement_set, claim.rows.clone());
    let cached = launch_cache
        .entry(key)
        .or_insert_with(|| build_launch_options(pass, claim.template, requirement_set, &claim.rows).map(Arc::new));
    let launch = cached.clone()?;
    let requests = claim.requests.plus(&template.least_overhead(&claim.rows));
    let mut pods: Vec<Str> = claim.pods.iter().map(|p| problem.pods[p.0 as usize].name.clone()).collect();
    pods.sort_unstable();
    Ok(PlannedClaim {
        pool: template.name.clone(),
        pods,
        launch,
        requests: problem.cluster.resource_names.to_resource_list(&requests),
        min_values_relaxed: claim.min_values_relaxed,
    })
}

/// Returns true if some claim would be discarded because its truncated list of types does not meet
/// its `minValues` (spec 02 §7.5).
pub(super) fn truncation_breaks_min_values(pass: &mut PlacementPass<'_>) -> bool {
    let settings = &pass.problem.cluster.settings;
    if settings.min_values_policy == MinValuesPolicy::BestEffort {
        return false;
    }
    let is_truncated = |claim: &OpenClaim| claim.rows.iter().count() > settings.max_instance_types;
    let truncated: Vec<OpenClaim> = pass
        .state
        .claims
        .iter()
        .filter(|c| is_truncated(c) && pass.state.table.has_min_values(c.requirements))
        .cloned()
        .collect();
    truncated.iter().any(|claim| {
        let requirement_set = launch_set(pass, claim);
        build_launch_options(pass, claim.template, requirement_set, &claim.rows).is_err()
    })
}

/// Returns the types of a claim by price, truncated to the maximum number, and the requirements
/// that follow from them.
///
/// A claim that holds reservations lists its other types last. They are never launched, but the
/// pool's `minValues` count them (spec 02 §7.4).
fn build_launch_options(
    pass: &mut PlacementPass<'_>,
    template: usize,
    requirement_set: RequirementSetIx,
    claim_rows: &Bits,
) -> Result<LaunchOptions, Reason> {
    let problem = pass.problem;
    let template = &problem.templates[template];
    let catalogue = &problem.cluster.catalogues[template.catalogue];
    let view = pass.view(template.catalogue, requirement_set).clone();
    let mut instance_types: Vec<Str> = Vec::new();
    let mut listed = Bits::new();
    let mut rows = Bits::new();
    let priced = view.by_price.iter().map(|priced| priced.row).filter(|row| claim_rows.contains(*row));
    let mut unpriced: Vec<RowIx> = claim_rows.iter().filter(|row| !view.rows.contains(*row)).collect();
    unpriced.sort_by_key(|row| catalogue.row_name(*row));
    for row in priced.chain(unpriced) {
        let type_ix = catalogue.rows[row].type_ix;
        if !listed.contains(type_ix) {
            if instance_types.len() == problem.cluster.settings.max_instance_types {
                break;
            }
            listed.insert(type_ix);
            instance_types.push(catalogue.types[type_ix].name.clone());
        }
        rows.insert(row);
    }
    let failing = min_values::shortfalls(catalogue, &rows, requirement_set, Some(&view.offerings), &pass.state.table);
    if !failing.is_empty() && problem.cluster.settings.min_values_policy == MinValuesPolicy::Strict {
        return Err(Reason::MinValuesAfterTruncation {
            pool: template.name.clone(),
            keys: failing.into_iter().map(|s| s.key).collect(),
        });
    }
    let mut requirements: Requirements = pass
        .state
        .table
        .requirements(requirement_set)
        .iter()
        .filter(|r| r.key() != labels::REGISTERED && r.key() != labels::INITIALIZED)
        .cloned()
        .collect();
    requirements.add(Requirement::one_of(labels::INSTANCE_TYPE, instance_types.iter().cloned()));
    let mut capacity_types: Vec<&Str> = view
        .offerings
        .iter()
        .map(|o| &catalogue.offerings[o])
        .filter(|o| o.is_launchable && rows.contains(o.row))
        .map(|o| &o.capacity_type)
        .collect();
    capacity_types.sort_unstable();
    capacity_types.dedup();
    if !capacity_types.is_empty() {
        requirements.add(Requirement::one_of(labels::CAPACITY_TYPE, capacity_types.into_iter().cloned()));
    }
    let labels = node_labels(&template.labels, &requirements, &problem.cluster.label_rules);
    Ok(LaunchOptions { instance_types, labels, requirements, estimate: cheapest_estimate(catalogue, &view, &rows) })
}

/// Returns the pool's labels and a value for each required custom label (spec 02 §12.1). The
/// provider sets well-known labels; Kerf sets restricted ones.
fn node_labels(template: &Labels, requirements: &Requirements, rules: &LabelRules) -> Labels {
    let custom = requirements.iter().filter(|r| !rules.is_well_known(r.key()) && !rules.is_restricted(r.key()));
    let picked = custom.filter_map(|r| Some((r.key().clone(), r.pick_value()?)));
    picked.chain(template.iter().map(|(key, value)| (key.clone(), value.clone()))).collect()
}

/// Returns the position of a capacity type in the order in which a launch uses them: reserved,
/// spot, on-demand. Decides between equal prices.
pub(crate) fn launch_rank(capacity_type: &str) -> usize {
    let order = [labels::CAPACITY_TYPE_RESERVED, labels::CAPACITY_TYPE_SPOT, labels::CAPACITY_TYPE_ON_DEMAND];
    order.iter().position(|known| *known == capacity_type).unwrap_or(order.len())
}

fn cheapest_estimate(
    catalogue: &crate::catalogue::CompiledCatalogue,
    view: &crate::catalogue::RowView,
    rows: &Bits,
) -> Option<LaunchEstimate> {
    let &PricedRow { price, row, .. } = view.by_price.iter().find(|priced| rows.contains(priced.row))?;
    let offering = view
        .offerings
        .iter()
        .map(|o| &catalogue.offerings[o])
        .filter(|o| o.is_launchable && o.row == row && o.price == price)
        .min_by_key(|o| (launch_rank(&o.capacity_type), &o.zone))?;
    Some(LaunchEstimate {
        instance_type: catalogue.row_name(row).clone(),
        zone: offering.zone.clone(),
        capacity_type: offering.capacity_type.clone(),
        price,
    })
}

/// Returns the requirements of the launch. A claim that holds reservations is launched on reserved
/// capacity only.
fn launch_set(pass: &mut PlacementPass<'_>, claim: &OpenClaim) -> RequirementSetIx {
    if claim.reserved.is_empty() {
        return claim.requirements;
    }
    let reserved = Requirement::one_of(labels::CAPACITY_TYPE, [Str::new_static("reserved")]);
    let requirement_set = pass.state.table.replace(claim.requirements, reserved);
    let catalogue = pass.problem.templates[claim.template].catalogue;
    let Some(key) = pass.problem.cluster.catalogues[catalogue].reservation_key.clone() else { return requirement_set };
    let ids: Vec<Str> = claim.reserved.iter().map(|r| pass.problem.reservations[*r].0.clone()).collect();
    pass.state.table.replace(requirement_set, Requirement::one_of(key, ids))
}
