//! All facts that decide whether each node may be disrupted (spec 03 §5), collected once per pass
//! and read by all methods.
//!
//! A node is a candidate of a method if nothing here blocks it. The survey keeps all block reasons
//! and not only the first, so that a user sees everything that blocks a node at once.

use kerf_api::duration::{DoNotDisrupt, is_node_protected};
use kerf_api::nodepool::{ConsolidationPolicy, DisruptionReason};
use kerf_api::slim::{Node, Pod, Str};
use kerf_api::{annotations, labels};
use rustc_hash::FxHashMap;

use super::block_reason::BlockReason;
use super::command::InputWarning;
use super::conditions::{Consolidatable, consolidatable, drift};
use super::pods::{self, PdbIndex};
use crate::catalogue::{InstanceType, InstanceTypeRef, InstanceTypes};
use crate::cluster::{Input, NodeClaimInput, PoolAvailability, PoolInput};
use crate::explain::group_of_other_provider;
use crate::price::Price;

/// Karpenter's distinction between methods that pods can block and methods that pods can only
/// delay.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum DisruptionClass {
    /// Blocking pods stop the method.
    Graceful,
    /// Blocking pods stop the method only if the NodeClaim has no `terminationGracePeriod`.
    Eventual,
}

/// The facts about a Node, a NodeClaim, or both.
#[derive(Debug)]
pub(crate) struct NodeFacts<'i> {
    /// The Node's name if it is registered or has no claim, otherwise the claim's name.
    pub(crate) name: Str,
    pub(crate) node: Option<&'i Node>,
    pub(crate) claim: Option<&'i NodeClaimInput>,
    /// Index of the pool in the input. `None` if the pool is unknown or has no instance types.
    pub(crate) pool: Option<usize>,
    /// Pods that must run on another node when this one is removed.
    pub(crate) reschedulable: Vec<&'i Pod>,
    pub(crate) instance_type: Option<InstanceTypeRef<'i>>,
    /// Price per hour. `None` if the node's offering is not in the catalogue.
    pub(crate) price: Option<Price>,
    /// Disruption cost by reschedulable pods (spec 03 §5.4).
    pub(crate) disruption_cost: f64,
    /// Disruption cost by all pods except those of DaemonSets. Used for nodes that are not
    /// candidates (spec 03 §3.4).
    pub(crate) non_daemon_cost: f64,
    /// Drift reason of the claim. `None` if it has not drifted.
    pub(crate) drift: Option<Str>,
    /// Reasons why the node is not a candidate.
    blocks: Vec<BlockReason>,
}

/// All nodes of an input, sorted by name.
#[derive(Debug)]
pub(crate) struct Survey<'i> {
    pub(crate) input: &'i Input,
    pub(crate) nodes: Vec<NodeFacts<'i>>,
    /// Problems of the input that the plan reports.
    pub(crate) warnings: Vec<InputWarning>,
    types: Vec<FxHashMap<&'i str, InstanceTypeRef<'i>>>,
}

impl<'i> Survey<'i> {
    pub(crate) fn new(input: &'i Input) -> Self {
        let by_name = |types: &'i InstanceTypes| types.iter().map(|t| (t.instance_type().name.as_str(), t)).collect();
        let types = input.catalogues.iter().map(by_name).collect();
        let mut survey = Self { input, nodes: Vec::new(), warnings: Vec::new(), types };
        let pools: FxHashMap<&str, usize> =
            input.pools.iter().enumerate().map(|(ix, p)| (p.name.as_str(), ix)).collect();
        let mut bound: FxHashMap<&str, Vec<&Pod>> = FxHashMap::default();
        for pod in &input.pods {
            if let Some(node) = pod.spec.node_name.as_deref().filter(|n| !n.is_empty()) {
                bound.entry(node).or_default().push(pod);
            }
        }
        let mut pdbs = PdbIndex::new(&input.disruption_budgets);
        for (node, claim) in join_nodes_and_claims(input) {
            let facts = survey.node_facts(node, claim, &pools, &bound, &mut pdbs);
            survey.nodes.push(facts);
        }
        survey.nodes.sort_by(|a, b| a.name.cmp(&b.name));
        survey.collect_warnings();
        survey
    }

