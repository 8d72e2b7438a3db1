//! The controllers of NodeClaims.

pub(crate) mod consistency;
pub(crate) mod disruption;
pub(crate) mod expiration;
pub(crate) mod garbagecollection;
pub(crate) mod hydration;
pub(crate) mod lifecycle;
pub(crate) mod podevents;
pub(crate) mod stale;

use kerf_runtime::ApiError;
use kerf_state::TrackedClaim;

use crate::actions;
use crate::context::Context;
use crate::error::Error;
use crate::node::termination::is_reschedulable;

/// Deletes a claim whatever runs on its node. Counts the disruption under `reason`, with the number
/// of pods that must move to another node. Returns false if the claim did not exist any more; then
/// nothing is counted.
pub(crate) async fn delete_disrupted(ctx: &Context, claim: &TrackedClaim, reason: &str) -> Result<bool, Error> {
    match actions::claim::delete(ctx, &claim.object).await {
        Ok(()) => {
            let node = claim.object.status.as_ref().and_then(|status| status.node_name.as_deref()).unwrap_or_default();
            let pods = ctx.cluster.lock().pods_on(node).filter(|pod| is_reschedulable(pod)).count();
            ctx.metrics.claim_disrupted(&claim.object, reason, pods);
            Ok(true)
        }
        Err(ApiError::NotFound) => Ok(false),
        Err(cause) => Err(Error::Api { operation: "deleting nodeclaim", cause }),
    }
}
