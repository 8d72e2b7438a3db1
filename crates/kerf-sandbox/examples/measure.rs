//! What the API server can carry: writes per second with a watcher of all pods, and the memory of 5,000 nodes and 100,000 pods.
//! `cargo run --release -p kerf-sandbox --example measure`
#![allow(clippy::print_stdout, reason = "it is a program for people")]

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use futures::StreamExt as _;
use http::Request;
use http_body_util::{BodyExt as _, BodyStream, Full};
use kerf_runtime::Clock;
use kerf_sandbox::{ApiServer, Config};
use serde_json::{Value, json};
use tokio::time::Instant;
use tower::ServiceExt as _;

/// What the program has, too.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const PODS: u64 = 100_000;
const NODES: u64 = 5_000;
type Failure = Box<dyn std::error::Error + Send + Sync>;

#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
async fn main() -> Result<(), Failure> {
    let begun = Instant::now();
    let server = ApiServer::new(Config::new(Clock::system(), 1));
    println!("start: {:.1} ms", begun.elapsed().as_secs_f64() * 1e3);

    let seen = Arc::new(AtomicU64::new(0));
    let watcher = tokio::spawn(count_events(server.clone(), seen.clone()));
    tokio::task::yield_now().await;

    let begun = Instant::now();
    for n in 0..NODES {
        send(&server, "POST", "/api/v1/nodes".into(), "application/json", node(n)).await?;
    }
    report("nodes created", NODES, begun);

    let begun = Instant::now();
    for n in 0..PODS {
        send(&server, "POST", "/api/v1/namespaces/default/pods".into(), "application/json", pod(n)).await?;
    }
    report("pods created", PODS, begun);
    told(&seen, PODS, begun).await;
    memory("after creation");

    let begun = Instant::now();
    for n in 0..PODS {
        let status = json!({"status": {"phase": "Running", "podIP": "10.0.0.1", "conditions": [{"type": "Ready", "status": "True"}]}});
        let path = format!("/api/v1/namespaces/default/pods/pod-{n:06}/status");
        send(&server, "PATCH", path, "application/merge-patch+json", status).await?;
    }
    report("pod statuses patched", PODS, begun);
    told(&seen, 2 * PODS, begun).await;
    memory("after status patches");

    let begun = Instant::now();
    let body = server.clone().oneshot(Request::get("/api/v1/pods").body(Full::<Bytes>::default())?).await?.into_body();
    let mut bytes = 0;
    let mut body = BodyStream::new(body);
    while let Some(Ok(frame)) = body.next().await {
        bytes += frame.data_ref().map_or(0, Bytes::len);
    }
    println!("list of all pods: {:.0} ms, {} MiB", begun.elapsed().as_secs_f64() * 1e3, bytes >> 20);
    memory("at the end");
    watcher.abort();
    Ok(())
}

/// Watches all pods and counts what it is told.
async fn count_events(server: ApiServer, seen: Arc<AtomicU64>) -> Result<(), Failure> {
    let request = Request::get("/api/v1/pods?watch=true").body(Full::<Bytes>::default())?;
    let mut body = BodyStream::new(server.oneshot(request).await?.into_body());
    while let Some(Ok(frame)) = body.next().await {
        let lines = frame.data_ref().map_or(0, |data| data.split(|byte| *byte == b'\n').count() - 1);
        if frame.data_ref().is_some_and(|data| {
            data.starts_with(b"{\"type\":\"ERROR\"")
                || data.starts_with(b"{\"object\":{\"apiVersion\":\"v1\",\"code\":410")
        }) {
            println!("the watcher was too slow");
        }
        seen.fetch_add(lines as u64, Ordering::Relaxed);
    }
    Ok(())
}

async fn told(seen: &AtomicU64, wanted: u64, begun: Instant) {
    let behind = wanted.saturating_sub(seen.load(Ordering::Relaxed));
    while seen.load(Ordering::Relaxed) < wanted {
        tokio::task::yield_now().await;
    }
    println!(
        "  watcher: {behind} events behind at the last write, all told after {:.2} s",
        begun.elapsed().as_secs_f64()
    );
}

fn report(what: &str, count: u64, begun: Instant) {
    let seconds = begun.elapsed().as_secs_f64();
    println!("{count} {what}: {seconds:.2} s, {:.0} a second", count as f64 / seconds);
}

fn memory(when: &str) {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let field = |name: &str| {
        status
            .lines()
            .find(|line| line.starts_with(name))
            .and_then(|line| line.split_whitespace().nth(1)?.parse::<u64>().ok())
            .unwrap_or_default()
            >> 10
    };
    println!("  memory {when}: {} MiB, at most {} MiB", field("VmRSS"), field("VmHWM"));
}

async fn send(server: &ApiServer, method: &str, path: String, media: &str, body: Value) -> Result<(), Failure> {
    let request =
        Request::builder().method(method).uri(path).header("content-type", media).header("user-agent", "measure");
    let response = server.clone().oneshot(request.body(Full::new(Bytes::from(body.to_string())))?).await?;
    if !response.status().is_success() {
        let text = response.into_body().collect().await?.to_bytes();
        return Err(String::from_utf8_lossy(&text).into_owned().into());
    }
    Ok(())
}

fn pod(n: u64) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {
            "name": format!("pod-{n:06}"), "labels": {"app": format!("app-{}", n % 500), "pod-template-hash": "5d4f8c7b9"},
            "ownerReferences": [{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": format!("app-{}-5d4f8c7b9", n % 500), "uid": format!("uid-{}", n % 500), "controller": true, "blockOwnerDeletion": true}],
        },
        "spec": {
            "nodeName": format!("node-{:04}", n % NODES),
            "containers": [{"name": "main", "image": "registry.example.com/team/app:1.2.3", "ports": [{"containerPort": 8080}],
                "resources": {"requests": {"cpu": "250m", "memory": "256Mi"}, "limits": {"memory": "512Mi"}},
                "env": [{"name": "A", "value": "b"}], "readinessProbe": {"httpGet": {"port": 8080}}}],
            "topologySpreadConstraints": [{"maxSkew": 1, "topologyKey": "topology.kubernetes.io/zone", "whenUnsatisfiable": "ScheduleAnyway", "labelSelector": {"matchLabels": {"app": format!("app-{}", n % 500)}}}],
        },
    })
}

fn node(n: u64) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Node",
        "metadata": {"name": format!("node-{n:04}"), "labels": {"kubernetes.io/arch": "amd64", "kubernetes.io/os": "linux", "topology.kubernetes.io/zone": format!("zone-{}", n % 3), "node.kubernetes.io/instance-type": "c-8x-amd64-linux"}},
        "spec": {"providerID": format!("kwok://node-{n:04}")},
        "status": {"capacity": {"cpu": "8", "memory": "16Gi", "pods": "110"}, "conditions": [{"type": "Ready", "status": "True"}]},
    })
}
