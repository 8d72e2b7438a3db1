//! Carries out the steps of a scenario: requests to the API server as a user would send them, and
//! terminations of simulated instances.

use http::Method;
use kerf_runtime::Rng;
use serde_json::{Value, json};

use super::invariant_checker::ObjectsOfPools;
use super::scenario::{InterruptStep, ScenarioStep, ScenarioTarget};
use crate::api::registry::Resource;
use crate::cluster::{Cluster, ComponentClient};

/// Kind, name and namespace of an object.
struct ObjectName {
    kind: String,
    name: String,
    namespace: Option<String>,
}

const APPLY_PATCH: &str = "application/apply-patch+yaml";

/// A user of the cluster that performs the steps of a scenario.
pub(super) struct ScenarioActor<'c> {
    cluster: &'c Cluster,
    client: ComponentClient,
    /// Selects the objects of targets without a name.
    rng: Rng,
}

impl<'c> ScenarioActor<'c> {
    pub(super) fn new(cluster: &'c Cluster, seed: u64) -> Self {
        let client = ComponentClient::new(cluster.api().clone(), "scenario");
        Self { cluster, client, rng: Rng::new(seed).fork("scenario") }
    }

    /// Returns the holders of all Leases.
    pub(super) fn lease_holders(&self) -> Vec<String> {
        let path = "/apis/coordination.k8s.io/v1/leases";
        let Ok(body) = self.client.send(Method::GET, path, "application/json", &Value::Null) else { return Vec::new() };
        let list: Value = serde_json::from_slice(&body).unwrap_or_default();
        let leases = list["items"].as_array().into_iter().flatten();
        leases.filter_map(|lease| lease["spec"]["holderIdentity"].as_str().map(str::to_owned)).collect()
    }

    /// Performs the actions of a step that change objects and instances. Returns the actions that
    /// failed: their path in the scenario, and the server's message. `path` is the path of the
    /// step, such as `steps[0]`.
    pub(super) fn perform(&mut self, step: &ScenarioStep, path: &str, objects: &ObjectsOfPools) -> Vec<String> {
        let mut errors = Vec::new();
        if let Some(aws) = &step.aws {
            match self.cluster.api().attached_cloud() {
                Some(cloud) => {
                    let failures = cloud.perform(aws).err().unwrap_or_default();
                    errors.extend(failures.into_iter().map(|failure| format!("{path}.aws.{failure}")));
                }
                None => errors
                    .push(format!("{path}.aws: the cluster has no AWS account; add `provider: aws` to the scenario")),
            }
        }
        let mut record_error = |action: &str, outcome: Result<(), String>| {
            errors.extend(outcome.err().map(|message| format!("{path}.{action}: {message}")));
        };
        for (index, object) in step.apply.iter().enumerate() {
            record_error(&format!("apply[{index}]"), self.apply(&Value::Object(object.clone())));
        }
        if let Some(scale) = &step.scale {
            let target =
                ObjectName { kind: scale.kind.clone(), name: scale.name.clone(), namespace: scale.namespace.clone() };
            record_error("scale", self.merge(&target, &json!({"spec": {"replicas": scale.replicas}})));
        }
        if let Some(target) = &step.restart {
            let now = self.cluster.api().clock().now().to_string();
            let restarted = json!({"kubectl.kubernetes.io/restartedAt": now});
            let patch = json!({"spec": {"template": {"metadata": {"annotations": restarted}}}});
            let outcome = self.resolve(target, objects).and_then(|target| self.merge(&target, &patch));
            record_error("restart", outcome);
        }
        if let Some(patch) = &step.patch {
            let target = self.resolve(&patch.target(), objects);
            record_error("patch", target.and_then(|target| self.merge(&target, &Value::Object(patch.merge.clone()))));
        }
        if let Some(edit) = &step.edit_status {
            let patch = json!({"status": edit.status()});
            let target = self.resolve(&edit.target(), objects);
            record_error("editStatus", target.and_then(|target| self.merge_status(&target, &patch)));
        }
        if let Some(target) = &step.delete {
            let target = self.resolve(target, objects);
            record_error("delete", target.and_then(|target| self.delete(&target)));
        }
        if let Some(interruption) = &step.interrupt {
            record_error("interrupt", self.interrupt(interruption, objects));
        }
        errors
    }

    /// Returns the objects of a list.
    pub(super) fn list(&self, path: &str) -> Vec<Value> {
        let body = self.client.send(Method::GET, path, "application/json", &Value::Null).unwrap_or_default();
        let mut list: Value = serde_json::from_slice(&body).unwrap_or_default();
        match list["items"].take() {
            Value::Array(items) => items,
            _ => Vec::new(),
        }
    }

