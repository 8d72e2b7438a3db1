//! Sets `KERF_COMMIT`, the commit that is built. Every log line and `karpenter_build_info` contain
//! it (spec 07 §7.1).
//! A variable `KERF_COMMIT` in the environment wins, for example for builds without the git
//! repository. A debug build does not run git, so that a new commit does not recompile unchanged
//! code.
#![allow(clippy::print_stdout, reason = "a build script prints its instructions for cargo")]

use std::path::Path;
use std::process::Command;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-env-changed=KERF_COMMIT");
    let is_release = std::env::var("PROFILE").is_ok_and(|profile| profile == "release");
    if !is_release || std::env::var_os("KERF_COMMIT").is_some() {
        return;
    }
    let commit = git(&["describe", "--always", "--abbrev=7", "--exclude=*", "--dirty"]);
    let Some(commit) = commit else { return };
    println!("cargo::rustc-env=KERF_COMMIT={commit}");
    // Every checkout, commit and reset appends to this file.
    if let Some(log) = git(&["rev-parse", "--git-path", "logs/HEAD"]).filter(|log| Path::new(log).exists()) {
        println!("cargo::rerun-if-changed={log}");
    }
}

/// Runs git and returns its trimmed output. Returns `None` if git fails or prints nothing.
fn git(arguments: &[&str]) -> Option<String> {
    let output = Command::new("git").args(arguments).output().ok().filter(|output| output.status.success())?;
    let text = String::from_utf8(output.stdout).ok()?;
    Some(text.trim().to_owned()).filter(|text| !text.is_empty())
}
