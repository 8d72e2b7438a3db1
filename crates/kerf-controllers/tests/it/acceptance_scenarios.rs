//! Acceptance scenarios B to E, G and H of spec 07 §13: what happens, and the order of the log
//! lines.

use kerf_api::kwoknodeclass::KWOKNodeClass;
use kerf_api::nodeclaim::NodeClaim;
use kerf_api::nodepool::NodePool;
use kerf_operator::logs::Level;
use serde_json::{Value, json};

use crate::test_cluster::{TestCluster, catalogue_with_prices, consolidating_pool};
use crate::test_env::{CapturedLog, claim_condition};

fn messages(lines: &[Value]) -> Vec<&str> {
    lines.iter().map(|line| line["message"].as_str().unwrap()).collect()
}

#[tokio::test(start_paused = true)]
async fn scale_up_limits_scale_down_and_drift_by_node_class() {
    let spec = json!({
        "limits": {"cpu": "10"},
        "disruption": {"consolidationPolicy": "WhenEmptyOrUnderutilized", "consolidateAfter": "30s"},
        "template": {"spec": {"expireAfter": "Never", "requirements": [
            {"key": "node.kubernetes.io/instance-type", "operator": "In", "values": ["s", "l"]}]}},
    });
    let mut cluster = TestCluster::without_controllers(spec).await;
    // Small instances are expensive, so that the pods share a large one.
    cluster.catalogue = catalogue_with_prices([0.35, 0.39, 0.4]);
    let (lines, _log) = CapturedLog::capture(Level::Info, cluster.env.clock);
    cluster.restart();
    cluster.env.wait(2).await;
    lines.take();

    // B. Scale up.
    cluster.deploy("inflate", 5, "1100m", json!({})).await;
    cluster.wait_until("five pods run", 60, async |cluster| cluster.is_settled(5, &["l"]).await).await;
    let logged = lines.take();
    let lifecycle = ["launched nodeclaim", "registered nodeclaim", "initialized nodeclaim"];
    let provisioning = ["found provisionable pod(s)", "computed new nodeclaim(s) to fit pod(s)", "created nodeclaim"];
    assert_eq!(messages(&logged), [provisioning, lifecycle].concat());
    assert_eq!((&logged[1]["nodeclaims"], &logged[1]["pods"]), (&json!(1), &json!(5)));
    assert!(logged[..3].iter().all(|line| line["reconcileID"] == logged[0]["reconcileID"]));
    cluster.advance(35).await;
    let claim = cluster.env.only_claim().await;
    let order: Vec<&str> = ["Launched", "Registered", "Initialized", "Consolidatable"].into();
    let conditions = claim.status.unwrap().conditions;
    let since = |kind: &&str| {
        conditions.iter().find(|condition| condition.condition_type == *kind).unwrap().last_transition_time.0
    };
    assert!(order.is_sorted_by_key(since), "{conditions:#?}");

    // C. Limits.
    cluster.scale("inflate", 12).await;
    cluster.wait_until("eight pods run", 60, async |cluster| cluster.running().await == 8).await;
    cluster.advance(20).await;
    assert_eq!((cluster.types().await, cluster.pods().await.len()), (vec!["l".to_owned(), "s".to_owned()], 12));
    let pool = cluster.env.api::<NodePool>().get("general").await.unwrap();
    assert_eq!(pool.status.unwrap().resources.unwrap()["cpu"].text(), "10");
    let events = cluster.env.events("FailedScheduling");
    let exceeds = "all available instance types exceed limits for nodepool (NodePool=general)";
    assert!(events.iter().all(|(_, text)| text.contains(exceeds)) && events.len() >= 4, "{events:#?}");
    assert!(messages(&lines.take()).contains(&"could not schedule pod"));
    cluster.patch_pool(json!({"spec": {"limits": {"cpu": "1000"}}})).await;
    cluster.wait_until("all pods run", 60, async |cluster| cluster.running().await == 12).await;

    // D. Scale down.
    cluster.env.wait(5).await;
    lines.take();
    cluster.scale("inflate", 0).await;
    let took = cluster.wait_until("all nodes are removed", 600, async |cluster| cluster.types().await.is_empty()).await;
    assert!(took >= 45, "consolidateAfter and the validation delay: {took} s");
    cluster.env.wait(2).await;
    let logged = lines.take();
    let per_node = ["disrupting node(s)", "tainted node", "deleted node", "deleted nodeclaim"];
    assert_eq!(messages(&logged), per_node.repeat(3), "a budget of 10% allows one node at a time");
    let line = &logged[0];
    assert_eq!(
        (&line["decision"], &line["reason"], &line["pod-count"], &line["replacement-node-count"]),
        (&json!("delete"), &json!("empty"), &json!(0), &json!(0))
    );
    assert_eq!((&line["replacement-nodes"], line["controller"].as_str()), (&json!([]), Some("disruption")));
    let id = line["command-id"].as_str().unwrap();
    assert!(line["command"].as_str().unwrap().starts_with(&format!("Empty/{id}: delete: nodepools=[general]: [")));
    assert_eq!(
        (&logged[1]["taint.Key"], &logged[1]["taint.Effect"]),
        (&json!("karpenter.sh/disrupted"), &json!("NoSchedule"))
    );
    let events = cluster.env.events("DisruptionTerminating");
    assert_eq!(events.iter().filter(|(_, text)| text == "Disrupting Node: Empty").count(), 3);

    // E. Drift by node class.
    cluster.scale("inflate", 5).await;
    cluster.wait_until("five pods run", 60, async |cluster| cluster.is_settled(5, &["l"]).await).await;
    cluster.env.create::<KWOKNodeClass>(json!({"metadata": {"name": "newnode"}, "spec": {}})).await;
    cluster.env.wait(25).await;
    lines.take();
    let old = cluster.env.only_claim().await.metadata.name.unwrap();
    cluster.patch_pool(json!({"spec": {"template": {"spec": {"nodeClassRef": {"name": "newnode"}}}}})).await;
    cluster.wait_until("the claim is disrupted", 10, async |cluster| cluster.disrupted().await == 1).await;
    let claim = cluster.env.api::<NodeClaim>().get(&old).await.unwrap();
    assert_eq!(claim_condition(&claim, "Drifted"), "True/NodePoolDrifted");
    assert_eq!(claim_condition(&claim, "DisruptionReason"), "True/Drifted");
    assert_eq!((cluster.tainted().await.len(), cluster.running().await), (1, 5), "no pod is evicted yet");
    cluster
        .wait_until("the pods run on the new node", 120, async |cluster| {
            cluster.is_settled(5, &["l"]).await
                && cluster.env.claims().await.iter().all(|claim| claim.metadata.name != Some(old.clone()))
        })
        .await;
    cluster.env.wait(2).await;
    let logged = lines.take();
    let end = ["tainted node", "deleted node", "deleted nodeclaim"];
    let begin = ["disrupting node(s)", "created nodeclaim"];
    assert_eq!(messages(&logged), [&begin[..], &lifecycle, &end].concat());
    assert_eq!(
        (
            &logged[0]["decision"],
            &logged[0]["disrupted-node-count"],
            &logged[0]["replacement-node-count"],
            &logged[0]["pod-count"]
        ),
        (&json!("replace"), &json!(1), &json!(1), &json!(5))
    );
    assert_eq!(logged[0]["replacement-nodes"], json!([{"capacity-type": "on-demand", "instance-types": "l"}]));
    assert_eq!(cluster.env.metrics.nodeclaims_created.get(&["drifted", "general", "false"]), 1.0);
}

