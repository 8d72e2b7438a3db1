//! Tests with objects as a real API server sends them, and with invalid ones.

mod pod;

use super::*;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

fn decode<T: DeserializeOwned>(object: Value) -> T {
    let text = object.to_string();
    let from_text = serde_json::from_str(&text).unwrap();
    // `kerf plan` decodes YAML through a JSON value, so both ways must work.
    let _: T = serde_json::from_value(object).unwrap();
    from_text
}

fn decode_error<T: DeserializeOwned + std::fmt::Debug>(object: &Value) -> String {
    serde_json::from_str::<T>(&object.to_string()).unwrap_err().to_string()
}

fn quantities<const N: usize>(pairs: [(&str, &str); N]) -> ResourceList {
    pairs.try_into().unwrap()
}

#[test]
fn labels_are_sorted_and_the_last_of_a_key_counts() {
    let labels = Labels::from([("b", "1"), ("a", "2"), ("b", "3")]);
    assert_eq!(labels.iter().map(|(k, v)| (k.as_str(), v.as_str())).collect::<Vec<_>>(), [("a", "2"), ("b", "3")]);
    assert_eq!(labels.get("b"), Some("3"));
    assert!(labels.has_value("a", "2") && !labels.has_value("c", ""));
    let decoded: Labels = serde_json::from_str(r#"{"b":"1","a":"2","b":"3","gone":null}"#).unwrap();
    assert_eq!(decoded, labels);
    assert_eq!(
        decode_error::<Labels>(&json!({"a": 5})),
        "[a]: invalid type: integer `5`, expected a string at line 1 column 6"
    );
}

#[test]
fn resource_lists_hold_exact_quantities() {
    let list: ResourceList = decode(json!({"memory": "1Gi", "cpu": "1500m", "nvidia.com/gpu": 2, "none": null}));
    assert_eq!(list, quantities([("cpu", "1500m"), ("memory", "1Gi"), ("nvidia.com/gpu", "2")]));
    assert_eq!(list.get("cpu").unwrap().milli_value(), 1500);
    assert_eq!(list.len(), 3);
    assert!(ResourceList::try_from([("cpu", "x")]).is_err());
}

#[test]
fn equal_values_are_shared_and_different_ones_are_not() {
    let labels = |value: &str| decode::<Labels>(json!({"app": value, "key-of-a-label-that-is-long": "x"}));
    let (a, b, other) = (labels("web"), labels("web"), labels("api"));
    assert!(std::ptr::eq(a.get("app").unwrap(), b.get("app").unwrap()), "one copy");
    assert_eq!((a.get("app"), other.get("app")), (Some("web"), Some("api")));
    // The values are equal, but their formats differ.
    let memory = |text: &str| decode::<ResourceList>(json!({"memory": text})).get("memory").unwrap().to_string();
    for _ in 0..2 {
        assert_eq!(memory("1Gi"), "1Gi");
        assert_eq!(memory("1073741824"), "1073741824");
    }
    // Far more values than the cache holds.
    for i in 0..5_000 {
        let name = format!("ip-10-0-{i}.eu-central-1.compute.internal");
        assert_eq!(decode::<Pod>(json!({"spec": {"nodeName": name}})).spec.node_name.unwrap(), name);
    }
}

#[test]
fn only_annotations_that_decisions_read_are_kept() {
    let meta: ObjectMeta = decode(json!({"annotations": {
        "kubectl.kubernetes.io/last-applied-configuration": "{\"long\": true}",
        "karpenter.sh/do-not-disrupt": "true",
        "compatibility.karpenter.k8s.aws/cluster-name-tagged": "true",
        "compatibility.karpenter.sh/provider": "",
        "karpenter.k8s.aws/ec2nodeclass-hash": "1",
        "controller.kubernetes.io/pod-deletion-cost": "5",
        "controller.kubernetes.io/other": "5",
        "pv.kubernetes.io/bind-completed": "yes",
        "pv.kubernetes.io/bound-by-controller": "yes",
        "kerf.sh/x": "y",
        "notkarpenter.sh/x": "y",
        "plain": "y",
    }}));
    let kept: Vec<_> = meta.annotations.iter().map(|(key, _)| key.as_str()).collect();
    assert_eq!(
        kept,
        [
            "compatibility.karpenter.k8s.aws/cluster-name-tagged",
            "compatibility.karpenter.sh/provider",
            "controller.kubernetes.io/pod-deletion-cost",
            "karpenter.k8s.aws/ec2nodeclass-hash",
            "karpenter.sh/do-not-disrupt",
            "kerf.sh/x",
            "pv.kubernetes.io/bind-completed",
        ]
    );
}

#[test]
fn nodes_are_decoded() {
    let node: Node = decode(json!({
        "apiVersion": "v1", "kind": "Node",
        "metadata": {
            "name": "ip-10-0-1-7.ec2.internal", "uid": "8b1f4f3e-2f1c-4f39-9c55-1f2f9d3f7a10", "resourceVersion": "812",
            "creationTimestamp": "2026-03-04T12:00:00Z", "deletionTimestamp": null, "finalizers": ["karpenter.sh/termination"],
            "labels": {"topology.kubernetes.io/zone": "us-east-1a", "kubernetes.io/arch": "arm64"},
            "annotations": null, "ownerReferences": null,
            "managedFields": [{"manager": "kubelet", "fieldsV1": {"f:status": {}}}],
        },
        "spec": {
            "providerID": "aws:///us-east-1a/i-0123456789abcdef0", "podCIDRs": ["10.0.0.0/24"], "unschedulable": true,
            "taints": [
                {"key": "karpenter.sh/unregistered", "effect": "NoExecute"},
                {"key": "team", "value": "a", "effect": "PreferNoSchedule", "timeAdded": "2026-03-04T12:00:00Z"},
                {"key": "bare"},
            ],
        },
        "status": {
            "capacity": {"cpu": "4", "memory": "16181236Ki", "pods": "58"},
            "allocatable": {"cpu": "3920m", "memory": "15164404Ki", "pods": "58"},
            "conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": "2026-03-04T12:01:00Z", "reason": "KubeletReady"}],
            "images": [{"names": ["a"], "sizeBytes": 5}],
        },
    }));
    assert_eq!(node.metadata.namespaced_name(), "ip-10-0-1-7.ec2.internal");
    assert_eq!(node.metadata.creation_timestamp, Some("2026-03-04T12:00:00Z".parse().unwrap()));
    assert!(!node.metadata.is_terminating());
    assert!(node.metadata.labels.has_value("topology.kubernetes.io/zone", "us-east-1a"));
    assert_eq!(node.spec.provider_id, "aws:///us-east-1a/i-0123456789abcdef0");
    assert!(node.spec.unschedulable);
    let effects: Vec<_> = node.spec.taints.iter().map(|taint| taint.effect.clone()).collect();
    assert_eq!(effects, [TaintEffect::NoExecute, TaintEffect::PreferNoSchedule, TaintEffect::Unsupported("".into())]);
    assert_eq!(node.status.allocatable.get("cpu").unwrap().to_string(), "3920m");
    assert_eq!(node.status.conditions[0].condition_type, "Ready");
    assert_eq!(node.status.conditions[0].reason, "KubeletReady");
    assert!(node.status.conditions[0].last_transition_time.is_some());
}

