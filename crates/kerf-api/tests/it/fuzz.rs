//! Tests that parsing any bytes never panics, for a few seconds each.
#![allow(clippy::unwrap_used, reason = "a fixture that is not JSON must fail the test")]

use kerf_api::duration::Duration;
use kerf_api::quantity::Quantity;
use kerf_api::schedule::Schedule;
use serde_json::{Value, json};

use crate::mutation::Mutator;
use crate::properties;

fn texts(texts: &[&str]) -> Vec<Vec<u8>> {
    texts.iter().map(|text| text.as_bytes().to_vec()).collect()
}

fn parses<T: std::str::FromStr>(input: &[u8]) -> bool {
    std::str::from_utf8(input).is_ok_and(|text| text.parse::<T>().is_ok())
}

#[test]
fn quantities() {
    let start = texts(&["1", "100m", "1.5Gi", "-3e-3", "+.5", "5.", "9223372036854775807", "12E", "0.000000001n"]);
    let words = &["n", "u", "m", "k", "M", "E", "Ki", "Ei", "e", "E+", "e-9", ".", "-", "+", "0", "999999999999", " "];
    Mutator::new(start, words).run(200_000, |input| {
        properties::quantity(input);
        parses::<Quantity>(input)
    });
}

#[test]
fn durations() {
    let start = texts(&["0", "720h", "1h30m5s", "-1.5h", "250ms", "12µs", "Never", "true", "9223372036854775807ns"]);
    let words = &["h", "m", "s", "ms", "us", "µs", "μs", "ns", ".", "-", "+", "0", "9999999999", "d", "Never"];
    Mutator::new(start, words).run(60_000, |input| {
        properties::duration(input);
        parses::<Duration>(input)
    });
}

#[test]
fn schedules() {
    let start = texts(&[
        "* * * * *",
        "0 0 1 1 *",
        "*/5 9-17 * jan-mar mon,wed",
        "@daily",
        "30 6 ? * SUN",
        "0 0 30 2 *",
        "5/7 0 13 * */2",
    ]);
    let words =
        &["*", "?", "-", "/", ",", " ", "@", "@hourly", "TZ=UTC ", "jan", "SUN", "0", "7", "31", "59", "60", "29 2"];
    Mutator::new(start, words).run(60_000, |input| {
        properties::schedule(input);
        parses::<Schedule>(input)
    });
}

#[test]
fn manifests() {
    let start = manifest_examples().into_iter().map(|object| object.to_string().into_bytes());
    let words = &[
        "null",
        "true",
        "-1",
        "1e999",
        "18446744073709551616",
        "\"\"",
        "{}",
        "[]",
        ",",
        ":",
        "\"",
        "{",
        "}",
        "[",
        "\\u0000",
        "\\ud800",
        "\"Never\"",
        "\"1Gi\"",
    ];
    Mutator::new(start, words).run(8_000, |input| {
        properties::manifest(input);
        serde_json::from_slice::<Value>(input).is_ok()
    });
}

/// Replaces each value of each example in turn by values of other types.
#[test]
fn manifests_with_wrong_types() {
    let others = [
        json!(null),
        json!(true),
        json!(-1),
        json!(1.5),
        json!(1e300),
        json!(""),
        json!("x"),
        json!([]),
        json!([null]),
        json!({}),
        json!({"": null}),
    ];
    for example in manifest_examples() {
        for pointer in pointers(&example) {
            for other in &others {
                let mut object = example.clone();
                *object.pointer_mut(&pointer).unwrap() = other.clone();
                properties::manifest(object.to_string().as_bytes());
            }
        }
    }
}

fn pointers(value: &Value) -> Vec<String> {
    let mut all = vec![String::new()];
    let inner: Vec<(String, &Value)> = match value {
        Value::Object(map) => {
            map.iter().map(|(key, value)| (key.replace('~', "~0").replace('/', "~1"), value)).collect()
        }
        Value::Array(items) => items.iter().enumerate().map(|(i, value)| (i.to_string(), value)).collect(),
        _ => Vec::new(),
    };
    for (step, value) in inner {
        all.extend(pointers(value).into_iter().map(|rest| format!("/{step}{rest}")));
    }
    all
}

