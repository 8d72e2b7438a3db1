//! Kerf against Karpenter itself, on random worlds.
//!
//! [`differential`] asks Kerf (any function from manifests and instance types to the JSON of `kerf plan`) about each world and
//! compares the answer with Karpenter's, which come either from a file ([`Recorded`], checked against the generator by
//! fingerprint) or from the oracle's program ([`Oracle`]). For each world the [`Report`] has:
//!
//! * every constraint that Kerf's plan breaks, by [`check`];
//! * the pods that Kerf leaves out although each of Karpenter's lawful runs places them, or others that are alike: which of
//!   several alike pods waits is decided by their uids, which files do not have;
//! * the number of pods that Kerf places against the median of Karpenter's runs;
//! * the price of Kerf's new nodes against the median of Karpenter's runs, where both place equally many pods.
//!
//! Karpenter breaks ties by chance, so it is asked several times, and more often where Kerf leaves out what those runs place; and it has faults of its own (spec 02 §19), so its plans are
//! checked too, and a run that breaks a constraint is no yardstick.
//!
//! ```no_run
//! use kerf_referee::differential::{Answers, Recorded, differential};
//! # fn kerf_plan(manifests: &str, types: &str) -> serde_json::Value { serde_json::Value::Null }
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let recorded = Recorded::read(&std::fs::read_to_string("tests/recorded/karpenter.json")?)?;
//! let report = differential(&|manifests, types| kerf_plan(manifests, types), &Answers::Recorded(&recorded));
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

/// How many times as often Karpenter is asked where luck may have played a part.
const RERUN_FACTOR: usize = 5;

/// Where Karpenter's answers come from.
#[derive(Debug)]
pub enum KarpenterAnswers<'a> {
    /// From a file.
    Recorded(&'a RecordedWorlds),
    /// From the oracle, for these worlds.
    Live {
        /// The program.
        oracle: &'a Oracle,
        /// The worlds: seed and size.
        worlds: Vec<(u64, ClusterSize)>,
        /// How often it is asked about each.
        runs: usize,
    },
}

/// Compares Kerf with Karpenter.
pub fn compare_with_karpenter(
    kerf: &dyn Fn(&str, &str) -> Value,
    answers: &KarpenterAnswers<'_>,
) -> DifferentialReport {
    let comparisons = match answers {
        KarpenterAnswers::Recorded(recorded) => recorded.worlds.iter().map(|theirs| compare(kerf, theirs)).collect(),
        KarpenterAnswers::Live { oracle, worlds, runs } => worlds
            .iter()
            .map(|(seed, size)| compare_live(kerf, oracle, &provisioning_cluster(*seed, *size), *runs))
            .collect(),
    };
    DifferentialReport { comparisons }
}

/// Compares Kerf with so many runs of Karpenter. What all of these place may yet be luck: where Kerf leaves such a pod out, many more
/// runs say whether it is.
fn compare_live(
    kerf: &dyn Fn(&str, &str) -> Value,
    oracle: &Oracle,
    made: &GeneratedCluster,
    runs: usize,
) -> WorldComparison {
    let compared = |runs| match oracle.record_world(made, runs) {
        Ok(theirs) => compare(kerf, &theirs),
        Err(error) => WorldComparison::failed(made.seed, made.size, error.to_string()),
    };
    let mut comparison = compared(runs);
    if !comparison.left_out.is_empty() {
        comparison.left_out = compared(runs * RERUN_FACTOR).left_out;
    }
    comparison
}

fn compare(kerf: &dyn Fn(&str, &str) -> Value, theirs: &RecordedWorld) -> WorldComparison {
    let made = provisioning_cluster(theirs.seed, theirs.size);
    let failed = |why: String| WorldComparison::failed(theirs.seed, theirs.size, why);
    if made.fingerprint() != theirs.fingerprint {
        return failed("the generator has changed since the record was made: record anew".to_owned());
    }
    let (plan, violations) = match read_and_check_plan(&made, &kerf(&made.manifests, &made.types)) {
        Ok(judged) => judged,
        Err(why) => return failed(why),
    };
    let lawful: Vec<&RecordedRun> = theirs.runs.iter().filter(|run| run.broken.is_empty()).collect();
    let mut comparison = WorldComparison::failed(theirs.seed, theirs.size, String::new());
    comparison.failure = None;
    comparison.placed = plan.placed();
    comparison.price = plan.price();
    comparison.violations = violations;
    comparison.left_out = match ClusterManifests::read(&made.manifests) {
        Ok(world) => pods_left_out(&world, &plan, &lawful),
        Err(error) => return failed(error.to_string()),
    };
    let placed = |run: &RecordedRun| theirs.pods.saturating_sub(run.unplaced.len());
    comparison.karpenter_placed = median(lawful.iter().map(|run| placed(run)).collect());
    let same = lawful.iter().filter(|run| placed(run) == comparison.placed);
    comparison.karpenter_price = median(same.map(|run| run.price()).collect());
    comparison
}

/// The plan, and the constraints that it breaks.
pub(crate) fn read_and_check_plan(made: &GeneratedCluster, answer: &Value) -> Result<(Plan, Vec<Violation>), String> {
    let world = ClusterManifests::read(&made.manifests).map_err(|error| error.to_string())?;
    let catalogue = catalogue::read(&made.types).map_err(|error| error.to_string())?;
    let plan = Plan::read(answer).map_err(|error| format!("not a plan: {error}"))?;
    let violations = check(&world, &catalogue, &plan);
    Ok((plan, violations))
}

/// Pods that the plan does not place although every run places so many pods of their kind.
fn pods_left_out(world: &ClusterManifests, plan: &Plan, runs: &[&RecordedRun]) -> Vec<String> {
    let unplaced: BTreeSet<&str> = plan.provisioning.unschedulable.iter().map(|u| u.pod.as_str()).collect();
    let mut kinds: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for pending in world.pending_pods() {
        kinds.entry(pod_equivalence_key(pending.pod)).or_default().push(pod_key(pending.pod));
    }
    let missing = |alike: Vec<String>| {
        let most = runs.iter().map(|run| alike.iter().filter(|pod| run.unplaced.contains(pod)).count()).max();
        let ours: Vec<String> = alike.into_iter().filter(|pod| unplaced.contains(pod.as_str())).collect();
        let accounted = most.unwrap_or(ours.len());
        ours.into_iter().skip(accounted)
    };
    kinds.into_values().flat_map(missing).collect()
}

/// The middle one; of an even number, the greater of the two in the middle.
fn median<T: Ord + Copy>(mut values: Vec<T>) -> Option<T> {
    values.sort_unstable();
    values.get(values.len() / 2).copied()
}

#[cfg(test)]
mod tests;
