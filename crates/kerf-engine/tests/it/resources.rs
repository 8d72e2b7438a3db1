//! Tests of what pods and daemons request and what nodes provide (spec 02 §4).

use kerf_api::labels;

use crate::check_solution::check;
use crate::fixture::Fixture;

/// Solves the fixture and returns the requests of the first claim as text.
fn requests(fixture: &str) -> String {
    let solution = Fixture::new(fixture).solve();
    let all: Vec<String> = solution.claims[0].requests.iter().map(|(name, q)| format!("{name}={q}")).collect();
    all.join(" ")
}

#[test]
fn spec_02_33_to_35_init_containers_sidecars_and_pod_level_requests() {
    for (pod, cpu) in [
        ("init=cpu:10 sidecar=cpu:4.9 cpu=6", "cpu=10900m pods=1"),
        // The init container runs together with the sidecars that were started before it.
        ("sidecar=cpu:4 init=cpu:7 cpu=6", "cpu=11 pods=1"),
        ("init=cpu:7 sidecar=cpu:4 cpu=6", "cpu=10 pods=1"),
        ("sidecar=cpu:1 init=cpu:2 sidecar=cpu:8 cpu=1", "cpu=10 pods=1"),
        ("cpu=6 container=cpu:2 init=cpu:3", "cpu=8 pods=1"),
        ("podlevel=cpu:9.9 cpu=20 init=cpu:30", "cpu=9900m pods=1"),
        ("podlevel=memory:1Gi cpu=2 mem=8Gi", "cpu=2 memory=1Gi pods=1"),
        // Other resources cannot be requested at pod level.
        ("podlevel=gpu:5 res=gpu:1", "gpu=1 pods=1"),
    ] {
        assert_eq!(requests(&format!("type t cpu=16 mem=16Gi res=gpu:8 \n pool p \n pod a {pod}")), cpu, "{pod}");
    }
    let types = "type under cpu=10.8 \n type exact cpu=10.9 \n pool p";
    check(&format!("{types} \n pod a init=cpu:10 sidecar=cpu:4.9 cpu=6"), "claim pool=p types=exact pods=a");
}

#[test]
fn spec_02_36_runtime_class_overhead_counts() {
    check(
        "type small cpu=2 \n type large cpu=4 \n pool p \n pod a cpu=1 overhead=cpu:2",
        "claim pool=p types=large pods=a",
    );
}

#[test]
fn spec_02_37_a_resize_counts_at_the_larger_size() {
    let check_remaining_cpu = |pod: &str, cpu: u32| {
        let placed = format!("node n1 pods={}", "new");
        check(
            &format!("pool p notready \n pool q \n node n1 cpu=4 \n pod old on=n1 {pod} \n pod new cpu={cpu}"),
            &placed,
        );
        let more =
            Fixture::new(&format!("pool q \n node n1 cpu=4 \n pod old on=n1 {pod} \n pod new cpu={cpu}.1")).solve();
        assert!(more.nodes.is_empty(), "{pod}");
    };
    check_remaining_cpu("cpu=1 allocated=cpu:3", 1);
    check_remaining_cpu("cpu=3 allocated=cpu:1", 1);
    // An infeasible resize does not count.
    check_remaining_cpu("cpu=3 allocated=cpu:1 infeasible", 3);
    // Without `resources` in the status only the spec counts.
    check_remaining_cpu("cpu=1 ignored-allocated=cpu:3", 3);
    // Pods that differ only in the state of their resize are not equivalent.
    check(
        "type s cpu=2 \n type l cpu=4 \n pool p \n node n1 deleting
         pod a on=n1 cpu=3 allocated=cpu:1 anti=host:* \n pod b on=n1 cpu=3 allocated=cpu:1 anti=host:* infeasible",
        "claim pool=p types=l pods=a \n claim pool=p types=s,l pods=b",
    );
}

