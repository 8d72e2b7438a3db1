//! Instances of an attached cloud and their Nodes: registration after the boot, faults, shutdown,
//! and copies of a cluster with its cloud.

use std::sync::Arc;
use std::time::Duration;

use kerf_sandbox::{
    CloudChanges, CloudFault, CloudFaultRule, CloudInstance, Cluster, ClusterConfig, Delay, InstanceList,
    InstanceState, NodeRegistration, SimulatedCloud, Timing,
};
use serde_json::{Value, json};

use crate::cluster::{PODS, advance_seconds, create, list, patch, read, start, start_with_seed};
use crate::raw::noon;
use crate::tiny_cloud::TinyCloud;

const NODES: &str = "/api/v1/nodes";
const LEASES: &str = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases";

/// Boots take 20 seconds, everything else is immediate.
const SLOW_BOOTS: Timing = Timing { node_ready: Delay::fixed(Duration::from_secs(20)), ..Timing::INSTANT };

/// Returns name and `Ready` status of each Node.
async fn nodes(cluster: &Cluster) -> Vec<String> {
    let ready = |node: &Value| {
        let conditions = node["status"]["conditions"].as_array().cloned().unwrap_or_default();
        let ready = conditions.iter().find(|condition| condition["type"] == "Ready").cloned().unwrap_or_default();
        ready["status"].as_str().unwrap_or("none").to_owned()
    };
    let name = |node: &Value| node["metadata"]["name"].as_str().unwrap().to_owned();
    list(cluster, NODES).await.iter().map(|node| format!("{} {}", name(node), ready(node))).collect()
}

#[tokio::test(start_paused = true)]
async fn a_running_instance_registers_its_node_after_the_boot() {
    let cluster = start(SLOW_BOOTS);
    let cloud = TinyCloud::attach(cluster.api());
    // No other change wakes the kubelets later.
    advance_seconds(5).await;
    let provider_id = cloud.launch("zone-a", Some("claim-a"));
    // Ten seconds until the instance runs, then twenty for the boot.
    advance_seconds(29).await;
    assert_eq!((cloud.states(), nodes(&cluster).await), (vec![InstanceState::Running], vec![]));
    advance_seconds(2).await;
    assert_eq!(nodes(&cluster).await, ["tiny-1 True"]);
    let node = read(&cluster, &format!("{NODES}/tiny-1")).await.unwrap();
    assert_eq!(node["spec"]["providerID"], provider_id.as_str());
    assert_eq!(node["spec"]["taints"], json!([{"key": "karpenter.sh/unregistered", "effect": "NoExecute"}]));
    assert_eq!(node["metadata"]["labels"]["topology.kubernetes.io/zone"], "zone-a");
    assert_eq!(
        (&node["status"]["capacity"]["cpu"], &node["status"]["allocatable"]["cpu"]),
        (&json!("4"), &json!("3900m"))
    );
    assert!(node["metadata"]["annotations"]["kwok.x-k8s.io/node"].is_null(), "a real Node has no such annotation");
    assert!(read(&cluster, &format!("{LEASES}/tiny-1")).await.is_some());
    patch(&cluster, &format!("{NODES}/tiny-1"), json!({"spec": {"taints": null}})).await;
    create(&cluster, PODS, crate::raw::pod("a")).await;
    advance_seconds(600).await;
    let pod = read(&cluster, &format!("{PODS}/a")).await.unwrap();
    assert_eq!((&pod["spec"]["nodeName"], &pod["status"]["phase"]), (&json!("tiny-1"), &json!("Running")));
    assert_eq!(nodes(&cluster).await, ["tiny-1 True"], "the kubelet sends heartbeats");
}

