//! The objects that belong to an instance (spec 06 §1.4). Messages about interruptions name an
//! instance by its ID alone, without its zone.

use std::sync::Arc;

use kerf_api::slim::Node;

use crate::claims::TrackedClaim;
use crate::cluster::Cluster;

impl Cluster {
    /// Returns the claims whose provider ID contains this instance ID, in the order of their names.
    pub fn claims_of_instance(&self, instance_id: &str) -> impl Iterator<Item = &Arc<TrackedClaim>> {
        self.claims_by_instance_id.get(instance_id).into_iter().flatten().filter_map(|name| self.claims.get(name))
    }

    /// Returns the nodes whose provider ID contains this instance ID, in the order of their names.
    pub fn nodes_of_instance(&self, instance_id: &str) -> impl Iterator<Item = &Arc<Node>> {
        self.nodes_by_instance_id.get(instance_id).into_iter().flatten().filter_map(|name| self.nodes.get(name))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn claims_and_nodes_are_found_by_instance_id() {
        let mut cluster = Cluster::new();
        let node = |provider_id: &str| -> Node {
            serde_json::from_value(json!({"metadata": {"name": "n"}, "spec": {"providerID": provider_id}})).unwrap()
        };
        let claim = |provider_id: &str, version: &str| -> TrackedClaim {
            serde_json::from_value(json!({"apiVersion": "karpenter.sh/v1", "kind": "NodeClaim",
                "metadata": {"name": "c", "resourceVersion": version},
                "spec": {"nodeClassRef": {"group": "g", "kind": "k", "name": "n"}, "requirements": []},
                "status": {"providerID": provider_id}}))
            .unwrap()
        };
        cluster.apply(node("aws:///us-west-2a/i-1"));
        cluster.apply(claim("aws:///us-west-2a/i-1", "1"));
        assert_eq!(cluster.nodes_of_instance("i-1").count(), 1);
        assert_eq!(cluster.claims_of_instance("i-1").count(), 1);
        cluster.apply(node("aws:///us-west-2a/i-2"));
        cluster.apply(claim("kwok://other", "2"));
        assert_eq!(cluster.nodes_of_instance("i-1").count() + cluster.claims_of_instance("i-1").count(), 0);
        assert_eq!(cluster.nodes_of_instance("i-2").count(), 1);
        cluster.delete(&node("aws:///us-west-2a/i-2"));
        assert_eq!(cluster.nodes_of_instance("i-2").count(), 0);
        assert!(cluster.nodes_by_instance_id.is_empty() && cluster.claims_by_instance_id.is_empty());
    }
}
