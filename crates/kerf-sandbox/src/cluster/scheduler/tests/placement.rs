//! Feasible nodes: a row for each rule of each filter, with the exact set of nodes. The referee,
//! which implements the same rules independently, checks each row, too.

use super::fixture::ClusterFixture;
use super::referee;
use crate::cluster::scheduler::filter::{PodFilter, PreFilterResult};
use crate::cluster::scheduler::view::View;

/// Name of the case, the cluster, and the feasible nodes of `new` (`-` for none).
pub(super) type PlacementCase = (&'static str, &'static str, &'static str);

/// Returns the clusters of all tables.
pub(super) fn cluster_texts() -> impl Iterator<Item = &'static str> {
    let tables = [RESOURCES, TAINTS, NODE_AFFINITY, PORTS, SPREAD, POD_AFFINITY, VOLUMES, UNKNOWN_TO_REFEREE];
    tables.into_iter().flatten().map(|(_, text, _)| *text)
}

/// Returns the names of the feasible nodes of the pod `new`.
pub(super) fn feasible(view: &View) -> Vec<String> {
    let info = view.pod("default/new").unwrap();
    let pod = info.unscheduled_pod.clone().unwrap();
    let filter = PodFilter::new(view, &pod, info);
    let named = match filter.pre_filter() {
        PreFilterResult::None(_) => return Vec::new(),
        PreFilterResult::Named(names) => Some(names),
        PreFilterResult::AllNodes => None,
    };
    let candidates =
        view.existing_nodes().filter(|node| named.as_ref().is_none_or(|names| names.contains(&view.node(*node).name)));
    let mut nodes: Vec<String> =
        candidates.filter(|node| filter.check(*node).is_ok()).map(|node| view.node(node).name.to_string()).collect();
    nodes.sort();
    nodes
}

fn check(rows: &[PlacementCase]) {
    for (name, text, expected) in rows {
        let cluster = ClusterFixture::parse(text);
        let nodes = feasible(&cluster.view());
        let mut expected_nodes: Vec<&str> = expected.split_whitespace().filter(|node| *node != "-").collect();
        expected_nodes.sort_unstable();
        assert_eq!(nodes, expected_nodes, "{name}: {text}");
        if let Some(referee_nodes) = referee::feasible(&cluster) {
            assert_eq!(referee_nodes, expected_nodes, "the referee sees it otherwise: {name}: {text}");
        }
    }
}

const RESOURCES: &[PlacementCase] = &[
    ("free capacity is allocatable minus requests", "node a cpu=1 | node b cpu=4 | new cpu=2", "b"),
    ("exactly what is left fits", "node a cpu=2 | pod x on=a cpu=1 | new cpu=1", "a"),
    ("a milli more does not", "node a cpu=2 | pod x on=a cpu=1 | new cpu=1001m", "-"),
    ("memory counts too", "node a mem=1Gi | node b mem=2Gi | new mem=1536Mi", "b"),
    (
        "ephemeral storage counts if asked for",
        "node a | node b ephemeral-storage=10Gi | new ephemeral-storage=1Gi",
        "b",
    ),
    ("an extended resource that no node names", "node a | new ask:example.com/gpu=1", "-"),
    (
        "an extended resource",
        "node a | node b has:example.com/gpu=2 | pod x on=b ask:example.com/gpu=1 | new ask:example.com/gpu=1",
        "b",
    ),
    (
        "an extended resource that is used up",
        "node b has:example.com/gpu=1 | pod x on=b ask:example.com/gpu=1 | new ask:example.com/gpu=1",
        "-",
    ),
    (
        "what is not asked for does not matter",
        "node a cpu=1 has:example.com/gpu=1 | pod x on=a ask:example.com/gpu=2 | new cpu=1",
        "a",
    ),
    ("a pod that asks for nothing needs a place", "node a cpu=0 mem=0 pods=1 | new", "a"),
    ("the number of pods is a limit", "node a pods=1 | node b pods=2 | pod x on=a | pod y on=b | new", "b"),
    ("a node that states no pods takes none", "node a pods=0 | new", "-"),
    ("overdrawn in what is not asked for", "node a mem=1Gi | pod x on=a mem=2Gi | new cpu=1", "a"),
    ("overdrawn in what is asked for", "node a mem=1Gi | pod x on=a mem=2Gi | new mem=1", "-"),
    ("finished pods take nothing", "node a cpu=1 | pod x on=a cpu=1 done | new cpu=1", "a"),
    ("terminating pods still do", "node a cpu=1 | pod x on=a cpu=1 deleting | new cpu=1", "-"),
    ("an init container counts if it is larger", "node a cpu=1 | node b cpu=3 | new cpu=1 init=2", "b"),
    ("overhead is added", "node a cpu=1 | node b cpu=2 | new cpu=1 overhead=500m", "b"),
    ("a request of zero is no request", "node a cpu=0 | new cpu=0", "a"),
    ("pods of other schedulers count", "node a cpu=1 | pod x on=a cpu=1 ns=other | new cpu=1", "-"),
    ("huge pages are a resource", "node a | node b has:hugepages-2Mi=4Mi | new cpu=1 ask:hugepages-2Mi=2Mi", "b"),
];

