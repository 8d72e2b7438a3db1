//! `kerf sandbox`: starts a cluster in this process, prints how to use it, and stops it on Ctrl-C
//! or when the given command ends. It leaves no files behind, except those that the user's command
//! writes.

mod account;
mod best_price;
mod controller_output;
mod kubeconfig;
mod scenario_provider;
mod simulate;

use std::ffi::OsString;
use std::net::Ipv4Addr;
use std::process::ExitStatus;
use std::sync::{Arc, PoisonError};

use anyhow::Context as _;
use kerf_controllers::{LeaderElection, Metrics, ProcessSettings};
use kerf_operator::logs;
use kerf_runtime::{Clock, Rng, Shutdown, ShutdownSignal, WriteGate};
use kerf_sandbox::sim::ReplicaStart;
use kerf_sandbox::{ApiServer, Cluster, ClusterConfig, ClusterEvent, ServeError, Timing, install_crds};
use rustix::process::{Pid, Signal, kill_process};
use tokio::process::{Child, Command};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc;
use tracing_subscriber::layer::SubscriberExt as _;

use super::controller_process::{self, ControllerEnvironment, ControllerSettings};
use crate::args::{LogLevel, SandboxOptions, Settings};
use crate::exit::{CommandFailure, Exit};
use crate::output::{self, StdoutState};
use crate::provider::{self, Provider, ProviderOptions, SandboxParts, SandboxPreparation, SandboxTexts};
pub(super) use account::change_account;
use controller_output::LastMetrics;
use kubeconfig::KubeconfigFile;
pub(super) use simulate::simulate;

/// Commands to try next while the demo runs.
const HINTS_IN_DEMO: &str = "  \
  kubectl get nodeclaims -w
  kerf plan                                     # what Kerf would do now
";
/// Commands to try next if the cluster runs without Kerf.
const HINTS_WITHOUT_KERF: &str = "  \
  kubectl get nodes
  kubectl create deployment web --image=nginx --replicas=3
";

pub(super) fn run(options: SandboxOptions) -> Result<Exit, CommandFailure> {
    let name = if options.demo { simulate::demo_provider(options.provider)? } else { options.provider.without_input() };
    let provider = provider::load(ProviderOptions {
        aws: Some(options.aws.clone()),
        ..ProviderOptions::new(name, options.instance_types.as_deref())
    })?;
    let clock = Clock::system();
    start_stderr_log(options.log_level, clock)?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .worker_threads(super::available_threads().get().min(4))
        .build()
        .context("cannot start the runtime")
        .map_err(CommandFailure::ExecutionFailed)?;
    let outcome = runtime.block_on(serve(options, clock, provider));
    // Do not wait for open connections and watches.
    runtime.shutdown_background();
    outcome
}

async fn serve(options: SandboxOptions, clock: Clock, provider: Arc<dyn Provider>) -> Result<Exit, CommandFailure> {
    // Install the signal handlers before anything is written, so that a signal never leaves the
    // kubeconfig behind.
    let mut stop_signals = StopSignals::listen().map_err(CommandFailure::ExecutionFailed)?;
    let timing = if options.instant { Timing::INSTANT } else { Timing::LIFELIKE };
    let (cluster, events) = Cluster::start_with_events(ClusterConfig { clock, seed: options.seed, timing });
    let server_handle = cluster.api().serve(options.port).await.map_err(|error| {
        CommandFailure::ExecutionFailed(match error {
            ServeError::Listen { port, source } => {
                anyhow::Error::new(controller_process::listen_problem("--port", port, &source))
            }
            ServeError::Certificate(_) | ServeError::Tls(_) | ServeError::Token => {
                anyhow::Error::new(error).context("cannot start the cluster")
            }
        })
    })?;
    cluster.add_nodes(options.nodes).context("cannot create the nodes").map_err(CommandFailure::ExecutionFailed)?;
    let file = KubeconfigFile::write(options.kubeconfig.as_deref(), server_handle.kubeconfig())?;
    let kerf = SandboxController {
        settings: options.settings,
        seed: options.seed,
        metrics_port: options.metrics_port,
        cores: super::available_threads().get(),
        leader_election: None,
        client: None,
        metrics_slot: None,
    };
    provider.prepare_sandbox(SandboxPreparation {
        server: cluster.api(),
        faults: cluster.cloud(),
        endpoint: Some(format!("https://{}", server_handle.address())),
        is_instant: options.instant,
        seed: options.seed,
    });
    if options.demo {
        if output::print_text(&format!("{}\n", usage_text(&file, "", HINTS_IN_DEMO)))? == StdoutState::Closed {
            return Ok(Exit::Done);
        }
        return tokio::select! {
            biased;
            _ = stop_signals.next() => Ok(Exit::Done),
            outcome = simulate::run_demo(&cluster, kerf, provider) => outcome,
        };
    }
    if options.with_controller {
        install_provider_crds(cluster.api(), provider.as_ref()).await.map_err(CommandFailure::ExecutionFailed)?;
    }
    let texts = if options.with_controller {
        provider.sandbox_texts()
    } else {
        SandboxTexts { about: String::new(), hints: HINTS_WITHOUT_KERF }
    };
    let (_shutdown, stop) = Shutdown::new();
    let controllers = async {
        if options.with_controller { kerf.run(&cluster, provider, stop).await } else { std::future::pending().await }
    };
    let foreground = async {
        match &options.command {
            Some((program, arguments)) => run_command(program, arguments, &file, &mut stop_signals).await,
            None => print_events_until_stopped(&file, &texts, events, &mut stop_signals).await,
        }
    };
    tokio::select! {
        biased;
        outcome = foreground => outcome,
        // The controllers end by themselves only if they fail.
        outcome = controllers => outcome.map(|()| Exit::Failed).map_err(CommandFailure::ExecutionFailed),
    }
}

