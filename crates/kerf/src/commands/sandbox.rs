//! `kerf sandbox`: starts a cluster in this process, says how to use it, and ends it: with Ctrl-C, or with the command that it was
//! started for. Nothing is left behind but what the person asked to be written elsewhere.

mod best_price;
mod kubeconfig;
mod simulate;

use std::ffi::OsString;
use std::net::Ipv4Addr;
use std::process::ExitStatus;
use std::sync::Arc;

use anyhow::Context as _;
use kerf_api::crds::CrdVariant;
use kerf_controllers::{Metrics, ProcessSettings, logs};
use kerf_kwok::{AvailabilityError, Catalogue, InstanceAvailability, Kwok};
use kerf_runtime::{Clock, Shutdown, ShutdownSignal};
use kerf_sandbox::{
    ApiServer, Cloud, Cluster, ClusterConfig, ClusterEvent, LaunchError, OfferingRef, Timing, install_crds,
};
use rustix::process::{Pid, Signal, kill_process};
use tokio::process::{Child, Command};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc;

use super::controller_process::{self, ControllerEnvironment, ControllerSettings};
use super::plan;
use crate::args::{LogLevel, SandboxOptions, Settings};
use crate::exit::{CommandFailure, Exit};
use crate::output::{self, StdoutState};
use kubeconfig::KubeconfigFile;
pub(super) use simulate::simulate;

/// What to type next, if Kerf runs the nodes.
const HINTS_WITH_KERF: &str = "  \
  kubectl apply -f examples/kwok.yaml           # a NodePool: which machines Kerf may launch
  kubectl apply -f examples/deployment.yaml     # ten pods that need them
  kubectl get nodeclaims,nodes,pods
";
/// What to type next, if there is a story to watch.
const HINTS_IN_DEMO: &str = "  \
  kubectl get nodeclaims,nodes,pods -w
  kerf plan                                     # what would Kerf do now?
";
/// What to type next, if nobody runs the nodes.
const HINTS_WITHOUT_KERF: &str = "  \
  kubectl get nodes
  kubectl create deployment web --image=nginx --replicas=3
";

pub(super) fn run(wish: SandboxOptions) -> Result<Exit, CommandFailure> {
    let catalogue = plan::instance_types(wish.instance_types.as_deref())?;
    let clock = Clock::system();
    start_stderr_log(wish.log_level, clock)?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .worker_threads(super::available_threads().get().min(4))
        .build()
        .context("cannot start the runtime")
        .map_err(CommandFailure::ExecutionFailed)?;
    let outcome = runtime.block_on(serve(wish, clock, catalogue));
    // Connections and watches are not waited for.
    runtime.shutdown_background();
    outcome
}

async fn serve(wish: SandboxOptions, clock: Clock, catalogue: Catalogue) -> Result<Exit, CommandFailure> {
    // Asked for before anything is written, so that no signal finds something to leave behind.
    let mut interrupted = StopSignals::listen().map_err(CommandFailure::ExecutionFailed)?;
    let timing = if wish.instant { Timing::INSTANT } else { Timing::LIFELIKE };
    let (cluster, news) = Cluster::start_with_events(ClusterConfig { clock, seed: wish.seed, timing });
    let serving = cluster
        .api()
        .serve(wish.port)
        .await
        .context("cannot start the cluster")
        .map_err(CommandFailure::ExecutionFailed)?;
    cluster.add_nodes(wish.nodes).context("cannot make the nodes").map_err(CommandFailure::ExecutionFailed)?;
    let file = KubeconfigFile::write(wish.kubeconfig.as_deref(), serving.kubeconfig())?;
    let kerf = SandboxController {
        settings: wish.settings,
        seed: wish.seed,
        metrics_port: wish.metrics_port,
        cores: super::available_threads().get(),
    };
    if wish.demo {
        if output::print_text(&format!("{}\n", usage_text(&file, HINTS_IN_DEMO)))? == StdoutState::Closed {
            return Ok(Exit::Done);
        }
        return tokio::select! {
            biased;
            _ = interrupted.next() => Ok(Exit::Done),
            outcome = simulate::run_demo(&cluster, kerf, catalogue) => outcome,
        };
    }
    if wish.with_controller {
        install_kwok_crds(cluster.api()).await.map_err(CommandFailure::ExecutionFailed)?;
    }
    let (_shutdown, stop) = Shutdown::new();
    let controlling = async {
        if wish.with_controller { kerf.run(&cluster, catalogue, stop).await } else { std::future::pending().await }
    };
    let used = async {
        match &wish.command {
            Some((program, arguments)) => run_command(program, arguments, &file, &mut interrupted).await,
            None => print_events_until_stopped(&file, wish.with_controller, news, &mut interrupted).await,
        }
    };
    tokio::select! {
        biased;
        outcome = used => outcome,
        // They end by themselves only if they cannot work.
        outcome = controlling => outcome.map(|()| Exit::Failed).map_err(CommandFailure::ExecutionFailed),
    }
}

