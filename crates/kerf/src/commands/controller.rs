//! `kerf controller`: runs the controllers on a real cluster. The controllers are in
//! `kerf-controllers`. This module provides the process around them: kubeconfig, log, signals and
//! exit code.

mod ca_bundle;

use std::fs::OpenOptions;
use std::io::{self, Write};
use std::sync::Arc;

use anyhow::Context as _;
use kerf_controllers::{LeaderElection, Metrics, ProcessSettings};
use kerf_operator::logs::{self, LineFormat};
use kerf_runtime::{Clock, Rate, Shutdown, Throttle, WriteGate};
use kube::client::ClientBuilder;
use kube::{Client, Config};
use tracing::{debug, warn};

use super::controller_process::{self, ControllerEnvironment, ControllerSettings};
use crate::args::{ControllerOptions, LogFormat};
use crate::exit::{CommandFailure, Exit, Problem};
use crate::input::cluster_config;
use crate::program::Program;
use crate::provider::{self, Provider, ProviderOptions};

/// User agent of the controller's requests; equal to Karpenter's.
const USER_AGENT: &str = concat!("karpenter/", env!("CARGO_PKG_VERSION"));
/// File in which a pod finds the name of its namespace.
const OWN_NAMESPACE: &str = "/var/run/secrets/kubernetes.io/serviceaccount/namespace";

pub(super) fn run(options: &ControllerOptions, program: &Program) -> Result<Exit, CommandFailure> {
    let provider = provider::load(ProviderOptions {
        aws: options.aws.clone(),
        connect_aws: program.connect_aws,
        ..ProviderOptions::new(options.provider, options.instance_types.as_deref())
    })?;
    let outputs = log_outputs(&options.log_output_paths)?;
    let clock = Clock::system();
    controller_process::start_log(log_settings(options), clock, outputs).map_err(CommandFailure::ExecutionFailed)?;
    debug!(version = env!("CARGO_PKG_VERSION"), "discovered karpenter version");
    for reason in &options.settings.warnings {
        warn!(reason, "a setting is ignored");
    }
    for gate in options.settings.feature_gates.enabled_without_effect() {
        warn!(gate, "a feature gate is enabled and has no effect in this version");
    }

    // Requests and watches need little CPU, and threads that wake each other only add to it. Long
    // computations run on threads of their own.
    let workers = (options.cores / 2).clamp(1, 4);
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(workers).enable_all().build();
    let runtime = runtime.context("cannot start the runtime").map_err(CommandFailure::ExecutionFailed)?;
    let outcome = runtime.block_on(async {
        let no_cluster = Problem::new("no cluster: give one with KUBECONFIG or ~/.kube/config")
            .with_hint("set KUBECONFIG, or run in a pod with a service account");
        let hint = "fix the file, or set KUBECONFIG to another file";
        let config = cluster_config(no_cluster, hint).await.map_err(CommandFailure::bad_input)?;
        run_until_signal(options, clock, config, provider).await.map_err(CommandFailure::ExecutionFailed)
    });
    // Do not wait for open watches and connections.
    runtime.shutdown_background();
    outcome
}

async fn run_until_signal(
    options: &ControllerOptions,
    clock: Clock,
    config: Config,
    provider: Arc<dyn Provider>,
) -> anyhow::Result<Exit> {
    let rate = Rate { per_second: options.kube_client_qps, burst: options.kube_client_burst };
    let ca_bundle = ca_bundle::ca_bundle(&config);
    let metrics = Arc::new(Metrics::new());
    let metered = |client| kerf_controllers::metered_client(client, metrics.clone(), clock);
    let write_gate = WriteGate::default();
    let client = metered(client(config.clone(), Some((rate, &write_gate)))?);
    // The lease has its own client without a rate limit, so that throttling of the controllers
    // cannot delay a renewal.
    let lease_client = metered(self::client(config, None)?);
    let seed = clock.now().as_nanosecond() as u64 ^ u64::from(std::process::id());
    let process = ProcessSettings {
        metrics: options.metrics_address,
        health_probes: options.health_probe_address,
        debug: options.debug_address,
        leader_election: options.lease.as_ref().map(|lease| LeaderElection {
            name: lease.name.clone(),
            namespace: lease.namespace.clone().unwrap_or_else(|| own_namespace(&lease_client)),
            identity: identity(seed),
            write_gate: write_gate.clone(),
        }),
    };
    let controller_settings = ControllerSettings {
        settings: options.settings.clone(),
        cores: options.cores,
        batch_idle: options.batch_idle,
        batch_max: options.batch_max,
        cluster_state_observability: options.cluster_state_observability,
        pause_disruption: options.pause_disruption,
    };
    let (shutdown, stop) = Shutdown::new();
    let controllers = controller_process::run_controllers(
        ControllerEnvironment { client, lease_client, metrics, clock, provider, sandbox: None, ca_bundle, seed },
        &controller_settings,
        &process,
        stop,
    );
    let signals = async {
        kerf_runtime::termination_signal().await;
        shutdown.request();
        kerf_runtime::termination_signal().await;
    };
    tokio::select! {
        biased;
        outcome = controllers => outcome.map(|()| Exit::Done),
        // A second signal stops the process at once.
        () = signals => Ok(Exit::Failed),
    }
}

