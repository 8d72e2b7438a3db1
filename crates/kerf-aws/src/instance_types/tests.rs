//! Labels, resources and offerings of instance types of the shipped catalogue (spec 05 §4, §5).

use std::sync::Arc;
use std::time::Duration;

use kerf_api::ec2nodeclass::EC2NodeClass;
use kerf_api::labels::{self, LabelRules, aws};
use kerf_engine::catalogue::{InstanceType, InstanceTypes};
use kerf_runtime::Clock;
use serde_json::{Value, json};
use tokio::time::advance;

use super::*;
use crate::data;
use crate::ports::ec2::{Gpu, GpuInfo, InstanceTypeInfo, InstanceTypeOffering};
use crate::pricing::Pricing;
use crate::settings::AwsSettings;
use crate::unavailable_offerings::{InstancePool, PoolScope, UnavailableOfferings};

mod karpenter;
mod offerings;

/// A catalogue on a stopped clock, and the stores that it reads.
struct TestCatalogue {
    catalogue: InstanceTypeCatalogue,
    pricing: Arc<Pricing>,
    unavailable: Arc<UnavailableOfferings>,
}

impl TestCatalogue {
    fn empty(settings: &AwsSettings) -> Self {
        let clock = Clock::starting_at("2026-01-01T00:00:00Z".parse().unwrap());
        let pricing = Arc::new(Pricing::new("us-west-2"));
        let unavailable = Arc::new(UnavailableOfferings::new(clock));
        let settings = InstanceTypeSettings::new("us-west-2", settings);
        let catalogue = InstanceTypeCatalogue::new(settings, Arc::clone(&pricing), Arc::clone(&unavailable), clock);
        Self { catalogue, pricing, unavailable }
    }

    /// Returns the shipped catalogue.
    fn shipped() -> Self {
        Self::with_settings(&AwsSettings::new("test"))
    }

    fn with_settings(settings: &AwsSettings) -> Self {
        let test = Self::empty(settings);
        let shipped = data::catalogue();
        test.catalogue.set_catalogue(shipped.instance_types.clone(), shipped.offerings.clone());
        test
    }

    fn list(&self, class: &EC2NodeClass) -> InstanceTypes {
        self.catalogue.list(class).unwrap()
    }

    fn get(&self, class: &EC2NodeClass, name: &str) -> InstanceType {
        self.catalogue.get(class, name).unwrap()
    }

    /// Returns the shipped description of a type.
    fn info(name: &str) -> InstanceTypeInfo {
        data::catalogue().instance_types.iter().find(|info| info.name == name).unwrap().clone()
    }

    /// Sets a catalogue of these types, each offered in zones a and b.
    fn set_types(&self, types: Vec<InstanceTypeInfo>) {
        let offering = |info: &InstanceTypeInfo, zone: &str| InstanceTypeOffering {
            instance_type: info.name.clone(),
            zone: format!("us-west-2{zone}"),
        };
        let offerings = types.iter().flat_map(|info| [offering(info, "a"), offering(info, "b")]).collect();
        self.catalogue.set_catalogue(types, offerings);
    }
}

/// Returns a class with three zones. `spec` is merged over an AL2023 alias.
fn class(spec: Value) -> EC2NodeClass {
    let mut full = json!({
        "amiSelectorTerms": [{ "alias": "al2023@latest" }],
        "subnetSelectorTerms": [],
        "securityGroupSelectorTerms": [],
    });
    for (key, value) in spec.as_object().unwrap() {
        full[key] = value.clone();
    }
    serde_json::from_value(json!({
        "metadata": { "name": "default" },
        "spec": full,
        "status": { "subnets": [
            { "id": "subnet-a", "zone": "us-west-2a", "zoneID": "usw2-az1" },
            { "id": "subnet-b", "zone": "us-west-2b", "zoneID": "usw2-az2" },
            { "id": "subnet-c", "zone": "us-west-2c", "zoneID": "usw2-az3" },
        ] },
    }))
    .unwrap()
}

fn with_family(alias: &str) -> EC2NodeClass {
    match alias {
        "custom" => class(json!({ "amiFamily": "Custom", "amiSelectorTerms": [{ "id": "ami-1" }] })),
        alias => class(json!({ "amiSelectorTerms": [{ "alias": format!("{alias}@latest") }] })),
    }
}

fn with_kubelet(alias: &str, kubelet: Value) -> EC2NodeClass {
    let mut class = with_family(alias);
    class.spec.as_mut().unwrap().kubelet = kubelet.as_object().cloned();
    class
}

/// Returns the values of a label; empty if the label must be absent.
fn values(instance_type: &InstanceType, key: &str) -> String {
    let requirement = instance_type.requirements.get(key).unwrap_or_else(|| panic!("no requirement {key}"));
    assert!(!requirement.is_complement());
    requirement.values().join(",")
}

