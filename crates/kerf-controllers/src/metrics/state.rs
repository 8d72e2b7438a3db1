//! Gauges that mirror objects: nodes, pools, pods, conditions (spec 07 §6.2 and §6.6, spec 04 §13).
//! They are computed from cluster state when `/metrics` is requested. A series therefore exists
//! exactly as long as its object, and a cluster of 100,000 pods costs nothing between two requests.

use std::sync::Arc;

use jiff::Timestamp;
use kerf_api::labels;
use kerf_api::nodepool::NodePool;
use kerf_api::quantity::Quantity;
use kerf_api::slim::{Labels, Node, Pod, PodPhase, Str};
use kerf_cloud::NodeClassKind;
use kerf_state::{Cluster, NodeClass, Tracked as _, TrackedClaim};

use super::exposition::{Exposition, LabelPairs};
use super::pods::{POD_GAUGES, PodTimeline};
use super::usage::{self, Sums, Usage};
use super::{Metrics, conditions};
use kerf_operator::SharedCluster;

/// The objects to show, copied out of cluster state so that the lock is not held while the text is
/// written.
struct MetricsSnapshot {
    nodes: Vec<Arc<Node>>,
    pods: Vec<Arc<Pod>>,
    claims: Vec<Arc<TrackedClaim>>,
    /// The allocatable resources of all nodes together.
    allocatable: Sums,
    pod_times: Vec<(Str, PodTimeline)>,
}

/// Everything but cluster state that the gauges are computed from.
pub(crate) struct StateMetricsInput<'a> {
    /// Source of the pod timelines and the offerings.
    pub(crate) metrics: &'a Metrics,
    /// The label keys that become labels of the node gauges.
    pub(crate) well_known: &'a [&'a str],
    /// The label keys of the provider's node classes.
    pub(crate) node_class_keys: &'a [String],
    /// The kind of node class whose conditions are shown; `None` for no kind.
    pub(crate) reported_class: Option<NodeClassKind>,
    /// True if reserved capacity is enabled.
    pub(crate) has_reserved: bool,
    /// True if objects of the cluster are shown. Offerings, the node count and the conditions of
    /// node classes are always shown.
    pub(crate) has_object_gauges: bool,
    /// The current time.
    pub(crate) now: Timestamp,
}

/// Returns the text of all these gauges.
pub(crate) fn text(cluster: &SharedCluster, input: &StateMetricsInput<'_>) -> String {
    let (count, pools, node_classes, snapshot) = {
        let cluster = cluster.lock();
        let pools: Vec<Arc<NodePool>> = cluster.all::<NodePool>().values().cloned().collect();
        let snapshot = input.has_object_gauges.then(|| MetricsSnapshot::of(&cluster, input));
        (cluster.state_nodes().count(), pools, reported_classes(&cluster, input), snapshot)
    };
    let mut out = Exposition::default();
    out.write_family(
        "karpenter_cluster_state_node_count",
        "Current count of nodes in cluster state.",
        std::iter::once((Vec::new(), count as f64)),
    );
    let is_pool = |name: &str| pools.iter().any(|pool| pool.metadata.name.as_deref() == Some(name));
    input.metrics.offerings.write(&mut out, is_pool, input.has_reserved);
    let Some(snapshot) = snapshot else {
        conditions::write_condition_gauges(&mut out, &[], &[], &[], &node_classes, input.node_class_keys, input.now);
        return out.text;
    };
    out.write_nodes(&snapshot, input.well_known, input.now);
    out.write_pods(&snapshot);
    out.write_pod_timelines(&snapshot.pod_times, input.now);
    out.write_pools(&pools);
    conditions::write_condition_gauges(
        &mut out,
        &pools,
        &snapshot.claims,
        &snapshot.nodes,
        &node_classes,
        input.node_class_keys,
        input.now,
    );
    out.text
}

/// Returns the node classes whose conditions are always shown.
fn reported_classes(cluster: &Cluster, input: &StateMetricsInput<'_>) -> Vec<(NodeClassKind, Arc<NodeClass>)> {
    let Some(kind) = input.reported_class else { return Vec::new() };
    let classes = cluster.all::<NodeClass>().values().filter(|class| kind.matches(&class.reference()));
    classes.map(|class| (kind, class.clone())).collect()
}

