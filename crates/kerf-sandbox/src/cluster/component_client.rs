//! Synchronous client of one component. Requests pass through the API server with its defaults,
//! admission, managed fields and audit. They call its handlers directly, without HTTP, so that a
//! controller pass is one synchronous function.

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

/// Client of one cluster component, identified by its user agent.
#[derive(Clone, Debug)]
pub(crate) struct ComponentClient {
    server: ApiServer,
    agent: &'static str,
}

/// Deletion propagation policy: what happens to the dependents of a deleted object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Propagation {
    Background,
    Foreground,
}

impl ComponentClient {
    /// Returns a client that writes with the user agent `agent`.
    pub(crate) fn new(server: ApiServer, agent: &'static str) -> Self {
        Self { server, agent }
    }

    /// Creates an object, and returns it as stored.
    pub(crate) fn create(&self, kind: ControlPlaneKind, namespace: &str, object: &Value) -> ApiResult<Bytes> {
        self.send(Method::POST, &kind.collection_path(namespace), JSON, object)
    }

    /// Changes fields of an object by a strategic merge patch.
    pub(crate) fn patch(&self, kind: ControlPlaneKind, key: &ObjectKey, patch: &Value) -> ApiResult<Bytes> {
        self.send(Method::PATCH, &kind.path(key), STRATEGIC_MERGE_PATCH, patch)
    }

    /// Changes fields of an object's status by a strategic merge patch, which merges conditions by
    /// type.
    pub(crate) fn patch_status(&self, kind: ControlPlaneKind, key: &ObjectKey, status: &Value) -> ApiResult<Bytes> {
        self.send(
            Method::PATCH,
            &format!("{}/status", kind.path(key)),
            STRATEGIC_MERGE_PATCH,
            &json!({"status": status}),
        )
    }

    /// Changes fields of an object's status by a JSON merge patch, which replaces lists.
    pub(crate) fn merge_patch_status(
        &self,
        kind: ControlPlaneKind,
        key: &ObjectKey,
        status: &Value,
    ) -> ApiResult<Bytes> {
        self.send(Method::PATCH, &format!("{}/status", kind.path(key)), MERGE_PATCH, &json!({"status": status}))
    }

    /// Changes fields of any object by a JSON merge patch, which replaces lists.
    pub(crate) fn merge_patch(&self, path: &str, patch: &Value) -> ApiResult<Bytes> {
        self.send(Method::PATCH, path, MERGE_PATCH, patch)
    }

    /// Replaces a whole object or subresource.
    pub(crate) fn replace(&self, path: &str, object: &Value) -> ApiResult<Bytes> {
        self.send(Method::PUT, path, JSON, object)
    }

    /// Deletes the object with this uid, with the default grace period. Succeeds if the object no
    /// longer exists.
    pub(crate) fn delete(&self, kind: ControlPlaneKind, key: &ObjectKey, uid: &str) -> ApiResult<()> {
        self.delete_path(&kind.path(key), &json!({"preconditions": {"uid": uid}}))
    }

    /// Deletes a pod without a grace period, as a kubelet does after all its containers have
    /// stopped.
    pub(crate) fn force_delete_pod(&self, key: &ObjectKey, uid: &str) -> ApiResult<()> {
        self.delete_path(
            &ControlPlaneKind::Pod.path(key),
            &json!({"gracePeriodSeconds": 0, "preconditions": {"uid": uid}}),
        )
    }

    /// Deletes the object with this uid, with a propagation policy for its dependents.
    pub(crate) fn delete_with_propagation(&self, path: &str, uid: &str, propagation: Propagation) -> ApiResult<()> {
        let policy = match propagation {
            Propagation::Background => "Background",
            Propagation::Foreground => "Foreground",
        };
        self.delete_path(path, &json!({"propagationPolicy": policy, "preconditions": {"uid": uid}}))
    }

    /// Deletes all objects of a collection.
    pub(crate) fn delete_collection(&self, path: &str) -> ApiResult<()> {
        self.send(Method::DELETE, path, JSON, &json!({})).map(drop)
    }

    fn delete_path(&self, path: &str, options: &Value) -> ApiResult<()> {
        match self.send(Method::DELETE, path, JSON, options) {
            Ok(_) => Ok(()),
            // 404: the object does not exist. 409: the name belongs to an object with another uid.
            // In both cases the requested object is already deleted.
            Err(error) if matches!(error.code(), 404 | 409) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Sends any request, and returns the body of the response.
    pub(crate) fn send(
        &self,
        method: Method,
        path: &str,
        content_type: &'static str,
        body: &Value,
    ) -> ApiResult<Bytes> {
        let uri: Uri = path.parse().map_err(|_| StatusError::internal(&format!("no such path: {path}")))?;
        let (mut parts, ()) = Request::new(()).into_parts();
        parts.method = method;
        parts.uri = uri;
        parts.headers.insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
        parts.headers.insert(USER_AGENT, HeaderValue::from_static(self.agent));
        self.server.handle_internal(&parts, Bytes::from(body.to_string()))
    }
}
