//! Nodes that are no longer what their pool says are replaced one at a time, the longest drifted first, whatever that costs (spec 03 §8.3).

use kerf_api::nodepool::DisruptionReason;

use super::block::{Block, sentence};
use super::command::{Command, Method};
use super::pass::Pass;
use super::simulate::Purpose;
use super::survey::{Class, Facts};

pub(crate) fn commands(pass: &mut Pass<'_, '_>) -> Vec<Command> {
    let input = pass.survey.input;
    let mut candidates = pass.candidates(Class::Eventual, |f| f.drift.is_some() && !f.is_static(input));
    candidates.sort_by_key(|ix| {
        let facts = pass.facts(*ix);
        (!facts.reschedulable.is_empty(), drifted_at(facts, input.at), &facts.name)
    });
    for ix in candidates {
        let Some(pool) = pass.facts(ix).pool else { continue };
        if pass.budgets.left(pool, &DisruptionReason::Drifted) == 0 {
            pass.leave(ix, Block::Budget(DisruptionReason::Drifted));
            continue;
        }
        if let Some(until) = input.pools[pool].disruption.drift_backoff_until.filter(|until| input.at < *until) {
            pass.leave(ix, Block::DriftBackoff { until });
            continue;
        }
        let Some(what_if) = pass.without(&[ix], Purpose::Drift) else { continue };
        if what_if.all_scheduled() {
            let replacements = what_if.claims.clone();
            return vec![pass.command(Method::Drift, &[ix], replacements, Some(what_if))];
        }
        pass.leave(ix, Block::Unschedulable(sentence(&what_if.to_string())));
    }
    Vec::new()
}

/// Since when it has drifted; a drift that nobody has noted yet begins now.
pub(crate) fn drifted_at(facts: &Facts<'_>, now: jiff::Timestamp) -> jiff::Timestamp {
    facts.claim.and_then(|c| c.lifecycle.drifted_at).unwrap_or(now)
}
