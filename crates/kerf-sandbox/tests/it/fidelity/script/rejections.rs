//! Objects of common kinds that the server rejects, with messages and causes.

use serde_json::{Value, json};

use super::{Section, pod, pod_spec};

pub(super) fn section() -> Section {
    let mut s = Section::new("refusals");
    s.namespace("refusals");
    pods(&mut s);
    workloads(&mut s);
    others(&mut s);
    definitions(&mut s);
    s
}

fn pods(s: &mut Section) {
    let container = |change: Value| {
        let mut pod = pod("x");
        for (key, value) in change.as_object().unwrap() {
            pod["spec"]["containers"][0][key] = value.clone();
        }
        pod
    };
    let spec = |change: Value| {
        let mut pod = pod("x");
        for (key, value) in change.as_object().unwrap() {
            pod["spec"][key] = value.clone();
        }
        pod
    };
    let affinity = |kind: &str, value: Value| spec(json!({"affinity": {kind: value}}));
    for (title, pod) in [
        ("no containers", spec(json!({"containers": []}))),
        ("no spec", json!({"metadata": {"name": "x"}})),
        (
            "two containers of a name",
            spec(json!({"containers": [{"name": "c", "image": "a"}, {"name": "c", "image": "b"}]})),
        ),
        ("a container without an image", spec(json!({"containers": [{"name": "c"}]}))),
        ("a container with a bad name", container(json!({"name": "C_"}))),
        ("a negative request", container(json!({"resources": {"requests": {"cpu": "-1"}}}))),
        (
            "a request beyond its limit",
            container(json!({"resources": {"requests": {"cpu": "2"}, "limits": {"cpu": "1"}}})),
        ),
        ("a request that is no quantity", container(json!({"resources": {"requests": {"cpu": "many"}}}))),
        ("an unknown resource", container(json!({"resources": {"requests": {"gold": "1"}}}))),
        (
            "half a device",
            container(
                json!({"resources": {"requests": {"example.com/gpu": "500m"}, "limits": {"example.com/gpu": "500m"}}}),
            ),
        ),
        ("a device without a limit", container(json!({"resources": {"requests": {"example.com/gpu": "1"}}}))),
        ("a port out of range", container(json!({"ports": [{"containerPort": 70000}]}))),
        ("a port with an unknown protocol", container(json!({"ports": [{"containerPort": 80, "protocol": "IPX"}]}))),
        (
            "a host port twice",
            container(json!({"ports": [{"containerPort": 80, "hostPort": 80}, {"containerPort": 81, "hostPort": 80}]})),
        ),
        ("an unknown pull policy", container(json!({"imagePullPolicy": "Sometimes"}))),
        ("a mount without a volume", container(json!({"volumeMounts": [{"name": "v", "mountPath": "/v"}]}))),
        ("an environment without a name", container(json!({"env": [{"name": "", "value": "x"}]}))),
        ("a probe that does nothing", container(json!({"livenessProbe": {}}))),
        ("a volume of two kinds", spec(json!({"volumes": [{"name": "v", "emptyDir": {}, "hostPath": {"path": "/"}}]}))),
        (
            "two volumes of a name",
            spec(json!({"volumes": [{"name": "v", "emptyDir": {}}, {"name": "v", "emptyDir": {}}]})),
        ),
        ("an unknown restart policy", spec(json!({"restartPolicy": "Perhaps"}))),
        ("a negative grace", spec(json!({"terminationGracePeriodSeconds": -1}))),
        ("a negative deadline", spec(json!({"activeDeadlineSeconds": 0}))),
        ("a bad node selector", spec(json!({"nodeSelector": {"a b": "c"}}))),
        ("a bad node name", spec(json!({"nodeName": "A B"}))),
        ("a toleration that is none", spec(json!({"tolerations": [{"key": "a", "operator": "Exists", "value": "b"}]}))),
        ("a toleration of everything but", spec(json!({"tolerations": [{"operator": "Equal", "value": "b"}]}))),
        (
            "a toleration of no effect",
            spec(json!({"tolerations": [{"key": "a", "operator": "Exists", "effect": "Never"}]})),
        ),
        (
            "a toleration with seconds",
            spec(
                json!({"tolerations": [{"key": "a", "operator": "Exists", "effect": "NoSchedule", "tolerationSeconds": 5}]}),
            ),
        ),
        (
            "a spread without skew",
            spec(
                json!({"topologySpreadConstraints": [{"maxSkew": 0, "topologyKey": "z", "whenUnsatisfiable": "DoNotSchedule"}]}),
            ),
        ),
        (
            "a spread without a key",
            spec(
                json!({"topologySpreadConstraints": [{"maxSkew": 1, "topologyKey": "", "whenUnsatisfiable": "DoNotSchedule"}]}),
            ),
        ),
        (
            "a spread of nonsense",
            spec(
                json!({"topologySpreadConstraints": [{"maxSkew": 1, "topologyKey": "z", "whenUnsatisfiable": "Cry", "minDomains": 0}]}),
            ),
        ),
        (
            "a spread twice",
            spec(
                json!({"topologySpreadConstraints": [{"maxSkew": 1, "topologyKey": "z", "whenUnsatisfiable": "DoNotSchedule"}, {"maxSkew": 2, "topologyKey": "z", "whenUnsatisfiable": "DoNotSchedule"}]}),
            ),
        ),
        (
            "a minimum for a wish",
            spec(
                json!({"topologySpreadConstraints": [{"maxSkew": 1, "topologyKey": "z", "whenUnsatisfiable": "ScheduleAnyway", "minDomains": 2}]}),
            ),
        ),
        (
            "an affinity without terms",
            affinity(
                "nodeAffinity",
                json!({"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": []}}),
            ),
        ),
        (
            "an affinity of no operator",
            affinity(
                "nodeAffinity",
                json!({"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [{"matchExpressions": [{"key": "a", "operator": "Near", "values": ["b"]}]}]}}),
            ),
        ),
        (
            "an affinity without values",
            affinity(
                "nodeAffinity",
                json!({"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [{"matchExpressions": [{"key": "a", "operator": "In"}]}]}}),
            ),
        ),
        (
            "an affinity with values too many",
            affinity(
                "nodeAffinity",
                json!({"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [{"matchExpressions": [{"key": "a", "operator": "Exists", "values": ["b"]}]}]}}),
            ),
        ),
        (
            "an affinity greater than a word",
            affinity(
                "nodeAffinity",
                json!({"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [{"matchExpressions": [{"key": "a", "operator": "Gt", "values": ["b", "c"]}]}]}}),
            ),
        ),
        (
            "a wish of no weight",
            affinity(
                "nodeAffinity",
                json!({"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 0, "preference": {"matchExpressions": [{"key": "a", "operator": "Exists"}]}}]}),
            ),
        ),
        (
            "an anti-affinity without a key",
            affinity(
                "podAntiAffinity",
                json!({"requiredDuringSchedulingIgnoredDuringExecution": [{"topologyKey": "", "labelSelector": {}}]}),
            ),
        ),
        (
            "an anti-affinity with a bad selector",
            affinity(
                "podAntiAffinity",
                json!({"requiredDuringSchedulingIgnoredDuringExecution": [{"topologyKey": "z", "labelSelector": {"matchExpressions": [{"key": "a", "operator": "In"}]}}]}),
            ),
        ),
        ("a class that is not there", spec(json!({"priorityClassName": "nobody"}))),
        ("a priority of one's own", spec(json!({"priority": 7}))),
        ("a runtime class that is not there", spec(json!({"runtimeClassName": "nobody"}))),
        ("a service account that is not there", spec(json!({"serviceAccountName": "nobody"}))),
        ("a bad gate", spec(json!({"schedulingGates": [{"name": "a b"}]}))),
        ("a gate and a node", spec(json!({"schedulingGates": [{"name": "a"}], "nodeName": "n"}))),
        (
            "many mistakes",
            json!({"metadata": {"name": "X", "labels": {"a": "b c"}}, "spec": {"restartPolicy": "No", "containers": [{"name": "", "image": ""}]}}),
        ),
    ] {
        s.post(&format!("pod: {title}"), "/api/v1/namespaces/refusals/pods?dryRun=All", pod);
    }
}

fn workloads(s: &mut Section) {
    let deployment = |change: Value| {
        let mut spec = json!({"selector": {"matchLabels": {"a": "b"}}, "template": {"metadata": {"labels": {"a": "b"}}, "spec": pod_spec()}});
        for (key, value) in change.as_object().unwrap() {
            spec[key] = value.clone();
        }
        json!({"metadata": {"name": "x"}, "spec": spec})
    };
    for (title, object) in [
        ("no selector", json!({"metadata": {"name": "x"}, "spec": {"template": {"spec": pod_spec()}}})),
        ("a selector of others", deployment(json!({"selector": {"matchLabels": {"c": "d"}}}))),
        ("an empty selector", deployment(json!({"selector": {}}))),
        ("negative replicas", deployment(json!({"replicas": -1}))),
        ("replicas in words", deployment(json!({"replicas": "two"}))),
        ("an unknown strategy", deployment(json!({"strategy": {"type": "Hope"}}))),
        (
            "a strategy of nothing",
            deployment(json!({"strategy": {"rollingUpdate": {"maxUnavailable": 0, "maxSurge": 0}}})),
        ),
        (
            "recreation while rolling",
            deployment(json!({"strategy": {"type": "Recreate", "rollingUpdate": {"maxSurge": 1}}})),
        ),
        ("a deadline before it is ready", deployment(json!({"minReadySeconds": 10, "progressDeadlineSeconds": 5}))),
    ] {
        s.post(&format!("deployment: {title}"), "/apis/apps/v1/namespaces/refusals/deployments?dryRun=All", object);
    }
    let never = deployment(
        json!({"template": {"metadata": {"labels": {"a": "b"}}, "spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "a"}]}}}),
    );
    s.post("deployment: pods that end", "/apis/apps/v1/namespaces/refusals/deployments?dryRun=All", never.clone());
    s.post("replica set: pods that end", "/apis/apps/v1/namespaces/refusals/replicasets?dryRun=All", never.clone());
    s.post("stateful set: pods that end", "/apis/apps/v1/namespaces/refusals/statefulsets?dryRun=All", never.clone());
    s.post("daemon set: pods that end", "/apis/apps/v1/namespaces/refusals/daemonsets?dryRun=All", never);
    let job = |spec: Value| json!({"metadata": {"name": "x"}, "spec": spec});
    let once = json!({"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "a"}]}});
    let jobs = "/apis/batch/v1/namespaces/refusals/jobs?dryRun=All";
    s.post(
        "job: pods that never end",
        jobs,
        job(json!({"template": {"spec": {"containers": [{"name": "c", "image": "a"}]}}})),
    );
    s.post("job: negative completions", jobs, job(json!({"completions": -1, "template": once})));
    s.post("job: indexed without an end", jobs, job(json!({"completionMode": "Indexed", "template": once})));
    s.post(
        "cron job: no schedule",
        "/apis/batch/v1/namespaces/refusals/cronjobs?dryRun=All",
        job(json!({"schedule": "whenever", "jobTemplate": {"spec": {"template": once}}})),
    );
    s.post(
        "cron job: an unknown zone",
        "/apis/batch/v1/namespaces/refusals/cronjobs?dryRun=All",
        job(json!({"schedule": "@daily", "timeZone": "Moon/Tycho", "jobTemplate": {"spec": {"template": once}}})),
    );
}

fn others(s: &mut Section) {
    let named = |spec: Value| json!({"metadata": {"name": "x"}, "spec": spec});
    for (title, path, object) in [
        ("service: no ports", "/api/v1/namespaces/refusals/services", named(json!({"selector": {"a": "b"}}))),
        (
            "service: ports without names",
            "/api/v1/namespaces/refusals/services",
            named(json!({"ports": [{"port": 80}, {"port": 81}]})),
        ),
        (
            "service: a port out of range",
            "/api/v1/namespaces/refusals/services",
            named(json!({"ports": [{"port": 0}]})),
        ),
        (
            "service: a bad name",
            "/api/v1/namespaces/refusals/services",
            json!({"metadata": {"name": "1x"}, "spec": {"ports": [{"port": 80}]}}),
        ),
        (
            "claim: no modes",
            "/api/v1/namespaces/refusals/persistentvolumeclaims",
            named(json!({"resources": {"requests": {"storage": "1Gi"}}})),
        ),
        (
            "claim: no size",
            "/api/v1/namespaces/refusals/persistentvolumeclaims",
            named(json!({"accessModes": ["ReadWriteOnce"]})),
        ),
        (
            "claim: an unknown mode",
            "/api/v1/namespaces/refusals/persistentvolumeclaims",
            named(json!({"accessModes": ["WriteNever"], "resources": {"requests": {"storage": "1Gi"}}})),
        ),
        (
            "volume: nothing in it",
            "/api/v1/persistentvolumes",
            named(json!({"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"]})),
        ),
        (
            "volume: no capacity",
            "/api/v1/persistentvolumes",
            named(json!({"accessModes": ["ReadWriteOnce"], "csi": {"driver": "d", "volumeHandle": "h"}})),
        ),
        ("storage class: no provisioner", "/apis/storage.k8s.io/v1/storageclasses", json!({"metadata": {"name": "x"}})),
        (
            "storage class: an unknown mode",
            "/apis/storage.k8s.io/v1/storageclasses",
            json!({"metadata": {"name": "x"}, "provisioner": "p", "volumeBindingMode": "Later"}),
        ),
        (
            "priority class: too high",
            "/apis/scheduling.k8s.io/v1/priorityclasses",
            json!({"metadata": {"name": "x"}, "value": 1_000_000_001}),
        ),
        (
            "priority class: the system's name",
            "/apis/scheduling.k8s.io/v1/priorityclasses",
            json!({"metadata": {"name": "system-x"}, "value": 1}),
        ),
        (
            "runtime class: no handler",
            "/apis/node.k8s.io/v1/runtimeclasses",
            json!({"metadata": {"name": "x"}, "handler": ""}),
        ),
        ("node: a bad name", "/api/v1/nodes", json!({"metadata": {"name": "A"}})),
        ("node: a bad taint", "/api/v1/nodes", named(json!({"taints": [{"key": "", "effect": "NoSchedule"}]}))),
        ("node: a bad label", "/api/v1/nodes", json!({"metadata": {"name": "x", "labels": {"a": "/"}}})),
        ("namespace: a bad name", "/api/v1/namespaces", json!({"metadata": {"name": "a.b"}})),
        (
            "lease: a negative duration",
            "/apis/coordination.k8s.io/v1/namespaces/refusals/leases",
            named(json!({"leaseDurationSeconds": -1, "leaseTransitions": -2})),
        ),
        (
            "secret: no base64",
            "/api/v1/namespaces/refusals/secrets",
            json!({"metadata": {"name": "x"}, "data": {"a": "***"}}),
        ),
        (
            "event: of another namespace",
            "/api/v1/namespaces/refusals/events",
            json!({"metadata": {"name": "x"}, "involvedObject": {"kind": "Pod", "namespace": "default", "name": "a"}}),
        ),
        (
            "event: of the newer kind, with little in it",
            "/apis/events.k8s.io/v1/namespaces/refusals/events",
            json!({"metadata": {"name": "x"}, "eventTime": "2019-01-01T00:00:00.000000Z"}),
        ),
        (
            "role binding: no role",
            "/apis/rbac.authorization.k8s.io/v1/namespaces/refusals/rolebindings",
            json!({"metadata": {"name": "x"}, "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "", "name": ""}}),
        ),
    ] {
        s.post(title, &format!("{path}?dryRun=All"), object);
    }
}

fn definitions(s: &mut Section) {
    let crds = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    let crd = |schema: Value| {
        json!({"metadata": {"name": "toys.example.com"}, "spec": {"group": "example.com", "scope": "Cluster",
        "names": {"kind": "Toy", "plural": "toys"}, "versions": [{"name": "v1", "served": true, "storage": true, "schema": schema}]}})
    };
    let open = |properties: Value| json!({"openAPIV3Schema": {"type": "object", "properties": properties}});
    let mut misnamed = crd(open(json!({})));
    misnamed["metadata"]["name"] = json!("dolls.example.com");
    let mut unstored = crd(open(json!({})));
    unstored["spec"]["versions"][0]["storage"] = json!(false);
    for (title, definition) in [
        ("another name than its own", misnamed),
        ("no version stored", unstored),
        (
            "no schema",
            json!({"metadata": {"name": "toys.example.com"}, "spec": {"group": "example.com", "scope": "Cluster", "names": {"kind": "Toy", "plural": "toys"}, "versions": [{"name": "v1", "served": true, "storage": true}]}}),
        ),
        ("a schema without a type", crd(open(json!({"a": {}})))),
        ("a list without items", crd(open(json!({"a": {"type": "array"}})))),
        ("a default that does not fit", crd(open(json!({"a": {"type": "string", "default": 1}})))),
        (
            "a rule that is none",
            crd(open(json!({"a": {"type": "string", "x-kubernetes-validations": [{"rule": "self.foo >"}]}}))),
        ),
        (
            "a rule of the wrong type",
            crd(open(json!({"a": {"type": "string", "x-kubernetes-validations": [{"rule": "self + 1"}]}}))),
        ),
        ("an unknown scope", {
            let mut odd = crd(open(json!({})));
            odd["spec"]["scope"] = json!("Galaxy");
            odd
        }),
        (
            "a map list without keys",
            crd(open(
                json!({"a": {"type": "array", "x-kubernetes-list-type": "map", "items": {"type": "object", "properties": {"k": {"type": "string"}}}}}),
            )),
        ),
    ] {
        s.post(&format!("definition: {title}"), &format!("{crds}?dryRun=All"), definition);
    }
}
