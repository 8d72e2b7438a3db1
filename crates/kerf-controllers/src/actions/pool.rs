//! Writes to NodePools.

use kerf_api::nodepool::NodePool;
use kerf_runtime::{ApiError, MergePatch, with_retries};
use kube::api::Api;

use crate::context::Context;

/// Writes the difference between two states of a NodePool and returns the stored NodePool.
pub(crate) async fn update(
    ctx: &Context,
    patch: MergePatch,
    before: &NodePool,
    after: &NodePool,
) -> Result<NodePool, ApiError> {
    let api: Api<NodePool> = Api::all(ctx.client.clone());
    // Most reconciles change nothing. This check costs far less than serializing both states.
    if before == after {
        return Ok(before.clone());
    }
    match patch.send(&api, before, after).await? {
        Some(written) => {
            ctx.cluster.lock().apply_own_write(written.clone());
            Ok(written)
        }
        None => Ok(before.clone()),
    }
}

/// Reads a NodePool from the API server, not from cluster state.
pub(crate) async fn read(ctx: &Context, name: &str) -> Result<NodePool, ApiError> {
    let api: Api<NodePool> = Api::all(ctx.client.clone());
    with_retries(|| async { api.get(name).await }).await
}
