//! Scores: rows with a single best node, at least one for each plug-in and for the weights.

use super::fixture::ClusterFixture;
use crate::cluster::scheduler::score::score_nodes;
use crate::cluster::scheduler::view::{NodeIx, View};

/// Returns each node with its points, best first. All nodes of the cluster must be feasible.
pub(super) fn ranking(view: &View) -> Vec<(i64, String)> {
    let info = view.pod("default/new").unwrap();
    let pod = info.unscheduled_pod.clone().unwrap();
    let nodes: Vec<NodeIx> = view.existing_nodes().collect();
    let points = score_nodes(view, &pod, info, &nodes);
    let mut ranking: Vec<(i64, String)> =
        points.into_iter().zip(nodes).map(|(points, node)| (points, view.node(node).name.to_string())).collect();
    ranking.sort_by(|one, two| two.0.cmp(&one.0).then_with(|| one.1.cmp(&two.1)));
    ranking
}

/// Name of the case, the cluster, and the node with the most points.
const BEST: &[(&str, &str, &str)] = &[
    ("the emptier node, by CPU", "node a | node b | pod x on=a cpu=2 mem=4Gi | new cpu=1 mem=2Gi", "b"),
    (
        "the emptier node, by share and not by amount",
        "node a cpu=4 mem=8Gi | node b cpu=16 mem=32Gi | new cpu=1 mem=2Gi",
        "b",
    ),
    ("pods without requests count with small defaults", "node a | node b | pod x on=a | new", "b"),
    ("terminating pods count", "node a | node b | pod x on=a cpu=2 mem=4Gi deleting | new cpu=1 mem=2Gi", "b"),
    (
        "the better balance among equally empty ones",
        "node a cpu=10 mem=10Gi | node b cpu=10 mem=10Gi | pod x on=a cpu=4 mem=2Gi | pod y on=b cpu=2 mem=4Gi | new cpu=2 mem=1Gi",
        "b",
    ),
    ("a taint that only asks to stay away", "node a taint=k:PreferNoSchedule | node b | new", "b"),
    (
        "two of them are worse than one",
        "node a taint=k:PreferNoSchedule taint=j:PreferNoSchedule | node b taint=k:PreferNoSchedule | new",
        "b",
    ),
    (
        "a tolerated one does not count",
        "node a taint=k:PreferNoSchedule | node b taint=j:PreferNoSchedule | new tolerate=k",
        "a",
    ),
    ("a preference for a zone", "node a zone=x | node b zone=y | new prefer=1*zone:In:y", "b"),
    (
        "the preference with the greater weight",
        "node a zone=x | node b zone=y | new prefer=1*zone:In:x prefer=2*zone:In:y",
        "b",
    ),
    (
        "weights of preferences are added",
        "node a zone=x label:g=1 | node b zone=y | new prefer=3*zone:In:x prefer=3*g:Exists prefer=5*zone:In:y",
        "a",
    ),
    ("preferred affinity", "node a | node b | pod p on=b app=db | new rather-near=10*app:db@host", "b"),
    ("preferred anti-affinity", "node a | node b | pod p on=a app=db | new rather-away=10*app:db@host", "b"),
    (
        "the more there are the nearer",
        "node a zone=x cpu=64 mem=64Gi | node b zone=y cpu=64 mem=64Gi | pod p on=a app=db | pod q on=b app=db | pod r on=b app=db | new rather-near=10*app:db@zone",
        "b",
    ),
    ("preferred affinity of a bound pod", "node a | node b | pod p on=b rather-near=10*app:w@host | new app=w", "b"),
    (
        "preferred anti-affinity of a bound pod",
        "node a | node b | pod p on=a rather-away=10*app:w@host | new app=w",
        "b",
    ),
    ("required affinity of a bound pod", "node a | node b | pod p on=b near=app:w@host | new app=w", "b"),
    (
        "a preference of a pod in another namespace does not count",
        "node a | node b | pod p on=a ns=other app=db | new rather-near=10*app:db@host",
        "b",
    ),
    (
        "soft spread over zones",
        "node a zone=x | node b zone=y | pod p on=a app=w cpu=0 mem=0 | new app=w soft-spread=1*app:w@zone",
        "b",
    ),
    (
        "soft spread over hosts",
        "node a | node b | pod p on=a app=w | pod q on=b | new app=w soft-spread=1*app:w@host",
        "b",
    ),
    (
        "the pods of a service are spread",
        "service s app=w | node a | node b | pod p on=a app=w | pod q on=b | new app=w",
        "b",
    ),
    (
        "the pods of a ReplicaSet are spread",
        "rs s app=w | node a | node b | pod p on=a app=w | pod q on=b | new app=w of=s",
        "b",
    ),
    (
        "over zones too",
        "service s app=w | node a zone=x | node b zone=y | node c zone=x | pod p on=a app=w | pod q on=b | pod r on=c | new app=w",
        "b",
    ),
    ("an image that is there", "node a image=app:1@500 | node b | new image=app:1", "a"),
    ("no tag is the tag latest", "node a image=app:latest@500 | node b | new image=app", "a"),
    (
        "taints weigh more than emptiness",
        "node a taint=k:PreferNoSchedule | node b | pod x on=b cpu=3 mem=6Gi | new cpu=500m mem=1Gi",
        "b",
    ),
    (
        "a preference outweighs free capacity",
        "node a zone=x | node b zone=y | pod x on=b cpu=2 mem=4Gi | new cpu=500m mem=1Gi prefer=1*zone:In:y",
        "b",
    ),
    (
        "taints outweigh a preference for a zone",
        "node a zone=x taint=k:PreferNoSchedule | node b zone=y | new prefer=1*zone:In:x",
        "b",
    ),
];

