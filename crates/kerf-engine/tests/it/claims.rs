//! Tests of reserved capacity, minValues, and the requirements of a planned claim (spec 02 §7.5,
//! §10, §11 and §12).

use kerf_api::labels;
use kerf_api::slim::Str;
use kerf_engine::requirement::Requirement;
use kerf_engine::{Price, Solution};

use crate::check_solution::{check, solution_text, unplaced_reason};
use crate::fixture::Fixture;

const RESERVATION_ID: &str = labels::aws::CAPACITY_RESERVATION_ID;

fn held_reservations(solution: &Solution, claim: usize) -> Vec<String> {
    let ids =
        solution.claims[claim].launch.requirements.get(RESERVATION_ID).map(Requirement::values).unwrap_or_default();
    ids.iter().map(Str::to_string).collect()
}

const TWO_SLOTS: &str = "type t cpu=4
    offer t ct=reserved reservation=r1:1 price=0
    offer t ct=reserved reservation=r2:1 price=0
    offer t ct=on-demand price=0.4
    type spare cpu=4 catalogue=spare price=0.01";

#[test]
fn spec_02_115_one_claim_per_pass_gets_reserved_capacity() {
    let pools = "pool p weight=10 \n pool light catalogue=1";
    let mut fixture = Fixture::new(&format!("{TWO_SLOTS} \n {pools} \n pod x x3 cpu=4 pref=\"1 zone In a\""));
    for waiting in [2, 1] {
        let solution = fixture.solve();
        assert_eq!(solution.claims.len(), 1, "{}", solution_text(&fixture.input, &solution));
        let claim = &solution.claims[0];
        assert_eq!(claim.pool, "p");
        assert_eq!(claim.launch.requirements.get(labels::CAPACITY_TYPE).unwrap().values(), ["reserved"]);
        assert_eq!(solution.unplaced.len(), waiting);
        for unplaced in &solution.unplaced {
            assert_eq!(unplaced.reason.code(), "ReservedCapacityDeferred");
        }
        fixture = fixture.after_launch();
    }
    let solution = fixture.solve();
    assert_eq!(solution_text(&fixture.input, &solution), "claim pool=p types=t pods=x-3 zone=a\n");
    assert!(solution.claims[0].launch.requirements.get(labels::CAPACITY_TYPE).unwrap().has("on-demand"));
}

#[test]
fn spec_02_115_a_deferred_pod_keeps_its_preferences_and_its_pool() {
    // The preference is for zone a, where the first pod gets the only slot. Zone b and the other
    // pool would violate it.
    let fixture = "type t cpu=4 \n offer t zone=a ct=reserved reservation=r1:1 \n offer t zone=b
        type spare cpu=4 catalogue=spare \n pool p weight=10 \n pool light catalogue=1";
    check(
        &format!("{fixture} \n pod x x2 cpu=4 pref=\"1 zone In a\""),
        "claim pool=p types=t pods=x-1 karpenter.k8s.aws/capacity-reservation-id=r1 ct=reserved zone=a
         unplaced x-2 ReservedCapacityDeferred",
    );
    // Pods that require zone b do not compete for the reservation.
    check(
        &format!("{fixture} \n pod x x2 cpu=4 sel=zone:b"),
        "claim pool=p types=t pods=x-1 ct=on-demand zone=b \n claim pool=p types=t pods=x-2 ct=on-demand zone=b",
    );
    // In a simulation for disruption the pod falls back to on-demand.
    check(
        &format!("settings fallback \n {fixture} \n pod x x2 cpu=4"),
        "claim pool=p types=t pods=x-1 karpenter.k8s.aws/capacity-reservation-id=r1 ct=reserved
         claim pool=p types=t pods=x-2",
    );
    assert_eq!(
        unplaced_reason(&format!("{fixture} \n pod x x2 cpu=4"), "x-2"),
        "one or more instance types with compatible reserved offerings are available, but could not be reserved"
    );
    // A spread does not make a pod avoid the reservation either.
    check(
        &format!(
            "{fixture} \n pod first cpu=4 sel=zone:a \n pod x cpu=3 labels=app:x spread=zone:1:app=x req=\"zone In a\""
        ),
        "claim pool=p types=t pods=first karpenter.k8s.aws/capacity-reservation-id=r1 ct=reserved zone=a
         unplaced x ReservedCapacityDeferred",
    );
}

