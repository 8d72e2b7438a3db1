//! The repository as data: its text files, and the crates as cargo describes them. It is read once,
//! so that every rule is a pure function of it and can be tested on a repository made by a test.

use std::cell::OnceCell;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use crate::code;

/// Folders without files of this project (in a work tree `.git` is a file).
const SKIPPED_FOLDERS: [&str; 5] = [".git", ".cache", "target", "corpus", "artifacts"];

/// Input of all rules.
pub(crate) struct Repository {
    /// Text files, sorted by path.
    pub(crate) files: Vec<TextFile>,
    /// The crates of the workspace.
    pub(crate) crates: Vec<Crate>,
}

/// A text file, Rust or not.
pub(crate) struct TextFile {
    /// Path from the root, separated by `/`.
    pub(crate) path: String,
    pub(crate) text: String,
    /// The Rust code without comments and literals; computed on first use.
    code: OnceCell<String>,
}

/// A crate of the workspace.
pub(crate) struct Crate {
    pub(crate) name: String,
    /// The files from which cargo compiles the crate: library, binaries, tests, benches, examples.
    pub(crate) roots: Vec<String>,
    pub(crate) dependencies: Vec<Dependency>,
}

/// A dependency of a crate.
pub(crate) struct Dependency {
    /// Name of the crate that is needed.
    pub(crate) name: String,
    /// True if only tests and benchmarks need it.
    pub(crate) is_dev_only: bool,
}

impl Repository {
    /// Returns the root folder of the repository in which this program was built.
    pub(crate) fn root() -> Result<&'static Path, String> {
        Path::new(env!("CARGO_MANIFEST_DIR")).parent().ok_or_else(|| "xtask has no parent folder".to_owned())
    }

    /// Reads the repository in which this program was built.
    pub(crate) fn read() -> Result<Self, String> {
        let root = Self::root()?;
        let mut files = Vec::new();
        read_folder(root, root, &mut files)?;
        files.sort_by(|a, b| a.path.cmp(&b.path));
        Ok(Self { files, crates: crates(root)? })
    }

    /// Returns the Rust files.
    pub(crate) fn rust(&self) -> impl Iterator<Item = &TextFile> {
        self.files.iter().filter(|file| file.is_rust())
    }

    /// Returns the file at a path, or `None` if there is none.
    pub(crate) fn file(&self, path: &str) -> Option<&TextFile> {
        let index = self.files.binary_search_by(|file| file.path.as_str().cmp(path)).ok()?;
        Some(&self.files[index])
    }
}

impl TextFile {
    pub(crate) fn is_rust(&self) -> bool {
        Path::new(&self.path).extension().is_some_and(|extension| extension == "rs")
    }

    pub(crate) fn is_markdown(&self) -> bool {
        Path::new(&self.path).extension().is_some_and(|extension| extension == "md")
    }

    /// Returns the Rust code without comments and literals.
    pub(crate) fn code(&self) -> &str {
        self.code.get_or_init(|| code::without_comments_and_literals(&self.text))
    }

    /// Returns the line comments of a Rust file.
    pub(crate) fn comments(&self) -> Vec<code::Comment<'_>> {
        code::comments(&self.text)
    }

    fn new(path: String, text: String) -> Self {
        Self { path, text, code: OnceCell::new() }
    }

    /// Returns true if the whole file is a test: it is in a folder `tests` or is the `tests.rs` of
    /// a module.
    pub(crate) fn is_for_tests(&self) -> bool {
        let parts: Vec<&str> = self.path.split('/').collect();
        parts.contains(&"tests") || parts.last() == Some(&"tests.rs")
    }
}

fn read_folder(root: &Path, folder: &Path, files: &mut Vec<TextFile>) -> Result<(), String> {
    let unreadable = |path: &Path, cause: std::io::Error| format!("cannot read {}: {cause}", path.display());
    for entry in std::fs::read_dir(folder).map_err(|cause| unreadable(folder, cause))? {
        let entry = entry.map_err(|cause| unreadable(folder, cause))?;
        if SKIPPED_FOLDERS.iter().any(|skipped| entry.file_name() == *skipped) {
            continue;
        }
        let path = entry.path();
        let kind = entry.file_type().map_err(|cause| unreadable(&path, cause))?;
        if kind.is_dir() {
            read_folder(root, &path, files)?;
        } else if kind.is_file()
            && let Ok(text) = String::from_utf8(std::fs::read(&path).map_err(|cause| unreadable(&path, cause))?)
        {
            files.push(TextFile::new(from_root(root, &path), text));
        }
    }
    Ok(())
}

fn from_root(root: &Path, path: &Path) -> String {
    let relative = path.strip_prefix(root).unwrap_or(path);
    let parts: Vec<_> = relative.components().map(|part| part.as_os_str().to_string_lossy()).collect();
    parts.join("/")
}

/// Runs `cargo metadata` to get the crates of the workspace, which is more exact than parsing
/// manifests.
fn crates(root: &Path) -> Result<Vec<Crate>, String> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let output = Command::new(cargo)
        .current_dir(root)
        .args(["metadata", "--format-version", "1", "--no-deps", "--offline"])
        .output()
        .map_err(|cause| format!("cannot run cargo metadata: {cause}"))?;
    if !output.status.success() {
        return Err(format!("cargo metadata failed: {}", String::from_utf8_lossy(&output.stderr)));
    }
    let metadata: Value =
        serde_json::from_slice(&output.stdout).map_err(|cause| format!("cargo metadata is not JSON: {cause}"))?;
    list(&metadata["packages"])
        .map(|package| {
            let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
            let roots =
                list(&package["targets"]).map(|target| from_root(root, &PathBuf::from(text(&target["src_path"]))));
            let dependencies = list(&package["dependencies"]).map(|dependency| Dependency {
                name: text(&dependency["name"]),
                is_dev_only: dependency["kind"] == "dev",
            });
            let name = text(&package["name"]);
            if name.is_empty() {
                return Err("cargo metadata lists a package without a name".to_owned());
            }
            Ok(Crate { name, roots: roots.collect(), dependencies: dependencies.collect() })
        })
        .collect()
}

fn list(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

#[cfg(test)]
impl Repository {
    /// Returns a repository with these files and without crates.
    pub(crate) fn of(files: &[(&str, &str)]) -> Self {
        let mut files: Vec<TextFile> =
            files.iter().map(|(path, text)| TextFile::new((*path).to_owned(), (*text).to_owned())).collect();
        files.sort_by(|a, b| a.path.cmp(&b.path));
        Self { files, crates: Vec::new() }
    }

    /// Adds a crate. A dependency is a name and whether it is dev-only.
    pub(crate) fn with_crate(mut self, name: &str, roots: &[&str], dependencies: &[(&str, bool)]) -> Self {
        let dependencies =
            dependencies.iter().map(|&(name, is_dev_only)| Dependency { name: name.to_owned(), is_dev_only }).collect();
        let roots = roots.iter().map(|&root| root.to_owned()).collect();
        self.crates.push(Crate { name: name.to_owned(), roots, dependencies });
        self
    }
}
