//! The oracle's program (`hack/oracle/`), asked about generated worlds.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use serde_json::Value;

use super::recorded::{RecordedRun, RecordedWorld};
use crate::generator::GeneratedCluster;
use crate::manifests::{ClusterManifests, NotPlannableReason};
use crate::placement::pod_key;
use crate::program::PLAN_TIME;

/// The oracle's program.
#[derive(Debug, Clone)]
pub struct Oracle {
    /// Where it is.
    pub program: PathBuf,
    /// A folder for the files that it reads.
    pub scratch: PathBuf,
}

/// Why the oracle gave no answer.
#[derive(Debug, thiserror::Error)]
pub enum OracleError {
    /// Its input could not be written or it could not be started.
    #[error("cannot run the oracle on world {world}: {source}")]
    NotRun {
        /// The world.
        world: u64,
        /// The cause.
        source: std::io::Error,
    },
    /// It refused the world.
    #[error("the oracle refuses world {world}: {message}")]
    Refused {
        /// The world.
        world: u64,
        /// What it said.
        message: String,
    },
}

impl Oracle {
    /// Karpenter's plan for the world; runs with different salts break ties differently.
    pub fn plan(&self, made: &GeneratedCluster, salt: usize) -> Result<Value, OracleError> {
        self.run(made, salt, &["-provisioning-only"])
    }

    /// The same, with what would be taken away.
    pub(super) fn plan_with_disruption(&self, made: &GeneratedCluster, salt: usize) -> Result<Value, OracleError> {
        self.run(made, salt, &[])
    }

    fn run(&self, made: &GeneratedCluster, salt: usize, more: &[&str]) -> Result<Value, OracleError> {
        let not_run = |source| OracleError::NotRun { world: made.seed, source };
        let refused = |message| OracleError::Refused { world: made.seed, message };
        let file = |kind: &str| self.scratch.join(format!("{}-{:?}-{kind}.json", made.seed, made.size));
        let (manifests, types) = (file("manifests"), file("types"));
        fs::write(&manifests, &made.manifests).map_err(not_run)?;
        fs::write(&types, &made.types).map_err(not_run)?;
        let output = Command::new(&self.program)
            .args(["-o", "json", "-at", PLAN_TIME, "-salt", &salt.to_string()])
            .args(more)
            .arg("-instance-types")
            .arg(&types)
            .arg("-f")
            .arg(&manifests)
            .output();
        // Left-overs of a run that failed are worth less than a clean folder.
        let _ = (fs::remove_file(&manifests), fs::remove_file(&types));
        let output = output.map_err(not_run)?;
        if !output.status.success() {
            return Err(refused(String::from_utf8_lossy(&output.stderr).into_owned()));
        }
        serde_json::from_slice(&output.stdout).map_err(|error| refused(error.to_string()))
    }

    /// Asks so many times and keeps what a comparison needs.
    pub fn record_world(&self, made: &GeneratedCluster, runs: usize) -> Result<RecordedWorld, OracleError> {
        let refused = |message: String| OracleError::Refused { world: made.seed, message };
        let world = ClusterManifests::read(&made.manifests).map_err(|error| refused(error.to_string()))?;
        let ours = |pending: &crate::manifests::PendingPod<'_>| {
            world.not_plannable_reason(*pending) != Some(NotPlannableReason::ExcludesManagedNodes)
        };
        let pending: Vec<String> = world.pending_pods().iter().filter(|p| ours(p)).map(|p| pod_key(p.pod)).collect();
        let answers = (0..runs).map(|salt| {
            let (plan, violations) = super::read_and_check_plan(made, &self.plan(made, salt)?).map_err(refused)?;
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
            seed: made.seed,
            size: made.size,
            fingerprint: made.fingerprint(),
            pods: pending.len(),
            runs: answers.collect::<Result<_, OracleError>>()?,
        })
    }
}
