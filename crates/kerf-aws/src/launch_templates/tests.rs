//! Content, names and life cycle of launch templates (spec 05 §13).

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use kerf_api::ec2nodeclass::EC2NodeClassSpec;
use kerf_api::taints::{Taint, TaintEffect};
use kerf_runtime::Clock;
use serde_json::{Value, json};
use tokio::time::advance;

use super::*;
use crate::instance_types::kubelet::{KubeletSettings, ResolvedKubelet};
use crate::ports::ec2::{LaunchTemplateData, TemplateNetworkInterface};
use crate::ports::{AwsError, Tags};
use crate::settings::ClusterFacts;
use crate::user_data::{node_labels, node_taints};

mod fake_ec2;

use fake_ec2::FakeEc2;

fn tags(class: &str) -> Tags {
    [
        ("eks:eks-cluster-name", "test-cluster"),
        ("karpenter.k8s.aws/ec2nodeclass", class),
        ("karpenter.sh/nodepool", "default"),
        ("kubernetes.io/cluster/test-cluster", "owned"),
        ("team", "a"),
    ]
    .into_iter()
    .map(|(key, value)| (key.to_owned(), value.to_owned()))
    .collect()
}

/// The objects that an input borrows from.
struct TemplateFixture {
    class: EC2NodeClassSpec,
    kubelet: ResolvedKubelet,
    cluster: ClusterFacts,
}

impl TemplateFixture {
    /// Creates a fixture for an AL2023 class. `spec` is merged over its defaults.
    fn new(spec: Value) -> Self {
        let mut full = json!({
            "amiSelectorTerms": [{ "alias": "al2023@latest" }],
            "subnetSelectorTerms": [],
            "securityGroupSelectorTerms": [],
            "metadataOptions": {
                "httpEndpoint": "enabled",
                "httpProtocolIPv6": "disabled",
                "httpPutResponseHopLimit": 1,
                "httpTokens": "required",
            },
        });
        for (key, value) in spec.as_object().unwrap() {
            full[key] = value.clone();
        }
        let class: EC2NodeClassSpec = serde_json::from_value(full).unwrap();
        let settings = KubeletSettings::parse(class.kubelet.as_ref()).unwrap();
        let cluster = ClusterFacts {
            region: "us-west-2".into(),
            endpoint: "https://test-cluster".into(),
            ca_bundle: Some("Y2EtYnVuZGxlCg==".into()),
            dns_address: "10.100.0.10".parse().ok(),
            kubernetes_version: "1.34".into(),
            service_cidr: Some("10.100.0.0/16".into()),
        };
        Self { class, kubelet: settings.without_expressions(), cluster }
    }

    fn input(&self) -> LaunchTemplateInput<'_> {
        let family = crate::instance_types::ami_family::AmiFamilyRules::of(&self.class.effective_ami_family());
        let claim_labels = BTreeMap::from([("karpenter.sh/nodepool".to_owned(), "default".to_owned())]);
        LaunchTemplateInput {
            class_name: "default",
            class: &self.class,
            amis: &[],
            kubelet: &self.kubelet,
            cluster_name: "test-cluster",
            cluster: &self.cluster,
            instance_profile: "profile-1",
            security_group_ids: vec!["sg-1".into(), "sg-2".into()],
            tags: tags("default"),
            image_id: "ami-1",
            max_pods: 29,
            efa_count: 0,
            capacity_type: "spot",
            reservation: None,
            uses_reservations: true,
            tenancy: "default",
            placement_group_id: None,
            partition: None,
            needs_enclave: false,
            labels: node_labels(&claim_labels, "spot", family),
            taints: node_taints(&[], &[]),
        }
    }

    fn content(&self) -> LaunchTemplateData {
        self.input().content().unwrap()
    }

    fn interfaces(&self) -> Vec<TemplateNetworkInterface> {
        self.content().network_interfaces
    }
}

