//! A small language for clusters, so that a placement case fits on one line. Statements are
//! separated by `|` and words by spaces:
//!
//! ```text
//! node a cpu=4 zone=z1 taint=gpu=yes:NoSchedule
//!     | pod x on=a app=web cpu=1 | new app=web spread=1*app:web@zone
//! ```
//! `new` is the pod to schedule. `@host` and `@zone` stand for the two well-known topology keys. A
//! selector is `key:value`, an expression `key:In:a,b`; expressions are joined by `&`. The words of
//! each kind are the arms of the matches below.

use k8s_openapi::api::core::v1::{Namespace, Node, PersistentVolume, PersistentVolumeClaim, Pod};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use k8s_openapi::api::storage::v1::{CSINode, StorageClass};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::cluster::scheduler::node::NodeDescription;
use crate::cluster::scheduler::pod;
use crate::cluster::scheduler::view::View;
use crate::cluster::scheduler::workloads::OwnerKind;

/// The objects of a cluster, in the order of the text.
#[derive(Debug, Default)]
pub(super) struct ClusterFixture {
    pub(super) nodes: Vec<Value>,
    pub(super) pods: Vec<Value>,
    pub(super) others: Vec<Value>,
}

impl ClusterFixture {
    /// Parses a cluster. Panics on an unknown word.
    pub(super) fn parse(text: &str) -> Self {
        let mut cluster = Self::default();
        for statement in text.split('|').map(str::trim).filter(|statement| !statement.is_empty()) {
            let mut words = statement.split_whitespace();
            match words.next().unwrap() {
                "node" => cluster.nodes.push(node(words.next().unwrap(), words)),
                "pod" => cluster.pods.push(pod(words.next().unwrap(), words)),
                "new" => cluster.pods.push(pod("new", words)),
                kind => cluster.others.push(other(kind, words.next().unwrap(), words)),
            }
        }
        cluster
    }

    /// Returns the scheduler's view of the cluster.
    pub(super) fn view(&self) -> View {
        let mut view = View::new();
        for object in &self.others {
            let key = key_of(object);
            let bytes = object.to_string();
            let bytes = bytes.as_bytes();
            match object["kind"].as_str().unwrap() {
                "Namespace" => {
                    let labels = decode::<Namespace>(object).metadata.labels.unwrap_or_default();
                    view.namespaces.insert(key, labels);
                }
                "PersistentVolumeClaim" => drop(view.storage.claims.insert(key.into(), decode(object))),
                "PersistentVolume" => drop(view.storage.volumes.insert(key.into(), decode(object))),
                "StorageClass" => drop(view.storage.classes.insert(key.into(), decode(object))),
                "CSINode" => view.storage.put_csi_node(key.into(), Some(&decode::<CSINode>(object))),
                "Service" => view.workloads.put_service(key.into(), Some(bytes)),
                "ReplicaSet" => view.workloads.put_owner(OwnerKind::ReplicaSet, key.into(), Some(bytes)),
                "PodDisruptionBudget" => {
                    drop(view.budgets.insert(key.into(), decode::<PodDisruptionBudget>(object)));
                }
                kind => panic!("{kind} is not known"),
            }
        }
        for node in &self.nodes {
            let description = NodeDescription::decode(node.to_string().as_bytes(), &mut view.resource_names).unwrap();
            view.put_node(description);
        }
        for pod in &self.pods {
            view.put_pod(pod::decode_pod(pod.to_string().as_bytes()).unwrap());
        }
        view
    }

    /// Returns the decoded objects, for the referee.
    pub(super) fn decoded(&self) -> RefereeInput {
        let of_kind = |kind: &str| self.others.iter().filter(move |object| object["kind"] == kind).collect::<Vec<_>>();
        RefereeInput {
            nodes: self.nodes.iter().map(decode).collect(),
            pods: self.pods.iter().map(decode).collect(),
            namespaces: of_kind("Namespace").into_iter().map(decode).collect(),
            claims: of_kind("PersistentVolumeClaim").into_iter().map(decode).collect(),
            volumes: of_kind("PersistentVolume").into_iter().map(decode).collect(),
            classes: of_kind("StorageClass").into_iter().map(decode).collect(),
            csi: of_kind("CSINode").into_iter().map(decode).collect(),
        }
    }
}

