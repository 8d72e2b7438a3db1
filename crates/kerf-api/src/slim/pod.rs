//! Pods: resource requests, scheduling constraints, status.

use jiff::Timestamp;
use serde::Deserialize;

use super::meta::{Labels, ObjectMeta, ResourceList, Str};
use super::node::TaintEffect;
pub use crate::requirement::Operator as NodeSelectorOperator;

/// Kubernetes Pod, reduced to what decisions read.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Pod {
    /// Name, labels, owners.
    pub metadata: ObjectMeta,
    /// Requests and scheduling constraints.
    pub spec: PodSpec,
    /// Phase, conditions and container statuses.
    pub status: PodStatus,
}

impl Pod {
    /// Returns `namespace/name`.
    pub fn namespaced_name(&self) -> Str {
        self.metadata.namespaced_name()
    }

    /// Returns true if the pod has succeeded or failed.
    pub fn is_terminal(&self) -> bool {
        matches!(self.status.phase, PodPhase::Succeeded | PodPhase::Failed)
    }

    /// Returns true if deletion of the pod was requested.
    pub fn is_terminating(&self) -> bool {
        self.metadata.is_terminating()
    }

    /// Returns true if a DaemonSet owns the pod.
    pub fn is_owned_by_daemonset(&self) -> bool {
        self.metadata.is_owned_by("apps/v1", "DaemonSet")
    }

    /// Returns true if a StatefulSet owns the pod.
    pub fn is_owned_by_statefulset(&self) -> bool {
        self.metadata.is_owned_by("apps/v1", "StatefulSet")
    }

    /// Returns true if the pod is the mirror of a static pod on a node.
    pub fn is_mirror(&self) -> bool {
        self.metadata.is_owned_by("v1", "Node")
    }

    /// Returns the condition of a type. Returns `None` if it is absent.
    pub fn condition(&self, condition_type: &str) -> Option<&PodCondition> {
        self.status.conditions.iter().find(|condition| condition.condition_type == condition_type)
    }
}

/// Part of a pod's spec that decisions read.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct PodSpec {
    /// Node that the pod is bound to; `None` if it is not scheduled.
    pub node_name: Option<Str>,
    /// Labels that the node must have.
    pub node_selector: Labels,
    /// Node affinity, pod affinity and anti-affinity.
    pub affinity: Option<Box<Affinity>>,
    /// Taints that the pod tolerates.
    pub tolerations: Vec<Toleration>,
    /// Topology spread constraints of the pod.
    pub topology_spread_constraints: Vec<TopologySpreadConstraint>,
    /// Containers, for their resources and host ports.
    pub containers: Vec<Container>,
    /// Init containers and sidecars, for their resources.
    pub init_containers: Vec<Container>,
    /// Overhead of the runtime class, added to the requests.
    pub overhead: ResourceList,
    /// Pod-level requests.
    pub pod_requests: ResourceList,
    /// Volumes with a PersistentVolumeClaim.
    pub volumes: Vec<PodVolume>,
    /// Numeric priority of the pod's priority class.
    pub priority: Option<i32>,
    /// True if the priority class is `system-cluster-critical` or `system-node-critical`. Such pods
    /// are drained last.
    pub is_critical: bool,
    /// Time that the pod may take to terminate, in seconds.
    pub termination_grace_period_seconds: Option<i64>,
    /// True if the pod or one of its containers lists DRA resource claims.
    pub has_resource_claims: bool,
    /// True if the pod has scheduling gates.
    pub is_gated: bool,
}

/// Resources and host ports of a container.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct Container {
    /// Name, by which the container's status is found.
    pub name: Str,
    /// Requests, limits and use of DRA claims.
    pub resources: ContainerResources,
    /// Ports opened on the host; other ports are dropped.
    pub ports: Vec<HostPort>,
    /// True for a sidecar: an init container with `restartPolicy: Always`.
    pub is_sidecar: bool,
}

/// Requests, limits and claims under `resources` of a container.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct ContainerResources {
    /// Resources that are reserved.
    pub requests: ResourceList,
    /// Upper bounds on the resources.
    pub limits: ResourceList,
    /// True if the container uses DRA claims.
    pub has_claims: bool,
}

/// Port that a container opens on the host.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct HostPort {
    /// Host address; `0.0.0.0` if not given.
    pub ip: Str,
    /// Port number on the host.
    pub port: i32,
    /// `TCP`, `UDP` or `SCTP`.
    pub protocol: Str,
}

