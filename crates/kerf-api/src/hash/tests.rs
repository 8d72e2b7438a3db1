//! Tests of the vectors of spec 01 §12.7, and of which changes affect a hash.

use serde_json::{Value, json};

use super::kubelet::canonical_json;
use super::*;
use crate::ec2nodeclass::EC2NodeClassSpec;
use crate::nodepool::{NodeClaimTemplate, NodePoolSpec};

fn template(object: Value) -> NodeClaimTemplate {
    serde_json::from_value(object).unwrap()
}

/// Returns the hash of a template with the given metadata and spec fields and Karpenter's usual
/// node class reference.
fn pool_hash(metadata: &Value, spec: Value) -> u64 {
    let mut spec = spec;
    spec["requirements"] = json!([]);
    spec["nodeClassRef"] = json!({"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"});
    nodepool_hash(&template(json!({"metadata": metadata, "spec": spec}))).unwrap()
}

#[test]
fn spec_01_119_node_pool_vectors() {
    let eks = json!({"group": "eks.amazonaws.com", "kind": "NodeClass", "name": "default"});
    let observed = template(json!({"metadata": {}, "spec": {
        "nodeClassRef": eks, "requirements": [], "expireAfter": "336h", "terminationGracePeriod": "24h0m0s",
    }}));
    assert_eq!(nodepool_hash(&observed).unwrap(), 4_012_513_481_623_584_108);

    let none = Value::Null;
    let team = json!({"labels": {"eks-immersion-team": "my-team"}});
    assert_eq!(pool_hash(&team, json!({"expireAfter": "Never"})), 16_405_996_431_342_975_497);
    assert_eq!(pool_hash(&none, json!({"expireAfter": "720h"})), 6_821_555_240_594_823_858);
    assert_eq!(pool_hash(&none, json!({"expireAfter": "Never"})), 17_369_979_337_536_258_260);
    assert_eq!(pool_hash(&none, json!({})), 17_369_979_337_536_258_260);

    let (a, c) =
        (json!({"key": "a", "value": "b", "effect": "NoSchedule"}), json!({"key": "c", "effect": "NoExecute"}));
    for taints in [json!([a, c]), json!([c, a])] {
        assert_eq!(pool_hash(&none, json!({"expireAfter": "720h", "taints": taints})), 10_450_290_681_353_908_783);
    }
    assert_eq!(pool_hash(&none, json!({"expireAfter": "720h", "taints": []})), 17_700_736_223_175_069_915);
    assert_eq!(pool_hash(&json!({"labels": {}}), json!({"expireAfter": "720h"})), 1_287_117_484_082_965_808);

    let metadata = json!({
        "labels": {"keyLabel": "valueLabel"},
        "annotations": {"keyAnnotation": "valueAnnotation", "keyAnnotation2": "valueAnnotation2"},
    });
    let taint = json!([{"key": "key", "effect": "NoExecute"}]);
    let full = json!({"expireAfter": "5m", "terminationGracePeriod": "5m", "taints": taint, "startupTaints": taint});
    assert_eq!(pool_hash(&metadata, full), 7_280_272_686_889_155_491);
}

fn base_class_spec() -> Value {
    json!({
        "amiFamily": "Custom", "amiSelectorTerms": [{"id": "ami-1"}],
        "subnetSelectorTerms": [{"id": "subnet-1"}], "securityGroupSelectorTerms": [{"id": "sg-1"}],
        "role": "role-1",
        "tags": {"keyTag-1": "valueTag-1", "keyTag-2": "valueTag-2"},
        "context": "fake-context",
        "detailedMonitoring": false,
        "associatePublicIPAddress": false,
        "metadataOptions": {"httpEndpoint": "disabled", "httpProtocolIPv6": "disabled", "httpPutResponseHopLimit": 1, "httpTokens": "optional"},
        "userData": "userdata-test-1",
        "blockDeviceMappings": [
            {"deviceName": "map-device-1", "ebs": {
                "deleteOnTermination": false, "encrypted": false, "iops": 0, "kmsKeyID": "fakeKMSKeyID", "snapshotID": "fakeSnapshot",
                "throughput": 0, "volumeSize": "2G", "volumeType": "standard",
            }},
            {"deviceName": "map-device-2"},
        ],
    })
}

