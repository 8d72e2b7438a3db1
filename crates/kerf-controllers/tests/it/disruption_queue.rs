//! How commands are executed and rolled back (spec 03 §4 and §10), and what a successor does about
//! commands of a dead process.

use std::time::Duration;

use k8s_openapi::api::core::v1::Node;
use kerf_api::kwoknodeclass::KWOKNodeClass;
use kerf_api::nodeclaim::NodeClaim;
use kerf_api::nodepool::NodePool;
use kerf_sandbox::{CloudFault, CloudFaultRule, Fault, FaultRule};
use serde_json::json;

use crate::test_cluster::{TestCluster, consolidating_pool};
use crate::test_env::claim_condition;

// spec 03 #56
#[tokio::test(start_paused = true)]
async fn marks_without_a_command_are_removed() {
    let mut cluster = TestCluster::start(consolidating_pool(json!({"consolidateAfter": "Never"}))).await;
    cluster.deploy("web", 1, "1", json!({})).await;
    cluster.wait_until("the pod runs", 60, async |cluster| cluster.is_settled(1, &["s"]).await).await;
    cluster.env.stop();
    let node = cluster.env.only_node().await.metadata.name.unwrap();
    let taint = json!({"key": "karpenter.sh/disrupted", "effect": "NoSchedule"});
    let other = json!({"key": "mine", "effect": "NoSchedule"});
    cluster.env.patch::<Node>(&node, json!({"spec": {"taints": [taint, other]}})).await;
    let claim = cluster.env.only_claim().await;
    let mut conditions = claim.status.unwrap().conditions;
    let mut reason = conditions[0].clone();
    "DisruptionReason".clone_into(&mut reason.condition_type);
    conditions.push(reason);
    let name = claim.metadata.name.unwrap();
    cluster.env.patch_status::<NodeClaim>(&name, json!({ "conditions": conditions })).await;
    assert_eq!((cluster.tainted().await.len(), cluster.disrupted().await), (1, 1));
    cluster.restart();
    cluster.env.wait(3).await;
    assert_eq!((cluster.tainted().await.len(), cluster.disrupted().await), (0, 0));
    let taints = cluster.env.only_node().await.spec.unwrap().taints.unwrap();
    assert_eq!(taints.iter().map(|taint| taint.key.as_str()).collect::<Vec<_>>(), ["mine"]);
}

// spec 03 #57 and spec 04 #28
#[tokio::test(start_paused = true)]
async fn nothing_is_decided_while_a_claim_is_not_launched() {
    let cluster = TestCluster::start(consolidating_pool(json!({}))).await;
    cluster.deploy("web", 1, "1", json!({})).await;
    cluster.wait_until("the pod runs", 60, async |cluster| cluster.is_settled(1, &["s"]).await).await;
    let unknown = json!([{"key": "node.kubernetes.io/instance-type", "operator": "In", "values": ["none"]}]);
    cluster.env.create_claim("stuck", json!({ "requirements": unknown })).await;
    cluster.env.wait(1).await;
    cluster.scale("web", 0).await;
    cluster.env.wait(125).await;
    assert_eq!(cluster.types().await, ["s"]);
    assert_eq!(cluster.env.metrics.cluster_state_synced.get(&[]), Some(0.0));
    let unsynced = cluster.env.metrics.cluster_state_unsynced_time.get(&[]).unwrap();
    assert!((120.0..130.0).contains(&unsynced), "{unsynced}");
    cluster.env.delete_claim("stuck").await;
    let took =
        cluster.wait_until("the empty node is removed", 40, async |cluster| cluster.types().await.is_empty()).await;
    assert!(took >= 15, "{took}");
    assert_eq!(cluster.env.metrics.cluster_state_unsynced_time.get(&[]), Some(0.0));
}

