//! Writes to the API server: merge patches computed from two states of an object, and retries.
//!
//! This module also classifies failures: conflicts, throttling and timeouts. Invariants: no request
//! is sent if nothing differs. A locked patch carries the resource version that was read, so that
//! it fails instead of overwriting another client's change. Every call has a timeout.

use std::fmt::Debug;
use std::time::Duration;

use k8s_openapi::Metadata;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::{Api, Patch, PatchParams};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use crate::causes::Causes;

/// Timeout of one call.
const API_CALL_TIMEOUT: Duration = Duration::from_secs(30);
/// Number of times that a throttled call is repeated.
const RETRIES_MAX: u32 = 3;
/// Upper bound of a server's `Retry-After` that is waited for within one call.
const RETRY_AFTER_MAX: Duration = Duration::from_secs(10);

/// Failure of a call to the API server, by what the caller does about it.
#[derive(Debug, thiserror::Error)]
pub enum ApiError {
    /// The object does not exist.
    #[error("the object does not exist")]
    NotFound,
    /// The object has changed since it was read, or it already exists.
    #[error("another client changed or created the object")]
    Conflict,
    /// No response arrived in time. The server may or may not have executed the request.
    #[error("the API server did not respond within {} s", API_CALL_TIMEOUT.as_secs())]
    TimedOut,
    /// Any other failure.
    #[error("{}", Causes(.0.as_ref()))]
    Other(Box<kube::Error>),
}

impl From<kube::Error> for ApiError {
    fn from(cause: kube::Error) -> Self {
        match cause {
            kube::Error::Api(status) if status.code == 404 => Self::NotFound,
            kube::Error::Api(status) if status.code == 409 => Self::Conflict,
            other => Self::Other(Box::new(other)),
        }
    }
}

impl From<serde_json::Error> for ApiError {
    fn from(cause: serde_json::Error) -> Self {
        Self::from(kube::Error::SerdeError(cause))
    }
}

/// Part of an object that a patch writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PatchTarget {
    /// All fields except `status`.
    Object,
    /// Only the `status`, through the status subresource.
    Status,
}

/// Precondition of a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OptimisticLock {
    /// The write fails with [`ApiError::Conflict`] if the object has changed since it was read.
    /// Required for patches that replace a list.
    ResourceVersion,
    /// The write has no precondition.
    None,
}

/// Merge patch of one part of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MergePatch {
    /// Part of the object to write.
    pub target: PatchTarget,
    /// Precondition of the write.
    pub lock: OptimisticLock,
}

impl MergePatch {
    /// Patches all fields except `status`, if the object has not changed since it was read.
    pub const OBJECT: Self = Self { target: PatchTarget::Object, lock: OptimisticLock::ResourceVersion };
    /// Patches `status`, if the object has not changed since it was read.
    pub const STATUS: Self = Self { target: PatchTarget::Status, lock: OptimisticLock::ResourceVersion };

    /// Sends the difference between two states of an object and returns the object as stored. Sends
    /// nothing and returns `None` if the states are equal.
    pub async fn send<K>(self, api: &Api<K>, before: &K, after: &K) -> Result<Option<K>, ApiError>
    where
        K: Metadata<Ty = ObjectMeta> + Serialize + DeserializeOwned + Clone + Debug,
    {
        self.send_part(api, before.metadata(), &self.serialize_target(before)?, &self.serialize_target(after)?).await
    }

    /// Serializes the part of the object that this patch writes.
    fn serialize_target<K: Serialize>(self, object: &K) -> Result<Value, ApiError> {
        let mut value = serde_json::to_value(object)?;
        if let Value::Object(fields) = &mut value {
            fields.retain(|name, _| (name == "status") == (self.target == PatchTarget::Status));
        }
        Ok(value)
    }

    /// Sends the difference between two JSON values that contain only the fields that may differ.
    /// This saves the serialization of the whole object. Otherwise it behaves like
    /// [`MergePatch::send`].
    pub async fn send_part<K>(
        self,
        api: &Api<K>,
        metadata: &ObjectMeta,
        before: &Value,
        after: &Value,
    ) -> Result<Option<K>, ApiError>
    where
        K: DeserializeOwned + Clone + Debug,
    {
        let name = metadata.name.as_deref().unwrap_or_default();
        let Some(mut patch) = merge_patch_between(before, after) else { return Ok(None) };
        if self.lock == OptimisticLock::ResourceVersion {
            set_resource_version(&mut patch, metadata.resource_version.as_deref().unwrap_or_default());
        }
        let (params, patch) = (PatchParams::default(), Patch::Merge(patch));
        let written = with_retries(|| async {
            match self.target {
                PatchTarget::Object => api.patch(name, &params, &patch).await,
                PatchTarget::Status => api.patch_status(name, &params, &patch).await,
            }
        });
        written.await.map(Some)
    }
}

fn set_resource_version(patch: &mut Value, version: &str) {
    let Value::Object(fields) = patch else { return };
    let metadata = fields.entry("metadata").or_insert_with(|| Value::Object(Map::new()));
    if let Value::Object(metadata) = metadata {
        metadata.insert("resourceVersion".to_owned(), version.into());
    }
}

/// Returns the JSON merge patch (RFC 7386) that changes `before` into `after`. Returns `None` if
/// they are equal. Lists are replaced as a whole.
pub fn merge_patch_between(before: &Value, after: &Value) -> Option<Value> {
    match (before, after) {
        (Value::Object(before), Value::Object(after)) => {
            let removed =
                before.keys().filter(|name| !after.contains_key(*name)).map(|name| (name.clone(), Value::Null));
            let changed = after.iter().filter_map(|(name, value)| {
                let old = before.get(name).unwrap_or(&Value::Null);
                Some((name.clone(), merge_patch_between(old, value)?))
            });
            let patch: Map<String, Value> = removed.chain(changed).collect();
            (!patch.is_empty()).then_some(Value::Object(patch))
        }
        _ => (before != after).then(|| after.clone()),
    }
}

/// Runs a call with a timeout of 30 seconds per attempt. Repeats it up to three times if the server
/// rejects it because of overload.
pub async fn with_retries<T, R>(mut call: impl FnMut() -> R) -> Result<T, ApiError>
where
    R: Future<Output = Result<T, kube::Error>>,
{
    let mut tries = 0;
    loop {
        tries += 1;
        let cause = match tokio::time::timeout(API_CALL_TIMEOUT, call()).await {
            Err(_) => return Err(ApiError::TimedOut),
            Ok(Ok(response)) => return Ok(response),
            Ok(Err(cause)) => cause,
        };
        match retry_after(&cause).filter(|_| tries <= RETRIES_MAX) {
            Some(delay) => tokio::time::sleep(delay.min(RETRY_AFTER_MAX)).await,
            None => return Err(cause.into()),
        }
    }
}

/// Returns the delay before a retry. Returns `None` unless the server states that it did not
/// execute the request.
fn retry_after(cause: &kube::Error) -> Option<Duration> {
    let kube::Error::Api(status) = cause else { return None };
    let seconds = status.details.as_ref().map_or(0, |details| details.retry_after_seconds);
    let was_not_executed = status.code == 429 || (status.code == 503 && seconds > 0);
    was_not_executed.then(|| Duration::from_secs(u64::from(seconds.max(1))))
}

#[cfg(test)]
mod tests;
