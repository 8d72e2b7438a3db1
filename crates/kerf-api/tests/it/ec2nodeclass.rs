//! Tests of EC2NodeClasses: admission, and the controllers' checks that need no EC2 API.

use kerf_api::ec2nodeclass::EC2NodeClass;
use kerf_api::validation::ec2nodeclass::{tags_failure, volume_size_failures};
use serde_json::{Value, json};

use crate::admit::Manifest;
use crate::manifests::node_class;

fn with_amis(terms: Value) -> Manifest {
    node_class().with("/spec/amiSelectorTerms", terms)
}

fn with_ebs(ebs: Value) -> Manifest {
    node_class().with("/spec/blockDeviceMappings", json!([{ "deviceName": "/dev/xvda", "ebs": ebs }]))
}

fn decode(manifest: &Manifest) -> EC2NodeClass {
    serde_json::from_value(manifest.accepted()).unwrap()
}

// spec 01 §13.1
#[test]
fn metadata_options_are_defaulted() {
    let all = json!({
        "httpEndpoint": "enabled", "httpProtocolIPv6": "disabled", "httpPutResponseHopLimit": 1, "httpTokens": "required",
    });
    assert_eq!(node_class().accepted()["spec"]["metadataOptions"], all);
    assert_eq!(node_class().with("/spec/metadataOptions", json!({})).accepted()["spec"]["metadataOptions"], all);
    let some = node_class().with("/spec/metadataOptions", json!({ "httpTokens": "optional" })).accepted();
    assert_eq!(some["spec"]["metadataOptions"]["httpPutResponseHopLimit"], 1);
    for limit in [0, 65] {
        node_class()
            .with("/spec/metadataOptions/httpPutResponseHopLimit", limit)
            .rejected()
            .assert_only("spec.metadataOptions.httpPutResponseHopLimit", "should be");
    }
}

// spec 01 §7
#[test]
fn a_class_without_a_spec_is_admitted() {
    assert_eq!(decode(&node_class().without("/spec")).spec, None);
}

#[test]
fn spec_01_92_exactly_one_of_role_and_instance_profile() {
    let text = "must specify exactly one of ['role', 'instanceProfile']";
    let profile = node_class().without("/spec/role").with("/spec/instanceProfile", "p");
    node_class().with("/spec/instanceProfile", "p").rejected().assert_only("spec", text);
    node_class().without("/spec/role").rejected().assert_only("spec", text);
    profile.accepted_after(&node_class());
    node_class().accepted_after(&profile);
    node_class().with("/spec/role", "").rejected().assert_only("spec.role", "role cannot be empty");
    profile
        .with("/spec/instanceProfile", "")
        .rejected()
        .assert_only("spec.instanceProfile", "instanceProfile cannot be empty");
}

#[test]
fn spec_01_93_the_family_agrees_with_the_alias() {
    node_class()
        .with("/spec/amiFamily", "Ubuntu")
        .rejected()
        .assert_has("spec.amiFamily", "Unsupported value: \"Ubuntu\"");
    let families = [
        ("al2", "AL2", "an AL2"),
        ("al2023", "AL2023", "an AL2023"),
        ("bottlerocket", "Bottlerocket", "a Bottlerocket"),
        ("windows2019", "Windows2019", "a Windows2019"),
        ("windows2022", "Windows2022", "a Windows2022"),
        ("windows2025", "Windows2025", "a Windows2025"),
    ];
    for (alias, family, article) in families {
        let manifest = with_amis(json!([{ "alias": format!("{alias}@latest") }]));
        manifest.accepted();
        manifest.with("/spec/amiFamily", family).accepted();
        manifest.with("/spec/amiFamily", "Custom").accepted();
        for (_, other, _) in families.iter().filter(|(_, other, _)| *other != family) {
            let text = format!("if set, amiFamily must be '{family}' or 'Custom' when using {article} alias");
            manifest.with("/spec/amiFamily", *other).rejected().assert_only("spec", &text);
        }
    }
}

