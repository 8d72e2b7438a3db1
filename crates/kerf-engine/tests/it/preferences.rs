//! Tests of preferences and of the order in which they are given up (spec 02 §3.8 and §6.4).

use kerf_engine::Effort;

use crate::check_solution::{check, pod_counts_per_domain, solution_text, solved_text};
use crate::fixture::Fixture;

#[test]
fn spec_02_75_alternatives_are_tried_in_order() {
    let terms = "req=\"zone In nope\" req=\"zone In never\" req=\"zone In a\" req=\"zone In b\"";
    check(&format!("pool p \n pod x cpu=1 {terms}"), "claim pool=p types=t pods=x zone=a");
    check("pool p \n pod x cpu=1 req=\"zone In nope\"", "unplaced x NoInstanceTypeFits");
    // The last alternative is never given up.
    check(
        "pool p \n pod x cpu=1 req=\"zone In nope\" req=\"zone In never\" pref=\"1 zone In a\"",
        "unplaced x NoInstanceTypeFits",
    );
    // All alternatives but the last are given up before the first preference.
    check(
        "pool p \n pod x cpu=1 req=\"zone In a\" req=\"zone In b\" pref=\"1 zone In b\"",
        "claim pool=p types=t pods=x zone=b",
    );
}

// spec 02 #75, improved: an alternative that failed only because of a preference is tried again
// without the preference.
#[test]
fn an_alternative_that_only_a_preference_excluded_is_a_last_resort() {
    let terms = "req=\"zone In a\" req=\"zone In nope\"";
    check(&format!("pool p \n pod x cpu=1 {terms} pref=\"1 zone In b\""), "claim pool=p types=t pods=x zone=a");
    // The reason is still that of the last alternative.
    check(
        "pool p \n pod x cpu=99 req=\"zone In a\" req=\"zone In nope\" pref=\"1 zone In b\"",
        "unplaced x NoInstanceTypeFits",
    );
}

// Karpenter would not place this pod at all, so it must not take the capacity of a pod that
// Karpenter places.
#[test]
fn a_last_resort_displaces_no_other_pod() {
    let picky = "pod picky cpu=2 req=\"zone In a\" req=\"zone In b\" pref=\"50 disk In fast\"";
    let fixture = format!("pool p limit=nodes:0 \n node n1 zone=a cpu=2 \n {picky}");
    check(&fixture, "node n1 pods=picky");
    check(&format!("{fixture} \n pod plain cpu=1"), "node n1 pods=plain \n unplaced picky LimitExceeded");
}

// Beyond spec 02 #75: any alternative of the required affinity is allowed, so the search uses the
// cheaper one.
#[test]
fn a_search_uses_the_cheaper_alternative() {
    let terms = "req=\"zone In a\" req=\"zone In b\"";
    let types = "type t \n offer t zone=a price=2 \n offer t zone=b price=1";
    let search = |fixture: &str| {
        let fixture = Fixture::new(fixture).with_settings(|settings| settings.effort = Effort::Search);
        solution_text(&fixture.input, &fixture.solve())
    };
    let cheaper = search(&format!("{types} \n pool p \n pod x cpu=1 {terms}"));
    assert_eq!(cheaper, "claim pool=p types=t pods=x zone=b\n");
    // An existing node costs nothing, whichever alternative it matches.
    assert_eq!(search(&format!("pool p \n node n zone=b cpu=4 \n pod x cpu=1 {terms}")), "node n pods=x\n");
    // The search gives up no preference for a lower price.
    let kept = search(&format!("{types} \n pool p \n pod x cpu=1 {terms} pref=\"1 zone In a\""));
    assert_eq!(kept, "claim pool=p types=t pods=x zone=a\n");
}

#[test]
fn spec_02_76_the_heaviest_satisfiable_preference_is_kept() {
    let preferences = "pref=\"1 zone In a\" pref=\"100 zone In nope\" pref=\"50 zone In b\"";
    check(&format!("pool p \n pod x cpu=1 {preferences}"), "claim pool=p types=t pods=x zone=b");
    check(
        &format!("settings ignore-preferences \n pool p \n pod x cpu=1 {preferences}"),
        "claim pool=p types=t pods=x",
    );
    // Among equal weights the first preference is kept.
    check("pool p \n pod x cpu=1 pref=\"5 zone In b\" pref=\"5 zone In a\"", "claim pool=p types=t pods=x zone=b");
}

#[test]
fn spec_02_77_a_preference_never_prevents_placement() {
    check("pool p \n pod x cpu=1 sel=zone:a pref=\"1 zone In b\"", "claim pool=p types=t pods=x zone=a");
    check("pool p \n pod x cpu=1 pref=\"1 zone In a & zone In b\"", "claim pool=p types=t pods=x");
    check("pool p \n pod x cpu=1 pref=\"1 zone Like a\"", "claim pool=p types=t pods=x");
    check("pool p \n pod x cpu=1 aff~1=zone:app=none", "claim pool=p types=t pods=x");
    check("pool p \n pod x cpu=1 labels=app:x spread=nope:1:app=x:any", "claim pool=p types=t pods=x");
}

