//! Watches: their events, their end, and the effect of a slow reader.

use std::time::Duration;

use bytes::Bytes;
use futures::StreamExt as _;
use http_body_util::{BodyExt as _, BodyStream, Full};
use kerf_runtime::Clock;
use kerf_sandbox::{ApiServer, ApiServerConfig};
use serde_json::{Value, json};
use tower::ServiceExt as _;

use crate::raw::{PODS, call, call_as, get, pod, server};

/// An open watch, read event by event.
pub(crate) struct Watch {
    body: BodyStream<kerf_sandbox::Body>,
    buffered_events: Vec<Value>,
}

impl Watch {
    pub(crate) async fn open(server: &ApiServer, path: &str) -> Self {
        let request = http::Request::builder().uri(path).body(Full::<Bytes>::default()).unwrap();
        let response = server.clone().oneshot(request).await.unwrap();
        assert_eq!(response.status(), 200, "{path}");
        Self { body: BodyStream::new(response.into_body()), buffered_events: Vec::new() }
    }

    /// Returns the next event; `None` at the end.
    pub(crate) async fn next(&mut self) -> Option<Value> {
        while self.buffered_events.is_empty() {
            let chunk = self.body.next().await?.unwrap().into_data().unwrap();
            self.buffered_events = chunk
                .split(|byte| *byte == b'\n')
                .filter(|line| !line.is_empty())
                .map(|line| serde_json::from_slice(line).unwrap())
                .collect();
        }
        Some(self.buffered_events.remove(0))
    }

    /// Returns `TYPE name` of the next event.
    async fn next_summary(&mut self) -> String {
        let event = self.next().await.unwrap();
        format!("{} {}", event["type"].as_str().unwrap(), event["object"]["metadata"]["name"].as_str().unwrap_or("-"))
    }
}

#[tokio::test]
async fn a_watch_delivers_existing_objects_and_then_changes() {
    let server = server();
    call(&server, "POST", PODS, pod("a")).await;
    let mut watch = Watch::open(&server, &format!("{PODS}?watch=true")).await;
    assert_eq!(watch.next_summary().await, "ADDED a");
    call(&server, "POST", PODS, pod("b")).await;
    call_as(
        &server,
        "PATCH",
        &format!("{PODS}/a"),
        "application/merge-patch+json",
        json!({"metadata": {"labels": {"x": "y"}}}),
    )
    .await;
    call(&server, "DELETE", &format!("{PODS}/b"), Value::Null).await;
    assert_eq!(watch.next_summary().await, "ADDED b");
    assert_eq!(watch.next_summary().await, "MODIFIED a");
    let deleted = watch.next().await.unwrap();
    assert_eq!(
        (deleted["type"].as_str().unwrap(), deleted["object"]["metadata"]["name"].as_str().unwrap()),
        ("DELETED", "b")
    );
    assert_eq!(
        deleted["object"]["metadata"]["resourceVersion"],
        server.revision().to_string(),
        "the event has the revision of the deletion"
    );
}

#[tokio::test]
async fn an_object_that_starts_or_stops_matching_a_selector_is_added_or_deleted() {
    let server = server();
    let (_, list) = get(&server, PODS).await;
    let from = list["metadata"]["resourceVersion"].as_str().unwrap().to_string();
    call(&server, "POST", PODS, pod("a")).await;
    let relabel = async |value: Value| {
        call_as(
            &server,
            "PATCH",
            &format!("{PODS}/a"),
            "application/merge-patch+json",
            json!({"metadata": {"labels": {"hot": value}}}),
        )
        .await
    };
    relabel(json!("yes")).await;
    relabel(json!(null)).await;
    let mut watch = Watch::open(&server, &format!("{PODS}?watch=true&resourceVersion={from}&labelSelector=hot")).await;
    assert_eq!(watch.next_summary().await, "ADDED a");
    assert_eq!(watch.next_summary().await, "DELETED a");
}

