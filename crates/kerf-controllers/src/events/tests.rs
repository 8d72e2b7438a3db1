//! How often the Events of long-lasting situations are written.

use kerf_operator::Recorder;
use kerf_runtime::Clock;
use kerf_sandbox::{ApiServer, ApiServerConfig};
use kube::api::{Api, ListParams};
use serde_json::json;

use super::*;

// spec 07 #32
#[tokio::test(start_paused = true)]
async fn some_events_have_a_longer_dedupe_timeout() {
    let pod: Pod =
        serde_json::from_value(json!({"metadata": {"name": "p", "namespace": "default", "uid": "u"}})).unwrap();
    let node: Node = serde_json::from_value(json!({"metadata": {"name": "n", "uid": "v"}})).unwrap();
    let clock = Clock::starting_at("2026-01-01T12:00:00Z".parse().unwrap());
    let server = ApiServer::new(ApiServerConfig::new(clock, 1));
    let recorder = std::sync::Arc::new(Recorder::new(server.client_as("karpenter"), clock, 1));
    let mut writer = tokio::task::JoinSet::new();
    let writing = recorder.clone();
    writer.spawn(async move { writing.run().await });
    for minutes in 0..30 {
        // The messages differ, but the de-duplication values are equal.
        let numbered = |event: Event| Event { message: format!("{} {minutes}", event.message), ..event };
        for event in [
            failed_scheduling(&pod, "no capacity"),
            node_repair_blocked(node_reference(&node), "more than 20% nodes are unhealthy in the nodepool"),
            disruption::unconsolidatable(node_reference(&node), "too expensive".to_owned()),
        ] {
            recorder.publish(numbered(event));
        }
        tokio::time::advance(Duration::from_mins(1)).await;
    }
    tokio::time::sleep(Duration::from_millis(100)).await;
    let api: Api<k8s_openapi::api::core::v1::Event> = Api::all(server.client());
    let written = api.list(&ListParams::default()).await.unwrap().items;
    let count = |words: &str| written.iter().filter(|event| event.message.as_deref().unwrap().contains(words)).count();
    assert_eq!((count("no capacity"), count("20%"), count("expensive")), (6, 2, 2), "{written:#?}");
}

// spec 04 #43, spec 10 #102 (the text only; a sandbox test covers the condition)
#[test]
fn long_texts_are_cut_at_1024_bytes() {
    assert_eq!(truncated(&"x".repeat(1024)), "x".repeat(1024));
    assert_eq!(truncated(&"x".repeat(2000)), format!("{}...", "x".repeat(1021)));
    assert_eq!(truncated(&"é".repeat(1000)), format!("{}...", "é".repeat(510)));
    assert_eq!(truncated(&format!("x{}", "é".repeat(1000))), format!("x{}...", "é".repeat(510)));
}
