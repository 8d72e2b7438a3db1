//! Classes of pods that all rules between pods treat alike: equal namespace, labels and pod
//! (anti-)affinity. Selectors are evaluated per class, not per pod, so that the cost does not grow
//! with the number of replicas.
//!
//! Invariant: a class knows the number of its pods on each node. A class without pods is deleted
//! and its index is reused.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::core::v1::{Affinity, PodAffinityTerm, WeightedPodAffinityTerm};
use kerf_referee::placement::Namespaces;
use kerf_referee::selectors::{Labels, labels_or_empty, selects};
use rustc_hash::FxHashMap;
use smol_str::SmolStr;

use super::view::NodeIx;

/// Index of a class in [`PodClasses`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct ClassIx(u32);

/// The pod affinity and anti-affinity terms of a pod.
#[derive(Clone, Debug, Default)]
pub(super) struct PodAffinityTerms {
    pub(super) required: Vec<PodAffinityTerm>,
    pub(super) required_anti: Vec<PodAffinityTerm>,
    pub(super) preferred: Vec<WeightedPodAffinityTerm>,
    pub(super) preferred_anti: Vec<WeightedPodAffinityTerm>,
}

impl PodAffinityTerms {
    pub(super) fn read(affinity: Option<&Affinity>) -> Self {
        let pod_affinity = affinity.and_then(|affinity| affinity.pod_affinity.as_ref());
        let pod_anti_affinity = affinity.and_then(|affinity| affinity.pod_anti_affinity.as_ref());
        Self {
            required: pod_affinity
                .and_then(|a| a.required_during_scheduling_ignored_during_execution.clone())
                .unwrap_or_default(),
            required_anti: pod_anti_affinity
                .and_then(|a| a.required_during_scheduling_ignored_during_execution.clone())
                .unwrap_or_default(),
            preferred: pod_affinity
                .and_then(|a| a.preferred_during_scheduling_ignored_during_execution.clone())
                .unwrap_or_default(),
            preferred_anti: pod_anti_affinity
                .and_then(|a| a.preferred_during_scheduling_ignored_during_execution.clone())
                .unwrap_or_default(),
        }
    }

    fn is_empty(&self) -> bool {
        self.required.is_empty()
            && self.required_anti.is_empty()
            && self.preferred.is_empty()
            && self.preferred_anti.is_empty()
    }
}

/// The number of pods of a class on one node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct PodCount {
    pub(super) all: u32,
    /// Pods without a deletion timestamp.
    pub(super) not_deleting: u32,
}

#[derive(Debug)]
pub(super) struct PodClass {
    pub(super) namespace: SmolStr,
    pub(super) labels: Labels,
    pub(super) terms: PodAffinityTerms,
    /// Nodes on which the class has pods.
    pub(super) nodes: BTreeMap<NodeIx, PodCount>,
    key: String,
    pods: usize,
}

/// All classes of the cluster.
#[derive(Debug, Default)]
pub(super) struct PodClasses {
    slots: Vec<Option<PodClass>>,
    free: Vec<ClassIx>,
    indices: FxHashMap<String, ClassIx>,
    by_namespace: BTreeMap<SmolStr, BTreeSet<ClassIx>>,
    /// Classes with required anti-affinity, and classes with any term. There are few of them, and
    /// every pod is compared with them.
    with_anti_affinity: BTreeSet<ClassIx>,
    with_terms: BTreeSet<ClassIx>,
}

impl PodClasses {
    /// Returns the class of a pod and adds one to its number of pods. Creates the class if it does
    /// not exist.
    pub(super) fn acquire(&mut self, namespace: &str, labels: &Labels, affinity: Option<&Affinity>) -> ClassIx {
        let key = class_key(namespace, labels, affinity);
        if let Some(index) = self.indices.get(&key) {
            if let Some(class) = self.slots[index.0 as usize].as_mut() {
                class.pods += 1;
            }
            return *index;
        }
        let index = self.free.pop().unwrap_or(ClassIx(self.slots.len() as u32));
        let terms = PodAffinityTerms::read(affinity);
        if !terms.required_anti.is_empty() {
            self.with_anti_affinity.insert(index);
        }
        if !terms.is_empty() {
            self.with_terms.insert(index);
        }
        let class = PodClass {
            namespace: namespace.into(),
            labels: labels.clone(),
            terms,
            nodes: BTreeMap::new(),
            key: key.clone(),
            pods: 1,
        };
        self.by_namespace.entry(namespace.into()).or_default().insert(index);
        self.indices.insert(key, index);
        match self.slots.get_mut(index.0 as usize) {
            Some(slot) => *slot = Some(class),
            None => self.slots.push(Some(class)),
        }
        index
    }

