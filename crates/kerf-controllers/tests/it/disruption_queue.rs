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
async fn marks_that_no_command_stands_behind_are_taken_away() {
    let mut town = TestCluster::start(consolidating_pool(json!({"consolidateAfter": "Never"}))).await;
    town.deploy("web", 1, "1", json!({})).await;
    town.wait_until("it runs", 60, async |town| town.is_settled(1, &["s"]).await).await;
    town.env.stop();
    let node = town.env.only_node().await.metadata.name.unwrap();
    let taint = json!({"key": "karpenter.sh/disrupted", "effect": "NoSchedule"});
    let other = json!({"key": "mine", "effect": "NoSchedule"});
    town.env.patch::<Node>(&node, json!({"spec": {"taints": [taint, other]}})).await;
    let claim = town.env.only_claim().await;
    let mut conditions = claim.status.unwrap().conditions;
    let mut reason = conditions[0].clone();
    "DisruptionReason".clone_into(&mut reason.condition_type);
    conditions.push(reason);
    let name = claim.metadata.name.unwrap();
    town.env.patch_status::<NodeClaim>(&name, json!({ "conditions": conditions })).await;
    assert_eq!((town.tainted().await.len(), town.disrupted().await), (1, 1));
    town.restart();
    town.env.wait(3).await;
    assert_eq!((town.tainted().await.len(), town.disrupted().await), (0, 0));
    let taints = town.env.only_node().await.spec.unwrap().taints.unwrap();
    assert_eq!(taints.iter().map(|taint| taint.key.as_str()).collect::<Vec<_>>(), ["mine"]);
}

// spec 03 #57 and spec 04 #28
#[tokio::test(start_paused = true)]
async fn nothing_is_decided_while_a_claim_has_no_machine() {
    let town = TestCluster::start(consolidating_pool(json!({}))).await;
    town.deploy("web", 1, "1", json!({})).await;
    town.wait_until("it runs", 60, async |town| town.is_settled(1, &["s"]).await).await;
    let unknown = json!([{"key": "node.kubernetes.io/instance-type", "operator": "In", "values": ["none"]}]);
    town.env.create_claim("stuck", json!({ "requirements": unknown })).await;
    town.env.wait(1).await;
    town.scale("web", 0).await;
    town.env.wait(125).await;
    assert_eq!(town.types().await, ["s"]);
    assert_eq!(town.env.metrics.cluster_state_synced.get(&[]), Some(0.0));
    let unsynced = town.env.metrics.cluster_state_unsynced_time.get(&[]).unwrap();
    assert!((120.0..130.0).contains(&unsynced), "{unsynced}");
    town.env.delete_claim("stuck").await;
    let took = town.wait_until("the empty node goes", 40, async |town| town.types().await.is_empty()).await;
    assert!(took >= 15, "{took}");
    assert_eq!(town.env.metrics.cluster_state_unsynced_time.get(&[]), Some(0.0));
}

// spec 03 #75
#[tokio::test(start_paused = true)]
async fn nobody_launches_machines_for_pods_that_a_replacement_is_for() {
    let town = TestCluster::start(consolidating_pool(json!({"consolidateAfter": "Never"}))).await;
    town.deploy("web", 3, "500m", json!({})).await;
    town.wait_until("they run", 60, async |town| town.is_settled(3, &["s"]).await).await;
    town.env.patch::<KWOKNodeClass>("default", json!({"spec": {"nodeRegistrationDelay": "1m"}})).await;
    town.change_template().await;
    town.wait_until("the node is tainted", 10, async |town| !town.tainted().await.is_empty()).await;
    town.wait_until("it is replaced", 180, async |town| {
        town.is_settled(3, &["s"]).await && town.tainted().await.is_empty() && town.env.claims().await.len() == 1
    })
    .await;
    let created = &town.env.metrics.nodeclaims_created;
    assert_eq!(created.get(&["provisioned", "general", "false"]), 1.0, "the one at the start");
    assert_eq!(created.get(&["drifted", "general", "false"]), 1.0);
}