fn class_hash(spec: Value, ca_bundle: &str) -> u64 {
    let spec: EC2NodeClassSpec = serde_json::from_value(spec).unwrap();
    ec2nodeclass_hash(&spec, ca_bundle).unwrap()
}

/// Returns the hash of the base spec with some top-level fields replaced; `null` removes a field.
fn changed_class_hash(changes: Value) -> u64 {
    let mut spec = base_class_spec();
    for (field, value) in changes.as_object().unwrap() {
        spec[field] = value.clone();
    }
    class_hash(spec, "test-ca-bundle")
}

#[test]
fn spec_01_119_node_class_vectors() {
    let mut bigger = base_class_spec()["blockDeviceMappings"].clone();
    bigger[0]["ebs"]["volumeSize"] = json!("10G");
    for (changes, hash) in [
        (json!({}), 11_148_166_120_438_674_859),
        (json!({"userData": "userdata-test-2"}), 11_774_429_238_106_843_388),
        (json!({"detailedMonitoring": true}), 1_936_848_126_751_988_570),
        (json!({"blockDeviceMappings": bigger}), 10_372_902_467_896_351_912),
        (json!({"role": null, "instanceProfile": "test-instance-profile"}), 10_323_991_363_677_716_244),
        (json!({"connectionTracking": {"tcpEstablishedTimeout": 300}}), 1_619_669_030_802_245_540),
        (json!({"cpuOptions": {"nestedVirtualization": "enabled"}}), 6_157_846_767_212_910_604),
        (json!({"kubelet": {"maxPods": 110}}), 5_128_599_174_861_426_106),
    ] {
        assert_eq!(changed_class_hash(changes.clone()), hash, "{changes}");
    }
}

// spec 06 #73: the vectors of §6.4.
#[test]
fn hashes_of_version_v5_are_those_of_karpenter_1_14() {
    for (changes, hash) in [
        (json!({}), 2_608_468_723_537_941_485),
        (json!({"userData": "userdata-test-2"}), 2_153_344_579_995_979_450),
        (json!({"context": "context-2"}), 11_612_053_647_989_098_410),
        (json!({"detailedMonitoring": true}), 11_845_605_438_531_206_428),
        (json!({"instanceStorePolicy": "RAID0"}), 6_430_637_013_089_544_585),
        (json!({"connectionTracking": {"tcpEstablishedTimeout": 300}}), 12_177_489_405_137_904_098),
        (json!({"cpuOptions": {"nestedVirtualization": "enabled"}}), 17_001_101_224_536_964_682),
    ] {
        let mut spec = base_class_spec();
        for (field, value) in changes.as_object().unwrap() {
            spec[field] = value.clone();
        }
        let spec: EC2NodeClassSpec = serde_json::from_value(spec).unwrap();
        assert_eq!(ec2nodeclass_hash_v5(&spec, "test-ca-bundle"), Ok(hash), "{changes}");
    }
    let mut spec = base_class_spec();
    spec["enclaveOptions"] = json!({"enabled": true});
    let enclaves = ec2nodeclass_hash_v5(&serde_json::from_value(spec).unwrap(), "test-ca-bundle");
    assert_eq!(enclaves, Ok(2_608_468_723_537_941_485), "the field is newer than v5");
    let mut spec = base_class_spec();
    spec["kubelet"] = json!({"maxPods": "vcpus * 10"});
    let error = ec2nodeclass_hash_v5(&serde_json::from_value(spec).unwrap(), "").unwrap_err();
    assert!(error.to_string().starts_with("spec.kubelet: invalid type: string"), "{error}");
}

// spec 06 #74
#[test]
fn spec_06_74_the_family_that_an_alias_implies_changes_nothing() {
    let with_alias = |family: Value| {
        let terms = json!([{"alias": "al2023@latest"}]);
        changed_class_hash(json!({"amiSelectorTerms": terms, "amiFamily": family}))
    };
    assert_eq!(with_alias(json!(null)), with_alias(json!("AL2023")));
    assert_ne!(with_alias(json!(null)), with_alias(json!("AL2")));
}

