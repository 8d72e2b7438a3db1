//! `nodepool.counter`: every five seconds writes the sum of a NodePool's resources into its status
//! (spec 04 §8.2).

use std::collections::BTreeMap;
use std::time::Duration;

use kerf_api::quantity::Quantity;
use kerf_api::slim::Str;
use kerf_api::unparsed::{QuantityText, Resources};
use kerf_runtime::{MergePatch, OptimisticLock, PatchTarget, ReconcileAction};

use crate::actions;
use crate::context::Context;
use crate::error::{Error, Interrupted, api_result};
use kerf_operator::Reconcile;

/// Interval between two counts.
const COUNT_INTERVAL: Duration = Duration::from_secs(5);
/// Delay before the next attempt while cluster state is not synced.
const UNSYNCED_RETRY_DELAY: Duration = Duration::from_secs(1);
/// Resources that the status always contains, even if zero.
const BASE_RESOURCES: [&str; 5] = ["cpu", "memory", "pods", "ephemeral-storage", "nodes"];

pub(crate) struct NodePoolCounter {
    ctx: Context,
}

impl NodePoolCounter {
    pub(crate) fn new(ctx: Context) -> Self {
        Self { ctx }
    }
}

impl Reconcile for NodePoolCounter {
    type Error = Error;

    async fn reconcile(&self, name: &Str) -> Result<ReconcileAction, Error> {
        let Some(pool) = self.ctx.managed_pool(name) else { return Ok(ReconcileAction::Done) };
        let usage = {
            let mut cluster = self.ctx.cluster.lock();
            if !cluster.check_synced().is_synced() {
                return Ok(ReconcileAction::RequeueAfter(UNSYNCED_RETRY_DELAY));
            }
            cluster.pool_usage(name)
        };
        let mut updated = pool.as_ref().clone();
        let status = updated.status.get_or_insert_default();
        status.nodes = Some(usage.get("nodes").map_or(0, |nodes| nodes.value()));
        status.resources = Some(status_resources(&usage, status.resources.as_ref()));
        let patch = MergePatch { target: PatchTarget::Status, lock: OptimisticLock::None };
        let outcome =
            api_result("patching nodepool status", actions::pool::update(&self.ctx, patch, &pool, &updated).await);
        Interrupted::into_result(outcome.map(|_| ReconcileAction::RequeueAfter(COUNT_INTERVAL)))
    }
}

/// Returns the usage for the status. A stored quantity of equal value keeps its text, so that
/// nothing is written.
fn status_resources(usage: &BTreeMap<Str, Quantity>, stored: Option<&Resources>) -> Resources {
    let zeros = BASE_RESOURCES.iter().map(|name| ((*name).to_owned(), Quantity::ZERO));
    let all: BTreeMap<String, Quantity> =
        zeros.chain(usage.iter().map(|(name, amount)| (name.to_string(), *amount))).collect();
    all.into_iter()
        .map(|(name, amount)| {
            let previous = stored.and_then(|stored| stored.get(&name));
            let same = previous
                .filter(|previous| previous.text().parse::<Quantity>().is_ok_and(|previous| previous == amount));
            let text = same.cloned().unwrap_or_else(|| QuantityText::from(amount.to_string()));
            (name, text)
        })
        .collect()
}
