//! Measures how fast pods are decoded and how much memory they take.
//!
//! The input is a typical pod of a Deployment on a 1.33 cluster: requests and limits, a node
//! selector, a spread constraint, an owner, and the fields that every pod has but Kerf does not
//! read (managed fields, probes, environment, volumes, statuses). The target is 100 MB of JSON per
//! second on one core and less than 1.5 KiB of heap per pod.
//!
//! `cargo bench -p kerf-state --bench decode` prints the throughput and, under `max alloc`, the
//! largest heap in use. It measures a list of 100,000 pods in which 1, 5 or 50 consecutive pods are
//! replicas of one owner, and a single pod.

use std::hint::black_box;

use divan::counter::{BytesCount, ItemsCount};
use divan::{AllocProfiler, Bencher};
use kerf_state::slim::Pod;
use serde_json::{Value, json};

#[global_allocator]
static HEAP: AllocProfiler = AllocProfiler::system();

fn main() {
    divan::main();
}

/// Number of pods that are decoded.
const PODS: usize = 100_000;
/// Number of different pods. Their JSON exceeds the CPU caches and still fits a laptop's memory.
const DISTINCT_POD_COUNT: usize = 20_000;

#[divan::bench(args = [1, 5, 50], sample_count = 5, sample_size = 1)]
fn hundred_thousand_pods(bencher: Bencher, replicas: usize) {
    let documents: Vec<String> = (0..DISTINCT_POD_COUNT).map(|i| typical_pod(i, replicas).to_string()).collect();
    let bytes: usize = documents.iter().map(String::len).sum::<usize>() * (PODS / DISTINCT_POD_COUNT);
    bencher.counter(BytesCount::new(bytes)).counter(ItemsCount::new(PODS)).bench_local(|| {
        let mut pods: Vec<Pod> = Vec::with_capacity(PODS);
        for document in documents.iter().cycle().take(PODS) {
            pods.push(decode(document));
        }
        pods
    });
}

/// Decodes one boxed pod after another pod of its owner.
#[divan::bench]
fn one_pod(bencher: Bencher) {
    let documents = [typical_pod(0, 50).to_string(), typical_pod(1, 50).to_string()];
    black_box(decode(&documents[0]));
    bencher.counter(BytesCount::of_str(&documents[1])).bench_local(|| Box::new(decode(black_box(&documents[1]))));
}

fn decode(document: &str) -> Pod {
    serde_json::from_slice(document.as_bytes()).expect("`typical_pod` returns a pod")
}

