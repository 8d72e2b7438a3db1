//! Tests of topology spread, affinity and anti-affinity (spec 02 §8).

use std::fmt::Write as _;

use kerf_api::labels;
use kerf_engine::{Effort, Solution};

use crate::check_solution::{check, check_search, pod_counts_per_domain, pods_per_domain, solution_text};
use crate::fixture::Fixture;

const ZONE_SPREAD_POD: &str = "cpu=1 labels=app:web spread=zone:1:app=web";

#[test]
fn spec_02_80_pods_are_spread_over_zones() {
    assert_eq!(pod_counts_per_domain(&format!("pool p \n pod web x4 {ZONE_SPREAD_POD}"), "zone"), [1, 1, 2]);
}

#[test]
fn spec_02_81_only_zones_that_the_pool_can_reach_are_domains() {
    assert_eq!(
        pod_counts_per_domain(&format!("pool p req=\"zone In a,b\" \n pod web x4 {ZONE_SPREAD_POD}"), "zone"),
        [2, 2]
    );
    assert_eq!(
        pod_counts_per_domain(&format!("type t zones=a,b \n pool p \n pod web x4 {ZONE_SPREAD_POD}"), "zone"),
        [2, 2]
    );
    assert_eq!(pod_counts_per_domain(&format!("pool p label=zone:b \n pod web x4 {ZONE_SPREAD_POD}"), "zone"), [4]);
    // Q12: zones that a pool excludes are no domains.
    assert_eq!(
        pod_counts_per_domain(&format!("pool p req=\"zone NotIn c,d\" \n pod web x4 {ZONE_SPREAD_POD}"), "zone"),
        [2, 2]
    );
}

#[test]
fn spec_02_82_a_running_pod_in_another_zone_counts() {
    let fixture = Fixture::new(&format!(
        "pool p req=\"zone In a,b\" \n node n1 zone=c cpu=1 \n pod old on=n1 {ZONE_SPREAD_POD} \n pod web x6 {ZONE_SPREAD_POD}"
    ));
    let solution = fixture.solve();
    let zones = pods_per_domain(&fixture, &solution, labels::ZONE);
    assert_eq!(zones, [(2, "a".to_owned()), (2, "b".to_owned())]);
    assert_eq!(solution.unplaced.len(), 2);
}

#[test]
fn spec_02_83_new_pods_are_placed_in_the_least_filled_zones() {
    let fixture = format!(
        "pool p \n node n1 zone=a cpu=3 \n node n2 zone=b cpu=1 taint=x \n node n3 zone=c cpu=1 taint=x
         pod old x3 on=n1 {ZONE_SPREAD_POD} \n pod web x3 {ZONE_SPREAD_POD}"
    );
    assert_eq!(pod_counts_per_domain(&fixture, "zone"), [1, 2]);
    let fixture = Fixture::new(&fixture);
    assert!(pods_per_domain(&fixture, &fixture.solve(), labels::ZONE).iter().all(|(_, zone)| zone != "a"));
}

#[test]
fn spec_02_84_the_skew_is_measured_from_the_least_filled_zone() {
    check(
        "type t cpu=10 \n pool p req=\"zone In c\" \n node n1 zone=a cpu=1 \n node n2 zone=b cpu=1
         pod one on=n1 cpu=1 labels=app:web \n pod two on=n2 cpu=1 labels=app:web
         pod web x10 cpu=1 labels=app:web spread=zone:5:app=web",
        "claim pool=p types=t pods=web-1..5,web-10 \n unplaced web-6..9 TopologyUnsatisfiable",
    );
}

#[test]
fn spec_02_85_too_few_domains_count_as_an_empty_one() {
    let fixture =
        Fixture::new("pool p req=\"zone In a,b\" \n pod web x3 cpu=1 labels=app:web spread=zone:1:app=web:min=3");
    let solution = fixture.solve();
    assert_eq!(pods_per_domain(&fixture, &solution, labels::ZONE).iter().map(|d| d.0).collect::<Vec<_>>(), [1, 1]);
    assert_eq!(solution.unplaced.len(), 1);
    assert_eq!(
        pod_counts_per_domain("pool p \n pod web x11 cpu=1 labels=app:web spread=zone:1:app=web:min=3", "zone"),
        [3, 4, 4]
    );
}

