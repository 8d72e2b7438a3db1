//! Tests of claims and volumes together with the scheduler, on a paused clock.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on should stop there")]

use std::time::Duration;

use kerf_runtime::Clock;
use serde_json::{Value, json};

use super::VolumeController;
use crate::api::{ApiServer, ApiServerConfig};
use crate::cluster::in_process_client::InProcessClient;
use crate::cluster::scheduler::Scheduler;

struct VolumeTestEnv {
    client: InProcessClient,
}

impl VolumeTestEnv {
    fn new(provision_delay: Duration) -> Self {
        let start = "2026-01-01T00:00:00Z".parse().unwrap();
        let server = ApiServer::new(ApiServerConfig::new(Clock::starting_at(start), 1));
        tokio::spawn(VolumeController::new(&server, provision_delay).run());
        tokio::spawn(Scheduler::new(&server, 7).run());
        Self { client: InProcessClient::new(&server, "test") }
    }

    fn create_node(&self, name: &str, zone: &str) {
        let labels = json!({"kubernetes.io/hostname": name, "topology.kubernetes.io/zone": zone});
        let status = json!({"allocatable": {"cpu": "8", "memory": "8Gi", "pods": "110"}});
        let node = json!({"metadata": {"name": name, "labels": labels}, "status": status});
        self.client.create("/api/v1/nodes", &node).unwrap();
        // New nodes have a taint until their kubelet reports that they are ready.
        self.client.merge_patch(&format!("/api/v1/nodes/{name}"), &json!({"spec": {"taints": null}})).unwrap();
    }

    fn create_class(&self, name: &str, overrides: Value) {
        let mut class = json!({"metadata": {"name": name}, "provisioner": "ebs.csi.aws.com", "volumeBindingMode": "WaitForFirstConsumer"});
        json_patch::merge(&mut class, &overrides);
        self.client.create("/apis/storage.k8s.io/v1/storageclasses", &class).unwrap();
    }

    fn create_claim(&self, name: &str, class: &str) {
        let claim = json!({
            "metadata": {"name": name},
            "spec": {"accessModes": ["ReadWriteOnce"], "storageClassName": class, "resources": {"requests": {"storage": "5Gi"}}},
        });
        self.client.create("/api/v1/namespaces/default/persistentvolumeclaims", &claim).unwrap();
    }

    fn create_volume(&self, name: &str, size: &str, overrides: Value) {
        let mut volume = json!({
            "metadata": {"name": name},
            "spec": {"accessModes": ["ReadWriteOnce"], "capacity": {"storage": size}, "storageClassName": "local", "local": {"path": "/mnt"}},
        });
        json_patch::merge(&mut volume, &overrides);
        self.client.create("/api/v1/persistentvolumes", &volume).unwrap();
    }

    fn create_pod(&self, name: &str, volume: Value) {
        let pod = json!({
            "metadata": {"name": name},
            "spec": {"containers": [{"name": "main", "image": "app:1"}], "volumes": [volume]},
        });
        self.client.create("/api/v1/namespaces/default/pods", &pod).unwrap();
    }

    fn get(&self, plural: &str, name: &str) -> Option<Value> {
        let changes = self.client.feed("", plural).take_changes();
        let changes = changes.into_iter().find(|changes| changes.key.as_str().rsplit('/').next() == Some(name))?;
        serde_json::from_slice(&changes.object?).ok()
    }

    fn phase(&self, plural: &str, name: &str) -> String {
        self.get(plural, name)
            .map_or("gone".to_owned(), |object| object["status"]["phase"].as_str().unwrap().to_owned())
    }

    fn node_of(&self, pod: &str) -> Option<String> {
        self.get("pods", pod)?["spec"]["nodeName"].as_str().map(str::to_owned)
    }

    fn volume_of(&self, claim: &str) -> Value {
        let claim = self.get("persistentvolumeclaims", claim).unwrap();
        self.get("persistentvolumes", claim["spec"]["volumeName"].as_str().unwrap()).unwrap()
    }

    fn event_reasons(&self, name: &str) -> Vec<String> {
        let events = self.client.feed("", "events").take_changes();
        let events = events.into_iter().map(|change| serde_json::from_slice::<Value>(&change.object.unwrap()).unwrap());
        let of_object = events.filter(|event| event["involvedObject"]["name"] == name);
        let mut reasons: Vec<(String, String)> = of_object
            .map(|e| (e["metadata"]["name"].as_str().unwrap().to_owned(), e["reason"].as_str().unwrap().to_owned()))
            .collect();
        reasons.sort();
        reasons.into_iter().map(|(_, reason)| reason).collect()
    }
}

fn claim_volume(claim: &str) -> Value {
    json!({"name": "data", "persistentVolumeClaim": {"claimName": claim}})
}

async fn settle() {
    tokio::time::sleep(Duration::from_millis(10)).await;
}

fn first_topology_term(volume: &Value) -> &Value {
    &volume["spec"]["nodeAffinity"]["required"]["nodeSelectorTerms"][0]["matchExpressions"][0]
}

