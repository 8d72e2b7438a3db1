//! Acceptance scenarios B to E, G and H of spec 07 §13: what happens, and the order of the log
//! lines.

use kerf_api::kwoknodeclass::KWOKNodeClass;
use kerf_api::nodeclaim::NodeClaim;
use kerf_api::nodepool::NodePool;
use kerf_controllers::logs::Level;
use serde_json::{Value, json};

use crate::test_cluster::{TestCluster, catalogue_with_prices, consolidating_pool};
use crate::test_env::{CapturedLog, claim_condition};

fn messages(lines: &[Value]) -> Vec<&str> {
    lines.iter().map(|line| line["message"].as_str().unwrap()).collect()
}

#[tokio::test(start_paused = true)]
async fn up_to_the_limit_down_to_nothing_and_over_to_another_class() {
    let spec = json!({
        "limits": {"cpu": "10"},
        "disruption": {"consolidationPolicy": "WhenEmptyOrUnderutilized", "consolidateAfter": "30s"},
        "template": {"spec": {"expireAfter": "Never", "requirements": [
            {"key": "node.kubernetes.io/instance-type", "operator": "In", "values": ["s", "l"]}]}},
    });
    let mut town = TestCluster::without_controllers(spec).await;
    // Small instances are expensive, so that the pods share a large one.
    town.catalogue = catalogue_with_prices([0.35, 0.39, 0.4]);
    let (lines, _log) = CapturedLog::capture(Level::Info, town.env.clock);
    town.restart();
    town.env.wait(2).await;
    lines.take();

    // B. Scale up.
    town.deploy("inflate", 5, "1100m", json!({})).await;
    town.wait_until("five run", 60, async |town| town.is_settled(5, &["l"]).await).await;
    let told = lines.take();
    let life = ["launched nodeclaim", "registered nodeclaim", "initialized nodeclaim"];
    let found = ["found provisionable pod(s)", "computed new nodeclaim(s) to fit pod(s)", "created nodeclaim"];
    assert_eq!(messages(&told), [found, life].concat());
    assert_eq!((&told[1]["nodeclaims"], &told[1]["pods"]), (&json!(1), &json!(5)));
    assert!(told[..3].iter().all(|line| line["reconcileID"] == told[0]["reconcileID"]));
    town.advance(35).await;
    let claim = town.env.only_claim().await;
    let order: Vec<&str> = ["Launched", "Registered", "Initialized", "Consolidatable"].into();
    let conditions = claim.status.unwrap().conditions;
    let since = |kind: &&str| {
        conditions.iter().find(|condition| condition.condition_type == *kind).unwrap().last_transition_time.0
    };
    assert!(order.is_sorted_by_key(since), "{conditions:#?}");

    // C. Limits.
    town.scale("inflate", 12).await;
    town.wait_until("eight run", 60, async |town| town.running().await == 8).await;
    town.advance(20).await;
    assert_eq!((town.types().await, town.pods().await.len()), (vec!["l".to_owned(), "s".to_owned()], 12));
    let pool = town.env.api::<NodePool>().get("general").await.unwrap();
    assert_eq!(pool.status.unwrap().resources.unwrap()["cpu"].text(), "10");
    let told = town.env.events("FailedScheduling");
    let exceeds = "all available instance types exceed limits for nodepool (NodePool=general)";
    assert!(told.iter().all(|(_, text)| text.contains(exceeds)) && told.len() >= 4, "{told:#?}");
    assert!(messages(&lines.take()).contains(&"could not schedule pod"));
    town.patch_pool(json!({"spec": {"limits": {"cpu": "1000"}}})).await;
    town.wait_until("all run", 60, async |town| town.running().await == 12).await;

    // D. Scale down.
    town.env.wait(5).await;
    lines.take();
    town.scale("inflate", 0).await;
    let took = town.wait_until("all nodes are gone", 600, async |town| town.types().await.is_empty()).await;
    assert!(took >= 45, "consolidateAfter and the second look: {took} s");
    town.env.wait(2).await;
    let told = lines.take();
    let one = ["disrupting node(s)", "tainted node", "deleted node", "deleted nodeclaim"];
    assert_eq!(messages(&told), one.repeat(3), "ten per cent is one node at a time");
    let line = &told[0];
    assert_eq!(
        (&line["decision"], &line["reason"], &line["pod-count"], &line["replacement-node-count"]),
        (&json!("delete"), &json!("empty"), &json!(0), &json!(0))
    );
    assert_eq!((&line["replacement-nodes"], line["controller"].as_str()), (&json!([]), Some("disruption")));
    let id = line["command-id"].as_str().unwrap();
    assert!(line["command"].as_str().unwrap().starts_with(&format!("Empty/{id}: delete: nodepools=[general]: [")));
    assert_eq!(
        (&told[1]["taint.Key"], &told[1]["taint.Effect"]),
        (&json!("karpenter.sh/disrupted"), &json!("NoSchedule"))
    );
    let told = town.env.events("DisruptionTerminating");
    assert_eq!(told.iter().filter(|(_, text)| text == "Disrupting Node: Empty").count(), 3);

    // E. Drift by node class.
    town.scale("inflate", 5).await;
    town.wait_until("five run", 60, async |town| town.is_settled(5, &["l"]).await).await;
    town.env.create::<KWOKNodeClass>(json!({"metadata": {"name": "newnode"}, "spec": {}})).await;
    town.env.wait(25).await;
    lines.take();
    let old = town.env.only_claim().await.metadata.name.unwrap();
    town.patch_pool(json!({"spec": {"template": {"spec": {"nodeClassRef": {"name": "newnode"}}}}})).await;
    town.wait_until("the claim is disrupted", 10, async |town| town.disrupted().await == 1).await;
    let claim = town.env.api::<NodeClaim>().get(&old).await.unwrap();
    assert_eq!(claim_condition(&claim, "Drifted"), "True/NodePoolDrifted");
    assert_eq!(claim_condition(&claim, "DisruptionReason"), "True/Drifted");
    assert_eq!((town.tainted().await.len(), town.running().await), (1, 5), "nobody has to go yet");
    town.wait_until("they run on the new node", 120, async |town| {
        town.is_settled(5, &["l"]).await
            && town.env.claims().await.iter().all(|claim| claim.metadata.name != Some(old.clone()))
    })
    .await;
    town.env.wait(2).await;
    let told = lines.take();
    let end = ["tainted node", "deleted node", "deleted nodeclaim"];
    let begin = ["disrupting node(s)", "created nodeclaim"];
    assert_eq!(messages(&told), [&begin[..], &life, &end].concat());
    assert_eq!(
        (
            &told[0]["decision"],
            &told[0]["disrupted-node-count"],
            &told[0]["replacement-node-count"],
            &told[0]["pod-count"]
        ),
        (&json!("replace"), &json!(1), &json!(1), &json!(5))
    );
    assert_eq!(told[0]["replacement-nodes"], json!([{"capacity-type": "on-demand", "instance-types": "l"}]));
    assert_eq!(town.env.metrics.nodeclaims_created.get(&["drifted", "general", "false"]), 1.0);
}

