//! Arguments of `kerf sandbox` and `kerf sandbox run`.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand};
use kerf_sandbox::sim::NamedFault;

use super::Command;
use super::controller::LogLevel;
use super::output::{Format, TypedOutput};
use super::settings::{Environment, Settings, TypedSettings, parse_duration};
use crate::exit::CommandFailure;

/// Start a whole Kubernetes cluster in this process.
#[derive(Debug, Args)]
#[command(
    help_template = super::HELP_TEMPLATE,
    args_conflicts_with_subcommands = true,
    disable_help_subcommand = true,
    before_help = "\
Examples:
  kerf sandbox                            an empty cluster that Kerf runs, until Ctrl-C
  kerf sandbox --demo                     the same with workloads that grow and shrink
  kerf sandbox -- kubectl get nodes       run a command with KUBECONFIG set, stop with its exit code
  kerf sandbox --no-controller --nodes 3  the cluster alone; point any autoscaler at it
  kerf sandbox run scenarios/story.yaml   a story in virtual time: minutes pass in seconds"
)]
pub(crate) struct TypedSandbox {
    #[command(subcommand)]
    run: Option<TypedSandboxCommand>,
    /// Play a story: pods come and go, a pool changes, a machine is taken away. Ends with a summary.
    #[arg(long, conflicts_with_all = ["no_controller", "command"], help_heading = "Cluster")]
    demo: bool,
    /// Run the cluster alone, without Kerf's controllers and without its CRDs.
    #[arg(long, help_heading = "Cluster")]
    no_controller: bool,
    /// How many simulated nodes there are from the start: 4 CPUs, 16Gi and room for 110 pods each.
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = clap::value_parser!(u32).range(0..=5000), help_heading = "Cluster")]
    nodes: u32,
    /// Let machines and pods start and stop at once, instead of after a few seconds.
    #[arg(long, help_heading = "Cluster")]
    instant: bool,
    /// Where all chance in the cluster comes from: uids, names, how long things take.
    #[arg(long, value_name = "N", default_value_t = 0, help_heading = "Cluster")]
    seed: u64,
    /// Instance types of the simulated cloud, in KWOK's file format; without it a built-in set of 144.
    #[arg(long, value_name = "FILE", help_heading = "Cluster")]
    instance_types: Option<PathBuf>,
    /// The port on 127.0.0.1 that the API listens on; any that is free, if none is given.
    #[arg(long, value_name = "PORT", default_value_t = 0, hide_default_value = true, help_heading = "Access")]
    port: u16,
    /// Where to write the kubeconfig; a private temporary file, if nothing is given. A file that exists is not overwritten.
    #[arg(long, value_name = "FILE", help_heading = "Access")]
    kubeconfig: Option<PathBuf>,
    /// A port on 127.0.0.1 for Kerf's metrics and decisions; without it they are not served.
    #[arg(long, value_name = "PORT", value_parser = clap::value_parser!(u16).range(1..), help_heading = "Access")]
    metrics_port: Option<u16>,
    /// Also write Kerf's own log to stderr: debug, info or error.
    #[arg(long, value_name = "LEVEL", hide_possible_values = true, help_heading = "Access")]
    log_level: Option<LogLevel>,
    #[command(flatten)]
    settings: TypedSettings,
    /// A command to run against the cluster, with KUBECONFIG set. The cluster ends with it.
    #[arg(last = true, value_name = "CMD", help_heading = "Command")]
    command: Vec<OsString>,
}

#[derive(Debug, Subcommand)]
enum TypedSandboxCommand {
    Run(TypedSandboxRun),
}

/// Live through a scenario in virtual time, and report what came of it.
#[derive(Debug, Args)]
#[command(
    help_template = super::HELP_TEMPLATE,
    before_help = "\
Examples:
  kerf sandbox run scenarios/story.yaml
  kerf sandbox run scenarios/story.yaml --seed 7 --faults stockout,conflict
  kerf sandbox run day.yaml --until 24h -o json

