//! Converts NodePools for the engine: the template of their nodes, their limits and disruption
//! settings, and whether they take part in scheduling.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kerf_api::annotations::kerf::PAUSE_DISRUPTION;
use kerf_api::conditions::{Condition, ConditionStatus};
use kerf_api::duration::parse_nillable;
use kerf_api::hash::{NODEPOOL_HASH_VERSION, nodepool_hash};
use kerf_api::labels;
use kerf_api::nodepool::NodePool;
use kerf_api::pause::Pause;
use kerf_api::quantity::Quantity;
use kerf_api::slim::{Labels, NodeSelectorRequirement, ResourceList, Str, Taint};
use kerf_api::unparsed::Resources;
use kerf_engine::{PoolAvailability, PoolDisruption, PoolInput, PoolRequirement, TemplateHash};

/// State of the node class that a pool refers to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NodeClassState {
    /// The node class exists and is ready, or has no conditions yet.
    Ready,
    /// The node class does not exist.
    Missing,
    /// The node class has a deletion timestamp.
    Deleting,
    /// The `Ready` condition is not True. Contains status and message of the condition.
    NotReady(Str),
}

/// Converts a NodePool for the engine. `catalogue` is the index of its instance types in
/// `Input::catalogues`; `None` if they could not be listed.
pub fn to_engine_pool(object: &NodePool, class: &NodeClassState, catalogue: Option<usize>) -> PoolInput {
    let template = &object.spec.template;
    let reference = &template.spec.node_class_ref;
    let name = Str::from(object.metadata.name.as_deref().unwrap_or_default());
    let own_labels = [
        (Str::new_static(labels::NODEPOOL), name.clone()),
        (Str::from(labels::node_class_key(&reference.group, &reference.kind)), Str::from(reference.name.as_str())),
    ];
    let template_labels = template.metadata.iter().filter_map(|m| m.labels.as_ref()).flatten();
    PoolInput {
        weight: object.spec.weight.unwrap_or(0),
        labels: template_labels
            .map(|(k, v)| (Str::from(k.as_str()), Str::from(v.as_str())))
            .chain(own_labels)
            .collect::<Labels>(),
        requirements: template.spec.requirements.iter().map(requirement).collect(),
        taints: taints(template.spec.taints.as_deref()),
        startup_taints: taints(template.spec.startup_taints.as_deref()),
        limits: object.spec.limits.as_ref().map(limits).unwrap_or_default(),
        catalogue,
        availability: availability(object, class),
        disruption: disruption(object),
        name,
    }
}

/// Converts a NodePool whose node class another controller serves. It launches nothing.
pub fn pool_of_other_provider(object: &NodePool) -> PoolInput {
    let group = Str::from(object.spec.template.spec.node_class_ref.group.as_str());
    let availability = PoolAvailability::OtherProvider(group);
    PoolInput { availability, ..to_engine_pool(object, &NodeClassState::Ready, None) }
}

/// Converts the pool's disruption settings. An invalid `consolidateAfter`, which admission rejects,
/// counts as `Never`, so that it protects nodes. The hash is computed from the current template;
/// the hash annotation may be outdated.
fn disruption(object: &NodePool) -> PoolDisruption {
    let settings = object.spec.disruption.clone().unwrap_or_default();
    let defaults = PoolDisruption::default();
    let hash = nodepool_hash(&object.spec.template).ok().map(|hash| TemplateHash {
        hash: Str::from(hash.to_string()),
        version: Str::new_static(NODEPOOL_HASH_VERSION),
    });
    PoolDisruption {
        consolidate_after: match &settings.consolidate_after {
            Some(text) => parse_nillable(Some(text.as_str())).unwrap_or(None),
            None => defaults.consolidate_after,
        },
        policy: settings.consolidation_policy.unwrap_or(defaults.policy),
        budgets: settings.budgets.unwrap_or(defaults.budgets),
        hash,
        replicas: object.spec.replicas.map(|count| u32::try_from(count).unwrap_or(0)),
        drift_backoff_until: None,
        paused_until: disruption_pause(object).and_then(|pause| pause.until()),
    }
}

