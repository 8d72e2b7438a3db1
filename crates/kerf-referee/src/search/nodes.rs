//! The nodes on which a set of pods can be placed: existing nodes and kinds of new nodes.
//!
//! Whether a pod suits a node, type or launch is computed once and kept as a bit.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::core::v1::{NodeSelectorTerm, Pod};
use kerf_api::quantity::Quantity;

use super::DomainChoice;
use crate::catalogue::{Catalogue, InstanceType};
use crate::check::{
    DaemonPods, PlacementTarget, PossibleLaunch, Topology, cartesian_product, exceeded_volume_limits,
    min_values_shortfalls, node_mismatches, pool_usage, possible_launches, remaining_resources, unusable_volume_claim,
};
use crate::manifests::{ClusterManifests, ExistingNode, Pool};
use crate::plan::NodeRequirement;
use crate::ports;
use crate::price::Price;
use crate::resources::{Resources, pod_requests, sum_of_requests};
use crate::selectors::{Labels, node_affinity_matches, required_node_affinity_terms, term_matches};
use crate::storage::{HOSTNAME, VolumeObjects};
use crate::taints::first_untolerated_taint;

/// A set of pods, one bit for each.
pub(super) type PodSet = u32;

/// Returns the set of pods for which the given predicate is true.
type PodSetFn<'f> = dyn Fn(&dyn Fn(&Pod) -> bool) -> PodSet + 'f;

/// An existing node that is not being deleted.
pub(super) struct UsableNode<'a> {
    node: ExistingNode<'a>,
    pub(super) labels: Labels,
    /// Index among the targets of the topology.
    pub(super) target: usize,
    remaining: Resources,
    /// Pods that the node suits, regardless of other pods.
    suitable_pods: PodSet,
}

impl UsableNode<'_> {
    /// Returns the free amount of a resource, at least zero.
    pub(super) fn free_amount(&self, resource: &str) -> Quantity {
        self.remaining.get(resource).max(Quantity::ZERO)
    }
}

/// A pool with its possible launches.
struct PoolLaunches<'a> {
    pool: &'a Pool,
    launches: Vec<(PossibleLaunch<'a>, PodSet)>,
    /// For each type: its allocatable resources less the DaemonSet pods, and the pods whose host
    /// ports the DaemonSet pods leave free.
    types: BTreeMap<&'a str, (Resources, PodSet)>,
    /// Pods that tolerate the pool's taints.
    tolerating_pods: PodSet,
    /// True if the pool has `minValues`, so that its claims must list several types.
    needs_min_values: bool,
}

/// A kind of new node: a pool, and the values of topology labels that the node must have.
pub(super) struct NewNodeKind<'a> {
    pub(super) pool: usize,
    pub(super) pinned_labels: BTreeMap<&'a str, String>,
}

/// A new node for a certain set of pods.
#[derive(Debug)]
pub(super) struct NewNode {
    /// Lists of types that the claim may have, cheapest first.
    pub(super) type_choices: Vec<TypeChoice>,
    /// Labels that the node may have: one set for each combination of topology labels, that of the
    /// cheapest launch first.
    pub(super) label_variants: Vec<Labels>,
}

/// A list of types that a claim may have.
#[derive(Debug, Clone)]
pub(super) struct TypeChoice {
    pub(super) price: Price,
    /// Greatest capacity among the types, for each resource.
    pub(super) max_capacity: Resources,
}

impl NewNode {
    pub(super) fn cheapest_price(&self) -> Price {
        self.type_choices.iter().map(|choice| choice.price).min().unwrap_or(Price::MAX)
    }
}

/// All existing nodes and all kinds of new nodes.
pub(super) struct NodeOptions<'a> {
    cluster: &'a ClusterManifests,
    storage: VolumeObjects<'a>,
    pods_to_place: &'a [&'a Pod],
    requests: Vec<Resources>,
    /// For each pod, the pods with which it cannot share a host because of host ports.
    port_conflicts: Vec<PodSet>,
    pub(super) existing: Vec<UsableNode<'a>>,
    pool_launches: Vec<PoolLaunches<'a>>,
    /// Remaining limits of each pool.
    pub(super) remaining_limits: Vec<Resources>,
    /// For each topology key, the pods that force their node into one of its domains.
    domain_deciding_pods: BTreeMap<&'a str, PodSet>,
    pub(super) node_kinds: Vec<NewNodeKind<'a>>,
    topology_keys: Vec<&'a str>,
}

