//! A controller that dies after any of its AWS calls and any of its API writes, and its successor:
//! 45 seconds later every claim has exactly one live instance, and no instance is without a claim
//! (spec 06 §14).

use std::collections::BTreeMap;
use std::sync::Mutex;

use jiff::Timestamp;
use tower::Service as _;

use super::*;

/// Time after which a successor has terminated every instance without a claim.
const CLEAN_UP_SECONDS: u64 = 45;
/// Number of claims of the run.
const CLAIMS: usize = 5;

/// A copy of API server and account: all that remains if the controller dies at that time.
struct Checkpoint {
    server: ApiServer,
    at: Timestamp,
    /// The last write or call.
    after: String,
}

type Checkpoints = Arc<Mutex<Vec<Checkpoint>>>;

fn record(checkpoints: &Checkpoints, server: &ApiServer, after: String) {
    let clock = server.clock();
    let checkpoint = Checkpoint { server: server.fork(clock), at: clock.now(), after };
    checkpoints.lock().unwrap().push(checkpoint);
}

/// Returns a client that records a checkpoint after each of its writes.
fn checkpointing_client(server: &ApiServer, checkpoints: &Checkpoints) -> Client {
    let (server, checkpoints) = (server.clone(), checkpoints.clone());
    let service = tower::service_fn(move |mut request: Request<kube::client::Body>| {
        let (mut server, checkpoints) = (server.clone(), checkpoints.clone());
        request.headers_mut().insert(http::header::USER_AGENT, http::HeaderValue::from_static("kerf"));
        let write = format!("{} {}", request.method(), request.uri().path());
        let is_write = request.method() != Method::GET && !request.uri().path().ends_with("/events");
        async move {
            let response = server.call(request).await;
            if is_write {
                record(&checkpoints, &server, write);
            }
            response
        }
    });
    Client::new(service, "default")
}

/// Runs from no pods to five nodes and back, and returns a checkpoint after each AWS call and API
/// write of the controllers.
async fn record_checkpoints() -> Vec<Checkpoint> {
    let checkpoints = Checkpoints::default();
    let mut sandbox = AwsSandbox::without_controllers().await;
    // Few types, so that each of the many successors starts quickly.
    sandbox.aws.change_account(|account| {
        let types = ["m5.large", "m5.xlarge", "c5.large", "c5.xlarge"];
        account.set_instance_types(types.map(|name| account.instance_type(name).unwrap().clone()).to_vec());
    });
    let (server, taken) = (sandbox.cluster.api().clone(), checkpoints.clone());
    let last_read = Mutex::new(None);
    sandbox.aws.observe_calls(Some(Arc::new(move |_, call| {
        // Of several calls that only read, one is enough: they leave the same API server and
        // account.
        let is_read = ["Describe", "Get", "List"].iter().any(|verb| call.operation.starts_with(verb));
        let revision = is_read.then(|| server.revision());
        if is_read && *last_read.lock().unwrap() == revision {
            return;
        }
        *last_read.lock().unwrap() = revision;
        record(&taken, &server, call.operation.to_owned());
    })));
    sandbox.start_controllers(checkpointing_client(sandbox.cluster.api(), &checkpoints), 7);
    sandbox
        .apply(GETTING_STARTED, |object| {
            if object["kind"] == "NodePool" {
                object["spec"]["disruption"]["consolidateAfter"] = json!("0s");
            }
        })
        .await;
    sandbox
        .apply(INFLATE, |object| {
            let term =
                json!({"labelSelector": {"matchLabels": {"app": "inflate"}}, "topologyKey": "kubernetes.io/hostname"});
            object["spec"]["replicas"] = json!(CLAIMS);
            object["spec"]["template"]["spec"]["affinity"] =
                json!({"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}});
        })
        .await;
    sandbox
        .wait_until("each pod runs on its own node", 180, async |sandbox| sandbox.running_pods().await == CLAIMS)
        .await;
    assert_eq!(sandbox.live_instances().len(), CLAIMS);
    sandbox.scale(0).await;
    sandbox
        .wait_until("all instances are gone", 300, async |sandbox| {
            sandbox.live_instances().is_empty() && sandbox.list(NODE_CLAIMS).await.is_empty()
        })
        .await;
    sandbox.aws.observe_calls(None);
    drop(sandbox);
    std::mem::take(&mut *checkpoints.lock().unwrap())
}

/// Starts a successor on the checkpoint and returns what is wrong 45 seconds later.
async fn problems_after(checkpoint: &Checkpoint, seed: u64) -> Vec<String> {
    let config = ClusterConfig { clock: Clock::starting_at(checkpoint.at), seed, timing: Timing::LIFELIKE };
    let cluster = Cluster::start_from(&checkpoint.server, config);
    let mut sandbox = AwsSandbox::on_cluster(cluster, aws_provider());
    sandbox.aws.reseed(seed);
    sandbox.start_controllers(sandbox.cluster.api().client_as("kerf"), seed);
    tokio::time::sleep(Duration::from_secs(CLEAN_UP_SECONDS)).await;
    let mut instances: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for launched in sandbox.live_instances() {
        let claim = launched.instance.tags.get("karpenter.sh/nodeclaim").cloned().unwrap_or_default();
        instances.entry(claim).or_default().push(launched.instance.id);
    }
    let mut problems = Vec::new();
    for claim in sandbox.list(NODE_CLAIMS).await {
        let name = claim["metadata"]["name"].as_str().unwrap().to_owned();
        let own = instances.remove(&name).unwrap_or_default();
        let is_deleting = claim["metadata"]["deletionTimestamp"].is_string();
        let id = claim["status"]["providerID"].as_str().unwrap_or_default().to_owned();
        match own.as_slice() {
            [] if is_deleting => {}
            [instance] if id.ends_with(instance.as_str()) => {}
            _ => problems.push(format!("the claim {name} ({id}) has the instances {own:?}")),
        }
    }
    problems.extend(instances.iter().map(|(claim, own)| format!("no claim {claim} for the instances {own:?}")));
    problems
}

#[tokio::test(start_paused = true)]
async fn a_successor_cleans_up_after_a_crash_at_any_aws_call_and_any_write() {
    let checkpoints = record_checkpoints().await;
    let calls = |name: &str| checkpoints.iter().filter(|checkpoint| checkpoint.after == name).count();
    assert!(calls("CreateFleet") >= 1 && calls("TerminateInstances") >= 1, "{}", checkpoints.len());
    let mut failures = Vec::new();
    for (position, checkpoint) in checkpoints.iter().enumerate() {
        for problem in problems_after(checkpoint, 1000 + position as u64).await {
            failures.push(format!("{position}, after {}: {problem}", checkpoint.after));
        }
    }
    assert_eq!(failures, [""; 0], "{} checkpoints", checkpoints.len());
}
