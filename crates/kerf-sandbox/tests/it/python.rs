//! The official Python client, an independent client, against a whole cluster on a socket.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::script::TestCluster;

/// Returns a Python interpreter with the client. Installs the client if `make tools` has not.
fn python() -> PathBuf {
    let repository = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let venv = Path::new(env!("CARGO_TARGET_TMPDIR")).join("python-client");
    let made = Command::new(repository.join("hack/python-client.sh")).arg(&venv).output();
    let made = made.expect("hack/python-client.sh can be run");
    assert!(
        made.status.success(),
        "the official Python client (PyPI `kubernetes`) is needed for this test and could not be installed: python3 with its venv module and \
         access to a package index are all it takes. What was said:\n{}{}",
        String::from_utf8_lossy(&made.stdout),
        String::from_utf8_lossy(&made.stderr)
    );
    venv.join("bin/python")
}

#[tokio::test(flavor = "multi_thread")]
async fn the_official_python_client_lists_watches_patches_and_evicts() {
    let python = python();
    let town = TestCluster::start().await;
    let output = town.command(python).arg("client.py").output().await.unwrap();
    let said = format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{said}");
    let steps = said.lines().filter(|line| line.starts_with("ok ")).count();
    assert!(steps >= 25, "{steps} steps:\n{said}");
}