impl<'a> NodeOptions<'a> {
    pub(super) fn new(
        cluster: &'a ClusterManifests,
        catalogue: &'a Catalogue,
        daemons: &'a DaemonPods,
        topology: &'a Topology<'a>,
        domain_choice: DomainChoice,
    ) -> Self {
        let storage = cluster.storage();
        let pods_to_place: &'a [&'a Pod] = &topology.pods_to_place;
        let pod_set = |wanted: &dyn Fn(&Pod) -> bool| {
            let bits =
                pods_to_place.iter().enumerate().filter(|(_, pod)| wanted(pod)).map(|(pod_index, _)| 1 << pod_index);
            bits.fold(0, |pod_set: PodSet, bit: PodSet| pod_set | bit)
        };
        let required_keys: Vec<BTreeSet<&str>> =
            (0..pods_to_place.len()).map(|pod_index| topology.required_topology_keys(pod_index)).collect();
        let anti_affinity_keys: Vec<BTreeSet<&str>> = match domain_choice {
            DomainChoice::Unrestricted => vec![BTreeSet::new(); pods_to_place.len()],
            DomainChoice::OnlyWhenForced => {
                (0..pods_to_place.len()).map(|pod_index| topology.anti_affinity_keys(pod_index)).collect()
            }
        };
        let pods_with_keys = |labels: &Labels| {
            let has_key = |key: &&str| *key == HOSTNAME || labels.contains_key(*key);
            let has = |pod_index: &usize| {
                required_keys[*pod_index].iter().chain(&anti_affinity_keys[*pod_index]).all(has_key)
            };
            (0..pods_to_place.len()).filter(has).fold(0, |pod_set: PodSet, pod_index| pod_set | (1 << pod_index))
        };
        let pools: Vec<&Pool> = cluster.pools.iter().filter(|pool| pool.is_usable).collect();
        let remaining_limits: Vec<Resources> =
            pools.iter().map(|pool| pool.limits.minus(&pool_usage(cluster, pool))).collect();
        let pool_launches: Vec<PoolLaunches<'a>> = pools
            .iter()
            .zip(&remaining_limits)
            .map(|(pool, remaining_limits)| {
                // A label from which a pod excludes a value may be generated (spec 02 §12.1); a
                // planner need not do so.
                let not_in = if domain_choice == DomainChoice::Unrestricted {
                    not_in_requirements(pods_to_place)
                } else {
                    Vec::new()
                };
                let mut pool_launches =
                    launches_of_pool(cluster, catalogue, daemons, pool, remaining_limits, &not_in, &storage, &pod_set);
                for (launch, suitable_pods) in &mut pool_launches.launches {
                    *suitable_pods &= pods_with_keys(&launch.labels);
                }
                pool_launches
            })
            .collect();
        let topology_keys: Vec<&str> =
            topology.topology_keys_for(|_| true).into_iter().filter(|key| *key != HOSTNAME).collect();
        let node_kinds = pool_launches.iter().enumerate().flat_map(|(pool, pool_launches)| {
            let allow_unpinned = domain_choice == DomainChoice::OnlyWhenForced || pool_launches.needs_min_values;
            new_node_kinds(pool, &topology_keys, pool_launches, allow_unpinned)
        });
        let usable = cluster.existing_nodes().into_iter().enumerate().filter(|(_, node)| !node.is_deleting);
        let existing = usable.map(|(target, node)| UsableNode {
            remaining: remaining_resources(&node, daemons),
            suitable_pods: pod_set(&|pod| node_mismatches(pod, &node, &storage).is_empty())
                & pods_with_keys(&topology.existing_targets[target].labels),
            labels: topology.existing_targets[target].labels.clone(),
            target,
            node,
        });
        let deciding_pods = |key: &str| {
            let deciders = (0..pods_to_place.len()).filter(|pod_index| required_keys[*pod_index].contains(key));
            deciders.fold(0, |pod_set: PodSet, pod_index| pod_set | (1 << pod_index))
        };
        Self {
            cluster,
            domain_deciding_pods: topology_keys.iter().map(|key| (*key, deciding_pods(key))).collect(),
            node_kinds: node_kinds.collect(),
            existing: existing.collect(),
            requests: pods_to_place.iter().map(|pod| pod_requests(pod)).collect(),
            port_conflicts: pods_to_place
                .iter()
                .map(|pod| pod_set(&|other| !std::ptr::eq(*pod, other) && ports::conflict(pod, other).is_some()))
                .collect(),
            storage,
            pods_to_place,
            pool_launches,
            remaining_limits,
            topology_keys,
        }
    }

    fn pod_indices(&self, pods: PodSet) -> impl Iterator<Item = usize> {
        (0..self.pods_to_place.len()).filter(move |pod_index| pods & (1 << pod_index) != 0)
    }

    fn total_requests(&self, pods: PodSet) -> Resources {
        self.pod_indices(pods).fold(Resources::new(), |sum, pod_index| sum.plus(&self.requests[pod_index]))
    }

    fn has_port_conflict(&self, pods: PodSet) -> bool {
        self.pod_indices(pods).any(|pod_index| self.port_conflicts[pod_index] & pods != 0)
    }

    /// Returns true if the pods fit on the node together, apart from rules between pods.
    pub(super) fn fits_existing(&self, node: usize, pods: PodSet) -> bool {
        let usable = &self.existing[node];
        if pods & !usable.suitable_pods != 0
            || self.has_port_conflict(pods)
            || !self.total_requests(pods).fits_into(&usable.remaining)
        {
            return false;
        }
        let pods_to_add: Vec<&Pod> = self.pod_indices(pods).map(|pod_index| self.pods_to_place[pod_index]).collect();
        let port_is_used = |pod: &&Pod| usable.node.pods.iter().any(|other| ports::conflict(pod, other).is_some());
        !pods_to_add.iter().any(port_is_used)
            && exceeded_volume_limits(&usable.node, &pods_to_add, &self.storage, self.cluster).is_empty()
    }

    /// Returns the new node of this kind for these pods, or `None` if there is none.
    pub(super) fn new_node(&self, kind: usize, pods: PodSet) -> Option<NewNode> {
        let kind = &self.node_kinds[kind];
        let pool_launches = &self.pool_launches[kind.pool];
        if pods & !pool_launches.tolerating_pods != 0 || self.has_port_conflict(pods) {
            return None;
        }
        let requests = self.total_requests(pods);
        let fitting_types: BTreeSet<&str> = pool_launches
            .types
            .iter()
            .filter(|(_, (remaining, free))| pods & !free == 0 && requests.fits_into(remaining))
            .map(|(name, _)| *name)
            .collect();
        let suitable = pool_launches.launches.iter().filter(|(launch, suitable_pods)| {
            pods & !suitable_pods == 0
                && fitting_types.contains(launch.instance_type.name.as_str())
                && kind.pinned_labels.iter().all(|(key, value)| launch.labels.get(*key) == Some(value))
        });
        let suitable: Vec<&PossibleLaunch<'a>> = suitable.map(|(launch, _)| launch).collect();
        let mut type_choices: Vec<TypeChoice> = Vec::new();
        for affinity_terms in self.node_affinity_choices(pool_launches, pods) {
            let matching = suitable
                .iter()
                .filter(|launch| affinity_terms.iter().all(|term| term_matches(term, "", &launch.labels)));
            type_choices.extend(choose_types(pool_launches, &matching.copied().collect::<Vec<_>>()));
        }
        type_choices.sort_by_key(|choice| choice.price);
        if type_choices.is_empty() {
            return None;
        }
        let mut seen = Vec::new();
        let mut label_variants = Vec::new();
        for launch in suitable {
            let values: Vec<Option<&String>> = self.topology_keys.iter().map(|key| launch.labels.get(*key)).collect();
            if !seen.contains(&values) {
                seen.push(values);
                label_variants.push(launch.labels.clone());
            }
        }
        Some(NewNode { type_choices, label_variants })
    }

    /// Returns every choice of one node affinity term for each pod with several. A claim cannot
    /// require one term or another, which matters where several types must be listed.
    fn node_affinity_choices(&self, pool_launches: &PoolLaunches<'_>, pods: PodSet) -> Vec<Vec<&'a NodeSelectorTerm>> {
        let terms_of_pods =
            self.pod_indices(pods).filter_map(|pod_index| required_node_affinity_terms(self.pods_to_place[pod_index]));
        let mut alternatives: Vec<&[NodeSelectorTerm]> =
            terms_of_pods.filter(|terms| pool_launches.needs_min_values && terms.len() > 1).collect();
        alternatives.dedup();
        cartesian_product(alternatives.into_iter().map(|terms| terms.iter().collect()))
    }

    /// Returns true if a planner that decides as late as possible would open this node: the pinned
    /// keys are exactly those for which one of its pods decides the domain. Pods in `to_come` are
    /// not placed yet and may still decide it.
    pub(super) fn is_pinned_only_when_forced(&self, kind: usize, pods: PodSet, to_come: PodSet) -> bool {
        let pins = &self.node_kinds[kind].pinned_labels;
        self.domain_deciding_pods.iter().all(|(key, deciders)| {
            if pins.contains_key(key) { deciders & (pods | to_come) != 0 } else { deciders & pods == 0 }
        })
    }

    /// Returns true if the pod decides in which domain of the key its node is.
    pub(super) fn decides_domain(&self, pod_index: usize, key: &str) -> bool {
        self.domain_deciding_pods.get(key).is_some_and(|deciders| deciders & (1 << pod_index) != 0)
    }

    /// Returns the number of values of the label that such a node could have if its kind pinned no
    /// label.
    pub(super) fn unpinned_value_count(&self, kind: usize, pods: PodSet, key: &str) -> usize {
        let pool = self.node_kinds[kind].pool;
        let unpinned_kind = self.node_kinds.iter().position(|kind| kind.pool == pool && kind.pinned_labels.is_empty());
        let node = unpinned_kind.and_then(|unpinned_kind| self.new_node(unpinned_kind, pods));
        let values = node.iter().flat_map(|node| &node.label_variants).filter_map(|labels| labels.get(key));
        values.collect::<BTreeSet<_>>().len()
    }

    /// Returns true if the claim of such a node must list several types (`minValues`).
    pub(super) fn needs_min_values(&self, kind: usize) -> bool {
        self.pool_launches[self.node_kinds[kind].pool].needs_min_values
    }

    /// Returns the placement target of a new node with these labels.
    pub(super) fn new_target(&self, kind: usize, index: usize, mut labels: Labels) -> PlacementTarget {
        let pool = self.pool_launches[self.node_kinds[kind].pool].pool;
        let name = format!("new {index} ({})", pool.name);
        labels.insert(HOSTNAME.to_owned(), name.clone());
        PlacementTarget::planned_node(name, labels, pool.taints.clone())
    }

    /// Returns the domains of a key in which a node exists or could be launched.
    pub(super) fn reachable_domains(&self, key: &str) -> BTreeSet<String> {
        let existing = self.existing.iter().filter_map(|usable| usable.labels.get(key));
        let new = self
            .pool_launches
            .iter()
            .flat_map(|pool_launches| &pool_launches.launches)
            .filter_map(|(l, _)| l.labels.get(key));
        existing.chain(new).cloned().collect()
    }

    /// Returns price and amount of the launch with the lowest price per unit of the resource.
    /// Returns `None` if no launch has the resource.
    pub(super) fn best_price_rate(&self, resource: &str) -> Option<(Price, Quantity)> {
        let launches =
            self.pool_launches.iter().flat_map(|pool_launches| &pool_launches.launches).map(|(launch, _)| launch);
        let rates = launches.map(|launch| (launch.price(), launch.instance_type.allocatable.get(resource)));
        // a/b < c/d is equivalent to a*d < c*b.
        rates.filter(|(_, amount)| *amount > Quantity::ZERO).min_by(|(a, b), (c, d)| {
            let left_product = a.units().saturating_mul(d.nanos() / 1_000_000);
            left_product.cmp(&c.units().saturating_mul(b.nanos() / 1_000_000))
        })
    }
}