#[test]
fn spec_02_116_a_slot_is_used_once_over_all_pools() {
    let shared = "type t cpu=4 \n offer t ct=reserved reservation=r1:2 \n offer t ct=on-demand \n pool p \n pool q";
    let fixture = Fixture::new(&format!("{shared} \n pod x x2 cpu=4 sel=pool:p \n pod y x2 cpu=4 sel=pool:q"));
    let solution = fixture.solve();
    assert_eq!(solution.claims.len(), 2, "{}", solution_text(&fixture.input, &solution));
    assert!((0..2).all(|i| held_reservations(&solution, i) == ["r1"]));
    assert_eq!(solution.unplaced.len(), 2);
    // Reservations with different IDs do not compete.
    let apart = "type s cpu=2 \n offer s ct=reserved reservation=r1:1 \n type l cpu=4 \n offer l ct=reserved reservation=r2:1 \n pool p";
    let solution = Fixture::new(&format!("{apart} \n pod a cpu=1 sel=type:s \n pod b cpu=1 sel=type:l")).solve();
    assert_eq!(
        (held_reservations(&solution, 0), held_reservations(&solution, 1)),
        (vec!["r1".to_owned()], vec!["r2".to_owned()])
    );
    // One claim may hold several reservations and releases those that it can no longer use.
    let both = Fixture::new(&format!("{apart} \n pod a cpu=1 \n pod c cpu=1.5"));
    let solution = both.solve();
    assert_eq!(solution_text(&both.input, &solution).lines().count(), 1);
    assert_eq!(held_reservations(&solution, 0), ["r2"], "only the large type has 2.5 CPUs");
    let released = Fixture::new(&format!("{apart} \n pod a cpu=1 \n pod c cpu=1.5 \n pod d cpu=0.9 sel=type:s"));
    let solution = released.solve();
    assert!(solution.unplaced.is_empty(), "{}", solution_text(&released.input, &solution));
    // A reservation without slots, or one that cannot be launched now, is held by no claim.
    check(
        "type t cpu=4 \n offer t ct=reserved reservation=r1:1 out \n offer t ct=on-demand \n pool p \n pod x x2 cpu=4",
        "claim pool=p types=t pods=x-1 \n claim pool=p types=t pods=x-2",
    );
    // If one ID has different numbers of slots, the smallest counts.
    let solution = Fixture::new(
        "type s cpu=4 \n offer s ct=reserved reservation=r1:3 \n type t cpu=4 \n offer t ct=reserved reservation=r1:1 \n pool p \n pod x x2 cpu=4",
    )
    .solve();
    assert_eq!((solution.claims.len(), solution.unplaced.len()), (1, 1));
    // Without the feature no reservation is held.
    let off = Fixture::new(
        "settings no-reserved \n type t cpu=4 \n offer t ct=reserved reservation=r1:1 \n pool p \n pod x x2 cpu=4",
    )
    .solve();
    assert_eq!((off.claims.len(), held_reservations(&off, 0).len()), (2, 0));
}

// spec 10 #77 and #110 (engine part): a full reservation counts for no price, estimate or capacity
// type. In fallback mode pods do not wait for reservations.
#[test]
fn spec_10_77_a_full_reservation_is_not_among_the_capacity_types_of_a_claim() {
    let full = "settings fallback \n type t cpu=4 \n offer t ct=reserved reservation=r1:0 price=0 \n offer t ct=on-demand price=0.4";
    let fixture = Fixture::new(&format!("{full} \n pool p \n pod x cpu=4"));
    let launch = fixture.solve().claims[0].launch.clone();
    assert_eq!(launch.requirements.get(labels::CAPACITY_TYPE).unwrap().values(), ["on-demand"]);
    let estimate = launch.estimate.as_ref().unwrap();
    assert_eq!((&*estimate.capacity_type, estimate.price), ("on-demand", Price::from_nanos(400_000_000)));
    // With a free slot the claim holds the reservation.
    let free = Fixture::new(&format!("{full} \n pool p \n pod x cpu=4").replace("r1:0", "r1:1"));
    let launch = free.solve().claims[0].launch.clone();
    assert_eq!(launch.requirements.get(labels::CAPACITY_TYPE).unwrap().values(), ["reserved"]);
}

