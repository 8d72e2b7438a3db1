//! The kubeconfig of a sandbox: a file that only its owner can read, in a folder that only its owner can enter, gone with the cluster.
//! Invariant: a file that was there before is never touched.

use std::fs::{DirBuilder, OpenOptions};
use std::io::{ErrorKind, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use anyhow::Context as _;

use crate::exit::{CommandFailure, Problem};

/// The file, as long as the cluster lives.
#[derive(Debug)]
pub(super) struct KubeconfigFile {
    path: PathBuf,
    /// The folder that was made for it.
    folder: Option<PathBuf>,
}

impl KubeconfigFile {
    /// Writes it to `wished`, or to a new private folder.
    pub(super) fn write(wished: Option<&Path>, text: &str) -> Result<Self, CommandFailure> {
        let file = match wished {
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
            .and_then(|mut to| to.write_all(text.as_bytes()));
        match written {
            Ok(()) => Ok(file),
            Err(cause) if cause.kind() == ErrorKind::AlreadyExists => {
                let problem = Problem::new(format!("{} exists already", file.path.display()));
                // It is not ours to take away.
                std::mem::forget(file);
                Err(CommandFailure::bad_input(problem.with_hint("name another file, or remove this one")))
            }
            Err(cause) => {
                let path = file.path.display().to_string();
                Err(CommandFailure::ExecutionFailed(anyhow::Error::new(cause).context(format!("cannot write {path}"))))
            }
        }
    }

    /// Where it is.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for KubeconfigFile {
    fn drop(&mut self) {
        // Whoever has removed them already has saved us the work.
        let _ = std::fs::remove_file(&self.path);
        if let Some(folder) = &self.folder {
            let _ = std::fs::remove_dir(folder);
        }
    }
}

/// A new folder that only its owner can enter, among the user's temporary files.
fn private_folder() -> anyhow::Result<PathBuf> {
    let parent = std::env::temp_dir();
    for attempt in 0..1000 {
        let folder = parent.join(format!("kerf-sandbox-{}-{attempt}", std::process::id()));
        match DirBuilder::new().mode(0o700).create(&folder) {
            Ok(()) => return Ok(folder),
            Err(cause) if cause.kind() == ErrorKind::AlreadyExists => {}
            Err(cause) => {
                return Err(cause).with_context(|| format!("cannot make the folder {}", folder.display()));
            }
        }
    }
    anyhow::bail!("cannot make a folder for the kubeconfig in {}: too many are there", parent.display())
}