#[test]
fn spec_02_86_a_topology_key_that_no_node_has() {
    check(
        "pool p \n pod lost cpu=1 labels=app:web spread=rack:1:app=web \n pod other cpu=1",
        "claim pool=p types=t pods=other \n unplaced lost TopologyUnsatisfiable",
    );
    // Q10: without a selector no pod is counted, so nothing is spread.
    assert_eq!(
        pod_counts_per_domain("type t cpu=8 \n pool p \n pod web x4 cpu=1 labels=app:web spread=zone:1:-", "zone"),
        [4]
    );
    // An empty selector selects all pods.
    assert_eq!(pod_counts_per_domain("type t cpu=8 \n pool p \n pod web x4 cpu=1 spread=zone:1:*", "zone"), [1, 1, 2]);
}

#[test]
fn spec_02_87_a_selector_that_does_not_select_its_own_pods_spreads_nothing() {
    assert_eq!(
        pod_counts_per_domain(
            "type t cpu=8 \n pool p \n pod web x4 cpu=1 labels=app:web spread=zone:1:app=other",
            "zone"
        ),
        [4]
    );
}

#[test]
fn spec_02_88_a_host_spread_can_always_add_hosts() {
    let hosts = |skew: u32| format!("cpu=0.5 labels=app:web spread=host:{skew}:app=web");
    let mut fixture = Fixture::new(&format!("pool p \n pod web x4 {}", hosts(1)));
    assert_eq!(fixture.solve().claims.len(), 4);
    fixture = fixture.after_launch();
    fixture.input.pods.extend(Fixture::new(&format!("pod more x5 {}", hosts(1))).input.pods);
    let solution = fixture.solve();
    assert_eq!((solution.claims.len(), solution.nodes.len(), solution.unplaced.len()), (5, 0, 0));
    check(&format!("pool p \n pod web x4 {}", hosts(4)), "claim pool=p types=t pods=web-1..4");
}

#[test]
fn spec_02_89_two_workloads_share_hosts_unless_they_cannot() {
    let two = |one: &str, other: &str| {
        format!(
            "type x \n type y arch=arm64 \n pool p \n pod a x2 cpu=1 labels=app:a spread=host:1:app=a {one}
             pod b x2 cpu=1 labels=app:b spread=host:1:app=b {other}"
        )
    };
    check(&two("", ""), "claim pool=p types=x,y pods=a-1,b-1 \n claim pool=p types=x,y pods=a-2,b-2");
    assert_eq!(Fixture::new(&two("sel=arch:amd64", "sel=arch:arm64")).solve().claims.len(), 4);
}

#[test]
fn spec_02_90_only_running_pods_of_the_namespace_count() {
    let pods_per_zone = |old: &str| {
        let fixture = Fixture::new(&format!(
            "pool p req=\"zone In a,b\" \n node n1 zone=a cpu=1 \n node n2 cpu=1 \n pod old x3 {old} \n pod web x2 {ZONE_SPREAD_POD}"
        ));
        let zones = pods_per_domain(&fixture, &fixture.solve(), labels::ZONE);
        zones.into_iter().map(|(count, _)| count).collect::<Vec<_>>()
    };
    assert_eq!(pods_per_zone("on=n1 labels=app:web"), [2], "both new pods are placed in the other zone");
    for old in [
        "on=n1 labels=app:web phase=Succeeded",
        "on=n1 labels=app:web phase=Failed",
        "on=n1 labels=app:web terminating",
        "on=n1 labels=app:web ns=other",
        "on=n1 labels=app:other",
        "on=n2 labels=app:web",
        "on=missing labels=app:web",
    ] {
        assert_eq!(pods_per_zone(old), [1, 1], "{old}");
    }
    // Pending pods count once, when they are placed.
    assert_eq!(
        pod_counts_per_domain(
            &format!("pool p req=\"zone In a,b\" \n pod old x2 {ZONE_SPREAD_POD} \n pod web x2 {ZONE_SPREAD_POD}"),
            "zone"
        ),
        [2, 2]
    );
}

