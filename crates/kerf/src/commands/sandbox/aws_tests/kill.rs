//! A controller that dies after any of its AWS calls and any of its API writes, and its successor.
//! After 45 seconds no instance of the predecessor is without a claim (spec 06 §14). After five
//! minutes every claim has exactly one live instance, no instance is without a claim, and no pod is
//! pending that could run. A claim that existed at the kill is not lost.
//!
//! The test runs with five claims, and with other sizes if the environment says so (`make
//! kills-aws`).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Mutex;

use jiff::Timestamp;
use kerf_runtime::Rng;
use tower::Service as _;

use super::*;

/// Time after which a successor has terminated every instance without a claim.
const CLEAN_UP_TIME: Duration = Duration::from_secs(45);
/// Time after which a successor has completed the work.
const RECOVERY_TIME: Duration = Duration::from_mins(5);
/// Number of claims of the run if the environment does not state it.
const DEFAULT_CLAIMS: usize = 5;
/// Environment variable with the number of claims.
const CLAIMS_VARIABLE: &str = "KERF_KILL_CLAIMS";
/// Environment variable with the largest number of points at which the controller is killed.
const POINTS_VARIABLE: &str = "KERF_KILL_POINTS";

/// A copy of API server and account: all that remains if the controller dies at that time.
struct Checkpoint {
    /// Number of the point among all points of the run.
    number: usize,
    server: ApiServer,
    at: Timestamp,
    /// The last write or call.
    after: String,
}

/// Calls that a sample of points must not miss, although a run makes few of them.
const RARE_CALLS: [&str; 2] = ["CreateFleet", "TerminateInstances"];

/// A uniform sample of the points of one kind.
struct Sample {
    max: usize,
    seen: u64,
    checkpoints: Vec<Checkpoint>,
}

/// The points of a run at which the controller is killed: all, or a sample of each kind. A run has
/// far more writes than calls, so one sample of all points would have few calls.
struct Points {
    max: usize,
    /// A sample of each of [`RARE_CALLS`].
    rare_calls: [Sample; RARE_CALLS.len()],
    other_calls: Sample,
    writes: Sample,
    recorded: usize,
    rng: Rng,
}

type SharedPoints = Arc<Mutex<Points>>;

impl Points {
    /// Returns an empty collection of at most `max` points.
    fn at_most(max: usize) -> Self {
        let sample = |max| Sample { max, seen: 0, checkpoints: Vec::new() };
        let calls_max = if max == usize::MAX { max } else { max / 4 };
        let rare_calls = RARE_CALLS.map(|_| sample(calls_max / RARE_CALLS.len()));
        let (other_calls, writes) = (sample(calls_max), sample(max));
        Self { max, rare_calls, other_calls, writes, recorded: 0, rng: Rng::new(1) }
    }

    fn record_call(&mut self, operation: &str, server: &ApiServer) {
        let sample = match RARE_CALLS.iter().position(|name| *name == operation) {
            Some(index) => &mut self.rare_calls[index],
            None => &mut self.other_calls,
        };
        sample.record(&mut self.rng, self.recorded, server, operation.to_owned());
        self.recorded += 1;
    }

    fn record_write(&mut self, write: String, server: &ApiServer) {
        self.writes.record(&mut self.rng, self.recorded, server, write);
        self.recorded += 1;
    }

    /// Removes and returns all checkpoints in the order of the run.
    fn take(&mut self) -> Vec<Checkpoint> {
        let mut all: Vec<Checkpoint> = self.rare_calls.iter_mut().flat_map(|own| own.checkpoints.drain(..)).collect();
        all.append(&mut self.other_calls.checkpoints);
        self.writes.checkpoints.truncate(self.max - all.len());
        all.append(&mut self.writes.checkpoints);
        all.sort_by_key(|checkpoint| checkpoint.number);
        all
    }
}

impl Sample {
    /// Counts a point, and copies server and account if the sample keeps it (reservoir sampling:
    /// each point so far is kept with the same probability).
    fn record(&mut self, rng: &mut Rng, number: usize, server: &ApiServer, after: String) {
        self.seen += 1;
        let is_full = self.checkpoints.len() >= self.max;
        let position = if is_full { rng.below(self.seen) as usize } else { self.checkpoints.len() };
        if position >= self.max {
            return;
        }
        let clock = server.clock();
        let checkpoint = Checkpoint { number, server: server.fork(clock), at: clock.now(), after };
        match self.checkpoints.get_mut(position) {
            Some(replaced) => *replaced = checkpoint,
            None => self.checkpoints.push(checkpoint),
        }
    }
}

