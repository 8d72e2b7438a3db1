//! Tests of the simulated cloud against the sandbox's API server.

use jiff::Timestamp;
use kerf_api::crds::CrdVariant;
use kerf_cloud::conformance::ConformanceInput;
use kerf_engine::catalogue::{InstanceTypeRef, OfferingRef};
use kerf_sandbox::{ApiServer, ApiServerConfig, install_crds};
use serde_json::json;

use super::*;
use crate::built_in_catalogue;

/// Returns a cluster with the CRDs and the node class `default`.
async fn cluster(class: serde_json::Value) -> (ApiServer, Client, Clock) {
    let clock = Clock::starting_at("2026-01-01T00:00:00Z".parse::<Timestamp>().unwrap());
    let server = ApiServer::new(ApiServerConfig::new(clock, 7));
    let client = server.client_as("test");
    install_crds(&client, CrdVariant::Kwok).await.unwrap();
    let classes: Api<KWOKNodeClass> = Api::all(client.clone());
    let class = json!({"apiVersion": "karpenter.kwok.sh/v1alpha1", "kind": "KWOKNodeClass",
        "metadata": {"name": "default"}, "spec": class});
    classes.create(&PostParams::default(), &serde_json::from_value(class).unwrap()).await.unwrap();
    (server, client, clock)
}

fn claim(requirements: serde_json::Value) -> NodeClaim {
    serde_json::from_value(json!({
        "metadata": {"name": "general-x7k2p", "uid": "5f1", "labels": {"karpenter.sh/nodepool": "general", "team": "a"}},
        "spec": {
            "nodeClassRef": {"group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": "default"},
            "requirements": requirements,
            "resources": {"requests": {"cpu": "1", "pods": "2", "example.com/widget": "3"}},
        },
    }))
    .unwrap()
}

fn pool() -> NodePool {
    serde_json::from_value(json!({"metadata": {"name": "general"}, "spec": {"template": {"spec": {
        "nodeClassRef": {"group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": "default"}, "requirements": []}}}}))
    .unwrap()
}

