//! Checks the program's plans with the referee: against Karpenter's recorded answers, and on random
//! clusters.

mod clusters;
mod karpenter;
mod random_worlds;

use std::ffi::OsString;

use kerf_referee::generator::{ClusterSize, provisioning_cluster};
use kerf_referee::program::{KerfError, KerfProgram};

/// Returns the program under test, with a folder for its input. It runs in this process, because
/// there are more than a thousand plans. [`the_program_says_what_its_library_says`] checks that the
/// binary prints the same.
fn in_process_kerf() -> (KerfProgram, tempfile::TempDir) {
    let scratch = tempfile::tempdir().unwrap();
    let run = |arguments: Vec<OsString>| {
        let printed = kerf::plan([OsString::from("kerf")].into_iter().chain(arguments));
        match printed.code {
            0 => Ok(printed.stdout),
            code => Err(KerfError::Refused { code: code.to_string(), message: printed.stderr }),
        }
    };
    (KerfProgram::with_runner(Box::new(run), scratch.path().to_owned()), scratch)
}

#[test]
fn the_program_says_what_its_library_says() {
    let (library, scratch) = in_process_kerf();
    let program = KerfProgram::new(assert_cmd::cargo::cargo_bin!("kerf").to_path_buf(), scratch.path().to_owned());
    for seed in 0..5 {
        let made = provisioning_cluster(seed, ClusterSize::Medium);
        let of = |kerf: &KerfProgram| kerf.plan_output(&made.manifests, &made.types, &[]).unwrap();
        assert_eq!(String::from_utf8_lossy(&of(&library)), String::from_utf8_lossy(&of(&program)), "world {seed}");
    }
    let refused = |kerf: &KerfProgram| match kerf.plan_output("{}", "[]", &[]) {
        Err(KerfError::Refused { message, .. }) => message,
        other => panic!("{other:?}"),
    };
    assert_eq!(refused(&library), refused(&program));
}
