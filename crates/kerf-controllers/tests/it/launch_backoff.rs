//! Pods for which claim after claim is created and that never start (spec 02 §1.4), and the
//! causes of such loops.

use std::collections::BTreeSet;

use k8s_openapi::api::apps::v1::DaemonSet;
use k8s_openapi::api::core::v1::Node;
use kerf_api::kwoknodeclass::KWOKNodeClass;
use kerf_api::nodepool::NodePool;
use kube::api::{Api, DeleteParams, Patch, PatchParams, PostParams};
use serde_json::{Value, json};

use crate::test_env::{TestEnv, pool};

/// Returns the number of claims created so far.
fn created(env: &TestEnv) -> f64 {
    env.metrics.nodeclaims_created.get(&["provisioned", "general", "false"])
}

/// Creates a pod on a node, with these CPUs and owner.
async fn create_bound_pod(env: &TestEnv, name: &str, node: &str, cpu: &str, owner: Option<Value>) {
    let pod = json!({"metadata": {"name": name, "ownerReferences": owner.into_iter().collect::<Vec<_>>()},
        "spec": {"nodeName": node, "containers": [{"name": "c", "image": "i", "resources": {"requests": {"cpu": cpu}}}]}});
    env.pods().create(&PostParams::default(), &serde_json::from_value(pod).unwrap()).await.unwrap();
}

/// Creates a pending pod that belongs to this owner.
async fn create_owned_pod(env: &TestEnv, name: &str, kind: &str, uid: &str) {
    env.pending_pod(name, "1500m", json!({})).await;
    let owner = json!({"apiVersion": "apps/v1", "kind": kind, "name": "web", "uid": uid, "controller": true});
    let patch = Patch::Merge(json!({"metadata": {"ownerReferences": [owner]}}));
    env.pods().patch(name, &PatchParams::default(), &patch).await.unwrap();
}

/// Makes all new nodes ready and puts a pod on each that leaves no CPU for others.
async fn fill_new_nodes(env: &TestEnv, known: &mut BTreeSet<String>) {
    for node in env.list::<Node>().await {
        let name = node.metadata.name.unwrap();
        if known.insert(name.clone()) {
            env.make_ready(&name).await;
            let cpu = node.status.unwrap().allocatable.unwrap()["cpu"].0.clone();
            create_bound_pod(env, &format!("blocker-{}", known.len()), &name, &cpu, None).await;
        }
    }
}

