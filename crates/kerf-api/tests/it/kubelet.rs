//! Tests of the kubelet settings of an EC2NodeClass: accepted by admission, then fully checked
//! (spec 01 §7.5).

use kerf_api::ec2nodeclass::{AmiFamily, EC2NodeClass};
use kerf_api::validation::kubelet::{self, MappedKubelet, MaxPods, failures, has_expression, unsupported_failures};
use proptest::prelude::*;
use serde_json::{Map, Value, json};

use crate::manifests::node_class;

fn settings(json: Value) -> Map<String, Value> {
    json.as_object().unwrap().clone()
}

/// Returns the settings that admission stored, as a controller reads them.
#[track_caller]
fn stored(json: Value) -> Map<String, Value> {
    let stored = node_class().with("/spec/kubelet", json.clone()).accepted();
    assert_eq!(stored["spec"]["kubelet"], json, "stored unaltered");
    serde_json::from_value::<EC2NodeClass>(stored).unwrap().spec.unwrap().kubelet.unwrap()
}

#[test]
fn empty_and_ordinary_settings_are_valid() {
    assert!(failures(&settings(json!({}))).is_empty());
    let ordinary = stored(json!({
        "clusterDNS": ["10.0.1.100"],
        "maxPods": 20,
        "podsPerCore": 2,
        "systemReserved": { "cpu": "100m", "memory": "100Mi", "ephemeral-storage": "1Gi", "pid": "100" },
        "kubeReserved": { "cpu": "200m" },
        "evictionHard": { "memory.available": "5%", "nodefs.available": "10.5%", "nodefs.inodesFree": "10%" },
        "evictionSoft": { "memory.available": "500Mi" },
        "evictionSoftGracePeriod": { "memory.available": "1m30s" },
        "evictionMaxPodGracePeriod": 60,
        "evictionMinimumReclaim": { "imagefs.available": "1Gi" },
        "imageGCHighThresholdPercent": 85,
        "imageGCLowThresholdPercent": 80,
        "cpuCFSQuota": true,
        "featureGates": { "SomeGate": true },
        "cpuManagerReconcilePeriod": "10s",
        "reservedMemory": [{ "numaNode": 0, "limits": { "memory": "1Gi", "hugepages-2Mi": 4 } }],
        "staticPodURLHeader": { "a": ["b"] },
        "memoryThrottlingFactor": 0.9,
        "crashLoopBackOff": { "maxContainerRestartPeriod": "4s" },
        "kind": "KubeletConfiguration",
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
    }));
    assert_eq!(failures(&ordinary), Vec::<String>::new());
    node_class().with("/spec/kubelet", 1).rejected().assert_has("spec.kubelet", "must be of type object");
}

#[test]
fn spec_01_106_wrong_types_are_stored_and_reported() {
    let both = stored(json!({ "notAKubeletField": true, "podsPerCore": "ten" }));
    assert_eq!(failures(&both), ["spec.kubelet: podsPerCore must be a 32-bit integer, not the string \"ten\""]);
    assert_eq!(kubelet::INVALID_REASON, "InvalidKubeletConfiguration");
    let unknown = stored(json!({ "notAKubeletField": true }));
    assert_eq!(failures(&unknown), ["spec.kubelet: unknown field \"notAKubeletField\""]);
}

#[test]
fn spec_01_107_nested_settings() {
    let logging = json!({
        "logging": {
            "format": "json",
            "flushFrequency": "5s",
            "verbosity": 3,
            "vmodule": [{ "filePattern": "a*", "verbosity": 4 }],
            "options": { "json": { "splitStream": true, "infoBufferSize": "0" }, "text": { "infoBufferSize": 5 } },
        },
    });
    assert!(failures(&stored(logging.clone())).is_empty());
    let mut deep = settings(logging);
    deep["logging"]["options"]["json"]["bogus"] = json!(1);
    assert_eq!(failures(&stored(Value::Object(deep))), ["spec.kubelet: unknown field \"logging.options.json.bogus\""]);
    let nanoseconds = settings(json!({ "logging": { "flushFrequency": 5_000_000_000_i64 } }));
    assert!(failures(&nanoseconds).is_empty());
}