fn resource(instance_type: &InstanceType, name: &str) -> String {
    instance_type.capacity.get(name).unwrap().to_string()
}

fn kube_reserved(instance_type: &InstanceType, name: &str) -> String {
    instance_type.overhead.kube_reserved.get(name).unwrap().to_string()
}

fn available(list: &InstanceTypes, name: &str) -> Vec<String> {
    let instance_type = list.find(name).unwrap();
    let text = |key: &str, offering: &kerf_engine::catalogue::Offering| {
        offering.requirements.get(key).unwrap().values().join(",")
    };
    instance_type
        .offerings()
        .filter(|offering| offering.is_available())
        .map(|offering| format!("{} {}", text(labels::ZONE, &offering), text(labels::CAPACITY_TYPE, &offering)))
        .collect()
}

/// A row of §4.16: type, pods, allocatable CPU, memory, kube-reserved and allocatable memory, and
/// further resources.
type ReferenceRow = (
    &'static str,
    &'static str,
    &'static str,
    &'static str,
    &'static str,
    &'static str,
    &'static [(&'static str, &'static str)],
);

// spec 05 #13: the table of §4.16
#[tokio::test(start_paused = true)]
async fn reference_values() {
    let catalogue = TestCatalogue::shipped();
    let class = class(json!({}));
    let rows: &[ReferenceRow] = &[
        ("a1.medium", "8", "940m", "1835Mi", "343Mi", "1392Mi", &[]),
        ("t3.large", "35", "1930m", "7577Mi", "640Mi", "6837Mi", &[("vpc.amazonaws.com/pod-eni", "0")]),
        ("m5.large", "29", "1930m", "7577Mi", "574Mi", "6903Mi", &[("vpc.amazonaws.com/pod-eni", "9")]),
        ("m5.xlarge", "58", "3920m", "15155Mi", "893Mi", "14162Mi", &[("vpc.amazonaws.com/pod-eni", "18")]),
        ("c6g.large", "29", "1930m", "3729Mi", "574Mi", "3055Mi", &[("vpc.amazonaws.com/pod-eni", "9")]),
        (
            "g4dn.8xlarge",
            "58",
            "31850m",
            "121241Mi",
            "893Mi",
            "120248Mi",
            &[("nvidia.com/gpu", "1"), ("vpc.amazonaws.com/efa", "1")],
        ),
        (
            "inf2.24xlarge",
            "737",
            "95690m",
            "363724Mi",
            "8362Mi",
            "355262Mi",
            &[("aws.amazon.com/neuron", "6"), ("aws.amazon.com/neuroncore", "12")],
        ),
        ("m6idn.32xlarge", "394", "127610m", "484966Mi", "4589Mi", "480277Mi", &[("vpc.amazonaws.com/efa", "2")]),
        (
            "p5.48xlarge",
            "100",
            "191450m",
            "1939865Mi",
            "1355Mi",
            "1938410Mi",
            &[("nvidia.com/gpu", "8"), ("vpc.amazonaws.com/efa", "32")],
        ),
    ];
    for (name, pods, cpu, memory, reserved, memory_left, others) in rows {
        let instance_type = catalogue.get(&class, name);
        let allocatable = instance_type.allocatable();
        assert_eq!(resource(&instance_type, "pods"), *pods, "{name}");
        assert_eq!(allocatable.get("cpu").unwrap().to_string(), *cpu, "{name}");
        assert_eq!(resource(&instance_type, "memory"), *memory, "{name}");
        assert_eq!(kube_reserved(&instance_type, "memory"), *reserved, "{name}");
        assert_eq!(allocatable.get("memory").unwrap().to_string(), *memory_left, "{name}");
        assert_eq!(allocatable.get("ephemeral-storage").unwrap().to_string(), "17Gi", "{name}");
        for (other, amount) in *others {
            assert_eq!(resource(&instance_type, other), *amount, "{name} {other}");
        }
    }
    assert_eq!(values(&catalogue.get(&class, "g4dn.8xlarge"), aws::INSTANCE_LOCAL_NVME), "900");
}