/// The objects that the referee reads.
pub(super) struct RefereeInput {
    pub(super) nodes: Vec<Node>,
    pub(super) pods: Vec<Pod>,
    pub(super) namespaces: Vec<Namespace>,
    pub(super) claims: Vec<PersistentVolumeClaim>,
    pub(super) volumes: Vec<PersistentVolume>,
    pub(super) classes: Vec<StorageClass>,
    pub(super) csi: Vec<CSINode>,
}

fn decode<T: DeserializeOwned>(object: &Value) -> T {
    T::deserialize(object).unwrap_or_else(|problem| panic!("{problem} in {object}"))
}

fn key_of(object: &Value) -> String {
    let name = object["metadata"]["name"].as_str().unwrap();
    match object["metadata"]["namespace"].as_str() {
        Some(namespace) => format!("{namespace}/{name}"),
        None => name.to_owned(),
    }
}

fn topology(key: &str) -> &str {
    match key {
        "host" => "kubernetes.io/hostname",
        "zone" => "topology.kubernetes.io/zone",
        "region" => "topology.kubernetes.io/region",
        other => other,
    }
}

fn node<'a>(name: &str, words: impl Iterator<Item = &'a str>) -> Value {
    let mut node = json!({
        "apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name}},
        "spec": {"taints": []}, "status": {"allocatable": {"cpu": "4", "memory": "8Gi", "pods": "110"}, "images": []},
    });
    for word in words {
        let (key, value) = word.split_once('=').unwrap_or((word, ""));
        match key {
            "cpu" | "pods" | "ephemeral-storage" => node["status"]["allocatable"][key] = value.into(),
            "mem" => node["status"]["allocatable"]["memory"] = value.into(),
            "zone" | "region" => node["metadata"]["labels"][topology(key)] = value.into(),
            "nohost" => drop(node["metadata"]["labels"].as_object_mut().unwrap().remove("kubernetes.io/hostname")),
            "cordoned" => node["spec"]["unschedulable"] = true.into(),
            "taint" => node["spec"]["taints"].as_array_mut().unwrap().push(taint(value)),
            "image" => {
                let (name, size) = value.split_once('@').unwrap();
                let image = json!({"names": [name], "sizeBytes": size.parse::<i64>().unwrap() * 1024 * 1024});
                node["status"]["images"].as_array_mut().unwrap().push(image);
            }
            other => match other.split_once(':') {
                Some(("label", label)) => node["metadata"]["labels"][label] = value.into(),
                Some(("has", resource)) => node["status"]["allocatable"][resource] = value.into(),
                _ => panic!("a node has no {word}"),
            },
        }
    }
    node
}

/// Parses `key=value:Effect` or `key:Effect`.
fn taint(text: &str) -> Value {
    let (key_value, effect) = text.rsplit_once(':').unwrap();
    let (key, value) = key_value.split_once('=').unwrap_or((key_value, ""));
    json!({"key": key, "value": value, "effect": effect})
}

/// Parses `*`, `key` or `key=value`, each with or without `:Effect`.
fn toleration(text: &str) -> Value {
    let (key_value, effect) = text.split_once(':').unwrap_or((text, ""));
    let mut toleration = match key_value.split_once('=') {
        Some((key, value)) => json!({"key": key, "operator": "Equal", "value": value}),
        None if key_value == "*" => json!({"operator": "Exists"}),
        None => json!({"key": key_value, "operator": "Exists"}),
    };
    if !effect.is_empty() {
        toleration["effect"] = effect.into();
    }
    toleration
}

fn push(object: &mut Value, path: &[&str], item: Value) {
    let mut target = object;
    for key in path {
        target = &mut target[*key];
    }
    match target {
        Value::Array(items) => items.push(item),
        other => *other = json!([item]),
    }
}

const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";
const PREFERRED: &str = "preferredDuringSchedulingIgnoredDuringExecution";

