//! Arguments of `kerf controller`. Every setting of spec 07 section 2.2 is a flag and an
//! environment variable of the same name, so that the manifest of a Karpenter deployment works
//! unchanged.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use kerf_aws::AwsSettings;

use super::aws_settings::TypedAwsSettings;
use super::provider::TypedProvider;
use super::setting_reader::SettingReader;
use super::settings::{Environment, Settings, TypedSettings};
use crate::exit::CommandFailure;
use crate::program::{Program, ProviderName, no_sdk_problem};

/// Run the controllers on a cluster.
// If a flag is repeated, the last value counts, as with Go's flags: deployments append their flags
// to those of a chart.
#[derive(Debug, Args)]
#[command(
    args_override_self = true,
    help_template = super::HELP_TEMPLATE,
    before_help = "\
Examples:
  kerf controller                              use the kubeconfig, or the service account of the pod
  kerf controller --log-format console --disable-leader-election
  kerf controller --feature-gates SpotToSpotConsolidation=true

Every setting is a flag and an environment variable, for example --metrics-port and METRICS_PORT."
)]
pub(crate) struct TypedController {
    #[command(flatten)]
    provider: TypedProvider,
    /// File with the instance types of the simulated provider, in KWOK's format [default: 144
    /// built-in types].
    #[arg(long, alias = "instance-types", value_name = "FILE", help_heading = "Provider")]
    instance_types_file_path: Option<String>,
    /// Port of the metrics endpoint; 0 disables it [default: 8080].
    #[arg(long, value_name = "PORT", help_heading = "Process")]
    metrics_port: Option<u16>,
    /// Port of the health probes; 0 disables them [default: 8081].
    #[arg(long, value_name = "PORT", help_heading = "Process")]
    health_probe_port: Option<u16>,
    /// Address of the metrics endpoint, as host:port or :port; wins over --metrics-port, 0 disables
    /// it [default: :8080].
    #[arg(long, value_name = "ADDRESS", help_heading = "Process")]
    metrics_bind_address: Option<String>,
    /// Address of the health probes; wins over --health-probe-port, 0 disables them [default:
    /// :8081].
    #[arg(long, value_name = "ADDRESS", help_heading = "Process")]
    health_probe_bind_address: Option<String>,
    /// Address of /decisions; 0 disables it [default: 127.0.0.1:8082].
    #[arg(long, value_name = "ADDRESS", help_heading = "Process")]
    debug_address: Option<String>,
    /// Average number of requests per second to the API server [default: 200].
    #[arg(long, value_name = "NUMBER", help_heading = "Process")]
    kube_client_qps: Option<u32>,
    /// Maximum number of requests to the API server in one burst [default: 300].
    #[arg(long, value_name = "NUMBER", help_heading = "Process")]
    kube_client_burst: Option<u32>,
    /// Run without leader election [default: false].
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true", help_heading = "Process")]
    disable_leader_election: Option<String>,
    /// Name of the Lease for leader election [default: karpenter-leader-election].
    #[arg(long, value_name = "NAME", help_heading = "Process")]
    leader_election_name: Option<String>,
    /// Namespace of the Lease [default: the namespace of the pod].
    #[arg(long, value_name = "NAMESPACE", help_heading = "Process")]
    leader_election_namespace: Option<String>,
    /// CPU request of the process; sets how many objects the controllers process at once [default:
    /// 1000].
    #[arg(long, value_name = "MILLICORES", allow_hyphen_values = true, help_heading = "Process")]
    cpu_requests: Option<i64>,
    /// Serve no metrics of single pods, nodes and NodePools, and publish no Events about their
    /// conditions [default: false].
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true", help_heading = "Process")]
    disable_cluster_state_observability: Option<String>,
    /// Least severe level to log: debug, info or error [default: info].
    #[arg(long, value_name = "LEVEL", help_heading = "Logs")]
    log_level: Option<String>,
    /// Format of log lines: json, or console for a terminal [default: json].
    #[arg(long, value_name = "FORMAT", help_heading = "Logs")]
    log_format: Option<String>,
    /// Outputs of the log: stdout, stderr or files, separated by commas [default: stdout].
    #[arg(long, value_name = "PATHS", help_heading = "Logs")]
    log_output_paths: Option<String>,
    /// Longest time for which pending pods are collected before they are scheduled [default: 10s].
    #[arg(long, value_name = "DURATION", help_heading = "Decisions")]
    batch_max_duration: Option<String>,
    /// Time without a new pending pod after which they are scheduled [default: 1s].
    #[arg(long, value_name = "DURATION", help_heading = "Decisions")]
    batch_idle_duration: Option<String>,
    /// Start no voluntary disruption; commands that have started are finished [default: false].
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true", help_heading = "Decisions")]
    pause_disruption: Option<String>,
    #[command(flatten)]
    settings: TypedSettings,
    #[command(flatten)]
    aws: TypedAwsSettings,
    #[command(flatten)]
    ignored_flags: IgnoredFlags,
}

