//! Tests of what counts on a node besides CPU: volumes, ports, daemons, and pods that are being
//! resized. Each decision is made by a newly prepared solver and by the cached one that followed
//! the events; both must agree.

use super::*;

/// Returns a pending pod, or a running one if `node` is given, with `more` merged into it.
fn pod_with(name: &str, node: Option<&str>, more: Value) -> Pod {
    let phase = if node.is_some() { "Running" } else { "Pending" };
    let mut pod = json!({
        "metadata": {"name": name, "namespace": "default", "uid": name},
        "spec": {"nodeName": node, "containers": [{"name": "c", "resources": {"requests": {"cpu": "100m"}}}]},
        "status": {"phase": phase},
    });
    merge(&mut pod, more);
    from_json(pod)
}

/// Returns true if the pending pod would be placed on the node `n`.
fn fits_on_node(cluster: &mut Cluster, pod: Pod) -> bool {
    let (context, settings, key) = (input_context(), settings(), pod.key());
    let _ = cluster.solve(&context, &settings);
    cluster.apply(pod.clone());
    let fresh = kerf_engine::solve(&cluster.input(&context), &settings);
    let incremental = cluster.solve(&context, &settings);
    assert_eq!(solution_text(&incremental), solution_text(&fresh));
    cluster.delete(&pod);
    incremental.nodes.iter().any(|placement| placement.node == "n" && placement.pods.contains(&key))
}

/// Returns a cluster with the node `n`, which has 64 CPUs.
fn with_node() -> Cluster {
    let mut cluster = cluster_with_pool();
    cluster.apply(claim("c", "i-1", 1, json!({"spec": {"taints": null, "startupTaints": null}})));
    cluster.apply(big_node());
    cluster
}

fn big_node() -> Node {
    let mut node =
        managed_node("n", "i-1", json!({"karpenter.sh/registered": "true", "karpenter.sh/initialized": "true"}));
    node.status.allocatable = [("cpu", "64"), ("pods", "250")].try_into().unwrap();
    node.status.capacity = node.status.allocatable.clone();
    node
}

// spec 04 #12
#[test]
fn a_volume_counts_once_however_many_pods_use_it() {
    let mut cluster = with_node();
    cluster.apply::<CsiNode>(from_json(json!({"metadata": {"name": "n"},
        "spec": {"drivers": [{"name": "ebs", "nodeID": "n", "allocatable": {"count": 10}}]}})));
    let volume = |n: usize| json!({"spec": {"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": format!("data-{n}")}}]}});
    for n in 1..=11 {
        cluster.apply::<PersistentVolume>(from_json(json!({"metadata": {"name": format!("pv-{n}")},
            "spec": {"csi": {"driver": "ebs", "volumeHandle": format!("vol-{n}")}}})));
        cluster.apply::<PersistentVolumeClaim>(from_json(json!({"metadata": {"name": format!("data-{n}"),
            "namespace": "default", "annotations": {"pv.kubernetes.io/bind-completed": "yes"}}, "status": {"phase": "Bound"},
            "spec": {"volumeName": format!("pv-{n}")}})));
    }
    for n in 1..=10 {
        cluster.apply(pod_with(&format!("p{n}"), Some("n"), volume(n)));
    }
    for version in 2..4 {
        assert!(!fits_on_node(&mut cluster, pod_with("eleventh", None, volume(11))), "version {version}");
        assert!(fits_on_node(&mut cluster, pod_with("again", None, volume(3))), "version {version}");
        // A later version of the claim does not change the count.
        cluster.apply(claim("c", "i-1", version, json!({"spec": {"taints": null, "startupTaints": null}})));
    }
    cluster.delete(&pod_with("p7", Some("n"), volume(7)));
    assert!(fits_on_node(&mut cluster, pod_with("eleventh", None, volume(11))), "the limit allows one more volume");
}

