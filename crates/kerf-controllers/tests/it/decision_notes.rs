//! What the provisioner reports in addition to a decision's outcome: the log lines of spec 07 §7.2,
//! and Events.

use std::sync::Arc;

use http::{Method, Request, Response};
use kerf_api::nodeclaim::NodeClaim;
use kerf_api::nodepool::NodePool;
use kerf_controllers::logs::Level;
use kerf_kwok::{Kwok, built_in_catalogue};
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

async fn start_with_kwok(rig: TestEnv) -> TestEnv {
    let cloud = Kwok::new(rig.server.client_as("kwok"), rig.clock, built_in_catalogue());
    rig.start_controllers(Arc::new(cloud)).await
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
async fn pools_that_sit_out_are_named() {
    let rig = TestEnv::without_controllers().await;
    let (lines, _log) = CapturedLog::capture(Level::Info, rig.clock);
    let lost = json!({"template": {"spec": {"nodeClassRef": {"name": "nowhere"}}}});
    rig.create::<NodePool>(pool("lost", lost)).await;
    let requirement = |key: &str, more: Value| {
        let mut requirement = json!({"key": key, "operator": "Exists"});
        merge(&mut requirement, more);
        json!({"template": {"spec": {"requirements": [requirement]}}})
    };
    let strange = requirement("karpenter.kwok.sh/instance-family", json!({"operator": "In", "values": ["zzz"]}));
    rig.create::<NodePool>(pool("strange", strange)).await;
    let flexible = requirement("karpenter.kwok.sh/instance-family", json!({"minValues": 50}));
    rig.create::<NodePool>(pool("flexible", flexible)).await;
    let rig = start_with_kwok(rig).await;
    assert_eq!(lines.with_message(NOT_READY).len() + lines.with_message(FILTERED).len(), 0, "nobody needs a place");
    rig.pending_pod("web", "1", json!({})).await;
    rig.wait(2).await;
    let (not_ready, filtered) = (lines.with_message(NOT_READY), lines.with_message(FILTERED));
    assert_eq!(object_names(&not_ready, "NodePool"), ["lost"]);
    assert_eq!((&not_ready[0]["level"], &not_ready[0]["controller"]), (&json!("ERROR"), &json!("provisioner")));
    assert_eq!(object_names(&filtered, "NodePool"), ["flexible", "strange"]);
    assert!(filtered.iter().all(|line| line["level"] == "INFO"));
    let by_min_values = |line: &&Value| line.get("minValuesIncompatibleErr").is_some();
    let by_min_values: Vec<Value> = filtered.iter().filter(by_min_values).cloned().collect();
    assert_eq!(object_names(&by_min_values, "NodePool"), ["flexible"]);
    let message = "NodePool requirements filtered out all compatible available instance types";
    let mut events = rig.events("NoCompatibleInstanceTypes");
    events.sort();
    let min_values = format!("{message} due to minValues incompatibility");
    assert_eq!(events, [("flexible".into(), min_values), ("strange".into(), message.into())]);
}

/// Preferences that can prevent consolidation are logged once per pod and kind, and not for pods
/// that are not provisionable.
// spec 02 §2.6
#[tokio::test(start_paused = true)]
async fn wishes_in_the_way_of_consolidation_are_told_once() {
    let rig = TestEnv::start().await;
    let (lines, _log) = CapturedLog::capture(Level::Info, rig.clock);
    let selector = json!({"matchLabels": {"a": "b"}});
    let term = json!({"topologyKey": "kubernetes.io/hostname", "labelSelector": selector});
    let away = json!({"affinity": {"podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution":
        [{"weight": 1, "podAffinityTerm": term}]}}});
    let spread = json!({"topologySpreadConstraints": [{"maxSkew": 1, "topologyKey": "topology.kubernetes.io/zone",
        "whenUnsatisfiable": "ScheduleAnyway", "labelSelector": selector}]});
    rig.pending_pod("away", "4000", away.clone()).await;
    let mut both = away.clone();
    merge(&mut both, spread);
    rig.pending_pod("both", "4000", both).await;
    let mut elsewhere = away;
    elsewhere["nodeSelector"] = json!({"karpenter.sh/nodepool-of-mine": "x"});
    rig.pending_pod("elsewhere", "1", elsewhere).await;
    rig.wait(60).await;
    let pods =
        |message: &str| -> Vec<Value> { lines.with_message(message).iter().map(|line| line["pods"].clone()).collect() };
    assert_eq!(pods(ANTI_AFFINITY_MESSAGE), ["default/away, default/both"]);
    assert_eq!(pods(SPREAD), ["default/both"]);
}

