//! The command line as typed, and from it what is meant. The types with clap's attributes hold the words of a person, defaults and
//! help included; each is turned into a plain struct of a command's wishes before anything runs, so that no command ever looks at a flag.

mod crds;
mod input;
mod validate;

use std::ffi::OsString;

use clap::{Parser, Subcommand};

pub(crate) use crds::{Crds, CrdsOutput};
pub(crate) use input::InputPath;
pub(crate) use validate::Validate;

/// One sentence, how to call it, examples, then the options by purpose.
const HELP_TEMPLATE: &str = "{about}\n\nUsage: {usage}\n\n{before-help}{all-args}\n";

/// Reads the arguments and says what is meant by them.
///
/// The error is the parser's own: help, version, or what is wrong with the usage.
pub(crate) fn parse<I>(arguments: I) -> Result<Command, clap::Error>
where
    I: IntoIterator,
    I::Item: Into<OsString> + Clone,
{
    let typed = Typed::try_parse_from(arguments)?;
    Ok(match typed.command {
        TypedCommand::Crds(typed) => Command::Crds(typed.resolve()),
        TypedCommand::Validate(typed) => Command::Validate(typed.resolve()),
    })
}

/// What the program is to do.
#[derive(Debug)]
pub(crate) enum Command {
    /// Print CRDs.
    Crds(Crds),
    /// Check manifests.
    Validate(Validate),
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
  kerf validate -f manifests/          would an API server take these objects?
  kerf crds | kubectl apply -f -       install the API"
)]
struct Typed {
    #[command(subcommand)]
    command: TypedCommand,
}

#[derive(Debug, Subcommand)]
enum TypedCommand {
    Validate(validate::TypedValidate),
    Crds(crds::TypedCrds),
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
