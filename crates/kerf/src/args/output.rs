//! How a result is to be shown, as commands spell it.

use clap::{Args, ValueEnum};

/// The option that chooses a format.
#[derive(Debug, Args)]
pub(super) struct TypedOutput {
    /// table for people, json or yaml for programs.
    #[arg(
        short,
        long,
        value_name = "FORMAT",
        default_value = "table",
        help_heading = "Output",
        hide_possible_values = true
    )]
    pub(super) output: Format,
}

/// A form of results.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// For people.
    Table,
    /// For programs.
    Json,
    /// For programs that people read.
    Yaml,
}
