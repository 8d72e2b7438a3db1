//! Tests of complete pods.

use super::*;

/// Returns a running pod as an API server of version 1.33 sends it, with fields that no decision
/// reads.
fn running_pod() -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {
            "name": "web-7d4b9c6f5d-x2v8k", "generateName": "web-7d4b9c6f5d-", "namespace": "shop",
            "uid": "0c3f3d8e-5d9b-4b0e-9a8e-3f1a5f0a7c11", "resourceVersion": "123456",
            "creationTimestamp": "2026-03-04T12:00:00Z", "deletionTimestamp": "2026-03-04T13:00:00.5Z",
            "labels": {"app": "web", "pod-template-hash": "7d4b9c6f5d"},
            "annotations": {"karpenter.sh/do-not-disrupt": "4h", "prometheus.io/scrape": "true"},
            "ownerReferences": [{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web-7d4b9c6f5d", "uid": "u-1",
                "controller": true, "blockOwnerDeletion": true}],
            "managedFields": [{"manager": "kube-controller-manager", "operation": "Update", "fieldsV1": {"f:metadata": {"f:labels": {}}}}],
        },
        "spec": {
            "nodeName": "ip-10-0-1-7.ec2.internal", "schedulerName": "default-scheduler", "serviceAccountName": "default",
            "priority": 1000, "priorityClassName": "high", "preemptionPolicy": "PreemptLowerPriority", "terminationGracePeriodSeconds": 45,
            "nodeSelector": {"kubernetes.io/arch": "arm64"},
            "tolerations": [
                {"key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300},
                {"key": "team", "value": "a", "effect": ""},
                {"operator": "Exists"},
                {"key": "sla", "operator": "Gt", "value": "5"},
            ],
            "affinity": {
                "nodeAffinity": {
                    "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [
                        {"matchExpressions": [{"key": "karpenter.k8s.aws/instance-cpu", "operator": "Gt", "values": ["3"]}, {"key": "x"}],
                         "matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n"]}]},
                    ]},
                    "preferredDuringSchedulingIgnoredDuringExecution": [
                        {"weight": 10, "preference": {"matchExpressions": [{"key": "zone", "operator": "NotIn", "values": ["c"]}]}},
                    ],
                },
                "podAntiAffinity": {
                    "requiredDuringSchedulingIgnoredDuringExecution": [
                        {"labelSelector": {"matchLabels": {"app": "web"}}, "topologyKey": "kubernetes.io/hostname",
                         "namespaces": ["shop"], "namespaceSelector": {}},
                    ],
                    "preferredDuringSchedulingIgnoredDuringExecution": [
                        {"weight": 5, "podAffinityTerm": {"labelSelector": null, "topologyKey": "topology.kubernetes.io/zone"}},
                    ],
                },
                "podAffinity": null,
            },
            "topologySpreadConstraints": [
                {"maxSkew": 1, "topologyKey": "topology.kubernetes.io/zone", "whenUnsatisfiable": "ScheduleAnyway", "minDomains": 3,
                 "labelSelector": {"matchExpressions": [{"key": "app", "operator": "In", "values": ["web"]}]},
                 "nodeAffinityPolicy": "Ignore", "nodeTaintsPolicy": "Honor", "matchLabelKeys": ["pod-template-hash"]},
            ],
            "containers": [{
                "name": "web", "image": "example.com/web:1", "imagePullPolicy": "IfNotPresent",
                "resources": {"requests": {"cpu": "250m", "memory": "64Mi"}, "limits": {"memory": "128Mi"}},
                "ports": [{"containerPort": 80}, {"containerPort": 81, "hostPort": 8081, "protocol": "UDP", "hostIP": "10.0.0.1"}, {"hostPort": 9}],
                "livenessProbe": {"httpGet": {"path": "/healthz", "port": 80}, "periodSeconds": 10},
                "env": [{"name": "A", "value": "b"}], "volumeMounts": [{"name": "t", "mountPath": "/var/run", "readOnly": true}],
            }],
            "initContainers": [{"name": "mesh", "restartPolicy": "Always", "resources": {"requests": {"cpu": "10m"}}}, {"name": "setup"}],
            "overhead": {"cpu": "5m"},
            "resources": {"requests": {"cpu": "1"}, "limits": {"cpu": "2"}},
            "volumes": [
                {"name": "t", "projected": {"sources": [{"serviceAccountToken": {"path": "token"}}]}},
                {"name": "data", "persistentVolumeClaim": {"claimName": "data-web", "readOnly": false}},
                {"name": "scratch", "ephemeral": {"volumeClaimTemplate": {"spec": {"resources": {"requests": {"storage": "1Gi"}}}}}},
                {"name": "tmp", "emptyDir": {}},
            ],
        },
        "status": {
            "phase": "Running", "hostIP": "10.0.1.7", "podIPs": [{"ip": "10.0.1.8"}], "qosClass": "Burstable",
            "startTime": "2026-03-04T12:00:05Z", "nominatedNodeName": "",
            "conditions": [
                {"type": "PodReadyToStartContainers", "status": "True", "lastProbeTime": null, "lastTransitionTime": "2026-03-04T12:00:06Z"},
                {"type": "Initialized", "status": "True"},
                {"type": "Ready", "status": "True", "lastProbeTime": null, "lastTransitionTime": "2026-03-04T12:00:09Z"},
                {"type": "PodScheduled", "status": "True", "reason": null, "lastTransitionTime": null},
                {"type": "PodResizePending", "status": "True", "reason": "Infeasible"},
            ],
            "containerStatuses": [{
                "name": "web", "ready": true, "restartCount": 0, "state": {"running": {"startedAt": "2026-03-04T12:00:08Z"}},
                "resources": {"requests": {"cpu": "500m", "memory": "64Mi"}}, "allocatedResources": {"cpu": "500m", "memory": "64Mi"},
            }],
            "initContainerStatuses": [{"name": "mesh", "resources": {"requests": {"cpu": "10m"}}, "allocatedResources": {"cpu": "10m"}}],
        },
    })
}

