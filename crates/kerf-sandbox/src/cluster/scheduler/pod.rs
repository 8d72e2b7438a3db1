//! The scheduler's data about a pod. A pod with a node is reduced to a few numbers. A pod without a
//! node is kept whole, because any rule may read it.

use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Container, ContainerStatus, Pod, PodCondition, PodSpec, PodStatus};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference, Time};
use kerf_referee::placement::is_terminal;
use kerf_referee::ports::{HostPort, host_ports};
use kerf_referee::resources::pod_requests;
use kerf_referee::selectors::Labels;
use kerf_referee::storage::volume_claim_names;
use serde::Deserialize;
use smol_str::{SmolStr, format_smolstr};

use super::amounts::{Amounts, CPU, MEMORY, ResourceNames};
use super::classes::{ClassIx, PodClasses};

/// The `schedulerName` of the pods that this scheduler handles.
pub(super) const SCHEDULER_NAME: &str = "default-scheduler";

/// Requests that scoring assumes for containers without requests: 0.1 CPU and 200 MiB.
const DEFAULT_NONZERO_REQUESTS: [(&str, &str); 2] = [("cpu", "100m"), ("memory", "200Mi")];

/// `namespace/name`.
pub(super) type PodKey = SmolStr;

#[derive(Clone, Debug)]
pub(super) struct PodInfo {
    pub(super) key: PodKey,
    pub(super) uid: SmolStr,
    /// The pod's `resourceVersion`.
    pub(super) version: SmolStr,
    pub(super) class: ClassIx,
    pub(super) requests: Amounts,
    /// CPU and memory for scoring, with defaults for containers that request none.
    pub(super) nonzero_requests: [i64; 2],
    pub(super) ports: Box<[HostPort]>,
    /// Names of its `PersistentVolumeClaim`s.
    pub(super) claims: Box<[SmolStr]>,
    pub(super) priority: i32,
    pub(super) started: Option<Timestamp>,
    pub(super) is_deleting: bool,
    /// True if the pod is being deleted because of preemption.
    pub(super) is_preempted: bool,
    /// True if the pod has succeeded or failed.
    pub(super) is_terminal: bool,
    pub(super) node: Option<SmolStr>,
    pub(super) nominated_node: Option<SmolStr>,
    /// The whole pod, if it has no node, has not ended, and belongs to this scheduler.
    pub(super) unscheduled_pod: Option<Arc<Pod>>,
}