/// Writes Kerf's log to stderr; does nothing if `level` is `None`.
fn start_stderr_log(level: Option<LogLevel>, clock: Clock) -> Result<(), CommandFailure> {
    let Some(level) = level else { return Ok(()) };
    let subscriber = tracing_subscriber::registry().with(stderr_layer(level, clock));
    tracing::subscriber::set_global_default(subscriber)
        .context("cannot start the log")
        .map_err(CommandFailure::ExecutionFailed)
}

/// Returns the layer that writes Kerf's log to stderr.
fn stderr_layer(level: LogLevel, clock: Clock) -> logs::LogLayer {
    let settings = logs::LogSettings { level: controller_process::log_level(level), format: logs::LineFormat::Console };
    logs::LogLayer::new(settings, clock, vec![Box::new(std::io::stderr())])
}

/// Settings of Kerf's controllers on a sandbox cluster.
#[derive(Clone)]
struct SandboxController {
    settings: Settings,
    seed: u64,
    metrics_port: Option<u16>,
    cores: usize,
    leader_election: Option<LeaderElection>,
    /// Client of the controllers; `None` for an ordinary client of the cluster.
    client: Option<kube::Client>,
    /// Place for the metrics of each process that starts; `None` if they are not collected.
    metrics_slot: Option<LastMetrics>,
}

impl SandboxController {
    /// Returns the settings of a simulation: one thread, no ports and no leader election.
    fn new(settings: Settings, seed: u64) -> Self {
        Self { settings, seed, metrics_port: None, cores: 1, leader_election: None, client: None, metrics_slot: None }
    }

    /// Returns the settings of one process of a simulation. Every process has its own seed, so that
    /// a process that starts again does not repeat the random values of the one before.
    fn for_replica(&self, start: ReplicaStart) -> Self {
        let seed = if start.number == 0 { self.seed } else { Rng::new(self.seed ^ start.number).next_u64() };
        let leader_election = start.identity.map(|identity| LeaderElection {
            name: "karpenter-leader-election".to_owned(),
            namespace: "kube-system".to_owned(),
            identity,
            write_gate: WriteGate::default(),
        });
        Self { seed, leader_election, ..self.clone() }
    }

    /// Runs the controllers with instances of the cluster's simulated cloud.
    fn run(
        self,
        cluster: &Cluster,
        provider: Arc<dyn Provider>,
        stop: ShutdownSignal,
    ) -> impl Future<Output = anyhow::Result<()>> + Send + use<> {
        let (metrics, clock) = (Arc::new(Metrics::new()), cluster.api().clock());
        if let Some(slot) = &self.metrics_slot {
            *slot.lock().unwrap_or_else(PoisonError::into_inner) = Some(metrics.clone());
        }
        let client = self.client.unwrap_or_else(|| cluster.api().client_as("kerf"));
        let client = kerf_controllers::metered_client(client, metrics.clone(), clock);
        let lease_client = client.clone();
        let client = match &self.leader_election {
            Some(election) => election.write_gate.wrap(client),
            None => client,
        };
        let defaults = kerf_controllers::Settings::default();
        let controller_settings = ControllerSettings {
            settings: self.settings,
            cores: self.cores,
            batch_idle: defaults.batch_idle,
            batch_max: defaults.batch_max,
            cluster_state_observability: true,
            pause_disruption: false,
        };
        let address = self.metrics_port.map(|port| (Ipv4Addr::LOCALHOST, port).into());
        let process = ProcessSettings {
            metrics: address,
            debug: address,
            leader_election: self.leader_election,
            ..ProcessSettings::default()
        };
        let environment = ControllerEnvironment {
            lease_client,
            client,
            metrics,
            clock,
            provider,
            sandbox: Some(SandboxParts { cloud: cluster.cloud().clone(), server: cluster.api().clone() }),
            ca_bundle: None,
            seed: self.seed,
        };
        async move { controller_process::run_controllers(environment, &controller_settings, &process, stop).await }
    }
}

/// Installs the CRDs that the provider and its controllers use.
pub(super) async fn install_provider_crds(server: &ApiServer, provider: &dyn Provider) -> anyhow::Result<()> {
    Ok(install_crds(&server.client_as("kerf"), provider.crd_variant()).await?)
}

