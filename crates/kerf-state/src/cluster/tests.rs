//! Tests of the index with the events that an API server would send.

use kerf_api::nodeclaim::NodeClaim;
use kerf_engine::requirement::{Requirement, Requirements};
use serde_json::{Value, json};

mod counting;
mod displaced;
mod launches;

use super::*;
use crate::sync_status::{RequiredKind, SyncStatus, UnsyncedReason};

fn from_json<T: serde::de::DeserializeOwned>(value: Value) -> T {
    serde_json::from_value(value).unwrap()
}

fn node(name: &str, provider_id: &str, labels: Value) -> Node {
    from_json(json!({
        "metadata": {"name": name, "labels": labels},
        "spec": {"providerID": provider_id},
        "status": {"capacity": {"cpu": "4", "pods": "9"}, "allocatable": {"cpu": "4", "pods": "9"}},
    }))
}

/// A node of the pool `general` with an instance type label.
fn managed_node(name: &str, provider_id: &str, labels: Value) -> Node {
    let mut all = json!({"karpenter.sh/nodepool": "general", "node.kubernetes.io/instance-type": "c-4x"});
    all.as_object_mut().unwrap().extend(labels.as_object().unwrap().clone());
    node(name, provider_id, all)
}

fn claim(name: &str, provider_id: &str, version: u64, more: Value) -> TrackedClaim {
    let mut object = json!({
        "metadata": {"name": name, "uid": name, "resourceVersion": version.to_string(), "labels": {"karpenter.sh/nodepool": "general"}},
        "spec": {"nodeClassRef": {"group": "g", "kind": "k", "name": "n"}, "requirements": [],
            "startupTaints": [{"key": "cni", "effect": "NoSchedule"}], "taints": [{"key": "team", "effect": "NoSchedule"}]},
        "status": {"providerID": provider_id, "capacity": {"cpu": "4", "nvidia.com/gpu": "1"}, "allocatable": {"cpu": "3500m", "pods": "9", "nvidia.com/gpu": "1"}},
    });
    merge(&mut object, more);
    TrackedClaim::from(from_json::<NodeClaim>(object))
}

fn merge(object: &mut Value, change: Value) {
    match (object, change) {
        (Value::Object(object), Value::Object(change)) => {
            for (key, value) in change {
                merge(object.entry(key).or_insert(Value::Null), value);
            }
        }
        (object, change) => *object = change,
    }
}

fn pod(name: &str, node: Option<&str>, phase: &str, owner: &str) -> Pod {
    from_json(json!({
        "metadata": {"name": name, "namespace": "default",
            "ownerReferences": [{"apiVersion": "apps/v1", "kind": owner, "name": "o", "uid": "o"}]},
        "spec": {"nodeName": node, "containers": [{"name": "c", "resources": {"requests": {"cpu": "1"}}}]},
        "status": {"phase": phase},
    }))
}

fn cpu(resources: &BTreeMap<Str, Quantity>) -> String {
    resources.get("cpu").map_or_else(|| "0".into(), ToString::to_string)
}

/// Returns a synced index of a cluster without objects.
fn synced_empty_cluster() -> Cluster {
    let mut cluster = Cluster::new();
    cluster.reset::<NodePool>(Vec::new());
    cluster.reset::<TrackedClaim>(Vec::new());
    cluster.reset::<Node>(Vec::new());
    cluster.reset::<Pod>(Vec::new());
    cluster.reset::<DaemonSet>(Vec::new());
    cluster
}

// spec 04 #1
#[test]
fn a_node_that_gets_its_provider_id_later_is_one_node() {
    let mut cluster = Cluster::new();
    cluster.apply(node("n", "", json!({})));
    assert_eq!(cluster.state_nodes().count(), 1);
    cluster.apply(node("n", "i-1", json!({})));
    assert_eq!(cluster.state_nodes().count(), 1);
    assert_eq!(cluster.state_nodes().next().unwrap().provider_id(), "i-1");
}