// spec 03 #8 and spec 03 #9
#[test]
fn spec_01_113_only_what_a_node_is_made_from_changes_the_pools_hash() {
    let pool = |changes: &[(&str, Value)]| {
        let mut spec = json!({
            "limits": {"cpu": "10"}, "weight": 1, "disruption": {"consolidateAfter": "0s"},
            "template": {"metadata": {"labels": {"a": "b"}, "annotations": {"c": "d"}}, "spec": {
                "requirements": [{"key": "kubernetes.io/arch", "operator": "In", "values": ["arm64"]}],
                "nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"},
                "expireAfter": "720h", "terminationGracePeriod": "1h",
                "taints": [{"key": "a", "effect": "NoSchedule"}], "startupTaints": [{"key": "b", "effect": "NoSchedule"}],
            }},
        });
        for (path, value) in changes {
            *spec.pointer_mut(path).unwrap() = value.clone();
        }
        let spec: NodePoolSpec = serde_json::from_value(spec).unwrap();
        nodepool_hash(&spec.template).unwrap()
    };
    let unchanged = pool(&[]);
    for (path, value) in [
        ("/limits", json!({"cpu": "20"})),
        ("/weight", json!(50)),
        ("/disruption", json!({"consolidateAfter": "5m"})),
        ("/template/spec/requirements", json!([])),
        // Durations are hashed by value, not by text.
        ("/template/spec/expireAfter", json!("30m719h30m")),
        ("/template/spec/terminationGracePeriod", json!("60m")),
    ] {
        assert_eq!(pool(&[(path, value)]), unchanged, "{path}");
    }
    let mut hashes = vec![unchanged];
    for (path, value) in [
        ("/template/metadata/labels", json!({"a": "c"})),
        ("/template/metadata/labels", json!({"b": "a"})),
        ("/template/metadata/annotations", json!({"c": "e"})),
        ("/template/spec/taints", json!([{"key": "a", "effect": "NoExecute"}])),
        ("/template/spec/taints", json!(null)),
        ("/template/spec/taints", json!([])),
        ("/template/spec/startupTaints", json!([{"key": "b", "value": "x", "effect": "NoSchedule"}])),
        ("/template/spec/nodeClassRef/name", json!("other")),
        ("/template/spec/expireAfter", json!("721h")),
        ("/template/spec/expireAfter", json!("Never")),
        ("/template/spec/expireAfter", json!("0s")),
        ("/template/spec/terminationGracePeriod", json!("2h")),
        ("/template/spec/terminationGracePeriod", json!("0s")),
        ("/template/spec/terminationGracePeriod", json!(null)),
        ("/template/spec/taints", json!([{"key": "a", "effect": "NoSchedule", "timeAdded": "2026-03-04T12:00:00Z"}])),
    ] {
        let hash = pool(&[(path, value.clone())]);
        assert!(!hashes.contains(&hash), "{path} {value}");
        hashes.push(hash);
    }
}

#[test]
fn spec_01_114_order_does_not_matter() {
    let none = Value::Null;
    let (a, b) = (json!({"key": "a", "effect": "NoSchedule"}), json!({"key": "b", "effect": "NoSchedule"}));
    for field in ["taints", "startupTaints"] {
        assert_eq!(pool_hash(&none, json!({field: [a, b]})), pool_hash(&none, json!({field: [b, a]})));
    }
    let mut devices = base_class_spec()["blockDeviceMappings"].clone();
    devices.as_array_mut().unwrap().reverse();
    assert_eq!(changed_class_hash(json!({"blockDeviceMappings": devices})), changed_class_hash(json!({})));
    // Tags are a map, which does not keep its order; the JSON text gives the other order.
    let reordered: EC2NodeClassSpec = serde_json::from_str(&base_class_spec().to_string().replace(
        r#""keyTag-1":"valueTag-1","keyTag-2":"valueTag-2""#,
        r#""keyTag-2":"valueTag-2","keyTag-1":"valueTag-1""#,
    ))
    .unwrap();
    assert_eq!(ec2nodeclass_hash(&reordered, "test-ca-bundle").unwrap(), changed_class_hash(json!({})));
    let interfaces = |a: i32, b: i32| {
        let interface = |index: i32| json!({"networkCardIndex": index, "deviceIndex": 0, "interfaceType": "interface"});
        changed_class_hash(json!({"networkInterfaces": [interface(a), interface(b)]}))
    };
    assert_eq!(interfaces(0, 1), interfaces(1, 0));
    assert_ne!(interfaces(0, 1), interfaces(0, 2));
}

