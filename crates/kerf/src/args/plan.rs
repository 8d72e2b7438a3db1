//! Arguments of `kerf plan`.

use std::num::NonZeroUsize;
use std::path::PathBuf;

use clap::{Args, ValueEnum};
use jiff::Timestamp;

use super::input::{InputPath, TypedInput};
use super::output::{Format, TypedOutput};
use super::settings::{Environment, Settings, TypedSettings};
use crate::exit::CommandFailure;

/// Print what the controller would do now, without doing it.
#[derive(Debug, Args)]
#[command(
    help_template = super::HELP_TEMPLATE,
    before_help = "\
Examples:
  kerf plan                                                   the cluster of the kubeconfig; reads
  kerf plan -f cluster.yaml                                   the cluster that files describe
  kubectl get nodepools,kwoknodeclasses,nodes,pods -A -o json | kerf plan -f -
  kerf plan -f cluster/ --instance-types types.json -o json   for programs
  kerf plan -f cluster/ --fail-on unschedulable               as a gate: may exit with code 3"
)]
pub(crate) struct TypedPlan {
    #[command(flatten)]
    input: TypedInput,
    /// Instance types of the simulated provider, in KWOK's file format; without it a built-in set of 144.
    #[arg(long, value_name = "FILE", help_heading = "Input")]
    instance_types: Option<PathBuf>,
    /// The instant to plan for, for example 2026-03-04T12:00:00Z; without it, now.
    #[arg(long, value_name = "TIME", help_heading = "Input")]
    at: Option<Timestamp>,
    /// Plan one half only: provisioning or disruption.
    #[arg(long, value_name = "HALF", help_heading = "Decisions", hide_possible_values = true)]
    only: Option<PlanPart>,
    /// Breaks ties; the same seed gives the same plan.
    #[arg(long, value_name = "NUMBER", default_value_t = 0, help_heading = "Decisions")]
    seed: u64,
    /// Threads to plan with; the plan does not depend on it [default: one per processor].
    #[arg(long, value_name = "NUMBER", help_heading = "Decisions")]
    threads: Option<NonZeroUsize>,
    /// Exit with code 3 if: unschedulable (a pod finds no place), disruption (a node would be disrupted), cost-increase
    /// (the plan costs more than what is there).
    #[arg(long, value_name = "GATE", help_heading = "Output", hide_possible_values = true)]
    fail_on: Vec<Gate>,
    /// Leave out the measurements, so that the same input gives the same bytes.
    #[arg(long, help_heading = "Output")]
    no_stats: bool,
    #[command(flatten)]
    output: TypedOutput,
    #[command(flatten)]
    settings: TypedSettings,
}

/// Validated options of `kerf plan`.
#[derive(Debug)]
pub(crate) struct PlanOptions {
    /// Manifests that describe the cluster; empty means the live cluster.
    pub(crate) input: Vec<InputPath>,
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
    /// Conditions under which the exit code is 3.
    pub(crate) fail_on: Vec<Gate>,
    /// True if the measurements are part of the output.
    pub(crate) with_stats: bool,
    pub(crate) format: Format,
    /// Settings of the controller that change decisions.
    pub(crate) settings: Settings,
}

/// One of the two parts of a plan. The variants' docs are help texts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum PlanPart {
    /// Places for pending pods.
    Provisioning,
    /// Nodes that are taken away or replaced.
    Disruption,
}

/// Condition of `--fail-on` that makes `kerf plan` exit with code 3. The variants' docs are help
/// texts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Gate {
    /// A pod finds no place.
    Unschedulable,
    /// A node would be disrupted.
    Disruption,
    /// The plan costs more than what is there.
    CostIncrease,
}

impl TypedPlan {
    pub(super) fn resolve(self, environment: Environment<'_>) -> Result<PlanOptions, CommandFailure> {
        let settings = self.settings.resolve(environment).map_err(CommandFailure::BadInput)?;
        Ok(PlanOptions {
            input: self.input.resolve(),
            instance_types: self.instance_types,
            at: self.at,
            only: self.only,
            seed: self.seed,
            threads: self.threads,
            fail_on: self.fail_on,
            with_stats: !self.no_stats,
            format: self.output.output,
            settings,
        })
    }
}
