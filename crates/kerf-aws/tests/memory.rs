//! Heap memory of the instance types of node classes, measured with an allocator that counts bytes.
//! All checks are in one test, because tests of one process would count each other's allocations.

#![allow(clippy::unwrap_used, reason = "a test may fail by panicking")]

use std::alloc::System;
use std::sync::Arc;

use kerf_api::ec2nodeclass::EC2NodeClass;
use kerf_aws::instance_types::{InstanceTypeCatalogue, InstanceTypeSettings};
use kerf_aws::pricing::Pricing;
use kerf_aws::unavailable_offerings::{InstancePool, PoolScope, UnavailableOfferings};
use kerf_aws::{AwsSettings, ReservationSlots, ShiftedZones, data};
use kerf_runtime::Clock;
use serde_json::{Value, json};
use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};

#[global_allocator]
static HEAP: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

/// Limit for each further class.
const FURTHER_CLASS_BYTES_MAX: usize = 3_000_000;
/// Limit for each list after a mark, a zonal shift or a launch into a reservation.
const CHANGED_STATE_BYTES_MAX: usize = 300_000;

/// Returns the bytes that `build` allocates and its result keeps.
fn kept_bytes<T>(build: impl FnOnce() -> T) -> (T, usize) {
    let region = Region::new(HEAP);
    let value = build();
    let change = region.change();
    (value, change.bytes_allocated.saturating_sub(change.bytes_deallocated))
}

fn class(zones: &[&str], max_pods: u32, family: &str) -> EC2NodeClass {
    let subnets: Vec<Value> = zones
        .iter()
        .map(|zone| json!({"id": format!("subnet-{zone}"), "zone": format!("us-west-2{zone}"), "zoneID": format!("az-{zone}")}))
        .collect();
    let reservation = json!({
        "id": "cr-1", "availabilityZone": "us-west-2a", "instanceType": "m5.large", "instanceMatchCriteria": "open",
        "ownerID": "111122223333",
    });
    serde_json::from_value(json!({
        "metadata": {"name": "default"},
        "spec": {
            "amiSelectorTerms": [{"alias": format!("{family}@latest")}], "subnetSelectorTerms": [],
            "securityGroupSelectorTerms": [], "kubelet": {"maxPods": max_pods},
        },
        "status": {"subnets": subnets, "capacityReservations": [reservation]},
    }))
    .expect("the class has the fields of the API")
}

// Issue 21, item 5: a further class shares what is equal, and a change of state copies no type.
#[test]
fn a_further_class_takes_at_most_three_megabytes_and_a_change_of_state_little() {
    let clock = Clock::system();
    let (unavailable, slots) = (Arc::new(UnavailableOfferings::new(clock)), Arc::new(ReservationSlots::new(clock)));
    let shifted_zones = Arc::new(ShiftedZones::new(clock));
    let settings = InstanceTypeSettings::new("us-west-2", &AwsSettings::new("test"));
    let pricing = Arc::new(Pricing::new("us-west-2"));
    let catalogue = InstanceTypeCatalogue::new(settings, pricing, unavailable.clone(), clock)
        .with_reservation_slots(slots.clone())
        .with_shifted_zones(shifted_zones.clone());
    let shipped = data::catalogue();
    catalogue.set_catalogue(shipped.instance_types.clone(), shipped.offerings.clone());
    let first_class = class(&["a", "b", "c", "d"], 110, "al2023");
    let (first, first_bytes) = kept_bytes(|| catalogue.list(&first_class).unwrap());
    assert_eq!(first.len(), 1_386);
    for (zones, max_pods, family) in
        [(&["a", "b"][..], 110, "al2023"), (&["a", "b", "c", "d"], 50, "al2023"), (&["b", "c"], 30, "bottlerocket")]
    {
        let further = class(zones, max_pods, family);
        let (list, bytes) = kept_bytes(|| catalogue.list(&further).unwrap());
        let limit = FURTHER_CLASS_BYTES_MAX;
        assert!(
            bytes <= limit,
            "{zones:?} {max_pods} {family}: {bytes} bytes of at most {limit}; the first {first_bytes}"
        );
        let (again, bytes) = kept_bytes(|| catalogue.list(&further).unwrap());
        assert!(again.is_same(&list) && bytes < 10_000, "{bytes}");
    }
    let changes: [(&str, &dyn Fn()); 3] = [
        ("mark", &|| {
            unavailable.mark_pool(InstancePool {
                instance_type: "m5.large".to_owned(),
                zone: "us-west-2a".to_owned(),
                capacity_type: "spot".to_owned(),
                scope: PoolScope::Unscoped,
            });
        }),
        ("slots", &|| slots.set_free([("cr-1".to_owned(), 5)])),
        ("shift", &|| shifted_zones.replace([("az-a".to_owned(), jiff::Timestamp::MAX)])),
    ];
    for (name, change) in changes {
        change();
        let (list, bytes) = kept_bytes(|| catalogue.list(&first_class).unwrap());
        assert!(std::ptr::eq(list.types(), first.types()), "{name} copies the types");
        assert!(!list.is_same(&first), "{name} changes nothing");
        assert!(bytes <= CHANGED_STATE_BYTES_MAX, "{name}: {bytes} bytes of at most {CHANGED_STATE_BYTES_MAX}");
    }
}