/// Settings of Karpenter that have no effect in Kerf. They are accepted because deployments set
/// them.
#[derive(Debug, Args)]
#[command(next_help_heading = "Accepted, without effect")]
struct IgnoredFlags {
    #[arg(long, value_name = "NAME", hide = true)]
    karpenter_service: Option<String>,
    #[arg(long, value_name = "BYTES", allow_hyphen_values = true, hide = true)]
    memory_limit: Option<i64>,
    #[arg(long, value_name = "PATHS", hide = true)]
    log_error_output_paths: Option<String>,
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true", hide = true)]
    enable_profiling: Option<String>,
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true", hide = true)]
    disable_controller_warmup: Option<String>,
}

/// Validated options of `kerf controller`.
#[derive(Debug, PartialEq)]
pub(crate) struct ControllerOptions {
    pub(crate) provider: ProviderName,
    /// Settings of the AWS provider; `None` for another provider.
    pub(crate) aws: Option<AwsSettings>,
    /// File of instance types; `None` selects the built-in catalogue.
    pub(crate) instance_types: Option<PathBuf>,
    /// Address of the metrics endpoint; `None` serves no metrics.
    pub(crate) metrics_address: Option<SocketAddr>,
    /// Address of the health probes; `None` serves no probes.
    pub(crate) health_probe_address: Option<SocketAddr>,
    /// Address of the debug endpoints; `None` serves none.
    pub(crate) debug_address: Option<SocketAddr>,
    /// Average number of requests per second to the API server.
    pub(crate) kube_client_qps: u32,
    /// Maximum number of requests to the API server in one burst.
    pub(crate) kube_client_burst: u32,
    /// Lease for leader election; `None` runs without leader election.
    pub(crate) lease: Option<LeaseName>,
    /// CPU request of the process in whole cores, rounded up; at least 1.
    pub(crate) cores: usize,
    /// Least severe level that is logged.
    pub(crate) log_level: LogLevel,
    pub(crate) log_format: LogFormat,
    /// `stdout`, `stderr` or paths of files; never empty.
    pub(crate) log_output_paths: Vec<String>,
    /// Longest time for which a batch of pending pods stays open.
    pub(crate) batch_max: Duration,
    /// Time without a new pending pod after which a batch closes.
    pub(crate) batch_idle: Duration,
    /// True if metrics of single pods, nodes and NodePools are served.
    pub(crate) cluster_state_observability: bool,
    /// True if no voluntary disruption may start.
    pub(crate) pause_disruption: bool,
    /// Settings that change decisions.
    pub(crate) settings: Settings,
}

/// Name and namespace of the Lease for leader election.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct LeaseName {
    pub(crate) name: String,
    /// Namespace of the Lease; `None` means the namespace of the process.
    pub(crate) namespace: Option<String>,
}

/// Least severe level of the log lines that are written. The variants' docs are help texts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum LogLevel {
    /// All lines.
    Debug,
    /// Actions and errors.
    Info,
    /// Errors only.
    Error,
}

/// Layout of log lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LogFormat {
    /// One JSON object per line.
    Json,
    /// Columns, for a terminal.
    Console,
}