fn spot_linux_requirements() -> serde_json::Value {
    json!([
        {"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["spot"]},
        {"key": "kubernetes.io/os", "operator": "In", "values": ["linux"]},
        {"key": "topology.kubernetes.io/zone", "operator": "In", "values": ["test-zone-b", "test-zone-c"]},
        {"key": "team", "operator": "In", "values": ["a"]},
    ])
}

async fn check_conformance(provider: &Kwok) {
    let input = ConformanceInput {
        claim: &claim(spot_linux_requirements()),
        pool: &pool(),
        unknown_provider_id: "kwok://never-launched",
        wait: async || tokio::time::sleep(Duration::from_secs(5)).await,
    };
    kerf_cloud::conformance::check(provider, input).await;
}

#[tokio::test(start_paused = true)]
async fn the_simulated_cloud_passes_the_conformance_tests() {
    let (_server, client, clock) = cluster(json!({})).await;
    let provider = Kwok::new(client, clock, built_in_catalogue());
    check_conformance(&provider).await;
    let (_server, client, clock) = cluster(json!({"nodeRegistrationDelay": "30s"})).await;
    check_conformance(&Kwok::new(client, clock, built_in_catalogue())).await;
}

#[tokio::test(start_paused = true)]
async fn an_instance_is_a_node_that_meets_the_claim() {
    let (_server, client, clock) = cluster(json!({})).await;
    let provider = Kwok::new(client.clone(), clock, built_in_catalogue());
    let instance = provider.create(&claim(spot_linux_requirements())).await.unwrap();
    assert_eq!(
        instance.labels["node.kubernetes.io/instance-type"], "c-2x-amd64-linux",
        "the smallest type with enough CPU"
    );
    assert_eq!(instance.labels["topology.kubernetes.io/zone"], "test-zone-c", "drawn by the claim's uid");
    assert_eq!(instance.labels["eks-node-viewer/instance-price"], "0.038006");
    let nodes: Api<Node> = Api::all(client);
    let node = nodes.get(instance.provider_id.strip_prefix("kwok://").unwrap()).await.unwrap();
    let labels = node.metadata.labels.unwrap();
    assert_eq!(labels["kubernetes.io/hostname"], "general-x7k2p");
    assert_eq!(labels["karpenter.sh/nodepool"], "general");
    assert_eq!((&*labels["beta.kubernetes.io/os"], &*labels["beta.kubernetes.io/arch"]), ("linux", "amd64"));
    assert!(
        !instance.labels.contains_key("beta.kubernetes.io/os"),
        "labels that the kubelet sets are not labels of the instance"
    );
    assert_eq!(node.metadata.annotations.unwrap()["kwok.x-k8s.io/node"], "fake");
    let taints: Vec<String> = node.spec.unwrap().taints.unwrap().into_iter().map(|taint| taint.key).collect();
    assert!(taints.contains(&"karpenter.sh/unregistered".to_owned()));
    let status = node.status.unwrap();
    assert_eq!(status.capacity.as_ref().unwrap()["cpu"].0, "2");
    assert_eq!(status.allocatable.as_ref().unwrap()["cpu"].0, "1900m");
    assert_eq!(
        status.allocatable.unwrap()["example.com/widget"].0,
        "3",
        "a resource that the type does not define is simulated"
    );
}

// spec 04 §14.3: ties within an instance type.
#[tokio::test(start_paused = true)]
async fn instances_of_one_price_are_spread_over_zones_and_a_claim_always_gets_the_same_one() {
    let (_server, client, clock) = cluster(json!({})).await;
    let nodes: Api<Node> = Api::all(client.clone());
    let provider = Kwok::new(client, clock, built_in_catalogue());
    let mut zones: BTreeMap<String, usize> = BTreeMap::new();
    for i in 0..40 {
        let mut claim = claim(json!([]));
        claim.metadata.uid = Some(format!("00000000-0000-4000-8000-{i:012}"));
        let instance = provider.create(&claim).await.unwrap();
        assert_eq!(instance.labels["node.kubernetes.io/instance-type"], "c-2x-amd64-linux", "the first of equal types");
        let zone = instance.labels["topology.kubernetes.io/zone"].clone();
        nodes.delete(&node::node_name(&claim), &DeleteParams::default()).await.unwrap();
        let again = provider.create(&claim).await.unwrap();
        assert_eq!(again.labels["topology.kubernetes.io/zone"], zone, "a repeated launch uses the same zone");
        *zones.entry(zone).or_default() += 1;
    }
    assert!(zones.len() == 4 && zones.values().all(|count| *count >= 4), "{zones:?}");
}

// spec 04 §14.3, §1.6
#[tokio::test(start_paused = true)]
async fn only_nodes_of_this_provider_are_listed() {
    let (_server, client, clock) = cluster(json!({})).await;
    let nodes: Api<Node> = Api::all(client.clone());
    let provider = Kwok::new(client, clock, built_in_catalogue());
    let launched = provider.create(&claim(spot_linux_requirements())).await.unwrap();
    for (name, labels) in [
        ("foreign", json!({"kubernetes.io/hostname": "foreign", "type": "kwok"})),
        ("managed", json!({"karpenter.kwok.sh/kwoknodeclass": "default"})),
    ] {
        let node =
            json!({"metadata": {"name": name, "labels": labels}, "spec": {"providerID": format!("kwok://{name}")}});
        nodes.create(&PostParams::default(), &serde_json::from_value(node).unwrap()).await.unwrap();
    }
    let mut listed: Vec<String> =
        provider.list().await.unwrap().into_iter().map(|instance| instance.provider_id).collect();
    listed.sort();
    assert_eq!(listed, [launched.provider_id.as_str(), "kwok://managed"]);
}

// spec 04 #142
#[tokio::test(start_paused = true)]
async fn without_a_node_class_there_is_no_capacity_and_with_a_delay_the_launch_creates_no_node() {
    let (_server, client, clock) = cluster(json!({"nodeRegistrationDelay": "30s"})).await;
    let provider = Kwok::new(client.clone(), clock, built_in_catalogue());
    let mut claim_without_class = claim(spot_linux_requirements());
    claim_without_class.spec.node_class_ref.name = "nowhere".into();
    let error = provider.create(&claim_without_class).await.unwrap_err();
    assert!(matches!(error, CreateError::InsufficientCapacity(_)), "{error}");

    // An existing instance is found although its node class no longer exists.
    let mut relaunched = claim(spot_linux_requirements());
    let (_server, other_client, clock) = cluster(json!({})).await;
    let other = Kwok::new(other_client.clone(), clock, built_in_catalogue());
    let launched = other.create(&relaunched).await.unwrap();
    relaunched.spec.node_class_ref.name = "nowhere".into();
    assert_eq!(other.create(&relaunched).await.unwrap().provider_id, launched.provider_id);

    let instance = provider.create(&claim(spot_linux_requirements())).await.unwrap();
    let name = instance.provider_id.strip_prefix("kwok://").unwrap();
    let nodes: Api<Node> = Api::all(client);
    assert!(nodes.get_opt(name).await.unwrap().is_none());
    assert_eq!(provider.get(&instance.provider_id).await.unwrap(), instance, "the instance exists without a Node");
}

struct NoSpot;

impl InstanceAvailability for NoSpot {
    fn check(&self, _: &str, zone: &str, capacity_type: &str) -> Result<(), AvailabilityError> {
        match capacity_type {
            "spot" => Err(AvailabilityError::InsufficientCapacity(format!("no spot capacity in {zone}"))),
            _ => Ok(()),
        }
    }
}

struct AlwaysThrottled;

impl InstanceAvailability for AlwaysThrottled {
    fn check(&self, _: &str, _: &str, _: &str) -> Result<(), AvailabilityError> {
        Err(AvailabilityError::Throttled("request limit exceeded".to_owned()))
    }
}

#[tokio::test(start_paused = true)]
async fn throttling_does_not_make_offerings_unavailable() {
    let (_server, client, clock) = cluster(json!({})).await;
    let provider = Kwok::new(client, clock, built_in_catalogue()).with_availability(Arc::new(AlwaysThrottled));
    let error = provider.create(&claim(spot_linux_requirements())).await.unwrap_err();
    assert!(matches!(error, CreateError::Other(_)), "the launch will be retried: {error}");
    let types = provider.instance_types(&pool()).await.unwrap();
    assert!(types.iter().flat_map(InstanceTypeRef::offerings).all(OfferingRef::is_available));
}

#[tokio::test(start_paused = true)]
async fn an_offering_without_capacity_is_unavailable_for_three_minutes() {
    let (_server, client, clock) = cluster(json!({})).await;
    let provider = Kwok::new(client, clock, built_in_catalogue()).with_availability(Arc::new(NoSpot));
    let error = provider.create(&claim(spot_linux_requirements())).await.unwrap_err();
    assert_eq!(
        error.to_string(),
        "insufficient capacity, no spot capacity in test-zone-c; no spot capacity in test-zone-b"
    );
    let available_offerings = |types: &InstanceTypes| {
        types.iter().flat_map(InstanceTypeRef::offerings).filter(|offering| offering.is_available()).count()
    };
    let types = provider.instance_types(&pool()).await.unwrap();
    // 72 types run Linux, all but those with one CPU fit, and two of four zones are requested.
    assert_eq!(144 * 8 - available_offerings(&types), 66 * 2);
    let listed_again = provider.instance_types(&pool()).await.unwrap();
    assert!(listed_again.is_same(&types), "the solver's preparation stays valid");
    let any_capacity_type =
        json!([{"key": "topology.kubernetes.io/zone", "operator": "In", "values": ["test-zone-b"]}]);
    let instance = provider.create(&claim(any_capacity_type)).await.unwrap();
    assert_eq!(instance.labels["karpenter.sh/capacity-type"], "on-demand", "the next best offering is used");
    tokio::time::sleep(Duration::from_secs(181)).await;
    assert_eq!(
        available_offerings(&provider.instance_types(&pool()).await.unwrap()),
        144 * 8,
        "the offerings are available again"
    );
}

#[tokio::test(start_paused = true)]
async fn an_unknown_instance_type_is_an_error() {
    let (_server, client, clock) = cluster(json!({})).await;
    let provider = Kwok::new(client, clock, built_in_catalogue());
    let unknown = json!([{"key": "node.kubernetes.io/instance-type", "operator": "In", "values": ["m5.large"]}]);
    let error = provider.create(&claim(unknown)).await.unwrap_err();
    assert_eq!(error.to_string(), "instance type not found (instance-type=m5.large)");
}
