//! The patch types except apply, which has its own section: their effects and their errors.

use serde_json::json;

use super::{Section, config_map, pod};
use crate::fidelity::step::{APPLY, JSON, JSON_PATCH, MERGE, STRATEGIC};

const MAPS: &str = "/api/v1/namespaces/patches/configmaps";
const PODS: &str = "/api/v1/namespaces/patches/pods";
const DEPLOYMENTS: &str = "/apis/apps/v1/namespaces/patches/deployments";

pub(super) fn section() -> Section {
    let mut s = Section::new("patches");
    s.namespace("patches");
    let map = &format!("{MAPS}/a");
    // These messages quote the whole object, including times.
    let whole = &["/message", "/details"];
    s.post("a map", MAPS, config_map("a"))
        .capture("patches-rv", "/metadata/resourceVersion")
        .capture("patches-uid", "/metadata/uid");
    s.patch("JSON: add", map, JSON_PATCH, json!([{"op": "add", "path": "/data/b", "value": "2"}]))
        .compare_managed_fields();
    s.patch(
        "JSON: add an object",
        map,
        JSON_PATCH,
        json!([{"op": "add", "path": "/metadata/labels", "value": {"x/y": "z"}}]),
    );
    s.patch(
        "JSON: an escaped name",
        map,
        JSON_PATCH,
        json!([{"op": "replace", "path": "/metadata/labels/x~1y", "value": "w"}]),
    );
    s.patch(
        "JSON: a test that holds",
        map,
        JSON_PATCH,
        json!([{"op": "test", "path": "/data/a", "value": "1"}, {"op": "replace", "path": "/data/a", "value": "3"}]),
    );
    s.patch(
        "JSON: a test that fails",
        map,
        JSON_PATCH,
        json!([{"op": "test", "path": "/data/a", "value": "1"}, {"op": "replace", "path": "/data/a", "value": "4"}]),
    );
    s.patch(
        "JSON: replace what is missing",
        map,
        JSON_PATCH,
        json!([{"op": "replace", "path": "/data/zz", "value": "4"}]),
    );
    s.patch("JSON: remove what is missing", map, JSON_PATCH, json!([{"op": "remove", "path": "/data/zz"}]));
    s.patch("JSON: add below what is missing", map, JSON_PATCH, json!([{"op": "add", "path": "/foo/bar", "value": 1}]));
    s.patch("JSON: move and copy", map, JSON_PATCH, json!([{"op": "move", "from": "/data/b", "path": "/data/c"}, {"op": "copy", "from": "/data/c", "path": "/data/d"}]));
    s.patch("JSON: remove", map, JSON_PATCH, json!([{"op": "remove", "path": "/data/d"}]));
    s.patch("JSON: an unknown operation", map, JSON_PATCH, json!([{"op": "frobnicate", "path": "/data/d"}]));
    s.patch("JSON: no list", map, JSON_PATCH, json!({"op": "remove", "path": "/data/d"}));
    s.patch("JSON: no JSON", map, JSON_PATCH, json!(null)).text("[{");
    s.patch("JSON: nothing", map, JSON_PATCH, json!([]));
    s.patch("JSON: makes a wrong type", map, JSON_PATCH, json!([{"op": "replace", "path": "/data/a", "value": 7}]))
        .ignore(whole);
    s.patch(
        "JSON: another name",
        map,
        JSON_PATCH,
        json!([{"op": "replace", "path": "/metadata/name", "value": "other"}]),
    );
    s.patch(
        "JSON: another namespace",
        map,
        JSON_PATCH,
        json!([{"op": "replace", "path": "/metadata/namespace", "value": "other"}]),
    );

    s.patch("merge: a field", map, MERGE, json!({"data": {"a": "5", "e": "6"}})).compare_managed_fields();
    s.patch("merge: null removes", map, MERGE, json!({"data": {"e": null}}));
    s.patch("merge: nothing changes", map, MERGE, json!({"data": {"a": "5"}}));
    s.patch(
        "merge: the version it has not",
        map,
        MERGE,
        json!({"metadata": {"resourceVersion": "{patches-rv}"}, "data": {"a": "9"}}),
    );
    s.patch("merge: another uid", map, MERGE, json!({"metadata": {"uid": "22222222-2222-2222-2222-222222222222"}}));
    s.patch("merge: another name", map, MERGE, json!({"metadata": {"name": "b"}}));
    s.patch("merge: another kind", map, MERGE, json!({"kind": "Secret"})).ignore(whole);
    s.patch("merge: an unknown field", map, MERGE, json!({"foo": "bar"}));
    s.patch(
        "merge: an unknown field, strictly",
        &format!("{map}?fieldValidation=Strict"),
        MERGE,
        json!({"foo": "bar"}),
    )
    .ignore(whole);
    s.patch("merge: a wrong type", map, MERGE, json!({"data": ["x"]})).ignore(whole);
    s.patch("merge: a list", map, MERGE, json!([1]));
    s.patch("merge: a creation time", map, MERGE, json!({"metadata": {"creationTimestamp": "2019-01-01T00:00:00Z"}}));
    s.patch("merge: of nothing", &format!("{MAPS}/none"), MERGE, json!({"data": {}}));
    s.patch("merge: in a dry run", &format!("{map}?dryRun=All"), MERGE, json!({"data": {"dry": "run"}}));
    s.patch("merge: by a named manager", &format!("{map}?fieldManager=somebody"), MERGE, json!({"data": {"s": "b"}}))
        .compare_managed_fields();
    s.patch(
        "merge: by a manager with a long name",
        &format!("{map}?fieldManager={}", "m".repeat(129)),
        MERGE,
        json!({"data": {"s": "c"}}),
    );
    s.patch("merge: forced", &format!("{map}?force=true"), MERGE, json!({"data": {"s": "c"}}));

    let deployment = json!({"metadata": {"name": "d"}, "spec": {"replicas": 0, "paused": true, "selector": {"matchLabels": {"app": "d"}}, "template": {"metadata": {"labels": {"app": "d"}},
        "spec": {"containers": [{"name": "a", "image": "a:1", "env": [{"name": "X", "value": "1"}]}, {"name": "b", "image": "b:1", "ports": [{"containerPort": 80}]}],
            "tolerations": [{"key": "t", "operator": "Exists"}], "volumes": [{"name": "v", "emptyDir": {}}]}}}});
    let quiet = &["/status", "/metadata/annotations", "/metadata/generation"];
    let d = &format!("{DEPLOYMENTS}/d");
    s.post("a deployment", DEPLOYMENTS, deployment);
    s.patch(
        "strategic: one container of two",
        d,
        STRATEGIC,
        json!({"spec": {"template": {"spec": {"containers": [{"name": "b", "image": "b:2"}]}}}}),
    )
    .ignore(quiet);
    s.patch(
        "strategic: a new container first",
        d,
        STRATEGIC,
        json!({"spec": {"template": {"spec": {"containers": [{"name": "c", "image": "c:1"}]}}}}),
    )
    .ignore(quiet);
    s.patch("strategic: an order", d, STRATEGIC, json!({"spec": {"template": {"spec": {"$setElementOrder/containers": [{"name": "a"}, {"name": "b"}, {"name": "c"}]}}}})).ignore(quiet);
    s.patch(
        "strategic: delete an element",
        d,
        STRATEGIC,
        json!({"spec": {"template": {"spec": {"containers": [{"name": "c", "$patch": "delete"}]}}}}),
    )
    .ignore(quiet);
    s.patch(
        "strategic: an element of an element",
        d,
        STRATEGIC,
        json!({"spec": {"template": {"spec": {"containers": [{"name": "a", "env": [{"name": "Y", "value": "2"}]}]}}}}),
    )
    .ignore(quiet);
    s.patch(
        "strategic: tolerations are one",
        d,
        STRATEGIC,
        json!({"spec": {"template": {"spec": {"tolerations": [{"key": "u", "operator": "Exists"}]}}}}),
    )
    .ignore(quiet);
    s.patch(
        "strategic: replace a list",
        d,
        STRATEGIC,
        json!({"spec": {"template": {"spec": {"volumes": [{"$patch": "replace"}, {"name": "w", "emptyDir": {}}]}}}}),
    )
    .ignore(quiet);
    s.patch(
        "strategic: replace an object",
        d,
        STRATEGIC,
        json!({"spec": {"template": {"metadata": {"labels": {"$patch": "replace", "app": "d", "z": "y"}}}}}),
    )
    .ignore(quiet);
    s.patch(
        "strategic: keep some keys",
        d,
        STRATEGIC,
        json!({"spec": {"strategy": {"$retainKeys": ["type"], "type": "Recreate"}}}),
    )
    .ignore(quiet);
    s.patch("strategic: null removes", d, STRATEGIC, json!({"spec": {"template": {"spec": {"volumes": null}}}}))
        .ignore(quiet);
    s.patch(
        "strategic: from a primitive list",
        d,
        STRATEGIC,
        json!({"metadata": {"finalizers": ["example.com/a", "example.com/b"]}}),
    )
    .ignore(quiet);
    s.patch(
        "strategic: out of a primitive list",
        d,
        STRATEGIC,
        json!({"metadata": {"$deleteFromPrimitiveList/finalizers": ["example.com/a"]}}),
    )
    .ignore(quiet);
    s.patch("strategic: one finalizer more", d, STRATEGIC, json!({"metadata": {"finalizers": ["example.com/c"]}}))
        .ignore(quiet);
    s.patch("strategic: an unknown directive", d, STRATEGIC, json!({"spec": {"template": {"$patch": "explode"}}}));
    s.patch(
        "strategic: an element without its key",
        d,
        STRATEGIC,
        json!({"spec": {"template": {"spec": {"containers": [{"image": "x"}]}}}}),
    );
    s.patch(
        "strategic: an immutable field",
        d,
        STRATEGIC,
        json!({"spec": {"selector": {"matchLabels": {"more": "x"}}}}),
    );
    s.patch(
        "strategic: an unknown field, strictly",
        &format!("{d}?fieldValidation=Strict"),
        STRATEGIC,
        json!({"spec": {"nope": 1}}),
    );
    s.patch("strategic: no JSON", d, STRATEGIC, json!(null)).text("{");
    s.patch(
        "strategic: of a pod's image",
        &format!("{PODS}/p"),
        STRATEGIC,
        json!({"spec": {"containers": [{"name": "c", "image": "x"}]}}),
    );
    s.post("a pod", PODS, pod("p"));
    s.patch(
        "strategic: a pod's image",
        &format!("{PODS}/p"),
        STRATEGIC,
        json!({"spec": {"containers": [{"name": "c", "image": "nginx:2"}]}}),
    );
    s.patch("strategic: a pod's node", &format!("{PODS}/p"), STRATEGIC, json!({"spec": {"nodeName": "n"}}));
    s.patch(
        "strategic: a pod's command",
        &format!("{PODS}/p"),
        STRATEGIC,
        json!({"spec": {"containers": [{"name": "c", "command": ["sh"]}]}}),
    );
    s.patch(
        "merge: a pod's tolerations",
        &format!("{PODS}/p"),
        MERGE,
        json!({"spec": {"tolerations": [{"key": "new", "operator": "Exists"}]}}),
    );
    s.patch("strategic: a pod's tolerations, one more", &format!("{PODS}/p"), STRATEGIC, json!({"spec": {"tolerations": [
        {"key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300},
        {"key": "node.kubernetes.io/unreachable", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300}, {"key": "new", "operator": "Exists"}]}}));
    s.patch("a media type that is no patch", map, JSON, json!({"data": {}}));
    s.patch("a media type of nobody", map, "application/octet-stream", json!({"data": {}}));
    s.patch(
        "apply without a manager",
        map,
        APPLY,
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}}),
    );
    s
}
