//! Leader election between two processes (spec 07 §1.1): which one writes, how fast the other takes
//! over, and that they never write at the same time.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use jiff::Timestamp;
use k8s_openapi::api::coordination::v1 as coordination;
use kerf_api::nodepool::NodePool;
use kerf_controllers::{Context, LeaderElection, Metrics, ProcessSettings, RunError, Settings};
use kerf_kwok::{Kwok, built_in_catalogue};
use kerf_operator::{Recorder, SharedCluster};
use kerf_runtime::{Shutdown, WriteGate};
use kerf_sandbox::{AuditedWrite, Fault, FaultRule};
use kube::api::{Api, Patch, PatchParams, PostParams};
use serde_json::json;
use tokio::task::JoinHandle;

use crate::test_env::{TestEnv, pool};

/// A process that takes part in leader election.
struct LeaderProcess {
    agent: &'static str,
    metrics: Arc<Metrics>,
    shutdown: Shutdown,
    running: JoinHandle<Result<(), RunError>>,
}

fn start(env: &TestEnv, agent: &'static str) -> LeaderProcess {
    let client = env.server.client_as(agent);
    start_with(env, agent, client.clone(), client)
}

/// Starts a process with separate clients for the controllers and the lease.
fn start_with(env: &TestEnv, agent: &'static str, client: kube::Client, lease_client: kube::Client) -> LeaderProcess {
    let write_gate = WriteGate::default();
    let client = write_gate.wrap(client);
    let recorder = Arc::new(Recorder::new(client.clone(), env.clock, 1));
    let metrics = Arc::new(Metrics::new());
    let ctx = Context {
        cloud: Arc::new(Kwok::new(client.clone(), env.clock, built_in_catalogue())),
        client,
        cluster: SharedCluster::default(),
        clock: env.clock,
        events: recorder.clone(),
        metrics: metrics.clone(),
        settings: Arc::new(Settings::default()),
    };
    let election = LeaderElection {
        name: "karpenter-leader-election".into(),
        namespace: "kube-system".into(),
        identity: agent.into(),
        write_gate,
    };
    let settings = ProcessSettings { leader_election: Some(election), ..ProcessSettings::default() };
    let (shutdown, stop) = Shutdown::new();
    let running =
        tokio::spawn(async move { kerf_controllers::run(ctx, &settings, lease_client, Some(recorder), stop).await });
    LeaderProcess { agent, metrics, shutdown, running }
}

impl LeaderProcess {
    fn is_leader(&self) -> bool {
        self.metrics.leader_election_master_status.get(&["karpenter-leader-election"]) == Some(1.0)
    }

    /// Stops the process as `kill -9` would.
    async fn kill(self) {
        self.running.abort();
        let _ = self.running.await;
    }
}

/// Starts two processes, and keeps creating pods that fit on no existing node.
async fn start_two_under_load() -> (TestEnv, LeaderProcess, LeaderProcess) {
    let env = TestEnv::without_controllers().await;
    env.create::<NodePool>(pool("general", json!({}))).await;
    env.server.start_audit();
    let one = start(&env, "kerf-one");
    env.wait(1).await;
    let two = start(&env, "kerf-two");
    for i in 0..5 {
        env.pending_pod(&format!("first-{i}"), "60", json!({})).await;
        env.wait(1).await;
    }
    assert!(one.is_leader() && !two.is_leader());
    (env, one, two)
}

async fn create_pods_for_seconds(env: &TestEnv, seconds: usize) {
    for i in 0..seconds {
        env.pending_pod(&format!("more-{i}"), "60", json!({})).await;
        env.wait(1).await;
    }
}

/// Returns the time of the first and the last write of a process, without writes of leases.
fn span(writes: &[AuditedWrite], agent: &str) -> Option<(Timestamp, Timestamp)> {
    let mut times =
        writes.iter().filter(|write| write.user_agent == agent && write.resource != "leases").map(|write| write.at);
    let first = times.next()?;
    Some((first, times.next_back().unwrap_or(first)))
}

