//! Soft taints and spreads that mind taints. To Karpenter a soft taint is as hard as any other until a pod has given up all its other wishes
//! (spec 02 §6.4, step 6); so a pod on a node with a soft taint that it does not tolerate has accepted such taints, and from then on its
//! spread counts the nodes that have them.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::{Pod, Taint, TopologySpreadConstraint};

use super::PlacementTarget;
use crate::check::PoolDomains;
use crate::check::pool_domains::TaintPolicy;
use crate::taints::{prevents_scheduling, tolerates};

/// A pod's spread, and the domains that pools could offer to the pod.
#[derive(Debug)]
pub(super) struct SpreadRule<'w> {
    pub(super) constraint: &'w TopologySpreadConstraint,
    domains_with_all_taints: BTreeSet<String>,
    /// Once the pod has accepted soft taints.
    domains_with_scheduling_taints: BTreeSet<String>,
}

impl<'w> SpreadRule<'w> {
    pub(super) fn new(universe: &PoolDomains, constraint: &'w TopologySpreadConstraint, pod: &Pod) -> Self {
        let (first, end) = if honours_taints(constraint) {
            (TaintPolicy::AllTaints, TaintPolicy::SchedulingTaints)
        } else {
            (TaintPolicy::IgnoreTaints, TaintPolicy::IgnoreTaints)
        };
        let domains = |heed| universe.domains(&constraint.topology_key, pod, heed);
        Self { constraint, domains_with_all_taints: domains(first), domains_with_scheduling_taints: domains(end) }
    }

    /// The domains that could be offered to the pod.
    pub(super) fn offered_domains(&self, heed: TaintPolicy) -> &BTreeSet<String> {
        match heed {
            TaintPolicy::IgnoreTaints | TaintPolicy::AllTaints => &self.domains_with_all_taints,
            TaintPolicy::SchedulingTaints => &self.domains_with_scheduling_taints,
        }
    }

    /// What the pod minds if it goes to this place.
    pub(super) fn taint_policy_at(&self, pod: &Pod, place: &PlacementTarget) -> TaintPolicy {
        let has_accepted =
            place.lasting_taints.iter().any(|taint| !prevents_scheduling(taint) && !tolerates(pod, taint));
        if !honours_taints(self.constraint) {
            TaintPolicy::IgnoreTaints
        } else if has_accepted {
            TaintPolicy::SchedulingTaints
        } else {
            TaintPolicy::AllTaints
        }
    }
}

impl TaintPolicy {
    /// Whether such a taint matters.
    pub(super) fn honours(self, taint: &Taint) -> bool {
        match self {
            Self::IgnoreTaints | Self::AllTaints => true,
            Self::SchedulingTaints => prevents_scheduling(taint),
        }
    }
}

fn honours_taints(constraint: &TopologySpreadConstraint) -> bool {
    constraint.node_taints_policy.as_deref() == Some("Honor")
}
