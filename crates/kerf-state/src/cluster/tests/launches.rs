//! Tests of the launches and evictions that cluster state remembers.

use jiff::ToSpan as _;
use kerf_engine::LaunchWaitEnd;

use super::*;

fn time(seconds: i64) -> Timestamp {
    Timestamp::UNIX_EPOCH + seconds.seconds()
}

fn budget(allowed: i32, disrupted: Value) -> PodDisruptionBudget {
    from_json(json!({"metadata": {"name": "b", "namespace": "default"},
        "spec": {"selector": {"matchLabels": {"app": "web"}}},
        "status": {"disruptionsAllowed": allowed, "disruptedPods": disrupted}}))
}

fn web(name: &str, phase: &str) -> Pod {
    from_json(json!({"metadata": {"name": name, "namespace": "default", "uid": name, "labels": {"app": "web"}},
        "spec": {"nodeName": "n"}, "status": {"phase": phase}}))
}

fn allowed(cluster: &Cluster, at: i64) -> i32 {
    cluster.budgets_with_own_evictions(time(at))[0].disruptions_allowed.unwrap()
}

// spec 03 §5.3
#[test]
fn own_evictions_are_subtracted_until_the_budget_counts_them() {
    let mut cluster = Cluster::new();
    cluster.apply(budget(2, json!({})));
    for name in ["a", "b", "c"] {
        cluster.apply(web(name, "Running"));
    }
    cluster.record_eviction(&web("a", "Running"), time(0));
    cluster.record_eviction(&web("b", "Running"), time(0));
    assert_eq!(allowed(&cluster, 1), 0);
    cluster.record_eviction(&web("c", "Running"), time(1));
    assert_eq!(allowed(&cluster, 1), 0, "never negative");
    cluster.forget_eviction(&web("c", "Running"));
    // The watch shows the first eviction.
    cluster.apply(budget(1, json!({"a": "2026-01-01T00:00:00Z"})));
    assert_eq!(allowed(&cluster, 1), 0);
    cluster.apply(budget(0, json!({"a": "2026-01-01T00:00:00Z", "b": "2026-01-01T00:00:00Z"})));
    assert_eq!(allowed(&cluster, 1), 0);
    cluster.apply(budget(2, json!({})));
    assert_eq!(allowed(&cluster, 1), 2, "each was counted once");
}

// spec 03 §5.3
#[test]
fn an_eviction_is_forgotten_some_time_after_the_pod_is_gone() {
    let mut cluster = Cluster::new();
    cluster.apply(budget(2, json!({})));
    cluster.apply(web("a", "Running"));
    cluster.record_eviction(&web("a", "Running"), time(0));
    assert_eq!(allowed(&cluster, 60), 1, "the pod still exists");
    assert_eq!(allowed(&cluster, 120), 2, "the request was lost");
    cluster.delete(&web("a", "Running"));
    assert_eq!(allowed(&cluster, 14), 1, "the watch of budgets may lag behind");
    assert_eq!(allowed(&cluster, 15), 2);
}

/// A pending pod of the owner `rs`.
fn pending(name: &str) -> Pod {
    from_json(json!({"metadata": {"name": name, "namespace": "default", "uid": name,
        "ownerReferences": [{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "rs", "uid": "rs", "controller": true}]},
        "spec": {"containers": [{"name": "c"}]}, "status": {"phase": "Pending"}}))
}

fn on_node(pod: &Pod, node: &str, phase: &str) -> Pod {
    let mut bound = pod.clone();
    bound.spec.node_name = Some(node.into());
    bound.status.phase = from_json::<Pod>(json!({"status": {"phase": phase}})).status.phase;
    bound
}

/// Creates a claim for a pod and initializes its node.
fn launch(cluster: &mut Cluster, name: &str, pod: &str, at: i64) {
    cluster.record_created_for(&[format!("default/{pod}").into()], &name.into(), time(at));
    let initialized = json!({"status": {"conditions": [{"type": "Initialized", "status": "True", "reason": "r",
        "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z"}]}});
    cluster.apply(claim(name, &format!("p://{name}"), 1, initialized));
    cluster.apply(managed_node(name, &format!("p://{name}"), json!({})));
}

