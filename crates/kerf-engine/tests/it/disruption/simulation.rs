//! Tests of the scheduling simulation (spec 03 §7), as far as it decides whether nodes are removed.

use super::{THREE_TYPES, block_codes, block_reasons, check};

#[test]
fn spec_03_59_to_61_pods_are_not_moved_to_uninitialized_nodes() {
    let fixture = |more: &str| format!("{THREE_TYPES} \n pool-node n type=s \n pod x on=n cpu=2 \n {more}");
    let early = fixture("pool-node young type=s uninitialized");
    check(&early, "");
    let reasons = block_reasons(&early, "n");
    assert!(reasons[0].starts_with("PodsUnschedulable: Not all pods would schedule, default/x => "), "{reasons:?}");
    assert!(
        reasons[0].contains("would schedule against uninitialized nodeclaim/claim-of-young, node/young"),
        "{reasons:?}"
    );
    // 60
    let many: Vec<String> = (0..20).map(|i| format!("pool-node a{i:02} type=s uninitialized")).collect();
    check(&fixture(&format!("{} \n pool-node z type=s protect=true", many.join("\n"))), "single delete n saves 0.2");
}

#[test]
fn spec_03_62_an_unschedulable_pending_pod_keeps_no_node() {
    check(
        &format!(
            "{THREE_TYPES} \n pool-node a type=m \n pool-node b type=m \n pod x on=a cpu=1 \n pod y on=b cpu=2 \n pod big cpu=99"
        ),
        "single delete a saves 0.4",
    );
}

#[test]
fn spec_03_64_a_node_that_a_pending_pod_needs_stays() {
    let fixture = |pending: &str| {
        format!(
            "{THREE_TYPES} \n pool-node n type=l \n pod x on=n cpu=1 \n pool-node m type=s \n pod y on=m cpu=1 \n {pending}"
        )
    };
    check(&fixture(""), "single delete n saves 0.8");
    check(&fixture("pod big cpu=6"), "single delete m saves 0.2");
}

#[test]
fn spec_03_65_to_67_a_node_within_consolidate_after_receives_no_pods() {
    let fixture = |after: &str, event: &str, more: &str| {
        format!("{THREE_TYPES} after={after} \n pool-node n type=m event=900 \n pool-node to type=m protect=true event={event} \n pod x on=n cpu=3
                 pod y on=to cpu=1 \n {more}")
    };
    check(&fixture("1m", "60", ""), "single delete n saves 0.4");
    check(&fixture("1m", "59", ""), "");
    assert_eq!(block_codes(&fixture("1m", "59", ""), "n"), ["NoCheaperReplacement"]);
    // 66
    let never = "pool q after=Never \n node quiet pool=q type=m zone=a ct=on-demand event=0";
    check(&fixture("1m", "59", never), "single delete n saves 0.4");
    // 67
    let shrinks = format!("{THREE_TYPES} after=1m \n pool-node n type=l event=60 \n pod x on=n cpu=1");
    check(&shrinks, "single replace n -> p types=s,m ct=on-demand saves 0.6");
}

#[test]
fn spec_03_68_capacity_of_an_unmanaged_node_is_used() {
    check(
        &format!("{THREE_TYPES} \n pool-node n type=s \n pod x on=n cpu=2 \n node theirs cpu=4"),
        "single delete n saves 0.2",
    );
}

#[test]
fn spec_03_69_an_unusable_pool_does_not_stop_the_others() {
    for broken in ["catalogue=none", "notready", "deleting"] {
        check(
            &format!(
                "{THREE_TYPES} \n pool q {broken} \n pool-node a type=s \n pool-node b type=s \n pod x on=a cpu=1 \n pod y on=b cpu=1"
            ),
            "single delete a saves 0.2",
        );
    }
}

#[test]
fn spec_03_70_pods_without_an_owner_are_moved_like_others() {
    check(
        &format!(
            "{THREE_TYPES} \n pool-node a type=s \n pool-node b type=s \n pod x on=a cpu=1 owner=ReplicaSet/w \n pod y on=b cpu=1"
        ),
        "single delete a saves 0.2",
    );
}

#[test]
fn spec_03_71_pods_with_anti_affinity_keep_their_nodes() {
    let fixture = format!(
        "{THREE_TYPES} \n pool-node a type=s \n pool-node b type=s
         pod x on=a cpu=1 labels=app:x anti=host:app=x \n pod y on=b cpu=1 labels=app:x anti=host:app=x"
    );
    check(&fixture, "");
    assert_eq!(block_codes(&fixture, "a"), ["NoCheaperReplacement"]);
}

#[test]
fn spec_03_72_the_replacement_keeps_the_spread() {
    let spread = "labels=app:x spread=zone:1:app=x";
    check(
        &format!(
            "{THREE_TYPES} \n pool-node a type=s zone=a \n pool-node b type=l zone=b \n pool-node c type=s zone=c
             pod x on=a cpu=2 {spread} \n pod y on=b cpu=2 {spread} \n pod z on=c cpu=2 {spread}"
        ),
        "single replace b -> p types=s,m ct=on-demand zone=b saves 0.6",
    );
}

#[test]
fn spec_03_73_preferences_can_be_ignored() {
    let preference = "labels=app:x anti~10=host:app=x";
    let fixture = |settings: &str| {
        format!(
            "{THREE_TYPES} \n {settings} \n pool-node a type=s \n pool-node b type=s \n pod x on=a cpu=1 {preference} \n pod y on=b cpu=1 {preference}"
        )
    };
    check(&fixture("settings ignore-preferences"), "single delete a saves 0.2");
    check(&fixture(""), "");
}

#[test]
fn spec_03_74_a_local_volume_does_not_keep_its_node() {
    check(
        &format!(
            "{THREE_TYPES} \n pool-node n type=l \n pvc data pv=disk \n pv disk local term=\"host In n\"
             pod x on=n cpu=2 pvc=data owner=StatefulSet/db"
        ),
        "single replace n -> p types=s,m ct=on-demand saves 0.6",
    );
}
