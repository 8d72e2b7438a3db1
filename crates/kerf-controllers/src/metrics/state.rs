//! Gauges that mirror objects: nodes, pools, pods, conditions (spec 07 §6.2 and §6.6, spec 04 §13). They are made from the index when somebody
//! asks, so a series exists exactly as long as what it shows, and a cluster of 100,000 pods costs nothing between two questions.

use std::fmt::Write as _;
use std::sync::Arc;

use jiff::Timestamp;
use kerf_api::conditions::Condition;
use kerf_api::labels;
use kerf_api::nodepool::NodePool;
use kerf_api::quantity::Quantity;
use kerf_api::slim::{Labels, Node, Pod, PodPhase, Str};
use kerf_state::{Claim, Tracked as _};

use super::pods::{GAUGES, PodTimes, Times};
use super::registry::escaped;
use super::usage::{self, Sums, Usage};
use crate::context::SharedCluster;

/// What is shown, taken out of the index so that nobody waits while the text is made.
struct Snapshot {
    nodes: Vec<Arc<Node>>,
    pods: Vec<Arc<Pod>>,
    pools: Vec<Arc<NodePool>>,
    claims: Vec<Arc<Claim>>,
    /// What all nodes together give to pods.
    allocatable: Sums,
    pod_times: Vec<(Str, Times)>,
}

/// The text of all these gauges. `well_known` are the provider's label keys, `classes` the keys of its node class labels.
pub(crate) fn text(
    cluster: &SharedCluster,
    pod_times: &PodTimes,
    well_known: &[&str],
    classes: &[String],
    now: Timestamp,
) -> String {
    let snapshot = {
        let cluster = cluster.lock();
        let mut allocatable = Sums::new();
        for node in cluster.state_nodes().filter(|node| node.node.is_some()) {
            usage::add(&mut allocatable, &node.allocatable());
        }
        Snapshot {
            nodes: cluster.all::<Node>().values().cloned().collect(),
            pods: cluster.all::<Pod>().values().cloned().collect(),
            pools: cluster.all::<NodePool>().values().cloned().collect(),
            claims: cluster.all::<Claim>().values().cloned().collect(),
            allocatable,
            pod_times: pod_times.all(),
        }
    };
    let mut out = Exposition { text: String::new() };
    out.nodes(&snapshot, well_known, now);
    out.pods(&snapshot);
    out.pods_on_their_way(&snapshot.pod_times, now);
    out.pools(&snapshot.pools);
    out.conditions(&snapshot, classes, now);
    out.text
}

struct Exposition {
    text: String,
}

/// Pairs of a series.
type Pairs<'a> = Vec<(&'a str, String)>;

