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
    fn new(last: Option<usize>, is_done: bool) -> Self {
        Self { writes: Arc::default(), crash_at_write: last, is_last_write_applied: is_done, crashed: Arc::default() }
    }

    fn client(&self, server: &ApiServer) -> Client {
        let (server, doomed) = (server.clone(), self.clone());
        let service = tower::service_fn(move |mut request: Request<kube::client::Body>| {
            let (mut server, doomed) = (server.clone(), doomed.clone());
            request.headers_mut().insert(http::header::USER_AGENT, http::HeaderValue::from_static("kerf"));
            let is_event = request.uri().path().ends_with("/events");
            async move {
                if request.method() == Method::GET || is_event {
                    return server.call(request).await;
                }
                let n = doomed.writes.fetch_add(1, Ordering::SeqCst);
                if doomed.crash_at_write.is_none_or(|last| n < last) {
                    return server.call(request).await;
                }
                if doomed.is_last_write_applied && doomed.crash_at_write == Some(n) {
                    let _ = server.call(request).await;
                }
                doomed.crashed.notify_one();
                std::future::pending().await
            }
        });
        Client::new(service, "default")
    }
}

fn kwok_cloud(client: Client, rig: &TestEnv) -> Arc<Kwok> {
    Arc::new(Kwok::new(client, rig.clock, built_in_catalogue()))
}