#[test]
fn spec_02_38_resources_that_no_node_has() {
    check("pool p \n pod a cpu=1 res=gpu:0", "claim pool=p types=t pods=a");
    check("pool p \n node n1 \n pod a cpu=1 res=gpu:0", "node n1 pods=a");
    check("type x res=gpu:1 \n type y res=nic:1 \n pool p \n pod a res=gpu:1,nic:1", "unplaced a NoInstanceTypeFits");
}

#[test]
fn spec_02_39_huge_pages_are_subtracted_from_memory() {
    let fixture = |pod: &str| format!("type t mem=4Gi res=hugepages-2Mi:6Gi \n pool p \n pod a {pod}");
    check(&fixture("mem=1Mi"), "unplaced a NoInstanceTypeFits");
    check(&fixture("cpu=1 res=hugepages-2Mi:1Gi"), "claim pool=p types=t pods=a");
    let partly = |mem: &str| format!("type t mem=4Gi res=hugepages-1Gi:1Gi \n pool p \n pod a mem={mem}");
    check(&partly("3Gi"), "claim pool=p types=t pods=a");
    check(&partly("3073Mi"), "unplaced a NoInstanceTypeFits");
}

#[test]
fn spec_02_40_offerings_may_override_resources() {
    let types = "type plain \n type some \n type absent
        offer plain zone=a
        offer some zone=a
        offer some zone=b capacity=gpu:2
        offer absent zone=a
        offer absent zone=b capacity=gpu:2 out
        pool p";
    check(&format!("{types} \n pod a res=gpu:1"), "claim pool=p types=some pods=a");
    check(&format!("{types} \n pod a cpu=1"), "claim pool=p types=absent,plain,some pods=a");
    // The pod's zone decides which offering's resources count.
    check(&format!("{types} \n pod a res=gpu:1 sel=zone:a"), "unplaced a NoInstanceTypeFits");
    check(&format!("{types} \n pod a res=gpu:1 sel=zone:b"), "claim pool=p types=some pods=a zone=b");
    let overhead = "type t cpu=4 overhead=cpu:1 \n offer t zone=a \n offer t zone=b overhead=cpu:3 \n pool p";
    check(&format!("{overhead} \n pod a cpu=3"), "claim pool=p types=t pods=a");
    check(&format!("{overhead} \n pod a cpu=3 sel=zone:b"), "unplaced a NoInstanceTypeFits");
}

const TWO_SIZES: &str = "type s cpu=2 mem=2Gi \n type l cpu=4 mem=4Gi";

#[test]
fn spec_02_41_daemon_overhead_decides_the_size() {
    check(
        &format!("{TWO_SIZES} \n pool p \n daemonset d cpu=2 mem=2Gi \n pod web cpu=1 mem=1Gi"),
        "claim pool=p types=l pods=web",
    );
}

/// Checks which types a small pod may use together with a daemon that fills the small type.
#[track_caller]
fn check_types_beside_daemon(pool: &str, daemon: &str, types: &str) {
    check(
        &format!("{TWO_SIZES} \n pool p {pool} \n daemonset d cpu=2 {daemon} \n pod web cpu=1 tol=*"),
        &format!("claim pool=p types={types} pods=web"),
    );
}

#[test]
fn spec_02_42_a_daemon_that_does_not_run_there_adds_nothing() {
    check_types_beside_daemon("taint=k=v:NoSchedule", "", "s,l");
    check_types_beside_daemon("taint=k=v:NoSchedule", "tol=k", "l");
    check_types_beside_daemon("", "sel=team:x", "s,l");
    check_types_beside_daemon("label=team:x", "sel=team:x", "l");
    check_types_beside_daemon("label=team:x", "sel=team:y", "s,l");
    check_types_beside_daemon("", "sel=type:none", "s,l");
    check_types_beside_daemon("", "sel=type:l", "s,l");
    check_types_beside_daemon("", "sel=type:s", "l");
}