/// Lets Kerf's own log be seen, if it is to be seen.
fn start_stderr_log(level: Option<LogLevel>, clock: Clock) -> Result<(), CommandFailure> {
    let Some(level) = level else { return Ok(()) };
    let settings = logs::LogSettings { level: controller_process::log_level(level), format: logs::LineFormat::Console };
    controller_process::start_log(settings, clock, vec![Box::new(std::io::stderr())])
        .map_err(CommandFailure::ExecutionFailed)
}

/// Kerf itself, as it is to run on a cluster of this process.
struct SandboxController {
    settings: Settings,
    seed: u64,
    metrics_port: Option<u16>,
    cores: usize,
}

impl SandboxController {
    /// Runs the controllers, with machines of the cluster's own cloud.
    fn run(
        self,
        cluster: &Cluster,
        catalogue: Catalogue,
        stop: ShutdownSignal,
    ) -> impl Future<Output = anyhow::Result<()>> + Send + use<> {
        let (metrics, clock) = (Arc::new(Metrics::new()), cluster.api().clock());
        let client = kerf_controllers::metered_client(cluster.api().client_as("kerf"), metrics.clone(), clock);
        let stock = Arc::new(CloudStock(cluster.cloud().clone()));
        let cloud = Kwok::new(client.clone(), clock, catalogue).with_availability(stock);
        let defaults = kerf_controllers::Settings::default();
        let work = ControllerSettings {
            settings: self.settings,
            cores: self.cores,
            batch_idle: defaults.batch_idle,
            batch_max: defaults.batch_max,
            cluster_state_observability: true,
            pause_disruption: false,
        };
        let process = ProcessSettings {
            address: Ipv4Addr::LOCALHOST.into(),
            metrics_port: self.metrics_port,
            ..ProcessSettings::default()
        };
        let on = ControllerEnvironment { lease_client: client.clone(), client, metrics, clock, cloud, seed: self.seed };
        async move { controller_process::run_controllers(on, &work, &process, stop).await }
    }
}

/// What can be had is what the cluster's cloud says can be had.
struct CloudStock(Cloud);

impl InstanceAvailability for CloudStock {
    fn check(&self, instance_type: &str, zone: &str, capacity_type: &str) -> Result<(), AvailabilityError> {
        self.0.check_launch(OfferingRef { instance_type, zone, capacity_type }).map_err(|refused| match refused {
            LaunchError::InsufficientCapacity => {
                AvailabilityError::InsufficientCapacity(format!("{refused} ({instance_type}, {zone}, {capacity_type})"))
            }
            LaunchError::Throttled => AvailabilityError::Throttled(refused.to_string()),
        })
    }
}

/// Makes Kerf's API known.
pub(super) async fn install_kwok_crds(server: &ApiServer) -> anyhow::Result<()> {
    Ok(install_crds(&server.client_as("kerf"), CrdVariant::Kwok).await?)
}