#[test]
fn spec_01_108_all_failures_are_reported_at_once() {
    let reported = failures(&stored(json!({
        "evictionHard": { "memory.free": "5%", "memory.available": "-1Gi", "pid.available": "101%" },
        "evictionSoft": { "nodefs.available": "lots" },
        "evictionSoftGracePeriod": { "imagefs.available": "-1s", "nodefs.inodesFree": "soon" },
        "kubeReserved": { "gpu": "1", "cpu": "-1" },
        "systemReserved": { "memory": "-5Mi" },
        "imageGCHighThresholdPercent": 101,
        "imageGCLowThresholdPercent": -1,
        "podsPerCore": -1,
        "maxPods": -2,
        "evictionMaxPodGracePeriod": -3,
        "evictionMinimumReclaim": { "x": "5%" },
    })));
    let signals = "must be one of memory.available, nodefs.available, nodefs.inodesFree, imagefs.available, imagefs.inodesFree, \
                   pid.available";
    let expected = [
        "spec.kubelet.evictionHard[memory.available]: \"-1Gi\" can't be a negative resource quantity".to_owned(),
        format!("spec.kubelet.evictionHard: \"memory.free\" isn't a valid eviction signal, {signals}"),
        "spec.kubelet.evictionHard[pid.available]: \"101%\" must be a percentage or a resource quantity".to_owned(),
        "spec.kubelet.evictionSoft[nodefs.available]: \"lots\" must be a percentage or a resource quantity".to_owned(),
        "spec.kubelet.evictionSoftGracePeriod[imagefs.available]: \"-1s\" can't be a negative duration".to_owned(),
        "spec.kubelet.evictionSoftGracePeriod[nodefs.inodesFree]: \"soon\" must be a duration".to_owned(),
        format!("spec.kubelet.evictionMinimumReclaim: \"x\" isn't a valid eviction signal, {signals}"),
        "spec.kubelet.evictionSoft[nodefs.available]: has no matching evictionSoftGracePeriod".to_owned(),
        "spec.kubelet.evictionSoftGracePeriod[imagefs.available]: has no matching evictionSoft".to_owned(),
        "spec.kubelet.evictionSoftGracePeriod[nodefs.inodesFree]: has no matching evictionSoft".to_owned(),
        "spec.kubelet.kubeReserved[cpu]: \"-1\" can't be a negative resource quantity".to_owned(),
        "spec.kubelet.kubeReserved: \"gpu\" isn't a reservable resource, must be one of cpu, memory, ephemeral-storage, pid".to_owned(),
        "spec.kubelet.systemReserved[memory]: \"-5Mi\" can't be a negative resource quantity".to_owned(),
        "spec.kubelet.imageGCHighThresholdPercent: 101 must be between 0 and 100".to_owned(),
        "spec.kubelet.imageGCLowThresholdPercent: -1 must be between 0 and 100".to_owned(),
        "spec.kubelet.podsPerCore: -1 can't be negative".to_owned(),
        "spec.kubelet.evictionMaxPodGracePeriod: -3 can't be negative".to_owned(),
        "spec.kubelet.maxPods: -2 can't be negative".to_owned(),
    ];
    assert_eq!(reported, expected);
}

#[test]
fn spec_01_109_pairs_that_do_not_agree() {
    assert_eq!(
        failures(&stored(json!({ "evictionSoft": { "memory.available": "5%" } }))),
        ["spec.kubelet.evictionSoft[memory.available]: has no matching evictionSoftGracePeriod"]
    );
    assert_eq!(
        failures(&stored(json!({ "imageGCHighThresholdPercent": 50, "imageGCLowThresholdPercent": 50 }))),
        ["spec.kubelet: imageGCHighThresholdPercent (50) must be greater than imageGCLowThresholdPercent (50)"]
    );
}

#[test]
fn spec_01_110_register_with_taints_is_rejected() {
    for value in [json!([{ "key": "a", "effect": "NoSchedule" }]), json!([]), json!("a"), Value::Null] {
        let reported = failures(&settings(json!({ "registerWithTaints": value })));
        assert_eq!(
            reported,
            [
                "spec.kubelet.registerWithTaints: can't be set, Karpenter sets it from the NodeClaim's taints so the node registers \
                 unschedulable until it's ready"
            ]
        );
    }
}

