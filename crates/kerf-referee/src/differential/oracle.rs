//! The oracle program (`hack/oracle/`), which runs Karpenter's own code on generated clusters.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use serde_json::Value;

use super::recorded::{RecordedRun, RecordedWorld};
use crate::generator::GeneratedCluster;
use crate::manifests::{ClusterManifests, NotPlannableReason};
use crate::placement::pod_key;
use crate::program::PLAN_TIME;

/// The oracle program.
#[derive(Debug, Clone)]
pub struct Oracle {
    /// Path of the program.
    pub program: PathBuf,
    /// Folder for its input files.
    pub scratch: PathBuf,
}

/// Reason why the oracle returned no plan.
#[derive(Debug, thiserror::Error)]
pub enum OracleError {
    /// The input files could not be written or the program could not be started.
    #[error("cannot run the oracle on cluster {world}: {source}")]
    NotRun {
        /// Seed of the cluster.
        world: u64,
        /// Error of the operating system.
        source: std::io::Error,
    },
    /// The program failed, or its output is not a plan.
    #[error("the oracle rejects cluster {world}: {message}")]
    Failed {
        /// Seed of the cluster.
        world: u64,
        /// Standard error of the program, or the decoding error.
        message: String,
    },
}

impl Oracle {
    /// Returns Karpenter's provisioning plan for the cluster. Runs with different salts break ties
    /// differently.
    pub fn plan(&self, generated: &GeneratedCluster, salt: usize) -> Result<Value, OracleError> {
        self.run(generated, salt, &["-provisioning-only"])
    }

    /// Returns Karpenter's plan with provisioning and disruption.
    pub(super) fn plan_with_disruption(&self, generated: &GeneratedCluster, salt: usize) -> Result<Value, OracleError> {
        self.run(generated, salt, &[])
    }

    fn run(&self, generated: &GeneratedCluster, salt: usize, more: &[&str]) -> Result<Value, OracleError> {
        let not_run = |source| OracleError::NotRun { world: generated.seed, source };
        let run_error = |message| OracleError::Failed { world: generated.seed, message };
        let file = |kind: &str| self.scratch.join(format!("{}-{:?}-{kind}.json", generated.seed, generated.size));
        let (manifests, types) = (file("manifests"), file("types"));
        fs::write(&manifests, &generated.manifests).map_err(not_run)?;
        fs::write(&types, &generated.types).map_err(not_run)?;
        let output = Command::new(&self.program)
            .args(["-o", "json", "-at", PLAN_TIME, "-salt", &salt.to_string()])
            .args(more)
            .arg("-instance-types")
            .arg(&types)
            .arg("-f")
            .arg(&manifests)
            .output();
        // A failed run leaves no files behind: a clean folder is worth more than its input.
        let _ = (fs::remove_file(&manifests), fs::remove_file(&types));
        let output = output.map_err(not_run)?;
        if !output.status.success() {
            return Err(run_error(String::from_utf8_lossy(&output.stderr).into_owned()));
        }
        serde_json::from_slice(&output.stdout).map_err(|error| run_error(error.to_string()))
    }

    /// Runs Karpenter's provisioning `runs` times and returns the data for a comparison.
    pub fn record_world(&self, generated: &GeneratedCluster, runs: usize) -> Result<RecordedWorld, OracleError> {
        let run_error = |message: String| OracleError::Failed { world: generated.seed, message };
        let cluster = ClusterManifests::read(&generated.manifests).map_err(|error| run_error(error.to_string()))?;
        let is_relevant = |pending: &crate::manifests::PendingPod<'_>| {
            cluster.not_plannable_reason(*pending) != Some(NotPlannableReason::ExcludesManagedNodes)
        };
        let pending: Vec<String> =
            cluster.pending_pods().iter().filter(|p| is_relevant(p)).map(|p| pod_key(p.pod)).collect();
        let recorded_runs = (0..runs).map(|salt| {
            let (plan, violations) =
                super::read_and_check_plan(generated, &self.plan(generated, salt)?).map_err(run_error)?;
            let placed: Vec<&str> = plan.placed_pods().collect();
            let mut broken: Vec<String> = violations.iter().map(|v| format!("{:?}", v.rule)).collect();
            broken.sort();
            broken.dedup();
            Ok(RecordedRun {
                nodes: plan.provisioning.node_claims.len(),
                price_nanos: plan.price().nanos(),
                unplaced: pending.iter().filter(|pod| !placed.contains(&pod.as_str())).cloned().collect(),
                broken,
            })
        });
        Ok(RecordedWorld {
            seed: generated.seed,
            size: generated.size,
            fingerprint: generated.fingerprint(),
            pods: pending.len(),
            runs: recorded_runs.collect::<Result<_, OracleError>>()?,
        })
    }
}