#[test]
fn spec_01_94_without_an_alias_the_family_is_required() {
    let manifest = with_amis(json!([{ "id": "ami-123" }]));
    manifest.rejected().assert_only("spec", "must specify amiFamily if amiSelectorTerms does not contain an alias");
    manifest.with("/spec/amiFamily", "AL2023").accepted();
}

#[test]
fn spec_01_95_aliases() {
    let path = "spec.amiSelectorTerms[0].alias";
    let format = "'alias' is improperly formatted, must match the format 'family@version'";
    let family = "family is not supported, must be one of the following: 'al2', 'al2023', 'bottlerocket', 'windows2019', \
                  'windows2022', 'windows2025'";
    let windows = "windows families may only specify version 'latest'";
    let with_alias = |alias: &str| with_amis(json!([{ "alias": alias }]));
    with_alias("@latest").rejected().assert_has(path, format).assert_has(path, family);
    for alias in ["al2023", "al2023@"] {
        with_alias(alias).rejected().assert_only(path, format);
    }
    with_alias("al2023-latest").rejected().assert_has(path, format);
    with_alias("ubuntu@latest").rejected().assert_only(path, family);
    // The version is the text between the first two `@`.
    for alias in ["windows2022@v1.0.0", "windows2022@x@latest", "windows2022@latest2", "windows2019@"] {
        with_alias(alias).rejected().assert_has(path, windows);
    }
    for alias in ["bottlerocket@1.10.0", "windows2022@latest", "windows2022@latest@x", "al2@v20240101", "al2023@a@b"] {
        with_alias(alias).accepted();
    }
    with_alias(&format!("al2@{}", "a".repeat(27))).rejected().assert_has(path, "may not be more than 30 bytes");
    assert!(
        decode(&with_alias("al2023@a@b")).spec.unwrap().alias().unwrap().is_err(),
        "admission accepts the alias, parsing it fails"
    );
}

#[test]
fn spec_01_96_an_alias_is_the_only_term() {
    for other in [json!({ "id": "ami-1" }), json!({ "alias": "al2023@latest" }), json!({ "tags": { "a": "b" } })] {
        with_amis(json!([{ "alias": "al2023@latest" }, other])).rejected().assert_only(
            "spec.amiSelectorTerms",
            "'alias' is mutually exclusive, cannot be set with a combination of other amiSelectorTerms",
        );
    }
    for field in
        [json!({ "id": "ami-1" }), json!({ "name": "n" }), json!({ "owner": "self" }), json!({ "tags": { "a": "b" } })]
    {
        let mut term = field;
        term["alias"] = json!("al2023@latest");
        with_amis(json!([term])).rejected().assert_has(
            "spec.amiSelectorTerms",
            "'alias' is mutually exclusive, cannot be set with a combination of other fields in amiSelectorTerms",
        );
    }
}

