//! The exact texts for pods that no node accepts.

use kerf_runtime::Rng;

use super::fixture::ClusterFixture;
use crate::cluster::scheduler::attempt::{AttemptOutcome, Rotation, attempt};
use crate::cluster::scheduler::message::truncate_note;
use crate::cluster::scheduler::preempt::preempt;

/// Returns the clusters of the tables.
pub(super) fn cluster_texts() -> impl Iterator<Item = &'static str> {
    FILTERS.iter().chain(PREEMPTION).map(|(text, _)| *text)
}

/// Returns the text of the filters and the text of preemption that follows it (`None` if there are
/// victims).
pub(super) fn message_parts(text: &str) -> (String, Option<String>) {
    let mut view = ClusterFixture::parse(text).view();
    let info = view.pod("default/new").unwrap().clone();
    let pod = info.unscheduled_pod.clone().unwrap();
    let mut rng = Rng::new(1);
    let diagnosis = match attempt(&mut view, &pod, &info, &mut Rotation::default(), &mut rng) {
        AttemptOutcome::Unschedulable(diagnosis) => diagnosis,
        other => panic!("{other:?} for {text}"),
    };
    let preemption = preempt(&mut view, &pod, &info, &diagnosis, &mut rng);
    (diagnosis.message(), preemption.message_suffix())
}

const FILTERS: &[(&str, &str)] = &[
    ("node a cpu=1 | new cpu=2", "0/1 nodes are available: 1 Insufficient cpu."),
    ("node a cpu=1 mem=1Gi | new cpu=2 mem=2Gi", "0/1 nodes are available: 1 Insufficient cpu, 1 Insufficient memory."),
    ("node a pods=0 | new", "0/1 nodes are available: 1 Too many pods."),
    ("node a | new ask:example.com/gpu=1", "0/1 nodes are available: 1 Insufficient example.com/gpu."),
    (
        "node a ephemeral-storage=1Gi | new ephemeral-storage=2Gi",
        "0/1 nodes are available: 1 Insufficient ephemeral-storage.",
    ),
    (
        "node a taint=k=v:NoSchedule | node b cpu=1 | node c cpu=1 | new cpu=2",
        "0/3 nodes are available: 1 node(s) had untolerated taint(s), 2 Insufficient cpu.",
    ),
    ("node a cordoned | new", "0/1 nodes are available: 1 node(s) were unschedulable."),
    ("node a cordoned taint=k:NoSchedule | new select:x=y", "0/1 nodes are available: 1 node(s) were unschedulable."),
    ("node a | new select:x=y", "0/1 nodes are available: 1 node(s) didn't match Pod's node affinity/selector."),
    (
        "node a | pod x on=a port=80 | new port=80",
        "0/1 nodes are available: 1 node(s) didn't have free ports for the requested pod ports.",
    ),
    (
        "node a zone=x | node b | pod p on=a app=w | new app=w spread=1*app:w@zone!min=2",
        "0/2 nodes are available: 1 node(s) didn't match pod topology spread constraints, 1 node(s) didn't match pod topology spread constraints (missing required label).",
    ),
    ("node a | new near=app:w@host", "0/1 nodes are available: 1 node(s) didn't match pod affinity rules."),
    (
        "node a | pod p on=a app=w | new away=app:w@host",
        "0/1 nodes are available: 1 node(s) didn't match pod anti-affinity rules.",
    ),
    (
        "node a | pod p on=a away=app:w@host | new app=w",
        "0/1 nodes are available: 1 node(s) didn't satisfy existing pods anti-affinity rules.",
    ),
    ("node a | node b | new vol=c", "0/2 nodes are available: persistentvolumeclaim \"c\" not found."),
    (
        "node a | claim c to=v deleting | pv v for=c | new vol=c",
        "0/1 nodes are available: persistentvolumeclaim \"c\" is being deleted.",
    ),
    (
        "node a | claim c to=v lost | new vol=c",
        "0/1 nodes are available: persistentvolumeclaim \"c\" bound to non-existent persistentvolume \"v\".",
    ),
    ("node a | claim c to=v | new vol=c", "0/1 nodes are available: persistentvolume \"v\" not found."),
    (
        "node a | class k now | claim c class=k | new vol=c",
        "0/1 nodes are available: pod has unbound immediate PersistentVolumeClaims.",
    ),
    (
        "node a | new ephemeral=d",
        "0/1 nodes are available: waiting for ephemeral volume controller to create the persistentvolumeclaim \"new-d\".",
    ),
    (
        "node a | claim new-d to=v | pv v for=new-d | new ephemeral=d",
        "0/1 nodes are available: PVC default/new-d was not created for pod default/new (pod is not owner).",
    ),
    (
        "node a zone=x | claim c to=v | pv v for=c at=zone:In:y | new vol=c",
        "0/1 nodes are available: 1 node(s) didn't match PersistentVolume's node affinity.",
    ),
    (
        "node a zone=x | claim c to=v | pv v for=c zone=y | new vol=c",
        "0/1 nodes are available: 1 node(s) had no available volume zone.",
    ),
    (
        "node a zone=x | class k zones=y | claim c class=k | new vol=c",
        "0/1 nodes are available: 1 node(s) didn't find available persistent volumes to bind.",
    ),
    (
        "node a | csi a disk=0 | claim c to=v | pv v for=c | new vol=c",
        "0/1 nodes are available: 1 node(s) exceed max volume count.",
    ),
    (
        "node a | claim c to=v mode=ReadWriteOncePod | pv v for=c | pod x on=a vol=c | new vol=c",
        "0/1 nodes are available: 1 node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode already in-use by another pod.",
    ),
    (
        "node a cpu=1 | node b | node c | new cpu=2 want=name:In:a",
        "0/3 nodes are available: 1 Insufficient cpu, 2 node(s) didn't satisfy plugin(s) [NodeAffinity].",
    ),
    (
        "node a | node b | new want=name:In:z",
        "0/2 nodes are available: 2 node(s) didn't satisfy plugin(s) [NodeAffinity].",
    ),
    ("node a | node b | new want=name:In:a&name:In:b", "0/2 nodes are available: pod affinity terms conflict."),
];

