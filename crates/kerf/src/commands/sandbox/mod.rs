//! `kerf sandbox`: starts a cluster in this process, says how to use it, and ends it: with Ctrl-C, or with the command that it was
//! started for. Nothing is left behind but what the person asked to be written elsewhere.

mod kubeconfig;

use std::ffi::OsString;
use std::process::ExitStatus;

use anyhow::Context as _;
use kerf_api::crds::{self, Flavour};
use kerf_runtime::Clock;
use kerf_sandbox::{Cluster, ClusterConfig, News, Timing};
use tokio::process::Command;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc;

use crate::args::Sandbox;
use crate::exit::{Exit, Failure};
use crate::output::{self, Messages};
use kubeconfig::KubeconfigFile;

pub(super) fn run(wish: Sandbox, messages: &mut Messages) -> Result<Exit, Failure> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .worker_threads(super::threads().get().min(4))
        .build()
        .context("cannot start the runtime")
        .map_err(Failure::Work)?;
    runtime.block_on(serve(wish, messages))
}

async fn serve(wish: Sandbox, messages: &mut Messages) -> Result<Exit, Failure> {
    // Asked for before anything is written, so that no signal finds something to leave behind.
    let mut interrupted = Interruptions::listen().map_err(Failure::Work)?;
    let timing = if wish.instant { Timing::INSTANT } else { Timing::LIFELIKE };
    let (cluster, news) = Cluster::watched(ClusterConfig { clock: Clock::system(), seed: wish.seed, timing });
    let serving = cluster.api().serve(wish.port).await.context("cannot start the cluster").map_err(Failure::Work)?;
    if wish.controller {
        install_crds(&cluster).await.map_err(Failure::Work)?;
        messages
            .warning("this build has no controllers yet: the cluster runs alone (--no-controller says so in advance)");
    }
    cluster.add_nodes(wish.nodes).context("cannot make the nodes").map_err(Failure::Work)?;
    let file = KubeconfigFile::write(wish.kubeconfig.as_deref(), serving.kubeconfig())?;
    match wish.command {
        Some((program, arguments)) => run_command(&program, &arguments, &file, &mut interrupted).await,
        None => watch(&file, news, &mut interrupted).await,
    }
}

/// Makes Kerf's API known, as `kubectl apply -f <(kerf crds)` would.
async fn install_crds(cluster: &Cluster) -> anyhow::Result<()> {
    let client = cluster.api().client_as("kerf");
    for crd in crds::all(Flavour::Kwok) {
        let body = serde_json::to_vec(crd.json()).context("cannot write a CRD")?;
        let request = http::Request::post("/apis/apiextensions.k8s.io/v1/customresourcedefinitions")
            .header("content-type", "application/json")
            .body(body)
            .context("cannot write a CRD")?;
        client.request_text(request).await.with_context(|| format!("cannot install the CRD of {}", crd.kind()))?;
    }
    Ok(())
}

/// Runs a command against the cluster. Its end is ours, and so is its exit code.
async fn run_command(
    program: &OsString,
    arguments: &[OsString],
    file: &KubeconfigFile,
    interrupted: &mut Interruptions,
) -> Result<Exit, Failure> {
    let mut command = Command::new(program);
    command.args(arguments).env("KUBECONFIG", file.path()).kill_on_drop(true);
    let mut child =
        command.spawn().with_context(|| format!("cannot run `{}`", program.display())).map_err(Failure::Work)?;
    loop {
        tokio::select! {
            biased;
            status = child.wait() => {
                let status = status.context("cannot wait for the command").map_err(Failure::Work)?;
                return Ok(Exit::OfCommand(code(status)));
            }
            // A terminal tells the command too: it decides when to end. Told by somebody else, it would not know.
            stop = interrupted.next() => {
                if stop == Stop::Terminate {
                    let _ = child.start_kill();
                }
            }
        }
    }
}

/// The code that a shell would report.
fn code(status: ExitStatus) -> u8 {
    use std::os::unix::process::ExitStatusExt as _;
    let signal = status.signal().map(|signal| 128 + signal);
    u8::try_from(status.code().or(signal).unwrap_or(1)).unwrap_or(1)
}

/// Says how to use the cluster, and then what happens in it, until somebody ends it.
async fn watch(
    file: &KubeconfigFile,
    mut news: mpsc::UnboundedReceiver<News>,
    interrupted: &mut Interruptions,
) -> Result<Exit, Failure> {
    let path = file.path().display();
    output::print_text(&format!(
        "A Kubernetes cluster runs in this process. In another terminal:\n\n  \
         export KUBECONFIG={path}\n  kubectl get nodes\n  kubectl create deployment web --image=nginx --replicas=3\n\n\
         Ctrl-C ends it; nothing is kept.\n\n"
    ))?;
    loop {
        tokio::select! {
            biased;
            _ = interrupted.next() => return Ok(Exit::Done),
            happened = news.recv() => match happened {
                Some(happened) => output::print_text(&format!("{happened}\n"))?,
                None => return Ok(Exit::Done),
            },
        }
    }
}

/// Why the program should end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stop {
    /// Ctrl-C on the terminal.
    Interrupt,
    /// `kill`.
    Terminate,
}

/// The signals that end the program cleanly.
struct Interruptions {
    interrupt: tokio::signal::unix::Signal,
    terminate: tokio::signal::unix::Signal,
    hangup: tokio::signal::unix::Signal,
}

impl Interruptions {
    fn listen() -> anyhow::Result<Self> {
        let listen = |kind| signal(kind).context("cannot listen for signals");
        Ok(Self {
            interrupt: listen(SignalKind::interrupt())?,
            terminate: listen(SignalKind::terminate())?,
            hangup: listen(SignalKind::hangup())?,
        })
    }

    async fn next(&mut self) -> Stop {
        tokio::select! {
            biased;
            _ = self.interrupt.recv() => Stop::Interrupt,
            _ = self.terminate.recv() => Stop::Terminate,
            _ = self.hangup.recv() => Stop::Terminate,
        }
    }
}
