//! Workloads and other objects about pods: DaemonSets, replica owners, disruption budgets,
//! services, namespaces.

use super::meta::{Labels, ObjectMeta, Str};
use super::pod::{LabelSelector, PodSpec};

/// Template from which a controller creates pods.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PodTemplate {
    /// Labels and annotations of the pods.
    pub metadata: ObjectMeta,
    /// Spec of the pods.
    pub spec: PodSpec,
}

/// DaemonSet, reduced to what decisions read.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DaemonSet {
    /// Name and namespace.
    pub metadata: ObjectMeta,
    /// Template of its pods.
    pub template: PodTemplate,
}

/// ReplicaSet, StatefulSet or `ReplicationController`, reduced to what decisions read.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ReplicaOwner {
    /// Name and namespace.
    pub metadata: ObjectMeta,
    /// Kind, for example `ReplicaSet`. Empty if the object was an item of a list, because such
    /// items have no `kind`.
    pub kind: Str,
    /// Selects the pods of the owner.
    pub selector: LabelSelector,
}

/// Service, for default spread constraints.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Service {
    /// Name and namespace.
    pub metadata: ObjectMeta,
    /// Selects the pods of the service. `None` selects no pod.
    pub selector: Option<Labels>,
}

/// Namespace, reduced to what decisions read.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Namespace {
    /// Name and labels.
    pub metadata: ObjectMeta,
}

/// PodDisruptionBudget, reduced to what decisions read.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PodDisruptionBudget {
    /// Name and namespace.
    pub metadata: ObjectMeta,
    /// Selects the protected pods. `None` selects no pod.
    pub selector: Option<LabelSelector>,
    /// Smallest number of pods that must remain available.
    pub min_available: Option<IntOrPercent>,
    /// Largest number of pods that may be unavailable.
    pub max_unavailable: Option<IntOrPercent>,
    /// True if pods that are not ready may always be evicted (`AlwaysAllow`).
    pub always_allow_unhealthy: bool,
    /// `status.disruptionsAllowed`; `None` if no controller has written it.
    pub disruptions_allowed: Option<i32>,
    /// Names of the pods in `status.disruptedPods`: evicted, and counted in `disruptions_allowed`.
    pub disrupted_pods: Vec<Str>,
}

/// Number or percentage of pods.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum IntOrPercent {
    /// Absolute number.
    Int(i32),
    /// Percentage.
    Percent(i32),
    /// Neither a number nor a percentage. It is reported where it is used.
    Invalid(Str),
}