fn assert_one_after_the_other(writes: &[AuditedWrite], one: &str, two: &str) -> Timestamp {
    let (_, last) = span(writes, one).unwrap();
    let (first, _) = span(writes, two).unwrap();
    assert!(last < first, "{one} wrote until {last}, {two} from {first}");
    first
}

#[tokio::test(start_paused = true)]
async fn after_a_kill_the_other_process_leads_within_twenty_seconds() {
    let (env, one, two) = start_two_under_load().await;
    let killed_at = env.clock.now();
    one.kill().await;
    create_pods_for_seconds(&env, 25).await;
    assert!(two.is_leader());
    let first = assert_one_after_the_other(&env.server.take_audit(), "kerf-one", "kerf-two");
    let took = first.duration_since(killed_at).as_secs_f64();
    assert!(
        (10.0..20.0).contains(&took),
        "{took} s: the successor starts soon after the lease expires, and not before"
    );
}

// spec 07 #19
#[tokio::test(start_paused = true)]
async fn after_sigterm_the_other_process_leads_within_two_seconds() {
    let (env, one, two) = start_two_under_load().await;
    create_pods_for_seconds(&env, 3).await;
    let requested_at = env.clock.now();
    one.shutdown.request();
    assert!(one.running.await.unwrap().is_ok());
    let leases: Api<coordination::Lease> = Api::namespaced(env.client.clone(), "kube-system");
    let writes = env.server.take_audit();
    let released = writes.iter().rfind(|write| write.user_agent == one.agent && write.resource == "leases").unwrap().at;
    assert!(released.duration_since(requested_at).as_secs_f64() < 1.0, "the holder is cleared before the process ends");
    env.pending_pod("next", "60", json!({})).await;
    env.wait(4).await;
    assert!(two.is_leader());
    let spec = leases.get("karpenter-leader-election").await.unwrap().spec.unwrap();
    assert_eq!(spec.holder_identity.as_deref(), Some("kerf-two"));
    assert_eq!(spec.lease_transitions, Some(1));
    let acquired = spec.acquire_time.unwrap().0.duration_since(requested_at).as_secs_f64();
    assert!(acquired < 2.0, "{acquired} s");
    let later = env.server.take_audit();
    let all: Vec<AuditedWrite> = writes.into_iter().chain(later).collect();
    assert_one_after_the_other(&all, "kerf-one", "kerf-two");
}

// spec 07 #69
#[tokio::test(start_paused = true)]
async fn a_leader_that_was_stopped_longer_than_its_lease_writes_nothing() {
    let env = TestEnv::without_controllers().await;
    env.create::<NodePool>(pool("general", json!({}))).await;
    let one = start(&env, "kerf-one");
    env.wait(5).await;
    assert!(one.is_leader());
    env.server.start_audit();
    for n in 0..5 {
        env.pending_pod(&format!("web-{n}"), "60", json!({})).await;
    }
    // The process does not run, and time passes.
    let stopped_at = env.clock.now();
    tokio::time::advance(std::time::Duration::from_secs(20)).await;
    let ended = one.running.await.unwrap();
    assert!(matches!(ended, Err(RunError::Lease(_))), "{ended:?}");
    let writes = env.server.take_audit();
    let late: Vec<&AuditedWrite> =
        writes.iter().filter(|write| write.user_agent == "kerf-one" && write.at > stopped_at).collect();
    assert!(late.iter().all(|write| write.resource == "leases"), "{late:#?}");
}

