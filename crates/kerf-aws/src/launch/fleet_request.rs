//! The request of `CreateFleet` for one claim (spec 05 §15.5).

use std::collections::{BTreeMap, BTreeSet};

use kerf_api::annotations;
use kerf_api::labels::{self, LabelRules, aws};
use kerf_api::slim::Str;
use kerf_engine::requirement::{Requirement, Requirements};

use super::candidate::{meets, single_value};
use super::claim::LaunchClaim;
use super::template_groups::TemplateGroup;
use crate::discovery::subnets::SubnetChoice;
use crate::ports::Tags;
use crate::ports::ec2::{CreateFleet, FleetConfig, FleetOverride, FleetTarget, TagSpecification};

/// Resources that get the launch tags with the request, in the order in which they are sent.
const TAGGED_RESOURCES: [&str; 3] = ["instance", "volume", "fleet"];

/// No offering has a subnet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("no capacity offerings are currently available given the constraints")]
pub(super) struct NoOfferingsError;

/// A group of types with the name of its launch template.
#[derive(Debug)]
pub(super) struct NamedTemplate<'g, 't> {
    pub(super) name: String,
    pub(super) group: &'g TemplateGroup<'t>,
}

/// Everything that a request depends on.
#[derive(Clone, Copy)]
pub(super) struct FleetInput<'a> {
    pub(super) claim: &'a LaunchClaim<'a>,
    /// The claim's requirements with the capacity type of the launch.
    pub(super) narrowed: &'a Requirements,
    pub(super) capacity_type: &'static str,
    /// The chosen subnet of each zone.
    pub(super) subnets: &'a BTreeMap<String, SubnetChoice>,
    pub(super) tags: &'a Tags,
    /// `spec.context` of the class.
    pub(super) context: Option<&'a str>,
    pub(super) rules: &'a LabelRules,
}

/// Returns the request for one instance.
pub(super) fn fleet_request(
    input: FleetInput<'_>,
    templates: &[NamedTemplate<'_, '_>],
) -> Result<CreateFleet, NoOfferingsError> {
    let configs: Vec<FleetConfig> = templates
        .iter()
        .map(|template| FleetConfig {
            template_name: template.name.clone(),
            overrides: overrides(input, template.group),
        })
        .filter(|config| !config.overrides.is_empty())
        .collect();
    if configs.is_empty() {
        return Err(NoOfferingsError);
    }
    let is_relaxed = input.claim.has_annotation(annotations::NODECLAIM_MIN_VALUES_RELAXED, |value| value == "true");
    Ok(CreateFleet {
        target_capacity: 1,
        target: target(input, templates),
        configs,
        tags: TAGGED_RESOURCES.map(|resource_type| TagSpecification { resource_type, tags: input.tags.clone() }).into(),
        context: input.context.filter(|context| !context.is_empty() && !is_relaxed).map(str::to_owned),
        client_token: String::new(),
        is_dry_run: false,
    })
}

/// Returns one override for each type and zone of a group.
fn overrides(input: FleetInput<'_>, group: &TemplateGroup<'_>) -> Vec<FleetOverride> {
    let mut requirements = input.narrowed.clone();
    if let Some(reservation) = &group.reservation {
        requirements.add(Requirement::one_of(aws::CAPACITY_RESERVATION_ID, [Str::new(&reservation.id)]));
    }
    let mut overrides = Vec::new();
    for instance_type in &group.types {
        let mut zones: BTreeSet<&str> = BTreeSet::new();
        for offering in instance_type.offerings() {
            if !offering.is_launchable() || !meets(&requirements, &offering.requirements, input.rules) {
                continue;
            }
            let zone = single_value(&offering.offering().requirements, labels::ZONE);
            let Some(subnet) = input.subnets.get(zone) else { continue };
            // Copies of an offering for partitions collapse.
            if zones.insert(zone) {
                overrides.push(FleetOverride {
                    instance_type: instance_type.name.to_string(),
                    subnet_id: subnet.id.clone(),
                    image_id: Some(group.image_id.clone()),
                    zone: Some(zone.to_owned()),
                    priority: Some(offering.price.dollars()),
                });
            }
        }
    }
    overrides
}

fn target(input: FleetInput<'_>, templates: &[NamedTemplate<'_, '_>]) -> FleetTarget {
    // Priorities count only with these strategies. They follow prices that overlays have changed.
    let is_prioritized = input.claim.has_annotation(annotations::PRICE_OVERLAY_APPLIED, |_| true);
    let strategy = |prioritized: &str, default: &str| if is_prioritized { prioritized } else { default }.to_owned();
    let on_demand = || FleetTarget::OnDemand { allocation_strategy: strategy("prioritized", "lowest-price") };
    match input.capacity_type {
        labels::CAPACITY_TYPE_SPOT => FleetTarget::Spot {
            allocation_strategy: strategy("capacity-optimized-prioritized", "price-capacity-optimized"),
        },
        labels::CAPACITY_TYPE_RESERVED => {
            let reservation = templates.iter().find_map(|template| template.group.reservation.as_ref());
            match reservation {
                Some(reservation) if reservation.is_capacity_block => FleetTarget::CapacityBlock,
                Some(reservation) if reservation.is_interruptible => FleetTarget::ReservedCapacity,
                Some(_) | None => on_demand(),
            }
        }
        _ => on_demand(),
    }
}