/// Returns true if the expected number of pods is bound without orphans. With zero pods, deletes
/// the remaining claims and returns true once claims and nodes are gone.
async fn has_converged(rig: &TestEnv, pods: usize) -> bool {
    if pods > 0 {
        return rig.all_pods_bound(pods).await && rig.orphans().await.is_empty();
    }
    // Instances are not needed once the pods are gone.
    let claims = rig.claims().await;
    if rig.all_pods_bound(0).await {
        for claim in claims.iter().filter(|claim| claim.metadata.deletion_timestamp.is_none()) {
            rig.delete_claim(claim.metadata.name.as_deref().unwrap()).await;
        }
    }
    claims.is_empty() && rig.list::<Node>().await.is_empty()
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
fn checkpointing_client(server: &ApiServer, pods: &Arc<AtomicUsize>, moments: &Arc<Mutex<Vec<Checkpoint>>>) -> Client {
    let (server, pods, moments) = (server.clone(), pods.clone(), moments.clone());
    let service = tower::service_fn(move |mut request: Request<kube::client::Body>| {
        let (mut server, pods, moments) = (server.clone(), pods.clone(), moments.clone());
        request.headers_mut().insert(http::header::USER_AGENT, http::HeaderValue::from_static("kerf"));
        let is_write = request.method() != Method::GET && !request.uri().path().ends_with("/events");
        async move {
            let answer = server.call(request).await;
            if is_write {
                let (clock, pods) = (server.clock(), pods.load(Ordering::SeqCst));
                moments.lock().unwrap().push(Checkpoint { server: server.fork(clock), at: clock.now(), pods });
            }
            answer
        }
    });
    Client::new(service, "default")
}

/// Runs from no pods to many and back without a crash. Returns the checkpoints after each write and
/// the CPU capacity at the peak.
async fn record_checkpoints() -> (Vec<Checkpoint>, i64) {
    let mut rig = TestEnv::without_controllers().await;
    rig.settings.engine.effort = kerf_engine::Effort::FirstFit;
    // Each instance holds seventeen pods.
    let small = json!([{"key": "karpenter.kwok.sh/instance-cpu", "operator": "In", "values": ["16"]}]);
    rig.create::<NodePool>(pool("general", json!({"template": {"spec": {"requirements": small}}}))).await;
    let (wanted, moments) = (Arc::new(AtomicUsize::new(PODS)), Arc::new(Mutex::new(Vec::new())));
    let client = checkpointing_client(&rig.server, &wanted, &moments);
    rig.restart_with(client.clone(), kwok_cloud(client, &rig));
    let mut cpus = 0;
    for pods in [PODS, 0] {
        wanted.store(pods, Ordering::SeqCst);
        assert!(
            rig.simulate_workload(120, pods, async |rig: &TestEnv| has_converged(rig, pods).await).await,
            "{pods} pods"
        );
        cpus = cpus.max(rig.cpus().await);
    }
    let moments = std::mem::take(&mut *moments.lock().unwrap());
    (moments, cpus)
}

/// For every `step`-th checkpoint from `first` on, starts a new controller and checks that it
/// converges.
async fn crash_after_each_write(first: usize, step: usize) {
    let (moments, cpus) = record_checkpoints().await;
    assert!(moments.len() > 60, "{}", moments.len());
    for (n, moment) in moments.iter().enumerate().skip(first).step_by(step) {
        let mut rig = TestEnv::from_server(moment.server.fork(Clock::starting_at(moment.at)));
        rig.settings.engine.effort = kerf_engine::Effort::FirstFit;
        let client = rig.server.client_as("kerf");
        rig.restart_with(client.clone(), kwok_cloud(client, &rig));
        // Two rounds of garbage collection find an instance that belongs to no claim.
        let is_reached =
            rig.simulate_workload(400, moment.pods, async |rig: &TestEnv| has_converged(rig, moment.pods).await).await;
        assert!(is_reached, "after write {n}, {} pods: {:?}", moment.pods, rig.orphans().await);
        if moment.pods > 0 {
            assert_eq!(rig.cpus().await, cpus, "after write {n}: as many machines as without a death");
        }
    }
}

// spec 04 §15; "the controller is killed between any two of its writes". A write that was not
// applied equals a crash after the previous write. The checkpoints are split between two tests that
// run in parallel.
#[tokio::test(start_paused = true)]
async fn a_successor_finishes_what_was_half_done_1() {
    crash_after_each_write(0, 2).await;
}

#[tokio::test(start_paused = true)]
async fn a_successor_finishes_what_was_half_done_2() {
    crash_after_each_write(1, 2).await;
}

#[tokio::test(start_paused = true)]
async fn bad_weather_changes_nothing_but_the_time_it_takes_1() {
    assert_converges_under_faults(0).await;
}

#[tokio::test(start_paused = true)]
async fn bad_weather_changes_nothing_but_the_time_it_takes_2() {
    assert_converges_under_faults(1).await;
}

/// Returns conflicts, errors, lost responses and dropped watches for requests of Kerf.
fn fault_rules() -> Vec<FaultRule> {
    let weather = [
        (Fault::Conflict, 200_000),
        (Fault::InternalError, 100_000),
        (Fault::LostResponse, 50_000),
        (Fault::DroppedWatch { after: Duration::from_secs(3) }, 1_000_000),
    ];
    let rule =
        |(fault, per_million)| FaultRule { user_agent_prefix: "kerf".into(), ..FaultRule::new(fault, per_million) };
    weather.into_iter().map(rule).collect()
}

/// Checks that the controllers converge although requests fail at random.
async fn assert_converges_under_faults(seed: u64) {
    let mut rig = TestEnv::without_controllers().await;
    rig.create::<NodePool>(pool("general", json!({}))).await;
    rig.server.set_faults(fault_rules(), seed);
    let client = rig.server.client_as("kerf");
    rig.restart_with(client.clone(), kwok_cloud(client, &rig));
    for pods in [PODS, 0] {
        let is_reached = rig.simulate_workload(900, pods, async |rig: &TestEnv| has_converged(rig, pods).await).await;
        assert!(is_reached, "seed {seed}, {pods} pods: {:?}", rig.orphans().await);
    }
}

/// Consolidates a large node into a small one, with a controller that crashes at a write and a
/// successor. Returns the number of writes.
async fn consolidate_with_crash(last: Option<usize>, is_done: bool) -> usize {
    let mut town = TestCluster::start(consolidating_pool(json!({}))).await;
    town.deploy("wide", 1, "7", json!({})).await;
    town.deploy("web", 1, "500m", json!({})).await;
    town.wait_until("both run", 60, async |town| town.is_settled(2, &["l"]).await).await;
    let doomed = CrashingClient::new(last, is_done);
    town.restart_with(doomed.client(&town.env.server));
    town.scale("wide", 0).await;
    let fell = doomed.crashed.clone();
    let settled = async |town: &TestCluster| town.is_settled(1, &["s"]).await && town.is_idle().await;
    let is_over = tokio::select! {
        biased;
        () = fell.notified() => false,
        _ = town.wait_until("it is small", 120, settled) => true,
    };
    if !is_over {
        town.restart();
        // The successor may find a replacement without a command, and an instance that belongs to
        // no claim.
        town.wait_until(&format!("it is small after all, write {last:?}, done {is_done}"), 600, settled).await;
    }
    doomed.writes.load(Ordering::SeqCst)
}

/// Crashes the controller at each write of one consolidation.
async fn crash_at_each_disruption_write(is_done: bool) {
    let writes = consolidate_with_crash(None, false).await;
    assert!(writes > 15, "{writes}");
    for last in 0..writes {
        consolidate_with_crash(Some(last), is_done).await;
    }
}

// spec 03 §10.3; "the controller is killed between any two of its writes", with disruption enabled
#[tokio::test(start_paused = true)]
async fn a_successor_cleans_up_after_a_move_that_was_half_done() {
    crash_at_each_disruption_write(false).await;
}

#[tokio::test(start_paused = true)]
async fn a_successor_cleans_up_after_a_move_whose_last_write_was_not_noted() {
    crash_at_each_disruption_write(true).await;
}

// The same faults, with disruption enabled.
#[tokio::test(start_paused = true)]
async fn bad_weather_does_not_keep_nodes_from_going() {
    for seed in 0..2 {
        let mut town = TestCluster::without_controllers(consolidating_pool(json!({}))).await;
        town.env.server.set_faults(fault_rules(), seed);
        town.restart();
        town.deploy("web", 12, "900m", json!({})).await;
        town.wait_until("all run", 600, async |town| town.running().await == 12).await;
        town.scale("web", 2).await;
        town.wait_until("one small node is left", 900, async |town| {
            town.is_settled(2, &["s"]).await && town.is_idle().await
        })
        .await;
    }
}