fn manifest_examples() -> Vec<Value> {
    let requirement =
        json!({"key": "karpenter.k8s.aws/instance-cpu", "operator": "Gt", "values": ["3"], "minValues": 2});
    let metadata = json!({"name": "default", "labels": {"a": "b"}, "annotations": {"karpenter.sh/nodepool-hash": "1"}, "creationTimestamp": "2026-03-04T12:00:00Z"});
    let selector = json!({"matchLabels": {"app": "web"}, "matchExpressions": [{"key": "tier", "operator": "In", "values": ["x"]}]});
    let pod_spec = json!({
        "nodeName": "n", "nodeSelector": {"a": "b"}, "priority": 5, "overhead": {"cpu": "5m"}, "resources": {"requests": {"cpu": 1}},
        "affinity": {
            "nodeAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [{"matchExpressions": [{"key": "a", "operator": "Exists"}], "matchFields": []}]},
                "preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1, "preference": {}}],
            },
            "podAntiAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": [{"labelSelector": selector, "topologyKey": "t", "namespaceSelector": {}}],
                "preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1, "podAffinityTerm": {"topologyKey": "t"}}],
            },
        },
        "tolerations": [{"key": "k", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300}],
        "topologySpreadConstraints": [{"maxSkew": 1, "topologyKey": "t", "whenUnsatisfiable": "DoNotSchedule", "labelSelector": selector, "minDomains": 2, "nodeTaintsPolicy": "Honor", "matchLabelKeys": ["h"]}],
        "containers": [{"name": "c", "resources": {"requests": {"cpu": "1"}, "limits": {"memory": "1Gi"}, "claims": [{"name": "g"}]}, "ports": [{"hostPort": 80, "hostIP": "1.2.3.4", "protocol": "UDP"}]}],
        "initContainers": [{"name": "i", "restartPolicy": "Always"}],
        "volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "p"}}, {"name": "e", "ephemeral": {}}],
    });
    vec![
        json!({"apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": metadata, "spec": {
            "disruption": {"budgets": [{"nodes": "10%", "schedule": "@daily", "duration": "8h", "reasons": ["Drifted"]}], "consolidateAfter": "5m", "consolidationPolicy": "Balanced"},
            "limits": {"cpu": "1000"}, "weight": 10, "template": {"metadata": {"labels": {"a": "b"}, "annotations": {}}, "spec": {
                "requirements": [requirement], "nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"},
                "expireAfter": "720h", "terminationGracePeriod": "1h", "taints": [{"key": "a", "value": "b", "effect": "NoSchedule"}], "startupTaints": [],
            }},
        }, "status": {"nodes": 3, "resources": {"cpu": "12"}, "conditions": [{"type": "Ready", "status": "True", "reason": "Ready", "message": "", "lastTransitionTime": "2026-03-04T12:00:00Z", "observedGeneration": 1}]}}),
        json!({"apiVersion": "karpenter.k8s.aws/v1", "kind": "EC2NodeClass", "metadata": metadata, "spec": {
            "amiSelectorTerms": [{"alias": "al2023@latest"}], "subnetSelectorTerms": [{"tags": {"a": "b"}}], "securityGroupSelectorTerms": [{"id": "sg-1"}], "role": "r",
            "blockDeviceMappings": [{"deviceName": "/dev/xvda", "rootVolume": true, "ebs": {"volumeSize": "20Gi", "iops": 3000, "encrypted": true}}],
            "kubelet": {"maxPods": 110, "evictionHard": {"memory.available": "5%"}}, "metadataOptions": {"httpPutResponseHopLimit": 1}, "tags": {"a": "b"}, "userData": "x",
            "networkInterfaces": [{"networkCardIndex": 0, "deviceIndex": 0, "interfaceType": "interface"}],
        }}),
        json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "namespace": "n", "ownerReferences": [{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "r", "uid": "u", "controller": true}]}, "spec": pod_spec, "status": {
            "phase": "Running", "startTime": "2026-03-04T12:00:00Z", "conditions": [{"type": "Ready", "status": "True", "reason": "", "lastTransitionTime": null}],
            "containerStatuses": [{"name": "c", "resources": {"requests": {"cpu": "2"}}, "allocatedResources": {"cpu": "2"}}],
        }}),
        json!({"kind": "DaemonSet", "metadata": metadata, "spec": {"selector": selector, "template": {"metadata": metadata, "spec": pod_spec}}}),
        json!({"kind": "PodDisruptionBudget", "metadata": metadata, "spec": {"selector": selector, "minAvailable": "50%", "maxUnavailable": 1}, "status": {"disruptionsAllowed": 1}}),
        json!({"kind": "PersistentVolume", "metadata": metadata, "spec": {"csi": {"driver": "d"}, "local": null, "nodeAffinity": {"required": {"nodeSelectorTerms": []}}, "storageClassName": "s", "volumeName": "v", "drivers": [{"name": "d", "allocatable": {"count": 5}}]},
            "provisioner": "p", "volumeBindingMode": "Immediate", "allowedTopologies": [{"matchLabelExpressions": [{"key": "k", "values": ["v"]}]}]}),
        json!({"kind": "Node", "metadata": metadata, "spec": {"providerID": "x", "taints": [{"key": "k", "effect": "NoSchedule"}], "unschedulable": true}, "status": {"capacity": {"cpu": "4"}, "allocatable": {"cpu": "3900m"}, "conditions": [{"type": "Ready", "status": "True"}]}}),
    ]
}
