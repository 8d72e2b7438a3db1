//! Joins the instances of an attached cloud to the cluster. Each running instance boots, then its
//! kubelet registers the Node that the cloud describes. The kubelet stops when the instance shuts
//! down. Deleting the Node is the task of the cloud node lifecycle controller, not of the kubelet.
//!
//! Invariant: the faults of an instance are drawn once, when its launch is first seen, and its boot
//! time once, when it first runs.

use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv4Addr;
use std::time::Duration;

use serde_json::{Value, json};
use smol_str::SmolStr;
use tokio::time::Instant;

use super::Kubelets;
use crate::api::status::ApiResult;
use crate::api::storage::ObjectKey;
use crate::cloud::{InstanceFaults, OfferingRef};
use crate::cluster::WorkItem;
use crate::cluster::control_plane::{ControlPlane, RunAgain};
use crate::cluster::kind::ControlPlaneKind;
use crate::cluster::objects::Node;
use crate::simulated_cloud::{CloudInstance, InstanceState, NodeRegistration};

/// Shortest time between two calls of a cloud without a reported change, so that a cloud that
/// always has something due cannot stop virtual time.
const MIN_ADVANCE_INTERVAL: Duration = Duration::from_millis(1);

/// Progress of a cloud instance towards its Node.
#[derive(Clone, Debug, PartialEq, Eq)]
enum JoinPhase {
    /// The cloud has not started the instance yet.
    Launching,
    /// The instance boots, and its kubelet registers the Node afterwards.
    Booting,
    /// The kubelet never registers a Node.
    NeverJoins,
    /// The kubelet has registered its Node.
    Joined(ObjectKey),
    /// The instance shuts down, and its kubelet has stopped.
    ShuttingDown,
    /// The instance has ended.
    Terminated,
}

/// The records of the attached cloud's instances, by provider ID. An instance that the cloud lists
/// no longer has no record.
#[derive(Debug, Default)]
pub(crate) struct CloudInstanceRecords {
    records: BTreeMap<SmolStr, CloudInstanceRecord>,
    /// True after the cloud's list was read for the first time.
    is_synced: bool,
}

#[derive(Debug)]
struct CloudInstanceRecord {
    phase: JoinPhase,
    faults: InstanceFaults,
    internal_ip: Option<Ipv4Addr>,
    micro_dollars_per_hour: u64,
}

impl CloudInstanceRecords {
    /// Returns true if the kubelet of a cloud instance manages the Node.
    pub(crate) fn has_kubelet_of(&self, node: &Node) -> bool {
        let record = self.records.get(&node.spec.provider_id);
        record.is_some_and(|record| matches!(record.phase, JoinPhase::Joined(_)))
    }

    /// Takes the faults of an instance that its kubelet carries out once its Node exists. A later
    /// call returns none: each fault happens once.
    pub(crate) fn take_kubelet_faults(&mut self, provider_id: &str) -> InstanceFaults {
        let faults = self.records.get_mut(provider_id).map(|record| std::mem::take(&mut record.faults));
        // Boot time and interruption were planned before the Node existed.
        InstanceFaults {
            boot_delay: Duration::ZERO,
            interrupted_after: None,
            never_joins: false,
            ..faults.unwrap_or_default()
        }
    }

    /// Returns the address of an instance. Returns `None` if the cloud assigns none.
    pub(crate) fn internal_ip(&self, provider_id: &str) -> Option<Ipv4Addr> {
        self.records.get(provider_id)?.internal_ip
    }

    /// Returns the price of an instance in millionths of a dollar per hour. Returns `None` for an
    /// instance that the cloud does not list.
    pub(crate) fn micro_dollars_per_hour(&self, provider_id: &str) -> Option<u64> {
        Some(self.records.get(provider_id)?.micro_dollars_per_hour)
    }

