//! The kubeconfig of a sandbox: a file that only its owner can read. Without an explicit path it is
//! in a folder that only its owner can enter. It is deleted when the cluster stops. Invariant: a
//! file that existed before is never changed or deleted.

use std::fs::{DirBuilder, OpenOptions};
use std::io::{ErrorKind, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use anyhow::Context as _;

use crate::exit::{CommandFailure, Problem};

/// The kubeconfig file; dropping it deletes the file.
#[derive(Debug)]
pub(super) struct KubeconfigFile {
    path: PathBuf,
    /// Folder that was created for the file; `None` if the user chose the path.
    folder: Option<PathBuf>,
}

impl KubeconfigFile {
    /// Writes the kubeconfig to the given path, or to a new private folder if there is none.
    pub(super) fn write(path: Option<&Path>, text: &str) -> Result<Self, CommandFailure> {
        let file = match path {
            Some(path) => Self { path: std::path::absolute(path).unwrap_or_else(|_| path.into()), folder: None },
            None => {
                let folder = private_folder().map_err(CommandFailure::ExecutionFailed)?;
                Self { path: folder.join("kubeconfig"), folder: Some(folder) }
            }
        };
        let written = OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(&file.path)
            .and_then(|mut file_writer| file_writer.write_all(text.as_bytes()));
        match written {
            Ok(()) => Ok(file),
            Err(cause) if cause.kind() == ErrorKind::AlreadyExists => {
                let problem = Problem::new(format!("--kubeconfig: {} already exists", file.path.display()));
                // Dropping `file` would delete the user's existing file.
                std::mem::forget(file);
                Err(CommandFailure::bad_input(problem.with_hint("give another path, or delete the file first")))
            }
            Err(cause) => {
                let path = file.path.display().to_string();
                Err(CommandFailure::ExecutionFailed(anyhow::Error::new(cause).context(format!("cannot write {path}"))))
            }
        }
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for KubeconfigFile {
    fn drop(&mut self) {
        // The user may have deleted file and folder already; ignore errors.
        let _ = std::fs::remove_file(&self.path);
        if let Some(folder) = &self.folder {
            let _ = std::fs::remove_dir(folder);
        }
    }
}

/// Creates a folder that only its owner can enter, in the temporary directory.
fn private_folder() -> anyhow::Result<PathBuf> {
    let parent = std::env::temp_dir();
    for attempt in 0..1000 {
        let folder = parent.join(format!("kerf-sandbox-{}-{attempt}", std::process::id()));
        match DirBuilder::new().mode(0o700).create(&folder) {
            Ok(()) => return Ok(folder),
            Err(cause) if cause.kind() == ErrorKind::AlreadyExists => {}
            Err(cause) => {
                return Err(cause).with_context(|| format!("cannot create the folder {}", folder.display()));
            }
        }
    }
    anyhow::bail!(
        "cannot create a folder for the kubeconfig in {}: delete old folders named kerf-sandbox-*",
        parent.display()
    )
}
