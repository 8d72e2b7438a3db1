//! Injected faults of requests, and the audit of writes.

use std::time::Duration;

use kerf_sandbox::{Fault, FaultRule, Verb};
use serde_json::{Value, json};
use tower::ServiceExt as _;

use crate::raw::{PODS, call, get, pod, server};

fn always(fault: Fault, verb: Verb) -> Vec<FaultRule> {
    vec![FaultRule { verbs: vec![verb], ..FaultRule::new(fault, 1_000_000) }]
}

#[tokio::test]
async fn injected_errors_have_no_effect_and_set_retry_after() {
    let server = server();
    for (fault, code, seconds) in [
        (Fault::InternalError, 500, Value::Null),
        (Fault::Unavailable { retry_after_seconds: 3 }, 503, json!(3)),
        (Fault::TooManyRequests { retry_after_seconds: 1 }, 429, json!(1)),
    ] {
        server.set_faults(always(fault, Verb::Create), 1);
        let (actual, status) = call(&server, "POST", PODS, pod("a")).await;
        assert_eq!((actual, &status["details"]["retryAfterSeconds"]), (code, &seconds));
        assert_eq!(get(&server, &format!("{PODS}/a")).await.0, 404, "nothing was done");
    }
    server.set_faults(Vec::new(), 0);
    assert_eq!(call(&server, "POST", PODS, pod("a")).await.0, 201);
}

#[tokio::test]
async fn a_write_with_a_lost_response_takes_effect() {
    let server = server();
    server.set_faults(always(Fault::LostResponse, Verb::Create), 1);
    let request = http::Request::post(PODS).header("content-type", "application/json");
    let body = http_body_util::Full::new(bytes::Bytes::from(pod("a").to_string()));
    assert!(server.clone().oneshot(request.body(body).unwrap()).await.is_err(), "the connection breaks");
    server.set_faults(Vec::new(), 0);
    assert_eq!(get(&server, &format!("{PODS}/a")).await.0, 200);
}

#[tokio::test]
async fn a_stale_read_returns_an_earlier_state() {
    let server = server();
    call(&server, "POST", PODS, pod("a")).await;
    call(&server, "POST", PODS, pod("b")).await;
    server.set_faults(always(Fault::StaleRead { revisions: 1 }, Verb::List), 1);
    assert_eq!(get(&server, PODS).await.1["items"].as_array().unwrap().len(), 1);
    server.set_faults(always(Fault::StaleRead { revisions: 1 }, Verb::Get), 1);
    assert_eq!(get(&server, &format!("{PODS}/b")).await.0, 404);
    assert_eq!(get(&server, &format!("{PODS}/a")).await.0, 200);
}

#[tokio::test(start_paused = true)]
async fn slow_responses_take_virtual_time() {
    let server = server();
    server.set_faults(always(Fault::Slow { by: Duration::from_secs(30) }, Verb::Get), 1);
    get(&server, &format!("{PODS}/a")).await;
    assert_eq!(server.clock().elapsed(), Duration::from_secs(30));
}

#[tokio::test]
async fn writes_are_audited_only_after_start_audit() {
    let server = server();
    call(&server, "POST", PODS, pod("unseen")).await;
    assert!(server.take_audit().is_empty());
    server.start_audit();
    call(&server, "POST", PODS, pod("a")).await;
    get(&server, PODS).await;
    call(&server, "DELETE", &format!("{PODS}/zz"), Value::Null).await;
    let writes: Vec<String> = server
        .take_audit()
        .iter()
        .map(|write| {
            format!("{} {} {} {} {}", write.user_agent, write.verb.name(), write.resource, write.name, write.code)
        })
        .collect();
    assert_eq!(writes, ["test/1.0 create pods  201", "test/1.0 delete pods zz 404"]);
}