/// Runs a command against the cluster. Its end is ours, and so is its exit code.
async fn run_command(
    program: &OsString,
    arguments: &[OsString],
    file: &KubeconfigFile,
    interrupted: &mut StopSignals,
) -> Result<Exit, CommandFailure> {
    let mut command = Command::new(program);
    command.args(arguments).env("KUBECONFIG", file.path()).kill_on_drop(true);
    let mut child = command
        .spawn()
        .with_context(|| format!("cannot run `{}`", program.display()))
        .map_err(CommandFailure::ExecutionFailed)?;
    let mut asked_before = false;
    loop {
        tokio::select! {
            biased;
            status = child.wait() => {
                let status = status.context("cannot wait for the command").map_err(CommandFailure::ExecutionFailed)?;
                return Ok(Exit::ChildExitCode(shell_exit_code(status)));
            }
            // A terminal tells the command too: it decides when to end. Told by somebody else, it would not know. It is asked first, so
            // that it can stop what it has started itself.
            stop = interrupted.next() => {
                if stop == StopSignal::Terminate {
                    if asked_before || !send_sigterm(&child) {
                        let _ = child.start_kill();
                    }
                    asked_before = true;
                }
            }
        }
    }
}

/// Passes on that it is time to end; false if that cannot be said.
fn send_sigterm(child: &Child) -> bool {
    let pid = child.id().and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw);
    pid.is_some_and(|pid| kill_process(pid, Signal::TERM).is_ok())
}

/// The code that a shell would report.
fn shell_exit_code(status: ExitStatus) -> u8 {
    use std::os::unix::process::ExitStatusExt as _;
    let signal = status.signal().map(|signal| 128 + signal);
    u8::try_from(status.code().or(signal).unwrap_or(1)).unwrap_or(1)
}

/// How to use the cluster.
fn usage_text(file: &KubeconfigFile, next: &str) -> String {
    let path = shell_quoted(&file.path().display().to_string());
    format!(
        "A Kubernetes cluster runs in this process. In another terminal:\n\n  \
         export KUBECONFIG={path}\n{next}\nCtrl-C ends it; nothing is kept.\n\n"
    )
}

/// A text as a shell takes it for one word.
fn shell_quoted(text: &str) -> String {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"/._-+:@%=,".contains(&byte) || !byte.is_ascii();
    if text.bytes().all(is_plain) { text.to_owned() } else { format!("'{}'", text.replace('\'', "'\\''")) }
}

/// Says how to use the cluster, and then what happens in it, until somebody ends it.
async fn print_events_until_stopped(
    file: &KubeconfigFile,
    with_kerf: bool,
    mut news: mpsc::UnboundedReceiver<ClusterEvent>,
    interrupted: &mut StopSignals,
) -> Result<Exit, CommandFailure> {
    let mut reader =
        output::print_text(&usage_text(file, if with_kerf { HINTS_WITH_KERF } else { HINTS_WITHOUT_KERF }))?;
    while reader == StdoutState::Open {
        tokio::select! {
            biased;
            _ = interrupted.next() => return Ok(Exit::Done),
            happened = news.recv() => match happened {
                Some(happened) => reader = output::print_text(&format!("{happened}\n"))?,
                None => break,
            },
        }
    }
    Ok(Exit::Done)
}

/// Why the program should end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum StopSignal {
    /// Ctrl-C on the terminal.
    Interrupt,
    /// `kill`.
    Terminate,
}

/// The signals that end the program cleanly.
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
mod tests {
    use super::shell_quoted;

    #[test]
    fn paths_are_one_word_for_a_shell() {
        assert_eq!(shell_quoted("/tmp/kerf-sandbox-1-0/kubeconfig"), "/tmp/kerf-sandbox-1-0/kubeconfig");
        assert_eq!(shell_quoted("/tmp/a b/it's"), r"'/tmp/a b/it'\''s'");
    }
}
