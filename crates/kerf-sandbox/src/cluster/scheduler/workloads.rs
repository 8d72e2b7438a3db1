//! Selectors of Services, ReplicaSets, StatefulSets and replication controllers. Kube-scheduler
//! spreads the pods of each softly over hosts and zones, if they have no spread constraints of
//! their own.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use kerf_referee::placement::namespace;
use kerf_referee::selectors::{Labels, pod_labels};
use serde::Deserialize;
use smol_str::{SmolStr, format_smolstr};

/// The kinds of owners whose selectors define the default spreading.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum OwnerKind {
    ReplicaSet,
    StatefulSet,
    ReplicationController,
}

/// Selectors of Services and owners, by `namespace/name`.
#[derive(Debug, Default)]
pub(super) struct Workloads {
    services: BTreeMap<SmolStr, Labels>,
    owners: BTreeMap<(OwnerKind, SmolStr), LabelSelector>,
}

#[derive(Deserialize)]
struct WithLabels {
    spec: Option<LabelsSpec>,
}

#[derive(Deserialize)]
struct LabelsSpec {
    selector: Option<Labels>,
}

#[derive(Deserialize)]
struct WithSelector {
    spec: Option<SelectorSpec>,
}

#[derive(Deserialize)]
struct SelectorSpec {
    selector: Option<LabelSelector>,
}

fn labels_selector(bytes: &[u8]) -> Option<Labels> {
    let selector = serde_json::from_slice::<WithLabels>(bytes).ok()?.spec?.selector?;
    (!selector.is_empty()).then_some(selector)
}

impl Workloads {
    /// Adds or updates a Service. `None` removes it.
    pub(super) fn put_service(&mut self, key: SmolStr, bytes: Option<&[u8]>) {
        match bytes.and_then(labels_selector) {
            Some(selector) => drop(self.services.insert(key, selector)),
            None => drop(self.services.remove(&key)),
        }
    }

    /// Adds or updates an owner of pods. `None` removes it.
    pub(super) fn put_owner(&mut self, owner: OwnerKind, key: SmolStr, bytes: Option<&[u8]>) {
        let decode_selector = |bytes| match owner {
            OwnerKind::ReplicationController => {
                let labels = labels_selector(bytes)?;
                Some(LabelSelector { match_labels: Some(labels), match_expressions: None })
            }
            OwnerKind::ReplicaSet | OwnerKind::StatefulSet => {
                serde_json::from_slice::<WithSelector>(bytes).ok()?.spec?.selector
            }
        };
        match bytes.and_then(decode_selector) {
            Some(selector) => drop(self.owners.insert((owner, key), selector)),
            None => drop(self.owners.remove(&(owner, key))),
        }
    }

    /// Returns the selector for the pod's default spreading: the union of its Services' and its
    /// owner's selectors. Returns `None` if there is none, or if it would select everything.
    pub(super) fn default_spread_selector(&self, pod: &Pod) -> Option<LabelSelector> {
        let namespace = namespace(pod);
        let labels = pod_labels(pod);
        let mut combined = LabelSelector::default();
        let is_in_namespace = |key: &SmolStr| key.strip_prefix(namespace).is_some_and(|rest| rest.starts_with('/'));
        let services =
            self.services.range(format_smolstr!("{namespace}/")..).take_while(|(key, _)| is_in_namespace(key));
        for (_, selector) in services.filter(|(_, s)| s.iter().all(|(name, value)| labels.get(name) == Some(value))) {
            combined.match_labels.get_or_insert_default().extend(selector.clone());
        }
        if let Some(selector) = self.owner_of(pod, namespace) {
            combined.match_labels.get_or_insert_default().extend(selector.match_labels.clone().unwrap_or_default());
            let expressions = combined.match_expressions.get_or_insert_default();
            expressions.extend(selector.match_expressions.iter().flatten().cloned());
        }
        let empty = combined.match_labels.iter().flatten().next().is_none()
            && combined.match_expressions.iter().flatten().next().is_none();
        (!empty).then_some(combined)
    }

    fn owner_of(&self, pod: &Pod, namespace: &str) -> Option<&LabelSelector> {
        let controller = pod.metadata.owner_references.iter().flatten().find(|owner| owner.controller == Some(true))?;
        let owner = match (controller.api_version.as_str(), controller.kind.as_str()) {
            ("apps/v1", "ReplicaSet") => OwnerKind::ReplicaSet,
            ("apps/v1", "StatefulSet") => OwnerKind::StatefulSet,
            ("v1", "ReplicationController") => OwnerKind::ReplicationController,
            _ => return None,
        };
        self.owners.get(&(owner, format_smolstr!("{namespace}/{}", controller.name)))
    }
}
