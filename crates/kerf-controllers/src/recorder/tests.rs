//! Which events are written, which are counted on an older one, and which are held back (spec 07 §6).

#![allow(clippy::unwrap_used, reason = "a test that cannot go on should stop there")]

use std::time::Duration;

use k8s_openapi::api::core::v1::ObjectReference;
use kerf_sandbox::{ApiServer, Config};

use super::*;

fn event(object: &str, message: &str) -> Event {
    Event {
        about: ObjectReference {
            api_version: Some("v1".into()),
            kind: Some("Node".into()),
            name: Some(object.into()),
            ..ObjectReference::default()
        },
        severity: Severity::Warning,
        reason: "FailedDraining".into(),
        message: message.to_owned(),
        told_apart_by: vec![object.to_owned()],
        window: Duration::from_mins(2),
        is_rate_limited: false,
    }
}

struct World {
    server: ApiServer,
    recorder: std::sync::Arc<Recorder>,
    _running: tokio::task::JoinSet<()>,
}

/// A recorder at work on a server.
fn world() -> World {
    let clock = Clock::starting_at("2026-01-01T12:00:00Z".parse().unwrap());
    let server = ApiServer::new(Config::new(clock, 1));
    let recorder = std::sync::Arc::new(Recorder::new(server.client_as("karpenter"), clock, 1));
    let mut running = tokio::task::JoinSet::new();
    let working = recorder.clone();
    running.spawn(async move { working.run().await });
    World { server, recorder, _running: running }
}

impl World {
    /// The events that there are: object, message, count; in the order in which they were made.
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
async fn what_was_said_is_not_said_again_for_a_while() {
    let world = world();
    for _ in 0..100 {
        world.recorder.publish(event("a", "one"));
    }
    assert_eq!(world.written().await, [("a".into(), "one".into(), 1)]);
    for i in 0..20 {
        world.recorder.publish(event(&format!("n{i}"), "one"));
    }
    assert_eq!(world.written().await.len(), 21, "another object is another event");
    let short = || Event { window: Duration::from_secs(2), ..event("b", "one") };
    world.recorder.publish(short());
    tokio::time::advance(Duration::from_secs(3)).await;
    world.recorder.publish(short());
    let written = world.written().await;
    assert!(written.contains(&("b".into(), "one".into(), 2)), "{written:?}");
}

// spec 07 #31
#[tokio::test(start_paused = true)]
async fn crowds_are_thinned() {
    let world = world();
    let crowd = |i: usize| Event { is_rate_limited: true, ..event(&format!("p{i}"), "nominated") };
    for i in 0..100 {
        world.recorder.publish(crowd(i));
    }
    assert_eq!(world.written().await.len(), 10);
    tokio::time::advance(Duration::from_mins(1)).await;
    for second in 0..3 {
        for i in 0..5 {
            world.recorder.publish(crowd(1000 + second * 5 + i));
        }
        tokio::time::advance(Duration::from_secs(1)).await;
    }
    assert_eq!(world.written().await.len(), 25, "five a second are all told");
}

#[tokio::test(start_paused = true)]
async fn similar_events_are_combined_and_a_loud_object_is_cut_short() {
    let world = world();
    let loud = |i: usize| Event { told_apart_by: Vec::new(), ..event("a", &format!("message {i}")) };
    for i in 0..60 {
        world.recorder.publish(loud(i));
    }
    let written = world.written().await;
    let combined: Vec<_> =
        written.iter().filter(|(_, message, _)| message.starts_with("(combined from similar events): ")).collect();
    assert_eq!(written.len(), 11, "{written:?}");
    assert_eq!(combined.len(), 1);
    assert_eq!(combined[0].2, 15, "25 in all: ten of their own, fifteen in one");
    world.recorder.publish(event("b", "quiet"));
    assert_eq!(world.written().await.len(), 12, "others are not kept from speaking");
}

// spec 07 §5: where events of objects without a namespace live, and who says them.
#[tokio::test(start_paused = true)]
async fn events_of_cluster_scoped_objects_live_in_default() {
    let world = world();
    world.recorder.publish(event("a", "one"));
    world.written().await;
    let api: Api<core::Event> = Api::namespaced(world.server.client(), "default");
    let found = api.list(&kube::api::ListParams::default()).await.unwrap().items.remove(0);
    assert_eq!(found.source.unwrap().component.unwrap(), "karpenter");
    assert_eq!(found.reporting_component.unwrap(), "karpenter");
    assert_eq!(found.type_.unwrap(), "Warning");
}