    /// Returns the index of the node with this name.
    pub(crate) fn find(&self, name: &str) -> Option<usize> {
        self.nodes.binary_search_by(|facts| facts.name.as_str().cmp(name)).ok()
    }

    fn node_facts(
        &self,
        node: Option<&'i Node>,
        claim: Option<&'i NodeClaimInput>,
        pools: &FxHashMap<&str, usize>,
        bound: &FxHashMap<&str, Vec<&'i Pod>>,
        pdbs: &mut PdbIndex<'i>,
    ) -> NodeFacts<'i> {
        let at = self.input.at;
        let registered = node.filter(|n| claim.is_none() || n.metadata.labels.has_value(labels::REGISTERED, "true"));
        let name = registered.map(|n| n.metadata.name.clone()).or_else(|| claim.map(|c| c.name.clone()));
        let node_labels = registered.map(|n| &n.metadata.labels).or_else(|| claim.map(|c| &c.labels));
        let label = |key: &str| node_labels.and_then(|l| l.get(key));
        let known_pool = label(labels::NODEPOOL).and_then(|name| pools.get(name)).copied();
        let pool = known_pool.filter(|ix| self.types_of(&self.input.pools[*ix]).is_some_and(|types| !types.is_empty()));
        let bound_pods: &[&'i Pod] =
            node.and_then(|n| bound.get(n.metadata.name.as_str())).map_or(&[], |pods| pods.as_slice());
        let reschedulable: Vec<&Pod> = bound_pods.iter().copied().filter(|p| pods::is_reschedulable(p)).collect();
        let non_daemon_pods = bound_pods.iter().copied().filter(|p| !p.is_terminal() && !p.is_owned_by_daemonset());
        let instance_type = label(labels::INSTANCE_TYPE).and_then(|name| {
            let catalogue = self.input.pools[pool?].catalogue?;
            self.types.get(catalogue)?.get(name).copied()
        });
        let price = instance_type.and_then(|t| {
            price_of(&t, label(labels::ZONE).unwrap_or_default(), label(labels::CAPACITY_TYPE).unwrap_or_default())
        });
        let drift = match (claim, pool) {
            (Some(claim), Some(ix)) => {
                let pool = &self.input.pools[ix];
                let types = self.types_of(pool).map_or(&[][..], InstanceTypes::types);
                drift(claim, pool, types, &self.input.label_rules, at)
            }
            (Some(_), None) | (None, _) => None,
        };
        let mut facts = NodeFacts {
            name: name.unwrap_or_default(),
            node,
            claim,
            pool,
            disruption_cost: pods::disruption_cost(reschedulable.iter().copied()),
            non_daemon_cost: pods::disruption_cost(non_daemon_pods),
            reschedulable,
            instance_type,
            price,
            drift,
            blocks: Vec::new(),
        };
        facts.blocks = facts.node_blocks(label(labels::NODEPOOL), self.input);
        if claim.is_some() {
            for pod in bound_pods {
                for block in pdbs.block_reasons(pod, at) {
                    if !facts.blocks.iter().any(|known| known.has_same_text(&block)) {
                        facts.blocks.push(block);
                    }
                }
            }
        }
        facts
    }