/// Volume with a PersistentVolumeClaim.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct PodVolume {
    /// Name of the volume in the pod.
    pub name: Str,
    /// Source of the claim's name.
    pub source: VolumeClaimSource,
}

/// Source of the name of a volume's PersistentVolumeClaim.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum VolumeClaimSource {
    /// Claim named in `persistentVolumeClaim.claimName`.
    Claim(Str),
    /// `ephemeral` volume, whose claim is named `<pod>-<volume>`.
    Ephemeral,
}

/// `spec.affinity` of a pod.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct Affinity {
    /// Nodes that the pod requires or prefers.
    pub node_affinity: NodeAffinity,
    /// Pods near which the pod must or should run.
    pub pod_affinity: PodAffinity,
    /// Pods away from which the pod must or should run.
    pub pod_anti_affinity: PodAffinity,
}

/// Node affinity, required and preferred.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct NodeAffinity {
    /// Alternatives, of which at least one must match. `None` means no requirement.
    pub required: Option<Vec<NodeSelectorTerm>>,
    /// Preferences with weights.
    pub preferred: Vec<PreferredSchedulingTerm>,
}

/// One alternative of a node selector. All its expressions must match.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct NodeSelectorTerm {
    /// Expressions on labels.
    pub match_expressions: Vec<NodeSelectorRequirement>,
    /// Expressions on fields (`metadata.name`).
    pub match_fields: Vec<NodeSelectorRequirement>,
}

/// Expression of a node selector or of a NodePool.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct NodeSelectorRequirement {
    /// Label key.
    pub key: Str,
    /// Relation between the label and the values.
    pub operator: NodeSelectorOperator,
    /// Values of the operator.
    pub values: Vec<Str>,
}

/// Preferred node selector term.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct PreferredSchedulingTerm {
    /// Weight from 1 to 100.
    pub weight: i32,
    /// Preferred nodes.
    pub preference: NodeSelectorTerm,
}

/// Pod affinity or anti-affinity, required and preferred.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct PodAffinity {
    /// Terms that must all match.
    pub required: Vec<PodAffinityTerm>,
    /// Preferences with weights.
    pub preferred: Vec<WeightedPodAffinityTerm>,
}

/// Preferred pod (anti-)affinity term.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct WeightedPodAffinityTerm {
    /// Weight from 1 to 100.
    pub weight: i32,
    /// Preferred term.
    pub pod_affinity_term: PodAffinityTerm,
}

/// Pod (anti-)affinity term. It needs no fields for `matchLabelKeys` and `mismatchLabelKeys`,
/// because the API server merges them into the selector.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct PodAffinityTerm {
    /// Selects pods. `None` selects no pod.
    pub label_selector: Option<LabelSelector>,
    /// Namespaces by name.
    pub namespaces: Vec<Str>,
    /// Namespaces by label; an empty selector selects all namespaces.
    pub namespace_selector: Option<LabelSelector>,
    /// Node label whose values are the domains.
    pub topology_key: Str,
}

/// Topology spread constraint of a pod.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct TopologySpreadConstraint {
    /// Largest allowed difference between the number of pods in a domain and in the domain with the
    /// fewest pods.
    pub max_skew: i32,
    /// Node label whose values are the domains.
    pub topology_key: Str,
    /// Required or preferred.
    pub when_unsatisfiable: WhenUnsatisfiable,
    /// Selects the pods that are counted. `None` selects no pod.
    pub label_selector: Option<LabelSelector>,
    /// If there are fewer domains than this, the minimum number of pods counts as zero.
    pub min_domains: Option<i32>,
    /// Handling of nodes that the pod's node affinity excludes.
    pub node_affinity_policy: Option<NodeInclusionPolicy>,
    /// Handling of nodes with taints that the pod does not tolerate.
    pub node_taints_policy: Option<NodeInclusionPolicy>,
    /// Label keys whose values on the pod are added to the selector.
    pub match_label_keys: Vec<Str>,
}

/// Behaviour if a spread constraint cannot be satisfied.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Deserialize)]
pub enum WhenUnsatisfiable {
    /// The pod stays pending.
    #[default]
    DoNotSchedule,
    /// The pod is scheduled nevertheless.
    ScheduleAnyway,
}

/// Handling of a rule when the nodes of a spread constraint are counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Deserialize)]
pub enum NodeInclusionPolicy {
    /// Nodes that violate the rule are not counted.
    Honor,
    /// The rule is ignored.
    Ignore,
}

/// Label selector. All parts must match; without parts it selects everything.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct LabelSelector {
    /// Labels with exact values.
    pub match_labels: Labels,
    /// Expressions on labels.
    pub match_expressions: Vec<LabelSelectorRequirement>,
}