// spec 05 #1, #2, #4, #7, #8, #10
#[tokio::test(start_paused = true)]
async fn labels_of_shipped_types() {
    let catalogue = TestCatalogue::shipped();
    let class = class(json!({}));
    let check = |name: &str, expected: &[(&str, &str)]| {
        let instance_type = catalogue.get(&class, name);
        for (key, value) in expected {
            let key = if key.contains('/') { (*key).to_owned() } else { format!("karpenter.k8s.aws/{key}") };
            assert_eq!(values(&instance_type, &key), *value, "{name} {key}");
        }
    };
    check(
        "g4dn.8xlarge",
        &[
            ("instance-category", "g"),
            ("instance-generation", "4"),
            ("instance-family", "g4dn"),
            ("instance-size", "8xlarge"),
            ("instance-cpu", "32"),
            ("instance-memory", "131072"),
            ("instance-cpu-manufacturer", "intel"),
            ("instance-cpu-sustained-clock-speed-mhz", "2500"),
            ("instance-ebs-bandwidth", "9500"),
            ("instance-network-bandwidth", "50000"),
            ("instance-gpu-name", "t4"),
            ("instance-gpu-manufacturer", "nvidia"),
            ("instance-gpu-count", "1"),
            ("instance-gpu-memory", "16384"),
            ("instance-local-nvme", "900"),
            ("instance-capability-flex", "false"),
            ("instance-tenancy", "dedicated,default"),
            ("nitro-sandbox", "true"),
            (labels::OS, "linux"),
            (labels::ARCH, "amd64"),
            (labels::WINDOWS_BUILD, ""),
            (labels::REGION, "us-west-2"),
            (labels::CAPACITY_TYPE, "on-demand,spot"),
        ],
    );
    check(
        "inf2.xlarge",
        &[
            ("instance-accelerator-name", "inferentia2"),
            ("instance-accelerator-manufacturer", "aws"),
            ("instance-accelerator-count", "1"),
            ("instance-gpu-name", ""),
            ("instance-local-nvme", ""),
        ],
    );
    assert_eq!(resource(&catalogue.get(&class, "inf2.xlarge"), "aws.amazon.com/neuroncore"), "2");
    check("m7i-flex.large", &[("instance-capability-flex", "true")]);
    check("u7i-12tb.224xlarge", &[("instance-category", "u"), ("instance-generation", "7")]);
    check("t3.micro", &[("nitro-sandbox", "false"), ("instance-hypervisor", "nitro")]);
    check("m5.metal", &[("instance-hypervisor", "")]);
    check("c7g.xlarge", &[(labels::ARCH, "arm64"), ("instance-cpu-manufacturer", "aws")]);
    let metal = catalogue.get(&class, "m5.metal");
    let hypervisor = metal.requirements.get(aws::INSTANCE_HYPERVISOR).unwrap();
    assert!(hypervisor.has(""), "an empty value is a value");
}

// spec 05 §4.3: a label without a value is absent, so that DoesNotExist and NotIn match
#[tokio::test(start_paused = true)]
async fn every_well_known_label_has_an_entry() {
    let catalogue = TestCatalogue::shipped();
    let list = catalogue.list(&class(json!({})));
    assert_eq!(list.len(), 1_386);
    let not_set = [labels::NODEPOOL, aws::PLACEMENT_GROUP_ID, aws::PLACEMENT_GROUP_PARTITION, aws::ZONE_ID];
    let rules = LabelRules::aws();
    for instance_type in list.types() {
        for key in rules.well_known().filter(|key| !not_set.contains(key)) {
            assert!(instance_type.requirements.contains_key(key), "{} {key}", instance_type.name);
        }
    }
}

// spec 05 #5
#[tokio::test(start_paused = true)]
async fn two_gpu_entries_give_resources_and_no_labels() {
    let catalogue = TestCatalogue::empty(&AwsSettings::new("test"));
    let gpu = |count| Gpu { manufacturer: "NVIDIA".into(), name: "T4".into(), count, ..Gpu::default() };
    let gpus = Some(GpuInfo { gpus: vec![gpu(1), gpu(2)] });
    catalogue.set_types(vec![InstanceTypeInfo { gpus, ..TestCatalogue::info("g4dn.xlarge") }]);
    let instance_type = catalogue.get(&class(json!({})), "g4dn.xlarge");
    for key in
        [aws::INSTANCE_GPU_NAME, aws::INSTANCE_GPU_MANUFACTURER, aws::INSTANCE_GPU_COUNT, aws::INSTANCE_GPU_MEMORY]
    {
        assert_eq!(values(&instance_type, key), "");
    }
    assert_eq!(resource(&instance_type, "nvidia.com/gpu"), "3");
}

// spec 05 #6, #30
#[tokio::test(start_paused = true)]
async fn windows_runs_on_amd64_only() {
    let catalogue = TestCatalogue::shipped();
    let class = with_family("windows2022");
    let amd64 = catalogue.get(&class, "m5.large");
    assert_eq!(
        (values(&amd64, labels::OS), values(&amd64, labels::WINDOWS_BUILD)),
        ("windows".into(), "10.0.20348".into())
    );
    assert_eq!(resource(&amd64, "vpc.amazonaws.com/PrivateIPv4Address"), "9");
    assert_eq!((resource(&amd64, "pods"), resource(&amd64, "ephemeral-storage")), ("110".into(), "50Gi".into()));
    let arm64 = catalogue.get(&class, "c7g.xlarge");
    assert_eq!(values(&arm64, labels::OS), "");
    assert_eq!(arm64.capacity.get("vpc.amazonaws.com/PrivateIPv4Address"), None);
    catalogue.set_types(vec![InstanceTypeInfo { name: "x9.large".into(), ..TestCatalogue::info("m5.large") }]);
    assert_eq!(resource(&catalogue.get(&class, "x9.large"), "vpc.amazonaws.com/PrivateIPv4Address"), "0");
}

