//! Writes to pods: asking one to leave, and making it. Both name the pod by its uid, so that another of its name is never meant.

use std::time::Duration;

use kerf_api::slim::Pod;
use kerf_runtime::{ApiError, with_retries};
use kube::api::{Api, DeleteParams, EvictParams, Preconditions};

use crate::context::Context;

/// How long an eviction may take.
const EVICTION_TIMEOUT: Duration = Duration::from_secs(30);
/// What the API server says of a pod that two budgets protect, with code 500.
const MULTIPLE_PDBS_MESSAGE: &str =
    "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support.";

/// What came of an eviction. That a budget does not allow it is an answer, not an error.
#[derive(Debug)]
pub(crate) enum EvictionOutcome {
    /// The pod is going.
    Evicted,
    /// The pod is gone, or is another one.
    Gone,
    /// Its budget does not allow it now.
    Blocked,
    /// It has several budgets, and the API server cannot deal with that.
    BlockedByMultiplePdbs,
    /// Something else.
    Failed(ApiError),
}

fn api(ctx: &Context, pod: &Pod) -> Api<k8s_openapi::api::core::v1::Pod> {
    Api::namespaced(ctx.client.clone(), &pod.metadata.namespace)
}

fn uid_precondition(pod: &Pod) -> Preconditions {
    Preconditions { uid: Some(pod.metadata.uid.to_string()), resource_version: None }
}

/// Asks a pod to leave, as far as its budgets allow. Also gives the code that the API server answered with, if it did.
pub(crate) async fn evict(ctx: &Context, pod: &Pod) -> (Option<u16>, EvictionOutcome) {
    let options = DeleteParams { preconditions: Some(uid_precondition(pod)), ..DeleteParams::default() };
    let params = EvictParams { delete_options: Some(options), ..EvictParams::default() };
    let api = api(ctx, pod);
    match tokio::time::timeout(EVICTION_TIMEOUT, api.evict(&pod.metadata.name, &params)).await {
        Err(_) => (None, EvictionOutcome::Failed(ApiError::TimedOut)),
        Ok(Ok(_)) => (Some(200), EvictionOutcome::Evicted),
        Ok(Err(kube::Error::Api(status))) => {
            let causes = status.details.iter().flat_map(|details| &details.causes).map(|cause| &cause.message);
            let is_many = causes.chain([&status.message]).any(|message| message.contains(MULTIPLE_PDBS_MESSAGE));
            let answer = match status.code {
                404 | 409 => EvictionOutcome::Gone,
                429 => EvictionOutcome::Blocked,
                _ if is_many => EvictionOutcome::BlockedByMultiplePdbs,
                _ => EvictionOutcome::Failed(kube::Error::Api(status.clone()).into()),
            };
            (Some(status.code), answer)
        }
        Ok(Err(cause)) => (None, EvictionOutcome::Failed(cause.into())),
    }
}

/// Deletes a pod, with so much time to end. One that is going already gets no more than that.
pub(crate) async fn delete(ctx: &Context, pod: &Pod, grace_seconds: i64) -> Result<(), ApiError> {
    let grace_period_seconds = Some(u32::try_from(grace_seconds).unwrap_or(u32::MAX));
    let params =
        DeleteParams { grace_period_seconds, preconditions: Some(uid_precondition(pod)), ..DeleteParams::default() };
    let api = api(ctx, pod);
    with_retries(|| async { api.delete(&pod.metadata.name, &params).await }).await.map(drop)
}
