//! Programs that consist of this crate's commands, and the names of cloud providers.

use clap::ValueEnum;

/// A program that consists of this crate's commands.
#[derive(Clone, Copy, Debug)]
pub struct Program {
    /// Provider of commands without `--provider` and `KERF_PROVIDER`.
    pub default_provider: ProviderName,
}

/// The program `kerf`.
pub const KERF: Program = Program { default_provider: ProviderName::Kwok };

/// Name of a cloud provider. The variants' docs are help texts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ProviderName {
    /// Amazon EC2.
    Aws,
    /// Simulated instances.
    Kwok,
}

impl ProviderName {
    /// Returns the value of `--provider` that selects this provider.
    pub fn name(self) -> &'static str {
        match self {
            Self::Aws => "aws",
            Self::Kwok => "kwok",
        }
    }
}
