//! Arguments of `kerf aws`.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};

use super::Command;
use super::aws_settings::{cluster_name_problem, is_absolute_url};
use super::output::{Format, TypedOutput};
use crate::exit::{CommandFailure, Problem};

/// Shipped data about EC2, and tools for trying the AWS provider without an AWS account.
#[derive(Debug, Args)]
#[command(
    help_template = super::HELP_TEMPLATE,
    disable_help_subcommand = true,
    before_help = "\
Examples:
  kerf aws data                                 show the EC2 data that Kerf ships, and its age
  kerf aws serve                                serve an EC2 in memory on 127.0.0.1; Ctrl-C stops it
  kerf aws serve --cluster-name demo --port 4566"
)]
pub(crate) struct TypedAws {
    #[command(subcommand)]
    command: TypedAwsCommand,
}

#[derive(Debug, Subcommand)]
enum TypedAwsCommand {
    Data(TypedAwsData),
    Serve(TypedAwsServe),
    #[command(hide = true)]
    Ask(TypedAwsAsk),
}

/// Show the data about EC2 that Kerf ships for plans and as a fallback: sources, dates, regions and
/// prices.
#[derive(Debug, Args)]
#[command(
    help_template = super::HELP_TEMPLATE,
    before_help = "\
Examples:
  kerf aws data                                 show sources, dates, regions and price tables
  kerf aws data -o json                         print JSON for programs

The data is part of the program. `kerf plan` uses it for EC2NodeClasses; a controller on AWS reads
current data from EC2 and uses these prices until it has read them."
)]
struct TypedAwsData {
    #[command(flatten)]
    output: TypedOutput,
}

/// Options of `kerf aws data`.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct AwsDataOptions {
    pub(crate) format: Format,
}

/// Answer questions about the AWS provider for the documents on standard input
/// (docs/spec/11-aws-questions.md).
#[derive(Debug, Args)]
#[command(help_template = super::HELP_TEMPLATE)]
struct TypedAwsAsk {
    /// Part of the provider to ask about.
    #[arg(value_name = "QUESTION")]
    question: Question,
    /// JSON file with instanceTypes and offerings [default: those that Kerf ships].
    #[arg(long, value_name = "FILE")]
    catalogue: Option<PathBuf>,
}

/// A question about the AWS provider (spec 11 §2).
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Question {
    /// The instance types of a node class.
    InstanceTypes,
    /// The user data of a node.
    #[value(name = "userdata")]
    UserData,
    /// Launches, deletions and reads of instances, step by step.
    Launch,
    /// The hash of a node class, version v5.
    Hash,
    /// The images of a node class.
    Ami,
    /// The reason why a claim has drifted.
    Drift,
    /// Messages of the interruption queue.
    Interruption,
    /// One run of the controller of node classes.
    #[value(name = "nodeclass")]
    NodeClass,
}

/// Options of `kerf aws ask`.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct AskOptions {
    pub(crate) question: Question,
    /// File of instance types and zones; `None` for the shipped ones.
    pub(crate) catalogue: Option<PathBuf>,
}

/// Serve an EC2 in memory over HTTP, in the wire formats of AWS.
#[derive(Debug, Args)]
#[command(
    help_template = super::HELP_TEMPLATE,
    before_help = "\
Examples:
  kerf aws serve --port 4566
  AWS_ENDPOINT_URL=http://127.0.0.1:4566 AWS_REGION=us-west-2 AWS_ACCESS_KEY_ID=test \\
    AWS_SECRET_ACCESS_KEY=test CLUSTER_NAME=kerf-sandbox kerf-aws controller