    /// Returns the instance types of a pool. `None` if the provider cannot list them.
    pub(crate) fn types_of(&self, pool: &PoolInput) -> Option<&'i InstanceTypes> {
        self.input.catalogues.get(pool.catalogue?)
    }

    /// Returns an instance type of a pool by name.
    pub(crate) fn type_of(&self, pool: usize, name: &str) -> Option<InstanceTypeRef<'i>> {
        self.types.get(self.input.pools[pool].catalogue?)?.get(name).copied()
    }

    pub(crate) fn pool(&self, facts: &NodeFacts<'i>) -> Option<&'i PoolInput> {
        facts.pool.map(|ix| &self.input.pools[ix])
    }

    /// Returns the names of the nodes that are in their pool's `consolidateAfter`. Consolidation
    /// moves no pod to them.
    pub(crate) fn nodes_in_consolidate_after(&self) -> impl Iterator<Item = Str> + '_ {
        let is_in_consolidate_after = |facts: &&NodeFacts<'i>| match (facts.claim, self.pool(facts)) {
            (Some(claim), Some(pool)) => {
                matches!(consolidatable(claim, pool, self.input.at), Consolidatable::Waiting { .. })
            }
            (Some(_), None) | (None, _) => false,
        };
        self.nodes.iter().filter(is_in_consolidate_after).map(|facts| facts.name.clone())
    }

    fn collect_warnings(&mut self) {
        let input = self.input;
        for budget in input.disruption_budgets.iter().filter(|b| !pods::has_valid_selector(b)) {
            let name = budget.metadata.namespaced_name();
            let message =
                "its selector is invalid, so Kerf treats it as if it protected every pod of its namespace".to_owned();
            self.warnings.push(InputWarning {
                object: format!("PodDisruptionBudget {name}"),
                code: "InvalidPodDisruptionBudget",
                message,
            });
        }
        for facts in &self.nodes {
            let Some(claim) = facts.claim else { continue };
            let times = [
                ("was created", claim.lifecycle.created),
                ("had its last pod event", claim.lifecycle.last_pod_event),
                ("was initialized", claim.lifecycle.initialized_at),
            ];
            for (event, time) in times {
                if let Some(time) = time.filter(|time| *time > input.at) {
                    let message = format!("it {event} at {time}, which is after {}", input.at);
                    let object = format!("NodeClaim {}", claim.name);
                    self.warnings.push(InputWarning { object, code: "ClockAhead", message });
                }
            }
            if facts.instance_type.is_some() && facts.price.is_none() && facts.node.is_some() {
                let message = "no offering of its instance type has its zone and capacity type: its price counts as 0, \
                               and consolidation does not disrupt it";
                let object = format!("Node {}", facts.name);
                self.warnings.push(InputWarning { object, code: "NoPrice", message: message.to_owned() });
            }
            for pod in &facts.reschedulable {
                if let Some(DoNotDisrupt::Invalid { why }) = pods::do_not_disrupt_of(pod, input.at) {
                    let message = format!("Invalid karpenter.sh/do-not-disrupt annotation: {why}, ignoring annotation");
                    let object = format!("Pod {}", pod.namespaced_name());
                    self.warnings.push(InputWarning { object, code: "InvalidDoNotDisruptAnnotation", message });
                }
            }
        }
    }
}

/// Returns the API group of the pool's node class, if the pool is one of another provider.
fn other_provider_of<'p>(pool_label: Option<&str>, input: &'p Input) -> Option<&'p Str> {
    let pool = input.pools.iter().find(|pool| Some(pool.name.as_str()) == pool_label)?;
    group_of_other_provider(pool)
}

