//! An API server that holds the node class and the claims of a document, for controllers that patch
//! and delete them.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use http::{Method, Request, Response, StatusCode};
use kerf_api::nodeclaim::NodeClaim;
use kerf_operator::SharedCluster;
use kerf_state::TrackedClaim;
use kube::Client;
use kube::client::Body;
use serde_json::{Map, Value, json};

/// Plural names of the stored kinds.
pub(super) const NODE_CLASSES: &str = "ec2nodeclasses";
pub(super) const NODE_CLAIMS: &str = "nodeclaims";
/// Kinds of stored objects, as URLs name them.
const STORED_PLURALS: [&str; 2] = [NODE_CLASSES, NODE_CLAIMS];

/// Objects behind the API, by plural name of the kind and name. An object is gone when it is being
/// deleted and has no finalizer.
#[derive(Clone)]
pub(super) struct StoredObjects {
    objects: Arc<Mutex<BTreeMap<(String, String), StoredObject>>>,
    /// Cluster state, which sees a change of a claim at once: there is no watch.
    cluster: SharedCluster,
}

struct StoredObject {
    /// The object, also after it is gone.
    object: Value,
    is_gone: bool,
}

impl StoredObjects {
    pub(super) fn new(cluster: SharedCluster) -> Self {
        Self { objects: Arc::default(), cluster }
    }

    /// Adds an object.
    pub(super) fn insert(&self, plural: &str, object: Value) {
        let name = object["metadata"]["name"].as_str().unwrap_or_default().to_owned();
        self.lock().insert((plural.to_owned(), name), StoredObject { object, is_gone: false });
    }

    /// Returns the last state of an object, also if it is gone.
    pub(super) fn last_state(&self, plural: &str, name: &str) -> Value {
        let objects = self.lock();
        objects.get(&(plural.to_owned(), name.to_owned())).map_or(Value::Null, |stored| stored.object.clone())
    }

    /// Returns the objects of a kind that exist, in the order of their names.
    pub(super) fn existing(&self, plural: &str) -> Vec<Value> {
        let objects = self.lock();
        let of_kind = objects.iter().filter(|((own, _), stored)| own == plural && !stored.is_gone);
        of_kind.map(|(_, stored)| stored.object.clone()).collect()
    }

    /// Returns a client whose requests read, patch and delete the objects. All others are unknown.
    /// Deletions carry the time `now`.
    pub(super) fn client(&self, now: String) -> Client {
        let objects = self.clone();
        let service = tower::service_fn(move |request: Request<Body>| {
            let (objects, now) = (objects.clone(), now.clone());
            async move { objects.answer(request, &now).await }
        });
        Client::new(service, "default")
    }

    async fn answer(&self, request: Request<Body>, now: &str) -> Result<Response<Body>, std::convert::Infallible> {
        let key = object_key(request.uri().path());
        let method = request.method().clone();
        let body = request.into_body().collect_bytes().await.unwrap_or_default();
        let mut objects = self.lock();
        let stored = key.and_then(|key| objects.get_mut(&key)).filter(|stored| !stored.is_gone);
        let Some(stored) = stored else { return Ok(response(StatusCode::NOT_FOUND, &not_found())) };
        if method == Method::PATCH
            && let Ok(patch) = serde_json::from_slice::<Value>(&body)
        {
            merge(&mut stored.object, &patch);
        }
        if method == Method::DELETE {
            let deleted = json!({ "metadata": { "deletionTimestamp": now } });
            if stored.object["metadata"]["deletionTimestamp"].is_null() {
                merge(&mut stored.object, &deleted);
            }
        }
        let answer = stored.object.clone();
        let finalizers = answer["metadata"]["finalizers"].as_array().map_or(0, Vec::len);
        stored.is_gone = answer["metadata"]["deletionTimestamp"].is_string() && finalizers == 0;
        let is_gone = stored.is_gone;
        drop(objects);
        self.show(&answer, is_gone);
        if method == Method::DELETE && is_gone {
            return Ok(response(StatusCode::OK, &json!({ "kind": "Status", "apiVersion": "v1", "status": "Success" })));
        }
        Ok(response(StatusCode::OK, &answer))
    }

    /// Updates cluster state as a watch would, if the object is a claim.
    fn show(&self, object: &Value, is_gone: bool) {
        let claim = (object["kind"] == "NodeClaim").then(|| serde_json::from_value::<NodeClaim>(object.clone()));
        let Some(Ok(claim)) = claim else { return };
        let claim = TrackedClaim::from(claim);
        let mut cluster = self.cluster.lock();
        if is_gone {
            cluster.delete(&claim);
        } else {
            cluster.apply(claim);
        }
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<(String, String), StoredObject>> {
        self.objects.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns the key of the object in a URL such as `/apis/karpenter.sh/v1/nodeclaims/a/status`.
fn object_key(path: &str) -> Option<(String, String)> {
    let mut segments = path.split('/').skip_while(|segment| !STORED_PLURALS.contains(segment));
    Some((segments.next()?.to_owned(), segments.next()?.to_owned()))
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

    #[test]
    fn a_url_names_kind_and_object() {
        let key = |path| object_key(path).map(|(plural, name)| format!("{plural} {name}"));
        assert_eq!(key("/apis/karpenter.sh/v1/nodeclaims/a").as_deref(), Some("nodeclaims a"));
        assert_eq!(key("/apis/karpenter.k8s.aws/v1/ec2nodeclasses/b/status").as_deref(), Some("ec2nodeclasses b"));
        assert_eq!(key("/apis/karpenter.sh/v1/nodepools/a"), None);
        assert_eq!(key("/apis/karpenter.sh/v1/nodeclaims"), None);
    }
}