#[test]
fn spec_02_91_a_zone_beyond_the_pools_limit_is_an_empty_domain() {
    let fixture = Fixture::new(&format!(
        "pool p req=\"zone In a,b\" \n pool q req=\"zone In c\" limit=cpu:0 \n pod web x6 {ZONE_SPREAD_POD}"
    ));
    let solution = fixture.solve();
    assert_eq!(pods_per_domain(&fixture, &solution, labels::ZONE), [(1, "a".to_owned()), (1, "b".to_owned())]);
    assert_eq!(solution.unplaced.len(), 4);
}

#[test]
fn spec_02_92_a_custom_label_of_pools_is_a_topology_key() {
    let fixture = "type t cpu=2 ct=spot,on-demand
        pool spot req=\"ct In spot\" req=\"slot In 2,3,4,5\"
        pool steady req=\"ct In on-demand\" req=\"slot In 1\"
        pod web x20 cpu=1 labels=app:web spread=slot:1:app=web";
    assert_eq!(pod_counts_per_domain(fixture, "slot"), [4, 4, 4, 4, 4]);
}

#[test]
fn spec_02_93_match_label_keys_split_a_spread() {
    let keyed = |keys: &str| {
        format!(
            "type t cpu=16 \n pool p req=\"zone In a,b\"
             pod old x2 cpu=1 labels=app:web,rev:1 spread=zone:1:app=web:{keys}
             pod new x2 cpu=1 labels=app:web,rev:2 spread=zone:1:app=web:{keys}"
        )
    };
    let per_zone = |fixture: &str, revision: &str| {
        let fixture = Fixture::new(fixture);
        let solution = fixture.solve();
        let mut zones: Vec<usize> =
            solution.claims.iter().map(|c| c.pods.iter().filter(|p| p.contains(revision)).count()).collect();
        zones.sort_unstable();
        zones
    };
    for revision in ["old", "new"] {
        assert_eq!(per_zone(&keyed("keys=rev"), revision), [1, 1], "each revision by itself");
    }
    // A key that the pods lack is ignored: both revisions are one group.
    assert_eq!(pod_counts_per_domain(&keyed("keys=none"), "zone"), [2, 2]);
    // Three running pods of one revision in a zone affect only that revision.
    let running = "pool p req=\"zone In a,b\" \n node n1 zone=a cpu=3 \n pod run x3 on=n1 cpu=1 labels=app:web,rev:1
        pod next x2 cpu=1 labels=app:web,rev:2 spread=zone:1:app=web:keys=rev";
    assert_eq!(pod_counts_per_domain(running, "zone"), [1, 1]);
}

#[test]
fn spec_02_94_node_inclusion_policies_decide_which_nodes_count() {
    // A node in zone c that the pods cannot use, and that no pool offers.
    let tainted = |policy: &str| {
        format!(
            "pool p req=\"zone In a,b\" \n node n1 zone=c taint=k=v:NoSchedule
             pod web x6 cpu=1 labels=app:web spread=zone:1:app=web{policy}"
        )
    };
    assert_eq!(pod_counts_per_domain(&tainted(""), "zone"), [1, 1], "the empty zone limits the others to one pod each");
    assert_eq!(pod_counts_per_domain(&tainted(":taints=Ignore"), "zone"), [1, 1]);
    assert_eq!(pod_counts_per_domain(&tainted(":taints=Honor"), "zone"), [3, 3]);
    let pool = |policy: &str| {
        format!(
            "pool p req=\"zone In a,b\" \n pool q req=\"zone In c\" taint=k=v:NoSchedule
             pod web x6 cpu=1 labels=app:web spread=zone:1:app=web{policy}"
        )
    };
    assert_eq!(pod_counts_per_domain(&pool(""), "zone"), [1, 1]);
    assert_eq!(pod_counts_per_domain(&pool(":taints=Honor"), "zone"), [3, 3]);
    // A pool without the taint makes the domain count for all pods.
    let open = format!("pool r req=\"zone In c\" limit=nodes:0 \n {}", pool(":taints=Honor"));
    assert_eq!(pod_counts_per_domain(&open, "zone"), [1, 1]);
    // Nodes that the pods' own selector excludes do not count, unless the policy is Ignore.
    let labelled = |policy: &str| {
        format!(
            "pool p label=team:x req=\"zone In a,b\" \n node n1 zone=a label=team:y cpu=3 \n pod old x3 on=n1 labels=app:web
             pod web x2 cpu=1 labels=app:web sel=team:x spread=zone:1:app=web{policy}"
        )
    };
    assert_eq!(pod_counts_per_domain(&labelled(""), "zone"), [1, 1]);
    assert_eq!(pod_counts_per_domain(&labelled(":affinity=Honor"), "zone"), [1, 1]);
    assert_eq!(pod_counts_per_domain(&labelled(":affinity=Ignore"), "zone"), [2]);
    // Pods that this pass places on a starting node count, although the node still has its taints.
    let starting = "pool p req=\"zone In a,b\" \n node n1 pool=p zone=a uninitialized taint=node.kubernetes.io/not-ready:NoSchedule
        pod web x4 cpu=1 labels=app:web spread=zone:1:app=web:taints=Honor";
    assert_eq!(pod_counts_per_domain(starting, "zone"), [2, 2]);
}

