//! Runs the controllers with any provider, for `kerf controller` and `kerf sandbox`:
//! translates the options of a command into the settings of `kerf-controllers`. Decides nothing.

use std::io::{self, Write};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use kerf_controllers::{Context, Metrics, ProcessSettings, RunError};
use kerf_operator::logs::{Level, LogLayer};
use kerf_operator::{Recorder, SharedCluster};
use kerf_runtime::{Clock, ShutdownSignal};
use kube::Client;
use tracing_subscriber::layer::SubscriberExt as _;

use super::plan;
use crate::args::{LogLevel, Settings};
use crate::exit::Problem;
use crate::provider::{CloudParts, Provider, SandboxParts};

/// Clients, clock and cloud with which the controllers run. Both clients report to `metrics`.
pub(super) struct ControllerEnvironment {
    /// Client of the controllers.
    pub(super) client: Client,
    /// Client of leader election alone.
    pub(super) lease_client: Client,
    pub(super) metrics: Arc<Metrics>,
    pub(super) clock: Clock,
    pub(super) provider: Arc<dyn Provider>,
    /// The cluster in this process; `None` on a real cluster.
    pub(super) sandbox: Option<SandboxParts>,
    /// CA certificate of the connection to the API server, PEM in base64; `None` if unknown.
    pub(super) ca_bundle: Option<String>,
    /// Seed of all random numbers of the controllers.
    pub(super) seed: u64,
}

/// Options of a command that the controllers need.
pub(super) struct ControllerSettings {
    /// Settings that change decisions.
    pub(super) settings: Settings,
    /// CPU cores of the process.
    pub(super) cores: usize,
    /// Time without a new pending pod after which a batch closes.
    pub(super) batch_idle: Duration,
    /// Longest time for which a batch of pending pods stays open.
    pub(super) batch_max: Duration,
    /// True if metrics of single pods, nodes and NodePools are served.
    pub(super) cluster_state_observability: bool,
    /// True if no voluntary disruption may start.
    pub(super) pause_disruption: bool,
}

/// Runs the controllers until `stop` requests shutdown.
pub(super) async fn run_controllers(
    environment: ControllerEnvironment,
    controller_settings: &ControllerSettings,
    process: &ProcessSettings,
    stop: ShutdownSignal,
) -> anyhow::Result<()> {
    let recorder = Arc::new(Recorder::new(environment.client.clone(), environment.clock, environment.seed));
    let is_sandbox = environment.sandbox.is_some();
    // The engine breaks ties as in `kerf plan`, so that the controllers do what the plan shows.
    let engine = plan::engine_settings(&controller_settings.settings, true, controller_settings.cores);
    let cluster = SharedCluster::default();
    let cloud = environment
        .provider
        .cloud(CloudParts {
            client: environment.client.clone(),
            clock: environment.clock,
            cluster: cluster.clone(),
            events: recorder.clone(),
            registry: environment.metrics.registry().clone(),
            sandbox: environment.sandbox,
            ca_bundle: environment.ca_bundle,
            seed: environment.seed,
        })
        .await?;
    let ctx = Context {
        client: environment.client,
        cloud,
        cluster,
        clock: environment.clock,
        events: recorder.clone(),
        metrics: environment.metrics,
        settings: Arc::new(kerf_controllers::Settings {
            batch_idle: controller_settings.batch_idle,
            batch_max: controller_settings.batch_max,
            cores: controller_settings.cores,
            engine,
            seed: environment.seed,
            node_repair: controller_settings.settings.feature_gates.node_repair,
            static_capacity: controller_settings.settings.feature_gates.static_capacity,
            spot_to_spot_consolidation: controller_settings.settings.feature_gates.spot_to_spot_consolidation,
            cluster_state_observability: controller_settings.cluster_state_observability,
            pause_disruption: controller_settings.pause_disruption,
        }),
    };
    kerf_controllers::run(ctx, process, environment.lease_client, Some(recorder), stop).await.map_err(|error| {
        match error {
            RunError::Listen { address, cause } if is_sandbox => {
                anyhow::Error::new(listen_problem("--metrics-port", address.port(), &cause))
            }
            RunError::Listen { address, cause } => anyhow::Error::new(address_problem(process, address, &cause)),
            RunError::Lease(_) | RunError::Provider(_) => anyhow::Error::new(error),
        }
    })
}

/// Returns the problem that the port of a flag cannot be opened.
pub(super) fn listen_problem(flag: &str, port: u16, cause: &io::Error) -> Problem {
    Problem::new(format!("{flag} {port}: cannot listen on the port: {cause}"))
        .with_hint(format!("stop the program that uses the port, or give another port with {flag}"))
}

/// Returns the problem that an address of the controller cannot be opened. The flag is the one that
/// wins, whatever the address was set with.
fn address_problem(process: &ProcessSettings, address: SocketAddr, cause: &io::Error) -> Problem {
    let flag = if process.metrics == Some(address) {
        "--metrics-bind-address"
    } else if process.health_probes == Some(address) {
        "--health-probe-bind-address"
    } else {
        "--debug-address"
    };
    Problem::new(format!("{flag} {address}: cannot listen on the address: {cause}"))
        .with_hint(format!("stop the program that uses the port, or give another address with {flag}"))
}

/// Starts the process's log, which writes every line to all `outputs`.
pub(super) fn start_log(
    settings: kerf_operator::logs::LogSettings,
    clock: Clock,
    outputs: Vec<Box<dyn Write + Send>>,
) -> anyhow::Result<()> {
    let layer = LogLayer::new(settings, clock, outputs);
    tracing::subscriber::set_global_default(tracing_subscriber::registry().with(layer)).context("cannot start the log")
}

/// Converts the option into the level of the log.
pub(super) fn log_level(level: LogLevel) -> Level {
    match level {
        LogLevel::Debug => Level::Debug,
        LogLevel::Info => Level::Info,
        LogLevel::Error => Level::Error,
    }
}