impl MetricsSnapshot {
    fn of(cluster: &Cluster, input: &StateMetricsInput<'_>) -> Self {
        let mut allocatable = Sums::new();
        for node in cluster.state_nodes().filter(|node| node.node.is_some()) {
            usage::add(&mut allocatable, &node.allocatable());
        }
        Self {
            nodes: cluster.all::<Node>().values().cloned().collect(),
            pods: cluster.all::<Pod>().values().cloned().collect(),
            claims: cluster.all::<TrackedClaim>().values().cloned().collect(),
            allocatable,
            pod_times: input.metrics.pod_times.all(),
        }
    }
}

impl Exposition {
    fn write_nodes(&mut self, snapshot: &MetricsSnapshot, well_known: &[&str], now: Timestamp) {
        let (nodes, in_use) = (&snapshot.nodes, usage::by_node(&snapshot.pods));
        let names: Vec<(String, &str)> = well_known
            .iter()
            .filter_map(|key| Some((key.split_once('/')?.1.to_lowercase().replace('-', "_"), *key)))
            .collect();
        let labelled = |node: &Node| -> LabelPairs<'_> {
            let own = &node.metadata.labels;
            let mut pairs: LabelPairs<'_> = vec![
                ("node_name", node.metadata.name.to_string()),
                ("phase", String::new()),
                ("managed", is_managed(own).to_string()),
            ];
            for (name, key) in &names {
                if !pairs.iter().any(|(known, _)| known == name) {
                    pairs.push((name.as_str(), own.get(key).unwrap_or_default().to_owned()));
                }
            }
            pairs
        };
        let by_resource = |amounts: &dyn Fn(&Node) -> Vec<(Str, Quantity)>| {
            let all: Vec<(LabelPairs<'_>, f64)> = nodes
                .iter()
                .flat_map(|node| {
                    amounts(node).into_iter().map(|(resource, amount)| {
                        let mut pairs = labelled(node);
                        pairs.push(("resource_type", resource_type(&resource)));
                        (pairs, metric_value(&resource, amount))
                    })
                })
                .collect();
            all.into_iter()
        };
        self.write_family(
            "karpenter_nodes_allocatable",
            "Node allocatable are the resources allocatable by nodes.",
            by_resource(&|node| node.status.allocatable.iter().map(|(name, amount)| (name.clone(), amount)).collect()),
        );
        self.write_family(
            "karpenter_nodes_system_overhead",
            "Node system daemon overhead are the resources reserved for system overhead.",
            by_resource(&overhead),
        );
        let none = Usage::default();
        for (name, help, sums) in usage::USAGE_GAUGES {
            let amounts = |node: &Node| {
                let sums = sums(in_use.get(&node.metadata.name).unwrap_or(&none));
                sums.iter().map(|(resource, amount)| (resource.clone(), *amount)).collect()
            };
            self.write_family(name, help, by_resource(&amounts));
        }
        let mut requested = Sums::new();
        for node in nodes.iter().filter_map(|node| in_use.get(&node.metadata.name)) {
            usage::merge(&mut requested, &node.requests);
        }
        self.write_family(
            "karpenter_cluster_utilization_percent",
            "Utilization of allocatable resources by pod requests.",
            snapshot.allocatable.iter().filter(|(_, all)| !all.is_zero()).map(|(resource, all)| {
                let used = requested.get(resource).copied().unwrap_or_default();
                (
                    vec![("resource_type", resource_type(resource))],
                    100.0 * metric_value(resource, used) / metric_value(resource, *all),
                )
            }),
        );
        self.write_family(
            "karpenter_nodes_current_lifetime_seconds",
            "Node age in seconds.",
            nodes.iter().filter_map(|node| {
                let age = now.duration_since(node.metadata.creation_timestamp?).as_secs_f64();
                Some((labelled(node), age))
            }),
        );
    }

    fn write_pods(&mut self, snapshot: &MetricsSnapshot) {
        let none = Labels::default();
        let node_labels = |pod: &Pod| {
            let name = pod.spec.node_name.as_ref()?;
            let index = snapshot.nodes.binary_search_by(|node| node.metadata.name.cmp(name)).ok()?;
            Some(&snapshot.nodes[index].metadata.labels)
        };
        self.write_family(
            "karpenter_pods_state",
            "Pod state is the current state of pods.",
            snapshot.pods.iter().map(|pod| {
                let own = node_labels(pod).unwrap_or(&none);
                let label = |key: &str| own.get(key).unwrap_or_default().to_owned();
                let is_ready = pod.condition("Ready").is_some_and(|condition| condition.status == "True");
                let pairs: LabelPairs<'_> = vec![
                    ("name", pod.metadata.name.to_string()),
                    ("namespace", pod.metadata.namespace.to_string()),
                    ("owner", owner(pod)),
                    ("node", pod.spec.node_name.as_deref().unwrap_or_default().to_owned()),
                    ("scheduled", pod.spec.node_name.is_some().to_string()),
                    ("nodepool", label(labels::NODEPOOL)),
                    ("zone", label(labels::ZONE)),
                    ("arch", label(labels::ARCH)),
                    ("capacity_type", label(labels::CAPACITY_TYPE)),
                    ("instance_type", label(labels::INSTANCE_TYPE)),
                    ("phase", phase(pod.status.phase).to_owned()),
                    ("ready", is_ready.to_string()),
                    ("managed", is_managed(own).to_string()),
                ];
                (pairs, 1.0)
            }),
        );
    }

    fn write_pod_timelines(&mut self, pods: &[(Str, PodTimeline)], now: Timestamp) {
        for (name, help, value) in POD_GAUGES {
            let series = pods.iter().filter_map(|(key, times)| {
                let (namespace, pod) = key.split_once('/').unwrap_or(("", key));
                Some((vec![("name", pod.to_owned()), ("namespace", namespace.to_owned())], value(times, now)?))
            });
            self.write_family(name, help, series);
        }
    }

    fn write_pools(&mut self, pools: &[Arc<NodePool>]) {
        let by_resource = |amounts: fn(&NodePool) -> Vec<(&String, String)>| {
            let all: Vec<(LabelPairs<'_>, f64)> = pools
                .iter()
                .flat_map(|pool| {
                    amounts(pool).into_iter().filter_map(|(resource, text)| {
                        let amount = text.parse::<Quantity>().ok()?;
                        let pairs =
                            vec![("resource_type", resource_type(resource)), ("nodepool", pool.key().to_string())];
                        Some((pairs, metric_value(resource, amount)))
                    })
                })
                .collect();
            all.into_iter()
        };
        self.write_family(
            "karpenter_nodepools_limit",
            "The limits specified on the nodepool.",
            by_resource(|pool| {
                pool.spec.limits.iter().flatten().map(|(name, amount)| (name, amount.to_string())).collect()
            }),
        );
        self.write_family(
            "karpenter_nodepools_usage",
            "The amount of resources that have been provisioned for a nodepool.",
            by_resource(|pool| {
                let resources = pool.status.as_ref().and_then(|status| status.resources.as_ref());
                resources.into_iter().flatten().map(|(name, amount)| (name, amount.to_string())).collect()
            }),
        );
    }
}

