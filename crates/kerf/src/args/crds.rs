//! Arguments of `kerf crds`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use kerf_api::crds::CrdVariant;

/// Print the CRD manifests that Kerf needs.
#[derive(Debug, Args)]
#[command(
    help_template = super::HELP_TEMPLATE,
    before_help = "\
Examples:
  kerf crds | kubectl apply --server-side -f -    install or update the CRDs
  kerf crds --group karpenter.sh -o table         list the kinds of an API group
  kerf crds -o dir=deploy/crds                    write one file per kind"
)]
pub(crate) struct TypedCrds {
    /// Print only the kinds of this API group.
    #[arg(long, value_name = "GROUP", help_heading = "Selection")]
    group: Option<String>,
    /// Provider whose labels the validation rules of the CRDs accept: aws or kwok.
    #[arg(
        long,
        value_name = "PROVIDER",
        default_value = "aws",
        help_heading = "Selection",
        hide_possible_values = true
    )]
    provider: Provider,
    /// Output format: yaml, json, table, or dir=PATH to write one YAML file per kind to that
    /// folder.
    #[arg(short, long, value_name = "FORMAT", default_value = "yaml", value_parser = parse_output, help_heading = "Output")]
    output: CrdsOutput,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Provider {
    Aws,
    Kwok,
}

impl TypedCrds {
    pub(super) fn resolve(self) -> CrdsOptions {
        let crd_variant = match self.provider {
            Provider::Aws => CrdVariant::Aws,
            Provider::Kwok => CrdVariant::Kwok,
        };
        CrdsOptions { group: self.group, crd_variant, output: self.output }
    }
}

/// Validated options of `kerf crds`.
#[derive(Debug)]
pub(crate) struct CrdsOptions {
    /// Print only the kinds of this API group; `None` prints all kinds.
    pub(crate) group: Option<String>,
    /// Provider whose label domain the CRDs' rules protect.
    pub(crate) crd_variant: CrdVariant,
    pub(crate) output: CrdsOutput,
}

/// Output formats of `kerf crds`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum CrdsOutput {
    /// A stream of YAML documents.
    Yaml,
    /// One JSON object of kind `List`.
    Json,
    /// One row per kind.
    Table,
    /// One YAML file per kind in this folder.
    Folder(PathBuf),
}

fn parse_output(text: &str) -> Result<CrdsOutput, String> {
    match text {
        "yaml" => Ok(CrdsOutput::Yaml),
        "json" => Ok(CrdsOutput::Json),
        "table" => Ok(CrdsOutput::Table),
        _ => match text.strip_prefix("dir=") {
            Some(path) if !path.is_empty() => Ok(CrdsOutput::Folder(PathBuf::from(path))),
            Some(_) => Err("`dir=` must be followed by a path, for example dir=deploy/crds".to_owned()),
            None => Err("expected yaml, json, table or dir=PATH".to_owned()),
        },
    }
}