fn pod<'a>(name: &str, words: impl Iterator<Item = &'a str>) -> Value {
    let mut pod = json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": name, "namespace": "default", "uid": format!("uid-{name}"), "resourceVersion": "1", "labels": {}},
        "spec": {"schedulerName": "default-scheduler", "containers": [{"name": "main", "image": "app:1", "resources": {"requests": {}}}]},
        "status": {"phase": "Pending"},
    });
    for word in words {
        let (key, value) = word.split_once('=').unwrap_or((word, ""));
        let requests = |pod: &mut Value, name: &str| {
            pod["spec"]["containers"][0]["resources"]["requests"][name] = value.into();
        };
        match key {
            "on" => pod["spec"]["nodeName"] = value.into(),
            "ns" => pod["metadata"]["namespace"] = value.into(),
            "app" | "tier" => pod["metadata"]["labels"][key] = value.into(),
            "cpu" | "ephemeral-storage" => requests(&mut pod, key),
            "mem" => requests(&mut pod, "memory"),
            "prio" => pod["spec"]["priority"] = value.parse::<i32>().unwrap().into(),
            "image" => pod["spec"]["containers"][0]["image"] = value.into(),
            "init" => push(
                &mut pod,
                &["spec", "initContainers"],
                json!({"name": "init", "image": "app:1", "resources": {"requests": {"cpu": value}}}),
            ),
            "sidecar" => {
                let port = json!([{"containerPort": 1, "hostPort": value.parse::<i32>().unwrap()}]);
                let sidecar = json!({"name": "side", "image": "app:1", "restartPolicy": "Always", "ports": port});
                push(&mut pod, &["spec", "initContainers"], sidecar);
            }
            "overhead" => pod["spec"]["overhead"] = json!({"cpu": value}),
            "port" => push_port(&mut pod, value),
            "tolerate" => push(&mut pod, &["spec", "tolerations"], toleration(value)),
            "policy" => pod["spec"]["preemptionPolicy"] = value.into(),
            "started" => pod["status"]["startTime"] = format!("2026-01-01T{value}:00Z").into(),
            "nominated" => pod["status"]["nominatedNodeName"] = value.into(),
            "done" => pod["status"]["phase"] = "Succeeded".into(),
            "deleting" => pod["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into(),
            "of" => {
                let owner = json!({"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": value, "uid": value, "controller": true});
                push(&mut pod, &["metadata", "ownerReferences"], owner);
            }
            "want" => {
                let path = ["spec", "affinity", "nodeAffinity", REQUIRED, "nodeSelectorTerms"];
                push(&mut pod, &path, node_term(value));
            }
            "prefer" => {
                let (weight, term) = value.split_once('*').unwrap();
                let preference = json!({"weight": weight.parse::<i32>().unwrap(), "preference": node_term(term)});
                push(&mut pod, &["spec", "affinity", "nodeAffinity", PREFERRED], preference);
            }
            "near" => push(&mut pod, &["spec", "affinity", "podAffinity", REQUIRED], pod_term(value)),
            "away" => push(&mut pod, &["spec", "affinity", "podAntiAffinity", REQUIRED], pod_term(value)),
            "rather-near" => push(&mut pod, &["spec", "affinity", "podAffinity", PREFERRED], weighted(value)),
            "rather-away" => push(&mut pod, &["spec", "affinity", "podAntiAffinity", PREFERRED], weighted(value)),
            "spread" => push(&mut pod, &["spec", "topologySpreadConstraints"], spread(value, "DoNotSchedule")),
            "soft-spread" => push(&mut pod, &["spec", "topologySpreadConstraints"], spread(value, "ScheduleAnyway")),
            "vol" => {
                let volume = json!({"name": value, "persistentVolumeClaim": {"claimName": value}});
                push(&mut pod, &["spec", "volumes"], volume);
            }
            "ephemeral" => {
                push(
                    &mut pod,
                    &["spec", "volumes"],
                    json!({"name": value, "ephemeral": {"volumeClaimTemplate": {"spec": {
                        "accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}},
                    }}}}),
                );
            }
            other => match other.split_once(':') {
                Some(("label", label)) => pod["metadata"]["labels"][label] = value.into(),
                Some(("ask", resource)) => {
                    // A resource that cannot be overcommitted needs a limit equal to its request.
                    requests(&mut pod, resource);
                    pod["spec"]["containers"][0]["resources"]["limits"][resource] = value.into();
                }
                Some(("select", label)) => pod["spec"]["nodeSelector"][topology(label)] = value.into(),
                _ => panic!("a pod has no {word}"),
            },
        }
    }
    pod
}

/// Parses `8080`, `8080/UDP` or `8080@10.0.0.1`.
fn push_port(pod: &mut Value, text: &str) {
    let (text, ip) = text.split_once('@').unwrap_or((text, ""));
    let (number, protocol) = text.split_once('/').unwrap_or((text, "TCP"));
    let port =
        json!({"containerPort": 1, "hostPort": number.parse::<i32>().unwrap(), "protocol": protocol, "hostIP": ip});
    push(&mut pod["spec"]["containers"][0], &["ports"], port);
}

