//! Acceptance scenarios B to E of spec 07 §13, one after the other on one cluster: what happens, and the order in which the log tells it.

use kerf_api::kwoknodeclass::KWOKNodeClass;
use kerf_api::nodeclaim::NodeClaim;
use kerf_api::nodepool::NodePool;
use kerf_controllers::logs::{Form, Level, LogLayer, Settings};
use serde_json::{Value, json};
use tracing_subscriber::layer::SubscriberExt as _;

use crate::rig::{Lines, of_claim};
use crate::town::{Town, sizes_at};

impl Lines {
    /// What was logged since the last time.
    fn take(&self) -> Vec<Value> {
        let text = String::from_utf8(std::mem::take(&mut *self.0.lock().unwrap())).unwrap();
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }
}

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
    let mut town = Town::bare(spec).await;
    // A small machine is dear, so that the pods come together on a big one.
    town.catalogue = sizes_at([0.35, 0.39, 0.4]);
    let lines = Lines::default();
    let layer =
        LogLayer::new(Settings { level: Level::Info, form: Form::Json }, town.rig.clock, vec![Box::new(lines.clone())]);
    let _ = tracing::subscriber::set_global_default(tracing_subscriber::registry());
    let _log = tracing::subscriber::set_default(tracing_subscriber::registry().with(layer));
    town.restart();
    town.rig.wait(2).await;
    lines.take();

    // B. Scale up.
    town.deploy("inflate", 5, "1100m", json!({})).await;
    town.until("five run", 60, async |town| town.settled(5, &["l"]).await).await;
    let told = lines.take();
    let life = ["launched nodeclaim", "registered nodeclaim", "initialized nodeclaim"];
    let found = ["found provisionable pod(s)", "computed new nodeclaim(s) to fit pod(s)", "created nodeclaim"];
    assert_eq!(messages(&told), [found, life].concat());
    assert_eq!((&told[1]["nodeclaims"], &told[1]["pods"]), (&json!(1), &json!(5)));
    assert!(told[..3].iter().all(|line| line["reconcileID"] == told[0]["reconcileID"]));
    town.pass(35).await;
    let claim = town.rig.claim().await;
    let order: Vec<&str> = ["Launched", "Registered", "Initialized", "Consolidatable"].into();
    let conditions = claim.status.unwrap().conditions;
    let since = |kind: &&str| {
        conditions.iter().find(|condition| condition.condition_type == *kind).unwrap().last_transition_time.0
    };
    assert!(order.is_sorted_by_key(since), "{conditions:#?}");

    // C. Limits.
    town.scale("inflate", 12).await;
    town.until("eight run", 60, async |town| town.running().await == 8).await;
    town.pass(20).await;
    assert_eq!((town.types().await, town.pods().await.len()), (vec!["l".to_owned(), "s".to_owned()], 12));
    let pool = town.rig.all::<NodePool>().get("general").await.unwrap();
    assert_eq!(pool.status.unwrap().resources.unwrap()["cpu"].text(), "10");
    let told = town.rig.events("FailedScheduling");
    let exceeds = "all available instance types exceed limits for nodepool (NodePool=general)";
    assert!(told.iter().all(|(_, text)| text.contains(exceeds)) && told.len() >= 4, "{told:#?}");
    assert!(messages(&lines.take()).contains(&"could not schedule pod"));
    town.change_pool(json!({"spec": {"limits": {"cpu": "1000"}}})).await;
    town.until("all run", 60, async |town| town.running().await == 12).await;

    // D. Scale down.
    town.rig.wait(5).await;
    lines.take();
    town.scale("inflate", 0).await;
    let took = town.until("all nodes are gone", 600, async |town| town.types().await.is_empty()).await;
    assert!(took >= 45, "consolidateAfter and the second look: {took} s");
    town.rig.wait(2).await;
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
    let told = town.rig.events("DisruptionTerminating");
    assert_eq!(told.iter().filter(|(_, text)| text == "Disrupting Node: Empty").count(), 3);

    // E. Drift by node class.
    town.scale("inflate", 5).await;
    town.until("five run", 60, async |town| town.settled(5, &["l"]).await).await;
    town.rig.create::<KWOKNodeClass>(json!({"metadata": {"name": "newnode"}, "spec": {}})).await;
    town.rig.wait(25).await;
    lines.take();
    let old = town.rig.claim().await.metadata.name.unwrap();
    town.change_pool(json!({"spec": {"template": {"spec": {"nodeClassRef": {"name": "newnode"}}}}})).await;
    town.until("the claim is disrupted", 10, async |town| town.disrupted().await == 1).await;
    let claim = town.rig.all::<NodeClaim>().get(&old).await.unwrap();
    assert_eq!(of_claim(&claim, "Drifted"), "True/NodePoolDrifted");
    assert_eq!(of_claim(&claim, "DisruptionReason"), "True/Drifted");
    assert_eq!((town.tainted().await.len(), town.running().await), (1, 5), "nobody has to go yet");
    town.until("they run on the new node", 120, async |town| {
        town.settled(5, &["l"]).await
            && town.rig.claims().await.iter().all(|claim| claim.metadata.name != Some(old.clone()))
    })
    .await;
    town.rig.wait(2).await;
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
    assert_eq!(town.rig.metrics.nodeclaims_created.get(&["drifted", "general", "false"]), 1.0);
}
