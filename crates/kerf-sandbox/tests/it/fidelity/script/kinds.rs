//! One object of every kind, with as few fields as the API allows: shows the server's defaults.

use serde_json::{Value, json};

use super::{Section, pod, pod_spec};

fn template() -> Value {
    json!({"metadata": {"labels": {"app": "a"}}, "spec": pod_spec()})
}

fn selector() -> Value {
    json!({"matchLabels": {"app": "a"}})
}

pub(super) fn section() -> Section {
    let mut s = Section::new("kinds");
    s.namespace("kinds");
    let at = |group: &str, plural: &str| match group {
        "" => format!("/api/v1/namespaces/kinds/{plural}"),
        group => format!("/apis/{group}/namespaces/kinds/{plural}"),
    };
    let spread = json!([{"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule", "labelSelector": {"matchLabels": {"app": "a"}}}]);
    let busy = json!({
        "automountServiceAccountToken": false, "schedulerName": "nobody",
        "initContainers": [{"name": "side", "image": "busybox", "restartPolicy": "Always"}],
        "containers": [{
            "name": "c", "image": "example.com/app:2", "ports": [{"containerPort": 80}, {"name": "m", "containerPort": 81, "protocol": "UDP"}],
            "resources": {"requests": {"cpu": "0.5", "memory": "1024Mi"}, "limits": {"memory": "2Gi", "cpu": "1000m"}},
            "livenessProbe": {"httpGet": {"port": 80}},
            "readinessProbe": {"tcpSocket": {"port": "m"}, "periodSeconds": 3},
            "env": [{"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}],
            "volumeMounts": [{"name": "v", "mountPath": "/v"}],
        }],
        "volumes": [
            {"name": "v", "emptyDir": {}}, {"name": "s", "secret": {"secretName": "s"}}, {"name": "m", "configMap": {"name": "m"}},
            {"name": "h", "hostPath": {"path": "/x"}},
            {"name": "e", "ephemeral": {"volumeClaimTemplate": {"spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}}}},
        ],
        "topologySpreadConstraints": spread,
        "tolerations": [{"key": "a", "operator": "Exists"}],
        "affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [
            {"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a", "b"]}]}]}}},
    });
    s.post("a pod", &at("", "pods"), pod("a")).compare_managed_fields();
    s.post(
        "a pod with much in it",
        &at("", "pods"),
        json!({"metadata": {"name": "busy", "labels": {"app": "a"}}, "spec": busy}),
    )
    .compare_managed_fields();
    s.post(
        "a gated pod",
        &at("", "pods"),
        json!({"metadata": {"name": "gated"}, "spec": {"automountServiceAccountToken": false,
        "schedulingGates": [{"name": "example.com/a"}], "containers": [{"name": "c", "image": "a:latest"}]}}),
    );
    s.post("a guaranteed pod", &at("", "pods"), json!({"metadata": {"name": "sure"}, "spec": {"automountServiceAccountToken": false, "schedulerName": "nobody",
        "containers": [{"name": "c", "image": "a@sha256:00", "resources": {"limits": {"cpu": "1", "memory": "1Gi"}}}]}}));
    s.post("a pod of the system's class", &at("", "pods"), json!({"metadata": {"name": "vital"}, "spec": {"automountServiceAccountToken": false,
        "schedulerName": "nobody", "priorityClassName": "system-node-critical", "containers": [{"name": "c", "image": "a"}]}}));
    s.post(
        "a config map",
        &at("", "configmaps"),
        json!({"metadata": {"name": "a"}, "data": {"b": "c"}, "binaryData": {"d": "AAE="}}),
    )
    .compare_managed_fields();
    s.post(
        "a secret",
        &at("", "secrets"),
        json!({"metadata": {"name": "a"}, "stringData": {"b": "c"}, "data": {"d": "ZQ=="}}),
    );
    s.post("a service", &at("", "services"), json!({"metadata": {"name": "a"}, "spec": {"clusterIP": "None", "selector": {"a": "b"}, "ports": [{"port": 80}]}}));
    s.post(
        "a service with an address",
        &at("", "services"),
        json!({"metadata": {"name": "b"}, "spec": {"ports": [{"port": 80}, {"name": "x", "port": 81}]}}),
    )
    .ignore(&["/spec/clusterIP", "/spec/clusterIPs"]);
    s.post("a service with names for its ports", &at("", "services"), json!({"metadata": {"name": "c"},
        "spec": {"clusterIP": "None", "ports": [{"name": "w", "port": 80, "targetPort": "http"}, {"name": "x", "port": 81}]}}));
    s.post("a service account", &at("", "serviceaccounts"), json!({"metadata": {"name": "a"}}));
    s.post(
        "a claim",
        &at("", "persistentvolumeclaims"),
        json!({"metadata": {"name": "a"}, "spec": {"storageClassName": "none",
        "accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}}),
    );
    s.post("a limit range", &at("", "limitranges"), json!({"metadata": {"name": "a"}, "spec": {"limits": [{"type": "PersistentVolumeClaim", "max": {"storage": "2Ti"}}]}}));
    s.post(
        "a quota",
        &at("", "resourcequotas"),
        json!({"metadata": {"name": "a"}, "spec": {"hard": {"services": "50"}}}),
    );
    s.post("a pod template", &at("", "podtemplates"), json!({"metadata": {"name": "a"}, "template": template()}));
    s.post(
        "a replication controller",
        &at("", "replicationcontrollers"),
        json!({"metadata": {"name": "a"}, "spec": {"replicas": 0, "template": template()}}),
    );
    s.post(
        "an event",
        &at("", "events"),
        json!({"metadata": {"name": "a"}, "involvedObject": {"kind": "Pod", "namespace": "kinds", "name": "a"},
        "reason": "R", "message": "m", "type": "Normal", "source": {"component": "c"}}),
    );
    s.post("an event of the newer kind", &at("events.k8s.io/v1", "events"), json!({"metadata": {"name": "b"}, "regarding": {"kind": "Pod", "namespace": "kinds", "name": "a"},
        "note": "n", "reason": "R", "type": "Normal", "eventTime": "2019-01-01T12:00:00.000000Z", "reportingController": "c", "reportingInstance": "i", "action": "A"}));
    s.get("the newer event as it was", &at("", "events/b"));
    s.get("the older event as it would be now", &at("events.k8s.io/v1", "events/a"));
    s.post(
        "a deployment",
        &at("apps/v1", "deployments"),
        json!({"metadata": {"name": "a"}, "spec": {"replicas": 0, "selector": selector(), "template": template()}}),
    )
    .compare_managed_fields();
    s.post(
        "a replica set",
        &at("apps/v1", "replicasets"),
        json!({"metadata": {"name": "a"}, "spec": {"replicas": 0, "selector": selector(), "template": template()}}),
    );
    s.post("a stateful set", &at("apps/v1", "statefulsets"), json!({"metadata": {"name": "a"}, "spec": {"replicas": 0, "serviceName": "a", "selector": selector(), "template": template(),
        "volumeClaimTemplates": [{"metadata": {"name": "d"}, "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}}]}}));
    s.post(
        "a daemon set",
        &at("apps/v1", "daemonsets"),
        json!({"metadata": {"name": "a"}, "spec": {"selector": selector(), "template": template()}}),
    );
    s.post(
        "a controller revision",
        &at("apps/v1", "controllerrevisions"),
        json!({"metadata": {"name": "a"}, "revision": 1, "data": {"x": 1}}),
    );
    s.post(
        "a job",
        &at("batch/v1", "jobs"),
        json!({"metadata": {"name": "a"}, "spec": {"suspend": true, "template": {"spec": {
        "restartPolicy": "Never", "containers": [{"name": "c", "image": "a"}]}}}}),
    );
    s.post("a cron job", &at("batch/v1", "cronjobs"), json!({"metadata": {"name": "a"}, "spec": {"suspend": true, "schedule": "@daily", "jobTemplate": {"spec": {"template": {"spec": {
        "restartPolicy": "OnFailure", "containers": [{"name": "c", "image": "a"}]}}}}}}));
    s.post(
        "a disruption budget",
        &at("policy/v1", "poddisruptionbudgets"),
        json!({"metadata": {"name": "a"}, "spec": {"minAvailable": "50%", "selector": selector()}}),
    );
    s.post("a lease", &at("coordination.k8s.io/v1", "leases"), json!({"metadata": {"name": "a"}, "spec": {"holderIdentity": "me", "leaseDurationSeconds": 15, "renewTime": "2019-01-01T12:00:00.123456Z"}}));
    s.post("an endpoint slice", &at("discovery.k8s.io/v1", "endpointslices"), json!({"metadata": {"name": "a"}, "addressType": "IPv4", "endpoints": [{"addresses": ["10.1.1.1"]}], "ports": [{"port": 80}]}));
    s.post(
        "a network policy",
        &at("networking.k8s.io/v1", "networkpolicies"),
        json!({"metadata": {"name": "a"}, "spec": {"podSelector": {}, "ingress": [{"ports": [{"port": 80}]}]}}),
    );
    s.post("an ingress", &at("networking.k8s.io/v1", "ingresses"), json!({"metadata": {"name": "a"}, "spec": {"defaultBackend": {"service": {"name": "a", "port": {"number": 80}}}}}));
    s.post(
        "a role",
        &at("rbac.authorization.k8s.io/v1", "roles"),
        json!({"metadata": {"name": "a"}, "rules": [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}]}),
    );
    s.post("a role binding", &at("rbac.authorization.k8s.io/v1", "rolebindings"), json!({"metadata": {"name": "a"}, "roleRef": {"kind": "Role", "name": "a"}, "subjects": [{"kind": "User", "name": "u"}]}));

    s.post("a node", "/api/v1/nodes", json!({"metadata": {"name": "kinds-node", "labels": {"a": "b"}}, "spec": {"taints": [{"key": "a", "effect": "NoSchedule"}]},
        "status": {"capacity": {"cpu": "4", "memory": "8Gi"}}})).compare_managed_fields();
    s.post("a volume", "/api/v1/persistentvolumes", json!({"metadata": {"name": "kinds-volume"}, "spec": {"storageClassName": "none", "capacity": {"storage": "1Gi"},
        "accessModes": ["ReadWriteOnce"], "csi": {"driver": "d.example.com", "volumeHandle": "h"}}}));
    s.post(
        "a storage class",
        "/apis/storage.k8s.io/v1/storageclasses",
        json!({"metadata": {"name": "kinds"}, "provisioner": "p.example.com"}),
    );
    s.post(
        "a driver",
        "/apis/storage.k8s.io/v1/csidrivers",
        json!({"metadata": {"name": "d.example.com"}, "spec": {}}),
    );
    s.post("a node's drivers", "/apis/storage.k8s.io/v1/csinodes", json!({"metadata": {"name": "kinds-node"}, "spec": {"drivers": [{"name": "d.example.com", "nodeID": "n", "allocatable": {"count": 5}}]}}));
    s.post("an attachment", "/apis/storage.k8s.io/v1/volumeattachments", json!({"metadata": {"name": "kinds"}, "spec": {"attacher": "d.example.com", "nodeName": "kinds-node", "source": {"persistentVolumeName": "kinds-volume"}}}));
    s.post(
        "a priority class",
        "/apis/scheduling.k8s.io/v1/priorityclasses",
        json!({"metadata": {"name": "kinds"}, "value": 7}),
    );
    s.post(
        "a runtime class",
        "/apis/node.k8s.io/v1/runtimeclasses",
        json!({"metadata": {"name": "kinds"}, "handler": "h", "overhead": {"podFixed": {"cpu": "100m"}}}),
    );
    s.post("a pod with both classes", &at("", "pods"), json!({"metadata": {"name": "classy"}, "spec": {"automountServiceAccountToken": false, "schedulerName": "nobody",
        "priorityClassName": "kinds", "runtimeClassName": "kinds", "containers": [{"name": "c", "image": "a"}]}})).until_code(201);
    s.post(
        "a cluster role",
        "/apis/rbac.authorization.k8s.io/v1/clusterroles",
        json!({"metadata": {"name": "kinds"}, "rules": [{"nonResourceURLs": ["/x"], "verbs": ["get"]}]}),
    );
    s.post("a cluster role binding", "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings", json!({"metadata": {"name": "kinds"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "kinds"}, "subjects": [{"kind": "ServiceAccount", "name": "a", "namespace": "kinds"}]}));
    s.post(
        "an ingress class",
        "/apis/networking.k8s.io/v1/ingressclasses",
        json!({"metadata": {"name": "kinds"}, "spec": {"controller": "example.com/c"}}),
    );
    s.post(
        "may I?",
        "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews",
        json!({"spec": {"resourceAttributes": {"verb": "get", "resource": "pods"}}}),
    )
    .ignore(&["/status/reason"]);
    s
}
