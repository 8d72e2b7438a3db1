//! Tests of limits, weights and taints of pools (spec 02 §4.6, §5 and §9.4).

use crate::check_solution::{check, solution_text, unplaced_reason};
use crate::fixture::Fixture;

const TWO_CPUS: &str = "type t cpu=2";

#[test]
fn spec_02_52_limits_bound_the_capacity_of_a_pool() {
    check(&format!("{TWO_CPUS} \n pool p limit=cpu:2 \n pod a cpu=2"), "claim pool=p types=t pods=a");
    check("type s cpu=2 \n type l cpu=3 \n pool p limit=cpu:2 \n pod a cpu=2.1", "unplaced a NoInstanceTypeFits");
    let first = Fixture::new(&format!("{TWO_CPUS} \n pool p limit=cpu:2 \n pod a cpu=2 \n pod b cpu=1.5"));
    assert_eq!(solution_text(&first.input, &first.solve()), "claim pool=p types=t pods=a\nunplaced b LimitExceeded\n");
    let second = first.after_launch();
    assert_eq!(solution_text(&second.input, &second.solve()), "unplaced b LimitExceeded\n");
}

#[test]
fn spec_02_53_claims_of_one_pass_share_the_limit() {
    check(
        &format!("{TWO_CPUS} \n pool p limit=cpu:3 \n pod a x2 cpu=2 anti=host:*"),
        "claim pool=p types=t pods=a-1 \n unplaced a-2 LimitExceeded",
    );
    // Spec 02 Q19: if the limit does not allow the largest type of every claim, the largest types are
    // removed.
    check(
        "type s cpu=2 \n type l cpu=8 \n pool p limit=cpu:9 \n pod a x2 cpu=1 anti=host:*",
        "claim pool=p types=s pods=a-1 \n claim pool=p types=s pods=a-2",
    );
    check(
        "type s cpu=2 \n type l cpu=8 \n pool p limit=cpu:10 \n pod a x2 cpu=1 anti=host:*",
        "claim pool=p types=s,l pods=a-1 \n claim pool=p types=s pods=a-2",
    );
}

// spec 02 #53, improved: the part of the limit that a claim can no longer use becomes free within
// the pass.
#[test]
fn a_claim_that_narrows_releases_limit_for_others() {
    check(
        "type s cpu=4 mem=32Gi \n type l cpu=8 mem=8Gi \n pool p limit=cpu:11 \n pod a x7 cpu=0.5 mem=5Gi",
        "claim pool=p types=s pods=a-1..6 \n claim pool=p types=s pods=a-7",
    );
}

/// Several types of each size, so that a claim lists many types.
const SIZES: &str = "type t1 cpu=1 mem=4Gi price=0.1 \n type t2 cpu=2 mem=8Gi price=0.2 \n type t4 cpu=4 mem=16Gi price=0.4
    type t8 cpu=8 mem=32Gi price=0.8 \n type t64 cpu=64 mem=256Gi price=6.4";

#[test]
fn spec_02_126_limits_that_hold_for_the_smallest_types_do_not_change_the_nodes() {
    let nodes = |limit: &str| {
        let fixture = Fixture::new(&format!(
            "settings search \n {SIZES} \n pool p {limit} \n pod a x12 cpu=0.6 anti=host:app=a labels=app:a \n pod b x20 cpu=0.4"
        ));
        let solution = fixture.solve();
        assert!(solution.unplaced.is_empty(), "{}", solution_text(&fixture.input, &solution));
        let nodes = solution.claims.iter().map(|claim| {
            let estimate = claim.launch.estimate.as_ref().unwrap();
            (claim.pods.clone(), estimate.instance_type.clone(), estimate.price)
        });
        nodes.collect::<Vec<_>>()
    };
    let unlimited = nodes("");
    for limit in ["limit=cpu:100", "limit=cpu:40", "limit=cpu:100,mem:200Gi", "limit=cpu:1000,mem:100Gi"] {
        assert_eq!(nodes(limit), unlimited, "{limit}");
    }
}

#[test]
fn spec_02_126_the_largest_types_are_removed_in_the_resource_that_exceeds_its_limit() {
    // Either resource may be the one that is short: `c` has the most CPU, `m` the most memory.
    let types = "type s cpu=2 mem=4Gi \n type c cpu=16 mem=8Gi \n type m cpu=4 mem=64Gi";
    let two = |limit: &str| format!("{types} \n pool p limit={limit} \n pod a x2 cpu=1 anti=host:*");
    check(&two("cpu:8,mem:1000Gi"), "claim pool=p types=s,m pods=a-1 \n claim pool=p types=s,m pods=a-2");
    check(&two("cpu:1000,mem:16Gi"), "claim pool=p types=s,c pods=a-1 \n claim pool=p types=s,c pods=a-2");
    check(&two("cpu:4,mem:1000Gi"), "claim pool=p types=s pods=a-1 \n claim pool=p types=s pods=a-2");
    // Of equally large types, those of the claim that was opened last are removed first.
    check(&two("cpu:19,mem:1000Gi"), "claim pool=p types=s,m pods=a-1 \n claim pool=p types=s,m pods=a-2");
    check(&two("cpu:20,mem:1000Gi"), "claim pool=p types=s,m,c pods=a-1 \n claim pool=p types=s,m pods=a-2");
}

