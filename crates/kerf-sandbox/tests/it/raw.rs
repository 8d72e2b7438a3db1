//! Raw requests, for what no client would send.

use bytes::Bytes;
use http::Request;
use http_body_util::{BodyExt as _, Full};
use kerf_runtime::Clock;
use kerf_sandbox::{ApiServer, ApiServerConfig};
use serde_json::{Value, json};
use tower::ServiceExt as _;

/// Returns a clock that starts at noon on 2026-01-01.
pub(crate) fn noon() -> Clock {
    Clock::starting_at("2026-01-01T12:00:00Z".parse().unwrap())
}

/// Returns a server on this clock with a fixed seed.
pub(crate) fn server() -> ApiServer {
    ApiServer::new(ApiServerConfig::new(noon(), 7))
}

/// Sends one request and reads the whole response.
pub(crate) async fn send(server: &ApiServer, request: Request<Full<Bytes>>) -> (u16, Bytes) {
    let response = server.clone().oneshot(request).await.unwrap();
    let code = response.status().as_u16();
    (code, response.into_body().collect().await.unwrap().to_bytes())
}

/// Sends JSON and reads JSON. A response that is no JSON reads as null.
pub(crate) async fn call(server: &ApiServer, method: &str, path: &str, body: Value) -> (u16, Value) {
    call_as(server, method, path, "application/json", body).await
}

pub(crate) async fn call_as(server: &ApiServer, method: &str, path: &str, media: &str, body: Value) -> (u16, Value) {
    let body = if body.is_null() { Bytes::new() } else { Bytes::from(body.to_string()) };
    let request =
        Request::builder().method(method).uri(path).header("content-type", media).header("user-agent", "test/1.0");
    let (code, body) = send(server, request.body(Full::new(body)).unwrap()).await;
    (code, serde_json::from_slice(&body).unwrap_or_default())
}

pub(crate) async fn get(server: &ApiServer, path: &str) -> (u16, Value) {
    call(server, "GET", path, Value::Null).await
}

/// Returns a pod that the server accepts.
pub(crate) fn pod(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "labels": {"app": name}}, "spec": {"containers": [{"name": "c", "image": "nginx:1"}]}})
}

pub(crate) const PODS: &str = "/api/v1/namespaces/default/pods";