    /// Returns true if the cloud's list was read and the instance has ended or is not listed.
    pub(crate) fn has_ended(&self, provider_id: &str) -> bool {
        let phase = self.records.get(provider_id).map(|record| &record.phase);
        self.is_synced && phase.is_none_or(|phase| *phase == JoinPhase::Terminated)
    }
}

/// Advances the cloud, and follows every change in its list.
pub(crate) fn sync(plane: &mut ControlPlane) -> RunAgain {
    let Some(cloud) = plane.server.attached_cloud() else { return RunAgain::WhenChanged };
    let now = plane.now();
    let next = cloud.advance(now);
    let instances = cloud.instances();
    for instance in &instances {
        follow(plane, instance);
    }
    let listed: BTreeSet<&str> = instances.iter().map(|instance| instance.provider_id.as_str()).collect();
    let known = plane.kubelets.cloud_instances.records.keys();
    let unlisted: Vec<SmolStr> = known.filter(|id| !listed.contains(id.as_str())).cloned().collect();
    for provider_id in unlisted {
        stop(plane, &provider_id, JoinPhase::Terminated);
        plane.kubelets.cloud_instances.records.remove(&provider_id);
    }
    plane.kubelets.cloud_instances.is_synced = true;
    let records = &plane.kubelets.cloud_instances;
    let has_ended = |node: &Node| {
        let provider_id = &node.spec.provider_id;
        provider_id.starts_with(cloud.provider_id_prefix()) && records.has_ended(provider_id)
    };
    for (key, _) in plane.cache.nodes.iter().filter(|(_, node)| has_ended(node)) {
        plane.queue.add(WorkItem::CloudNode(key.clone()));
    }
    next.map_or(RunAgain::WhenChanged, |next| {
        RunAgain::After(Duration::try_from(next.duration_since(now)).unwrap_or_default().max(MIN_ADVANCE_INTERVAL))
    })
}

/// Updates the record of an instance, and starts or stops its kubelet.
fn follow(plane: &mut ControlPlane, instance: &CloudInstance) {
    let provider_id = SmolStr::from(&instance.provider_id);
    match instance.state {
        InstanceState::Pending => ensure_record(plane, &provider_id, instance),
        InstanceState::Running => {
            ensure_record(plane, &provider_id, instance);
            boot(plane, &provider_id);
        }
        InstanceState::ShuttingDown => stop(plane, &provider_id, JoinPhase::ShuttingDown),
        InstanceState::Terminated => stop(plane, &provider_id, JoinPhase::Terminated),
    }
}

/// Creates the record of a new instance. The kubelet of an instance whose Node exists already
/// continues: the control plane was started on a copy of a cluster.
fn ensure_record(plane: &mut ControlPlane, provider_id: &SmolStr, instance: &CloudInstance) {
    if let Some(record) = plane.kubelets.cloud_instances.records.get_mut(provider_id) {
        record.micro_dollars_per_hour = instance.micro_dollars_per_hour;
        return;
    }
    let node = plane.cache.nodes.iter().find(|(_, node)| node.spec.provider_id == *provider_id);
    let (phase, faults) = if let Some(key) = node.map(|(key, _)| key.clone()) {
        plane.queue.add(WorkItem::BootInstance(key.clone()));
        (JoinPhase::Joined(key), InstanceFaults::default())
    } else {
        let faults = plane.cloud.draw_instance_faults(OfferingRef {
            instance_type: &instance.instance_type,
            zone: &instance.zone,
            capacity_type: &instance.capacity_type,
        });
        (JoinPhase::Launching, faults)
    };
    let CloudInstance { internal_ip, micro_dollars_per_hour, .. } = *instance;
    let record = CloudInstanceRecord { phase, faults, internal_ip, micro_dollars_per_hour };
    plane.kubelets.cloud_instances.records.insert(provider_id.clone(), record);
}

