//! Measures the API server: writes per second while a client watches all pods, and the memory of
//! 5,000 nodes and 100,000 pods.
//! `cargo run --release -p kerf-sandbox --example measure`
#![allow(clippy::print_stdout, reason = "the program prints for people")]

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use futures::StreamExt as _;
use http::Request;
use http_body_util::{BodyExt as _, BodyStream, Full};
use k8s_openapi::api::core::v1::Pod;
use kerf_runtime::Clock;
use kerf_sandbox::{ApiServer, ApiServerConfig};
use kube::Api;
use kube::api::{Patch, PatchParams, PostParams};
use serde_json::{Value, json};
use tokio::time::Instant;
use tower::ServiceExt as _;

/// The allocator of the `kerf` binary.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const PODS: u64 = 100_000;
const NODES: u64 = 5_000;
type Failure = Box<dyn std::error::Error + Send + Sync>;

/// The client that a phase writes with.
#[derive(Clone, Copy)]
enum WritePath {
    /// Requests to the server as a tower service, which is also the cost for the cluster's own
    /// controllers.
    Service,
    /// A `kube::Client` without sockets, which encodes requests and decodes responses.
    Client,
}

/// The kind of write of a phase.
#[derive(Clone, Copy)]
enum WrittenObject {
    Node,
    Pod,
    Status,
}

#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
async fn main() -> Result<(), Failure> {
    let start = Instant::now();
    let server = ApiServer::new(ApiServerConfig::new(Clock::system(), 1));
    println!("start: {:.1} ms", start.elapsed().as_secs_f64() * 1e3);

    let lag = Arc::new(WatcherLag::default());
    let watcher = tokio::spawn(count_events(server.clone(), lag.clone()));
    tokio::task::yield_now().await;

    phase(&server, &lag, "nodes created", WrittenObject::Node, 0..NODES, 1, WritePath::Service).await?;
    phase(&server, &lag, "pods created", WrittenObject::Pod, 0..40_000, 1, WritePath::Service).await?;
    phase(&server, &lag, "pods created", WrittenObject::Pod, 40_000..80_000, 2, WritePath::Service).await?;
    phase(&server, &lag, "pods created through kube::Client", WrittenObject::Pod, 80_000..90_000, 1, WritePath::Client)
        .await?;
    phase(&server, &lag, "pods created through kube::Client", WrittenObject::Pod, 90_000..PODS, 2, WritePath::Client)
        .await?;
    print_memory("after creation");
    phase(&server, &lag, "pod statuses patched", WrittenObject::Status, 0..40_000, 1, WritePath::Service).await?;
    phase(&server, &lag, "pod statuses patched", WrittenObject::Status, 40_000..80_000, 2, WritePath::Service).await?;
    phase(
        &server,
        &lag,
        "pod statuses patched through kube::Client",
        WrittenObject::Status,
        80_000..90_000,
        1,
        WritePath::Client,
    )
    .await?;
    phase(
        &server,
        &lag,
        "pod statuses patched through kube::Client",
        WrittenObject::Status,
        90_000..PODS,
        2,
        WritePath::Client,
    )
    .await?;
    print_memory("after status patches");

    let start = Instant::now();
    let body = server.clone().oneshot(Request::get("/api/v1/pods").body(Full::<Bytes>::default())?).await?.into_body();
    let mut bytes = 0;
    let mut body = BodyStream::new(body);
    while let Some(Ok(frame)) = body.next().await {
        bytes += frame.data_ref().map_or(0, Bytes::len);
    }
    println!("list of all pods: {:.0} ms, {} MiB", start.elapsed().as_secs_f64() * 1e3, bytes >> 20);
    print_memory("at the end");
    watcher.abort();
    Ok(())
}

