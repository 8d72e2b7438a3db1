//! Which Events are written, which raise the count of an earlier one, and which are dropped (spec
//! 07 §5 and §8.1).

use std::time::Duration;

use k8s_openapi::api::core::v1::ObjectReference;
use kerf_sandbox::{ApiServer, ApiServerConfig};

use super::*;
use crate::logs::{Level, LineFormat, capturing_subscriber};

fn event(object: &str, message: &str) -> Event {
    Event {
        involved_object: ObjectReference {
            api_version: Some("v1".into()),
            kind: Some("Node".into()),
            name: Some(object.into()),
            ..ObjectReference::default()
        },
        event_type: EventType::Warning,
        reason: "FailedDraining".into(),
        message: message.to_owned(),
        dedupe_values: vec![object.to_owned()],
        dedupe_timeout: Duration::from_mins(2),
        is_rate_limited: false,
    }
}

struct RecorderTest {
    server: ApiServer,
    recorder: std::sync::Arc<Recorder>,
    _running: tokio::task::JoinSet<()>,
}

/// Starts a recorder that writes to a new API server.
fn start_recorder() -> RecorderTest {
    let clock = Clock::starting_at("2026-01-01T12:00:00Z".parse().unwrap());
    let server = ApiServer::new(ApiServerConfig::new(clock, 1));
    let recorder = std::sync::Arc::new(Recorder::new(server.client_as("karpenter"), clock, 1));
    let mut running = tokio::task::JoinSet::new();
    let working = recorder.clone();
    running.spawn(async move { working.run().await });
    RecorderTest { server, recorder, _running: running }
}

impl RecorderTest {
    /// Returns object, message and count of all Events, in order of creation.
    async fn written(&self) -> Vec<(String, String, i32)> {
        tokio::time::sleep(Duration::from_millis(100)).await;
        let api: Api<core::Event> = Api::all(self.server.client());
        let mut events = api.list(&kube::api::ListParams::default()).await.unwrap().items;
        events.sort_by_key(|event| {
            let version = event.metadata.resource_version.clone().unwrap();
            (event.first_timestamp.clone(), event.involved_object.name.clone(), version)
        });
        events.into_iter().map(|e| (e.involved_object.name.unwrap(), e.message.unwrap(), e.count.unwrap())).collect()
    }
}

// spec 07 #29 and #30
#[tokio::test(start_paused = true)]
async fn an_equal_event_is_dropped_until_the_dedupe_timeout() {
    let test = start_recorder();
    for _ in 0..100 {
        test.recorder.publish(event("a", "one"));
    }
    assert_eq!(test.written().await, [("a".into(), "one".into(), 1)]);
    for i in 0..20 {
        test.recorder.publish(event(&format!("n{i}"), "one"));
    }
    assert_eq!(test.written().await.len(), 21, "equal Events of different objects are different");
    let short = || Event { dedupe_timeout: Duration::from_secs(2), ..event("b", "one") };
    test.recorder.publish(short());
    tokio::time::advance(Duration::from_secs(3)).await;
    test.recorder.publish(short());
    let written = test.written().await;
    assert!(written.contains(&("b".into(), "one".into(), 2)), "{written:?}");
}

// spec 07 #31
#[tokio::test(start_paused = true)]
async fn rate_limited_events_share_a_token_bucket() {
    let test = start_recorder();
    let rate_limited = |i: usize| Event { is_rate_limited: true, ..event(&format!("p{i}"), "nominated") };
    for i in 0..100 {
        test.recorder.publish(rate_limited(i));
    }
    assert_eq!(test.written().await.len(), 10);
    tokio::time::advance(Duration::from_mins(1)).await;
    for second in 0..3 {
        for i in 0..5 {
            test.recorder.publish(rate_limited(1000 + second * 5 + i));
        }
        tokio::time::advance(Duration::from_secs(1)).await;
    }
    assert_eq!(test.written().await.len(), 25, "five Events per second are all published");
}

#[tokio::test(start_paused = true)]
async fn similar_events_are_combined_and_one_object_is_rate_limited() {
    let test = start_recorder();
    let varied = |i: usize| Event { dedupe_values: Vec::new(), ..event("a", &format!("message {i}")) };
    for i in 0..60 {
        test.recorder.publish(varied(i));
    }
    let written = test.written().await;
    let combined: Vec<_> =
        written.iter().filter(|(_, message, _)| message.starts_with("(combined from similar events): ")).collect();
    assert_eq!(written.len(), 11, "{written:?}");
    assert_eq!(combined.len(), 1);
    assert_eq!(combined[0].2, 15, "25 Events are published: ten separate, fifteen combined");
    test.recorder.publish(event("b", "quiet"));
    assert_eq!(test.written().await.len(), 12, "Events of other objects are not limited");
}

// spec 07 §5: namespace and component of Events of cluster-scoped objects.
#[tokio::test(start_paused = true)]
async fn events_of_cluster_scoped_objects_are_in_namespace_default() {
    let test = start_recorder();
    test.recorder.publish(event("a", "one"));
    test.written().await;
    let api: Api<core::Event> = Api::namespaced(test.server.client(), "default");
    let event_object = api.list(&kube::api::ListParams::default()).await.unwrap().items.remove(0);
    assert_eq!(event_object.source.unwrap().component.unwrap(), "karpenter");
    assert_eq!(event_object.reporting_component.unwrap(), "karpenter");
    assert_eq!(event_object.type_.unwrap(), "Warning");
}

/// Expired keys are removed, and only when the number of keys has doubled.
#[tokio::test(start_paused = true)]
async fn expired_keys_are_removed_when_the_number_of_keys_has_doubled() {
    let test = start_recorder();
    let keys = || {
        let dedupe = test.recorder.dedupe.lock().unwrap();
        (dedupe.suppressed_until.len(), dedupe.cleanup_at_len)
    };
    for i in 0..3 * DEDUPE_KEYS_MIN {
        test.recorder.publish(event(&format!("n{i}"), "one"));
    }
    assert_eq!(
        keys(),
        (3 * DEDUPE_KEYS_MIN, 4 * DEDUPE_KEYS_MIN),
        "the cleanup waits for twice the number of keys that the last one kept"
    );
    tokio::time::advance(Duration::from_mins(3)).await;
    for i in 0..DEDUPE_KEYS_MIN {
        test.recorder.publish(event(&format!("m{i}"), "one"));
    }
    assert_eq!(keys().0, 4 * DEDUPE_KEYS_MIN, "the number of keys has not doubled yet");
    test.recorder.publish(event("last", "one"));
    assert_eq!(keys(), (DEDUPE_KEYS_MIN + 1, 2 * DEDUPE_KEYS_MIN), "expired keys are removed");
}

// spec 07 #28
#[tokio::test(start_paused = true)]
async fn nothing_is_logged_for_an_event() {
    let (subscriber, lines) = capturing_subscriber(Level::Debug, LineFormat::Json);
    let _log = tracing::subscriber::set_default(subscriber);
    let test = start_recorder();
    tracing::info!("this is kept");
    for i in 0..30 {
        test.recorder.publish(event(&format!("n{i}"), "one"));
    }
    assert_eq!(test.written().await.len(), 30);
    let text = lines.text();
    assert!(text.lines().count() == 1 && text.contains("this is kept"), "{text}");
}