#[test]
fn node_resources_fit() {
    check(RESOURCES);
}

const TAINTS: &[PlacementCase] = &[
    ("NoSchedule keeps away", "node a taint=k=v:NoSchedule | node b | new", "b"),
    ("NoExecute keeps away", "node a taint=k=v:NoExecute | node b | new", "b"),
    ("PreferNoSchedule does not", "node a taint=k=v:PreferNoSchedule | node b | new", "a b"),
    ("equal key and value", "node a taint=k=v:NoSchedule | new tolerate=k=v", "a"),
    ("another value", "node a taint=k=v:NoSchedule | new tolerate=k=w", "-"),
    ("the key alone", "node a taint=k=v:NoSchedule | new tolerate=k", "a"),
    ("another key", "node a taint=k=v:NoSchedule | new tolerate=j", "-"),
    ("everything", "node a taint=k=v:NoSchedule taint=j:NoExecute | new tolerate=*", "a"),
    ("the effect must agree", "node a taint=k=v:NoExecute | new tolerate=k=v:NoSchedule", "-"),
    ("the effect agrees", "node a taint=k=v:NoSchedule | new tolerate=k=v:NoSchedule", "a"),
    ("no effect is every effect", "node a taint=k=v:NoExecute | new tolerate=k", "a"),
    ("all taints must be tolerated", "node a taint=k:NoSchedule taint=j:NoSchedule | new tolerate=k", "-"),
    ("by several tolerations", "node a taint=k:NoSchedule taint=j:NoSchedule | new tolerate=k tolerate=j", "a"),
    (
        "everything with one effect",
        "node a taint=k:NoSchedule | node b taint=k:NoExecute | new tolerate=*:NoSchedule",
        "a",
    ),
    ("a cordoned node", "node a cordoned | node b | new", "b"),
    ("a cordoned node, tolerated", "node a cordoned | new tolerate=node.kubernetes.io/unschedulable", "a"),
    ("a cordoned node for a pod that tolerates all taints", "node a cordoned | new tolerate=*", "a"),
    ("a cordon is NoSchedule", "node a cordoned | new tolerate=node.kubernetes.io/unschedulable:NoExecute", "-"),
];

#[test]
fn taints_and_cordons() {
    check(TAINTS);
}

