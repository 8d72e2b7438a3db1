//! Requests of a first hour with a cluster: Events in both versions, autoscalers, tokens of service
//! accounts, and StatefulSets that mount their claim templates.

use serde_json::{Value, json};

use super::{Section, pod_spec};
use crate::fidelity::step::{APPLY, MERGE, TABLE};

const EVENTS: &str = "/api/v1/namespaces/first-hour/events";
const NEWER_EVENTS: &str = "/apis/events.k8s.io/v1/namespaces/first-hour/events";
const AUTOSCALERS: &str = "/apis/autoscaling/v2/namespaces/first-hour/horizontalpodautoscalers";
const OLDER_AUTOSCALERS: &str = "/apis/autoscaling/v1/namespaces/first-hour/horizontalpodautoscalers";
const DEPLOYMENTS: &str = "/apis/apps/v1/namespaces/first-hour/deployments";
const STATEFUL_SETS: &str = "/apis/apps/v1/namespaces/first-hour/statefulsets";
const ACCOUNTS: &str = "/api/v1/namespaces/first-hour/serviceaccounts";

pub(super) fn section() -> Section {
    let mut s = Section::new("first hour");
    s.namespace("first-hour");
    events(&mut s);
    autoscalers(&mut s);
    rejected_autoscalers(&mut s);
    stateful_sets(&mut s);
    tokens(&mut s);
    s
}

fn events(s: &mut Section) {
    let regarding = |name: &str| json!({"apiVersion": "v1", "kind": "Pod", "namespace": "first-hour", "name": name, "uid": "u", "fieldPath": "spec.containers{c}"});
    s.post(
        "an event",
        EVENTS,
        json!({"metadata": {"name": "core"}, "involvedObject": regarding("web"),
        "reason": "Started", "message": "m", "type": "Normal", "source": {"component": "kubelet"}}),
    );
    s.post("a newer event", NEWER_EVENTS, json!({"metadata": {"name": "newer"}, "regarding": regarding("web"), "note": "n", "reason": "Nominated",
        "type": "Normal", "eventTime": "2019-01-01T12:00:00.000000Z", "reportingController": "karpenter", "reportingInstance": "i", "action": "A"}));
    for (title, selector) in [
        ("by name", "involvedObject.name%3Dweb"),
        ("by kind and uid", "involvedObject.kind%3DPod,involvedObject.uid%3Du"),
        ("by field path", "involvedObject.fieldPath%3Dspec.containers%7Bc%7D"),
        ("by reason", "reason%3DNominated"),
        ("by source", "source%3Dkarpenter"),
        ("by older source", "source%3Dkubelet"),
        ("by component", "reportingComponent%3Dkarpenter"),
        ("by the newer name", "regarding.name%3Dweb"),
        ("by another name", "involvedObject.name%3Dother"),
    ] {
        s.get(&format!("events {title}"), &format!("{EVENTS}?fieldSelector={selector}"));
    }
    for (title, selector) in [
        ("by name", "regarding.name%3Dweb"),
        ("by kind and reason", "regarding.kind%3DPod,reason%3DStarted"),
        ("by controller", "reportingController%3Dkarpenter"),
        ("by type", "type%3DNormal,metadata.name%3Dcore"),
        ("by the older name", "involvedObject.name%3Dweb"),
        ("by source", "deprecatedSource%3Dkubelet"),
    ] {
        s.get(&format!("newer events {title}"), &format!("{NEWER_EVENTS}?fieldSelector={selector}"));
    }
    s.patch(
        "a newer event, patched",
        &format!("{NEWER_EVENTS}/newer"),
        MERGE,
        json!({"series": {"count": 2, "lastObservedTime": "2019-01-01T12:00:01.000000Z"}}),
    );
    s.get("it is still selected", &format!("{EVENTS}?fieldSelector=involvedObject.name%3Dweb,reason%3DNominated"));
    s.get("a newer event as a table", &format!("{NEWER_EVENTS}/newer")).accept(TABLE).ignore(&[
        "/columnDefinitions/*/description",
        "/rows/*/cells/0",
        "/rows/*/cells/7",
    ]);
}