#[test]
fn spec_02_95_pods_with_a_zone_selector_are_spread_within_that_zone() {
    let spread = "cpu=1 labels=app:web spread=zone:1:app=web";
    let fixture = Fixture::new(&format!(
        "type t cpu=16 \n pool p \n pod a x5 {spread} sel=zone:a \n pod b x10 {spread} sel=zone:b"
    ));
    let solution = fixture.solve();
    assert!(solution.unplaced.is_empty());
    assert_eq!(pods_per_domain(&fixture, &solution, labels::ZONE), [(5, "a".to_owned()), (10, "b".to_owned())]);
    // A preferred zone is not required: after the preference is given up, the spread covers all
    // zones.
    assert_eq!(pod_counts_per_domain(&format!("pool p \n pod w x6 {spread} pref=\"1 zone In a\""), "zone"), [2, 2, 2]);
}

#[test]
fn spec_02_96_volumes_restrict_the_node_but_not_the_spread_domains() {
    let fixture = "type t zones=a,b,c \n pool p
        node n1 zone=a cpu=1 \n node n2 zone=b cpu=1 \n node n3 zone=c cpu=1
        pod one on=n1 cpu=1 labels=app:web \n pod two on=n2 cpu=1 labels=app:web \n pod three on=n3 cpu=1 labels=app:web
        pv v term=\"zone In a\" \n pvc data pv=v";
    check(
        &format!("{fixture} \n pod web cpu=1 labels=app:web spread=zone:1:app=web:min=3 pvc=data"),
        "claim pool=p types=t pods=web zone=a",
    );
    // A node selector for the zone would leave one domain, and minDomains would count an empty one.
    check(
        &format!("{fixture} \n pod web cpu=1 labels=app:web spread=zone:1:app=web:min=3 sel=zone:a"),
        "unplaced web TopologyUnsatisfiable",
    );
}

#[test]
fn spec_02_97_colocated_pods_that_do_not_fit_one_host_wait() {
    let pod = "cpu=1 labels=app:web aff=host:app=web";
    let fixture = Fixture::new(&format!("type t cpu=5 \n pool p \n pod web x10 {pod}"));
    let solution = fixture.solve();
    assert_eq!(
        solution_text(&fixture.input, &solution),
        "claim pool=p types=t pods=web-1..4,web-10\nunplaced web-5..9 TopologyUnsatisfiable\n"
    );
    check_search(&fixture, &solution);
    let later = fixture.after_launch();
    assert_eq!(solution_text(&later.input, &later.solve()), "unplaced web-5..9 TopologyUnsatisfiable\n");
}