// spec 05 #8, #12
#[tokio::test(start_paused = true)]
async fn zones_are_those_of_ec2_that_the_class_covers() {
    let catalogue = TestCatalogue::empty(&AwsSettings::new("test"));
    catalogue.set_types(vec![TestCatalogue::info("m5.large")]);
    let mut class = class(json!({}));
    let subnets = class.status.as_mut().unwrap().subnets.as_mut().unwrap();
    subnets.remove(0);
    let list = catalogue.list(&class);
    let m5_large = list.find("m5.large").unwrap();
    assert_eq!(values(&m5_large, labels::ZONE), "us-west-2b");
    assert_eq!(values(&m5_large, aws::ZONE_ID), "usw2-az2");
    assert_eq!(available(&list, "m5.large"), ["us-west-2b on-demand", "us-west-2b spot"]);
    class.status.as_mut().unwrap().subnets.as_mut().unwrap()[0].zone_id = None;
    let list = catalogue.list(&class);
    assert_eq!(available(&list, "m5.large").len(), 2);
    let m5_large = list.find("m5.large").unwrap();
    assert!(!m5_large.requirements.contains_key(aws::ZONE_ID));
}

// spec 05 #14, #31, #55
#[tokio::test(start_paused = true)]
async fn efa_only_interfaces_take_addresses_of_the_first_card() {
    let catalogue = TestCatalogue::shipped();
    let with_interfaces = |positions: &[(i32, i32, &str)]| {
        let interfaces: Vec<Value> = positions
            .iter()
            .map(|(card, device, kind)| json!({ "networkCardIndex": card, "deviceIndex": device, "interfaceType": kind }))
            .collect();
        class(json!({ "networkInterfaces": interfaces }))
    };
    let pods = |class: &EC2NodeClass| resource(&catalogue.get(class, "m6idn.32xlarge"), "pods");
    assert_eq!(pods(&with_interfaces(&[(0, 0, "interface"), (0, 1, "efa-only")])), "345");
    assert_eq!(pods(&with_interfaces(&[(0, 0, "interface"), (1, 1, "efa-only")])), "394");
    let none = with_interfaces(&[(0, 0, "interface")]);
    assert_eq!(resource(&catalogue.get(&none, "p5.48xlarge"), "vpc.amazonaws.com/efa"), "0");
    let five_cards =
        [(0, 0, "interface"), (0, 1, "efa-only"), (1, 0, "efa-only"), (2, 0, "efa-only"), (3, 0, "efa-only")];
    assert_eq!(available(&catalogue.list(&with_interfaces(&five_cards)), "m6idn.32xlarge"), [""; 0]);
    assert_ne!(available(&catalogue.list(&none), "m6idn.32xlarge"), [""; 0]);
}

// spec 05 #15, #16, #17, #18, #24
#[tokio::test(start_paused = true)]
async fn pods_and_reserved_memory_by_family() {
    let families = ["al2", "al2023", "custom", "bottlerocket", "windows2022"];
    let check = |settings: &AwsSettings, kubelet: Value, name: &str, expected: [(&str, &str); 5]| {
        let catalogue = TestCatalogue::with_settings(settings);
        for (family, (pods, memory)) in families.iter().zip(expected) {
            let instance_type = catalogue.get(&with_kubelet(family, kubelet.clone()), name);
            let found = (resource(&instance_type, "pods"), kube_reserved(&instance_type, "memory"));
            assert_eq!(found, (pods.to_owned(), memory.to_owned()), "{family} {kubelet}");
        }
    };
    let settings = AwsSettings::new("test");
    let linux = ("10", "640Mi");
    check(&settings, json!({ "maxPods": 10 }), "t3.large", [linux, linux, linux, ("10", "365Mi"), ("10", "365Mi")]);
    let one = AwsSettings { reserved_enis: 1, ..settings.clone() };
    let linux = ("24", "640Mi");
    check(&one, json!({}), "t3.large", [linux, linux, linux, ("24", "519Mi"), ("110", "1465Mi")]);
    let many = AwsSettings { reserved_enis: 1_000_000, ..settings.clone() };
    let linux = ("0", "640Mi");
    check(&many, json!({}), "t3.large", [linux, linux, linux, ("0", "255Mi"), ("110", "1465Mi")]);
    let linux = ("8", "640Mi");
    check(
        &settings,
        json!({ "maxPods": 20, "podsPerCore": 4 }),
        "t3.large",
        [linux, linux, linux, ("20", "475Mi"), ("8", "343Mi")],
    );
    let linux = ("35", "640Mi");
    check(
        &settings,
        json!({ "podsPerCore": 0 }),
        "t3.large",
        [linux, linux, linux, ("35", "640Mi"), ("110", "1465Mi")],
    );
    let no_overhead = AwsSettings { vm_memory_overhead_percent: 0.0, ..settings };
    let catalogue = TestCatalogue::with_settings(&no_overhead);
    for (kubelet, total) in [(json!({}), 993), (json!({ "maxPods": 110 }), 1_565)] {
        let instance_type = catalogue.get(&with_kubelet("bottlerocket", kubelet), "m5.xlarge");
        let lost = instance_type.capacity.get("memory").unwrap() - instance_type.allocatable().get("memory").unwrap();
        assert_eq!(lost.to_string(), format!("{total}Mi"));
    }
}

