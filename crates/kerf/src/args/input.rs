//! The option `-f`, which all commands that read manifests share.

use std::fmt;
use std::path::PathBuf;

use clap::Args;

/// Flags that name manifests.
#[derive(Debug, Args)]
pub(super) struct TypedInput {
    /// Manifest file, folder (searched recursively for *.yaml, *.yml and *.json), or '-' for stdin;
    /// may be repeated.
    #[arg(short = 'f', long = "filename", value_name = "PATH", help_heading = "Input")]
    filename: Vec<PathBuf>,
}

impl TypedInput {
    /// Returns the paths in the order of the flags; `-` means stdin.
    pub(super) fn resolve(self) -> Vec<InputPath> {
        let to_input_path =
            |path: PathBuf| if path.as_os_str() == "-" { InputPath::Stdin } else { InputPath::Path(path) };
        self.filename.into_iter().map(to_input_path).collect()
    }
}

/// A source of manifests.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum InputPath {
    Stdin,
    /// A file, or a folder that is searched recursively.
    Path(PathBuf),
}

impl fmt::Display for InputPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Stdin => f.write_str("stdin"),
            Self::Path(path) => write!(f, "{}", path.display()),
        }
    }
}