#[test]
fn spec_01_97_terms_are_not_empty_and_not_contradictory() {
    let cases = [
        ("subnetSelectorTerms", json!({}), "expected at least one, got none, ['tags', 'id']"),
        ("securityGroupSelectorTerms", json!({}), "expected at least one, got none, ['tags', 'id', 'name']"),
        (
            "capacityReservationSelectorTerms",
            json!({}),
            "expected at least one, got none, ['tags', 'id', 'instanceMatchCriteria']",
        ),
        (
            "amiSelectorTerms",
            json!({}),
            "expected at least one, got none, ['tags', 'id', 'name', 'alias', 'ssmParameter']",
        ),
        (
            "amiSelectorTerms",
            json!({ "owner": "self" }),
            "expected at least one, got none, ['tags', 'id', 'name', 'alias', 'ssmParameter']",
        ),
        (
            "subnetSelectorTerms",
            json!({ "id": "subnet-1", "tags": { "a": "b" } }),
            "'id' is mutually exclusive, cannot be set with a combination of other fields in a subnet selector term",
        ),
        (
            "securityGroupSelectorTerms",
            json!({ "id": "sg-1", "tags": { "a": "b" } }),
            "'id' is mutually exclusive, cannot be set with a combination of other fields in a security group selector term",
        ),
        (
            "securityGroupSelectorTerms",
            json!({ "name": "n", "tags": { "a": "b" } }),
            "'name' is mutually exclusive, cannot be set with a combination of other fields in a security group selector term",
        ),
        (
            "capacityReservationSelectorTerms",
            json!({ "id": "cr-1", "ownerID": "012345678901" }),
            "'id' is mutually exclusive, cannot be set along with other fields in a capacity reservation selector term",
        ),
        (
            "amiSelectorTerms",
            json!({ "id": "ami-1", "owner": "self" }),
            "'id' is mutually exclusive, cannot be set with a combination of other fields in amiSelectorTerms",
        ),
    ];
    let named = node_class().with("/spec/amiFamily", "AL2023");
    for (field, term, text) in cases {
        named.with(&format!("/spec/{field}"), json!([term])).rejected().assert_only(&format!("spec.{field}"), text);
    }
    for field in
        ["subnetSelectorTerms", "securityGroupSelectorTerms", "capacityReservationSelectorTerms", "amiSelectorTerms"]
    {
        for tags in [json!({ "": "b" }), json!({ "a": "" })] {
            named
                .with(&format!("/spec/{field}"), json!([{ "tags": tags }]))
                .rejected()
                .assert_only(&format!("spec.{field}[0].tags"), "empty tag keys or values aren't supported");
        }
        named.with(&format!("/spec/{field}"), json!([{ "tags": { "a": "*" } }])).accepted();
        named.with(&format!("/spec/{field}"), json!([{ "tags": {} }])).accepted();
    }
    for field in ["subnetSelectorTerms", "securityGroupSelectorTerms"] {
        named
            .with(&format!("/spec/{field}"), json!([]))
            .rejected()
            .assert_has(&format!("spec.{field}"), &format!("{field} cannot be empty"));
    }
    named
        .with("/spec/amiSelectorTerms", json!([]))
        .rejected()
        .assert_has("spec.amiSelectorTerms", "should have at least 1 items");
    named
        .with("/spec/subnetSelectorTerms", vec![json!({ "id": "subnet-1" }); 31])
        .rejected()
        .assert_only("spec.subnetSelectorTerms", "must have at most 30 items");
}

#[test]
fn spec_01_98_one_invalid_term_among_valid_ones_is_accepted() {
    node_class()
        .with("/spec/subnetSelectorTerms", json!([{ "id": "subnet-1", "tags": { "a": "b" } }, { "id": "subnet-2" }]))
        .accepted();
}

#[test]
fn spec_01_99_reservations() {
    let path = "/spec/capacityReservationSelectorTerms";
    node_class().with(path, json!([])).rejected().assert_only(
        "spec.capacityReservationSelectorTerms",
        "'id' is mutually exclusive, cannot be set along with other fields in a capacity reservation selector term",
    );
    node_class().with(path, Value::Null).accepted();
    node_class().with(path, json!([{ "ownerID": "012345678901" }])).rejected().assert_only(
        "spec.capacityReservationSelectorTerms",
        "expected at least one, got none, ['tags', 'id', 'instanceMatchCriteria']",
    );
    node_class().with(path, json!([{ "instanceMatchCriteria": "open" }, { "id": "cr-0a" }])).accepted();
    node_class()
        .with(path, json!([{ "id": "xcr-1" }]))
        .rejected()
        .assert_only("spec.capacityReservationSelectorTerms[0].id", "should match");
}

#[test]
fn spec_01_100_restricted_tags_are_rejected() {
    for (key, matching) in [
        ("karpenter.sh/nodepool", "karpenter.sh/nodepool"),
        ("karpenter.sh/nodeclaim", "karpenter.sh/nodeclaim"),
        ("kubernetes.io/cluster/x", "kubernetes.io/cluster/"),
        ("kubernetes.io/clusters", "kubernetes.io/cluster/"),
        ("eks:eks-cluster-name", "eks:eks-cluster-name"),
        ("karpenter.k8s.aws/ec2nodeclass", "karpenter.k8s.aws/ec2nodeclass"),
    ] {
        node_class()
            .with("/spec/tags", json!({ key: "v" }))
            .rejected()
            .assert_only("spec.tags", &format!("tag contains a restricted tag matching {matching}"));
    }
    node_class()
        .with("/spec/tags", json!({ "": "v" }))
        .rejected()
        .assert_only("spec.tags", "empty tag keys aren't supported");
    let allowed = json!({ "karpenter.sh/managed": "v", "kubernetes.io/role/x": "v", "a": "" });
    let spec = decode(&node_class().with("/spec/tags", allowed)).spec.unwrap();
    assert_eq!(tags_failure(&spec.tags.unwrap()), None);
}

