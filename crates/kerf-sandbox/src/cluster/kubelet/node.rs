//! The kubelet's writes to its Node: it reports `Ready` after the boot, renews the Lease, and
//! repeats the status at an interval.

use bytes::Bytes;
use jiff::Timestamp;
use serde_json::{Value, json};
use smol_str::SmolStr;
use tokio::time::Instant;

use super::heartbeat::{HeartbeatKind, RepeatableWrite};
use super::{InstancePhase, Kubelets, LastStatusReport, SimulatedInstance};
use super::{faults, registration};
use crate::api::object::{rfc3339_micros, rfc3339_seconds};
use crate::api::status::ApiResult;
use crate::api::storage::ObjectKey;
use crate::cloud::OfferingRef;
use crate::cluster::WorkItem;
use crate::cluster::control_plane::{ControlPlane, RunAgain};
use crate::cluster::events::{EventComponent, EventType};
use crate::cluster::kind::ControlPlaneKind;
use crate::cluster::objects::{Node, find_condition};
use crate::cluster::timing::Delay;

const LEASE_NAMESPACE: &str = "kube-node-lease";
/// Version that the kubelets report in the Node's status.
const KUBELET_VERSION: &str = "v1.36.0+kerf";

/// Boots the instance of a simulated node, or removes the instance if its Node was deleted.
pub(crate) fn sync(plane: &mut ControlPlane, key: &ObjectKey) -> ApiResult<RunAgain> {
    let Some(node) = plane.cache.nodes.get(key).filter(|node| plane.kubelets.manages(node)) else {
        plane.kubelets.instances.remove(key);
        return Ok(RunAgain::WhenChanged);
    };
    let now = Instant::now();
    let phase = ensure_instance(plane, key, &node, now);
    match phase {
        InstancePhase::Booting { until } if until > now => Ok(RunAgain::After(until - now)),
        InstancePhase::Booting { .. } => {
            write_status(plane, key, &node)?;
            create_lease(plane, key, &node)?;
            create_csi_node(plane, &node)?;
            if let Some(instance) = plane.kubelets.instances.get_mut(key) {
                instance.phase = InstancePhase::Running;
            }
            let is_ready = plane.kubelets.readiness_of(key).is_ready();
            let reason = if is_ready { "NodeReady" } else { "NodeNotReady" };
            let message = format!("Node {} status is now: {reason}", node.metadata.name);
            plane.publish_event(
                EventComponent::Kubelet,
                (ControlPlaneKind::Node, &node.metadata),
                EventType::Normal,
                reason,
                message,
            );
            plane.queue.add_at(WorkItem::Heartbeat(key.clone()), now + plane.config.timing.lease_renewal);
            enqueue_pods(plane, &node);
            Ok(RunAgain::WhenChanged)
        }
        InstancePhase::Running | InstancePhase::NeverReady | InstancePhase::KubeletStopped => Ok(RunAgain::WhenChanged),
    }
}

/// Returns the state of the instance behind a Node. Creates the instance when the Node is new.
fn ensure_instance(plane: &mut ControlPlane, key: &ObjectKey, node: &Node, now: Instant) -> InstancePhase {
    if let Some(instance) = plane.kubelets.instances.get(key).filter(|instance| instance.uid == node.metadata.uid) {
        return instance.phase;
    }
    let timing = plane.config.timing;
    let label = |key: &str| node.metadata.labels.get(key).unwrap_or_default();
    let (faults, boot_delay) = if plane.kubelets.cloud_instances.has_kubelet_of(node) {
        // The instance has booted, and its faults were drawn at its launch.
        (plane.kubelets.cloud_instances.take_kubelet_faults(&node.spec.provider_id), Delay::ZERO)
    } else {
        let offering = OfferingRef {
            instance_type: label("node.kubernetes.io/instance-type"),
            zone: label("topology.kubernetes.io/zone"),
            capacity_type: label("karpenter.sh/capacity-type"),
        };
        (plane.cloud.draw_instance_faults(offering), timing.node_ready)
    };
    let Kubelets { rng, never_ready, .. } = &mut plane.kubelets;
    let boot_time = boot_delay.draw(rng) + faults.boot_delay;
    let is_never_ready = never_ready.remove(&node.metadata.name) || faults.never_joins;
    let phase =
        if is_never_ready { InstancePhase::NeverReady } else { InstancePhase::Booting { until: now + boot_time } };
    if let Some(after) = faults.interrupted_after {
        plane.queue.add_at(WorkItem::Interruption(key.clone()), now + boot_time + after);
    }
    let readiness = faults::schedule(plane, key, &faults, now + boot_time);
    let cloud_address = plane.kubelets.cloud_instances.internal_ip(&node.spec.provider_id);
    let Kubelets { instances, ip_allocator, .. } = &mut plane.kubelets;
    let instance = SimulatedInstance {
        uid: node.metadata.uid.clone(),
        phase,
        readiness,
        address: cloud_address.unwrap_or_else(|| ip_allocator.next_node_ip()),
        last_reported_at: now,
        lease_key: ObjectKey::new(Some(LEASE_NAMESPACE), &node.metadata.name),
        last_lease_write: None,
        last_report: None,
    };
    instances.insert(key.clone(), instance);
    phase
}

