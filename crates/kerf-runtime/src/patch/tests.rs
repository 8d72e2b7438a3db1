//! Tests of merge patches and of retries against an overloaded server.

use std::cell::RefCell;

use k8s_openapi::api::core::v1::Node;
use serde_json::json;
use tokio::time::Instant;

use super::*;

#[test]
fn a_merge_patch_contains_only_what_changed() {
    let before = json!({"a": 1, "b": {"c": [1, 2], "d": "x"}, "gone": true});
    let after = json!({"a": 1, "b": {"c": [2], "d": "x"}, "new": {"e": 1}});
    assert_eq!(merge_patch_between(&before, &after), Some(json!({"b": {"c": [2]}, "gone": null, "new": {"e": 1}})));
    assert_eq!(merge_patch_between(&before, &before), None);
    assert_eq!(merge_patch_between(&json!({"a": {"b": 1}}), &json!({"a": 2})), Some(json!({"a": 2})));
}

#[test]
fn object_and_status_are_patched_separately() {
    let node = |label: &str, phase: &str| -> Node {
        serde_json::from_value(json!({"metadata": {"name": "n", "labels": {"l": label}}, "status": {"phase": phase}}))
            .unwrap()
    };
    let (before, after) = (node("1", "Pending"), node("2", "Running"));
    let between = |patch: MergePatch| {
        merge_patch_between(&patch.serialize_target(&before).unwrap(), &patch.serialize_target(&after).unwrap())
    };
    let object = between(MergePatch::OBJECT);
    assert_eq!(object, Some(json!({"metadata": {"labels": {"l": "2"}}})));
    let status = between(MergePatch::STATUS);
    assert_eq!(status, Some(json!({"status": {"phase": "Running"}})));
    let mut locked = status.unwrap();
    set_resource_version(&mut locked, "17");
    assert_eq!(locked, json!({"metadata": {"resourceVersion": "17"}, "status": {"phase": "Running"}}));
}

fn status_error(code: u16, retry_after_seconds: u32) -> kube::Error {
    let status = json!({"code": code, "message": "no", "details": {"retryAfterSeconds": retry_after_seconds}});
    kube::Error::Api(serde_json::from_value(status).unwrap())
}

#[tokio::test(start_paused = true)]
async fn a_call_is_repeated_after_the_delay_that_the_server_requests() {
    let responses = RefCell::new(vec![Ok(7), Err(status_error(503, 2)), Err(status_error(429, 1))]);
    let start = Instant::now();
    let result = with_retries(|| std::future::ready(responses.borrow_mut().pop().unwrap())).await;
    assert_eq!(result.unwrap(), 7);
    assert_eq!(start.elapsed(), Duration::from_secs(3));
}

#[tokio::test(start_paused = true)]
async fn retries_and_waiting_time_of_a_call_are_bounded() {
    let calls = RefCell::new(0);
    let busy = with_retries(|| {
        *calls.borrow_mut() += 1;
        std::future::ready(Err::<(), _>(status_error(429, 0)))
    });
    assert!(matches!(busy.await, Err(ApiError::Other(_))));
    assert_eq!(*calls.borrow(), 4);
    assert!(matches!(with_retries(std::future::pending::<Result<(), _>>).await, Err(ApiError::TimedOut)));
}

#[tokio::test]
async fn each_status_code_maps_to_its_error_variant() {
    let error_for =
        async |code| with_retries(|| std::future::ready(Err::<(), _>(status_error(code, 0)))).await.unwrap_err();
    assert!(matches!(error_for(404).await, ApiError::NotFound));
    assert!(matches!(error_for(409).await, ApiError::Conflict));
    assert!(matches!(error_for(500).await, ApiError::Other(_)));
    assert!(
        matches!(error_for(503).await, ApiError::Other(_)),
        "without `Retry-After` the server may have executed the request"
    );
}