// Spec 02 Q18: the API server would reject a claim that lists fewer capacity types.
#[test]
fn spec_10_77_min_values_count_only_the_capacity_types_that_the_claim_lists() {
    let fixture = |slots: u32| {
        format!(
            "settings fallback no-reserved \n type t cpu=4 \n offer t ct=reserved reservation=r1:{slots} price=0 \n offer t ct=on-demand
             pool p req=\"ct In reserved,on-demand min 2\" \n pod x cpu=4"
        )
    };
    check(&fixture(1), "claim pool=p types=t pods=x");
    check(&fixture(0), "unplaced x MinValuesNotMet");
}

// spec 10 §2.3: the price order of types (spec 02 §7.4) ignores full reservations
#[test]
fn spec_10_110_a_type_with_a_full_reservation_is_ordered_by_its_other_prices() {
    check(
        "settings fallback \n type t cpu=4 \n offer t ct=reserved reservation=r1:0 price=0 \n offer t ct=on-demand price=0.4
         type s cpu=4 price=0.3 \n type full cpu=4 \n offer full ct=reserved reservation=r2:0 price=0 \n pool p \n pod x cpu=4",
        "claim pool=p types=s,t,full pods=x ct=on-demand",
    );
}

// spec 10 #71
#[test]
fn spec_10_71_a_full_reservation_leaves_the_other_capacity_types() {
    let types = "type t cpu=4 \n offer t ct=reserved reservation=r1:0 price=0 \n offer t ct=on-demand price=0.4";
    check(&format!("{types} \n pool p \n pod x cpu=4"), "claim pool=p types=t pods=x ct=on-demand");
}

// spec 10 #72, #74: in both modes
#[test]
fn spec_10_74_a_pool_of_full_reservations_launches_nothing() {
    let full = "type t cpu=4 \n offer t ct=reserved reservation=r1:0 price=0 \n type s cpu=4 price=1 ct=on-demand";
    for mode in ["", "settings fallback \n"] {
        let only = format!("{mode} {full} \n pool p req=\"ct In reserved\" \n pod x cpu=4");
        check(&only, "unplaced x NoInstanceTypeFits");
        let reason = Fixture::new(&only).solve().unplaced[0].reason.to_string();
        assert_eq!(reason, "the only compatible reserved offering is full; falling through to other NodePools");
        // spec 10 #72
        let both = format!(
            "{mode} {full} \n pool p weight=10 req=\"ct In reserved\" \n pool q req=\"ct In on-demand\" \n pod x cpu=4"
        );
        check(&both, "claim pool=q types=s pods=x");
    }
}

#[test]
fn spec_10_73_a_preference_for_a_full_reservation_is_relaxed() {
    check(
        "type t cpu=4 \n offer t ct=reserved reservation=r1:0 price=0 \n type s cpu=4 price=1 ct=on-demand
         pool p weight=10 req=\"ct In reserved\" \n pool q req=\"ct In on-demand\" \n pod x cpu=4 pref=\"1 ct In reserved\"",
        "claim pool=q types=s pods=x",
    );
}

// spec 10 #75
#[test]
fn spec_10_75_a_pod_waits_for_a_reservation_that_another_claim_holds() {
    let solution = Fixture::new(
        "type t cpu=4 \n offer t ct=reserved reservation=r1:1 price=0.001 \n offer t ct=on-demand price=0.4 \n pool p \n pod x x2 cpu=4",
    )
    .solve();
    assert_eq!((solution.claims.len(), solution.unplaced.len()), (1, 1));
}

const RESERVED_AND_OTHER_TYPES: &str =
    "type r cpu=4 \n offer r ct=reserved reservation=r1:1 price=0.001 \n offer r ct=on-demand price=0.4
    type s cpu=4 price=0.1 ct=spot,on-demand \n type a cpu=8 price=0.9 \n type tiny cpu=1";

// spec 02 §7.4, §12.1
#[test]
fn spec_02_116_types_without_a_reservation_are_listed_last() {
    let held = "karpenter.k8s.aws/capacity-reservation-id=r1 ct=reserved";
    let claim = format!("claim pool=p types=r,a,s pods=x {held}");
    check(&format!("{RESERVED_AND_OTHER_TYPES} \n pool p \n pod x cpu=2"), &claim);
    let fixture = Fixture::new(&format!("{RESERVED_AND_OTHER_TYPES} \n pool p \n pod x cpu=2"));
    let estimate = fixture.solve().claims[0].launch.estimate.clone().unwrap();
    assert_eq!((&*estimate.instance_type, &*estimate.capacity_type), ("r", "reserved"));
    assert_eq!(estimate.price, Price::from_nanos(1_000_000), "the price of the reserved offering");
    // Truncation keeps the types that can be launched.
    check(
        &format!("settings max-types=2 \n {RESERVED_AND_OTHER_TYPES} \n pool p \n pod x cpu=2"),
        &claim.replace("r,a,s", "r,a"),
    );
}