#[test]
fn volumes_are_decoded() {
    let claim: PersistentVolumeClaim = decode(json!({
        "metadata": {"name": "data", "namespace": "db", "annotations": {"pv.kubernetes.io/bind-completed": "yes"}},
        "spec": {"accessModes": ["ReadWriteOnce"], "volumeName": "pvc-1", "storageClassName": "gp3", "volumeMode": "Filesystem"},
        "status": {"phase": "Bound"},
    }));
    assert_eq!(
        (&*claim.volume_name, claim.storage_class_name.as_deref(), &*claim.phase),
        ("pvc-1", Some("gp3"), "Bound")
    );
    let unnamed: PersistentVolumeClaim = decode(json!({"spec": {"storageClassName": null}}));
    assert_eq!(unnamed.storage_class_name, None);
    let without_class: PersistentVolumeClaim = decode(json!({"spec": {"storageClassName": ""}}));
    assert_eq!(without_class.storage_class_name.as_deref(), Some(""));

    let affinity = json!({"required": {"nodeSelectorTerms": [
        {"matchExpressions": [{"key": "topology.kubernetes.io/zone", "operator": "In", "values": ["us-east-1a"]}]},
    ]}});
    let csi: PersistentVolume = decode(
        json!({"spec": {"csi": {"driver": "ebs.csi.aws.com", "volumeHandle": "vol-1"}, "nodeAffinity": affinity}}),
    );
    assert_eq!((csi.driver.as_deref(), csi.is_local, csi.node_affinity.len()), (Some("ebs.csi.aws.com"), false, 1));
    assert_eq!(csi.node_affinity[0].match_expressions[0].values, ["us-east-1a"]);
    let in_tree: PersistentVolume =
        decode(json!({"spec": {"awsElasticBlockStore": {"volumeID": "vol-1"}, "csi": null}}));
    assert_eq!(in_tree.driver.as_deref(), Some("ebs.csi.aws.com"));
    let nfs: PersistentVolume = decode(json!({"spec": {"nfs": {"server": "a"}}}));
    assert_eq!((nfs.driver, nfs.is_local), (None, false));
    for source in ["local", "hostPath"] {
        let local: PersistentVolume = decode(json!({"spec": {source: {"path": "/x"}}}));
        assert!(local.is_local, "{source}");
    }

    let class: StorageClass = decode(json!({
        "metadata": {"name": "gp3"}, "provisioner": "ebs.csi.aws.com", "volumeBindingMode": "WaitForFirstConsumer",
        "allowedTopologies": [{"matchLabelExpressions": [{"key": "topology.ebs.csi.aws.com/zone", "values": ["a", "b"]}]}],
    }));
    assert_eq!(class.volume_binding_mode, VolumeBindingMode::WaitForFirstConsumer);
    let expression = &class.allowed_topologies[0][0];
    assert_eq!((&expression.operator, expression.values.len()), (&NodeSelectorOperator::In, 2));
    let immediate: StorageClass =
        decode(json!({"provisioner": "x", "volumeBindingMode": null, "allowedTopologies": null}));
    assert_eq!(immediate.volume_binding_mode, VolumeBindingMode::Immediate);

    let csi_node: CsiNode = decode(json!({"metadata": {"name": "n"}, "spec": {"drivers": [
        {"name": "ebs.csi.aws.com", "nodeID": "i-1", "topologyKeys": null, "allocatable": {"count": 26}},
        {"name": "efs.csi.aws.com", "nodeID": "i-1"},
        {"name": "x", "allocatable": null},
    ]}}));
    let counts: Vec<_> = csi_node.drivers.iter().map(|driver| driver.count).collect();
    assert_eq!(counts, [Some(26), None, None]);

    let attachment: VolumeAttachment = decode(
        json!({"spec": {"attacher": "ebs.csi.aws.com", "nodeName": "n", "source": {"persistentVolumeName": "pvc-1"}}}),
    );
    assert_eq!((&*attachment.node_name, attachment.persistent_volume_name.as_deref()), ("n", Some("pvc-1")));
}

