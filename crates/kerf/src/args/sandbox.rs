//! Arguments of `kerf sandbox` and `kerf sandbox run`.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand};
use kerf_aws::AwsSettings;
use kerf_sandbox::sim::FaultSetting;

use super::Command;
use super::aws_settings::{TypedInstanceTypeSettings, cluster_name_problem};
use super::controller::LogLevel;
use super::output::{Format, TypedOutput};
use super::provider::TypedProvider;
use super::setting_reader::{SettingReader, names_of_given};
use super::settings::{Environment, Settings, TypedSettings, parse_duration};
use crate::exit::CommandFailure;
use crate::program::{ProviderChoice, ProviderName, SANDBOX_CLUSTER_NAME, sandbox_aws_settings};

/// Start a Kubernetes cluster with simulated nodes in this process, and Kerf on it.
#[derive(Debug, Args)]
#[command(
    help_template = super::HELP_TEMPLATE,
    args_conflicts_with_subcommands = true,
    disable_help_subcommand = true,
    before_help = "\
Examples:
  kerf sandbox                            start an empty cluster with Kerf; Ctrl-C stops it
  kerf sandbox --demo                     start a cluster and run a demo scenario on it
  kerf sandbox -- kubectl get nodes       run a command with KUBECONFIG set, and exit with its code
  kerf sandbox --provider aws             start a cluster with Kerf and an EC2 in memory
  kerf sandbox --no-controller --nodes 3  start a cluster without Kerf, for another autoscaler
  kerf sandbox run scenarios/story.yaml   simulate a scenario in virtual time
  kerf sandbox aws 'reclaim: {}'          change the AWS account of a running sandbox"
)]
pub(crate) struct TypedSandbox {
    #[command(subcommand)]
    run: Option<TypedSandboxCommand>,
    #[command(flatten)]
    provider: TypedProvider,
    /// Run a demo scenario: workloads scale up and down, a NodePool changes, a spot instance is
    /// lost. Ends with a report.
    #[arg(long, conflicts_with_all = ["no_controller", "command"], help_heading = "Cluster")]
    demo: bool,
    /// Start the cluster without Kerf's controllers and CRDs.
    #[arg(long, help_heading = "Cluster")]
    no_controller: bool,
    /// Number of simulated nodes that exist from the start, each with 4 CPUs, 16Gi of memory and
    /// 110 pods.
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = clap::value_parser!(u32).range(0..=5000), help_heading = "Cluster")]
    nodes: u32,
    /// Start and stop instances and pods without delay, instead of after a few seconds.
    #[arg(long, help_heading = "Cluster")]
    instant: bool,
    /// Seed of all random values of the cluster: uids, generated names, delays.
    #[arg(long, value_name = "N", default_value_t = 0, help_heading = "Cluster")]
    seed: u64,
    /// File with the instance types of the simulated cloud, in KWOK's format [default: 144 built-in
    /// types].
    #[arg(long, value_name = "FILE", help_heading = "Cluster")]
    instance_types: Option<PathBuf>,
    #[command(flatten)]
    account: TypedSandboxAccount,
    /// Port of the API server on 127.0.0.1 [default: a free port].
    #[arg(long, value_name = "PORT", default_value_t = 0, hide_default_value = true, help_heading = "Access")]
    port: u16,
    /// File to write the kubeconfig to; it must not exist yet [default: a private temporary file].
    #[arg(long, value_name = "FILE", help_heading = "Access")]
    kubeconfig: Option<PathBuf>,
    /// Port on 127.0.0.1 for Kerf's metrics and decisions [default: not served].
    #[arg(long, value_name = "PORT", value_parser = clap::value_parser!(u16).range(1..), help_heading = "Access")]
    metrics_port: Option<u16>,
    /// Write Kerf's log to stderr, from this level on: debug, info or error [default: no log].
    #[arg(long, value_name = "LEVEL", hide_possible_values = true, help_heading = "Access")]
    log_level: Option<LogLevel>,
    #[command(flatten)]
    controller: TypedControllerSettings,
    /// Command to run with KUBECONFIG set; the cluster stops when the command ends.
    #[arg(last = true, value_name = "CMD", help_heading = "Command")]
    command: Vec<OsString>,
}

