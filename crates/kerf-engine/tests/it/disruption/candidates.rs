//! Tests of which nodes are candidates, and of every reason that keeps the others (spec 03 §5).

use super::{THREE_TYPES, block_codes, block_reasons, check, warnings_text};

const SPARE_NODE: &str = "pool-node spare type=m protect=true";

/// A node whose pod could move to a spare node, followed by the lines of `more`.
fn fixture_text(node: &str, pod: &str, more: &str) -> String {
    format!("{THREE_TYPES} after=0s \n {SPARE_NODE} \n pool-node n type=m {node} \n pod x on=n cpu=1 {pod} \n {more}")
}

const DELETES_N: &str = "single delete n saves 0.4";

#[test]
fn spec_03_24_and_25_a_do_not_disrupt_pod_keeps_its_node() {
    check(&fixture_text("", "", ""), DELETES_N);
    for owner in ["", "owner=DaemonSet/d", "owner=Node/n"] {
        let protected = fixture_text("", "", &format!("pod y on=n cpu=1 protect=true {owner}"));
        check(&protected, "");
        assert_eq!(
            block_reasons(&protected, "n"),
            ["PodDoNotDisrupt: Pod has \"karpenter.sh/do-not-disrupt\" annotation (Pod=default/y)"]
        );
    }
    for ended in ["terminating", "phase=Succeeded", "phase=Failed"] {
        check(&fixture_text("", "", &format!("pod y on=n cpu=1 protect=true {ended}")), DELETES_N);
    }
}

#[test]
fn spec_03_26_a_termination_grace_period_overrides_pods_only_for_drift() {
    let protected = "pod y on=n cpu=1 protect=true";
    check(&fixture_text("grace=1h provider-drift=AMIDrift", "", protected), "drift delete n saves 0.4");
    check(&fixture_text("grace=1h", "", protected), "");
    check(&fixture_text("provider-drift=AMIDrift", "", protected), "");
    // A node that is empty except for a protected daemon pod.
    let empty = format!("{THREE_TYPES} \n pool-node n type=m grace=1h \n pod d on=n owner=DaemonSet/d protect=true");
    check(&empty, "");
}

#[test]
fn spec_03_27_a_pod_disruption_budget_without_disruptions_keeps_the_node() {
    let pdb = "pdb b sel=app=x allowed=0";
    let fixture = fixture_text("", "labels=app:x", pdb);
    check(&fixture, "");
    assert_eq!(
        block_reasons(&fixture, "n"),
        ["PodDisruptionBudget: Pdb prevents pod evictions (PodDisruptionBudget=[default/b])"]
    );
    check(&fixture_text("", "labels=app:x", "pdb b sel=app=x allowed=1"), DELETES_N);
    check(&fixture_text("", "", &format!("{pdb} \n pod d on=n labels=app:x owner=DaemonSet/d")), "");
    check(&fixture_text("grace=1h provider-drift=AMIDrift", "labels=app:x", pdb), "drift delete n saves 0.4");
    check(&fixture_text("provider-drift=AMIDrift", "labels=app:x", pdb), "");
    // A budget without a status allows nothing. No selector selects no pod, an empty one selects
    // all.
    check(&fixture_text("", "labels=app:x", "pdb b sel=app=x"), "");
    check(&fixture_text("", "labels=app:x", "pdb b sel=-"), DELETES_N);
    check(&fixture_text("", "labels=app:x", "pdb b sel=*"), "");
}

#[test]
fn spec_03_28_a_pod_disruption_budget_over_pods_that_are_not_evicted_keeps_no_node() {
    for other in ["owner=Node/n", "phase=Succeeded", "terminating", "tol=karpenter.sh/disrupted"] {
        check(
            &fixture_text("", "", &format!("pdb b sel=app=y allowed=0 \n pod y on=n labels=app:y {other}")),
            DELETES_N,
        );
    }
    check(&fixture_text("", "labels=app:x", "pdb b ns=other sel=app=x allowed=0"), DELETES_N);
}

