//! `kerf plan`: reads a cluster, live or from files, computes what the controllers would do now,
//! and prints it. It never changes the cluster.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use kerf_api::duration::Duration;
use kerf_api::slim::Str;
use kerf_engine::catalogue::InstanceTypes;
use kerf_engine::{
    DisruptionSettings, Effort, Input, NodeClaimInput, NodePlacement, Passes, PoolAvailability, ProvisioningPlan,
    ReservedMode, Settings, Solution,
};
use kerf_runtime::Clock;

use crate::args::{Gate, MinValuesPolicy, PlanOptions, PlanPart, PreferencePolicy};
use crate::exit::{CommandFailure, Exit};
use crate::input::{self, SelectorKinds, ValidationScope};
use crate::output::{self, Messages, PublishedStats, StageProgress};
use crate::plan_input::PlanInput;
use crate::provider::{self, PlanProviderOptions};

/// Time for which a node is reserved for pods that are expected on it (spec 03 section 1, with the
/// default batch window).
const NOMINATION_PERIOD: Duration = Duration::from_secs(20);

/// Maximum number of instance types that a claim lists (spec 02 section 7.5).
const INSTANCE_TYPES_MAX: usize = 600;

pub(super) fn run(options: &PlanOptions, messages: &mut Messages<'_>) -> Result<Exit, CommandFailure> {
    // A tripped gate sets the exit code even if the reader closes stdout before the end of the
    // plan.
    make_plan(options, messages, |plan| output::print(|writer| plan.write(options.format, writer)).map(|_| ()))
}

/// Returns the bytes that [`run`] would print.
pub(super) fn run_to_bytes(
    options: &PlanOptions,
    messages: &mut Messages<'_>,
) -> Result<(Vec<u8>, Exit), CommandFailure> {
    let mut bytes = Vec::new();
    let exit = make_plan(options, messages, |plan| {
        plan.write(options.format, &mut bytes)
            .map_err(|cause| CommandFailure::ExecutionFailed(anyhow::Error::new(cause)))
    })?;
    Ok((bytes, exit))
}