// spec 07 #68
#[tokio::test(start_paused = true)]
async fn a_process_does_not_write_while_another_holds_the_lease() {
    let env = TestEnv::without_controllers().await;
    env.create::<NodePool>(pool("general", json!({}))).await;
    let leases: Api<coordination::Lease> = Api::namespaced(env.client.clone(), "kube-system");
    let lease = json!({"metadata": {"name": "karpenter-leader-election"}, "spec": {"holderIdentity": "karpenter", "leaseDurationSeconds": 15, "leaseTransitions": 3}});
    leases.create(&PostParams::default(), &serde_json::from_value(lease).unwrap()).await.unwrap();
    env.server.start_audit();
    let one = start(&env, "kerf-one");
    for _ in 0..20 {
        env.wait(5).await;
        let renew = json!({"spec": {"renewTime": env.clock.now().strftime("%Y-%m-%dT%H:%M:%S%.6fZ").to_string()}});
        leases.patch("karpenter-leader-election", &PatchParams::default(), &Patch::Merge(renew)).await.unwrap();
    }
    assert!(!one.is_leader());
    assert!(env.server.take_audit().iter().all(|write| write.user_agent != one.agent));
    env.wait(20).await;
    assert!(one.is_leader(), "a lease that is not renewed expires");
    let spec = leases.get("karpenter-leader-election").await.unwrap().spec.unwrap();
    assert_eq!((spec.holder_identity.as_deref(), spec.lease_transitions), (Some("kerf-one"), Some(4)));
}

/// A leader that cannot renew its lease stops before another process may start.
#[tokio::test(start_paused = true)]
async fn a_leader_that_cannot_renew_its_lease_stops_in_time() {
    let (env, one, two) = start_two_under_load().await;
    let cut_off_at = env.clock.now();
    let rule = FaultRule { user_agent_prefix: "kerf-one".into(), ..FaultRule::new(Fault::InternalError, 1_000_000) };
    let only_writes = FaultRule { resources: vec!["leases".into()], ..rule };
    env.server.set_faults(vec![only_writes], 1);
    create_pods_for_seconds(&env, 25).await;
    assert!(matches!(one.running.await.unwrap(), Err(RunError::Lease(_))), "losing the lease is fatal");
    assert!(two.is_leader());
    let writes = env.server.take_audit();
    assert_one_after_the_other(&writes, "kerf-one", "kerf-two");
    let (_, last) = span(&writes, "kerf-one").unwrap();
    assert!(last.duration_since(cut_off_at).as_secs_f64() < 13.0);
}

/// Returns a client whose requests take an hour each.
fn throttled(env: &TestEnv) -> kube::Client {
    let server = env.server.clone();
    let service = tower::service_fn(move |request: http::Request<kube::client::Body>| {
        let mut server = server.clone();
        async move {
            tokio::time::sleep(std::time::Duration::from_hours(1)).await;
            tower::Service::call(&mut server, request).await
        }
    });
    kube::Client::new(service, "default")
}

// spec 07 #18
#[tokio::test(start_paused = true)]
async fn slow_controller_requests_do_not_lose_the_lease() {
    let env = TestEnv::without_controllers().await;
    let one = start_with(&env, "kerf-one", throttled(&env), env.server.client_as("kerf-one"));
    env.wait(120).await;
    assert!(one.is_leader() && !one.running.is_finished());
    let leases: Api<coordination::Lease> = Api::namespaced(env.client.clone(), "kube-system");
    let spec = leases.get("karpenter-leader-election").await.unwrap().spec.unwrap();
    let age = env.clock.now().duration_since(spec.renew_time.unwrap().0).as_secs_f64();
    assert!(age < 3.0, "renewed {age} s ago");
    // With a slow client for the lease the process would not become leader.
    one.kill().await;
    let two = start_with(&env, "kerf-two", env.server.client_as("kerf-two"), throttled(&env));
    env.wait(120).await;
    assert!(!two.is_leader());
}

// spec 07 §6.7
#[tokio::test(start_paused = true)]
async fn lease_renewals_that_need_a_read_are_counted() {
    let env = TestEnv::without_controllers().await;
    let one = start(&env, "kerf-one");
    env.wait(10).await;
    let slow = || one.metrics.leader_election_slowpath.get(&["karpenter-leader-election"]);
    assert_eq!(slow(), 0.0);
    let leases: Api<coordination::Lease> = Api::namespaced(env.client.clone(), "kube-system");
    let touched = json!({"metadata": {"annotations": {"a": "b"}}});
    leases.patch("karpenter-leader-election", &PatchParams::default(), &Patch::Merge(touched)).await.unwrap();
    env.wait(10).await;
    assert_eq!(slow(), 1.0, "another client wrote the lease since its last renewal");
    assert!(one.is_leader());
}