#[test]
fn a_running_pod_keeps_what_decisions_read() {
    let pod: Pod = decode(running_pod());
    assert_eq!(pod.namespaced_name(), "shop/web-7d4b9c6f5d-x2v8k");
    assert_eq!(pod.metadata.annotations, Labels::from([("karpenter.sh/do-not-disrupt", "4h")]));
    assert_eq!(pod.metadata.deletion_timestamp, Some("2026-03-04T13:00:00.5Z".parse().unwrap()));
    let owner = pod.metadata.controller().unwrap();
    assert_eq!((&*owner.kind, &*owner.name, &*owner.uid), ("ReplicaSet", "web-7d4b9c6f5d", "u-1"));

    let spec = &pod.spec;
    assert_eq!(spec.node_name.as_deref(), Some("ip-10-0-1-7.ec2.internal"));
    assert_eq!(spec.node_selector, Labels::from([("kubernetes.io/arch", "arm64")]));
    assert_eq!((spec.priority, spec.is_critical, spec.termination_grace_period_seconds), (Some(1000), false, Some(45)));
    assert!(!spec.has_resource_claims && !spec.is_gated);
    assert_eq!(spec.overhead, quantities([("cpu", "5m")]));
    assert_eq!(spec.pod_requests, quantities([("cpu", "1")]));

    let [not_ready, team, all, sla] = &spec.tolerations[..] else { panic!("four tolerations") };
    assert_eq!((not_ready.effect.clone(), not_ready.toleration_seconds), (Some(TaintEffect::NoExecute), Some(300)));
    assert_eq!((&team.operator, &team.effect), (&TolerationOperator::Equal, &None));
    assert_eq!((&all.operator, all.key.is_empty()), (&TolerationOperator::Exists, true));
    assert_eq!(sla.operator, TolerationOperator::Gt);

    let [constraint] = &spec.topology_spread_constraints[..] else { panic!("one constraint") };
    assert_eq!((constraint.max_skew, constraint.min_domains), (1, Some(3)));
    assert_eq!(constraint.when_unsatisfiable, WhenUnsatisfiable::ScheduleAnyway);
    assert_eq!(constraint.node_affinity_policy, Some(NodeInclusionPolicy::Ignore));
    assert_eq!(constraint.node_taints_policy, Some(NodeInclusionPolicy::Honor));
    assert_eq!(constraint.match_label_keys, ["pod-template-hash"]);
    assert_eq!(constraint.label_selector.as_ref().unwrap().match_expressions[0].values, ["web"]);

    let [container] = &spec.containers[..] else { panic!("one container") };
    assert_eq!(container.resources.requests, quantities([("cpu", "250m"), ("memory", "64Mi")]));
    assert_eq!(container.resources.limits, quantities([("memory", "128Mi")]));
    assert_eq!(
        container.ports,
        [
            HostPort { ip: "10.0.0.1".into(), port: 8081, protocol: "UDP".into() },
            HostPort { ip: "0.0.0.0".into(), port: 9, protocol: "TCP".into() },
        ]
    );
    assert_eq!(spec.init_containers.iter().map(|c| c.is_sidecar).collect::<Vec<_>>(), [true, false]);
    assert_eq!(
        spec.volumes,
        [
            PodVolume { name: "data".into(), source: VolumeClaimSource::Claim("data-web".into()) },
            PodVolume { name: "scratch".into(), source: VolumeClaimSource::Ephemeral },
        ]
    );
}

