//! Selection of the victims of preemption.

use kerf_runtime::Rng;

use super::fixture::ClusterFixture;
use crate::cluster::scheduler::attempt::{AttemptOutcome, Rotation, attempt};
use crate::cluster::scheduler::preempt::{Preemption, preempt};

/// Returns `node: victims` with the most important victim first, or the reason why there are none.
pub(super) fn victims(text: &str) -> String {
    let cluster = ClusterFixture::parse(text);
    let mut view = cluster.view();
    let info = view.pod("default/new").unwrap().clone();
    let pod = info.unscheduled_pod.clone().unwrap();
    let mut rng = Rng::new(1);
    let diagnosis = match attempt(&mut view, &pod, &info, &mut Rotation::default(), &mut rng) {
        AttemptOutcome::Unschedulable(diagnosis) => diagnosis,
        other => panic!("{other:?} for {text}"),
    };
    let result = match preempt(&mut view, &pod, &info, &diagnosis, &mut rng) {
        Preemption::Victims { node, victims } => {
            let names: Vec<&str> = victims.iter().map(|victim| victim.name()).collect();
            format!("{node}: {}", names.join(" "))
        }
        Preemption::NotEligible(reason) => reason.to_owned(),
        Preemption::NoCandidates(reason) => reason,
        Preemption::NotAttempted => "not asked".to_owned(),
    };
    // All hypothetical changes must be undone.
    let untouched = cluster.view();
    for node in untouched.existing_nodes() {
        let after = view.node(view.find_node(&untouched.node(node).name).unwrap());
        assert_eq!(after.used, untouched.node(node).used, "{text}");
        assert_eq!(after.pods.len(), untouched.node(node).pods.len(), "{text}");
    }
    result
}

/// Name of the case, the cluster, and the chosen node with its victims.
const VICTIMS: &[(&str, &str, &str)] = &[
    ("the less important leaves", "node a cpu=2 | pod x on=a cpu=2 prio=1 | new cpu=2 prio=5", "a: x"),
    (
        "only as many as needed",
        "node a cpu=3 | pod x on=a cpu=1 prio=1 started=08:00 | pod y on=a cpu=1 prio=1 started=09:00 | pod z on=a cpu=1 prio=1 started=10:00 | new cpu=1 prio=5",
        "a: z",
    ),
    (
        "the most important are let stay",
        "node a cpu=3 | pod x on=a cpu=1 prio=3 | pod y on=a cpu=1 prio=1 | pod z on=a cpu=1 prio=2 | new cpu=2 prio=5",
        "a: z y",
    ),
    (
        "of equal pods the one that started last is preempted",
        "node a cpu=2 | pod x on=a cpu=1 prio=1 started=10:00 | pod y on=a cpu=1 prio=1 started=09:00 | new cpu=1 prio=5",
        "a: x",
    ),
    (
        "a large one stays if small ones suffice",
        "node a cpu=4 | pod x on=a cpu=3 prio=2 | pod y on=a cpu=1 prio=1 | new cpu=1 prio=5",
        "a: y",
    ),
    (
        "equals do not leave for equals",
        "node a cpu=1 | pod x on=a cpu=1 prio=5 | new cpu=1 prio=5",
        "0/1 nodes are available: 1 No preemption victims found for incoming pod.",
    ),
    (
        "fewest violated budgets",
        "pdb b app=w allows=0 | node a cpu=1 | node b cpu=1 | pod x on=a cpu=1 app=w prio=1 | pod y on=b cpu=1 prio=3 | new cpu=1 prio=5",
        "b: y",
    ),
    (
        "a budget that allows it is not violated",
        "pdb b app=w allows=1 | node a cpu=1 | node b cpu=1 | pod x on=a cpu=1 app=w prio=1 | pod y on=b cpu=1 prio=3 | new cpu=1 prio=5",
        "a: x",
    ),
    (
        "a budget counts down",
        "pdb b app=w allows=1 | node a cpu=2 | node b cpu=2 | pod x on=a cpu=1 app=w | pod y on=a cpu=1 app=w | pod z on=b cpu=2 prio=3 | new cpu=2 prio=5",
        "b: z",
    ),
    (
        "those with a violated budget stay first",
        "pdb b app=w allows=0 | node a cpu=2 | pod x on=a cpu=1 app=w prio=1 | pod y on=a cpu=1 prio=3 | new cpu=1 prio=5",
        "a: y",
    ),
    (
        "a violated budget if there is no other way",
        "pdb b app=w allows=0 | node a cpu=1 | pod x on=a cpu=1 app=w prio=1 | new cpu=1 prio=5",
        "a: x",
    ),
    (
        "a budget of another namespace",
        "pdb b app=w allows=0 | node a cpu=1 | node b cpu=1 | pod x on=a ns=other cpu=1 app=w prio=1 | pod y on=b cpu=1 prio=3 | new cpu=1 prio=5",
        "a: x",
    ),
    (
        "the lowest highest priority",
        "node a cpu=2 | node b cpu=2 | pod x on=a cpu=2 prio=4 | pod y on=b cpu=1 prio=3 | pod z on=b cpu=1 prio=3 | new cpu=2 prio=5",
        "b: y z",
    ),
    (
        "the lowest sum",
        "node a cpu=2 | node b cpu=2 | pod w on=a cpu=1 prio=3 | pod x on=a cpu=1 prio=2 | pod y on=b cpu=1 prio=3 | pod z on=b cpu=1 prio=1 | new cpu=2 prio=5",
        "b: y z",
    ),
    (
        "the fewest victims, also of negative priority",
        "node a cpu=2 | node b cpu=2 | pod w on=a cpu=1 prio=-5 | pod x on=a cpu=1 prio=-5 | pod y on=b cpu=2 prio=-5 | new cpu=2 prio=5",
        "b: y",
    ),
    (
        "the latest start",
        "node a cpu=1 | node b cpu=1 | pod x on=a cpu=1 prio=1 started=09:00 | pod y on=b cpu=1 prio=1 started=10:00 | new cpu=1 prio=5",
        "b: y",
    ),
    (
        "nodes where it would not help are left alone",
        "node a cpu=1 taint=k:NoSchedule | node b cpu=1 | pod x on=a cpu=1 | pod y on=b cpu=1 prio=3 | new cpu=1 prio=5",
        "b: y",
    ),
    (
        "a node that is too small is left alone",
        "node a cpu=1 | node b cpu=2 | pod x on=a cpu=1 | pod y on=b cpu=2 prio=3 | new cpu=2 prio=5",
        "b: y",
    ),
    ("for a port", "node a | pod x on=a port=80 prio=1 | pod y on=a prio=1 | new port=80 prio=5", "a: x"),
    ("for distance", "node a | pod x on=a app=w prio=1 | pod y on=a prio=1 | new away=app:w@host prio=5", "a: x"),
    (
        "a pod with anti-affinity to the new pod",
        "node a | pod x on=a away=app:w@host prio=1 | new app=w prio=5",
        "a: x",
    ),
    (
        "for spread",
        "node a zone=x | node b zone=y cpu=0 | pod x on=a app=w prio=1 | new app=w cpu=1 prio=5 spread=1*app:w@zone",
        "a: x",
    ),
    (
        "for a claim of one pod alone",
        "node a | claim c to=v mode=ReadWriteOncePod | pv v for=c | pod x on=a vol=c prio=1 | new vol=c prio=5",
        "a: x",
    ),
    (
        "for an attachment",
        "node a | csi a disk=1 | claim c to=v | pv v for=c | claim d to=w | pv w for=d | pod x on=a vol=d prio=1 | new vol=c prio=5",
        "a: x",
    ),
    (
        "affinity to a preempted pod does not count",
        "node a cpu=1 | pod x on=a cpu=1 app=w prio=1 | new cpu=1 near=app:w@host prio=5",
        "0/1 nodes are available: 1 node(s) didn't match pod affinity rules.",
    ),
    (
        "capacity is kept for a nominated pod of higher priority",
        "node a cpu=2 | node b cpu=2 | pod n cpu=2 prio=9 nominated=a | pod x on=a cpu=2 prio=1 | pod y on=b cpu=2 prio=3 | new cpu=2 prio=5",
        "b: y",
    ),
];