// spec 02 #121
#[tokio::test(start_paused = true)]
async fn a_daemon_pod_that_differs_from_its_template_counts_for_the_next_claim() {
    let env = TestEnv::start().await;
    let daemon_sets: Api<DaemonSet> = Api::default_namespaced(env.client.clone());
    let agent = json!({"metadata": {"name": "agent"}, "spec": {"selector": {"matchLabels": {"app": "agent"}},
        "template": {"metadata": {"labels": {"app": "agent"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}}});
    let agent = daemon_sets.create(&PostParams::default(), &serde_json::from_value(agent).unwrap()).await.unwrap();
    env.wait(1).await;
    env.pending_pod("web", "1500m", json!({})).await;
    env.wait(3).await;
    let node = env.only_node().await.metadata.name.unwrap();
    assert_eq!(env.cpus().await, 2);
    // A LimitRange gives the daemon pod two CPUs, and its priority lets it preempt the other pod.
    env.make_ready(&node).await;
    let owner = json!({"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "agent",
        "uid": agent.metadata.uid.unwrap(), "controller": true});
    create_bound_pod(&env, "agent-1", &node, "2", Some(owner)).await;
    env.wait(30).await;
    assert_eq!(env.claims().await.len(), 2);
    assert_eq!(env.cpus().await, 2 + 4, "the second node has room for the daemon pod and the other pod");
}

// spec 02 #122
#[tokio::test(start_paused = true)]
async fn after_three_claims_without_a_started_pod_the_owner_waits() {
    let env = TestEnv::start().await;
    let mut known = BTreeSet::new();
    create_owned_pod(&env, "web-0", "ReplicaSet", "u1").await;
    env.pending_pod("bystander", "100", json!({})).await;
    for minute in 0..31 {
        for step in 0..6 {
            env.wait(10).await;
            fill_new_nodes(&env, &mut known).await;
            // The pod is preempted now and then, and its owner creates another one.
            if minute % 3 == 1 && step == 0 {
                let _ = env.pods().delete(&format!("web-{}", minute / 3), &DeleteParams::default()).await;
                create_owned_pod(&env, &format!("web-{}", minute / 3 + 1), "ReplicaSet", "u1").await;
            }
        }
    }
    // Three claims for `web`, then one after 1, 2, 4, 8 and 16 minutes; one for each of the pods
    // without an owner is not limited by that of `web`.
    let of_web: Vec<String> = env
        .claims()
        .await
        .into_iter()
        .filter(|claim| claim.metadata.labels.as_ref().unwrap()["karpenter.kwok.sh/instance-cpu"] == "2")
        .filter_map(|claim| claim.metadata.name)
        .collect();
    assert!((6..=8).contains(&of_web.len()), "{} claims", of_web.len());
    let events = env.events("LaunchBackoff");
    let (_, message) = events.iter().find(|(pod, _)| pod.starts_with("web-")).unwrap();
    assert!(message.contains("none of these pods started on the last 3 nodes"), "{message}");
}

// spec 02 #123
#[tokio::test(start_paused = true)]
async fn jobs_whose_nodes_end_empty_do_not_wait() {
    let env = TestEnv::start().await;
    for n in 0..6 {
        let name = format!("job-{n}");
        create_owned_pod(&env, &name, "Job", "j1").await;
        env.wait(5).await;
        let claim = env.only_claim().await.metadata.name.unwrap();
        let node = env.only_node().await.metadata.name.unwrap();
        env.make_ready(&node).await;
        env.wait(2).await;
        env.bind(&name, &node).await;
        let finished = Patch::Merge(json!({"status": {"phase": "Succeeded"}}));
        env.pods().patch_status(&name, &PatchParams::default(), &finished).await.unwrap();
        env.wait(5).await;
        env.pods().delete(&name, &DeleteParams::default()).await.unwrap();
        env.delete_claim(&claim).await;
        env.wait(20).await;
        assert_eq!(env.claims().await, [], "the empty node is gone");
    }
    assert_eq!(created(&env), 6.0);
    assert_eq!(env.events("LaunchBackoff"), []);
}

// spec 02 #124
#[tokio::test(start_paused = true)]
async fn claims_that_expire_before_their_node_starts_are_created_with_a_backoff() {
    let env = TestEnv::start().await;
    env.patch::<KWOKNodeClass>("default", json!({"spec": {"nodeRegistrationDelay": "1m"}})).await;
    env.patch::<NodePool>("general", json!({"spec": {"template": {"spec": {"expireAfter": "30s"}}}})).await;
    env.wait(2).await;
    env.pending_pod("web", "1", json!({})).await;
    env.wait(30 * 60).await;
    let claims = created(&env);
    assert!((4.0..=9.0).contains(&claims), "{claims} claims in 30 minutes");
    assert!(!env.events("LaunchBackoff").is_empty());
}

// spec 04 #147
#[tokio::test(start_paused = true)]
async fn a_pool_whose_class_has_an_unreadable_delay_launches_nothing() {
    let env = TestEnv::start().await;
    env.create::<NodePool>(pool("good", json!({"template": {"spec": {"nodeClassRef": {"name": "good"}}}}))).await;
    env.create::<KWOKNodeClass>(json!({"metadata": {"name": "good"}, "spec": {}})).await;
    // The pattern of the CRD allows it, and it is longer than any duration.
    let class = json!({"spec": {"nodeRegistrationDelay": "9999999999999999h"}});
    env.patch::<KWOKNodeClass>("default", class).await;
    env.patch::<NodePool>("good", json!({"spec": {"limits": {"cpu": "0"}}})).await;
    env.wait(2).await;
    env.pending_pod("web", "1", json!({})).await;
    env.wait(10 * 60).await;
    assert_eq!(created(&env), 0.0);
    assert!(!env.events("FailedScheduling").is_empty());
    env.patch::<KWOKNodeClass>("default", json!({"spec": {"nodeRegistrationDelay": "1s"}})).await;
    env.wait(30).await;
    assert_eq!(created(&env), 1.0);
}
