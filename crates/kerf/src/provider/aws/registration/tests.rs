//! Nodes that instances register by their user data.

#![allow(clippy::unwrap_used, reason = "a test may fail by panicking")]

use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use kerf_aws::memory::MemoryAws;
use kerf_aws::ports::ec2::{
    CreateFleet, CreateLaunchTemplate, FleetConfig, FleetOverride, FleetTarget, LaunchTemplateData,
    TemplateBlockDevice, TemplateNetworkInterface,
};
use kerf_aws::ports::{Ec2 as _, Tags};
use kerf_runtime::Clock;
use kerf_sandbox::{CloudChanges, SimulatedCloud};
use serde_json::json;

use super::super::sandbox_account::{AccountOptions, memory_aws};
use super::super::simulated_ec2::SimulatedEc2;
use super::*;

const ENDPOINT: &str = "https://127.0.0.1:6443";

fn account() -> MemoryAws {
    let options = AccountOptions {
        cluster_name: "demo",
        kubernetes_version: "1.36",
        endpoint: Some(ENDPOINT.to_owned()),
        is_instant: true,
        seed: 1,
    };
    memory_aws(Clock::starting_at("2026-01-01T00:00:00Z".parse().unwrap()), &options)
}

/// Returns the user data of a `NodeConfig` for the cluster `demo`, with changes of `spec`.
fn user_data(change: impl FnOnce(&mut Value)) -> String {
    let mut spec = json!({
        "cluster": {"name": "demo", "apiServerEndpoint": ENDPOINT, "cidr": "10.100.0.0/16"},
        "kubelet": {
            "config": {
                "maxPods": 29,
                "registerWithTaints": [{"key": "karpenter.sh/unregistered", "effect": "NoExecute"}],
            },
            "flags": ["--node-labels=\"karpenter.sh/nodepool=default,team=a\""],
        },
    });
    change(&mut spec);
    let document = json!({"apiVersion": "node.eks.aws/v1alpha1", "kind": "NodeConfig", "spec": spec});
    let text = format!(
        "MIME-Version: 1.0\nContent-Type: multipart/mixed; boundary=\"//\"\n\n--//\nContent-Type: application/node.eks.aws\n\n{document}\n--//--\n"
    );
    STANDARD.encode(text)
}

/// Launches an instance and returns it.
async fn launch(aws: &MemoryAws, instance_type: &str, user_data: String) -> LaunchedInstance {
    let (image, subnet) = aws.change_account(|account| {
        let image = account.images.values().find(|image| image.name.contains("al2023-x86_64-standard")).unwrap();
        let subnet = account.subnets.values().find(|subnet| subnet.zone == "us-west-2b").unwrap();
        (image.id.clone(), subnet.id.clone())
    });
    let data = LaunchTemplateData {
        image_id: image,
        user_data,
        block_devices: vec![TemplateBlockDevice {
            device_name: Some("/dev/xvda".to_owned()),
            volume_size_gib: Some(40),
            ..TemplateBlockDevice::default()
        }],
        network_interfaces: vec![TemplateNetworkInterface {
            security_group_ids: vec!["sg-00000000000000002".to_owned()],
            ..TemplateNetworkInterface::default()
        }],
        ..LaunchTemplateData::default()
    };
    let name = format!("template-{}", aws.instances().len());
    let template = CreateLaunchTemplate { name: name.clone(), data, tags: Tags::new(), client_token: String::new() };
    aws.create_launch_template(template).await.unwrap();
    let fleet = CreateFleet {
        target_capacity: 1,
        target: FleetTarget::OnDemand { allocation_strategy: "lowest-price".to_owned() },
        configs: vec![FleetConfig {
            template_name: name,
            overrides: vec![FleetOverride {
                instance_type: instance_type.to_owned(),
                subnet_id: subnet,
                ..FleetOverride::default()
            }],
        }],
        tags: Vec::new(),
        context: None,
        client_token: String::new(),
        is_dry_run: false,
    };
    let answer = aws.create_fleet(fleet).await.unwrap();
    let id = &answer.instances[0].ids[0];
    aws.instances().into_iter().find(|launched| launched.instance.id == *id).unwrap()
}

/// Registers the node of an AL2023 instance with this user data.
async fn register(instance_type: &str, user_data: String) -> Result<NodeRegistration, JoinProblem> {
    register_image("amazon-eks-node-al2023-x86_64-standard-1.36-v20251120", instance_type, user_data).await
}

async fn register_image(
    image_name: &str,
    instance_type: &str,
    user_data: String,
) -> Result<NodeRegistration, JoinProblem> {
    let aws = account();
    let launched = launch(&aws, instance_type, user_data).await;
    let (cluster, info) = aws.change_account(|account| {
        (account.clusters["demo"].clone(), account.instance_type(instance_type).unwrap().clone())
    });
    let place = InstancePlace {
        region: "us-west-2",
        cluster_name: "demo",
        cluster: &cluster,
        instance_type: &info,
        image_name,
        role: None,
        is_role_mapped: true,
    };
    node_registration(&launched, place)
}