No sockets are opened and nobody waits: the clock jumps to whatever happens next. The same seed
gives the same run. The exit code is 1 if something happened that must not (a lost pod, a budget
exceeded), or if whoever reads the lines goes away before the end."
)]
struct TypedSandboxRun {
    /// The scenario (YAML).
    #[arg(value_name = "FILE", help_heading = "Scenario")]
    scenario: PathBuf,
    /// Where all chance comes from.
    #[arg(long, value_name = "N", default_value_t = 0, help_heading = "Scenario")]
    seed: u64,
    /// What goes wrong, besides what the scenario says: conflict, error, lost-response, dropped-watch, stale-read, stockout,
    /// throttling, never-joins, slow-boot, interruption.
    #[arg(long, value_name = "NAME,...", value_delimiter = ',', help_heading = "Scenario")]
    faults: Vec<NamedFault>,
    /// How long it takes, instead of what the scenario says (24h).
    #[arg(long, value_name = "DURATION", value_parser = parse_duration, help_heading = "Scenario")]
    until: Option<Duration>,
    /// Instance types of the simulated cloud, in KWOK's file format; without it a built-in set of 144.
    #[arg(long, value_name = "FILE", help_heading = "Scenario")]
    instance_types: Option<PathBuf>,
    /// Also write Kerf's own log to stderr: debug, info or error.
    #[arg(long, value_name = "LEVEL", hide_possible_values = true, help_heading = "Output")]
    log_level: Option<LogLevel>,
    #[command(flatten)]
    output: TypedOutput,
    #[command(flatten)]
    settings: TypedSettings,
}

impl TypedSandbox {
    pub(super) fn resolve(self, environment: Environment<'_>) -> Result<Command, CommandFailure> {
        if let Some(TypedSandboxCommand::Run(run)) = self.run {
            return Ok(Command::SandboxRun(SandboxRunOptions {
                scenario: run.scenario,
                seed: run.seed,
                faults: run.faults,
                until: run.until,
                instance_types: run.instance_types,
                log_level: run.log_level,
                format: run.output.output,
                settings: run.settings.resolve(environment).map_err(CommandFailure::BadInput)?,
            }));
        }
        let mut arguments = self.command.into_iter();
        Ok(Command::Sandbox(SandboxOptions {
            demo: self.demo,
            with_controller: !self.no_controller,
            nodes: self.nodes,
            instant: self.instant,
            seed: self.seed,
            instance_types: self.instance_types,
            port: self.port,
            kubeconfig: self.kubeconfig,
            metrics_port: self.metrics_port,
            log_level: self.log_level,
            settings: self.settings.resolve(environment).map_err(CommandFailure::BadInput)?,
            command: arguments.next().map(|program| (program, arguments.collect())),
        }))
    }
}

/// Validated options of `kerf sandbox run`.
#[derive(Debug)]
pub(crate) struct SandboxRunOptions {
    /// Scenario file (YAML).
    pub(crate) scenario: PathBuf,
    /// Seed of all random numbers of the run.
    pub(crate) seed: u64,
    /// Faults to inject in addition to those of the scenario.
    pub(crate) faults: Vec<NamedFault>,
    /// Virtual duration of the run; `None` means the duration that the scenario states.
    pub(crate) until: Option<Duration>,
    /// File of instance types; `None` selects the built-in catalogue.
    pub(crate) instance_types: Option<PathBuf>,
    /// Level of Kerf's log on stderr; `None` writes no log.
    pub(crate) log_level: Option<LogLevel>,
    /// Format of the report.
    pub(crate) format: Format,
    /// Settings of the controller that change decisions.
    pub(crate) settings: Settings,
}

/// Validated options of `kerf sandbox`.
#[derive(Debug)]
pub(crate) struct SandboxOptions {
    /// True if the demo scenario runs.
    pub(crate) demo: bool,
    /// True if Kerf's CRDs are installed and its controllers run.
    pub(crate) with_controller: bool,
    /// Number of simulated nodes that exist from the start.
    pub(crate) nodes: u32,
    /// True if instances and pods start and stop without delay.
    pub(crate) instant: bool,
    /// Seed of all random numbers of the cluster.
    pub(crate) seed: u64,
    /// File of instance types; `None` selects the built-in catalogue.
    pub(crate) instance_types: Option<PathBuf>,
    /// Port of the API server; 0 selects a free port.
    pub(crate) port: u16,
    /// File to write the kubeconfig to; `None` selects a private temporary file.
    pub(crate) kubeconfig: Option<PathBuf>,
    /// Port of Kerf's metrics; `None` serves no metrics.
    pub(crate) metrics_port: Option<u16>,
    /// Level of Kerf's log on stderr; `None` writes no log.
    pub(crate) log_level: Option<LogLevel>,
    /// Settings of the controller that change decisions.
    pub(crate) settings: Settings,
    /// Program to run against the cluster, with its arguments; `None` serves until a signal
    /// arrives.
    pub(crate) command: Option<(OsString, Vec<OsString>)>,
}
