//! The option `-o`, which all commands with a structured result share.

use clap::{Args, ValueEnum};

/// Flag that selects the output format.
#[derive(Debug, Args)]
pub(super) struct TypedOutput {
    /// Output format: table for people, json or yaml for programs.
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

/// Output format of a result. The variants' docs are help texts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// For people.
    Table,
    /// For programs.
    Json,
    /// For programs, and easier to read than JSON.
    Yaml,
}