/// Returns a client that records a checkpoint after each of its writes.
fn checkpointing_client(server: &ApiServer, points: &SharedPoints) -> Client {
    let (server, points) = (server.clone(), points.clone());
    let service = tower::service_fn(move |mut request: Request<kube::client::Body>| {
        let (mut server, points) = (server.clone(), points.clone());
        request.headers_mut().insert(http::header::USER_AGENT, http::HeaderValue::from_static("kerf"));
        let write = format!("{} {}", request.method(), request.uri().path());
        let is_write = request.method() != Method::GET && !request.uri().path().ends_with("/events");
        async move {
            let response = server.call(request).await;
            if is_write {
                points.lock().unwrap().record_write(write, &server);
            }
            response
        }
    });
    Client::new(service, "default")
}

/// Runs from no pods to one node per pod and back. Returns a checkpoint after each AWS call and API
/// write of the controllers, or a sample of them, and the number of all points.
async fn record_checkpoints(claims: usize, max_points: usize) -> (Vec<Checkpoint>, usize) {
    let points: SharedPoints = Arc::new(Mutex::new(Points::at_most(max_points)));
    let mut sandbox = AwsSandbox::without_controllers().await;
    // Few types, so that each of the many successors starts quickly. Each has room for one pod.
    sandbox.aws.change_account(|account| {
        let types = ["m5.large", "c5.large"];
        account.set_instance_types(types.map(|name| account.instance_type(name).unwrap().clone()).to_vec());
    });
    let (server, recorded) = (sandbox.cluster.api().clone(), points.clone());
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
        recorded.lock().unwrap().record_call(call.operation, &server);
    })));
    sandbox.start_controllers(checkpointing_client(sandbox.cluster.api(), &points), 7);
    sandbox
        .apply(GETTING_STARTED, |object| {
            if object["kind"] == "NodePool" {
                object["spec"]["limits"] = json!({"cpu": 10 * claims});
                object["spec"]["disruption"]["consolidateAfter"] = json!("0s");
                object["spec"]["disruption"]["budgets"] = json!([{"nodes": "100%"}]);
            }
        })
        .await;
    sandbox.apply(INFLATE, |object| object["spec"]["replicas"] = json!(claims)).await;
    sandbox
        .wait_until("each pod runs on its own node", 300, async |sandbox| sandbox.running_pods().await == claims)
        .await;
    assert_eq!(sandbox.live_instances().len(), claims);
    sandbox.scale(0).await;
    sandbox
        .wait_until("all instances are gone", 600, async |sandbox| {
            sandbox.live_instances().is_empty() && sandbox.list(NODE_CLAIMS).await.is_empty()
        })
        .await;
    sandbox.aws.observe_calls(None);
    drop(sandbox);
    let mut points = points.lock().unwrap();
    (points.take(), points.recorded)
}

fn name(object: &Value) -> String {
    object["metadata"]["name"].as_str().unwrap_or_default().to_owned()
}

fn is_deleting(object: &Value) -> bool {
    object["metadata"]["deletionTimestamp"].is_string()
}

/// Returns the names of the claims of each instance, by the ID in their status.
fn claims_by_instance(claims: &[Value]) -> BTreeMap<String, Vec<String>> {
    let mut by_instance: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for claim in claims {
        let id = claim["status"]["providerID"].as_str().and_then(|id| id.rsplit('/').next()).unwrap_or_default();
        by_instance.entry(id.to_owned()).or_default().push(name(claim));
    }
    by_instance
}

/// Returns the instances of before `launched_by` that have no claim or several.
async fn wrong_instances(sandbox: &AwsSandbox, launched_by: Timestamp) -> Vec<String> {
    let claims = claims_by_instance(&sandbox.list(NODE_CLAIMS).await);
    let old = sandbox.live_instances().into_iter().map(|launched| launched.instance);
    let old = old.filter(|instance| instance.launched_at.is_none_or(|at| at <= launched_by));
    let wrong = old.filter_map(|instance| {
        let own = claims.get(&instance.id).cloned().unwrap_or_default();
        (own.len() != 1).then(|| format!("the instance {} has the claims {own:?}", instance.id))
    });
    wrong.collect()
}