/// Returns the pool's `pause-disruption` annotation, parsed. `None` if the pool has none.
pub fn disruption_pause(object: &NodePool) -> Option<Pause> {
    let annotations = object.metadata.annotations.as_ref();
    annotations.and_then(|all| all.get(PAUSE_DISRUPTION)).map(|value| Pause::parse(value))
}

/// Returns whether the pool takes pods. Static pools, pools that are not ready and pools that are
/// being deleted take none (spec 02 §5.1). A pool or node class without conditions counts as ready
/// (spec 09 §2.1).
fn availability(object: &NodePool, class: &NodeClassState) -> PoolAvailability {
    if object.spec.replicas.is_some() {
        return PoolAvailability::Static;
    }
    let not_ready = |reason: String| PoolAvailability::NotReady(Str::from(reason));
    match class {
        NodeClassState::Missing => return not_ready("NodeClass not found on cluster".into()),
        NodeClassState::Deleting => return not_ready("NodeClass is Terminating".into()),
        NodeClassState::NotReady(reason) => return not_ready(reason.to_string()),
        NodeClassState::Ready => {}
    }
    let conditions = object.status.as_ref().map_or(&[][..], |s| s.conditions.as_slice());
    if let Some(reason) = not_ready_reason(conditions) {
        return not_ready(reason);
    }
    if object.metadata.deletion_timestamp.is_some() { PoolAvailability::Deleting } else { PoolAvailability::Ready }
}

/// Returns the text that explains why the conditions do not make an object ready. Returns `None` if
/// `Ready` is True or there are no conditions at all.
pub(crate) fn not_ready_reason(conditions: &[Condition]) -> Option<String> {
    if conditions.is_empty() {
        return None;
    }
    match conditions.iter().find(|c| c.condition_type == "Ready") {
        Some(ready) if ready.status == ConditionStatus::True => None,
        Some(ready) => Some(format!("Ready={}, {}", ready.status, ready.message)),
        None => Some("Ready=Unknown".into()),
    }
}

/// Returns the state of a node class from its deletion timestamp and conditions.
pub fn node_class_state(deleting: Option<&Time>, conditions: &[Condition]) -> NodeClassState {
    if deleting.is_some() {
        return NodeClassState::Deleting;
    }
    not_ready_reason(conditions).map_or(NodeClassState::Ready, |reason| NodeClassState::NotReady(Str::from(reason)))
}

fn requirement(source: &kerf_api::requirement::RequirementWithMinValues) -> PoolRequirement {
    PoolRequirement {
        expression: NodeSelectorRequirement {
            key: Str::from(source.key.as_str()),
            operator: source.operator.clone(),
            values: source.values.iter().flatten().map(|v| Str::from(v.as_str())).collect(),
        },
        min_values: source.min_values.and_then(|n| u32::try_from(n).ok()),
    }
}

pub(crate) fn taints(source: Option<&[kerf_api::taints::Taint]>) -> Vec<Taint> {
    let slim = |t: &kerf_api::taints::Taint| Taint {
        key: Str::from(t.key.as_str()),
        value: Str::from(t.value.as_deref().unwrap_or_default()),
        effect: t.effect.clone(),
    };
    source.unwrap_or_default().iter().map(slim).collect()
}

/// Converts limits. An invalid quantity, which admission rejects, counts as zero, so that it still
/// limits.
fn limits(source: &Resources) -> ResourceList {
    source.iter().map(|(name, q)| (Str::from(name.as_str()), q.text().parse().unwrap_or(Quantity::ZERO))).collect()
}

/// Converts reported resources. Invalid quantities are left out.
pub(crate) fn resources(source: Option<&Resources>) -> ResourceList {
    source
        .into_iter()
        .flatten()
        .filter_map(|(name, q)| Some((Str::from(name.as_str()), q.text().parse().ok()?)))
        .collect()
}
