//! The two visible marks of a node that a command disrupts: the taint that keeps new pods away, and
//! the condition with the reason (spec 03 §2.3 and §10.1). Both objects are read from the API
//! server before they are written, so that no change of another writer is lost.
//!
//! A process that dies leaves its marks behind. [`remove_orphaned_marks`] removes those that belong
//! to no active command.

use std::time::Duration;

use futures::future::join_all;
use k8s_openapi::api::core::v1::{Node, Taint};
use kerf_api::conditions::{ConditionSet, DISRUPTION_REASON, ObjectFacts, dependents};
use kerf_api::nodeclaim::NodeClaim;
use kerf_api::slim::Str;
use kerf_api::taints::DISRUPTED;
use kerf_engine::BlockReason;
use kerf_runtime::{ApiError, MergePatch};

use crate::actions;
use crate::context::Context;
use crate::error::Error;
use crate::provisioning::is_disrupted;

/// Number of attempts to write a mark.
const MARK_ATTEMPTS_MAX: u32 = 4;
/// Delay after the first attempt. Each further delay is five times as long.
const MARK_RETRY_DELAY: Duration = Duration::from_millis(10);

/// Names of a node and its claim.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct CandidateNames {
    pub(crate) node: Str,
    pub(crate) claim: Str,
}

/// Marks a node and its claim. An object that no longer exists counts as marked. `check` runs
/// before each write of the disruption reason. Returns false if it returned a block reason; then
/// the disruption reason was not written.
pub(crate) async fn mark(
    ctx: &Context,
    names: &CandidateNames,
    reason: &str,
    check: impl Fn() -> Option<BlockReason>,
) -> Result<bool, Error> {
    with_retries("tainting node", || set_taint(ctx, &names.node, true)).await?;
    let mut delay = MARK_RETRY_DELAY;
    for attempts in 1.. {
        if check().is_some() {
            return Ok(false);
        }
        match set_disruption_reason(ctx, &names.claim, Some(reason)).await {
            Ok(()) | Err(ApiError::NotFound) => break,
            Err(cause) if attempts == MARK_ATTEMPTS_MAX => {
                return Err(Error::Api { operation: "setting disruption reason", cause });
            }
            Err(_) => {}
        }
        tokio::time::sleep(delay).await;
        delay *= 5;
    }
    Ok(true)
}

/// Removes the marks. A node that is being deleted keeps its taint.
pub(crate) async fn unmark(ctx: &Context, names: &CandidateNames) -> Result<(), Error> {
    let untainted = with_retries("removing taint", || set_taint(ctx, &names.node, false)).await;
    let cleared = with_retries("clearing disruption reason", || set_disruption_reason(ctx, &names.claim, None)).await;
    Error::combine([untainted, cleared].into_iter().filter_map(Result::err).collect())
}

/// Removes the marks of nodes that no active command disrupts. A process that died, or a command
/// that could not start, leaves such marks.
pub(crate) async fn remove_orphaned_marks(ctx: &Context, is_disrupting: impl Fn(&str) -> bool) -> Result<(), Error> {
    let orphaned: Vec<CandidateNames> = {
        let cluster = ctx.cluster.lock();
        let unmarked = cluster.state_nodes().filter(|state| !state.is_marked_for_deletion());
        unmarked
            .filter_map(|state| {
                let (node, claim) = (state.node?, state.claim?);
                let is_tainted = is_disrupted(node) && !node.metadata.is_terminating();
                let has_reason = state.is_initialized()
                    && claim.object.status.iter().flat_map(|status| &status.conditions).any(is_disruption_reason);
                let is_orphaned =
                    (is_tainted || has_reason) && !is_disrupting(claim.name()) && ctx.manages_claim(claim);
                is_orphaned.then(|| CandidateNames { node: node.metadata.name.clone(), claim: claim.name().clone() })
            })
            .collect()
    };
    let errors =
        join_all(orphaned.iter().map(|names| unmark(ctx, names))).await.into_iter().filter_map(Result::err).collect();
    Error::combine(errors)
}

fn is_disruption_reason(condition: &kerf_api::conditions::Condition) -> bool {
    condition.condition_type == DISRUPTION_REASON
}

/// Repeats an attempt up to [`MARK_ATTEMPTS_MAX`] times. An object that does not exist counts as
/// success.
async fn with_retries<R>(operation: &'static str, mut attempt: impl FnMut() -> R) -> Result<(), Error>
where
    R: Future<Output = Result<(), ApiError>>,
{
    let mut delay = MARK_RETRY_DELAY;
    for attempts in 1.. {
        match attempt().await {
            Ok(()) | Err(ApiError::NotFound) => break,
            Err(cause) if attempts == MARK_ATTEMPTS_MAX => return Err(Error::Api { operation, cause }),
            Err(_) => {}
        }
        tokio::time::sleep(delay).await;
        delay *= 5;
    }
    Ok(())
}

fn is_disrupted_taint(taint: &Taint) -> bool {
    taint.key == DISRUPTED && taint.effect == "NoSchedule"
}

async fn set_taint(ctx: &Context, name: &str, should_exist: bool) -> Result<(), ApiError> {
    let before: Node = actions::node::read(ctx, name).await?;
    let mut after = before.clone();
    let taints = after.spec.get_or_insert_default().taints.get_or_insert_default();
    if should_exist == taints.iter().any(is_disrupted_taint)
        || (!should_exist && before.metadata.deletion_timestamp.is_some())
    {
        return Ok(());
    }
    if should_exist {
        taints.push(Taint { key: DISRUPTED.to_owned(), effect: "NoSchedule".to_owned(), ..Taint::default() });
    } else {
        taints.retain(|taint| !is_disrupted_taint(taint));
    }
    actions::node::update(ctx, &before, &after).await
}

async fn set_disruption_reason(ctx: &Context, name: &str, reason: Option<&str>) -> Result<(), ApiError> {
    let before: NodeClaim = actions::claim::read(ctx, name).await?;
    let stored = before.status.as_ref().map(|status| status.conditions.clone()).unwrap_or_default();
    let mut conditions = ConditionSet::open(dependents::NODECLAIM, ObjectFacts::of(&before.metadata), stored);
    let is_changed = match reason {
        Some(reason) => conditions.set_true_with_reason(DISRUPTION_REASON, reason, reason, ctx.now()),
        // `DisruptionReason` is neither the root condition nor a dependent, so it can be cleared.
        None => conditions.clear(DISRUPTION_REASON).unwrap_or(false),
    };
    if !is_changed {
        return Ok(());
    }
    let mut after = before.clone();
    after.status.get_or_insert_default().conditions = conditions.into_conditions();
    actions::claim::update(ctx, MergePatch::STATUS, &before, &after).await.map(drop)
}