fn texts(resources: &BTreeMap<String, ApiQuantity>) -> Vec<String> {
    resources.iter().map(|(name, quantity)| format!("{name}={}", quantity.0)).collect()
}

#[tokio::test(start_paused = true)]
async fn a_node_registers_as_its_user_data_and_its_place_say() {
    let node = register("m5.large", user_data(|_| {})).await.unwrap();
    assert!(node.name.starts_with("ip-") && node.name.ends_with(".us-west-2.compute.internal"), "{}", node.name);
    let labels: Vec<String> = node
        .labels
        .iter()
        .filter(|(key, _)| !key.contains("beta"))
        .map(|(key, value)| format!("{key}={}", if *value == node.name { "name" } else { value }))
        .collect();
    assert_eq!(
        labels,
        [
            "karpenter.sh/nodepool=default",
            "kubernetes.io/arch=amd64",
            "kubernetes.io/hostname=name",
            "kubernetes.io/os=linux",
            "node.kubernetes.io/instance-type=m5.large",
            "team=a",
            "topology.k8s.aws/zone-id=usw2-az2",
            "topology.kubernetes.io/region=us-west-2",
            "topology.kubernetes.io/zone=us-west-2b",
        ]
    );
    assert_eq!(node.taints.len(), 1);
    assert_eq!(
        (node.taints[0].key.as_str(), node.taints[0].effect.as_str()),
        ("karpenter.sh/unregistered", "NoExecute")
    );
    assert_eq!(
        texts(&node.capacity),
        ["cpu=2", "ephemeral-storage=40Gi", "hugepages-1Gi=0", "hugepages-2Mi=0", "memory=7969177Ki", "pods=29"]
    );
    // nodeadm reserves 70m, 255Mi + 29 * 11Mi and 1Gi; the kubelet keeps 100Mi and 10% free.
    assert_eq!(
        texts(&node.allocatable),
        ["cpu=1930m", "ephemeral-storage=35Gi", "hugepages-1Gi=0", "hugepages-2Mi=0", "memory=7279001Ki", "pods=29"]
    );
}

#[tokio::test(start_paused = true)]
async fn kubelet_settings_of_the_user_data_count() {
    let user_data = user_data(|spec| {
        spec["kubelet"]["config"] = json!({
            "maxPods": 50, "podsPerCore": 4,
            "kubeReserved": {"cpu": "200m", "memory": "1Gi"}, "systemReserved": {"cpu": "100m"},
            "evictionHard": {"memory.available": "10%", "nodefs.available": "2Gi"},
        });
    });
    let node = register("m5.large", user_data).await.unwrap();
    let memory = 7_969_177 * KIB - GIB - 7_969_177 * KIB / 10;
    assert_eq!(
        texts(&node.allocatable),
        [
            "cpu=1700m".to_owned(),
            "ephemeral-storage=37Gi".to_owned(),
            "hugepages-1Gi=0".to_owned(),
            "hugepages-2Mi=0".to_owned(),
            format!("memory={memory}"),
            "pods=8".to_owned(),
        ]
    );
    assert_eq!(node.taints, []);
}

#[tokio::test(start_paused = true)]
async fn device_plugins_report_accelerators() {
    let node = register("g5.12xlarge", user_data(|_| {})).await.unwrap();
    assert_eq!(node.capacity["nvidia.com/gpu"].0, "4");
    let node = register("inf2.48xlarge", user_data(|_| {})).await.unwrap();
    assert_eq!(node.allocatable["aws.amazon.com/neuron"].0, "12");
}

#[tokio::test(start_paused = true)]
async fn a_node_with_data_of_another_cluster_does_not_join() {
    for (change, expected) in [
        (
            json!({"name": "other"}),
            "the user data is for the cluster other, and this is demo: the API server answers Unauthorized",
        ),
        (
            json!({"apiServerEndpoint": "https://x"}),
            "the API server of the user data does not exist: https://x; this one is https://127.0.0.1:6443",
        ),
        (json!({"cidr": ""}), "the user data has no range of Service addresses, which nodeadm requires"),
    ] {
        let user_data = user_data(|spec| {
            let cluster = spec["cluster"].as_object_mut().unwrap();
            cluster.extend(change.as_object().unwrap().clone());
        });
        assert_eq!(register("m5.large", user_data).await.unwrap_err().to_string(), expected);
    }
    let broken = user_data(|spec| spec["kubelet"]["config"]["maxPods"] = json!("many"));
    let problem = register("m5.large", broken).await.unwrap_err().to_string();
    assert_eq!(problem, "the kubelet rejects its configuration: maxPods must be a whole number, and is \"many\"");
}