impl<'i> NodeFacts<'i> {
    fn node_blocks(&self, pool_label: Option<&str>, input: &Input) -> Vec<BlockReason> {
        let at = input.at;
        if let Some(group) = other_provider_of(pool_label, input) {
            return vec![BlockReason::OtherProvider(group.clone())];
        }
        let Some(claim) = self.claim else { return vec![BlockReason::NotManaged] };
        let lifecycle = &claim.lifecycle;
        let mut blocks = Vec::new();
        let mut add = |holds: bool, block: BlockReason| {
            if holds {
                blocks.push(block);
            }
        };
        add(lifecycle.is_disrupting, BlockReason::AlreadyDisrupting);
        let initialized = self.node.is_some_and(|n| n.metadata.labels.has_value(labels::INITIALIZED, "true"));
        add(self.node.is_none(), BlockReason::NoNode);
        add(self.node.is_some() && !initialized, BlockReason::NotInitialized);
        let is_removed_otherwise = claim.is_marked_for_disruption && !lifecycle.is_disrupting;
        add(claim.is_deleting || is_removed_otherwise, BlockReason::Deleting);
        add(lifecycle.nominated_until.is_some_and(|until| at < until), BlockReason::Nominated);
        let protected =
            self.node.is_some_and(|n| is_node_protected(n.metadata.annotations.get(annotations::DO_NOT_DISRUPT)));
        add(protected, BlockReason::DoNotDisrupt);
        let pool = self.pool.map(|ix| &input.pools[ix]);
        if let Some((pool, until)) = pool.and_then(|pool| Some((pool, pool.disruption.paused_until?))) {
            add(at < until, BlockReason::Paused { pool: pool.name.clone(), until });
        }
        match pool_label {
            None => add(true, BlockReason::NoPoolLabel),
            Some(name) => add(self.pool.is_none(), BlockReason::PoolNotFound(Str::new(name))),
        }
        blocks
    }

    /// Returns true if no reason blocks methods of this class.
    pub(crate) fn is_candidate(&self, class: DisruptionClass) -> bool {
        self.blocks_for(class).next().is_none()
    }

    /// Returns the reasons that block methods of this class.
    pub(crate) fn blocks_for(&self, class: DisruptionClass) -> impl Iterator<Item = &BlockReason> {
        let has_grace_period = self.claim.is_some_and(|c| c.lifecycle.termination_grace_period.is_some());
        let ignores_pods = class == DisruptionClass::Eventual && has_grace_period;
        self.blocks.iter().filter(move |block| !(ignores_pods && block.is_caused_by_pods()))
    }

    /// Returns true if no reschedulable pod has an eviction cost above zero.
    pub(crate) fn is_empty(&self) -> bool {
        self.disruption_cost <= 1.0
    }

    /// Returns the price per hour, or zero if it is unknown.
    pub(crate) fn known_price(&self) -> Price {
        self.price.unwrap_or(Price::ZERO)
    }

    /// Returns the price in dollars per unit of disruption cost.
    pub(crate) fn savings_ratio(&self) -> f64 {
        self.known_price().dollars() / self.disruption_cost
    }

    /// Returns a label of the Node.
    pub(crate) fn label(&self, key: &str) -> Option<&'i str> {
        self.node.and_then(|n| n.metadata.labels.get(key))
    }

    pub(crate) fn is_static(&self, input: &Input) -> bool {
        self.pool.is_some_and(|ix| {
            let pool = &input.pools[ix];
            pool.disruption.replicas.is_some() || pool.availability == PoolAvailability::Static
        })
    }

    /// Returns the reasons that block emptiness, for an empty node, or consolidation, for any
    /// other.
    pub(crate) fn method_blocks(&self, input: &Input) -> Vec<BlockReason> {
        if self.is_empty() { self.emptiness_blocks(input) } else { self.consolidation_blocks(input) }
    }

    /// Returns the reasons that block emptiness (spec 03 §8.1). Whether the node is empty is not
    /// among them.
    pub(crate) fn emptiness_blocks(&self, input: &Input) -> Vec<BlockReason> {
        let Some((pool, claim)) = self.pool.map(|ix| &input.pools[ix]).zip(self.claim) else { return Vec::new() };
        if self.is_static(input) {
            return vec![BlockReason::StaticPool(pool.name.clone())];
        }
        let mut blocks = Vec::new();
        if claim.lifecycle.buffer_pods > 0 {
            blocks.push(BlockReason::BufferPods(self.name.clone()));
        }
        blocks.extend(not_consolidatable(claim, pool, input));
        blocks
    }

    /// Returns the reasons that block consolidation (spec 03 §8.4). Whether the node is empty is
    /// not among them.
    pub(crate) fn consolidation_blocks(&self, input: &Input) -> Vec<BlockReason> {
        let Some((pool, claim)) = self.pool.map(|ix| &input.pools[ix]).zip(self.claim) else { return Vec::new() };
        if self.is_static(input) {
            return vec![BlockReason::StaticPool(pool.name.clone())];
        }
        let mut blocks = Vec::new();
        if self.instance_type.is_none() && self.node.is_some() {
            let type_name = self.label(labels::INSTANCE_TYPE).unwrap_or_default();
            blocks.push(BlockReason::InstanceTypeNotFound(Str::new(type_name)));
        }
        for key in [labels::CAPACITY_TYPE, labels::ZONE] {
            if self.node.is_some() && self.label(key).is_none() {
                blocks.push(BlockReason::MissingLabel(key));
            }
        }
        if blocks.is_empty() && self.node.is_some() && self.known_price() <= Price::ZERO {
            blocks.push(BlockReason::NoSaving);
        }
        if pool.disruption.policy == ConsolidationPolicy::WhenEmpty {
            blocks.push(BlockReason::OnlyWhenEmpty(pool.name.clone()));
        }
        blocks.extend(not_consolidatable(claim, pool, input));
        blocks
    }
}

