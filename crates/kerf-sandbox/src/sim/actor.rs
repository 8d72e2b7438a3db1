//! Carries out the steps of a scenario: requests to the API server as a user would send them, and
//! terminations of simulated instances.

use http::Method;
use serde_json::{Value, json};

use super::scenario::{InterruptStep, ScenarioStep, ScenarioTarget};
use crate::api::registry::Resource;
use crate::cluster::{Cluster, ComponentClient};

const APPLY_PATCH: &str = "application/apply-patch+yaml";

/// A user of the cluster that performs the steps of a scenario.
pub(super) struct ScenarioActor<'c> {
    cluster: &'c Cluster,
    client: ComponentClient,
}

impl<'c> ScenarioActor<'c> {
    pub(super) fn new(cluster: &'c Cluster) -> Self {
        Self { cluster, client: ComponentClient::new(cluster.api().clone(), "scenario") }
    }

    /// Performs everything in a step except faults. Returns the actions that failed: their path in
    /// the scenario, and the server's message. `path` is the path of the step, such as `steps[0]`;
    /// `nodes` are all nodes with their capacity types.
    pub(super) fn perform(&self, step: &ScenarioStep, path: &str, nodes: &[(String, String)]) -> Vec<String> {
        let mut errors = Vec::new();
        let mut record_error = |action: &str, outcome: Result<(), String>| {
            errors.extend(outcome.err().map(|message| format!("{path}.{action}: {message}")));
        };
        for (index, object) in step.apply.iter().enumerate() {
            record_error(&format!("apply[{index}]"), self.apply(object));
        }
        if let Some(scale) = &step.scale {
            let target = ScenarioTarget {
                kind: scale.kind.clone(),
                name: scale.name.clone(),
                namespace: scale.namespace.clone(),
            };
            record_error("scale", self.merge(&target, &json!({"spec": {"replicas": scale.replicas}})));
        }
        if let Some(target) = &step.restart {
            let now = self.cluster.api().clock().now().to_string();
            let restarted = json!({"kubectl.kubernetes.io/restartedAt": now});
            let patch = json!({"spec": {"template": {"metadata": {"annotations": restarted}}}});
            record_error("restart", self.merge(target, &patch));
        }
        if let Some(patch) = &step.patch {
            let (kind, name) = (patch.kind.clone(), patch.name.clone());
            let target = ScenarioTarget { kind, name, namespace: patch.namespace.clone() };
            record_error("patch", self.merge(&target, &patch.merge));
        }
        if let Some(target) = &step.delete {
            record_error("delete", self.delete(target));
        }
        if let Some(interruption) = &step.interrupt {
            record_error("interrupt", self.interrupt(interruption, nodes));
        }
        errors
    }

    fn apply(&self, object: &Value) -> Result<(), String> {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let namespace = object["metadata"]["namespace"].as_str().map(str::to_owned);
        let target = ScenarioTarget { kind: text(&object["kind"]), name: text(&object["metadata"]["name"]), namespace };
        let path = self.path(&target, Some(&text(&object["apiVersion"])))?;
        self.send(Method::PATCH, &format!("{path}?fieldManager=scenario&force=true"), APPLY_PATCH, object)
    }

    fn merge(&self, target: &ScenarioTarget, patch: &Value) -> Result<(), String> {
        self.send(Method::PATCH, &self.path(target, None)?, "application/merge-patch+json", patch)
    }

    fn delete(&self, target: &ScenarioTarget) -> Result<(), String> {
        self.send(Method::DELETE, &self.path(target, None)?, "application/json", &json!({}))
    }

    /// Terminates the first matching instances, ordered by name. Fails if no instance matches: the
    /// scenario would not test what it is meant to test.
    fn interrupt(&self, interruption: &InterruptStep, nodes: &[(String, String)]) -> Result<(), String> {
        let fits =
            |capacity_type: &str| interruption.capacity_type.as_ref().is_none_or(|wanted| wanted == capacity_type);
        let mut targets =
            nodes.iter().filter(|(_, capacity_type)| fits(capacity_type)).take(interruption.count).peekable();
        if targets.peek().is_none() {
            return Err(match &interruption.capacity_type {
                Some(capacity_type) => format!("no node has the capacity type {capacity_type}"),
                None => "there is no node".to_owned(),
            });
        }
        for (node, _) in targets {
            self.cluster.instances().terminate(node);
        }
        Ok(())
    }

    fn send(&self, method: Method, path: &str, media: &'static str, body: &Value) -> Result<(), String> {
        let result = self.client.send(method, path, media, body);
        result.map(drop).map_err(|error| error.message().to_owned())
    }

    /// Returns the path of an object. Fails if the cluster does not serve its kind.
    fn path(&self, target: &ScenarioTarget, api_version: Option<&str>) -> Result<String, String> {
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
