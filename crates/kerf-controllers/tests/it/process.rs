//! The process that runs the controllers: what it waits for, serves and logs.

use std::sync::Arc;

use k8s_openapi::api::core::v1::Node;
use kerf_api::nodepool::NodePool;
use kerf_cloud::CloudProvider;
use kerf_controllers::{Context, Metrics, ProcessSettings, Settings};
use kerf_kwok::{Kwok, built_in_catalogue};
use kerf_operator::logs::Level;
use kerf_operator::{Recorder, SharedCluster};
use kerf_runtime::{Clock, Shutdown, WriteGate};
use kerf_sandbox::{ApiServer, ApiServerConfig};
use kube::api::DeleteParams;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use crate::cloud::ScriptedCloud;
use crate::test_env::{CapturedLog, TestEnv, pool};

struct RunningProcess {
    metrics: Arc<Metrics>,
    ctx: Context,
    _shutdown: Shutdown,
    _running: tokio::task::JoinSet<()>,
}

fn start(server: &ApiServer, settings: ProcessSettings) -> RunningProcess {
    start_with(server, settings, |kwok| Arc::new(kwok))
}

/// Starts the process with the provider that `to_cloud` makes of the kwok provider.
fn start_with(
    server: &ApiServer,
    settings: ProcessSettings,
    to_cloud: impl FnOnce(Kwok) -> Arc<dyn CloudProvider>,
) -> RunningProcess {
    let metrics = Arc::new(Metrics::new());
    let client = kerf_controllers::metered_client(server.client_as("kerf"), metrics.clone(), server.clock());
    let recorder = Arc::new(Recorder::new(client.clone(), server.clock(), 1));
    let ctx = Context {
        cloud: to_cloud(Kwok::new(client.clone(), server.clock(), built_in_catalogue())),
        client: client.clone(),
        cluster: SharedCluster::default(),
        clock: server.clock(),
        events: recorder.clone(),
        metrics: metrics.clone(),
        settings: Arc::new(Settings::default()),
    };
    let (shutdown, stop) = Shutdown::new();
    let mut running = tokio::task::JoinSet::new();
    let own_ctx = ctx.clone();
    running.spawn(async move {
        kerf_controllers::run(ctx, &settings, client, Some(recorder), stop).await.unwrap();
    });
    RunningProcess { metrics, ctx: own_ctx, _shutdown: shutdown, _running: running }
}