const NODE_AFFINITY: &[PlacementCase] = &[
    ("a label", "node a label:disk=ssd | node b | new select:disk=ssd", "a"),
    (
        "all labels",
        "node a label:disk=ssd | node b label:disk=ssd label:cpu=new | new select:disk=ssd select:cpu=new",
        "b",
    ),
    ("In", "node a zone=x | node b zone=y | node c zone=z | new want=zone:In:x,y", "a b"),
    (
        "NotIn also matches where the label is missing",
        "node a zone=x | node b zone=y | node c | new want=zone:NotIn:x",
        "b c",
    ),
    ("Exists", "node a label:gpu=1 | node b | new want=gpu:Exists", "a"),
    ("DoesNotExist", "node a label:gpu=1 | node b | new want=gpu:DoesNotExist", "b"),
    ("Gt", "node a label:gen=3 | node b label:gen=5 | node c label:gen=x | new want=gen:Gt:4", "b"),
    ("Gt is strict", "node a label:gen=4 | new want=gen:Gt:4", "-"),
    ("Lt", "node a label:gen=3 | node b label:gen=5 | node c | new want=gen:Lt:4", "a"),
    ("all expressions of a term", "node a zone=x label:gpu=1 | node b zone=x | new want=zone:In:x&gpu:Exists", "a"),
    ("any of the terms", "node a zone=x | node b label:gpu=1 | node c | new want=zone:In:x want=gpu:Exists", "a b"),
    ("selector and affinity", "node a zone=x label:disk=ssd | node b zone=x | new select:disk=ssd want=zone:In:x", "a"),
    ("by name", "node a | node b | new want=name:In:b", "b"),
    ("by names of several terms", "node a | node b | node c | new want=name:In:b want=name:In:c", "b c"),
    ("by a name that does not exist", "node a | new want=name:In:z", "-"),
    ("names that contradict each other", "node a | node b | new want=name:In:a&name:In:b", "-"),
    ("by name and label", "node a zone=x | node b zone=y | new want=name:In:b&zone:In:y", "b"),
    ("by name, but not by label", "node a zone=x | node b zone=y | new want=name:In:a&zone:In:y", "-"),
    ("not by name", "node a | node b | new want=name:NotIn:a", "b"),
    ("a term that says nothing matches no node", "node a | new want=", "-"),
    ("an empty value is a value", "node a label:x= | node b | new select:x=", "a"),
    ("preferences are not required", "node a zone=x | node b | new prefer=100*zone:In:x", "a b"),
];

#[test]
fn node_affinity_and_selector() {
    check(NODE_AFFINITY);
}

const PORTS: &[PlacementCase] = &[
    ("the same port", "node a | node b | pod x on=a port=80 | new port=80", "b"),
    ("another port", "node a | pod x on=a port=80 | new port=81", "a"),
    ("another protocol", "node a | pod x on=a port=80/UDP | new port=80", "a"),
    ("another address", "node a | pod x on=a port=80@10.0.0.1 | new port=80@10.0.0.2", "a"),
    ("the same address", "node a | pod x on=a port=80@10.0.0.1 | new port=80@10.0.0.1", "-"),
    ("all addresses take each", "node a | pod x on=a port=80 | new port=80@10.0.0.1", "-"),
    ("each takes all", "node a | pod x on=a port=80@10.0.0.1 | new port=80", "-"),
    ("finished pods have none", "node a | pod x on=a port=80 done | new port=80", "a"),
    ("one of several", "node a | pod x on=a port=80 port=443 | new port=8443 port=443", "-"),
    ("in another namespace too", "node a | pod x on=a ns=other port=80 | new port=80", "-"),
];

#[test]
fn host_ports() {
    check(PORTS);
}

#[test]
fn host_ports_of_sidecars_count() {
    let cluster = ClusterFixture::parse("node a | node b | pod x on=a sidecar=80 | new port=80");
    assert_eq!(feasible(&cluster.view()), ["b"], "the referee leaves these out");
}

