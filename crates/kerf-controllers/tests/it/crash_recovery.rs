//! A controller that dies between any two of its writes, and its successor: the successor finishes
//! what was begun, does nothing twice and leaves no orphans. Also a controller whose requests fail
//! at random, which must reach the same state as without faults.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use http::{Method, Request};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Node;
use kerf_api::nodepool::NodePool;
use kerf_kwok::{Kwok, built_in_catalogue};
use kerf_runtime::Clock;
use kerf_sandbox::{ApiServer, Fault, FaultRule};
use kube::Client;
use serde_json::json;
use std::time::Duration;
use tokio::sync::Notify;
use tower::Service as _;

use crate::test_cluster::{TestCluster, consolidating_pool};
use crate::test_env::{TestEnv, pool};

/// Number of pods at the peak of a scenario.
const PODS: usize = 60;

/// A client whose n-th write never returns, whether it was applied or not.
#[derive(Clone)]
struct CrashingClient {
    writes: Arc<AtomicUsize>,
    /// Index of the write at which the client stops. `None` only counts writes.
    crash_at_write: Option<usize>,
    /// True if the write at which the client stops is applied.
    is_last_write_applied: bool,
    crashed: Arc<Notify>,
}

impl CrashingClient {
    fn new(crash_at_write: Option<usize>, is_last_write_applied: bool) -> Self {
        Self { writes: Arc::default(), crash_at_write, is_last_write_applied, crashed: Arc::default() }
    }

    fn client(&self, server: &ApiServer) -> Client {
        let (server, crashing) = (server.clone(), self.clone());
        let service = tower::service_fn(move |mut request: Request<kube::client::Body>| {
            let (mut server, crashing) = (server.clone(), crashing.clone());
            request.headers_mut().insert(http::header::USER_AGENT, http::HeaderValue::from_static("kerf"));
            let is_event = request.uri().path().ends_with("/events");
            async move {
                if request.method() == Method::GET || is_event {
                    return server.call(request).await;
                }
                let n = crashing.writes.fetch_add(1, Ordering::SeqCst);
                if crashing.crash_at_write.is_none_or(|last| n < last) {
                    return server.call(request).await;
                }
                if crashing.is_last_write_applied && crashing.crash_at_write == Some(n) {
                    let _ = server.call(request).await;
                }
                crashing.crashed.notify_one();
                std::future::pending().await
            }
        });
        Client::new(service, "default")
    }
}

fn kwok_cloud(client: Client, env: &TestEnv) -> Arc<Kwok> {
    Arc::new(Kwok::new(client, env.clock, built_in_catalogue()))
}

/// Returns true if the expected number of pods is bound without orphans. With zero pods, deletes
/// the remaining claims and returns true once claims and nodes are gone.
async fn has_converged(env: &TestEnv, pods: usize) -> bool {
    if pods > 0 {
        return env.all_pods_bound(pods).await && env.orphans().await.is_empty();
    }
    // Instances are not needed once the pods are gone.
    let claims = env.claims().await;
    if env.all_pods_bound(0).await {
        for claim in claims.iter().filter(|claim| claim.metadata.deletion_timestamp.is_none()) {
            env.delete_claim(claim.metadata.name.as_deref().unwrap()).await;
        }
    }
    claims.is_empty() && env.list::<Node>().await.is_empty()
}

/// A copy of the API server after one write of the controller. It is all that remains if the
/// controller dies at that time.
struct Checkpoint {
    server: ApiServer,
    at: Timestamp,
    /// Number of pods wanted at that time.
    pods: usize,
}

