//! Nodes that exist from the start, for clusters without an autoscaler.

use serde_json::json;

use super::Cluster;
use super::component_client::ComponentClient;
use super::kind::ControlPlaneKind;
use super::kubelet::SIMULATED_NODE_ANNOTATION;

/// The API server rejected a node.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("node {name}: {reason}")]
pub struct AddNodeError {
    /// Name of the node that was rejected.
    pub name: String,
    /// Message of the API server.
    pub reason: String,
}

impl Cluster {
    /// Creates simulated nodes `node-1` to `node-<count>`, in turn in three zones. Each has 4 CPUs,
    /// 16Gi of memory and a capacity of 110 pods.
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
        let client = ComponentClient::new(self.server.clone(), "kerf-sandbox");
        let to_error =
            |error: crate::api::status::StatusError| AddNodeError { name: name.into(), reason: error.message().into() };
        client.create(ControlPlaneKind::Node, "", &node).map(drop).map_err(to_error)
    }
}
