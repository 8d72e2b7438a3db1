//! Programs that consist of this crate's commands, and the names of cloud providers.

use clap::ValueEnum;
use futures::future::BoxFuture;
use kerf_aws::ports::{AwsPorts, ConnectError};

use crate::exit::Problem;

/// Function that connects to AWS as the environment of the process says: region, credentials,
/// endpoints.
pub type ConnectAws = fn() -> BoxFuture<'static, Result<AwsPorts, ConnectError>>;

/// A program that consists of this crate's commands.
#[derive(Clone, Copy, Debug)]
pub struct Program {
    /// Provider of commands without `--provider` and `KERF_PROVIDER`.
    pub default_provider: ProviderName,
    /// Connects to AWS; `None` if the program has no AWS SDK.
    pub connect_aws: Option<ConnectAws>,
}

/// The program `kerf`, which has no AWS SDK.
pub const KERF: Program = Program { default_provider: ProviderName::Kwok, connect_aws: None };

/// Name of the EKS cluster of a sandbox unless the user gives another. `examples/aws/` uses it too.
pub(crate) const SANDBOX_CLUSTER_NAME: &str = "kerf-sandbox";
/// Kubernetes version of the sandbox's API server.
pub(crate) const SANDBOX_KUBERNETES_VERSION: &str = "1.36";

/// Returns the problem of a program that has no AWS SDK and cannot run on AWS.
pub(crate) fn no_sdk_problem() -> Problem {
    Problem::new("--provider aws: this program has no AWS SDK").with_hint("run `kerf-aws controller`")
}

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