#[test]
fn spec_02_98_pods_with_self_affinity_start_in_an_allowed_domain() {
    let pod = "cpu=1 labels=app:web aff=zone:app=web";
    check(
        &format!("pool p \n pod x {pod} sel=zone:a \n pod y {pod} sel=zone:b"),
        "claim pool=p types=t pods=x zone=a \n claim pool=p types=t pods=y zone=b",
    );
    // A matching pod runs on another host: no second host is used.
    check(
        "pool p \n node n1 cpu=1 zone=a \n pod old on=n1 cpu=1 labels=app:web \n pod web cpu=1 labels=app:web aff=host:app=web",
        "unplaced web TopologyUnsatisfiable",
    );
    // Pods with affinity to each other and no required zone stay in one zone (Q14).
    assert_eq!(pod_counts_per_domain(&format!("type t cpu=2 \n pool p \n pod web x6 {pod}"), "zone"), [6]);
    // A matching pod runs in zone c, which these pods cannot use: they start in their own zone.
    check(
        &format!("pool p \n node n1 zone=c cpu=1 \n pod old on=n1 cpu=1 labels=app:web \n pod web x2 {pod} sel=zone:a"),
        "claim pool=p types=t pods=web-1..2 zone=a",
    );
}

#[test]
fn spec_02_99_a_pod_with_affinity_to_no_existing_pod_waits() {
    check(
        "pool p \n pod x cpu=1 aff=zone:app=none \n pod y cpu=1 aff=host:app=none \n pod z cpu=1",
        "claim pool=p types=t pods=z \n unplaced x,y TopologyUnsatisfiable",
    );
    // Two pods, each of which needs the other to be placed first.
    check(
        "pool p \n pod x cpu=1 labels=app:x aff=zone:app=y \n pod y cpu=1 labels=app:y aff=zone:app=x",
        "unplaced x,y TopologyUnsatisfiable",
    );
}

#[test]
fn spec_02_100_a_chain_of_affinities_in_any_order() {
    let pods = [
        "pod db cpu=0.4 labels=app:db",
        "pod web cpu=0.4 labels=app:web aff=host:app=db",
        "pod cache cpu=0.4 labels=app:cache aff=host:app=web",
        "pod ui cpu=0.4 labels=app:ui aff=host:app=cache",
    ];
    for order in [[0, 1, 2, 3], [3, 2, 1, 0], [2, 0, 3, 1], [1, 3, 0, 2]] {
        for sizes in [["0.1", "0.2", "0.3", "0.4"], ["0.4", "0.3", "0.2", "0.1"]] {
            let lines: Vec<String> = order.iter().map(|i| pods[*i].replace("0.4", sizes[*i])).collect();
            check(&format!("pool p \n {}", lines.join("\n")), "claim pool=p types=t pods=cache,db,ui,web");
        }
    }
}

#[test]
fn spec_02_101_affinity_to_a_pod_in_an_undecided_zone_waits() {
    let web = "pod web cpu=1 aff=zone:app=db";
    let open = Fixture::new(&format!("pool p \n pod db cpu=2 labels=app:db \n {web}"));
    assert_eq!(
        solution_text(&open.input, &open.solve()),
        "claim pool=p types=t pods=db\nunplaced web TopologyUnsatisfiable\n"
    );
    let later = open.after_launch();
    assert_eq!(solution_text(&later.input, &later.solve()), "node launched-0 pods=web\n");
    check(
        &format!("pool p \n pod db cpu=2 labels=app:db sel=zone:b \n {web}"),
        "claim pool=p types=t pods=db,web zone=b",
    );
}

#[test]
fn spec_02_102_pods_with_zone_anti_affinity_are_placed_one_per_pass() {
    let mut fixture = Fixture::new("pool p \n pod web x4 cpu=1 labels=app:web anti=zone:app=web");
    for left in [3, 2, 1] {
        let solution = fixture.solve();
        assert_eq!((solution.claims.len(), solution.unplaced.len()), (1, left));
        check_search(&fixture, &solution);
        fixture = fixture.after_launch();
    }
    let solution = fixture.solve();
    assert_eq!((solution.claims.len(), solution.nodes.len(), solution.unplaced.len()), (0, 0, 1));
}