#[allow(clippy::too_many_arguments, reason = "all that a source of nodes depends on, once")]
fn launches_of_pool<'a>(
    cluster: &'a ClusterManifests,
    catalogue: &'a Catalogue,
    daemons: &DaemonPods,
    pool: &'a Pool,
    remaining_limits: &Resources,
    not_in: &[NodeRequirement],
    storage: &VolumeObjects<'_>,
    pod_set: &PodSetFn<'_>,
) -> PoolLaunches<'a> {
    let within_limits = |t: &InstanceType| {
        let mut capacity = t.capacity.clone();
        capacity.set("nodes", Quantity::from_units(1));
        remaining_limits.iter().all(|(name, limit)| capacity.get(name) <= limit)
    };
    let types = catalogue.values().filter(|t| within_limits(t)).map(|t| {
        let daemon_pods: Vec<&Pod> = daemons.on_new_node(pool, t).collect();
        let free = pod_set(&|pod| daemon_pods.iter().all(|daemon| ports::conflict(pod, daemon).is_none()));
        let overhead = sum_of_requests(daemon_pods.iter().copied());
        (t.name.as_str(), (t.allocatable.minus(&overhead), free))
    });
    let pool_only = possible_launches(pool, &[], catalogue.keys(), catalogue);
    let generated = not_in.iter().filter(|r| pool_only.iter().all(|launch| !launch.labels.contains_key(&r.key)));
    let generated =
        generated.flat_map(|r| possible_launches(pool, std::slice::from_ref(r), catalogue.keys(), catalogue));
    let mut launches: Vec<_> = pool_only
        .iter()
        .cloned()
        .chain(generated)
        .map(|launch| {
            let suitable_pods = pod_set(&|pod| {
                node_affinity_matches(pod, "", &launch.labels)
                    && unusable_volume_claim(pod, &launch.labels, storage).is_none()
            });
            (launch, suitable_pods)
        })
        .collect();
    launches.sort_by_key(|(launch, _)| launch.price());
    PoolLaunches {
        pool,
        launches,
        types: types.collect(),
        tolerating_pods: pod_set(&|pod| first_untolerated_taint(pod, &pool.taints).is_none()),
        needs_min_values: !cluster.min_values_best_effort && pool.requirements.iter().any(|r| r.min_values.is_some()),
    }
}