const SPREAD: &[PlacementCase] = &[
    ("the emptier zone", "node a zone=x | node b zone=y | pod p on=a app=w | new app=w spread=1*app:w@zone", "b"),
    ("within the skew", "node a zone=x | node b zone=y | pod p on=a app=w | new app=w spread=2*app:w@zone", "a b"),
    ("all alike", "node a zone=x | node b zone=y | new app=w spread=1*app:w@zone", "a b"),
    ("by host", "node a | node b | node c | pod p on=a app=w | pod q on=b app=w | new app=w spread=1*app:w@host", "c"),
    ("a node without the label takes none", "node a zone=x | node b | new app=w spread=1*app:w@zone", "a"),
    (
        "only selected pods count",
        "node a zone=x | node b zone=y | pod p on=a app=v | new app=w spread=1*app:w@zone",
        "a b",
    ),
    (
        "a pod that it does not select only must not be worse",
        "node a zone=x | node b zone=y | pod p on=a app=w | pod q on=a app=w | new app=v spread=1*app:w@zone",
        "b",
    ),
    (
        "one more than the emptiest, not selected itself",
        "node a zone=x | node b zone=y | pod p on=a app=w | new app=v spread=1*app:w@zone",
        "a b",
    ),
    (
        "other namespaces do not count",
        "node a zone=x | node b zone=y | pod p on=a ns=other app=w | new app=w spread=1*app:w@zone",
        "a b",
    ),
    (
        "terminating pods do not count",
        "node a zone=x | node b zone=y | pod p on=a app=w deleting | new app=w spread=1*app:w@zone",
        "a b",
    ),
    (
        "finished pods do not count",
        "node a zone=x | node b zone=y | pod p on=a app=w done | new app=w spread=1*app:w@zone",
        "a b",
    ),
    (
        "nodes that node affinity excludes are no domains",
        "node a zone=x label:g=1 | node b zone=y | pod p on=a app=w | new app=w select:g=1 spread=1*app:w@zone",
        "a",
    ),
    (
        "unless the policy ignores node affinity",
        "node a zone=x label:g=1 | node b zone=y | pod p on=a app=w | new app=w select:g=1 spread=1*app:w@zone!affinity=Ignore",
        "-",
    ),
    (
        "tainted nodes are domains",
        "node a zone=x | node b zone=y taint=k:NoSchedule | pod p on=a app=w | new app=w spread=1*app:w@zone",
        "-",
    ),
    (
        "unless the policy honours taints",
        "node a zone=x | node b zone=y taint=k:NoSchedule | pod p on=a app=w | new app=w spread=1*app:w@zone!taints=Honor",
        "a",
    ),
    (
        "too few domains: the emptiest counts as empty",
        "node a zone=x | node b zone=y | pod p on=a app=w | pod q on=b app=w | new app=w spread=1*app:w@zone!min=3",
        "-",
    ),
    (
        "enough domains",
        "node a zone=x | node b zone=y | pod p on=a app=w | pod q on=b app=w | new app=w spread=1*app:w@zone!min=2",
        "a b",
    ),
    (
        "too few domains, but within maxSkew",
        "node a zone=x | node b zone=y | pod p on=a app=w | new app=w spread=1*app:w@zone!min=5",
        "b",
    ),
    (
        "two constraints",
        "node a zone=x | node b zone=x | node c zone=y | pod p on=a app=w | pod q on=c app=w | new app=w spread=1*app:w@zone spread=1*app:w@host",
        "b",
    ),
    (
        "zone and host contradict each other",
        "node a zone=x | node b zone=y | pod p on=a app=w | pod q on=a app=w | pod r on=b tier=t | new app=w tier=t spread=1*app:w@zone spread=1*tier:t@host",
        "-",
    ),
    (
        "a node that lacks one key is counted for none",
        "node a zone=x | node b zone=y nohost | pod p on=a app=w | new app=w spread=1*app:w@zone spread=5*app:w@host",
        "a",
    ),
    (
        "expressions select too",
        "node a zone=x | node b zone=y | pod p on=a app=w | new app=w spread=1*app:In:w,v@zone",
        "b",
    ),
    (
        "an empty selector counts no pods",
        "node a zone=x | node b zone=y | pod p on=a app=w | new app=w spread=1**@zone",
        "a b",
    ),
    (
        "a missing selector selects no pods",
        "node a zone=x | node b zone=y | pod p on=a app=w | new app=w spread=1*@zone",
        "a b",
    ),
    (
        "many pods",
        "node a zone=x | node b zone=y | node c zone=z | pod p on=a app=w | pod q on=a app=w | pod r on=b app=w | pod s on=c app=w | new app=w spread=1*app:w@zone",
        "b c",
    ),
    (
        "preferences are not required",
        "node a zone=x | node b zone=y | pod p on=a app=w | new app=w soft-spread=1*app:w@zone",
        "a b",
    ),
    (
        "a full zone is still a domain",
        "node a zone=x cpu=4 | node b zone=y cpu=1 | pod p on=a app=w | new app=w cpu=2 spread=1*app:w@zone",
        "-",
    ),
];