/// Returns the claims that are not being deleted and have no live instance.
async fn wrong_claims(sandbox: &AwsSandbox) -> Vec<String> {
    let live: BTreeSet<String> = sandbox.live_instances().into_iter().map(|launched| launched.instance.id).collect();
    let mut claims = sandbox.list(NODE_CLAIMS).await;
    claims.retain(|claim| !is_deleting(claim));
    let without = claims_by_instance(&claims).into_iter().filter(|(id, _)| !live.contains(id));
    without.map(|(id, names)| format!("the claims {names:?} ({id}) have no live instance")).collect()
}

/// Starts a successor on the checkpoint and returns what is wrong later.
async fn problems_after(checkpoint: &Checkpoint, seed: u64) -> Vec<String> {
    let config = ClusterConfig { clock: Clock::starting_at(checkpoint.at), seed, timing: Timing::LIFELIKE };
    let cluster = Cluster::start_from(&checkpoint.server, config);
    let mut sandbox = AwsSandbox::on_cluster(cluster, aws_provider());
    sandbox.aws.reseed(seed);
    let deployments = sandbox.list(DEPLOYMENTS).await;
    let replicas = deployments.first().and_then(|own| own["spec"]["replicas"].as_u64()).unwrap_or_default() as usize;
    let before: Vec<String> =
        sandbox.list(NODE_CLAIMS).await.iter().filter(|claim| !is_deleting(claim)).map(name).collect();
    sandbox.start_controllers(sandbox.cluster.api().client_as("kerf"), seed);

    let started = tokio::time::Instant::now();
    tokio::time::sleep_until(started + CLEAN_UP_TIME).await;
    let early = wrong_instances(&sandbox, checkpoint.at).await;
    let mut problems: Vec<String> = early.into_iter().map(|problem| format!("after 45 s {problem}")).collect();
    tokio::time::sleep_until(started + RECOVERY_TIME).await;
    problems.extend(wrong_instances(&sandbox, Timestamp::MAX).await);
    problems.extend(wrong_claims(&sandbox).await);
    if replicas > 0 {
        let now: BTreeSet<String> = sandbox.list(NODE_CLAIMS).await.iter().map(name).collect();
        let lost = before.iter().filter(|claim| !now.contains(*claim));
        problems.extend(lost.map(|claim| format!("the claim {claim} is lost")));
    }
    let running = sandbox.running_pods().await;
    if running != replicas {
        problems.push(format!("{running} of {replicas} pods run"));
    }
    problems
}

/// Returns the number in an environment variable, or `default` if the variable is not set.
fn number_from_environment(variable: &str, default: usize) -> usize {
    std::env::var(variable).map_or(default, |text| text.parse().unwrap_or_else(|_| panic!("{variable} is {text:?}")))
}

fn thread_cpu_seconds() -> Option<f64> {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").ok()?;
    text.split_whitespace().next()?.parse::<f64>().ok().map(|nanos| nanos / 1e9)
}

// spec 06 §14, spec 07 §13 S
#[allow(clippy::print_stdout, reason = "the figures are the result of a long run")]
#[tokio::test(start_paused = true)]
async fn a_successor_cleans_up_after_a_crash_at_any_aws_call_and_any_write() {
    let claims = number_from_environment(CLAIMS_VARIABLE, DEFAULT_CLAIMS);
    let max_points = number_from_environment(POINTS_VARIABLE, usize::MAX);
    let cpu = thread_cpu_seconds();
    let (checkpoints, all_points) = record_checkpoints(claims, max_points).await;
    let is_recorded = |name: &&str| checkpoints.iter().any(|checkpoint| checkpoint.after == *name);
    assert!(RARE_CALLS.iter().all(is_recorded), "{all_points}");
    assert_eq!(checkpoints.len(), all_points.min(max_points));
    let mut failures = Vec::new();
    for checkpoint in &checkpoints {
        for problem in problems_after(checkpoint, 1000 + checkpoint.number as u64).await {
            let line = format!("point {}, after {}: {problem}", checkpoint.number, checkpoint.after);
            println!("{line}");
            failures.push(line);
        }
    }
    let seconds = cpu.zip(thread_cpu_seconds()).map_or_else(String::new, |(start, now)| format!("{:.1}", now - start));
    println!(
        "{claims} claims: killed at {} of {all_points} points, {} failures, {seconds} s of CPU time",
        checkpoints.len(),
        failures.len()
    );
    assert_eq!(failures, [""; 0], "{} checkpoints", checkpoints.len());
}
