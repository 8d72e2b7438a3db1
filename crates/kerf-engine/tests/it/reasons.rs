//! Tests of the messages for unplaced pods, as in spec 02 §7.2, §8.5, §9 and §2.2.

use crate::check_solution::{check, unplaced_reason};

/// Returns the message without its list of requirements and resources.
fn message(fixture: &str) -> String {
    let text = unplaced_reason(fixture, "x");
    text.split(", requirements=").next().unwrap().to_owned()
}

#[test]
fn section_7_2_messages_state_what_no_type_meets() {
    let two = "type small cpu=2 arch=arm64 \n type big cpu=8 \n pool p";
    for (fixture, expected) in [
        (
            "type t \n pool p \n pod x cpu=1 sel=zone:nope",
            "no instance type met the scheduling requirements or had enough resources or had a required offering",
        ),
        (
            "type t cpu=4 \n pool p \n pod x cpu=9 sel=arch:arm64",
            "no instance type met the scheduling requirements or had enough resources",
        ),
        (
            "type t zones=a,b out=b/on-demand \n pool p \n pod x cpu=1 sel=zone:b",
            "no instance type had enough resources or had a required offering",
        ),
        ("type t cpu=4 \n pool p \n pod x cpu=1 sel=arch:arm64", "no instance type met all requirements"),
        ("type t cpu=4 \n pool p \n pod x cpu=9", "no instance type has enough resources"),
        (
            &format!("{two} \n pod x cpu=4 sel=arch:arm64"),
            "no instance type which had enough resources and the required offering met the scheduling requirements",
        ),
    ] {
        assert_eq!(message(fixture), expected, "{fixture}");
    }
}

