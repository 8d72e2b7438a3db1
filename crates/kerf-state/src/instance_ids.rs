//! Instance IDs inside provider IDs, and the objects that belong to an instance (spec 06 §1.4).
//! Messages about interruptions name an instance by its ID alone, without its zone.

use std::sync::Arc;

use kerf_api::slim::{Node, Str};

use crate::claims::TrackedClaim;
use crate::cluster::Cluster;

/// Returns the instance ID of a provider ID such as `aws:///us-west-2a/i-0123`. Returns `None` if
/// the provider ID has another form. The form is Karpenter's `.*:///.*/.*`.
pub fn instance_id(provider_id: &str) -> Option<&str> {
    let (zone_part, id) = provider_id.rsplit_once('/')?;
    zone_part.contains(":///").then_some(id)
}

/// Returns the instance ID of a provider ID as an index key. Returns `None` for other forms and for
/// an empty instance ID, which are not indexed.
pub(crate) fn instance_key(provider_id: Option<&Str>) -> Option<Str> {
    provider_id.and_then(|id| instance_id(id)).filter(|id| !id.is_empty()).map(Str::from)
}

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
    fn the_instance_id_is_the_last_part_of_a_provider_id() {
        assert_eq!(instance_id("aws:///us-west-2a/i-0123"), Some("i-0123"));
        assert_eq!(instance_id("aws:///us-west-2a/x/i-0123"), Some("i-0123"));
        assert_eq!(instance_id("aws:///us-west-2a/"), Some(""));
        for other in ["", "i-0123", "kwok://node", "aws:///i-0123", "aws://us-west-2a/i-0123"] {
            assert_eq!(instance_id(other), None, "{other}");
        }
    }

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
