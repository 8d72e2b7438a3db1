//! Applies commands to an input, in one of two ways.
//!
//! *Done*: the nodes are removed, their pods run where the simulation placed them, and each
//! replacement is running as estimated. Repeated passes work on this input, and planning on it
//! again must find nothing.
//!
//! *Reserved*: what other commands may count on while these are carried out. The nodes are removed
//! and the capacity that their pods need elsewhere is used, but the replacements do not exist yet.

use std::sync::Arc;

use jiff::Timestamp;
use kerf_api::slim::{Labels, Node, NodeCondition, PodPhase, Str};
use kerf_api::{annotations, labels};
use rustc_hash::{FxHashMap, FxHashSet};

use super::command::DisruptionCommand;
use super::input::ClaimLifecycle;
use crate::catalogue::{InstanceType, Offering, OfferingRef, OfferingState};
use crate::cluster::{Input, NodeClaimInput, PoolInput};
use crate::solve::{LaunchEstimate, PlannedClaim};

/// Sets `replacement_names` of the commands to node names that do not exist in the input.
pub(crate) fn name_replacements(input: &Input, commands: &mut [DisruptionCommand]) {
    let mut names = ReplacementNames::of(input);
    for command in commands {
        for planned in &command.replacements {
            command.replacement_names.push(names.next(&planned.pool));
        }
    }
}

/// Generates node names that do not exist yet.
struct ReplacementNames<'i> {
    existing: FxHashSet<&'i str>,
    /// The last number used, by pool.
    last_number: FxHashMap<Str, usize>,
}

impl<'i> ReplacementNames<'i> {
    fn of(input: &'i Input) -> Self {
        Self {
            existing: input.nodes.iter().map(|n| n.metadata.name.as_str()).collect(),
            last_number: FxHashMap::default(),
        }
    }

    fn next(&mut self, pool: &Str) -> Str {
        let stem = format!("{pool}-replacement-");
        let with_stem = || self.existing.iter().filter(|name| name.starts_with(&stem)).count();
        let number = self.last_number.entry(pool.clone()).or_insert_with(with_stem);
        loop {
            *number += 1;
            let name = format!("{stem}{number}");
            if !self.existing.contains(name.as_str()) {
                return Str::from(name);
            }
        }
    }
}

/// Returns the input as it is after the commands have been carried out.
pub fn with_commands_done(mut input: Input, commands: &[DisruptionCommand]) -> Input {
    for command in commands {
        apply_command(&mut input, command);
    }
    input
}

/// Returns the input as other commands may count on it while these commands are carried out.
///
/// Nodes that receive pods keep their `consolidateAfter` state: all these commands are one
/// decision, which may move further pods to the same nodes.
pub(crate) fn with_commands_reserved(mut input: Input, commands: &[DisruptionCommand]) -> Input {
    for command in commands {
        let targets = target_nodes(command);
        let on_replacements: FxHashSet<&Str> = command.replacements.iter().flat_map(|claim| &claim.pods).collect();
        if !on_replacements.is_empty() {
            input.pods.retain(|pod| !on_replacements.contains(&pod.namespaced_name()));
        }
        remove_nodes(&mut input, command, &targets);
    }
    input
}

/// Returns the target node of each pod that moves to an existing node.
fn target_nodes(command: &DisruptionCommand) -> FxHashMap<Str, Str> {
    let placed = command.placements.iter();
    placed.flat_map(|placement| placement.pods.iter().map(|pod| (pod.clone(), placement.node.clone()))).collect()
}

fn apply_command(input: &mut Input, command: &DisruptionCommand) {
    let mut targets = target_nodes(command);
    for (ix, claim) in command.replacements.iter().enumerate() {
        let name =
            command.replacement_names.get(ix).cloned().unwrap_or_else(|| ReplacementNames::of(input).next(&claim.pool));
        if add_planned_node(input, claim, &name).is_some() {
            // Pods that were pending, or that run on a node that is being deleted, are still to be
            // bound. The nomination keeps the replacement from being treated as empty until then.
            let has_pending_pods = claim.pods.iter().any(|pod| command.pods.binary_search(pod).is_err());
            if let Some(launched) = input.node_claims.last_mut().filter(|_| has_pending_pods) {
                launched.lifecycle.nominated_until = Some(Timestamp::MAX);
            }
            targets.extend(claim.pods.iter().map(|pod| (pod.clone(), name.clone())));
        }
    }
    let receiving = remove_nodes(input, command, &targets);
    let at = input.at;
    for claim in input.node_claims.iter_mut().filter(|c| receiving.contains(&c.provider_id)) {
        claim.lifecycle.last_pod_event = Some(at);
    }
}

