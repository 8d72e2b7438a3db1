//! Single requests and their responses: status codes, reasons and messages.

use serde_json::{Value, json};

use crate::raw::{PODS, call, call_as, get, pod, send, server};

#[tokio::test]
async fn a_created_pod_has_the_defaults_of_a_pod() {
    let server = server();
    let (code, created) = call(&server, "POST", PODS, pod("a")).await;
    assert_eq!(code, 201, "{created}");
    assert_eq!(created["metadata"]["creationTimestamp"], "2026-01-01T12:00:00Z");
    assert_eq!(created["metadata"]["generation"], 1);
    assert_eq!(created["status"], json!({"phase": "Pending", "qosClass": "BestEffort"}));
    assert_eq!(created["spec"]["terminationGracePeriodSeconds"], 30);
    assert_eq!(created["spec"]["tolerations"].as_array().unwrap().len(), 2);
    assert_eq!(created["spec"]["priority"], 0);
    assert_eq!(created["metadata"]["managedFields"][0]["manager"], "test");
    assert_eq!(get(&server, &format!("{PODS}/a")).await, (200, created));
}

#[tokio::test]
async fn errors_are_those_of_the_real_server() {
    let server = server();
    call(&server, "POST", PODS, pod("a")).await;
    let versioned = json!({"metadata": {"name": "b", "resourceVersion": "5"}, "spec": {"containers": [{"name": "c", "image": "x"}]}});
    let unnamed = json!({"metadata": {}, "spec": {"containers": [{"image": "x"}]}});
    for (method, path, body, code, reason, message) in [
        ("POST", PODS.to_string(), pod("a"), 409, "AlreadyExists", "pods \"a\" already exists"),
        ("POST", "/api/v1/namespaces/nope/pods".into(), pod("a"), 404, "NotFound", "namespaces \"nope\" not found"),
        ("POST", PODS.into(), versioned, 500, "", "resourceVersion should not be set on objects to be created"),
        (
            "POST",
            PODS.into(),
            unnamed,
            422,
            "Invalid",
            "Pod \"\" is invalid: [metadata.name: Required value: name or generateName is required, spec.containers[0].name: Required value]",
        ),
        ("GET", format!("{PODS}/zz"), Value::Null, 404, "NotFound", "pods \"zz\" not found"),
        (
            "GET",
            format!("{PODS}/a/foo"),
            Value::Null,
            404,
            "NotFound",
            "the server could not find the requested resource",
        ),
        (
            "GET",
            "/api/v1/foos".into(),
            Value::Null,
            404,
            "NotFound",
            "the server could not find the requested resource",
        ),
        (
            "PUT",
            PODS.into(),
            pod("a"),
            405,
            "MethodNotAllowed",
            "the server does not allow this method on the requested resource",
        ),
        (
            "PUT",
            format!("{PODS}/a"),
            pod("z"),
            400,
            "BadRequest",
            "the name of the object (z) does not match the name on the URL (a)",
        ),
        (
            "GET",
            format!("{PODS}?resourceVersion=99999"),
            Value::Null,
            504,
            "Timeout",
            "Timeout: Too large resource version: 99999, current: 9",
        ),
        (
            "GET",
            format!("{PODS}?fieldSelector=spec.foo%3Db"),
            Value::Null,
            400,
            "BadRequest",
            "field label not supported: spec.foo",
        ),
        (
            "GET",
            format!("{PODS}?limit=x"),
            Value::Null,
            400,
            "BadRequest",
            "strconv.ParseInt: parsing \"x\": invalid syntax",
        ),
        (
            "DELETE",
            "/api/v1/namespaces/default".into(),
            Value::Null,
            403,
            "Forbidden",
            "namespaces \"default\" is forbidden: this namespace may not be deleted",
        ),
    ] {
        let (actual, status) = call(&server, method, &path, body).await;
        assert_eq!(
            (actual, status["reason"].as_str().unwrap_or_default(), status["message"].as_str().unwrap()),
            (code, reason, message),
            "{path}"
        );
    }
}

#[tokio::test]
async fn unknown_media_types_and_large_bodies_are_rejected() {
    let server = server();
    let (code, status) = call_as(&server, "POST", PODS, "application/vnd.kubernetes.protobuf", pod("a")).await;
    assert_eq!((code, status["reason"].as_str().unwrap()), (415, "UnsupportedMediaType"));
    let (code, _) = call_as(&server, "PATCH", &format!("{PODS}/a"), "application/json", json!({})).await;
    assert_eq!(code, 415);
    let huge = json!({"metadata": {"name": "a"}, "data": {"x": "y".repeat(3 * 1024 * 1024)}});
    let (code, status) = call(&server, "POST", "/api/v1/namespaces/default/configmaps", huge).await;
    assert_eq!((code, status["reason"].as_str().unwrap()), (413, "RequestEntityTooLarge"));
}

