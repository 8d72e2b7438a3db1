//! Pod classes: pods with equal requests, requirements, tolerations and constraints that are
//! selected by the same groups.
//!
//! Work is done once per class. A result for one pod, such as a node that never accepts it, holds
//! for all pods of the class. Each relaxation of a class is a class of its own, linked by
//! `next_relaxed`.

use std::ops::Range;

use kerf_api::slim::{HostPort, Labels, PodSpec, Str, Toleration};

use super::free_capacity::CoarseAmounts;
use crate::pod::requirements::NodeRequirements;
use crate::requirement::Requirement;
use crate::requirement_table::{KeyIx, RequirementSetIx};
use crate::resources::Amounts;
use crate::topology::{GroupIx, TopologyKeyIx};

/// Index of a class, or of one of its relaxations, in `SchedulingProblem::classes`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct ClassIx(pub(crate) u32);

/// The scheduling rules that all pods of a class share.
#[derive(Debug, Clone)]
pub(crate) struct PodClass {
    pub(crate) namespace: Str,
    pub(crate) labels: Labels,
    pub(crate) spec: PodSpec,
    pub(crate) requests: Amounts,
    /// `requests`, rounded down for the fast capacity check.
    pub(crate) coarse_requests: CoarseAmounts,
    /// True if `requests` is what the containers in the spec request. False while a pod is resized.
    pub(crate) has_spec_requests: bool,
    /// All requirements on node labels, including preferences that are not given up yet.
    pub(crate) requirements: RequirementSetIx,
    pub(crate) hostname: Option<Requirement>,
    /// Labels that a node must have although their requirement accepts absence (`Exists` together
    /// with `NotIn`).
    pub(crate) must_exist: Vec<KeyIx>,
    /// Alternatives of the required node affinity before any relaxation. They decide which nodes
    /// count for the pod's spreads.
    pub(crate) unrelaxed_alternatives: Vec<NodeRequirements>,
    /// Requirements without preferences. They decide which domains count for the pod.
    pub(crate) strict_requirements: RequirementSetIx,
    pub(crate) tolerations: Vec<Toleration>,
    /// Alternative requirements of the pod's volumes; one must hold. Empty means no restriction.
    pub(crate) volume_alternatives: Vec<(RequirementSetIx, Option<Requirement>)>,
    pub(crate) ports: Vec<HostPort>,
    /// Constraints per topology key: the class's own, and the anti-affinity of other pods against
    /// it.
    pub(crate) label_constraints: Vec<(TopologyKeyIx, Vec<GroupConstraint>)>,
    /// The same constraints for the hostname.
    pub(crate) host_constraints: Vec<GroupConstraint>,
    /// Groups that count pods of this class.
    pub(crate) counted_by: Vec<GroupIx>,
    /// Inverse anti-affinity groups that pods of this class own.
    pub(crate) inverse_groups: Vec<GroupIx>,
    /// The class after the next relaxation. `None` if nothing is left to relax.
    pub(crate) next_relaxed: Option<ClassIx>,
    /// Number of preferences given up so far. Trying another alternative of the required node
    /// affinity does not count.
    pub(crate) relaxation_count: usize,
    /// Classes, including this one, that differ only in which alternative of the required node
    /// affinity they use.
    pub(crate) alternatives: Range<u32>,
    /// True if the class follows all steps of spec 02 §6.4. Reasons for unplaced pods refer to the
    /// last of those steps, not to this class.
    pub(crate) is_last_resort: bool,
    /// Per template, true if the class tolerates its taints.
    pub(crate) tolerates_template: Vec<bool>,
    pub(crate) needs_devices: bool,
}

impl PodClass {
    /// Returns all constraints of the class, label keys first.
    pub(crate) fn constraints(&self) -> impl Iterator<Item = &GroupConstraint> + Clone {
        self.label_constraints.iter().flat_map(|(_, constraints)| constraints).chain(&self.host_constraints)
    }
}

/// A topology group that constrains a class.
#[derive(Debug, Clone, Copy)]
pub(crate) struct GroupConstraint {
    pub(crate) group: GroupIx,
    /// True if the group's selector selects pods of this class.
    pub(crate) counts_self: bool,
}