// spec 04 #2, #3
#[test]
fn a_managed_node_counts_once_it_has_a_provider_id_and_a_type() {
    let mut cluster = synced_empty_cluster();
    cluster.apply(managed_node("n", "", json!({})));
    assert_eq!(cluster.state_nodes().count(), 0);
    assert_eq!(cluster.check_synced(), SyncStatus::Unsynced(vec![UnsyncedReason::IncompleteNodes(vec!["n".into()])]));
    cluster.apply(node("n", "i-1", json!({"karpenter.sh/nodepool": "general"})));
    assert_eq!(cluster.state_nodes().count(), 0, "its instance type is unknown");
    assert!(!cluster.check_synced().is_synced());
    cluster.apply(managed_node("n", "i-1", json!({})));
    assert_eq!(cluster.state_nodes().count(), 1);
    assert!(cluster.check_synced().is_synced());
}

// spec 04 #4
#[test]
fn a_node_and_a_claim_may_have_the_same_name() {
    let mut cluster = Cluster::new();
    cluster.apply(claim("x", "i-1", 1, json!({})));
    cluster.apply(managed_node("x", "i-1", json!({})));
    assert_eq!(cluster.state_nodes().count(), 1);
    cluster.delete(&claim("x", "i-1", 1, json!({})));
    assert_eq!(cluster.state_nodes().count(), 1);
    cluster.delete(&managed_node("x", "i-1", json!({})));
    assert_eq!(cluster.state_nodes().count(), 0);
}

// spec 04 #5
#[test]
fn a_claim_with_a_new_provider_id_is_no_longer_found_by_the_old_one() {
    let mut cluster = Cluster::new();
    cluster.apply(claim("a", "i-1", 1, json!({})));
    cluster.apply(claim("a", "i-2", 2, json!({})));
    cluster.mark_for_deletion("i-1");
    let all: Vec<_> = cluster.state_nodes().collect();
    assert_eq!(all.len(), 1);
    assert_eq!(all[0].provider_id(), "i-2");
    assert!(!all[0].is_marked_for_deletion());
    assert_eq!(cluster.claims_of("i-1").count(), 0);
}

// spec 04 #6, #8, #10
#[test]
fn a_pod_counts_once_until_it_succeeds_or_fails() {
    let mut cluster = Cluster::new();
    cluster.apply(node("n", "i-1", json!({})));
    for _ in 0..3 {
        cluster.apply(pod("p", Some("n"), "Running", "ReplicaSet"));
    }
    cluster.apply(pod("d", Some("n"), "Running", "DaemonSet"));
    let requests = cluster.requests_on("n");
    assert_eq!((cpu(&requests.total), cpu(&requests.daemons)), ("2".into(), "1".into()));
    for phase in ["Succeeded", "Failed"] {
        cluster.apply(pod("p", Some("n"), phase, "ReplicaSet"));
        assert_eq!(cpu(&cluster.requests_on("n").total), "1");
    }
    for name in ["p", "d"] {
        for _ in 0..3 {
            cluster.delete(&pod(name, Some("n"), "Running", "ReplicaSet"));
        }
    }
    assert_eq!(cluster.requests_on("n"), NodeRequests::default());
}

// spec 04 #7
#[test]
fn a_pod_recreated_on_another_node_counts_only_there() {
    let mut cluster = Cluster::new();
    cluster.apply(pod("p", Some("n1"), "Running", "StatefulSet"));
    cluster.apply(pod("p", Some("n2"), "Running", "StatefulSet"));
    assert_eq!(cpu(&cluster.requests_on("n1").total), "0");
    assert_eq!(cpu(&cluster.requests_on("n2").total), "1");
}

// spec 04 #9, #11
#[test]
fn pods_that_are_applied_before_their_node_count_on_it() {
    let mut cluster = Cluster::new();
    cluster.apply(pod("p", Some("n"), "Running", "ReplicaSet"));
    assert_eq!(cluster.state_nodes().count(), 0);
    cluster.apply(node("n", "i-1", json!({})));
    assert_eq!(cpu(&cluster.requests_on("n").total), "1");
    assert_eq!(cluster.pods_on("").count(), 0, "an empty node name is not a node");
}

