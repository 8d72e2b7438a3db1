//! Volumes: a bound volume must be usable on the node, an unbound one must be provisionable for it,
//! and no driver may get more volumes on a node than it can attach.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::core::v1::{PersistentVolume, Pod};

use super::{ClusterView, FilterReason, NodeView};
use crate::placement::namespace;
use crate::selectors::{Labels, labels_or_empty, node_labels};
use crate::storage::{
    VolumeClaimState, VolumeObjects, can_class_provision_for, is_volume_usable_on, volume_claim_names,
};

/// Zone and region labels of a volume, each with the node's label for it. A value may list several
/// zones, joined by `__`.
const ZONE_AND_REGION_LABELS: [(&str, &str); 4] = [
    ("failure-domain.beta.kubernetes.io/zone", "topology.kubernetes.io/zone"),
    ("failure-domain.beta.kubernetes.io/region", "topology.kubernetes.io/region"),
    ("topology.kubernetes.io/zone", "topology.kubernetes.io/zone"),
    ("topology.kubernetes.io/region", "topology.kubernetes.io/region"),
];

/// The pod's volume claims with their states, and the cluster's volumes.
#[derive(Debug)]
pub(super) struct VolumeFilter<'a> {
    claims: Vec<(String, VolumeClaimState<'a>)>,
    drivers: BTreeMap<String, BTreeSet<(String, String)>>,
    storage: VolumeObjects<'a>,
}

impl<'a> VolumeFilter<'a> {
    pub(super) fn new(pod: &'a Pod, cluster: &ClusterView<'a>) -> Self {
        let pod_namespace = namespace(pod);
        let claims = volume_claim_names(pod).into_iter().map(|name| {
            let state = cluster.storage.claim_state(pod_namespace, &name);
            (name, state)
        });
        Self {
            claims: claims.collect(),
            drivers: volume_claims_by_driver(pod, &cluster.storage),
            storage: cluster.storage.clone(),
        }
    }

    pub(super) fn reasons(&self, node: &NodeView<'_>) -> Vec<FilterReason> {
        if self.claims.is_empty() {
            return Vec::new();
        }
        let labels = node_labels(node.node);
        let mut reasons: Vec<FilterReason> = self.volume_limit_reason(node).into_iter().collect();
        for (name, state) in &self.claims {
            let reason = match state {
                VolumeClaimState::Missing => Some(FilterReason::ClaimMissing { claim: name.clone() }),
                VolumeClaimState::Deleting => Some(FilterReason::ClaimDeleting { claim: name.clone() }),
                VolumeClaimState::Lost => Some(FilterReason::VolumeMissing),
                VolumeClaimState::Unbound => Some(FilterReason::UnboundImmediate),
                VolumeClaimState::Bound(volume) if !is_volume_usable_on(volume, node.name(), labels) => {
                    Some(FilterReason::VolumeNodeAffinity)
                }
                VolumeClaimState::Waiting(class) if !can_class_provision_for(class, labels) => {
                    Some(FilterReason::VolumeBinding)
                }
                VolumeClaimState::Bound(_) | VolumeClaimState::Waiting(_) => None,
            };
            reasons.extend(reason);
        }
        let is_in_other_zone = |(_, state): &(String, VolumeClaimState<'_>)| match state {
            VolumeClaimState::Bound(volume) => !is_in_volume_zone(volume, labels),
            _ => false,
        };
        if self.claims.iter().any(is_in_other_zone) {
            reasons.push(FilterReason::VolumeZone);
        }
        reasons.dedup();
        reasons
    }

    fn volume_limit_reason(&self, node: &NodeView<'_>) -> Option<FilterReason> {
        let drivers = node.csi.iter().flat_map(|csi| &csi.spec.drivers);
        let limits = drivers.filter_map(|driver| Some((&driver.name, driver.allocatable.as_ref()?.count?)));
        for (driver, limit) in limits {
            let Some(own_volumes) = self.drivers.get(driver) else { continue };
            let mut volumes = own_volumes.clone();
            for other in node.live_pods() {
                volumes.extend(volume_claims_by_driver(other, &self.storage).remove(driver).unwrap_or_default());
            }
            let limit = usize::try_from(limit).unwrap_or(0);
            if volumes.len() > limit {
                return Some(FilterReason::VolumeLimit { driver: driver.clone(), count: volumes.len(), limit });
            }
        }
        None
    }
}

/// Returns the pod's volume claims, `(namespace, name)`, by the driver that attaches their volumes.
pub(crate) fn volume_claims_by_driver(
    pod: &Pod,
    storage: &VolumeObjects<'_>,
) -> BTreeMap<String, BTreeSet<(String, String)>> {
    let pod_namespace = namespace(pod);
    let mut by_driver = BTreeMap::<_, BTreeSet<_>>::new();
    for name in volume_claim_names(pod) {
        if let Some(driver) = storage.csi_driver(pod_namespace, &name) {
            by_driver.entry(driver).or_default().insert((pod_namespace.to_owned(), name));
        }
    }
    by_driver
}

/// Returns true if the node is in the zone and region of the volume's labels, or has no zone or
/// region label at all. Labels that the volume lacks are not compared.
fn is_in_volume_zone(volume: &PersistentVolume, labels: &Labels) -> bool {
    let volume_labels = labels_or_empty(volume.metadata.labels.as_ref());
    let has_no_zone_labels = ZONE_AND_REGION_LABELS.iter().all(|(old, _)| !labels.contains_key(*old));
    has_no_zone_labels
        || ZONE_AND_REGION_LABELS.iter().all(|(old, new)| {
            volume_labels.get(*old).is_none_or(|zones| {
                let node_value = labels.get(*old).or_else(|| labels.get(*new));
                node_value.is_some_and(|node_value| zones.split("__").any(|zone| zone == node_value))
            })
        })
}
