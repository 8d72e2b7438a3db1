//! A broken constraint.

use std::fmt;

/// What can be broken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum PlanRule {
    /// Every pending pod is placed once or explained, and nothing else is placed.
    Accounting,
    /// A pod that must not be planned for is placed.
    NotPlannable,
    /// A claim names a pool that cannot be used, or a type that does not exist.
    Claim,
    /// A listed type cannot be launched under the claim's and the pool's requirements.
    Requirements,
    /// A taint is not tolerated.
    Taints,
    /// A node is not one that the pod asks for.
    NodeAffinity,
    /// Pods and daemons do not fit.
    Resources,
    /// Two pods want one port of the host.
    HostPorts,
    /// A volume cannot be used there.
    Volumes,
    /// A driver has more volumes than it can attach.
    VolumeLimits,
    /// Pods are spread unevenly.
    TopologySpread,
    /// A pod is away from its companions.
    PodAffinity,
    /// Pods are together that must not be.
    PodAntiAffinity,
    /// A pool exceeds its limits.
    Limits,
    /// A claim's types offer too few values of a label.
    MinValues,
    /// More claims draw from a reservation than it has left.
    Reservation,
    /// The estimate is not the cheapest launch.
    Estimate,
    /// Types are not sorted by price.
    PriceOrder,
    /// The requests are not those of pods and daemons.
    Requests,
}

/// A broken constraint.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Violation {
    /// Which rule.
    pub rule: PlanRule,
    /// The pod that it is about, `namespace/name`.
    pub pod: Option<String>,
    /// The node that it is about: its name, or `claim <n> (<pool>)` for a new one.
    pub node: Option<String>,
    /// What exactly, with the numbers.
    pub detail: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.rule)?;
        if let Some(pod) = &self.pod {
            write!(f, ", pod {pod}")?;
        }
        if let Some(node) = &self.node {
            write!(f, ", on {node}")?;
        }
        write!(f, ": {}", self.detail)
    }
}
