//! Nodes that are no longer what their pool says are replaced one at a time, the longest drifted first, whatever that costs (spec 03 §8.3).
//!
//! Their pods are not sent to nodes that have drifted themselves, if there is another way: they would only have to move again, and the
//! node that takes them in would have to wait for them.

use kerf_api::nodepool::DisruptionReason;

use super::block_reason::{Block, sentence};
use super::command::{Command, Method};
use super::independent_commands::Batch;
use super::pass::{FactsIx, Pass};
use super::simulate::{Purpose, WhatIf};
use super::survey::{Class, Facts};
use crate::bits::Bits;

pub(crate) fn commands(pass: &mut Pass<'_, '_>) -> Vec<Command> {
    let input = pass.survey.input;
    let mut candidates = pass.candidates(Class::Eventual, |f| f.drift.is_some() && !f.is_static(input));
    candidates.sort_by_key(|ix| {
        let facts = pass.facts(*ix);
        (!facts.reschedulable.is_empty(), drifted_at(facts, input.at), &facts.name)
    });
    let mut batch = Batch::new(pass);
    // Where nobody may go, the cluster need not be prepared for questions.
    let may_go = |ix: &FactsIx| pass.is_granted(&batch.budgets, *ix, &DisruptionReason::Drifted);
    let mut leaving = if candidates.iter().any(may_go) { pass.known(&candidates) } else { Bits::new() };
    for ix in candidates {
        if !batch.is_open() {
            break;
        }
        if batch.touches(pass, ix) {
            continue;
        }
        match alone(pass, ix, &batch, &leaving) {
            Ok(command) => batch.add(pass, ix, command),
            Err(block) => {
                // One that only waits for its turn will go all the same.
                if !matches!(block, Block::Budget(_)) {
                    leaving.and_not_with(&pass.known(&[ix]));
                }
                pass.leave(ix, block);
            }
        }
    }
    batch.into_commands()
}

fn alone(pass: &mut Pass<'_, '_>, ix: FactsIx, batch: &Batch, leaving: &Bits) -> Result<Command, Block> {
    let input = pass.survey.input;
    let reason = DisruptionReason::Drifted;
    let pool = pass.facts(ix).pool.filter(|pool| batch.budgets.left(*pool, &reason) > 0);
    let Some(pool) = pool else { return Err(Block::Budget(reason)) };
    if let Some(until) = input.pools[pool].disruption.drift_backoff_until.filter(|until| input.at < *until) {
        return Err(Block::DriftBackoff { until });
    }
    let once = pass.without_sending_to(ix, leaving).filter(WhatIf::all_scheduled);
    let what_if = once.or_else(|| pass.without(&[ix], Purpose::Drift)).ok_or(Block::NoNode)?;
    if !what_if.all_scheduled() {
        return Err(Block::Unschedulable(sentence(&what_if.to_string())));
    }
    let replacements = what_if.claims.clone();
    Ok(pass.command(Method::Drift, &[ix], replacements, Some(what_if)))
}

/// Since when it has drifted; a drift that nobody has noted yet begins now.
pub(crate) fn drifted_at(facts: &Facts<'_>, now: jiff::Timestamp) -> jiff::Timestamp {
    facts.claim.and_then(|c| c.lifecycle.drifted_at).unwrap_or(now)
}