    /// Returns the object that a target names.
    pub(super) fn get_object(&mut self, target: &ScenarioTarget, objects: &ObjectsOfPools) -> Result<Value, String> {
        let name = self.resolve(target, objects)?;
        let path = self.path(&name, None)?;
        let body = self.client.send(Method::GET, &path, "application/json", &Value::Null);
        let body = body.map_err(|error| error.message().to_owned())?;
        serde_json::from_slice(&body).map_err(|error| error.to_string())
    }

    /// Returns the object that a target names. Selects some object of the NodePool if it has no
    /// name, and fails if the NodePool has none.
    fn resolve(&mut self, target: &ScenarioTarget, objects: &ObjectsOfPools) -> Result<ObjectName, String> {
        let name = match (&target.name, &target.pool) {
            (Some(name), _) => name.clone(),
            (None, pool) => {
                let pool = pool.as_deref().unwrap_or_default();
                let names: Vec<&str> = objects.names(&target.kind, pool).collect();
                let chosen = self.rng.below(names.len() as u64);
                let chosen = usize::try_from(chosen).ok().and_then(|index| names.get(index));
                chosen.map(ToString::to_string).ok_or_else(|| format!("NodePool {pool} has no {}", target.kind))?
            }
        };
        Ok(ObjectName { kind: target.kind.clone(), name, namespace: target.namespace.clone() })
    }

    fn apply(&self, object: &Value) -> Result<(), String> {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let namespace = object["metadata"]["namespace"].as_str().map(str::to_owned);
        let target = ObjectName { kind: text(&object["kind"]), name: text(&object["metadata"]["name"]), namespace };
        let path = self.path(&target, Some(&text(&object["apiVersion"])))?;
        self.send(Method::PATCH, &format!("{path}?fieldManager=scenario&force=true"), APPLY_PATCH, object)
    }

    fn merge(&self, target: &ObjectName, patch: &Value) -> Result<(), String> {
        self.send(Method::PATCH, &self.path(target, None)?, "application/merge-patch+json", patch)
    }

    fn merge_status(&self, target: &ObjectName, patch: &Value) -> Result<(), String> {
        let path = format!("{}/status", self.path(target, None)?);
        self.send(Method::PATCH, &path, "application/merge-patch+json", patch)
    }

    fn delete(&self, target: &ObjectName) -> Result<(), String> {
        self.send(Method::DELETE, &self.path(target, None)?, "application/json", &json!({}))
    }

    /// Terminates the first matching instances, ordered by name. Fails if no instance matches: the
    /// scenario would not test what it is meant to test.
    fn interrupt(&self, interruption: &InterruptStep, objects: &ObjectsOfPools) -> Result<(), String> {
        let InterruptStep { capacity_type, pool, count } = interruption;
        let fits = |wanted: &Option<String>, actual: &str| wanted.as_ref().is_none_or(|wanted| wanted == actual);
        let nodes = objects.nodes.iter();
        let nodes = nodes.filter(|node| fits(capacity_type, &node.capacity_type) && fits(pool, &node.pool));
        let mut targets = nodes.take(*count).peekable();
        if targets.peek().is_none() {
            return Err(match (capacity_type, pool) {
                (None, None) => "there is no node".to_owned(),
                (Some(capacity_type), None) => format!("no node has the capacity type {capacity_type}"),
                (None, Some(pool)) => format!("NodePool {pool} has no node"),
                (Some(capacity_type), Some(pool)) => {
                    format!("NodePool {pool} has no node with the capacity type {capacity_type}")
                }
            });
        }
        for node in targets {
            self.cluster.instances().terminate(&node.name);
        }
        Ok(())
    }

    fn send(&self, method: Method, path: &str, media: &'static str, body: &Value) -> Result<(), String> {
        let result = self.client.send(method, path, media, body);
        result.map(drop).map_err(|error| error.message().to_owned())
    }

    /// Returns the path of an object. Fails if the cluster does not serve its kind.
    fn path(&self, target: &ObjectName, api_version: Option<&str>) -> Result<String, String> {
        let registry = self.cluster.api().inner.registry();
        let is_target = |resource: &Resource| {
            resource.kind == target.kind && api_version.is_none_or(|wanted| resource.api_version() == wanted)
        };
        let Some(resource) = registry.all().find(|resource| is_target(resource)) else {
            return Err(format!("the cluster does not serve the kind {}", target.kind));
        };
        let root = if resource.group.is_empty() { "/api" } else { "/apis" };
        let namespace = if resource.namespaced {
            format!("namespaces/{}/", target.namespace.as_deref().unwrap_or("default"))
        } else {
            String::new()
        };
        Ok(format!("{root}/{}/{namespace}{}/{}", resource.api_version(), resource.plural, target.name))
    }
}