#[tokio::test(start_paused = true)]
async fn a_waiting_claim_is_provisioned_in_the_topology_of_its_pods_node() {
    let env = VolumeTestEnv::new(Duration::from_secs(5));
    env.create_node("a", "x");
    env.create_node("b", "y");
    let zones = json!([{"matchLabelExpressions": [{"key": "topology.kubernetes.io/zone", "values": ["y"]}]}]);
    env.create_class("gp3", json!({"allowedTopologies": zones}));
    env.create_claim("c", "gp3");
    tokio::time::sleep(Duration::from_mins(1)).await;
    assert_eq!(env.phase("persistentvolumeclaims", "c"), "Pending");
    assert_eq!(env.event_reasons("c"), ["WaitForFirstConsumer"]);

    env.create_pod("web", claim_volume("c"));
    settle().await;
    let claim = env.get("persistentvolumeclaims", "c").unwrap();
    assert_eq!(claim["metadata"]["annotations"]["volume.kubernetes.io/selected-node"], "b");
    assert_eq!(env.node_of("web"), None, "the pod waits for its volume");
    assert_eq!(env.get("pods", "web").unwrap()["status"]["nominatedNodeName"], "b");
    tokio::time::sleep(Duration::from_secs(5)).await;
    settle().await;
    assert_eq!(env.node_of("web").as_deref(), Some("b"));
    assert_eq!(env.get("pods", "web").unwrap()["status"]["nominatedNodeName"], Value::Null);
    let claim = env.get("persistentvolumeclaims", "c").unwrap();
    assert_eq!(
        (claim["status"]["phase"].as_str(), claim["status"]["capacity"]["storage"].as_str()),
        (Some("Bound"), Some("5Gi"))
    );
    assert_eq!(claim["metadata"]["annotations"]["pv.kubernetes.io/bind-completed"], "yes");
    let volume = env.volume_of("c");
    assert_eq!(
        volume["metadata"]["name"].as_str().unwrap(),
        format!("pvc-{}", claim["metadata"]["uid"].as_str().unwrap())
    );
    assert_eq!(volume["status"]["phase"], "Bound");
    assert_eq!(volume["spec"]["csi"]["driver"], "ebs.csi.aws.com");
    assert_eq!(
        first_topology_term(&volume),
        &json!({"key": "topology.kubernetes.io/zone", "operator": "In", "values": ["y"]})
    );
    let expected = ["WaitForFirstConsumer", "ExternalProvisioning", "Provisioning", "ProvisioningSucceeded"];
    assert_eq!(env.event_reasons("c"), expected);
}

#[tokio::test(start_paused = true)]
async fn a_node_reserved_for_a_pod_that_waits_for_its_volume_is_not_used_by_another() {
    let env = VolumeTestEnv::new(Duration::from_mins(1));
    env.create_node("a", "x");
    env.create_class("gp3", json!({}));
    env.create_claim("c", "gp3");
    let big =
        json!({"spec": {"containers": [{"name": "main", "image": "app:1", "resources": {"requests": {"cpu": "6"}}}]}});
    for (name, volume) in [("first", claim_volume("c")), ("second", json!({"name": "tmp", "emptyDir": {}}))] {
        let mut pod = json!({"metadata": {"name": name}, "spec": {"volumes": [volume]}});
        json_patch::merge(&mut pod, &big);
        env.client.create("/api/v1/namespaces/default/pods", &pod).unwrap();
        settle().await;
    }
    tokio::time::sleep(Duration::from_secs(61)).await;
    assert_eq!((env.node_of("first").as_deref(), env.node_of("second")), (Some("a"), None));
}

#[tokio::test(start_paused = true)]
async fn an_immediate_claim_is_bound_at_once_and_determines_its_pods_node() {
    let env = VolumeTestEnv::new(Duration::ZERO);
    env.create_node("a", "x");
    env.create_node("b", "y");
    env.create_class("now", json!({"volumeBindingMode": "Immediate"}));
    env.create_pod("web", claim_volume("c"));
    settle().await;
    assert_eq!(env.node_of("web"), None, "there is no claim yet");
    env.create_claim("c", "now");
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert_eq!(env.phase("persistentvolumeclaims", "c"), "Bound");
    let zone = first_topology_term(&env.volume_of("c"))["values"][0].as_str().unwrap().to_owned();
    let expected = if zone == "x" { "a" } else { "b" };
    assert_eq!(env.node_of("web").as_deref(), Some(expected));
}

