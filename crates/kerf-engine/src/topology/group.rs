//! Topology groups: the pods that a group counts, the node label whose values are its domains, the
//! nodes that it includes, and the kind of rule.

use kerf_api::slim::{LabelSelector, Labels, Str, Taint, Toleration};

use super::keys::TopologyKeyIx;
use crate::pod::selector;
use crate::pod::tolerations::tolerates_all;
use crate::requirement::Requirement;
use crate::requirement_table::{RequirementSetIx, RequirementTable, UndefinedKeys};

/// Index of a group in `SchedulingProblem::groups`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct GroupIx(pub(crate) usize);

/// Index of a node filter in `SchedulingProblem::filters`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct FilterIx(pub(crate) usize);

/// The rule of a group. Equal rules share one group.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct GroupIdentity {
    pub(crate) kind: GroupKind,
    pub(crate) key: GroupKey,
    /// `None` means every namespace.
    pub(crate) namespaces: Option<Vec<Str>>,
    /// In canonical form. `None` selects no pod.
    pub(crate) selector: Option<LabelSelector>,
    pub(crate) filter: NodeFilter,
    /// If set, only pools whose taints these tolerate offer domains to the group. `None` means all
    /// pools.
    pub(crate) pool_tolerations: Option<Vec<Toleration>>,
}

/// The kind of rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum GroupKind {
    Spread {
        max_skew: i32,
        min_domains: Option<i32>,
    },
    Affinity,
    AntiAffinity,
    /// Pods that the required anti-affinity of other pods keeps away. Counts are where the owners
    /// of the rule run; the selector selects the pods to keep away.
    InverseAntiAffinity,
}

/// The node label whose values are the domains of a group.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum GroupKey {
    Hostname,
    Label(TopologyKeyIx),
}

/// The nodes on which pods count for a spread (spec 02 §8.4). Affinity groups accept all nodes.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub(crate) struct NodeFilter {
    /// The node must be strictly compatible with one of these. `None` ignores node affinity.
    pub(crate) affinity: Option<Vec<(RequirementSetIx, Option<Requirement>)>>,
    /// These must tolerate the node's taints. `None` ignores taints.
    pub(crate) tolerations: Option<Vec<Toleration>>,
}

/// A topology group.
#[derive(Debug, Clone)]
pub(crate) struct Group {
    pub(crate) identity: GroupIdentity,
    /// Hash of the names in the rule, to decide ties between domains.
    pub(crate) tie_break: u64,
    pub(crate) filter: FilterIx,
    /// Index into `SchedulingProblem::node_count_keys`. `None` for the hostname.
    pub(crate) node_counts_ix: Option<usize>,
}

impl Group {
    /// Returns true if the group counts pods with these labels in this namespace.
    pub(crate) fn selects(&self, namespace: &Str, labels: &Labels) -> bool {
        self.identity.namespaces.as_ref().is_none_or(|all| all.binary_search(namespace).is_ok())
            && self.identity.selector.as_ref().is_some_and(|s| selector::selects(s, labels))
    }

    pub(crate) fn constraint_name(&self) -> &'static str {
        match self.identity.kind {
            GroupKind::Spread { .. } => "topology spread",
            GroupKind::Affinity => "pod affinity",
            GroupKind::AntiAffinity | GroupKind::InverseAntiAffinity => "pod anti-affinity",
        }
    }
}

impl NodeFilter {
    /// Returns true if the filter excludes no node.
    pub(crate) fn accepts_all(&self) -> bool {
        self.affinity.is_none() && self.tolerations.is_none()
    }

    /// Returns true if the filter depends on the node's hostname.
    pub(crate) fn has_hostname_rule(&self) -> bool {
        self.affinity.iter().flatten().any(|(_, host)| host.is_some())
    }

    /// Returns true if pods count on a node with these labels and taints. `hostname` is `None` for
    /// a node that does not exist yet.
    pub(crate) fn accepts(
        &self,
        labels: RequirementSetIx,
        hostname: Option<&str>,
        taints: &[Taint],
        table: &mut RequirementTable,
    ) -> bool {
        let has_untolerated_taint = self.tolerations.as_ref().is_some_and(|t| !tolerates_all(t, taints));
        if has_untolerated_taint {
            return false;
        }
        self.affinity.as_ref().is_none_or(|alternatives| {
            alternatives.iter().any(|(required, host)| {
                host.as_ref().is_none_or(|h| hostname.is_some_and(|name| h.has(name)))
                    && table.intersect_sets(labels, *required, UndefinedKeys::Reject).is_some()
            })
        })
    }
}
