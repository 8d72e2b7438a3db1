//! A what-if: nodes are taken away, their pods look for a place, and the books are rolled back.
//!
//! Taking a node away costs its pods: each is taken out of the groups that count it, and the node itself out of the domains that it
//! makes exist and out of its pool's limits. Placing a pod costs a look at one word per sixty-four nodes at most, and at the
//! nodes that seem to have room. Rolling back costs what was changed. Nothing depends on how many pods stay where they are.

use super::limits;
use super::pass::PlacementPass;
use super::problem::PodIx;

impl PlacementPass<'_> {
    /// Takes a node away and adds the pods that must move to `moved`. A node that is leaving anyway, or is gone already, is not there
    /// to be taken.
    pub(crate) fn take_away(&mut self, node: usize, moved: &mut Vec<PodIx>) {
        let problem = self.problem;
        let state = &problem.world.nodes[node];
        if state.is_leaving || self.state.gone.contains(node) {
            return;
        }
        self.state.gone.insert(node);
        for (ix, (key, filter)) in problem.presences.iter().enumerate() {
            if let Some(domain) = problem.node_domains[key.0][node]
                && self.state.accepted(problem, *filter, node).running
            {
                self.state.make_present(ix, domain as usize, -1);
            }
        }
        for (ix, template) in problem.templates.iter().enumerate() {
            if state.pool.as_ref() == Some(&template.name) {
                limits::shift(self.state.limits_of(ix), &state.capacity, 1);
            }
        }
        for pod in &problem.pods_on[node] {
            if !problem.pods[pod.0 as usize].may_move {
                continue;
            }
            self.uncount(*pod, node);
            if !problem.stuck.contains_key(pod) {
                moved.push(*pod);
            }
        }
    }

    /// A pod that moves is no longer counted where it was, and keeps nobody away from there.
    fn uncount(&mut self, pod: PodIx, node: usize) {
        let problem = self.problem;
        let entry = &problem.pods[pod.0 as usize];
        let class = &problem.classes[entry.class.0 as usize];
        let counted = if entry.is_counted { class.counted_by.as_slice() } else { &[] };
        for group in counted {
            if self.state.accepted(problem, problem.groups[group.0].filter, node).running {
                self.state.count_at(problem, *group, node, -1);
            }
        }
        for group in &class.repels {
            self.state.count_at(problem, *group, node, -1);
        }
    }
}