#[tokio::test(start_paused = true)]
async fn a_streamed_list_ends_with_an_annotation_and_idle_watches_get_bookmarks() {
    let server = server();
    call(&server, "POST", PODS, pod("a")).await;
    let query = "watch=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true&timeoutSeconds=90";
    let mut watch = Watch::open(&server, &format!("{PODS}?{query}")).await;
    assert_eq!(watch.next_summary().await, "ADDED a");
    let initial_events_end = watch.next().await.unwrap();
    assert_eq!(initial_events_end["object"]["metadata"]["annotations"]["k8s.io/initial-events-end"], "true");
    let bookmark = watch.next().await.unwrap();
    assert_eq!(bookmark["type"], "BOOKMARK");
    assert_eq!(server.clock().elapsed(), Duration::from_mins(1), "a minute of virtual time has passed");
    assert_eq!(watch.next().await, None, "and after its time-out the watch ends");
}

#[tokio::test]
async fn a_reader_that_is_too_slow_gets_410() {
    let mut config = ApiServerConfig::new(Clock::starting_at("2026-01-01T00:00:00Z".parse().unwrap()), 1);
    config.max_history_events = 8;
    let server = ApiServer::new(config);
    let mut watch = Watch::open(&server, &format!("{PODS}?watch=true")).await;
    for n in 0..20 {
        call(&server, "POST", PODS, pod(&format!("p{n}"))).await;
    }
    let event = watch.next().await.unwrap();
    assert_eq!((event["type"].as_str().unwrap(), event["object"]["code"].as_u64().unwrap()), ("ERROR", 410));
    assert_eq!(event["object"]["reason"], "Expired");
    assert_eq!(watch.next().await, None);
}

#[tokio::test]
async fn ten_thousand_watches_at_once() {
    let server = server();
    let mut watches = Vec::new();
    for _ in 0..10_000 {
        watches.push(Watch::open(&server, &format!("{PODS}?watch=true")).await);
    }
    call(&server, "POST", PODS, pod("a")).await;
    for watch in &mut watches {
        assert_eq!(watch.next_summary().await, "ADDED a");
    }
}

#[tokio::test]
async fn invalid_list_and_watch_options_are_rejected() {
    let server = server();
    for query in [
        "resourceVersion=abc",
        "watch=true&resourceVersionMatch=Exact",
        "watch=true&sendInitialEvents=true",
        "resourceVersionMatch=Exact",
        "resourceVersion=1&resourceVersionMatch=Foo",
        "limit=1&continue=abc",
        "labelSelector=a===b",
    ] {
        let (code, status) = get(&server, &format!("{PODS}?{query}")).await;
        assert!(matches!(code, 400 | 422), "{query}: {code} {status}");
    }
}

#[tokio::test(start_paused = true)]
async fn one_seed_gives_one_fingerprint() {
    let run = async |seed: u64| {
        let server =
            ApiServer::new(ApiServerConfig::new(Clock::starting_at("2026-01-01T00:00:00Z".parse().unwrap()), seed));
        for n in 0..50 {
            let mut generated = pod("x");
            generated["metadata"] = json!({"generateName": "web-", "labels": {"n": n.to_string()}});
            call(&server, "POST", PODS, generated).await;
            tokio::time::advance(Duration::from_secs(1)).await;
        }
        let (_, list) = get(&server, PODS).await;
        (server.fingerprint(), list)
    };
    assert_eq!(run(1).await, run(1).await);
    assert_ne!(run(1).await.0, run(2).await.0);
}

#[tokio::test]
async fn a_reader_that_disconnects_does_not_affect_writes() {
    let server = server();
    let request = http::Request::builder()
        .uri(format!("{PODS}?watch=true&timeoutSeconds=1"))
        .body(Full::<Bytes>::default())
        .unwrap();
    let response = server.clone().oneshot(request).await.unwrap();
    call(&server, "POST", PODS, pod("a")).await;
    drop(response.into_body().collect());
    assert_eq!(get(&server, &format!("{PODS}/a")).await.0, 200, "a closed connection does not stop the server");
}