#[test]
fn spec_02_117_min_values_count_types_without_a_reservation() {
    let held = "karpenter.k8s.aws/capacity-reservation-id=r1 ct=reserved";
    let claim = format!("claim pool=p types=r,a,s pods=x {held} type=a|r|s(min 3)");
    for policy in ["", "settings best-effort \n"] {
        check(
            &format!("{policy} {RESERVED_AND_OTHER_TYPES} \n pool p req=\"type Exists min 3\" \n pod x cpu=2"),
            &claim,
        );
    }
    let cut = "settings max-types=2 \n";
    let after = format!("{cut} {RESERVED_AND_OTHER_TYPES} \n pool p req=\"type Exists min 3\" \n pod x cpu=2");
    check(&after, "unplaced x MinValuesNotMet");
    // The reservation replaces the pool's requirement on the capacity type, including its
    // minValues.
    check(
        &format!("{RESERVED_AND_OTHER_TYPES} \n pool p req=\"ct Exists min 2\" \n pod x cpu=2 sel=ct:reserved"),
        &format!("claim pool=p types=r pods=x {held}"),
    );
}

// Q18: the API server rejects a claim that names fewer values than its `minValues`.
#[test]
fn spec_02_117_a_claim_names_at_least_min_values_values() {
    let types = "type t cpu=4 zones=a,b ct=spot,on-demand";
    let kinds = "pool p req=\"ct In spot,on-demand min 2\"";
    let zones = "pool p req=\"zone Exists min 2\"";
    check(&format!("{types} \n {kinds} \n pod x cpu=1"), "claim pool=p types=t pods=x");
    for (fixture, lowered) in [
        (format!("{types} \n {kinds} \n pod x cpu=1 sel=ct:spot"), "ct=spot(min 1)"),
        // Both capacity types are declared, but spot is unavailable, and the claim does not name
        // it.
        (format!("{types} out=a/spot,b/spot \n {kinds} \n pod x cpu=1"), "ct=on-demand(min 1)"),
        (format!("{types} \n {zones} \n pod x cpu=1 req=\"zone In b\""), "zone=b(min 1)"),
        (format!("{types} \n {zones} \n pod x cpu=1 labels=app:x spread=zone:1:app=x sel=zone:a"), "zone=a(min 1)"),
    ] {
        check(&fixture, "unplaced x MinValuesNotMet");
        let best_effort = Fixture::new(&format!("settings best-effort \n {fixture}"));
        let solution = best_effort.solve();
        assert_eq!(solution_text(&best_effort.input, &solution), format!("claim pool=p types=t pods=x {lowered}\n"));
        assert!(solution.claims[0].min_values_relaxed);
    }
    assert_eq!(
        unplaced_reason(&format!("{types} \n {kinds} \n pod x cpu=1 sel=ct:spot"), "x")
            .split(", resources")
            .next()
            .unwrap(),
        "minValues requirement is not met for label(s) (label(s)=[karpenter.sh/capacity-type]), requirements=\
         karpenter.k8s.aws/ec2nodeclass In [default], karpenter.sh/capacity-type In [spot] minValues 2, \
         karpenter.sh/initialized In [true], karpenter.sh/nodepool In [p], karpenter.sh/registered In [true]"
    );
    // A second pod does not narrow a claim with both capacity types to one.
    check(
        &format!("{types} \n {kinds} \n pod x cpu=2 \n pod y cpu=1 sel=ct:spot"),
        "claim pool=p types=t pods=x \n unplaced y MinValuesNotMet",
    );
}

const FAMILIES: &str = "type a cpu=2 price=0.1 label=karpenter.k8s.aws/instance-family:x
    type b cpu=4 price=0.2 label=karpenter.k8s.aws/instance-family:x
    type c cpu=8 price=0.3 label=karpenter.k8s.aws/instance-family:y";

