//! Compares Kerf's disruption plans with Karpenter's on random clusters.
//!
//! Karpenter's result is one pass: the commands of the first method that finds any. Kerf's result
//! is the whole sequence. For each cluster it checks that
//!
//! - Kerf's plan breaks no rule, by [`disruption_violations`];
//! - Kerf saves at least as much as Karpenter's pass, if that is to save money (median of its
//!   runs);
//! - Kerf replaces the drifted nodes that Karpenter replaces in one of its runs;
//! - Kerf does not remove nodes of which Karpenter reports that a rule forbids it.

use std::fmt;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::median;
use super::oracle::{Oracle, OracleError};
use crate::disruption::disruption_violations;
use crate::generator::{GeneratedCluster, disruption_cluster};
use crate::plan::Plan;
use crate::price::Price;
use crate::program::{PLAN_TIME, Planner};

/// Karpenter's passes for a number of clusters.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecordedClusters {
    /// Version of Karpenter.
    pub karpenter: String,
    /// The passes, by cluster.
    pub clusters: Vec<RecordedCluster>,
}

/// Karpenter's passes for one cluster.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecordedCluster {
    /// Seed of the cluster.
    pub seed: u64,
    /// Fingerprint of the generated cluster.
    pub fingerprint: String,
    /// One pass for each run.
    pub runs: Vec<RecordedPass>,
}

/// One disruption pass of Karpenter.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RecordedPass {
    /// Reason of its commands; `None` if it has no commands.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Nodes that it removes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub nodes: Vec<String>,
    /// Savings, in nano-dollars per hour.
    #[serde(default)]
    pub saved_nanos: i64,
    /// Nodes that a rule forbids Karpenter to consolidate.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub forbidden: Vec<String>,
}

impl RecordedClusters {
    /// Parses the text of a file.
    pub fn read(text: &str) -> Result<Self, serde_json::Error> {
        serde_json::from_str(text)
    }

    /// Returns the text of the file, one cluster per line.
    pub fn write(&self) -> Result<String, serde_json::Error> {
        let lines = self.clusters.iter().map(serde_json::to_string).collect::<Result<Vec<_>, _>>()?;
        let name = serde_json::to_string(&self.karpenter)?;
        Ok(format!("{{\"karpenter\": {name}, \"clusters\": [\n{}\n]}}\n", lines.join(",\n")))
    }
}

/// Parts of Karpenter's messages that report a rule which forbids removing a node.
const FORBIDDEN_NODE_MESSAGES: [&str; 6] = [
    "do-not-disrupt",
    "Pdb prevents pod evictions",
    "Eviction does not support multiple PDBs",
    "Node isn't initialized",
    "Node is deleting or marked for deletion",
    "Node is nominated",
];

impl Oracle {
    /// Runs Karpenter's disruption `runs` times and returns the data for a comparison.
    pub fn record_cluster(&self, generated: &GeneratedCluster, runs: usize) -> Result<RecordedCluster, OracleError> {
        let run_error = |message: String| OracleError::Failed { world: generated.seed, message };
        let passes = (0..runs).map(|salt| {
            let plan_json = self.plan_with_disruption(generated, salt)?;
            let plan = Plan::read(&plan_json).map_err(|error| run_error(error.to_string()))?;
            let commands = &plan.disruption.commands;
            let mut nodes: Vec<String> = commands.iter().flat_map(|command| command.nodes.clone()).collect();
            nodes.sort();
            let is_rule = |message: &str| FORBIDDEN_NODE_MESSAGES.iter().any(|words| message.contains(words));
            let blocked = plan.disruption.blocked.iter().filter(|blocked| is_rule(&blocked.message));
            let mut forbidden: Vec<String> = blocked.map(|blocked| blocked.node.clone()).collect();
            forbidden.sort();
            forbidden.dedup();
            let saved: Price = commands.iter().map(|command| command.savings_per_hour).sum();
            Ok(RecordedPass {
                reason: commands.first().map(|command| capitalize(&command.reason)),
                nodes,
                saved_nanos: saved.nanos(),
                forbidden,
            })
        });
        Ok(RecordedCluster {
            seed: generated.seed,
            fingerprint: generated.fingerprint(),
            runs: passes.collect::<Result<_, OracleError>>()?,
        })
    }
}

fn capitalize(word: &str) -> String {
    let mut letters = word.chars();
    letters.next().map(|first| first.to_uppercase().chain(letters).collect()).unwrap_or_default()
}

/// Comparison of Kerf and Karpenter on a number of clusters.
#[derive(Debug, Clone, Default)]
pub struct ClusterReport {
    /// One comparison for each cluster.
    pub comparisons: Vec<ClusterComparison>,
}

/// Comparison of Kerf and Karpenter on one cluster.
#[derive(Debug, Clone)]
pub struct ClusterComparison {
    /// Seed of the cluster.
    pub seed: u64,
    /// Points in which Kerf does worse, one sentence each.
    pub regressions: Vec<String>,
    /// Savings of Kerf without drift, and the median savings of Karpenter's passes. `None` if no
    /// pass is to save money.
    pub saved: (Price, Option<Price>),
    /// True if any run of Karpenter has commands.
    pub karpenter_acts: bool,
}