fn not_consolidatable(claim: &NodeClaimInput, pool: &PoolInput, input: &Input) -> Option<BlockReason> {
    match consolidatable(claim, pool, input.at) {
        Consolidatable::Yes => None,
        Consolidatable::Disabled => Some(BlockReason::ConsolidationDisabled(pool.name.clone())),
        Consolidatable::NotInitialized => Some(BlockReason::ClaimNotInitialized),
        Consolidatable::Waiting { until } => Some(BlockReason::InConsolidateAfter { until }),
    }
}

/// Returns the price of the first offering with this zone and capacity type, available or not.
/// Returns `None` if there is none or its price is unknown.
pub(crate) fn price_of(instance_type: &InstanceType, zone: &str, capacity_type: &str) -> Option<Price> {
    let has_value = |offering: &crate::catalogue::Offering, key: &str, value: &str| {
        offering.requirements.get(key).and_then(|r| r.allowed_values()).is_some_and(|v| v.len() == 1 && v[0] == value)
    };
    let offering = instance_type
        .offerings
        .iter()
        .find(|o| has_value(o, labels::ZONE, zone) && has_value(o, labels::CAPACITY_TYPE, capacity_type));
    offering.map(|o| o.price).filter(|price| *price != Price::UNKNOWN)
}

/// Joins Nodes and NodeClaims by provider ID. If several Nodes or claims have one provider ID, the
/// first Node is joined with the first claim; the others stay alone.
fn join_nodes_and_claims(input: &Input) -> Vec<(Option<&Node>, Option<&NodeClaimInput>)> {
    let mut by_provider: FxHashMap<&Str, &NodeClaimInput> = FxHashMap::default();
    let mut unjoined: Vec<&NodeClaimInput> = Vec::new();
    for claim in &input.node_claims {
        if claim.provider_id.is_empty() || by_provider.contains_key(&claim.provider_id) {
            unjoined.push(claim);
        } else {
            by_provider.insert(&claim.provider_id, claim);
        }
    }
    let mut all: Vec<(Option<&Node>, Option<&NodeClaimInput>)> =
        input.nodes.iter().map(|node| (Some(node.as_ref()), by_provider.remove(&node.spec.provider_id))).collect();
    unjoined.extend(by_provider.into_values());
    all.extend(unjoined.into_iter().map(|claim| (None, Some(claim))));
    all
}

/// The disruption reasons, in the order of the arrays in `budgets`.
pub(crate) const REASONS: [DisruptionReason; 3] =
    [DisruptionReason::Empty, DisruptionReason::Drifted, DisruptionReason::Underutilized];