// spec 05 §13.4; Karpenter 1.14.1 creates the same template for these inputs.
// spec 05 #89: 200G are 187 GiB
#[test]
fn content_of_a_template() {
    let fixture = TemplateFixture::new(json!({
        "blockDeviceMappings": [{ "deviceName": "/dev/xvda", "ebs": {
            "volumeSize": "200G", "iops": 0, "throughput": 300, "volumeType": "gp3",
            "encrypted": true, "deleteOnTermination": true,
        } }],
        "ipPrefixCount": 0,
        "associatePublicIPAddress": false,
        "connectionTracking": { "udpTimeout": 30 },
        "tags": { "team": "a" },
    }));
    let mut content = fixture.content();
    let user_data = String::from_utf8(STANDARD.decode(&content.user_data).unwrap()).unwrap();
    assert!(user_data.contains("maxPods: 29\n"), "{user_data}");
    content.user_data = "…".into();
    insta::assert_debug_snapshot!(content);
}

#[test]
fn default_block_devices_of_a_family() {
    let devices = |spec: Value| -> Vec<(String, i32)> {
        let fixture = TemplateFixture::new(spec);
        let devices = fixture.content().block_devices.into_iter();
        devices.map(|device| (device.device_name.unwrap(), device.volume_size_gib.unwrap())).collect()
    };
    assert_eq!(devices(json!({})), [("/dev/xvda".to_owned(), 20)]);
    assert_eq!(devices(json!({ "amiFamily": "Custom" })), []);
    let own =
        |size: &str| json!({ "blockDeviceMappings": [{ "deviceName": "/dev/a", "ebs": { "volumeSize": size } }] });
    for (size, gib) in [("4G", 4), ("2G", 2), ("20Gi", 20), ("1T", 932)] {
        assert_eq!(devices(own(size)), [("/dev/a".to_owned(), gib)], "{size}");
    }
    let error = TemplateFixture::new(own("Ti")).input().content().unwrap_err().to_string();
    assert!(error.starts_with("spec.blockDeviceMappings[0].ebs.volumeSize: invalid quantity \"Ti\""), "{error}");
    let no_ebs = TemplateFixture::new(json!({ "blockDeviceMappings": [{ "deviceName": "/dev/a" }] }));
    assert_eq!(no_ebs.content().block_devices[0].volume_size_gib, None);
}

// spec 05 #93, §13.4, §22 (10)
#[test]
fn metadata_options() {
    let mut fixture = TemplateFixture::new(json!({}));
    fixture.cluster.region = "us-iso-east-1".into();
    assert_eq!(fixture.content().metadata_options.http_protocol_ipv6, None);
    let missing = TemplateFixture::new(json!({ "metadataOptions": null })).content().metadata_options;
    assert_eq!((missing.http_endpoint.as_deref(), missing.http_put_response_hop_limit), (Some("disabled"), Some(2)));
    assert_eq!(missing.http_protocol_ipv6.as_deref(), Some("disabled"));
}

