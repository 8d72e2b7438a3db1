//! Which commit is built: every line of the log and `karpenter_build_info` say it (spec 07 §7.1). Whoever builds without the repository, or
//! knows better, sets `KERF_COMMIT`. A debug build does not ask, so that a commit makes nobody compile again what has not changed.
#![allow(clippy::print_stdout, reason = "this is how a build script speaks")]

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
    // Written to by everything that changes what is checked out.
    if let Some(log) = git(&["rev-parse", "--git-path", "logs/HEAD"]).filter(|log| Path::new(log).exists()) {
        println!("cargo::rerun-if-changed={log}");
    }
}

/// What git says, if it says anything.
fn git(arguments: &[&str]) -> Option<String> {
    let output = Command::new("git").args(arguments).output().ok().filter(|output| output.status.success())?;
    let text = String::from_utf8(output.stdout).ok()?;
    Some(text.trim().to_owned()).filter(|text| !text.is_empty())
}