// spec 05 #15
#[tokio::test(start_paused = true)]
async fn images_differ_in_their_defaults() {
    let settings =
        "[settings.kubernetes]\napi-server = \"https://127.0.0.1:6443\"\ncluster-name = \"demo\"\nmax-pods = 10\n";
    let bottlerocket = "bottlerocket-aws-k8s-1.36-x86_64-v1.52.0";
    let node = register_image(bottlerocket, "m5.large", STANDARD.encode(settings)).await.unwrap();
    // Bottlerocket reserves 255Mi + 10 * 11Mi; the kubelet keeps 100Mi.
    let memory = 7_969_177 * KIB - (255 + 110 + 100) * MIB;
    assert_eq!(node.allocatable["memory"].0, format!("{}Ki", memory / KIB));
    assert_eq!(node.capacity["ephemeral-storage"].0, "20Gi");
    let script = STANDARD.encode("#!/bin/sh\n/etc/eks/bootstrap.sh demo\n");
    let node = register_image("amazon-eks-node-1.36-v20251120", "m5.large", script).await.unwrap();
    assert_eq!((node.capacity["pods"].0.as_str(), node.capacity["ephemeral-storage"].0.as_str()), ("29", "40Gi"));
    let windows = STANDARD.encode("<powershell>\n& $script -EKSClusterName demo\n</powershell>");
    let image = "Windows_Server-2022-English-Core-EKS_Optimized-1.36-20251120";
    let node = register_image(image, "m5.large", windows).await.unwrap();
    let label = |key: &str| node.labels.get(key).map(String::as_str);
    assert_eq!(label("kubernetes.io/os"), Some("windows"));
    assert_eq!(label("node.kubernetes.io/windows-build"), Some("10.0.20348"));
    assert_eq!(node.capacity["pods"].0, "110");
}

#[tokio::test(start_paused = true)]
async fn a_kubelet_rejects_labels_of_kubernetes() {
    let with_labels =
        |text: &str| user_data(|spec| spec["kubelet"]["flags"] = json!([format!("--node-labels={text}")]));
    assert!(register("m5.large", with_labels("node.kubernetes.io/a=1,x.kubelet.kubernetes.io/b=1")).await.is_ok());
    let problem = register("m5.large", with_labels("kubernetes.io/role=a,b.k8s.io/c=1")).await.unwrap_err();
    assert_eq!(
        problem.to_string(),
        "the kubelet rejects its configuration: unknown 'kubernetes.io' or 'k8s.io' labels specified with \
         --node-labels: [kubernetes.io/role b.k8s.io/c]"
    );
}

#[tokio::test(start_paused = true)]
async fn a_node_needs_the_ca_certificate_that_the_cluster_has() {
    let aws = account();
    aws.change_account(|account| {
        account.clusters.get_mut("demo").unwrap().certificate_authority = Some("Q0E=".to_owned());
    });
    let cloud = SimulatedEc2::new(aws.clone(), CloudChanges::default(), "demo".to_owned());
    let wrong = launch(&aws, "m5.large", user_data(|_| {})).await;
    let right =
        launch(&aws, "m5.large", user_data(|spec| spec["cluster"]["certificateAuthority"] = json!("Q0E="))).await;
    let id = |launched: &LaunchedInstance| format!("aws:///us-west-2b/{}", launched.instance.id);
    let problem = "the CA certificate of the user data is not that of the API server".to_owned();
    assert_eq!(cloud.node_registration(&id(&wrong)), Err(problem.clone()));
    assert!(cloud.node_registration(&id(&right)).is_ok());
    let console = aws.console_output(&wrong.instance.id);
    assert!(console.last().is_some_and(|line| line.contains(&problem)), "{console:?}");
    let unknown = Err("there is no such instance".to_owned());
    assert_eq!(cloud.node_registration("aws:///us-west-2b/i-0123"), unknown);
    assert_eq!(cloud.node_registration("kwok://x"), unknown);
}

#[tokio::test(start_paused = true)]
async fn the_cloud_lists_forks_and_interrupts_the_instances() {
    use kerf_sandbox::{InstanceList as _, InstanceState};
    let aws = account();
    let cloud = SimulatedEc2::new(aws.clone(), CloudChanges::default(), "demo".to_owned());
    let launched = launch(&aws, "m5.large", user_data(|_| {})).await;
    let now = aws.clock().now();
    assert_eq!(cloud.advance(now), None, "the instance starts without delay");
    let listed = cloud.instances();
    assert_eq!(listed.len(), 1);
    assert_eq!(listed[0].provider_id, format!("aws:///us-west-2b/{}", launched.instance.id));
    assert_eq!((listed[0].capacity_type.as_str(), listed[0].state), ("on-demand", InstanceState::Running));
    let copy: Arc<dyn SimulatedCloud> = cloud.fork(aws.clock(), CloudChanges::default());
    copy.interrupt(&listed[0].provider_id);
    assert_eq!((copy.live_instances().len(), cloud.live_instances().len()), (0, 1));
}
