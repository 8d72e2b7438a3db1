//! The Kubernetes objects that Kerf watches, cut down to the fields that some decision reads.
//!
//! A cluster of 100,000 pods is held in memory several times over if whole objects are kept; these types keep about a
//! kilobyte of a pod. They are decoded straight from the JSON that the API server sends, skip what they do not know,
//! and are what the engine takes as input: there is no second model of a pod. `kerf-state` keeps them, and nobody writes
//! them back: a writer patches the field it means.

mod decode;
mod meta;
mod node;
mod pod;
mod storage;
#[cfg(test)]
mod tests;
mod workload;

pub use meta::{Labels, ObjectMeta, OwnerReference, ResourceList, Str};
pub use node::{Node, NodeCondition, NodeSpec, NodeStatus, Taint, TaintEffect};
pub use pod::{
    Affinity, Container, ContainerResources, ContainerStatus, HostPort, LabelSelector, LabelSelectorOperator,
    LabelSelectorRequirement, NodeAffinity, NodeInclusionPolicy, NodeSelectorOperator, NodeSelectorRequirement,
    NodeSelectorTerm, Pod, PodAffinity, PodAffinityTerm, PodCondition, PodPhase, PodSpec, PodStatus, PodVolume,
    PreferredSchedulingTerm, Toleration, TolerationOperator, TopologySpreadConstraint, VolumeClaimSource,
    WeightedPodAffinityTerm, WhenUnsatisfiable,
};
pub use storage::{
    CsiNode, CsiNodeDriver, PersistentVolume, PersistentVolumeClaim, StorageClass, VolumeAttachment, VolumeBindingMode,
};
pub use workload::{DaemonSet, IntOrPercent, Namespace, PodDisruptionBudget, PodTemplate, ReplicaOwner, Service};