impl TypedController {
    pub(super) fn resolve(
        self,
        environment: Environment<'_>,
        program: &Program,
    ) -> Result<ControllerOptions, CommandFailure> {
        let mut reader = SettingReader::new(environment);
        let provider = self.provider.resolve(environment, program.default_provider).unwrap_or_else(|problem| {
            reader.problems.push(problem);
            program.default_provider
        });
        let is_election_disabled =
            reader.boolean(self.disable_leader_election.as_deref(), "disable-leader-election", false);
        for (value, name) in [
            (&self.ignored_flags.enable_profiling, "enable-profiling"),
            (&self.ignored_flags.disable_controller_warmup, "disable-controller-warmup"),
        ] {
            reader.boolean(value.as_deref(), name, false);
        }
        let lease = (!is_election_disabled).then(|| LeaseName {
            name: reader
                .text(self.leader_election_name, "LEADER_ELECTION_NAME")
                .unwrap_or_else(|| "karpenter-leader-election".to_owned()),
            namespace: reader.text(self.leader_election_namespace, "LEADER_ELECTION_NAMESPACE"),
        });
        let millicores = reader.number(self.cpu_requests, "CPU_REQUESTS", 1000);
        let millicores = if millicores <= 0 { 1000 } else { millicores };
        let log_level = match reader.text(self.log_level, "LOG_LEVEL").as_deref() {
            None | Some("info") => LogLevel::Info,
            Some("debug") => LogLevel::Debug,
            Some("error") => LogLevel::Error,
            Some(other) => reader.report_invalid("LOG_LEVEL", other, LogLevel::Info),
        };
        let log_format = match reader.text(self.log_format, "LOG_FORMAT").as_deref() {
            None | Some("json") => LogFormat::Json,
            Some("console") => LogFormat::Console,
            Some(other) => reader.report_invalid("LOG_FORMAT", other, LogFormat::Json),
        };
        let paths = reader.text(self.log_output_paths, "LOG_OUTPUT_PATHS").unwrap_or_else(|| "stdout".to_owned());
        let aws = if provider == ProviderName::Aws && program.connect_aws.is_none() {
            reader.problems.push(no_sdk_problem());
            None
        } else {
            self.aws.resolve(provider, &mut reader)
        };
        let on_all_addresses = |port: u16| SocketAddr::from((Ipv4Addr::UNSPECIFIED, port));
        let metrics_port = reader.number(self.metrics_port, "METRICS_PORT", 8080);
        let health_probe_port = reader.number(self.health_probe_port, "HEALTH_PROBE_PORT", 8081);
        let debug_default = SocketAddr::from((Ipv4Addr::LOCALHOST, 8082));
        let mut controller = ControllerOptions {
            provider,
            aws,
            instance_types: reader.text(self.instance_types_file_path, "INSTANCE_TYPES_FILE_PATH").map(PathBuf::from),
            metrics_address: reader.address(
                self.metrics_bind_address,
                "METRICS_BIND_ADDRESS",
                on_all_addresses(metrics_port),
            ),
            health_probe_address: reader.address(
                self.health_probe_bind_address,
                "HEALTH_PROBE_BIND_ADDRESS",
                on_all_addresses(health_probe_port),
            ),
            debug_address: reader.address(self.debug_address, "DEBUG_ADDRESS", debug_default),
            kube_client_qps: reader.number(self.kube_client_qps, "KUBE_CLIENT_QPS", 200),
            kube_client_burst: reader.number(self.kube_client_burst, "KUBE_CLIENT_BURST", 300),
            lease,
            cores: usize::try_from(millicores).unwrap_or(1000).div_ceil(1000),
            log_level,
            log_format,
            log_output_paths: split_paths(&paths),
            batch_max: reader.duration(self.batch_max_duration, "BATCH_MAX_DURATION", Duration::from_secs(10)),
            batch_idle: reader.duration(self.batch_idle_duration, "BATCH_IDLE_DURATION", Duration::from_secs(1)),
            cluster_state_observability: !reader.boolean(
                self.disable_cluster_state_observability.as_deref(),
                "disable-cluster-state-observability",
                false,
            ),
            pause_disruption: reader.boolean(self.pause_disruption.as_deref(), "pause-disruption", false),
            settings: match self.settings.resolve(environment) {
                Ok(settings) => settings,
                Err(problems) => {
                    reader.problems.extend(problems);
                    return Err(CommandFailure::BadInput(reader.problems));
                }
            },
        };
        controller.settings.warnings.extend(reader.warnings);
        if let Some(aws) = &mut controller.aws {
            controller.settings.apply_to_aws(aws);
        }
        if reader.problems.is_empty() { Ok(controller) } else { Err(CommandFailure::BadInput(reader.problems)) }
    }
}