/// Runs a command against the cluster and returns its exit code.
async fn run_command(
    program: &OsString,
    arguments: &[OsString],
    file: &KubeconfigFile,
    stop_signals: &mut StopSignals,
) -> Result<Exit, CommandFailure> {
    let mut command = Command::new(program);
    command.args(arguments).env("KUBECONFIG", file.path()).kill_on_drop(true);
    let mut child = command
        .spawn()
        .with_context(|| format!("cannot run `{}`", program.display()))
        .map_err(CommandFailure::ExecutionFailed)?;
    let mut sigterm_sent = false;
    loop {
        tokio::select! {
            biased;
            status = child.wait() => {
                let status = status.context("cannot wait for the command").map_err(CommandFailure::ExecutionFailed)?;
                return Ok(Exit::ChildExitCode(shell_exit_code(status)));
            }
            // A terminal sends Ctrl-C to the command as well, and the command decides when to end.
            // Other signals reach only this process, so forward the first one as SIGTERM: the
            // command can then stop its own children. A second one kills the command.
            stop = stop_signals.next() => {
                if stop == StopSignal::Terminate {
                    if sigterm_sent || !send_sigterm(&child) {
                        let _ = child.start_kill();
                    }
                    sigterm_sent = true;
                }
            }
        }
    }
}

/// Sends SIGTERM to the child process. Returns false if it cannot be sent.
fn send_sigterm(child: &Child) -> bool {
    let pid = child.id().and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw);
    pid.is_some_and(|pid| kill_process(pid, Signal::TERM).is_ok())
}

/// Returns the exit code that a shell would report: the status, or 128 plus the signal.
fn shell_exit_code(status: ExitStatus) -> u8 {
    use std::os::unix::process::ExitStatusExt as _;
    let signal_code = status.signal().map(|signal| 128 + signal);
    u8::try_from(status.code().or(signal_code).unwrap_or(1)).unwrap_or(1)
}

/// Returns the text that explains how to use the cluster.
fn usage_text(file: &KubeconfigFile, about: &str, hints: &str) -> String {
    let path = shell_quoted(&file.path().display().to_string());
    format!(
        "A Kubernetes cluster runs in this process. {about}In another terminal:\n\n  \
         export KUBECONFIG={path}\n{hints}\nCtrl-C stops the cluster and deletes everything in it.\n\n"
    )
}

/// Quotes a text so that a shell reads it as one word.
fn shell_quoted(text: &str) -> String {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"/._-+:@%=,".contains(&byte) || !byte.is_ascii();
    if text.bytes().all(is_plain) { text.to_owned() } else { format!("'{}'", text.replace('\'', "'\\''")) }
}

/// Prints how to use the cluster, then every cluster event, until a signal arrives or the reader
/// closes stdout.
async fn print_events_until_stopped(
    file: &KubeconfigFile,
    texts: &SandboxTexts,
    mut events: mpsc::UnboundedReceiver<ClusterEvent>,
    stop_signals: &mut StopSignals,
) -> Result<Exit, CommandFailure> {
    let mut stdout_state = output::print_text(&usage_text(file, &texts.about, texts.hints))?;
    while stdout_state == StdoutState::Open {
        tokio::select! {
            biased;
            _ = stop_signals.next() => return Ok(Exit::Done),
            event = events.recv() => match event {
                Some(event) => stdout_state = output::print_text(&format!("{event}\n"))?,
                None => break,
            },
        }
    }
    Ok(Exit::Done)
}

/// The kind of signal that ends the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum StopSignal {
    /// SIGINT: Ctrl-C on the terminal.
    Interrupt,
    /// SIGTERM or SIGHUP.
    Terminate,
}

/// Handlers of the signals that end the program cleanly.
struct StopSignals {
    interrupt: tokio::signal::unix::Signal,
    terminate: tokio::signal::unix::Signal,
    hangup: tokio::signal::unix::Signal,
}

impl StopSignals {
    fn listen() -> anyhow::Result<Self> {
        let listen = |kind| signal(kind).context("cannot listen for signals");
        Ok(Self {
            interrupt: listen(SignalKind::interrupt())?,
            terminate: listen(SignalKind::terminate())?,
            hangup: listen(SignalKind::hangup())?,
        })
    }

    async fn next(&mut self) -> StopSignal {
        tokio::select! {
            biased;
            _ = self.interrupt.recv() => StopSignal::Interrupt,
            _ = self.terminate.recv() => StopSignal::Terminate,
            _ = self.hangup.recv() => StopSignal::Terminate,
        }
    }
}

#[cfg(test)]
mod aws_tests;

#[cfg(test)]
mod tests {
    use super::shell_quoted;

    #[test]
    fn paths_are_quoted_as_one_word_for_a_shell() {
        assert_eq!(shell_quoted("/tmp/kerf-sandbox-1-0/kubeconfig"), "/tmp/kerf-sandbox-1-0/kubeconfig");
        assert_eq!(shell_quoted("/tmp/a b/it's"), r"'/tmp/a b/it'\''s'");
    }
}
