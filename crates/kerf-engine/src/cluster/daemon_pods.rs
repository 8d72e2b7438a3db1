//! Follows the live pods of DaemonSets between decisions. A DaemonSet is represented by its newest
//! pod, which may differ from the template: a `LimitRange`, a `VerticalPodAutoscaler` or a webhook
//! can change what it requests (spec 02 §4.5). A change of the representative makes a prepared
//! solver stale.

use std::collections::BTreeSet;

use jiff::Timestamp;
use kerf_api::slim::{DaemonSet, HostPort, Labels, NodeSelectorTerm, Pod, ResourceList, Str, Toleration};
use rustc_hash::FxHashMap;

use super::daemons::{from_template, is_pod_of, needs_devices};
use super::ports;
use crate::pod::requests::pod_requests;

/// The live pods of all DaemonSets.
#[derive(Debug, Default)]
pub(crate) struct DaemonPods {
    /// By namespace and name of the DaemonSet.
    sets: FxHashMap<(Str, Str), DaemonSetPods>,
    /// The DaemonSet of each pod, by `namespace/name` of the pod.
    set_by_pod: FxHashMap<Str, (Str, Str)>,
}

/// The live pods of one DaemonSet.
#[derive(Debug)]
struct DaemonSetPods {
    set: DaemonSet,
    /// Distinct shapes. The first is that of the template.
    shapes: Vec<DaemonShape>,
    /// Creation time, name and shape of each pod, oldest first.
    by_age: BTreeSet<PodAge>,
    ages: FxHashMap<Str, PodAge>,
    /// Shape that the prepared solver uses.
    used_shape: usize,
}

/// Creation time, name, and index of the shape.
type PodAge = (Option<Timestamp>, Str, usize);

/// The properties of a daemon pod that decisions read.
#[derive(Debug, PartialEq, Eq)]
struct DaemonShape {
    requests: ResourceList,
    ports: Vec<HostPort>,
    tolerations: Vec<Toleration>,
    node_selector: Labels,
    /// Terms without expressions on fields: the DaemonSet controller binds each pod to its node by
    /// such an expression.
    node_affinity: Vec<NodeSelectorTerm>,
    needs_devices: bool,
}

impl DaemonPods {
    /// Records the shapes for which a solver is prepared.
    pub(crate) fn new<'p>(sets: &[DaemonSet], pods: impl Iterator<Item = &'p Pod>) -> Self {
        let sets = sets.iter().map(|set| {
            let shapes = vec![DaemonShape::of(&from_template(set))];
            let entry = DaemonSetPods {
                set: set.clone(),
                shapes,
                by_age: BTreeSet::new(),
                ages: FxHashMap::default(),
                used_shape: 0,
            };
            ((set.metadata.namespace.clone(), set.metadata.name.clone()), entry)
        });
        let mut daemon_pods = Self { sets: sets.collect(), set_by_pod: FxHashMap::default() };
        for pod in pods {
            daemon_pods.update(pod);
        }
        for entry in daemon_pods.sets.values_mut() {
            entry.used_shape = entry.newest_shape();
        }
        daemon_pods
    }

    /// Adds a pod, or replaces the pod of this name. Pods of other owners are ignored.
    pub(crate) fn update(&mut self, pod: &Pod) {
        let name = pod.namespaced_name();
        self.remove(&name);
        if pod.is_terminal() || !pod.is_owned_by_daemonset() {
            return;
        }
        let owner = pod.metadata.owner_references.iter().find(|owner| owner.kind == "DaemonSet");
        let Some(owner) = owner else { return };
        let key = (pod.metadata.namespace.clone(), owner.name.clone());
        let Some(entry) = self.sets.get_mut(&key).filter(|entry| is_pod_of(pod, &entry.set)) else { return };
        let shape = entry.shape_index(DaemonShape::of(pod));
        let age = (pod.metadata.creation_timestamp, pod.metadata.name.clone(), shape);
        entry.by_age.insert(age.clone());
        entry.ages.insert(name.clone(), age);
        self.set_by_pod.insert(name, key);
    }

    /// Removes a pod, given as `namespace/name`.
    pub(crate) fn remove(&mut self, name: &str) {
        let Some(key) = self.set_by_pod.remove(name) else { return };
        let Some(entry) = self.sets.get_mut(&key) else { return };
        if let Some(age) = entry.ages.remove(name) {
            entry.by_age.remove(&age);
        }
    }

    /// Returns true if some DaemonSet is represented by another shape than the solver uses.
    pub(crate) fn has_changed(&self) -> bool {
        self.sets.values().any(|entry| entry.newest_shape() != entry.used_shape)
    }
}

impl DaemonSetPods {
    /// Returns the shape of the newest pod, or of the template if there is no pod.
    fn newest_shape(&self) -> usize {
        self.by_age.last().map_or(0, |(_, _, shape)| *shape)
    }

    fn shape_index(&mut self, shape: DaemonShape) -> usize {
        self.shapes.iter().position(|known| *known == shape).unwrap_or_else(|| {
            self.shapes.push(shape);
            self.shapes.len() - 1
        })
    }
}

impl DaemonShape {
    fn of(pod: &Pod) -> Self {
        let required = pod.spec.affinity.as_ref().and_then(|affinity| affinity.node_affinity.required.as_ref());
        let without_fields = |term: &NodeSelectorTerm| NodeSelectorTerm { match_fields: Vec::new(), ..term.clone() };
        let terms = required.into_iter().flatten().map(without_fields);
        Self {
            requests: pod_requests(pod),
            ports: ports::host_ports(pod),
            tolerations: pod.spec.tolerations.clone(),
            node_selector: pod.spec.node_selector.clone(),
            node_affinity: terms.filter(|term| !term.match_expressions.is_empty()).collect(),
            needs_devices: needs_devices(pod),
        }
    }
}
