//! Deployments and ReplicaSets.

use kerf_sandbox::Timing;

use super::{DEPLOYMENTS, PODS, SETS, advance_seconds, create, deployment, list, phases, start};

#[tokio::test(start_paused = true)]
async fn a_deployment_creates_a_replica_set_whose_pods_run() {
    let cluster = start(Timing::INSTANT);
    cluster.add_nodes(1).unwrap();
    create(&cluster, DEPLOYMENTS, deployment("web", 3)).await;
    advance_seconds(1).await;
    let sets = list(&cluster, SETS).await;
    assert_eq!(sets.len(), 1);
    assert_eq!(sets[0]["status"]["readyReplicas"], 3, "{}", sets[0]["status"]);
    assert_eq!(sets[0]["metadata"]["annotations"]["deployment.kubernetes.io/revision"], "1");
    assert_eq!(phases(&cluster).await, "Running=3");
    let pod = &list(&cluster, PODS).await[0];
    assert_eq!(pod["metadata"]["ownerReferences"][0]["kind"], "ReplicaSet");
    let deployment = &list(&cluster, DEPLOYMENTS).await[0];
    assert_eq!(deployment["status"]["availableReplicas"], 3, "{}", deployment["status"]);
    let reasons: Vec<&str> = deployment["status"]["conditions"]
        .as_array()
        .unwrap()
        .iter()
        .map(|condition| condition["reason"].as_str().unwrap())
        .collect();
    assert_eq!(reasons, ["MinimumReplicasAvailable", "NewReplicaSetAvailable"]);
}

#[tokio::test(start_paused = true)]
async fn a_replica_set_whose_pods_are_rejected_tries_again_with_a_growing_delay() {
    let cluster = start(Timing::INSTANT);
    let limits = serde_json::json!([{"type": "Container", "max": {"cpu": "1m"}}]);
    let range = serde_json::json!({"metadata": {"name": "tiny"}, "spec": {"limits": limits}});
    create(&cluster, "/api/v1/namespaces/default/limitranges", range).await;
    let mut web = deployment("web", 3);
    let resources = serde_json::json!({"requests": {"cpu": "2m"}, "limits": {"cpu": "2m"}});
    web["spec"]["template"]["spec"]["containers"][0]["resources"] = resources;
    create(&cluster, DEPLOYMENTS, web).await;
    let before = cluster.api().revision();
    advance_seconds(60).await;
    let writes = cluster.api().revision() - before;
    assert!(writes < 100, "{writes} writes");
    let sets = list(&cluster, SETS).await;
    assert_eq!(sets[0]["status"]["conditions"][0]["type"], "ReplicaFailure", "{}", sets[0]["status"]);
    assert_eq!(phases(&cluster).await, "");
}
