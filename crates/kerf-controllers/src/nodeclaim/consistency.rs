//! `nodeclaim.consistency`: every ten minutes checks if the node of a claim has the promised
//! capacity (spec 04 §6.1).

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use jiff::Timestamp;
use kerf_api::conditions::{CONSISTENT_STATE_FOUND, ConditionSet, INITIALIZED, ObjectFacts, REGISTERED, dependents};
use kerf_api::quantity::Quantity;
use kerf_api::slim::{Node, Str};
use kerf_runtime::{MergePatch, ReconcileAction};
use kerf_state::TrackedClaim;
use tracing::info;

use crate::actions;
use crate::context::Context;
use crate::error::{Error, Interrupted, api_result};
use crate::events;
use kerf_operator::Reconcile;

/// Interval between two checks of a claim.
const CONSISTENCY_CHECK_INTERVAL: Duration = Duration::from_mins(10);
/// Least share of the promised capacity that the node must have, in tenths.
const CAPACITY_TENTHS_MIN: i128 = 9;

pub(crate) struct Consistency {
    ctx: Context,
    checks: Mutex<CheckTimes>,
}

/// Time of the last check of each claim.
#[derive(Debug, Default)]
struct CheckTimes {
    by_uid: BTreeMap<String, Timestamp>,
    /// Number of entries after the last removal of expired ones. They are removed again when the
    /// map has grown to twice this number, so that the cost per check stays constant however many
    /// claims there are.
    len_after_cleanup: usize,
}

impl Consistency {
    pub(crate) fn new(ctx: Context) -> Self {
        Self { ctx, checks: Mutex::default() }
    }

    /// Returns the remaining wait before the claim's next check. If there is none, records that a
    /// check begins now and returns `None`.
    fn wait_or_begin_check(&self, uid: &str) -> Option<Duration> {
        let now = self.ctx.now();
        let mut checks = self.checks.lock().unwrap_or_else(PoisonError::into_inner);
        let age = |at: &Timestamp| Duration::try_from(now.duration_since(*at)).unwrap_or_default();
        let wait = checks
            .by_uid
            .get(uid)
            .map(|at| CONSISTENCY_CHECK_INTERVAL.saturating_sub(age(at)))
            .filter(|wait| !wait.is_zero());
        if wait.is_none() {
            if checks.by_uid.len() > 2 * checks.len_after_cleanup {
                checks.by_uid.retain(|_, at| age(at) < CONSISTENCY_CHECK_INTERVAL);
                checks.len_after_cleanup = checks.by_uid.len();
            }
            checks.by_uid.insert(uid.to_owned(), now);
        }
        wait
    }

    async fn write_condition(&self, claim: &TrackedClaim, is_consistent: bool) -> Result<ReconcileAction, Interrupted> {
        let mut updated = claim.object.clone();
        let status = updated.status.get_or_insert_default();
        let stored = std::mem::take(&mut status.conditions);
        let mut conditions = ConditionSet::open(dependents::NODECLAIM, ObjectFacts::of(&claim.object.metadata), stored);
        let now = self.ctx.now();
        if !is_consistent {
            conditions.set_false(CONSISTENT_STATE_FOUND, "ConsistencyCheckFailed", "Consistency Check Failed", now);
        } else if !conditions.is_true(CONSISTENT_STATE_FOUND) {
            conditions.set_true(CONSISTENT_STATE_FOUND, now);
        }
        status.conditions = conditions.into_conditions();
        let written = actions::claim::update(&self.ctx, MergePatch::STATUS, &claim.object, &updated).await;
        api_result("patching nodeclaim status", written)?;
        Ok(ReconcileAction::RequeueAfter(CONSISTENCY_CHECK_INTERVAL))
    }
}

impl Reconcile for Consistency {
    type Error = Error;

    async fn reconcile(&self, name: &Str) -> Result<ReconcileAction, Error> {
        let Some(claim) = self.ctx.managed_claim(name) else { return Ok(ReconcileAction::Done) };
        if claim.engine_claim.provider_id.is_empty() {
            return Ok(ReconcileAction::Done);
        }
        if let Some(wait) = self.wait_or_begin_check(claim.uid()) {
            return Ok(ReconcileAction::RequeueAfter(wait));
        }
        let node = {
            let cluster = self.ctx.cluster.lock();
            let mut nodes = cluster.nodes_of(&claim.engine_claim.provider_id);
            let first = nodes.next().cloned();
            // An unregistered node is skipped: there is nothing to compare yet, and a write would
            // make the write of registration fail with a conflict.
            first.filter(|_| nodes.next().is_none() && claim.is_condition_true(REGISTERED))
        };
        let Some(node) = node else { return Ok(ReconcileAction::Done) };
        let issues = shape_issues(&claim, &node);
        for issue in &issues {
            info!(NodeClaim = name.as_str(), issue, "failed consistency check");
            self.ctx.publish(events::failed_consistency_check(&claim, issue));
        }
        Interrupted::into_result(self.write_condition(&claim, issues.is_empty()).await)
    }
}

/// Returns the resources of which the node has less than nine tenths of what was promised.
fn shape_issues(claim: &TrackedClaim, node: &Node) -> Vec<String> {
    if claim.is_terminating() || !claim.is_condition_true(INITIALIZED) {
        return Vec::new();
    }
    let requests = claim.object.spec.resources.as_ref().and_then(|resources| resources.requests.as_ref());
    let mut issues = Vec::new();
    for (name, requested) in requests.into_iter().flatten() {
        let is_requested = requested.text().parse::<Quantity>().is_ok_and(|amount| !amount.is_zero());
        let expected = claim.engine_claim.capacity.get(name).unwrap_or_default();
        let actual = node.status.capacity.get(name).unwrap_or_default();
        if !is_requested || expected.nanos() <= 0 {
            continue;
        }
        if actual.nanos().saturating_mul(10) < expected.nanos().saturating_mul(CAPACITY_TENTHS_MIN) {
            let half = expected.nanos() / 2;
            let thousandths = actual.nanos().saturating_mul(1000).saturating_add(half).div_euclid(expected.nanos());
            issues.push(format!(
                "expected {expected} of resource {name}, but found {actual} ({}.{}% of expected)",
                thousandths / 10,
                (thousandths % 10).abs()
            ));
        }
    }
    issues
}