// spec 03 #114
#[tokio::test(start_paused = true)]
async fn when_several_nodes_cannot_go_together_any_more_each_is_tried_alone() {
    let town = TestCluster::start(consolidating_pool(json!({"consolidateAfter": "Never"}))).await;
    town.deploy("wide", 2, "7", json!({})).await;
    town.wait_until("they run", 60, async |town| town.is_settled(2, &["l", "l"]).await).await;
    town.deploy("web", 2, "200m", json!({})).await;
    town.wait_until("all run", 60, async |town| town.running().await == 4).await;
    town.scale("wide", 0).await;
    town.env.wait(5).await;
    town.patch_pool(json!({"spec": {"disruption": {"consolidateAfter": "0s"}}})).await;
    town.env.wait(5).await;
    let told = town.env.events("ConsolidationCandidate");
    assert_eq!(told.len(), 4, "{told:?}");
    assert!(told[0].1.contains("(part of 2-node consolidation)"), "{told:?}");
    let node = town.env.list::<Node>().await[0].metadata.name.clone().unwrap();
    let keep = json!({"metadata": {"annotations": {"karpenter.sh/do-not-disrupt": "true"}}});
    town.env.patch::<Node>(&node, keep).await;
    town.wait_until("one is left", 60, async |town| town.is_settled(2, &["l"]).await).await;
    assert_eq!(town.env.only_node().await.metadata.name, Some(node));
    let metrics = &town.env.metrics.disruption;
    assert_eq!(metrics.failed_validations.get(&["multi"]), 2.0);
    assert_eq!(metrics.decisions.get(&["delete", "underutilized", "single"]), 1.0);
    let rejected = town.env.events("ConsolidationRejected");
    assert!(rejected.iter().all(|(_, text)| text.contains("reason: churn")) && rejected.len() == 4, "{rejected:?}");
}

// spec 03 #115
#[tokio::test(start_paused = true)]
async fn each_command_waits_for_its_own_replacements() {
    let mut spec = consolidating_pool(json!({"consolidateAfter": "Never"}));
    spec["template"] = json!({"spec": {"startupTaints": [{"key": "warming-up", "effect": "NoSchedule"}]}});
    let town = TestCluster::start(spec).await;
    let warm = async |town: &TestCluster, most: usize| {
        for node in town
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
            town.env.patch::<Node>(node.metadata.name.as_deref().unwrap(), json!({"spec": {"taints": []}})).await;
        }
    };
    // A host port keeps the pods on separate nodes.
    let port = json!([{"name": "c", "image": "i", "ports": [{"containerPort": 80, "hostPort": 80}],
        "resources": {"requests": {"cpu": "1500m"}}}]);
    town.deploy("web", 2, "1500m", json!({"spec": {"containers": port}})).await;
    town.wait_until("two nodes are there", 60, async |town| town.types().await.len() == 2).await;
    town.env.wait(10).await;
    warm(&town, 2).await;
    town.wait_until("both run", 60, async |town| town.is_settled(2, &["s", "s"]).await).await;
    town.change_template().await;
    town.wait_until("both are tainted", 40, async |town| town.tainted().await.len() == 2).await;
    town.advance(60).await;
    assert_eq!(town.env.claims().await.len(), 4);
    assert_eq!((town.tainted().await.len(), town.disrupted().await, town.running().await), (2, 2, 2));
    warm(&town, 1).await;
    town.wait_until("one of them goes", 60, async |town| town.env.claims().await.len() == 3).await;
    town.advance(30).await;
    assert_eq!((town.env.claims().await.len(), town.tainted().await.len()), (3, 1));
    warm(&town, 1).await;
    town.wait_until("the other goes", 60, async |town| town.is_settled(2, &["s", "s"]).await).await;
    assert!(town.tainted().await.is_empty());
}

// spec 03 #116
#[tokio::test(start_paused = true)]
async fn a_command_whose_replacement_is_gone_is_taken_back() {
    let town = TestCluster::start(consolidating_pool(json!({}))).await;
    town.env.patch::<KWOKNodeClass>("default", json!({"spec": {"nodeRegistrationDelay": "5s"}})).await;
    town.deploy_oversized().await;
    town.env.patch::<KWOKNodeClass>("default", json!({"spec": {"nodeRegistrationDelay": "5m"}})).await;
    town.wait_until("the node is tainted", 60, async |town| town.tainted().await.len() == 1).await;
    town.env.wait(3).await;
    let replacement =
        town.env.claims().await.into_iter().find(|claim| claim_condition(claim, "Initialized") != "True/Initialized");
    town.env.delete_claim(replacement.unwrap().metadata.name.as_deref().unwrap()).await;
    town.wait_until("the node is let go", 5, async |town| town.tainted().await.is_empty()).await;
    assert_eq!(town.disrupted().await, 0);
    let decision = &town.env.decisions()["decisions"][0];
    assert_eq!((&decision["outcome"], &decision["why"]), (&json!("rolled back"), &json!("replacement was deleted")));
    assert_eq!(town.env.metrics.disruption.queue_failures.get(&["replace", "underutilized", "single"]), 1.0);
    assert_eq!(town.running().await, 1);
}

