//! Reserved offerings, placement groups and zonal shifts in lists of instance types.

use kerf_engine::catalogue::OfferingRef;
use kerf_engine::requirement::Requirement;

use super::*;
use crate::placement_groups::KnownPlacementGroups;
use crate::ports::ec2::PlacementGroup;
use crate::reservation_slots::ReservationSlots;
use crate::shifted_zones::ShiftedZones;

struct OfferingCatalogue {
    catalogue: InstanceTypeCatalogue,
    pricing: Arc<Pricing>,
    unavailable: Arc<UnavailableOfferings>,
    slots: Arc<ReservationSlots>,
    groups: Arc<KnownPlacementGroups>,
    shifted_zones: Arc<ShiftedZones>,
    clock: Clock,
}

impl OfferingCatalogue {
    fn shipped() -> Self {
        Self::with_settings(&AwsSettings::new("test"))
    }

    fn with_settings(settings: &AwsSettings) -> Self {
        let clock = Clock::starting_at("2026-01-01T00:00:00Z".parse().unwrap());
        let (pricing, unavailable) = (Arc::new(Pricing::new("us-west-2")), Arc::new(UnavailableOfferings::new(clock)));
        let slots = Arc::new(ReservationSlots::new(clock));
        let groups = Arc::new(KnownPlacementGroups::new(clock));
        let shifted_zones = Arc::new(ShiftedZones::new(clock));
        let settings = InstanceTypeSettings::new("us-west-2", settings);
        let catalogue = InstanceTypeCatalogue::new(settings, pricing.clone(), unavailable.clone(), clock)
            .with_reservation_slots(slots.clone())
            .with_placement_groups(groups.clone())
            .with_shifted_zones(shifted_zones.clone());
        let shipped = data::catalogue();
        catalogue.set_catalogue(shipped.instance_types.clone(), shipped.offerings.clone());
        Self { catalogue, pricing, unavailable, slots, groups, shifted_zones, clock }
    }

    /// Returns the offerings of a capacity type: zone, reservation or partition, free slots, state.
    fn offerings(&self, class: &EC2NodeClass, name: &str, capacity_type: &str) -> Vec<String> {
        let list = self.catalogue.list(class).unwrap();
        let of_type = list.find(name).unwrap();
        let offerings = of_type.offerings().map(|offering| {
            let value = |key: &str| {
                offering.requirements.get(key).and_then(Requirement::pick_value).unwrap_or_default().to_string()
            };
            (
                value(labels::CAPACITY_TYPE),
                value(labels::ZONE).replace("us-west-2", ""),
                [
                    value(aws::CAPACITY_RESERVATION_ID),
                    value(aws::PLACEMENT_GROUP_PARTITION),
                    offering.reservation_capacity().to_string(),
                    if offering.is_available() { "available".to_owned() } else { "unavailable".to_owned() },
                ],
            )
        });
        let found = offerings.filter(|(found, ..)| found == capacity_type);
        let non_empty = |texts: [String; 4]| texts.into_iter().filter(|text| !text.is_empty()).collect::<Vec<_>>();
        found.map(|(_, zone, texts)| format!("{zone} {}", non_empty(texts).join(" "))).collect()
    }
}

fn reserved_class(reservations: Value) -> EC2NodeClass {
    let mut class = class(json!({}));
    class.status.as_mut().unwrap().capacity_reservations = serde_json::from_value(reservations).unwrap();
    class
}

fn reservation(id: &str, zone: &str, more: Value) -> Value {
    let mut reservation = json!({
        "id": id, "availabilityZone": format!("us-west-2{zone}"), "instanceType": "m5.large",
        "instanceMatchCriteria": "targeted", "ownerID": "111122223333",
    });
    for (key, value) in more.as_object().unwrap() {
        reservation[key] = value.clone();
    }
    reservation
}