#[test]
fn spec_02_78_preferences_can_be_ignored() {
    for preference in ["anti~1=host:app=x", "spread=host:1:app=x:any"] {
        let fixture = format!("type t cpu=8 \n pool p \n pod x x5 cpu=1 labels=app:x {preference}");
        assert_eq!(solved_text(&fixture).lines().count(), 5, "{preference}");
        check(&format!("settings ignore-preferences \n {fixture}"), "claim pool=p types=t pods=x-1..5");
    }
}

#[test]
fn spec_02_79_volume_topology_is_not_a_preference() {
    check(
        "pool p \n pv v term=\"zone In c\" \n pvc data pv=v
         pod x cpu=1 pvc=data req=\"zone In a\" req=\"zone In b\" req=\"zone Exists\"",
        "claim pool=p types=t pods=x zone=c",
    );
    check(
        "pool p \n pv v term=\"zone In c\" \n pvc data pv=v \n pod x cpu=1 pvc=data req=\"zone In a\" req=\"zone In b\"",
        "unplaced x VolumeTopology",
    );
}

/// Spec 02 §6.4: pods give up pod affinity first, then pod anti-affinity, node affinity and spread;
/// within each the heaviest first. A pod that can keep its other preferences keeps them.
#[test]
fn preferences_are_given_up_in_order() {
    // Only the pod affinity cannot be met: node affinity and spread stay.
    let fixture =
        "pool p \n pod x x2 cpu=1 labels=app:x aff~1=zone:app=none pref=\"1 zone In a,b\" spread=zone:1:app=x:any";
    assert_eq!(pod_counts_per_domain(fixture, "zone"), [1, 1]);
    assert!(!solved_text(fixture).contains("zone=c"));
    // Only the spread cannot be met: every preference before it is given up as well.
    check(
        "pool p \n pod x cpu=1 labels=app:x pref=\"1 zone In a\" spread=nope:1:app=x:any",
        "claim pool=p types=t pods=x",
    );
    // Of several soft spreads the first one is given up first.
    check(
        "pool p \n node n1 zone=b cpu=1 \n pod old on=n1 cpu=1 labels=app:x
         pod x cpu=1 labels=app:x spread=nope:1:app=x:any spread=host:1:app=x:any spread=zone:1:app=x:any sel=zone:b",
        "claim pool=p types=t pods=x zone=b",
    );
}

// Intersecting contradictory requirements yields `DoesNotExist`, which a node without the label
// would meet. For kube-scheduler no node does.
#[test]
fn a_contradiction_is_satisfied_by_no_node() {
    let contradiction = "sel=tier:gold req=\"tier NotIn gold\"";
    check(&format!("pool p \n node n1 cpu=4 \n pod x cpu=1 {contradiction}"), "unplaced x IncompatibleRequirements");
    check(&format!("pool p label=tier:gold \n pod x cpu=1 {contradiction}"), "unplaced x IncompatibleRequirements");
    // A preference may contradict a requirement; then the preference is given up.
    check(
        "pool p label=tier:gold \n node n1 cpu=4 \n pod x cpu=1 sel=tier:gold pref=\"1 tier DoesNotExist\"",
        "claim pool=p types=t pods=x",
    );
    // A pool that leaves the label open does not help either. A label that neither pool nor type
    // defines does not count as absent.
    let neither = "pod x cpu=1 sel=tier:gold req=\"tier In silver\"";
    check(&format!("pool p req=\"tier Exists\" \n {neither}"), "unplaced x IncompatibleRequirements");
    check("pool p \n pod x cpu=1 sel=region:a req=\"region In b\"", "unplaced x NoInstanceTypeFits");
}

// `Exists` and `NotIn` intersect to `NotIn`, which a node without the label would meet.
#[test]
fn exists_and_not_in_require_the_label() {
    let wants = "pod x cpu=1 req=\"tier Exists & tier NotIn gold\"";
    check(&format!("pool p \n node n1 cpu=4 \n {wants}"), "unplaced x IncompatibleRequirements");
    check(&format!("pool p label=tier:silver \n node n1 cpu=4 \n {wants}"), "claim pool=p types=t pods=x");
    check(&format!("pool p \n node n1 cpu=4 label=tier:silver \n {wants}"), "node n1 pods=x");
    // Well-known labels, which every node has, need not be named by the pool.
    check("pool p \n pod x cpu=1 req=\"zone Exists & zone NotIn a\"", "claim pool=p types=t pods=x zone!=a");
}
