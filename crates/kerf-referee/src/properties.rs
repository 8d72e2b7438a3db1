//! Properties that every provisioning plan must have, checked on random clusters.
//!
//! - No constraint is broken, by [`check`](crate::check::check).
//! - No pod is left out that could be added to the plan without another change, by
//!   [`addable_pods`]. On small clusters, no pod is left out that the exhaustive search places
//!   besides all pods of the plan ([`DomainChoice::OnlyWhenForced`]: with what is known within one
//!   pass). A placement of more pods that leaves out one of the plan's pods is not a violation: the
//!   plan must place what Karpenter places, in Karpenter's order. Neither is a placement that
//!   launches a node for a pod which fits on an existing node: kube-scheduler does not wait for
//!   that node.
//! - The output is the same for one and two threads, for any order of the input's objects, and when
//!   the program runs again.
//!
//! On small clusters the cost of the plan is also compared with the optimum
//! ([`DomainChoice::Unrestricted`]). The optimum ignores preferences, so a plan that ignores
//! preferences is compared with it.

mod clusters;

use std::collections::BTreeMap;

use serde_json::Value;

use crate::catalogue;
use crate::check::addable_pods;
use crate::differential::read_and_check_plan;
use crate::generator::{ClusterSize, GeneratedCluster};
use crate::manifests::ClusterManifests;
use crate::placement::pod_key;
use crate::plan::Plan;
use crate::price::Price;
use crate::program::KerfProgram;
use crate::random::Random;
use crate::search::{DomainChoice, Optimum, optimum, pod_equivalence_key};

pub use self::clusters::{ClusterPropertyResult, check_cluster_properties};

/// Steps of the exhaustive search for one cluster.
pub const DEFAULT_SEARCH_STEPS: u64 = 10_000;

/// How thoroughly a cluster is checked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CheckOptions {
    /// True to repeat the plan on two threads and with the objects in another order.
    pub repeat_runs: bool,
    /// Greatest number of steps of the exhaustive search.
    pub search_steps: u64,
}

/// Result of the checks on one cluster.
#[derive(Debug, Clone)]
pub struct PropertyResult {
    /// Seed of the cluster.
    pub seed: u64,
    /// Size of the cluster.
    pub size: ClusterSize,
    /// All violations, one sentence each.
    pub violations: Vec<String>,
    /// Cost of the plan and of the optimum. `None` if the search did not complete or the two place
    /// different numbers of pods.
    pub cost: Option<CostComparison>,
}

/// Cost of a plan and of the optimum.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CostComparison {
    /// Price of the plan's new nodes.
    pub planned: Price,
    /// Price of the optimum's new nodes.
    pub best: Price,
}

impl CostComparison {
    /// Returns how much more the plan costs, as a fraction of the optimum's price. Returns 1 if
    /// only the optimum costs nothing.
    pub fn gap(self) -> f64 {
        if self.best == Price::ZERO && self.planned > Price::ZERO {
            return 1.0;
        }
        self.planned.ratio_to(self.best) - 1.0
    }
}

/// Makes a plan for a generated cluster and checks all properties.
pub fn check_properties(generated: &GeneratedCluster, kerf: &KerfProgram, options: CheckOptions) -> PropertyResult {
    let mut result = PropertyResult { seed: generated.seed, size: generated.size, violations: Vec::new(), cost: None };
    if let Err(error) = run_checks(generated, kerf, options, &mut result) {
        result.violations.push(error);
    }
    result
}

fn run_checks(
    generated: &GeneratedCluster,
    kerf: &KerfProgram,
    options: CheckOptions,
    result: &mut PropertyResult,
) -> Result<(), String> {
    let plan_bytes = |manifests: &str, threads: &str| {
        kerf.plan_output(manifests, &generated.types, &["--only", "provisioning", "--threads", threads])
            .map_err(|error| error.to_string())
    };
    let bytes = plan_bytes(&generated.manifests, "1")?;
    if options.repeat_runs {
        if plan_bytes(&generated.manifests, "2")? != bytes {
            result.violations.push("the plan differs with two threads".to_owned());
        }
        if plan_bytes(&with_shuffled_objects(generated)?, "1")? != bytes {
            result.violations.push("the plan differs if the objects are in another order".to_owned());
        }
    }
    let plan_json: Value = serde_json::from_slice(&bytes).map_err(|error| format!("not JSON: {error}"))?;
    let (plan, violations) = read_and_check_plan(generated, &plan_json)?;
    result.violations.extend(violations.iter().map(|violation| format!("breaks {violation}")));
    if !violations.is_empty() {
        return Ok(());
    }
    let cluster = ClusterManifests::read(&generated.manifests).map_err(|error| error.to_string())?;
    let types = catalogue::read(&generated.types).map_err(|error| error.to_string())?;
    let addable = addable_pods(&cluster, &types, &plan);
    result
        .violations
        .extend(addable.iter().map(|(pod, target)| format!("leaves {pod} unplaced, although it can run on {target}")));
    if generated.size != ClusterSize::Small {
        return Ok(());
    }
    let best = |domain_choice| optimum(&cluster, &types, domain_choice, options.search_steps);
    if let Some(forced) =
        best(DomainChoice::OnlyWhenForced).filter(|forced| covers_plan_and_places_more(forced, &plan, &cluster))
    {
        let Optimum { placed, placements, .. } = forced;
        result.violations.push(format!("places {} pods, but {placed} can be placed: {placements:?}", plan.placed()));
    }
    let plan = if PREFERENCE_MARKERS.iter().any(|word| generated.manifests.contains(word)) {
        plan_ignoring_preferences(generated, kerf)?
    } else {
        plan
    };
    if let Some(unrestricted) =
        best(DomainChoice::Unrestricted).filter(|unrestricted| unrestricted.placed == plan.placed())
    {
        result.cost = Some(CostComparison { planned: plan.price(), best: unrestricted.price });
    }
    Ok(())
}

