//! `metrics.nodepool`: every ten seconds sets the hourly price of a NodePool's claims (spec 04
//! §13.2), at the provider's current prices. A claim without labels for instance type, zone and
//! capacity type counts as free.

use std::collections::BTreeMap;
use std::time::Duration;

use kerf_api::labels;
use kerf_api::slim::Str;
use kerf_cloud::InstanceTypesError;
use kerf_engine::Price;
use kerf_engine::catalogue::InstanceType;
use kerf_engine::requirement::Requirement;
use kerf_runtime::ReconcileAction;
use kerf_state::TrackedClaim;
use tracing::{debug, error};

use crate::context::Context;
use crate::error::Error;
use kerf_operator::Reconcile;

/// Interval between two updates.
const COST_UPDATE_INTERVAL: Duration = Duration::from_secs(10);

pub(crate) struct NodePoolCost {
    ctx: Context,
}

impl NodePoolCost {
    pub(crate) fn new(ctx: Context) -> Self {
        Self { ctx }
    }
}

impl Reconcile for NodePoolCost {
    type Error = Error;

    async fn reconcile(&self, name: &Str) -> Result<ReconcileAction, Error> {
        let metrics = &self.ctx.metrics;
        let Some(pool) = self.ctx.managed_pool(name) else {
            metrics.nodepools_cost.remove(&[name]);
            return Ok(ReconcileAction::Done);
        };
        match self.ctx.cloud.instance_types(&pool).await {
            Ok(types) => {
                let types: BTreeMap<&str, &InstanceType> = types.types().iter().map(|t| (t.name.as_str(), t)).collect();
                let cluster = self.ctx.cluster.lock();
                let prices = cluster.claims_of_pool(name).filter_map(|claim| price(claim, &types));
                metrics.nodepools_cost.set(&[name], prices.sum::<Price>().dollars());
            }
            // The pool has no nodes before its class is resolved.
            Err(cause @ InstanceTypesError::ClassUnresolved(_)) => {
                debug!(error = %cause, "cannot determine the cost of nodepool yet");
            }
            Err(cause) => {
                error!(error = %cause, "failed to determine the cost of nodepool");
                metrics.nodepools_cost_tracker_errors.inc(&[name]);
            }
        }
        Ok(ReconcileAction::RequeueAfter(COST_UPDATE_INTERVAL))
    }
}

/// Returns the hourly price of the claim's offering. Returns `None` if its labels name no known
/// offering.
fn price(claim: &TrackedClaim, types: &BTreeMap<&str, &InstanceType>) -> Option<Price> {
    let label = |key: &str| claim.engine_claim.labels.get(key);
    let (zone, capacity_type) = (label(labels::ZONE)?, label(labels::CAPACITY_TYPE)?);
    let instance_type = types.get(label(labels::INSTANCE_TYPE)?)?;
    let allows = |requirement: Option<&Requirement>, value: &str| requirement.is_some_and(|r| r.has(value));
    let offering = instance_type.offerings.iter().find(|o| {
        allows(o.requirements.get(labels::ZONE), zone)
            && allows(o.requirements.get(labels::CAPACITY_TYPE), capacity_type)
    })?;
    Some(offering.price)
}