// spec 01 §7.3, at run time
#[test]
fn spec_01_100_tags_are_checked_again_before_launch() {
    let tags =
        ["kubernetes.io/cluster/x", "karpenter.sh/nodepool", "kubernetes.io/clusters", "kubernetes.io/cluster/-", "a"];
    assert_eq!(
        tags_failure(&tags.into_iter().map(|key| (key.to_owned(), String::new())).collect()).unwrap(),
        "tags failed validation requirements (tags=\"karpenter.sh/nodepool\", \"kubernetes.io/cluster/x\")"
    );
}

#[test]
fn spec_01_101_one_root_volume() {
    let mappings = |flags: &[bool]| {
        let mappings: Vec<Value> =
            flags.iter().map(|flag| json!({ "rootVolume": flag, "ebs": { "volumeSize": "1Gi" } })).collect();
        node_class().with("/spec/blockDeviceMappings", mappings)
    };
    mappings(&[true, true])
        .rejected()
        .assert_only("spec.blockDeviceMappings", "must have only one blockDeviceMappings with rootVolume");
    mappings(&[true, false, false]).accepted();
    mappings(&[false, false]).accepted();
    node_class().with("/spec/blockDeviceMappings", json!([{ "deviceName": "/dev/sdb" }])).accepted();
}

#[test]
fn spec_01_102_volume_sizes() {
    for size in ["1Mi", "100", "65T", "59001Gi", "18Ti", "0Gi", "59Ti", "1.5Gi", "64001G"] {
        with_ebs(json!({ "volumeSize": size }))
            .rejected()
            .assert_only("spec.blockDeviceMappings[0].ebs.volumeSize", "should match");
    }
    for size in ["58Ti", "64T", "59000Gi", "64000G", "1Gi", "10Ti"] {
        assert!(volume_size_failures(&decode(&with_ebs(json!({ "volumeSize": size }))).spec.unwrap()).is_empty());
    }
    // spec 01 §7.4: admitted, decoded, and reported.
    for size in ["Ti", "T"] {
        let failures = volume_size_failures(&decode(&with_ebs(json!({ "volumeSize": size }))).spec.unwrap());
        let [failure] = failures.as_slice() else { panic!("{failures:?}") };
        assert!(failure.starts_with("spec.blockDeviceMappings[0].ebs.volumeSize: invalid quantity"), "{failure}");
    }
    with_ebs(json!({}))
        .rejected()
        .assert_only("spec.blockDeviceMappings[0].ebs", "snapshotID or volumeSize must be defined");
}

#[test]
fn spec_01_103_initialization_rates() {
    let path = "spec.blockDeviceMappings[0].ebs";
    let text = "snapshotID must be set when volumeInitializationRate is set";
    with_ebs(json!({ "volumeSize": "1Gi", "volumeInitializationRate": 100 })).rejected().assert_only(path, text);
    with_ebs(json!({ "snapshotID": "", "volumeInitializationRate": 100 })).rejected().assert_only(path, text);
    for rate in [99, 888] {
        with_ebs(json!({ "snapshotID": "snap-1", "volumeInitializationRate": rate }))
            .rejected()
            .assert_only(&format!("{path}.volumeInitializationRate"), "should be");
    }
    with_ebs(json!({ "snapshotID": "snap-1", "volumeInitializationRate": 300 })).accepted();
}

