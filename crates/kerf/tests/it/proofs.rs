//! Checks the program's plans with the referee: against Karpenter's recorded answers, and on random
//! clusters.

mod clusters;
mod karpenter;
mod random_worlds;

use std::ffi::OsString;

use kerf_referee::generator::{ClusterSize, provisioning_cluster};
use kerf_referee::program::{KerfError, KerfProgram};

/// Returns the program under test, with a folder for its input. It runs in this process, because
/// there are more than a thousand plans. [`the_program_prints_what_its_library_returns`] checks
/// that the binary prints the same.
fn in_process_kerf() -> (KerfProgram, tempfile::TempDir) {
    let scratch = tempfile::tempdir().unwrap();
    let run = |arguments: Vec<OsString>| {
        let output = kerf::plan([OsString::from("kerf")].into_iter().chain(arguments));
        match output.code {
            0 => Ok(output.stdout),
            code => Err(KerfError::Failed { code: code.to_string(), message: output.stderr }),
        }
    };
    (KerfProgram::with_runner(Box::new(run), scratch.path().to_owned()), scratch)
}

#[test]
fn the_program_prints_what_its_library_returns() {
    let (library, scratch) = in_process_kerf();
    let program = KerfProgram::new(assert_cmd::cargo::cargo_bin!("kerf").to_path_buf(), scratch.path().to_owned());
    for seed in 0..5 {
        let cluster = provisioning_cluster(seed, ClusterSize::Medium);
        let plan_of = |kerf: &KerfProgram| kerf.plan_output(&cluster.manifests, &cluster.types, &[]).unwrap();
        assert_eq!(
            String::from_utf8_lossy(&plan_of(&library)),
            String::from_utf8_lossy(&plan_of(&program)),
            "world {seed}"
        );
    }
    let rejection = |kerf: &KerfProgram| match kerf.plan_output("{}", "[]", &[]) {
        Err(KerfError::Failed { message, .. }) => message,
        other => panic!("{other:?}"),
    };
    assert_eq!(rejection(&library), rejection(&program));
}
