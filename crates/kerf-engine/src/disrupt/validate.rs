//! Validation (spec 03 §9): checks commands against a newer cluster state before they are carried
//! out.
//!
//! The nodes must still be candidates, the budgets must still allow the command, and a new
//! simulation must still place all pods. If the same nodes can now be removed in another way that
//! saves no less, validation returns that command instead. For example, other pods may have been
//! deleted meanwhile.

use std::borrow::Cow;
use std::fmt;

use kerf_api::slim::Str;
use rustc_hash::FxHashSet;

use super::apply_commands::with_commands_reserved;
use super::budgets::NodePoolBudgets;
use super::command::{DisruptionCommand, Method};
use super::input::DisruptionSettings;
use super::pass::{DisruptionPass, PlannedNodes, SurveyIx};
use super::simulate::Purpose;
use super::survey::{DisruptionClass, Survey};
use super::{consolidation, emptiness, moves, next_commands, without_failed_launches};
use crate::cluster::Input;

/// The reason why a command is no longer valid.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ValidationFailure {
    /// Some of its nodes are no longer candidates.
    Churn,
    /// The NodePool budgets no longer allow it.
    Budget,
    /// A new simulation has another result, which the text describes.
    Scheduling(String),
}

impl ValidationFailure {
    /// Returns the category that Events name.
    pub fn category(&self) -> &'static str {
        match self {
            Self::Churn => "churn",
            Self::Budget => "budget",
            Self::Scheduling(_) => "scheduling",
        }
    }
}

impl fmt::Display for ValidationFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Churn => f.write_str("candidates are no longer valid"),
            Self::Budget => f.write_str("budgets no longer allow it"),
            Self::Scheduling(text) => f.write_str(text),
        }
    }
}

impl std::error::Error for ValidationFailure {}

/// Validates one command against a newer input. Returns the command to carry out, which may have
/// fewer nodes or other replacements. Commands of drift are always valid.
pub fn validate(
    input: &Input,
    settings: &DisruptionSettings,
    command: &DisruptionCommand,
) -> Result<DisruptionCommand, ValidationFailure> {
    let verdict = validate_all(input, settings, std::slice::from_ref(command)).pop();
    verdict.unwrap_or(Err(ValidationFailure::Churn))
}

/// Validates commands that were found together, each on the assumption that those before it are
/// carried out: together they keep the budgets, and no two of them use the same free capacity.
/// Returns one result per command, in order.
pub fn validate_all(
    input: &Input,
    settings: &DisruptionSettings,
    commands: &[DisruptionCommand],
) -> Vec<Result<DisruptionCommand, ValidationFailure>> {
    let mut world = without_failed_launches(input);
    let mut budgets: Option<NodePoolBudgets> = None;
    let mut spared = FxHashSet::default();
    let mut verdicts = Vec::with_capacity(commands.len());
    while verdicts.len() < commands.len() {
        let survey = Survey::new(&world);
        let planned = PlannedNodes { launched: FxHashSet::default(), excluded: spared };
        let left = budgets.get_or_insert_with(|| NodePoolBudgets::new(&survey, &mut Vec::new()));
        let start = left.clone();
        let mut pass = DisruptionPass::new(&survey, settings, &start).with_planned_nodes(&planned);
        let mut touched: FxHashSet<Str> = FxHashSet::default();
        let mut held: Vec<DisruptionCommand> = Vec::new();
        while let Some(command) = commands.get(verdicts.len()) {
            let verdict = validate_one(&mut pass, command);
            let taken: FxHashSet<Str> =
                verdict.iter().flat_map(|(_, found)| next_commands::involved_nodes(found)).cloned().collect();
            // An invalid command, or one that uses nodes of another, may be valid once the earlier
            // valid commands are applied. So it is validated again on that input.
            let is_apart = verdict.is_ok() && taken.is_disjoint(&touched);
            if !is_apart && !held.is_empty() {
                break;
            }
            verdicts.push(verdict.and_then(|(command, found)| {
                charge_budgets(left, input, &command)?;
                touched.extend(taken);
                held.push(DisruptionCommand { placements: found.placements, ..command.clone() });
                Ok(command)
            }));
        }
        if verdicts.len() == commands.len() {
            break;
        }
        spared = planned.excluded;
        spared.extend(held.iter().flat_map(DisruptionCommand::receiving_nodes).cloned());
        world = Cow::Owned(with_commands_reserved(world.into_owned(), &held));
    }
    verdicts
}

