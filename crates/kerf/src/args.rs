//! The command line. Types named `Typed…` carry clap's attributes: they hold the flags of a command
//! as clap parsed them, with defaults and help texts. `resolve` turns each of them into a plain
//! struct named `…Options` before a command runs. Commands read only these options, never flags or
//! environment variables.

mod aws;
mod aws_settings;
mod controller;
mod crds;
mod input;
mod output;
mod plan;
mod provider;
mod sandbox;
mod setting_reader;
mod settings;
mod validate;

use std::ffi::OsString;

use clap::{Parser, Subcommand};

pub(crate) use aws::{AskOptions, AwsDataOptions, AwsServeOptions, Question};
pub(crate) use controller::{ControllerOptions, LogFormat, LogLevel};
pub(crate) use crds::{CrdsOptions, CrdsOutput};
pub(crate) use input::InputPath;
pub(crate) use output::Format;
pub(crate) use plan::{Gate, PlanOptions, PlanPart};
pub(crate) use sandbox::{SandboxAwsOptions, SandboxOptions, SandboxRunOptions};
pub(crate) use settings::{FeatureGates, MinValuesPolicy, PreferencePolicy, Settings};
pub(crate) use validate::ValidateOptions;

use crate::exit::CommandFailure;
use crate::program::Program;
use settings::Environment;

/// Layout of every help page: one sentence, the usage, examples, then the options by purpose.
const HELP_TEMPLATE: &str = "{about}\n\nUsage: {usage}\n\n{before-help}{all-args}\n";

/// Parses the arguments.
///
/// The error is clap's: the help text, the version, or a message about wrong usage.
pub(crate) fn parse<I>(arguments: I) -> Result<TypedCommand, clap::Error>
where
    I: IntoIterator,
    I::Item: Into<OsString> + Clone,
{
    TypedArguments::try_parse_from(with_two_dashes(arguments)).map(|typed| typed.command)
}

/// Turns `-flag` into `--flag` for `kerf controller`, because Karpenter accepts its flags with one
/// dash and with two, and deployments use both.
fn with_two_dashes<I>(arguments: I) -> Vec<OsString>
where
    I: IntoIterator,
    I::Item: Into<OsString>,
{
    let mut arguments: Vec<OsString> = arguments.into_iter().map(Into::into).collect();
    if arguments.get(1).is_some_and(|command| command == "controller") {
        for argument in arguments.iter_mut().skip(2) {
            let is_long = argument.to_str().is_some_and(|text| {
                let name = text.strip_prefix('-').unwrap_or_default();
                name.len() > 1 && name.starts_with(|first: char| first.is_ascii_alphabetic())
            });
            if is_long {
                let mut long = OsString::from("-");
                long.push(&*argument);
                *argument = long;
            }
        }
    }
    arguments
}

/// A validated command with its options.
#[derive(Debug)]
pub(crate) enum Command {
    Controller(Box<ControllerOptions>),
    /// Print a plan without acting.
    Plan(PlanOptions),
    Validate(ValidateOptions),
    Crds(CrdsOptions),
    /// Start a cluster in this process.
    Sandbox(SandboxOptions),
    /// Run a scenario in virtual time.
    SandboxRun(SandboxRunOptions),
    /// Change the AWS account of a running sandbox.
    SandboxAws(SandboxAwsOptions),
    /// Show the data about EC2 that the program ships.
    AwsData(AwsDataOptions),
    /// Serve an EC2 in memory over HTTP.
    AwsServe(AwsServeOptions),
    /// Answer questions about the AWS provider.
    AwsAsk(AskOptions),
}

/// A node autoscaler for Kubernetes that uses Karpenter's API.
#[derive(Debug, Parser)]
#[command(
    name = "kerf",
    version,
    disable_help_subcommand = true,
    help_template = HELP_TEMPLATE,
    before_help = "\
Examples:
  kerf plan                            show what Kerf would do now, and the cost
  kerf plan -f cluster.yaml            plan for the cluster that manifests describe
  kerf validate -f manifests/          check whether an API server would accept the manifests
  kerf crds | kubectl apply --server-side -f -
                                       install the CRDs
  kerf sandbox                         start a simulated cluster, with Kerf on it
  kerf controller                      run Kerf on a cluster"
)]
struct TypedArguments {
    #[command(subcommand)]
    command: TypedCommand,
}

/// A command as clap parsed it. Its values are not validated yet.
#[derive(Debug, Subcommand)]
pub(crate) enum TypedCommand {
    Plan(Box<plan::TypedPlan>),
    Validate(validate::TypedValidate),
    Crds(crds::TypedCrds),
    Sandbox(Box<sandbox::TypedSandbox>),
    Controller(Box<controller::TypedController>),
    Aws(aws::TypedAws),
}

impl TypedCommand {
    /// Combines the flags with the environment variables and validates all values, for this
    /// program. The error lists every problem.
    pub(crate) fn resolve(self, environment: Environment<'_>, program: &Program) -> Result<Command, CommandFailure> {
        let default_provider = program.default_provider;
        Ok(match self {
            Self::Controller(typed) => Command::Controller(Box::new(typed.resolve(environment, program)?)),
            Self::Plan(typed) => Command::Plan(typed.resolve(environment, default_provider)?),
            Self::Validate(typed) => Command::Validate(typed.resolve()),
            Self::Crds(typed) => Command::Crds(typed.resolve()),
            Self::Sandbox(typed) => typed.resolve(environment, default_provider)?,
            Self::Aws(typed) => typed.resolve()?,
        })
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::{TypedArguments, with_two_dashes};

    #[test]
    fn the_clap_definition_is_valid() {
        TypedArguments::command().debug_assert();
    }

    // Spec 07 section 2.1.
    #[test]
    fn flags_of_the_controller_may_have_one_dash() {
        let typed = ["kerf", "controller", "-log-level=debug", "--metrics-port", "-1", "-h"];
        assert_eq!(with_two_dashes(typed), ["kerf", "controller", "--log-level=debug", "--metrics-port", "-1", "-h"]);
        let other = ["kerf", "plan", "-fx"];
        assert_eq!(with_two_dashes(other), other);
    }
}