// spec 05 §5.2, #62, #63; spec 10 #110: the offering
#[tokio::test(start_paused = true)]
async fn spec_05_62_reserved_offerings_have_their_free_slots_and_are_available_unless_they_expire() {
    let test = OfferingCatalogue::shipped();
    test.slots.set_free([("cr-1", 3), ("cr-2", 0), ("cr-3", 5)].map(|(id, free)| (id.to_owned(), free)));
    let class = reserved_class(json!([
        reservation("cr-3", "a", json!({"reservationType": "capacity-block", "state": "expiring"})),
        reservation("cr-1", "a", json!({})),
        reservation("cr-2", "b", json!({"interruptible": true})),
        reservation("cr-4", "d", json!({})),
    ]));
    let reserved = || test.offerings(&class, "m5.large", "reserved");
    let expected = ["a cr-1 3 available", "b cr-2 0 available", "a cr-3 5 unavailable", "d cr-4 0 unavailable"];
    assert_eq!(reserved(), expected, "a full reservation is available, one without subnet is not");
    let list = test.catalogue.list(&class).unwrap();
    let of_type = list.find("m5.large").unwrap();
    let launchable: Vec<bool> =
        of_type.offerings().filter(|own| own.is_reserved()).map(OfferingRef::is_launchable).collect();
    // spec 05 #63, spec 10 #110: without a free slot nothing is launched.
    assert_eq!(launchable, [true, false, false, false]);
    let label = |key: &str| values(&of_type, key);
    assert_eq!(label(labels::CAPACITY_TYPE), "on-demand,reserved,spot");
    assert_eq!(label(aws::CAPACITY_RESERVATION_ID), "cr-1,cr-2,cr-3,cr-4");
    assert_eq!(label(aws::CAPACITY_RESERVATION_TYPE), "capacity-block,default");
    assert_eq!(label(aws::CAPACITY_RESERVATION_INTERRUPTIBLE), "false,true");
    // A launch is visible at once, and copies no type.
    test.slots.record_launch("cr-1", test.clock.now());
    assert_eq!(reserved()[0], "a cr-1 2 available");
    assert!(std::ptr::eq(list.types(), test.catalogue.list(&class).unwrap().types()));
    assert_eq!(test.offerings(&class, "m5.xlarge", "reserved"), [""; 0]);
}

// spec 10 §12.4
#[tokio::test(start_paused = true)]
async fn a_reclaimed_reservation_is_unavailable_for_three_minutes() {
    let test = OfferingCatalogue::shipped();
    test.slots.set_free([("cr-1".to_owned(), 3)]);
    let class = reserved_class(json!([reservation("cr-1", "a", json!({"interruptible": true}))]));
    let reserved = || test.offerings(&class, "m5.large", "reserved");
    test.slots.mark_reclaimed("cr-1");
    assert_eq!(reserved(), ["a cr-1 0 unavailable"]);
    advance(Duration::from_mins(3)).await;
    assert_eq!(reserved(), ["a cr-1 0 available"]);
}

// spec 05 §5.2: the gate; #64
#[tokio::test(start_paused = true)]
async fn spec_05_64_an_unknown_price_is_zero_and_the_gate_removes_the_offerings() {
    let class = reserved_class(json!([reservation("cr-1", "a", json!({}))]));
    let test = OfferingCatalogue::shipped();
    let price = |name: &str| {
        let list = test.catalogue.list(&class).unwrap();
        let of_type = list.find(name).unwrap();
        of_type.offerings().find(|own| own.is_reserved()).map(|own| (own.price, own.is_available()))
    };
    let on_demand = test.pricing.on_demand("m5.large").unwrap();
    assert_eq!(price("m5.large"), Some((on_demand.divided_by(10_000_000), true)));
    test.catalogue.set_catalogue(
        vec![InstanceTypeInfo { name: "x9.large".into(), ..TestCatalogue::info("m5.large") }],
        vec![InstanceTypeOffering { instance_type: "x9.large".into(), zone: "us-west-2a".into() }],
    );
    let class = reserved_class(json!([reservation("cr-1", "a", json!({"instanceType": "x9.large"}))]));
    assert_eq!(test.offerings(&class, "x9.large", "reserved"), ["a cr-1 0 available"]);
    let list = test.catalogue.list(&class).unwrap();
    let prices: Vec<bool> =
        list.find("x9.large").unwrap().offerings().map(|own| own.price == kerf_engine::Price::ZERO).collect();
    assert_eq!(prices, [true, true, true]);
    let off = OfferingCatalogue::with_settings(&AwsSettings { reserved_capacity: false, ..AwsSettings::new("test") });
    assert_eq!(
        off.offerings(&reserved_class(json!([reservation("cr-1", "a", json!({}))])), "m5.large", "reserved"),
        [""; 0]
    );
}

fn grouped(strategy: &str, partition_count: Option<i32>) -> (EC2NodeClass, Option<Arc<PlacementGroup>>) {
    let class = class(json!({"placementGroupSelector": {"name": "racks"}}));
    let group = PlacementGroup {
        id: "pg-1".into(),
        name: "racks".into(),
        strategy: strategy.into(),
        partition_count,
        ..PlacementGroup::default()
    };
    (class, Some(Arc::new(group)))
}

