//! Gauges of conditions (spec 04 §13.4, spec 07 §6.6): the conditions of an object, the age of each
//! condition, and the time since the object's deletion timestamp. Each kind has its own metric
//! names. Deprecated names cover all of Karpenter's kinds together.

use std::collections::BTreeSet;
use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kerf_api::conditions::{Condition, ConditionSet, ConditionStatus, ObjectFacts, dependents};
use kerf_api::labels;
use kerf_api::nodeclaim::NodeClaim;
use kerf_api::nodepool::NodePool;
use kerf_api::slim::{Node, Str};
use kerf_cloud::NodeClassKind;
use kerf_state::{NodeClass, Tracked as _, TrackedClaim};

use super::exposition::{Exposition, LabelPairs};

/// API group of NodePools and NodeClaims.
pub(super) const GROUP: &str = "karpenter.sh";

/// An object whose conditions become gauges.
struct ConditionedObject {
    group: &'static str,
    kind: &'static str,
    name: Str,
    deleted: Option<Timestamp>,
    conditions: Vec<Condition>,
    /// Metric labels and values that come from the object's labels.
    extra_labels: Vec<(String, String)>,
}

/// Returns the label keys of claims that become metric labels.
pub(super) fn claim_keys(classes: &[String]) -> impl Iterator<Item = &str> {
    classes.iter().map(String::as_str).chain([labels::NODEPOOL])
}

/// Returns the label keys of nodes that become metric labels.
pub(super) fn node_keys(classes: &[String]) -> impl Iterator<Item = &str> {
    claim_keys(classes).chain([labels::INITIALIZED])
}

/// Converts `karpenter.sh/nodepool` to `karpenter_sh_nodepool`.
pub(super) fn label_name(key: &str) -> String {
    key.replace(['/', '.', '-'], "_")
}

/// Returns a claim's conditions. Conditions that are not set yet are included as Unknown.
pub(super) fn claim_conditions(claim: &NodeClaim) -> Vec<Condition> {
    let stored = claim.status.as_ref().map(|status| status.conditions.clone()).unwrap_or_default();
    ConditionSet::open(dependents::NODECLAIM, ObjectFacts::of(&claim.metadata), stored).into_conditions()
}

/// Returns a pool's conditions. Conditions that are not set yet are included as Unknown.
pub(super) fn pool_conditions(pool: &NodePool) -> Vec<Condition> {
    let stored = pool.status.as_ref().map(|status| status.conditions.clone()).unwrap_or_default();
    ConditionSet::open(dependents::NODEPOOL, ObjectFacts::of(&pool.metadata), stored).into_conditions()
}

/// Returns the conditions of a node class. Conditions that are not set yet are included as Unknown.
pub(super) fn class_conditions(class: &NodeClass, dependents: &'static [&'static str]) -> Vec<Condition> {
    ConditionSet::open(dependents, ObjectFacts::of(&class.metadata), class.conditions.clone()).into_conditions()
}

/// Returns a node's conditions in the form of Karpenter's. A condition without a transition time
/// counts from the node's creation.
pub(super) fn node_conditions(node: &Node) -> Vec<Condition> {
    let conditions = node.status.conditions.iter();
    let since = |at: Option<Timestamp>| Time(at.or(node.metadata.creation_timestamp).unwrap_or_default());
    conditions
        .map(|condition| Condition {
            last_transition_time: since(condition.last_transition_time),
            message: condition.message.to_string(),
            observed_generation: None,
            reason: condition.reason.to_string(),
            status: ConditionStatus::from(condition.status.as_str()),
            condition_type: condition.condition_type.to_string(),
        })
        .collect()
}