#[test]
fn spec_02_117_too_few_types_for_min_values() {
    let pools = "pool p weight=10 req=\"type Exists min 3\" \n pool light req=\"type Exists\"";
    let two = "type a cpu=2 \n type b cpu=4";
    check(&format!("{two} \n pool p req=\"type Exists min 3\" \n pod x cpu=1"), "unplaced x NoInstanceTypes");
    check(&format!("{two} \n {pools} \n pod x cpu=1"), "claim pool=light types=a,b pods=x");
    let relaxed = Fixture::new(&format!("settings best-effort \n {two} \n {pools} \n pod x cpu=1"));
    let solution = relaxed.solve();
    assert_eq!(solution_text(&relaxed.input, &solution), "claim pool=p types=a,b pods=x type=a|b(min 2)\n");
    assert!(solution.claims[0].min_values_relaxed);
    // Three types suffice until the pod's size excludes one of them.
    let three = format!("{FAMILIES} \n pool p req=\"type Exists min 3\"");
    check(&format!("{three} \n pod x cpu=1"), "claim pool=p types=a,b,c pods=x type=a|b|c(min 3)");
    check(&format!("{three} \n pod x cpu=3"), "unplaced x MinValuesNotMet");
    let fixture = Fixture::new(&format!("settings best-effort \n {three} \n pod x cpu=3"));
    let solution = fixture.solve();
    assert_eq!(solution_text(&fixture.input, &solution), "claim pool=p types=b,c pods=x type=b|c(min 2)\n");
    assert!(solution.claims[0].min_values_relaxed);
    let kept = Fixture::new(&format!("settings best-effort \n {three} \n pod x cpu=1")).solve();
    assert!(!kept.claims[0].min_values_relaxed);
    // Q9: if no value is left, minValues is dropped instead of set to zero.
    let none = Fixture::new(&format!(
        "settings best-effort \n {FAMILIES} \n pool p req=\"karpenter.k8s.aws/instance-gpu-name Exists min 2\" \n pod x cpu=1"
    ));
    let solution = none.solve();
    let gpu = solution.claims[0].launch.requirements.get(labels::aws::INSTANCE_GPU_NAME).unwrap();
    assert_eq!(gpu.min_values(), None);
    assert!(solution.claims[0].min_values_relaxed);
}

#[test]
fn spec_02_118_a_pod_that_would_leave_too_few_types_gets_a_claim_of_its_own() {
    let pool = "pool p req=\"type Exists min 2\"";
    check(
        &format!("{FAMILIES} \n {pool} \n pod x x2 cpu=2.5"),
        "claim pool=p types=b,c pods=x-1 type=b|c(min 2) \n claim pool=p types=b,c pods=x-2 type=b|c(min 2)",
    );
    // Families count, not types.
    let families = "pool p req=\"karpenter.k8s.aws/instance-family Exists min 2\"";
    check(&format!("{FAMILIES} \n {families} \n pod x x2 cpu=2"), "claim pool=p types=b,c pods=x-1..2");
    check(&format!("{FAMILIES} \n {families} \n pod x cpu=5"), "unplaced x MinValuesNotMet");
    // A lowered minValues also applies to later pods.
    check(
        &format!("settings best-effort \n {FAMILIES} \n pool p req=\"type Exists min 3\" \n pod x x2 cpu=2.5"),
        "claim pool=p types=b,c pods=x-1 type=b|c(min 2) \n claim pool=p types=b,c pods=x-2 type=b|c(min 2)",
    );
}

#[test]
fn spec_02_118_truncation_must_not_break_min_values() {
    let cut = |policy: &str, min: &str| {
        format!(
            "settings max-types=2 {policy} \n {FAMILIES} \n pool p req=\"karpenter.k8s.aws/instance-family Exists min {min}\" \n pod x cpu=1"
        )
    };
    check(&cut("", "1"), "claim pool=p types=a,b pods=x");
    check(&cut("", "2"), "unplaced x MinValuesNotMet");
    check(&cut("best-effort", "2"), "claim pool=p types=a,b pods=x");
    assert_eq!(
        unplaced_reason(&cut("", "2"), "x"),
        "pod didn\u{2019}t schedule because NodePool couldn\u{2019}t meet minValues requirements, validating minValues, \
         minValues requirement is not met for label(s) (label(s)=[karpenter.k8s.aws/instance-family]) (NodePool=p)"
    );
    // A search must not pack pods so that truncation breaks a minimum that first fit keeps.
    check(
        "settings max-types=2
         type a cpu=2 price=0.1 label=karpenter.k8s.aws/instance-family:x
         type b cpu=2 price=0.11 label=karpenter.k8s.aws/instance-family:x
         type c cpu=4 price=0.5 label=karpenter.k8s.aws/instance-family:x
         type d cpu=4 price=0.6 label=karpenter.k8s.aws/instance-family:y
         pool p req=\"karpenter.k8s.aws/instance-family Exists min 2\"
         pod x x2 cpu=2",
        "claim pool=p types=c,d pods=x-1..2",
    );
}