/// Returns the longest wait that ends at a time, in seconds.
fn wait(cluster: &mut Cluster, at: i64) -> Option<i64> {
    let facts = cluster.refresh_launch_facts(time(at));
    let ends = facts.waits.values().filter_map(|wait| match wait.end {
        LaunchWaitEnd::At(until) => Some(until.as_second() - at),
        LaunchWaitEnd::OtherPod => None,
    });
    ends.filter(|seconds| *seconds > 0).max()
}

// spec 02 #122
#[test]
fn an_owner_waits_after_three_claims_on_which_no_pod_started() {
    let mut cluster = Cluster::new();
    cluster.apply(pending("a"));
    for n in 0..3 {
        launch(&mut cluster, &format!("c{n}"), "a", n);
        assert_eq!(wait(&mut cluster, n), None);
    }
    // The pod is preempted, and its owner creates another one.
    cluster.delete(&pending("a"));
    cluster.apply(pending("b"));
    assert_eq!(wait(&mut cluster, 10), Some(60));
    assert_eq!(wait(&mut cluster, 40), Some(30));
    assert_eq!(wait(&mut cluster, 70), None);
    for (at, doubled) in [(100, 120), (300, 240), (600, 480), (1200, 960), (3000, 1800), (5000, 1800)] {
        launch(&mut cluster, &format!("d{at}"), "b", at - 1);
        cluster.delete(&pending("b"));
        cluster.apply(pending("b"));
        assert_eq!(wait(&mut cluster, at), Some(doubled), "at {at} s");
    }
    // A pod that starts on its node ends this.
    launch(&mut cluster, "good", "b", 7000);
    cluster.apply(on_node(&pending("b"), "good", "Running"));
    cluster.delete(&pending("b"));
    cluster.apply(pending("c"));
    launch(&mut cluster, "next", "c", 7001);
    cluster.delete(&pending("c"));
    cluster.apply(pending("d"));
    assert_eq!(wait(&mut cluster, 7002), None);
}

/// Returns the pods of the owner `rs` that do not wait, of these.
fn without_wait<'n>(cluster: &mut Cluster, at: i64, names: &[&'n str]) -> Vec<&'n str> {
    let facts = cluster.refresh_launch_facts(time(at));
    let waits =
        |name: &str| facts.waits.get(format!("default/{name}").as_str()).is_some_and(|wait| wait.holds_at(time(at)));
    names.iter().copied().filter(|name| !waits(name)).collect()
}

// spec 02 #125
#[test]
fn after_a_wait_one_pod_of_the_owner_has_a_claim() {
    let mut cluster = Cluster::new();
    let names = ["a", "b", "c", "d"];
    for name in names {
        cluster.apply(pending(name));
    }
    for n in 0..4 {
        launch(&mut cluster, &format!("c{n}"), "a", n);
    }
    assert_eq!(without_wait(&mut cluster, 10, &names), [""; 0], "the wait of a minute");
    assert_eq!(without_wait(&mut cluster, 70, &names), ["a"], "its claim has no outcome yet");
    // The next claim still starts: it is the probe, and the others wait for its outcome.
    cluster.record_created_for(&["default/a".into()], &"probe".into(), time(70));
    cluster.apply(claim("probe", "p://probe", 1, json!({})));
    assert_eq!(without_wait(&mut cluster, 71, &names), [""; 0], "the last claim was futile: a wait of two minutes");
    assert_eq!(without_wait(&mut cluster, 200, &names), ["a"]);
    assert_eq!(without_wait(&mut cluster, 1000, &names), ["a"]);
    // A claim without an outcome does not keep the others waiting for ever, and neither does a pod
    // that cannot have a claim.
    let each: Vec<&str> = (0..4).flat_map(|n| without_wait(&mut cluster, 3000 + 60 * n, &names)).collect();
    let mut sorted = each.clone();
    sorted.sort_unstable();
    assert_eq!(sorted, names, "one after the other: {each:?}");
    // The probe succeeds.
    cluster.apply(managed_node("probe", "p://probe", json!({})));
    cluster.apply(on_node(&pending("a"), "probe", "Running"));
    assert_eq!(without_wait(&mut cluster, 3300, &names[1..]), names[1..]);
}