#[tokio::test(start_paused = true)]
async fn the_node_of_a_terminated_instance_is_deleted_after_its_heartbeats_have_ended() {
    let cluster = start(Timing::INSTANT);
    cluster.add_nodes(1).unwrap();
    let cloud = TinyCloud::attach(cluster.api());
    let provider_id = cloud.launch("zone-a", None);
    advance_seconds(1).await;
    cluster.instances().kill_kubelet("node-1");
    advance_seconds(120).await;
    assert_eq!(nodes(&cluster).await, ["node-1 Unknown", "tiny-1 True"]);
    patch(&cluster, &format!("{NODES}/tiny-1"), json!({"metadata": {"finalizers": ["karpenter.sh/termination"]}}))
        .await;
    cloud.terminate(&provider_id);
    advance_seconds(31).await;
    assert_eq!(cloud.states(), [InstanceState::Terminated]);
    let node = read(&cluster, &format!("{NODES}/tiny-1")).await.unwrap();
    assert!(node["metadata"]["deletionTimestamp"].is_null(), "its last heartbeat is recent: {node}");
    advance_seconds(30).await;
    let node = read(&cluster, &format!("{NODES}/tiny-1")).await.unwrap();
    assert!(node["metadata"]["deletionTimestamp"].is_string(), "deleted, and its finalizer keeps it: {node}");
    patch(&cluster, &format!("{NODES}/tiny-1"), json!({"metadata": {"finalizers": null}})).await;
    advance_seconds(1).await;
    assert_eq!(nodes(&cluster).await, ["node-1 Unknown"], "Nodes of other providers stay");
}

#[tokio::test(start_paused = true)]
async fn an_instance_that_the_cloud_lists_no_longer_has_ended() {
    let cluster = start(Timing::INSTANT);
    let cloud = TinyCloud::attach(cluster.api());
    let provider_id = cloud.launch("zone-a", None);
    advance_seconds(20).await;
    cloud.terminate(&provider_id);
    advance_seconds(31).await;
    cloud.forget_terminated();
    advance_seconds(60).await;
    assert_eq!(nodes(&cluster).await, Vec::<String>::new());
}

#[tokio::test(start_paused = true)]
async fn an_instance_that_ends_during_its_boot_registers_no_node() {
    let cluster = start(SLOW_BOOTS);
    let cloud = TinyCloud::attach(cluster.api());
    let provider_id = cloud.launch("zone-a", None);
    advance_seconds(20).await;
    cloud.terminate(&provider_id);
    advance_seconds(15).await;
    assert_eq!((cloud.states(), nodes(&cluster).await), (vec![InstanceState::ShuttingDown], vec![]));
    advance_seconds(120).await;
    assert_eq!((cloud.states(), nodes(&cluster).await), (vec![InstanceState::Terminated], vec![]));
}

#[tokio::test(start_paused = true)]
async fn faults_of_instances_apply_to_an_attached_cloud() {
    let cluster = start(Timing::INSTANT);
    let only = |zone: &str, fault| CloudFaultRule { zones: vec![zone.into()], ..CloudFaultRule::new(fault, 1_000_000) };
    let rules = vec![
        only("zone-a", CloudFault::NeverJoins),
        only("zone-b", CloudFault::SlowBoot { by: Duration::from_secs(40) }),
        only("zone-c", CloudFault::Interruption { after: Duration::from_mins(2) }),
    ];
    cluster.cloud().set_faults(rules, 1);
    let cloud = TinyCloud::attach(cluster.api());
    for zone in ["zone-a", "zone-b", "zone-c"] {
        cloud.launch(zone, None);
    }
    advance_seconds(15).await;
    assert_eq!(nodes(&cluster).await, ["tiny-3 True"]);
    advance_seconds(40).await;
    assert_eq!(nodes(&cluster).await, ["tiny-2 True", "tiny-3 True"]);
    advance_seconds(80).await;
    assert_eq!(cloud.states()[2], InstanceState::ShuttingDown, "the cloud reclaims it two minutes after the boot");
    advance_seconds(200).await;
    assert_eq!(nodes(&cluster).await, ["tiny-2 True"]);
    assert_eq!(cloud.live_instances().len(), 2, "the first instance runs, and never joins");
}