/// Terminates the instance of a node, as an interrupting cloud does.
pub(crate) fn interrupt(plane: &mut ControlPlane, key: &ObjectKey) -> RunAgain {
    plane.terminate_instance(key.name());
    RunAgain::WhenChanged
}

/// Renews the Lease, and writes the node's status if that is due. Runs at the interval
/// `lease_renewal`.
pub(crate) fn heartbeat(plane: &mut ControlPlane, key: &ObjectKey) -> ApiResult<RunAgain> {
    let (Some(node), Some(instance)) = (plane.cache.nodes.get(key), plane.kubelets.instances.get(key)) else {
        return Ok(RunAgain::WhenChanged);
    };
    if instance.phase != InstancePhase::Running {
        return Ok(RunAgain::WhenChanged);
    }
    let since_report = Instant::now().duration_since(instance.last_reported_at);
    let status = if instance.readiness.is_ready() { "True" } else { "False" };
    renew_lease(plane, key, &node)?;
    let is_outdated = node.ready().is_none_or(|ready| ready.status != status);
    if is_outdated || since_report >= plane.config.timing.node_report {
        write_status(plane, key, &node)?;
    }
    Ok(RunAgain::After(plane.config.timing.lease_renewal))
}

/// Writes the node's status. Most writes repeat the previous one with new timestamps.
fn write_status(plane: &mut ControlPlane, key: &ObjectKey, node: &Node) -> ApiResult<()> {
    let (images, volumes) = (images(plane, &node.metadata.name), plane.volumes_in_use(&node.metadata.name));
    if !repeat_status(plane, key, &images, &volumes) {
        let now = plane.now();
        let written =
            plane.kubelet_client.patch_status(ControlPlaneKind::Node, key, &status(plane, node, &images, &volumes))?;
        let write = repeatable_write(
            plane,
            ControlPlaneKind::Node,
            key,
            &written,
            now,
            HeartbeatKind::StatusReport { condition_count: HEALTHY_CONDITIONS.len() },
        );
        if let Some(instance) = plane.kubelets.instances.get_mut(key) {
            instance.last_report = write.map(|write| LastStatusReport { write, images, volumes });
        }
    }
    if let Some(instance) = plane.kubelets.instances.get_mut(key) {
        instance.last_reported_at = Instant::now();
    }
    Ok(())
}

/// Repeats the last status write if its inputs and the Node are unchanged. Returns false if that is
/// not possible.
fn repeat_status(plane: &mut ControlPlane, key: &ObjectKey, images: &[SmolStr], volumes: &[String]) -> bool {
    let (Some(table), now) = (plane.table(ControlPlaneKind::Node), plane.now()) else { return false };
    let instance = plane.kubelets.instances.get_mut(key);
    let Some(last) = instance.and_then(|instance| instance.last_report.as_mut()) else { return false };
    last.images == images
        && last.volumes == volumes
        && !plane.server.is_audited()
        && last.write.repeat_at(&plane.server.inner, table, key, now)
}

/// Returns a write that was just made, so that it can be repeated. `None` if that is not possible.
fn repeatable_write(
    plane: &ControlPlane,
    kind: ControlPlaneKind,
    key: &ObjectKey,
    written: &Bytes,
    now: Timestamp,
    heartbeat_kind: HeartbeatKind,
) -> Option<RepeatableWrite> {
    RepeatableWrite::from_ordinary_write(&plane.server.inner, (plane.table(kind)?, key), written, now, heartbeat_kind)
}