// spec 05 #19, #20, #21, #22, #23
#[tokio::test(start_paused = true)]
async fn overhead_of_kubelet_settings() {
    let catalogue = TestCatalogue::shipped();
    let overhead = |family: &str, kubelet: Value| catalogue.get(&with_kubelet(family, kubelet), "m5.xlarge").overhead;
    let defaults = overhead("al2023", json!({}));
    let reserved = [("cpu", "80m"), ("memory", "893Mi"), ("ephemeral-storage", "1Gi")];
    assert_eq!(defaults.kube_reserved, reserved.try_into().unwrap());
    assert!(defaults.system_reserved.is_empty());
    let cpu = overhead("al2023", json!({ "kubeReserved": { "cpu": "2" }, "systemReserved": { "pid": "100" } }));
    let reserved = [("cpu", "2"), ("memory", "893Mi"), ("ephemeral-storage", "1Gi")];
    assert_eq!(cpu.kube_reserved, reserved.try_into().unwrap());
    assert_eq!(cpu.system_reserved, [("pid", "100")].try_into().unwrap());
    let memory =
        |family: &str, kubelet: Value| overhead(family, kubelet).eviction_threshold.get("memory").unwrap().to_string();
    assert_eq!(memory("al2023", json!({ "evictionHard": { "memory.available": "500Mi" } })), "500Mi");
    assert_eq!(memory("al2023", json!({ "evictionHard": { "memory.available": "100%" } })), "0");
    assert_eq!(memory("al2023", json!({ "evictionHard": { "memory.available": "10%" } })), "1551872Ki");
    assert_eq!(memory("al2023", json!({ "evictionSoft": { "memory.available": "50Gi" } })), "100Mi");
    let both = json!({ "evictionHard": { "memory.available": "1Gi" }, "evictionSoft": { "memory.available": "10Gi" } });
    assert_eq!(memory("bottlerocket", both), "1Gi");
    let nodefs =
        overhead("al2023", json!({ "evictionHard": { "nodefs.available": "20%", "imagefs.available": "50%" } }));
    assert_eq!(nodefs.eviction_threshold.get("ephemeral-storage").unwrap().to_string(), "4Gi");
}

// spec 05 #25, #27, #28
#[tokio::test(start_paused = true)]
async fn ephemeral_storage_of_devices() {
    let catalogue = TestCatalogue::shipped();
    let volume = |name: &str, size: &str| json!({ "deviceName": name, "ebs": { "volumeSize": size } });
    let snapshot = |name: &str| json!({ "deviceName": name, "ebs": { "snapshotID": "snap-1" } });
    let mut root = volume("/dev/xvdb", "40G");
    root["rootVolume"] = json!(true);
    let (small, large) = (volume("/dev/xvda", "20G"), volume("/dev/xvdb", "40G"));
    for (family, devices, expected) in [
        ("al2", json!([volume("/dev/xvda", "50G"), volume("/dev/xvdb", "20G")]), "50G"),
        ("custom", json!([small, large]), "40G"),
        ("custom", json!([small, root, volume("/dev/xvdc", "60G")]), "40G"),
        ("bottlerocket", json!([small, large]), "40G"),
        ("al2", json!([snapshot("/dev/xvda")]), "20Gi"),
        ("al2023", json!([snapshot("/dev/xvda")]), "20Gi"),
        ("bottlerocket", json!([snapshot("/dev/xvdb")]), "20Gi"),
        ("custom", json!([large, snapshot("/dev/xvda")]), "20Gi"),
        ("custom", json!([]), "20Gi"),
        ("windows2019", json!([]), "50Gi"),
        ("al2023", json!([{ "deviceName": "/dev/xvda" }]), "20Gi"),
    ] {
        let mut class = with_family(family);
        class.spec.as_mut().unwrap().block_device_mappings = serde_json::from_value(devices.clone()).unwrap();
        let instance_type = catalogue.get(&class, "m5.large");
        assert_eq!(resource(&instance_type, "ephemeral-storage"), expected, "{family} {devices}");
    }
    let raid0 = class(json!({ "instanceStorePolicy": "RAID0" }));
    assert_eq!(resource(&catalogue.get(&raid0, "m6idn.32xlarge"), "ephemeral-storage"), "7600G");
    assert_eq!(resource(&catalogue.get(&raid0, "m5.large"), "ephemeral-storage"), "20Gi");
    let invalid = class(json!({ "blockDeviceMappings": [volume("/dev/xvda", "Ti")] }));
    let error = catalogue.catalogue.list(&invalid).unwrap_err().to_string();
    assert!(error.starts_with("spec.blockDeviceMappings[0].ebs.volumeSize: invalid quantity \"Ti\""), "{error}");
}