#[test]
fn affinity_is_decoded_in_full() {
    let pod: Pod = decode(running_pod());
    let affinity = pod.spec.affinity.unwrap();
    let [term] = affinity.node_affinity.required.as_deref().unwrap() else { panic!("one term") };
    assert_eq!(term.match_expressions[0].operator, NodeSelectorOperator::Gt);
    assert_eq!(term.match_expressions[1].operator, NodeSelectorOperator::Unsupported("".into()));
    assert_eq!(term.match_fields[0].key, "metadata.name");
    assert_eq!(affinity.node_affinity.preferred[0].weight, 10);
    assert_eq!(affinity.pod_affinity, PodAffinity::default());
    let [required] = &affinity.pod_anti_affinity.required[..] else { panic!("one term") };
    assert_eq!(required.namespace_selector, Some(LabelSelector::default()));
    assert_eq!((&*required.topology_key, &*required.namespaces[0]), ("kubernetes.io/hostname", "shop"));
    assert_eq!(affinity.pod_anti_affinity.preferred[0].pod_affinity_term.label_selector, None);

    let required = |value: Value| {
        let affinity = json!({"nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": value,
            "preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1, "preference": {}}],
        }});
        decode::<Pod>(json!({"spec": {"affinity": affinity}})).spec.affinity.unwrap().node_affinity.required
    };
    assert_eq!(required(json!(null)), None);
    assert_eq!(required(json!({"nodeSelectorTerms": null})), Some(vec![]));
    assert_eq!(required(json!({"nodeSelectorTerms": [{}]})), Some(vec![NodeSelectorTerm::default()]));
    for empty in [json!(null), json!({}), json!({"nodeAffinity": {}, "podAffinity": null})] {
        assert_eq!(decode::<Pod>(json!({"spec": {"affinity": empty}})).spec.affinity, None);
    }
}

#[test]
fn status_keeps_three_conditions_and_differing_resources() {
    let status = decode::<Pod>(running_pod()).status;
    assert_eq!(status.phase, PodPhase::Running);
    assert_eq!(status.start_time, Some("2026-03-04T12:00:05Z".parse().unwrap()));
    assert_eq!(status.nominated_node_name, None);
    let condition_types: Vec<_> = status.conditions.iter().map(|condition| condition.condition_type.as_str()).collect();
    assert_eq!(condition_types, ["Ready", "PodScheduled", "PodResizePending"]);
    assert_eq!(status.conditions[2].reason, "Infeasible");
    let resized = quantities([("cpu", "500m"), ("memory", "64Mi")]);
    let web =
        ContainerStatus { name: "web".into(), has_resources: true, requests: resized.clone(), allocated: resized };
    assert_eq!(status.container_statuses, [web]);
    assert!(status.init_container_statuses.is_empty(), "the sidecar's status repeats its spec");
}