/// Launches a claim for each of these pods at the same time. None is initialized.
fn launch_uninitialized(cluster: &mut Cluster, round: &str, pods: &[&str], at: i64) -> Vec<TrackedClaim> {
    let launched = pods.iter().map(|pod| {
        let name = format!("{round}-{pod}");
        cluster.record_created_for(&[format!("default/{pod}").into()], &name.as_str().into(), time(at));
        let launched = claim(&name, &format!("p://{name}"), 1, json!({}));
        cluster.apply(launched.clone());
        launched
    });
    launched.collect()
}

fn delete_all(cluster: &mut Cluster, claims: &[TrackedClaim]) {
    for claim in claims {
        cluster.delete(claim);
    }
}

// spec 02 #125
#[test]
fn after_claims_that_never_registered_one_pod_of_the_owner_has_a_claim() {
    const REGISTRATION_TIMEOUT_SECONDS: i64 = 15 * 60;
    let mut cluster = Cluster::new();
    let names = ["a", "b", "c", "d"];
    for name in names {
        cluster.apply(pending(name));
    }
    let first = launch_uninitialized(&mut cluster, "first", &names, 0);
    delete_all(&mut cluster, &first);
    let second = launch_uninitialized(&mut cluster, "second", &names, REGISTRATION_TIMEOUT_SECONDS);
    assert_eq!(without_wait(&mut cluster, 901, &names), [""; 0], "four claims were futile");
    assert_eq!(without_wait(&mut cluster, 1000, &names), names, "the claims of all four still start");
    // The deletion of the claims begins, and their instances terminate.
    let at = 2 * REGISTRATION_TIMEOUT_SECONDS;
    for claim in &second {
        let mut terminating = claim.object.clone();
        terminating.metadata.resource_version = Some("2".to_owned());
        terminating.metadata.deletion_timestamp =
            Some(k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(time(at - 30)));
        cluster.apply(TrackedClaim::from(terminating));
    }
    assert_eq!(without_wait(&mut cluster, at - 30, &names).len(), 1, "while the claims terminate");
    delete_all(&mut cluster, &second);
    let probes = without_wait(&mut cluster, at, &names);
    assert_eq!(probes.len(), 1, "{probes:?}");
    // The others wait for the outcome of this claim, which is no time.
    let facts = cluster.refresh_launch_facts(time(at));
    assert_eq!(facts.waits.len(), 3);
    assert!(facts.waits.values().all(|wait| wait.end == LaunchWaitEnd::OtherPod), "{:?}", facts.waits);
    let third = launch_uninitialized(&mut cluster, "third", &probes, at);
    assert_eq!(wait(&mut cluster, at), Some(120), "the claim before was futile");
    assert_eq!(without_wait(&mut cluster, at + 200, &names), probes, "the claim starts");
    delete_all(&mut cluster, &third);
    assert_eq!(without_wait(&mut cluster, at + REGISTRATION_TIMEOUT_SECONDS, &names).len(), 1);
}

/// Returns the names of the claims of the pool `general` that its next claims replace.
fn take_all(cluster: &mut Cluster, at: i64) -> Vec<String> {
    let next = || cluster.take_never_ready_of_pool("general", time(at)).map(|claim| claim.name.to_string());
    std::iter::from_fn(next).collect()
}

