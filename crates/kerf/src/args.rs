//! The command line as typed, and from it what is meant. The types with clap's attributes hold the words of a person, defaults and
//! help included; each is turned into a plain struct of a command's wishes before anything runs, so that no command ever looks at a flag.

mod controller;
mod crds;
mod input;
mod output;
mod plan;
mod sandbox;
mod settings;
mod validate;

use std::ffi::OsString;

use clap::{Parser, Subcommand};

pub(crate) use controller::{ControllerOptions, LogFormat, LogLevel};
pub(crate) use crds::{CrdsOptions, CrdsOutput};
pub(crate) use input::InputPath;
pub(crate) use output::Format;
pub(crate) use plan::{Gate, PlanOptions, PlanPart};
pub(crate) use sandbox::{SandboxOptions, SandboxRunOptions};
#[cfg(test)]
pub(crate) use settings::FeatureGates;
pub(crate) use settings::{MinValuesPolicy, PreferencePolicy, Settings};
pub(crate) use validate::ValidateOptions;

use crate::exit::CommandFailure;
use settings::Environment;

/// One sentence, how to call it, examples, then the options by purpose.
const HELP_TEMPLATE: &str = "{about}\n\nUsage: {usage}\n\n{before-help}{all-args}\n";

/// Reads the arguments as typed.
///
/// The error is the parser's own: help, version, or what is wrong with the usage.
pub(crate) fn parse<I>(arguments: I) -> Result<ParsedCommand, clap::Error>
where
    I: IntoIterator,
    I::Item: Into<OsString> + Clone,
{
    TypedArguments::try_parse_from(with_two_dashes(arguments)).map(|typed| ParsedCommand(typed.command))
}

/// Karpenter takes its flags with one dash as well as with two, and deployments use both.
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

/// A command as typed: the parser understands it, and nobody has looked at its values yet.
pub(crate) struct ParsedCommand(TypedCommand);

impl ParsedCommand {
    /// What is meant by it, in this environment; or everything that is wrong with it.
    pub(crate) fn resolve(self, environment: Environment<'_>) -> Result<Command, CommandFailure> {
        Ok(match self.0 {
            TypedCommand::Controller(typed) => Command::Controller(typed.resolve(environment)?),
            TypedCommand::Plan(typed) => Command::Plan(typed.resolve(environment)?),
            TypedCommand::Validate(typed) => Command::Validate(typed.resolve()),
            TypedCommand::Crds(typed) => Command::Crds(typed.resolve()),
            TypedCommand::Sandbox(typed) => typed.resolve(environment)?,
        })
    }
}

/// What the program is to do.
#[derive(Debug)]
pub(crate) enum Command {
    /// Run the controllers.
    Controller(ControllerOptions),
    /// Say what would happen.
    Plan(PlanOptions),
    /// Check manifests.
    Validate(ValidateOptions),
    /// Print CRDs.
    Crds(CrdsOptions),
    /// Start a cluster.
    Sandbox(SandboxOptions),
    /// Live through a story.
    SandboxRun(SandboxRunOptions),
}

/// Previews, explains and runs the nodes of a Kubernetes cluster, in Karpenter's API.
#[derive(Debug, Parser)]
#[command(
    name = "kerf",
    version,
    disable_help_subcommand = true,
    help_template = HELP_TEMPLATE,
    before_help = "\
Examples:
  kerf plan                            what would happen now, and what would it cost?
  kerf plan -f cluster.yaml            the same for manifests
  kerf validate -f manifests/          would an API server take these objects?
  kerf crds | kubectl apply -f -       install the API
  kerf sandbox                         a whole cluster in one process, Kerf included
  kerf controller                      run the nodes of a cluster"
)]
struct TypedArguments {
    #[command(subcommand)]
    command: TypedCommand,
}

#[derive(Debug, Subcommand)]
enum TypedCommand {
    Plan(plan::TypedPlan),
    Validate(validate::TypedValidate),
    Crds(crds::TypedCrds),
    Sandbox(Box<sandbox::TypedSandbox>),
    Controller(Box<controller::TypedController>),
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::{TypedArguments, with_two_dashes};

    #[test]
    fn the_definition_of_the_command_line_is_sound() {
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
