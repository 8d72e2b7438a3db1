//! Pods whose place somebody else has taken.

use super::*;

/// Four CPUs, launched for two pods.
fn awaited() -> Cluster {
    let mut cluster = listed();
    cluster.apply(claim("c", "i-1", 1, json!({})));
    cluster.apply(ours("n", "i-1", json!({})));
    for name in ["a", "b"] {
        cluster.apply(pod(name, None, "Pending", "ReplicaSet"));
        cluster.expect(format!("default/{name}").into(), "c".into());
    }
    cluster
}

fn bound(cluster: &mut Cluster, name: &str, node: &str) -> Option<Str> {
    cluster.apply(pod(name, None, "Pending", "ReplicaSet"));
    let change = cluster.apply(pod(name, Some(node), "Pending", "ReplicaSet")).unwrap();
    cluster.displaced_by(&change)
}

#[test]
fn who_comes_first_displaces_whoever_has_no_room_left() {
    let mut cluster = awaited();
    assert_eq!(bound(&mut cluster, "x", "n"), None, "three of four are taken or meant for somebody");
    assert_eq!(bound(&mut cluster, "y", "n"), None, "it is full now, with those that are to come");
    assert_eq!(bound(&mut cluster, "z", "n"), Some("default/b".into()));
}

#[test]
fn who_comes_as_expected_displaces_nobody() {
    let mut cluster = awaited();
    for name in ["x", "y", "a"] {
        assert_eq!(bound(&mut cluster, name, "n"), None, "{name}");
    }
    // Told again, it is no news.
    let change = cluster.apply(pod("a", Some("n"), "Running", "ReplicaSet")).unwrap();
    assert_eq!(cluster.displaced_by(&change), None);
    assert_eq!(bound(&mut cluster, "b", "n"), None);
}

#[test]
fn who_has_found_another_place_is_not_displaced() {
    let mut cluster = awaited();
    cluster.apply(pod("a", Some("elsewhere"), "Pending", "ReplicaSet"));
    cluster.expect("default/b".into(), "another".into());
    for name in ["w", "x", "y", "z"] {
        assert_eq!(bound(&mut cluster, name, "n"), None, "{name}");
    }
}
