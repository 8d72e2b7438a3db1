//! The program `kerf`, called as a user calls it: input from files, result from its output.
//!
//! The referee must not depend on the engine, so calling the program is its only way to obtain a
//! plan. This also tests the whole path from manifests to JSON. A caller that links the crate
//! `kerf` can pass its own runner, so that a thousand plans do not start a thousand processes.

use std::ffi::OsString;
use std::fmt;
use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::sync::atomic::{AtomicU64, Ordering};

use serde_json::Value;

/// The time for which all plans are made, by Kerf and by Karpenter.
pub const PLAN_TIME: &str = "2026-03-04T12:00:00Z";

/// Runs `kerf` with arguments, the program's name not included. Returns its standard output or an
/// error.
pub type RunProgram = dyn Fn(Vec<OsString>) -> Result<Vec<u8>, KerfError> + Send + Sync;

/// The program `kerf` and the folder for its input files.
pub struct KerfProgram {
    run: Box<RunProgram>,
    scratch: PathBuf,
    runs_started: AtomicU64,
}

/// A function from manifests and instance types (both JSON texts) to a plan in JSON.
pub type Planner<'a> = dyn Fn(&str, &str) -> Result<Value, String> + Sync + 'a;

/// Reason why there is no plan.
#[derive(Debug, thiserror::Error)]
pub enum KerfError {
    /// The input files could not be written or the program could not be started.
    #[error("cannot run kerf: {0}")]
    NotRun(#[from] std::io::Error),
    /// The program ended with an exit code other than 0.
    #[error("kerf exits with code {code}: {message}")]
    Failed {
        /// Exit status, or the signal that ended the program.
        code: String,
        /// Standard error of the program.
        message: String,
    },
}

impl fmt::Debug for KerfProgram {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Kerf").field("scratch", &self.scratch).finish_non_exhaustive()
    }
}

impl KerfProgram {
    /// Creates a handle for the program at a path. Input files are written to `scratch`.
    pub fn new(program: PathBuf, scratch: PathBuf) -> Self {
        let run = move |arguments| {
            let output = Command::new(&program).args::<Vec<OsString>, _>(arguments).output()?;
            if !output.status.success() {
                let message = String::from_utf8_lossy(&output.stderr).into_owned();
                return Err(KerfError::Failed { code: output.status.to_string(), message });
            }
            Ok(output.stdout)
        };
        Self::with_runner(Box::new(run), scratch)
    }

    /// Creates a handle that calls `run` instead of starting a process. Input files are written to
    /// `scratch`.
    pub fn with_runner(run: Box<RunProgram>, scratch: PathBuf) -> Self {
        Self { run, scratch, runs_started: AtomicU64::new(0) }
    }

    /// Returns the plan for these manifests and instance types, made with one thread. It contains
    /// no measured times.
    pub fn plan_json(&self, manifests: &str, types: &str) -> Result<Value, String> {
        let bytes = self.plan_output(manifests, types, &["--threads", "1"]).map_err(|error| error.to_string())?;
        serde_json::from_slice(&bytes).map_err(|error| format!("not JSON: {error}"))
    }

    /// Returns the output of `kerf plan` for these manifests and instance types, with the arguments
    /// `more` added. It contains no measured times.
    pub fn plan_output(&self, manifests: &str, types: &str, more: &[&str]) -> Result<Vec<u8>, KerfError> {
        let run_number = self.runs_started.fetch_add(1, Ordering::Relaxed);
        let file = |kind: &str| self.scratch.join(format!("kerf-{}-{run_number}-{kind}.json", std::process::id()));
        let (manifest_file, types_file) = (file("manifests"), file("types"));
        fs::write(&manifest_file, manifests)?;
        fs::write(&types_file, types)?;
        let mut arguments: Vec<OsString> =
            ["plan", "-o", "json", "--no-stats", "--max-passes", "1", "--at", PLAN_TIME, "--instance-types"].map(OsString::from).into();
        arguments.extend([types_file.clone().into(), "-f".into(), manifest_file.clone().into()]);
        arguments.extend(more.iter().map(OsString::from));
        let output = (self.run)(arguments);
        // A failed run leaves no files behind: a clean folder is worth more than its input.
        let _ = (fs::remove_file(&manifest_file), fs::remove_file(&types_file));
        output
    }
}