fn autoscaler(name: &str) -> Value {
    json!({"metadata": {"name": name}, "spec": {"maxReplicas": 3,
        "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": name}}})
}

fn autoscalers(s: &mut Section) {
    let template = json!({"metadata": {"labels": {"app": "web"}}, "spec": pod_spec()});
    s.post(
        "the target",
        DEPLOYMENTS,
        json!({"metadata": {"name": "web"}, "spec": {"selector": {"matchLabels": {"app": "web"}}, "template": template}}),
    );
    s.post("an autoscaler with little in it", AUTOSCALERS, autoscaler("nothing"));
    let mut busy = autoscaler("busy");
    busy["spec"]["minReplicas"] = json!(2);
    busy["spec"]["metrics"] = json!([
        {"type": "Resource", "resource": {"name": "memory", "target": {"type": "AverageValue", "averageValue": "0.5Gi"}}},
        {"type": "Pods", "pods": {"metric": {"name": "rate"}, "target": {"type": "AverageValue", "averageValue": "1000m"}}},
        {"type": "Resource", "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 60}}},
    ]);
    busy["spec"]["behavior"] = json!({"scaleDown": {"policies": [{"type": "Pods", "value": 1, "periodSeconds": 60}]}});
    s.post("an autoscaler with much in it", AUTOSCALERS, busy);
    let mut older = autoscaler("older");
    older["spec"]["targetCPUUtilizationPercentage"] = json!(70);
    s.post("an autoscaler of the older version", OLDER_AUTOSCALERS, older).compare_managed_fields();
    s.post("an older one without a target", OLDER_AUTOSCALERS, autoscaler("plain"));
    let conditions = ["/status/conditions", "/metadata/annotations/autoscaling.alpha.kubernetes.io~1conditions"];
    s.get("the older one as newer", &format!("{AUTOSCALERS}/older")).ignore(&conditions);
    s.get("the plain one as newer", &format!("{AUTOSCALERS}/plain")).ignore(&conditions);
    s.get("the newer one as older", &format!("{OLDER_AUTOSCALERS}/nothing")).ignore(&["/metadata/annotations"]);
    let of_web = json!({"metadata": {"name": "web"}, "spec": {"minReplicas": 1, "maxReplicas": 3,
        "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}}});
    s.post("an autoscaler of the target", AUTOSCALERS, of_web);
    s.get("without a metrics server", &format!("{AUTOSCALERS}/web"))
        .until("/status/conditions/1/reason", "FailedGetResourceMetric");
    s.get("without a target", &format!("{AUTOSCALERS}/nothing")).until("/status/conditions/0/reason", "FailedGetScale");
    s.get("as a table", &format!("{AUTOSCALERS}/web"))
        .accept(TABLE)
        .ignore(&["/columnDefinitions/*/description", "/rows/*/cells/6"]);
    s.get("with much in it as a table", &format!("{AUTOSCALERS}/busy"))
        .accept(TABLE)
        .ignore(&["/columnDefinitions/*/description", "/rows/*/cells/6"]);
    s.patch("a higher minimum", &format!("{AUTOSCALERS}/web"), MERGE, json!({"spec": {"minReplicas": 2}}))
        .ignore(&["/status"]);
    s.get("the target is scaled", &format!("{DEPLOYMENTS}/web/scale"))
        .until("/spec/replicas", 2)
        .ignore(&["/status/replicas"]);
    s.step("applied", "PATCH", &format!("{AUTOSCALERS}/applied?fieldManager=me"), APPLY,
        &json!({"apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler", "metadata": {"name": "applied"}, "spec": autoscaler("a")["spec"]}))
        .compare_managed_fields();
}

fn rejected_autoscalers(s: &mut Section) {
    let mut reject = |title: &str, change: fn(&mut Value)| {
        let mut rejected = autoscaler("rejected");
        change(&mut rejected["spec"]);
        s.post(&format!("rejected: {title}"), AUTOSCALERS, rejected);
    };
    reject("no bounds and no target", |spec| *spec = json!({}));
    reject("a maximum below the minimum", |spec| spec["minReplicas"] = json!(4));
    reject("a minimum of zero", |spec| spec["minReplicas"] = json!(0));
    reject("a negative maximum", |spec| spec["maxReplicas"] = json!(-1));
    reject("a target without a group", |spec| spec["scaleTargetRef"]["apiVersion"] = json!("v1"));
    reject("a target with slashes", |spec| spec["scaleTargetRef"]["apiVersion"] = json!("a/b/c"));
    reject("a target that is no path segment", |spec| spec["scaleTargetRef"]["name"] = json!("a/b"));
    reject("a metric of an unknown type", |spec| spec["metrics"] = json!([{"type": "Mood"}]));
    reject("a metric without its source", |spec| spec["metrics"] = json!([{"type": "Resource"}]));
    reject("a metric with another source", |spec| {
        spec["metrics"] = json!([{"type": "Resource",
        "pods": {"metric": {"name": "a"}, "target": {"type": "AverageValue", "averageValue": "1"}}}]);
    });
    reject("a resource without a target", |spec| {
        spec["metrics"] = json!([{"type": "Resource", "resource": {"name": "cpu", "target": {"type": "Utilization"}}}]);
    });
    reject(
        "a target of zero",
        |spec| spec["metrics"] = json!([{"type": "Resource", "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 0}}}]),
    );
    reject(
        "two targets",
        |spec| spec["metrics"] = json!([{"type": "Resource", "resource": {"name": "cpu", "target": {"type": "Value", "averageUtilization": 5, "averageValue": "0"}}}]),
    );
    reject("a metric without a name", |spec| {
        spec["metrics"] = json!([{"type": "External", "external": {"metric": {"name": ""}, "target": {"type": "Value", "value": "1"}}}]);
    });
    reject("a policy of zero", |spec| {
        spec["behavior"] = json!({"scaleUp": {"policies": [{"type": "Pods", "value": 0, "periodSeconds": 0}]}});
    });
    reject("an unknown policy", |spec| {
        spec["behavior"] = json!({"scaleUp": {"selectPolicy": "Some", "policies": [{"type": "All", "value": 1, "periodSeconds": 3600}]}});
    });
    reject("a long window", |spec| spec["behavior"] = json!({"scaleDown": {"stabilizationWindowSeconds": 7200}}));
}

fn stateful_sets(s: &mut Section) {
    let set = |name: &str, mount: &str| {
        let mut spec = pod_spec();
        spec["containers"][0]["volumeMounts"] = json!([{"name": mount, "mountPath": "/d"}]);
        json!({"metadata": {"name": name}, "spec": {"serviceName": "a", "replicas": 0, "selector": {"matchLabels": {"app": "a"}},
            "template": {"metadata": {"labels": {"app": "a"}}, "spec": spec},
            "volumeClaimTemplates": [{"metadata": {"name": "data"}, "spec": {"accessModes": ["ReadWriteOnce"], "storageClassName": "none",
                "resources": {"requests": {"storage": "1Gi"}}}}]}})
    };
    s.post("a stateful set that mounts its claim", STATEFUL_SETS, set("mounts", "data"));
    s.post("a stateful set that mounts no volume", STATEFUL_SETS, set("misses", "nothing"));
}

fn tokens(s: &mut Section) {
    let of = |name: &str| format!("{ACCOUNTS}/{name}/token");
    let random = ["/status/token"];
    s.post("a token", &of("default"), json!({})).ignore(&random).ignore(&["/spec/audiences"]);
    s.post("a token with an audience", &of("default"), json!({"spec": {"audiences": ["x"], "expirationSeconds": 700}}))
        .ignore(&random);
    s.post("a short token", &of("default"), json!({"spec": {"audiences": ["x"], "expirationSeconds": 60}}));
    s.post("a token of nobody", &of("nobody"), json!({"spec": {"audiences": ["x"]}}));
    s.post(
        "a token with another name",
        &of("default"),
        json!({"metadata": {"name": "other"}, "spec": {"audiences": ["x"]}}),
    );
    let bound = |kind: &str, name: &str| json!({"spec": {"audiences": ["x"], "boundObjectRef": {"apiVersion": "v1", "kind": kind, "name": name}}});
    s.post("a token for a missing pod", &of("default"), bound("Pod", "missing"));
    s.post("a token for a map", &of("default"), bound("ConfigMap", "a"));
    s.get("no token to read", &of("default"));
}