    /// Subtracts one from the class's number of pods. Deletes the class if none is left.
    pub(super) fn release(&mut self, index: ClassIx) {
        let Some(slot) = self.slots.get_mut(index.0 as usize) else { return };
        let Some(class) = slot.as_mut() else { return };
        class.pods -= 1;
        if class.pods > 0 {
            return;
        }
        if let Some(class) = slot.take() {
            self.indices.remove(&class.key);
            if let Some(classes) = self.by_namespace.get_mut(&class.namespace) {
                classes.remove(&index);
                if classes.is_empty() {
                    self.by_namespace.remove(&class.namespace);
                }
            }
        }
        self.with_anti_affinity.remove(&index);
        self.with_terms.remove(&index);
        self.free.push(index);
    }

    /// Counts a pod of the class on a node.
    pub(super) fn add_pod_on(&mut self, index: ClassIx, node: NodeIx, is_staying: bool) {
        if let Some(class) = self.slots.get_mut(index.0 as usize).and_then(Option::as_mut) {
            let count = class.nodes.entry(node).or_default();
            count.all += 1;
            count.not_deleting += u32::from(is_staying);
        }
    }

    /// Removes a pod of the class from the count of a node.
    pub(super) fn remove_pod_on(&mut self, index: ClassIx, node: NodeIx, is_staying: bool) {
        if let Some(class) = self.slots.get_mut(index.0 as usize).and_then(Option::as_mut)
            && let Some(count) = class.nodes.get_mut(&node)
        {
            count.all -= 1;
            count.not_deleting -= u32::from(is_staying);
            if count.all == 0 {
                class.nodes.remove(&node);
            }
        }
    }

    pub(super) fn get(&self, index: ClassIx) -> Option<&PodClass> {
        self.slots.get(index.0 as usize).and_then(Option::as_ref)
    }

    /// Returns the classes of a namespace.
    pub(super) fn in_namespace<'a>(&'a self, namespace: &str) -> impl Iterator<Item = &'a PodClass> {
        self.by_namespace.get(namespace).into_iter().flatten().filter_map(|index| self.get(*index))
    }

    /// Returns all classes, ordered by namespace.
    pub(super) fn all(&self) -> impl Iterator<Item = &PodClass> {
        self.by_namespace.values().flatten().filter_map(|index| self.get(*index))
    }

    /// Returns the classes with required anti-affinity.
    pub(super) fn with_anti_affinity(&self) -> impl Iterator<Item = &PodClass> {
        self.with_anti_affinity.iter().filter_map(|index| self.get(*index))
    }

    /// Returns the classes with any pod affinity or anti-affinity term.
    pub(super) fn with_terms(&self) -> impl Iterator<Item = &PodClass> {
        self.with_terms.iter().filter_map(|index| self.get(*index))
    }
}

/// Returns true if a term of a pod in the namespace `term_namespace` selects pods with these labels
/// in `namespace`. The API server has merged `matchLabelKeys` and `mismatchLabelKeys` into the
/// selector.
pub(super) fn affinity_term_selects(
    term: &PodAffinityTerm,
    term_namespace: &str,
    namespace: &str,
    labels: &Labels,
    namespaces: &Namespaces,
) -> bool {
    let listed = term.namespaces.as_deref().unwrap_or_default();
    let is_in_namespaces = if listed.is_empty() && term.namespace_selector.is_none() {
        term_namespace == namespace
    } else {
        listed.iter().any(|name| name == namespace)
            || selects(term.namespace_selector.as_ref(), labels_or_empty(namespaces.get(namespace)))
    };
    is_in_namespaces && selects(term.label_selector.as_ref(), labels)
}

/// Returns a text that two pods share if and only if they belong to the same class.
fn class_key(namespace: &str, labels: &Labels, affinity: Option<&Affinity>) -> String {
    let mut key = String::with_capacity(128);
    key.push_str(namespace);
    for (name, value) in labels {
        // Neither labels nor namespaces contain these characters.
        key.push('\n');
        key.push_str(name);
        key.push('=');
        key.push_str(value);
    }
    let pods = affinity.map(|affinity| (&affinity.pod_affinity, &affinity.pod_anti_affinity));
    if let Some((pod_affinity, pod_anti_affinity)) =
        pods.filter(|(pod_affinity, pod_anti_affinity)| pod_affinity.is_some() || pod_anti_affinity.is_some())
    {
        key.push('\n');
        // Serializing a Kubernetes type to memory does not fail. If it did, the pod would be in a
        // class without terms.
        key.push_str(&serde_json::to_string(&(pod_affinity, pod_anti_affinity)).unwrap_or_default());
    }
    key
}
