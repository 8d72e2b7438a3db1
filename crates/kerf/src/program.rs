//! Programs that consist of this crate's commands, and the names of cloud providers.

use clap::ValueEnum;
use futures::future::BoxFuture;
use kerf_aws::AwsSettings;
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

/// API group of the AWS node classes.
pub(crate) const AWS_GROUP: &str = "karpenter.k8s.aws";
/// API group of the simulated provider's node classes.
pub(crate) const KWOK_GROUP: &str = "karpenter.kwok.sh";

/// Returns the settings of the AWS provider in a sandbox: the events of instances arrive in the
/// queue with the cluster's name.
pub(crate) fn sandbox_aws_settings(cluster_name: &str) -> AwsSettings {
    AwsSettings { interruption_queue: Some(cluster_name.to_owned()), ..AwsSettings::new(cluster_name) }
}

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

    /// Returns the provider that serves node classes of an API group. Returns `None` for a group
    /// that no provider of Kerf serves.
    pub(crate) fn of_node_class_group(group: &str) -> Option<Self> {
        match group {
            AWS_GROUP => Some(Self::Aws),
            KWOK_GROUP => Some(Self::Kwok),
            _ => None,
        }
    }
}

/// The provider of a command whose input may name node classes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ProviderChoice {
    /// Provider that the user selected; `None` if the input decides.
    pub(crate) selected: Option<ProviderName>,
    /// Provider of an input that names no node class.
    pub(crate) default: ProviderName,
}

impl ProviderChoice {
    /// Returns the provider of a command without input.
    pub(crate) fn without_input(self) -> ProviderName {
        self.selected.unwrap_or(self.default)
    }
}
