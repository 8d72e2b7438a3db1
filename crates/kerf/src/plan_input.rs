//! Converts objects into the engine's input. Nothing is decided here: `kerf-state` translates pools
//! and claims, as for the controllers. This module only adds what files omit: namespaces, and the
//! state of node classes that no file contains.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::Metadata;
use kerf_api::labels::{self, LabelRules};
use kerf_api::nodeclaim::NodeClaim;
use kerf_api::nodepool::{NodeClassReference, NodePool};
use kerf_api::slim::{Labels, Namespace, Node, ObjectMeta, Pod, Str};
use kerf_api::validation;
use kerf_engine::catalogue::{InstanceType, InstanceTypes};
use kerf_engine::{Input, NodeClaimInput, PoolAvailability, PoolInput, Price, UnsupportedStorage};
use kerf_state::NodeClassState;

use crate::input::{Objects, WithOrigin};
use crate::program::ProviderName;
use crate::provider::{PlanCatalogue, PlanNotice};

/// Label that the API server sets on every namespace.
const NAMESPACE_NAME: &str = "kubernetes.io/metadata.name";

/// Maximum number of names in one warning.
const WARNING_NAMES_MAX: usize = 5;

/// The engine's input for one plan, with price and warnings.
#[derive(Debug)]
pub(crate) struct PlanInput {
    pub(crate) input: Input,
    /// Price per hour of all managed nodes of the input.
    pub(crate) current_price: Price,
    /// Sources of the plan's data.
    pub(crate) notes: Vec<String>,
    /// Messages that do not prevent a plan.
    pub(crate) warnings: Vec<String>,
}

impl PlanInput {
    /// Combines objects and instance types into the input for a decision at time
    /// `at`.
    pub(crate) fn new(objects: Objects, types: &dyn PlanCatalogue, at: Timestamp) -> Self {
        let mut notes = Vec::new();
        let mut warnings = Vec::new();
        for notice in types.notices() {
            match notice {
                PlanNotice::Note(text) => notes.push(text.clone()),
                PlanNotice::Warning(text) => warnings.push(text.clone()),
            }
        }
        let mut catalogues = Catalogues::default();
        let (current_price, unpriced) = price_of_node_claims(&objects, types);
        if !unpriced.is_empty() {
            warnings.push(format!(
                "the cost does not include {}: no matching instance type and offering in the catalogue",
                count_with_names(&unpriced, "managed node")
            ));
        }
        let pools: Vec<PoolInput> = objects
            .node_pools
            .iter()
            .map(|pool| {
                if ProviderName::of_node_class_group(&pool.object.spec.template.spec.node_class_ref.group).is_none() {
                    return kerf_state::pool_of_other_provider(&pool.object);
                }
                let list = types.instance_types(&pool.object.spec.template.spec.node_class_ref);
                let catalogue = list.map(|list| catalogues.index_of(list));
                let mut engine_pool = engine_pool(&pool.object, &objects, catalogue);
                if let Some(why) = unserved_reason(&pool.object.spec.template.spec.node_class_ref, types.providers()) {
                    engine_pool.availability = PoolAvailability::NotReady(Str::from(why));
                }
                without_invalid_pool(engine_pool, &pool.object, &objects, types.label_rules())
            })
            .collect();
        warnings.extend(pools.iter().filter_map(unused_pool_warning));

        let (pods, pods_on_unknown_nodes) = split_pods_by_known_node(objects.pods, &objects.nodes);
        if !pods_on_unknown_nodes.is_empty() {
            warnings.push(format!(
                "ignored, because their nodes are not in the input: {}",
                count_with_names(&pods_on_unknown_nodes, "pod")
            ));
        }
        let namespaces = complete_namespaces(objects.namespaces, &pods);
        let input = Input {
            at,
            pools,
            catalogues: catalogues.0,
            label_rules: types.label_rules().clone(),
            node_claims: engine_claims(&objects.node_claims, &objects.nodes),
            nodes: without_origins(objects.nodes).into_iter().map(Arc::new).collect(),
            pods: pods.into_iter().map(Arc::new).collect(),
            daemon_sets: without_origins(objects.daemon_sets),
            volume_claims: without_origins(objects.volume_claims),
            volumes: without_origins(objects.volumes),
            storage_classes: without_origins(objects.storage_classes),
            csi_nodes: without_origins(objects.csi_nodes),
            namespaces,
            disruption_budgets: without_origins(objects.disruption_budgets),
            services: without_origins(objects.services),
            replica_owners: without_origins(objects.replica_owners),
            unsupported_storage: UnsupportedStorage::default(),
            launch_backoffs: Vec::new(),
        };
        Self { input, current_price, notes, warnings }
    }
}

