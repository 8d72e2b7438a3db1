//! Tests against a server with scripted responses. The tests of `kerf-controllers` run watches
//! against an API server.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use futures::StreamExt as _;
use http_body::Frame;
use http_body_util::{BodyExt as _, StreamBody};
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
    fn new(responses: Vec<(u16, String)>) -> Self {
        Self { responses: Arc::new(Mutex::new(responses.into())), queries: Arc::default() }
    }

    fn client(&self) -> Client {
        let server = self.clone();
        let service = tower::service_fn(move |request: http::Request<Body>| {
            let (_, query) = request.uri().path_and_query().unwrap().as_str().split_once('?').unwrap();
            let pairs: Vec<&str> = query.split('&').filter(|pair| !pair.starts_with("timeout")).collect();
            server.queries.lock().unwrap().push(pairs.join("&"));
            let response = server.responses.lock().unwrap().pop_front();
            async move {
                let Some((code, text)) = response else { return std::future::pending().await };
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
async fn run_watch(responses: Vec<(u16, String)>) -> (Vec<WatchUpdate<Thing>>, Vec<String>, Duration, WatchProgress) {
    let server = ScriptedServer::new(responses);
    let mut events = Vec::new();
    let start = Instant::now();
    let mut end = Duration::ZERO;
    let (handle, work) = watch(server.client(), WatchSettings::new(KIND, 1), |event| {
        events.push(event);
        end = start.elapsed();
    });
    assert!(tokio::time::timeout(Duration::from_mins(2), work).await.is_err(), "a watch never ends");
    (events, server.queries.lock().unwrap().clone(), end, handle.progress())
}

#[tokio::test(start_paused = true)]
async fn a_list_is_read_in_pages_and_delivered_as_a_whole() {
    let (events, queries, _, progress) = run_watch(vec![
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
    let watch_query = "watch=true&allowWatchBookmarks=true&resourceVersion";
    assert_eq!(
        queries[..4],
        ["limit=500", "limit=500&continue=a%20b", &format!("{watch_query}=9"), &format!("{watch_query}=14")]
    );
    assert_eq!((progress.phase, progress.is_synced, progress.version), (WatchPhase::Watching, true, 14));
}

/// No server guarantees that the type of a change precedes its object.
#[tokio::test(start_paused = true)]
async fn the_order_of_keys_in_a_watch_line_does_not_matter() {
    let events = [
        ("ADDED", thing("a", 2, 1.into())),
        ("MODIFIED", thing("a", 3, 2.into())),
        ("BOOKMARK", json!({"metadata": {"resourceVersion": "4"}})),
        ("DELETED", thing("a", 5, 2.into())),
    ];
    for changes in [changes(&events), changes_object_first(&events)] {
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
    let expired = changes_object_first(&[("ERROR", status(410))]);
    let (events, ..) = run_watch(vec![page(1, "", &[]), expired, page(7, "", &[thing("a", 3, 5.into())])]).await;
    assert_eq!(events, [WatchUpdate::Reset(vec![]), WatchUpdate::Reset(vec![Thing { size: 5 }])]);
}

/// A line that is not a watch event is a failure, and a line that was cut off by the end of the
/// connection is skipped.
#[tokio::test(start_paused = true)]
async fn lines_that_are_no_events_lose_no_changes() {
    let bare = (200, format!("{}\n", status(410)));
    let (events, ..) = run_watch(vec![page(1, "", &[]), bare, page(7, "", &[])]).await;
    assert_eq!(events, [WatchUpdate::Reset(vec![]), WatchUpdate::Reset(vec![])], "an error in place of a change");
    for line in
        ["{\"type\":\"ADDED\",\"object\":{\"meta", "no json\n", "{\"type\":\"RENAMED\",\"object\":{\"metadata\":{}}}\n"]
    {
        let next_changes = changes(&[("ADDED", thing("a", 2, 1.into()))]);
        let (events, queries, ..) = run_watch(vec![page(1, "", &[]), (200, line.to_owned()), next_changes]).await;
        assert_eq!(events, [WatchUpdate::Reset(vec![]), WatchUpdate::Applied(Thing { size: 1 })], "{line}");
        assert!(queries[2].ends_with("resourceVersion=1"), "{queries:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_lost_history_causes_a_new_list() {
    for expired in [changes(&[("ERROR", status(410))]), status_response(410)] {
        let (events, ..) = run_watch(vec![page(1, "", &[]), expired, page(7, "", &[thing("a", 3, 5.into())])]).await;
        assert_eq!(events, [WatchUpdate::Reset(vec![]), WatchUpdate::Reset(vec![Thing { size: 5 }])]);
    }
}

#[tokio::test(start_paused = true)]
async fn a_list_whose_continue_token_expired_starts_over() {
    let first = thing("a", 1, 1.into());
    let (events, ..) =
        run_watch(vec![page(1, "t", std::slice::from_ref(&first)), status_response(410), page(2, "", &[first])]).await;
    assert_eq!(events, [WatchUpdate::Reset(vec![Thing { size: 1 }])]);
}

#[tokio::test(start_paused = true)]
async fn errors_back_off_and_the_watch_resumes_at_its_version() {
    let (events, queries, end, _) = run_watch(vec![
        status_response(500),
        status_response(500),
        page(1, "", &[]),
        changes(&[("ADDED", thing("a", 5, 1.into())), ("ERROR", status(500))]),
        changes(&[("ADDED", thing("b", 6, 2.into()))]),
    ])
    .await;
    assert_eq!(events.len(), 3);
    assert!(queries[4].contains("resourceVersion=5"), "{queries:?}");
    // Delays of 0.8, 1.6 and 0.8 seconds, each with jitter of up to 50%.
    assert!((3.2..4.8).contains(&end.as_secs_f64()), "{end:?}");
}

#[tokio::test(start_paused = true)]
async fn the_watch_waits_for_a_kind_that_is_not_installed() {
    let mut responses = vec![status_response(404); 30];
    responses.push(page(1, "", &[thing("a", 1, 1.into())]));
    let (events, _, end, progress) = run_watch(responses).await;
    assert_eq!(events, [WatchUpdate::Reset(vec![]), WatchUpdate::Reset(vec![Thing { size: 1 }])]);
    assert!(end < Duration::from_secs(50), "the kind is found within two seconds of its installation: {end:?}");
    assert!(progress.is_synced);
    let (_, _, _, progress) = run_watch(vec![status_response(404); 500]).await;
    assert_eq!((progress.phase, progress.is_synced), (WatchPhase::NotInstalled, false));
}

#[tokio::test(start_paused = true)]
async fn an_object_that_cannot_be_decoded_affects_no_other_object() {
    let (events, _, _, progress) = run_watch(vec![
        page(1, "", &[thing("bad", 1, "x".into()), thing("good", 1, 1.into())]),
        changes(&[("ADDED", thing("bad", 2, "y".into())), ("ADDED", thing("good", 3, 2.into()))]),
    ])
    .await;
    assert_eq!(events, [WatchUpdate::Reset(vec![Thing { size: 1 }]), WatchUpdate::Applied(Thing { size: 2 })]);
    assert_eq!(progress.version, 3);
}

#[tokio::test(start_paused = true)]
async fn the_handle_reports_the_first_list_and_each_later_version() {
    let server = ScriptedServer::new(vec![page(3, "", &[]), changes(&[("ADDED", thing("a", 5, 1.into()))])]);
    let (mut handle, work) = watch(server.client(), WatchSettings::new(KIND, 1), |_: WatchUpdate<Thing>| {});
    assert!(!handle.progress().is_synced);
    let wait = async {
        handle.wait_until_synced().await;
        while handle.progress().version < 5 {
            handle.changed().await;
        }
        handle.progress().version
    };
    tokio::select! {
        () = work => unreachable!("a watch never ends"),
        version = wait => assert_eq!(version, 5),
    }
}

/// Builds a server whose response bodies or heads may never end.
fn hanging_client(responses: Vec<HangingResponse>) -> (Client, Arc<Mutex<Vec<String>>>) {
    let responses = Arc::new(Mutex::new(VecDeque::from(responses)));
    let queries: Arc<Mutex<Vec<String>>> = Arc::default();
    let log = queries.clone();
    let service = tower::service_fn(move |request: http::Request<Body>| {
        let kind = if request.uri().query().unwrap_or_default().contains("watch=true") { "watch" } else { "list" };
        log.lock().unwrap().push(kind.to_owned());
        let response = responses.lock().unwrap().pop_front();
        async move {
            match response {
                Some(HangingResponse::Complete(code, text)) => {
                    let body = StreamBody::new(frames(text)).boxed_unsync();
                    Ok::<_, std::convert::Infallible>(http::Response::builder().status(code).body(body).unwrap())
                }
                Some(HangingResponse::OpenAfter(text)) => {
                    let body = StreamBody::new(frames(text).chain(futures::stream::pending())).boxed_unsync();
                    Ok(http::Response::new(body))
                }
                Some(HangingResponse::NoAnswer) | None => std::future::pending().await,
            }
        }
    });
    (Client::new(service, "default"), queries)
}

/// Returns a body of one frame.
fn frames(text: String) -> impl futures::Stream<Item = Result<Frame<Bytes>, std::io::Error>> + Send {
    futures::stream::iter([Ok(Frame::data(Bytes::from(text)))])
}

enum HangingResponse {
    /// A complete response.
    Complete(u16, String),
    /// A response whose body never ends after this text.
    OpenAfter(String),
    /// No response at all.
    NoAnswer,
}

fn complete((code, text): (u16, String)) -> HangingResponse {
    HangingResponse::Complete(code, text)
}

#[tokio::test(start_paused = true)]
async fn a_list_without_an_answer_is_repeated_and_the_time_without_answer_is_counted() {
    let (client, queries) = hanging_client(vec![
        HangingResponse::NoAnswer,
        HangingResponse::NoAnswer,
        complete(page(9, "", &[thing("a", 1, 1.into())])),
    ]);
    let updates = std::cell::Cell::new(0);
    let (handle, work) = watch::<Thing, _>(client, WatchSettings::new(KIND, 1), |_| updates.set(updates.get() + 1));
    let mut work = std::pin::pin!(work);
    assert!(tokio::time::timeout(Duration::from_secs(110), work.as_mut()).await.is_err());
    let waiting = handle.progress();
    assert_eq!(waiting.unanswered_for(), Duration::from_secs(110), "nothing has succeeded since the start");
    assert!(tokio::time::timeout(Duration::from_secs(20), work.as_mut()).await.is_err());
    assert_eq!(handle.progress().unanswered_for(), Duration::ZERO, "the third list succeeded");
    assert!(tokio::time::timeout(Duration::from_mins(2), work.as_mut()).await.is_err());
    assert!(handle.progress().unanswered_for() > Duration::from_secs(80), "the watch is never opened");
    assert_eq!(queries.lock().unwrap()[..4], ["list", "list", "list", "watch"]);
    assert_eq!(updates.get(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_watch_that_is_silent_after_a_bookmark_is_reopened_after_two_minutes() {
    let bookmark = changes(&[("BOOKMARK", json!({"metadata": {"resourceVersion": "12"}}))]).1;
    let (client, queries) = hanging_client(vec![
        complete(page(9, "", &[])),
        HangingResponse::OpenAfter(bookmark),
        HangingResponse::OpenAfter(changes(&[("ADDED", thing("c", 13, 3.into()))]).1),
    ]);
    let mut updates = Vec::new();
    let start = Instant::now();
    let (_handle, work) =
        watch::<Thing, _>(client, WatchSettings::new(KIND, 1), |update| updates.push((update, start.elapsed())));
    assert!(tokio::time::timeout(Duration::from_mins(4), work).await.is_err());
    assert_eq!(updates[1], (WatchUpdate::Applied(Thing { size: 3 }), Duration::from_mins(2)));
    assert_eq!(queries.lock().unwrap().len(), 3, "a watch without bookmarks may be silent for longer");
}

#[tokio::test(start_paused = true)]
async fn a_server_that_expires_every_watch_is_not_listed_in_a_busy_loop() {
    let responses =
        (0..1000).flat_map(|_| [complete(page(9, "", &[])), complete(changes(&[("ERROR", status(410))]))]).collect();
    let (client, queries) = hanging_client(responses);
    let (handle, work) = watch::<Thing, _>(client, WatchSettings::new(KIND, 1), |_| {});
    assert!(tokio::time::timeout(Duration::from_mins(1), work).await.is_err());
    let lists = queries.lock().unwrap().iter().filter(|kind| *kind == "list").count();
    assert!((4..=9).contains(&lists), "{lists} lists in a minute");
    assert!(handle.progress().is_synced);
}

// spec 07 #74
#[tokio::test(start_paused = true)]
async fn a_list_is_repeated_on_request_unless_it_is_newer() {
    let open = || HangingResponse::OpenAfter(String::new());
    let second = complete(page(12, "", &[thing("a", 12, 1.into())]));
    let (client, queries) = hanging_client(vec![complete(page(9, "", &[])), open(), second, open()]);
    let (mut handle, work) = watch::<Thing, _>(client, WatchSettings::new(KIND, 1), |_| {});
    let start = Instant::now();
    let requests = async {
        handle.wait_until_synced().await;
        assert!(!handle.is_silent_since(start));
        tokio::time::sleep(Duration::from_mins(1)).await;
        handle.list_since(start).await;
        assert_eq!(handle.progress().version, 9, "the first list is new enough");
        assert!(handle.is_silent_since(Instant::now()));
        handle.list_since(Instant::now()).await;
        assert_eq!(handle.progress().version, 12);
        assert!(!handle.is_silent_since(Instant::now()));
    };
    tokio::select! {
        () = work => unreachable!("a watch never ends"),
        () = requests => {}
    }
    assert_eq!(queries.lock().unwrap()[..3], ["list", "watch", "list"]);
}
