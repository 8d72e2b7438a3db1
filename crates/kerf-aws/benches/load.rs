//! Measures the CPU time of the interruption queue for many messages, and of a burst of a thousand
//! launches, with an API server and an EC2 in this process.
//!
//! `cargo bench -p kerf-aws --bench load`
#![allow(clippy::print_stdout, reason = "a benchmark prints")]

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use futures::future::join_all;
use kerf_api::conditions::dependents::EC2NODECLASS_WITH_RESERVATIONS;
use kerf_api::crds::CrdVariant;
use kerf_api::nodeclaim::NodeClaim;
use kerf_api::slim::Node;
use kerf_aws::memory::{Account, MemoryAws, MemorySettings};
use kerf_aws::ports::{CreateInstanceProfile, Iam as _};
use kerf_aws::{AwsParts, AwsSettings, ClusterFacts, ProviderTrial, data};
use kerf_operator::{Event, Publish, Registry, SharedCluster};
use kerf_runtime::Clock;
use kerf_sandbox::{ApiServer, ApiServerConfig, install_crds};
use kerf_state::{NodeClass, TrackedClaim};
use kube::api::{Api, Patch, PatchParams, PostParams};
use serde_json::{Value, json};

const CLUSTER: &str = "demo";
const TYPES: [&str; 4] = ["c5.large", "m5.large", "m5.xlarge", "m6g.large"];
/// Numbers of messages and nodes, as in Karpenter's benchmark.
const MESSAGES: [usize; 4] = [100, 1_000, 5_000, 15_000];
const CLAIMS: usize = 1_000;

/// Counts Events.
#[derive(Default)]
struct CountingRecorder(AtomicUsize);

impl Publish for CountingRecorder {
    fn publish(&self, _: Event) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

struct BenchEnv {
    aws: MemoryAws,
    server: ApiServer,
    cluster: SharedCluster,
    events: Arc<CountingRecorder>,
    trial: ProviderTrial,
}

/// CPU time of this thread in seconds; zero if the system does not report it.
fn cpu_seconds() -> f64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    text.split_whitespace().next().and_then(|nanos| nanos.parse::<f64>().ok()).unwrap_or(0.0) / 1e9
}

fn bench_env() -> BenchEnv {
    let clock = Clock::starting_at("2026-01-01T00:00:00Z".parse().expect("a time"));
    let known = &data::catalogue().instance_types;
    let types: Vec<_> = known.iter().filter(|info| TYPES.contains(&info.name.as_str())).cloned().collect();
    let account = Account::eks(CLUSTER, "1.34", types);
    let offerings =
        data::catalogue().offerings.iter().filter(|offering| TYPES.contains(&offering.instance_type.as_str()));
    let offerings = offerings.cloned().collect();
    let aws = MemoryAws::new(clock, account, MemorySettings::default());
    let server = ApiServer::new(ApiServerConfig::new(clock, 7));
    let (cluster, events) = (SharedCluster::default(), Arc::<CountingRecorder>::default());
    let mut settings = AwsSettings::new(CLUSTER);
    settings.interruption_queue = Some(CLUSTER.to_owned());
    let parts = AwsParts {
        ports: aws.ports(),
        settings,
        client: server.client_as("bench"),
        cluster: cluster.clone(),
        clock,
        events: events.clone(),
        registry: Arc::<Registry>::default(),
    };
    let facts = ClusterFacts {
        region: "us-west-2".to_owned(),
        endpoint: "https://example.com".to_owned(),
        ca_bundle: None,
        dns_address: None,
        kubernetes_version: "1.34".to_owned(),
        service_cidr: Some("10.100.0.0/16".to_owned()),
    };
    let types = known.iter().filter(|info| TYPES.contains(&info.name.as_str())).cloned().collect();
    let trial = ProviderTrial::new(parts, facts, types, offerings);
    BenchEnv { aws, server, cluster, events, trial }
}

fn claim(number: usize) -> NodeClaim {
    let claim = json!({
        "metadata": {
            "name": format!("a-{number}"), "uid": format!("uid-{number}"), "finalizers": ["karpenter.sh/termination"],
            "labels": {
                "karpenter.sh/nodepool": "default", "karpenter.sh/capacity-type": "spot",
                "node.kubernetes.io/instance-type": "m5.large", "topology.kubernetes.io/zone": "us-west-2a",
            },
        },
        "spec": {
            "nodeClassRef": { "group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default" },
            "requirements": [{ "key": "karpenter.sh/capacity-type", "operator": "In", "values": ["on-demand"] }],
            "resources": { "requests": { "cpu": "1", "pods": "3" } },
        },
    });
    serde_json::from_value(claim).expect("a claim")
}

