//! The command line as typed, and from it what is meant. The types with clap's attributes hold the words of a person, defaults and
//! help included; each is turned into a plain struct of a command's wishes before anything runs, so that no command ever looks at a flag.

mod crds;
mod input;
mod output;
mod plan;
mod sandbox;
mod settings;
mod validate;

use std::ffi::OsString;

use clap::{Parser, Subcommand};

pub(crate) use crds::{Crds, CrdsOutput};
pub(crate) use input::InputPath;
pub(crate) use output::Format;
pub(crate) use plan::{Gate, Half, Plan};
pub(crate) use sandbox::Sandbox;
pub(crate) use settings::{MinValuesPolicy, PreferencePolicy};
pub(crate) use validate::Validate;

use crate::exit::Failure;
use settings::Environment;

/// One sentence, how to call it, examples, then the options by purpose.
const HELP_TEMPLATE: &str = "{about}\n\nUsage: {usage}\n\n{before-help}{all-args}\n";

/// Reads the arguments as typed.
///
/// The error is the parser's own: help, version, or what is wrong with the usage.
pub(crate) fn parse<I>(arguments: I) -> Result<Wish, clap::Error>
where
    I: IntoIterator,
    I::Item: Into<OsString> + Clone,
{
    Typed::try_parse_from(arguments).map(|typed| Wish(typed.command))
}

/// A command as typed: the parser understands it, and nobody has looked at its values yet.
pub(crate) struct Wish(TypedCommand);

impl Wish {
    /// What is meant by it, in this environment; or everything that is wrong with it.
    pub(crate) fn resolve(self, environment: Environment<'_>) -> Result<Command, Failure> {
        Ok(match self.0 {
            TypedCommand::Plan(typed) => Command::Plan(typed.resolve(environment)?),
            TypedCommand::Validate(typed) => Command::Validate(typed.resolve()),
            TypedCommand::Crds(typed) => Command::Crds(typed.resolve()),
            TypedCommand::Sandbox(typed) => Command::Sandbox(typed.resolve()),
        })
    }
}

/// What the program is to do.
#[derive(Debug)]
pub(crate) enum Command {
    /// Say what would happen.
    Plan(Plan),
    /// Check manifests.
    Validate(Validate),
    /// Print CRDs.
    Crds(Crds),
    /// Start a cluster.
    Sandbox(Sandbox),
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
  kerf plan -f cluster.yaml            what would happen now, and what would it cost?
  kerf validate -f manifests/          would an API server take these objects?
  kerf crds | kubectl apply -f -       install the API
  kerf sandbox                         a whole cluster in one process"
)]
struct Typed {
    #[command(subcommand)]
    command: TypedCommand,
}

#[derive(Debug, Subcommand)]
enum TypedCommand {
    Plan(plan::TypedPlan),
    Validate(validate::TypedValidate),
    Crds(crds::TypedCrds),
    Sandbox(sandbox::TypedSandbox),
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::Typed;

    #[test]
    fn the_definition_of_the_command_line_is_sound() {
        Typed::command().debug_assert();
    }
}
