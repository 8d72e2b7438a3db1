//! The official Python client, an independent client, against a whole cluster on a socket.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::script::TestCluster;

/// Returns a Python interpreter with the client. Installs the client if `make tools` has not.
fn python() -> PathBuf {
    let repository = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let venv = Path::new(env!("CARGO_TARGET_TMPDIR")).join("python-client");
    let install = Command::new(repository.join("hack/python-client.sh")).arg(&venv).output();
    let install = install.expect("hack/python-client.sh can be run");
    assert!(
        install.status.success(),
        "the official Python client (PyPI `kubernetes`) is needed for this test and could not be installed: python3 with its venv module and \
         access to a package index are all it takes. What was said:\n{}{}",
        String::from_utf8_lossy(&install.stdout),
        String::from_utf8_lossy(&install.stderr)
    );
    venv.join("bin/python")
}

#[tokio::test(flavor = "multi_thread")]
async fn the_official_python_client_lists_watches_patches_and_evicts() {
    let python = python();
    let cluster = TestCluster::start().await;
    let output = cluster.command(python).arg("client.py").output().await.unwrap();
    let text = format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{text}");
    let steps = text.lines().filter(|line| line.starts_with("ok ")).count();
    assert!(steps >= 25, "{steps} steps:\n{text}");
}