#[tokio::test]
async fn a_stale_update_is_a_conflict_and_an_unchanged_object_is_not_written() {
    let server = server();
    let (_, first) = call(&server, "POST", PODS, pod("a")).await;
    let mut labelled = first.clone();
    labelled["metadata"]["labels"]["x"] = json!("y");
    let (code, second) = call(&server, "PUT", &format!("{PODS}/a"), labelled.clone()).await;
    assert_eq!(code, 200, "{second}");
    let (code, status) = call(&server, "PUT", &format!("{PODS}/a"), labelled).await;
    assert_eq!((code, status["reason"].as_str().unwrap()), (409, "Conflict"));
    let (_, third) = call(&server, "PUT", &format!("{PODS}/a"), second.clone()).await;
    assert_eq!(third["metadata"]["resourceVersion"], second["metadata"]["resourceVersion"], "nothing changed");
}

#[tokio::test]
async fn generated_names_dry_runs_and_strictness() {
    let server = server();
    let mut generated = pod("");
    generated["metadata"] = json!({"generateName": "web-"});
    let (_, one) = call(&server, "POST", PODS, generated.clone()).await;
    let (_, two) = call(&server, "POST", PODS, generated.clone()).await;
    assert!(one["metadata"]["name"].as_str().unwrap().starts_with("web-"));
    assert_ne!(one["metadata"]["name"], two["metadata"]["name"]);
    let (code, dry) = call(&server, "POST", &format!("{PODS}?dryRun=All"), pod("dry")).await;
    assert_eq!((code, dry["metadata"].get("resourceVersion")), (201, None));
    assert_eq!(get(&server, &format!("{PODS}/dry")).await.0, 404);
    let mut unknown_field = pod("odd");
    unknown_field["spec"]["foo"] = json!(1);
    let (code, status) = call(&server, "POST", &format!("{PODS}?fieldValidation=Strict"), unknown_field).await;
    assert_eq!(code, 400);
    assert_eq!(
        status["message"],
        "Pod in version \"v1\" cannot be handled as a Pod: strict decoding error: unknown field \"spec.foo\""
    );
}

#[tokio::test]
async fn lists_are_paged_consistently() {
    let server = server();
    for n in 0..7 {
        call(&server, "POST", PODS, pod(&format!("p{n}"))).await;
    }
    let (_, first) = get(&server, &format!("{PODS}?limit=3")).await;
    assert_eq!(first["metadata"]["remainingItemCount"], 4);
    call(&server, "DELETE", &format!("{PODS}/p5"), Value::Null).await;
    let mut names = Vec::new();
    let mut page = first;
    loop {
        names.extend(
            page["items"].as_array().unwrap().iter().map(|pod| pod["metadata"]["name"].as_str().unwrap().to_string()),
        );
        let Some(token) = page["metadata"]["continue"].as_str() else { break };
        page = get(&server, &format!("{PODS}?limit=3&continue={token}")).await.1;
    }
    assert_eq!(names, ["p0", "p1", "p2", "p3", "p4", "p5", "p6"], "as it was when the list began");
    let (_, selected) =
        get(&server, &format!("{PODS}?labelSelector=app%20in%20(p1,p6)&fieldSelector=status.phase%3DPending")).await;
    assert_eq!(selected["items"].as_array().unwrap().len(), 2);
}

#[tokio::test]
async fn tables_have_the_real_columns() {
    let server = server();
    call(&server, "POST", PODS, pod("a")).await;
    let request = http::Request::builder().uri(PODS).header("accept", "application/json;as=Table;v=v1;g=meta.k8s.io");
    let (code, body) = send(&server, request.body(http_body_util::Full::default()).unwrap()).await;
    let table: Value = serde_json::from_slice(&body).unwrap();
    assert_eq!((code, table["kind"].as_str().unwrap()), (200, "Table"));
    let columns: Vec<&str> =
        table["columnDefinitions"].as_array().unwrap().iter().map(|column| column["name"].as_str().unwrap()).collect();
    assert_eq!(columns[..5], ["Name", "Ready", "Status", "Restarts", "Age"]);
    assert_eq!(
        table["rows"][0]["cells"],
        json!(["a", "0/1", "Pending", "0", "0s", "<none>", "<none>", "<none>", "<none>"])
    );
    assert_eq!(table["rows"][0]["object"]["kind"], "PartialObjectMetadata");
}

