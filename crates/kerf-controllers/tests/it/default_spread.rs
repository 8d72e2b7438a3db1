//! Default spread constraints (`--scheduler-config`): the pods they apply to, and the kinds that
//! are watched because of them.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1;
use kerf_api::labels;
use kerf_api::scheduler_config::parse_default_spread;
use kerf_api::slim::Service;
use kerf_kwok::built_in_catalogue;
use kerf_state::{ReplicaSet, ReplicationController, StatefulSet};
use kube::api::{Api, PostParams};
use serde_json::{Value, json};

use crate::test_cluster::TestCluster;

const BY_ZONE: &str = "podTopologySpread: {defaultConstraints: [{maxSkew: 1, topologyKey: topology.kubernetes.io/zone, whenUnsatisfiable: DoNotSchedule}]}";

/// Creates a cluster with instances in four zones and this scheduler configuration.
async fn cluster_with_default_spread(config: &str) -> TestCluster {
    let mut cluster = TestCluster::without_controllers(json!({"disruption": {"consolidateAfter": "Never"}})).await;
    cluster.catalogue = built_in_catalogue();
    cluster.env.settings.engine.default_spread = parse_default_spread(config).unwrap();
    cluster.restart();
    cluster.env.wait(2).await;
    cluster
}

async fn create_service(cluster: &TestCluster, app: &str) {
    let service = json!({"metadata": {"name": app}, "spec": {"selector": {"app": app}, "ports": [{"port": 80}]}});
    let services: Api<v1::Service> = Api::default_namespaced(cluster.env.client.clone());
    services.create(&PostParams::default(), &serde_json::from_value(service).unwrap()).await.unwrap();
}

/// Returns the zones of all claims, once this number of pods runs.
async fn zones(cluster: &TestCluster, pods: usize) -> Vec<String> {
    cluster.wait_until("all pods run", 60, async |cluster| cluster.running().await == pods).await;
    let zone = |claim: kerf_api::nodeclaim::NodeClaim| claim.metadata.labels.unwrap()[labels::ZONE].clone();
    cluster.env.claims().await.into_iter().map(zone).collect()
}

// spec 02 #105
#[tokio::test(start_paused = true)]
async fn a_deployment_behind_a_service_is_spread_over_zones() {
    let cluster = cluster_with_default_spread(BY_ZONE).await;
    create_service(&cluster, "web").await;
    cluster.deploy("web", 3, "500m", json!({})).await;
    let zones = zones(&cluster, 3).await;
    assert_eq!(zones.len(), 3, "{zones:?}");
    assert_eq!(zones.iter().collect::<BTreeSet<_>>().len(), 3, "{zones:?}");
}

// spec 02 #105: the service alone suffices, and so does the owner alone
#[tokio::test(start_paused = true)]
async fn a_service_or_an_owner_alone_selects_the_pods_to_spread() {
    let by_owner = cluster_with_default_spread(BY_ZONE).await;
    by_owner.deploy("web", 3, "500m", json!({})).await;
    assert_eq!(zones(&by_owner, 3).await.len(), 3);
    let by_service = cluster_with_default_spread(BY_ZONE).await;
    create_service(&by_service, "web").await;
    by_service.env.wait(1).await;
    create_ownerless_pods(&by_service, json!({"app": "web"})).await;
    assert_eq!(zones(&by_service, 3).await.len(), 3);
}

// spec 02 #106
#[tokio::test(start_paused = true)]
async fn pods_with_own_constraints_or_without_a_selector_are_not_spread() {
    let with_constraints = cluster_with_default_spread(BY_ZONE).await;
    create_service(&with_constraints, "web").await;
    let constraints = json!([{"maxSkew": 9, "topologyKey": "kubernetes.io/hostname", "whenUnsatisfiable": "ScheduleAnyway",
        "labelSelector": {"matchLabels": {"app": "web"}}}]);
    with_constraints.deploy("web", 3, "500m", json!({"spec": {"topologySpreadConstraints": constraints}})).await;
    assert_eq!(zones(&with_constraints, 3).await.len(), 1);

    let unselected = cluster_with_default_spread(BY_ZONE).await;
    create_service(&unselected, "other").await;
    unselected.env.wait(1).await;
    create_ownerless_pods(&unselected, json!({"app": "web"})).await;
    assert_eq!(zones(&unselected, 3).await.len(), 1);
}

#[tokio::test(start_paused = true)]
async fn without_default_constraints_services_and_owners_are_not_watched() {
    for (config, is_watched) in [("", false), (BY_ZONE, true)] {
        let cluster = cluster_with_default_spread(config).await;
        create_service(&cluster, "web").await;
        cluster.deploy("web", 3, "500m", json!({})).await;
        assert_eq!(zones(&cluster, 3).await.len(), if is_watched { 3 } else { 1 });
        let state = cluster.env.cluster.lock();
        let listed = [
            state.all::<Service>().is_listed(),
            state.all::<ReplicaSet>().is_listed(),
            state.all::<StatefulSet>().is_listed(),
            state.all::<ReplicationController>().is_listed(),
        ];
        assert_eq!(listed, [is_watched; 4]);
        assert_eq!(state.all::<ReplicaSet>().len(), usize::from(is_watched));
    }
}

/// Creates three pods without an owner.
async fn create_ownerless_pods(cluster: &TestCluster, labels: Value) {
    for name in ["a", "b", "c"] {
        let pod = json!({"metadata": {"name": name, "labels": labels}, "spec": {"containers": [{"name": "c", "image": "i",
            "resources": {"requests": {"cpu": "500m"}}}]}});
        cluster.env.pods().create(&PostParams::default(), &serde_json::from_value(pod).unwrap()).await.unwrap();
    }
}