// spec 04 #15
#[test]
fn a_nomination_expires() {
    let mut cluster = Cluster::new();
    cluster.apply(node("n", "i-1", json!({})));
    let at = |seconds: i64| Timestamp::from_second(1000 + seconds).unwrap();
    cluster.nominate("i-1", at(20));
    cluster.nominate("i-1", at(5));
    cluster.nominate("i-unknown", at(20));
    assert!(cluster.is_nominated("i-1", at(10)));
    assert!(!cluster.is_nominated("i-1", at(21)));
    assert!(!cluster.is_nominated("i-unknown", at(1)));
}

// spec 04 #16, #17
#[test]
fn temporary_taints_are_ignored_until_a_managed_node_is_initialized() {
    let temporary = json!([
        {"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"},
        {"key": "node.kubernetes.io/unreachable", "effect": "NoSchedule"},
        {"key": "node.cloudprovider.kubernetes.io/uninitialized", "effect": "NoSchedule"},
        {"key": "readiness.k8s.io/x", "effect": "NoExecute"},
        {"key": "cni", "effect": "NoSchedule"},
        {"key": "stays", "effect": "NoSchedule"},
    ]);
    let with_taints = |name: &str, id: &str, labels: Value| {
        let mut node = node(name, id, labels);
        node.spec.taints = from_json::<Node>(json!({"spec": {"taints": temporary}})).spec.taints;
        node
    };
    let mut cluster = Cluster::new();
    cluster.apply(claim("a", "i-1", 1, json!({})));
    cluster.apply(with_taints("n", "i-1", json!({"karpenter.sh/registered": "true"})));
    cluster.apply(with_taints("theirs", "i-2", json!({})));
    let taints =
        |cluster: &Cluster, name: &str| cluster.state_node(cluster.get::<Node>(name).unwrap()).unwrap().taints().len();
    assert_eq!((taints(&cluster, "n"), taints(&cluster, "theirs")), (1, 6));
    cluster.apply(with_taints(
        "n",
        "i-1",
        json!({"karpenter.sh/registered": "true", "karpenter.sh/initialized": "true"}),
    ));
    assert_eq!(taints(&cluster, "n"), 6);
    cluster.apply(with_taints("n", "i-1", json!({})));
    let unregistered = cluster.state_node(cluster.get::<Node>("n").unwrap()).unwrap();
    assert_eq!(unregistered.taints()[0].key, "team", "before registration the taints are the claim's");
}

// spec 04 #18, #19
#[test]
fn resources_of_the_claim_count_until_the_node_is_initialized() {
    let mut cluster = Cluster::new();
    cluster.apply(claim("a", "i-1", 1, json!({})));
    let resources_of_only_node = |cluster: &Cluster| {
        let state = cluster.state_nodes().next().unwrap();
        (state.capacity(), state.allocatable())
    };
    assert_eq!(resources_of_only_node(&cluster).1.get("cpu").unwrap().to_string(), "3500m");
    cluster.apply(managed_node("n", "i-1", json!({})));
    let (capacity, allocatable) = resources_of_only_node(&cluster);
    assert_eq!(allocatable.get("cpu").unwrap().to_string(), "4", "the Node's own value is used");
    for list in [&capacity, &allocatable] {
        assert_eq!(list.get("nvidia.com/gpu").unwrap().to_string(), "1");
    }
    assert_eq!(capacity.get("nodes").unwrap().to_string(), "1");
    cluster.apply(managed_node(
        "n",
        "i-1",
        json!({"karpenter.sh/registered": "true", "karpenter.sh/initialized": "true"}),
    ));
    let (capacity, allocatable) = resources_of_only_node(&cluster);
    assert_eq!((capacity.get("nvidia.com/gpu"), allocatable.get("nvidia.com/gpu")), (None, None));
    assert_eq!(capacity.get("nodes").unwrap().to_string(), "1");
}

