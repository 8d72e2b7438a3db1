//! Removes nodes in a what-if. The caller places their pods and then rolls the state back.
//!
//! The cost depends on the pods that move, not on the pods that stay. Removing a node costs one
//! step per pod, topology group and pool concerned. Placing a pod checks at most one word per 64
//! nodes, and those nodes that may have enough free capacity. Rolling back costs as much as was
//! changed.

use super::limits;
use super::pass::PlacementPass;
use super::problem::PodIx;

impl PlacementPass<'_> {
    /// Removes a node from the state and appends its reschedulable pods to `moved`. Does nothing if
    /// the node is marked for deletion or already removed.
    pub(crate) fn simulate_node_removal(&mut self, node: usize, moved: &mut Vec<PodIx>) {
        let problem = self.problem;
        let node_state = &problem.cluster.nodes[node];
        if node_state.is_marked_for_deletion || self.state.removed_nodes.contains(node) {
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
            if node_state.pool.as_ref() == Some(&template.name) {
                limits::add_capacity(self.state.limits_mut(ix), &node_state.capacity, 1);
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

    /// Removes a moved pod from the groups that count it on its old node, and from those whose
    /// anti-affinity it owns.
    fn uncount(&mut self, pod: PodIx, node: usize) {
        let problem = self.problem;
        let entry = &problem.pods[pod.0 as usize];
        let class = &problem.classes[entry.class.0 as usize];
        let counting_groups = if entry.is_counted { class.counted_by.as_slice() } else { &[] };
        for group in counting_groups {
            if self.state.filter_node(problem, problem.groups[group.0].filter, node).counts_running {
                self.state.count_on_node(problem, *group, node, -1);
            }
        }
        for group in &class.inverse_groups {
            self.state.count_on_node(problem, *group, node, -1);
        }
    }
}
