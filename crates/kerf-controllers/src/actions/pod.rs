//! Writes to pods: eviction and deletion. Both carry the pod's UID as a precondition, so they never
//! affect another pod of that name.

use std::time::Duration;

use kerf_api::slim::Pod;
use kerf_runtime::{ApiError, with_retries};
use kube::api::{Api, DeleteParams, EvictParams, Preconditions};

use crate::context::Context;

/// Longest duration of an eviction request.
const EVICTION_TIMEOUT: Duration = Duration::from_secs(30);
/// Text of the API server's error (code 500) for a pod that several PodDisruptionBudgets select.
const MULTIPLE_PDBS_MESSAGE: &str =
    "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support.";

/// Outcome of an eviction. A PodDisruptionBudget that does not allow it is an outcome, not an
/// error.
#[derive(Debug)]
pub(crate) enum EvictionOutcome {
    /// The API server accepted the eviction; the pod is terminating.
    Evicted,
    /// The pod does not exist any more, or another pod has its name.
    Gone,
    /// A PodDisruptionBudget does not allow the eviction now.
    Blocked,
    /// Several PodDisruptionBudgets select the pod; the API server does not evict such pods.
    BlockedByMultiplePdbs,
    /// The request failed for another reason.
    Failed(ApiError),
}

fn api(ctx: &Context, pod: &Pod) -> Api<k8s_openapi::api::core::v1::Pod> {
    Api::namespaced(ctx.client.clone(), &pod.metadata.namespace)
}

fn uid_precondition(pod: &Pod) -> Preconditions {
    Preconditions { uid: Some(pod.metadata.uid.to_string()), resource_version: None }
}

/// Evicts a pod if its PodDisruptionBudget allows it. Also returns the HTTP status code, or `None`
/// if there was no response.
pub(crate) async fn evict(ctx: &Context, pod: &Pod) -> (Option<u16>, EvictionOutcome) {
    let options = DeleteParams { preconditions: Some(uid_precondition(pod)), ..DeleteParams::default() };
    let params = EvictParams { delete_options: Some(options), ..EvictParams::default() };
    let api = api(ctx, pod);
    match tokio::time::timeout(EVICTION_TIMEOUT, api.evict(&pod.metadata.name, &params)).await {
        Err(_) => (None, EvictionOutcome::Failed(ApiError::TimedOut)),
        Ok(Ok(_)) => (Some(200), EvictionOutcome::Evicted),
        Ok(Err(kube::Error::Api(status))) => {
            let causes = status.details.iter().flat_map(|details| &details.causes).map(|cause| &cause.message);
            let has_multiple_pdbs =
                causes.chain([&status.message]).any(|message| message.contains(MULTIPLE_PDBS_MESSAGE));
            let outcome = match status.code {
                404 | 409 => EvictionOutcome::Gone,
                429 => EvictionOutcome::Blocked,
                _ if has_multiple_pdbs => EvictionOutcome::BlockedByMultiplePdbs,
                _ => EvictionOutcome::Failed(kube::Error::Api(status.clone()).into()),
            };
            (Some(status.code), outcome)
        }
        Ok(Err(cause)) => (None, EvictionOutcome::Failed(cause.into())),
    }
}

/// Deletes a pod with a grace period in seconds. If the pod is terminating already, this can only
/// shorten its grace period.
pub(crate) async fn delete(ctx: &Context, pod: &Pod, grace_seconds: i64) -> Result<(), ApiError> {
    let grace_period_seconds = Some(u32::try_from(grace_seconds).unwrap_or(u32::MAX));
    let params =
        DeleteParams { grace_period_seconds, preconditions: Some(uid_precondition(pod)), ..DeleteParams::default() };
    let api = api(ctx, pod);
    with_retries(|| async { api.delete(&pod.metadata.name, &params).await }).await.map(drop)
}
