//! Heartbeats of kubelets repeat the last write, without the ordinary write path. Clients cannot
//! notice: the stored bytes are equal, every write has its own resource version, and every watcher
//! gets an event.

use kerf_sandbox::Timing;
use serde_json::{Value, json};

use super::{DEPLOYMENTS, advance_seconds, create, deployment, patch, read, start, start_with_seed};
use crate::watch::Watch;

const LEASES: &str = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases";

/// Runs a small cluster for an hour while other clients write the same objects. Returns the
/// fingerprint of all bytes that were stored, and the number of writes.
fn run_one_hour(audited: bool) -> (u64, u64) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
    runtime.block_on(async {
        let cluster = start_with_seed(Timing::LIFELIKE, 5);
        if audited {
            // An audit must contain every write, so the kubelets repeat none.
            cluster.api().start_audit();
        }
        cluster.add_nodes(4).unwrap();
        create(&cluster, DEPLOYMENTS, deployment("web", 6)).await;
        advance_seconds(700).await;
        let labels = |value: &str| json!({"metadata": {"labels": {"seen": value}}});
        patch(&cluster, "/api/v1/nodes/node-1", labels("once")).await;
        patch(&cluster, &format!("{LEASES}/node-2"), labels("once")).await;
        // Times that look like the kubelet's, in fields that are not the kubelet's.
        let now = "2026-01-01T00:20:00Z";
        let decoys = json!({"metadata": {"annotations": {"time": now, "lastHeartbeatTime": now}}});
        patch(&cluster, "/api/v1/nodes/node-3", decoys).await;
        advance_seconds(500).await;
        patch(&cluster, &format!("{DEPLOYMENTS}/web"), json!({"spec": {"replicas": 9}})).await;
        cluster.instances().kill_kubelet("node-4");
        advance_seconds(900).await;
        cluster.instances().restart_kubelet("node-4");
        patch(&cluster, &format!("{LEASES}/node-1"), json!({"spec": {"holderIdentity": "somebody"}})).await;
        advance_seconds(1500).await;
        let writes = cluster.api().take_audit();
        let renewals =
            writes.iter().filter(|write| write.resource == "leases" && write.user_agent == "kubelet").count();
        assert_eq!(renewals > 1000, audited, "{renewals} renewals were noted");
        (cluster.api().fingerprint(), cluster.api().revision())
    })
}

#[test]
fn a_repeated_write_stores_the_bytes_of_the_ordinary_path() {
    assert_eq!(run_one_hour(false), run_one_hour(true));
}

#[tokio::test(start_paused = true)]
async fn every_watcher_gets_an_event_for_every_report() {
    let cluster = start(Timing::INSTANT);
    cluster.add_nodes(1).unwrap();
    // The first report after the boot uses the ordinary path, because other clients have written
    // the Node.
    advance_seconds(5 * 60 + 15).await;
    let first = read(&cluster, "/api/v1/nodes/node-1").await.unwrap();
    let since = first["metadata"]["resourceVersion"].as_str().unwrap();
    let path = format!("/api/v1/nodes?watch=true&timeoutSeconds=7200&resourceVersion={since}");
    let mut watches = [Watch::open(cluster.api(), &path).await, Watch::open(cluster.api(), &path).await];
    let (mut version, mut at) = (since.parse::<u64>().unwrap(), String::new());
    for _ in 0..3 {
        let event = watches[0].next().await.unwrap();
        assert_eq!(watches[1].next().await.unwrap(), event, "two watchers hear the same");
        assert_eq!(event["type"], "MODIFIED");
        let node = &event["object"];
        assert_eq!(*node, read(&cluster, "/api/v1/nodes/node-1").await.unwrap());
        let number = node["metadata"]["resourceVersion"].as_str().unwrap().parse::<u64>().unwrap();
        assert!(number > version, "every report has a version of its own");
        version = number;
        let conditions = node["status"]["conditions"].as_array().unwrap();
        let beats: Vec<&str> =
            conditions.iter().map(|condition| condition["lastHeartbeatTime"].as_str().unwrap()).collect();
        assert!(beats.len() == 4 && beats.iter().all(|beat| *beat == beats[0]) && *beats[0] > *at, "{beats:?}");
        at = beats[0].to_owned();
        let entries = node["metadata"]["managedFields"].as_array().unwrap();
        let kubelet_entries: Vec<&Value> = entries.iter().filter(|entry| entry["manager"] == "kubelet").collect();
        assert_eq!(kubelet_entries.len(), 1, "{entries:?}");
        assert_eq!(kubelet_entries[0]["time"], at.as_str(), "the kubelet owns them as of its report");
        assert_eq!(without_times(node), without_times(&first), "nothing else has changed");
    }
}

fn without_times(node: &Value) -> Value {
    let mut node = node.clone();
    node["metadata"]["resourceVersion"] = Value::Null;
    for entry in node["metadata"]["managedFields"].as_array_mut().unwrap() {
        entry["time"] = Value::Null;
    }
    for condition in node["status"]["conditions"].as_array_mut().unwrap() {
        condition["lastHeartbeatTime"] = Value::Null;
    }
    node
}