#[test]
fn truncation_keeps_the_cheapest_types() {
    check(
        "settings max-types=2 \n type a price=0.5 \n type b price=0.1 \n type c price=0.3 \n pool p \n pod x cpu=1",
        "claim pool=p types=b,c pods=x",
    );
}

#[test]
fn spec_02_119_custom_labels_get_a_value() {
    let labels_of = |pool: &str, pod: &str| {
        let solution = Fixture::new(&format!("pool p label=team:x {pool} \n pod x cpu=1 {pod}")).solve();
        solution.claims[0].launch.labels.clone()
    };
    for (expression, value) in [
        ("k In b", Some("b")),
        ("k NotIn 0,1", Some("2")),
        ("k Gt 4", Some("5")),
        ("k Lt 1", Some("0")),
        ("k Gte 7", Some("7")),
        ("k Exists", Some("0")),
        ("k DoesNotExist", None),
    ] {
        assert_eq!(labels_of(&format!("req=\"{expression}\""), "").get("k"), value, "{expression}");
    }
    let labels =
        labels_of("req=\"zone In a\" req=\"arch In amd64\" req=\"k In b,c\"", "req=\"k NotIn b & other NotIn 0\"");
    let all: Vec<String> = labels.iter().map(|(key, value)| format!("{key}={value}")).collect();
    assert_eq!(all, ["k=c", "karpenter.k8s.aws/ec2nodeclass=default", "karpenter.sh/nodepool=p", "other=1", "team=x"]);
    // Q4: a range without numbers yields no label.
    assert_eq!(labels_of("req=\"k Gte 3\" req=\"k Lte 3\" req=\"k NotIn 3\"", "").get("k"), None);
}

// spec 01 §9.3: the API server stores no negative bound, and no label has a negative value.
#[test]
fn a_requirement_for_negative_values_launches_nothing() {
    for pool in ["k Lt 0", "k Lte -1", "k Gt 9223372036854775807"] {
        check(&format!("pool p req=\"{pool}\" \n pod x cpu=1"), "unplaced x NoInstanceTypes");
    }
    for pool in ["k Exists", "k NotIn a", "k Lt 5"] {
        let pool = format!("pool p req=\"{pool}\"");
        check(&format!("{pool} \n pod x cpu=1 req=\"k Lt 0\""), "unplaced x IncompatibleRequirements");
        check(
            &format!("{pool} \n pod x cpu=1 req=\"k Gt 9223372036854775807\""),
            "unplaced x IncompatibleRequirements",
        );
        let preference = Fixture::new(&format!("{pool} \n pod x cpu=1 pref=\"1 k Lte -1\"")).solve();
        assert_eq!((preference.claims.len(), preference.unplaced.len()), (1, 0), "a preference is relaxed");
    }
    // A label that neither the pool nor the type defines.
    check("pool p \n pod x cpu=1 req=\"region Lt 0\"", "unplaced x NoInstanceTypeFits");
    assert_eq!(
        unplaced_reason("pool p req=\"k Exists\" \n pod x cpu=1 req=\"k Lt 0\"", "x"),
        "incompatible requirements, key k, k Exists <=-1 not in k Exists"
    );
}

#[test]
fn section_12_1_a_claim_lists_all_compatible_types_and_values() {
    let solution = Fixture::new(
        "type s cpu=2 zones=a,b ct=spot,on-demand \n type l cpu=4 zones=b ct=on-demand \n pool p label=team:x req=\"zone In a,b,c\" \n pod x cpu=1",
    )
    .solve();
    let text: Vec<String> = solution.claims[0]
        .launch
        .requirements
        .to_entries()
        .iter()
        .map(|e| format!("{} {} {}", e.key, e.operator.as_str(), e.values.join(",")))
        .collect();
    assert_eq!(
        text,
        [
            "karpenter.k8s.aws/ec2nodeclass In default",
            "karpenter.sh/capacity-type In on-demand,spot",
            "karpenter.sh/nodepool In p",
            "node.kubernetes.io/instance-type In l,s",
            "team In x",
            "topology.kubernetes.io/zone In a,b,c",
        ]
    );
}
