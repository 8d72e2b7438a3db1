//! Tests against a server with scripted responses. The tests of `kerf-controllers` run watches
//! against an API server.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on should stop there")]

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use kube::client::Body;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::*;

const KIND: WatchedKind = WatchedKind { group: "x.io", version: "v1", plural: "things", name: "Thing" };

#[derive(Debug, Deserialize, PartialEq, Clone)]
struct Thing {
    size: u32,
}

/// Server that returns its responses in order and records the query of each request.
#[derive(Clone, Default)]
struct ScriptedServer {
    responses: Arc<Mutex<VecDeque<(u16, String)>>>,
    queries: Arc<Mutex<Vec<String>>>,
}

impl ScriptedServer {
    fn new(answers: Vec<(u16, String)>) -> Self {
        Self { responses: Arc::new(Mutex::new(answers.into())), queries: Arc::default() }
    }

    fn client(&self) -> Client {
        let script = self.clone();
        let service = tower::service_fn(move |request: http::Request<Body>| {
            let (_, query) = request.uri().path_and_query().unwrap().as_str().split_once('?').unwrap();
            let asked: Vec<&str> = query.split('&').filter(|pair| !pair.starts_with("timeout")).collect();
            script.queries.lock().unwrap().push(asked.join("&"));
            let answer = script.responses.lock().unwrap().pop_front();
            async move {
                let Some((code, text)) = answer else { return std::future::pending().await };
                Ok::<_, std::convert::Infallible>(
                    http::Response::builder().status(code).body(Body::from(text.into_bytes())).unwrap(),
                )
            }
        });
        Client::new(service, "default")
    }
}

fn thing(name: &str, version: u32, size: Value) -> Value {
    json!({"metadata": {"name": name, "resourceVersion": version.to_string()}, "size": size})
}

fn page(version: u32, rest: &str, items: &[Value]) -> (u16, String) {
    (200, json!({"metadata": {"resourceVersion": version.to_string(), "continue": rest}, "items": items}).to_string())
}

fn changes(events: &[(&str, Value)]) -> (u16, String) {
    // `type` comes first, as servers write it; `json!` would sort the two keys.
    let lines: Vec<String> =
        events.iter().map(|(kind, object)| format!("{{\"type\":\"{kind}\",\"object\":{object}}}\n")).collect();
    (200, lines.concat())
}

/// Builds watch lines in which `object` precedes `type`.
fn changes_object_first(events: &[(&str, Value)]) -> (u16, String) {
    let lines: Vec<String> =
        events.iter().map(|(kind, object)| format!("{{\"object\":{object},\"type\":\"{kind}\"}}\n")).collect();
    (200, lines.concat())
}

fn status_response(code: u16) -> (u16, String) {
    (code, status(code).to_string())
}

fn status(code: u16) -> Value {
    json!({"kind": "Status", "status": "Failure", "code": code, "message": "no", "reason": "no"})
}

/// Runs a watch against the scripted responses. Returns its updates, the queries, the time of the
/// last update, and the progress.
async fn run_watch(answers: Vec<(u16, String)>) -> (Vec<WatchUpdate<Thing>>, Vec<String>, Duration, WatchProgress) {
    let script = ScriptedServer::new(answers);
    let mut events = Vec::new();
    let start = Instant::now();
    let mut end = Duration::ZERO;
    let (outside, work) = watch(script.client(), WatchSettings::new(KIND, 1), |event| {
        events.push(event);
        end = start.elapsed();
    });
    assert!(tokio::time::timeout(Duration::from_mins(2), work).await.is_err(), "a watch never ends");
    (events, script.queries.lock().unwrap().clone(), end, outside.progress())
}

#[tokio::test(start_paused = true)]
async fn a_list_comes_in_pages_and_is_told_whole() {
    let (events, asked, _, progress) = run_watch(vec![
        page(9, "a b", &[thing("a", 1, 1.into())]),
        page(9, "", &[thing("b", 2, 2.into())]),
        changes(&[
            ("ADDED", thing("c", 10, 3.into())),
            ("BOOKMARK", json!({"apiVersion": "x.io/v1", "kind": "Thing", "metadata": {"resourceVersion": "12"}})),
            ("MODIFIED", thing("a", 13, 4.into())),
            ("DELETED", thing("b", 14, 2.into())),
        ]),
    ])
    .await;
    assert_eq!(
        events,
        [
            WatchUpdate::Reset(vec![Thing { size: 1 }, Thing { size: 2 }]),
            WatchUpdate::Applied(Thing { size: 3 }),
            WatchUpdate::Applied(Thing { size: 4 }),
            WatchUpdate::Deleted(Thing { size: 2 }),
        ]
    );
    let watched = "watch=true&allowWatchBookmarks=true&resourceVersion";
    assert_eq!(asked, ["limit=500", "limit=500&continue=a%20b", &format!("{watched}=9"), &format!("{watched}=14")]);
    assert_eq!(progress, WatchProgress { phase: WatchPhase::Watching, is_synced: true, version: 14 });
}

