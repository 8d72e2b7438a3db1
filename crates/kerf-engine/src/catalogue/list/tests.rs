//! Tests of the states of offerings, and of what a changed list shares with the list before.

use kerf_api::labels;
use kerf_api::slim::Str;

use super::*;
use crate::catalogue::Overhead;
use crate::price::Price;
use crate::requirement::{Requirement, Requirements};

const UNAVAILABLE: OfferingState = OfferingState { is_available: false, reservation_capacity: 0 };

fn instance_type(name: &str, zones: &[&str]) -> InstanceType {
    let offering = |zone: &&str| Offering {
        requirements: Arc::new(Requirements::from_iter([Requirement::one_of(labels::ZONE, [Str::new(zone)])])),
        price: Price::from_nanos(1),
        capacity_override: None,
        overhead_override: None,
    };
    InstanceType {
        name: name.into(),
        requirements: Arc::default(),
        offerings: zones.iter().map(offering).collect(),
        capacity: [("cpu", "4")].try_into().unwrap(),
        overhead: Overhead::default(),
        volume_limits: Arc::default(),
    }
}

fn list() -> InstanceTypes {
    [instance_type("a", &["z1", "z2"]), instance_type("b", &["z1"]), instance_type("c", &["z1", "z2", "z3"])]
        .into_iter()
        .collect()
}

/// Returns one word per type: `+` or `-` per offering, then the free slots if there are any.
fn states_text(types: &InstanceTypes) -> String {
    let text = |instance_type: InstanceTypeRef<'_>| -> String {
        let state = |o: OfferingRef<'_>| match (o.is_available(), o.reservation_capacity()) {
            (is_available, 0) => if is_available { "+" } else { "-" }.to_owned(),
            (is_available, slots) => format!("{}{slots}", if is_available { "+" } else { "-" }),
        };
        instance_type.name.chars().map(String::from).chain(instance_type.offerings().map(state)).collect()
    };
    types.iter().map(text).collect::<Vec<String>>().join(" ")
}

fn ix(types: &InstanceTypes, name: &str, offering: usize) -> OfferingIx {
    types.find(name).and_then(|t| t.offerings().nth(offering)).unwrap().ix()
}

#[test]
fn states_are_set_per_offering() {
    let mut types = list();
    assert_eq!(states_text(&types), "a++ b+ c+++");
    types.set_state(ix(&types, "c", 1), UNAVAILABLE);
    types.set_state(ix(&types, "a", 0), OfferingState { reservation_capacity: 5, ..OfferingState::default() });
    assert_eq!(states_text(&types), "a+5+ b+ c+-+");
    types.set_state(ix(&types, "a", 0), UNAVAILABLE);
    types.set_state(ix(&types, "c", 1), OfferingState::default());
    assert_eq!(states_text(&types), "a-+ b+ c+++");
    let other_list: InstanceTypes = [instance_type("a", &["z1"])].into_iter().collect();
    let mut small = other_list.clone();
    small.set_state(ix(&types, "c", 2), UNAVAILABLE);
    assert!(small.is_same(&other_list), "an offering of another list is ignored");
}

#[test]
fn a_list_can_be_rebuilt_from_its_pairs() {
    let types = list().with_states(|t, o| if t.name == "c" && o.ix().offering > 0 { UNAVAILABLE } else { o.state() });
    assert_eq!(states_text(&types), "a++ b+ c+--");
    let mut pairs: Vec<(InstanceType, Vec<OfferingState>)> = types.iter().map(InstanceTypeRef::to_pair).collect();
    pairs.reverse();
    assert_eq!(states_text(&pairs.iter().cloned().collect()), "c+-- b+ a++");
    pairs[0].1.truncate(2);
    assert_eq!(states_text(&pairs.into_iter().collect()), "c+-+ b+ a++", "a missing state is the default");
}

// spec 10 §2.3, spec 10 #110
#[test]
fn only_a_reserved_offering_needs_a_free_slot_to_be_launchable() {
    let with_capacity_type = |capacity_type: &str| {
        let mut instance_type = instance_type(capacity_type, &["z1"]);
        let requirement = Requirement::one_of(labels::CAPACITY_TYPE, [Str::new(capacity_type)]);
        let offering = &mut Arc::make_mut(&mut instance_type.offerings)[0];
        Arc::make_mut(&mut offering.requirements).add(requirement);
        instance_type
    };
    let types: InstanceTypes = ["on-demand", "spot", "reserved"].map(with_capacity_type).into_iter().collect();
    let words = |state: OfferingState| -> Vec<String> {
        let types = types.with_states(|_, _| state);
        let word = |t: InstanceTypeRef<'_>| {
            let offering = t.offerings().next().unwrap();
            format!("{} launchable={} full={}", t.name, offering.is_launchable(), offering.is_full())
        };
        types.iter().map(word).collect()
    };
    let state = |is_available, reservation_capacity| OfferingState { is_available, reservation_capacity };
    assert_eq!(
        words(state(true, 0)),
        [
            "on-demand launchable=true full=false",
            "spot launchable=true full=false",
            "reserved launchable=false full=true"
        ]
    );
    assert_eq!(words(state(true, 1))[2], "reserved launchable=true full=false");
    assert_eq!(words(state(false, 1))[2], "reserved launchable=false full=false");
    assert_eq!(words(state(true, -1))[2], "reserved launchable=false full=true");
    assert_eq!(words(state(false, 0))[0], "on-demand launchable=false full=false");
}

#[test]
fn a_changed_state_shares_the_types_and_an_unchanged_list_is_the_same() {
    let types = list();
    let marked = types.with_states(|t, o| if t.name == "b" { UNAVAILABLE } else { o.state() });
    assert!(std::ptr::eq(types.types(), marked.types()), "no type is copied");
    assert!(types.is_same(&types.clone()) && !types.is_same(&marked));
    let marked_again = types.with_states(|t, o| if t.name == "b" { UNAVAILABLE } else { o.state() });
    assert!(marked.is_same(&marked_again), "equal states are equal, not only identical ones");
    assert!(marked.with_states(|_, _| OfferingState::default()).is_same(&types), "available again");
    assert!(!types.is_same(&list()), "types that were built again");
}
