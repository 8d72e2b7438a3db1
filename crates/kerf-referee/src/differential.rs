//! Compares Kerf's plans with Karpenter's on random clusters.
//!
//! [`compare_with_karpenter`] calls Kerf (any function from manifests and instance types to the
//! JSON of `kerf plan`) for each cluster. Karpenter's plans come either from a file
//! ([`RecordedWorlds`], whose fingerprints must match the generator) or from the oracle program
//! ([`Oracle`]). For each cluster the [`DifferentialReport`] has:
//!
//! - every constraint that Kerf's plan breaks, by [`check`];
//! - the pods that Kerf leaves out although each valid run of Karpenter places them or equivalent
//!   pods: which of several equivalent pods stays pending depends on their UIDs, which files do not
//!   have;
//! - the number of pods that Kerf places, and the median of Karpenter's runs;
//! - the price of Kerf's new nodes, and the median of Karpenter's runs that place the same number
//!   of pods.
//!
//! Karpenter breaks ties randomly, so it runs several times, and more often where Kerf leaves out
//! pods that those runs place. Karpenter has defects of its own (spec 02 §19), so its plans are
//! checked too, and runs that break a constraint are not compared.
//!
//! ```no_run
//! use kerf_referee::differential::{KarpenterAnswers, RecordedWorlds, compare_with_karpenter};
//! # fn kerf_plan(manifests: &str, types: &str) -> serde_json::Value { serde_json::Value::Null }
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let file = std::fs::read_to_string("tests/recorded/karpenter.json")?;
//! let recorded = RecordedWorlds::read(&file)?;
//! let kerf = |manifests: &str, types: &str| kerf_plan(manifests, types);
//! let report = compare_with_karpenter(&kerf, &KarpenterAnswers::Recorded(&recorded));
//! assert!(report.is_clean(), "{report}");
//! # Ok(()) }
//! ```

mod clusters;
mod oracle;
mod recorded;
mod report;

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use crate::catalogue;
use crate::check::{Violation, check};
use crate::generator::{ClusterSize, GeneratedCluster, provisioning_cluster};
use crate::manifests::ClusterManifests;
use crate::placement::pod_key;
use crate::plan::Plan;
use crate::search::pod_equivalence_key;

pub use self::clusters::{
    ClusterComparison, ClusterReport, RecordedCluster, RecordedClusters, RecordedPass, compare_cluster,
};
pub use self::oracle::{Oracle, OracleError};
pub use self::recorded::{RecordedRun, RecordedWorld, RecordedWorlds};
pub use self::report::{DifferentialReport, WorldComparison};

/// Factor by which the number of Karpenter's runs grows where Kerf leaves out a pod that all of
/// them placed.
const RERUN_FACTOR: usize = 5;

/// Source of Karpenter's plans.
#[derive(Debug)]
pub enum KarpenterAnswers<'a> {
    /// Plans from a file.
    Recorded(&'a RecordedWorlds),
    /// Plans that the oracle makes now.
    Live {
        /// The oracle program.
        oracle: &'a Oracle,
        /// Seed and size of each cluster.
        worlds: Vec<(u64, ClusterSize)>,
        /// Number of runs for each cluster.
        runs: usize,
    },
}

/// Compares Kerf's plans with Karpenter's for all clusters of `answers`.
pub fn compare_with_karpenter(
    kerf: &dyn Fn(&str, &str) -> Value,
    answers: &KarpenterAnswers<'_>,
) -> DifferentialReport {
    let comparisons = match answers {
        KarpenterAnswers::Recorded(recorded) => {
            recorded.worlds.iter().map(|recorded| compare(kerf, recorded)).collect()
        }
        KarpenterAnswers::Live { oracle, worlds, runs } => worlds
            .iter()
            .map(|(seed, size)| compare_live(kerf, oracle, &provisioning_cluster(*seed, *size), *runs))
            .collect(),
    };
    DifferentialReport { comparisons }
}