// spec 04 §5.6
#[test]
fn a_claim_that_was_never_ready_is_replaced_once_within_an_hour_and_while_its_pool_exists() {
    let pool: NodePool =
        from_json(json!({"metadata": {"name": "general"}, "spec": {"replicas": 1, "template": {"spec":
        {"requirements": [], "nodeClassRef": {"group": "g", "kind": "k", "name": "n"}}}}}));
    let mut cluster = Cluster::new();
    cluster.apply(pool.clone());
    let never_ready = |name: &str| NeverReadyClaim { name: name.into(), count: 1 };
    let record = |cluster: &mut Cluster, name: &str, at: i64| {
        cluster.apply(claim(name, &format!("p://{name}"), 1, json!({})));
        cluster.record_never_ready(&never_ready(name), time(at));
    };
    // The deletion fails twice, also after the replacement was created.
    record(&mut cluster, "a", 0);
    record(&mut cluster, "a", 1);
    assert_eq!(take_all(&mut cluster, 2), ["a"]);
    record(&mut cluster, "a", 3);
    assert_eq!(take_all(&mut cluster, 4), [""; 0]);
    // The creation of the replacement fails.
    cluster.put_back_never_ready_of_pool("general", never_ready("a"), time(5));
    assert_eq!(take_all(&mut cluster, 3604), ["a"]);
    cluster.put_back_never_ready_of_pool("general", never_ready("a"), time(5));
    assert_eq!(take_all(&mut cluster, 3605), [""; 0], "an hour later");
    // The name of a deleted claim may be recorded again, and a deleted pool has no claims.
    cluster.delete(&claim("a", "p://a", 1, json!({})));
    record(&mut cluster, "a", 4000);
    record(&mut cluster, "b", 4000);
    cluster.delete(&pool);
    cluster.put_back_never_ready_of_pool("general", never_ready("b"), time(4001));
    cluster.apply(pool);
    assert_eq!(take_all(&mut cluster, 4002), [""; 0]);
    for n in 0..1001 {
        record(&mut cluster, &format!("c{n}"), 5000);
    }
    let all = take_all(&mut cluster, 5001);
    assert_eq!(
        (all.len(), all.first().map(String::as_str), all.last().map(String::as_str)),
        (1000, Some("c1000"), Some("c1"))
    );
}

// spec 02 #123
#[test]
fn claims_that_are_not_needed_do_not_count() {
    let mut cluster = Cluster::new();
    for n in 0..9 {
        let (name, pod) = (format!("c{n}"), pending(&format!("p{n}")));
        cluster.apply(pod.clone());
        let key = [pod.key()];
        match n % 3 {
            // The pod is deleted while the node starts.
            0 => {
                cluster.record_created_for(&key, &name.as_str().into(), time(n));
                cluster.apply(claim(&name, "p://x", 1, json!({})));
            }
            // The pod is bound to another node.
            1 => {
                launch(&mut cluster, &name, &format!("p{n}"), n);
                cluster.apply(on_node(&pod, "elsewhere", "Pending"));
            }
            // There is no capacity for the claim.
            _ => {
                cluster.record_created_for(&key, &name.as_str().into(), time(n));
                let unlaunched = claim(&name, "", 1, json!({}));
                cluster.apply(unlaunched.clone());
                cluster.delete(&unlaunched);
            }
        }
        cluster.delete(&pod);
    }
    cluster.apply(pending("last"));
    assert_eq!(wait(&mut cluster, 100), None);
}

// spec 04 #143 and #145
#[test]
fn provisioning_waits_ten_seconds_for_claims_whose_pods_are_known() {
    let mut cluster = Cluster::new();
    cluster.reset::<NodePool>(vec![]);
    cluster.reset::<TrackedClaim>(vec![]);
    cluster.reset::<Node>(vec![]);
    cluster.reset::<Pod>(vec![pending("a")]);
    cluster.reset::<DaemonSet>(vec![]);
    let unlaunched =
        |name: &str| claim(name, "", 1, json!({"metadata": {"creationTimestamp": "1970-01-01T00:00:00Z"}}));
    cluster.insert_created(unlaunched("ours"));
    cluster.record_created_for(&["default/a".into()], &"ours".into(), time(0));
    assert!(cluster.check_synced_for_provisioning(time(9)) != SyncStatus::Synced);
    assert_eq!(cluster.check_synced_for_provisioning(time(10)), SyncStatus::Synced);
    assert!(cluster.check_synced() != SyncStatus::Synced, "disruption waits");
    assert_eq!(cluster.refresh_launch_facts(time(10)).on_unlaunched_claims, ["default/a".into()].into());
    cluster.apply(unlaunched("theirs"));
    let reason = UnsyncedReason::UnlaunchedClaims(vec!["theirs".into()]);
    assert_eq!(cluster.check_synced_for_provisioning(time(600)), SyncStatus::Unsynced(vec![reason]));
}