#[tokio::test(start_paused = true)]
async fn a_terminated_instance_of_the_cloud_is_interrupted_and_not_deleted_behind_its_back() {
    let cluster = start(Timing::INSTANT);
    let cloud = TinyCloud::attach(cluster.api());
    cloud.launch("zone-a", None);
    advance_seconds(15).await;
    cluster.instances().terminate("tiny-1");
    advance_seconds(1).await;
    assert_eq!(cloud.states(), [InstanceState::ShuttingDown]);
    assert_eq!(nodes(&cluster).await, ["tiny-1 True"]);
    advance_seconds(90).await;
    assert_eq!(nodes(&cluster).await, Vec::<String>::new());
}

#[tokio::test(start_paused = true)]
async fn an_instance_with_wrong_user_data_never_joins() {
    let cluster = start(Timing::INSTANT);
    let cloud = TinyCloud::attach(cluster.api());
    cloud.break_user_data("tiny://1");
    cloud.launch("zone-a", None);
    cloud.launch("zone-a", None);
    advance_seconds(60).await;
    // An instance reads its user data once, at the boot.
    cloud.repair_user_data();
    advance_seconds(3600).await;
    assert_eq!(nodes(&cluster).await, ["tiny-2 True"]);
}

#[tokio::test(start_paused = true)]
async fn a_kubelet_waits_until_the_name_of_its_node_is_free() {
    let cluster = start(Timing::INSTANT);
    let cloud = TinyCloud::attach(cluster.api());
    cloud.set_node_name("host");
    let first = cloud.launch("zone-a", None);
    advance_seconds(20).await;
    let second = cloud.launch("zone-a", None);
    advance_seconds(20).await;
    let provider_id = async || read(&cluster, &format!("{NODES}/host")).await.unwrap()["spec"]["providerID"].clone();
    assert_eq!(provider_id().await, first.as_str());
    cloud.terminate(&first);
    advance_seconds(300).await;
    assert_eq!(provider_id().await, second.as_str());
    assert_eq!(nodes(&cluster).await, ["host True"]);
}

#[tokio::test(start_paused = true)]
async fn a_fork_of_the_server_has_its_own_copy_of_the_cloud() {
    let cluster = start(Timing::INSTANT);
    let cloud = TinyCloud::attach(cluster.api());
    cloud.launch("zone-a", None);
    advance_seconds(15).await;
    let copy = cluster.api().fork(noon());
    let copied = copy.attached_cloud_as::<TinyCloud>().unwrap();
    assert_eq!(copied.instances(), cloud.instances());
    copied.terminate("tiny://1");
    cloud.launch("zone-b", None);
    assert_eq!(copied.states(), [InstanceState::ShuttingDown]);
    assert_eq!(cloud.states(), [InstanceState::Running, InstanceState::Pending]);
    let launched_at = copied.launch("zone-b", None);
    let launched_at =
        copied.instances().iter().find(|instance| instance.provider_id == launched_at).unwrap().launched_at;
    assert_eq!(launched_at, copy.clock().now(), "the copy reads the clock of the copied server");
    advance_seconds(300).await;
    assert_eq!(
        copied.states(),
        [InstanceState::ShuttingDown, InstanceState::Pending],
        "it changes only when it is used"
    );
    assert!(copy.fork(noon()).attached_cloud_as::<AlwaysDue>().is_none(), "the cloud has another type");
}

