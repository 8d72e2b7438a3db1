//! Heap memory of lists of instance types, measured with an allocator that counts bytes. All checks
//! are in one test, because tests of one process would count each other's allocations.

use std::alloc::System;
use std::sync::Arc;

use kerf_api::labels;
use kerf_api::slim::{ResourceList, Str};
use kerf_engine::Price;
use kerf_engine::catalogue::{InstanceType, InstanceTypes, Offering, OfferingRef, OfferingState, Overhead};
use kerf_engine::requirement::{Requirement, Requirements};
use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};

#[global_allocator]
static HEAP: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

/// Number of EC2 instance types in one region.
const TYPES: usize = 1_386;
const LABELS: usize = 40;
const ZONES: [&str; 6] = ["us-east-1a", "us-east-1b", "us-east-1c", "us-east-1d", "us-east-1e", "us-east-1f"];
/// Limit for each further list.
const FURTHER_LIST_BYTES_MAX: usize = 3_000_000;
/// Limit for a list in which one offering has become unavailable.
const CHANGED_STATE_BYTES_MAX: usize = 1_000;

/// Returns the bytes that `build` allocates and its result keeps.
fn kept_bytes<T>(build: impl FnOnce() -> T) -> (T, usize) {
    let region = Region::new(HEAP);
    let value = build();
    let change = region.change();
    (value, change.bytes_allocated - change.bytes_deallocated)
}

fn resources(pairs: &[(&str, String)]) -> ResourceList {
    pairs.iter().map(|(name, amount)| (Str::from(*name), amount.parse().unwrap_or_default())).collect()
}

/// Returns the requirement sets of spot and on-demand offerings in some zones, as all types of a
/// node class share them.
fn offering_requirements(zones: &[&str]) -> Vec<Arc<Requirements>> {
    let absent = labels::aws::CAPACITY_RESERVATION_ID;
    let set = |zone: &str, capacity_type: &str| {
        let zone_id = Requirement::one_of("topology.k8s.aws/zone-id", [Str::from(format!("use1-{zone}"))]);
        Arc::new(Requirements::from_iter([
            Requirement::one_of(labels::ZONE, [Str::from(zone)]),
            Requirement::one_of(labels::CAPACITY_TYPE, [Str::from(capacity_type)]),
            Requirement::does_not_exist(absent),
            zone_id,
        ]))
    };
    zones.iter().flat_map(|zone| [set(zone, "spot"), set(zone, "on-demand")]).collect()
}

fn overhead(type_ix: usize, max_pods: usize) -> Overhead {
    Overhead {
        kube_reserved: resources(&[
            ("cpu", format!("{}m", 60 + type_ix)),
            ("memory", format!("{}Mi", 255 + 11 * max_pods)),
            ("ephemeral-storage", "1Gi".to_owned()),
        ]),
        system_reserved: resources(&[("cpu", "100m".to_owned()), ("memory", "100Mi".to_owned())]),
        eviction_threshold: resources(&[("memory", "100Mi".to_owned()), ("ephemeral-storage", "2Gi".to_owned())]),
    }
}

fn zone_requirement(zones: &[&str]) -> Requirement {
    Requirement::one_of(labels::ZONE, zones.iter().map(|zone| Str::from(*zone)))
}

fn offerings(type_ix: usize, sets: &[Arc<Requirements>]) -> Arc<[Offering]> {
    let offering = |requirements: &Arc<Requirements>| Offering {
        requirements: requirements.clone(),
        price: Price::from_nanos(1_000_000 * (1 + type_ix as i64)),
        capacity_override: None,
        overhead_override: None,
    };
    sets.iter().map(offering).collect()
}

fn first_list() -> InstanceTypes {
    let sets = offering_requirements(&ZONES);
    let instance_type = |type_ix: usize| {
        let label = |key: usize| {
            let value = Str::from(format!("value-{}", type_ix * (key + 1)));
            Requirement::one_of(format!("karpenter.k8s.aws/instance-property-{key}"), [value])
        };
        let own_labels = (0..LABELS - 1).map(label);
        let capacity = [
            ("cpu", format!("{}", 2 + type_ix)),
            ("memory", format!("{}Mi", 2048 + type_ix)),
            ("pods", "110".to_owned()),
            ("ephemeral-storage", "20Gi".to_owned()),
            ("vpc.amazonaws.com/pod-eni", "9".to_owned()),
        ];
        InstanceType {
            name: Str::from(format!("m{type_ix}.large")),
            requirements: Arc::new(own_labels.chain([zone_requirement(&ZONES)]).collect()),
            // 8 to 12 offerings: some types are offered in four or five zones.
            offerings: offerings(type_ix, &sets[..8 + 2 * (type_ix % 3)]),
            capacity: resources(&capacity),
            overhead: overhead(type_ix, 110),
            volume_limits: Arc::new([(Str::from("ebs.csi.aws.com"), 27)]),
        }
    };
    (0..TYPES).map(instance_type).collect()
}

/// Returns the list of a node class with other subnets and another kubelet configuration: zones,
/// offerings and overhead differ.
fn further_list(first: &InstanceTypes, zones: &[&str]) -> InstanceTypes {
    let sets = offering_requirements(zones);
    let zone_requirement = zone_requirement(zones);
    let instance_type = |(type_ix, known): (usize, &InstanceType)| {
        let mut requirements = (*known.requirements).clone();
        requirements.replace(zone_requirement.clone());
        InstanceType {
            requirements: requirements.into(),
            offerings: offerings(type_ix, &sets),
            overhead: overhead(type_ix, 58),
            ..known.clone()
        }
    };
    first.types().iter().enumerate().map(instance_type).collect()
}

#[test]
fn further_lists_share_their_parts_and_a_changed_state_copies_no_type() {
    let (first, first_bytes) = kept_bytes(first_list);
    let (further, further_bytes) = kept_bytes(|| further_list(&first, &ZONES));
    assert_eq!(further.len(), TYPES);
    assert!(further_bytes <= FURTHER_LIST_BYTES_MAX, "{further_bytes} bytes, the first list has {first_bytes}");
    let last = further.iter().last().and_then(|instance_type| instance_type.offerings().last());
    let (changed, changed_bytes) = kept_bytes(|| {
        further.with_states(|_, offering| OfferingState {
            is_available: Some(offering.ix()) != last.map(OfferingRef::ix),
            ..offering.state()
        })
    });
    assert!(!changed.is_same(&further));
    assert!(changed_bytes <= CHANGED_STATE_BYTES_MAX, "{changed_bytes} bytes for one unavailable offering");
    let (clones, cloned_bytes) = kept_bytes(|| (changed.clone(), further.clone()));
    assert!(clones.0.is_same(&changed) && clones.1.is_same(&further));
    assert_eq!(cloned_bytes, 0, "a clone shares everything");
}