/// The fields of a pod that are decoded. Managed fields, which are the largest part, are skipped.
#[derive(Deserialize)]
struct StoredPod {
    metadata: StoredPodMeta,
    spec: PodSpec,
    #[serde(default)]
    status: StoredPodStatus,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct StoredPodMeta {
    name: String,
    namespace: String,
    uid: String,
    resource_version: String,
    generation: Option<i64>,
    labels: Option<Labels>,
    creation_timestamp: Option<Time>,
    deletion_timestamp: Option<Time>,
    owner_references: Option<Vec<OwnerReference>>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct StoredPodStatus {
    phase: Option<String>,
    conditions: Option<Vec<PodCondition>>,
    nominated_node_name: Option<String>,
    start_time: Option<Time>,
    container_statuses: Option<Vec<ContainerStatus>>,
    init_container_statuses: Option<Vec<ContainerStatus>>,
}

impl StoredPod {
    fn into_pod(self) -> Pod {
        let meta = self.metadata;
        Pod {
            metadata: ObjectMeta {
                name: Some(meta.name),
                namespace: Some(meta.namespace),
                uid: Some(meta.uid),
                resource_version: Some(meta.resource_version),
                generation: meta.generation,
                labels: meta.labels,
                creation_timestamp: meta.creation_timestamp,
                deletion_timestamp: meta.deletion_timestamp,
                owner_references: meta.owner_references,
                ..ObjectMeta::default()
            },
            spec: Some(self.spec),
            status: Some(PodStatus {
                phase: self.status.phase,
                conditions: self.status.conditions,
                nominated_node_name: self.status.nominated_node_name,
                start_time: self.status.start_time,
                container_statuses: self.status.container_statuses,
                init_container_statuses: self.status.init_container_statuses,
                ..PodStatus::default()
            }),
        }
    }
}

/// Decodes a stored pod. Returns `None` if it cannot be decoded, which does not happen for objects
/// that the API server stored.
pub(super) fn decode_pod(bytes: &[u8]) -> Option<Pod> {
    serde_json::from_slice::<StoredPod>(bytes).ok().map(StoredPod::into_pod)
}

impl PodInfo {
    /// Builds the entry of a pod and adds the pod to its class.
    pub(super) fn new(pod: Pod, names: &mut ResourceNames, classes: &mut PodClasses) -> Self {
        let meta = &pod.metadata;
        let namespace = meta.namespace.as_deref().unwrap_or("default");
        let labels = kerf_referee::selectors::pod_labels(&pod);
        let spec = pod.spec.as_ref();
        let status = pod.status.as_ref();
        let text = |text: Option<&String>| text.filter(|text| !text.is_empty()).map(SmolStr::from);
        let node = text(spec.and_then(|spec| spec.node_name.as_ref()));
        let is_handled =
            spec.and_then(|spec| spec.scheduler_name.as_deref()).unwrap_or(SCHEDULER_NAME) == SCHEDULER_NAME;
        let is_terminal = is_terminal(&pod);
        let claims: Box<[SmolStr]> = volume_claim_names(&pod).into_iter().map(SmolStr::from).collect();
        let conditions = status.and_then(|status| status.conditions.as_deref()).unwrap_or_default();
        let is_preempted = conditions.iter().any(|condition| {
            condition.type_ == "DisruptionTarget"
                && condition.status == "True"
                && condition.reason.as_deref() == Some("PreemptionByScheduler")
        });
        let mut info = Self {
            key: format_smolstr!("{namespace}/{}", meta.name.as_deref().unwrap_or_default()),
            uid: meta.uid.as_deref().unwrap_or_default().into(),
            version: meta.resource_version.as_deref().unwrap_or_default().into(),
            class: classes.acquire(namespace, labels, spec.and_then(|spec| spec.affinity.as_ref())),
            requests: names.amounts_of(&pod_requests(&pod)),
            nonzero_requests: nonzero_requests(&pod, names),
            ports: ports(&pod),
            claims,
            priority: spec.and_then(|spec| spec.priority).unwrap_or_default(),
            started: status.and_then(|status| status.start_time.as_ref()).map(|time| time.0),
            is_deleting: meta.deletion_timestamp.is_some(),
            is_preempted,
            is_terminal,
            nominated_node: text(status.and_then(|status| status.nominated_node_name.as_ref())),
            node,
            unscheduled_pod: None,
        };
        if info.node.is_none() && is_handled && !is_terminal {
            info.unscheduled_pod = Some(Arc::new(pod));
        }
        info
    }

    pub(super) fn namespace(&self) -> &str {
        self.key.split_once('/').map_or("", |(namespace, _)| namespace)
    }

    pub(super) fn name(&self) -> &str {
        self.key.split_once('/').map_or("", |(_, name)| name)
    }

    /// Returns the sort key for preemption. A pod with a greater key is more important: its
    /// priority is higher, or it started earlier.
    pub(super) fn importance(&self) -> (i32, std::cmp::Reverse<Timestamp>) {
        // A pod that has not started counts as starting now, which is later than any start.
        (self.priority, std::cmp::Reverse(self.started.unwrap_or(Timestamp::MAX)))
    }
}

/// Returns the names of the scheduling gates of a pod. A pod with a gate is not scheduled.
pub(super) fn gates(pod: &Pod) -> impl Iterator<Item = &str> {
    let gates = pod.spec.as_ref().and_then(|spec| spec.scheduling_gates.as_deref()).unwrap_or_default();
    gates.iter().map(|gate| gate.name.as_str())
}

/// Returns the host ports of a pod: those of its containers and of its sidecars, which are the init
/// containers that keep running.
fn ports(pod: &Pod) -> Box<[HostPort]> {
    let mut ports = host_ports(pod);
    let init = pod.spec.iter().flat_map(|spec| spec.init_containers.iter().flatten());
    let sidecars: Vec<Container> =
        init.filter(|container| container.restart_policy.as_deref() == Some("Always")).cloned().collect();
    if !sidecars.is_empty() {
        let spec = PodSpec { containers: sidecars, ..PodSpec::default() };
        ports.extend(host_ports(&Pod { spec: Some(spec), ..Pod::default() }));
    }
    ports.into()
}

/// Returns CPU and memory of a pod, with defaults for containers that request none.
fn nonzero_requests(pod: &Pod, names: &mut ResourceNames) -> [i64; 2] {
    let lacks_requests = |container: &Container| {
        let requests = container.resources.as_ref().and_then(|resources| resources.requests.as_ref());
        DEFAULT_NONZERO_REQUESTS.iter().any(|(name, _)| requests.is_none_or(|requests| !requests.contains_key(*name)))
    };
    let spec = pod.spec.as_ref();
    let mut containers =
        spec.into_iter().flat_map(|spec| spec.containers.iter().chain(spec.init_containers.iter().flatten()));
    let amounts = if containers.any(lacks_requests) {
        let mut with_defaults = pod.clone();
        if let Some(spec) = &mut with_defaults.spec {
            for container in spec.containers.iter_mut().chain(spec.init_containers.iter_mut().flatten()) {
                let requests = container.resources.get_or_insert_default().requests.get_or_insert_default();
                for (name, amount) in DEFAULT_NONZERO_REQUESTS {
                    requests.entry(name.to_owned()).or_insert_with(|| Quantity(amount.to_owned()));
                }
            }
        }
        names.amounts_of(&pod_requests(&with_defaults))
    } else {
        names.amounts_of(&pod_requests(pod))
    };
    [amounts.get(CPU), amounts.get(MEMORY)]
}