/// Returns the clusters of the table.
pub(super) fn cluster_texts() -> impl Iterator<Item = &'static str> {
    VICTIMS.iter().map(|(_, text, _)| *text)
}

#[test]
fn victims_are_chosen_in_the_published_order() {
    for (name, text, expected) in VICTIMS.iter().copied() {
        assert_eq!(victims(text), expected, "{name}: {text}");
    }
}

#[test]
fn a_nominated_pod_keeps_its_capacity_unless_the_other_pod_is_more_important() {
    let node_of_new = |text: &str| {
        let mut view = ClusterFixture::parse(text).view();
        let info = view.pod("default/new").unwrap().clone();
        let pod = info.unscheduled_pod.clone().unwrap();
        match attempt(&mut view, &pod, &info, &mut Rotation::default(), &mut Rng::new(1)) {
            AttemptOutcome::Node(node, _) => view.node(node).name.to_string(),
            AttemptOutcome::Unschedulable(diagnosis) => diagnosis.message(),
            AttemptOutcome::NoNodes => String::new(),
        }
    };
    let insufficient = "0/1 nodes are available: 1 Insufficient cpu.";
    assert_eq!(node_of_new("node a cpu=2 | pod n cpu=2 prio=5 nominated=a | new cpu=1 prio=5"), insufficient);
    assert_eq!(node_of_new("node a cpu=2 | pod n cpu=2 prio=5 nominated=a | new cpu=1 prio=6"), "a");
    assert_eq!(node_of_new("node a cpu=2 | pod n cpu=1 prio=5 nominated=a | new cpu=1 prio=5"), "a");
    // The pod's own nominated node is tried first, although another node is emptier.
    assert_eq!(node_of_new("node a cpu=2 | node b cpu=64 | new cpu=1 nominated=a"), "a");
    assert_eq!(node_of_new("node a cpu=2 cordoned | node b cpu=64 | new cpu=1 nominated=a"), "b");
}
