//! Pods that must all share one host: where the first of them goes, the others have to follow. Karpenter lets the first go wherever it
//! fits, and whoever finds no room beside it stays out. A pass that gathers sends it where all of them have room, if there is such a
//! place; what it takes from that place is only its own.

use super::class::ClassIx;
use super::pass::PlacementPass;
use super::problem::PodIx;
use crate::resources::Amounts;
use crate::topology::GroupKind;

impl PlacementPass<'_> {
    /// Puts the pod where its kin has room, too; false if it has no kin to think of, or there is no such place.
    pub(super) fn place_with_colocated(&mut self, pod: PodIx, options: &[ClassIx]) -> bool {
        let Some(kin) = options.first().and_then(|class| self.colocated_requests_to_come(pod, *class)) else {
            return false;
        };
        self.colocated_requests = Some(kin);
        let together = self.place_on_node_or_claim(pod, options);
        self.colocated_requests = None;
        together.is_ok()
    }

    /// What the pods ask for that will have to be on the pod's host, if it is the first of them.
    fn colocated_requests_to_come(&self, pod: PodIx, class: ClassIx) -> Option<Amounts> {
        let problem = self.problem;
        let is_first = |group: usize| self.state.group_counts[group].no_host_is_occupied();
        let mut hosts = problem.classes[class.0 as usize].host_constraints.iter();
        let near = hosts.find(|bound| {
            let is_affinity = problem.groups[bound.group.0].identity.kind == GroupKind::Affinity;
            is_affinity && bound.counts_self && is_first(bound.group.0)
        })?;
        let waits = |other: &&PodIx| **other != pod && self.state.placements[other.0 as usize].is_none();
        let is_bound =
            |other: &&PodIx| problem.class_of(**other).host_constraints.iter().any(|bound| bound.group == near.group);
        let mut kin = self.state.queue.iter().filter(waits).filter(is_bound).peekable();
        kin.peek()?;
        let mut sum = Amounts::default();
        for other in kin {
            sum.add(&problem.class_of(*other).requests);
        }
        Some(sum)
    }
}
