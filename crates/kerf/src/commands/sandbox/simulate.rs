//! `kerf sandbox run`: runs a scenario in virtual time and checks Kerf's controllers. `--demo` runs
//! a scenario in real time on a cluster that serves its API.

use std::path::Path;
use std::sync::Arc;

use anyhow::Context as _;
use futures::FutureExt as _;
use futures::future::BoxFuture;
use kerf_runtime::{Clock, Shutdown};
use kerf_sandbox::sim::{ProgressLine, Scenario, Simulation, SimulationReport};
use kerf_sandbox::{Cluster, ClusterConfig, Timing};
use tokio::sync::oneshot;
use tracing::error;

use super::best_price::BestPriceCalculator;
use super::{SandboxController, install_provider_crds, start_stderr_log};
use crate::args::{Format, SandboxRunOptions};
use crate::exit::{CommandFailure, Exit, Problem};
use crate::output::{self, StdoutState};
use crate::provider::{self, Provider, ProviderOptions, SandboxPreparation};

/// Scenario of `kerf sandbox --demo`.
const DEMO_SCENARIO: &str = include_str!("../../../../../scenarios/story.yaml");
/// Start of virtual time. The value is arbitrary but fixed, so that runs are reproducible.
const VIRTUAL_START_TIME: &str = "2026-01-01T00:00:00Z";

/// Runs a scenario and prints its report.
pub(in crate::commands) fn simulate(options: &SandboxRunOptions) -> Result<Exit, CommandFailure> {
    let provider = provider::load(ProviderOptions::new(options.provider, options.instance_types.as_deref()))?;
    let text = std::fs::read_to_string(&options.scenario).map_err(|cause| {
        CommandFailure::bad_input(Problem::new(format!("{}: cannot be read: {cause}", options.scenario.display())))
    })?;
    let mut scenario = read_scenario(&text, &options.scenario)?;
    scenario.faults.extend(options.faults.iter().copied());
    if let Some(until) = options.until {
        scenario.until = until;
        scenario.steps.retain(|step| step.at <= until);
    }
    // Virtual time stops while any task can run, and jumps to the next timer when all tasks wait.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build();
    let runtime = runtime.context("cannot start the runtime").map_err(CommandFailure::ExecutionFailed)?;
    let print_progress = options.format == Format::Table;
    let outcome = runtime.block_on(async {
        let start = VIRTUAL_START_TIME
            .parse()
            .context("cannot parse the start time of the simulation")
            .map_err(CommandFailure::ExecutionFailed)?;
        let clock = Clock::starting_at(start);
        start_stderr_log(options.log_level, clock)?;
        let timing = if scenario.instant { Timing::INSTANT } else { Timing::LIFELIKE };
        let cluster = Cluster::start(ClusterConfig { clock, seed: options.seed, timing });
        provider.prepare_sandbox(SandboxPreparation {
            server: cluster.api(),
            endpoint: None,
            is_instant: scenario.instant,
            seed: options.seed,
        });
        let kerf =
            SandboxController { settings: options.settings.clone(), seed: options.seed, metrics_port: None, cores: 1 };
        run_simulation(&cluster, Simulation { scenario, seed: options.seed }, kerf, provider, print_progress).await
    })?;
    // A run that did not complete has no verdict and must not count as passed.
    let PlayOutcome::Completed(report) = outcome else {
        let cause = anyhow::anyhow!("the scenario did not run to its end: stdout was closed");
        return Err(CommandFailure::ExecutionFailed(cause));
    };
    match options.format {
        Format::Table => output::print_text(&format!("\n{}", output::render_report(&report))),
        Format::Json => output::print(|writer| output::json::write(&report, writer)),
        Format::Yaml => {
            output::print(|writer| serde_yaml_ng::to_writer(writer, &report).map_err(std::io::Error::other))
        }
    }?;
    Ok(if report.violations.is_empty() { Exit::Done } else { Exit::Failed })
}

