//! Tests of pods that no longer fit on the node that was launched for them.

use super::*;

/// Returns a cluster with a node of 4 CPUs that was launched for the pods `a` and `b`.
fn cluster_with_launched_claim() -> Cluster {
    let mut cluster = synced_empty_cluster();
    cluster.apply(claim("c", "i-1", 1, json!({})));
    cluster.apply(managed_node("n", "i-1", json!({})));
    for name in ["a", "b"] {
        cluster.apply(pod(name, None, "Pending", "ReplicaSet"));
        cluster.record_launched_for(format!("default/{name}").into(), "c".into());
    }
    cluster
}

fn bind_pod(cluster: &mut Cluster, name: &str, node: &str) -> Option<Str> {
    cluster.apply(pod(name, None, "Pending", "ReplicaSet"));
    let change = cluster.apply(pod(name, Some(node), "Pending", "ReplicaSet")).unwrap();
    cluster.displaced_by(&change)
}

#[test]
fn a_bound_pod_displaces_a_pending_pod_that_no_longer_fits() {
    let mut cluster = cluster_with_launched_claim();
    assert_eq!(bind_pod(&mut cluster, "x", "n"), None, "three of four CPUs are used or assigned to pending pods");
    assert_eq!(bind_pod(&mut cluster, "y", "n"), None, "used and assigned CPUs together fill the node");
    assert_eq!(bind_pod(&mut cluster, "z", "n"), Some("default/b".into()));
}

#[test]
fn an_expected_pod_displaces_no_pod() {
    let mut cluster = cluster_with_launched_claim();
    for name in ["x", "y", "a"] {
        assert_eq!(bind_pod(&mut cluster, name, "n"), None, "{name}");
    }
    // A later event of a bound pod displaces no pod.
    let change = cluster.apply(pod("a", Some("n"), "Running", "ReplicaSet")).unwrap();
    assert_eq!(cluster.displaced_by(&change), None);
    assert_eq!(bind_pod(&mut cluster, "b", "n"), None);
}

#[test]
fn a_pod_that_is_placed_elsewhere_is_not_displaced() {
    let mut cluster = cluster_with_launched_claim();
    cluster.apply(pod("a", Some("elsewhere"), "Pending", "ReplicaSet"));
    cluster.record_launched_for("default/b".into(), "another".into());
    for name in ["w", "x", "y", "z"] {
        assert_eq!(bind_pod(&mut cluster, name, "n"), None, "{name}");
    }
}