/// Boots an instance that runs for the first time, and plans its registration and interruption.
fn boot(plane: &mut ControlPlane, provider_id: &SmolStr) {
    let Kubelets { cloud_instances, rng, .. } = &mut plane.kubelets;
    let Some(record) = cloud_instances.records.get_mut(provider_id) else { return };
    if record.phase != JoinPhase::Launching {
        return;
    }
    let booted_at = Instant::now() + plane.config.timing.node_ready.draw(rng) + record.faults.boot_delay;
    if record.faults.never_joins {
        record.phase = JoinPhase::NeverJoins;
    } else {
        record.phase = JoinPhase::Booting;
        plane.queue.add_at(WorkItem::RegisterNode(provider_id.clone()), booted_at);
    }
    if let Some(after) = record.faults.interrupted_after {
        plane.queue.add_at(WorkItem::CloudInterruption(provider_id.clone()), booted_at + after);
    }
}

/// Ends the kubelet of an instance that shuts down or has ended. Its pods keep their last status.
fn stop(plane: &mut ControlPlane, provider_id: &SmolStr, phase: JoinPhase) {
    let (faults, internal_ip) = (InstanceFaults::default(), None);
    let stopped = CloudInstanceRecord { phase, faults, internal_ip, micro_dollars_per_hour: 0 };
    let before = plane.kubelets.cloud_instances.records.insert(provider_id.clone(), stopped);
    if let Some(CloudInstanceRecord { phase: JoinPhase::Joined(node), .. }) = before {
        plane.kubelets.instances.remove(&node);
    }
}

/// Registers the Node of an instance that has booted. Fails, and is tried again later, if another
/// Node has the name or if the API server rejects the Node.
pub(crate) fn register(plane: &mut ControlPlane, provider_id: &SmolStr) -> ApiResult<RunAgain> {
    let record = plane.kubelets.cloud_instances.records.get(provider_id);
    let Some(cloud) = plane.server.attached_cloud().filter(|_| record.is_some_and(CloudInstanceRecord::is_booting))
    else {
        return Ok(RunAgain::WhenChanged);
    };
    let phase = match cloud.node_registration(provider_id) {
        Err(why) => {
            plane.report_instance_outside(provider_id, why);
            JoinPhase::NeverJoins
        }
        Ok(registration) => {
            create_node(plane, provider_id, &registration)?;
            JoinPhase::Joined(ObjectKey::new(None, &registration.name))
        }
    };
    if let Some(record) = plane.kubelets.cloud_instances.records.get_mut(provider_id) {
        record.phase = phase;
    }
    Ok(RunAgain::WhenChanged)
}

impl CloudInstanceRecord {
    fn is_booting(&self) -> bool {
        self.phase == JoinPhase::Booting
    }
}

fn create_node(plane: &ControlPlane, provider_id: &SmolStr, registration: &NodeRegistration) -> ApiResult<()> {
    let outcome = plane.kubelet_client.create(ControlPlaneKind::Node, "", &node_object(provider_id, registration));
    match outcome {
        Err(error) if error.code() == 409 => {
            let existing = plane.cache.nodes.get(&ObjectKey::new(None, &registration.name));
            // Another client has created the Node of this instance.
            if existing.is_some_and(|node| node.spec.provider_id == *provider_id) { Ok(()) } else { Err(error) }
        }
        outcome => outcome.map(drop),
    }
}

fn node_object(provider_id: &str, registration: &NodeRegistration) -> Value {
    let NodeRegistration { name, labels, annotations, taints, capacity, allocatable } = registration;
    let allocatable = if allocatable.is_empty() { capacity } else { allocatable };
    json!({
        "metadata": {"name": name, "labels": labels, "annotations": annotations},
        "spec": {"providerID": provider_id, "taints": taints},
        "status": {"capacity": capacity, "allocatable": allocatable},
    })
}

/// Interrupts an instance of the attached cloud.
pub(crate) fn interrupt(plane: &mut ControlPlane, provider_id: &str) -> RunAgain {
    if let Some(cloud) = plane.server.attached_cloud() {
        cloud.interrupt(provider_id);
        plane.queue.add(WorkItem::CloudInstances);
    }
    RunAgain::WhenChanged
}