/// Parses `key:In:a,b` and `key:Exists`, joined by `&`. The key `name` is the node's name.
fn expressions(text: &str) -> Vec<Value> {
    let expression = |text: &str| {
        let mut parts = text.split(':');
        let key = topology(parts.next().unwrap());
        let operator = parts.next().unwrap_or("Exists");
        let values: Vec<&str> = parts.next().map(|values| values.split(',').collect()).unwrap_or_default();
        json!({"key": key, "operator": operator, "values": values})
    };
    text.split('&').filter(|text| !text.is_empty()).map(expression).collect()
}

fn node_term(text: &str) -> Value {
    let (fields, labels): (Vec<Value>, Vec<Value>) = expressions(text).into_iter().partition(|e| e["key"] == "name");
    let fields = fields.into_iter().map(|mut field| {
        field["key"] = "metadata.name".into();
        field
    });
    let fields: Vec<Value> = fields.collect();
    json!({"matchExpressions": labels, "matchFields": fields})
}

/// Parses `key:value` as a label and `key:In:a,b` as an expression. `*` selects everything, an
/// empty text nothing.
fn selector(text: &str) -> Value {
    match text {
        "" => Value::Null,
        "*" => json!({}),
        text if text.matches(':').count() == 1 && !text.contains('&') && !text.contains("Exist") => {
            let (key, value) = text.split_once(':').unwrap();
            json!({"matchLabels": {key: value}})
        }
        text => json!({"matchExpressions": expressions(text)}),
    }
}

/// Parses `SELECTOR@TOPOLOGY`. For other namespaces `/ns1,ns2` or `/?SELECTOR` follows.
fn pod_term(text: &str) -> Value {
    let (selector_and_key, namespaces) = text.split_once('/').unwrap_or((text, ""));
    let (select, key) = selector_and_key.rsplit_once('@').unwrap();
    let mut term = json!({"labelSelector": selector(select), "topologyKey": topology(key)});
    if let Some(select) = namespaces.strip_prefix('?') {
        term["namespaceSelector"] = selector(select);
    } else if !namespaces.is_empty() {
        term["namespaces"] = namespaces.split(',').collect();
    }
    term
}

fn weighted(text: &str) -> Value {
    let (weight, term) = text.split_once('*').unwrap();
    json!({"weight": weight.parse::<i32>().unwrap(), "podAffinityTerm": pod_term(term)})
}

/// Parses `SKEW*SELECTOR@TOPOLOGY` with the options `!min=2`, `!affinity=Ignore` and
/// `!taints=Honor`.
fn spread(text: &str, when: &str) -> Value {
    let mut parts = text.split('!');
    let (skew, selector_and_key) = parts.next().unwrap().split_once('*').unwrap();
    let (select, key) = selector_and_key.rsplit_once('@').unwrap();
    let mut constraint = json!({
        "maxSkew": skew.parse::<i32>().unwrap(), "topologyKey": topology(key), "whenUnsatisfiable": when,
        "labelSelector": selector(select),
    });
    for option in parts {
        let (name, value) = option.split_once('=').unwrap();
        match name {
            "min" => constraint["minDomains"] = value.parse::<i32>().unwrap().into(),
            "affinity" => constraint["nodeAffinityPolicy"] = value.into(),
            "taints" => constraint["nodeTaintsPolicy"] = value.into(),
            other => panic!("a spread constraint has no {other}"),
        }
    }
    constraint
}