/// Removes the command's nodes and moves their pods to `targets`. A pod without an entry there
/// becomes pending. Returns the provider IDs of the nodes that receive pods.
fn remove_nodes(input: &mut Input, command: &DisruptionCommand, targets: &FxHashMap<Str, Str>) -> FxHashSet<Str> {
    let claims: FxHashSet<&Str> = command.nodes.iter().map(|n| &n.claim).collect();
    let provider_ids: FxHashSet<Str> =
        input.node_claims.iter().filter(|c| claims.contains(&c.name)).map(|c| c.provider_id.clone()).collect();
    let removed: FxHashSet<Str> = input
        .nodes
        .iter()
        .filter(|n| provider_ids.contains(&n.spec.provider_id))
        .map(|n| n.metadata.name.clone())
        .collect();
    let evicted: FxHashSet<&Str> = command.pods.iter().collect();
    let at = input.at;
    let mut receiving: FxHashSet<Str> = FxHashSet::default();
    input.pods.retain_mut(|pod| {
        if !pod.spec.node_name.as_ref().is_some_and(|n| removed.contains(n)) {
            return true;
        }
        let name = pod.namespaced_name();
        if !evicted.contains(&name) {
            return false;
        }
        let target = targets.get(&name).cloned();
        receiving.extend(target.clone());
        // The pod's controller creates a pod without a target again. It is pending, and the
        // scheduler has not set its condition yet.
        let pod = Arc::make_mut(pod);
        pod.status.conditions.retain(|c| target.is_some() || c.condition_type != "PodScheduled");
        pod.status.phase = if target.is_some() { PodPhase::Running } else { PodPhase::Pending };
        // The moved pod starts again, and with it the time for which its annotation protects it.
        pod.status.start_time = target.is_some().then_some(at);
        pod.metadata.deletion_timestamp = None;
        pod.spec.node_name = target;
        true
    });
    input.nodes.retain(|node| !removed.contains(&node.metadata.name));
    input.node_claims.retain(|claim| !claims.contains(&claim.name));
    input.nodes.iter().filter(|n| receiving.contains(&n.metadata.name)).map(|n| n.spec.provider_id.clone()).collect()
}

/// Adds the node and claim that a planned claim is expected to become. Returns `None`, and adds
/// nothing, if the claim has no estimate or its offering does not exist.
pub(crate) fn add_planned_node(input: &mut Input, planned: &PlannedClaim, name: &Str) -> Option<()> {
    let estimate = planned.launch.estimate.as_ref()?;
    let pool = input.pools.iter().find(|p| p.name == planned.pool)?.clone();
    let current_types = input.catalogues.get_mut(pool.catalogue?)?;
    let types = current_types.clone();
    let instance_type = types.find(&estimate.instance_type)?;
    let offering = instance_type.offerings().find(|o| matches_estimate(*o, estimate, planned))?;
    if estimate.capacity_type == labels::CAPACITY_TYPE_RESERVED {
        let reservation_capacity = offering.reservation_capacity() - 1;
        let state = OfferingState { is_available: reservation_capacity > 0, reservation_capacity };
        current_types.set_state(offering.ix(), state);
    }
    let (node, claim) = replacement_node_and_claim(name, &pool, planned, &instance_type, &offering, input.at);
    input.nodes.push(Arc::new(node));
    input.node_claims.push(claim);
    Some(())
}

fn matches_estimate(offering: OfferingRef<'_>, estimate: &LaunchEstimate, planned: &PlannedClaim) -> bool {
    let allows = |key: &str, value: &Str| offering.requirements.get(key).is_none_or(|r| r.has(value));
    offering.is_launchable()
        && offering.price == estimate.price
        && allows(labels::ZONE, &estimate.zone)
        && allows(labels::CAPACITY_TYPE, &estimate.capacity_type)
        && planned.launch.requirements.intersects(&offering.requirements).is_ok()
}

fn replacement_node_and_claim(
    name: &Str,
    pool: &PoolInput,
    planned: &PlannedClaim,
    instance_type: &InstanceType,
    offering: &Offering,
    at: Timestamp,
) -> (Node, NodeClaimInput) {
    let own_labels = [
        (labels::HOSTNAME, name.clone()),
        (labels::REGISTERED, Str::new_static("true")),
        (labels::INITIALIZED, Str::new_static("true")),
    ];
    let requirements = instance_type.requirements.iter().chain(offering.requirements.iter());
    let from_type = requirements.filter_map(|r| match r.allowed_values() {
        Some([value]) => Some((r.key().clone(), value.clone())),
        Some(_) | None => None,
    });
    let from_claim = planned.launch.labels.iter().map(|(key, value)| (key.clone(), value.clone()));
    let node_labels: Labels =
        from_type.chain(from_claim).chain(own_labels.map(|(k, v)| (Str::new_static(k), v))).collect();
    let provider_id = Str::from(format!("plan:///{name}"));
    let (capacity, allocatable) = (instance_type.capacity_in(offering), instance_type.allocatable_in(offering));
    let mut node = Node::default();
    node.metadata.name = name.clone();
    node.metadata.uid = name.clone();
    node.metadata.creation_timestamp = Some(at);
    node.metadata.labels = node_labels.clone();
    node.spec.provider_id = provider_id.clone();
    node.spec.taints.clone_from(&pool.taints);
    node.status.capacity = capacity.clone();
    node.status.allocatable = allocatable.clone();
    node.status.conditions = vec![NodeCondition {
        condition_type: "Ready".into(),
        status: "True".into(),
        last_transition_time: Some(at),
        ..NodeCondition::default()
    }];
    let hash = pool.disruption.hash.iter().flat_map(|hash| {
        [(annotations::NODEPOOL_HASH, &hash.hash), (annotations::NODEPOOL_HASH_VERSION, &hash.version)]
    });
    let claim = NodeClaimInput {
        name: name.clone(),
        labels: node_labels,
        annotations: hash.map(|(key, value)| (Str::new_static(key), value.clone())).collect(),
        provider_id,
        taints: pool.taints.clone(),
        startup_taints: pool.startup_taints.clone(),
        capacity,
        allocatable,
        lifecycle: ClaimLifecycle {
            created: Some(at),
            is_launched: true,
            is_initialized: true,
            initialized_at: Some(at),
            ..ClaimLifecycle::default()
        },
        ..NodeClaimInput::default()
    };
    (node, claim)
}