/// Expression of a label selector.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct LabelSelectorRequirement {
    /// Label key.
    pub key: Str,
    /// Relation between the label and the values.
    pub operator: LabelSelectorOperator,
    /// Values of the operator.
    pub values: Vec<Str>,
}

/// Relation between a label and the values of a label selector.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, Deserialize)]
#[serde(from = "Str")]
pub enum LabelSelectorOperator {
    /// One of the values.
    #[default]
    In,
    /// None of the values, or the label is absent.
    NotIn,
    /// Any value.
    Exists,
    /// The label is absent.
    DoesNotExist,
    /// Unknown operator: the selector selects nothing.
    Unsupported(Str),
}

impl From<Str> for LabelSelectorOperator {
    fn from(text: Str) -> Self {
        match text.as_str() {
            "In" => Self::In,
            "NotIn" => Self::NotIn,
            "Exists" => Self::Exists,
            "DoesNotExist" => Self::DoesNotExist,
            _ => Self::Unsupported(text),
        }
    }
}

/// Toleration of a pod.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct Toleration {
    /// Taint key; empty with `Exists` means every taint.
    pub key: Str,
    /// Relation between the taint's value and the toleration's value.
    pub operator: TolerationOperator,
    /// Value to compare with.
    pub value: Str,
    /// Effect; `None` means every effect.
    pub effect: Option<TaintEffect>,
    /// Seconds for which a `NoExecute` taint is tolerated; `None` means for ever.
    pub toleration_seconds: Option<i64>,
}

/// Relation between the values of a taint and of a toleration.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, Deserialize)]
#[serde(from = "Str")]
pub enum TolerationOperator {
    /// The values are equal.
    #[default]
    Equal,
    /// Any value.
    Exists,
    /// The taint's integer is less than the toleration's.
    Lt,
    /// The taint's integer is greater than the toleration's.
    Gt,
    /// Unknown operator: no taint is tolerated.
    Unsupported(Str),
}

impl From<Str> for TolerationOperator {
    fn from(text: Str) -> Self {
        match text.as_str() {
            "" | "Equal" => Self::Equal,
            "Exists" => Self::Exists,
            "Lt" => Self::Lt,
            "Gt" => Self::Gt,
            _ => Self::Unsupported(text),
        }
    }
}

/// Part of a pod's status that decisions read.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PodStatus {
    /// Phase of the pod's lifecycle.
    pub phase: PodPhase,
    /// Conditions; only `PodScheduled`, `Ready` and `PodResizePending` are kept.
    pub conditions: Vec<PodCondition>,
    /// Node for which the pod preempts other pods.
    pub nominated_node_name: Option<Str>,
    /// Time at which the kubelet accepted the pod.
    pub start_time: Option<Timestamp>,
    /// Containers for which the kubelet reports other resources than the spec.
    pub container_statuses: Vec<ContainerStatus>,
    /// Init containers for which the kubelet reports other resources than the spec.
    pub init_container_statuses: Vec<ContainerStatus>,
}

/// `status.phase` of a pod.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Deserialize)]
#[serde(from = "Str")]
pub enum PodPhase {
    /// Not running yet, or phase not set.
    #[default]
    Pending,
    /// At least one container is running.
    Running,
    /// All containers have succeeded.
    Succeeded,
    /// All containers have terminated, at least one with a failure.
    Failed,
    /// The kubelet cannot be reached.
    Unknown,
}

impl From<Str> for PodPhase {
    fn from(text: Str) -> Self {
        match text.as_str() {
            "Running" => Self::Running,
            "Succeeded" => Self::Succeeded,
            "Failed" => Self::Failed,
            "Unknown" => Self::Unknown,
            _ => Self::Pending,
        }
    }
}

/// Condition of a pod, reduced to what decisions read.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PodCondition {
    /// Type of the condition, such as `PodScheduled`.
    pub condition_type: Str,
    /// `True`, `False` or `Unknown`.
    pub status: Str,
    /// Machine-readable reason of the status.
    pub reason: Str,
    /// Time at which the status last changed.
    pub last_transition_time: Option<Timestamp>,
}

/// Resources that the kubelet reports for a container, if they differ from its spec.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ContainerStatus {
    /// Name of the container.
    pub name: Str,
    /// True if the status contains `resources`. Without them only the spec counts.
    pub has_resources: bool,
    /// Requests in force.
    pub requests: ResourceList,
    /// Requests that the node has allocated.
    pub allocated: ResourceList,
}