/// Computes a plan, passes it to `show`, and checks the gates.
fn make_plan(
    options: &PlanOptions,
    messages: &mut Messages<'_>,
    show: impl FnOnce(&output::PublishedPlan<'_>) -> Result<(), CommandFailure>,
) -> Result<Exit, CommandFailure> {
    let clock = Clock::system();
    let threads = options.threads.unwrap_or_else(super::available_threads);
    let mut stopwatch = Stopwatch { clock, last: 0.0 };

    let progress = StageProgress::start("reading the cluster");
    let is_live = options.input.is_empty();
    let selectors = SelectorKinds::needed_by(&options.settings);
    let loaded = if is_live {
        input::load_live(selectors, threads)
    } else {
        input::load(&options.input, ValidationScope::SuspiciousOnly, threads)
    };
    let providers = provider::load_for_plan(PlanProviderOptions {
        choice: options.provider,
        instance_types: options.instance_types.as_deref(),
        region: options.region.as_deref(),
        aws: &options.aws,
    });
    let (loaded, providers) = combine_results(loaded, providers)?;
    let load_seconds = stopwatch.lap();
    let types = providers.catalogue_for(&loaded.objects)?;
    let at = options.at.unwrap_or_else(|| now_in_whole_seconds(clock));
    let mut plan_input = PlanInput::new(loaded.objects, types.as_ref(), at);
    drop(progress);
    for note in &plan_input.notes {
        messages.print_note(note);
    }
    for warning in options.settings.warnings.iter().chain(&loaded.warnings).chain(&plan_input.warnings) {
        messages.print_warning(warning);
    }
    for gate in gates_without_effect(options) {
        messages.print_warning(format_args!("the feature gate {gate} has no effect on a plan yet"));
    }
    let resolve_seconds = stopwatch.lap();

    let settings = Settings { seed: options.seed, ..engine_settings(&options.settings, is_live, threads.get()) };
    let progress = StageProgress::start("finding nodes for pending pods");
    let provisioning = plan_provisioning(options, &plan_input.input, &settings);
    for text in provisioning.iter().filter(|plan| plan.is_published).flat_map(|plan| passes_note(&plan.all)) {
        messages.print_note(text);
    }
    let nominated = provisioning.as_ref().map(|plan| plan.all.solution.nodes.clone()).unwrap_or_default();
    let solution = provisioning.filter(|plan| plan.is_published).map(|plan| plan.all.solution);
    let provisioning_seconds = stopwatch.lap();

    let unready_notes = solution
        .as_ref()
        .map(|solution| unready_pool_notes(&mut plan_input.input, &settings, solution))
        .unwrap_or_default();

    drop(progress);

    let progress = StageProgress::start("finding nodes to remove");
    nominate(&mut plan_input.input, &nominated);
    let disruption = (options.only != Some(PlanPart::Provisioning)).then(|| {
        let spot_to_spot = options.settings.feature_gates.spot_to_spot_consolidation;
        kerf_engine::disrupt(
            &plan_input.input,
            &DisruptionSettings {
                scheduling: settings.clone(),
                allows_spot_to_spot: spot_to_spot,
                allows_moves: true,
                passes: Passes::All,
            },
        )
    });
    let disruption_seconds = stopwatch.lap();
    drop(progress);
    if options.with_timings {
        let solving = provisioning_seconds + disruption_seconds;
        messages.print_note(format_args!(
            "loading {load_seconds:.3} s, resolving {resolve_seconds:.3} s, solving {solving:.3} s"
        ));
    }
    for notice in disruption.iter().flat_map(|plan| &plan.warnings) {
        messages.print_warning(format_args!("{}: {} ({})", notice.object, notice.message, notice.code));
    }

    let solve_stats = solution.as_ref().map(|solution| solution.stats).unwrap_or_default();
    let disruption_stats = disruption.as_ref().map(|plan| plan.stats.clone()).unwrap_or_default();
    let stats = options.with_stats.then(|| PublishedStats {
        pods: plan_input.input.pods.len(),
        nodes: plan_input.input.nodes.len(),
        instance_types: plan_input.input.catalogues.iter().map(InstanceTypes::len).sum(),
        pod_classes: solve_stats.pod_classes,
        load_seconds,
        resolve_seconds,
        candidates: disruption_stats.candidates,
        candidates_evaluated: disruption_stats.candidates_evaluated,
        provisioning_seconds,
        disruption_seconds,
        peak_rss_bytes: peak_rss_bytes(),
    });
    let plan = output::PublishedPlan::new(
        plan_input.input.at,
        solution.as_ref(),
        disruption.as_ref(),
        &unready_notes,
        plan_input.current_price,
        stats,
    );
    show(&plan)?;
    Ok(check_gates(&options.fail_on, &plan, messages))
}

/// Combines two results. If both inputs are bad, the error lists the problems of both.
fn combine_results<A, B>(a: Result<A, CommandFailure>, b: Result<B, CommandFailure>) -> Result<(A, B), CommandFailure> {
    match (a, b) {
        (Ok(a), Ok(b)) => Ok((a, b)),
        (Err(CommandFailure::BadInput(a)), Err(CommandFailure::BadInput(b))) => {
            Err(CommandFailure::BadInput([a, b].concat()))
        }
        (Err(failure), _) | (_, Err(failure)) => Err(failure),
    }
}

/// Converts the settings for the engine. `is_live` is true if pods carry the scheduler's
/// `PodScheduled` condition.
pub(super) fn engine_settings(settings: &crate::args::Settings, is_live: bool, threads: usize) -> Settings {
    Settings {
        preference_policy: match settings.preference_policy {
            PreferencePolicy::Respect => kerf_engine::PreferencePolicy::Respect,
            PreferencePolicy::Ignore => kerf_engine::PreferencePolicy::Ignore,
        },
        min_values_policy: match settings.min_values_policy {
            MinValuesPolicy::Strict => kerf_engine::MinValuesPolicy::Strict,
            MinValuesPolicy::BestEffort => kerf_engine::MinValuesPolicy::BestEffort,
        },
        reserved_capacity: settings.feature_gates.reserved_capacity,
        reserved_mode: ReservedMode::Strict,
        default_spread: settings.default_spread.clone(),
        ignore_dra: settings.ignore_dra_requests,
        // Manifests seldom contain the condition `PodScheduled`. A live cluster does, and the
        // controller waits for it.
        require_unschedulable: is_live,
        max_instance_types: INSTANCE_TYPES_MAX,
        seed: 0,
        threads,
        effort: Effort::Search,
    }
}

/// Returns the enabled feature gates that a plan does not take into account yet.
fn gates_without_effect(options: &PlanOptions) -> Vec<&'static str> {
    let gates = &options.settings.feature_gates;
    let unsupported = [
        ("NodeRepair", gates.node_repair),
        ("NodeOverlay", gates.node_overlay),
        ("StaticCapacity", gates.static_capacity),
        ("CapacityBuffer", gates.capacity_buffer),
    ];
    unsupported.into_iter().filter(|(_, is_on)| *is_on).map(|(name, _)| name).collect()
}

/// Returns, for each unplaced pod that a NodePool could serve if it were ready, a note with the
/// reason why the pool is not ready (spec 09 #6). To find these pods, it runs the solver again with
/// all such pools marked ready, and then restores `input`.
fn unready_pool_notes(input: &mut Input, settings: &Settings, solution: &Solution) -> BTreeMap<Str, String> {
    let causes: BTreeMap<Str, Str> = input
        .pools
        .iter()
        .filter_map(|pool| match &pool.availability {
            PoolAvailability::NotReady(why) => Some((pool.name.clone(), why.clone())),
            PoolAvailability::Ready
            | PoolAvailability::Static
            | PoolAvailability::AwaitingLaunch(_)
            | PoolAvailability::Deleting
            | PoolAvailability::OtherProvider(_) => None,
        })
        .collect();
    if causes.is_empty() || solution.unplaced.is_empty() {
        return BTreeMap::new();
    }
    for pool in input.pools.iter_mut().filter(|pool| causes.contains_key(&pool.name)) {
        pool.availability = PoolAvailability::Ready;
    }
    let solution_if_ready = kerf_engine::solve(input, &Settings { effort: Effort::FirstFit, ..settings.clone() });
    for pool in &mut input.pools {
        if let Some(why) = causes.get(&pool.name) {
            pool.availability = PoolAvailability::NotReady(why.clone());
        }
    }
    let served_claims = solution_if_ready.claims.iter().filter_map(|claim| Some((claim, causes.get(&claim.pool)?)));
    served_claims
        .flat_map(|(claim, why)| {
            let note = format!("NodePool `{}` could launch a node for it, but is not ready: {why}", claim.pool);
            claim.pods.iter().map(move |pod| (pod.clone(), note.clone()))
        })
        .collect()
}

