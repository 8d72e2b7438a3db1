//! Nodes that are there from the start, for clusters in which nobody launches machines.

use serde_json::json;

use super::Cluster;
use super::component_client::ComponentClient;
use super::kind::ControlPlaneKind;
use super::kubelet::SIMULATED_NODE_ANNOTATION;

/// A machine that could not be made.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("node {name}: {reason}")]
pub struct AddNodeError {
    /// The node's name.
    pub name: String,
    /// What the API server said.
    pub reason: String,
}

impl Cluster {
    /// Makes simulated nodes `node-1` to `node-<count>` with 4 CPUs, 16Gi of memory and room for 110 pods each, in three zones by turns.
    pub fn add_nodes(&self, count: u32) -> Result<(), AddNodeError> {
        for number in 1..=count {
            self.add_node(&format!("node-{number}"), number)?;
        }
        Ok(())
    }

    fn add_node(&self, name: &str, number: u32) -> Result<(), AddNodeError> {
        let zone = ["zone-a", "zone-b", "zone-c"][(number as usize - 1) % 3];
        let resources = json!({"cpu": "4", "memory": "16Gi", "ephemeral-storage": "100Gi", "pods": "110"});
        let node = json!({
            "metadata": {
                "name": name,
                "annotations": {SIMULATED_NODE_ANNOTATION: "fake"},
                "labels": {
                    "kubernetes.io/hostname": name, "kubernetes.io/arch": "amd64", "kubernetes.io/os": "linux",
                    "topology.kubernetes.io/region": "sandbox", "topology.kubernetes.io/zone": zone,
                },
            },
            "spec": {"providerID": format!("sandbox://{name}")},
            "status": {"capacity": resources, "allocatable": resources},
        });
        let requests = ComponentClient::new(self.server.clone(), "kerf-sandbox");
        let refused = |refusal: crate::api::status::StatusError| AddNodeError {
            name: name.into(),
            reason: refusal.message().into(),
        };
        requests.create(ControlPlaneKind::Node, "", &node).map(drop).map_err(refused)
    }
}
