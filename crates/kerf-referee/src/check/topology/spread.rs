//! Spread constraints that honour taints, and `PreferNoSchedule` taints.
//!
//! Karpenter treats `PreferNoSchedule` like other taints until a pod has given up all its other
//! preferences (spec 02 §6.4, step 6). So a pod on a node with such a taint that it does not
//! tolerate has accepted these taints, and its spread then counts nodes that have them.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::{Pod, Taint, TopologySpreadConstraint};

use super::PlacementTarget;
use crate::check::PoolDomains;
use crate::check::pool_domains::TaintPolicy;
use crate::taints::{prevents_scheduling, tolerates};

/// A spread constraint of a pod, with the domains that pools could offer to the pod.
#[derive(Debug)]
pub(super) struct SpreadRule<'w> {
    pub(super) constraint: &'w TopologySpreadConstraint,
    domains_with_all_taints: BTreeSet<String>,
    /// Domains that count once the pod has accepted `PreferNoSchedule` taints.
    domains_with_scheduling_taints: BTreeSet<String>,
}

impl<'w> SpreadRule<'w> {
    pub(super) fn new(pool_domains: &PoolDomains, constraint: &'w TopologySpreadConstraint, pod: &Pod) -> Self {
        let (initial, relaxed) = if honours_taints(constraint) {
            (TaintPolicy::HonourAll, TaintPolicy::HonourScheduling)
        } else {
            (TaintPolicy::Ignore, TaintPolicy::Ignore)
        };
        let domains = |taint_policy| pool_domains.domains(&constraint.topology_key, pod, taint_policy);
        Self { constraint, domains_with_all_taints: domains(initial), domains_with_scheduling_taints: domains(relaxed) }
    }

    /// Returns the domains that pools could offer to the pod under a policy.
    pub(super) fn offered_domains(&self, taint_policy: TaintPolicy) -> &BTreeSet<String> {
        match taint_policy {
            TaintPolicy::Ignore | TaintPolicy::HonourAll => &self.domains_with_all_taints,
            TaintPolicy::HonourScheduling => &self.domains_with_scheduling_taints,
        }
    }

    /// Returns the policy that applies if the pod is bound to this target.
    pub(super) fn taint_policy_at(&self, pod: &Pod, target: &PlacementTarget) -> TaintPolicy {
        let has_accepted =
            target.lasting_taints.iter().any(|taint| !prevents_scheduling(taint) && !tolerates(pod, taint));
        if !honours_taints(self.constraint) {
            TaintPolicy::Ignore
        } else if has_accepted {
            TaintPolicy::HonourScheduling
        } else {
            TaintPolicy::HonourAll
        }
    }
}

impl TaintPolicy {
    /// Returns true if the policy checks this taint. The result for `Ignore` has no effect,
    /// because such constraints do not honour taints.
    pub(super) fn honours(self, taint: &Taint) -> bool {
        match self {
            Self::Ignore | Self::HonourAll => true,
            Self::HonourScheduling => prevents_scheduling(taint),
        }
    }
}

fn honours_taints(constraint: &TopologySpreadConstraint) -> bool {
    constraint.node_taints_policy.as_deref() == Some("Honor")
}
