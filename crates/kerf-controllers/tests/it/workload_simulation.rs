//! A minimal scheduler, kubelet and deployment controller: nodes become ready, pods are bound where
//! they fit, deleted pods are removed.

use std::collections::BTreeMap;
use std::time::Duration;

use k8s_openapi::api::core::v1::{Node, Pod};
use kerf_api::quantity::Quantity;
use kerf_api::slim;
use kube::api::{DeleteParams, ListParams, PostParams};
use serde_json::json;

use crate::test_env::TestEnv;

/// Time between two steps of the simulation.
const SIMULATION_STEP: Duration = Duration::from_millis(500);

/// CPU request of each pod.
pub(crate) const POD_CPU: &str = "900m";

impl TestEnv {
    /// Simulates until `done` returns true or the time is over. Returns true if `done` did.
    pub(crate) async fn simulate_workload(
        &self,
        seconds: u64,
        pods: usize,
        done: impl AsyncFn(&TestEnv) -> bool,
    ) -> bool {
        // If nothing was written since the last step, there is nothing to do and nothing new to
        // check.
        let (mut simulated_revision, mut checked_revision) = (None, None);
        for _ in 0..seconds * 2 {
            let revision = self.server.revision();
            if simulated_revision.replace(revision) != Some(revision) {
                self.scale(pods).await;
                self.make_nodes_ready().await;
                self.schedule().await;
            }
            tokio::time::sleep(SIMULATION_STEP).await;
            let revision = self.server.revision();
            if checked_revision.replace(revision) != Some(revision) && done(self).await {
                return true;
            }
        }
        false
    }

    /// Creates or deletes pods until there are `wanted`, and removes deleted pods.
    async fn scale(&self, wanted: usize) {
        let pods = self.pods().list(&ListParams::default()).await.unwrap().items;
        let active: Vec<&Pod> = pods.iter().filter(|pod| pod.metadata.deletion_timestamp.is_none()).collect();
        for pod in active.iter().skip(wanted) {
            self.pods().delete(pod.metadata.name.as_deref().unwrap(), &DeleteParams::default()).await.unwrap();
        }
        for _ in active.len()..wanted {
            let pod = json!({"metadata": {"generateName": "web-"}, "spec": {"terminationGracePeriodSeconds": 0,
                "containers": [{"name": "c", "image": "i", "resources": {"requests": {"cpu": POD_CPU}}}]}});
            self.pods().create(&PostParams::default(), &serde_json::from_value(pod).unwrap()).await.unwrap();
        }
        // As kubelets do with deleted pods.
        for pod in pods.iter().filter(|pod| pod.metadata.deletion_timestamp.is_some()) {
            let now = DeleteParams { grace_period_seconds: Some(0), ..DeleteParams::default() };
            let _ = self.pods().delete(pod.metadata.name.as_deref().unwrap(), &now).await;
        }
    }

    async fn make_nodes_ready(&self) {
        for node in self.list::<Node>().await {
            let conditions = node.status.and_then(|status| status.conditions).unwrap_or_default();
            if !conditions.iter().any(|condition| condition.type_ == "Ready" && condition.status == "True") {
                self.make_ready(node.metadata.name.as_deref().unwrap()).await;
            }
        }
    }

    async fn schedule(&self) {
        let pods = self.pods().list(&ListParams::default()).await.unwrap().items;
        let mut free_cpu: BTreeMap<String, Quantity> = BTreeMap::new();
        for node in self.list::<Node>().await {
            let tainted = node.spec.as_ref().and_then(|spec| spec.taints.as_ref()).is_some_and(|all| !all.is_empty());
            if !tainted && node.metadata.deletion_timestamp.is_none() {
                let cpu = node.status.unwrap().allocatable.unwrap()["cpu"].0.parse().unwrap();
                free_cpu.insert(node.metadata.name.unwrap(), cpu);
            }
        }
        let request: Quantity = POD_CPU.parse().unwrap();
        for pod in &pods {
            if let Some(free) = pod.spec.as_ref().unwrap().node_name.as_ref().and_then(|node| free_cpu.get_mut(node)) {
                *free -= request;
            }
        }
        let is_pending =
            |pod: &&Pod| pod.spec.as_ref().unwrap().node_name.is_none() && pod.metadata.deletion_timestamp.is_none();
        for pod in pods.iter().filter(is_pending) {
            let name = pod.metadata.name.as_deref().unwrap();
            match free_cpu.iter_mut().find(|(_, free)| **free >= request) {
                Some((node, free)) => {
                    *free -= request;
                    self.bind(name, node).await;
                }
                None => self.mark_unschedulable(name).await,
            }
        }
    }

    /// Returns true if exactly `wanted` pods exist and all are bound to existing nodes.
    pub(crate) async fn all_pods_bound(&self, wanted: usize) -> bool {
        let pods = self.pods().list(&ListParams::default()).await.unwrap().items;
        let nodes: Vec<String> = self.list::<Node>().await.into_iter().filter_map(|node| node.metadata.name).collect();
        let is_bound =
            |pod: &Pod| pod.spec.as_ref().unwrap().node_name.as_ref().is_some_and(|node| nodes.contains(node));
        pods.len() == wanted && pods.iter().all(is_bound)
    }

    /// Returns descriptions of instances, nodes and claims that do not belong together. In the end
    /// there must be none.
    pub(crate) async fn orphans(&self) -> Vec<String> {
        let claims = self.claims().await;
        let nodes: Vec<slim::Node> = {
            let nodes = self.list::<Node>().await;
            nodes.into_iter().map(|node| serde_json::from_value(serde_json::to_value(node).unwrap()).unwrap()).collect()
        };
        let provider_id =
            |claim: &kerf_api::nodeclaim::NodeClaim| claim.status.as_ref().and_then(|s| s.provider_id.clone());
        let claimed: Vec<String> = claims.iter().filter_map(provider_id).collect();
        let mut orphans = Vec::new();
        for claim in &claims {
            let name = claim.metadata.name.clone().unwrap();
            match provider_id(claim) {
                None => orphans.push(format!("claim {name} has no instance")),
                Some(id) if !nodes.iter().any(|node| node.spec.provider_id == id) => {
                    orphans.push(format!("instance {id} of claim {name} has no node"));
                }
                Some(id) if claimed.iter().filter(|other| **other == id).count() > 1 => {
                    orphans.push(format!("instance {id} has two claims"));
                }
                Some(_) => {}
            }
        }
        for node in nodes.iter().filter(|node| !claimed.iter().any(|id| node.spec.provider_id == *id)) {
            orphans.push(format!("node {} has no claim", node.metadata.name));
        }
        orphans
    }
}
