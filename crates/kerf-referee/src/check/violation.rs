//! A broken constraint of a plan.

use std::fmt;

/// The rules that a plan can break.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum PlanRule {
    /// A pending pod is neither placed nor explained, is placed twice, or a placed pod is not
    /// pending.
    Accounting,
    /// A pod is placed that must not be planned for.
    NotPlannable,
    /// A claim names a pool that cannot be used or a type that does not exist, or a node cannot be
    /// used.
    Claim,
    /// A listed type cannot be launched under the requirements of the claim and its pool.
    Requirements,
    /// A pod does not tolerate a taint.
    Taints,
    /// A node does not match a pod's node selector or node affinity.
    NodeAffinity,
    /// Pods and DaemonSet pods do not fit.
    Resources,
    /// Two pods on one node need the same host port.
    HostPorts,
    /// A volume cannot be used on the node.
    Volumes,
    /// A driver has more volumes than it can attach.
    VolumeLimits,
    /// A spread constraint's `maxSkew` is exceeded.
    TopologySpread,
    /// The domain has no pod that an affinity term selects.
    PodAffinity,
    /// The domain has a pod that an anti-affinity term excludes.
    PodAntiAffinity,
    /// A pool exceeds its limits.
    Limits,
    /// The types of a claim offer too few values of a label (`minValues`).
    MinValues,
    /// More claims use a reservation than it has free instances.
    Reservation,
    /// The estimate is not the cheapest launch.
    Estimate,
    /// Types are not sorted by price.
    PriceOrder,
    /// The requests are not those of the pods and DaemonSet pods.
    Requests,
}

/// A broken constraint.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Violation {
    /// The broken rule.
    pub rule: PlanRule,
    /// The pod concerned, `namespace/name`; `None` if no single pod is.
    pub pod: Option<String>,
    /// The node concerned: its name, or `claim <n> (<pool>)` for a new one. `None` if no single
    /// node is.
    pub node: Option<String>,
    /// Explanation with the numbers.
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
