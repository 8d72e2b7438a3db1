//! Arguments of `kerf plan`.

use std::num::NonZeroUsize;
use std::path::PathBuf;

use clap::{Args, ValueEnum};
use jiff::Timestamp;
use kerf_aws::AwsSettings;

use super::aws_settings::TypedInstanceTypeSettings;
use super::input::{InputPath, TypedInput};
use super::output::{Format, TypedOutput};
use super::provider::TypedProvider;
use super::setting_reader::SettingReader;
use super::settings::{Environment, Settings, TypedSettings};
use crate::exit::CommandFailure;
use crate::program::{ProviderChoice, ProviderName, SANDBOX_CLUSTER_NAME};

/// Print what the controller would do now, without doing it.
#[derive(Debug, Args)]
#[command(
    help_template = super::HELP_TEMPLATE,
    before_help = "\
Examples:
  kerf plan                                                   plan for the cluster of the kubeconfig
  kerf plan -f cluster.yaml                                   plan for the cluster in these files
  kubectl get nodepools,kwoknodeclasses,nodes,pods -A -o json | kerf plan -f -
  kerf plan -f examples/aws/ --region eu-west-1               plan for EC2, without an AWS account
  kerf plan -f cluster/ --instance-types types.json -o json   print JSON for programs
  kerf plan -f cluster/ --fail-on unschedulable               exit with 3 if a pod stays pending

`kerf plan` only reads from a cluster. It changes nothing."
)]
pub(crate) struct TypedPlan {
    #[command(flatten)]
    input: TypedInput,
    #[command(flatten)]
    provider: TypedProvider,
    /// AWS region whose instance types and prices EC2NodeClasses have, for example eu-west-1
    /// [default: that of the cluster's zones, else us-east-1].
    #[arg(long, value_name = "REGION", help_heading = "Provider")]
    region: Option<String>,
    /// File with the instance types of the simulated provider, in KWOK's format [default: 144
    /// built-in types].
    #[arg(long, value_name = "FILE", help_heading = "Input")]
    instance_types: Option<PathBuf>,
    /// Time to plan for, for example 2026-03-04T12:00:00Z [default: now].
    #[arg(long, value_name = "TIME", value_parser = parse_time, help_heading = "Input")]
    at: Option<Timestamp>,
    /// Compute only this part of the plan: provisioning or disruption [default: both].
    #[arg(long, value_name = "PART", help_heading = "Decisions", hide_possible_values = true)]
    only: Option<PlanPart>,
    /// Seed for ties between equal alternatives; the same seed gives the same plan.
    #[arg(long, value_name = "NUMBER", default_value_t = 0, help_heading = "Decisions")]
    seed: u64,
    /// Number of threads; it does not change the plan [default: one per processor].
    #[arg(long, value_name = "NUMBER", value_parser = parse_threads, help_heading = "Decisions")]
    threads: Option<NonZeroUsize>,
    /// Number of provisioning passes to plan at most; 1 plans only what the controller would do at
    /// once.
    #[arg(long, value_name = "NUMBER", default_value_t = PASSES_MAX, value_parser = parse_passes, help_heading = "Decisions")]
    max_passes: NonZeroUsize,
    /// Exit with code 3 if a condition is true: unschedulable (a pod stays pending), disruption (a
    /// node would be removed or replaced), cost-increase (the cluster would cost more than now);
    /// may be repeated.
    #[arg(long, value_name = "CONDITION", help_heading = "Output", hide_possible_values = true)]
    fail_on: Vec<Gate>,
    /// Print on stderr how long loading, resolving instance types and solving took.
    #[arg(long, help_heading = "Output")]
    timings: bool,
    /// Omit the measurements (stats), so that the same input gives the same bytes.
    #[arg(long, help_heading = "Output")]
    no_stats: bool,
    #[command(flatten)]
    output: TypedOutput,
    #[command(flatten)]
    settings: TypedSettings,
    #[command(flatten)]
    instance_type_settings: TypedInstanceTypeSettings,
}

