//! What stands behind pods: daemon sets, replica owners, disruption budgets, services, namespaces.

use super::meta::{Labels, ObjectMeta, Str};
use super::pod::{LabelSelector, PodSpec};

/// A pod template.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PodTemplate {
    /// Labels of the pods.
    pub metadata: ObjectMeta,
    /// Their spec.
    pub spec: PodSpec,
}

/// A daemon set.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DaemonSet {
    /// Names.
    pub metadata: ObjectMeta,
    /// What its pods look like.
    pub template: PodTemplate,
}

/// A replica set, stateful set or replication controller: who it is, and whom it selects.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ReplicaOwner {
    /// Names.
    pub metadata: ObjectMeta,
    /// Kind, for example `ReplicaSet`; empty when the object was an item of a list, which does not say.
    pub kind: Str,
    /// Whom it selects.
    pub selector: LabelSelector,
}

/// A service, for default spread constraints.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Service {
    /// Names.
    pub metadata: ObjectMeta,
    /// Whom it selects; none selects nobody.
    pub selector: Option<Labels>,
}

/// A namespace.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Namespace {
    /// Name and labels.
    pub metadata: ObjectMeta,
}

/// A pod disruption budget.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PodDisruptionBudget {
    /// Names.
    pub metadata: ObjectMeta,
    /// Whom it protects; none protects nobody.
    pub selector: Option<LabelSelector>,
    /// At least so many stay.
    pub min_available: Option<IntOrPercent>,
    /// At most so many go.
    pub max_unavailable: Option<IntOrPercent>,
    /// Whether pods that are not ready may always be evicted (`AlwaysAllow`).
    pub always_allow_unhealthy: bool,
    /// `status.disruptionsAllowed`; none when no controller has written it.
    pub disruptions_allowed: Option<i32>,
}

/// A count or a percentage.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum IntOrPercent {
    /// So many.
    Int(i32),
    /// So many of a hundred.
    Percent(i32),
    /// Neither; it is reported where it is used.
    Invalid(Str),
}