#[tokio::test]
async fn a_deleted_object_stays_until_its_finalizers_are_removed() {
    let server = server();
    let maps = "/api/v1/namespaces/default/configmaps";
    call(&server, "POST", maps, json!({"metadata": {"name": "x", "finalizers": ["a/b"]}})).await;
    let (code, deleting) = call(&server, "DELETE", &format!("{maps}/x"), Value::Null).await;
    assert_eq!((code, deleting["metadata"]["deletionTimestamp"].as_str().unwrap()), (200, "2026-01-01T12:00:00Z"));
    let merge = "application/merge-patch+json";
    let (code, _) =
        call_as(&server, "PATCH", &format!("{maps}/x"), merge, json!({"metadata": {"finalizers": ["a/b", "c/d"]}}))
            .await;
    assert_eq!(code, 422, "no new finalizers on a deleting object");
    let (code, _) =
        call_as(&server, "PATCH", &format!("{maps}/x"), merge, json!({"metadata": {"finalizers": null}})).await;
    assert_eq!(code, 200);
    assert_eq!(get(&server, &format!("{maps}/x")).await.0, 404);
}

#[tokio::test]
async fn events_are_served_in_both_api_groups() {
    let server = server();
    let event = json!({"metadata": {"name": "e"}, "regarding": {"kind": "Pod", "name": "p"}, "note": "hi", "reason": "R", "type": "Normal",
        "eventTime": "2026-01-01T12:00:00.000000Z", "reportingController": "c", "reportingInstance": "i", "action": "A"});
    let (code, created) = call(&server, "POST", "/apis/events.k8s.io/v1/namespaces/default/events", event).await;
    assert_eq!((code, created["note"].as_str().unwrap()), (201, "hi"));
    let (_, core) = get(&server, "/api/v1/namespaces/default/events/e").await;
    assert_eq!((core["message"].as_str().unwrap(), core["involvedObject"]["name"].as_str().unwrap()), ("hi", "p"));
}

#[tokio::test(start_paused = true)]
async fn events_expire_after_an_hour() {
    let server = server();
    let events = "/api/v1/namespaces/default/events";
    call(&server, "POST", events, json!({"metadata": {"name": "old"}, "involvedObject": {"kind": "Pod"}})).await;
    tokio::time::advance(std::time::Duration::from_secs(3601)).await;
    call(&server, "POST", events, json!({"metadata": {"name": "new"}, "involvedObject": {"kind": "Pod"}})).await;
    assert_eq!(get(&server, &format!("{events}/old")).await.0, 404);
    assert_eq!(get(&server, &format!("{events}/new")).await.0, 200);
}

#[tokio::test]
async fn openapi_v2_is_empty_in_both_formats() {
    let server = server();
    let (code, document) = get(&server, "/openapi/v2").await;
    assert_eq!((code, &document["swagger"], &document["paths"]), (200, &json!("2.0"), &json!({})));
    let request_for = |accept: &str| {
        let request = http::Request::builder().uri("/openapi/v2").header("accept", accept);
        request.body(http_body_util::Full::default()).unwrap()
    };
    let (code, binary) = send(&server, request_for("application/com.github.proto-openapi.spec.v2@v1.0+protobuf")).await;
    assert_eq!((code, &binary[..]), (200, &b"\x0a\x032.0\x12\x1a\x0a\x0aKubernetes\x12\x0cv1.36.0+kerf"[..]));
    assert_eq!(send(&server, request_for("text/html")).await.0, 406);
}

#[tokio::test]
async fn a_deletion_in_a_dry_run_changes_nothing_in_any_encoding_of_its_options() {
    let server = server();
    call(&server, "POST", PODS, pod("a")).await;
    // `DeleteOptions` of version v1 without any field, in the encodings that the server accepts.
    let message = b"k8s\0\x0a\x13\x0a\x02v1\x12\x0dDeleteOptions\x12\x00";
    let bodies: [(&str, &[u8]); 4] = [
        ("application/json", b""),
        ("application/json", br#"{"apiVersion": "v1", "kind": "DeleteOptions"}"#),
        ("application/yaml", b"apiVersion: v1\nkind: DeleteOptions\n"),
        ("application/vnd.kubernetes.protobuf", message),
    ];
    for (media, body) in bodies {
        let request = http::Request::delete(format!("{PODS}/a?dryRun=All")).header("content-type", media);
        let (code, response) = send(&server, request.body(bytes::Bytes::copy_from_slice(body).into()).unwrap()).await;
        assert_eq!(code, 200, "{media}: {response:?}");
        assert_eq!(get(&server, &format!("{PODS}/a")).await.0, 200, "{media}: the pod still exists");
    }
    let request = http::Request::delete(format!("{PODS}/a?dryRun=Some"))
        .header("content-type", "application/vnd.kubernetes.protobuf");
    let (code, _) = send(&server, request.body(bytes::Bytes::from_static(message).into()).unwrap()).await;
    assert_eq!(code, 422, "an unknown value is an error");
}