/// The provisioning passes of a plan.
struct PlannedProvisioning {
    all: ProvisioningPlan,
    /// False if the plan is for disruption only, and needs the passes to know on which nodes pods
    /// are expected.
    is_published: bool,
}

/// Plans provisioning if it is a part of the plan, or if pods of nodes that are being removed are
/// expected on other nodes.
fn plan_provisioning(options: &PlanOptions, input: &Input, settings: &Settings) -> Option<PlannedProvisioning> {
    let is_published = options.only != Some(PlanPart::Disruption);
    let is_being_removed = |claim: &NodeClaimInput| claim.is_marked_for_disruption;
    (is_published || input.node_claims.iter().any(is_being_removed)).then(|| PlannedProvisioning {
        all: kerf_engine::solve_passes(input, settings, options.max_passes.get()),
        is_published,
    })
}

/// Returns a note about the passes, if there are several.
fn passes_note(plan: &ProvisioningPlan) -> Option<String> {
    let ProvisioningPlan { solution, passes, is_complete } = plan;
    if !is_complete {
        let pending = match solution.unplaced.len() {
            1 => "1 pod is".to_owned(),
            count => format!("{count} pods are"),
        };
        let planned = if *passes == 1 { "1 pass".to_owned() } else { format!("{passes} passes") };
        return Some(format!(
            "provisioning is planned for {planned} and not further; {pending} still pending and may be placed by later passes"
        ));
    }
    (*passes > 1).then(|| {
        format!(
            "the controller needs {passes} passes for these pods; from the second on, the plan assumes that nodes were \
             launched as estimated"
        )
    })
}

/// Marks the claims of nodes on which provisioning places pods as nominated, as the controller
/// does, so that these nodes are not disrupted.
fn nominate(input: &mut Input, placements: &[NodePlacement]) {
    let until = NOMINATION_PERIOD.after(input.at);
    let nominated: BTreeSet<&Str> = placements.iter().map(|placed| &placed.node).collect();
    let provider_ids: BTreeSet<&Str> = input
        .nodes
        .iter()
        .filter(|node| nominated.contains(&node.metadata.name) && !node.spec.provider_id.is_empty())
        .map(|node| &node.spec.provider_id)
        .collect();
    for claim in &mut input.node_claims {
        if provider_ids.contains(&claim.provider_id) || nominated.contains(&claim.name) {
            claim.lifecycle.nominated_until = Some(until);
        }
    }
}

/// Prints a warning for each gate that trips and returns the exit code.
fn check_gates(gates: &[Gate], plan: &output::PublishedPlan<'_>, messages: &mut Messages<'_>) -> Exit {
    let mut exit = Exit::Done;
    for gate in gates {
        let tripped = match gate {
            Gate::Unschedulable => match plan.provisioning.unschedulable.len() {
                0 => None,
                1 => Some("unschedulable: 1 pod would stay pending".to_owned()),
                count => Some(format!("unschedulable: {count} pods would stay pending")),
            },
            Gate::Disruption => (!plan.disruption.commands.is_empty())
                .then(|| "disruption: nodes would be removed or replaced".to_owned()),
            Gate::CostIncrease => (plan.cost.planned_per_hour > plan.cost.current_per_hour)
                .then(|| "cost-increase: the cluster would cost more than now".to_owned()),
        };
        if let Some(why) = tripped {
            messages.print_warning(format_args!("--fail-on {why}"));
            exit = Exit::GateTripped;
        }
    }
    exit
}

/// Returns the current time in whole seconds, as Kubernetes writes it.
fn now_in_whole_seconds(clock: Clock) -> Timestamp {
    let now = clock.now();
    Timestamp::from_second(now.as_second()).unwrap_or(now)
}

/// Measures consecutive stages.
struct Stopwatch {
    clock: Clock,
    last: f64,
}

impl Stopwatch {
    /// Returns the seconds since the previous lap.
    fn lap(&mut self) -> f64 {
        let now = self.clock.elapsed().as_secs_f64();
        let lap = now - self.last;
        self.last = now;
        lap
    }
}

/// Returns the peak resident memory of this process in bytes; 0 if the system does not report it.
fn peak_rss_bytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kilobytes = line.and_then(|line| line.trim().trim_end_matches(" kB").parse::<u64>().ok());
    kilobytes.unwrap_or(0) * 1024
}

#[cfg(test)]
mod tests;