// spec 03 #75
#[tokio::test(start_paused = true)]
async fn provisioning_launches_nothing_for_pods_of_a_replaced_node() {
    let cluster = TestCluster::start(consolidating_pool(json!({"consolidateAfter": "Never"}))).await;
    cluster.deploy("web", 3, "500m", json!({})).await;
    cluster.wait_until("the pods run", 60, async |cluster| cluster.is_settled(3, &["s"]).await).await;
    cluster.env.patch::<KWOKNodeClass>("default", json!({"spec": {"nodeRegistrationDelay": "1m"}})).await;
    cluster.change_template().await;
    cluster.wait_until("the node is tainted", 10, async |cluster| !cluster.tainted().await.is_empty()).await;
    cluster
        .wait_until("the node is replaced", 180, async |cluster| {
            cluster.is_settled(3, &["s"]).await
                && cluster.tainted().await.is_empty()
                && cluster.env.claims().await.len() == 1
        })
        .await;
    let created = &cluster.env.metrics.nodeclaims_created;
    assert_eq!(created.get(&["provisioned", "general", "false"]), 1.0, "the first node");
    assert_eq!(created.get(&["drifted", "general", "false"]), 1.0);
}

// spec 03 #114
#[tokio::test(start_paused = true)]
async fn when_a_multi_node_command_is_invalid_each_node_is_tried_alone() {
    let cluster = TestCluster::start(consolidating_pool(json!({"consolidateAfter": "Never"}))).await;
    cluster.deploy("wide", 2, "7", json!({})).await;
    cluster.wait_until("the pods run", 60, async |cluster| cluster.is_settled(2, &["l", "l"]).await).await;
    cluster.deploy("web", 2, "200m", json!({})).await;
    cluster.wait_until("all pods run", 60, async |cluster| cluster.running().await == 4).await;
    cluster.scale("wide", 0).await;
    cluster.env.wait(5).await;
    cluster.patch_pool(json!({"spec": {"disruption": {"consolidateAfter": "0s"}}})).await;
    cluster.env.wait(5).await;
    let events = cluster.env.events("ConsolidationCandidate");
    assert_eq!(events.len(), 4, "{events:?}");
    assert!(events[0].1.contains("(part of 2-node consolidation)"), "{events:?}");
    let node = cluster.env.list::<Node>().await[0].metadata.name.clone().unwrap();
    let keep = json!({"metadata": {"annotations": {"karpenter.sh/do-not-disrupt": "true"}}});
    cluster.env.patch::<Node>(&node, keep).await;
    cluster.wait_until("one node is left", 60, async |cluster| cluster.is_settled(2, &["l"]).await).await;
    assert_eq!(cluster.env.only_node().await.metadata.name, Some(node));
    let metrics = &cluster.env.metrics.disruption;
    assert_eq!(metrics.failed_validations.get(&["multi"]), 2.0);
    assert_eq!(metrics.decisions.get(&["delete", "underutilized", "single"]), 1.0);
    let rejected = cluster.env.events("ConsolidationRejected");
    assert!(rejected.iter().all(|(_, text)| text.contains("reason: churn")) && rejected.len() == 4, "{rejected:?}");
}

