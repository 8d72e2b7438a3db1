//! `kerf sandbox run`: runs a scenario in virtual time and checks Kerf's controllers. `--demo` runs
//! a scenario in real time on a cluster that serves its API.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use futures::FutureExt as _;
use futures::future::BoxFuture;
use kerf_aws::AwsSettings;
use kerf_runtime::{Clock, Shutdown};
use kerf_sandbox::sim::{
    ProgressLine, ReplicaStart, Scenario, ScenarioError, ScenarioProvider, Simulation, SimulationReport,
};
use kerf_sandbox::{Cluster, ClusterConfig, Timing};
use tokio::sync::oneshot;
use tracing::error;
use tracing_subscriber::layer::SubscriberExt as _;

use super::best_price::BestPriceCalculator;
use super::controller_output::{CollectedOutput, LOG_LEVEL_OF_EXPECTATIONS};
use super::scenario_provider::scenario_provider;
use super::{SandboxController, install_provider_crds, stderr_layer};
use crate::args::{FeatureGates, Format, SandboxRunOptions, Settings};
use crate::commands::controller_process;
use crate::exit::{CommandFailure, Exit, Problem};
use crate::output::{self, StdoutState};
use crate::program::{ProviderChoice, ProviderName};
use crate::provider::{self, Provider, ProviderOptions, SandboxPreparation};

/// Scenario of `kerf sandbox --demo`.
const DEMO_SCENARIO: &str = include_str!("../../../../../scenarios/story.yaml");
/// Start of virtual time. The value is arbitrary but fixed, so that runs are reproducible.
const VIRTUAL_START_TIME: &str = "2026-01-01T00:00:00Z";

