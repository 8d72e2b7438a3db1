//! `kerf sandbox run`: runs a scenario in virtual time and checks Kerf's controllers. `--demo` runs
//! a scenario in real time on a cluster that serves its API.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use futures::FutureExt as _;
use futures::future::BoxFuture;
use kerf_api::yaml;
use kerf_aws::AwsSettings;
use kerf_runtime::{Clock, Shutdown};
use kerf_sandbox::sim::{ProgressLine, ReplicaStart, Scenario, ScenarioError, Simulation, SimulationReport};
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
use crate::output::{self, Messages, StdoutState};
use crate::program::{ProviderChoice, ProviderName};
use crate::provider::{self, Provider, ProviderOptions, SandboxPreparation};

/// Scenario of `kerf sandbox --demo`.
const DEMO_SCENARIO: &str = include_str!("../../../../../scenarios/story.yaml");
/// Start of virtual time. The value is arbitrary but fixed, so that runs are reproducible.
const VIRTUAL_START_TIME: &str = "2026-01-01T00:00:00Z";

/// Runs a scenario and prints its report.
pub(in crate::commands) fn simulate(
    options: &SandboxRunOptions,
    messages: &mut Messages<'_>,
) -> Result<Exit, CommandFailure> {
    let text = std::fs::read_to_string(&options.scenario).map_err(|cause| {
        CommandFailure::bad_input(Problem::new(format!("{}: cannot be read: {cause}", options.scenario.display())))
    })?;
    let NamedScenario { mut scenario, provider, feature_gates } =
        read_scenario(&text, &options.scenario, options.provider)?;
    apply_options(&mut scenario, options)?;
    let mut settings = options.settings.clone();
    if let Some(gates) = feature_gates {
        settings.feature_gates = gates;
    }
    for gate in settings.feature_gates.enabled_without_effect() {
        messages.print_warning(format_args!("the feature gate {gate} has no effect in this version"));
    }
    let provider = provider::load(ProviderOptions {
        aws: Some(aws_settings(&scenario, &settings, options.aws.clone())),
        ..ProviderOptions::new(provider, options.instance_types.as_deref())
    })?;
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
        let collected = CollectedOutput::new(clock, &scenario);
        let (mut layer, mut stderr) =
            (collected.log_layer(), options.log_level.map(|level| stderr_layer(level, clock)));
        if let (Some(_), Some(level)) = (&layer, options.log_level) {
            layer = layer.map(|layer| layer.beside(controller_process::log_level(level)));
            stderr = stderr.map(|stderr| stderr.beside(LOG_LEVEL_OF_EXPECTATIONS));
        }
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

/// A scenario, with what this program reads from it.
struct NamedScenario {
    scenario: Scenario,
    /// Provider that serves its NodePools.
    provider: ProviderName,
    /// Feature gates instead of those of the command line; `None` if it has none.
    feature_gates: Option<FeatureGates>,
}

/// Parses a scenario and selects its provider. The error lists every mistake.
fn read_scenario(text: &str, path: &Path, choice: ProviderChoice) -> Result<NamedScenario, CommandFailure> {
    let problem = |mistake: &ScenarioError| {
        let line = mistake.line.map_or_else(String::new, |line| format!(", line {line}"));
        Problem::new(format!("{}{line}: {}", path.display(), ScenarioError { line: None, ..mistake.clone() }))
    };
    let scenario =
        Scenario::parse(text).map_err(|mistakes| CommandFailure::BadInput(mistakes.iter().map(problem).collect()))?;
    let feature_gates = scenario.controller.feature_gates.as_deref().map(FeatureGates::parse_strictly).transpose();
    let feature_gates = feature_gates.map_err(|why| {
        let field = "controller.featureGates".to_owned();
        let line = yaml::value_lines(text).ok().and_then(|lines| lines.line_of(&field));
        problem(&ScenarioError { line, path: field, why })
    });
    match (scenario_provider(&scenario, path, choice), feature_gates) {
        (Ok(provider), Ok(feature_gates)) => Ok(NamedScenario { scenario, provider, feature_gates }),
        (provider, gates) => {
            Err(CommandFailure::BadInput([gates.err(), provider.err()].into_iter().flatten().collect()))
        }
    }
}

/// Returns the settings of the AWS provider with those of the scenario and of the controllers.
fn aws_settings(scenario: &Scenario, controllers: &Settings, mut settings: AwsSettings) -> AwsSettings {
    controllers.apply_to_aws(&mut settings);
    settings.enable_zonal_shift |= scenario.controller.enable_zonal_shift;
    if let Some(queue) = &scenario.controller.interruption_queue {
        settings.interruption_queue = Some(queue.clone()).filter(|queue| !queue.is_empty());
    }
    settings
}

/// Applies the options that change a scenario. Fails with all options that do not fit it.
fn apply_options(scenario: &mut Scenario, options: &SandboxRunOptions) -> Result<(), CommandFailure> {
    let mut problems = Vec::new();
    let until = options.until.unwrap_or(scenario.until);
    if options.until.is_some()
        && let Err(reasons) = scenario.set_length(until)
    {
        problems.extend(reasons.into_iter().map(|why| Problem::new(format!("--until: {why}"))));
    }
    for fault in &options.faults {
        if let Err(why) = fault.check_active(Duration::ZERO, until) {
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
