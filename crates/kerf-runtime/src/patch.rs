//! Writing to the API server: patches made of the difference between an object as read and as wanted, and the one place where
//! conflicts, throttling and answers that never come are told apart.
//! Invariants: nothing is sent when nothing differs; a locked patch names the version that it was made from, so that it fails rather
//! than undo what somebody else wrote; no call waits for ever.

use std::fmt::Debug;
use std::time::Duration;

use k8s_openapi::Metadata;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::{Api, Patch, PatchParams};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use crate::causes::Causes;

/// How long one call may take.
const API_CALL_TIMEOUT: Duration = Duration::from_secs(30);
/// How often a call is repeated that the server asked to come back with.
const RETRIES_MAX: u32 = 3;
/// The longest that a server's wish to be asked later is honoured inside one call.
const RETRY_AFTER_MAX: Duration = Duration::from_secs(10);

/// Why a call did not do what it should.
#[derive(Debug, thiserror::Error)]
pub enum ApiError {
    /// There is no such object.
    #[error("the object does not exist")]
    NotFound,
    /// The object has changed since it was read, or exists already.
    #[error("the object was changed by somebody else")]
    Conflict,
    /// No answer came in time; what was asked may or may not have been done.
    #[error("the API server did not answer within {} s", API_CALL_TIMEOUT.as_secs())]
    TimedOut,
    /// Anything else.
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

/// Which part of an object is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PatchTarget {
    /// Everything but the status.
    Object,
    /// The status alone, by its subresource.
    Status,
}

/// Whether a write fails if the object has changed since it was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OptimisticLock {
    /// It fails with [`Failure::Conflict`]. For everything that replaces a list.
    ResourceVersion,
    /// It does not.
    None,
}

/// What a patch is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MergePatch {
    /// Which part.
    pub target: PatchTarget,
    /// On what condition.
    pub lock: OptimisticLock,
}

impl MergePatch {
    /// Everything but the status, if nobody else wrote since.
    pub const OBJECT: Self = Self { target: PatchTarget::Object, lock: OptimisticLock::ResourceVersion };
    /// The status, if nobody else wrote since.
    pub const STATUS: Self = Self { target: PatchTarget::Status, lock: OptimisticLock::ResourceVersion };

    /// Sends the difference between two states of an object. `None` if there is none; else the object as it is now.
    pub async fn send<K>(self, api: &Api<K>, before: &K, after: &K) -> Result<Option<K>, ApiError>
    where
        K: Metadata<Ty = ObjectMeta> + Serialize + DeserializeOwned + Clone + Debug,
    {
        self.send_part(api, before.metadata(), &self.serialize_target(before)?, &self.serialize_target(after)?).await
    }

    /// What of an object is written.
    fn serialize_target<K: Serialize>(self, object: &K) -> Result<Value, ApiError> {
        let mut value = serde_json::to_value(object)?;
        if let Value::Object(fields) = &mut value {
            fields.retain(|name, _| (name == "status") == (self.target == PatchTarget::Status));
        }
        Ok(value)
    }

    /// The same for whoever has written down only what may differ, which saves writing down the rest.
    pub async fn send_part<K>(
        self,
        api: &Api<K>,
        of: &ObjectMeta,
        before: &Value,
        after: &Value,
    ) -> Result<Option<K>, ApiError>
    where
        K: DeserializeOwned + Clone + Debug,
    {
        let name = of.name.as_deref().unwrap_or_default();
        let Some(mut patch) = merge_patch_between(before, after) else { return Ok(None) };
        if self.lock == OptimisticLock::ResourceVersion {
            set_resource_version(&mut patch, of.resource_version.as_deref().unwrap_or_default());
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

/// The JSON merge patch (RFC 7386) that makes `after` of `before`; `None` if they are equal. Lists are replaced whole.
pub fn merge_patch_between(before: &Value, after: &Value) -> Option<Value> {
    match (before, after) {
        (Value::Object(before), Value::Object(after)) => {
            let gone = before.keys().filter(|name| !after.contains_key(*name)).map(|name| (name.clone(), Value::Null));
            let changed = after.iter().filter_map(|(name, value)| {
                let old = before.get(name).unwrap_or(&Value::Null);
                Some((name.clone(), merge_patch_between(old, value)?))
            });
            let patch: Map<String, Value> = gone.chain(changed).collect();
            (!patch.is_empty()).then_some(Value::Object(patch))
        }
        _ => (before != after).then(|| after.clone()),
    }
}

/// Makes a call, again if the server says that it was too busy to do anything, and not for ever.
pub async fn with_retries<T, R>(mut call: impl FnMut() -> R) -> Result<T, ApiError>
where
    R: Future<Output = Result<T, kube::Error>>,
{
    let mut tries = 0;
    loop {
        tries += 1;
        let cause = match tokio::time::timeout(API_CALL_TIMEOUT, call()).await {
            Err(_) => return Err(ApiError::TimedOut),
            Ok(Ok(answer)) => return Ok(answer),
            Ok(Err(cause)) => cause,
        };
        match retry_after(&cause).filter(|_| tries <= RETRIES_MAX) {
            Some(delay) => tokio::time::sleep(delay.min(RETRY_AFTER_MAX)).await,
            None => return Err(cause.into()),
        }
    }
}

/// How long a server that did nothing wants to be left alone.
fn retry_after(cause: &kube::Error) -> Option<Duration> {
    let kube::Error::Api(status) = cause else { return None };
    let seconds = status.details.as_ref().map_or(0, |details| details.retry_after_seconds);
    let did_nothing = status.code == 429 || (status.code == 503 && seconds > 0);
    did_nothing.then(|| Duration::from_secs(u64::from(seconds.max(1))))
}

#[cfg(test)]
mod tests;