// spec 04 #20, #21
#[test]
fn nodes_that_are_being_deleted_are_marked_for_deletion() {
    let deleted = json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}});
    let terminating = json!({"status": {"conditions": [{"type": "InstanceTerminating", "status": "True",
        "reason": "x", "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z"}]}});
    for more in [deleted, terminating] {
        let mut cluster = Cluster::new();
        cluster.apply(claim("a", "i-1", 1, more));
        assert!(cluster.state_nodes().next().unwrap().is_marked_for_deletion());
    }
    let mut deleted_node = node("n", "i-1", json!({}));
    deleted_node.metadata.deletion_timestamp = Some(Timestamp::from_second(1).unwrap());
    let mut cluster = Cluster::new();
    cluster.apply(deleted_node);
    assert!(cluster.state_nodes().next().unwrap().is_marked_for_deletion());
    cluster.apply(claim("a", "i-1", 1, json!({})));
    assert!(!cluster.state_nodes().next().unwrap().is_marked_for_deletion(), "the claim decides");
}

// spec 04 #22
#[test]
fn nodes_marked_for_deletion_do_not_count_for_their_pool() {
    let mut cluster = Cluster::new();
    let initialized =
        || managed_node("n", "i-1", json!({"karpenter.sh/registered": "true", "karpenter.sh/initialized": "true"}));
    cluster.apply(claim("a", "i-1", 1, json!({})));
    cluster.apply(initialized());
    let nodes = |cluster: &Cluster| cluster.pool_usage("general").get("nodes").map_or(0, |n| n.value());
    assert_eq!(nodes(&cluster), 1);
    cluster.mark_for_deletion("i-1");
    assert_eq!(nodes(&cluster), 0);
    cluster.unmark_for_deletion("i-1");
    assert_eq!(nodes(&cluster), 1);
    cluster.mark_for_deletion("i-1");
    cluster.apply(claim("a", "i-1", 2, json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}})));
    assert_eq!(nodes(&cluster), 0);
    cluster.delete(&initialized());
    cluster.delete(&claim("a", "i-1", 2, json!({})));
    assert!(cluster.pool_usage("general").is_empty());
}

// spec 04 #23
#[test]
fn a_node_counts_for_the_pool_of_its_current_label() {
    let mut cluster = Cluster::new();
    cluster.apply(managed_node("n", "i-1", json!({})));
    cluster.apply(managed_node("n", "i-1", json!({"karpenter.sh/nodepool": "other"})));
    assert!(cluster.pool_usage("general").is_empty());
    assert_eq!(cpu(&cluster.pool_usage("other")), "4");
}

// spec 04 #24
#[test]
fn cluster_state_is_unsynced_while_a_claim_is_not_launched() {
    let mut cluster = synced_empty_cluster();
    assert!(cluster.check_synced().is_synced());
    cluster.insert_created(claim("a", "", 1, json!({})));
    assert_eq!(cluster.check_synced(), SyncStatus::Unsynced(vec![UnsyncedReason::UnlaunchedClaims(vec!["a".into()])]));
    cluster.apply(claim("a", "i-1", 2, json!({})));
    assert!(cluster.check_synced().is_synced());
    cluster.insert_created(claim("b", "", 3, json!({})));
    assert!(!cluster.check_synced().is_synced());
    cluster.delete(&claim("b", "", 3, json!({})));
    assert!(cluster.check_synced().is_synced());
}