#[test]
fn workloads_are_decoded() {
    let set: DaemonSet = decode(json!({
        "metadata": {"name": "cni", "namespace": "kube-system"},
        "spec": {"selector": {"matchLabels": {"app": "cni"}}, "template": {
            "metadata": {"creationTimestamp": null, "labels": {"app": "cni"}},
            "spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": "50m"}}}]},
        }},
        "status": {"currentNumberScheduled": 3},
    }));
    assert!(set.template.metadata.labels.has_value("app", "cni"));
    assert_eq!(set.template.spec.containers[0].resources.requests, quantities([("cpu", "50m")]));

    let replica_set: ReplicaOwner = decode(json!({"kind": "ReplicaSet", "spec": {"selector": {
        "matchLabels": {"app": "web"}, "matchExpressions": [{"key": "tier", "operator": "Exists"}],
    }}}));
    assert_eq!(replica_set.kind, "ReplicaSet");
    assert!(replica_set.selector.match_labels.has_value("app", "web"));
    assert_eq!(replica_set.selector.match_expressions[0].operator, LabelSelectorOperator::Exists);
    let controller: ReplicaOwner =
        decode(json!({"kind": "ReplicationController", "spec": {"selector": {"app": "old", "tier": "x"}}}));
    assert_eq!(controller.selector.match_labels, Labels::from([("app", "old"), ("tier", "x")]));
    let label_named_match_labels: ReplicaOwner =
        decode(json!({"spec": {"selector": {"matchLabels": "a label of that name"}}}));
    assert!(label_named_match_labels.selector.match_labels.has_value("matchLabels", "a label of that name"));
    assert!(
        decode_error::<ReplicaOwner>(&json!({"spec": {"selector": {"app": 1}}}))
            .starts_with(".spec.selector.app: invalid type")
    );

    let service: Service = decode(json!({"spec": {"selector": {"app": "web"}, "ports": [{"port": 80}]}}));
    assert_eq!(service.selector, Some(Labels::from([("app", "web")])));
    let headless: Service = decode(json!({"spec": {"externalName": "x"}}));
    assert_eq!(headless.selector, None);

    let namespace: Namespace =
        decode(json!({"metadata": {"name": "a", "labels": {"team": "b"}}, "status": {"phase": "Active"}}));
    assert!(namespace.metadata.labels.has_value("team", "b"));
}

