//! Determinism: two runs of a scenario with one seed write the same bytes in the same order.

use std::future::Future;
use std::pin::Pin;

use kerf_sandbox::{Cloud, CloudFault, CloudFaultRule, Cluster, Fault, FaultRule, Timing};
use serde_json::json;

use super::{
    CRON_JOBS, DAEMON_SETS, DEPLOYMENTS, JOBS, PODS, STATEFUL_SETS, advance_seconds, create, daemon_set, delete,
    deployment, job, list, patch, start_with_seed, stateful_set,
};

type ScenarioFn = for<'a> fn(&'a Cluster) -> Pin<Box<dyn Future<Output = ()> + 'a>>;

/// Runs a scenario on its own clock. Returns the fingerprint of all writes, and their number.
fn run(seed: u64, scenario: ScenarioFn) -> (u64, u64) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap();
    runtime.block_on(async {
        let cluster = start_with_seed(Timing::LIFELIKE, seed);
        scenario(&cluster).await;
        (cluster.api().fingerprint(), cluster.api().revision())
    })
}

fn assert_repeats(name: &str, scenario: ScenarioFn) {
    let first = run(7, scenario);
    assert_eq!(first, run(7, scenario), "{name}: one seed, two histories");
    assert_ne!(first, run(8, scenario), "{name}: two seeds, one history");
    assert!(first.1 > 100, "{name}: {} writes are not much of a scenario", first.1);
}

#[test]
fn rollouts_repeat() {
    assert_repeats("rollouts", |cluster| {
        Box::pin(async {
            cluster.add_nodes(5).unwrap();
            create(cluster, DEPLOYMENTS, deployment("web", 10)).await;
            create(cluster, DEPLOYMENTS, deployment("api", 7)).await;
            advance_seconds(20).await;
            let next = json!({"spec": {"template": {"spec": {"containers": [{"name": "c", "image": "nginx:2"}]}}}});
            patch(cluster, &format!("{DEPLOYMENTS}/web"), next).await;
            patch(cluster, &format!("{DEPLOYMENTS}/api"), json!({"spec": {"replicas": 12}})).await;
            advance_seconds(60).await;
        })
    });
}

#[test]
fn interrupted_instances_repeat() {
    assert_repeats("terminated instances", |cluster| {
        Box::pin(async {
            let cloud: &Cloud = cluster.cloud();
            let rule = |fault, rate| CloudFaultRule::new(fault, rate);
            let after = std::time::Duration::from_mins(3);
            let slow = std::time::Duration::from_secs(30);
            cloud.set_faults(
                vec![
                    rule(CloudFault::Interruption { after }, 300_000),
                    rule(CloudFault::SlowBoot { by: slow }, 300_000),
                    rule(CloudFault::NeverJoins, 100_000),
                ],
                cluster.api().revision(),
            );
            cluster.add_nodes(12).unwrap();
            create(cluster, DEPLOYMENTS, deployment("web", 30)).await;
            create(cluster, DAEMON_SETS, daemon_set("agent")).await;
            advance_seconds(1200).await;
        })
    });
}

#[test]
fn batch_and_state_repeat() {
    assert_repeats("batch and state", |cluster| {
        Box::pin(async {
            cluster.add_nodes(4).unwrap();
            create(cluster, STATEFUL_SETS, stateful_set("db", 4)).await;
            create(cluster, JOBS, job("sums", 12, 4)).await;
            let template = job("tick", 1, 1);
            let cron = json!({"metadata": {"name": "tick"}, "spec": {"schedule": "*/2 * * * *", "jobTemplate": {"spec": template["spec"]}}});
            create(cluster, CRON_JOBS, cron).await;
            advance_seconds(600).await;
            delete(cluster, &format!("{PODS}/db-1"), json!({})).await;
            advance_seconds(60).await;
        })
    });
}

#[test]
fn clients_with_faults_repeat() {
    assert_repeats("clients with faults", |cluster| {
        Box::pin(async {
            cluster.add_nodes(3).unwrap();
            create(cluster, DEPLOYMENTS, deployment("web", 6)).await;
            advance_seconds(30).await;
            let rules = vec![
                FaultRule::new(Fault::InternalError, 200_000),
                FaultRule::new(Fault::LostResponse, 100_000),
                FaultRule::new(Fault::Slow { by: std::time::Duration::from_millis(700) }, 200_000),
            ];
            cluster.api().set_faults(rules, 3);
            let client = cluster.api().client_as("test");
            let pods: kube::Api<k8s_openapi::api::core::v1::Pod> = kube::Api::default_namespaced(client);
            for _ in 0..40 {
                if let Ok(listed) = pods.list(&kube::api::ListParams::default()).await
                    && let Some(name) = listed.items.first().and_then(|pod| pod.metadata.name.clone())
                {
                    let _ = pods.evict(&name, &kube::api::EvictParams::default()).await;
                }
                advance_seconds(3).await;
            }
            cluster.api().set_faults(Vec::new(), 0);
            assert!(!list(cluster, PODS).await.is_empty());
        })
    });
}