/// A debug log reports limits and relaxations. At info level they are not even computed.
// spec 02 §4.6 and §6.4
#[tokio::test(start_paused = true)]
async fn a_debug_log_tells_of_limits_and_of_wishes_given_up() {
    for (level, is_told) in [(Level::Debug, true), (Level::Info, false)] {
        let rig = TestEnv::start().await;
        let (lines, _log) = CapturedLog::capture(level, rig.clock);
        rig.patch::<NodePool>("general", json!({"spec": {"limits": {"cpu": "20"}}})).await;
        let preference = json!({"matchExpressions":
            [{"key": "topology.kubernetes.io/zone", "operator": "In", "values": ["nowhere"]}]});
        let wish = json!({"affinity": {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution":
            [{"weight": 1, "preference": preference}]}}});
        rig.pending_pod("web", "1", wish).await;
        rig.wait(3).await;
        rig.only_claim().await;
        let (limits, relaxing) = (lines.with_message(LIMITS), lines.with_message(RELAXING));
        assert_eq!((limits.is_empty(), relaxing.is_empty()), (!is_told, !is_told));
        if !is_told {
            continue;
        }
        assert_eq!(limits[0]["NodePool"], json!({"name": "general"}));
        let (excluded, total) = (limits[0]["excluded"].as_u64().unwrap(), limits[0]["total"].as_u64().unwrap());
        assert!(0 < excluded && excluded < total, "{limits:?}");
        assert_eq!(relaxing[0]["Pod"], json!({"name": "web", "namespace": "default"}));
        let reason = relaxing[0]["reason"].as_str().unwrap();
        let wanted =
            "removing: spec.affinity.nodeAffinity.preferredDuringSchedulingIgnoredDuringExecution[0]={\"preference\":";
        assert!(reason.starts_with(wanted), "{reason}");
    }
}

// spec 07 #26
#[tokio::test(start_paused = true)]
async fn spec_07_26_all_provisionable_pods_are_counted_and_five_are_named() {
    let rig = TestEnv::start().await;
    let (lines, _log) = CapturedLog::capture(Level::Debug, rig.clock);
    for n in 0..3 {
        rig.pending_pod(&format!("small-{n}"), "1", json!({})).await;
    }
    for n in 0..4 {
        rig.pending_pod(&format!("big-{n}"), "4000", json!({})).await;
    }
    rig.wait(3).await;
    let found = lines.with_message("found provisionable pod(s)");
    let pods = found[0]["Pods"].as_str().unwrap();
    assert!(pods.ends_with(" and 2 other(s)") && pods.matches("default/").count() == 5, "{pods}");
    let computing = lines.with_message("computing scheduling decision for provisionable pod(s)");
    assert_eq!((&computing[0]["pending-pods"], &computing[0]["deleting-pods"]), (&json!(7), &json!(0)));
}

/// A claim that the API server rejects is requested again and again. The pods get an Event with the
/// server's message.
#[tokio::test(start_paused = true)]
async fn pods_hear_why_their_claim_was_refused() {
    let mut rig = TestEnv::start().await;
    let (lines, _log) = CapturedLog::capture(Level::Info, rig.clock);
    let cloud = Kwok::new(rig.server.client_as("kwok"), rig.clock, built_in_catalogue());
    rig.restart_with(client_rejecting_claims(rig.server.client_as("kerf")), Arc::new(cloud));
    rig.pending_pod("web", "1", json!({})).await;
    rig.wait(30).await;
    let claims: Vec<NodeClaim> = rig.claims().await;
    assert_eq!(claims, []);
    let wanted = "Failed to schedule pod, creating node claim, ";
    let told = rig.events("FailedScheduling");
    assert!(told.len() == 1 && told[0].0 == "web" && told[0].1.starts_with(wanted), "{told:?}");
    assert!(told[0].1.ends_with("spec: Invalid value: too many requirements (422)"), "{told:?}");
    let errors = lines.with_message("Reconciler error");
    assert!(!errors.is_empty());
    for line in errors {
        let error = line["error"].as_str().unwrap();
        assert!(error.ends_with(" (422)") && !error.contains("Status {"), "{error}");
    }
}