/// Returns true if some provider of Kerf serves the node class of the claim. A controller does not
/// know other claims.
fn is_served(claim: &NodeClaim) -> bool {
    ProviderName::of_node_class_group(&claim.spec.node_class_ref.group).is_some()
}

/// Converts the NodeClaims. A controller that runs beside the plan may be removing some of them.
fn engine_claims(node_claims: &[WithOrigin<NodeClaim>], nodes: &[WithOrigin<Node>]) -> Vec<NodeClaimInput> {
    let nodes: BTreeMap<&str, &Node> =
        nodes.iter().map(|node| (node.object.spec.provider_id.as_str(), &node.object)).collect();
    let to_engine_claim = |claim: &NodeClaim| {
        let provider_id = claim.status.as_ref().and_then(|status| status.provider_id.as_deref()).unwrap_or_default();
        let node = nodes.get(provider_id).copied().filter(|_| !provider_id.is_empty());
        let is_disrupting = kerf_state::is_under_disruption(claim, node);
        let mut engine_claim = kerf_state::to_engine_claim(claim, is_disrupting);
        engine_claim.lifecycle.is_disrupting = is_disrupting;
        engine_claim
    };
    node_claims.iter().map(|claim| &claim.object).filter(|claim| is_served(claim)).map(to_engine_claim).collect()
}

fn without_origins<T>(list: Vec<WithOrigin<T>>) -> Vec<T> {
    list.into_iter().map(|entry| entry.object).collect()
}

/// The lists of instance types of all pools. Pools with the same list share one entry.
#[derive(Default)]
struct Catalogues(Vec<InstanceTypes>);

impl Catalogues {
    /// Returns the index of a list. Adds the list if it is new.
    fn index_of(&mut self, types: InstanceTypes) -> usize {
        self.0.iter().position(|known| known.is_same(&types)).unwrap_or_else(|| {
            self.0.push(types);
            self.0.len() - 1
        })
    }
}

/// Converts a NodePool, with the state of its node class. `catalogue` is the index of its instance
/// types; `None` if they are unknown.
fn engine_pool(pool: &NodePool, objects: &Objects, catalogue: Option<usize>) -> PoolInput {
    let node_class = &pool.spec.template.spec.node_class_ref;
    let kwok = objects.kwok_node_classes.iter().map(|node_class| {
        let conditions = node_class.object.status.as_ref().map_or(&[][..], |status| &status.conditions);
        ("KWOKNodeClass", node_class.object.metadata(), conditions)
    });
    let ec2 = objects.ec2_node_classes.iter().map(|node_class| {
        let conditions = node_class.object.status.as_ref().map_or(&[][..], |status| &status.conditions);
        ("EC2NodeClass", node_class.object.metadata(), conditions)
    });
    let state = kwok
        .chain(ec2)
        .find(|(kind, metadata, _)| *kind == node_class.kind && metadata.name.as_ref() == Some(&node_class.name))
        .map_or(NodeClassState::Missing, |(_, metadata, conditions)| {
            kerf_state::node_class_state(metadata.deletion_timestamp.as_ref(), conditions)
        });
    kerf_state::to_engine_pool(pool, &state, catalogue)
}