#[test]
fn disruption_budgets_are_decoded() {
    let budget: PodDisruptionBudget = decode(json!({
        "metadata": {"name": "web", "namespace": "shop"},
        "spec": {"selector": {"matchLabels": {"app": "web"}}, "minAvailable": "50%", "unhealthyPodEvictionPolicy": "AlwaysAllow"},
        "status": {"disruptionsAllowed": 0, "currentHealthy": 2, "disruptedPods": {"a": "2026-01-01T00:00:00Z"}},
    }));
    assert_eq!(budget.min_available, Some(IntOrPercent::Percent(50)));
    assert_eq!(
        (budget.max_unavailable, budget.disruptions_allowed, budget.always_allow_unhealthy),
        (None, Some(0), true)
    );
    assert_eq!(budget.disrupted_pods, ["a"]);
    let without: PodDisruptionBudget = decode(json!({"status": {"disruptedPods": null}}));
    assert!(without.disrupted_pods.is_empty());
    let max = |value: Value| decode::<PodDisruptionBudget>(json!({"spec": {"maxUnavailable": value}})).max_unavailable;
    assert_eq!(max(json!(1)), Some(IntOrPercent::Int(1)));
    assert_eq!(max(json!("0%")), Some(IntOrPercent::Percent(0)));
    assert_eq!(max(json!(null)), None);
    for text in ["5", "%", "-5%", "+5%", "a%", "99999999999%", ""] {
        assert_eq!(max(json!(text)), Some(IntOrPercent::Invalid(text.into())), "{text}");
    }
    let without_selector: PodDisruptionBudget = decode(json!({"spec": {"selector": null}}));
    assert_eq!((without_selector.selector, without_selector.disruptions_allowed), (None, None));
    assert_eq!(
        decode::<PodDisruptionBudget>(json!({"spec": {"selector": {}}})).selector,
        Some(LabelSelector::default())
    );
    let too_big = decode_error::<PodDisruptionBudget>(&json!({"spec": {"minAvailable": 4_294_967_296_i64}}));
    assert!(
        too_big.starts_with(
            ".spec.minAvailable: invalid value: integer `4294967296`, expected a 32-bit integer or a percentage"
        ),
        "{too_big}"
    );
}

#[test]
fn a_wrong_type_is_an_error_that_contains_its_path() {
    for (object, message) in [
        (json!({"metadata": {"name": 5}}), ".metadata.name: invalid type: integer `5`, expected a string"),
        (json!({"metadata": {"labels": ["a"]}}), ".metadata.labels: invalid type: sequence, expected an object"),
        (json!({"metadata": {"labels": {"a": true}}}), ".metadata.labels[a]: invalid type: boolean `true`"),
        (json!({"metadata": {"creationTimestamp": "today"}}), ".metadata.creationTimestamp: "),
        (
            json!({"metadata": {"ownerReferences": [{"controller": "yes"}]}}),
            ".metadata.ownerReferences[0].controller: invalid type",
        ),
        (json!({"spec": "x"}), ".spec: invalid type: string \"x\", expected an object"),
        (
            json!({"spec": {"containers": [{}, {"resources": {"requests": {"cpu": "1x"}}}]}}),
            ".spec.containers[1].resources.requests[cpu]: invalid quantity \"1x\"",
        ),
        (
            json!({"spec": {"containers": [{"resources": {"requests": {"cpu": 1.5}}}]}}),
            ".spec.containers[0].resources.requests[cpu]: invalid value: floating point `1.5`",
        ),
        (json!({"spec": {"containers": [null]}}), ".spec.containers[0]: invalid type: null, expected an object"),
        (json!({"spec": {"containers": {}}}), ".spec.containers: invalid type: map, expected a list"),
        (json!({"spec": {"priority": 3_000_000_000_u32}}), ".spec.priority: invalid value"),
        (
            json!({"spec": {"topologySpreadConstraints": [{"whenUnsatisfiable": "Sometimes"}]}}),
            ".spec.topologySpreadConstraints[0].whenUnsatisfiable: unknown variant `Sometimes`",
        ),
        (json!({"spec": {"schedulingGates": 1}}), ".spec.schedulingGates: invalid type"),
        (json!({"status": {"phase": {}}}), ".status.phase: invalid type: map, expected a string"),
    ] {
        let error = decode_error::<Pod>(&object);
        assert!(error.starts_with(message), "{error}");
        assert!(error.contains(" at line 1 column "), "{error}");
    }
    assert!(serde_json::from_str::<Pod>("[]").is_err());
    assert!(serde_json::from_str::<Pod>("{\"spec\":").is_err());
}