// spec 05 #32: nodes report at least this much
#[tokio::test(start_paused = true)]
async fn estimates_do_not_exceed_what_nodes_report() {
    let catalogue = TestCatalogue::shipped();
    for (name, memory, cpu) in [
        ("t4g.small", "1408312Ki", "1930m"),
        ("t4g.medium", "3377496Ki", "1930m"),
        ("t4g.xlarge", "15136012Ki", "3920m"),
        ("m5.large", "7220184Ki", "1930m"),
    ] {
        let allocatable = catalogue.get(&class(json!({})), name).allocatable();
        assert!(allocatable.get("memory").unwrap() <= memory.parse().unwrap(), "{name}");
        assert!(allocatable.get("cpu").unwrap() <= cpu.parse().unwrap(), "{name}");
    }
}

// spec 05 #36, #37
#[tokio::test(start_paused = true)]
async fn a_list_changes_only_with_its_inputs() {
    let catalogue = TestCatalogue::shipped();
    let base = class(json!({}));
    let first = catalogue.list(&base);
    let shipped = data::catalogue();
    catalogue.catalogue.set_catalogue(shipped.instance_types.clone(), shipped.offerings.clone());
    assert!(catalogue.list(&base).is_same(&first), "an equal catalogue changes nothing");
    advance(Duration::from_mins(6)).await;
    assert!(catalogue.list(&base).is_same(&first), "an expired list that is built again is the same");
    for spec in [
        json!({ "kubelet": { "maxPods": 12 } }),
        json!({ "kubelet": { "maxPods": 21 } }),
        json!({ "kubelet": { "kubeReserved": { "cpu": "1" } } }),
        json!({ "kubelet": { "systemReserved": { "cpu": "1" } } }),
        json!({ "kubelet": { "evictionHard": { "memory.available": "1Gi" } } }),
        json!({ "amiSelectorTerms": [{ "alias": "bottlerocket@latest" }] }),
        json!({ "instanceStorePolicy": "RAID0" }),
        json!({ "blockDeviceMappings": [{ "deviceName": "/dev/xvda", "ebs": { "volumeSize": "21Gi" } }] }),
    ] {
        let other = class(spec.clone());
        let list = catalogue.list(&other);
        assert!(!list.is_same(&first), "{spec}");
        assert!(catalogue.list(&other).is_same(&list), "{spec}");
        assert!(catalogue.list(&base).is_same(&first), "{spec}");
    }
    let price = || ("m5.large".to_owned(), kerf_engine::Price::from_nanos(1));
    catalogue.pricing.merge_on_demand([price()]);
    let priced = catalogue.list(&base);
    assert!(!priced.is_same(&first), "new prices are visible at once");
    catalogue.pricing.merge_on_demand([price()]);
    assert!(catalogue.list(&base).is_same(&priced), "an update with the same prices changes nothing");
    catalogue.pricing.merge_spot([]);
    let unpriced = catalogue.list(&base);
    assert!(
        !unpriced.is_same(&priced),
        "from the first update of spot prices on, a pool without an entry has no price"
    );
    let spot = ("m5.large".to_owned(), "us-west-2a".to_owned(), kerf_engine::Price::from_nanos(1));
    catalogue.pricing.merge_spot([spot]);
    assert!(!catalogue.list(&base).is_same(&unpriced));
    catalogue.set_types(vec![TestCatalogue::info("m5.large")]);
    assert_eq!(catalogue.list(&base).len(), 1);
}

// spec 05 #50: types of two classes share what is equal
#[tokio::test(start_paused = true)]
async fn classes_share_equal_parts() {
    let catalogue = TestCatalogue::shipped();
    let a = catalogue.get(&class(json!({})), "m5.large");
    let b = catalogue.get(&class(json!({ "kubelet": { "kubeReserved": { "cpu": "1" } } })), "m5.large");
    assert!(Arc::ptr_eq(&a.requirements, &b.requirements));
    assert!(Arc::ptr_eq(&a.offerings, &b.offerings));
    assert_ne!(a.overhead, b.overhead);
    let c = catalogue.get(&with_family("windows2022"), "m5.large");
    assert!(!Arc::ptr_eq(&a.requirements, &c.requirements));
}