// spec 05 #90, #91, #92
#[test]
fn network_interfaces() {
    let mut ipv6 = TemplateFixture::new(json!({ "ipPrefixCount": 3 }));
    ipv6.cluster.dns_address = "fd00::a".parse().ok();
    let interfaces = ipv6.interfaces();
    assert_eq!(interfaces.len(), 1);
    assert_eq!((interfaces[0].primary_ipv6, interfaces[0].ipv6_address_count), (Some(true), Some(1)));
    assert_eq!((interfaces[0].ipv4_prefix_count, interfaces[0].ipv6_prefix_count), (None, Some(3)));

    let listed = TemplateFixture::new(json!({
        "ipPrefixCount": 3,
        "associatePublicIPAddress": true,
        "connectionTracking": { "udpTimeout": 30 },
        "networkInterfaces": [
            { "networkCardIndex": 0, "deviceIndex": 0, "interfaceType": "interface" },
            { "networkCardIndex": 1, "deviceIndex": 1, "interfaceType": "efa-only" },
        ],
    }));
    let mut input = listed.input();
    input.efa_count = 4;
    let interfaces = input.content().unwrap().network_interfaces;
    assert_eq!(interfaces.len(), 2, "requested EFA interfaces do not change a list");
    assert_eq!((interfaces[0].associate_public_ip, interfaces[0].udp_timeout), (Some(true), Some(30)));
    let efa_only = TemplateNetworkInterface {
        network_card_index: Some(1),
        device_index: 1,
        interface_type: Some("efa-only".into()),
        security_group_ids: vec!["sg-1".into(), "sg-2".into()],
        ..TemplateNetworkInterface::default()
    };
    assert_eq!(interfaces[1], efa_only);

    let fixture = TemplateFixture::new(json!({}));
    let interfaces = LaunchTemplateInput { efa_count: 32, ..fixture.input() }.content().unwrap().network_interfaces;
    assert_eq!(interfaces.len(), 32);
    assert!(interfaces.iter().all(|interface| interface.interface_type.as_deref() == Some("efa")));
    let positions: Vec<_> =
        interfaces.iter().map(|interface| (interface.network_card_index.unwrap(), interface.device_index)).collect();
    assert_eq!(positions[..3], [(0, 0), (1, 1), (2, 1)]);
}

// spec 05 #95, §13.4
#[test]
fn reservations_of_a_template() {
    let fixture = TemplateFixture::new(json!({}));
    let check = |uses_reservations: bool, reservation: Option<TemplateReservation>| {
        let content = LaunchTemplateInput { reservation, uses_reservations, ..fixture.input() }.content().unwrap();
        let reservation = content.capacity_reservation;
        (reservation.map(|spec| (spec.preference, spec.reservation_id.unwrap_or_default())), content.market_type)
    };
    let reservation = |is_capacity_block: bool, is_interruptible: bool| {
        Some(TemplateReservation { id: "cr-1".into(), is_capacity_block, is_interruptible })
    };
    let only = Some(("capacity-reservations-only".to_owned(), "cr-1".to_owned()));
    assert_eq!(check(false, None), (None, None));
    assert_eq!(check(true, None), (Some(("none".to_owned(), String::new())), None));
    assert_eq!(check(true, reservation(false, false)), (only.clone(), None));
    assert_eq!(check(true, reservation(true, false)), (only.clone(), Some("capacity-block".into())));
    let interruptible = Some("interruptible-capacity-reservation".into());
    assert_eq!(check(true, reservation(false, true)), (only, interruptible));
}

// spec 05 #85, #86
#[test]
fn the_name_depends_on_the_inputs_and_not_on_their_order() {
    let fixture = TemplateFixture::new(json!({}));
    let taint = |key: &str| Taint { key: key.into(), effect: TaintEffect::NoSchedule, ..Taint::default() };
    let base = LaunchTemplateInput { taints: vec![taint("a"), taint("b")], ..fixture.input() };
    let name = base.name();
    assert!(name.strip_prefix("karpenter.k8s.aws/").is_some_and(|hash| hash.parse::<u64>().is_ok()), "{name}");
    let reordered = LaunchTemplateInput {
        taints: vec![taint("b"), taint("a")],
        security_group_ids: vec!["sg-2".into(), "sg-1".into()],
        ..base.clone()
    };
    assert_eq!(reordered.name(), name);
    let kubelet = |value: &str| TemplateFixture::new(json!({ "kubelet": { "kubeReserved": { "cpu": value } } }));
    let fixtures = [kubelet("12"), kubelet("21"), TemplateFixture::new(json!({ "userData": "x" }))];
    let mut names: Vec<String> = fixtures.iter().map(|fixture| fixture.input().name()).collect();
    names.extend(
        [
            LaunchTemplateInput { max_pods: 30, ..base.clone() },
            LaunchTemplateInput { image_id: "ami-2", ..base.clone() },
            LaunchTemplateInput { efa_count: 1, ..base.clone() },
            LaunchTemplateInput { capacity_type: "on-demand", ..base.clone() },
            LaunchTemplateInput { needs_enclave: true, ..base.clone() },
            LaunchTemplateInput { tags: tags("b"), ..base.clone() },
            LaunchTemplateInput { security_group_ids: vec!["sg-1".into()], ..base.clone() },
            LaunchTemplateInput { instance_profile: "p", ..base.clone() },
            LaunchTemplateInput { class_name: "b", ..base.clone() },
            LaunchTemplateInput { tenancy: "dedicated", ..base.clone() },
            LaunchTemplateInput { partition: Some(1), ..base.clone() },
            base,
        ]
        .map(|input| input.name()),
    );
    let count = names.len();
    names.sort();
    names.dedup();
    assert_eq!(names.len(), count);
}

