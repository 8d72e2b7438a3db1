//! Measures a whole cluster: 1,000 pods on 100 nodes in wall time, and a day of 300 nodes and 5,000
//! pods in virtual time.
//! `cargo run --release -p kerf-sandbox --example cluster`
#![allow(clippy::print_stdout, reason = "the program prints for people")]
#![allow(clippy::disallowed_methods, reason = "it measures wall time while the cluster's clock is paused")]

use std::time::{Duration, Instant};

use http::Request;
use kerf_runtime::Clock;
use kerf_sandbox::{Cluster, ClusterConfig, Delay, Rng, Timing};
use serde_json::{Value, json};

/// The allocator of the `kerf` binary.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

type Failure = Box<dyn std::error::Error + Send + Sync>;

fn main() -> Result<(), Failure> {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    runtime.block_on(thousand_pods())?;
    // Without sockets, as in `kerf sandbox run`: tokio then makes no system call for IO events
    // whenever the virtual clock advances.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build()?;
    runtime.block_on(virtual_day())
}

/// Creates 1,000 pods on 100 nodes and waits until all are running.
async fn thousand_pods() -> Result<(), Failure> {
    let start = Instant::now();
    let cluster = Cluster::start(ClusterConfig { clock: Clock::system(), seed: 1, timing: Timing::INSTANT });
    cluster.add_nodes(100)?;
    println!("a cluster with 100 nodes after {:.3} s", start.elapsed().as_secs_f64());
    let start = Instant::now();
    for app in 0..10 {
        create_deployment(&cluster, app, 100).await?;
    }
    while running_pods(&cluster).await? < 1000 {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    println!("1,000 pods on 100 nodes run after {:.3} s", start.elapsed().as_secs_f64());
    Ok(())
}

/// Simulates a day in which 50 Deployments of 100 pods on 300 nodes are resized and rolled out
/// every few minutes.
async fn virtual_day() -> Result<(), Failure> {
    let clock = Clock::starting_at("2026-01-01T00:00:00Z".parse()?);
    let timing =
        Timing { pod_start: Delay::between(Duration::from_secs(2), Duration::from_secs(8)), ..Timing::LIFELIKE };
    let cluster = Cluster::start(ClusterConfig { clock, seed: 1, timing });
    let mut rng = Rng::new(1);
    let start = Instant::now();
    cluster.add_nodes(300)?;
    for app in 0..50 {
        create_deployment(&cluster, app, 100).await?;
    }
    let (mut resized, mut rolled) = (0, 0);
    for minute in 0..24 * 60_u64 {
        tokio::time::sleep(Duration::from_mins(1)).await;
        if minute % 5 == 0 {
            let (app, replicas) = (rng.below(50), 80 + rng.below(40));
            patch_deployment(&cluster, app, json!({"spec": {"replicas": replicas}})).await?;
            resized += 1;
        }
        if minute % 60 == 30 {
            let image = format!("app:{minute}");
            let template = json!({"spec": {"containers": [{"name": "c", "image": image}]}});
            patch_deployment(&cluster, rng.below(50), json!({"spec": {"template": template}})).await?;
            rolled += 1;
        }
    }
    println!(
        "a virtual day: 300 nodes, {} pods running, {resized} resizes, {rolled} rollouts, {} writes in {:.1} s",
        running_pods(&cluster).await?,
        cluster.api().revision(),
        start.elapsed().as_secs_f64()
    );
    Ok(())
}

async fn create_deployment(cluster: &Cluster, app: u64, replicas: u64) -> Result<(), Failure> {
    let labels = json!({"app": format!("app-{app}")});
    let container =
        json!({"name": "c", "image": "app:1", "resources": {"requests": {"cpu": "100m", "memory": "64Mi"}}});
    let deployment = json!({
        "metadata": {"name": format!("app-{app}")},
        "spec": {
            "replicas": replicas, "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": {"containers": [container]}},
        },
    });
    send(cluster, "POST", "/apis/apps/v1/namespaces/default/deployments", "application/json", &deployment).await
}

async fn patch_deployment(cluster: &Cluster, app: u64, patch: Value) -> Result<(), Failure> {
    let path = format!("/apis/apps/v1/namespaces/default/deployments/app-{app}");
    send(cluster, "PATCH", &path, "application/merge-patch+json", &patch).await
}

async fn send(cluster: &Cluster, method: &str, path: &str, media: &str, body: &Value) -> Result<(), Failure> {
    let request = Request::builder().method(method).uri(path).header("content-type", media);
    cluster.api().client().request_text(request.body(body.to_string().into_bytes())?).await?;
    Ok(())
}

/// Returns the number of running pods, as the sum of the Deployments' ready replicas.
async fn running_pods(cluster: &Cluster) -> Result<u64, Failure> {
    let request = Request::get("/apis/apps/v1/deployments").body(Vec::new())?;
    let list: Value = serde_json::from_str(&cluster.api().client().request_text(request).await?)?;
    let ready = |deployment: &Value| deployment["status"]["readyReplicas"].as_u64().unwrap_or_default();
    Ok(list["items"].as_array().into_iter().flatten().map(ready).sum())
}