// spec 03 #116: the command waits as long as cluster state contains the replacement.
#[tokio::test(start_paused = true)]
async fn a_replacement_that_only_the_server_has_forgotten_is_waited_for() {
    let mut town = TestCluster::start(consolidating_pool(json!({}))).await;
    town.deploy_oversized().await;
    town.env.patch::<KWOKNodeClass>("default", json!({"spec": {"nodeRegistrationDelay": "5m"}})).await;
    let late = FaultRule {
        user_agent_prefix: "kerf".into(),
        ..FaultRule::new(Fault::LateWatch { by: Duration::from_secs(20) }, 1_000_000)
    };
    town.env.server.set_faults(vec![late], 1);
    town.restart();
    town.wait_until("the node is tainted", 120, async |town| town.tainted().await.len() == 1).await;
    town.env.wait(30).await;
    let replacement =
        town.env.claims().await.into_iter().find(|claim| claim_condition(claim, "Initialized") != "True/Initialized");
    let name = replacement.unwrap().metadata.name.unwrap();
    town.env.patch::<NodeClaim>(&name, json!({"metadata": {"finalizers": null}})).await;
    town.env.delete_claim(&name).await;
    town.env.wait(15).await;
    assert_eq!(town.tainted().await.len(), 1, "nobody has heard of it yet");
    town.wait_until("the node is let go", 30, async |town| town.tainted().await.is_empty()).await;
}

