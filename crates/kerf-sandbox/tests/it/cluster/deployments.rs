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