/// Compares Kerf with Karpenter's recorded passes for a cluster.
pub fn compare_cluster(kerf: &Planner<'_>, recorded: &RecordedCluster) -> ClusterComparison {
    let generated = disruption_cluster(recorded.seed);
    let mut comparison = ClusterComparison {
        seed: recorded.seed,
        regressions: Vec::new(),
        saved: (Price::ZERO, None),
        karpenter_acts: false,
    };
    if generated.fingerprint() != recorded.fingerprint {
        comparison
            .regressions
            .push("the generator has changed since the plans were recorded: record them again".to_owned());
        return comparison;
    }
    if let Err(error) = compare(kerf, &generated, recorded, &mut comparison) {
        comparison.regressions.push(error);
    }
    comparison
}

fn compare(
    kerf: &Planner<'_>,
    generated: &GeneratedCluster,
    recorded: &RecordedCluster,
    comparison: &mut ClusterComparison,
) -> Result<(), String> {
    let at: Timestamp = PLAN_TIME.parse().map_err(|_| "cannot parse the time of the plan".to_owned())?;
    let plan = Plan::read(&kerf(&generated.manifests, &generated.types)?)
        .map_err(|error| format!("cannot read the plan: {error}"))?;
    comparison.regressions.extend(disruption_violations(&generated.manifests, &generated.types, &plan, at)?);
    let commands = &plan.disruption.commands;
    let for_saving = |reason: &str| reason != "Drifted";
    let saved: Price = commands.iter().filter(|c| for_saving(&c.reason)).map(|c| c.savings_per_hour).sum();
    let acts_for_savings = |run: &&RecordedPass| run.reason.as_deref().is_some_and(for_saving);
    let their_savings = recorded.runs.iter().filter(acts_for_savings).map(|run| Price::from_nanos(run.saved_nanos));
    comparison.karpenter_acts = recorded.runs.iter().any(|run| run.reason.is_some());
    comparison.saved = (saved, median(their_savings.collect()));
    if comparison.saved.1.is_some_and(|karpenter| saved.nanos() + 1 < karpenter.nanos()) {
        comparison.regressions.push(format!("saves {saved}, Karpenter {:?}", comparison.saved.1));
    }
    let is_removed = |node: &String, reason_matches: &dyn Fn(&str) -> bool| {
        commands.iter().any(|command| reason_matches(&command.reason) && command.nodes.contains(node))
    };
    // Karpenter picks randomly among nodes that drifted at the same time.
    let drifted: Vec<&RecordedPass> = recorded.runs.iter().filter(|r| r.reason.as_deref() == Some("Drifted")).collect();
    if !drifted.is_empty() && !drifted.iter().any(|run| run.nodes.iter().all(|node| is_removed(node, &|_| true))) {
        let nodes: Vec<String> = drifted.iter().map(|run| run.nodes.join(" ")).collect();
        comparison.regressions.push(format!("keeps drifted nodes that Karpenter replaces: {}", nodes.join(", or ")));
    }
    for node in recorded.runs.iter().flat_map(|run| &run.forbidden) {
        if is_removed(node, &for_saving) {
            comparison.regressions.push(format!("removes {node}, which Karpenter may not remove"));
        }
    }
    comparison.regressions.sort();
    comparison.regressions.dedup();
    Ok(())
}

impl ClusterReport {
    /// Returns true if Kerf does worse on no cluster.
    pub fn is_clean(&self) -> bool {
        self.comparisons.iter().all(|comparison| comparison.regressions.is_empty())
    }
}

impl fmt::Display for ClusterReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for comparison in self.comparisons.iter().filter(|comparison| !comparison.regressions.is_empty()) {
            writeln!(f, "cluster {}:", comparison.seed)?;
            comparison.regressions.iter().try_for_each(|regression| writeln!(f, "  {regression}"))?;
        }
        let count = |predicate: &dyn Fn(&&ClusterComparison) -> bool| self.comparisons.iter().filter(predicate).count();
        let both = |c: &&ClusterComparison| c.saved.1.is_some();
        let more =
            |c: &&ClusterComparison| c.saved.1.is_some_and(|karpenter| c.saved.0.nanos() > karpenter.nanos() + 1);
        let (kerf_savings, karpenter_savings) = (
            self.comparisons.iter().filter(both).map(|c| c.saved.0).sum::<Price>(),
            self.comparisons.iter().filter_map(|c| c.saved.1).sum::<Price>(),
        );
        writeln!(
            f,
            "{} clusters; Karpenter disrupts nodes in {}, by consolidation in {}; Kerf saves more in {} of those, in total {kerf_savings} against {karpenter_savings}",
            self.comparisons.len(),
            count(&|c| c.karpenter_acts),
            count(&both),
            count(&more),
        )
    }
}
