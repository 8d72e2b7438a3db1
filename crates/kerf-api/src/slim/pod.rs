//! Pods: what they ask for, where they may run, and how far they are.

use jiff::Timestamp;
use serde::Deserialize;

use super::meta::{Labels, ObjectMeta, ResourceList, Str};
use super::node::TaintEffect;
pub use crate::requirement::Operator as NodeSelectorOperator;

/// A pod.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Pod {
    /// Names, labels, owners.
    pub metadata: ObjectMeta,
    /// What is asked for.
    pub spec: PodSpec,
    /// What has become of it.
    pub status: PodStatus,
}

impl Pod {
    /// `namespace/name`.
    pub fn namespaced_name(&self) -> Str {
        self.metadata.namespaced_name()
    }

    /// Whether the pod has ended, well or badly.
    pub fn is_terminal(&self) -> bool {
        matches!(self.status.phase, PodPhase::Succeeded | PodPhase::Failed)
    }

    /// Whether the pod has been told to go.
    pub fn is_terminating(&self) -> bool {
        self.metadata.is_terminating()
    }

    /// Whether a daemon set owns the pod.
    pub fn is_owned_by_daemonset(&self) -> bool {
        self.metadata.is_owned_by("apps/v1", "DaemonSet")
    }

    /// Whether a stateful set owns the pod.
    pub fn is_owned_by_statefulset(&self) -> bool {
        self.metadata.is_owned_by("apps/v1", "StatefulSet")
    }

    /// Whether the pod is the shadow of a static pod on a node.
    pub fn is_mirror(&self) -> bool {
        self.metadata.is_owned_by("v1", "Node")
    }

    /// The condition of that type.
    pub fn condition(&self, kind: &str) -> Option<&PodCondition> {
        self.status.conditions.iter().find(|condition| condition.condition_type == kind)
    }
}

/// The part of a pod's spec that decisions read.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct PodSpec {
    /// The node that the pod is bound to.
    pub node_name: Option<Str>,
    /// Labels that the node must carry.
    pub node_selector: Labels,
    /// Node affinity, pod affinity and anti-affinity.
    pub affinity: Option<Box<Affinity>>,
    /// Taints that the pod puts up with.
    pub tolerations: Vec<Toleration>,
    /// How evenly pods like this one must be spread.
    pub topology_spread_constraints: Vec<TopologySpreadConstraint>,
    /// Containers, for their resources and host ports.
    pub containers: Vec<Container>,
    /// Init containers and sidecars, for their resources.
    pub init_containers: Vec<Container>,
    /// What the runtime class adds to the requests.
    pub overhead: ResourceList,
    /// Requests on the level of the pod.
    pub pod_requests: ResourceList,
    /// Volumes that are backed by persistent volume claims.
    pub volumes: Vec<PodVolume>,
    /// The number behind the priority class.
    pub priority: Option<i32>,
    /// Whether the priority class is one of the two that keep a cluster running; such pods are drained last.
    pub is_critical: bool,
    /// How long the pod may take to end.
    pub termination_grace_period_seconds: Option<i64>,
    /// Whether the pod lists DRA resource claims, on itself or on a container.
    pub has_resource_claims: bool,
    /// Whether scheduling gates hold the pod back.
    pub is_gated: bool,
}

/// A container's resources and host ports.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct Container {
    /// Its name, by which its status is found.
    pub name: Str,
    /// Requests and limits, and whether the container names DRA claims.
    pub resources: ContainerResources,
    /// Ports opened on the host; others are dropped.
    pub ports: Vec<HostPort>,
    /// `Always` makes an init container a sidecar.
    pub is_sidecar: bool,
}

/// `resources` of a container.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct ContainerResources {
    /// What is reserved.
    pub requests: ResourceList,
    /// What is the most.
    pub limits: ResourceList,
    /// Whether the container uses DRA claims.
    pub has_claims: bool,
}

/// A port that a container opens on the host.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct HostPort {
    /// Address, `0.0.0.0` when not given.
    pub ip: Str,
    /// Port number.
    pub port: i32,
    /// `TCP`, `UDP` or `SCTP`.
    pub protocol: Str,
}

/// A volume that is backed by a persistent volume claim.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct PodVolume {
    /// The volume's name in the pod.
    pub name: Str,
    /// Where its claim comes from.
    pub source: VolumeClaimSource,
}

/// How a pod's volume names its claim.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum VolumeClaimSource {
    /// `persistentVolumeClaim.claimName`
    Claim(Str),
    /// `ephemeral`: the claim is named `<pod>-<volume>`
    Ephemeral,
}

/// `spec.affinity`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct Affinity {
    /// Which nodes.
    pub node_affinity: NodeAffinity,
    /// Near which pods.
    pub pod_affinity: PodAffinity,
    /// Away from which pods.
    pub pod_anti_affinity: PodAffinity,
}

/// Node affinity, required and preferred.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct NodeAffinity {
    /// Alternatives of which one must hold; `None` when there is no requirement at all.
    pub required: Option<Vec<NodeSelectorTerm>>,
    /// Wishes with weights.
    pub preferred: Vec<PreferredSchedulingTerm>,
}

/// One alternative of a node selector: all expressions must hold.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct NodeSelectorTerm {
    /// Expressions on labels.
    pub match_expressions: Vec<NodeSelectorRequirement>,
    /// Expressions on fields (`metadata.name`).
    pub match_fields: Vec<NodeSelectorRequirement>,
}

/// One expression of a node selector or of a node pool.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct NodeSelectorRequirement {
    /// Label key.
    pub key: Str,
    /// How values are compared.
    pub operator: NodeSelectorOperator,
    /// Values.
    pub values: Vec<Str>,
}

