//! The referee's word on what the program prints: against Karpenter's recorded answers, and on random worlds.

mod clusters;
mod karpenter;
mod random_worlds;

use kerf_referee::program::Kerf;

/// The program under test, with a folder of its own for its input.
fn kerf() -> (Kerf, tempfile::TempDir) {
    let scratch = tempfile::tempdir().unwrap();
    let program = assert_cmd::cargo::cargo_bin!("kerf").to_path_buf();
    (Kerf::new(program, scratch.path().to_owned()), scratch)
}