// spec 03 #117; "a replacement that never joins"
#[tokio::test(start_paused = true)]
async fn a_replacement_that_never_joins_is_given_up_and_the_node_let_go() {
    let town = TestCluster::start(consolidating_pool(json!({}))).await;
    town.deploy_oversized().await;
    let never = CloudFaultRule::new(CloudFault::NeverJoins, 1_000_000);
    town.cluster.cloud().set_faults(vec![never], 1);
    town.wait_until("the node is tainted", 60, async |town| town.tainted().await.len() == 1).await;
    town.advance(9 * 60).await;
    assert_eq!(town.tainted().await.len(), 1);
    town.wait_until("the node is let go", 90, async |town| town.tainted().await.is_empty()).await;
    assert_eq!((town.disrupted().await, town.running().await), (0, 1));
    let decision = &town.env.decisions()["decisions"][0];
    assert_eq!(decision["why"], "command reached timeout, replacement is not initialized");
    let noted = town.env.api::<NodePool>().get("general").await.unwrap().metadata.annotations.unwrap();
    assert!(noted["kerf.sh/launch-backoffs"].contains(r#""instanceTypes":["s"]"#), "{noted:?}");
    // It is not retried at once. The launched replacement stays and would become an ordinary node.
    town.advance(10 * 60).await;
    assert_eq!(town.types().await, ["l", "s"]);
    assert_eq!(town.env.decisions()["decisions"].as_array().unwrap().len(), 1, "{:#}", town.env.decisions());
}

// spec 03 §10.3: a replacement that registers and is never initialized, because its startup taint
// is not removed
#[tokio::test(start_paused = true)]
async fn a_replacement_that_is_never_initialized_is_given_up_and_the_node_let_go() {
    let town = TestCluster::start(consolidating_pool(json!({"consolidateAfter": "Never"}))).await;
    town.deploy("web", 1, "1500m", json!({})).await;
    town.wait_until("it runs", 60, async |town| town.is_settled(1, &["s"]).await).await;
    let taints = json!([{"key": "warming-up", "effect": "NoSchedule"}]);
    town.patch_pool(json!({"spec": {"template": {"spec": {"startupTaints": taints}}}})).await;
    town.wait_until("the node is tainted", 30, async |town| town.tainted().await.len() == 1).await;
    town.advance(9 * 60).await;
    assert_eq!((town.tainted().await.len(), town.types().await), (1, vec!["s".to_owned(); 2]), "it has joined");
    town.wait_until("the node is let go", 90, async |town| town.tainted().await.is_empty()).await;
    let decision = &town.env.decisions()["decisions"][0];
    assert_eq!(decision["why"], "command reached timeout, replacement is not initialized");
    assert_eq!((town.disrupted().await, town.running().await), (0, 1));
    let old =
        town.env.claims().await.into_iter().find(|claim| claim_condition(claim, "Initialized") == "True/Initialized");
    assert_eq!(claim_condition(&old.unwrap(), "Drifted"), "True/NodePoolDrifted", "it is still to be renewed");
    assert_eq!(town.env.metrics.disruption.drift_backoffs.get(&["general"]), 1.0);
    // As long as the replacement may still become ready, no more are launched.
    town.advance(60 * 60).await;
    assert_eq!((town.types().await.len(), town.running().await), (2, 1));
    let node = town.env.list::<Node>().await.into_iter().find(|node| {
        let taints = node.spec.as_ref().and_then(|spec| spec.taints.as_ref());
        taints.is_some_and(|taints| taints.iter().any(|taint| taint.key == "warming-up"))
    });
    let warm = json!({"spec": {"taints": []}});
    town.env.patch::<Node>(node.unwrap().metadata.name.as_deref().unwrap(), warm).await;
    town.wait_until("the pod has moved after all", 900, async |town| {
        town.is_settled(1, &["s"]).await && town.is_idle().await
    })
    .await;
}

// spec 03 #87
#[tokio::test(start_paused = true)]
async fn budgets_count_everything_that_is_under_way() {
    let town =
        TestCluster::start(consolidating_pool(json!({"consolidateAfter": "Never", "budgets": [{"nodes": "3"}]}))).await;
    let port = json!([{"name": "c", "image": "i", "ports": [{"containerPort": 80, "hostPort": 80}],
        "resources": {"requests": {"cpu": "1500m"}}}]);
    town.deploy("web", 5, "1500m", json!({"spec": {"containers": port}})).await;
    town.wait_until("all run", 60, async |town| town.is_settled(5, &["s"; 5]).await).await;
    town.env.patch::<KWOKNodeClass>("default", json!({"spec": {"nodeRegistrationDelay": "2m"}})).await;
    town.env.wait(25).await;
    town.change_template().await;
    town.advance(60).await;
    assert_eq!((town.tainted().await.len(), town.env.claims().await.len()), (3, 8));
    assert_eq!(town.env.metrics.disruption.nodes_consuming_budgets.get(&["general", "Drifted"]), Some(3.0));
    town.wait_until("all are replaced", 600, async |town| {
        let claims = town.env.claims().await;
        let is_new = |claim: &NodeClaim| claim_condition(claim, "Drifted") == "absent";
        claims.len() == 5 && claims.iter().all(is_new) && town.is_settled(5, &["s"; 5]).await
    })
    .await;
    assert_eq!(town.env.metrics.disruption.decisions.get(&["replace", "drifted", ""]), 5.0);
}

/// A pod that is bound between the decision and the taint keeps its node.
#[tokio::test(start_paused = true)]
async fn a_node_that_gains_a_pod_at_the_last_moment_stays() {
    let town = TestCluster::start(consolidating_pool(json!({}))).await;
    town.deploy("web", 1, "1", json!({})).await;
    town.wait_until("it runs", 60, async |town| town.is_settled(1, &["s"]).await).await;
    town.scale("web", 0).await;
    town.wait_until("the node is tainted", 60, async |town| town.tainted().await.len() == 1).await;
    let node = town.env.only_node().await.metadata.name.unwrap();
    // The scheduler had chosen the node before it saw the taint.
    let pod =
        json!({"metadata": {"name": "late"}, "spec": {"nodeName": node, "containers": [{"name": "c", "image": "i"}]}});
    town.env.pods().create(&kube::api::PostParams::default(), &serde_json::from_value(pod).unwrap()).await.unwrap();
    town.wait_until("the node is let go", 10, async |town| town.tainted().await.is_empty()).await;
    town.advance(30).await;
    assert_eq!((town.types().await, town.running().await), (vec!["s".to_owned()], 1));
    assert_eq!(town.disrupted().await, 0);
}