fn store(ec2: &Arc<FakeEc2>) -> LaunchTemplateStore {
    let clock = Clock::starting_at("2026-01-01T00:00:00Z".parse().unwrap());
    LaunchTemplateStore::new(Arc::clone(ec2) as _, "test-cluster", clock, 1)
}

// spec 05 §13.3
#[tokio::test(start_paused = true)]
async fn launches_at_the_same_time_create_a_template_once() {
    let ec2 = Arc::new(FakeEc2::default());
    let store = store(&ec2);
    let fixture = TemplateFixture::new(json!({}));
    let input = fixture.input();
    let names = futures::future::join_all((0..5).map(|_| store.ensure(&input))).await;
    let names: Vec<String> = names.into_iter().map(Result::unwrap).collect();
    assert!(names.iter().all(|name| *name == input.name()));
    assert_eq!(ec2.calls(), ["describe", "create"]);
    assert_eq!(ec2.names(), [input.name()]);
    store.forget([input.name().as_str()]);
    store.ensure(&input).await.unwrap();
    assert_eq!(ec2.calls(), ["describe", "create", "describe"], "a template that exists is used");
    assert!(ec2.lock().created.iter().all(|request| !request.client_token.is_empty()));
}

// spec 05 #126
#[tokio::test(start_paused = true)]
async fn a_template_is_deleted_after_its_last_use() {
    let ec2 = Arc::new(FakeEc2::default());
    let store = Arc::new(store(&ec2));
    let fixture = TemplateFixture::new(json!({}));
    let cleanup = tokio::spawn({
        let store = Arc::clone(&store);
        async move { store.run_cleanup().await }
    });
    for _ in 0..6 {
        store.ensure(&fixture.input()).await.unwrap();
        tokio::time::sleep(Duration::from_secs(50)).await;
    }
    assert_eq!(ec2.names().len(), 1, "a template in use stays");
    tokio::time::sleep(Duration::from_secs(70)).await;
    assert_eq!(ec2.names(), [""; 0], "two minutes after its last use");
    cleanup.abort();
    store.ensure(&fixture.input()).await.unwrap();
    assert_eq!(ec2.names().len(), 1, "a new use creates it again");
}

// spec 05 #125
#[tokio::test(start_paused = true)]
async fn a_template_that_cannot_be_deleted_is_left_to_the_next_leader() {
    let ec2 = Arc::new(FakeEc2::default());
    let fixture = TemplateFixture::new(json!({}));
    let first = store(&ec2);
    first.ensure(&fixture.input()).await.unwrap();
    ec2.fail_next("delete", AwsError::api("EC2", "DeleteLaunchTemplate", 403, "UnauthorizedOperation", "no"));
    advance(Duration::from_mins(2)).await;
    first.delete_unused().await;
    first.delete_unused().await;
    assert_eq!(ec2.calls(), ["describe", "create", "delete"], "it is not tried again");
    let second = store(&ec2);
    second.hydrate().await;
    second.delete_unused().await;
    assert_eq!(ec2.names().len(), 1, "a leftover may be in use for a minute");
    advance(Duration::from_mins(1)).await;
    second.delete_unused().await;
    assert_eq!(ec2.names(), [""; 0]);
}