/// Returns the `NotIn` expressions of the pods' required node affinity.
fn not_in_requirements(pods: &[&Pod]) -> Vec<NodeRequirement> {
    let terms = pods.iter().flat_map(|pod| required_node_affinity_terms(pod).unwrap_or_default());
    let expressions = terms.flat_map(|term| term.match_expressions.iter().flatten());
    let mut requirements: Vec<NodeRequirement> = expressions
        .filter(|expression| expression.operator == "NotIn")
        .map(|expression| NodeRequirement {
            key: expression.key.clone(),
            operator: expression.operator.clone(),
            values: expression.values.clone().unwrap_or_default(),
            min_values: None,
        })
        .collect();
    requirements.sort_by(|a, b| (&a.key, &a.values).cmp(&(&b.key, &b.values)));
    requirements.dedup();
    requirements
}

/// Returns the lists of types that a claim may have, cheapest first: single types, or with
/// `minValues` all types up to some size.
fn choose_types(pool_launches: &PoolLaunches<'_>, suitable: &[&PossibleLaunch<'_>]) -> Vec<TypeChoice> {
    let mut types: BTreeMap<&str, (&InstanceType, Price)> = BTreeMap::new();
    for launch in suitable {
        types.entry(&launch.instance_type.name).or_insert((launch.instance_type, launch.price()));
    }
    let choice = |list: &[&(&InstanceType, Price)]| {
        let mut max_capacity = list.iter().fold(Resources::new(), |most, (t, _)| most.max(&t.capacity));
        max_capacity.set("nodes", Quantity::from_units(1));
        TypeChoice { price: list.iter().map(|(_, price)| *price).min().unwrap_or(Price::MAX), max_capacity }
    };
    let mut choices: Vec<TypeChoice> = if pool_launches.needs_min_values {
        let size = |t: &InstanceType| t.capacity.get("cpu");
        let lists = types.values().map(|(most, _)| {
            types.values().filter(|(t, _)| size(t) <= size(most)).collect::<Vec<&(&InstanceType, Price)>>()
        });
        let has_min_values = |list: &Vec<&(&InstanceType, Price)>| {
            let listed: Vec<&InstanceType> = list.iter().map(|(t, _)| *t).collect();
            min_values_shortfalls(pool_launches.pool, listed).is_empty()
        };
        lists.filter(has_min_values).map(|list| choice(&list)).collect()
    } else {
        types.values().map(|one| choice(&[one])).collect()
    };
    choices.sort_by_key(|choice| choice.price);
    choices
}