/// Returns a client that records a checkpoint after each of its writes.
fn checkpointing_client(
    server: &ApiServer,
    pods: &Arc<AtomicUsize>,
    checkpoints: &Arc<Mutex<Vec<Checkpoint>>>,
) -> Client {
    let (server, pods, checkpoints) = (server.clone(), pods.clone(), checkpoints.clone());
    let service = tower::service_fn(move |mut request: Request<kube::client::Body>| {
        let (mut server, pods, checkpoints) = (server.clone(), pods.clone(), checkpoints.clone());
        request.headers_mut().insert(http::header::USER_AGENT, http::HeaderValue::from_static("kerf"));
        let is_write = request.method() != Method::GET && !request.uri().path().ends_with("/events");
        async move {
            let response = server.call(request).await;
            if is_write {
                let (clock, pods) = (server.clock(), pods.load(Ordering::SeqCst));
                checkpoints.lock().unwrap().push(Checkpoint { server: server.fork(clock), at: clock.now(), pods });
            }
            response
        }
    });
    Client::new(service, "default")
}

/// Runs from no pods to many and back without a crash. Returns the checkpoints after each write and
/// the CPU capacity at the peak.
async fn record_checkpoints() -> (Vec<Checkpoint>, i64) {
    let mut env = TestEnv::without_controllers().await;
    env.settings.engine.effort = kerf_engine::Effort::FirstFit;
    // Each instance holds seventeen pods.
    let small = json!([{"key": "karpenter.kwok.sh/instance-cpu", "operator": "In", "values": ["16"]}]);
    env.create::<NodePool>(pool("general", json!({"template": {"spec": {"requirements": small}}}))).await;
    let (pod_count, checkpoints) = (Arc::new(AtomicUsize::new(PODS)), Arc::new(Mutex::new(Vec::new())));
    let client = checkpointing_client(&env.server, &pod_count, &checkpoints);
    env.restart_with(client.clone(), kwok_cloud(client, &env));
    let mut cpus = 0;
    for pods in [PODS, 0] {
        pod_count.store(pods, Ordering::SeqCst);
        assert!(
            env.simulate_workload(120, pods, async |env: &TestEnv| has_converged(env, pods).await).await,
            "{pods} pods"
        );
        cpus = cpus.max(env.cpus().await);
    }
    let checkpoints = std::mem::take(&mut *checkpoints.lock().unwrap());
    (checkpoints, cpus)
}

/// For every `step`-th checkpoint from `first` on, starts a new controller and checks that it
/// converges.
async fn crash_after_each_write(first: usize, step: usize) {
    let (checkpoints, cpus) = record_checkpoints().await;
    assert!(checkpoints.len() > 60, "{}", checkpoints.len());
    for (n, checkpoint) in checkpoints.iter().enumerate().skip(first).step_by(step) {
        let mut env = TestEnv::from_server(checkpoint.server.fork(Clock::starting_at(checkpoint.at)));
        env.settings.engine.effort = kerf_engine::Effort::FirstFit;
        let client = env.server.client_as("kerf");
        env.restart_with(client.clone(), kwok_cloud(client, &env));
        // Two rounds of garbage collection find an instance that belongs to no claim.
        let has_converged_again = env
            .simulate_workload(400, checkpoint.pods, async |env: &TestEnv| has_converged(env, checkpoint.pods).await)
            .await;
        assert!(has_converged_again, "after write {n}, {} pods: {:?}", checkpoint.pods, env.orphans().await);
        if checkpoint.pods > 0 {
            assert_eq!(env.cpus().await, cpus, "after write {n}: as many CPUs as without a crash");
        }
    }
}

// spec 04 §15; "the controller is killed between any two of its writes". A write that was not
// applied equals a crash after the previous write. The checkpoints are split between two tests that
// run in parallel.
#[tokio::test(start_paused = true)]
async fn a_successor_completes_interrupted_provisioning_1() {
    crash_after_each_write(0, 2).await;
}

#[tokio::test(start_paused = true)]
async fn a_successor_completes_interrupted_provisioning_2() {
    crash_after_each_write(1, 2).await;
}

#[tokio::test(start_paused = true)]
async fn faults_change_nothing_but_the_time_it_takes_1() {
    assert_converges_under_faults(0).await;
}

#[tokio::test(start_paused = true)]
async fn faults_change_nothing_but_the_time_it_takes_2() {
    assert_converges_under_faults(1).await;
}

