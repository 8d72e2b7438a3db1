//! Default spread constraints (spec 02 §8.9): a pod without spread constraints of its own gets
//! those of the cluster, with the selectors of its Services and its owner. A pod that no selector
//! matches gets none, because there is nothing to spread it against.

use std::rc::Rc;

use kerf_api::slim::{
    LabelSelector, LabelSelectorOperator, LabelSelectorRequirement, Labels, OwnerReference, Pod, ReplicaOwner, Service,
    Str, TopologySpreadConstraint,
};
use rustc_hash::FxHashMap;

/// The default constraints, and a cache of the constraints of each kind of pod.
#[derive(Debug)]
pub(crate) struct DefaultSpread<'a> {
    constraints: &'a [TopologySpreadConstraint],
    services: FxHashMap<&'a Str, Vec<&'a Labels>>,
    owners: FxHashMap<(&'a Str, &'a Str), Vec<&'a ReplicaOwner>>,
    cache: FxHashMap<SelectorKey<'a>, Rc<[TopologySpreadConstraint]>>,
    none: Rc<[TopologySpreadConstraint]>,
}

/// Everything that the deduced selector depends on: namespace, controlling owner and labels.
type SelectorKey<'a> = (&'a Str, Option<(&'a Str, &'a Str, &'a Str)>, &'a Labels);

impl<'a> DefaultSpread<'a> {
    pub(crate) fn new(
        constraints: &'a [TopologySpreadConstraint],
        services: &'a [Service],
        owners: &'a [ReplicaOwner],
    ) -> Self {
        let mut by_namespace: FxHashMap<&Str, Vec<&Labels>> = FxHashMap::default();
        let mut by_name: FxHashMap<(&Str, &Str), Vec<&ReplicaOwner>> = FxHashMap::default();
        if !constraints.is_empty() {
            for service in services {
                by_namespace.entry(&service.metadata.namespace).or_default().extend(&service.selector);
            }
            for owner in owners {
                by_name.entry((&owner.metadata.namespace, &owner.metadata.name)).or_default().push(owner);
            }
        }
        Self { constraints, services: by_namespace, owners: by_name, cache: FxHashMap::default(), none: Rc::new([]) }
    }

    /// Returns the constraints that the pod gets in addition to its spec. Empty if the pod has
    /// constraints of its own or no selector matches it.
    pub(crate) fn constraints_for(&mut self, pod: &'a Pod) -> Rc<[TopologySpreadConstraint]> {
        if self.constraints.is_empty() || !pod.spec.topology_spread_constraints.is_empty() {
            return Rc::clone(&self.none);
        }
        let owner = pod.metadata.controller();
        let key = (&pod.metadata.namespace, owner.map(|o| (&o.kind, &o.name, &o.uid)), &pod.metadata.labels);
        if let Some(cached) = self.cache.get(&key) {
            return Rc::clone(cached);
        }
        let deduced = self.deduced_selector(pod, owner).map_or_else(
            || Rc::clone(&self.none),
            |selector| {
                let with_selector = |constraint: &TopologySpreadConstraint| TopologySpreadConstraint {
                    label_selector: Some(selector.clone()),
                    ..constraint.clone()
                };
                self.constraints.iter().map(with_selector).collect()
            },
        );
        self.cache.insert(key, Rc::clone(&deduced));
        deduced
    }

    fn deduced_selector(&self, pod: &Pod, owner: Option<&OwnerReference>) -> Option<LabelSelector> {
        let namespace = &pod.metadata.namespace;
        let selecting = self.services.get(namespace).into_iter().flatten();
        let mut labels: Vec<(Str, Str)> = selecting
            .filter(|selector| selector.iter().all(|(key, value)| pod.metadata.labels.has_value(key, value)))
            .flat_map(|selector| selector.iter().map(|(key, value)| (key.clone(), value.clone())))
            .collect();
        let mut expressions = Vec::new();
        if let Some((owner, reference)) =
            owner.and_then(|reference| Some((self.find(namespace, reference)?, reference)))
        {
            let pairs = owner.selector.match_labels.iter().map(|(key, value)| (key.clone(), value.clone()));
            match (reference.api_version.as_str(), reference.kind.as_str()) {
                // If a key occurs twice, the last value counts.
                ("v1", "ReplicationController") => labels.extend(pairs),
                ("apps/v1", "ReplicaSet" | "StatefulSet") => {
                    expressions.extend(pairs.map(|(key, value)| LabelSelectorRequirement {
                        key,
                        operator: LabelSelectorOperator::In,
                        values: vec![value],
                    }));
                    expressions.extend(owner.selector.match_expressions.iter().cloned());
                }
                _ => {}
            }
        }
        let is_selected = !labels.is_empty() || !expressions.is_empty();
        is_selected
            .then(|| LabelSelector { match_labels: labels.into_iter().collect(), match_expressions: expressions })
    }

    /// Returns the owner that a reference names. Owners that were read from a list may have no
    /// kind.
    fn find(&self, namespace: &Str, reference: &OwnerReference) -> Option<&'a ReplicaOwner> {
        let with_name = self.owners.get(&(namespace, &reference.name))?;
        with_name.iter().copied().find(|owner| {
            let uid = &owner.metadata.uid;
            (owner.kind.is_empty() || owner.kind == reference.kind)
                && (uid.is_empty() || reference.uid.is_empty() || *uid == reference.uid)
        })
    }
}
