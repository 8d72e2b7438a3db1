//! The question `instance-types` (spec 11 §2.1).

use std::sync::Arc;

use jiff::Timestamp;
use kerf_api::ec2nodeclass::EC2NodeClass;
use kerf_api::labels::{self, aws};
use kerf_api::slim::ResourceList;
use kerf_aws::data::ShippedCatalogue;
use kerf_aws::instance_types::{InstanceTypeCatalogue, InstanceTypeSettings};
use kerf_aws::memory::{Account, MemoryAws, MemorySettings};
use kerf_aws::pricing::Pricing;
use kerf_aws::unavailable_offerings::UnavailableOfferings;
use kerf_aws::{KnownPlacementGroups, PlacementGroups, ReservationSlots, ShiftedZones};
use kerf_engine::catalogue::{InstanceTypeRef, OfferingRef};
use kerf_engine::requirement::{Requirement, Requirements};
use kerf_runtime::Clock;
use serde_json::{Map, Value, json};

use super::QuestionError;
use super::controller_memory::{apply_mark, merge_prices};
use super::document::{Document, PlacementGroupEntry};

/// Returns every type of the node class, sorted by name.
pub(super) fn answer(document: &Document, common: &ShippedCatalogue) -> Result<Value, QuestionError> {
    let class = document.node_class()?;
    let options = document.options();
    let known = document.catalogue(common, Some(&class))?;
    let pricing = Arc::new(Pricing::new(options.region()));
    merge_prices(&pricing, document)?;
    let clock = Clock::system();
    let unavailable = Arc::new(UnavailableOfferings::new(clock));
    for mark in document.unavailable.iter().flatten() {
        apply_mark(&unavailable, mark);
    }
    let settings = InstanceTypeSettings::new(options.region(), &options.settings());
    let slots = Arc::new(ReservationSlots::new(clock));
    slots.set_free(document.reservations.iter().flatten().map(|(id, free)| (id.clone(), *free)));
    let shifted_zones = Arc::new(ShiftedZones::new(clock));
    shifted_zones.replace(document.shifted_zones.iter().flatten().map(|id| (id.clone(), Timestamp::MAX)));
    let catalogue = InstanceTypeCatalogue::new(settings, pricing, unavailable, clock)
        .with_reservation_slots(slots)
        .with_placement_groups(placement_groups(document, &class, clock)?)
        .with_shifted_zones(shifted_zones);
    catalogue.set_catalogue(known.instance_types, known.offerings);
    let list = catalogue.list(&class).map_err(QuestionError::other)?;
    let types: Vec<Value> = list.iter().map(describe_type).collect();
    Ok(json!({ "instanceTypes": types }))
}

/// Resolves the placement group of the class with the provider's own code.
fn placement_groups(
    document: &Document,
    class: &EC2NodeClass,
    clock: Clock,
) -> Result<Arc<KnownPlacementGroups>, QuestionError> {
    let mut account = Account::new(document.options().region());
    let groups = document.placement_groups.iter().flatten().map(PlacementGroupEntry::to_group);
    account.placement_groups = groups.map(|group| (group.id.clone(), group)).collect();
    let aws = MemoryAws::new(clock, account, MemorySettings::default());
    let known = Arc::new(KnownPlacementGroups::new(clock));
    let groups = PlacementGroups::new(Arc::new(aws), known.clone(), clock);
    let runtime = tokio::runtime::Builder::new_current_thread().build().map_err(QuestionError::other)?;
    runtime.block_on(groups.resolve(class)).map_err(QuestionError::other)?;
    Ok(known)
}

fn describe_type(instance_type: InstanceTypeRef<'_>) -> Value {
    let requirements: Map<String, Value> = instance_type
        .requirements
        .iter()
        .map(|requirement| (requirement.key().to_string(), json!(requirement.values())))
        .collect();
    let mut offerings: Vec<(String, Value)> = instance_type.offerings().map(describe_offering).collect();
    offerings.sort_by(|(one, _), (two, _)| one.cmp(two));
    let offerings: Vec<Value> = offerings.into_iter().map(|(_, offering)| offering).collect();
    json!({
        "name": instance_type.name,
        "requirements": requirements,
        "capacity": resources(&instance_type.capacity),
        "kubeReserved": resources(&instance_type.overhead.kube_reserved),
        "systemReserved": resources(&instance_type.overhead.system_reserved),
        "evictionThreshold": resources(&instance_type.overhead.eviction_threshold),
        "allocatable": resources(&instance_type.allocatable()),
        "offerings": offerings,
    })
}

fn resources(list: &ResourceList) -> Map<String, Value> {
    list.iter().map(|(name, quantity)| (name.to_string(), json!(quantity.to_string()))).collect()
}

/// Returns an offering with the key by which the list is sorted.
fn describe_offering(offering: OfferingRef<'_>) -> (String, Value) {
    let value = |key: &str| value_of(&offering.requirements, key);
    let (capacity_type, zone) = (value(labels::CAPACITY_TYPE), value(labels::ZONE));
    let (reservation, partition) = (value(aws::CAPACITY_RESERVATION_ID), value(aws::PLACEMENT_GROUP_PARTITION));
    let key = format!("{capacity_type}/{zone}/{reservation}/{partition}");
    let mut described = json!({
        "capacityType": capacity_type,
        "zone": zone,
        "price": offering.price.dollars(),
        "available": offering.is_launchable(),
    });
    for (member, text) in [
        ("zoneID", value(aws::ZONE_ID)),
        ("reservationID", reservation),
        ("reservationType", value(aws::CAPACITY_RESERVATION_TYPE)),
        ("interruptible", value(aws::CAPACITY_RESERVATION_INTERRUPTIBLE)),
        ("partition", partition),
    ] {
        if !text.is_empty() {
            described[member] = json!(text);
        }
    }
    if offering.reservation_capacity() != 0 {
        described["reservationCapacity"] = json!(offering.reservation_capacity());
    }
    (key, described)
}

/// Returns the value that an offering requires for a label; empty if it requires none.
fn value_of(requirements: &Requirements, key: &str) -> String {
    requirements.get(key).and_then(Requirement::pick_value).map(|value| value.to_string()).unwrap_or_default()
}