#[test]
fn filters_report_their_reasons() {
    for (text, expected) in FILTERS.iter().copied() {
        assert_eq!(message_parts(text).0, expected, "{text}");
    }
}

const PREEMPTION: &[(&str, &str)] = &[
    ("node a cpu=1 | new cpu=2", "0/1 nodes are available: 1 Preemption is not helpful for scheduling."),
    (
        "node a cpu=2 | pod x on=a cpu=1 | new cpu=2",
        "0/1 nodes are available: 1 No preemption victims found for incoming pod.",
    ),
    (
        "node a cpu=2 | node b cordoned | pod x on=a cpu=1 | new cpu=2",
        "0/2 nodes are available: 1 No preemption victims found for incoming pod, 1 Preemption is not helpful for scheduling.",
    ),
    (
        "node a cpu=2 | pod x on=a cpu=1 prio=1 | pod y on=a cpu=1 prio=9 | new cpu=2 prio=5",
        "0/1 nodes are available: 1 Insufficient cpu.",
    ),
    ("node a cpu=2 | pod x on=a cpu=1 | new cpu=2 prio=5 policy=Never", "not eligible due to preemptionPolicy=Never."),
    ("node a | new vol=c prio=5", "not found"),
];

#[test]
fn preemption_reports_why_it_does_not_help() {
    for (text, expected) in PREEMPTION.iter().copied() {
        let device_prefix = "no new claims to deallocate, preemption: ";
        let suffix = message_parts(text).1.unwrap();
        assert_eq!(suffix.strip_prefix(device_prefix).unwrap_or(&suffix), expected, "{text}");
    }
}

#[test]
fn a_note_is_not_longer_than_an_event_allows() {
    assert_eq!(truncate_note("short"), "short");
    let long = "ü".repeat(1000);
    let note = truncate_note(&long);
    assert!(note.len() <= 1024 && note.ends_with(" ..."), "{}", note.len());
}