/// Counts the command's nodes against the budgets.
fn charge_budgets(
    left: &mut NodePoolBudgets,
    input: &Input,
    command: &DisruptionCommand,
) -> Result<(), ValidationFailure> {
    let mut rest = left.clone();
    for node in &command.nodes {
        let pool = input.pools.iter().position(|pool| pool.name == node.pool);
        match pool.filter(|pool| rest.remaining(*pool, &command.reason()) > 0) {
            Some(pool) => rest.charge_node(pool),
            // Drift checks the budgets when it finds a command. Validation does not check them
            // again.
            None if matches!(command.method, Method::StaticDrift | Method::Drift) => {}
            None => return Err(ValidationFailure::Budget),
        }
    }
    *left = rest;
    Ok(())
}

/// Validates one command. Returns the command to carry out, and the command as a new pass would
/// find it, with its current placements.
fn validate_one(
    pass: &mut DisruptionPass<'_, '_>,
    command: &DisruptionCommand,
) -> Result<(DisruptionCommand, DisruptionCommand), ValidationFailure> {
    match command.method {
        Method::Emptiness => revalidate_emptiness(pass, command).map(|command| (command.clone(), command)),
        Method::StaticDrift | Method::Drift => Ok((command.clone(), command.clone())),
        Method::MultiNode | Method::SingleNode | Method::Move => revalidate_consolidation(pass, command),
    }
}

/// Returns the command for those nodes that are still empty and within the budgets.
fn revalidate_emptiness(
    pass: &mut DisruptionPass<'_, '_>,
    command: &DisruptionCommand,
) -> Result<DisruptionCommand, ValidationFailure> {
    let input = pass.survey.input;
    let candidates = pass.candidates(DisruptionClass::Graceful, |facts| emptiness::accepts(facts, input));
    let still = candidates_named_by(pass, &candidates, command);
    if still.is_empty() {
        return Err(ValidationFailure::Churn);
    }
    let within = emptiness::select_within_budgets(pass, &still, &command.reason());
    if within.is_empty() {
        return Err(ValidationFailure::Budget);
    }
    Ok(pass.build_command(command.method, &within, Vec::new(), None))
}

/// Validates that exactly these nodes can still be removed with the same replacements, or with
/// others that save no less. The second result has the current placements of the pods.
fn revalidate_consolidation(
    pass: &mut DisruptionPass<'_, '_>,
    command: &DisruptionCommand,
) -> Result<(DisruptionCommand, DisruptionCommand), ValidationFailure> {
    let input = pass.survey.input;
    let candidates = pass.candidates(DisruptionClass::Graceful, |facts| consolidation::accepts(facts, input));
    let still = candidates_named_by(pass, &candidates, command);
    if still.len() < command.nodes.len() {
        return Err(ValidationFailure::Churn);
    }
    if emptiness::select_within_budgets(pass, &still, &command.reason()).len() < still.len() {
        return Err(ValidationFailure::Budget);
    }
    let what_if = match command.method {
        Method::Move => pass.simulate_cheapest_removal(&still, command.price_before),
        Method::Emptiness | Method::StaticDrift | Method::Drift | Method::MultiNode | Method::SingleNode => {
            pass.simulate_removal(&still, Purpose::Consolidation)
        }
    };
    let what_if = what_if.ok_or(ValidationFailure::Churn)?;
    if !what_if.all_scheduled() {
        return Err(ValidationFailure::Scheduling(what_if.to_string()));
    }
    let is_offered = |types: &[Str], name: &Str| types.contains(name);
    // The new simulation is not filtered by price, so it may list more types.
    let same = what_if.claims.len() == command.replacements.len()
        && what_if.claims.iter().zip(&command.replacements).all(|(now, then)| {
            then.launch.instance_types.iter().all(|name| is_offered(&now.launch.instance_types, name))
        });
    if same {
        // Pods that were bound to the nodes meanwhile have a target as well.
        let pods = pass.build_command(command.method, &still, Vec::new(), None).pods;
        let command = DisruptionCommand { pods, ..command.clone() };
        return Ok((command.clone(), DisruptionCommand { placements: what_if.nodes, ..command }));
    }
    let found = match command.method {
        Method::Move => moves::compute(pass, &still),
        Method::Emptiness | Method::StaticDrift | Method::Drift | Method::MultiNode | Method::SingleNode => {
            consolidation::compute(pass, command.method, &still)
        }
    };
    match found.ok().filter(|found| found.saved() >= command.saved()) {
        Some(found) => {
            let found = DisruptionCommand { scores: command.scores.clone(), ..found };
            Ok((found.clone(), found))
        }
        None => Err(ValidationFailure::Scheduling("scheduling simulation produced new results".to_owned())),
    }
}

/// Returns the candidates that the command names, in the command's order.
fn candidates_named_by(
    pass: &DisruptionPass<'_, '_>,
    candidates: &[SurveyIx],
    command: &DisruptionCommand,
) -> Vec<SurveyIx> {
    let find = |name: &Str| candidates.iter().copied().find(|ix| pass.facts(*ix).name == *name);
    command.nodes.iter().filter_map(|node| find(&node.name)).collect()
}