/// Returns a port that was free a moment ago.
fn free_port() -> u16 {
    std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

/// Returns status code and body of a GET request.
async fn get(port: u16, path: &str) -> (u16, String) {
    let mut stream = tokio::net::TcpStream::connect(("127.0.0.1", port)).await.unwrap();
    let request = format!("GET {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).await.unwrap();
    let (head, body) = text.split_once("\r\n\r\n").unwrap();
    (head.split(' ').nth(1).unwrap().parse().unwrap(), body.to_owned())
}

/// Repeats the request until the status code is the expected one. The server runs on real sockets
/// and needs a moment.
async fn wait_for_code(port: u16, path: &str, code: u16) -> String {
    for _ in 0..1000 {
        let (actual, body) = get(port, path).await;
        if actual == code {
            return body;
        }
        tokio::task::yield_now().await;
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
    panic!("{path} never responded with {code}");
}

// spec 07 #15, #16, #17 and #20, on real sockets
#[tokio::test]
async fn readiness_waits_for_the_crds_and_not_for_the_lease() {
    let server = ApiServer::new(ApiServerConfig::new(Clock::system(), 7));
    let (health, metrics, debug) = (free_port(), free_port(), free_port());
    let loopback = |port: u16| Some((std::net::Ipv4Addr::LOCALHOST, port).into());
    let settings = ProcessSettings {
        health_probes: loopback(health),
        metrics: loopback(metrics),
        debug: loopback(debug),
        leader_election: Some(kerf_controllers::LeaderElection {
            name: "l".into(),
            namespace: "default".into(),
            identity: "me".into(),
            write_gate: WriteGate::default(),
        }),
    };
    // Another process is the leader.
    let lease = json!({"metadata": {"name": "l"}, "spec": {"holderIdentity": "other", "leaseDurationSeconds": 3600}});
    let leases: kube::Api<k8s_openapi::api::coordination::v1::Lease> = kube::Api::default_namespaced(server.client());
    leases.create(&kube::api::PostParams::default(), &serde_json::from_value(lease).unwrap()).await.unwrap();
    let _process = start(&server, settings);
    for _ in 0..100 {
        if tokio::net::TcpStream::connect(("127.0.0.1", health)).await.is_ok() {
            break;
        }
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
    assert_eq!(get(health, "/healthz").await, (200, "ok".into()));
    assert!(wait_for_code(health, "/readyz", 500).await.contains("[-]crd failed"));
    TestEnv::from_server(server.clone()).install_crds().await;
    assert_eq!(wait_for_code(health, "/readyz", 200).await, "ok");
    let (code, text) = get(metrics, "/metrics").await;
    assert_eq!(code, 200);
    assert!(text.contains("leader_election_master_status{name=\"l\"} 0"), "{text}");
    assert!(text.contains("\nprocess_resident_memory_bytes ") && text.contains("\nprocess_cpu_seconds_total "));
    assert_eq!(get(metrics, "/debug/pprof/").await.0, 404);
    assert_eq!(get(metrics, "/decisions").await.0, 404, "only on the debug address");
    let decisions = serde_json::from_str::<Value>(&get(debug, "/decisions").await.1).unwrap();
    assert_eq!(decisions, json!({"decisions": [], "lastPass": null}));
}

/// The process waits for kinds that are not installed and logs it. Nothing is lost meanwhile.
#[tokio::test(start_paused = true)]
async fn controllers_start_when_the_crds_are_installed() {
    let env = TestEnv::without_crds();
    let process = start(&env.server, ProcessSettings::default());
    env.wait(60).await;
    assert_eq!(process.metrics.controllers.reconcile_total.get(&["nodepool.hash", "success"]), 0.0);
    env.install_crds().await;
    env.create::<kerf_api::kwoknodeclass::KWOKNodeClass>(json!({"metadata": {"name": "default"}, "spec": {}})).await;
    env.create::<NodePool>(pool("general", json!({}))).await;
    env.pending_pod("web", "1", json!({})).await;
    env.wait(10).await;
    env.only_claim().await;
}

// spec 06 #121
#[tokio::test(start_paused = true)]
async fn spec_06_121_a_pool_whose_types_cannot_be_listed_hides_no_offerings_of_other_pools() {
    let env = TestEnv::without_controllers().await;
    for (name, zone) in [("a-broken", "test-zone-a"), ("general", "test-zone-b"), ("z-broken", "test-zone-c")] {
        let requirements = json!([{"key": "topology.kubernetes.io/zone", "operator": "In", "values": [zone]}]);
        env.create::<NodePool>(pool(name, json!({"template": {"spec": {"requirements": requirements}}}))).await;
    }
    let process = start_with(&env.server, ProcessSettings::default(), |kwok| {
        let cloud = ScriptedCloud::wrapping(kwok);
        cloud.unlistable_pools.lock().unwrap().extend(["a-broken", "z-broken"]);
        Arc::new(cloud)
    });
    env.wait(2).await;
    env.pending_pod("web", "1", json!({})).await;
    env.wait(10).await;
    let text = process.ctx.metrics_text();
    let failed = |line: &str, pool: &str| {
        line.starts_with("karpenter_cloudprovider_errors_total{")
            && line.contains("GetInstanceTypes")
            && line.contains(pool)
    };
    for broken in ["a-broken", "z-broken"] {
        assert!(text.lines().any(|line| failed(line, broken)), "the listing of {broken} failed: {text}");
    }
    let available = "karpenter_cloudprovider_instance_type_offering_available{";
    assert!(text.lines().any(|line| line.starts_with(available) && line.ends_with(" 1")), "{text}");
    assert_eq!(env.only_claim().await.metadata.labels.unwrap()["karpenter.sh/nodepool"], "general");
}

/// Acceptance scenario B of spec 07 §13, and the deletion of a node: the log messages in order.
#[tokio::test(start_paused = true)]
async fn the_log_lines_of_a_nodes_life_are_in_order() {
    let env = TestEnv::without_controllers().await;
    env.create::<NodePool>(pool("general", json!({}))).await;
    let (lines, _log) = CapturedLog::capture(Level::Info, env.clock);
    let _process = start(&env.server, ProcessSettings::default());
    env.wait(2).await;
    for i in 0..5 {
        env.pending_pod(&format!("inflate-{i}"), "1", json!({})).await;
    }
    env.wait(3).await;
    let node = env.only_node().await.metadata.name.unwrap();
    env.make_ready(&node).await;
    env.wait(3).await;
    for i in 0..5 {
        env.pods().delete(&format!("inflate-{i}"), &DeleteParams::default()).await.unwrap();
    }
    env.api::<Node>().delete(&node, &DeleteParams::default()).await.unwrap();
    env.wait(30).await;
    let parsed = lines.all();
    let messages: Vec<&str> = parsed.iter().map(|line| line["message"].as_str().unwrap()).collect();
    assert_eq!(
        messages,
        [
            "found provisionable pod(s)",
            "computed new nodeclaim(s) to fit pod(s)",
            "created nodeclaim",
            "launched nodeclaim",
            "registered nodeclaim",
            "initialized nodeclaim",
            "tainted node",
            "deleted node",
            "deleted nodeclaim",
        ],
        "{parsed:#?}"
    );
    assert_eq!((&parsed[1]["nodeclaims"], &parsed[1]["pods"]), (&json!(1), &json!(5)));
    assert_eq!(parsed[0]["reconcileID"], parsed[1]["reconcileID"]);
    assert_eq!(parsed[0]["reconcileID"], parsed[2]["reconcileID"]);
}

/// Every request is counted once, whatever component sends it.
// spec 07 §6.7
#[tokio::test(start_paused = true)]
async fn requests_of_every_component_are_counted() {
    let env = TestEnv::without_controllers().await;
    env.create::<NodePool>(pool("general", json!({}))).await;
    let election = kerf_controllers::LeaderElection {
        name: "l".into(),
        namespace: "default".into(),
        identity: "me".into(),
        write_gate: WriteGate::default(),
    };
    let settings = ProcessSettings { leader_election: Some(election), ..ProcessSettings::default() };
    let process = start(&env.server, settings);
    env.wait(2).await;
    env.pending_pod("web", "1", json!({})).await;
    env.wait(5).await;
    let metrics = &process.metrics;
    let sent =
        |verb: &str, group: &str, kind: &str| metrics.client_request_duration.count(&[verb, group, "v1", kind, ""]);
    assert_eq!(sent("CREATE", "karpenter.sh", "nodeclaims"), 1);
    assert_eq!(sent("CREATE", "", "nodes"), 1, "the simulated cloud's");
    assert!(sent("CREATE", "", "events") > 0, "the recorder's");
    assert_eq!(sent("CREATE", "coordination.k8s.io", "leases"), 1);
    assert!(sent("UPDATE", "coordination.k8s.io", "leases") > 0);
}

// spec 07 §1.1: without leader election there is no such series.
#[tokio::test(start_paused = true)]
async fn without_leader_election_there_is_no_master_status() {
    let env = TestEnv::without_controllers().await;
    let process = start(&env.server, ProcessSettings::default());
    env.wait(2).await;
    let text = process.metrics.text(env.clock.now());
    assert!(!text.contains("leader_election_master_status{"), "{text}");
}
