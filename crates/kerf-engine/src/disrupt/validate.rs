//! The second look (spec 03 §9): a command that was computed on one world is held against a newer one before it is carried out.

use std::fmt;

use kerf_api::slim::Str;

use super::budgets::Budgets;
use super::command::{Command, Method};
use super::input::DisruptionSettings;
use super::pass::{FactsIx, Pass};
use super::simulate::Purpose;
use super::survey::{Class, Survey};
use super::{consolidation, emptiness, without_failed_launches};
use crate::world::Input;

/// Why a command no longer holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Rejection {
    /// Its nodes are no longer candidates.
    Churn,
    /// The budgets no longer allow it.
    Budget,
    /// Its pods would end up differently; the text says how.
    Scheduling(String),
}

impl Rejection {
    /// The category that events name.
    pub fn category(&self) -> &'static str {
        match self {
            Self::Churn => "churn",
            Self::Budget => "budget",
            Self::Scheduling(_) => "scheduling",
        }
    }
}

impl fmt::Display for Rejection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Churn => f.write_str("candidates are no longer valid"),
            Self::Budget => f.write_str("budgets no longer allow it"),
            Self::Scheduling(text) => f.write_str(text),
        }
    }
}

impl std::error::Error for Rejection {}

/// Whether a command still holds on a newer world, and what is left of it. Drift is carried out without a second look.
pub fn validate(input: &Input, settings: &DisruptionSettings, command: &Command) -> Result<Command, Rejection> {
    let world = without_failed_launches(input);
    let survey = Survey::new(&world);
    let budgets = Budgets::new(&survey, &mut Vec::new());
    let mut pass = Pass::new(&survey, settings, &budgets);
    match command.method {
        Method::Emptiness => still_empty(&mut pass, command),
        Method::StaticDrift | Method::Drift => Ok(command.clone()),
        Method::MultiNode | Method::SingleNode | Method::Move => {
            still_pays(&mut pass, command).map(|()| command.clone())
        }
    }
}

/// Those of the nodes that are still empty and within budget.
fn still_empty(pass: &mut Pass<'_, '_>, command: &Command) -> Result<Command, Rejection> {
    let input = pass.survey.input;
    let candidates = pass.candidates(Class::Graceful, |facts| emptiness::accepts(facts, input));
    let still = named(pass, &candidates, command);
    if still.is_empty() {
        return Err(Rejection::Churn);
    }
    let within = emptiness::within_budgets(pass, &still, &command.reason());
    if within.is_empty() {
        return Err(Rejection::Budget);
    }
    Ok(pass.command(command.method, &within, Vec::new(), None))
}

/// Whether the very same nodes can still go in the very same way.
fn still_pays(pass: &mut Pass<'_, '_>, command: &Command) -> Result<(), Rejection> {
    let input = pass.survey.input;
    let candidates = pass.candidates(Class::Graceful, |facts| consolidation::accepts(facts, input));
    let still = named(pass, &candidates, command);
    if still.len() < command.nodes.len() {
        return Err(Rejection::Churn);
    }
    if emptiness::within_budgets(pass, &still, &command.reason()).len() < still.len() {
        return Err(Rejection::Budget);
    }
    let what_if = match command.method {
        Method::Move => pass.cheapest_without(&still, command.before),
        Method::Emptiness | Method::StaticDrift | Method::Drift | Method::MultiNode | Method::SingleNode => {
            pass.without(&still, Purpose::Consolidation)
        }
    };
    let what_if = what_if.ok_or(Rejection::Churn)?;
    if !what_if.all_scheduled() {
        return Err(Rejection::Scheduling(what_if.to_string()));
    }
    let is_offered = |types: &[Str], name: &Str| types.contains(name);
    // The new answer is not narrowed by price, so it may list more.
    let same = what_if.claims.len() == command.replacements.len()
        && what_if.claims.iter().zip(&command.replacements).all(|(now, then)| {
            then.launch.instance_types.iter().all(|name| is_offered(&now.launch.instance_types, name))
        });
    if same { Ok(()) } else { Err(Rejection::Scheduling("scheduling simulation produced new results".to_owned())) }
}

/// The candidates that the command names, in its order.
fn named(pass: &Pass<'_, '_>, candidates: &[FactsIx], command: &Command) -> Vec<FactsIx> {
    let find = |name: &Str| candidates.iter().copied().find(|ix| pass.facts(*ix).name == *name);
    command.nodes.iter().filter_map(|node| find(&node.name)).collect()
}
