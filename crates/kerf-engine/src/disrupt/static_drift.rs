//! Drift of static NodePools (spec 03 §8.2): each drifted node is replaced by one node from the
//! pool's template. The node's pods do not influence the replacement.

use std::sync::Arc;

use kerf_api::labels::{self, LabelRules};
use kerf_api::nodepool::{DisruptionReason, NODES_RESOURCE};

use super::block_reason::BlockReason;
use super::command::{DisruptionCommand, Method};
use super::drift::drifted_at;
use super::pass::{DisruptionPass, SurveyIx};
use super::survey::DisruptionClass;
use crate::catalogue::InstanceTypes;
use crate::cluster::PoolInput;
use crate::pod::requirements::expression_requirement;
use crate::requirement::{Requirements, UndefinedLabels};
use crate::solve::{LaunchEstimate, LaunchOptions, PlannedClaim, launch_rank};

const NANOS: i128 = 1_000_000_000;

pub(crate) fn commands(pass: &mut DisruptionPass<'_, '_>) -> Vec<DisruptionCommand> {
    let input = pass.survey.input;
    let mut candidates = pass.candidates(DisruptionClass::Eventual, |f| f.drift.is_some() && f.is_static(input));
    candidates.sort_by_key(|ix| {
        let facts = pass.facts(*ix);
        (facts.pool, drifted_at(facts, input.at), &facts.name)
    });
    let mut commands = Vec::new();
    let nodes = &pass.survey.nodes;
    for pool_candidates in candidates.chunk_by(|a, b| nodes[*a].pool == nodes[*b].pool) {
        if let Some(pool) = pool_candidates.first().and_then(|ix| pass.facts(*ix).pool) {
            let (count, block) = count_within_limits(pass, pool, pool_candidates);
            for ix in &pool_candidates[count..] {
                pass.record_block(*ix, block.clone());
            }
            for ix in &pool_candidates[..count] {
                let pool_input = &input.pools[pool];
                let types = pass.survey.types_of(pool_input).cloned().unwrap_or_default();
                let replacement = claim_from_template(pool_input, &types, &input.label_rules);
                commands.push(pass.build_command(Method::StaticDrift, &[*ix], vec![replacement], None));
            }
        }
    }
    commands
}

/// Returns how many of the pool's candidates may be replaced now, and the block reason of the
/// others.
fn count_within_limits(pass: &DisruptionPass<'_, '_>, pool: usize, candidates: &[SurveyIx]) -> (usize, BlockReason) {
    let pool_input = &pass.survey.input.pools[pool];
    let left = pass.budgets.remaining(pool, &DisruptionReason::Drifted) as usize;
    if left == 0 {
        return (0, BlockReason::DisruptionBudget(DisruptionReason::Drifted));
    }
    let claims = || {
        let all = pass.survey.nodes.iter().filter_map(|f| f.claim);
        all.filter(|c| c.labels.has_value(labels::NODEPOOL, &pool_input.name))
    };
    // Nodes of active commands still count, because their replacements are being launched.
    let claim_count = claims().filter(|c| !c.is_deleting).count();
    if claim_count > pool_input.disruption.replicas.unwrap_or(0) as usize {
        return (0, BlockReason::ScaleDownFirst(pool_input.name.clone()));
    }
    let free_slots = pool_input.limits.get(NODES_RESOURCE).map_or(usize::MAX, |limit| {
        usize::try_from(limit.nanos() / NANOS).unwrap_or(0).saturating_sub(claims().count())
    });
    let by_budget = left.min(candidates.len());
    let by_surge = pass.budgets.remaining_surge(pool) as usize;
    if by_surge < by_budget.min(free_slots) {
        return (by_surge, BlockReason::DriftSurge);
    }
    if free_slots < by_budget {
        (free_slots, BlockReason::NodeLimit(pool_input.name.clone()))
    } else {
        (by_budget, BlockReason::DisruptionBudget(DisruptionReason::Drifted))
    }
}

/// Builds a claim with exactly the requirements of the pool's template. `types` are the pool's
/// instance types and serve only to estimate the price. If none fits, the claim has no estimate.
pub fn claim_from_template(pool: &PoolInput, types: &InstanceTypes, rules: &LabelRules) -> PlannedClaim {
    let mut requirements: Requirements = pool
        .requirements
        .iter()
        .map(|r| expression_requirement(&r.expression, rules).with_min_values(r.min_values))
        .collect();
    requirements.add_all(&Requirements::from_labels(rules, &pool.labels));
    let fitting = types.iter().filter(|t| t.requirements.intersects(&requirements).is_ok());
    let launches = fitting.flat_map(|t| {
        let offered = t.offerings().filter(|o| o.is_launchable());
        offered
            .filter(|o| requirements.compatible(&o.requirements, UndefinedLabels::AllowWellKnown(rules)).is_ok())
            .map(move |o| (t, o))
    });
    let value = |o: &crate::catalogue::Offering, key: &str| {
        o.requirements.get(key).and_then(crate::requirement::Requirement::pick_value).unwrap_or_default()
    };
    let estimates = launches.map(|(t, o)| LaunchEstimate {
        instance_type: t.name.clone(),
        zone: value(&o, labels::ZONE),
        capacity_type: value(&o, labels::CAPACITY_TYPE),
        price: o.price,
    });
    let estimate = estimates.min_by(|a, b| {
        let rank = |e: &LaunchEstimate| launch_rank(&e.capacity_type);
        (a.price, &a.instance_type, rank(a), &a.zone).cmp(&(b.price, &b.instance_type, rank(b), &b.zone))
    });
    let launch = LaunchOptions { instance_types: Vec::new(), labels: pool.labels.clone(), requirements, estimate };
    PlannedClaim {
        pool: pool.name.clone(),
        pods: Vec::new(),
        launch: Arc::new(launch),
        requests: kerf_api::slim::ResourceList::default(),
        min_values_relaxed: false,
    }
}
