//! Groups of instance types that share a launch template (spec 05 §13.1).

use std::collections::{BTreeMap, BTreeSet};

use kerf_api::ec2nodeclass::Ami;
use kerf_api::labels::{self, LabelRules, aws};
use kerf_api::quantity::Quantity;
use kerf_engine::catalogue::InstanceTypeRef;
use kerf_engine::requirement::Requirements;

use super::candidate::{meets, single_value};
use super::claim::LaunchClaim;
use crate::discovery::amis::{AmiMatchError, map_types_to_amis};
use crate::instance_types::InstanceTypeError;
use crate::instance_types::kubelet::ResolvedKubelet;
use crate::launch_templates::TemplateReservation;

/// Resource of EFA interfaces.
pub(super) const EFA_RESOURCE: &str = "vpc.amazonaws.com/efa";

/// Instance types that share a launch template.
#[derive(Debug, Clone)]
pub(super) struct TemplateGroup<'t> {
    pub(super) image_id: String,
    pub(super) efa_count: i32,
    pub(super) max_pods: i64,
    /// The kubelet settings of the types.
    pub(super) kubelet: ResolvedKubelet,
    /// The reservation of a reserved launch.
    pub(super) reservation: Option<TemplateReservation>,
    pub(super) types: Vec<InstanceTypeRef<'t>>,
}

/// ID of a reservation, true for a capacity block, true if EC2 may reclaim it.
type ReservationKey = (String, bool, bool);

/// Reason why launch templates cannot be chosen.
#[derive(Debug, thiserror::Error)]
pub(super) enum TemplateGroupError {
    /// No type has an image.
    #[error(transparent)]
    Amis(#[from] AmiMatchError),
    /// The kubelet settings of a type are unknown.
    #[error(transparent)]
    InstanceType(#[from] InstanceTypeError),
}

/// The properties that types of one group have in common, apart from the image.
type GroupKey = (i32, i64, KubeletKey, BTreeSet<ReservationKey>);

/// Resolved `maxPods`, `kubeReserved` and `systemReserved`.
type KubeletKey = (Option<i64>, BTreeMap<String, String>, BTreeMap<String, String>);

/// Returns the groups in the order of the images, then by EFA interfaces, pods, kubelet settings
/// and reservations. `kubelet_of` returns the settings of a type by its name.
pub(super) fn template_groups<'t>(
    types: &[InstanceTypeRef<'t>],
    amis: &[Ami],
    claim: &LaunchClaim<'_>,
    narrowed: &Requirements,
    rules: &LabelRules,
    kubelet_of: impl Fn(&str) -> Result<ResolvedKubelet, InstanceTypeError>,
) -> Result<Vec<TemplateGroup<'t>>, TemplateGroupError> {
    let mut groups = Vec::new();
    let requests_efa = claim.requests_resource(EFA_RESOURCE);
    for matched in map_types_to_amis(types, amis)? {
        let mut by_key: BTreeMap<GroupKey, (ResolvedKubelet, Vec<InstanceTypeRef<'t>>)> = BTreeMap::new();
        for instance_type in matched.types {
            let amount = |name: &str| instance_type.capacity.get(name).map_or(0, Quantity::value);
            let efa_count = if requests_efa { i32::try_from(amount(EFA_RESOURCE)).unwrap_or(i32::MAX) } else { 0 };
            let reservations = reservations(instance_type, narrowed, rules);
            let kubelet = kubelet_of(&instance_type.name)?;
            let key = (efa_count, amount("pods"), kubelet.template_key(), reservations);
            by_key.entry(key).or_insert_with(|| (kubelet, Vec::new())).1.push(instance_type);
        }
        for ((efa_count, max_pods, _, reservations), (kubelet, types)) in by_key {
            let image_id = matched.ami.id.clone();
            let group = TemplateGroup { image_id, efa_count, max_pods, kubelet, reservation: None, types };
            if reservations.is_empty() {
                groups.push(group);
                continue;
            }
            groups.extend(reservations.into_iter().map(|(id, is_capacity_block, is_interruptible)| TemplateGroup {
                reservation: Some(TemplateReservation { id, is_capacity_block, is_interruptible }),
                ..group.clone()
            }));
        }
    }
    Ok(groups)
}

/// Returns the reservations from which a type can be launched; none unless the launch is reserved.
fn reservations(
    instance_type: InstanceTypeRef<'_>,
    narrowed: &Requirements,
    rules: &LabelRules,
) -> BTreeSet<ReservationKey> {
    if single_value(narrowed, labels::CAPACITY_TYPE) != labels::CAPACITY_TYPE_RESERVED {
        return BTreeSet::new();
    }
    let usable = instance_type
        .offerings()
        .filter(|offering| offering.is_launchable() && meets(narrowed, &offering.requirements, rules));
    usable
        .map(|offering| {
            let value = |key: &str| single_value(&offering.offering().requirements, key).to_owned();
            (
                value(aws::CAPACITY_RESERVATION_ID),
                value(aws::CAPACITY_RESERVATION_TYPE) == "capacity-block",
                value(aws::CAPACITY_RESERVATION_INTERRUPTIBLE) == "true",
            )
        })
        .collect()
}
