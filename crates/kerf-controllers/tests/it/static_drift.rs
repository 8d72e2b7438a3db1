//! Drifted nodes of static pools (spec 03 §8.2): they are replaced one for one, and the pool's node
//! limit holds even if other controllers create claims at the same time.

use std::time::Duration;

use kerf_api::nodeclaim::NodeClaim;
use kerf_api::nodepool::NodePool;
use kerf_sandbox::{Fault, Verb};
use serde_json::json;

use crate::test_cluster::{TestCluster, consolidating_pool};

/// Creates a pool with three ready nodes and this node limit.
async fn cluster_with_node_limit(most: u32) -> TestCluster {
    let mut spec = consolidating_pool(json!({}));
    crate::test_env::merge(&mut spec, json!({"replicas": 3, "limits": {"nodes": most.to_string()}}));
    let mut town = TestCluster::without_controllers(spec).await;
    town.env.settings.static_capacity = true;
    town.restart();
    let are_up = async |town: &TestCluster| town.types().await.len() == 3 && town.tainted().await.is_empty();
    town.wait_until("three nodes are up", 60, are_up).await;
    town.advance(10).await;
    town
}

fn is_replaced(claim: &NodeClaim) -> bool {
    claim.metadata.labels.as_ref().is_some_and(|labels| labels.contains_key("colour"))
}

/// Delays the creation of claims.
fn delay_claim_creation(town: &TestCluster, by: Duration) {
    town.env.inject_fault(Fault::Slow { by }, Verb::Create, "nodeclaims");
}

/// Waits until there are this many claims and all are replaced. Returns the largest number of
/// claims seen.
async fn max_claims_until_replaced(town: &TestCluster, nodes: usize) -> usize {
    let (mut most, mut seen) = (0, None);
    for _ in 0..6000 {
        tokio::time::sleep(Duration::from_millis(50)).await;
        let revision = town.env.server.revision();
        if seen.replace(revision) == Some(revision) {
            continue;
        }
        let claims = town.env.claims().await;
        most = most.max(claims.len());
        if claims.len() == nodes && claims.iter().all(is_replaced) && town.is_idle().await {
            return most;
        }
    }
    panic!("not all nodes are new\n{:#}\n{:#?}", town.env.decisions(), town.env.claims().await);
}

// spec 04 #32, spec 03 section 8.2
#[tokio::test(start_paused = true)]
async fn as_many_are_replaced_at_once_as_the_node_limit_leaves() {
    for (limit, most) in [(4, 4), (5, 5), (9, 6)] {
        let town = cluster_with_node_limit(limit).await;
        town.change_template().await;
        assert_eq!(max_claims_until_replaced(&town, 3).await, most, "with a limit of {limit}");
        let created = &town.env.metrics.nodeclaims_created;
        assert_eq!(created.get(&["drifted", "general", "false"]), 3.0);
        assert_eq!(created.get(&["provisioned", "general", "false"]), 3.0, "nobody else makes up for them");
        assert_eq!(town.env.cluster.lock().reserved_nodes("general"), 0, "all room is given back");
    }
}

// spec 04 #32, spec 03 section 8.2
#[tokio::test(start_paused = true)]
async fn more_replicas_do_not_take_the_room_of_a_replacement_that_is_being_created() {
    let town = cluster_with_node_limit(5).await;
    delay_claim_creation(&town, Duration::from_secs(5));
    town.change_template().await;
    town.wait_until("a node is about to be replaced", 60, async |town| !town.tainted().await.is_empty()).await;
    assert_eq!(town.env.claims().await.len(), 3, "its replacement is not there yet");
    assert_eq!(town.env.cluster.lock().reserved_nodes("general"), 2);
    town.env.patch::<NodePool>("general", json!({"spec": {"replicas": 4}})).await;
    let most = max_claims_until_replaced(&town, 4).await;
    assert_eq!(most, 5, "the limit holds");
}

// spec 03 section 8.2: a failure releases the reserved nodes
#[tokio::test(start_paused = true)]
async fn room_is_given_back_if_the_replacement_cannot_be_created() {
    let town = cluster_with_node_limit(4).await;
    town.env.inject_fault(Fault::InternalError, Verb::Create, "nodeclaims");
    town.change_template().await;
    town.advance(30).await;
    {
        let cluster = town.env.cluster.lock();
        assert_eq!(cluster.reserved_nodes("general"), 0);
        assert_eq!(cluster.pool_claims("general").active, 3, "and nobody counts as going");
    }
    town.env.server.set_faults(Vec::new(), 1);
    assert_eq!(max_claims_until_replaced(&town, 3).await, 4);
}