#[test]
fn spec_02_43_daemons_ignore_startup_and_prefer_no_schedule_taints() {
    check_types_beside_daemon("startup=k=v:NoSchedule", "", "l");
    check_types_beside_daemon("taint=k=v:PreferNoSchedule", "", "l");
}

#[test]
fn spec_02_44_any_affinity_term_of_a_daemon_may_match_and_preferences_do_not_count() {
    check_types_beside_daemon("", "req=\"team In x\" req=\"zone Exists\"", "l");
    check_types_beside_daemon("", "req=\"zone Exists\" req=\"team In x\"", "l");
    check_types_beside_daemon("", "req=\"team In x\"", "s,l");
    check_types_beside_daemon("", "pref=\"1 team In x\"", "l");
    // Each pair of pool and type is checked separately (Q6).
    check(
        &format!(
            "{TWO_SIZES} \n pool b label=team:y \n pool a label=team:x
             daemonset d cpu=2 req=\"team In y\" req=\"team In x & type In s\"
             pod one cpu=1 sel=team:x \n pod two cpu=1 sel=team:y"
        ),
        "claim pool=a types=l pods=one \n claim pool=b types=l pods=two",
    );
}

#[test]
fn spec_02_45_daemons_may_wait_for_registration() {
    for key in [labels::INITIALIZED, labels::REGISTERED] {
        check_types_beside_daemon("", &format!("sel={key}:true"), "l");
        check_types_beside_daemon("", &format!("sel={key}:false"), "s,l");
        let fixture = format!("pool p \n daemonset d cpu=1 sel={key}:true \n pod web cpu=1");
        let solution = Fixture::new(&fixture).solve();
        let launch = &solution.claims[0].launch;
        assert!(launch.labels.get(key).is_none() && launch.requirements.get(key).is_none());
    }
}

#[test]
fn spec_02_46_each_type_counts_its_own_daemons() {
    let fixture = |pod: &str| {
        format!(
            "type small cpu=4 label=karpenter.k8s.aws/instance-size:small
             type large cpu=32 label=karpenter.k8s.aws/instance-size:large
             pool p
             daemonset s cpu=1 sel=karpenter.k8s.aws/instance-size:small
             daemonset l cpu=10 sel=karpenter.k8s.aws/instance-size:large
             pod web {pod}"
        )
    };
    check(&fixture("cpu=3"), "claim pool=p types=small,large pods=web");
    check(&fixture("cpu=22"), "claim pool=p types=large pods=web");
    check(&fixture("cpu=22.1"), "unplaced web NoInstanceTypeFits");
}

#[test]
fn spec_02_47_a_live_daemon_pod_defines_the_requests_of_its_daemon_set() {
    let beside_live = |live: &str, types: &str| {
        check(
            &format!("{TWO_SIZES} \n pool p \n daemonset d cpu=2 {live} \n pod web cpu=1"),
            &format!("claim pool=p types={types} pods=web"),
        );
    };
    beside_live("\n pod d-1 on=missing cpu=1 owner=DaemonSet/d", "s,l");
    beside_live("\n pod d-1 on=missing cpu=2 owner=DaemonSet/other", "l");
    // The newest of several pods counts.
    beside_live(
        "\n pod d-1 on=missing cpu=1 age=10 owner=DaemonSet/d \n pod d-2 on=missing cpu=2 age=20 owner=DaemonSet/d",
        "s,l",
    );
    beside_live(
        "\n pod d-1 on=missing cpu=1 age=20 owner=DaemonSet/d \n pod d-2 on=missing cpu=2 age=10 owner=DaemonSet/d",
        "l",
    );
    // The template's node affinity replaces the one with which the controller pins a live pod to
    // its node.
    check(
        &format!(
            "{TWO_SIZES} \n pool p \n daemonset d cpu=2 req=\"type In l\"
             pod d-1 on=missing cpu=2 req=\"type In s\" owner=DaemonSet/d \n pod web cpu=1"
        ),
        "claim pool=p types=s,l pods=web",
    );
    let limits = format!("{TWO_SIZES} \n pool p \n daemonset d lim=cpu:2 \n pod web cpu=1");
    check(&limits, "claim pool=p types=l pods=web");
}