/// Words in manifests that express preferences.
const PREFERENCE_MARKERS: [&str; 3] = ["preferredDuringScheduling", "ScheduleAnyway", "PreferNoSchedule"];

/// Returns the plan that ignores preferences.
fn plan_ignoring_preferences(generated: &GeneratedCluster, kerf: &KerfProgram) -> Result<Plan, String> {
    let bytes = kerf.plan_output(
        &generated.manifests,
        &generated.types,
        &["--only", "provisioning", "--threads", "1", "--preference-policy", "Ignore"],
    );
    let plan_json: Value = serde_json::from_slice(&bytes.map_err(|error| error.to_string())?)
        .map_err(|error| format!("not JSON: {error}"))?;
    Plan::read(&plan_json).map_err(|error| format!("cannot read the plan: {error}"))
}

/// Returns true if the placement contains all pods of the plan, on existing nodes too, and more
/// pods. Equivalent pods are interchangeable.
fn covers_plan_and_places_more(better: &Optimum, plan: &Plan, cluster: &ClusterManifests) -> bool {
    let kinds: BTreeMap<String, String> =
        cluster.pods.iter().map(|pod| (pod_key(pod), pod_equivalence_key(pod))).collect();
    let count = |pods: &mut dyn Iterator<Item = &str>| {
        let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
        for kind in pods.filter_map(|pod| kinds.get(pod)) {
            *counts.entry(kind).or_default() += 1;
        }
        counts
    };
    let covers = |more: &BTreeMap<&str, usize>, less: &BTreeMap<&str, usize>| {
        less.iter().all(|(kind, count)| more.get(kind).is_some_and(|available| available >= count))
    };
    let on_nodes = better.placements.iter().filter(|(_, target)| !target.starts_with("new "));
    let on_plan_nodes = plan.provisioning.existing_nodes.iter().flat_map(|node| &node.pods);
    better.placed > plan.placed()
        && covers(&count(&mut better.placements.iter().map(|(pod, _)| pod.as_str())), &count(&mut plan.placed_pods()))
        && covers(&count(&mut on_nodes.map(|(pod, _)| pod.as_str())), &count(&mut on_plan_nodes.map(String::as_str)))
}

/// Returns the manifests with their objects in another order.
fn with_shuffled_objects(generated: &GeneratedCluster) -> Result<String, String> {
    let mut list: Value = serde_json::from_str(&generated.manifests).map_err(|error| error.to_string())?;
    if let Some(items) = list["items"].as_array_mut() {
        Random::new(generated.seed).shuffle(items);
    }
    Ok(list.to_string())
}

/// Describes the distribution of cost gaps, for people.
pub fn describe_gaps(results: &[PropertyResult]) -> String {
    let mut gaps: Vec<f64> = results.iter().filter_map(|result| Some(result.cost?.gap())).collect();
    gaps.sort_by(f64::total_cmp);
    let Some(last) = gaps.len().checked_sub(1) else { return "no cluster whose optimum is known".to_owned() };
    let mean = gaps.iter().sum::<f64>() / gaps.len() as f64;
    let at = |per_mille: usize| gaps[last * per_mille / 1000] * 100.0;
    let exact = gaps.iter().filter(|gap| **gap == 0.0).count();
    format!(
        "{} clusters whose optimum is known: mean gap {:.2} %, no gap in {exact}; p50 {:.1} %, p90 {:.1} %, p95 {:.1} %, p99 {:.1} %, max {:.1} %",
        gaps.len(),
        mean * 100.0,
        at(500),
        at(900),
        at(950),
        at(990),
        at(1000),
    )
}