// Karpenter would count the first pod in all three zones until its next pass.
#[test]
fn spec_02_102_anti_affinity_blocks_only_zones_that_the_claim_can_still_use() {
    let types = "type small cpu=4 mem=4Gi zones=a,b,c price=1 \n type large cpu=4 mem=64Gi zones=a,b price=2";
    let pods = "pod web x2 cpu=1.5 mem=1Gi labels=app:web anti=zone:app=web \n pod cache cpu=1 mem=32Gi";
    // The cache pod joins the first web pod. That leaves only the large type, and so zone c is free
    // for the other web pod.
    let fixture = Fixture::new(&format!("{types} \n pool p limit=nodes:2 \n {pods}"));
    let solution = fixture.solve();
    assert_eq!(
        solution_text(&fixture.input, &solution),
        "claim pool=p types=large pods=cache,web-1 zone=a|b\nclaim pool=p types=small pods=web-2 zone=c\n"
    );
    // If the large type is offered in every zone, the other web pod waits.
    let everywhere = types.replace("zones=a,b price", "zones=a,b,c price");
    let fixture = Fixture::new(&format!("{everywhere} \n pool p limit=nodes:2 \n {pods}"));
    assert_eq!(fixture.solve().unplaced.len(), 1);
}

// Spec 02 §8.6 leaves pods uncounted that were placed on a claim before its zone was decided. Here
// each kind of pods would have to be bound before the other.
#[test]
fn a_spread_that_could_never_be_met_gets_another_node() {
    let fixture = Fixture::new(
        "type t cpu=16 \n pool p \n pod quiet x3 cpu=2 labels=tier:back spread=host:1:tier=front
         pod loud x3 cpu=1 labels=tier:front spread=zone:1:tier=back",
    );
    assert_eq!(fixture.solve().claims.len(), 1);
    let solution = fixture.with_settings(|s| s.effort = Effort::Search).solve();
    let pods: Vec<usize> = solution.claims.iter().map(|claim| claim.pods.len()).collect();
    assert_eq!((pods, solution.unplaced.len()), (vec![4, 2], 0), "the node of the quiet pods can have one loud pod");
    // Loud pods that no spread of other pods counts can be bound first, so one node is enough.
    let patient = Fixture::new(
        "type t cpu=16 \n pool p \n pod quiet x3 cpu=2 labels=tier:back
         pod loud x3 cpu=1 labels=tier:front spread=zone:1:tier=back",
    );
    assert_eq!(patient.with_settings(|s| s.effort = Effort::Search).solve().claims.len(), 1);
}

// Each api pod must share a host with a web pod and takes a node of its own. Spec 02 §8.6 leaves
// the web pods that were placed first uncounted. All would be placed in one zone, where the last
// two api pods could never be bound.
#[test]
fn pods_with_host_affinity_are_spread_by_the_pods_that_they_share_hosts_with() {
    let fixture = Fixture::new(
        "type t cpu=4 zones=a,b \n pool p \n pod web x4 cpu=2.5 labels=tier:front
         pod api x4 cpu=1 labels=tier:back port=8080 aff=host:tier=front spread=zone:2:tier=front",
    );
    let per_zone = |solution: &Solution| -> Vec<usize> {
        pods_per_domain(&fixture, solution, labels::ZONE).iter().map(|(pods, _)| *pods).collect()
    };
    assert_eq!(per_zone(&fixture.solve()), [8]);
    let solution = fixture.with_settings(|s| s.effort = Effort::Search).solve();
    assert_eq!((per_zone(&solution), solution.unplaced.len()), (vec![4, 4], 0));
}

// Only zone a has nodes for an api pod together with a web pod. Zone b must get the remaining web
// pods, or the last api pods can never be bound.
#[test]
fn nodes_are_narrowed_to_the_zone_that_a_spread_needs() {
    let fixture = Fixture::new(
        "type small cpu=4 zones=a,b price=1 \n type large cpu=8 zones=a price=5 \n pool p
         pod web x10 cpu=3.5 labels=tier:front anti=host:tier=front
         pod api x6 cpu=1 labels=tier:back port=8080 aff=host:tier=front spread=zone:2:tier=front",
    );
    let zones = |solution: &Solution| pods_per_domain(&fixture, solution, labels::ZONE);
    assert_eq!(zones(&fixture.solve()), [(4, "?".to_owned()), (12, "a".to_owned())]);
    let solution = fixture.with_settings(|s| s.effort = Effort::Search).solve();
    assert_eq!((zones(&solution), solution.unplaced.len()), (vec![(4, "b".to_owned()), (12, "a".to_owned())], 0));
}