#[tokio::test(start_paused = true)]
async fn the_smallest_sufficient_volume_is_bound_and_determines_the_node() {
    let env = VolumeTestEnv::new(Duration::ZERO);
    env.create_node("a", "x");
    env.create_node("b", "y");
    env.create_class("local", json!({"provisioner": "kubernetes.io/no-provisioner"}));
    let on_b = json!({"spec": {"nodeAffinity": {"required": {"nodeSelectorTerms": [
        {"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "In", "values": ["b"]}]},
    ]}}}});
    env.create_volume("small", "1Gi", on_b.clone());
    env.create_volume("large", "50Gi", on_b.clone());
    env.create_volume("fitting", "5Gi", on_b);
    env.create_claim("c", "local");
    env.create_pod("web", claim_volume("c"));
    settle().await;
    assert_eq!(env.node_of("web").as_deref(), Some("b"));
    assert_eq!(env.volume_of("c")["metadata"]["name"], "fitting");
    assert_eq!(env.phase("persistentvolumes", "large"), "Available");
}

#[tokio::test(start_paused = true)]
async fn a_claim_in_use_is_kept_and_its_volume_is_deleted_with_it() {
    let env = VolumeTestEnv::new(Duration::ZERO);
    env.create_node("a", "x");
    env.create_class("gp3", json!({}));
    env.create_claim("c", "gp3");
    env.create_pod("web", claim_volume("c"));
    settle().await;
    let volume = env.volume_of("c")["metadata"]["name"].as_str().unwrap().to_owned();
    env.client.delete("/api/v1/namespaces/default/persistentvolumeclaims/c", &json!({})).unwrap();
    settle().await;
    assert!(env.get("persistentvolumeclaims", "c").unwrap()["metadata"]["deletionTimestamp"].is_string());
    env.client.delete("/api/v1/namespaces/default/pods/web", &json!({"gracePeriodSeconds": 0})).unwrap();
    settle().await;
    assert_eq!(env.phase("persistentvolumeclaims", "c"), "gone");
    assert_eq!(env.phase("persistentvolumes", &volume), "gone");
}

#[tokio::test(start_paused = true)]
async fn a_retained_volume_is_released_and_not_bound_again() {
    let env = VolumeTestEnv::new(Duration::ZERO);
    env.create_class("local", json!({"provisioner": "kubernetes.io/no-provisioner", "volumeBindingMode": "Immediate"}));
    env.create_volume("v", "5Gi", json!({}));
    env.create_claim("c", "local");
    settle().await;
    assert_eq!(env.phase("persistentvolumes", "v"), "Bound");
    env.client.delete("/api/v1/namespaces/default/persistentvolumeclaims/c", &json!({})).unwrap();
    settle().await;
    assert_eq!(env.phase("persistentvolumes", "v"), "Released");
    env.create_claim("d", "local");
    settle().await;
    assert_eq!(env.phase("persistentvolumeclaims", "d"), "Pending");
}

#[tokio::test(start_paused = true)]
async fn a_claim_whose_volume_is_deleted_is_lost() {
    let env = VolumeTestEnv::new(Duration::ZERO);
    env.create_class("local", json!({"provisioner": "kubernetes.io/no-provisioner", "volumeBindingMode": "Immediate"}));
    env.create_volume("v", "5Gi", json!({}));
    env.create_claim("c", "local");
    settle().await;
    let path = "/api/v1/persistentvolumes/v";
    env.client.merge_patch(path, &json!({"metadata": {"finalizers": null}})).unwrap();
    env.client.delete(path, &json!({})).unwrap();
    env.client.merge_patch(path, &json!({"metadata": {"finalizers": null}})).ok();
    settle().await;
    assert_eq!(env.phase("persistentvolumeclaims", "c"), "Lost");
    assert!(env.event_reasons("c").contains(&"ClaimLost".to_owned()));
}

#[tokio::test(start_paused = true)]
async fn an_ephemeral_volume_gets_a_claim_owned_by_its_pod() {
    let env = VolumeTestEnv::new(Duration::ZERO);
    env.create_node("a", "x");
    env.create_class("gp3", json!({}));
    let spec = json!({"accessModes": ["ReadWriteOnce"], "storageClassName": "gp3", "resources": {"requests": {"storage": "1Gi"}}});
    let template = json!({"metadata": {"labels": {"of": "web"}}, "spec": spec});
    env.create_pod("web", json!({"name": "scratch", "ephemeral": {"volumeClaimTemplate": template}}));
    tokio::time::sleep(Duration::from_secs(2)).await;
    let claim = env.get("persistentvolumeclaims", "web-scratch").unwrap();
    assert_eq!(claim["metadata"]["ownerReferences"][0]["name"], "web");
    assert_eq!(claim["metadata"]["labels"]["of"], "web");
    assert_eq!(env.phase("persistentvolumeclaims", "web-scratch"), "Bound");
    assert_eq!(env.node_of("web").as_deref(), Some("a"));
}

#[tokio::test(start_paused = true)]
async fn a_failed_provisioning_makes_the_scheduler_choose_another_node() {
    let env = VolumeTestEnv::new(Duration::from_secs(30));
    env.create_node("a", "x");
    env.create_class("gp3", json!({}));
    env.create_claim("c", "gp3");
    env.create_pod("web", claim_volume("c"));
    settle().await;
    env.create_node("b", "y");
    env.client.delete("/api/v1/nodes/a", &json!({})).unwrap();
    tokio::time::sleep(Duration::from_secs(90)).await;
    assert_eq!(env.node_of("web").as_deref(), Some("b"));
    assert_eq!(first_topology_term(&env.volume_of("c"))["values"], json!(["y"]));
}