/// Runs the demo scenario in real time; other clients may use the cluster meanwhile.
pub(super) async fn run_demo(
    cluster: &Cluster,
    kerf: SandboxController,
    provider: Arc<dyn Provider>,
) -> Result<Exit, CommandFailure> {
    let scenario = read_scenario(DEMO_SCENARIO, Path::new("the demo scenario"))?;
    let seed = kerf.seed;
    let outcome = run_simulation(cluster, Simulation { scenario, seed }, kerf, provider, true).await?;
    let PlayOutcome::Completed(report) = outcome else { return Ok(Exit::Done) };
    output::print_text(&format!("\n{}", output::render_report(&report)))?;
    Ok(if report.violations.is_empty() { Exit::Done } else { Exit::Failed })
}

/// The extent to which a scenario ran.
enum PlayOutcome {
    Completed(Box<SimulationReport>),
    /// The reader closed stdout, and the run stopped.
    StdoutClosed,
}

async fn run_simulation(
    cluster: &Cluster,
    simulation: Simulation,
    kerf: SandboxController,
    provider: Arc<dyn Provider>,
    print_progress: bool,
) -> Result<PlayOutcome, CommandFailure> {
    install_provider_crds(cluster.api(), provider.as_ref()).await.map_err(CommandFailure::ExecutionFailed)?;
    cluster
        .add_nodes(simulation.scenario.nodes)
        .context("cannot create the nodes")
        .map_err(CommandFailure::ExecutionFailed)?;
    let (stop_sender, mut stopped) = oneshot::channel();
    let mut stop_sender = Some(stop_sender);
    let on_progress = |line: ProgressLine| {
        let Some(sender) = stop_sender.take_if(|_| print_progress) else { return };
        match output::print_text(&format!("{line}\n")) {
            Ok(StdoutState::Open) => stop_sender = Some(sender),
            Ok(StdoutState::Closed) => drop(sender.send(Ok(PlayOutcome::StdoutClosed))),
            Err(failure) => drop(sender.send(Err(failure))),
        }
    };
    let calculator = BestPriceCalculator::new(cluster, &kerf.settings, provider.clone());
    let controllers = controllers_under_test(cluster, kerf, provider);
    let simulation_run = simulation.run(cluster, controllers, async || calculator.best_price().await, on_progress);
    tokio::select! {
        biased;
        Ok(outcome) = &mut stopped => outcome,
        report = simulation_run => Ok(PlayOutcome::Completed(Box::new(report))),
    }
}

/// Returns a future that runs Kerf's controllers until it is dropped.
fn controllers_under_test(
    cluster: &Cluster,
    kerf: SandboxController,
    provider: Arc<dyn Provider>,
) -> BoxFuture<'static, ()> {
    let (shutdown, stop) = Shutdown::new();
    let controllers = kerf.run(cluster, provider, stop);
    async move {
        let _shutdown = shutdown;
        if let Err(cause) = controllers.await {
            error!(error = %cause, "the controllers stopped");
        }
    }
    .boxed()
}

/// Parses a scenario. The error lists every mistake.
fn read_scenario(text: &str, path: &Path) -> Result<Scenario, CommandFailure> {
    let problem = |why: String| Problem::new(format!("{}: {why}", path.display()));
    // Parse into YAML's own value type first: it rejects duplicate keys.
    let tree: serde_yaml_ng::Value =
        serde_yaml_ng::from_str(text).map_err(|cause| CommandFailure::bad_input(problem(cause.to_string())))?;
    let tree = serde_json::to_value(tree).map_err(|cause| CommandFailure::bad_input(problem(cause.to_string())))?;
    Scenario::read(tree).map_err(|mistakes| {
        CommandFailure::BadInput(mistakes.iter().map(|mistake| problem(mistake.to_string())).collect())
    })
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn the_demo_scenario_is_valid() {
        let scenario = read_scenario(DEMO_SCENARIO, Path::new("story")).unwrap_or_else(|failure| panic!("{failure:?}"));
        assert!(scenario.until <= Duration::from_mins(30), "a demo lasts at most half an hour");
    }
}