impl Exposition {
    /// A family of gauges, if it has any.
    fn family<'a>(&mut self, name: &str, help: &str, series: impl Iterator<Item = (Pairs<'a>, f64)>) {
        let mut is_first = true;
        for (pairs, value) in series {
            // Writing to a String cannot fail.
            if std::mem::take(&mut is_first) {
                let _ = writeln!(self.text, "# HELP {name} {help}\n# TYPE {name} gauge");
            }
            let pairs: Vec<String> =
                pairs.iter().map(|(label, value)| format!("{label}=\"{}\"", escaped(value))).collect();
            let _ = writeln!(self.text, "{name}{{{}}} {value}", pairs.join(","));
        }
    }

    fn nodes(&mut self, snapshot: &Snapshot, well_known: &[&str], now: Timestamp) {
        let (nodes, in_use) = (&snapshot.nodes, usage::by_node(&snapshot.pods));
        let names: Vec<(String, &str)> = well_known
            .iter()
            .filter_map(|key| Some((key.split_once('/')?.1.to_lowercase().replace('-', "_"), *key)))
            .collect();
        let labelled = |node: &Node| -> Pairs<'_> {
            let own = &node.metadata.labels;
            let mut pairs: Pairs<'_> = vec![
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
            let all: Vec<(Pairs<'_>, f64)> = nodes
                .iter()
                .flat_map(|node| {
                    amounts(node).into_iter().map(|(resource, amount)| {
                        let mut pairs = labelled(node);
                        pairs.push(("resource_type", resource_type(&resource)));
                        (pairs, measured(&resource, amount))
                    })
                })
                .collect();
            all.into_iter()
        };
        self.family(
            "karpenter_nodes_allocatable",
            "Node allocatable are the resources allocatable by nodes.",
            by_resource(&|node| node.status.allocatable.iter().map(|(name, amount)| (name.clone(), amount)).collect()),
        );
        self.family(
            "karpenter_nodes_system_overhead",
            "Node system daemon overhead are the resources reserved for system overhead.",
            by_resource(&overhead),
        );
        let none = Usage::default();
        for (name, help, sums) in usage::GAUGES {
            let on = |node: &Node| {
                let sums = sums(in_use.get(&node.metadata.name).unwrap_or(&none));
                sums.iter().map(|(resource, amount)| (resource.clone(), *amount)).collect()
            };
            self.family(name, help, by_resource(&on));
        }
        let mut requested = Sums::new();
        for node in nodes.iter().filter_map(|node| in_use.get(&node.metadata.name)) {
            usage::merge(&mut requested, &node.requests);
        }
        self.family(
            "karpenter_cluster_utilization_percent",
            "Utilization of allocatable resources by pod requests.",
            snapshot.allocatable.iter().filter(|(_, all)| !all.is_zero()).map(|(resource, all)| {
                let asked = requested.get(resource).copied().unwrap_or_default();
                (
                    vec![("resource_type", resource_type(resource))],
                    100.0 * measured(resource, asked) / measured(resource, *all),
                )
            }),
        );
        self.family(
            "karpenter_nodes_current_lifetime_seconds",
            "Node age in seconds.",
            nodes.iter().filter_map(|node| {
                let age = now.duration_since(node.metadata.creation_timestamp?).as_secs_f64();
                Some((labelled(node), age))
            }),
        );
    }

    fn pods(&mut self, snapshot: &Snapshot) {
        let none = Labels::default();
        let node_labels = |pod: &Pod| {
            let name = pod.spec.node_name.as_ref()?;
            let place = snapshot.nodes.binary_search_by(|node| node.metadata.name.cmp(name)).ok()?;
            Some(&snapshot.nodes[place].metadata.labels)
        };
        self.family(
            "karpenter_pods_state",
            "Pod state is the current state of pods.",
            snapshot.pods.iter().map(|pod| {
                let on = node_labels(pod).unwrap_or(&none);
                let label = |key: &str| on.get(key).unwrap_or_default().to_owned();
                let is_ready = pod.condition("Ready").is_some_and(|condition| condition.status == "True");
                let pairs: Pairs<'_> = vec![
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
                    ("managed", is_managed(on).to_string()),
                ];
                (pairs, 1.0)
            }),
        );
    }

    fn pods_on_their_way(&mut self, pods: &[(Str, Times)], now: Timestamp) {
        for (name, help, value) in GAUGES {
            let series = pods.iter().filter_map(|(key, times)| {
                let (namespace, pod) = key.split_once('/').unwrap_or(("", key));
                Some((vec![("name", pod.to_owned()), ("namespace", namespace.to_owned())], value(times, now)?))
            });
            self.family(name, help, series);
        }
    }

    fn pools(&mut self, pools: &[Arc<NodePool>]) {
        let by_resource = |amounts: fn(&NodePool) -> Vec<(&String, String)>| {
            let all: Vec<(Pairs<'_>, f64)> = pools
                .iter()
                .flat_map(|pool| {
                    amounts(pool).into_iter().filter_map(|(resource, text)| {
                        let amount = text.parse::<Quantity>().ok()?;
                        let pairs =
                            vec![("resource_type", resource_type(resource)), ("nodepool", pool.key().to_string())];
                        Some((pairs, measured(resource, amount)))
                    })
                })
                .collect();
            all.into_iter()
        };
        self.family(
            "karpenter_nodepools_limit",
            "The limits specified on the nodepool.",
            by_resource(|pool| {
                pool.spec.limits.iter().flatten().map(|(name, amount)| (name, amount.to_string())).collect()
            }),
        );
        self.family(
            "karpenter_nodepools_usage",
            "The amount of resources that have been provisioned for a nodepool.",
            by_resource(|pool| {
                let resources = pool.status.as_ref().and_then(|status| status.resources.as_ref());
                resources.into_iter().flatten().map(|(name, amount)| (name, amount.to_string())).collect()
            }),
        );
    }

    fn conditions(&mut self, snapshot: &Snapshot, classes: &[String], now: Timestamp) {
        let claim_extra = |claim: &Claim| {
            let keys = classes.iter().map(String::as_str).chain([labels::NODEPOOL]);
            keys.map(|key| (label_name(key), claim.seen.labels.get(key).unwrap_or_default().to_owned())).collect()
        };
        let pools: Vec<Shown> = snapshot
            .pools
            .iter()
            .map(|pool| Shown {
                name: pool.key(),
                deleted: pool.metadata.deletion_timestamp.as_ref().map(|time| time.0),
                conditions: pool.status.as_ref().map(|status| status.conditions.clone()).unwrap_or_default(),
                extra: Vec::new(),
            })
            .collect();
        self.of_kind("nodepool", &pools, now);
        let claims: Vec<Shown> = snapshot
            .claims
            .iter()
            .map(|claim| Shown {
                name: claim.name().clone(),
                deleted: claim.object.metadata.deletion_timestamp.as_ref().map(|time| time.0),
                conditions: claim.object.status.as_ref().map(|status| status.conditions.clone()).unwrap_or_default(),
                extra: claim_extra(claim),
            })
            .collect();
        self.of_kind("nodeclaim", &claims, now);
    }

    fn of_kind(&mut self, kind: &str, objects: &[Shown], now: Timestamp) {
        let series = |value: fn(&Condition, Timestamp) -> f64| {
            objects.iter().flat_map(move |object| {
                object.conditions.iter().map(move |condition| {
                    let mut pairs: Pairs<'_> = vec![
                        ("namespace", String::new()),
                        ("name", object.name.to_string()),
                        ("type", condition.condition_type.clone()),
                        ("status", condition.status.to_string()),
                        ("reason", condition.reason.clone()),
                    ];
                    pairs.extend(object.extra.iter().map(|(name, value)| (name.as_str(), value.clone())));
                    (pairs, value(condition, now))
                })
            })
        };
        let name = |tail: &str| format!("operator_{kind}_{tail}");
        self.family(
            &name("status_condition_count"),
            "The number of a condition for a kind, type and status.",
            series(|_, _| 1.0),
        );
        self.family(
            &name("status_condition_current_status_seconds"),
            "The current amount of time in seconds that a status condition has been in a specific state.",
            series(|condition, now| now.duration_since(condition.last_transition_time.0).as_secs_f64()),
        );
        self.family(
            &name("termination_current_time_seconds"),
            "The current amount of time in seconds that an object has been in terminating state.",
            objects.iter().filter_map(|object| {
                let mut pairs: Pairs<'_> = vec![("namespace", String::new()), ("name", object.name.to_string())];
                pairs.extend(object.extra.iter().map(|(name, value)| (name.as_str(), value.clone())));
                Some((pairs, now.duration_since(object.deleted?).as_secs_f64()))
            }),
        );
    }
}

