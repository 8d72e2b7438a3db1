//! Kubernetes objects reduced to the fields that some decision reads.
//!
//! Keeping whole objects of 100,000 pods would need several times as much memory; these types need
//! about a kilobyte per pod. They are decoded directly from the API server's JSON and skip unknown
//! fields. `kerf-state` stores them and the engine takes them as input, so there is only one model
//! of a pod. They are never written back: a writer patches single fields.

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
