//! Tests of what the provisioner reports in addition to a decision's outcome: the log lines of
//! spec 07 §7.2, and Events.

use std::sync::Arc;

use http::{Method, Request, Response};
use kerf_api::nodeclaim::NodeClaim;
use kerf_api::nodepool::NodePool;
use kerf_kwok::{Kwok, built_in_catalogue};
use kerf_operator::logs::Level;
use kube::Client;
use kube::client::Body;
use serde_json::{Value, json};

use crate::test_env::{CapturedLog, TestEnv, merge, pool};

const NOT_READY: &str = "ignoring nodepool, not ready";
const FILTERED: &str = "skipping, nodepool requirements filtered out all instance types";
const ANTI_AFFINITY_MESSAGE: &str = "pod(s) have a preferred Anti-Affinity which can prevent consolidation";
const SPREAD: &str = "pod(s) have a preferred TopologySpreadConstraint which can prevent consolidation";
const LIMITS: &str = "instance types were excluded because they would breach limits";
const RELAXING: &str = "relaxing soft constraints for pod since it previously failed to schedule";

/// Returns a client of an API server that rejects the creation of claims.
fn client_rejecting_claims(client: Client) -> Client {
    let service = tower::service_fn(move |request: Request<Body>| {
        let client = client.clone();
        async move {
            if request.method() != Method::POST || !request.uri().path().ends_with("/nodeclaims") {
                return client.send(request).await;
            }
            let message = "NodeClaim.karpenter.sh \"general-\" is invalid: spec: Invalid value: too many requirements";
            let status = json!({"apiVersion": "v1", "kind": "Status", "metadata": {}, "status": "Failure",
                "reason": "Invalid", "code": 422, "message": message});
            Ok(Response::builder().status(422).body(Body::from(status.to_string().into_bytes())).unwrap())
        }
    });
    Client::new(service, "default")
}

async fn start_with_kwok(env: TestEnv) -> TestEnv {
    let cloud = Kwok::new(env.server.client_as("kwok"), env.clock, built_in_catalogue());
    env.start_controllers(Arc::new(cloud)).await
}

fn object_names(lines: &[Value], key: &str) -> Vec<String> {
    let name = |line: &Value| line[key]["name"].as_str().unwrap().to_owned();
    let mut names: Vec<String> = lines.iter().map(name).collect();
    names.sort();
    names.dedup();
    names
}

/// A pool that is not ready, one whose requirements exclude all types, and one whose `minValues`
/// do: scenario M of spec 07 §13, and §8.2.
// spec 02 #59
#[tokio::test(start_paused = true)]
async fn skipped_pools_are_logged() {
    let env = TestEnv::without_controllers().await;
    let (lines, _log) = CapturedLog::capture(Level::Info, env.clock);
    let lost = json!({"template": {"spec": {"nodeClassRef": {"name": "nowhere"}}}});
    env.create::<NodePool>(pool("lost", lost)).await;
    let requirement = |key: &str, more: Value| {
        let mut requirement = json!({"key": key, "operator": "Exists"});
        merge(&mut requirement, more);
        json!({"template": {"spec": {"requirements": [requirement]}}})
    };
    let strange = requirement("karpenter.kwok.sh/instance-family", json!({"operator": "In", "values": ["zzz"]}));
    env.create::<NodePool>(pool("strange", strange)).await;
    let flexible = requirement("karpenter.kwok.sh/instance-family", json!({"minValues": 50}));
    env.create::<NodePool>(pool("flexible", flexible)).await;
    let env = start_with_kwok(env).await;
    assert_eq!(lines.with_message(NOT_READY).len() + lines.with_message(FILTERED).len(), 0, "no pod is pending");
    env.pending_pod("web", "1", json!({})).await;
    env.wait(2).await;
    let (not_ready, filtered) = (lines.with_message(NOT_READY), lines.with_message(FILTERED));
    assert_eq!(object_names(&not_ready, "NodePool"), ["lost"]);
    assert_eq!((&not_ready[0]["level"], &not_ready[0]["controller"]), (&json!("ERROR"), &json!("provisioner")));
    assert_eq!(object_names(&filtered, "NodePool"), ["flexible", "strange"]);
    assert!(filtered.iter().all(|line| line["level"] == "INFO"));
    let by_min_values = |line: &&Value| line.get("minValuesIncompatibleErr").is_some();
    let by_min_values: Vec<Value> = filtered.iter().filter(by_min_values).cloned().collect();
    assert_eq!(object_names(&by_min_values, "NodePool"), ["flexible"]);
    let message = "NodePool requirements filtered out all compatible available instance types";
    let mut events = env.events("NoCompatibleInstanceTypes");
    events.sort();
    let min_values = format!("{message} due to minValues incompatibility");
    assert_eq!(events, [("flexible".into(), min_values), ("strange".into(), message.into())]);
}