#[tokio::test(start_paused = true)]
async fn three_become_one_and_what_expires_is_renewed() {
    let mut town = TestCluster::without_controllers(consolidating_pool(json!({"consolidateAfter": "Never"}))).await;
    let (lines, _log) = CapturedLog::capture(Level::Info, town.env.clock);
    town.restart();
    town.env.wait(2).await;

    // G. Consolidation: small pods on three nodes, and a protected pod on a fourth node.
    let kept = json!({"metadata": {"annotations": {"karpenter.sh/do-not-disrupt": "true"}}});
    town.deploy("keep", 1, "7700m", kept).await;
    town.deploy("wide", 3, "7", json!({})).await;
    town.wait_until("four run", 60, async |town| town.is_settled(4, &["l"; 4]).await).await;
    town.deploy("web", 3, "300m", json!({})).await;
    town.create_pdb("web", json!({"maxUnavailable": 1})).await;
    town.wait_until("all run", 60, async |town| town.running().await == 7).await;
    town.scale("wide", 0).await;
    town.env.wait(30).await;
    lines.take();
    town.patch_pool(json!({"spec": {"disruption": {"consolidateAfter": "0s"}}})).await;
    town.wait_until("two nodes are left", 180, async |town| town.is_settled(4, &["l", "s"]).await).await;
    town.env.wait(2).await;
    let told = lines.take();
    let life = ["launched nodeclaim", "registered nodeclaim", "initialized nodeclaim"];
    let all = messages(&told);
    let (begin, end) = all.split_at(5);
    assert_eq!(begin, [&["disrupting node(s)", "created nodeclaim"][..], &life].concat());
    let line = &told[0];
    assert_eq!(
        (&line["decision"], &line["disrupted-node-count"], &line["replacement-node-count"], &line["pod-count"]),
        (&json!("replace"), &json!(3), &json!(1), &json!(3))
    );
    assert!(line["command"].as_str().unwrap().ends_with(" -> [1 replacement] (savings: $1.10)"), "{line}");
    for node in line["disrupted-nodes"].as_array().unwrap() {
        let about = |line: &&Value| line["Node"]["name"] == node["Node"]["name"];
        let of_node: Vec<&str> = told[5..].iter().filter(about).map(|line| line["message"].as_str().unwrap()).collect();
        assert_eq!(of_node, ["tainted node", "deleted node", "deleted nodeclaim"]);
    }
    assert_eq!(end.len(), 9, "{end:?}");
    let blocked = town.env.decisions()["lastPass"]["blocked"].clone();
    let mut reasons = blocked.as_array().unwrap().iter().flat_map(|node| node["reasons"].as_array().unwrap());
    let why = "Pod has \"karpenter.sh/do-not-disrupt\" annotation (Pod=default/keep-";
    assert!(reasons.any(|reason| reason["message"].as_str().unwrap().starts_with(why)), "{blocked:#}");

    // H. Expiration: existing nodes drift and are replaced; new nodes expire after ten minutes.
    let old: Vec<_> = town.env.claims().await.into_iter().filter_map(|claim| claim.metadata.name).collect();
    town.patch_pool(json!({"spec": {"template": {"spec": {"expireAfter": "10m"}}}})).await;
    town.wait_until("the small node is renewed", 120, async |town| {
        let claims = town.env.claims().await;
        let is_new = |claim: &NodeClaim| !old.contains(claim.metadata.name.as_ref().unwrap());
        claims.len() == 2 && claims.iter().any(is_new) && town.is_settled(4, &["l", "s"]).await
    })
    .await;
    let drifted: Vec<String> = town
        .env
        .claims()
        .await
        .iter()
        .map(|claim| claim_condition(claim, "Drifted"))
        .filter(|said| said != "absent")
        .collect();
    assert_eq!(drifted, ["True/NodePoolDrifted"], "the node that must not be disturbed has its own time, and stays");
    town.patch_pool(json!({"spec": {"disruption": {"budgets": [{"nodes": "0"}]}}})).await;
    let labels = ["expired", "general", "on-demand", "", "graceful"];
    let expired = || town.env.metrics.nodeclaims_disrupted.get(&labels);
    town.advance(9 * 60).await;
    assert_eq!(expired(), 0.0);
    town.wait_until("it has expired", 90, async |_| expired() == 1.0).await;
    town.wait_until("its pods run elsewhere", 60, async |town| town.is_settled(4, &["l", "s"]).await).await;
    assert_eq!(expired(), 1.0);
}