#[test]
fn spec_01_115_the_ca_bundle_counts_and_selectors_do_not() {
    let unchanged = changed_class_hash(json!({}));
    assert_ne!(class_hash(base_class_spec(), "another-ca-bundle"), unchanged);
    assert_ne!(class_hash(base_class_spec(), ""), unchanged);
    for changes in [
        json!({"subnetSelectorTerms": [{"tags": {"a": "b"}}]}),
        json!({"securityGroupSelectorTerms": [{"name": "x"}]}),
        json!({"amiSelectorTerms": [{"id": "ami-2"}]}),
        json!({"capacityReservationSelectorTerms": [{"id": "cr-1"}]}),
        json!({"ipPrefixCount": 3}),
    ] {
        assert_eq!(changed_class_hash(changes.clone()), unchanged, "{changes}");
    }
    let alias = json!([{"alias": "al2023@latest"}]);
    let by_alias = changed_class_hash(json!({"amiFamily": null, "amiSelectorTerms": alias}));
    assert_eq!(by_alias, changed_class_hash(json!({"amiFamily": "AL2023", "amiSelectorTerms": alias})));
    assert_ne!(by_alias, unchanged);
}

#[test]
fn absent_empty_and_zero_have_different_hashes() {
    let mut hashes = vec![changed_class_hash(json!({}))];
    for changes in [
        json!({"tags": null}),
        json!({"tags": {}}),
        json!({"associatePublicIPAddress": null}),
        json!({"userData": ""}),
        json!({"userData": null}),
        json!({"blockDeviceMappings": null}),
        json!({"blockDeviceMappings": []}),
        json!({"networkInterfaces": []}),
        json!({"metadataOptions": {}}),
        json!({"metadataOptions": null}),
        json!({"connectionTracking": {}}),
        json!({"cpuOptions": {}}),
        json!({"placementGroupSelector": {"name": "g"}}),
        json!({"placementGroupSelector": {"id": "g"}}),
        json!({"instanceStorePolicy": "RAID0"}),
        json!({"blockDeviceMappings": [{"deviceName": "map-device-1", "rootVolume": true}]}),
        json!({"blockDeviceMappings": [{"deviceName": "map-device-1", "ebs": {}}]}),
        json!({"blockDeviceMappings": [{"deviceName": "map-device-1"}]}),
        json!({"blockDeviceMappings": [{"ebs": {"volumeInitializationRate": 100}}]}),
    ] {
        let hash = changed_class_hash(changes.clone());
        assert!(!hashes.contains(&hash), "{changes}");
        hashes.push(hash);
    }
    let mapping =
        |root: Value| changed_class_hash(json!({"blockDeviceMappings": [{"deviceName": "a", "rootVolume": root}]}));
    assert_eq!(mapping(json!(false)), mapping(json!(null)));
}

#[test]
fn volume_sizes_count_in_canonical_form() {
    let hash_with_size =
        |size: &str| changed_class_hash(json!({"blockDeviceMappings": [{"ebs": {"volumeSize": size}}]}));
    assert_eq!(hash_with_size("1024Gi"), hash_with_size("1Ti"));
    assert_eq!(hash_with_size("1000G"), hash_with_size("1T"));
    assert_ne!(hash_with_size("1Ti"), hash_with_size("1T"));
    let invalid_size: EC2NodeClassSpec = serde_json::from_value(json!({
        "amiSelectorTerms": [], "subnetSelectorTerms": [], "securityGroupSelectorTerms": [],
        "blockDeviceMappings": [{"ebs": {"volumeSize": "Ti"}}],
    }))
    .unwrap();
    assert!(ec2nodeclass_hash(&invalid_size, "").is_err());
    let invalid_duration = template(json!({"spec": {
        "nodeClassRef": {"group": "g", "kind": "k", "name": "n"}, "requirements": [], "expireAfter": "9999999999h",
    }}));
    assert!(nodepool_hash(&invalid_duration).is_err());
}

