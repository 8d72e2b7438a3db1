//! The controllers with the simulated provider, as `kerf controller` and `kerf sandbox` both run them: what a person set becomes what the
//! controllers are given. Whatever decides is in `kerf-controllers` and below.

use std::io::Write;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use kerf_controllers::logs::{Level, LogLayer};
use kerf_controllers::{Context, Metrics, ProcessSettings, Recorder, SharedCluster};
use kerf_kwok::Kwok;
use kerf_runtime::{Clock, ShutdownSignal};
use kube::Client;
use tracing_subscriber::layer::SubscriberExt as _;

use super::plan;
use crate::args::{LogLevel, Settings};

/// Where the controllers work, and with what. The clients are measured by the metrics.
pub(super) struct ControllerEnvironment {
    /// The way to the API server.
    pub(super) client: Client,
    /// Another one, for the lease alone.
    pub(super) lease_client: Client,
    /// What is counted and measured.
    pub(super) metrics: Arc<Metrics>,
    /// The clock.
    pub(super) clock: Clock,
    /// The simulated cloud.
    pub(super) cloud: Kwok,
    /// Where chance comes from.
    pub(super) seed: u64,
}

/// What the controllers are told about their work.
pub(super) struct ControllerSettings {
    /// Settings that change decisions.
    pub(super) settings: Settings,
    /// Cores of the process.
    pub(super) cores: usize,
    /// Quiet time that closes a batch of pending pods.
    pub(super) batch_idle: Duration,
    /// The longest batch.
    pub(super) batch_max: Duration,
    /// Whether single pods, nodes and pools have metrics.
    pub(super) cluster_state_observability: bool,
    /// Whether no voluntary disruption starts.
    pub(super) pause_disruption: bool,
}

/// Runs the controllers until told to stop.
pub(super) async fn run_controllers(
    on: ControllerEnvironment,
    work: &ControllerSettings,
    process: &ProcessSettings,
    stop: ShutdownSignal,
) -> anyhow::Result<()> {
    let recorder = Arc::new(Recorder::new(on.client.clone(), on.clock, on.seed));
    // Ties are decided as in a plan: what a plan says is what is done.
    let engine = plan::engine_settings(&work.settings, true, work.cores);
    let ctx = Context {
        client: on.client,
        cloud: Arc::new(on.cloud),
        cluster: SharedCluster::default(),
        clock: on.clock,
        events: recorder.clone(),
        metrics: on.metrics,
        settings: Arc::new(kerf_controllers::Settings {
            batch_idle: work.batch_idle,
            batch_max: work.batch_max,
            cores: work.cores,
            engine,
            seed: on.seed,
            node_repair: work.settings.feature_gates.node_repair,
            static_capacity: work.settings.feature_gates.static_capacity,
            spot_to_spot_consolidation: work.settings.feature_gates.spot_to_spot_consolidation,
            cluster_state_observability: work.cluster_state_observability,
            pause_disruption: work.pause_disruption,
        }),
    };
    kerf_controllers::run(ctx, process, on.lease_client, Some(recorder), stop).await.map_err(anyhow::Error::new)
}

/// Sends the log of this process to some outputs.
pub(super) fn start_log(
    settings: kerf_controllers::logs::LogSettings,
    clock: Clock,
    outputs: Vec<Box<dyn Write + Send>>,
) -> anyhow::Result<()> {
    let layer = LogLayer::new(settings, clock, outputs);
    tracing::subscriber::set_global_default(tracing_subscriber::registry().with(layer)).context("cannot start the log")
}

/// The level of the log as the log's own settings name it.
pub(super) fn log_level(level: LogLevel) -> Level {
    match level {
        LogLevel::Debug => Level::Debug,
        LogLevel::Info => Level::Info,
        LogLevel::Error => Level::Error,
    }
}