/// Returns a pod. Pods with consecutive numbers are replicas of one owner and run on different
/// nodes, as in a list of the API server.
fn typical_pod(number: usize, replicas: usize) -> Value {
    let owner = number / replicas;
    let app = ["checkout", "catalogue", "payments", "search-frontend"][owner % 4];
    let hash = format!("{:010x}", owner * 7_919);
    let (cpu, memory) = (format!("{}m", 50 + owner % 97 * 10), format!("{}Mi", 64 + owner % 89 * 32));
    let requests = json!({"cpu": cpu, "memory": memory});
    let resources = json!({"limits": {"memory": memory}, "requests": requests});
    let name = format!("{app}-{hash}-{:05x}", number * 31 % 0xf_ffff);
    let uid = format!("{number:08x}-5d9b-4b0e-9a8e-3f1a5f0a7c11");
    let container_status = json!({
        "allocatedResources": requests,
        "containerID": format!("containerd://{number:064x}"),
        "image": format!("registry.example.com/shop/{app}:v1.42.0"),
        "imageID": format!("registry.example.com/shop/{app}@sha256:{number:064x}"),
        "lastState": {}, "name": "server", "ready": true, "restartCount": 0,
        "resources": resources,
        "started": true, "state": {"running": {"startedAt": "2026-03-04T12:00:09Z"}},
        "volumeMounts": [{"mountPath": "/var/run/secrets/kubernetes.io/serviceaccount", "name": "kube-api-access-x7k2p", "readOnly": true, "recursiveReadOnly": "Disabled"}],
    });
    json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "annotations": {
                "kubectl.kubernetes.io/restartedAt": "2026-03-01T09:00:00Z",
                "prometheus.io/port": "9090", "prometheus.io/scrape": "true",
            },
            "creationTimestamp": "2026-03-04T12:00:00Z",
            "generateName": format!("{app}-{hash}-"),
            "generation": 1,
            "labels": {"app.kubernetes.io/name": app, "pod-template-hash": hash, "team": "storefront"},
            "managedFields": managed_fields(&uid),
            "name": name, "namespace": "storefront",
            "ownerReferences": [{
                "apiVersion": "apps/v1", "blockOwnerDeletion": true, "controller": true, "kind": "ReplicaSet",
                "name": format!("{app}-{hash}"), "uid": format!("{owner:08x}-2f1c-4f39-9c55-1f2f9d3f7a10"),
            }],
            "resourceVersion": (number * 17).to_string(),
            "uid": uid,
        },
        "spec": {
            "containers": [{
                "env": [
                    {"name": "LOG_LEVEL", "value": "info"},
                    {"name": "POD_NAME", "valueFrom": {"fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.name"}}},
                    {"name": "DATABASE_URL", "valueFrom": {"secretKeyRef": {"key": "url", "name": "database"}}},
                ],
                "image": format!("registry.example.com/shop/{app}:v1.42.0"),
                "imagePullPolicy": "IfNotPresent",
                "livenessProbe": probe("/healthz"),
                "name": "server",
                "ports": [{"containerPort": 8080, "name": "http", "protocol": "TCP"}, {"containerPort": 9090, "name": "metrics", "protocol": "TCP"}],
                "readinessProbe": probe("/readyz"),
                "resources": resources,
                "securityContext": {"allowPrivilegeEscalation": false, "capabilities": {"drop": ["ALL"]}, "readOnlyRootFilesystem": true},
                "terminationMessagePath": "/dev/termination-log", "terminationMessagePolicy": "File",
                "volumeMounts": [
                    {"mountPath": "/etc/config", "name": "config"},
                    {"mountPath": "/var/run/secrets/kubernetes.io/serviceaccount", "name": "kube-api-access-x7k2p", "readOnly": true},
                ],
            }],
            "dnsPolicy": "ClusterFirst", "enableServiceLinks": true,
            "nodeName": format!("ip-10-0-{}-{}.ec2.internal", number % 1000 / 250, number % 250),
            "nodeSelector": {"kubernetes.io/arch": "arm64"},
            "preemptionPolicy": "PreemptLowerPriority", "priority": 0, "restartPolicy": "Always",
            "schedulerName": "default-scheduler", "securityContext": {"runAsNonRoot": true, "runAsUser": 1000},
            "serviceAccount": app, "serviceAccountName": app, "terminationGracePeriodSeconds": 30,
            "tolerations": [
                {"effect": "NoExecute", "key": "node.kubernetes.io/not-ready", "operator": "Exists", "tolerationSeconds": 300},
                {"effect": "NoExecute", "key": "node.kubernetes.io/unreachable", "operator": "Exists", "tolerationSeconds": 300},
            ],
            "topologySpreadConstraints": [{
                "labelSelector": {"matchLabels": {"app.kubernetes.io/name": app}},
                "maxSkew": 1, "topologyKey": "topology.kubernetes.io/zone", "whenUnsatisfiable": "ScheduleAnyway",
            }],
            "volumes": [
                {"configMap": {"defaultMode": 420, "name": format!("{app}-config")}, "name": "config"},
                {"name": "kube-api-access-x7k2p", "projected": {"defaultMode": 420, "sources": [
                    {"serviceAccountToken": {"expirationSeconds": 3607, "path": "token"}},
                    {"configMap": {"items": [{"key": "ca.crt", "path": "ca.crt"}], "name": "kube-root-ca.crt"}},
                    {"downwardAPI": {"items": [{"fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.namespace"}, "path": "namespace"}]}},
                ]}},
            ],
        },
        "status": {
            "conditions": [
                condition("PodReadyToStartContainers"), condition("Initialized"), condition("Ready"), condition("ContainersReady"),
                condition("PodScheduled"),
            ],
            "containerStatuses": [container_status],
            "hostIP": "10.0.1.7", "hostIPs": [{"ip": "10.0.1.7"}], "observedGeneration": 1, "phase": "Running",
            "podIP": "10.0.2.9", "podIPs": [{"ip": "10.0.2.9"}], "qosClass": "Burstable", "startTime": "2026-03-04T12:00:01Z",
        },
    })
}

fn probe(path: &str) -> Value {
    json!({
        "failureThreshold": 3, "httpGet": {"path": path, "port": "http", "scheme": "HTTP"},
        "periodSeconds": 10, "successThreshold": 1, "timeoutSeconds": 1,
    })
}

