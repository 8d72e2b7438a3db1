//! Required pod affinity and anti-affinity, of the pod itself and of the pods that already have a
//! node.

use k8s_openapi::api::core::v1::PodAffinityTerm;
use rustc_hash::FxHashSet;

use super::{FilterRejection, Plugin};
use crate::cluster::scheduler::classes::{PodClass, affinity_term_selects};
use crate::cluster::scheduler::node::NodeInfo;
use crate::cluster::scheduler::pod::PodInfo;
use crate::cluster::scheduler::view::View;

/// Values of one topology key.
struct Domains<'a> {
    key: &'a str,
    values: FxHashSet<&'a str>,
}

/// The topology domains that matter for one pod's required terms.
pub(super) struct AffinityFilter<'a> {
    required_terms: &'a [PodAffinityTerm],
    /// For each affinity term, the domains that contain a pod selected by all affinity terms.
    affinity_domains: Vec<Domains<'a>>,
    /// Domains that contain a pod selected by an anti-affinity term.
    anti_affinity_domains: Vec<Domains<'a>>,
    /// Domains that contain a pod whose own anti-affinity selects this pod.
    existing_anti_affinity_domains: Vec<Domains<'a>>,
    /// True if the affinity terms select no pod in the cluster and select this pod itself: the
    /// first pod of such a group can be placed anywhere.
    may_be_first: bool,
}

impl<'a> AffinityFilter<'a> {
    pub(super) fn new(view: &'a View, pod: &PodInfo) -> Self {
        let mut state = Self {
            required_terms: &[],
            affinity_domains: Vec::new(),
            anti_affinity_domains: Vec::new(),
            existing_anti_affinity_domains: Vec::new(),
            may_be_first: false,
        };
        let Some(own_class) = view.classes.get(pod.class) else { return state };
        for other_class in view.classes.with_anti_affinity() {
            for term in &other_class.terms.required_anti {
                if affinity_term_selects(
                    term,
                    &other_class.namespace,
                    &own_class.namespace,
                    &own_class.labels,
                    &view.namespaces,
                ) {
                    add_domains(view, &mut state.existing_anti_affinity_domains, &term.topology_key, other_class);
                }
            }
        }
        let (required, required_anti) = (&own_class.terms.required, &own_class.terms.required_anti);
        if required.is_empty() && required_anti.is_empty() {
            return state;
        }
        let selects = |term: &PodAffinityTerm, class: &PodClass| {
            affinity_term_selects(term, &own_class.namespace, &class.namespace, &class.labels, &view.namespaces)
        };
        state.required_terms = required;
        for class in view.classes.all() {
            if !required.is_empty() && required.iter().all(|term| selects(term, class)) {
                for term in required {
                    add_domains(view, &mut state.affinity_domains, &term.topology_key, class);
                }
            }
            for term in required_anti.iter().filter(|term| selects(term, class)) {
                add_domains(view, &mut state.anti_affinity_domains, &term.topology_key, class);
            }
        }
        let no_pod_matches = state.affinity_domains.iter().all(|domains| domains.values.is_empty());
        state.may_be_first =
            no_pod_matches && !required.is_empty() && required.iter().all(|term| selects(term, own_class));
        state
    }

    pub(super) fn check(&self, node: &NodeInfo) -> Result<(), FilterRejection> {
        let plugin = Plugin::InterPodAffinity;
        if !self.satisfies_affinity(node) {
            return Err(FilterRejection::unresolvable(plugin, "node(s) didn't match pod affinity rules"));
        }
        if is_in_domains(&self.anti_affinity_domains, node) {
            return Err(FilterRejection::resolvable(plugin, "node(s) didn't match pod anti-affinity rules"));
        }
        if is_in_domains(&self.existing_anti_affinity_domains, node) {
            return Err(FilterRejection::resolvable(
                plugin,
                "node(s) didn't satisfy existing pods anti-affinity rules",
            ));
        }
        Ok(())
    }

    /// Returns true if, for every affinity term, the node's domain contains a matching pod. A node
    /// without the topology key is in no domain.
    fn satisfies_affinity(&self, node: &NodeInfo) -> bool {
        let mut all_match = true;
        for term in self.required_terms {
            let Some(value) = node.labels.get(&term.topology_key) else { return false };
            let domains = self.affinity_domains.iter().find(|domains| domains.key == term.topology_key);
            all_match &= domains.is_some_and(|domains| domains.values.contains(value.as_str()));
        }
        all_match || self.may_be_first
    }
}

fn is_in_domains(domains: &[Domains<'_>], node: &NodeInfo) -> bool {
    domains
        .iter()
        .any(|domains| node.labels.get(domains.key).is_some_and(|value| domains.values.contains(value.as_str())))
}

/// Adds the domains of `key` that contain pods of the class.
fn add_domains<'a>(view: &'a View, all_domains: &mut Vec<Domains<'a>>, key: &'a str, class: &PodClass) {
    let index = all_domains.iter().position(|domains| domains.key == key).unwrap_or_else(|| {
        all_domains.push(Domains { key, values: FxHashSet::default() });
        all_domains.len() - 1
    });
    let values = class.nodes.keys().filter_map(|node| view.node(*node).labels.get(key));
    all_domains[index].values.extend(values.map(String::as_str));
}