fn other<'a>(kind: &str, name: &str, words: impl Iterator<Item = &'a str>) -> Value {
    let mut object = match kind {
        "ns" => {
            json!({"kind": "Namespace", "apiVersion": "v1", "metadata": {"labels": {"kubernetes.io/metadata.name": name}}})
        }
        "claim" => json!({
            "kind": "PersistentVolumeClaim", "apiVersion": "v1", "metadata": {"namespace": "default", "annotations": {}},
            "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}, "status": {"phase": "Pending"},
        }),
        "pv" => json!({
            "kind": "PersistentVolume", "apiVersion": "v1", "metadata": {"labels": {}},
            "spec": {"accessModes": ["ReadWriteOnce"], "capacity": {"storage": "1Gi"}, "csi": {"driver": "disk", "volumeHandle": name}},
            "status": {"phase": "Available"},
        }),
        "class" => {
            json!({"kind": "StorageClass", "apiVersion": "storage.k8s.io/v1", "metadata": {}, "provisioner": "disk",
            "volumeBindingMode": "WaitForFirstConsumer"})
        }
        "csi" => json!({"kind": "CSINode", "apiVersion": "storage.k8s.io/v1", "metadata": {}, "spec": {"drivers": []}}),
        "service" => {
            json!({"kind": "Service", "apiVersion": "v1", "metadata": {"namespace": "default"}, "spec": {"selector": {}, "ports": [{"port": 80}]}})
        }
        "rs" => json!({"kind": "ReplicaSet", "apiVersion": "apps/v1", "metadata": {"namespace": "default"},
            "spec": {"selector": {"matchLabels": {}}, "template": {"metadata": {"labels": {}},
                "spec": {"containers": [{"name": "main", "image": "app:1"}]}}}}),
        "pdb" => json!({"kind": "PodDisruptionBudget", "apiVersion": "policy/v1", "metadata": {"namespace": "default"},
            "spec": {"selector": {"matchLabels": {}}}, "status": {"disruptionsAllowed": 0, "currentHealthy": 0, "desiredHealthy": 0, "expectedPods": 0}}),
        other => panic!("{other} is no kind of object"),
    };
    object["metadata"]["name"] = name.into();
    for word in words {
        let (key, value) = word.split_once('=').unwrap_or((word, ""));
        match (kind, key) {
            ("claim", "class") => object["spec"]["storageClassName"] = value.into(),
            ("claim", "size") => object["spec"]["resources"]["requests"]["storage"] = value.into(),
            ("claim", "mode") => object["spec"]["accessModes"] = json!([value]),
            ("claim", "to") => {
                object["spec"]["volumeName"] = value.into();
                object["metadata"]["annotations"]["pv.kubernetes.io/bind-completed"] = "yes".into();
            }
            ("claim", "prebound") => object["spec"]["volumeName"] = value.into(),
            ("claim", "selected") => {
                object["metadata"]["annotations"]["volume.kubernetes.io/selected-node"] = value.into();
            }
            ("claim", "lost") => object["status"]["phase"] = "Lost".into(),
            ("claim" | "pv", "deleting") => object["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into(),
            ("claim", "owned") => {
                let owner = json!({"apiVersion": "v1", "kind": "Pod", "name": value, "uid": format!("uid-{value}"), "controller": true});
                push(&mut object, &["metadata", "ownerReferences"], owner);
            }
            ("pv", "class") => object["spec"]["storageClassName"] = value.into(),
            ("pv", "size") => object["spec"]["capacity"]["storage"] = value.into(),
            ("pv", "driver") => object["spec"]["csi"]["driver"] = value.into(),
            ("pv", "at") => {
                push(&mut object, &["spec", "nodeAffinity", "required", "nodeSelectorTerms"], node_term(value));
            }
            ("pv", "for") => {
                object["spec"]["claimRef"] = json!({"namespace": "default", "name": value});
                object["status"]["phase"] = "Bound".into();
            }
            ("class", "by") => object["provisioner"] = value.into(),
            ("class", "now") => object["volumeBindingMode"] = "Immediate".into(),
            ("class", "zones") => {
                let values: Vec<&str> = value.split(',').collect();
                object["allowedTopologies"] =
                    json!([{"matchLabelExpressions": [{"key": topology("zone"), "values": values}]}]);
            }
            ("csi", driver) => {
                let driver =
                    json!({"name": driver, "nodeID": name, "allocatable": {"count": value.parse::<i32>().unwrap()}});
                push(&mut object, &["spec", "drivers"], driver);
            }
            ("service", label) => object["spec"]["selector"][label] = value.into(),
            ("pdb", "allows") => object["status"]["disruptionsAllowed"] = value.parse::<i32>().unwrap().into(),
            ("rs", label) => {
                object["spec"]["selector"]["matchLabels"][label] = value.into();
                object["spec"]["template"]["metadata"]["labels"][label] = value.into();
            }
            ("pdb", label) => object["spec"]["selector"]["matchLabels"][label] = value.into(),
            ("ns" | "pv", label) => object["metadata"]["labels"][topology(label)] = value.into(),
            (kind, _) => panic!("a {kind} has no {word}"),
        }
    }
    object
}
