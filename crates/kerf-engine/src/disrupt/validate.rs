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
    let result = validate_all(input, settings, std::slice::from_ref(command)).pop();
    result.unwrap_or(Err(ValidationFailure::Churn))
}

/// Validates commands that were found together, each on the assumption that those before it are
/// carried out: together they keep the budgets, and no two of them use the same free capacity.
/// Returns one result per command, in order.
pub fn validate_all(
    input: &Input,
    settings: &DisruptionSettings,
    commands: &[DisruptionCommand],
) -> Vec<Result<DisruptionCommand, ValidationFailure>> {
    let mut current = without_failed_launches(input);
    let mut budgets: Option<NodePoolBudgets> = None;
    let mut excluded = FxHashSet::default();
    let mut results = Vec::with_capacity(commands.len());
    while results.len() < commands.len() {
        let survey = Survey::new(&current);
        let planned = PlannedNodes { launched: FxHashSet::default(), excluded };
        let budgets_left = budgets.get_or_insert_with(|| NodePoolBudgets::new(&survey, &mut Vec::new()));
        let initial_budgets = budgets_left.clone();
        let mut pass = DisruptionPass::new(&survey, settings, &initial_budgets).with_planned_nodes(&planned);
        let mut used_nodes: FxHashSet<Str> = FxHashSet::default();
        let mut valid: Vec<DisruptionCommand> = Vec::new();
        while let Some(command) = commands.get(results.len()) {
            let result = validate_one(&mut pass, command);
            let involved: FxHashSet<Str> = result
                .iter()
                .flat_map(|(_, revalidated)| next_commands::involved_nodes(revalidated))
                .cloned()
                .collect();
            // An invalid command, or one that uses nodes of another, may be valid once the earlier
            // valid commands are applied. So it is validated again on that input.
            let is_independent = result.is_ok() && involved.is_disjoint(&used_nodes);
            if !is_independent && !valid.is_empty() {
                break;
            }
            results.push(result.and_then(|(command, revalidated)| {
                charge_budgets(budgets_left, input, &command)?;
                used_nodes.extend(involved);
                valid.push(DisruptionCommand { placements: revalidated.placements, ..command.clone() });
                Ok(command)
            }));
        }
        if results.len() == commands.len() {
            break;
        }
        excluded = planned.excluded;
        excluded.extend(valid.iter().flat_map(DisruptionCommand::receiving_nodes).cloned());
        current = Cow::Owned(with_commands_reserved(current.into_owned(), &valid));
    }
    results
}

/// Counts the command's nodes against the budgets.
fn charge_budgets(
    budgets_left: &mut NodePoolBudgets,
    input: &Input,
    command: &DisruptionCommand,
) -> Result<(), ValidationFailure> {
    let mut new_budgets = budgets_left.clone();
    for node in &command.nodes {
        let pool = input.pools.iter().position(|pool| pool.name == node.pool);
        match pool.filter(|pool| new_budgets.remaining(*pool, &command.reason()) > 0) {
            Some(pool) => new_budgets.charge_node(pool),
            // Drift checks the budgets when it finds a command. Validation does not check them
            // again.
            None if matches!(command.method, Method::StaticDrift | Method::Drift) => {}
            None => return Err(ValidationFailure::Budget),
        }
    }
    *budgets_left = new_budgets;
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
    let nodes = candidates_named_by(pass, &candidates, command);
    if nodes.is_empty() {
        return Err(ValidationFailure::Churn);
    }
    let within = emptiness::select_within_budgets(pass, &nodes, &command.reason());
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
    let nodes = candidates_named_by(pass, &candidates, command);
    if nodes.len() < command.nodes.len() {
        return Err(ValidationFailure::Churn);
    }
    if emptiness::select_within_budgets(pass, &nodes, &command.reason()).len() < nodes.len() {
        return Err(ValidationFailure::Budget);
    }
    let simulation = match command.method {
        Method::Move => pass.simulate_cheapest_removal(&nodes, command.price_before),
        Method::Emptiness | Method::StaticDrift | Method::Drift | Method::MultiNode | Method::SingleNode => {
            pass.simulate_removal(&nodes, Purpose::Consolidation)
        }
    };
    let simulation = simulation.ok_or(ValidationFailure::Churn)?;
    if !simulation.all_scheduled() {
        return Err(ValidationFailure::Scheduling(simulation.to_string()));
    }
    let is_offered = |types: &[Str], name: &Str| types.contains(name);
    // The new simulation is not filtered by price, so it may list more types.
    let is_unchanged = simulation.claims.len() == command.replacements.len()
        && simulation.claims.iter().zip(&command.replacements).all(|(new, old)| {
            old.launch.instance_types.iter().all(|name| is_offered(&new.launch.instance_types, name))
        });
    if is_unchanged {
        // Pods that were bound to the nodes meanwhile have a target as well.
        let pods = pass.build_command(command.method, &nodes, Vec::new(), None).pods;
        let command = DisruptionCommand { pods, ..command.clone() };
        return Ok((command.clone(), DisruptionCommand { placements: simulation.nodes, ..command }));
    }
    let revalidated = match command.method {
        Method::Move => moves::compute(pass, &nodes),
        Method::Emptiness | Method::StaticDrift | Method::Drift | Method::MultiNode | Method::SingleNode => {
            consolidation::compute(pass, command.method, &nodes)
        }
    };
    match revalidated.ok().filter(|revalidated| revalidated.saved() >= command.saved()) {
        Some(revalidated) => {
            let revalidated = DisruptionCommand { scores: command.scores.clone(), ..revalidated };
            Ok((revalidated.clone(), revalidated))
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