// spec 03 #115
#[tokio::test(start_paused = true)]
async fn each_command_waits_for_its_own_replacements() {
    let mut spec = consolidating_pool(json!({"consolidateAfter": "Never"}));
    spec["template"] = json!({"spec": {"startupTaints": [{"key": "warming-up", "effect": "NoSchedule"}]}});
    let cluster = TestCluster::start(spec).await;
    let warm = async |cluster: &TestCluster, most: usize| {
        for node in cluster
            .env
            .list::<Node>()
            .await
            .into_iter()
            .filter(|node| {
                let taints = node.spec.as_ref().and_then(|spec| spec.taints.as_ref());
                taints.is_some_and(|taints| taints.iter().any(|taint| taint.key == "warming-up"))
            })
            .take(most)
        {
            cluster.env.patch::<Node>(node.metadata.name.as_deref().unwrap(), json!({"spec": {"taints": []}})).await;
        }
    };
    // A host port keeps the pods on separate nodes.
    let port = json!([{"name": "c", "image": "i", "ports": [{"containerPort": 80, "hostPort": 80}],
        "resources": {"requests": {"cpu": "1500m"}}}]);
    cluster.deploy("web", 2, "1500m", json!({"spec": {"containers": port}})).await;
    cluster.wait_until("two nodes are there", 60, async |cluster| cluster.types().await.len() == 2).await;
    cluster.env.wait(10).await;
    warm(&cluster, 2).await;
    cluster.wait_until("both pods run", 60, async |cluster| cluster.is_settled(2, &["s", "s"]).await).await;
    cluster.change_template().await;
    cluster.wait_until("both nodes are tainted", 40, async |cluster| cluster.tainted().await.len() == 2).await;
    cluster.advance(60).await;
    assert_eq!(cluster.env.claims().await.len(), 4);
    assert_eq!((cluster.tainted().await.len(), cluster.disrupted().await, cluster.running().await), (2, 2, 2));
    warm(&cluster, 1).await;
    cluster.wait_until("one of them is removed", 60, async |cluster| cluster.env.claims().await.len() == 3).await;
    cluster.advance(30).await;
    assert_eq!((cluster.env.claims().await.len(), cluster.tainted().await.len()), (3, 1));
    warm(&cluster, 1).await;
    cluster.wait_until("the other one is removed", 60, async |cluster| cluster.is_settled(2, &["s", "s"]).await).await;
    assert!(cluster.tainted().await.is_empty());
}

// spec 03 #116
#[tokio::test(start_paused = true)]
async fn a_command_whose_replacement_was_deleted_is_rolled_back() {
    let cluster = TestCluster::start(consolidating_pool(json!({}))).await;
    cluster.env.patch::<KWOKNodeClass>("default", json!({"spec": {"nodeRegistrationDelay": "5s"}})).await;
    cluster.deploy_oversized().await;
    cluster.env.patch::<KWOKNodeClass>("default", json!({"spec": {"nodeRegistrationDelay": "5m"}})).await;
    cluster.wait_until("the node is tainted", 60, async |cluster| cluster.tainted().await.len() == 1).await;
    cluster.env.wait(3).await;
    let replacement = cluster
        .env
        .claims()
        .await
        .into_iter()
        .find(|claim| claim_condition(claim, "Initialized") != "True/Initialized");
    cluster.env.delete_claim(replacement.unwrap().metadata.name.as_deref().unwrap()).await;
    cluster.wait_until("the node is unmarked", 5, async |cluster| cluster.tainted().await.is_empty()).await;
    assert_eq!(cluster.disrupted().await, 0);
    let decision = &cluster.env.decisions()["decisions"][0];
    assert_eq!((&decision["outcome"], &decision["why"]), (&json!("rolled back"), &json!("replacement was deleted")));
    assert_eq!(cluster.env.metrics.disruption.queue_failures.get(&["replace", "underutilized", "single"]), 1.0);
    assert_eq!(cluster.running().await, 1);
}

// spec 03 #116: the command waits as long as cluster state contains the replacement.
#[tokio::test(start_paused = true)]
async fn a_command_waits_for_a_replacement_that_cluster_state_still_contains() {
    let mut cluster = TestCluster::start(consolidating_pool(json!({}))).await;
    cluster.deploy_oversized().await;
    cluster.env.patch::<KWOKNodeClass>("default", json!({"spec": {"nodeRegistrationDelay": "5m"}})).await;
    let late = FaultRule {
        user_agent_prefix: "kerf".into(),
        ..FaultRule::new(Fault::LateWatch { by: Duration::from_secs(20) }, 1_000_000)
    };
    cluster.env.server.set_faults(vec![late], 1);
    cluster.restart();
    cluster.wait_until("the node is tainted", 120, async |cluster| cluster.tainted().await.len() == 1).await;
    cluster.env.wait(30).await;
    let replacement = cluster
        .env
        .claims()
        .await
        .into_iter()
        .find(|claim| claim_condition(claim, "Initialized") != "True/Initialized");
    let name = replacement.unwrap().metadata.name.unwrap();
    cluster.env.patch::<NodeClaim>(&name, json!({"metadata": {"finalizers": null}})).await;
    cluster.env.delete_claim(&name).await;
    cluster.env.wait(15).await;
    assert_eq!(cluster.tainted().await.len(), 1, "the deletion of the replacement is not observed yet");
    cluster.wait_until("the node is unmarked", 30, async |cluster| cluster.tainted().await.is_empty()).await;
}

