//! Pods that are alike are one class: the same demands, the same constraints, the same selectors that see them. Work is done per
//! class, and what is learned about one pod (this node will never take it) holds for all of them.

use std::ops::Range;

use kerf_api::slim::{HostPort, Labels, PodSpec, Str, Toleration};

use super::free_capacity::CoarseAmounts;
use crate::pod::requirements::NodeRequirements;
use crate::requirement::Requirement;
use crate::requirement_table::{KeyIx, RequirementSetIx};
use crate::resources::Amounts;
use crate::topology::{GroupIx, TopologyKeyIx};

/// A class of pods, or one of its relaxations.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct ClassIx(pub(crate) u32);

/// What is common to pods that are alike.
#[derive(Debug, Clone)]
pub(crate) struct PodClass {
    pub(crate) namespace: Str,
    pub(crate) labels: Labels,
    pub(crate) spec: PodSpec,
    pub(crate) requests: Amounts,
    /// The same, coarsely.
    pub(crate) coarse_requests: CoarseAmounts,
    /// Whether it requests what its containers ask for; while one is resized it does not.
    pub(crate) has_spec_requests: bool,
    /// All demands on labels, wishes included while they last.
    pub(crate) requirements: RequirementSetIx,
    pub(crate) hostname: Option<Requirement>,
    /// Labels that must be there although what is demanded of them would do without (`Exists` with `NotIn`).
    pub(crate) must_exist: Vec<KeyIx>,
    /// The alternatives that the pod's node affinity leaves before any is given up; they say which nodes count for its spreads.
    pub(crate) unrelaxed_alternatives: Vec<NodeRequirements>,
    /// The demands that are musts; they say which domains count for the pod.
    pub(crate) strict_requirements: RequirementSetIx,
    pub(crate) tolerations: Vec<Toleration>,
    /// Where its volumes let it run; empty means anywhere.
    pub(crate) volume_alternatives: Vec<(RequirementSetIx, Option<Requirement>)>,
    pub(crate) ports: Vec<HostPort>,
    /// Constraints by label key: its own, and those of others that keep it away.
    pub(crate) label_constraints: Vec<(TopologyKeyIx, Vec<GroupConstraint>)>,
    /// The same for the hostname.
    pub(crate) host_constraints: Vec<GroupConstraint>,
    /// Groups that count pods of this class.
    pub(crate) counted_by: Vec<GroupIx>,
    /// Inverse groups that pods of this class stand behind.
    pub(crate) inverse_groups: Vec<GroupIx>,
    /// The class that a pod turns into when it gives up its next wish.
    pub(crate) next_relaxed: Option<ClassIx>,
    /// How many wishes are given up on the way here. To ask for another alternative of the required node affinity is no such thing.
    pub(crate) relaxation_count: usize,
    /// The classes, itself among them, that ask for one alternative of the required node affinity each and wish for as much.
    pub(crate) alternatives: Range<u32>,
    /// It lies beyond the steps of spec 02 §6.4; reasons are given for the last of those.
    pub(crate) is_last_resort: bool,
    /// Which templates' taints it tolerates.
    pub(crate) tolerates_template: Vec<bool>,
    pub(crate) needs_devices: bool,
}

impl PodClass {
    /// Everything between pods that binds the class.
    pub(crate) fn constraints(&self) -> impl Iterator<Item = &GroupConstraint> + Clone {
        self.label_constraints.iter().flat_map(|(_, bounds)| bounds).chain(&self.host_constraints)
    }
}

/// A group that binds a class.
#[derive(Debug, Clone, Copy)]
pub(crate) struct GroupConstraint {
    pub(crate) group: GroupIx,
    /// Whether the group counts the pod itself.
    pub(crate) counts_self: bool,
}