/// Writes the gauges of all kinds. `classes` are the label keys of the provider's node classes.
pub(super) fn write_condition_gauges(
    out: &mut Exposition,
    pools: &[Arc<NodePool>],
    claims: &[Arc<TrackedClaim>],
    nodes: &[Arc<Node>],
    node_classes: &[(NodeClassKind, Arc<NodeClass>)],
    classes: &[String],
    now: Timestamp,
) {
    let value = |key: &str, label_value: Option<&str>| (label_name(key), label_value.unwrap_or_default().to_owned());
    let pools = pools.iter().map(|pool| ConditionedObject {
        group: GROUP,
        kind: "NodePool",
        name: pool.key(),
        deleted: pool.metadata.deletion_timestamp.as_ref().map(|time| time.0),
        conditions: pool.status.as_ref().map(|status| status.conditions.clone()).unwrap_or_default(),
        extra_labels: Vec::new(),
    });
    let claims = claims.iter().map(|claim| ConditionedObject {
        group: GROUP,
        kind: "NodeClaim",
        name: claim.name().clone(),
        deleted: claim.object.metadata.deletion_timestamp.as_ref().map(|time| time.0),
        conditions: claim.object.status.as_ref().map(|status| status.conditions.clone()).unwrap_or_default(),
        extra_labels: claim_keys(classes).map(|key| value(key, claim.engine_claim.labels.get(key))).collect(),
    });
    let class_objects = node_classes.iter().map(|(kind, class)| ConditionedObject {
        group: kind.group,
        kind: kind.kind,
        name: Str::new(class.name()),
        deleted: class.metadata.deletion_timestamp.as_ref().map(|time| time.0),
        conditions: class.conditions.clone(),
        extra_labels: Vec::new(),
    });
    let karpenter_objects: Vec<ConditionedObject> = pools.chain(claims).chain(class_objects).collect();
    let nodes: Vec<ConditionedObject> = nodes
        .iter()
        .map(|node| ConditionedObject {
            group: "",
            kind: "Node",
            name: node.metadata.name.clone(),
            deleted: node.metadata.deletion_timestamp,
            conditions: node_conditions(node),
            extra_labels: node_keys(classes).map(|key| value(key, node.metadata.labels.get(key))).collect(),
        })
        .collect();
    let own = |object: &'_ ConditionedObject| -> Vec<(String, String)> { object.extra_labels.clone() };
    let deprecated = |object: &'_ ConditionedObject| -> Vec<(String, String)> {
        vec![("group".to_owned(), object.group.to_owned()), ("kind".to_owned(), object.kind.to_owned())]
    };
    let class_kinds: BTreeSet<&str> = node_classes.iter().map(|(kind, _)| kind.kind).collect();
    for kind in ["NodePool", "NodeClaim"].into_iter().chain(class_kinds) {
        let of_kind: Vec<&ConditionedObject> = karpenter_objects.iter().filter(|object| object.kind == kind).collect();
        write_condition_families(out, &format!("operator_{}", kind.to_lowercase()), &of_kind, own, now);
    }
    write_condition_families(out, "operator_node", &nodes.iter().collect::<Vec<_>>(), own, now);
    write_condition_families(out, "operator", &karpenter_objects.iter().collect::<Vec<_>>(), deprecated, now);
}

/// Writes the three gauge families with one name prefix.
fn write_condition_families(
    out: &mut Exposition,
    prefix: &str,
    objects: &[&ConditionedObject],
    extra: fn(&ConditionedObject) -> Vec<(String, String)>,
    now: Timestamp,
) {
    let objects: Vec<(&ConditionedObject, Vec<(String, String)>)> =
        objects.iter().map(|object| (*object, extra(object))).collect();
    let identity = |object: &ConditionedObject| -> LabelPairs<'_> {
        vec![("namespace", String::new()), ("name", object.name.to_string())]
    };
    fn with_extra<'a>(mut pairs: LabelPairs<'a>, extra: &'a [(String, String)]) -> LabelPairs<'a> {
        pairs.extend(extra.iter().map(|(name, value)| (name.as_str(), value.clone())));
        pairs
    }
    let series = |value: fn(&Condition, Timestamp) -> f64| {
        objects.iter().flat_map(move |(object, extra)| {
            object.conditions.iter().map(move |condition| {
                let mut pairs = identity(object);
                pairs.push(("type", condition.condition_type.clone()));
                pairs.push(("status", condition.status.to_string()));
                pairs.push(("reason", condition.reason.clone()));
                (with_extra(pairs, extra), value(condition, now))
            })
        })
    };
    out.write_family(
        &format!("{prefix}_status_condition_count"),
        "The number of a condition for a kind, type and status.",
        series(|_, _| 1.0),
    );
    out.write_family(
        &format!("{prefix}_status_condition_current_status_seconds"),
        "The current amount of time in seconds that a status condition has been in a specific state.",
        series(|condition, now| now.duration_since(condition.last_transition_time.0).as_secs_f64()),
    );
    out.write_family(
        &format!("{prefix}_termination_current_time_seconds"),
        "The current amount of time in seconds that an object has been in terminating state.",
        objects.iter().filter_map(|(object, extra)| {
            Some((with_extra(identity(object), extra), now.duration_since(object.deleted?).as_secs_f64()))
        }),
    );
}