/// Returns why no provider of the plan serves a node class. Returns `None` if one does.
fn unserved_reason(class: &NodeClassReference, providers: &[ProviderName]) -> Option<String> {
    let NodeClassReference { group, kind, .. } = class;
    let needed = ProviderName::of_node_class_group(group)?;
    if providers.contains(&needed) {
        return None;
    }
    let used = providers.iter().map(|provider| provider.name()).collect::<Vec<_>>().join(" and ");
    let needed = needed.name();
    Some(format!(
        "the provider {needed} serves its node class ({kind}), and this plan is for {used}; use --provider {needed}, \
         or leave --provider away"
    ))
}

/// Makes a pool unavailable if its spec is not valid, or if its node class cannot be used. A
/// controller sets `ValidationSucceeded` to False and does not use such a pool; a KWOKNodeClass
/// that is not valid has no instance types.
fn without_invalid_pool(
    mut engine_pool: PoolInput,
    pool: &NodePool,
    objects: &Objects,
    rules: &LabelRules,
) -> PoolInput {
    match engine_pool.availability {
        PoolAvailability::NotReady(_) | PoolAvailability::Deleting | PoolAvailability::OtherProvider(_) => {}
        PoolAvailability::Ready | PoolAvailability::Static | PoolAvailability::AwaitingLaunch(_) => {
            let mut failures = validation::nodepool::failures(&pool.spec, rules);
            failures.extend(node_class_failures(pool, objects));
            if !failures.is_empty() {
                engine_pool.availability = PoolAvailability::NotReady(Str::from(validation::join(&failures)));
            }
        }
    }
    engine_pool
}

/// Returns why the KWOKNodeClass of a pool cannot be used.
fn node_class_failures(pool: &NodePool, objects: &Objects) -> Vec<String> {
    let reference = &pool.spec.template.spec.node_class_ref;
    let mut classes = objects.kwok_node_classes.iter().map(|class| &class.object);
    let class = classes
        .find(|class| reference.kind == "KWOKNodeClass" && class.metadata.name.as_ref() == Some(&reference.name));
    let failures = class.and_then(|class| class.spec.as_ref()).map(validation::kwoknodeclass::failures);
    let failures = failures.unwrap_or_default().into_iter();
    failures.map(|failure| format!("KWOKNodeClass `{}`: {failure}", reference.name)).collect()
}

fn unused_pool_warning(pool: &PoolInput) -> Option<String> {
    match &pool.availability {
        PoolAvailability::Ready | PoolAvailability::OtherProvider(_) => None,
        PoolAvailability::NotReady(why) => Some(format!("NodePool `{}` is not used: {why}", pool.name)),
        PoolAvailability::AwaitingLaunch(claim) => Some(format!(
            "NodePool `{}` is not used: it has limits, and NodeClaim `{claim}` is not launched yet",
            pool.name
        )),
        PoolAvailability::Deleting => Some(format!("NodePool `{}` is not used: it is being deleted", pool.name)),
        PoolAvailability::Static => {
            Some(format!("NodePool `{}` is static: Kerf launches no nodes of it for pending pods", pool.name))
        }
    }
}

/// Returns the pods that are pending or whose node is in the input, and the names of the others
/// (spec 09 #8).
fn split_pods_by_known_node(pods: Vec<WithOrigin<Pod>>, nodes: &[WithOrigin<Node>]) -> (Vec<Pod>, Vec<String>) {
    let node_names: BTreeSet<&str> = nodes.iter().map(|node| node.object.metadata.name.as_str()).collect();
    let mut pods_on_unknown_nodes = Vec::new();
    let mut pods = without_origins(pods);
    pods.retain(|pod| match &pod.spec.node_name {
        Some(node) if !node.is_empty() && !node_names.contains(node.as_str()) && !pod.is_terminal() => {
            pods_on_unknown_nodes.push(format!("{} on {node}", pod.namespaced_name()));
            false
        }
        Some(_) | None => true,
    });
    (pods, pods_on_unknown_nodes)
}