#[tokio::test(start_paused = true)]
async fn three_nodes_are_consolidated_and_expired_nodes_are_replaced() {
    let mut cluster = TestCluster::without_controllers(consolidating_pool(json!({"consolidateAfter": "Never"}))).await;
    let (lines, _log) = CapturedLog::capture(Level::Info, cluster.env.clock);
    cluster.restart();
    cluster.env.wait(2).await;

    // G. Consolidation: small pods on three nodes, and a protected pod on a fourth node.
    let protected = json!({"metadata": {"annotations": {"karpenter.sh/do-not-disrupt": "true"}}});
    cluster.deploy("keep", 1, "7700m", protected).await;
    cluster.deploy("wide", 3, "7", json!({})).await;
    cluster.wait_until("four pods run", 60, async |cluster| cluster.is_settled(4, &["l"; 4]).await).await;
    cluster.deploy("web", 3, "300m", json!({})).await;
    cluster.create_pdb("web", json!({"maxUnavailable": 1})).await;
    cluster.wait_until("all pods run", 60, async |cluster| cluster.running().await == 7).await;
    cluster.scale("wide", 0).await;
    cluster.env.wait(30).await;
    lines.take();
    cluster.patch_pool(json!({"spec": {"disruption": {"consolidateAfter": "0s"}}})).await;
    cluster.wait_until("two nodes are left", 180, async |cluster| cluster.is_settled(4, &["l", "s"]).await).await;
    cluster.env.wait(2).await;
    let logged = lines.take();
    let lifecycle = ["launched nodeclaim", "registered nodeclaim", "initialized nodeclaim"];
    let all = messages(&logged);
    let (begin, end) = all.split_at(5);
    assert_eq!(begin, [&["disrupting node(s)", "created nodeclaim"][..], &lifecycle].concat());
    let line = &logged[0];
    assert_eq!(
        (&line["decision"], &line["disrupted-node-count"], &line["replacement-node-count"], &line["pod-count"]),
        (&json!("replace"), &json!(3), &json!(1), &json!(3))
    );
    assert!(line["command"].as_str().unwrap().ends_with(" -> [1 replacement] (savings: $1.10)"), "{line}");
    for node in line["disrupted-nodes"].as_array().unwrap() {
        let is_of_node = |line: &&Value| line["Node"]["name"] == node["Node"]["name"];
        let of_node: Vec<&str> =
            logged[5..].iter().filter(is_of_node).map(|line| line["message"].as_str().unwrap()).collect();
        assert_eq!(of_node, ["tainted node", "deleted node", "deleted nodeclaim"]);
    }
    assert_eq!(end.len(), 9, "{end:?}");
    let blocked = cluster.env.decisions()["lastPass"]["blocked"].clone();
    let mut reasons = blocked.as_array().unwrap().iter().flat_map(|node| node["reasons"].as_array().unwrap());
    let why = "Pod has \"karpenter.sh/do-not-disrupt\" annotation (Pod=default/keep-";
    assert!(reasons.any(|reason| reason["message"].as_str().unwrap().starts_with(why)), "{blocked:#}");

    // H. Expiration: existing nodes drift and are replaced; new nodes expire after ten minutes.
    let old: Vec<_> = cluster.env.claims().await.into_iter().filter_map(|claim| claim.metadata.name).collect();
    cluster.patch_pool(json!({"spec": {"template": {"spec": {"expireAfter": "10m"}}}})).await;
    cluster
        .wait_until("the small node is replaced", 120, async |cluster| {
            let claims = cluster.env.claims().await;
            let is_new = |claim: &NodeClaim| !old.contains(claim.metadata.name.as_ref().unwrap());
            claims.len() == 2 && claims.iter().any(is_new) && cluster.is_settled(4, &["l", "s"]).await
        })
        .await;
    let drifted: Vec<String> = cluster
        .env
        .claims()
        .await
        .iter()
        .map(|claim| claim_condition(claim, "Drifted"))
        .filter(|condition| condition != "absent")
        .collect();
    assert_eq!(drifted, ["True/NodePoolDrifted"], "the node with the do-not-disrupt pod is not disrupted");
    cluster.patch_pool(json!({"spec": {"disruption": {"budgets": [{"nodes": "0"}]}}})).await;
    let labels = ["expired", "general", "on-demand", "", "graceful"];
    let expired = || cluster.env.metrics.nodeclaims_disrupted.get(&labels);
    cluster.advance(9 * 60).await;
    assert_eq!(expired(), 0.0);
    cluster.wait_until("the claim has expired", 90, async |_| expired() == 1.0).await;
    cluster
        .wait_until("the pods of the expired node run on other nodes", 60, async |cluster| {
            cluster.is_settled(4, &["l", "s"]).await
        })
        .await;
    assert_eq!(expired(), 1.0);
}
