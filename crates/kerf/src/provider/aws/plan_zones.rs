//! Zones, regions and zone IDs that an input names, and what a plan does not know about them.

use std::collections::BTreeSet;

use kerf_api::ec2nodeclass::EC2NodeClass;
use kerf_api::labels;
use kerf_aws::data;

use super::named_values::{self, listed};
use super::plan_region::{PlanRegion, RegionOrigin, region_of_zone};
use crate::input::Objects;

/// Returns the warnings about zones, regions and zone IDs that the input names.
pub(super) fn zone_warnings(objects: &Objects, region: &PlanRegion) -> Vec<String> {
    let known = data::zones(&region.name);
    let named: BTreeSet<&str> = named_values::of_pools(objects, labels::ZONE)
        .chain(named_values::of_pending_pods(objects, labels::ZONE))
        .collect();
    // Pods may name zones of another provider.
    let of_pools: BTreeSet<&str> = named_values::of_pools(objects, labels::ZONE).collect();
    let unknown: BTreeSet<&str> = named
        .iter()
        .copied()
        .filter(|zone| !known.iter().any(|known| known == zone))
        .filter(|zone| match region_of_zone(zone) {
            Some(other) => other == region.name,
            None => of_pools.contains(zone),
        })
        .collect();
    let mut warnings: Vec<String> = other_regions_warning(objects, region).into_iter().collect();
    if !unknown.is_empty() {
        let listed = listed(unknown.iter().copied());
        warnings.push(format!("zones that the input names and that Kerf does not know in {}: {listed}", region.name));
    }
    warnings.extend(zone_ids_warning(objects));
    warnings
}

fn other_regions_warning(objects: &Objects, region: &PlanRegion) -> Option<String> {
    let named =
        named_values::of_pools(objects, labels::REGION).chain(named_values::of_pending_pods(objects, labels::REGION));
    let of_zones = named_values::of_pending_pods(objects, labels::ZONE).filter_map(region_of_zone);
    let others: BTreeSet<&str> = region
        .of_zones
        .iter()
        .map(String::as_str)
        .chain(named)
        .chain(of_zones)
        .filter(|other| *other != region.name)
        .collect();
    if others.is_empty() {
        return None;
    }
    let (others, name) = (listed(others.iter().copied()), &region.name);
    Some(match region.origin {
        RegionOrigin::Flag => format!(
            "the input has zones of {others}: the plan knows only those of {name}, which --region selects; zones \
             elsewhere have no instance types"
        ),
        RegionOrigin::Zones | RegionOrigin::Default => {
            format!(
                "the input also has zones of {others}: the plan knows only those of {name}; --region selects another"
            )
        }
    })
}

/// Which zone has which ID differs between accounts, so that only the status of a class tells it.
fn zone_ids_warning(objects: &Objects) -> Option<String> {
    let has_unknown_ids = objects.ec2_node_classes.iter().any(|class| has_unknown_zone_ids(&class.object));
    let ids: BTreeSet<&str> = named_values::of_pools(objects, labels::aws::ZONE_ID)
        .chain(named_values::of_pending_pods(objects, labels::aws::ZONE_ID))
        .collect();
    if !has_unknown_ids || ids.is_empty() {
        return None;
    }
    let (key, ids) = (labels::aws::ZONE_ID, listed(ids.iter().copied()));
    Some(format!(
        "the plan ignores zone IDs that the input names ({ids} for {key}): which zone has which ID differs between \
         accounts; give the EC2NodeClass with its status.subnets (zoneID)"
    ))
}

fn has_unknown_zone_ids(class: &EC2NodeClass) -> bool {
    let subnets = class.status.as_ref().and_then(|status| status.subnets.as_deref()).unwrap_or_default();
    subnets.is_empty() || subnets.iter().any(|subnet| subnet.zone_id.as_deref().unwrap_or_default().is_empty())
}
