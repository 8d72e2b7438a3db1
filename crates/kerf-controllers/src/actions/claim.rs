//! Writes to NodeClaims: metadata and status. Their spec never changes.

use kerf_api::nodeclaim::NodeClaim;
use kerf_runtime::{ApiError, MergePatch, PatchTarget, with_retries};
use kerf_state::TrackedClaim;
use kube::api::{Api, PostParams};
use serde_json::json;

use crate::context::Context;

fn api(ctx: &Context) -> Api<NodeClaim> {
    Api::all(ctx.client.clone())
}

/// Creates a claim under a name that the API server generates. Cluster state is unsynced until the
/// claim is launched, so no other decision is made before.
///
/// If the response is lost, the claim may exist all the same. Then the watch delivers it, and the
/// next pass counts its capacity.
pub(crate) async fn create(ctx: &Context, claim: &NodeClaim) -> Result<NodeClaim, ApiError> {
    let created = with_retries(|| async { api(ctx).create(&PostParams::default(), claim).await }).await?;
    ctx.cluster.lock().insert_created(TrackedClaim::from(created.clone()));
    Ok(created)
}

/// Writes the difference between two states of a claim and returns the stored claim.
pub(crate) async fn update(
    ctx: &Context,
    patch: MergePatch,
    before: &NodeClaim,
    after: &NodeClaim,
) -> Result<NodeClaim, ApiError> {
    // Most reconciles change nothing. This check costs far less than serializing both states.
    if before == after {
        return Ok(before.clone());
    }
    let patched_part = |claim: &NodeClaim| match patch.target {
        PatchTarget::Object => serde_json::to_value(&claim.metadata).map(|metadata| json!({ "metadata": metadata })),
        PatchTarget::Status => serde_json::to_value(&claim.status).map(|status| json!({ "status": status })),
    };
    match patch.send_part(&api(ctx), &before.metadata, &patched_part(before)?, &patched_part(after)?).await? {
        Some(written) => {
            ctx.cluster.lock().apply_own_write(TrackedClaim::from(written.clone()));
            Ok(written)
        }
        None => Ok(before.clone()),
    }
}

/// Deletes a claim. The UID precondition protects a newer claim of that name.
pub(crate) async fn delete(ctx: &Context, claim: &NodeClaim) -> Result<(), ApiError> {
    kerf_operator::delete_claim(&ctx.client, &ctx.cluster, claim).await
}

/// Reads a claim from the API server, not from cluster state.
pub(crate) async fn read(ctx: &Context, name: &str) -> Result<NodeClaim, ApiError> {
    with_retries(|| async { api(ctx).get(name).await }).await
}

/// Returns true if the API server has a claim with this name.
pub(crate) async fn exists(ctx: &Context, name: &str) -> Result<bool, ApiError> {
    with_retries(|| async { api(ctx).get_opt(name).await }).await.map(|claim| claim.is_some())
}