/// A preferred node selector term.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct PreferredSchedulingTerm {
    /// 1 to 100.
    pub weight: i32,
    /// The wish.
    pub preference: NodeSelectorTerm,
}

/// Pod affinity or anti-affinity, required and preferred.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct PodAffinity {
    /// All of these must hold.
    pub required: Vec<PodAffinityTerm>,
    /// Wishes with weights.
    pub preferred: Vec<WeightedPodAffinityTerm>,
}

/// A preferred pod (anti-)affinity term.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct WeightedPodAffinityTerm {
    /// 1 to 100.
    pub weight: i32,
    /// The wish.
    pub pod_affinity_term: PodAffinityTerm,
}

/// One pod (anti-)affinity term. `matchLabelKeys` and `mismatchLabelKeys` need no field: the API server has already merged
/// them into the selector.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct PodAffinityTerm {
    /// Which pods; without a selector, none.
    pub label_selector: Option<LabelSelector>,
    /// Namespaces by name.
    pub namespaces: Vec<Str>,
    /// Namespaces by label; an empty selector means all.
    pub namespace_selector: Option<LabelSelector>,
    /// The node label whose values are the domains.
    pub topology_key: Str,
}

/// A topology spread constraint.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct TopologySpreadConstraint {
    /// The most by which a domain may exceed the least filled one.
    pub max_skew: i32,
    /// The node label whose values are the domains.
    pub topology_key: Str,
    /// Whether it is a must.
    pub when_unsatisfiable: WhenUnsatisfiable,
    /// Which pods are counted; without a selector, none.
    pub label_selector: Option<LabelSelector>,
    /// Fewer domains than this count as a minimum of zero.
    pub min_domains: Option<i32>,
    /// Whether nodes that the pod's node affinity excludes count.
    pub node_affinity_policy: Option<NodeInclusionPolicy>,
    /// Whether nodes whose taints the pod does not tolerate count.
    pub node_taints_policy: Option<NodeInclusionPolicy>,
    /// Label keys whose value on the pod is added to the selector.
    pub match_label_keys: Vec<Str>,
}

/// What to do when a spread cannot be kept.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Deserialize)]
pub enum WhenUnsatisfiable {
    /// The pod waits.
    #[default]
    DoNotSchedule,
    /// The pod runs all the same.
    ScheduleAnyway,
}

/// Whether a rule is taken into account when nodes are counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Deserialize)]
pub enum NodeInclusionPolicy {
    /// Nodes that break the rule are left out.
    Honor,
    /// The rule plays no part.
    Ignore,
}

/// A label selector: all parts must hold; without parts it selects everything.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct LabelSelector {
    /// Exact labels.
    pub match_labels: Labels,
    /// Expressions.
    pub match_expressions: Vec<LabelSelectorRequirement>,
}

/// One expression of a label selector.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct LabelSelectorRequirement {
    /// Label key.
    pub key: Str,
    /// How values are compared.
    pub operator: LabelSelectorOperator,
    /// Values.
    pub values: Vec<Str>,
}

/// Operators of label selectors.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, Deserialize)]
#[serde(from = "Str")]
pub enum LabelSelectorOperator {
    /// One of the values.
    #[default]
    In,
    /// None of the values, or no such label.
    NotIn,
    /// Any value.
    Exists,
    /// No such label.
    DoesNotExist,
    /// Something that is no operator: the selector selects nothing.
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

/// A toleration.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct Toleration {
    /// Taint key; empty with `Exists` means every taint.
    pub key: Str,
    /// How the value is compared.
    pub operator: TolerationOperator,
    /// Value to compare with.
    pub value: Str,
    /// Effect; none means every effect.
    pub effect: Option<TaintEffect>,
    /// How long an evicting taint is put up with.
    pub toleration_seconds: Option<i64>,
}

/// Operators of tolerations.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, Deserialize)]
#[serde(from = "Str")]
pub enum TolerationOperator {
    /// The value is the same.
    #[default]
    Equal,
    /// Any value.
    Exists,
    /// The taint's integer is below the toleration's.
    Lt,
    /// The taint's integer is above the toleration's.
    Gt,
    /// Something that is no operator: nothing is tolerated.
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

/// The part of a pod's status that decisions read.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PodStatus {
    /// How far the pod is.
    pub phase: PodPhase,
    /// Conditions; only `PodScheduled`, `Ready` and `PodResizePending` are kept.
    pub conditions: Vec<PodCondition>,
    /// Set while the pod preempts others.
    pub nominated_node_name: Option<Str>,
    /// When the kubelet took the pod on.
    pub start_time: Option<Timestamp>,
    /// Containers for which the kubelet says other resources than the spec.
    pub container_statuses: Vec<ContainerStatus>,
    /// The same for init containers.
    pub init_container_statuses: Vec<ContainerStatus>,
}

/// `status.phase` of a pod.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Deserialize)]
#[serde(from = "Str")]
pub enum PodPhase {
    /// Not running yet, or phase not set.
    #[default]
    Pending,
    /// At least one container runs.
    Running,
    /// Ended well.
    Succeeded,
    /// Ended badly.
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

/// A condition of a pod.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PodCondition {
    /// Type.
    pub condition_type: Str,
    /// `True`, `False` or `Unknown`.
    pub status: Str,
    /// Machine-readable cause.
    pub reason: Str,
    /// When the status last changed.
    pub last_transition_time: Option<Timestamp>,
}

/// What the kubelet says of a container whose resources differ from its spec.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ContainerStatus {
    /// The container's name.
    pub name: Str,
    /// Whether the status names `resources` at all; without them the spec alone counts.
    pub has_resources: bool,
    /// Requests in force.
    pub requests: ResourceList,
    /// Requests that the node has set aside.
    pub allocated: ResourceList,
}