/// Returns the clusters of the table.
pub(super) fn cluster_texts() -> impl Iterator<Item = &'static str> {
    BEST.iter().map(|(_, text, _)| *text)
}

#[test]
fn the_expected_node_has_the_most_points() {
    for (name, text, winner) in BEST.iter().copied() {
        let ranking = ranking(&ClusterFixture::parse(text).view());
        assert_eq!(ranking[0].1, winner, "{name}: {ranking:?} of {text}");
        assert!(ranking[0].0 > ranking[1].0, "{name} has no single winner: {ranking:?}");
    }
}

/// The expected sums are computed by hand from the published formulas.
#[test]
fn points_are_those_of_the_formulas() {
    for (name, text, expected) in [
        // Taints: 3 * 100. Least allocated: (4 - 1) / 4 and (8 - 2) / 8 are both 75. Balance is
        // unchanged: 75.
        ("an empty node", "node a | node b | new cpu=1 mem=2Gi", [450, 450]),
        // Least allocated with the assumed 100m and 200Mi: 97 and 97. Best effort gets no points
        // for balance.
        ("best effort", "node a | node b | new", [397, 397]),
        // The tainted node gets no points for taints.
        ("a taint", "node a taint=k:PreferNoSchedule | node b | new cpu=1 mem=2Gi", [150, 450]),
        // 2 * 100 for the preference; least allocated and balance as above.
        ("a preference", "node a zone=x | node b | new cpu=1 mem=2Gi prefer=7*zone:In:x", [650, 450]),
        // 500 MiB on one of two nodes counts as 250: 100 * (250 - 23) / (1000 - 23) = 23.
        ("an image", "node a image=app:1@500 | node b | new cpu=1 mem=2Gi", [473, 450]),
        // Preferred affinity is normalized to 100, times 2. The node with the pod has 400m less.
        (
            "a neighbour",
            "node a | node b | pod p on=a app=d cpu=400m mem=819Mi | new cpu=1 mem=2Gi rather-near=3*app:d@host",
            [640, 450],
        ),
    ] {
        let view = ClusterFixture::parse(text).view();
        let mut by_name = ranking(&view);
        by_name.sort_by(|one, two| one.1.cmp(&two.1));
        let points: Vec<i64> = by_name.into_iter().map(|(points, _)| points).collect();
        assert_eq!(points, expected, "{name}: {text}");
    }
}
