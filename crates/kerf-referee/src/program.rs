//! Kerf as anybody meets it: the program `kerf`, asked by files and understood by what it prints.
//!
//! The referee must not depend on the engine, so that this is the only way in which it can ask for a plan; and it proves the
//! whole way from manifests to JSON, not only the middle of it. Whoever has the program in their own process can say how it is
//! run there: a thousand questions then start no thousand programs.

use std::ffi::OsString;
use std::fmt;
use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::sync::atomic::{AtomicU64, Ordering};

use serde_json::Value;

/// The instant for which everybody plans.
pub const PLAN_TIME: &str = "2026-03-04T12:00:00Z";

/// Runs the program with arguments, its own name not among them: what it prints, or why it does not.
pub type RunProgram = dyn Fn(Vec<OsString>) -> Result<Vec<u8>, KerfError> + Send + Sync;

/// The program.
pub struct KerfProgram {
    run: Box<RunProgram>,
    scratch: PathBuf,
    runs_started: AtomicU64,
}

/// Whoever answers manifests and instance types with a plan, in JSON.
pub type Planner<'a> = dyn Fn(&str, &str) -> Result<Value, String> + Sync + 'a;

/// Why there is no plan.
#[derive(Debug, thiserror::Error)]
pub enum KerfError {
    /// Its input could not be written or it could not be started.
    #[error("cannot run kerf: {0}")]
    NotRun(#[from] std::io::Error),
    /// It ended with another code than 0.
    #[error("kerf ends with {code}: {message}")]
    Refused {
        /// The exit code, or what ended it.
        code: String,
        /// What it said.
        message: String,
    },
}

impl fmt::Debug for KerfProgram {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Kerf").field("scratch", &self.scratch).finish_non_exhaustive()
    }
}

impl KerfProgram {
    /// The program at a path, with a folder for the files that it reads.
    pub fn new(program: PathBuf, scratch: PathBuf) -> Self {
        let run = move |arguments| {
            let output = Command::new(&program).args::<Vec<OsString>, _>(arguments).output()?;
            if !output.status.success() {
                let message = String::from_utf8_lossy(&output.stderr).into_owned();
                return Err(KerfError::Refused { code: output.status.to_string(), message });
            }
            Ok(output.stdout)
        };
        Self::with_runner(Box::new(run), scratch)
    }

    /// The program run in another way, with a folder for the files that it reads.
    pub fn with_runner(run: Box<RunProgram>, scratch: PathBuf) -> Self {
        Self { run, scratch, runs_started: AtomicU64::new(0) }
    }

    /// Its plan for these manifests and instance types, without measurements.
    pub fn plan_json(&self, manifests: &str, types: &str) -> Result<Value, String> {
        let bytes = self.plan_output(manifests, types, &["--threads", "1"]).map_err(|error| error.to_string())?;
        serde_json::from_slice(&bytes).map_err(|error| format!("not JSON: {error}"))
    }

    /// What it prints for these manifests and instance types, without measurements.
    pub fn plan_output(&self, manifests: &str, types: &str, more: &[&str]) -> Result<Vec<u8>, KerfError> {
        let question = self.runs_started.fetch_add(1, Ordering::Relaxed);
        let file = |kind: &str| self.scratch.join(format!("kerf-{}-{question}-{kind}.json", std::process::id()));
        let (manifest_file, types_file) = (file("manifests"), file("types"));
        fs::write(&manifest_file, manifests)?;
        fs::write(&types_file, types)?;
        let mut arguments: Vec<OsString> =
            ["plan", "-o", "json", "--no-stats", "--at", PLAN_TIME, "--instance-types"].map(OsString::from).into();
        arguments.extend([types_file.clone().into(), "-f".into(), manifest_file.clone().into()]);
        arguments.extend(more.iter().map(OsString::from));
        let output = (self.run)(arguments);
        // Left-overs of a run that failed are worth less than a clean folder.
        let _ = (fs::remove_file(&manifest_file), fs::remove_file(&types_file));
        output
    }
}
