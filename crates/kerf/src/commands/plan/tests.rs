//! A plan is what the controllers do: on random clusters, the claims in a plan of the live cluster
//! are the claims that the controllers then create.

#![allow(clippy::unwrap_used, reason = "a test may fail by panicking")]

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::{Event, Node, Pod};
use kerf_api::crds::CrdVariant;
use kerf_api::kwoknodeclass::KWOKNodeClass;
use kerf_api::nodeclaim::NodeClaim;
use kerf_api::nodepool::NodePool;
use kerf_controllers::{Context, Metrics, ProcessSettings};
use kerf_kwok::Kwok;
use kerf_operator::{Recorder, SharedCluster};
use kerf_runtime::Shutdown;
use kerf_sandbox::{ApiServer, ApiServerConfig, Rng, install_crds};
use kube::api::{Api, ListParams, Patch, PatchParams, PostParams};
use serde_json::{Value, json};
use tokio::sync::OnceCell;

use super::*;

/// Pool, instance types and requests of a claim.
type ClaimSummary = (String, Vec<String>, Vec<(String, String)>);

const CLUSTERS: u64 = 200;
const ZONE: &str = "topology.kubernetes.io/zone";
const INSTANCE_TYPE_LABEL: &str = "node.kubernetes.io/instance-type";

fn settings() -> Settings {
    engine_settings(&crate::args::Settings::defaults(), true, 1)
}

async fn create<K>(server: &ApiServer, object: Value)
where
    K: kube::Resource<Scope = k8s_openapi::ClusterResourceScope> + serde::de::DeserializeOwned + serde::Serialize,
    K: Clone + std::fmt::Debug,
    K::DynamicType: Default,
{
    let api: Api<K> = Api::all(server.client());
    api.create(&PostParams::default(), &serde_json::from_value(object).unwrap()).await.unwrap();
}

/// Returns one of the values at random.
fn pick_one<'v>(rng: &mut Rng, values: &[&'v str]) -> &'v str {
    values[usize::try_from(rng.below(values.len() as u64)).unwrap()]
}

fn random_pool(rng: &mut Rng, name: &str) -> Value {
    let mut requirements = vec![json!({"key": "kubernetes.io/os", "operator": "In", "values": ["linux"]})];
    if rng.happens_per_million(500_000) {
        requirements.push(json!({"key": "karpenter.sh/capacity-type", "operator": "In",
            "values": [pick_one(rng, &["spot", "on-demand"])]}));
    }
    if rng.happens_per_million(300_000) {
        requirements.push(json!({"key": ZONE, "operator": "In", "values": ["test-zone-a", "test-zone-b"]}));
    }
    if rng.happens_per_million(500_000) {
        requirements.push(json!({"key": "karpenter.kwok.sh/instance-cpu", "operator": "Lt", "values": ["17"]}));
    }
    let mut spec = json!({"template": {"spec": {
        "nodeClassRef": {"group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": "default"},
        "requirements": requirements,
    }}, "weight": 1 + rng.below(50)});
    if rng.happens_per_million(300_000) {
        spec["limits"] = json!({"cpu": (2 + rng.below(40)).to_string()});
    }
    if rng.happens_per_million(250_000) {
        spec["template"]["spec"]["taints"] = json!([{"key": "team", "value": "a", "effect": "NoSchedule"}]);
    }
    json!({"metadata": {"name": name}, "spec": spec})
}