#[test]
fn topology_spread() {
    check(SPREAD);
}

const POD_AFFINITY: &[PlacementCase] = &[
    ("near a pod, by host", "node a | node b | pod p on=a app=db | new near=app:db@host", "a"),
    (
        "near a pod, by zone",
        "node a zone=x | node b zone=x | node c zone=y | pod p on=a app=db | new near=app:db@zone",
        "a b",
    ),
    ("no pod that the affinity selects", "node a | new near=app:db@host", "-"),
    ("the first of its kind", "node a zone=x | node b zone=y | new app=w near=app:w@zone", "a b"),
    ("the first of its kind needs the label", "node a zone=x | node b | new app=w near=app:w@zone", "a"),
    ("the second of its kind", "node a zone=x | node b zone=y | pod p on=a app=w | new app=w near=app:w@zone", "a"),
    (
        "all terms at once",
        "node a zone=x | node b zone=x | pod p on=a app=db tier=t | new near=app:db@zone near=tier:t@host",
        "a",
    ),
    (
        "one pod must satisfy all terms",
        "node a zone=x | pod p on=a app=db | pod q on=a tier=t | new near=app:db@zone near=tier:t@zone",
        "-",
    ),
    ("only the own namespace", "node a | pod p on=a ns=other app=db | new near=app:db@host", "-"),
    (
        "a listed namespace",
        "node a | node b | pod p on=a ns=other app=db | pod q on=b app=db | new near=app:db@host/other",
        "a",
    ),
    (
        "namespaces by label",
        "ns default | ns other team=x | node a | node b | pod p on=a ns=other app=db | pod q on=b app=db | new near=app:db@host/?team:x",
        "a",
    ),
    (
        "all namespaces",
        "ns default | ns other | node a | node b | pod p on=a ns=other app=db | pod q on=b app=db | new near=app:db@host/?*",
        "a b",
    ),
    ("finished pods do not count", "node a | pod p on=a app=db done | new near=app:db@host", "-"),
    ("terminating pods count", "node a | pod p on=a app=db deleting | new near=app:db@host", "a"),
    ("away from a pod, by host", "node a | node b | pod p on=a app=w | new away=app:w@host", "b"),
    (
        "away from a pod, by zone",
        "node a zone=x | node b zone=x | node c zone=y | pod p on=a app=w | new away=app:w@zone",
        "c",
    ),
    ("a node without the key is away", "node a zone=x | node b | pod p on=a app=w | new away=app:w@zone", "b"),
    (
        "any of the terms",
        "node a | node b | node c | pod p on=a app=w | pod q on=b app=v | new away=app:w@host away=app:v@host",
        "c",
    ),
    ("away from its own kind, alone", "node a | new app=w away=app:w@host", "a"),
    ("a bound pod has anti-affinity to the new pod", "node a | node b | pod p on=a away=app:w@host | new app=w", "b"),
    ("from others than this", "node a | pod p on=a away=app:v@host | new app=w", "a"),
    ("by zone", "node a zone=x | node b zone=x | node c zone=y | pod p on=a away=app:w@zone | new app=w", "c"),
    ("in their own namespace only", "node a | pod p on=a ns=other away=app:w@host | new app=w", "a"),
    (
        "in the namespaces that they list",
        "node a | node b | pod p on=a ns=other away=app:w@host/default | new app=w",
        "b",
    ),
    (
        "terminating pods still want to be away",
        "node a | node b | pod p on=a deleting away=app:w@host | new app=w",
        "b",
    ),
    ("finished pods do not", "node a | pod p on=a done away=app:w@host | new app=w", "a"),
    (
        "near one and away from another",
        "node a zone=x | node b zone=x | pod p on=a app=db | pod q on=a app=w | new near=app:db@zone away=app:w@host",
        "b",
    ),
    (
        "NotIn selects those without the label",
        "node a | node b | pod p on=a tier=t | pod q on=b app=w | new away=app:NotIn:w@host",
        "b",
    ),
    (
        "preferences are not required",
        "node a | node b | pod p on=a app=w | new rather-away=100*app:w@host rather-near=1*app:v@host",
        "a b",
    ),
];