// spec 04 #25, #26
#[test]
fn incomplete_nodes_block_only_the_first_sync() {
    let mut cluster = Cluster::new();
    cluster.reset::<NodePool>(Vec::new());
    cluster.reset::<TrackedClaim>(Vec::new());
    cluster.reset::<Pod>(Vec::new());
    cluster.reset::<DaemonSet>(Vec::new());
    assert_eq!(cluster.check_synced(), SyncStatus::Unsynced(vec![UnsyncedReason::NotListed(RequiredKind::Nodes)]));
    let mut nodes: Vec<Node> = (0..999).map(|n| managed_node(&format!("n{n}"), &format!("i-{n}"), json!({}))).collect();
    nodes.push(managed_node("last", "", json!({})));
    cluster.reset(nodes);
    assert_eq!(
        cluster.check_synced(),
        SyncStatus::Unsynced(vec![UnsyncedReason::IncompleteNodes(vec!["last".into()])]),
        "one incomplete node of a thousand"
    );
    cluster.apply(managed_node("last", "i-last", json!({})));
    assert!(cluster.check_synced().is_synced());
    cluster.apply(managed_node("new", "", json!({})));
    assert!(cluster.check_synced().is_synced());
}

// spec 04 #27
#[test]
fn a_created_claim_that_no_watch_reported_can_be_removed() {
    let mut cluster = synced_empty_cluster();
    cluster.insert_created(claim("a", "", 1, json!({})));
    assert!(cluster.remove_unobserved("a"));
    assert!(cluster.check_synced().is_synced());
    cluster.insert_created(claim("b", "", 1, json!({})));
    cluster.mark_observed("b");
    assert!(!cluster.remove_unobserved("b"), "a watch event has shown it");
    cluster.insert_created(claim("c", "", 1, json!({})));
    cluster.apply(claim("c", "i-1", 2, json!({})));
    assert!(!cluster.remove_unobserved("c"), "it has an instance");
}

// spec 04 #33
#[test]
fn a_claim_without_a_pool_counts_for_no_pool() {
    let mut cluster = Cluster::new();
    cluster.apply(claim("a", "i-1", 1, json!({"metadata": {"labels": null}})));
    assert!(cluster.pool_usage("general").is_empty());
    assert_eq!(cluster.state_nodes().count(), 1);
}

#[test]
fn an_older_watch_event_does_not_undo_an_own_write() {
    let mut cluster = Cluster::new();
    cluster.apply(claim("a", "i-1", 7, json!({})));
    assert!(cluster.apply(claim("a", "", 5, json!({}))).is_none());
    assert_eq!(cluster.get::<TrackedClaim>("a").unwrap().engine_claim.provider_id, "i-1");
    assert!(cluster.apply(claim("a", "i-1", 7, json!({}))).is_some(), "an equal version is still reported");
}

// The response to the write that removes a claim's finalizer may arrive after the watch has
// reported the claim's deletion.
#[test]
fn an_own_write_does_not_re_add_a_deleted_object() {
    let mut cluster = Cluster::new();
    cluster.apply(claim("a", "i-1", 7, json!({})));
    assert!(cluster.apply_own_write(claim("a", "i-1", 8, json!({"spec": {"expireAfter": "1h"}}))).is_some());
    cluster.delete(&claim("a", "i-1", 9, json!({})));
    assert!(cluster.apply_own_write(claim("a", "i-1", 9, json!({}))).is_none());
    assert!(cluster.get::<TrackedClaim>("a").is_none());
}

#[test]
fn an_older_list_does_not_remove_a_claim_that_was_just_created() {
    let mut cluster = synced_empty_cluster();
    cluster.insert_created(claim("a", "", 9, json!({})));
    cluster.reset::<TrackedClaim>(Vec::new());
    assert!(!cluster.check_synced().is_synced());
    cluster.mark_observed("a");
    cluster.reset::<TrackedClaim>(Vec::new());
    assert!(cluster.check_synced().is_synced());
}

// spec 04 §15 departure 5
#[test]
fn two_claims_with_one_provider_id_are_one_node_until_both_are_deleted() {
    let mut cluster = Cluster::new();
    cluster.apply(claim("a", "i-1", 1, json!({})));
    cluster.apply(claim("b", "i-1", 1, json!({})));
    assert_eq!(cluster.state_nodes().count(), 1);
    cluster.delete(&claim("a", "i-1", 1, json!({})));
    assert_eq!(cluster.state_nodes().count(), 1);
    cluster.delete(&claim("b", "i-1", 1, json!({})));
    assert_eq!(cluster.state_nodes().count(), 0);
}