// spec 12 #48
#[tokio::test(start_paused = true)]
async fn spec_12_48_templates_that_karpenter_made_are_deleted_after_their_time() {
    let ec2 = Arc::new(FakeEc2::default());
    let fixture = TemplateFixture::new(json!({}));
    let karpenter = store(&ec2);
    karpenter.ensure(&fixture.input()).await.unwrap();
    // A launch of ours uses another template.
    let kerf = store(&ec2);
    kerf.hydrate().await;
    let other = TemplateFixture::new(json!({ "detailedMonitoring": true }));
    let used = kerf.ensure(&other.input()).await.unwrap();
    for _ in 0..3 {
        advance(Duration::from_secs(50)).await;
        kerf.ensure(&other.input()).await.unwrap();
        kerf.delete_unused().await;
    }
    assert_eq!(ec2.names(), [used]);
}

#[tokio::test(start_paused = true)]
async fn errors_name_the_template() {
    let ec2 = Arc::new(FakeEc2::default());
    let store = store(&ec2);
    let fixture = TemplateFixture::new(json!({}));
    let error = AwsError::api("EC2", "DescribeLaunchTemplates", 503, "Unavailable", "later");
    ec2.fail_next("describe", error.clone());
    let name = fixture.input().name();
    let failed = store.ensure(&fixture.input()).await.unwrap_err();
    assert_eq!(failed.to_string(), format!("describing launch template {name}"));
    ec2.fail_next("create", error);
    let failed = store.ensure(&fixture.input()).await.unwrap_err();
    assert_eq!(failed.to_string(), format!("creating launch template {name}"));
    store.ensure(&fixture.input()).await.unwrap();
    // spec 05 #99
    let mut unready = TemplateFixture::new(json!({}));
    unready.cluster.service_cidr = None;
    let failed = store.ensure(&unready.input()).await.unwrap_err();
    assert!(failed.to_string().starts_with("resolving cluster CIDR"), "{failed}");
    assert_eq!(ec2.names().len(), 1, "no template is created");
}

// spec 05 §13.3: delete_all
#[tokio::test(start_paused = true)]
async fn the_templates_of_a_class_are_deleted_by_tag() {
    let ec2 = Arc::new(FakeEc2::default());
    let store = store(&ec2);
    let fixture = TemplateFixture::new(json!({}));
    store.ensure(&fixture.input()).await.unwrap();
    store.ensure(&LaunchTemplateInput { max_pods: 3, ..fixture.input() }).await.unwrap();
    let other = LaunchTemplateInput { class_name: "other", tags: tags("other"), ..fixture.input() };
    let other = store.ensure(&other).await.unwrap();
    ec2.fail_next("delete", AwsError::api("EC2", "DeleteLaunchTemplate", 503, "Unavailable", "later"));
    assert_eq!(store.delete_all("default").await.unwrap_err().len(), 1);
    assert_eq!(ec2.names().len(), 2);
    store.delete_all("default").await.unwrap();
    assert_eq!(ec2.names(), [other]);
}

// spec 05 #103
#[tokio::test(start_paused = true)]
async fn the_size_of_user_data_is_published_until_the_class_is_deleted() {
    let ec2 = Arc::new(FakeEc2::default());
    let registry = kerf_operator::Registry::default();
    let store = store(&ec2).with_metrics(&registry);
    let fixture = TemplateFixture::new(json!({}));
    store.ensure(&fixture.input()).await.unwrap();
    let bytes = STANDARD.decode(fixture.content().user_data).unwrap().len();
    let text = || registry.text("2026-01-01T00:00:00Z".parse().unwrap());
    let series = format!("karpenter_ec2nodeclasses_userdata_bytes{{nodeclass=\"default\"}} {bytes}\n");
    assert!(text().contains(&series), "{}", text());
    store.delete_all("default").await.unwrap();
    assert!(!text().contains("userdata_bytes{"));
}