/// Adds the namespaces of all pods, and sets the name label of every namespace.
fn complete_namespaces(namespaces: Vec<WithOrigin<Namespace>>, pods: &[Pod]) -> Vec<Namespace> {
    let mut namespaces = without_origins(namespaces);
    let known_names: BTreeSet<Str> = namespaces.iter().map(|namespace| namespace.metadata.name.clone()).collect();
    let used_names: BTreeSet<&Str> = pods.iter().map(|pod| &pod.metadata.namespace).collect();
    for name in used_names.into_iter().filter(|name| !known_names.contains(*name)) {
        namespaces.push(Namespace { metadata: ObjectMeta { name: name.clone(), ..ObjectMeta::default() } });
    }
    for namespace in &mut namespaces {
        let metadata = &mut namespace.metadata;
        let name_label = (Str::new_static(NAMESPACE_NAME), metadata.name.clone());
        metadata.labels =
            metadata.labels.iter().map(|(key, value)| (key.clone(), value.clone())).chain([name_label]).collect();
    }
    namespaces.sort_by(|a, b| a.metadata.name.cmp(&b.metadata.name));
    namespaces
}

/// Returns the price of the instances of all claims, and the names of launched claims without a
/// known offering. A claim that was never launched has no instance yet.
fn price_of_node_claims(objects: &Objects, types: &dyn PlanCatalogue) -> (Price, Vec<String>) {
    let nodes: BTreeMap<&str, &Node> =
        objects.nodes.iter().map(|node| (node.object.spec.provider_id.as_str(), &node.object)).collect();
    let mut total = Price::ZERO;
    let mut unpriced = Vec::new();
    for object in objects.node_claims.iter().map(|claim| &claim.object).filter(|claim| is_served(claim)) {
        let claim = kerf_state::to_engine_claim(object, false);
        let list = types.instance_types(&object.spec.node_class_ref).unwrap_or_default();
        let is_launched = !claim.provider_id.is_empty();
        let node = nodes.get(claim.provider_id.as_str()).filter(|_| is_launched);
        let on_node = node.and_then(|node| offering_price_by_labels(&node.metadata.labels, list.types()));
        match on_node.or_else(|| offering_price_by_labels(&claim.labels, list.types())) {
            Some(price) => total += price,
            None if !is_launched => {}
            None => {
                unpriced.push(node.map_or(&claim.name, |node| &node.metadata.name).to_string());
            }
        }
    }
    (total, unpriced)
}

/// Returns the price of the offering that these labels of a node or claim select. It counts even if
/// the offering is unavailable now.
fn offering_price_by_labels(labels: &Labels, types: &[InstanceType]) -> Option<Price> {
    let name = labels.get(labels::INSTANCE_TYPE)?;
    let instance_type = types.iter().find(|instance_type| instance_type.name == name)?;
    let offering = instance_type.offerings.iter().find(|offering| {
        offering.requirements.iter().all(|requirement| {
            let is_needed = labels::OFFERING_LABELS.contains(&requirement.key().as_str());
            labels.get(requirement.key()).map_or(!is_needed, |value| requirement.has(value))
        })
    });
    offering.map(|offering| offering.price)
}

/// Returns a text such as `3 pods (a, b, c)`, with at most [`WARNING_NAMES_MAX`] names.
fn count_with_names(names: &[String], noun: &str) -> String {
    let plural = if names.len() == 1 { "" } else { "s" };
    let listed = names.iter().take(WARNING_NAMES_MAX).map(String::as_str).collect::<Vec<_>>().join(", ");
    let more = if names.len() > WARNING_NAMES_MAX { ", …" } else { "" };
    format!("{} {noun}{plural} ({listed}{more})", names.len())
}

#[cfg(test)]
mod tests;