/// Compares Kerf's plan with `runs` runs of Karpenter. If Kerf leaves out a pod that all of them
/// place, that may be coincidence: then it is compared with [`RERUN_FACTOR`] times as many runs.
fn compare_live(
    kerf: &dyn Fn(&str, &str) -> Value,
    oracle: &Oracle,
    generated: &GeneratedCluster,
    runs: usize,
) -> WorldComparison {
    let compared = |runs| match oracle.record_world(generated, runs) {
        Ok(recorded) => compare(kerf, &recorded),
        Err(error) => WorldComparison::failed(generated.seed, generated.size, error.to_string()),
    };
    let mut comparison = compared(runs);
    if !comparison.left_out.is_empty() {
        comparison.left_out = compared(runs * RERUN_FACTOR).left_out;
    }
    comparison
}

fn compare(kerf: &dyn Fn(&str, &str) -> Value, recorded: &RecordedWorld) -> WorldComparison {
    let generated = provisioning_cluster(recorded.seed, recorded.size);
    let failed = |reason: String| WorldComparison::failed(recorded.seed, recorded.size, reason);
    if generated.fingerprint() != recorded.fingerprint {
        return failed("the generator has changed since the plans were recorded: record them again".to_owned());
    }
    let (plan, violations) = match read_and_check_plan(&generated, &kerf(&generated.manifests, &generated.types)) {
        Ok(checked) => checked,
        Err(reason) => return failed(reason),
    };
    let valid_runs: Vec<&RecordedRun> = recorded.runs.iter().filter(|run| run.broken.is_empty()).collect();
    let mut comparison = WorldComparison::failed(recorded.seed, recorded.size, String::new());
    comparison.failure = None;
    comparison.placed = plan.placed();
    comparison.price = plan.price();
    comparison.violations = violations;
    comparison.left_out = match ClusterManifests::read(&generated.manifests) {
        Ok(cluster) => pods_left_out(&cluster, &plan, &valid_runs),
        Err(error) => return failed(error.to_string()),
    };
    let placed = |run: &RecordedRun| recorded.pods.saturating_sub(run.unplaced.len());
    comparison.karpenter_placed = median(valid_runs.iter().map(|run| placed(run)).collect());
    let comparable_runs = valid_runs.iter().filter(|run| placed(run) == comparison.placed);
    comparison.karpenter_price = median(comparable_runs.map(|run| run.price()).collect());
    comparison
}

/// Decodes a plan and returns it with the constraints that it breaks.
pub(crate) fn read_and_check_plan(
    generated: &GeneratedCluster,
    plan_json: &Value,
) -> Result<(Plan, Vec<Violation>), String> {
    let cluster = ClusterManifests::read(&generated.manifests).map_err(|error| error.to_string())?;
    let catalogue = catalogue::read(&generated.types).map_err(|error| error.to_string())?;
    let plan = Plan::read(plan_json).map_err(|error| format!("cannot read the plan: {error}"))?;
    let violations = check(&cluster, &catalogue, &plan);
    Ok((plan, violations))
}

/// Returns the pods that the plan leaves out beyond the greatest number of equivalent pods that a
/// run leaves out.
fn pods_left_out(cluster: &ClusterManifests, plan: &Plan, runs: &[&RecordedRun]) -> Vec<String> {
    let unplaced: BTreeSet<&str> = plan.provisioning.unschedulable.iter().map(|u| u.pod.as_str()).collect();
    let mut kinds: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for pending in cluster.pending_pods() {
        kinds.entry(pod_equivalence_key(pending.pod)).or_default().push(pod_key(pending.pod));
    }
    let left_out_of = |equivalent: Vec<String>| {
        let most = runs.iter().map(|run| equivalent.iter().filter(|pod| run.unplaced.contains(pod)).count()).max();
        let unplaced_here: Vec<String> = equivalent.into_iter().filter(|pod| unplaced.contains(pod.as_str())).collect();
        let allowed = most.unwrap_or(unplaced_here.len());
        unplaced_here.into_iter().skip(allowed)
    };
    kinds.into_values().flat_map(left_out_of).collect()
}

/// Returns the median; of an even number of values, the greater of the two in the middle. `None` if
/// there are no values.
fn median<T: Ord + Copy>(mut values: Vec<T>) -> Option<T> {
    values.sort_unstable();
    values.get(values.len() / 2).copied()
}

#[cfg(test)]
mod tests;