#[test]
fn spec_02_127_min_values_are_kept_when_limits_remove_types() {
    let types = "type a cpu=2 \n type b cpu=4 \n type c cpu=8";
    let pool = |limit: u32| {
        format!("{types} \n pool p limit=cpu:{limit} req=\"type Exists min 2\" \n pod x x2 cpu=1 anti=host:*")
    };
    check(&pool(8), "claim pool=p types=a,b pods=x-1 type=a|b(min 2) \n claim pool=p types=a,b pods=x-2 type=a|b(min 2)");
    check(&pool(7), "claim pool=p types=a,b pods=x-1 type=a|b(min 2) \n unplaced x-2 MinValuesNotMet");
}

#[test]
fn spec_02_128_a_spot_claim_keeps_15_types_where_limits_allow() {
    let types: String = (1..=20).map(|n| format!("type t{n:02} cpu={n} price=0.{n:02} \n ")).collect();
    let listed = |capacity_type: &str, limit: u32| {
        let fixture = Fixture::new(&format!(
            "{} \n pool p limit=cpu:{limit} \n pod x cpu=0.5 anti=host:* \n pod y cpu=0.5 anti=host:*",
            types.replace("price", &format!("ct={capacity_type} price"))
        ));
        let claims = fixture.solve().claims;
        claims.iter().map(|claim| claim.launch.instance_types.len()).collect::<Vec<_>>()
    };
    // 16 CPUs: 15 for the first claim, one for the other. On demand, both have the same share.
    assert_eq!(listed("spot", 16), [15, 1]);
    assert_eq!(listed("on-demand", 16), [8, 8]);
    assert_eq!(listed("spot", 30), [15, 15]);
    assert_eq!(listed("spot", 39), [20, 19]);
    assert_eq!(listed("spot", 40), [20, 20]);
}

// An open claim grows only as far as the other claims leave it room.
#[test]
fn spec_02_126_a_claim_does_not_grow_beyond_the_limit() {
    check(
        "type s cpu=2 \n type l cpu=8 \n pool p limit=cpu:9 \n pod a x2 cpu=1.5 anti=host:app=a labels=app:a \n pod b cpu=1 \n pod c cpu=1",
        "claim pool=p types=s pods=a-1 \n claim pool=p types=s pods=a-2 \n claim pool=p types=s pods=b,c",
    );
    let fixture = Fixture::new(
        "type s cpu=2 \n type l cpu=8 \n pool p limit=cpu:5 \n pod a x2 cpu=1.5 anti=host:app=a labels=app:a \n pod b cpu=1",
    );
    assert_eq!(
        solution_text(&fixture.input, &fixture.solve()),
        "claim pool=p types=s pods=a-1\nclaim pool=p types=s pods=a-2\nunplaced b LimitExceeded\n"
    );
}

#[test]
fn spec_02_54_usage_above_the_limit_creates_nothing() {
    let with =
        |limit: &str| format!("{TWO_CPUS} \n pool p limit={limit} \n node n1 pool=p cpu=4 taint=x \n pod a cpu=1");
    check(&with("cpu:3"), "unplaced a LimitExceeded");
    check(&with("cpu:4"), "unplaced a LimitExceeded");
    check(&with("cpu:6"), "claim pool=p types=t pods=a");
    // A limit on another resource that is just used up does not reject the pod by itself.
    check(&with("gpu:0"), "claim pool=p types=t pods=a");
    check(&with("nodes:0"), "unplaced a LimitExceeded");
    // Nodes that are being deleted and nodes of other pools do not count.
    check(
        &format!(
            "{TWO_CPUS} \n pool p limit=cpu:2 \n node n1 pool=p cpu=4 deleting \n node n2 pool=q taint=x \n pod a cpu=1"
        ),
        "claim pool=p types=t pods=a",
    );
    // An uninitialized node counts with the resources of its claim.
    check(
        &format!(
            "{TWO_CPUS} \n pool p limit=gpu:1 \n node n1 pool=p uninitialized claimed=gpu:2 claimtaint=x taint=x \n pod a cpu=1"
        ),
        "unplaced a LimitExceeded",
    );
}

#[test]
fn spec_02_55_the_number_of_nodes_is_limited() {
    check(
        &format!("{TWO_CPUS} \n pool p limit=nodes:2 \n pod a x3 cpu=2"),
        "claim pool=p types=t pods=a-1 \n claim pool=p types=t pods=a-2 \n unplaced a-3 LimitExceeded",
    );
    let mut fixture = Fixture::new(&format!("{TWO_CPUS} \n pool p limit=nodes:2 \n pod a-1 cpu=2"));
    for name in ["a-2", "a-3"] {
        fixture = fixture.after_launch();
        fixture.input.pods.extend(Fixture::new(&format!("pod {name} cpu=2")).input.pods);
    }
    assert_eq!(fixture.input.nodes.len(), 2);
    assert_eq!(solution_text(&fixture.input, &fixture.solve()), "unplaced a-3 LimitExceeded\n");
}