/// Returns a node's capacity minus its allocatable resources.
fn overhead(node: &Node) -> Vec<(Str, Quantity)> {
    let allocatable = &node.status.allocatable;
    let reserved =
        |(name, all): (&Str, Quantity)| (name.clone(), all - allocatable.get(name).unwrap_or(Quantity::ZERO));
    node.status.capacity.iter().map(reserved).collect()
}

fn is_managed(labels: &Labels) -> bool {
    labels.get(labels::NODEPOOL).is_some_and(|pool| !pool.is_empty())
}

/// Converts `ephemeral-storage` to `ephemeral_storage`.
fn resource_type(name: &str) -> String {
    name.to_lowercase().replace('-', "_")
}

/// Converts a quantity to a metric value: CPU in cores, all other resources in their own unit.
pub(super) fn metric_value(resource: &str, amount: Quantity) -> f64 {
    if resource == "cpu" { amount.milli_value() as f64 / 1000.0 } else { amount.value() as f64 }
}

/// Returns the API path of the pod's first owner. Empty if it has none.
fn owner(pod: &Pod) -> String {
    pod.metadata.owner_references.first().map_or_else(String::new, |owner| {
        let kind = owner.kind.to_lowercase();
        format!("/apis/{}/namespaces/{}/{kind}s/{}", owner.api_version, pod.metadata.namespace, owner.name)
    })
}

fn phase(phase: PodPhase) -> &'static str {
    match phase {
        PodPhase::Pending => "Pending",
        PodPhase::Running => "Running",
        PodPhase::Succeeded => "Succeeded",
        PodPhase::Failed => "Failed",
        PodPhase::Unknown => "Unknown",
    }
}
