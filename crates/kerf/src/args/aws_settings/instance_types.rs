//! The settings of the AWS provider that instance types depend on. `kerf plan` and `kerf sandbox`
//! have them as well as `kerf controller`, so that all three use the same types.

use clap::Args;
use kerf_aws::AwsSettings;

use crate::args::setting_reader::{SettingReader, names_of_given};
use crate::args::settings::parse_bool;
use crate::exit::Problem;
use crate::program::ProviderName;

/// AWS feature gates of Karpenter 1.15 whose features this release does not have.
const UNUSED_GATES: [&str; 3] = ["DRANVIDIAGPU", "DRAEFA", "RebootForRepair"];

/// Flags of the AWS provider that instance types depend on. Their help texts are `help` attributes
/// instead of doc comments, because they name environment variables as a shell writes them.
#[derive(Debug, Default, Args)]
#[command(next_help_heading = "AWS")]
pub(in crate::args) struct TypedInstanceTypeSettings {
    #[arg(
        long,
        value_name = "FRACTION",
        allow_hyphen_values = true,
        help = "Fraction of an instance's memory that is assumed lost until its node has reported it [env: \
                VM_MEMORY_OVERHEAD_PERCENT] [default: 0.075]"
    )]
    vm_memory_overhead_percent: Option<f64>,
    #[arg(
        long,
        value_name = "NUMBER",
        allow_hyphen_values = true,
        help = "Network interfaces of each instance that pods cannot use [env: RESERVED_ENIS] [default: 0]"
    )]
    reserved_enis: Option<i64>,
    #[arg(
        long,
        value_name = "NAME=BOOL,...",
        help = "AWS feature gates: NodeClassCEL=true evaluates expressions in spec.kubelet [env: \
                AWS_FEATURE_GATES] [default: NodeClassCEL=false]"
    )]
    aws_feature_gates: Option<String>,
}

impl TypedInstanceTypeSettings {
    /// Writes flags, environment variables and defaults to the settings. Adds every invalid value
    /// to the problems of the reader.
    pub(in crate::args) fn apply(self, settings: &mut AwsSettings, reader: &mut SettingReader<'_>) {
        let overhead = reader.number(self.vm_memory_overhead_percent, "VM_MEMORY_OVERHEAD_PERCENT", 0.075);
        if overhead < 0.0 {
            reader.problems.push(Problem::new("vm-memory-overhead-percent cannot be negative"));
        } else if !overhead.is_finite() {
            reader.problems.push(Problem::new("vm-memory-overhead-percent must be a finite number"));
        }
        settings.vm_memory_overhead_percent = overhead;
        let reserved_enis = reader.number(self.reserved_enis, "RESERVED_ENIS", 0_i64);
        if reserved_enis < 0 {
            reader.problems.push(Problem::new("reserved-enis cannot be negative"));
        }
        settings.reserved_enis = u32::try_from(reserved_enis.max(0)).unwrap_or(u32::MAX);
        let gates = reader.text(self.aws_feature_gates, "AWS_FEATURE_GATES").unwrap_or_default();
        settings.node_class_cel = is_node_class_cel_enabled(&gates, reader);
    }

    /// Writes the settings for a command that runs with one of several providers. With another
    /// provider, flags cause a warning, and variables are ignored.
    pub(in crate::args) fn apply_for(
        self,
        provider: ProviderName,
        settings: &mut AwsSettings,
        reader: &mut SettingReader<'_>,
    ) {
        match provider {
            ProviderName::Aws => self.apply(settings, reader),
            ProviderName::Kwok => reader.warn_about_flags(&self.given_flags(), provider),
        }
    }

    /// Returns the names of the flags that have a value.
    pub(super) fn given_flags(&self) -> Vec<&'static str> {
        let flags = [
            ("vm-memory-overhead-percent", self.vm_memory_overhead_percent.is_some()),
            ("reserved-enis", self.reserved_enis.is_some()),
            ("aws-feature-gates", self.aws_feature_gates.is_some()),
        ];
        names_of_given(flags)
    }
}

/// Parses `Name=bool,…`. Unknown names are ignored with a warning.
fn is_node_class_cel_enabled(text: &str, reader: &mut SettingReader<'_>) -> bool {
    let mut is_enabled = false;
    for token in text.split(',').map(str::trim).filter(|token| !token.is_empty()) {
        let value = token.split_once('=').map(|(name, value)| (name.trim(), parse_bool(value.trim())));
        match value {
            None => {
                let message = format!("parsing AWS feature gates, missing bool value for {token}");
                reader.problems.push(Problem::new(message));
            }
            Some((_, None)) => {
                let message = format!("parsing AWS feature gates, invalid value of {token}: it is not a boolean");
                reader.problems.push(Problem::new(message));
            }
            Some(("NodeClassCEL", Some(value))) => is_enabled = value,
            Some((known, Some(value))) if UNUSED_GATES.contains(&known) => {
                if value {
                    reader
                        .warnings
                        .push(format!("AWS feature gates: {known} has no effect: this release cannot do it yet"));
                }
            }
            Some((unknown, Some(_))) => {
                reader.warnings.push(format!("AWS feature gates: {unknown} is unknown and has no effect"));
            }
        }
    }
    is_enabled
}