#[test]
fn a_deletion_mark_ends_with_its_instance() {
    let mut cluster = Cluster::new();
    cluster.apply(claim("a", "i-1", 1, json!({})));
    cluster.mark_for_deletion("i-1");
    cluster.delete(&claim("a", "i-1", 1, json!({})));
    cluster.apply(claim("a", "i-1", 2, json!({})));
    assert!(!cluster.state_nodes().next().unwrap().is_marked_for_deletion());
}

/// Renders a solution as text.
fn solution_text(solution: &kerf_engine::Solution) -> String {
    let claims: Vec<_> =
        solution.claims.iter().map(|claim| (&claim.pool, &claim.pods, &claim.launch.instance_types)).collect();
    format!("{claims:?} {:?} {:?}", solution.nodes, solution.unplaced)
}

/// Returns an input context with one pool of one instance type with 4 CPUs.
fn input_context() -> crate::InputContext {
    let instance_type = kerf_engine::catalogue::InstanceType {
        name: "c-4x".into(),
        requirements: [
            Requirement::one_of(labels::INSTANCE_TYPE, ["c-4x".into()]),
            Requirement::one_of(labels::ARCH, ["amd64".into()]),
            Requirement::one_of(labels::OS, ["linux".into()]),
            Requirement::one_of(labels::ZONE, ["a".into()]),
            Requirement::one_of(labels::CAPACITY_TYPE, ["spot".into()]),
        ]
        .into_iter()
        .collect::<Requirements>()
        .into(),
        offerings: Arc::new([kerf_engine::catalogue::Offering {
            requirements: [
                Requirement::one_of(labels::ZONE, ["a".into()]),
                Requirement::one_of(labels::CAPACITY_TYPE, ["spot".into()]),
            ]
            .into_iter()
            .collect::<Requirements>()
            .into(),
            price: kerf_engine::Price::from_nanos(1),
            capacity_override: None,
            overhead_override: None,
        }]),
        capacity: [("cpu", "4"), ("pods", "110")].try_into().unwrap(),
        overhead: kerf_engine::catalogue::Overhead::default(),
        volume_limits: Arc::default(),
    };
    crate::InputContext {
        at: Timestamp::from_second(1000).unwrap(),
        instance_types: [("general".into(), [instance_type].into_iter().collect())].into(),
        label_rules: labels::LabelRules::kwok(),
        node_class_groups: vec!["karpenter.kwok.sh".into(), "g".into()],
        unsupported_storage: kerf_engine::UnsupportedStorage::default(),
    }
}

fn settings() -> kerf_engine::Settings {
    kerf_engine::Settings {
        preference_policy: kerf_engine::PreferencePolicy::Respect,
        min_values_policy: kerf_engine::MinValuesPolicy::Strict,
        reserved_capacity: true,
        reserved_mode: kerf_engine::ReservedMode::Strict,
        default_spread: Vec::new(),
        ignore_dra: true,
        require_unschedulable: false,
        max_instance_types: 600,
        seed: 0,
        threads: 1,
        effort: kerf_engine::Effort::FirstFit,
    }
}

/// Returns a synced index with one NodePool, its node class and the default namespace.
fn cluster_with_pool() -> Cluster {
    let mut cluster = synced_empty_cluster();
    cluster.reset::<Namespace>(vec![from_json(json!({"metadata": {"name": "default"}}))]);
    cluster.reset_node_classes(
        "g",
        "k",
        vec![from_json(json!({"apiVersion": "g/v1", "kind": "k", "metadata": {"name": "n"}}))],
    );
    let conditions = json!([{"type": "Ready", "status": "True", "reason": "Ready", "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z"}]);
    let pool = json!({"metadata": {"name": "general", "resourceVersion": "1"}, "status": {"conditions": conditions},
        "spec": {"template": {"spec": {"nodeClassRef": {"group": "g", "kind": "k", "name": "n"}, "requirements": []}}}});
    cluster.apply::<NodePool>(from_json(pool));
    cluster
}

