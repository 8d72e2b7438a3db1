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
    pub(crate) fn simulate_node_removal(&mut self, node: usize, moved: &mut Vec<PodIx>) {
        let problem = self.problem;
        let state = &problem.cluster.nodes[node];
        if state.is_marked_for_deletion || self.state.removed_nodes.contains(node) {
            return;
        }
        self.state.removed_nodes.insert(node);
        for (ix, (key, filter)) in problem.node_count_keys.iter().enumerate() {
            if let Some(domain) = problem.node_domains[key.0][node]
                && self.state.filter_node(problem, *filter, node).counts_running
            {
                self.state.count_nodes_in_domain(ix, domain as usize, -1);
            }
        }
        for (ix, template) in problem.templates.iter().enumerate() {
            if state.pool.as_ref() == Some(&template.name) {
                limits::add_capacity(self.state.limits_mut(ix), &state.capacity, 1);
            }
        }
        for pod in &problem.pods_on[node] {
            if !problem.pods[pod.0 as usize].is_currently_reschedulable {
                continue;
            }
            self.uncount(*pod, node);
            if !problem.unplaceable_pods.contains_key(pod) {
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
            if self.state.filter_node(problem, problem.groups[group.0].filter, node).counts_running {
                self.state.count_on_node(problem, *group, node, -1);
            }
        }
        for group in &class.inverse_groups {
            self.state.count_on_node(problem, *group, node, -1);
        }
    }
}