#[test]
fn spec_02_56_heavier_pools_are_tried_first() {
    let pools = "pool light \n pool heavy weight=100 \n pool middle weight=20";
    check(&format!("{pools} \n pod a x2 cpu=1"), "claim pool=heavy types=t pods=a-1..2");
    check(&format!("{pools} \n pod a cpu=1 sel=pool:light"), "claim pool=light types=t pods=a");
    // Pods that do not fit the heavier pool use the lighter one.
    let small = "type s cpu=2 catalogue=x \n type l cpu=8 catalogue=y \n pool heavy weight=9 catalogue=0 \n pool light catalogue=1";
    check(
        &format!("{small} \n pod a cpu=2 \n pod b cpu=8"),
        "claim pool=heavy types=s pods=a \n claim pool=light types=l pods=b",
    );
    // An open claim is tried before any pool.
    check(&format!("{small} \n pod a cpu=1 \n pod b cpu=4"), "claim pool=light types=l pods=a,b");
}

#[test]
fn spec_02_57_among_equal_weights_the_later_name_is_tried_first() {
    check("pool np-1 \n pool np-2 \n pod a cpu=1", "claim pool=np-2 types=t pods=a");
    check("pool np-2 weight=7 \n pool np-1 weight=7 \n pod a cpu=1", "claim pool=np-2 types=t pods=a");
}

#[test]
fn spec_02_58_soft_taints_are_avoided_as_long_as_possible() {
    let tainted = "pool soft weight=10 taint=k=v:PreferNoSchedule";
    check(&format!("{tainted} \n pool open \n pod a cpu=1"), "claim pool=open types=t pods=a");
    check(&format!("{tainted} \n pod a cpu=1"), "claim pool=soft types=t pods=a");
    // Preferences are given up before the taint is accepted: here the preference for zone b is
    // lost, too.
    check(&format!("{tainted} \n pod a cpu=1 pref=\"1 zone In b\""), "claim pool=soft types=t pods=a");
    check(&format!("{tainted} \n pod a cpu=1 pref=\"1 zone In b\" tol=k"), "claim pool=soft types=t pods=a zone=b");
    check(&format!("settings ignore-preferences \n {tainted} \n pod a cpu=1"), "claim pool=soft types=t pods=a");
    // A pool without any instance type still has its node.
    let node = "node n1 pool=soft taint=k=v:PreferNoSchedule \n pod a cpu=1";
    check(&format!("{tainted} req=\"zone In nope\" \n {node}"), "node n1 pods=a");
    check(&format!("pool p req=\"zone In nope\" \n {node}"), "unplaced a NoInstanceTypes");
}

#[test]
fn spec_02_59_a_pool_whose_requirements_exclude_every_type() {
    for pool in
        ["pool p req=\"zone In nope\"", "pool p catalogue=none", "pool p req=\"type In x\"", "pool p catalogue=9"]
    {
        let fixture = format!("{pool} \n pod a cpu=1");
        check(&fixture, "unplaced a NoInstanceTypes");
        assert_eq!(unplaced_reason(&fixture, "a"), "nodepool requirements filtered out all available instance types");
        check(&format!("{pool} \n node n1 \n pod a x2 cpu=3"), "node n1 pods=a-1 \n unplaced a-2 NoInstanceTypes");
    }
    // All offerings are unavailable.
    check("type t zones=a out=a/on-demand \n pool p \n pod a cpu=1", "unplaced a NoInstanceTypes");
    check("pool p req=\"zone In nope\" \n pool q \n pod a cpu=1", "claim pool=q types=t pods=a");
}

#[test]
fn spec_02_60_taints_must_be_tolerated() {
    let pool = "pool p taint=k=v:NoSchedule";
    for toleration in ["tol=k=v", "tol=k", "tol=*", "tol=k=v:NoSchedule", "tol=*:NoSchedule", "tol=x,k"] {
        check(&format!("{pool} \n pod a cpu=1 {toleration}"), "claim pool=p types=t pods=a");
        check(&format!("pool q limit=nodes:0 \n node n1 taint=k=v \n pod a cpu=1 {toleration}"), "node n1 pods=a");
    }
    for toleration in ["", "tol=other", "tol=k=w", "tol=k=v:NoExecute", "tol=*:PreferNoSchedule"] {
        check(&format!("{pool} \n pod a cpu=1 {toleration}"), "unplaced a TaintNotTolerated");
        check(
            &format!("pool q limit=nodes:0 \n node n1 taint=k=v \n pod a cpu=1 {toleration}"),
            "unplaced a LimitExceeded",
        );
    }
    // Startup taints do not affect scheduling.
    check("pool p startup=k=v:NoSchedule \n pod a cpu=1", "claim pool=p types=t pods=a");
}
