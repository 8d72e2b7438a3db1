//! What a group is: which pods it counts, per which label, on which nodes, and what it allows.

use kerf_api::slim::{LabelSelector, Labels, Str, Taint, Toleration};

use super::keys::TopologyKeyIx;
use crate::pod::selector;
use crate::pod::tolerations::tolerates_all;
use crate::requirement::Requirement;
use crate::requirement_table::{RequirementSetIx, RequirementTable, UndefinedKeys};

/// A group of a problem.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct GroupIx(pub(crate) usize);

/// A filter of a problem.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct FilterIx(pub(crate) usize);

/// Everything that makes two constraints the same.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct GroupIdentity {
    pub(crate) kind: GroupKind,
    pub(crate) key: GroupKey,
    /// None means every namespace.
    pub(crate) namespaces: Option<Vec<Str>>,
    /// In canonical form; none selects nothing.
    pub(crate) selector: Option<LabelSelector>,
    pub(crate) filter: NodeFilter,
    /// Of the domains that pools offer, the group starts with those of pools whose taints these tolerate; none means all of them.
    pub(crate) pool_tolerations: Option<Vec<Toleration>>,
}

/// What kind of constraint it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum GroupKind {
    Spread {
        max_skew: i32,
        min_domains: Option<i32>,
    },
    Affinity,
    AntiAffinity,
    /// Anti-affinity seen from the other side: its owners keep the pods it selects away.
    InverseAntiAffinity,
}

/// The label that a group is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum GroupKey {
    Hostname,
    Label(TopologyKeyIx),
}

/// Which nodes count (spec 02 §8.4); affinity counts all.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub(crate) struct NodeFilter {
    /// Any one of these must be strictly compatible; none means that node affinity is ignored.
    pub(crate) affinity: Option<Vec<(RequirementSetIx, Option<Requirement>)>>,
    /// These must tolerate the node's taints; none means that taints are ignored.
    pub(crate) tolerations: Option<Vec<Toleration>>,
}

/// A group: its identity, and what turns ties between its domains.
#[derive(Debug, Clone)]
pub(crate) struct Group {
    pub(crate) identity: GroupIdentity,
    pub(crate) tie_break: u64,
    pub(crate) filter: FilterIx,
    /// Which nodes make its domains exist; none for the hostname.
    pub(crate) node_counts_ix: Option<usize>,
}

impl Group {
    /// Whether the group counts pods with these labels in this namespace.
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
    /// Whether no node is left out.
    pub(crate) fn accepts_all(&self) -> bool {
        self.affinity.is_none() && self.tolerations.is_none()
    }

    /// Whether it tells nodes apart by name.
    pub(crate) fn has_hostname_rule(&self) -> bool {
        self.affinity.iter().flatten().any(|(_, host)| host.is_some())
    }

    /// Whether pods on a node with these labels and taints count. `hostname` is none for a machine yet to come.
    pub(crate) fn accepts(
        &self,
        labels: RequirementSetIx,
        hostname: Option<&str>,
        taints: &[Taint],
        table: &mut RequirementTable,
    ) -> bool {
        let tainted = self.tolerations.as_ref().is_some_and(|t| !tolerates_all(t, taints));
        if tainted {
            return false;
        }
        self.affinity.as_ref().is_none_or(|alternatives| {
            alternatives.iter().any(|(asked, host)| {
                host.as_ref().is_none_or(|h| hostname.is_some_and(|name| h.has(name)))
                    && table.intersect_sets(labels, *asked, UndefinedKeys::Reject).is_some()
            })
        })
    }
}