// spec 05 #38, #39, §4.2
#[tokio::test(start_paused = true)]
async fn failures_name_what_is_missing() {
    let catalogue = TestCatalogue::empty(&AwsSettings::new("test"));
    let class = class(json!({}));
    let error = |class: &EC2NodeClass| catalogue.catalogue.list(class).unwrap_err().to_string();
    assert_eq!(error(&class), "no instance types found");
    catalogue.catalogue.set_catalogue(vec![TestCatalogue::info("m5.large")], Vec::new());
    assert_eq!(error(&class), "no instance types offerings found");
    catalogue.set_types(vec![TestCatalogue::info("m5.large")]);
    let mut no_subnets = class.clone();
    no_subnets.status = None;
    assert_eq!(error(&no_subnets), "no subnets found");
    assert!(error(&with_kubelet("al2023", json!({ "clusterDNS": "a" }))).contains("parsing spec.kubelet"));
    assert!(catalogue.catalogue.list(&with_kubelet("al2023", json!({ "clusterDNS": ["a"] }))).is_ok());
    let unknown = catalogue.catalogue.get(&class, "m6.large").unwrap_err().to_string();
    assert_eq!(unknown, "instance type m6.large not found in cache");
}

// spec 05 #45, #46, #47, #51, #52, #53
#[tokio::test(start_paused = true)]
async fn marks_change_states_and_no_types() {
    let catalogue = TestCatalogue::shipped();
    let classes = [class(json!({})), with_family("bottlerocket")];
    let lists = || classes.each_ref().map(|class| catalogue.list(class));
    let before = lists();
    assert_eq!(available(&before[0], "m5.large").len(), 6);
    let pool = |name: &str, zone: &str| InstancePool {
        instance_type: name.into(),
        zone: zone.into(),
        capacity_type: "spot".into(),
        scope: PoolScope::Unscoped,
    };
    catalogue.unavailable.mark_pool(pool("m5.large", "us-west-2a"));
    for (list, before) in lists().iter().zip(&before) {
        assert_eq!(available(list, "m5.large").len(), 5);
        assert_eq!(available(list, "m5.xlarge").len(), 6);
        assert!(std::ptr::eq(list.types(), before.types()), "no type is copied");
    }
    catalogue.unavailable.mark_capacity_type("spot");
    assert_eq!(available(&lists()[0], "m5.large").len(), 3);
    catalogue.unavailable.mark_subnet("subnet-b");
    assert_eq!(available(&lists()[0], "m5.large"), ["us-west-2a on-demand", "us-west-2c on-demand"]);
    catalogue.unavailable.mark_capacity_type("on-demand");
    assert_eq!(available(&lists()[0], "m5.large"), [""; 0]);
    assert_eq!(lists()[0].len(), 1_386, "types without an available offering stay");
    advance(Duration::from_mins(3) + Duration::from_secs(10)).await;
    assert!(lists()[0].is_same(&before[0]));
}

// spec 05 #54, #56, #57, #60
#[tokio::test(start_paused = true)]
async fn types_that_do_not_suit_the_class_have_no_available_offering() {
    let catalogue = TestCatalogue::shipped();
    let is_available = |class: &EC2NodeClass, name: &str| !available(&catalogue.list(class), name).is_empty();
    assert!(!is_available(&with_family("al2023"), "a1.medium"));
    assert!(is_available(&with_family("bottlerocket"), "a1.medium"));
    let tracking = class(json!({ "connectionTracking": { "udpTimeout": 30 } }));
    assert!(!is_available(&tracking, "t2.micro") && is_available(&tracking, "t3.micro"));
    let nested = |value: &str| class(json!({ "cpuOptions": { "nestedVirtualization": value } }));
    assert!(!is_available(&nested("enabled"), "m5.large") && is_available(&nested("disabled"), "m5.large"));
    assert!(is_available(&nested("enabled"), "c7i-flex.2xlarge"));
    let names = ["c7i-flex.2xlarge", "m5.large", "x9.large"];
    assert_eq!(catalogue.catalogue.compatible_types(&nested("enabled"), names).unwrap(), ["c7i-flex.2xlarge"]);
    let price = kerf_engine::Price::from_nanos(1);
    catalogue.pricing.merge_spot([("m5.large".to_owned(), "us-west-2a".to_owned(), price)]);
    let other = class(json!({ "kubelet": { "maxPods": 5 } }));
    let expected = ["us-west-2a on-demand", "us-west-2a spot", "us-west-2b on-demand", "us-west-2c on-demand"];
    assert_eq!(available(&catalogue.list(&other), "m5.large"), expected);
}