#[tokio::test(start_paused = true)]
async fn a_cluster_on_a_copy_continues_the_kubelets_of_the_cloud() {
    let cluster = start(Timing::INSTANT);
    let cloud = TinyCloud::attach(cluster.api());
    cloud.launch("zone-a", None);
    advance_seconds(15).await;
    let pending = cloud.launch("zone-b", None);
    let clock = kerf_runtime::Clock::starting_at(cluster.api().clock().now());
    let copy = Cluster::start_from(cluster.api(), ClusterConfig { clock, seed: 2, timing: Timing::INSTANT });
    let slow_boot = CloudFault::SlowBoot { by: Duration::from_secs(100) };
    copy.cloud().set_faults(vec![CloudFaultRule::new(slow_boot, 1_000_000)], 1);
    drop(cluster);
    advance_seconds(80).await;
    assert_eq!(nodes(&copy).await, ["tiny-1 True"], "the kubelet sends heartbeats, and does not boot again");
    advance_seconds(40).await;
    assert_eq!(nodes(&copy).await, ["tiny-1 True", "tiny-2 True"]);
    let copied = copy.api().attached_cloud_as::<TinyCloud>().unwrap();
    copied.terminate(&pending);
    advance_seconds(100).await;
    assert_eq!(nodes(&copy).await, ["tiny-1 True"]);
    assert_eq!(cloud.states(), [InstanceState::Running, InstanceState::Pending]);
}

#[tokio::test(start_paused = true)]
async fn two_runs_with_one_seed_write_the_same_objects() {
    async fn fingerprint(seed: u64) -> u64 {
        let cluster = start_with_seed(Timing::LIFELIKE, seed);
        cluster.cloud().set_faults(
            vec![
                CloudFaultRule::new(CloudFault::SlowBoot { by: Duration::from_secs(7) }, 300_000),
                CloudFaultRule::new(CloudFault::Interruption { after: Duration::from_secs(70) }, 300_000),
            ],
            seed,
        );
        let cloud = TinyCloud::attach(cluster.api());
        for _ in 0..20 {
            cloud.launch("zone-a", None);
            advance_seconds(3).await;
        }
        advance_seconds(300).await;
        assert!(cloud.states().contains(&InstanceState::Terminated));
        cluster.api().fingerprint()
    }
    assert_eq!(fingerprint(3).await, fingerprint(3).await);
    assert_ne!(fingerprint(3).await, fingerprint(4).await);
}

/// A cloud without instances that always claims to have something due.
#[derive(Debug)]
struct AlwaysDue;

impl InstanceList for AlwaysDue {
    fn instances(&self) -> Vec<CloudInstance> {
        Vec::new()
    }

    fn max_orphan_age(&self) -> Option<Duration> {
        None
    }
}

impl SimulatedCloud for AlwaysDue {
    fn fork(&self, _: kerf_runtime::Clock, _: CloudChanges) -> Arc<dyn SimulatedCloud> {
        Arc::new(Self)
    }

    fn provider_id_prefix(&self) -> &'static str {
        "due://"
    }

    fn advance(&self, now: jiff::Timestamp) -> Option<jiff::Timestamp> {
        Some(now)
    }

    fn node_registration(&self, _: &str) -> Result<NodeRegistration, String> {
        Err("it has no nodes".into())
    }

    fn interrupt(&self, _: &str) {}
}

#[tokio::test(start_paused = true)]
async fn a_cloud_that_is_always_due_does_not_stop_time() {
    let cluster = start(Timing::INSTANT);
    cluster.api().attach_cloud(Arc::new(AlwaysDue));
    cluster.add_nodes(1).unwrap();
    advance_seconds(5).await;
    assert_eq!(nodes(&cluster).await, ["node-1 True"]);
}

#[tokio::test(start_paused = true)]
async fn a_node_has_the_address_of_its_instance() {
    let cluster = start(Timing::INSTANT);
    let cloud = TinyCloud::attach(cluster.api());
    cloud.launch("zone-a", None);
    advance_seconds(15).await;
    let addresses = read(&cluster, &format!("{NODES}/tiny-1")).await.unwrap()["status"]["addresses"].clone();
    assert_eq!(addresses[0], json!({"type": "InternalIP", "address": "10.9.0.1"}));
    // A cluster that continues on a copy of the objects knows the address too.
    let copy = Cluster::start_from(
        cluster.api(),
        ClusterConfig { clock: cluster.api().clock(), seed: 2, timing: Timing::INSTANT },
    );
    advance_seconds(600).await;
    assert_eq!(read(&copy, &format!("{NODES}/tiny-1")).await.unwrap()["status"]["addresses"], addresses);
}