// The queue's order would place the large pod first, which the spread counts. Zone a has capacity
// only without it.
#[test]
fn pods_with_a_spread_are_tried_before_the_pods_that_it_counts() {
    check(
        "settings search \n type t cpu=8 \n pool p limit=nodes:1
         pod large cpu=2 labels=tier:front sel=zone:a
         pod web x2 cpu=1 labels=tier:front spread=zone:2:tier=front",
        "claim pool=p types=t pods=large,web-1..2 zone=a",
    );
}

#[test]
fn spec_02_103_anti_affinity_of_running_pods_counts() {
    let guards = |anti: &str| {
        let mut fixture = String::from("pool p");
        for zone in ["a", "b", "c"] {
            write!(fixture, "\n node {zone} zone={zone} cpu=1 \n pod guard-{zone} on={zone} cpu=1 {anti}").unwrap();
        }
        fixture
    };
    let required = guards("anti=zone:app=web");
    check(&format!("{required} \n pod web cpu=1 labels=app:web"), "unplaced web TopologyUnsatisfiable");
    check(&format!("{required} \n pod api cpu=1 labels=app:api"), "claim pool=p types=t pods=api");
    check(
        &format!("{} \n pod web cpu=1 labels=app:web", guards("anti~1=zone:app=web")),
        "claim pool=p types=t pods=web",
    );
    // A terminating pod still keeps others away until it is deleted; a failed pod does not.
    check(
        &format!("{} \n pod web cpu=1 labels=app:web", guards("anti=zone:app=web terminating")),
        "unplaced web TopologyUnsatisfiable",
    );
    check(&format!("{} \n pod web cpu=1 labels=app:web", guards("anti=zone:app=web phase=Failed")), "node a pods=web");
    // Pods that this pass places keep later pods away as well.
    check(
        "pool p \n pod guard cpu=2 sel=zone:a anti=zone:app=web \n pod web cpu=1 labels=app:web",
        "claim pool=p types=t pods=guard zone=a \n claim pool=p types=t pods=web zone=b|c",
    );
}

#[test]
fn spec_02_104_namespaces_of_a_term() {
    let fixture = |options: &str| {
        format!(
            "pool p \n namespace default \n namespace other label=team:x \n node n1 zone=a cpu=1
             pod db ns=other on=n1 cpu=1 labels=app:db \n pod web cpu=1 aff=zone:app=db{options}"
        )
    };
    check(&fixture(""), "unplaced web TopologyUnsatisfiable");
    check(&fixture(":ns=third"), "unplaced web TopologyUnsatisfiable");
    check(&fixture(":nssel=team=y"), "unplaced web TopologyUnsatisfiable");
    for options in [":ns=other", ":ns=third|other", ":nssel=*", ":nssel=team=x", ":nssel=team=y:ns=other"] {
        check(&fixture(options), "claim pool=p types=t pods=web zone=a");
    }
}

/// Spec 02 §8.2: a zone that only tainted pools offer does not count for the anti-affinity of a pod
/// that does not tolerate the taint.
#[test]
fn anti_affinity_counts_only_domains_that_the_pod_can_use() {
    check(
        "type x zones=a,b catalogue=x \n type y zones=c catalogue=y \n pool p catalogue=0 \n pool q catalogue=1 taint=k=v:NoSchedule
         pod one cpu=2 labels=app:web anti=zone:app=web
         pod two cpu=1 labels=app:web anti=zone:app=web tol=k",
        "claim pool=p types=x pods=one zone=a|b \n claim pool=q types=y pods=two zone=c",
    );
}

const REVISIONS: &str = "replicaset web-1 sel=app=web&rev=1 \n replicaset web-2 sel=app=web&rev=2";