#[test]
fn section_7_2_messages_list_resources_including_daemons() {
    let resources = |fixture: &str| unplaced_reason(fixture, "x").split("resources=").nth(1).unwrap().to_owned();
    assert_eq!(resources("pool p \n pod x cpu=9 mem=1Gi"), r#"{"cpu":"9","memory":"1Gi","pods":"1"}"#);
    assert_eq!(resources("pool p \n daemonset d cpu=1 \n pod x cpu=9"), r#"{"cpu":"10","pods":"2"}"#);
    assert_eq!(
        resources(
            "type s \n type l \n pool p \n daemonset d cpu=1 sel=type:s \n daemonset e cpu=2 sel=type:l \n pod x cpu=9"
        ),
        r#"min={"cpu":"10","pods":"2"}, max={"cpu":"11","pods":"2"}"#
    );
    assert_eq!(
        resources("pool p \n pod x cpu=1M"),
        r#"{"cpu":"1M","pods":"1"} (CPU request >= 1 Million, m vs M typo?)"#
    );
}

#[test]
fn section_4_6_messages_for_limits() {
    assert_eq!(
        unplaced_reason("pool p limit=nodes:0 \n pod x cpu=1", "x"),
        "node limits have been exhausted for nodepool (NodePool=p)"
    );
    assert_eq!(
        unplaced_reason("pool p limit=cpu:1 \n pod x cpu=1", "x"),
        "all available instance types exceed limits for nodepool (NodePool=p)"
    );
}

#[test]
fn section_9_4_messages_for_taints_and_several_pools() {
    assert_eq!(
        unplaced_reason("pool a taint=k=v:NoSchedule,l:NoExecute \n pool b limit=nodes:0 \n pod x cpu=1", "x"),
        "node limits have been exhausted for nodepool (NodePool=b); did not tolerate taint (taint=k=v:NoSchedule); \
         did not tolerate taint (taint=l:NoExecute)"
    );
}

#[test]
fn section_6_7_messages_for_incompatible_requirements_and_volumes() {
    assert_eq!(
        unplaced_reason("pool p req=\"zone In a\" \n pod x cpu=1 sel=zone:b", "x"),
        "incompatible requirements, key topology.kubernetes.io/zone, topology.kubernetes.io/zone In [b] not in \
         topology.kubernetes.io/zone In [a]"
    );
    assert_eq!(
        unplaced_reason("pool p req=\"zone In a\" \n pv v term=\"zone In b\" \n pvc c pv=v \n pod x cpu=1 pvc=c", "x"),
        "incompatible volume requirements, key topology.kubernetes.io/zone, topology.kubernetes.io/zone In [b] not in \
         topology.kubernetes.io/zone In [a]"
    );
}

#[test]
fn section_8_5_topology_lists_its_counts() {
    assert_eq!(
        unplaced_reason("type t zones=a,b \n pool p \n pod x cpu=1 aff=zone:app=none", "x"),
        "unsatisfiable topology constraint for pod affinity, key=topology.kubernetes.io/zone (counts = a: 0, b: 0, \
         podDomains = topology.kubernetes.io/zone Exists, nodeDomains = topology.kubernetes.io/zone Exists"
    );
}

#[test]
fn section_8_5_hosts_are_named_and_long_lists_are_cut() {
    assert_eq!(
        unplaced_reason(
            "pool p \n node n1 cpu=1 \n pod old on=n1 cpu=1 labels=app:web \n pod x cpu=1 labels=app:web aff=host:app=web",
            "x"
        ),
        "unsatisfiable topology constraint for pod affinity, key=kubernetes.io/hostname (counts = n1: 1, podDomains = \
         kubernetes.io/hostname Exists, nodeDomains = kubernetes.io/hostname In [hostname-placeholder-0001]"
    );
    // Known hosts count, even without pods; a host that is being deleted counts only while it has
    // pods.
    assert_eq!(
        unplaced_reason(
            "pool p \n node n1 cpu=1 \n node n2 pool=p deleting \n pod big cpu=4 \n pod x cpu=1 aff=host:app=web",
            "x"
        ),
        "unsatisfiable topology constraint for pod affinity, key=kubernetes.io/hostname (counts = \
         hostname-placeholder-0001: 0, n1: 0, podDomains = kubernetes.io/hostname Exists, nodeDomains = \
         kubernetes.io/hostname In [hostname-placeholder-0002]"
    );
    let zones: Vec<String> = (10..40).map(|i| format!("z{i}")).collect();
    let text =
        unplaced_reason(&format!("type t zones={} \n pool p \n pod x cpu=1 aff=zone:app=none", zones.join(",")), "x");
    assert!(text.contains("z33: 0, z34: 0 and 5 other(s), podDomains"), "{text}");
}

// §6.7: constraints between pods narrow the requirements before types are checked.
#[test]
fn section_7_2_messages_list_requirements_as_narrowed_by_constraints() {
    let unavailable_offering = "type t zones=a,b out=b/on-demand \n pool p \n node n cpu=0.5 zone=a
        pod old on=n cpu=0.5 labels=app:x \n pod x cpu=1 labels=app:x spread=zone:1:app=x";
    let text = unplaced_reason(unavailable_offering, "x");
    assert!(
        text.starts_with("no instance type had enough resources or had a required offering, requirements="),
        "{text}"
    );
    assert!(text.contains("topology.kubernetes.io/zone In [b], resources="), "{text}");
    // A label that the pool's nodes cannot have at all. `minValues` do not matter here.
    for pool in ["pool p", "pool p req=\"type Exists min 1\""] {
        let fixture =
            format!("{pool} \n pool q label=team:x limit=cpu:1 \n pod x cpu=1 labels=app:x spread=team:1:app=x");
        assert_eq!(
            unplaced_reason(&fixture, "x"),
            "all available instance types exceed limits for nodepool (NodePool=q); label \"team\" does not have known values"
        );
        check(&fixture, "unplaced x TopologyUnsatisfiable");
    }
}

#[test]
fn section_6_7_the_message_names_the_last_volume_alternative() {
    let terms = "pv v term=\"zone In q\" term=\"zone In r\" \n pvc c pv=v \n pod x cpu=1 pvc=c";
    assert!(
        unplaced_reason(&format!("pool p \n {terms}"), "x").contains("topology.kubernetes.io/zone In [r], resources=")
    );
    assert!(
        unplaced_reason(&format!("pool p req=\"zone In a,q\" \n {terms}"), "x")
            .starts_with("incompatible volume requirements, key")
    );
}

#[test]
fn section_3_4_a_new_node_has_a_placeholder_hostname() {
    let other = "kubernetes.io/hostname In [n9] not in kubernetes.io/hostname In [hostname-placeholder-0001]";
    assert_eq!(
        unplaced_reason("pool p \n pv v term=\"host In n9 & zone In a\" \n pvc c pv=v \n pod x cpu=1 pvc=c", "x"),
        format!("incompatible volume requirements, key kubernetes.io/hostname, {other}")
    );
    assert_eq!(
        unplaced_reason("pool p \n node n1 pool=p deleting \n pod x on=n1 cpu=1 sel=host:n9", "x"),
        format!("incompatible requirements, key kubernetes.io/hostname, {other}")
    );
}

#[test]
fn section_3_7_a_contradiction_is_shown_as_does_not_exist() {
    let text = unplaced_reason("pool p \n pod x cpu=1 sel=zone:a req=\"zone In b\"", "x");
    assert!(text.contains(", topology.kubernetes.io/zone DoesNotExist, resources="), "{text}");
    assert_eq!(
        unplaced_reason("pool p \n pod x cpu=1 req=\"tier Exists & tier NotIn gold\"", "x"),
        "incompatible requirements, label \"tier\" does not have known values"
    );
}

#[test]
fn section_16_pods_with_resource_claims_are_rejected() {
    assert_eq!(
        unplaced_reason("pool p \n pod x cpu=1 dra", "x"),
        "pod has Dynamic Resource Allocation requirements that are not yet supported by Karpenter"
    );
}

#[test]
fn section_2_2_every_violated_rule_is_reported() {
    let text = unplaced_reason("pool p \n pod x cpu=1 sel=karpenter.sh/a:1 req=\"cpus Gt x\" pvc=none", "x");
    let parts: Vec<&str> = text.split("; ").collect();
    assert!(parts[0].starts_with("using label karpenter.sh/a is not allowed"), "{text}");
    assert!(text.contains("key cpus with operator Gt must have a single positive integer value"), "{text}");
    assert!(text.ends_with("persistentvolumeclaims \"none\" not found (PersistentVolumeClaim=none)"), "{text}");
}