/// Delivers one spot interruption for each of `count` nodes. Returns the CPU time in seconds.
async fn interruptions(count: usize) -> f64 {
    let env = bench_env();
    let client = env.server.client_as("bench");
    install_crds(&client, CrdVariant::Aws).await.expect("CRDs");
    let claims: Api<NodeClaim> = Api::all(client);
    let provider_id = |number: usize| format!("aws:///us-west-2a/i-{number}");
    let mut stored = Vec::new();
    for number in 0..count {
        let mut object = claim(number);
        object.metadata.uid = None;
        claims.create(&PostParams::default(), &object).await.expect("a created claim");
        let patch = Patch::Merge(json!({ "status": { "providerID": provider_id(number) } }));
        let name = format!("a-{number}");
        stored.push(claims.patch_status(&name, &PatchParams::default(), &patch).await.expect("a status"));
        let detail = json!({ "instance-id": format!("i-{number}"), "instance-action": "terminate" });
        let message = json!({
            "version": "0", "source": "aws.ec2", "detail-type": "EC2 Spot Instance Interruption Warning",
            "time": "2026-01-01T00:00:00Z", "detail": detail,
        });
        assert!(env.aws.send_message(CLUSTER, message.to_string()));
    }
    let node = |number: usize| -> Node {
        let metadata = json!({ "name": format!("node-{number}"), "uid": format!("node-{number}") });
        serde_json::from_value(json!({ "metadata": metadata, "spec": { "providerID": provider_id(number) } }))
            .expect("a node")
    };
    {
        let mut cluster = env.cluster.lock();
        cluster.reset(stored.into_iter().map(TrackedClaim::from).collect::<Vec<_>>());
        cluster.reset((0..count).map(node).collect::<Vec<Node>>());
    }
    let queue = env.trial.interruption_queue(CLUSTER);
    let start = cpu_seconds();
    for _ in 0..count.div_ceil(10) {
        queue.receive().await.expect("handled messages");
    }
    let seconds = cpu_seconds() - start;
    assert!(env.aws.queued_messages(CLUSTER).is_empty());
    assert_eq!(env.events.0.load(Ordering::Relaxed), 4 * count);
    seconds
}

fn ready_class(aws: &MemoryAws) -> Value {
    let name = "/aws/service/eks/optimized-ami/1.34/amazon-linux-2023/x86_64/standard/recommended/image_id";
    let image = aws.change_account(|account| account.parameters[name].clone());
    let amd64 = json!({ "key": "kubernetes.io/arch", "operator": "In", "values": ["amd64"] });
    let subnets: Vec<Value> = ["a", "b", "c"]
        .into_iter()
        .zip(1..)
        .map(|(letter, number)| {
            json!({ "id": format!("subnet-0100000000000000{number}"), "zone": format!("us-west-2{letter}"),
                "zoneID": format!("usw2-az{number}") })
        })
        .collect();
    let condition = |kind: &&str| {
        json!({ "type": kind, "status": "True", "reason": kind, "message": "", "observedGeneration": 1,
            "lastTransitionTime": "2026-01-01T00:00:00Z" })
    };
    json!({
        "metadata": { "name": "default", "uid": "uid-class", "generation": 1 },
        "spec": { "amiSelectorTerms": [{ "alias": "al2023@latest" }], "subnetSelectorTerms": [],
            "securityGroupSelectorTerms": [], "role": "KarpenterNodeRole-demo" },
        "status": {
            "amis": [{ "id": image, "name": "al2023", "requirements": [amd64] }], "subnets": subnets,
            "securityGroups": [{ "id": "sg-00000000000000002", "name": "demo-node" }], "instanceProfile": "demo-profile",
            "conditions": EC2NODECLASS_WITH_RESERVATIONS.iter().chain(&["Ready"]).map(condition).collect::<Vec<_>>(),
        },
    })
}

/// Launches a thousand equal claims at once. Returns the CPU time in seconds and the number of
/// fleets.
async fn burst() -> (f64, usize) {
    let env = bench_env();
    let profile = CreateInstanceProfile { name: "demo-profile".into(), ..CreateInstanceProfile::default() };
    env.aws.create_instance_profile(profile).await.expect("a profile");
    let class: NodeClass = serde_json::from_value(ready_class(&env.aws)).expect("a class");
    let class = class.with_kind("karpenter.k8s.aws", "v1", "EC2NodeClass");
    env.cluster.lock().reset_node_classes("karpenter.k8s.aws", "EC2NodeClass", vec![class]);
    let claims: Vec<NodeClaim> = (0..CLAIMS).map(claim).collect();
    let start = cpu_seconds();
    let results = join_all(claims.iter().map(|claim| env.trial.provider().create(claim))).await;
    let seconds = cpu_seconds() - start;
    assert!(results.iter().all(Result::is_ok), "{:?}", results.into_iter().find_map(Result::err));
    assert_eq!(env.aws.instances().len(), CLAIMS);
    (seconds, env.aws.calls().iter().filter(|call| call.operation == "CreateFleet").count())
}

fn main() {
    let runtime =
        || tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().expect("a runtime");
    for count in MESSAGES {
        let seconds = runtime().block_on(interruptions(count));
        println!("{count} interruption messages for as many nodes: {seconds:.2} s of CPU");
    }
    let (seconds, fleets) = runtime().block_on(burst());
    println!("{CLAIMS} equal claims at once: {seconds:.2} s of CPU, {fleets} CreateFleet");
}