#[test]
fn spec_01_104_network_interfaces() {
    let interface = |card: i32, device: i32, kind: &str| json!({ "networkCardIndex": card, "deviceIndex": device, "interfaceType": kind });
    let with = |interfaces: Vec<Value>| node_class().with("/spec/networkInterfaces", interfaces);
    let primary = "networkInterfaces must include a primary interface with interfaceType='interface'";
    let distinct = "networkInterfaces must not have duplicate networkCardIndex and deviceIndex pairs, and can have at most one efa \
                    device per network card";
    with(vec![]).accepted();
    with(vec![
        interface(0, 0, "interface"),
        interface(0, 1, "efa-only"),
        interface(1, 1, "efa-only"),
        interface(1, 2, "interface"),
    ])
    .accepted();
    with(vec![interface(0, 1, "interface")]).rejected().assert_only("spec.networkInterfaces", primary);
    with(vec![interface(0, 0, "efa-only")]).rejected().assert_only("spec.networkInterfaces", primary);
    with(vec![interface(0, 0, "interface"), interface(0, 0, "interface")])
        .rejected()
        .assert_only("spec.networkInterfaces", distinct);
    with(vec![interface(0, 0, "interface"), interface(1, 0, "efa-only"), interface(1, 1, "efa-only")])
        .rejected()
        .assert_only("spec.networkInterfaces", distinct);
    with(vec![interface(0, 0, "efa")])
        .rejected()
        .assert_has("spec.networkInterfaces[0].interfaceType", "Unsupported value: \"efa\"");
    with(vec![interface(-1, 0, "interface")])
        .rejected()
        .assert_has("spec.networkInterfaces[0].networkCardIndex", "should be greater");
}

#[test]
fn spec_01_105_connection_tracking() {
    node_class().with("/spec/connectionTracking", json!({})).rejected().assert_only(
        "spec.connectionTracking",
        "at least one of tcpEstablishedTimeout, udpStreamTimeout, or udpTimeout must be set",
    );
    for (field, low, high) in
        [("tcpEstablishedTimeout", 60, 432_000), ("udpStreamTimeout", 60, 180), ("udpTimeout", 30, 60)]
    {
        let with = |value: i32| node_class().with("/spec/connectionTracking", json!({ field: value }));
        with(low).accepted();
        with(high).accepted();
        for value in [low - 1, high + 1] {
            with(value).rejected().assert_only(&format!("spec.connectionTracking.{field}"), "should be");
        }
    }
}

#[test]
fn placement_groups_processors_and_prefixes() {
    let group = |value: Value| node_class().with("/spec/placementGroupSelector", value);
    group(json!({ "name": "n" })).accepted();
    group(json!({ "id": "pg-1" })).accepted();
    group(json!({}))
        .rejected()
        .assert_only("spec.placementGroupSelector", "expected at least one, got none, ['name', 'id']");
    group(json!({ "name": "n", "id": "pg-1" }))
        .rejected()
        .assert_only("spec.placementGroupSelector", "'name' and 'id' are mutually exclusive");
    node_class().with("/spec/cpuOptions", json!({})).accepted();
    node_class()
        .with("/spec/cpuOptions/nestedVirtualization", "on")
        .rejected()
        .assert_only("spec.cpuOptions.nestedVirtualization", "Unsupported");
    node_class().with("/spec/ipPrefixCount", -1).rejected().assert_only("spec.ipPrefixCount", "should be greater");
}

// spec 01 §2.6: no list type here, so a condition may occur twice.
#[test]
fn conditions_are_an_atomic_list() {
    let condition = json!({
        "type": "Ready", "status": "True", "reason": "Ready", "message": "", "lastTransitionTime": "2024-01-01T00:00:00Z",
    });
    node_class().with("/status/conditions", vec![condition.clone(), condition]).accepted_with_status();
    let reservation = json!({
        "id": "cr-1", "availabilityZone": "a", "instanceType": "t", "ownerID": "012345678901", "instanceMatchCriteria": "open",
    });
    let stored = node_class().with("/status/capacityReservations", vec![reservation]).accepted_with_status();
    assert_eq!(stored["status"]["capacityReservations"][0]["reservationType"], "default");
    assert_eq!(stored["status"]["capacityReservations"][0]["state"], "active");
}
