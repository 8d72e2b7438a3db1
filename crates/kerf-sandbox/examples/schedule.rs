//! Measures the sandbox's scheduler. The first part schedules pods on existing nodes, from the
//! first attempt to the last binding, without kubelets. The second is a scale-up: nodes are added
//! one by one while all pods wait, which causes many failed attempts.
//! `cargo run --release -p kerf-sandbox --example schedule -- 1000 100`
#![allow(clippy::print_stdout, reason = "the program prints for people")]

use std::time::Duration;

use bytes::Bytes;
use http::Request;
use http_body_util::{BodyExt as _, Full};
use kerf_runtime::Clock;
use kerf_sandbox::{ApiServer, ApiServerConfig, Scheduler};
use serde_json::{Value, json};
use tokio::time::Instant;
use tower::ServiceExt as _;

type Failure = Box<dyn std::error::Error + Send + Sync>;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Failure> {
    let mut numbers = std::env::args().skip(1).filter_map(|text| text.parse::<u64>().ok());
    let pods = numbers.next().unwrap_or(1_000);
    let nodes = numbers.next().unwrap_or(100);
    for (name, variant) in [
        ("plain pods", PodVariant::Plain),
        ("replicas of 20 services", PodVariant::Services),
        ("pods with spread and anti-affinity", PodVariant::Rules),
    ] {
        run(name, variant, pods, nodes).await?;
    }
    scale_up(pods, nodes).await
}

/// Adds a node every 100 ms of virtual time while all pods wait.
#[allow(
    clippy::disallowed_methods,
    reason = "virtual time is paused while the scheduler works: this measures wall time"
)]
async fn scale_up(pods: u64, nodes: u64) -> Result<(), Failure> {
    let server =
        ApiServer::new(ApiServerConfig { max_history_events: 1 << 20, ..ApiServerConfig::new(Clock::system(), 1) });
    for n in 0..pods {
        send(&server, "POST", "/api/v1/namespaces/default/pods", &pod(n, PodVariant::Plain)).await?;
    }
    let start = std::time::Instant::now();
    tokio::time::pause();
    let scheduler = tokio::spawn(Scheduler::new(&server, 1).run());
    let cpu = (pods / nodes + 1).to_string();
    for n in 0..nodes {
        add_node(&server, n, &cpu).await?;
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    while unscheduled_pods(&server).await? > 0 {
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    scheduler.abort();
    println!("a scale-up: {pods} pods while {nodes} nodes join, in {:.2} s", start.elapsed().as_secs_f64());
    Ok(())
}

async fn add_node(server: &ApiServer, n: u64, cpu: &str) -> Result<(), Failure> {
    let labels = json!({"kubernetes.io/hostname": format!("node-{n:05}"), "topology.kubernetes.io/zone": format!("zone-{}", n % 3)});
    let allocatable = json!({"cpu": cpu, "memory": "256Gi", "pods": "250"});
    let node =
        json!({"metadata": {"name": format!("node-{n:05}"), "labels": labels}, "status": {"allocatable": allocatable}});
    send(server, "POST", "/api/v1/nodes", &node).await?;
    let ready = json!({"spec": {"taints": null}});
    send(server, "PATCH", &format!("/api/v1/nodes/node-{n:05}"), &ready).await
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum PodVariant {
    Plain,
    Services,
    Rules,
}

async fn run(name: &str, variant: PodVariant, pods: u64, nodes: u64) -> Result<(), Failure> {
    let server =
        ApiServer::new(ApiServerConfig { max_history_events: 1 << 20, ..ApiServerConfig::new(Clock::system(), 1) });
    for n in 0..nodes {
        add_node(&server, n, "64").await?;
    }
    if variant == PodVariant::Services {
        for n in 0..20 {
            let service = json!({"metadata": {"name": format!("app-{n}")}, "spec": {"selector": {"app": format!("app-{n}")}, "ports": [{"port": 80}]}});
            send(&server, "POST", "/api/v1/namespaces/default/services", &service).await?;
        }
    }
    let start = Instant::now();
    for n in 0..pods {
        send(&server, "POST", "/api/v1/namespaces/default/pods", &pod(n, variant)).await?;
    }
    let created = start.elapsed();
    let start = Instant::now();
    let scheduler = tokio::spawn(Scheduler::new(&server, 1).run());
    loop {
        tokio::time::sleep(Duration::from_millis(50)).await;
        if unscheduled_pods(&server).await? == 0 {
            break;
        }
    }
    let elapsed = start.elapsed();
    scheduler.abort();
    println!(
        "{name}: {pods} on {nodes} nodes in {:.2} s, {:.0} a second ({:.2} s to create them)",
        elapsed.as_secs_f64(),
        pods as f64 / elapsed.as_secs_f64(),
        created.as_secs_f64()
    );
    Ok(())
}

fn pod(n: u64, variant: PodVariant) -> Value {
    let app = format!("app-{}", n % 20);
    let mut pod = json!({
        "metadata": {"name": format!("pod-{n:06}"), "labels": {"app": app}},
        "spec": {"containers": [{"name": "main", "image": "app:1", "resources": {"requests": {"cpu": "500m", "memory": "1Gi"}}}]},
    });
    if variant == PodVariant::Rules {
        let selector = json!({"matchLabels": {"app": app}});
        pod["spec"]["topologySpreadConstraints"] = json!([
            {"maxSkew": 1, "topologyKey": "topology.kubernetes.io/zone", "whenUnsatisfiable": "DoNotSchedule", "labelSelector": selector},
        ]);
        // The first 100 pods of `app-0` must run on different hosts. Later ones get another label.
        if n.is_multiple_of(20) && n < 2_000 {
            let term = json!({"topologyKey": "kubernetes.io/hostname", "labelSelector": selector});
            pod["spec"]["affinity"] =
                json!({"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}});
        }
        if n.is_multiple_of(20) && n >= 2_000 {
            pod["metadata"]["labels"]["app"] = "other".into();
        }
    }
    pod
}

/// Returns the number of pods without a node.
async fn unscheduled_pods(server: &ApiServer) -> Result<u64, Failure> {
    let path = "/api/v1/pods?fieldSelector=spec.nodeName%3D&limit=1";
    let body = server.clone().oneshot(Request::get(path).body(Full::<Bytes>::default())?).await?.into_body();
    let list: Value = serde_json::from_slice(&body.collect().await?.to_bytes())?;
    let shown = list["items"].as_array().map_or(0, Vec::len) as u64;
    Ok(shown + list["metadata"]["remainingItemCount"].as_u64().unwrap_or_default())
}

async fn send(server: &ApiServer, method: &str, path: &str, body: &Value) -> Result<(), Failure> {
    let media = if method == "PATCH" { "application/merge-patch+json" } else { "application/json" };
    let request = Request::builder().method(method).uri(path).header("content-type", media);
    let response = server.clone().oneshot(request.body(Full::new(Bytes::from(body.to_string())))?).await?;
    if response.status().is_success() {
        return Ok(());
    }
    let text = response.into_body().collect().await?.to_bytes();
    Err(String::from_utf8_lossy(&text).into_owned().into())
}