// spec 10 #112
#[tokio::test(start_paused = true)]
async fn spec_10_112_types_without_enclaves_are_not_available_for_a_class_that_enables_them() {
    let catalogue = TestCatalogue::shipped();
    let class = |enabled: Value| class(json!({ "enclaveOptions": enabled }));
    let is_available = |class: &EC2NodeClass, name: &str| !available(&catalogue.list(class), name).is_empty();
    let enabled = class(json!({ "enabled": true }));
    assert!(is_available(&enabled, "m5.xlarge") && !is_available(&enabled, "t3.micro"));
    for class in [class(json!({ "enabled": false })), class(json!(null))] {
        assert!(is_available(&class, "m5.xlarge") && is_available(&class, "t3.micro"));
    }
    assert_eq!(catalogue.catalogue.compatible_types(&enabled, ["m5.xlarge", "t3.micro"]).unwrap(), ["m5.xlarge"]);
}

fn with_expressions() -> TestCatalogue {
    TestCatalogue::with_settings(&AwsSettings { node_class_cel: true, ..AwsSettings::new("test") })
}

// spec 05 #40, #41
#[tokio::test(start_paused = true)]
async fn expressions_are_evaluated_for_each_type() {
    let catalogue = with_expressions();
    let kubelet = json!({ "maxPods": "min(110, vcpus * 8)", "kubeReserved": { "memory": "max_pods * 11" } });
    let class = with_kubelet("al2023", kubelet);
    for (name, pods, memory) in
        [("m5.large", "16", "176Mi"), ("m5.xlarge", "32", "352Mi"), ("m5.24xlarge", "110", "1216Mi")]
    {
        let found = catalogue.get(&class, name);
        assert_eq!(found.capacity.get("pods").unwrap().to_string(), pods, "{name}");
        assert_eq!(found.overhead.kube_reserved.get("memory").unwrap().to_string(), memory, "{name}");
        // User data gets the same values.
        let kubelet = catalogue.catalogue.kubelet(&class, name).unwrap();
        assert_eq!(kubelet.max_pods.unwrap().to_string(), pods, "{name}");
        assert_eq!(json!(kubelet.settings().kube_reserved), json!({ "memory": memory }), "{name}");
    }
    let reserved = json!({ "cpu": "vcpus * 30", "memory": "memory_mib / 100", "ephemeral-storage": "3Gi" });
    let class = with_kubelet("al2023", json!({ "kubeReserved": reserved }));
    let found = catalogue.get(&class, "m5.large").overhead.kube_reserved;
    let expected = [("cpu", "60m"), ("memory", "96Mi"), ("ephemeral-storage", "3Gi")];
    assert_eq!(found, expected.try_into().unwrap());
}

// spec 05 #43
#[tokio::test(start_paused = true)]
async fn an_unusable_number_of_pods_fails_the_list() {
    let catalogue = with_expressions();
    for expression in ["0 - 1", "2147483648", "1 / (vcpus - vcpus)"] {
        let class = with_kubelet("al2023", json!({ "maxPods": expression }));
        for _ in 0..2 {
            let error = catalogue.catalogue.list(&class).unwrap_err().to_string();
            assert!(error.starts_with("resolving maxPods, "), "{error}");
        }
    }
}

// spec 05 #133
#[tokio::test(start_paused = true)]
async fn spec_05_133_a_number_beyond_all_integers_is_dropped_or_fails_the_list() {
    let catalogue = with_expressions();
    let huge = "double(vcpus) + 1.0e300";
    let reserved = json!({ "kubeReserved": { "memory": huge, "cpu": "vcpus * 30", "ephemeral-storage": "3Gi" } });
    let found = catalogue.get(&with_kubelet("al2023", reserved), "m5.large").overhead.kube_reserved;
    assert_eq!(found.get("cpu").unwrap().to_string(), "60m");
    let own =
        catalogue.catalogue.kubelet(&with_kubelet("al2023", json!({ "kubeReserved": { "memory": huge } })), "m5.large");
    assert_eq!(json!(own.unwrap().settings().kube_reserved), json!({}));
    let error = catalogue.catalogue.list(&with_kubelet("al2023", json!({ "maxPods": huge }))).unwrap_err().to_string();
    assert!(error.starts_with("resolving maxPods, "), "{error}");
}

// spec 05 §4.10: the default count is that of the family, with the limit of podsPerCore
#[tokio::test(start_paused = true)]
async fn the_default_number_of_pods_is_that_of_the_family() {
    let catalogue = with_expressions();
    let pods = |alias: &str, kubelet: Value| {
        let found = catalogue.get(&with_kubelet(alias, kubelet), "m5.large");
        found.capacity.get("pods").unwrap().value()
    };
    assert_eq!(pods("al2023", json!({ "maxPods": "max_pods + 1" })), 30);
    assert_eq!(pods("windows2022", json!({ "maxPods": "max_pods + 1" })), 111);
    assert_eq!(pods("al2023", json!({ "maxPods": "max_pods - 1", "podsPerCore": 4 })), 7);
    assert_eq!(pods("al2023", json!({ "maxPods": "max_pods + 5", "podsPerCore": 4 })), 8);
}