/// No server guarantees that the type of a change precedes its object.
#[tokio::test(start_paused = true)]
async fn the_order_in_a_line_does_not_matter() {
    let said = [
        ("ADDED", thing("a", 2, 1.into())),
        ("MODIFIED", thing("a", 3, 2.into())),
        ("BOOKMARK", json!({"metadata": {"resourceVersion": "4"}})),
        ("DELETED", thing("a", 5, 2.into())),
    ];
    for changes in [changes(&said), changes_object_first(&said)] {
        let (events, _, _, progress) = run_watch(vec![page(1, "", &[]), changes]).await;
        let expected = [
            WatchUpdate::Reset(vec![]),
            WatchUpdate::Applied(Thing { size: 1 }),
            WatchUpdate::Applied(Thing { size: 2 }),
            WatchUpdate::Deleted(Thing { size: 2 }),
        ];
        assert_eq!(events, expected);
        assert_eq!(progress.version, 5);
    }
    let gone = changes_object_first(&[("ERROR", status(410))]);
    let (events, ..) = run_watch(vec![page(1, "", &[]), gone, page(7, "", &[thing("a", 3, 5.into())])]).await;
    assert_eq!(events, [WatchUpdate::Reset(vec![]), WatchUpdate::Reset(vec![Thing { size: 5 }])]);
}

/// A line that is not a watch event is a failure, and a line that was cut off by the end of the
/// connection is skipped.
#[tokio::test(start_paused = true)]
async fn lines_that_say_nothing_cost_nothing_but_time() {
    let bare = (200, format!("{}\n", status(410)));
    let (events, ..) = run_watch(vec![page(1, "", &[]), bare, page(7, "", &[])]).await;
    assert_eq!(events, [WatchUpdate::Reset(vec![]), WatchUpdate::Reset(vec![])], "a refusal in place of a change");
    for odd in
        ["{\"type\":\"ADDED\",\"object\":{\"meta", "no json\n", "{\"type\":\"RENAMED\",\"object\":{\"metadata\":{}}}\n"]
    {
        let after = changes(&[("ADDED", thing("a", 2, 1.into()))]);
        let (events, asked, ..) = run_watch(vec![page(1, "", &[]), (200, odd.to_owned()), after]).await;
        assert_eq!(events, [WatchUpdate::Reset(vec![]), WatchUpdate::Applied(Thing { size: 1 })], "{odd}");
        assert!(asked[2].ends_with("resourceVersion=1"), "{asked:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn lost_history_is_a_new_list() {
    for gone in [changes(&[("ERROR", status(410))]), status_response(410)] {
        let (events, ..) = run_watch(vec![page(1, "", &[]), gone, page(7, "", &[thing("a", 3, 5.into())])]).await;
        assert_eq!(events, [WatchUpdate::Reset(vec![]), WatchUpdate::Reset(vec![Thing { size: 5 }])]);
    }
}

#[tokio::test(start_paused = true)]
async fn a_list_whose_rest_is_gone_starts_over() {
    let first = thing("a", 1, 1.into());
    let (events, ..) =
        run_watch(vec![page(1, "t", std::slice::from_ref(&first)), status_response(410), page(2, "", &[first])]).await;
    assert_eq!(events, [WatchUpdate::Reset(vec![Thing { size: 1 }])]);
}

#[tokio::test(start_paused = true)]
async fn errors_back_off_and_the_watch_goes_on_where_it_was() {
    let (events, asked, end, _) = run_watch(vec![
        status_response(500),
        status_response(500),
        page(1, "", &[]),
        changes(&[("ADDED", thing("a", 5, 1.into())), ("ERROR", status(500))]),
        changes(&[("ADDED", thing("b", 6, 2.into()))]),
    ])
    .await;
    assert_eq!(events.len(), 3);
    assert!(asked[4].contains("resourceVersion=5"), "{asked:?}");
    // Delays of 0.8, 1.6 and 0.8 seconds, each with jitter of up to 50%.
    assert!((3.2..4.8).contains(&end.as_secs_f64()), "{end:?}");
}

#[tokio::test(start_paused = true)]
async fn a_kind_that_is_not_installed_is_waited_for() {
    let mut answers = vec![status_response(404); 30];
    answers.push(page(1, "", &[thing("a", 1, 1.into())]));
    let (events, _, end, progress) = run_watch(answers).await;
    assert_eq!(events, [WatchUpdate::Reset(vec![]), WatchUpdate::Reset(vec![Thing { size: 1 }])]);
    assert!(end < Duration::from_secs(50), "it is found within two seconds of its arrival: {end:?}");
    assert!(progress.is_synced);
    let (_, _, _, progress) = run_watch(vec![status_response(404); 500]).await;
    assert_eq!((progress.phase, progress.is_synced), (WatchPhase::NotInstalled, false));
}

#[tokio::test(start_paused = true)]
async fn an_object_that_cannot_be_read_spoils_nothing() {
    let (events, _, _, progress) = run_watch(vec![
        page(1, "", &[thing("bad", 1, "x".into()), thing("good", 1, 1.into())]),
        changes(&[("ADDED", thing("bad", 2, "y".into())), ("ADDED", thing("good", 3, 2.into()))]),
    ])
    .await;
    assert_eq!(events, [WatchUpdate::Reset(vec![Thing { size: 1 }]), WatchUpdate::Applied(Thing { size: 2 })]);
    assert_eq!(progress.version, 3);
}

#[tokio::test(start_paused = true)]
async fn whoever_waits_for_a_version_hears_of_it() {
    let script = ScriptedServer::new(vec![page(3, "", &[]), changes(&[("ADDED", thing("a", 5, 1.into()))])]);
    let (mut outside, work) = watch(script.client(), WatchSettings::new(KIND, 1), |_: WatchUpdate<Thing>| {});
    assert!(!outside.progress().is_synced);
    let wait = async {
        outside.wait_until_synced().await;
        outside.wait_for_version("5").await;
        outside.wait_for_version("no number").await;
        outside.progress().version
    };
    tokio::select! {
        () = work => unreachable!("a watch never ends"),
        version = wait => assert_eq!(version, 5),
    }
}