/// Flags of the cluster in the AWS account. Their help texts are `help` attributes instead of doc
/// comments, because one names an environment variable as a shell writes it.
#[derive(Debug, Default, Args)]
struct TypedSandboxAccount {
    #[arg(
        long,
        value_name = "NAME",
        help_heading = "Cluster",
        help = "Name of the cluster in the AWS account, with --provider aws [default: kerf-sandbox]"
    )]
    cluster_name: Option<String>,
    #[arg(
        long,
        value_name = "BOOL",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "true",
        help_heading = "Cluster",
        help = "Honour zonal shifts, with --provider aws [env: ENABLE_ZONAL_SHIFT] [default: true]"
    )]
    enable_zonal_shift: Option<String>,
}

impl TypedSandboxAccount {
    /// Returns the settings of the AWS provider. With another provider, flags cause a warning.
    fn resolve(self, provider: ProviderName, reader: &mut SettingReader<'_>) -> AwsSettings {
        if provider != ProviderName::Aws {
            let flags = [
                ("cluster-name", self.cluster_name.is_some()),
                ("enable-zonal-shift", self.enable_zonal_shift.is_some()),
            ];
            reader.warn_about_flags(&names_of_given(flags), provider);
            return sandbox_aws_settings(SANDBOX_CLUSTER_NAME);
        }
        let name = self.cluster_name.unwrap_or_else(|| SANDBOX_CLUSTER_NAME.to_owned());
        let hint = "give the cluster a name, or leave --cluster-name away";
        reader.problems.extend(cluster_name_problem(&name, hint));
        let mut settings = sandbox_aws_settings(&name);
        settings.enable_zonal_shift = reader.boolean(self.enable_zonal_shift.as_deref(), "enable-zonal-shift", true);
        settings
    }
}

#[derive(Debug, Subcommand)]
enum TypedSandboxCommand {
    Run(Box<TypedSandboxRun>),
    Aws(TypedSandboxAws),
}

/// Change the AWS account of a running sandbox, or list its instances.
#[derive(Debug, Args)]
#[command(
    help_template = super::HELP_TEMPLATE,
    before_help = "\
Examples:
  kerf sandbox aws                                              list the instances
  kerf sandbox aws 'reclaim: {capacityType: spot}'              take a spot instance back
  kerf sandbox aws 'stockOut: {instanceType: c5.*, for: 10m}'   let pools run out of stock
  kerf sandbox aws 'publishImages: {release: \"20260115\", bottlerocket: 1.53.0}'

The sandbox is that of KUBECONFIG. A change is what scenarios have under `aws` (docs/SANDBOX.md)."
)]
struct TypedSandboxAws {
    /// The change, as YAML [default: list the instances].
    #[arg(value_name = "CHANGE", help_heading = "Change")]
    change: Option<String>,
}

/// Simulate a scenario in virtual time, and print a report.
#[derive(Debug, Args)]
#[command(
    help_template = super::HELP_TEMPLATE,
    before_help = "\
Examples:
  kerf sandbox run scenarios/story.yaml
  kerf sandbox run scenarios/story.yaml --seed 7 --faults stockout,conflict
  kerf sandbox run day.yaml --until 24h -o json

A simulation opens no sockets and never waits: the virtual clock jumps to the next event. The
same seed gives the same run. The exit code is 1 if an invariant is violated (for example a pod
stays pending, or a disruption budget is exceeded), or if stdout is closed before the end."
)]
struct TypedSandboxRun {
    /// Scenario file (YAML); docs/SANDBOX.md describes its fields.
    #[arg(value_name = "FILE", help_heading = "Scenario")]
    scenario: PathBuf,
    /// Seed of all random values of the simulation.
    #[arg(long, value_name = "N", default_value_t = 0, help_heading = "Scenario")]
    seed: u64,
    /// Faults to inject in addition to those of the scenario: conflict, error, lost-response,
    /// hung-request, dropped-watch, silent-watch, expired-watch, stale-read, stockout, throttling,
    /// never-joins, never-ready, slow-boot, interruption, kubelet-death, flapping-readiness. A rate
    /// and a window may follow: hung-request=5%@10m-20m.
    #[arg(long, value_name = "NAME,...", value_delimiter = ',', help_heading = "Scenario")]
    faults: Vec<FaultSetting>,
    /// Virtual duration, for example 24h [default: `until` of the scenario].
    #[arg(long, value_name = "DURATION", value_parser = parse_duration, help_heading = "Scenario")]
    until: Option<Duration>,
    #[command(flatten)]
    provider: TypedProvider,
    /// File with the instance types of the simulated cloud, in KWOK's format [default: 144 built-in
    /// types].
    #[arg(long, value_name = "FILE", help_heading = "Scenario")]
    instance_types: Option<PathBuf>,
    /// Write Kerf's log to stderr, from this level on: debug, info or error [default: no log].
    #[arg(long, value_name = "LEVEL", hide_possible_values = true, help_heading = "Output")]
    log_level: Option<LogLevel>,
    #[command(flatten)]
    output: TypedOutput,
    #[command(flatten)]
    controller: TypedControllerSettings,
}