#[test]
fn pod_affinity() {
    check(POD_AFFINITY);
}

const VOLUMES: &[PlacementCase] = &[
    ("a claim that does not exist", "node a | new vol=c", "-"),
    ("a claim that is being deleted", "node a | claim c to=v deleting | pv v for=c | new vol=c", "-"),
    ("a claim that has lost its volume", "node a | claim c to=v lost | new vol=c", "-"),
    ("a claim whose volume does not exist", "node a | claim c to=v | new vol=c", "-"),
    ("a bound claim", "node a | claim c to=v | pv v for=c | new vol=c", "a"),
    (
        "a volume that some nodes reach",
        "node a zone=x | node b zone=y | claim c to=v | pv v for=c at=zone:In:y | new vol=c",
        "b",
    ),
    (
        "a volume in one of two places",
        "node a zone=x | node b zone=y | node c zone=z | claim c to=v | pv v for=c at=zone:In:x at=zone:In:z | new vol=c",
        "a c",
    ),
    ("a volume on one host", "node a | node b | claim c to=v | pv v for=c at=host:In:a | new vol=c", "a"),
    (
        "two volumes in two places",
        "node a zone=x | node b zone=y | claim c to=v | claim d to=w | pv v for=c at=zone:In:x | pv w for=d at=zone:In:y | new vol=c vol=d",
        "-",
    ),
    ("a zone label", "node a zone=x | node b zone=y | claim c to=v | pv v for=c zone=x | new vol=c", "a"),
    (
        "a zone label with several zones",
        "node a zone=x | node b zone=y | node c zone=z | claim c to=v | pv v for=c zone=x__y | new vol=c",
        "a b",
    ),
    (
        "a node that does not say where it is",
        "node a | node b zone=y | claim c to=v | pv v for=c zone=x | new vol=c",
        "a",
    ),
    (
        "an old zone label",
        "node a zone=x | node b zone=y | claim c to=v | pv v for=c failure-domain.beta.kubernetes.io/zone=y | new vol=c",
        "b",
    ),
    ("unbound, to be bound at once", "node a | class k now | claim c class=k | new vol=c", "-"),
    ("unbound, waiting for its first consumer", "node a | class k | claim c class=k | new vol=c", "a"),
    (
        "where the class can make volumes",
        "node a zone=x | node b zone=y | class k zones=y | claim c class=k | new vol=c",
        "b",
    ),
    (
        "where the class can make volumes, by label only",
        "node a | node b zone=y | class k zones=x,y | claim c class=k | new vol=c",
        "b",
    ),
    ("a class that does not exist", "node a | claim c class=k | new vol=c", "-"),
    ("no class at all", "node a | claim c | new vol=c", "-"),
    ("named but not bound yet", "node a | class k | claim c class=k prebound=v | pv v class=k | new vol=c", "-"),
    (
        "a driver's limit",
        "node a | node b | csi a disk=1 | csi b disk=2 | claim c to=v | pv v for=c | claim d to=w | pv w for=d | pod x on=a vol=d | pod y on=b vol=d | new vol=c",
        "b",
    ),
    (
        "a volume that is there already counts once",
        "node a | csi a disk=1 | claim c to=v | pv v for=c | pod x on=a vol=c | new vol=c",
        "a",
    ),
    ("another driver's limit", "node a | csi a other=0 | claim c to=v | pv v for=c | new vol=c", "a"),
    ("a volume still to be made counts", "node a | node b | csi a disk=0 | class k | claim c class=k | new vol=c", "b"),
    (
        "finished pods have no volumes",
        "node a | csi a disk=1 | claim c to=v | pv v for=c | claim d to=w | pv w for=d | pod x on=a vol=d done | new vol=c",
        "a",
    ),
    (
        "a claim made for the pod",
        "node a | claim new-data to=v owned=new | pv v for=new-data | new ephemeral=data",
        "a",
    ),
    ("a claim not yet made for the pod", "node a | new ephemeral=data", "-"),
];