#[test]
fn spec_02_105_pods_are_spread_by_default() {
    let fixture = Fixture::new(&format!(
        "settings default-spread=zone:1 \n type t cpu=16 \n pool p \n {REVISIONS}
         pod old x3 cpu=1 labels=app:web,rev:1 owner=ReplicaSet/web-1
         pod new x3 cpu=1 labels=app:web,rev:2 owner=ReplicaSet/web-2"
    ));
    let solution = fixture.solve();
    for revision in ["old", "new"] {
        let per_claim: Vec<usize> =
            solution.claims.iter().map(|c| c.pods.iter().filter(|p| p.contains(revision)).count()).collect();
        assert_eq!(per_claim, [1, 1, 1], "{revision}");
    }
    check_search(&fixture, &solution);
    // A Service spreads pods of any owner.
    let job = "settings default-spread=zone:1 \n type t cpu=16 \n pool p \n service s sel=app:job
        pod work x3 cpu=1 labels=app:job,run:1 owner=Job/j";
    assert_eq!(pod_counts_per_domain(job, "zone"), [1, 1, 1]);
    // StatefulSets and ReplicationControllers count as owners, other kinds do not.
    for (line, owner, spread) in [
        ("statefulset o sel=app=web", "StatefulSet/o", true),
        ("rc o sel=app=web", "ReplicationController/o", true),
        ("replicaset o sel=app=web", "StatefulSet/o", false),
        ("replicaset o sel=app=web", "ReplicaSet/other", false),
        ("replicaset o ns=other sel=app=web", "ReplicaSet/o", false),
        ("replicaset o sel=app=web", "Job/o", false),
    ] {
        let fixture = format!(
            "settings default-spread=zone:1 \n type t cpu=16 \n pool p \n {line} \n pod w x3 cpu=1 labels=app:web owner={owner}"
        );
        assert_eq!(
            pod_counts_per_domain(&fixture, "zone"),
            if spread { vec![1, 1, 1] } else { vec![3] },
            "{line} for {owner}"
        );
    }
    // Running pods count by the deduced selector.
    let running = "settings default-spread=zone:1 \n pool p req=\"zone In a,b\" \n replicaset web sel=app=web \n node n1 zone=a cpu=3
        pod old x3 on=n1 cpu=1 labels=app:web \n pod w x3 cpu=1 labels=app:web owner=ReplicaSet/web";
    assert_eq!(pod_counts_per_domain(running, "zone"), [3]);
}

#[test]
fn spec_02_106_default_spread_applies_only_to_pods_without_constraints() {
    let with = |rest: &str| format!("settings default-spread=zone:1 \n type t cpu=16 \n pool p \n {rest}");
    // The pods have a constraint of their own.
    assert_eq!(
        pod_counts_per_domain(
            &with(
                "replicaset web sel=app=web \n pod w x3 cpu=1 labels=app:web owner=ReplicaSet/web spread=host:9:app=web:any"
            ),
            "zone"
        ),
        [3]
    );
    // No Service or owner selects the pods.
    assert_eq!(pod_counts_per_domain(&with("service s sel=app:other \n pod w x3 cpu=1 labels=app:web"), "zone"), [3]);
    assert_eq!(pod_counts_per_domain(&with("service s unselective \n pod w x3 cpu=1 labels=app:web"), "zone"), [3]);
    assert_eq!(
        pod_counts_per_domain(&with("service s ns=other sel=app:web \n pod w x3 cpu=1 labels=app:web"), "zone"),
        [3]
    );
    // No default constraint is configured.
    assert_eq!(
        pod_counts_per_domain(
            &format!(
                "type t cpu=16 \n pool p \n {REVISIONS} \n pod w x3 cpu=1 labels=app:web,rev:1 owner=ReplicaSet/web-1"
            ),
            "zone"
        ),
        [3]
    );
}

#[test]
fn spec_02_107_a_default_spread_may_be_hard_or_soft() {
    let with = |constraint: &str| {
        format!("settings default-spread={constraint} \n pool p \n service s sel=app:web \n pod w cpu=1 labels=app:web")
    };
    check(&with("rack:1:any"), "claim pool=p types=t pods=w");
    check(&with("rack:1"), "unplaced w TopologyUnsatisfiable");
}

// kube-scheduler counts by the pod's node affinity as written, whichever alternative the pod was
// placed by.
#[test]
fn giving_up_an_alternative_does_not_change_which_pods_count() {
    check(
        "pool p limit=nodes:1 \n pod x x2 cpu=1 labels=app:x spread=host:1:app=x req=\"zone In a,b\" req=\"arch In amd64\"",
        "claim pool=p types=t pods=x-1 zone=a|b \n unplaced x-2 LimitExceeded",
    );
}