fn random_pod(rng: &mut Rng, number: u64) -> Value {
    let app = pick_one(rng, &["x", "y", "z"]);
    let mut spec = json!({"containers": [{"name": "c", "image": "i", "resources": {"requests": {
        "cpu": pick_one(rng, &["100m", "500m", "1", "1700m", "3", "40", "900"]),
        "memory": pick_one(rng, &["64Mi", "1Gi", "3Gi"]),
    }}}]});
    if rng.happens_per_million(250_000) {
        spec["tolerations"] = json!([{"key": "team", "operator": "Exists"}]);
    }
    if rng.happens_per_million(200_000) {
        spec["nodeSelector"] = json!({ZONE: pick_one(rng, &["test-zone-a", "test-zone-c", "nowhere"])});
    }
    if rng.happens_per_million(250_000) {
        let key = pick_one(rng, &[ZONE, "kubernetes.io/hostname"]);
        spec["topologySpreadConstraints"] = json!([{"maxSkew": 1, "topologyKey": key,
            "whenUnsatisfiable": pick_one(rng, &["DoNotSchedule", "ScheduleAnyway"]),
            "labelSelector": {"matchLabels": {"app": app}}}]);
    }
    if rng.happens_per_million(150_000) {
        spec["affinity"] = json!({"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [
            {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": app}}}]}});
    }
    json!({"metadata": {"name": format!("pod-{number}"), "labels": {"app": app}}, "spec": spec})
}

fn start_clock() -> Clock {
    Clock::starting_at("2026-01-01T00:00:00Z".parse::<Timestamp>().unwrap())
}

/// Returns a server with Kerf's CRDs and a node class. Each cluster is a fork of it, because
/// compiling the CRDs takes longer than the rest of the test.
async fn installed_server() -> &'static ApiServer {
    static SERVER: OnceCell<ApiServer> = OnceCell::const_new();
    let install = async || {
        // The seed of this server is not the seed of any cluster, so that no cluster generates the
        // uids of the CRDs again.
        let server = ApiServer::new(ApiServerConfig::new(start_clock(), CLUSTERS));
        install_crds(&server.client_as("kerf"), CrdVariant::Kwok).await.unwrap();
        create::<KWOKNodeClass>(&server, json!({"metadata": {"name": "default"}, "spec": {}})).await;
        server
    };
    SERVER.get_or_init(install).await
}

/// Returns a cluster with random pools, a few nodes and pending pods.
async fn random_cluster(seed: u64) -> ApiServer {
    let server = installed_server().await.fork(start_clock());
    server.reseed(seed);
    let mut rng = Rng::new(seed).fork("plan");
    for number in 0..=rng.below(3) {
        let pool = random_pool(&mut rng, &format!("pool-{number}"));
        create::<NodePool>(&server, pool).await;
    }
    for number in 0..rng.below(3) {
        let name = format!("node-{number}");
        let capacity = json!({"cpu": "2", "memory": "4Gi", "pods": "10"});
        let ready = json!({"type": "Ready", "status": "True"});
        let node = json!({"metadata": {"name": name, "labels": {ZONE: "test-zone-a", "kubernetes.io/hostname": name}},
            "spec": {"providerID": format!("other://{name}")},
            "status": {"capacity": capacity, "allocatable": capacity, "conditions": [ready]}});
        create::<Node>(&server, node).await;
    }
    let pods: Api<Pod> = Api::default_namespaced(server.client());
    for number in 0..=rng.below(12) {
        let pod = serde_json::from_value(random_pod(&mut rng, number)).unwrap();
        pods.create(&PostParams::default(), &pod).await.unwrap();
        let waiting = json!({"type": "PodScheduled", "status": "False", "reason": "Unschedulable"});
        let status = Patch::Merge(json!({"status": {"conditions": [waiting]}}));
        pods.patch_status(&format!("pod-{number}"), &PatchParams::default(), &status).await.unwrap();
    }
    server
}

/// Returns the claims and the unplaced pods of a plan of the live cluster.
async fn planned_claims(server: &ApiServer) -> (Vec<ClaimSummary>, Vec<String>) {
    let objects = input::load_with_client(server.client(), SelectorKinds::Skip).await.unwrap().objects;
    let plan_input =
        PlanInput::new(objects, provider::built_in_kwok_types().as_ref(), server.clock().now(), PlanOrigin::default());
    let solution = kerf_engine::solve(&plan_input.input, &settings());
    let claims = solution.claims.iter().map(|claim| {
        let mut types: Vec<String> = claim.launch.instance_types.iter().map(ToString::to_string).collect();
        types.sort();
        let requests = claim.requests.iter().map(|(name, amount)| (name.to_string(), amount.to_string())).collect();
        (claim.pool.to_string(), types, requests)
    });
    let mut claims: Vec<ClaimSummary> = claims.collect();
    claims.sort();
    (claims, solution.unplaced.iter().map(|unplaced| unplaced.pod.to_string()).collect())
}

/// Runs the controllers for 5 s of virtual time. Returns the claims that they created and the pods
/// for which they published `FailedScheduling`.
async fn created_claims(server: &ApiServer) -> (Vec<ClaimSummary>, Vec<String>) {
    let (client, clock) = (server.client_as("kerf"), server.clock());
    let recorder = Arc::new(Recorder::new(client.clone(), clock, 0));
    let ctx = Context {
        cloud: Arc::new(Kwok::new(client.clone(), clock, kerf_kwok::built_in_catalogue())),
        client: client.clone(),
        cluster: SharedCluster::default(),
        clock,
        events: recorder.clone(),
        metrics: Arc::new(Metrics::new()),
        settings: Arc::new(kerf_controllers::Settings { engine: settings(), ..kerf_controllers::Settings::default() }),
    };
    let (_shutdown, stop) = Shutdown::new();
    let running = tokio::spawn(async move {
        kerf_controllers::run(ctx, &ProcessSettings::default(), client, Some(recorder), stop).await
    });
    tokio::time::sleep(Duration::from_secs(5)).await;
    running.abort();
    let claims: Api<NodeClaim> = Api::all(server.client());
    let claims = claims.list(&ListParams::default()).await.unwrap().items.into_iter().map(|claim| {
        let pool = claim.metadata.labels.unwrap()["karpenter.sh/nodepool"].clone();
        let types = claim.spec.requirements.into_iter().find(|requirement| requirement.key == INSTANCE_TYPE_LABEL);
        let mut types = types.and_then(|requirement| requirement.values).unwrap_or_default();
        types.sort();
        let requests = claim.spec.resources.unwrap().requests.unwrap();
        (pool, types, requests.into_iter().map(|(name, amount)| (name, amount.to_string())).collect())
    });
    let mut claims: Vec<ClaimSummary> = claims.collect();
    claims.sort();
    let events: Api<Event> = Api::default_namespaced(server.client());
    let events = events.list(&ListParams::default()).await.unwrap().items;
    let failed = events.into_iter().filter(|event| event.reason.as_deref() == Some("FailedScheduling"));
    let mut failed: Vec<String> =
        failed.map(|event| format!("default/{}", event.involved_object.name.unwrap_or_default())).collect();
    failed.sort();
    failed.dedup();
    (claims, failed)
}

/// Compares plan and controllers on the clusters with these seeds. Two tests share the seeds, so
/// that the comparison takes half as long.
async fn compare_plan_with_controllers(seeds: std::ops::Range<u64>) {
    let (mut claim_count, mut unplaced_count) = (0, 0);
    for seed in seeds {
        let server = random_cluster(seed).await;
        let plan = planned_claims(&server).await;
        assert_eq!(created_claims(&server).await, plan, "cluster {seed}");
        claim_count += plan.0.len();
        unplaced_count += plan.1.len();
    }
    assert!(
        claim_count > 100 && unplaced_count > 50,
        "the input is too simple to test anything: {claim_count} claims, {unplaced_count} pods unplaced"
    );
}

#[tokio::test(start_paused = true)]
async fn the_controllers_create_the_claims_of_the_plan() {
    compare_plan_with_controllers(0..CLUSTERS / 2).await;
}

#[tokio::test(start_paused = true)]
async fn the_controllers_create_the_claims_of_the_plan_on_other_clusters() {
    compare_plan_with_controllers(CLUSTERS / 2..CLUSTERS).await;
}