/// Preferences that can prevent consolidation are logged once per pod and kind, and not for pods
/// that are not provisionable.
// spec 02 §2.6
#[tokio::test(start_paused = true)]
async fn preferences_that_can_prevent_consolidation_are_logged_once() {
    let env = TestEnv::start().await;
    let (lines, _log) = CapturedLog::capture(Level::Info, env.clock);
    let selector = json!({"matchLabels": {"a": "b"}});
    let term = json!({"topologyKey": "kubernetes.io/hostname", "labelSelector": selector});
    let anti_affinity = json!({"affinity": {"podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution":
        [{"weight": 1, "podAffinityTerm": term}]}}});
    let spread = json!({"topologySpreadConstraints": [{"maxSkew": 1, "topologyKey": "topology.kubernetes.io/zone",
        "whenUnsatisfiable": "ScheduleAnyway", "labelSelector": selector}]});
    env.pending_pod("away", "4000", anti_affinity.clone()).await;
    let mut both = anti_affinity.clone();
    merge(&mut both, spread);
    env.pending_pod("both", "4000", both).await;
    let mut elsewhere = anti_affinity;
    elsewhere["nodeSelector"] = json!({"karpenter.sh/nodepool-of-mine": "x"});
    env.pending_pod("elsewhere", "1", elsewhere).await;
    env.wait(60).await;
    let pods =
        |message: &str| -> Vec<Value> { lines.with_message(message).iter().map(|line| line["pods"].clone()).collect() };
    assert_eq!(pods(ANTI_AFFINITY_MESSAGE), ["default/away, default/both"]);
    assert_eq!(pods(SPREAD), ["default/both"]);
}

/// A debug log reports limits and relaxations. At info level they are not even computed.
// spec 02 §4.6 and §6.4
#[tokio::test(start_paused = true)]
async fn a_debug_log_reports_limits_and_relaxed_preferences() {
    for (level, is_logged) in [(Level::Debug, true), (Level::Info, false)] {
        let env = TestEnv::start().await;
        let (lines, _log) = CapturedLog::capture(level, env.clock);
        env.patch::<NodePool>("general", json!({"spec": {"limits": {"cpu": "20"}}})).await;
        let preference = json!({"matchExpressions":
            [{"key": "topology.kubernetes.io/zone", "operator": "In", "values": ["nowhere"]}]});
        let affinity = json!({"affinity": {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution":
            [{"weight": 1, "preference": preference}]}}});
        env.pending_pod("web", "1", affinity).await;
        env.wait(3).await;
        env.only_claim().await;
        let (limits, relaxing) = (lines.with_message(LIMITS), lines.with_message(RELAXING));
        assert_eq!((limits.is_empty(), relaxing.is_empty()), (!is_logged, !is_logged));
        if !is_logged {
            continue;
        }
        assert_eq!(limits[0]["NodePool"], json!({"name": "general"}));
        let (excluded, total) = (limits[0]["excluded"].as_u64().unwrap(), limits[0]["total"].as_u64().unwrap());
        assert!(0 < excluded && excluded < total, "{limits:?}");
        assert_eq!(relaxing[0]["Pod"], json!({"name": "web", "namespace": "default"}));
        let reason = relaxing[0]["reason"].as_str().unwrap();
        let prefix =
            "removing: spec.affinity.nodeAffinity.preferredDuringSchedulingIgnoredDuringExecution[0]={\"preference\":";
        assert!(reason.starts_with(prefix), "{reason}");
    }
}

// spec 07 #26
#[tokio::test(start_paused = true)]
async fn spec_07_26_all_provisionable_pods_are_counted_and_five_are_named() {
    let env = TestEnv::start().await;
    let (lines, _log) = CapturedLog::capture(Level::Debug, env.clock);
    for n in 0..3 {
        env.pending_pod(&format!("small-{n}"), "1", json!({})).await;
    }
    for n in 0..4 {
        env.pending_pod(&format!("big-{n}"), "4000", json!({})).await;
    }
    env.wait(3).await;
    let found_lines = lines.with_message("found provisionable pod(s)");
    let pods = found_lines[0]["Pods"].as_str().unwrap();
    assert!(pods.ends_with(" and 2 other(s)") && pods.matches("default/").count() == 5, "{pods}");
    let computing = lines.with_message("computing scheduling decision for provisionable pod(s)");
    assert_eq!((&computing[0]["pending-pods"], &computing[0]["deleting-pods"]), (&json!(7), &json!(0)));
}

/// A claim that the API server rejects is requested again and again. The pods get an Event with the
/// server's message.
#[tokio::test(start_paused = true)]
async fn pods_get_an_event_when_their_claim_is_rejected() {
    let mut env = TestEnv::start().await;
    let (lines, _log) = CapturedLog::capture(Level::Info, env.clock);
    let cloud = Kwok::new(env.server.client_as("kwok"), env.clock, built_in_catalogue());
    env.restart_with(client_rejecting_claims(env.server.client_as("kerf")), Arc::new(cloud));
    env.pending_pod("web", "1", json!({})).await;
    env.wait(30).await;
    let claims: Vec<NodeClaim> = env.claims().await;
    assert_eq!(claims, []);
    let prefix = "Failed to schedule pod, creating node claim, ";
    let events = env.events("FailedScheduling");
    assert!(events.len() == 1 && events[0].0 == "web" && events[0].1.starts_with(prefix), "{events:?}");
    assert!(events[0].1.ends_with("spec: Invalid value: too many requirements (422)"), "{events:?}");
    let errors = lines.with_message("Reconciler error");
    assert!(!errors.is_empty());
    for line in errors {
        let error = line["error"].as_str().unwrap();
        assert!(error.ends_with(" (422)") && !error.contains("Status {"), "{error}");
    }
}
