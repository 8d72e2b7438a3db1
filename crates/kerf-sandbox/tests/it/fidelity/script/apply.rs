//! Server-side apply: ownership of fields, conflicts, and giving up fields.

use serde_json::{Value, json};

use super::Section;
use crate::fidelity::step::{MERGE, STRATEGIC};

const MAPS: &str = "/api/v1/namespaces/apply/configmaps";
const DEPLOYMENTS: &str = "/apis/apps/v1/namespaces/apply/deployments";
const PODS: &str = "/api/v1/namespaces/apply/pods";

fn map(data: Value) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": data})
}

pub(super) fn section() -> Section {
    let mut s = Section::new("apply");
    s.namespace("apply");
    let (one, two) = (&format!("{MAPS}/a?fieldManager=one"), &format!("{MAPS}/a?fieldManager=two"));
    s.apply("creates", one, map(json!({"x": "1", "y": "1"})));
    s.apply("the same again", one, map(json!({"x": "1", "y": "1"})));
    s.apply("another's field, same value", two, map(json!({"x": "1"})));
    s.apply("another's field, other value", two, map(json!({"x": "2", "z": "2"})));
    s.apply("two fields of another", two, map(json!({"x": "2", "y": "2"})));
    s.apply("by force", &format!("{two}&force=true"), map(json!({"x": "2", "z": "2"})));
    s.apply("the first gives up a field", one, map(json!({"y": "1"})));
    s.apply("the first gives up all", one, json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}}));
    s.patch("an update takes a field", &format!("{MAPS}/a?fieldManager=three"), MERGE, json!({"data": {"x": "3"}}))
        .compare_managed_fields();
    s.apply("a conflict with an update", two, map(json!({"x": "2", "z": "2"})));
    s.apply("with labels", two, json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "labels": {"l": "1"}}, "data": {"z": "2"}}));
    s.apply(
        "a label in conflict",
        one,
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "labels": {"l": "2"}}}),
    );
    s.apply("in a dry run", &format!("{one}&dryRun=All"), map(json!({"dry": "1"})));
    s.apply(
        "with its managers",
        one,
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "managedFields": []}}),
    );
    s.apply(
        "with managers of others",
        one,
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "managedFields": [
        {"manager": "x", "operation": "Apply", "apiVersion": "v1", "fieldsType": "FieldsV1", "fieldsV1": {}}]}}),
    );
    s.apply("without a kind", one, json!({"metadata": {"name": "a"}}));
    s.apply("of another kind", one, json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "a"}}));
    s.apply("of another name", one, json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "b"}}));
    s.apply("of another version", one, json!({"apiVersion": "v2", "kind": "ConfigMap", "metadata": {"name": "a"}}));
    s.apply(
        "with an unknown field",
        one,
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "foo": "bar"}),
    );
    s.apply("with a wrong type", one, map(json!({"x": [1]})));
    s.apply("that is no YAML", one, json!(null)).text("a: b: c");
    s.apply("with a version that is old", one, json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "resourceVersion": "1"}, "data": {"n": "1"}}));
    s.apply("with a uid that is not there", &format!("{MAPS}/gone?fieldManager=one"), json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "gone", "uid": "33333333-3333-3333-3333-333333333333"}}));
    s.apply("a null", one, map(json!({"x": null})));
    s.apply("to a collection", &format!("{MAPS}?fieldManager=one"), map(json!({})));
    s.apply("to a missing subresource", &format!("{MAPS}/a/status?fieldManager=one"), map(json!({})));

    let deployment = |containers: Value| {
        json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d"}, "spec": {"replicas": 0, "paused": true,
        "selector": {"matchLabels": {"app": "d"}}, "template": {"metadata": {"labels": {"app": "d"}}, "spec": {"containers": containers}}}})
    };
    // The Deployment controller writes the status, and with it a manager, at any time.
    let quiet = &["/status", "/metadata/annotations", "/metadata/managedFields", "/metadata/generation"];
    let (one, two) = (&format!("{DEPLOYMENTS}/d?fieldManager=one"), &format!("{DEPLOYMENTS}/d?fieldManager=two"));
    s.apply("a deployment", one, deployment(json!([{"name": "a", "image": "a:1", "ports": [{"containerPort": 80, "protocol": "TCP"}], "env": [{"name": "X", "value": "1"}]}])));
    s.apply("a container of another's", two, json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d"}, "spec": {"template": {"spec": {"containers": [
        {"name": "b", "image": "b:1"}]}}}})).ignore(quiet);
    s.apply("an image in conflict", two, json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d"}, "spec": {"template": {"spec": {"containers": [
        {"name": "a", "image": "a:2"}, {"name": "b", "image": "b:1"}]}}}})).ignore(quiet);
    s.apply("an environment shared", two, json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d"}, "spec": {"template": {"spec": {"containers": [
        {"name": "a", "env": [{"name": "Y", "value": "2"}]}, {"name": "b", "image": "b:1"}]}}}})).ignore(quiet);
    s.apply(
        "the container goes with its owner",
        two,
        json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d"}}),
    )
    .ignore(quiet);
    s.apply(
        "a list with one key twice",
        one,
        deployment(json!([{"name": "a", "image": "a:1"}, {"name": "a", "image": "a:2"}])),
    )
    .ignore(quiet);
    s.apply("an element without its key", one, deployment(json!([{"image": "a:1"}]))).ignore(quiet);
    s.apply(
        "replicas in conflict",
        two,
        json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d"}, "spec": {"replicas": 1}}),
    )
    .ignore(quiet);
    s.patch(
        "scaled by another",
        &format!("{DEPLOYMENTS}/d?fieldManager=scaler"),
        STRATEGIC,
        json!({"spec": {"progressDeadlineSeconds": 7}}),
    )
    .ignore(quiet);
    s.apply("a conflict with the scaler", two, json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d"}, "spec": {"progressDeadlineSeconds": 9}})).ignore(quiet);

    s.apply("a pod", &format!("{PODS}/p?fieldManager=one"), json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "finalizers": ["example.com/a"]}, "spec": {
        "automountServiceAccountToken": false, "schedulerName": "nobody", "containers": [{"name": "c", "image": "a:1", "ports": [{"containerPort": 80}, {"containerPort": 81}]}]}}));
    s.apply(
        "a finalizer more",
        &format!("{PODS}/p?fieldManager=two"),
        json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "finalizers": ["example.com/b"]}}),
    );
    s.apply(
        "its status",
        &format!("{PODS}/p/status?fieldManager=kubelet"),
        json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "status": {"conditions": [
        {"type": "Ready", "status": "True", "lastTransitionTime": "2019-01-01T00:00:00Z"}]}}),
    );
    s.apply(
        "a condition more",
        &format!("{PODS}/p/status?fieldManager=other"),
        json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "status": {"conditions": [
        {"type": "example.com/Extra", "status": "True", "lastTransitionTime": "2019-01-01T00:00:00Z"}]}}),
    );
    s.apply(
        "the status through the pod",
        &format!("{PODS}/p?fieldManager=kubelet"),
        json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "status": {"phase": "Failed"}}),
    );
    s.apply("an immutable field", &format!("{PODS}/p?fieldManager=two&force=true"), json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "a:1", "command": ["x"]}]}}));
    s
}