#[test]
fn statuses_without_resources_are_left_out() {
    let statuses = |status: Value| {
        decode::<Pod>(json!({"spec": {"containers": [{"name": "a", "resources": {"requests": {"cpu": "1"}}}]},
            "status": {"containerStatuses": [status]}}))
        .status
        .container_statuses
    };
    assert!(statuses(json!({"name": "a", "ready": true})).is_empty());
    assert!(statuses(json!({"name": "a", "resources": null, "allocatedResources": null})).is_empty());
    let allocated_only = statuses(json!({"name": "a", "allocatedResources": {"cpu": "2"}}));
    assert_eq!(allocated_only.iter().map(|s| s.has_resources).collect::<Vec<_>>(), [false]);
    let empty = statuses(json!({"name": "a", "resources": {}}));
    assert_eq!(empty.iter().map(|s| s.has_resources).collect::<Vec<_>>(), [true]);
    assert_eq!(statuses(json!({"name": "other", "resources": {"requests": {"cpu": "1"}}})).len(), 1);
}

#[test]
fn dynamic_resource_claims_are_detected_on_pod_and_containers() {
    for spec in [
        json!({"resourceClaims": [{"name": "gpu", "resourceClaimName": "c"}]}),
        json!({"containers": [{"name": "a", "resources": {"claims": [{"name": "gpu"}]}}]}),
        json!({"initContainers": [{"name": "a", "resources": {"claims": [{"name": "gpu"}]}}]}),
    ] {
        assert!(decode::<Pod>(json!({"spec": spec})).spec.has_resource_claims);
    }
    assert!(!decode::<Pod>(json!({"spec": {"resourceClaims": [], "containers": null}})).spec.has_resource_claims);
    assert!(decode::<Pod>(json!({"spec": {"schedulingGates": [{"name": "g"}]}})).spec.is_gated);
    assert!(decode::<Pod>(json!({"spec": {"priorityClassName": "system-node-critical"}})).spec.is_critical);
}

#[test]
fn null_is_equal_to_absent_everywhere() {
    // Each value of the complete pod in turn becomes null: the pod can still be decoded.
    fn nulled(value: &Value, in_list: bool, out: &mut Vec<Value>) {
        if !in_list {
            out.push(Value::Null);
        }
        match value {
            Value::Object(map) => {
                for (key, inner) in map {
                    let mut inners = Vec::new();
                    nulled(inner, false, &mut inners);
                    out.extend(inners.into_iter().map(|inner| {
                        let mut copy = map.clone();
                        copy.insert(key.clone(), inner);
                        Value::Object(copy)
                    }));
                }
            }
            Value::Array(items) => {
                for (i, inner) in items.iter().enumerate() {
                    let mut inners = Vec::new();
                    nulled(inner, true, &mut inners);
                    out.extend(inners.into_iter().map(|inner| {
                        let mut copy = items.clone();
                        copy[i] = inner;
                        Value::Array(copy)
                    }));
                }
            }
            _ => {}
        }
    }
    let mut pods = Vec::new();
    nulled(&running_pod(), true, &mut pods);
    assert!(pods.len() > 200);
    for pod in pods {
        let decoded = serde_json::from_str::<Pod>(&pod.to_string());
        assert!(decoded.is_ok(), "{decoded:?}: {pod}");
    }
    assert_eq!(decode::<Pod>(json!({"metadata": null, "spec": null, "status": null})), Pod::default());
    assert_eq!(decode::<Pod>(json!({})), Pod::default());
}

#[test]
fn ownership_phase_and_deletion_of_a_pod() {
    let owned = |api_version: &str, kind: &str| {
        decode::<Pod>(
            json!({"metadata": {"ownerReferences": [{"apiVersion": api_version, "kind": kind, "controller": null}]}}),
        )
    };
    assert!(owned("apps/v1", "DaemonSet").is_owned_by_daemonset());
    assert!(!owned("example.com/v1", "DaemonSet").is_owned_by_daemonset());
    assert!(owned("apps/v1", "StatefulSet").is_owned_by_statefulset());
    assert!(owned("v1", "Node").is_mirror());
    assert!(!owned("v1", "Node").is_owned_by_daemonset());
    let phase = |phase: &str| decode::<Pod>(json!({"status": {"phase": phase}}));
    assert!(phase("Failed").is_terminal() && phase("Succeeded").is_terminal());
    assert!(!phase("Running").is_terminal() && !phase("").is_terminal());
    assert!(decode::<Pod>(running_pod()).is_terminating());
    assert!(!phase("Running").is_terminating());
    assert_eq!(decode::<Pod>(running_pod()).condition("Ready").unwrap().status, "True");
}