#[test]
fn spec_03_29_two_pod_disruption_budgets_over_a_pod_always_keep_its_node() {
    let fixture = fixture_text("", "labels=app:x", "pdb a sel=app=x allowed=1 \n pdb b sel=* allowed=1");
    assert_eq!(
        block_reasons(&fixture, "n"),
        ["MultiplePodDisruptionBudgets: Eviction does not support multiple PDBs \
          (PodDisruptionBudget(s)=[default/a default/b])"]
    );
}

#[test]
fn spec_03_30_unready_pods_are_evicted_with_always_allow() {
    check(&fixture_text("", "labels=app:x unready", "pdb b sel=app=x allowed=0 always"), DELETES_N);
    check(&fixture_text("", "labels=app:x unready", "pdb b sel=app=x allowed=0"), "");
    check(&fixture_text("", "labels=app:x", "pdb b sel=app=x allowed=0 always"), "");
}

#[test]
fn spec_03_31_a_node_annotation_protects_only_with_the_value_true() {
    let fixture = fixture_text("protect=true provider-drift=AMIDrift grace=1h", "", "");
    check(&fixture, "");
    assert_eq!(
        block_reasons(&fixture, "n"),
        ["DoNotDisrupt: Disruption is blocked through the \"karpenter.sh/do-not-disrupt\" annotation"]
    );
    check(&fixture_text("protect=false", "", ""), DELETES_N);
    check(&fixture_text("protect=4h", "", ""), DELETES_N);
}

#[test]
fn spec_03_32_to_34_a_do_not_disrupt_duration_counts_from_the_start_of_the_pod() {
    check(&fixture_text("", "protect=2m started=0", ""), "");
    check(&fixture_text("", "protect=2m started=119", ""), "");
    check(&fixture_text("", "protect=2m started=120", ""), DELETES_N);
    // 33
    let two = |age: u32| {
        fixture_text("", &format!("protect=1m started={age}"), &format!("pod y on=n protect=3m started={age}"))
    };
    check(&two(170), "");
    check(&two(180), DELETES_N);
    // 34
    check(&fixture_text("", "protect=5m", ""), "");
}

#[test]
fn spec_03_35_an_invalid_do_not_disrupt_annotation_is_ignored_and_reported() {
    for (value, cause) in [
        (
            "invalid-format",
            "failed to parse \"invalid-format\" as a duration: time: invalid duration \"invalid-format\"",
        ),
        ("0s", "duration \"0s\" must be positive"),
        ("-5m", "duration \"-5m\" must be positive"),
    ] {
        let odd = fixture_text("", &format!("protect={value}"), "");
        check(&odd, DELETES_N);
        let warning = "InvalidDoNotDisruptAnnotation Pod default/x: Invalid karpenter.sh/do-not-disrupt annotation: ";
        assert_eq!(warnings_text(&odd), [format!("{warning}{cause}, ignoring annotation")]);
    }
}

#[test]
fn spec_03_36_a_node_or_claim_alone_is_no_candidate() {
    let fixture = format!("{THREE_TYPES} \n node alone type=m zone=a ct=on-demand \n pool-node early type=m inflight");
    check(&fixture, "");
    assert_eq!(block_reasons(&fixture, "alone"), ["NotManaged: Node isn't managed by karpenter"]);
    assert_eq!(block_reasons(&fixture, "early"), ["NoNode: Nodeclaim does not have an associated node"]);
}

#[test]
fn spec_03_37_and_41_nominated_nodes_and_nodes_of_commands_are_no_candidates() {
    let fixture = fixture_text("nominated=1", "", "");
    check(&fixture, "");
    assert_eq!(block_reasons(&fixture, "n"), ["Nominated: Node is nominated for a pending pod"]);
    check(&fixture_text("nominated=0", "", ""), DELETES_N);
    assert_eq!(block_codes(&fixture_text("disrupting", "", ""), "n"), ["AlreadyDisrupting"]);
}

