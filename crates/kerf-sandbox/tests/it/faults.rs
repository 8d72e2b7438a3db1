//! Injected faults of requests, and the audit of writes.

use std::time::Duration;

use http_body_util::BodyExt as _;
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

#[tokio::test(start_paused = true)]
async fn a_request_without_a_response_waits_for_ever_and_has_no_effect() {
    let server = server();
    server.set_faults(always(Fault::NoResponse, Verb::Create), 1);
    let create = call(&server, "POST", PODS, pod("a"));
    assert!(tokio::time::timeout(Duration::from_hours(24), create).await.is_err());
    assert_eq!(get(&server, &format!("{PODS}/a")).await.0, 404);
}

#[tokio::test(start_paused = true)]
async fn a_silent_watch_delivers_nothing_and_does_not_end() {
    let server = server();
    server.set_faults(always(Fault::SilentWatch { after: Duration::from_secs(90) }, Verb::Watch), 1);
    let path = format!("{PODS}?watch=true&resourceVersion=0&timeoutSeconds=300&allowWatchBookmarks=true");
    let body = http_body_util::Full::new(bytes::Bytes::new());
    let response = server.clone().oneshot(http::Request::get(path).body(body).unwrap()).await.unwrap();
    let mut watch = response.into_body();
    let mut next = async || {
        let frame = tokio::time::timeout(Duration::from_hours(1), watch.frame()).await.ok()??;
        Some(String::from_utf8(frame.unwrap().into_data().unwrap().to_vec()).unwrap())
    };
    call(&server, "POST", PODS, pod("a")).await;
    assert!(next().await.unwrap().contains("ADDED"));
    assert!(next().await.unwrap().contains("BOOKMARK"), "after a minute");
    tokio::time::sleep(Duration::from_secs(31)).await;
    call(&server, "POST", PODS, pod("b")).await;
    assert_eq!(next().await, None, "neither an event nor the end after 300 seconds");
}

#[tokio::test]
async fn pods_get_the_requests_of_limit_ranges_and_pods_outside_the_bounds_are_rejected() {
    let server = server();
    let limits = json!([{"type": "Container", "defaultRequest": {"cpu": "2"}, "max": {"cpu": "3"}}]);
    let range = json!({"metadata": {"name": "range"}, "spec": {"limits": limits}});
    assert_eq!(call(&server, "POST", "/api/v1/namespaces/default/limitranges", range).await.0, 201);
    let mut large = pod("large");
    large["spec"]["containers"][0]["resources"] = json!({"requests": {"cpu": "4"}, "limits": {"cpu": "4"}});
    let (code, status) = call(&server, "POST", PODS, large).await;
    assert_eq!(
        (code, status["message"].as_str().unwrap()),
        (403, "pods \"large\" is forbidden: maximum cpu usage per Container is 3, but limit is 4")
    );
    let mut small = pod("small");
    small["spec"]["containers"][0].as_object_mut().unwrap().remove("resources");
    let (code, created) = call(&server, "POST", PODS, small).await;
    assert_eq!(code, 201, "{created}");
    let resources = json!({"requests": {"cpu": "2"}, "limits": {"cpu": "3"}});
    assert_eq!(created["spec"]["containers"][0]["resources"], resources);
    assert_eq!(
        created["metadata"]["annotations"]["kubernetes.io/limit-ranger"],
        "LimitRanger plugin set: cpu request for container c; cpu limit for container c"
    );
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
