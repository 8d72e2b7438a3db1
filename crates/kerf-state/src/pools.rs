//! NodePools as the engine sees them: what their nodes look like, and whether they take part in scheduling.

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

/// What is known of the node class that a pool refers to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NodeClassState {
    /// It exists and is ready, or nobody has judged it yet.
    Ready,
    /// There is no such object.
    Missing,
    /// It is being deleted.
    Deleting,
    /// Its `Ready` condition is not True, for the reason given.
    NotReady(Str),
}

/// The pool as the engine takes it. `catalogue` is the place of its instance types in the engine's input, if they could be listed.
pub fn to_engine_pool(object: &NodePool, class: &NodeClassState, catalogue: Option<usize>) -> PoolInput {
    let template = &object.spec.template;
    let reference = &template.spec.node_class_ref;
    let name = Str::from(object.metadata.name.as_deref().unwrap_or_default());
    let own = [
        (Str::new_static(labels::NODEPOOL), name.clone()),
        (Str::from(labels::node_class_key(&reference.group, &reference.kind)), Str::from(reference.name.as_str())),
    ];
    let written = template.metadata.iter().filter_map(|m| m.labels.as_ref()).flatten();
    PoolInput {
        weight: object.spec.weight.unwrap_or(0),
        labels: written.map(|(k, v)| (Str::from(k.as_str()), Str::from(v.as_str()))).chain(own).collect::<Labels>(),
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

/// What the pool says about taking its nodes away. A waiting time that has no meaning, which admission does not let through, counts as
/// `Never`: it protects rather than not. The hash is that of the template as it is now, whatever the annotations still say.
fn disruption(object: &NodePool) -> PoolDisruption {
    let written = object.spec.disruption.clone().unwrap_or_default();
    let usual = PoolDisruption::default();
    let hash = nodepool_hash(&object.spec.template).ok().map(|hash| TemplateHash {
        hash: Str::from(hash.to_string()),
        version: Str::new_static(NODEPOOL_HASH_VERSION),
    });
    PoolDisruption {
        consolidate_after: match &written.consolidate_after {
            Some(text) => parse_nillable(Some(text.as_str())).unwrap_or(None),
            None => usual.consolidate_after,
        },
        policy: written.consolidation_policy.unwrap_or(usual.policy),
        budgets: written.budgets.unwrap_or(usual.budgets),
        hash,
        replicas: object.spec.replicas.map(|count| u32::try_from(count).unwrap_or(0)),
        drift_backoff_until: None,
        paused_until: disruption_pause(object).and_then(|pause| pause.until()),
    }
}

/// What the pool's brake says, if it has one.
pub fn disruption_pause(object: &NodePool) -> Option<Pause> {
    let annotations = object.metadata.annotations.as_ref();
    annotations.and_then(|all| all.get(PAUSE_DISRUPTION)).map(|value| Pause::parse(value))
}

/// Static pools, pools that are not ready and pools on their way out take no pods (spec 02 §5.1). A pool or class that no controller
/// has judged counts as ready (spec 09 §2.1).
fn availability(object: &NodePool, class: &NodeClassState) -> PoolAvailability {
    if object.spec.replicas.is_some() {
        return PoolAvailability::Static;
    }
    let not_ready = |why: String| PoolAvailability::NotReady(Str::from(why));
    match class {
        NodeClassState::Missing => return not_ready("NodeClass not found on cluster".into()),
        NodeClassState::Deleting => return not_ready("NodeClass is Terminating".into()),
        NodeClassState::NotReady(why) => return not_ready(why.to_string()),
        NodeClassState::Ready => {}
    }
    let conditions = object.status.as_ref().map_or(&[][..], |s| s.conditions.as_slice());
    if let Some(why) = why_not_ready(conditions) {
        return not_ready(why);
    }
    if object.metadata.deletion_timestamp.is_some() { PoolAvailability::Deleting } else { PoolAvailability::Ready }
}

/// Why the conditions of an object keep it from being ready; no conditions at all do not.
pub(crate) fn why_not_ready(conditions: &[Condition]) -> Option<String> {
    if conditions.is_empty() {
        return None;
    }
    match conditions.iter().find(|c| c.condition_type == "Ready") {
        Some(ready) if ready.status == ConditionStatus::True => None,
        Some(ready) => Some(format!("Ready={}, {}", ready.status, ready.message)),
        None => Some("Ready=Unknown".into()),
    }
}

/// The state of a node class from its metadata and conditions.
pub fn node_class_state(deleting: Option<&Time>, conditions: &[Condition]) -> NodeClassState {
    if deleting.is_some() {
        return NodeClassState::Deleting;
    }
    why_not_ready(conditions).map_or(NodeClassState::Ready, |why| NodeClassState::NotReady(Str::from(why)))
}

fn requirement(written: &kerf_api::requirement::RequirementWithMinValues) -> PoolRequirement {
    PoolRequirement {
        expression: NodeSelectorRequirement {
            key: Str::from(written.key.as_str()),
            operator: written.operator.clone(),
            values: written.values.iter().flatten().map(|v| Str::from(v.as_str())).collect(),
        },
        min_values: written.min_values.and_then(|n| u32::try_from(n).ok()),
    }
}

pub(crate) fn taints(written: Option<&[kerf_api::taints::Taint]>) -> Vec<Taint> {
    let slim = |t: &kerf_api::taints::Taint| Taint {
        key: Str::from(t.key.as_str()),
        value: Str::from(t.value.as_deref().unwrap_or_default()),
        effect: t.effect.clone(),
    };
    written.unwrap_or_default().iter().map(slim).collect()
}

/// Limits. One that is no quantity, which admission does not let through, counts as zero: it limits rather than not.
fn limits(written: &Resources) -> ResourceList {
    written.iter().map(|(name, q)| (Str::from(name.as_str()), q.text().parse().unwrap_or(Quantity::ZERO))).collect()
}

/// Reported resources. What is no quantity is not there.
pub(crate) fn resources(written: Option<&Resources>) -> ResourceList {
    written
        .into_iter()
        .flatten()
        .filter_map(|(name, q)| Some((Str::from(name.as_str()), q.text().parse().ok()?)))
        .collect()
}