#[test]
fn spec_01_111_expressions_are_detected() {
    let expression = stored(json!({ "maxPods": "vcpus * 10" }));
    assert!(failures(&expression).is_empty() && has_expression(&expression));
    assert_eq!(kubelet::EXPRESSIONS_DISABLED_REASON, "KubeletExpressionsDisabled");
    assert_eq!(
        kubelet::EXPRESSIONS_DISABLED_MESSAGE,
        "spec.kubelet contains a CEL expression, but the NodeClassCEL feature gate is disabled"
    );
    assert!(has_expression(&settings(json!({ "kubeReserved": { "memory": "11 * max_pods + 255" } }))));
    assert!(!has_expression(&settings(json!({ "maxPods": 10, "systemReserved": { "cpu": "100m" } }))));
    assert_eq!(
        MappedKubelet::from_settings(&expression).unwrap().max_pods,
        Some(MaxPods::Expression("vcpus * 10".to_owned()))
    );
}

#[test]
fn spec_01_112_some_families_support_only_some_settings() {
    let settings = settings(json!({ "registryPullQPS": 5, "podsPerCore": 2, "maxPods": 5, "clusterDNS": ["a", "b"] }));
    assert!(unsupported_failures(&settings, &AmiFamily::Al2023).is_empty());
    assert!(unsupported_failures(&settings, &AmiFamily::Custom).is_empty());
    assert_eq!(
        unsupported_failures(&settings, &AmiFamily::Bottlerocket),
        [
            "spec.kubelet has fields not applied by the Bottlerocket AMI family that would be silently dropped: podsPerCore, \
             registryPullQPS",
            "spec.kubelet.clusterDNS: the Bottlerocket AMI family doesn't accept multiple entries, only one, but 2 were set",
        ]
    );
    for family in [AmiFamily::Al2, AmiFamily::Windows2019, AmiFamily::Windows2022, AmiFamily::Windows2025] {
        assert!(unsupported_failures(&settings, &family)[0].ends_with("silently dropped: registryPullQPS"));
    }
    assert_eq!(kubelet::UNSUPPORTED_REASON, "UnsupportedKubeletConfiguration");
}

/// Generates values that are valid for some field and invalid for most.
fn any_value() -> impl Strategy<Value = Value> {
    let texts = ["5%", "100Mi", "-1", "1m", "", "abc", "1e1.5", "true"].map(|text| json!(text));
    let scalars = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        (-200_i64..200).prop_map(Value::from),
        (0.0..100.0).prop_map(Value::from),
        proptest::sample::select(texts.to_vec()),
    ];
    scalars.prop_recursive(2, 8, 3, |inner| {
        let keys = proptest::sample::select(vec!["memory.available", "nodefs.available", "cpu", "memory", "pid"]);
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..3).prop_map(Value::from),
            proptest::collection::btree_map(keys, inner, 0..3)
                .prop_map(|map| map.into_iter().map(|(key, value)| (key.to_owned(), value)).collect()),
        ]
    })
}

fn any_settings() -> impl Strategy<Value = Map<String, Value>> {
    let fields = proptest::sample::select(vec![
        "clusterDNS",
        "maxPods",
        "podsPerCore",
        "systemReserved",
        "kubeReserved",
        "evictionHard",
        "evictionSoft",
        "evictionSoftGracePeriod",
        "evictionMaxPodGracePeriod",
        "imageGCHighThresholdPercent",
        "imageGCLowThresholdPercent",
        "cpuCFSQuota",
        "logging",
        "nonsense",
    ]);
    proptest::collection::btree_map(fields, any_value(), 0..4)
        .prop_map(|map| map.into_iter().map(|(key, value)| (key.to_owned(), value)).collect())
}

proptest! {
    // spec 01 §7.5: settings that pass validation can be decoded into the 12 fields that the
    // controllers read.
    #[test]
    fn valid_settings_can_be_decoded(settings in any_settings()) {
        if failures(&settings).is_empty() {
            prop_assert!(MappedKubelet::from_settings(&settings).is_ok(), "{settings:?}");
        }
        has_expression(&settings);
        unsupported_failures(&settings, &AmiFamily::Bottlerocket);
    }
}
