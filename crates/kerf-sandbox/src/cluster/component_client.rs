//! How the cluster's parts write: through the API server like everybody else, with its defaults, admission, managed fields and audit,
//! but in the same thread and without waiting, so that a pass of a controller is one synchronous function.

use bytes::Bytes;
use http::header::{CONTENT_TYPE, USER_AGENT};
use http::{HeaderValue, Method, Request, Uri};
use serde_json::{Value, json};

use super::kind::ControlPlaneKind;
use crate::api::ApiServer;
use crate::api::status::{ApiResult, StatusError};
use crate::api::storage::ObjectKey;

const JSON: &str = "application/json";
const STRATEGIC_MERGE_PATCH: &str = "application/strategic-merge-patch+json";
const MERGE_PATCH: &str = "application/merge-patch+json";

/// One of the programs that a cluster consists of, as the API server knows it.
#[derive(Clone, Debug)]
pub(crate) struct ComponentClient {
    server: ApiServer,
    agent: &'static str,
}

/// What is to become of the dependents of an object that is deleted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Propagation {
    Background,
    Foreground,
}

impl ComponentClient {
    /// Writes under the name of `agent`.
    pub(crate) fn new(server: ApiServer, agent: &'static str) -> Self {
        Self { server, agent }
    }

    /// Creates an object, and returns it as it was stored.
    pub(crate) fn create(&self, kind: ControlPlaneKind, namespace: &str, object: &Value) -> ApiResult<Bytes> {
        self.send(Method::POST, &kind.collection_path(namespace), JSON, object)
    }

    /// Changes some fields of an object (a strategic merge patch).
    pub(crate) fn patch(&self, kind: ControlPlaneKind, key: &ObjectKey, patch: &Value) -> ApiResult<Bytes> {
        self.send(Method::PATCH, &kind.path(key), STRATEGIC_MERGE_PATCH, patch)
    }

    /// Changes some fields of an object's status; lists of conditions are merged by their type.
    pub(crate) fn patch_status(&self, kind: ControlPlaneKind, key: &ObjectKey, status: &Value) -> ApiResult<Bytes> {
        self.send(
            Method::PATCH,
            &format!("{}/status", kind.path(key)),
            STRATEGIC_MERGE_PATCH,
            &json!({"status": status}),
        )
    }

    /// Changes some fields of an object's status; lists are replaced.
    pub(crate) fn merge_patch_status(
        &self,
        kind: ControlPlaneKind,
        key: &ObjectKey,
        status: &Value,
    ) -> ApiResult<Bytes> {
        self.send(Method::PATCH, &format!("{}/status", kind.path(key)), MERGE_PATCH, &json!({"status": status}))
    }

    /// Changes some fields of any object; lists are replaced.
    pub(crate) fn merge_patch(&self, path: &str, patch: &Value) -> ApiResult<Bytes> {
        self.send(Method::PATCH, path, MERGE_PATCH, patch)
    }

    /// Puts a whole object, or a subresource, in the place of what is there.
    pub(crate) fn replace(&self, path: &str, object: &Value) -> ApiResult<Bytes> {
        self.send(Method::PUT, path, JSON, object)
    }

    /// Deletes the object of this uid, as an owner or a person would; one that is gone already is no failure.
    pub(crate) fn delete(&self, kind: ControlPlaneKind, key: &ObjectKey, uid: &str) -> ApiResult<()> {
        self.delete_path(&kind.path(key), &json!({"preconditions": {"uid": uid}}))
    }

    /// Deletes a pod at once: what a kubelet does when nothing of it runs any more.
    pub(crate) fn force_delete_pod(&self, key: &ObjectKey, uid: &str) -> ApiResult<()> {
        self.delete_path(
            &ControlPlaneKind::Pod.path(key),
            &json!({"gracePeriodSeconds": 0, "preconditions": {"uid": uid}}),
        )
    }

    /// Deletes the object of this uid with a word about its dependents.
    pub(crate) fn delete_with_propagation(&self, path: &str, uid: &str, propagation: Propagation) -> ApiResult<()> {
        let policy = match propagation {
            Propagation::Background => "Background",
            Propagation::Foreground => "Foreground",
        };
        self.delete_path(path, &json!({"propagationPolicy": policy, "preconditions": {"uid": uid}}))
    }

    /// Deletes everything in a collection.
    pub(crate) fn delete_collection(&self, path: &str) -> ApiResult<()> {
        self.send(Method::DELETE, path, JSON, &json!({})).map(drop)
    }

    fn delete_path(&self, path: &str, options: &Value) -> ApiResult<()> {
        match self.send(Method::DELETE, path, JSON, options) {
            Ok(_) => Ok(()),
            // Gone, or another object of the same name: either way the one that was meant is no more.
            Err(refusal) if matches!(refusal.code(), 404 | 409) => Ok(()),
            Err(refusal) => Err(refusal),
        }
    }

    /// Sends any request.
    pub(crate) fn send(&self, method: Method, path: &str, media: &'static str, body: &Value) -> ApiResult<Bytes> {
        let uri: Uri = path.parse().map_err(|_| StatusError::internal(&format!("no such path: {path}")))?;
        let (mut parts, ()) = Request::new(()).into_parts();
        parts.method = method;
        parts.uri = uri;
        parts.headers.insert(CONTENT_TYPE, HeaderValue::from_static(media));
        parts.headers.insert(USER_AGENT, HeaderValue::from_static(self.agent));
        self.server.handle_internal(&parts, Bytes::from(body.to_string()))
    }
}
