//! A pod class: pods with equal requests, requirements, tolerations and constraints that the
//! selectors of the same topology groups match.
//!
//! Targets are checked once per class, not once per pod. A result for one pod, such as a node that
//! never accepts it, holds for all pods of the class. Each relaxation of a class is a class of its
//! own, linked by `next_relaxed`. This module holds the data only; `compile::classes` creates it.

use std::ops::Range;

use kerf_api::slim::{HostPort, Labels, PodSpec, Str, Toleration};
use smallvec::SmallVec;

use super::free_capacity::CoarseAmounts;
use crate::pod::requirements::NodeRequirements;
use crate::requirement::Requirement;
use crate::requirement_table::{KeyIx, RequirementSetIx};
use crate::resources::Amounts;
use crate::topology::{GroupIx, TopologyKeyIx};

/// Index of a class in `SchedulingProblem::classes`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct ClassIx(pub(crate) u32);

/// The scheduling rules that all pods of a class share.
#[derive(Debug, Clone)]
pub(crate) struct PodClass {
    pub(crate) namespace: Str,
    pub(crate) labels: Labels,
    /// The spec of the pods. Empty for relaxations: a pod with hundreds of preferences has hundreds
    /// of relaxations, and each would hold almost the whole spec.
    pub(crate) spec: PodSpec,
    pub(crate) requests: Amounts,
    /// `requests`, rounded down for the fast capacity check.
    pub(crate) coarse_requests: CoarseAmounts,
    /// True if `requests` is what the containers in the spec request, so that pods with an equal
    /// spec have equal requests. False while a pod is resized.
    pub(crate) has_spec_requests: bool,
    /// All requirements on node labels except the hostname, including preferences that relaxation
    /// has not removed yet.
    pub(crate) requirements: RequirementSetIx,
    /// The requirement on the hostname, kept separately because it identifies a node. `None` if
    /// every host is accepted.
    pub(crate) hostname: Option<Requirement>,
    /// Keys that the pod requires both by `Exists` and by `NotIn`. Their intersection in
    /// `requirements` is a `NotIn`, which also accepts a node without the label; this list keeps
    /// the `Exists`.
    pub(crate) must_exist: Vec<KeyIx>,
    /// Alternatives of the required node affinity before any relaxation. The topology spreads of
    /// the pod count only pods on nodes that satisfy one of them.
    pub(crate) unrelaxed_alternatives: Vec<NodeRequirements>,
    /// Requirements without preferences. Topology rules consider only domains that they accept.
    pub(crate) strict_requirements: RequirementSetIx,
    pub(crate) tolerations: Vec<Toleration>,
    /// Alternative requirements of the pod's volumes on labels and on the hostname (`None` accepts
    /// every host); one must hold. Empty means no restriction.
    pub(crate) volume_alternatives: Vec<(RequirementSetIx, Option<Requirement>)>,
    pub(crate) ports: Vec<HostPort>,
    /// Constraints per topology key other than the hostname: the class's own, and the anti-affinity
    /// of other pods against it.
    pub(crate) label_constraints: Vec<(TopologyKeyIx, SmallVec<[GroupConstraint; 1]>)>,
    /// Constraints whose topology key is the hostname.
    pub(crate) host_constraints: SmallVec<[GroupConstraint; 1]>,
    /// Groups that count pods of this class.
    pub(crate) counted_by: Vec<GroupIx>,
    /// Groups of the class's own anti-affinity rules, which keep the pods that a rule selects away
    /// from pods of this class (`GroupKind::InverseAntiAffinity`).
    pub(crate) inverse_groups: Vec<GroupIx>,
    /// The class after the next relaxation. `None` if nothing is left to relax.
    pub(crate) next_relaxed: Option<ClassIx>,
    /// Number of preferences that relaxation has removed. The step to another alternative of the
    /// required node affinity is not included.
    pub(crate) relaxation_count: usize,
    /// Classes, including this one, that differ only in which alternative of the required node
    /// affinity they use.
    pub(crate) alternative_classes: Range<u32>,
    /// True if the class is tried after all relaxations of spec 02 §6.4 (see *last resort* in the
    /// glossary). Reasons for unplaced pods refer to the last relaxation, not to this class.
    pub(crate) is_last_resort: bool,
    /// For each pool template, true if the class tolerates the template's taints.
    pub(crate) tolerates_template: Vec<bool>,
    /// True if the pods have resource claims (DRA).
    pub(crate) needs_devices: bool,
}

impl PodClass {
    /// Returns all constraints of the class, those on the hostname last.
    pub(crate) fn constraints(&self) -> impl Iterator<Item = &GroupConstraint> + Clone {
        self.label_constraints.iter().flat_map(|(_, constraints)| constraints).chain(&self.host_constraints)
    }
}

/// A topology group that constrains a class.
#[derive(Debug, Clone, Copy)]
pub(crate) struct GroupConstraint {
    pub(crate) group: GroupIx,
    /// True if the group's selector selects pods of the class itself.
    pub(crate) counts_self: bool,
}