/// Returns a client of the API server. The limits are those of the controllers: the rate of their
/// requests, and below it the gate that stops writes without a lease.
fn client(mut config: Config, limits: Option<(Rate, &WriteGate)>) -> anyhow::Result<Client> {
    config.headers.push((http::header::USER_AGENT, http::HeaderValue::from_static(USER_AGENT)));
    // kube would retry a refused eviction (429) several times before it returns the error. The
    // controllers decide which requests to retry.
    config.default_retry = false;
    let builder = ClientBuilder::try_from(config).context("cannot use the kubeconfig")?;
    Ok(match limits {
        Some((rate, gate)) => builder.with_layer(gate).with_layer(&Throttle::new(rate)).build(),
        None => builder.build(),
    })
}

/// Returns the namespace of the pod, or of the kubeconfig's context outside a pod.
fn own_namespace(client: &Client) -> String {
    let pod_namespace = std::fs::read_to_string(OWN_NAMESPACE).ok().map(|text| text.trim().to_owned());
    pod_namespace.filter(|name| !name.is_empty()).unwrap_or_else(|| client.default_namespace().to_owned())
}

/// Returns an identity for leader election that no other process has.
fn identity(seed: u64) -> String {
    let uname = rustix::system::uname();
    let host = host_name(&uname.nodename().to_string_lossy(), std::env::var("POD_NAME").ok());
    format!("{host}_{}-{seed:016x}", std::process::id())
}

/// Returns the kernel's host name, which is the name of the pod in a pod. If the kernel has none,
/// returns `POD_NAME`, which the chart sets.
fn host_name(kernel: &str, pod_name: Option<String>) -> String {
    let kernel = kernel.trim();
    if kernel.is_empty() || kernel == "(none)" { pod_name.unwrap_or_default() } else { kernel.to_owned() }
}

fn log_settings(options: &ControllerOptions) -> logs::LogSettings {
    logs::LogSettings {
        level: controller_process::log_level(options.log_level),
        format: match options.log_format {
            LogFormat::Json => LineFormat::Json,
            LogFormat::Console => LineFormat::Console,
        },
    }
}

fn log_outputs(paths: &[String]) -> Result<Vec<Box<dyn Write + Send>>, CommandFailure> {
    let open = |path: &String| -> Result<Box<dyn Write + Send>, Problem> {
        match path.as_str() {
            "stdout" => Ok(Box::new(io::stdout())),
            "stderr" => Ok(Box::new(io::stderr())),
            file => match OpenOptions::new().create(true).append(true).open(file) {
                Ok(file) => Ok(Box::new(file)),
                Err(cause) => Err(Problem::new(format!("--log-output-paths: cannot open {file}: {cause}"))),
            },
        }
    };
    let (outputs, problems): (Vec<_>, Vec<_>) = paths.iter().map(open).partition(Result::is_ok);
    let problems: Vec<Problem> = problems.into_iter().filter_map(Result::err).collect();
    if !problems.is_empty() {
        return Err(CommandFailure::BadInput(problems));
    }
    Ok(outputs.into_iter().filter_map(Result::ok).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    // spec 07 §1.1
    #[test]
    fn the_identity_uses_the_kernels_host_name_or_the_name_of_the_pod() {
        assert_eq!(host_name("kerf-7d4b\n", Some("other".to_owned())), "kerf-7d4b");
        assert_eq!(host_name("", Some("kerf-0".to_owned())), "kerf-0");
        assert_eq!(host_name("(none)", None), "");
        assert_ne!(identity(1), identity(2));
    }
}