/// Conditions of a healthy node: type, status, reason and message.
const HEALTHY_CONDITIONS: [[&str; 4]; 4] = [
    ["MemoryPressure", "False", "KubeletHasSufficientMemory", "kubelet has sufficient memory available"],
    ["DiskPressure", "False", "KubeletHasNoDiskPressure", "kubelet has no disk pressure"],
    ["PIDPressure", "False", "KubeletHasSufficientPID", "kubelet has sufficient PID available"],
    ["Ready", "True", "KubeletReady", "kubelet is posting ready status"],
];

/// The `Ready` condition of a kubelet without a network.
const NOT_READY: [&str; 4] = [
    "Ready",
    "False",
    "KubeletNotReady",
    "container runtime network not ready: NetworkReady=false reason:NetworkPluginNotReady \
     message:Network plugin returns error: cni plugin not initialized",
];

fn status(plane: &ControlPlane, node: &Node, images: &[SmolStr], volumes: &[String]) -> Value {
    let address = plane.kubelets.address_of(&node.metadata.name).unwrap_or(std::net::Ipv4Addr::UNSPECIFIED);
    let now = rfc3339_seconds(plane.now());
    let to_condition = |[kind, status, reason, message]: [&str; 4]| {
        let since = find_condition(&node.status.conditions, kind)
            .filter(|condition| condition.status == status)
            .and_then(|condition| condition.last_transition_time)
            .map_or_else(|| now.clone(), rfc3339_seconds);
        json!({
            "type": kind, "status": status, "reason": reason, "message": message,
            "lastHeartbeatTime": now, "lastTransitionTime": since,
        })
    };
    let is_ready = plane.kubelets.readiness_of(&node.metadata.key()).is_ready();
    let condition =
        |condition: [&'static str; 4]| if is_ready || condition[0] != "Ready" { condition } else { NOT_READY };
    let label = |key: &str, otherwise: &str| node.metadata.labels.get(key).unwrap_or(otherwise).to_string();
    // A kubelet reports at most 50 images.
    let images: Vec<Value> =
        images.iter().take(50).map(|name| json!({"names": [name], "sizeBytes": 50_000_000})).collect();
    json!({
        "phase": "Running",
        "conditions": HEALTHY_CONDITIONS.map(|healthy| to_condition(condition(healthy))),
        "addresses": [
            {"type": "InternalIP", "address": address.to_string()},
            {"type": "Hostname", "address": node.metadata.name},
        ],
        "daemonEndpoints": {"kubeletEndpoint": {"Port": 10250}},
        "nodeInfo": {
            "architecture": label("kubernetes.io/arch", "amd64"), "operatingSystem": label("kubernetes.io/os", "linux"),
            "bootID": node.metadata.uid, "machineID": node.metadata.uid, "systemUUID": node.metadata.uid,
            "containerRuntimeVersion": "kerf://1", "kernelVersion": "6.12.0-kerf", "osImage": "Kerf sandbox",
            "kubeletVersion": KUBELET_VERSION, "kubeProxyVersion": "",
        },
        "images": images,
        "volumesInUse": volumes,
    })
}

/// Returns the images of the pods on a node, as a container runtime that has pulled them would list
/// them.
fn images(plane: &ControlPlane, node: &str) -> Vec<SmolStr> {
    let pods = plane.cache.pods_on(node);
    let mut names: Vec<_> = pods
        .iter()
        .flat_map(|pod| pod.spec.containers.iter().chain(&pod.spec.init_containers))
        .map(|container| container.image.clone())
        .collect();
    names.sort();
    names.dedup();
    names
}

fn lease(plane: &ControlPlane, node: &Node) -> Value {
    let now = rfc3339_micros(plane.now());
    json!({
        "apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
        "metadata": {
            "name": node.metadata.name, "namespace": LEASE_NAMESPACE,
            "ownerReferences": [{"apiVersion": "v1", "kind": "Node", "name": node.metadata.name, "uid": node.metadata.uid}],
        },
        "spec": {"holderIdentity": node.metadata.name, "leaseDurationSeconds": 40, "renewTime": now},
    })
}

fn create_lease(plane: &mut ControlPlane, key: &ObjectKey, node: &Node) -> ApiResult<()> {
    let now = plane.now();
    match plane.kubelet_client.create(ControlPlaneKind::Lease, LEASE_NAMESPACE, &lease(plane, node)) {
        Err(error) if error.code() == 409 => renew_lease(plane, key, node),
        outcome => {
            remember_lease(plane, key, &outcome?, now);
            Ok(())
        }
    }
}

/// Renews a Lease. If the Lease is unchanged since the kubelet's last write, that write is repeated
/// with new timestamps: nearly all writes of a cluster without changes are renewals.
fn renew_lease(plane: &mut ControlPlane, key: &ObjectKey, node: &Node) -> ApiResult<()> {
    let (now, table) = (plane.now(), plane.table(ControlPlaneKind::Lease));
    if let (Some(table), Some(instance)) = (table, plane.kubelets.instances.get_mut(key))
        && let Some(last) = instance.last_lease_write.as_mut()
        && !plane.server.is_audited()
        && last.repeat_at(&plane.server.inner, table, &instance.lease_key, now)
    {
        return Ok(());
    }
    let path = ControlPlaneKind::Lease.path(&ObjectKey::new(Some(LEASE_NAMESPACE), key.name()));
    let written = match plane.kubelet_client.replace(&path, &lease(plane, node)) {
        Err(error) if error.code() == 404 => {
            plane.kubelet_client.create(ControlPlaneKind::Lease, LEASE_NAMESPACE, &lease(plane, node))?
        }
        outcome => outcome?,
    };
    remember_lease(plane, key, &written, now);
    Ok(())
}

fn remember_lease(plane: &mut ControlPlane, key: &ObjectKey, written: &Bytes, now: Timestamp) {
    let lease = ObjectKey::new(Some(LEASE_NAMESPACE), key.name());
    let write = repeatable_write(plane, ControlPlaneKind::Lease, &lease, written, now, HeartbeatKind::LeaseRenewal);
    if let Some(instance) = plane.kubelets.instances.get_mut(key) {
        instance.last_lease_write = write;
    }
}

/// Creates the `CSINode` object, in which storage drivers describe a node. It has no drivers until
/// a client adds one.
fn create_csi_node(plane: &ControlPlane, node: &Node) -> ApiResult<()> {
    let object = json!({
        "metadata": {
            "name": node.metadata.name,
            "ownerReferences": [{"apiVersion": "v1", "kind": "Node", "name": node.metadata.name, "uid": node.metadata.uid}],
        },
        "spec": {"drivers": []},
    });
    match plane.kubelet_client.create(ControlPlaneKind::CsiNode, "", &object) {
        Err(error) if error.code() != 409 => Err(error),
        Ok(_) | Err(_) => Ok(()),
    }
}

/// Enqueues every pod on the node for its kubelet.
fn enqueue_pods(plane: &mut ControlPlane, node: &Node) {
    for pod in plane.cache.pods_on(&node.metadata.name) {
        plane.queue.add(WorkItem::RunPod(pod.metadata.key()));
    }
}

impl ControlPlane {
    /// Stops the kubelet of a node without notice.
    pub(crate) fn kill_kubelet(&mut self, node: &str) {
        if let Some(instance) = self.kubelets.instances.get_mut(&ObjectKey::new(None, node)) {
            instance.phase = InstancePhase::KubeletStopped;
        }
    }

    /// Terminates an instance and deletes its Node at once. An instance of the attached cloud is
    /// interrupted instead, and its Node is deleted after the instance has ended.
    pub(crate) fn terminate_instance(&mut self, node: &str) {
        let key = ObjectKey::new(None, node);
        let cached = self.cache.nodes.get(&key);
        if let Some(node) = cached.as_ref().filter(|node| self.kubelets.cloud_instances.has_kubelet_of(node)) {
            registration::interrupt(self, &node.spec.provider_id);
            return;
        }
        self.kill_kubelet(node);
        let Some(node) = cached else { return };
        // Finalizers cannot be processed for an instance that no longer exists, so they must not
        // keep its Node. The writes fail only if the Node is already deleted.
        let _ = self
            .controller_client
            .merge_patch(&ControlPlaneKind::Node.path(&key), &json!({"metadata": {"finalizers": null}}));
        let _ = self.controller_client.delete(ControlPlaneKind::Node, &key, &node.metadata.uid);
    }

    /// Starts a stopped kubelet again.
    pub(crate) fn restart_kubelet(&mut self, node: &str) {
        let key = ObjectKey::new(None, node);
        if let Some(instance) = self.kubelets.instances.get_mut(&key)
            && instance.phase == InstancePhase::KubeletStopped
        {
            instance.phase = InstancePhase::Booting { until: Instant::now() };
            self.queue.add(WorkItem::BootInstance(key));
        }
    }

    /// Keeps the instance of a Node that will be created with this name from ever becoming ready.
    pub(crate) fn mark_never_ready(&mut self, node: &str) {
        self.kubelets.never_ready.insert(node.into());
    }
}