/// Runs a scenario and prints its report.
pub(in crate::commands) fn simulate(options: &SandboxRunOptions) -> Result<Exit, CommandFailure> {
    let text = std::fs::read_to_string(&options.scenario).map_err(|cause| {
        CommandFailure::bad_input(Problem::new(format!("{}: cannot be read: {cause}", options.scenario.display())))
    })?;
    let NamedScenario { mut scenario, provider } = read_scenario(&text, &options.scenario, options.provider)?;
    let provider = provider::load(ProviderOptions {
        aws: Some(aws_settings(&scenario, options.aws.clone())),
        ..ProviderOptions::new(provider, options.instance_types.as_deref())
    })?;
    apply_options(&mut scenario, options)?;
    let settings = controller_settings(&scenario, options)?;
    // Virtual time stops while any task can run, and jumps to the next timer when all tasks wait.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build();
    let runtime = runtime.context("cannot start the runtime").map_err(CommandFailure::ExecutionFailed)?;
    let print_progress = options.format == Format::Table;
    let outcome = runtime.block_on(async {
        let start = VIRTUAL_START_TIME
            .parse()
            .context("cannot parse the start time of the simulation")
            .map_err(CommandFailure::ExecutionFailed)?;
        let clock = Clock::with_jumps(start);
        // All tasks run on this thread, so that the log of this thread has the lines of all.
        let (collected, layer) = CollectedOutput::new(clock);
        let layer = match options.log_level {
            Some(level) => layer.beside(controller_process::log_level(level)),
            None => layer,
        };
        let stderr = options.log_level.map(|level| stderr_layer(level, clock).beside(LOG_LEVEL_OF_EXPECTATIONS));
        let _log = tracing::subscriber::set_default(tracing_subscriber::registry().with(layer).with(stderr));
        let timing = if scenario.instant { Timing::INSTANT } else { Timing::LIFELIKE };
        let cluster = Cluster::start(ClusterConfig { clock, seed: options.seed, timing });
        provider.prepare_sandbox(SandboxPreparation {
            server: cluster.api(),
            faults: cluster.cloud(),
            endpoint: None,
            is_instant: scenario.instant,
            seed: options.seed,
        });
        let kerf = SandboxController {
            metrics_slot: Some(collected.metrics_slot()),
            ..SandboxController::new(settings, options.seed)
        };
        let simulation = Simulation { scenario, seed: options.seed, output: Some(Arc::new(collected)) };
        run_simulation(&cluster, simulation, kerf, provider, print_progress).await
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

/// Returns the provider of the demo scenario. Fails if the user selected another.
pub(super) fn demo_provider(choice: ProviderChoice) -> Result<ProviderName, CommandFailure> {
    Ok(read_demo(choice)?.provider)
}

fn read_demo(choice: ProviderChoice) -> Result<NamedScenario, CommandFailure> {
    read_scenario(DEMO_SCENARIO, Path::new("the demo scenario"), choice)
}

/// Runs the demo scenario in real time; other clients may use the cluster meanwhile.
pub(super) async fn run_demo(
    cluster: &Cluster,
    kerf: SandboxController,
    provider: Arc<dyn Provider>,
) -> Result<Exit, CommandFailure> {
    let scenario = read_demo(ProviderChoice { selected: None, default: ProviderName::Kwok })?.scenario;
    let seed = kerf.seed;
    let outcome = run_simulation(cluster, Simulation { scenario, seed, output: None }, kerf, provider, true).await?;
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
    let start = |start: ReplicaStart| controllers_under_test(cluster, kerf.for_replica(start), provider.clone());
    let simulation_run = simulation.run(cluster, start, async || calculator.best_price().await, on_progress);
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

/// A scenario, and the provider that serves its NodePools.
struct NamedScenario {
    scenario: Scenario,
    provider: ProviderName,
}

/// Parses a scenario and selects its provider. The error lists every mistake.
fn read_scenario(text: &str, path: &Path, choice: ProviderChoice) -> Result<NamedScenario, CommandFailure> {
    let scenario = Scenario::parse(text).map_err(|mistakes| {
        let problem = |mistake: &ScenarioError| {
            let line = mistake.line.map_or_else(String::new, |line| format!(", line {line}"));
            Problem::new(format!("{}{line}: {}", path.display(), ScenarioError { line: None, ..mistake.clone() }))
        };
        CommandFailure::BadInput(mistakes.iter().map(problem).collect())
    })?;
    // A text that is a scenario is a tree.
    let tree = serde_yaml_ng::from_str(text).unwrap_or_default();
    let default = scenario.provider.map_or(choice.default, |name| match name {
        ScenarioProvider::Kwok => ProviderName::Kwok,
        ScenarioProvider::Aws => ProviderName::Aws,
    });
    let provider = scenario_provider(&tree, path, ProviderChoice { default, ..choice });
    let provider = provider.map_err(CommandFailure::bad_input)?;
    Ok(NamedScenario { scenario, provider })
}

/// Returns the settings of the AWS provider with those of the scenario.
fn aws_settings(scenario: &Scenario, mut settings: AwsSettings) -> AwsSettings {
    settings.enable_zonal_shift |= scenario.controller.enable_zonal_shift;
    if let Some(queue) = &scenario.controller.interruption_queue {
        settings.interruption_queue = Some(queue.clone()).filter(|queue| !queue.is_empty());
    }
    settings
}

/// Returns the settings of the controllers with those of the scenario.
fn controller_settings(scenario: &Scenario, options: &SandboxRunOptions) -> Result<Settings, CommandFailure> {
    let mut settings = options.settings.clone();
    if let Some(gates) = &scenario.controller.feature_gates {
        settings.feature_gates = FeatureGates::parse(gates, &mut settings.warnings).map_err(|why| {
            let problem = format!("{}: controller.featureGates: {why}", options.scenario.display());
            CommandFailure::bad_input(Problem::new(problem))
        })?;
    }
    Ok(settings)
}

/// Applies the options that change a scenario. Fails with all options that do not fit it.
fn apply_options(scenario: &mut Scenario, options: &SandboxRunOptions) -> Result<(), CommandFailure> {
    let mut problems = Vec::new();
    if let Some(until) = options.until {
        if let Err(why) = Scenario::check_length(until) {
            problems.push(Problem::new(format!("--until: {why}")));
        }
        scenario.until = until;
        scenario.steps.retain(|step| step.at <= until);
    }
    for fault in &options.faults {
        if let Err(why) = fault.check_active(Duration::ZERO, scenario.until) {
            problems.push(Problem::new(format!("--faults: {why}")));
        }
    }
    scenario.faults.extend(options.faults.iter().copied());
    if problems.is_empty() { Ok(()) } else { Err(CommandFailure::BadInput(problems)) }
}

#[cfg(test)]
mod kill_tests;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_demo_scenario_is_valid() {
        let choice = ProviderChoice { selected: None, default: ProviderName::Aws };
        let demo = read_demo(choice).unwrap_or_else(|failure| panic!("{failure:?}"));
        assert_eq!(demo.provider, ProviderName::Kwok);
        assert!(demo.scenario.until <= Duration::from_mins(30), "a demo lasts at most half an hour");
    }
}