/// Wraps a client so that lists and watches of NodeClaims are never answered while `hangs` is set.
fn hanging_client(client: kube::Client, hangs: Arc<AtomicBool>) -> kube::Client {
    let service = tower::service_fn(move |request: http::Request<kube::client::Body>| {
        let (client, hangs) = (client.clone(), hangs.clone());
        async move {
            let is_read = request.method() == http::Method::GET && request.uri().path().ends_with("/nodeclaims");
            if is_read && hangs.load(Ordering::SeqCst) {
                return std::future::pending().await;
            }
            client.send(request).await
        }
    });
    kube::Client::new(service, "default")
}

// spec 07 §1.1: a leader that sees nothing
#[tokio::test(start_paused = true)]
async fn a_leader_whose_watches_are_not_answered_gives_up_the_lease_and_stays_a_standby() {
    let env = TestEnv::without_controllers().await;
    env.create::<NodePool>(pool("general", json!({}))).await;
    let hangs = Arc::new(AtomicBool::new(false));
    let client = hanging_client(env.server.client_as("kerf-one"), hangs.clone());
    let one = start_with(&env, "kerf-one", client, env.server.client_as("kerf-one"));
    env.wait(1).await;
    let two = start(&env, "kerf-two");
    env.wait(5).await;
    assert!(one.is_leader() && !two.is_leader());
    hangs.store(true, Ordering::SeqCst);
    // The open watch ends after at most ten minutes; from then on nothing is answered.
    env.wait(600 + 30).await;
    for _ in 0..30 {
        env.wait(10).await;
        if two.is_leader() {
            break;
        }
    }
    assert!(!one.is_leader() && two.is_leader(), "the replica that sees the cluster leads");
    assert!(!one.running.is_finished(), "the process does not exit");
    env.pending_pod("late", "1", json!({})).await;
    env.wait(30).await;
    assert_eq!(env.claims().await.len(), 1, "the new leader acts");
    let transitions = async || {
        let leases: Api<coordination::Lease> = Api::namespaced(env.client.clone(), "kube-system");
        leases.get("karpenter-leader-election").await.unwrap().spec.unwrap().lease_transitions
    };
    let before = transitions().await;
    two.kill().await;
    env.wait(600).await;
    assert!(!one.is_leader(), "a process that sees nothing does not become leader");
    assert_eq!(transitions().await, before);
    hangs.store(false, Ordering::SeqCst);
    env.wait(300).await;
    assert!(one.is_leader(), "it leads again once it sees the cluster");
}

// spec 07 #74
#[tokio::test(start_paused = true)]
async fn a_new_leader_knows_what_its_watches_have_not_shown() {
    let env = TestEnv::without_controllers().await;
    env.create::<NodePool>(pool("general", json!({}))).await;
    let one = start(&env, "kerf-one");
    env.wait(1).await;
    // The connections of the standby die without notice.
    let silent = FaultRule::new(Fault::SilentWatch { after: std::time::Duration::ZERO }, 1_000_000);
    let resources = vec!["nodeclaims".into(), "nodes".into()];
    env.server.set_faults(vec![FaultRule { user_agent_prefix: "kerf-two".into(), resources, ..silent }], 1);
    let two = start(&env, "kerf-two");
    env.wait(5).await;
    env.pending_pod("web", "60", json!({})).await;
    env.wait(5).await;
    assert_eq!(env.claims().await.len(), 1);
    one.kill().await;
    env.wait(40).await;
    assert!(two.is_leader());
    assert_eq!(env.claims().await.len(), 1, "nothing is launched twice");
}