/// Returns every choice of one value for each key that has values. With `open`, a key may also have
/// no value.
fn new_node_kinds<'a>(
    pool: usize,
    keys: &[&'a str],
    pool_launches: &PoolLaunches<'_>,
    allow_unpinned: bool,
) -> Vec<NewNodeKind<'a>> {
    let mut all_pins: Vec<BTreeMap<&'a str, String>> = vec![BTreeMap::new()];
    for key in keys {
        let values: BTreeSet<&String> =
            pool_launches.launches.iter().filter_map(|(launch, _)| launch.labels.get(*key)).collect();
        let with_pin = |pins: &BTreeMap<&'a str, String>, value: &String| {
            let mut pins = pins.clone();
            pins.insert(*key, value.clone());
            pins
        };
        let pinned: Vec<_> =
            all_pins.iter().flat_map(|pins| values.iter().map(|value| with_pin(pins, value))).collect();
        if allow_unpinned || values.is_empty() {
            all_pins.extend(pinned);
        } else {
            all_pins = pinned;
        }
    }
    // Pinned kinds come first, because they lead to a good placement early.
    all_pins.sort_by_key(|pins| std::cmp::Reverse(pins.len()));
    all_pins.into_iter().map(|pins| NewNodeKind { pool, pinned_labels: pins }).collect()
}