// spec 03 #117; "a replacement that never joins"
#[tokio::test(start_paused = true)]
async fn a_command_whose_replacement_never_joins_is_rolled_back() {
    let cluster = TestCluster::start(consolidating_pool(json!({}))).await;
    cluster.deploy_oversized().await;
    let never = CloudFaultRule::new(CloudFault::NeverJoins, 1_000_000);
    cluster.cluster.cloud().set_faults(vec![never], 1);
    cluster.wait_until("the node is tainted", 60, async |cluster| cluster.tainted().await.len() == 1).await;
    cluster.advance(9 * 60).await;
    assert_eq!(cluster.tainted().await.len(), 1);
    cluster.wait_until("the node is unmarked", 90, async |cluster| cluster.tainted().await.is_empty()).await;
    assert_eq!((cluster.disrupted().await, cluster.running().await), (0, 1));
    let decision = &cluster.env.decisions()["decisions"][0];
    assert_eq!(decision["why"], "command reached timeout, replacement is not initialized");
    let annotations = cluster.env.api::<NodePool>().get("general").await.unwrap().metadata.annotations.unwrap();
    assert!(annotations["kerf.sh/launch-backoffs"].contains(r#""instanceTypes":["s"]"#), "{annotations:?}");
    // It is not retried at once. The launched replacement stays and would become an ordinary node.
    cluster.advance(10 * 60).await;
    assert_eq!(cluster.types().await, ["l", "s"]);
    assert_eq!(cluster.env.decisions()["decisions"].as_array().unwrap().len(), 1, "{:#}", cluster.env.decisions());
}

// spec 03 §10.3: a replacement that registers and is never initialized, because its startup taint
// is not removed
#[tokio::test(start_paused = true)]
async fn a_command_whose_replacement_is_never_initialized_is_rolled_back() {
    let cluster = TestCluster::start(consolidating_pool(json!({"consolidateAfter": "Never"}))).await;
    cluster.deploy("web", 1, "1500m", json!({})).await;
    cluster.wait_until("the pod runs", 60, async |cluster| cluster.is_settled(1, &["s"]).await).await;
    let taints = json!([{"key": "warming-up", "effect": "NoSchedule"}]);
    cluster.patch_pool(json!({"spec": {"template": {"spec": {"startupTaints": taints}}}})).await;
    cluster.wait_until("the node is tainted", 30, async |cluster| cluster.tainted().await.len() == 1).await;
    cluster.advance(9 * 60).await;
    assert_eq!(
        (cluster.tainted().await.len(), cluster.types().await),
        (1, vec!["s".to_owned(); 2]),
        "the replacement has joined"
    );
    cluster.wait_until("the node is unmarked", 90, async |cluster| cluster.tainted().await.is_empty()).await;
    let decision = &cluster.env.decisions()["decisions"][0];
    assert_eq!(decision["why"], "command reached timeout, replacement is not initialized");
    assert_eq!((cluster.disrupted().await, cluster.running().await), (0, 1));
    let old = cluster
        .env
        .claims()
        .await
        .into_iter()
        .find(|claim| claim_condition(claim, "Initialized") == "True/Initialized");
    assert_eq!(claim_condition(&old.unwrap(), "Drifted"), "True/NodePoolDrifted", "the old node is still drifted");
    assert_eq!(cluster.env.metrics.disruption.drift_backoffs.get(&["general"]), 1.0);
    // As long as the replacement may still become ready, no more are launched.
    cluster.advance(60 * 60).await;
    assert_eq!((cluster.types().await.len(), cluster.running().await), (2, 1));
    let node = cluster.env.list::<Node>().await.into_iter().find(|node| {
        let taints = node.spec.as_ref().and_then(|spec| spec.taints.as_ref());
        taints.is_some_and(|taints| taints.iter().any(|taint| taint.key == "warming-up"))
    });
    let warm = json!({"spec": {"taints": []}});
    cluster.env.patch::<Node>(node.unwrap().metadata.name.as_deref().unwrap(), warm).await;
    cluster
        .wait_until("the pod has moved to the replacement", 900, async |cluster| {
            cluster.is_settled(1, &["s"]).await && cluster.is_idle().await
        })
        .await;
}

// spec 03 #87
#[tokio::test(start_paused = true)]
async fn budgets_count_nodes_of_active_commands() {
    let cluster =
        TestCluster::start(consolidating_pool(json!({"consolidateAfter": "Never", "budgets": [{"nodes": "3"}]}))).await;
    let port = json!([{"name": "c", "image": "i", "ports": [{"containerPort": 80, "hostPort": 80}],
        "resources": {"requests": {"cpu": "1500m"}}}]);
    cluster.deploy("web", 5, "1500m", json!({"spec": {"containers": port}})).await;
    cluster.wait_until("all pods run", 60, async |cluster| cluster.is_settled(5, &["s"; 5]).await).await;
    cluster.env.patch::<KWOKNodeClass>("default", json!({"spec": {"nodeRegistrationDelay": "2m"}})).await;
    cluster.env.wait(25).await;
    cluster.change_template().await;
    cluster.advance(60).await;
    assert_eq!((cluster.tainted().await.len(), cluster.env.claims().await.len()), (3, 8));
    assert_eq!(cluster.env.metrics.disruption.nodes_consuming_budgets.get(&["general", "Drifted"]), Some(3.0));
    cluster
        .wait_until("all nodes are replaced", 600, async |cluster| {
            let claims = cluster.env.claims().await;
            let is_new = |claim: &NodeClaim| claim_condition(claim, "Drifted") == "absent";
            claims.len() == 5 && claims.iter().all(is_new) && cluster.is_settled(5, &["s"; 5]).await
        })
        .await;
    assert_eq!(cluster.env.metrics.disruption.decisions.get(&["replace", "drifted", ""]), 5.0);
}

/// A pod that is bound between the decision and the taint keeps its node.
#[tokio::test(start_paused = true)]
async fn a_node_that_gets_a_pod_after_the_decision_stays() {
    let cluster = TestCluster::start(consolidating_pool(json!({}))).await;
    cluster.deploy("web", 1, "1", json!({})).await;
    cluster.wait_until("the pod runs", 60, async |cluster| cluster.is_settled(1, &["s"]).await).await;
    cluster.scale("web", 0).await;
    cluster.wait_until("the node is tainted", 60, async |cluster| cluster.tainted().await.len() == 1).await;
    let node = cluster.env.only_node().await.metadata.name.unwrap();
    // The scheduler had chosen the node before it saw the taint.
    let pod =
        json!({"metadata": {"name": "late"}, "spec": {"nodeName": node, "containers": [{"name": "c", "image": "i"}]}});
    cluster.env.pods().create(&kube::api::PostParams::default(), &serde_json::from_value(pod).unwrap()).await.unwrap();
    cluster.wait_until("the node is unmarked", 10, async |cluster| cluster.tainted().await.is_empty()).await;
    cluster.advance(30).await;
    assert_eq!((cluster.types().await, cluster.running().await), (vec!["s".to_owned()], 1));
    assert_eq!(cluster.disrupted().await, 0);
}
