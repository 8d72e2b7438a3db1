//! Writes to NodeClaims that controllers of Kerf and of providers make alike.

use kerf_api::nodeclaim::NodeClaim;
use kerf_runtime::{ApiError, with_retries};
use kerf_state::TrackedClaim;
use kube::Client;
use kube::api::{Api, DeleteParams, Preconditions};

use crate::cluster::SharedCluster;

/// Deletes a NodeClaim and records the deletion in cluster state, so that the next decision knows
/// it. The UID precondition protects a newer claim of that name. Fails with
/// [`ApiError::NotFound`] or [`ApiError::Conflict`] if the claim no longer exists.
pub async fn delete_claim(client: &Client, cluster: &SharedCluster, claim: &NodeClaim) -> Result<(), ApiError> {
    let claims: Api<NodeClaim> = Api::all(client.clone());
    let name = claim.metadata.name.as_deref().unwrap_or_default();
    let preconditions = Some(Preconditions { uid: claim.metadata.uid.clone(), resource_version: None });
    let params = DeleteParams { preconditions, ..DeleteParams::default() };
    let deleted = with_retries(|| claims.delete(name, &params)).await?;
    if let Some(deleting) = deleted.left() {
        cluster.lock().apply_own_write(TrackedClaim::from(deleting));
    }
    Ok(())
}
