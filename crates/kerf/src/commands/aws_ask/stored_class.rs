//! An API server that holds one node class, for a controller that patches it.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use http::{Method, Request, Response, StatusCode};
use kube::Client;
use kube::client::Body;
use serde_json::{Map, Value, json};

/// A node class behind the API. It is gone when it is being deleted and loses its last finalizer.
#[derive(Clone)]
pub(super) struct StoredClass(Arc<Mutex<ClassState>>);

struct ClassState {
    /// The class, also after it is gone.
    class: Value,
    is_gone: bool,
}

impl StoredClass {
    pub(super) fn new(class: Value) -> Self {
        Self(Arc::new(Mutex::new(ClassState { class, is_gone: false })))
    }

    /// Returns the last state of the class.
    pub(super) fn last_state(&self) -> Value {
        self.lock().class.clone()
    }

    /// Returns a client whose requests read and patch the class. All other objects are unknown.
    pub(super) fn client(&self) -> Client {
        let class = self.clone();
        let service = tower::service_fn(move |request: Request<Body>| {
            let class = class.clone();
            async move { class.answer(request).await }
        });
        Client::new(service, "default")
    }

    async fn answer(&self, request: Request<Body>) -> Result<Response<Body>, std::convert::Infallible> {
        let is_class = request.uri().path().contains("/ec2nodeclasses/");
        let method = request.method().clone();
        let body = request.into_body().collect_bytes().await.unwrap_or_default();
        let mut stored = self.lock();
        if stored.is_gone || !is_class {
            return Ok(response(StatusCode::NOT_FOUND, &not_found()));
        }
        if method == Method::PATCH
            && let Ok(patch) = serde_json::from_slice::<Value>(&body)
        {
            merge(&mut stored.class, &patch);
        }
        let answer = stored.class.clone();
        let finalizers = answer["metadata"]["finalizers"].as_array().map_or(0, Vec::len);
        stored.is_gone = answer["metadata"]["deletionTimestamp"].is_string() && finalizers == 0;
        Ok(response(StatusCode::OK, &answer))
    }

    fn lock(&self) -> MutexGuard<'_, ClassState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn response(status: StatusCode, body: &Value) -> Response<Body> {
    let mut response = Response::new(Body::from(body.to_string().into_bytes()));
    *response.status_mut() = status;
    response
}

fn not_found() -> Value {
    json!({ "kind": "Status", "apiVersion": "v1", "status": "Failure", "message": "not found", "reason": "NotFound", "code": 404 })
}

/// Applies a JSON merge patch (RFC 7386).
fn merge(target: &mut Value, patch: &Value) {
    let Value::Object(changes) = patch else {
        *target = patch.clone();
        return;
    };
    if !target.is_object() {
        *target = Value::Object(Map::new());
    }
    let Value::Object(members) = target else { return };
    for (name, change) in changes {
        if change.is_null() {
            members.remove(name);
        } else {
            merge(members.entry(name.clone()).or_insert(Value::Null), change);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_merge_patch_replaces_members_and_removes_those_that_are_null() {
        let mut object = json!({ "a": { "b": 1, "c": [1, 2] }, "d": 1 });
        merge(&mut object, &json!({ "a": { "b": null, "c": [3], "e": { "f": null, "g": 1 } }, "d": { "h": 2 } }));
        assert_eq!(object, json!({ "a": { "c": [3], "e": { "g": 1 } }, "d": { "h": 2 } }));
    }
}