#[test]
fn volumes() {
    check(VOLUMES);
}

/// Cases that the referee does not model: `ReadWriteOncePod` claims, matching of unbound volumes,
/// and ephemeral claims of other pods.
const UNKNOWN_TO_REFEREE: &[PlacementCase] = &[
    ("for one pod alone, free", "node a | claim c to=v mode=ReadWriteOncePod | pv v for=c | new vol=c", "a"),
    (
        "for one pod only, already in use",
        "node a | node b | claim c to=v mode=ReadWriteOncePod | pv v for=c | pod x on=a vol=c | new vol=c",
        "-",
    ),
    (
        "for one pod alone, its user has finished",
        "node a | claim c to=v mode=ReadWriteOncePod | pv v for=c | pod x on=a vol=c done | new vol=c",
        "a",
    ),
    (
        "for one pod alone, in another namespace",
        "node a | claim c to=v mode=ReadWriteOncePod | pv v for=c | pod x on=a ns=other vol=c | new vol=c",
        "a",
    ),
    (
        "a claim made for another pod",
        "node a | claim new-data to=v owned=other | pv v for=new-data | new ephemeral=data",
        "-",
    ),
    (
        "no provisioner, no volume",
        "node a | class k by=kubernetes.io/no-provisioner | claim c class=k | new vol=c",
        "-",
    ),
    (
        "no provisioner, a volume on a host",
        "node a | node b | class k by=kubernetes.io/no-provisioner | pv v class=k at=host:In:b | claim c class=k | new vol=c",
        "b",
    ),
    (
        "no provisioner, too small a volume",
        "node a | class k by=kubernetes.io/no-provisioner | pv v class=k size=1Gi | claim c class=k size=2Gi | new vol=c",
        "-",
    ),
    (
        "no provisioner, a volume of another class",
        "node a | class k by=kubernetes.io/no-provisioner | pv v class=j | claim c class=k | new vol=c",
        "-",
    ),
    (
        "no provisioner, a volume that is another's",
        "node a | class k by=kubernetes.io/no-provisioner | pv v class=k for=d | claim c class=k | new vol=c",
        "-",
    ),
    (
        "no provisioner, another mode of access",
        "node a | class k by=kubernetes.io/no-provisioner | pv v class=k | claim c class=k mode=ReadWriteMany | new vol=c",
        "-",
    ),
    (
        "no provisioner, one volume for two claims",
        "node a | class k by=kubernetes.io/no-provisioner | pv v class=k | claim c class=k | claim d class=k | new vol=c vol=d",
        "-",
    ),
    (
        "no provisioner, two volumes for two claims",
        "node a | class k by=kubernetes.io/no-provisioner | pv v class=k | pv w class=k | claim c class=k | claim d class=k | new vol=c vol=d",
        "a",
    ),
    ("a node was chosen before", "node a | node b | class k | claim c class=k selected=b | new vol=c", "b"),
];

#[test]
fn volume_rules_that_the_referee_does_not_model() {
    for (name, text, expected) in UNKNOWN_TO_REFEREE {
        let expected_nodes: Vec<&str> = expected.split_whitespace().filter(|node| *node != "-").collect();
        assert_eq!(feasible(&ClusterFixture::parse(text).view()), expected_nodes, "{name}: {text}");
    }
}