#[test]
fn spec_01_116_the_kubelets_configuration_counts() {
    assert_ne!(
        changed_class_hash(json!({"kubelet": {"maxPods": 12}})),
        changed_class_hash(json!({"kubelet": {"maxPods": 21}}))
    );
    assert_eq!(changed_class_hash(json!({"kubelet": {}})), changed_class_hash(json!({"kubelet": null})));
}

#[test]
fn kubelet_json_is_written_as_go_writes_it() {
    let text = |kubelet: Value| canonical_json(kubelet.as_object());
    assert_eq!(canonical_json(None), "null");
    assert_eq!(text(json!({})), "null");
    assert_eq!(
        text(json!({"b": [1, -2, 1.5, true, null, {}], "a": {"z": "", "y": {"x": []}}})),
        r#"{"a":{"y":{"x":[]},"z":""},"b":[1,-2,1.5,true,null,{}]}"#
    );
    assert_eq!(
        text(json!({"<&>": "\u{2028}\u{2029}\"\\\n\r\t\u{8}\u{c}\u{1}\u{7f}é日/"})),
        "{\"\\u003c\\u0026\\u003e\":\"\\u2028\\u2029\\\"\\\\\\n\\r\\t\\b\\f\\u0001\u{7f}é日/\"}"
    );
    let number = |json: &str| text(serde_json::from_str(&format!("{{\"n\":{json}}}")).unwrap());
    for (input, output) in [
        ("1.0", "1"),
        ("0.0", "0"),
        ("-0.25", "-0.25"),
        ("1e3", "1000"),
        ("100000000000000000000.0", "100000000000000000000"),
        ("1e21", "1e+21"),
        ("1.5e300", "1.5e+300"),
        ("0.000001", "0.000001"),
        ("0.0000001", "1e-7"),
        ("18446744073709551615", "18446744073709551615"),
    ] {
        assert_eq!(number(input), format!("{{\"n\":{output}}}"), "{input}");
    }
}

#[test]
fn spec_01_117_a_new_version_adopts_what_has_not_drifted() {
    for (claim_version, has_drifted_condition, expected) in [
        (Some("v2"), false, Migration::SetVersionAndHash),
        (None, false, Migration::SetVersionAndHash),
        (Some("v2"), true, Migration::SetVersion),
        (None, true, Migration::SetVersion),
        (Some("v3"), false, Migration::Keep),
        (Some("v3"), true, Migration::Keep),
    ] {
        assert_eq!(migration(claim_version, has_drifted_condition, NODEPOOL_HASH_VERSION), expected);
    }
}

#[test]
fn spec_01_118_only_equal_versions_are_compared() {
    fn annotated<'a>(hash: Option<&'a str>, version: Option<&'a str>) -> HashAnnotations<'a> {
        HashAnnotations { hash, version }
    }
    let source = annotated(Some("1"), Some("v3"));
    assert!(is_drifted(source, annotated(Some("2"), Some("v3"))));
    // Hashes are compared as texts.
    assert!(is_drifted(source, annotated(Some("01"), Some("v3"))));
    assert!(!is_drifted(source, annotated(Some("1"), Some("v3"))));
    for incomparable in [
        annotated(Some("2"), Some("v2")),
        annotated(None, Some("v3")),
        annotated(Some("2"), None),
        annotated(None, None),
    ] {
        assert!(!is_drifted(source, incomparable));
        assert!(!is_drifted(incomparable, source));
    }
    assert!(!is_drifted(annotated(Some("1"), None), annotated(Some("2"), None)));
}