/// Splits a comma-separated list of paths and drops empty entries. An empty list means `stdout`.
fn split_paths(list: &str) -> Vec<String> {
    let paths = list.split(',').map(str::trim).filter(|path| !path.is_empty());
    let paths: Vec<String> = paths.map(str::to_owned).collect();
    if paths.is_empty() { vec!["stdout".to_owned()] } else { paths }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test may fail by panicking")]

    use clap::Parser;

    use super::*;
    use crate::args::settings::FeatureGates;
    use crate::exit::Problem;
    use crate::program::KERF;

    #[derive(Parser)]
    struct ControllerCli {
        #[command(flatten)]
        controller: TypedController,
    }

    fn resolve(arguments: &[&str], variables: &[(&str, &str)]) -> Result<ControllerOptions, Vec<String>> {
        let program =
            ControllerCli::try_parse_from([&["kerf"], arguments].concat()).map_err(|cause| vec![cause.to_string()])?;
        let environment =
            |name: &str| variables.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned());
        match program.controller.resolve(&environment, &KERF) {
            Ok(controller) => Ok(controller),
            Err(CommandFailure::BadInput(problems)) => Err(problems.iter().map(Problem::to_string).collect()),
            Err(other) => panic!("{other:?}"),
        }
    }

    // spec 07 #1 (the settings of the core)
    #[test]
    fn the_defaults_apply_without_flags_and_variables() {
        let controller = resolve(&[], &[]).unwrap();
        let addresses = [controller.metrics_address, controller.health_probe_address, controller.debug_address];
        let addresses = addresses.map(|address| address.unwrap().to_string());
        assert_eq!(addresses, ["0.0.0.0:8080", "0.0.0.0:8081", "127.0.0.1:8082"]);
        assert_eq!((controller.kube_client_qps, controller.kube_client_burst), (200, 300));
        let lease = LeaseName { name: "karpenter-leader-election".into(), namespace: None };
        assert_eq!(controller.lease, Some(lease));
        assert_eq!(controller.cores, 1);
        assert_eq!((controller.log_level, controller.log_format), (LogLevel::Info, LogFormat::Json));
        assert_eq!(controller.log_output_paths, ["stdout"]);
        assert_eq!((controller.batch_max.as_secs(), controller.batch_idle.as_secs()), (10, 1));
        assert_eq!(controller.settings.feature_gates, FeatureGates::default());
    }

    // spec 07 #2 and #3
    #[test]
    fn a_flag_wins_and_an_invalid_variable_is_ignored() {
        let variables = [("KUBE_CLIENT_QPS", "abc"), ("METRICS_PORT", "9000"), ("BATCH_MAX_DURATION", "1m30s")];
        let controller = resolve(&["--metrics-port=7000"], &variables).unwrap();
        assert_eq!(controller.kube_client_qps, 200);
        assert_eq!(controller.metrics_address.unwrap().to_string(), "0.0.0.0:7000");
        assert_eq!(controller.batch_max.as_secs(), 90);
        assert_eq!(
            controller.settings.warnings,
            ["KUBE_CLIENT_QPS: \"abc\" is not a valid value; the default, 200, is used"]
        );
        let variables = [("BATCH_IDLE_DURATION", "foo"), ("PAUSE_DISRUPTION", "maybe"), ("FEATURE_GATES", "Foo=true")];
        assert_eq!(
            resolve(&[], &variables).unwrap().settings.warnings,
            [
                "feature gates: Foo is unknown and has no effect",
                "BATCH_IDLE_DURATION: \"foo\" is not a valid value; the default, 1s, is used",
                "PAUSE_DISRUPTION: \"maybe\" is not a valid value; the default, false, is used",
            ]
        );
        let other = resolve(&["--batch-max-duration", "x"], &[]).unwrap_err();
        assert!(other[0].starts_with("--batch-max-duration: \"x\" is not a valid duration"), "{other:?}");
    }

    #[test]
    fn a_program_without_aws_sdk_names_the_program_that_has_it() {
        let problems = resolve(&["--provider=aws", "--log-level=trace"], &[]).unwrap_err();
        let expected = [
            "validating cli flags / env vars, invalid LOG_LEVEL \"trace\"",
            "--provider aws: this program has no AWS SDK",
        ];
        assert_eq!(problems, expected);
    }

    // spec 07 #73
    #[test]
    fn addresses_win_over_ports() {
        let metrics = |arguments: &[&str], variables: &[(&str, &str)]| {
            resolve(arguments, variables).unwrap().metrics_address.map(|address| address.to_string())
        };
        assert_eq!(metrics(&["--metrics-port=0"], &[]), None);
        let both = ["--metrics-port=7000", "--metrics-bind-address=127.0.0.1:9000"];
        assert_eq!(metrics(&both, &[]).unwrap(), "127.0.0.1:9000");
        assert_eq!(metrics(&["--metrics-bind-address=[::1]:9000"], &[]).unwrap(), "[::1]:9000");
        assert_eq!(metrics(&["--metrics-bind-address=0"], &[]), None);
        assert_eq!(metrics(&[], &[("METRICS_BIND_ADDRESS", ":9000"), ("METRICS_PORT", "1")]).unwrap(), "0.0.0.0:9000");
        assert_eq!(metrics(&[], &[("METRICS_BIND_ADDRESS", "here")]).unwrap(), "0.0.0.0:8080");
        assert_eq!(resolve(&["--debug-address=0"], &[]).unwrap().debug_address, None);
        let invalid = resolve(&["--health-probe-bind-address=here"], &[]).unwrap_err();
        assert!(invalid[0].starts_with("--health-probe-bind-address: \"here\" is not a valid address"), "{invalid:?}");
    }

    // spec 07 #4
    #[test]
    fn a_boolean_flag_with_another_value_is_an_error() {
        assert_eq!(
            resolve(&["--enable-profiling=yes"], &[]).unwrap_err(),
            ["--enable-profiling: \"yes\" is not a valid value, must be true or false"]
        );
        assert!(resolve(&["--enable-profiling"], &[]).is_ok());
        assert_eq!(resolve(&["--disable-leader-election"], &[]).unwrap().lease, None);
        assert!(resolve(&["--pause-disruption"], &[]).unwrap().pause_disruption);
        assert!(resolve(&[], &[]).unwrap().cluster_state_observability);
        let off = ["--disable-cluster-state-observability"];
        assert!(!resolve(&off, &[]).unwrap().cluster_state_observability);
        assert!(!resolve(&["--pause-disruption=false"], &[("PAUSE_DISRUPTION", "true")]).unwrap().pause_disruption);
        assert_eq!(resolve(&[], &[("DISABLE_LEADER_ELECTION", "t")]).unwrap().lease, None);
        assert!(
            resolve(&["--disable-leader-election=false"], &[("DISABLE_LEADER_ELECTION", "1")]).unwrap().lease.is_some()
        );
        assert!(resolve(&["--no-such-flag"], &[]).is_err());
    }

    #[test]
    fn the_last_value_of_a_repeated_flag_counts() {
        let twice =
            ["--log-level", "debug", "--log-level=error", "--feature-gates=x=true", "--feature-gates=NodeRepair=true"];
        let controller = resolve(&twice, &[]).unwrap();
        assert_eq!(controller.log_level, LogLevel::Error);
        assert!(controller.settings.feature_gates.node_repair);
        let booleans = ["--pause-disruption", "--pause-disruption=false"];
        assert!(!resolve(&booleans, &[]).unwrap().pause_disruption);
    }

    #[test]
    fn empty_entries_of_log_output_paths_are_ignored() {
        assert_eq!(
            resolve(&["--log-output-paths=stdout, ,/tmp/a,"], &[]).unwrap().log_output_paths,
            ["stdout", "/tmp/a"]
        );
        assert_eq!(resolve(&["--log-output-paths=,"], &[]).unwrap().log_output_paths, ["stdout"]);
    }

    // spec 07 #5 and #6
    #[test]
    fn an_invalid_log_level_is_an_error_and_cores_are_rounded_up() {
        assert_eq!(
            resolve(&["--log-level=trace"], &[]).unwrap_err(),
            ["validating cli flags / env vars, invalid LOG_LEVEL \"trace\""]
        );
        assert_eq!(resolve(&["--log-level="], &[]).unwrap().log_level, LogLevel::Info);
        for (text, cores) in [("0", 1), ("-50", 1), ("1001", 2), ("60000", 60)] {
            assert_eq!(resolve(&["--cpu-requests", text], &[]).unwrap().cores, cores, "{text}");
        }
    }
}