/// An object whose conditions are shown.
struct Shown {
    name: Str,
    deleted: Option<Timestamp>,
    conditions: Vec<Condition>,
    extra: Vec<(String, String)>,
}

/// What a node has and does not give to pods.
fn overhead(node: &Node) -> Vec<(Str, Quantity)> {
    let given = &node.status.allocatable;
    let left = |(name, all): (&Str, Quantity)| (name.clone(), all - given.get(name).unwrap_or(Quantity::ZERO));
    node.status.capacity.iter().map(left).collect()
}

fn is_managed(labels: &Labels) -> bool {
    labels.get(labels::NODEPOOL).is_some_and(|pool| !pool.is_empty())
}

/// `ephemeral-storage` becomes `ephemeral_storage`.
fn resource_type(name: &str) -> String {
    name.to_lowercase().replace('-', "_")
}

/// `karpenter.sh/nodepool` becomes `karpenter_sh_nodepool`.
pub(super) fn label_name(key: &str) -> String {
    key.replace(['/', '.', '-'], "_")
}

/// CPU in cores, everything else in its own unit.
fn measured(resource: &str, amount: Quantity) -> f64 {
    if resource == "cpu" { amount.milli_value() as f64 / 1000.0 } else { amount.value() as f64 }
}

/// The first owner, as a path.
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
