//! Writes to Nodes. Cluster state holds only some fields of a Node, so a caller that replaces a
//! list reads the whole Node first.

use k8s_openapi::api::core::v1::Node;
use kerf_api::finalizers::TERMINATION;
use kerf_runtime::{ApiError, MergePatch, with_retries};
use kube::api::{Api, DeleteParams, Patch, PatchParams, Preconditions};
use serde_json::json;

use crate::context::Context;

fn api(ctx: &Context) -> Api<Node> {
    Api::all(ctx.client.clone())
}

/// Reads the whole Node from the API server.
pub(crate) async fn read(ctx: &Context, name: &str) -> Result<Node, ApiError> {
    with_retries(|| async { api(ctx).get(name).await }).await
}

/// Writes the difference between two states of a Node. Fails with a conflict if another writer has
/// changed the Node since `before` was read.
pub(crate) async fn update(ctx: &Context, before: &Node, after: &Node) -> Result<(), ApiError> {
    MergePatch::OBJECT.send(&api(ctx), before, after).await.map(drop)
}

pub(crate) async fn set_label(ctx: &Context, name: &str, key: &str, value: &str) -> Result<(), ApiError> {
    let patch = Patch::Merge(json!({"metadata": {"labels": {key: value}}}));
    with_retries(|| async { api(ctx).patch(name, &PatchParams::default(), &patch).await }).await.map(drop)
}

/// Deletes a Node. The UID precondition protects a newer Node of that name.
pub(crate) async fn delete(ctx: &Context, name: &str, uid: &str) -> Result<(), ApiError> {
    let preconditions = Some(Preconditions { uid: Some(uid.to_owned()), resource_version: None });
    let params = DeleteParams { preconditions, ..DeleteParams::default() };
    with_retries(|| async { api(ctx).delete(name, &params).await }).await.map(drop)
}

/// Removes Kerf's finalizer from a Node. Other finalizers stay, even if other writers change the
/// list at the same time.
pub(crate) async fn remove_finalizer(ctx: &Context, name: &str) -> Result<(), ApiError> {
    let patch = Patch::Strategic(json!({"metadata": {"$deleteFromPrimitiveList/finalizers": [TERMINATION]}}));
    with_retries(|| async { api(ctx).patch(name, &PatchParams::default(), &patch).await }).await.map(drop)
}