// spec 05 §5.3, #48, #49; §22, 3
#[tokio::test(start_paused = true)]
async fn spec_05_49_offerings_are_copied_for_each_partition_and_marks_have_a_scope() {
    let test = OfferingCatalogue::shipped();
    let (class, group) = grouped("partition", Some(3));
    assert_eq!(test.offerings(&class, "m5.large", "spot").len(), 4, "no group is known yet");
    test.groups.set(&class, group);
    let spot = || {
        test.offerings(&class, "m5.large", "spot").into_iter().filter(|text| text.starts_with('a')).collect::<Vec<_>>()
    };
    assert_eq!(spot(), ["a 1 0 available", "a 2 0 available", "a 3 0 available"]);
    let m5_large = test.catalogue.get(&class, "m5.large").unwrap();
    assert_eq!(values(&m5_large, aws::PLACEMENT_GROUP_ID), "pg-1");
    assert_eq!(values(&m5_large, aws::PLACEMENT_GROUP_PARTITION), "1,2,3");
    let outside = super::class(json!({}));
    let spot_outside = || test.offerings(&outside, "m5.large", "spot")[0].clone();
    let mark = |scope| {
        let (instance_type, zone) = ("m5.large".to_owned(), "us-west-2a".to_owned());
        test.unavailable.mark_pool(InstancePool { instance_type, zone, capacity_type: "spot".to_owned(), scope });
    };
    // spec 05 #49
    mark(PoolScope::Partition { group: "pg-1".into(), partition: 2 });
    assert_eq!(spot(), ["a 1 0 available", "a 2 0 unavailable", "a 3 0 available"]);
    // spec 05 #48
    mark(PoolScope::PlacementGroup("pg-1".into()));
    assert_eq!(spot(), ["a 1 0 unavailable", "a 2 0 unavailable", "a 3 0 unavailable"]);
    assert_eq!(spot_outside(), "a 0 available");
    advance(Duration::from_mins(4)).await;
    assert_eq!(spot(), ["a 1 0 available", "a 2 0 available", "a 3 0 available"]);
    mark(PoolScope::Unscoped);
    assert_eq!(spot(), ["a 1 0 unavailable", "a 2 0 unavailable", "a 3 0 unavailable"]);
    assert_eq!(spot_outside(), "a 0 unavailable");
}

// spec 05 §5.3: reserved offerings too
#[tokio::test(start_paused = true)]
async fn reserved_offerings_are_copied_for_each_partition() {
    let test = OfferingCatalogue::shipped();
    let (mut class, group) = grouped("partition", Some(2));
    let reservations = json!([reservation("cr-1", "a", json!({}))]);
    class.status.as_mut().unwrap().capacity_reservations = serde_json::from_value(reservations).unwrap();
    test.groups.set(&class, group);
    test.slots.set_free([("cr-1".to_owned(), 3)]);
    assert_eq!(test.offerings(&class, "m5.large", "reserved"), ["a cr-1 1 3 available", "a cr-1 2 3 available"]);
}

// spec 05 #58
#[tokio::test(start_paused = true)]
async fn spec_05_58_a_group_needs_types_that_support_its_strategy() {
    let test = OfferingCatalogue::shipped();
    let (class, group) = grouped("cluster", None);
    test.groups.set(&class, group);
    let is_available =
        |name: &str| test.offerings(&class, name, "on-demand").iter().any(|text| text.ends_with(" available"));
    assert!(is_available("m5.large") && !is_available("t3.large"));
    let t3 = test.catalogue.get(&class, "t3.large").unwrap();
    assert_eq!(values(&t3, aws::PLACEMENT_GROUP_ID), "pg-1");
    assert!(!t3.requirements.contains_key(aws::PLACEMENT_GROUP_PARTITION));
    let names = ["m5.large", "t3.large"];
    assert_eq!(test.catalogue.compatible_types(&class, names).unwrap(), ["m5.large"]);
}

// spec 05 #59: the list
#[tokio::test(start_paused = true)]
async fn a_zonal_shift_changes_states_and_no_types() {
    let test = OfferingCatalogue::shipped();
    test.slots.set_free([("cr-1".to_owned(), 3)]);
    let class = reserved_class(json!([reservation("cr-1", "a", json!({}))]));
    let before = test.catalogue.list(&class).unwrap();
    test.shifted_zones.replace([("usw2-az1".to_owned(), test.clock.now() + Duration::from_mins(10))]);
    let shifted = test.catalogue.list(&class).unwrap();
    assert!(std::ptr::eq(before.types(), shifted.types()));
    assert_eq!(test.offerings(&class, "m5.large", "on-demand")[..2], ["a 0 unavailable", "b 0 available"]);
    assert_eq!(test.offerings(&class, "m5.large", "reserved"), ["a cr-1 3 unavailable"]);
    test.unavailable.mark_capacity_type("spot");
    assert_eq!(test.offerings(&class, "m5.large", "on-demand")[..2], ["a 0 unavailable", "b 0 available"]);
    advance(Duration::from_mins(10)).await;
    assert!(test.catalogue.list(&class).unwrap().is_same(&before));
}
