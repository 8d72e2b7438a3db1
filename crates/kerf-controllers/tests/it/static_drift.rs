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
    let mut cluster = TestCluster::without_controllers(spec).await;
    cluster.env.settings.static_capacity = true;
    cluster.restart();
    let are_up = async |cluster: &TestCluster| cluster.types().await.len() == 3 && cluster.tainted().await.is_empty();
    cluster.wait_until("three nodes are up", 60, are_up).await;
    cluster.advance(10).await;
    cluster
}

fn is_replaced(claim: &NodeClaim) -> bool {
    claim.metadata.labels.as_ref().is_some_and(|labels| labels.contains_key("colour"))
}

fn delay_claim_creation(cluster: &TestCluster, by: Duration) {
    cluster.env.inject_fault(Fault::Slow { by }, Verb::Create, "nodeclaims");
}

/// Waits until there are this many claims and all are replaced. Returns the largest number of
/// claims seen.
async fn max_claims_until_replaced(cluster: &TestCluster, nodes: usize) -> usize {
    let (mut most, mut last_revision) = (0, None);
    for _ in 0..6000 {
        tokio::time::sleep(Duration::from_millis(50)).await;
        let revision = cluster.env.server.revision();
        if last_revision.replace(revision) == Some(revision) {
            continue;
        }
        let claims = cluster.env.claims().await;
        most = most.max(claims.len());
        if claims.len() == nodes && claims.iter().all(is_replaced) && cluster.is_idle().await {
            return most;
        }
    }
    panic!("not all nodes are replaced\n{:#}\n{:#?}", cluster.env.decisions(), cluster.env.claims().await);
}

// spec 04 #32, spec 03 section 8.2
#[tokio::test(start_paused = true)]
async fn as_many_nodes_are_replaced_at_once_as_the_node_limit_allows() {
    for (limit, most) in [(4, 4), (5, 5), (9, 6)] {
        let cluster = cluster_with_node_limit(limit).await;
        cluster.change_template().await;
        assert_eq!(max_claims_until_replaced(&cluster, 3).await, most, "with a limit of {limit}");
        let created = &cluster.env.metrics.nodeclaims_created;
        assert_eq!(created.get(&["drifted", "general", "false"]), 3.0);
        assert_eq!(
            created.get(&["provisioned", "general", "false"]),
            3.0,
            "static provisioning creates no further claims"
        );
        assert_eq!(cluster.env.cluster.lock().reserved_nodes("general"), 0, "all reserved nodes are released");
    }
}

// spec 04 #32, spec 03 section 8.2
#[tokio::test(start_paused = true)]
async fn scaling_up_does_not_use_the_reserved_nodes_of_a_replacement() {
    let cluster = cluster_with_node_limit(5).await;
    delay_claim_creation(&cluster, Duration::from_secs(5));
    cluster.change_template().await;
    cluster.wait_until("a node is tainted", 60, async |cluster| !cluster.tainted().await.is_empty()).await;
    assert_eq!(cluster.env.claims().await.len(), 3, "the replacement does not exist yet");
    assert_eq!(cluster.env.cluster.lock().reserved_nodes("general"), 2);
    cluster.env.patch::<NodePool>("general", json!({"spec": {"replicas": 4}})).await;
    let most = max_claims_until_replaced(&cluster, 4).await;
    assert_eq!(most, 5, "the node limit is not exceeded");
}

// spec 03 section 8.2: a failure releases the reserved nodes
#[tokio::test(start_paused = true)]
async fn reserved_nodes_are_released_if_the_replacement_cannot_be_created() {
    let cluster = cluster_with_node_limit(4).await;
    cluster.env.inject_fault(Fault::InternalError, Verb::Create, "nodeclaims");
    cluster.change_template().await;
    cluster.advance(30).await;
    {
        let state = cluster.env.cluster.lock();
        assert_eq!(state.reserved_nodes("general"), 0);
        assert_eq!(state.pool_claims("general").active, 3, "no claim is marked for deletion");
    }
    cluster.env.server.set_faults(Vec::new(), 1);
    assert_eq!(max_claims_until_replaced(&cluster, 3).await, 4);
}