// spec 04 #13
#[test]
fn a_host_port_is_used_by_one_pod() {
    let mut cluster = with_node();
    let port = |protocol: &str, ip: &str| {
        json!({"spec": {"containers": [{"name": "c", "ports": [
            {"containerPort": 5, "hostPort": 5, "protocol": protocol, "hostIP": ip}]}]}})
    };
    for _ in 0..2 {
        // Applying the same pod again does not make it conflict with its own port.
        cluster.apply(pod_with("user", Some("n"), port("TCP", "0.0.0.0")));
    }
    for ip in ["", "0.0.0.0", "10.0.0.1"] {
        assert!(!fits_on_node(&mut cluster, pod_with("new", None, port("TCP", ip))), "{ip}");
        assert!(fits_on_node(&mut cluster, pod_with("new", None, port("SCTP", ip))), "{ip}");
    }
    cluster.delete(&pod_with("user", Some("n"), port("TCP", "0.0.0.0")));
    assert!(fits_on_node(&mut cluster, pod_with("new", None, port("TCP", ""))));
}

// spec 04 #31
#[test]
fn the_newest_pod_of_a_daemon_set_defines_its_requests() {
    let mut cluster = cluster_with_pool();
    let daemon_set: DaemonSet =
        from_json(json!({"metadata": {"name": "d", "namespace": "default", "uid": "d"}, "spec": {"template":
        {"spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": "3"}}}]}}}}));
    let daemon = |name: &str, created: &str, cpu: &str| {
        let owner =
            json!([{"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "d", "uid": "d", "controller": true}]);
        pod_with(
            name,
            Some("elsewhere"),
            json!({"metadata": {"creationTimestamp": created, "ownerReferences": owner},
            "spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": cpu}}}]}}),
        )
    };
    // The number of 4-CPU nodes for three pods shows how much of each node the daemon takes.
    let claims_and_unplaced = |cluster: &mut Cluster, cpu: &str| {
        let pods: Vec<Pod> = (0..3)
            .map(|n| {
                pod_with(
                    &format!("w{n}"),
                    None,
                    json!({"spec": {"containers": [
                {"name": "c", "resources": {"requests": {"cpu": cpu}}}]}}),
                )
            })
            .collect();
        for pod in &pods {
            cluster.apply(pod.clone());
        }
        let solution = cluster.solve(&input_context(), &settings());
        for pod in &pods {
            cluster.delete(pod);
        }
        (solution.claims.len(), solution.unplaced.len())
    };
    cluster.apply(daemon_set.clone());
    assert_eq!(claims_and_unplaced(&mut cluster, "1"), (3, 0), "the DaemonSet's template leaves one of four CPUs");
    cluster.apply(daemon("old", "2026-01-01T00:00:00Z", "3"));
    cluster.apply(daemon("new", "2026-01-02T00:00:00Z", "1"));
    for n in 0..1000 {
        cluster.apply(pod_with(&format!("other-{n}"), Some("elsewhere"), json!({})));
    }
    assert_eq!(claims_and_unplaced(&mut cluster, "1"), (1, 0), "the newest daemon pod leaves three of four CPUs");
    assert_eq!(claims_and_unplaced(&mut cluster, "4"), (0, 3));
    cluster.delete(&daemon_set);
    assert_eq!(claims_and_unplaced(&mut cluster, "4"), (3, 0), "a deleted DaemonSet needs no resources");
}

// spec 04 #136, #137
#[test]
fn a_resized_pod_counts_at_the_larger_size() {
    let resources = |cpu: &str| json!({"requests": {"cpu": cpu}});
    let counted_cpu = |more: Value| {
        let mut cluster = with_node();
        cluster.apply(pod_with("p", Some("n"), more));
        cpu(&cluster.requests_on("n").total)
    };
    let resized = |spec: &str, allocated: &str| {
        json!({"spec": {"containers": [{"name": "c", "resources": resources(spec)}]}, "status": {"containerStatuses": [
            {"name": "c", "allocatedResources": {"cpu": allocated}, "resources": resources(allocated)}]}})
    };
    assert_eq!(counted_cpu(resized("2", "6")), "6");
    assert_eq!(counted_cpu(resized("8", "2")), "8");
    assert_eq!(counted_cpu(json!({"spec": {"containers": [{"name": "c", "resources": resources("3")}]}})), "3");
    let pod_level =
        json!({"spec": {"resources": resources("2"), "containers": [{"name": "c", "resources": resources("1")}]}});
    assert_eq!(counted_cpu(pod_level), "2");
}
