//! The controllers with their queues, in virtual time.

use std::time::Duration;

use kerf_operator::ControllerSet;
use kerf_runtime::Shutdown;
use kube::api::DeleteParams;
use serde_json::json;

use super::test_env::NodeClassEnv;

/// Runs the controllers for a time. Cluster state follows the API server every second.
async fn run_for(env: &NodeClassEnv, set: &ControllerSet, duration: Duration) {
    let (shutdown, signal) = Shutdown::new();
    let controllers = futures::future::join_all(set.run(&signal));
    let follow = async {
        let end = env.context.clock.elapsed() + duration;
        while env.context.clock.elapsed() < end {
            let (classes, claims) = env.sync().await;
            for change in &classes {
                set.handlers().run(change);
            }
            for change in &claims {
                set.handlers().run(change);
            }
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
        shutdown.request();
    };
    futures::future::join(controllers, follow).await;
}

// spec 06 #1, #67
#[tokio::test(start_paused = true)]
async fn a_class_lives_from_creation_to_deletion() {
    let env = NodeClassEnv::new().await;
    let set = env.controller_set();
    env.create_class("default", json!({})).await;
    run_for(&env, &set, Duration::from_secs(5)).await;
    assert_eq!(env.condition("default", "Ready").await, "Ready=True");
    let annotations = env.class("default").await.metadata.annotations.unwrap();
    assert_eq!(annotations["karpenter.k8s.aws/ec2nodeclass-hash-version"], "v6");
    env.create_claim("claim", "default", json!({})).await;
    env.classes().delete("default", &DeleteParams::default()).await.unwrap();
    run_for(&env, &set, Duration::from_mins(5)).await;
    assert!(env.class_exists("default").await);
    env.claims().delete("claim", &DeleteParams::default()).await.unwrap();
    run_for(&env, &set, Duration::from_secs(2)).await;
    assert!(!env.class_exists("default").await, "the deletion of the claim wakes the class");
    assert_eq!(env.profiles().await, Vec::<String>::new());
}

// spec 06 §4: the steady state
#[tokio::test(start_paused = true)]
async fn a_class_is_kept_up_to_date_every_minute() {
    let env = NodeClassEnv::new().await;
    let set = env.controller_set();
    env.create_class("default", json!({})).await;
    run_for(&env, &set, Duration::from_secs(5)).await;
    env.aws.change_account(|account| account.subnets.clear());
    run_for(&env, &set, Duration::from_secs(62)).await;
    assert!(env.condition("default", "Ready").await.starts_with("Ready=False UnhealthyDependents: "));
    env.take_operations();
    run_for(&env, &set, Duration::from_mins(10)).await;
    let reads = env.take_operations().iter().filter(|name| **name == "DescribeSubnets").count();
    assert!((9..=11).contains(&reads), "{reads}");
}

// spec 06 §4.7.9: a terminal failure does not end the refresh.
#[tokio::test(start_paused = true)]
async fn a_class_with_a_terminal_failure_is_still_refreshed() {
    let env = NodeClassEnv::new().await;
    let set = env.controller_set();
    env.create_class("default", json!({"amiSelectorTerms": [{"alias": "al2@latest"}]})).await;
    run_for(&env, &set, Duration::from_secs(5)).await;
    let errors = |name: &str| set.environment().metrics.reconcile_errors.get(&[name]);
    assert!((errors("nodeclass") - 1.0).abs() < f64::EPSILON);
    env.aws.change_account(|account| account.subnets.clear());
    run_for(&env, &set, Duration::from_mins(3)).await;
    assert!(env.condition("default", "SubnetsReady").await.starts_with("SubnetsReady=False"));
    assert!((errors("nodeclass") - 1.0).abs() < f64::EPSILON, "the failure is reported once");
}