The account is in us-west-2. It has one EKS cluster, a network with the tag
karpenter.sh/discovery, the role KarpenterNodeRole-<cluster>, the images of EKS and the instance
types that Kerf ships. Nothing is kept after the end of the process. Instances have no nodes:
GET /kerf/instances lists them with their user data, for a program that registers nodes.
POST /kerf/aws changes the account, with what `kerf sandbox aws` takes:
  curl --data 'reclaim: {}' http://127.0.0.1:4566/kerf/aws"
)]
struct TypedAwsServe {
    /// Name of the EKS cluster in the account.
    #[arg(long, value_name = "NAME", default_value = crate::program::SANDBOX_CLUSTER_NAME, help_heading = "Account")]
    cluster_name: String,
    /// URL of the cluster's API server, as EKS reports it [default: a URL that does not exist].
    #[arg(long, value_name = "URL", help_heading = "Account")]
    cluster_endpoint: Option<String>,
    /// Kubernetes version of the cluster and of the images.
    #[arg(long, value_name = "VERSION", default_value = crate::program::SANDBOX_KUBERNETES_VERSION, help_heading = "Account")]
    kubernetes_version: String,
    /// Port on 127.0.0.1 [default: a free port].
    #[arg(long, value_name = "PORT", default_value_t = 0, hide_default_value = true, help_heading = "Access")]
    port: u16,
}

/// Validated options of `kerf aws serve`.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct AwsServeOptions {
    /// Name of the EKS cluster in the account.
    pub(crate) cluster_name: String,
    /// URL of the cluster's API server; `None` keeps that of the account.
    pub(crate) cluster_endpoint: Option<String>,
    /// Kubernetes version of the cluster and of the images.
    pub(crate) kubernetes_version: String,
    /// Port on loopback; 0 selects a free port.
    pub(crate) port: u16,
}

impl TypedAws {
    pub(super) fn resolve(self) -> Result<Command, CommandFailure> {
        match self.command {
            TypedAwsCommand::Data(typed) => Ok(Command::AwsData(AwsDataOptions { format: typed.output.output })),
            TypedAwsCommand::Serve(typed) => typed.resolve(),
            TypedAwsCommand::Ask(typed) => {
                Ok(Command::AwsAsk(AskOptions { question: typed.question, catalogue: typed.catalogue }))
            }
        }
    }
}

impl TypedAwsServe {
    fn resolve(self) -> Result<Command, CommandFailure> {
        let mut problems = Vec::new();
        if self.cluster_name.trim().is_empty() {
            problems.push(Problem::new("--cluster-name must not be empty"));
        } else {
            problems.extend(cluster_name_problem(&self.cluster_name, ""));
        }
        if let Some(endpoint) = self.cluster_endpoint.as_deref().filter(|endpoint| !is_absolute_url(endpoint)) {
            let message = format!("--cluster-endpoint: \"{endpoint}\" is not a URL with scheme and host");
            problems.push(Problem::new(message).with_hint("give for example https://127.0.0.1:6443"));
        }
        if !is_kubernetes_version(&self.kubernetes_version) {
            let message = format!("--kubernetes-version: \"{}\" is not a version of EKS", self.kubernetes_version);
            let example = crate::program::SANDBOX_KUBERNETES_VERSION;
            problems
                .push(Problem::new(message).with_hint(format!("give major and minor version, for example {example}")));
        }
        if !problems.is_empty() {
            return Err(CommandFailure::BadInput(problems));
        }
        Ok(Command::AwsServe(AwsServeOptions {
            cluster_name: self.cluster_name,
            cluster_endpoint: self.cluster_endpoint,
            kubernetes_version: self.kubernetes_version,
            port: self.port,
        }))
    }
}

/// Returns true for a version as EKS writes it, such as `1.34`.
fn is_kubernetes_version(text: &str) -> bool {
    let is_number = |part: &str| part.parse::<u8>().is_ok_and(|number| number.to_string() == part);
    text.split_once('.').is_some_and(|(major, minor)| is_number(major) && is_number(minor))
}

#[cfg(test)]
mod tests {
    use super::is_kubernetes_version;

    #[test]
    fn a_kubernetes_version_has_a_major_and_a_minor_number() {
        for valid in ["1.34", "1.36", "2.0"] {
            assert!(is_kubernetes_version(valid), "{valid}");
        }
        for invalid in ["", "foo", "1", "1.", ".34", "1.34.2", "v1.34", "1.034", "1.+4", "1.34 "] {
            assert!(!is_kubernetes_version(invalid), "{invalid}");
        }
    }
}