#[test]
fn the_cached_solver_decides_like_a_new_one() {
    let (context, settings, mut cluster) = (input_context(), settings(), cluster_with_pool());
    let mut solutions = Vec::new();
    let mut check = |cluster: &mut Cluster| {
        let fresh = solution_text(&kerf_engine::solve(&cluster.input(&context), &settings));
        let incremental = solution_text(&cluster.solve(&context, &settings));
        assert_eq!(incremental, fresh);
        solutions.push(fresh);
    };
    check(&mut cluster);
    cluster.apply(pod("a", None, "Pending", "ReplicaSet"));
    check(&mut cluster);
    cluster.apply(claim("c", "i-1", 1, json!({"spec": {"taints": null}})));
    check(&mut cluster);
    cluster.apply(managed_node(
        "n",
        "i-1",
        json!({"karpenter.sh/registered": "true", "karpenter.sh/initialized": "true"}),
    ));
    cluster.apply(pod("a", Some("n"), "Running", "ReplicaSet"));
    cluster.apply(pod("b", None, "Pending", "ReplicaSet"));
    check(&mut cluster);
    cluster.mark_for_deletion("i-1");
    check(&mut cluster);
    cluster.unmark_for_deletion("i-1");
    cluster
        .apply(from_json::<DaemonSet>(json!({"metadata": {"name": "d", "namespace": "default"}, "spec": {"template":
        {"spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": "3"}}}]}}}})));
    check(&mut cluster);
    cluster.delete(&pod("a", Some("n"), "Running", "ReplicaSet"));
    cluster.delete(&managed_node("n", "i-1", json!({})));
    cluster.delete(&claim("c", "i-1", 1, json!({})));
    check(&mut cluster);
    solutions.dedup();
    assert!(solutions.len() >= 6, "each step changes the solution: {solutions:#?}");
}

// spec 04 #32
#[test]
fn node_reservations_never_exceed_the_limit() {
    let mut cluster = Cluster::new();
    assert_eq!(cluster.reserve_nodes("general", Some(5), 4), 4);
    assert_eq!(cluster.reserve_nodes("general", Some(5), 5), 1);
    assert_eq!(cluster.reserve_nodes("general", Some(5), 5), 0, "the whole limit is reserved");
    assert_eq!(cluster.reserve_nodes("other", None, 5), 5);
    cluster.release_nodes("general", 9);
    let granted: usize = (0..10).map(|_| cluster.reserve_nodes("general", Some(5), 1)).sum();
    assert_eq!(granted, 5, "releasing more than was reserved does not raise the limit");
    // An existing claim takes the place of its reservation.
    cluster.apply(claim("a", "aws:///a", 1, json!({})));
    cluster.release_nodes("general", 1);
    assert_eq!(cluster.pool_claims("general").total(), 1);
    assert_eq!(cluster.reserve_nodes("general", Some(5), 1), 0);
}

// spec 03 section 8.2: a claim that is being replaced is pending before it is marked, and still
// counts as a node
#[test]
fn a_claim_that_is_being_replaced_is_pending_disruption() {
    let mut cluster = Cluster::new();
    cluster.apply(claim("a", "aws:///a", 1, json!({})));
    cluster.apply(claim("b", "aws:///b", 1, json!({})));
    cluster.begin_replacing("a");
    assert_eq!(cluster.pool_claims("general"), crate::PoolClaims { active: 1, deleting: 0, pending_disruption: 1 });
    assert!(!cluster.state_nodes().any(|node| node.is_marked_for_deletion()));
    cluster.mark_for_deletion("aws:///a");
    cluster.end_replacing("a");
    assert_eq!(cluster.pool_claims("general").pending_disruption, 1);
    cluster.unmark_for_deletion("aws:///a");
    assert_eq!(cluster.pool_claims("general").active, 2);
}