/// Writes objects with several concurrent writers. Prints the rate, and the lag of the watcher of
/// all pods.
async fn phase(
    server: &ApiServer,
    lag: &Arc<WatcherLag>,
    title: &str,
    object: WrittenObject,
    numbers: Range<u64>,
    writers: u64,
    write_path: WritePath,
) -> Result<(), Failure> {
    lag.behind.store(0, Ordering::Relaxed);
    // Request bodies are created beforehand, so that only the server and the client are measured.
    let share = (numbers.end - numbers.start) / writers;
    let mut work: Vec<Vec<(String, Value)>> = Vec::new();
    for writer in 0..writers {
        let start = numbers.start + writer * share;
        work.push((start..start + share).map(|n| request(object, n)).collect());
    }
    let start = Instant::now();
    let tasks: Vec<_> = work
        .into_iter()
        .map(|requests| tokio::spawn(write(server.clone(), lag.clone(), object, requests, write_path)))
        .collect();
    for task in tasks {
        task.await??;
    }
    let seconds = start.elapsed().as_secs_f64();
    let count = share * writers;
    let by = if writers == 1 { "one writer".to_owned() } else { format!("{writers} writers") };
    println!("{count} {title} by {by}: {seconds:.2} s, {:.0} a second", count as f64 / seconds);
    if !matches!(object, WrittenObject::Node) {
        let written = lag.written.load(Ordering::Relaxed);
        let behind = written.saturating_sub(lag.seen.load(Ordering::Relaxed));
        while lag.seen.load(Ordering::Relaxed) < written {
            tokio::task::yield_now().await;
        }
        println!(
            "  watcher: at most {} events behind, {behind} at the last write; all delivered after {:.2} s",
            lag.behind.load(Ordering::Relaxed),
            start.elapsed().as_secs_f64()
        );
    }
    Ok(())
}

/// Returns path and body of a request.
fn request(object: WrittenObject, n: u64) -> (String, Value) {
    match object {
        WrittenObject::Node => ("/api/v1/nodes".into(), node(n)),
        WrittenObject::Pod => ("/api/v1/namespaces/default/pods".into(), pod(n)),
        WrittenObject::Status => {
            let status = json!({"status": {"phase": "Running", "podIP": "10.0.0.1", "conditions": [{"type": "Ready", "status": "True"}]}});
            (format!("/api/v1/namespaces/default/pods/pod-{n:06}/status"), status)
        }
    }
}

async fn write(
    server: ApiServer,
    lag: Arc<WatcherLag>,
    object: WrittenObject,
    requests: Vec<(String, Value)>,
    write_path: WritePath,
) -> Result<(), Failure> {
    let (method, media) = match object {
        WrittenObject::Node | WrittenObject::Pod => ("POST", "application/json"),
        WrittenObject::Status => ("PATCH", "application/merge-patch+json"),
    };
    let pods: Api<Pod> = Api::default_namespaced(server.client_as("measure"));
    for (path, body) in requests {
        match (write_path, object) {
            (WritePath::Client, WrittenObject::Pod) => {
                drop(pods.create(&PostParams::default(), &serde_json::from_value(body)?).await?);
            }
            (WritePath::Client, WrittenObject::Status) => {
                let name = path.trim_end_matches("/status").rsplit('/').next().unwrap_or_default();
                drop(pods.patch_status(name, &PatchParams::default(), &Patch::Merge(body)).await?);
            }
            (WritePath::Client, WrittenObject::Node) | (WritePath::Service, _) => {
                send(&server, method, path, media, body).await?;
            }
        }
        if !matches!(object, WrittenObject::Node) {
            lag.written.fetch_add(1, Ordering::Relaxed);
        }
    }
    Ok(())
}

/// Counts of written objects and of events that the watcher received.
#[derive(Default)]
struct WatcherLag {
    written: AtomicU64,
    seen: AtomicU64,
    /// The largest lag of the watcher, in events.
    behind: AtomicU64,
}

/// Watches all pods and counts the events.
async fn count_events(server: ApiServer, lag: Arc<WatcherLag>) -> Result<(), Failure> {
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
        let before = lag.seen.fetch_add(lines as u64, Ordering::Relaxed);
        lag.behind.fetch_max(lag.written.load(Ordering::Relaxed).saturating_sub(before), Ordering::Relaxed);
    }
    Ok(())
}

fn print_memory(when: &str) {
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