#[test]
fn spec_02_48_a_daemon_counts_once_in_the_requests_of_a_claim() {
    assert_eq!(requests("pool p \n daemonset d cpu=1 \n pod web x2 cpu=1"), "cpu=3 pods=3");
    // Q8: a daemon that runs on only some of the remaining types is not in the minimum.
    let mixed = "type s cpu=4 \n type l cpu=8 \n pool p \n daemonset d cpu=1 sel=type:s \n pod web cpu=1";
    assert_eq!(requests(mixed), "cpu=1 pods=1");
    let both =
        "type s cpu=4 \n type l cpu=8 \n pool p \n daemonset d cpu=1 \n daemonset e cpu=1 sel=type:l \n pod web cpu=1";
    assert_eq!(requests(both), "cpu=2 pods=2");
}

#[test]
fn spec_02_49_a_bound_daemon_is_not_reserved_again() {
    let node = "pool p limit=cpu:0 \n node n1 pool=p uninitialized cpu=4 \n daemonset d cpu=1";
    check(&format!("{node} \n pod web cpu=3"), "node n1 pods=web");
    check(&format!("{node} \n pod web cpu=4"), "unplaced web LimitExceeded");
    check(&format!("{node} \n pod d-1 on=n1 cpu=1 owner=DaemonSet/d \n pod web cpu=3"), "node n1 pods=web");
    check(&format!("{node} \n pod d-1 on=n1 cpu=1 owner=DaemonSet/d \n pod web cpu=3.1"), "unplaced web LimitExceeded");
    // An unexpected daemon pod uses its own requests and releases nothing that is reserved for
    // others.
    let unexpected = "pod x on=n1 cpu=2 mem=1Gi owner=DaemonSet/x";
    check(&format!("{node} \n {unexpected} \n pod web cpu=2"), "node n1 pods=web");
    check(&format!("{node} \n {unexpected} \n pod web cpu=2.1"), "unplaced web LimitExceeded");
}

#[test]
fn spec_02_50_a_daemon_that_does_not_run_on_the_node_takes_nothing() {
    let on = |daemon: &str, pod: &str| {
        format!("pool p limit=cpu:0 \n node n1 label=team:x cpu=4 \n daemonset d cpu=1 {daemon} \n pod web cpu={pod}")
    };
    check(&on("sel=team:y", "4"), "node n1 pods=web");
    check(&on("sel=nope:y", "4"), "node n1 pods=web");
    check(&on("sel=team:x", "3"), "node n1 pods=web");
    check(&on("sel=team:x", "4"), "unplaced web LimitExceeded");
    check(&on("req=\"team In y\" req=\"team In x\"", "4"), "unplaced web LimitExceeded");
}

#[test]
fn spec_02_51_an_overcommitted_node_takes_nothing() {
    check("pool p \n node n1 cpu=4 \n pod old on=n1 cpu=5 \n pod web mem=1Mi", "claim pool=p types=t pods=web");
    check(
        "pool p \n node n1 cpu=4 res=gpu:0 \n pod old on=n1 res=gpu:1 \n pod web cpu=1",
        "claim pool=p types=t pods=web",
    );
    // A resource that the node does not report cannot be overcommitted.
    check("pool p \n node n1 cpu=4 \n pod old on=n1 res=gpu:1 \n pod web cpu=1", "node n1 pods=web");
    check("pool p \n node n1 cpu=4 \n pod old on=n1 cpu=4 \n pod web mem=1Mi", "node n1 pods=web");
    // A type whose overhead exceeds its capacity fits nothing either.
    check(
        "type bad cpu=4 mem=1Gi overhead=memory:2Gi \n type good \n pool p \n pod web cpu=1",
        "claim pool=p types=good pods=web",
    );
}