/// Greatest number of provisioning passes of a plan.
const PASSES_MAX: NonZeroUsize = NonZeroUsize::new(100).expect("100 is not zero");

/// Validated options of `kerf plan`.
#[derive(Debug)]
pub(crate) struct PlanOptions {
    /// Manifests that describe the cluster; empty means the live cluster.
    pub(crate) input: Vec<InputPath>,
    pub(crate) provider: ProviderChoice,
    /// AWS region; `None` selects that of the input.
    pub(crate) region: Option<String>,
    /// File of instance types; `None` selects the built-in catalogue.
    pub(crate) instance_types: Option<PathBuf>,
    /// Time to plan for; `None` means now.
    pub(crate) at: Option<Timestamp>,
    /// The only part of the plan to compute; `None` computes both.
    pub(crate) only: Option<PlanPart>,
    /// Breaks ties between equal alternatives; the same seed gives the same plan.
    pub(crate) seed: u64,
    /// Number of threads; `None` means one per processor.
    pub(crate) threads: Option<NonZeroUsize>,
    /// Number of provisioning passes that are planned at most.
    pub(crate) max_passes: NonZeroUsize,
    /// Conditions under which the exit code is 3.
    pub(crate) fail_on: Vec<Gate>,
    /// True if the measurements are part of the output.
    pub(crate) with_stats: bool,
    /// True if the times of the stages are printed.
    pub(crate) with_timings: bool,
    pub(crate) format: Format,
    /// Settings of the controller that change decisions.
    pub(crate) settings: Settings,
    /// Settings on which the instance types of EC2 depend.
    pub(crate) aws: AwsSettings,
}

/// One of the two parts of a plan. The variants' docs are help texts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum PlanPart {
    /// Nodes for pending pods.
    Provisioning,
    /// Nodes that are removed or replaced.
    Disruption,
}

/// Condition of `--fail-on` that makes `kerf plan` exit with code 3. The variants' docs are help
/// texts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Gate {
    /// A pod stays pending.
    Unschedulable,
    /// A node would be removed or replaced.
    Disruption,
    /// The cluster would cost more than now.
    CostIncrease,
}

fn parse_time(text: &str) -> Result<Timestamp, String> {
    text.parse().map_err(|_| "expected a date and time with a time zone, for example 2026-03-04T12:00:00Z".to_owned())
}

fn parse_passes(text: &str) -> Result<NonZeroUsize, String> {
    let passes = text.parse().ok().filter(|passes| *passes <= PASSES_MAX);
    passes.ok_or_else(|| format!("expected a number from 1 to {PASSES_MAX}"))
}

fn parse_threads(text: &str) -> Result<NonZeroUsize, String> {
    text.parse().map_err(|_| "expected a number of at least 1".to_owned())
}

impl TypedPlan {
    pub(super) fn resolve(
        self,
        environment: Environment<'_>,
        default_provider: ProviderName,
    ) -> Result<PlanOptions, CommandFailure> {
        let provider =
            self.provider.resolve_choice(environment, default_provider).map_err(CommandFailure::bad_input)?;
        let mut settings = self.settings.resolve(environment).map_err(CommandFailure::BadInput)?;
        let mut reader = SettingReader::new(environment);
        let mut aws = AwsSettings::new(SANDBOX_CLUSTER_NAME);
        // Without a selected provider, the plan may need the instance types of EC2.
        self.instance_type_settings.apply_for(provider.selected.unwrap_or(ProviderName::Aws), &mut aws, &mut reader);
        settings.apply_to_aws(&mut aws);
        settings.warnings.extend(reader.warnings);
        if !reader.problems.is_empty() {
            return Err(CommandFailure::BadInput(reader.problems));
        }
        Ok(PlanOptions {
            input: self.input.resolve(),
            provider,
            region: self.region,
            instance_types: self.instance_types,
            at: self.at,
            only: self.only,
            seed: self.seed,
            threads: self.threads,
            max_passes: self.max_passes,
            fail_on: self.fail_on,
            with_stats: !self.no_stats,
            with_timings: self.timings,
            format: self.output.output,
            settings,
            aws,
        })
    }
}