fn condition(kind: &str) -> Value {
    json!({
        "lastProbeTime": null, "lastTransitionTime": "2026-03-04T12:00:10Z", "observedGeneration": 1, "status": "True",
        "type": kind,
    })
}

/// Returns managed fields as server-side apply stores them: those of the controller manager, and
/// those of the kubelet on the status.
fn managed_fields(uid: &str) -> Value {
    let owner = format!("k:{{\"uid\":\"{uid}\"}}");
    let conditions: Value = ["ContainersReady", "Initialized", "PodReadyToStartContainers", "Ready"]
        .iter()
        .map(|kind| {
            let fields = json!({".": {}, "f:lastProbeTime": {}, "f:lastTransitionTime": {}, "f:observedGeneration": {}, "f:status": {}, "f:type": {}});
            (format!("k:{{\"type\":\"{kind}\"}}"), fields)
        })
        .collect();
    json!([
        {
            "apiVersion": "v1", "fieldsType": "FieldsV1", "manager": "kube-controller-manager", "operation": "Update", "time": "2026-03-04T12:00:00Z",
            "fieldsV1": {
                "f:metadata": {
                    "f:annotations": {".": {}, "f:kubectl.kubernetes.io/restartedAt": {}, "f:prometheus.io/port": {}, "f:prometheus.io/scrape": {}},
                    "f:generateName": {}, "f:labels": {".": {}, "f:app.kubernetes.io/name": {}, "f:pod-template-hash": {}, "f:team": {}},
                    "f:ownerReferences": {".": {}, owner: {}},
                },
                "f:spec": {
                    "f:containers": {"k:{\"name\":\"server\"}": {
                        ".": {}, "f:env": {".": {}, "k:{\"name\":\"LOG_LEVEL\"}": {".": {}, "f:name": {}, "f:value": {}}},
                        "f:image": {}, "f:imagePullPolicy": {},
                        "f:livenessProbe": {".": {}, "f:failureThreshold": {}, "f:httpGet": {".": {}, "f:path": {}, "f:port": {}, "f:scheme": {}}, "f:periodSeconds": {}, "f:successThreshold": {}, "f:timeoutSeconds": {}},
                        "f:name": {}, "f:ports": {".": {}, "k:{\"containerPort\":8080,\"protocol\":\"TCP\"}": {".": {}, "f:containerPort": {}, "f:name": {}, "f:protocol": {}}},
                        "f:resources": {".": {}, "f:limits": {".": {}, "f:memory": {}}, "f:requests": {".": {}, "f:cpu": {}, "f:memory": {}}},
                        "f:terminationMessagePath": {}, "f:terminationMessagePolicy": {},
                        "f:volumeMounts": {".": {}, "k:{\"mountPath\":\"/etc/config\"}": {".": {}, "f:mountPath": {}, "f:name": {}}},
                    }},
                    "f:dnsPolicy": {}, "f:enableServiceLinks": {}, "f:nodeSelector": {}, "f:restartPolicy": {}, "f:schedulerName": {},
                    "f:securityContext": {}, "f:serviceAccount": {}, "f:serviceAccountName": {}, "f:terminationGracePeriodSeconds": {},
                    "f:topologySpreadConstraints": {".": {}, "k:{\"topologyKey\":\"topology.kubernetes.io/zone\",\"whenUnsatisfiable\":\"ScheduleAnyway\"}": {".": {}, "f:labelSelector": {}, "f:maxSkew": {}, "f:topologyKey": {}, "f:whenUnsatisfiable": {}}},
                    "f:volumes": {".": {}, "k:{\"name\":\"config\"}": {".": {}, "f:configMap": {".": {}, "f:defaultMode": {}, "f:name": {}}, "f:name": {}}},
                },
            },
        },
        {
            "apiVersion": "v1", "fieldsType": "FieldsV1", "manager": "kubelet", "operation": "Update", "subresource": "status", "time": "2026-03-04T12:00:10Z",
            "fieldsV1": {"f:status": {
                "f:conditions": conditions, "f:containerStatuses": {}, "f:hostIP": {}, "f:hostIPs": {}, "f:observedGeneration": {}, "f:phase": {},
                "f:podIP": {}, "f:podIPs": {".": {}, "k:{\"ip\":\"10.0.2.9\"}": {".": {}, "f:ip": {}}}, "f:startTime": {},
            }},
        },
    ])
}