/// The settings of the controllers that the sandbox starts.
#[derive(Debug, Args)]
struct TypedControllerSettings {
    #[command(flatten)]
    settings: TypedSettings,
    #[command(flatten)]
    instance_types: TypedInstanceTypeSettings,
}

impl TypedControllerSettings {
    /// Combines flags, environment variables and defaults. `aws` returns the settings of the
    /// cluster in the account.
    fn resolve(
        self,
        environment: Environment<'_>,
        provider: ProviderName,
        aws: impl FnOnce(&mut SettingReader<'_>) -> AwsSettings,
    ) -> Result<(Settings, AwsSettings), CommandFailure> {
        let mut reader = SettingReader::new(environment);
        let mut aws = aws(&mut reader);
        self.instance_types.apply_for(provider, &mut aws, &mut reader);
        match self.settings.resolve(environment) {
            Ok(mut settings) if reader.problems.is_empty() => {
                settings.apply_to_aws(&mut aws);
                settings.warnings.extend(reader.warnings);
                Ok((settings, aws))
            }
            Ok(_) => Err(CommandFailure::BadInput(reader.problems)),
            Err(problems) => Err(CommandFailure::BadInput([reader.problems, problems].concat())),
        }
    }
}

impl TypedSandbox {
    pub(super) fn resolve(
        self,
        environment: Environment<'_>,
        default_provider: ProviderName,
    ) -> Result<Command, CommandFailure> {
        let provider = |typed: &TypedProvider| {
            typed.resolve_choice(environment, default_provider).map_err(CommandFailure::bad_input)
        };
        if let Some(TypedSandboxCommand::Aws(aws)) = self.run {
            return Ok(Command::SandboxAws(SandboxAwsOptions { change: aws.change }));
        }
        if let Some(TypedSandboxCommand::Run(run)) = self.run {
            let run = *run;
            let provider = provider(&run.provider)?;
            // Without a selected provider, the scenario may need the instance types of EC2.
            let possible = provider.selected.unwrap_or(ProviderName::Aws);
            let aws = |_: &mut SettingReader<'_>| sandbox_aws_settings(SANDBOX_CLUSTER_NAME);
            let (settings, aws) = run.controller.resolve(environment, possible, aws)?;
            return Ok(Command::SandboxRun(SandboxRunOptions {
                scenario: run.scenario,
                seed: run.seed,
                faults: run.faults,
                until: run.until,
                provider,
                aws,
                instance_types: run.instance_types,
                log_level: run.log_level,
                format: run.output.output,
                settings,
            }));
        }
        let provider = provider(&self.provider)?;
        let (name, account) = (provider.without_input(), self.account);
        let (settings, aws) = self.controller.resolve(environment, name, |reader| account.resolve(name, reader))?;
        let mut arguments = self.command.into_iter();
        Ok(Command::Sandbox(SandboxOptions {
            demo: self.demo,
            with_controller: !self.no_controller,
            nodes: self.nodes,
            instant: self.instant,
            seed: self.seed,
            provider,
            aws,
            instance_types: self.instance_types,
            port: self.port,
            kubeconfig: self.kubeconfig,
            metrics_port: self.metrics_port,
            log_level: self.log_level,
            settings,
            command: arguments.next().map(|program| (program, arguments.collect())),
        }))
    }
}

/// Options of `kerf sandbox aws`.
#[derive(Debug)]
pub(crate) struct SandboxAwsOptions {
    /// The change, as YAML; `None` lists the instances.
    pub(crate) change: Option<String>,
}

/// Validated options of `kerf sandbox run`.
#[derive(Debug)]
pub(crate) struct SandboxRunOptions {
    /// Scenario file (YAML).
    pub(crate) scenario: PathBuf,
    /// Seed of all random numbers of the run.
    pub(crate) seed: u64,
    /// Faults to inject in addition to those of the scenario.
    pub(crate) faults: Vec<FaultSetting>,
    /// Virtual duration of the run; `None` means the duration that the scenario states.
    pub(crate) until: Option<Duration>,
    pub(crate) provider: ProviderChoice,
    /// Settings of the AWS provider.
    pub(crate) aws: AwsSettings,
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
    pub(crate) provider: ProviderChoice,
    /// Settings of the AWS provider.
    pub(crate) aws: AwsSettings,
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