#[test]
fn spec_03_38_uninitialized_and_deleting_nodes_are_no_candidates() {
    assert_eq!(
        block_reasons(&fixture_text("deleting", "", ""), "n"),
        ["Deleting: Node is deleting or marked for deletion"]
    );
    assert_eq!(block_codes(&fixture_text("marked", "", ""), "n"), ["Deleting"]);
    assert_eq!(block_reasons(&fixture_text("uninitialized", "", ""), "n"), ["NotInitialized: Node isn't initialized"]);
}

#[test]
fn spec_03_39_a_pool_without_types_blocks_only_its_own_nodes() {
    let two = format!("{THREE_TYPES} \n pool q catalogue=none \n pool-node n type=m \n pool-node m type=m pool=q");
    check(&two, "empty delete n saves 0.4");
    assert_eq!(block_reasons(&two, "m"), ["NodePoolNotFound: NodePool not found (NodePool=q)"]);
    let unlabelled = format!("{THREE_TYPES} \n pool-node n type=m unlabelled");
    assert_eq!(
        block_reasons(&unlabelled, "n"),
        ["NoNodePoolLabel: Node doesn't have required label (label=karpenter.sh/nodepool)"]
    );
}

#[test]
fn spec_03_40_only_consolidation_skips_a_node_without_a_price() {
    for (node, code) in [
        ("type=m zone=-", "MissingLabel: Node does not have label \"topology.kubernetes.io/zone\""),
        ("type=m ct=-", "MissingLabel: Node does not have label \"karpenter.sh/capacity-type\""),
        ("type=missing", "InstanceTypeNotFound: Instance Type \"missing\" not found"),
    ] {
        let full = format!("{THREE_TYPES} \n {SPARE_NODE} \n pool-node n {node} \n pod x on=n cpu=1");
        check(&full, "");
        assert_eq!(block_reasons(&full, "n"), [code]);
        check(&format!("{THREE_TYPES} \n pool-node n {node}"), "empty delete n saves 0");
        let drifted =
            format!("{THREE_TYPES} \n {SPARE_NODE} \n pool-node n {node} provider-drift=AMIDrift \n pod x on=n cpu=1");
        check(&drifted, "drift delete n saves 0");
    }
}

#[test]
fn a_node_that_stays_has_every_reason() {
    let fixture = fixture_text(
        "protect=true nominated=5 event=0",
        "protect=true",
        "pdb b sel=* allowed=0 \n pod y on=n \n pod z on=n protect=true",
    )
    .replace("after=0s", "after=1m policy=WhenEmpty");
    assert_eq!(
        block_codes(&fixture, "n"),
        [
            "Nominated",
            "DoNotDisrupt",
            "PodDoNotDisrupt",
            "PodDisruptionBudget",
            "PodDoNotDisrupt",
            "ConsolidationPolicy",
            "ConsolidateAfter"
        ]
    );
}

#[test]
fn spec_03_42_and_102_the_eviction_cost_of_pods_decides_which_node_is_removed_first() {
    // A third node fits the pod of one of two nodes with equal prices. The node that is cheaper to
    // disrupt is deleted.
    let pair = |a: &str, b: &str| {
        format!(
            "{THREE_TYPES} \n pool-node a type=m \n pool-node b type=m \n pod x on=a cpu=3 {a} \n pod y on=b cpu=3 {b}
                 node spare pool=q type=m zone=a ct=on-demand \n pool q after=Never \n pod z on=spare cpu=1"
        )
    };
    let order = |a: &str, b: &str| super::first_commands_text(&pair(a, b));
    for (a, b) in [("cost=100", "cost=101"), ("cost=99", "cost=100"), ("priority=-1", ""), ("", "priority=1")] {
        assert_eq!(order(a, b), "single delete a saves 0.4\n", "{a} against {b}");
        assert_eq!(order(b, a), "single delete b saves 0.4\n", "{b} against {a}");
    }
    // An invalid cost counts as zero, and an eviction cost never exceeds ten.
    assert_eq!(order("cost=much", "priority=1"), "single delete a saves 0.4\n");
    assert_eq!(order("priority=2000001000", "priority=2000000000"), "single delete a saves 0.4\n");
    let more = format!("{} \n pod y2 on=b", pair("", ""));
    assert_eq!(super::first_commands_text(&more), "single delete a saves 0.4\n");
}