/// Returns conflicts, errors, lost responses and dropped watches for requests of Kerf.
fn fault_rules() -> Vec<FaultRule> {
    let faults = [
        (Fault::Conflict, 200_000),
        (Fault::InternalError, 100_000),
        (Fault::LostResponse, 50_000),
        (Fault::DroppedWatch { after: Duration::from_secs(3) }, 1_000_000),
    ];
    let rule =
        |(fault, per_million)| FaultRule { user_agent_prefix: "kerf".into(), ..FaultRule::new(fault, per_million) };
    faults.into_iter().map(rule).collect()
}

/// Checks that the controllers converge although requests fail at random.
async fn assert_converges_under_faults(seed: u64) {
    let mut env = TestEnv::without_controllers().await;
    env.create::<NodePool>(pool("general", json!({}))).await;
    env.server.set_faults(fault_rules(), seed);
    let client = env.server.client_as("kerf");
    env.restart_with(client.clone(), kwok_cloud(client, &env));
    for pods in [PODS, 0] {
        let has_converged_again =
            env.simulate_workload(900, pods, async |env: &TestEnv| has_converged(env, pods).await).await;
        assert!(has_converged_again, "seed {seed}, {pods} pods: {:?}", env.orphans().await);
    }
}

/// Consolidates a large node into a small one, with a controller that crashes at a write and a
/// successor. Returns the number of writes.
async fn consolidate_with_crash(crash_at_write: Option<usize>, is_applied: bool) -> usize {
    let mut cluster = TestCluster::start(consolidating_pool(json!({}))).await;
    cluster.deploy("wide", 1, "7", json!({})).await;
    cluster.deploy("web", 1, "500m", json!({})).await;
    cluster.wait_until("both pods run", 60, async |cluster| cluster.is_settled(2, &["l"]).await).await;
    let crashing = CrashingClient::new(crash_at_write, is_applied);
    cluster.restart_with(crashing.client(&cluster.env.server));
    cluster.scale("wide", 0).await;
    let crashed = crashing.crashed.clone();
    let settled = async |cluster: &TestCluster| cluster.is_settled(1, &["s"]).await && cluster.is_idle().await;
    let is_finished = tokio::select! {
        biased;
        () = crashed.notified() => false,
        _ = cluster.wait_until("the small node replaces the large one", 120, settled) => true,
    };
    if !is_finished {
        cluster.restart();
        // The successor may find a replacement without a command, and an instance that belongs to
        // no claim.
        cluster
            .wait_until(
                &format!(
                    "the small node replaces the large one, crash at write {crash_at_write:?}, applied {is_applied}"
                ),
                600,
                settled,
            )
            .await;
    }
    crashing.writes.load(Ordering::SeqCst)
}

/// Crashes the controller at each write of one consolidation.
async fn crash_at_each_disruption_write(is_applied: bool) {
    let writes = consolidate_with_crash(None, false).await;
    assert!(writes > 15, "{writes}");
    for write in 0..writes {
        consolidate_with_crash(Some(write), is_applied).await;
    }
}

// spec 03 §10.3; "the controller is killed between any two of its writes", with disruption enabled
#[tokio::test(start_paused = true)]
async fn a_successor_cleans_up_after_a_crash_before_a_disruption_write() {
    crash_at_each_disruption_write(false).await;
}

#[tokio::test(start_paused = true)]
async fn a_successor_cleans_up_after_a_crash_after_a_disruption_write() {
    crash_at_each_disruption_write(true).await;
}

// The same faults, with disruption enabled.
#[tokio::test(start_paused = true)]
async fn faults_do_not_prevent_consolidation() {
    for seed in 0..2 {
        let mut cluster = TestCluster::without_controllers(consolidating_pool(json!({}))).await;
        cluster.env.server.set_faults(fault_rules(), seed);
        cluster.restart();
        cluster.deploy("web", 12, "900m", json!({})).await;
        cluster.wait_until("all pods run", 600, async |cluster| cluster.running().await == 12).await;
        cluster.scale("web", 2).await;
        cluster
            .wait_until("one small node is left", 900, async |cluster| {
                cluster.is_settled(2, &["s"]).await && cluster.is_idle().await
            })
            .await;
    }
}
