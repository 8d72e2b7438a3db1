//! Places pods that must share one host because of pod affinity on the hostname.
//!
//! The first of these pods decides the host of all. Karpenter places it wherever it fits, and pods
//! that do not fit beside it stay pending. With `SearchVariant::keep_colocated_together` the first
//! pod is placed where all of them fit, if there is such a target. Capacity is taken for the first
//! pod only.

use super::class::ClassIx;
use super::pass::PlacementPass;
use super::problem::PodIx;
use crate::resources::Amounts;
use crate::topology::GroupKind;

impl PlacementPass<'_> {
    /// Places the pod on a target that also fits the pods which must share its host. Returns false
    /// if there are no such pods or no such target.
    pub(super) fn place_with_colocated(&mut self, pod: PodIx, options: &[ClassIx]) -> bool {
        let Some(colocated_requests) = options.first().and_then(|class| self.colocated_requests_to_come(pod, *class))
        else {
            return false;
        };
        self.colocated_requests = Some(colocated_requests);
        let result = self.place_on_node_or_claim(pod, options);
        self.colocated_requests = None;
        result.is_ok()
    }

    /// Returns the sum of the requests of unplaced pods that will have to share the pod's host.
    /// `None` if the pod is not the first of them or there are no others.
    fn colocated_requests_to_come(&self, pod: PodIx, class: ClassIx) -> Option<Amounts> {
        let problem = self.problem;
        let is_first = |group: usize| self.state.group_counts[group].no_host_is_occupied();
        let mut host_constraints = problem.classes[class.0 as usize].host_constraints.iter();
        let affinity = host_constraints.find(|constraint| {
            let is_affinity = problem.groups[constraint.group.0].identity.kind == GroupKind::Affinity;
            is_affinity && constraint.counts_self && is_first(constraint.group.0)
        })?;
        let is_unplaced = |other: &&PodIx| **other != pod && self.state.placements[other.0 as usize].is_none();
        let has_affinity = |other: &&PodIx| {
            problem.class_of(**other).host_constraints.iter().any(|constraint| constraint.group == affinity.group)
        };
        let mut colocated = self.state.queue.iter().filter(is_unplaced).filter(has_affinity).peekable();
        colocated.peek()?;
        let mut requests = Amounts::default();
        for other in colocated {
            requests.add(&problem.class_of(*other).requests);
        }
        Some(requests)
    }
}
