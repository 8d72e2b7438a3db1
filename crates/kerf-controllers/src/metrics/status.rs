//! `operatorpkg.nodeclaim.status`, `operatorpkg.nodepool.status`, `operatorpkg.node.status` and the
//! controller of the same form for the provider's node classes: count every transition of a condition and publish it as an Event, and do the same for removed
//! finalizers and deleted objects (spec 04 §13.4, spec 07 §6.6 and §8.4). The last observed state
//! is kept in memory: after a restart the first observation of an object counts no past
//! transitions.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};

use jiff::Timestamp;
use k8s_openapi::api::core::v1::ObjectReference;
use kerf_api::conditions::{Condition, ConditionStatus};
use kerf_api::nodepool::{NodeClassReference, NodePool};
use kerf_api::slim::{Node, Str};
use kerf_cloud::NodeClassStatusReport;
use kerf_runtime::ReconcileAction;
use kerf_state::TrackedClaim;

use super::{CALL_BUCKETS, conditions, exponential_buckets};
use crate::context::Context;
use crate::error::Error;
use crate::events::{self, claim_reference, node_reference, pool_reference};
use kerf_operator::Reconcile;
use kerf_operator::events::class_reference;
use kerf_operator::metrics::{Counter, Histogram, Registry};

/// The kind that a [`StatusController`] observes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StatusKind {
    NodeClaim,
    NodePool,
    Node,
    NodeClass(NodeClassStatusReport),
}

impl StatusKind {
    fn name(self) -> &'static str {
        match self {
            Self::NodeClaim => "NodeClaim",
            Self::NodePool => "NodePool",
            Self::Node => "Node",
            Self::NodeClass(report) => report.kind.kind,
        }
    }

    /// Returns the API group of the kind; empty for the core group.
    fn group(self) -> &'static str {
        match self {
            Self::NodeClaim | Self::NodePool => conditions::GROUP,
            Self::Node => "",
            Self::NodeClass(report) => report.kind.group,
        }
    }

    /// Returns the upper bounds of the histograms.
    fn buckets(self) -> Vec<f64> {
        match self {
            Self::NodeClaim | Self::NodePool | Self::Node => default_buckets(),
            Self::NodeClass(_) => CALL_BUCKETS.to_vec(),
        }
    }
}

/// The controller of one kind. Its keys are names of objects of that kind.
pub(crate) struct StatusController {
    ctx: Context,
    kind: StatusKind,
    /// Label keys of the object whose values become metric labels.
    extra_label_keys: Vec<String>,
    families: StatusFamilies,
    last_observed: Mutex<BTreeMap<Str, Arc<ObservedObject>>>,
}

/// An object as it was last observed.
#[derive(Clone, Debug)]
struct ObservedObject {
    reference: ObjectReference,
    /// Includes, as Unknown, conditions that every object of the kind has and that are not stored
    /// yet. Their first transition then counts too.
    conditions: Vec<Condition>,
    finalizers: BTreeSet<String>,
    deleted: Option<Timestamp>,
    extra_labels: Vec<String>,
}

/// The metric families of one name prefix.
#[derive(Debug)]
pub(super) struct StatusFamilies {
    transitions: Counter,
    transition_seconds: Histogram,
    termination_seconds: Histogram,
}

impl StatusFamilies {
    /// Registers the families. Their names begin with `prefix`; `extra` are additional labels, and
    /// `buckets` the upper bounds of the histograms.
    pub(super) fn new(r: &Registry, prefix: &str, extra: &[String], buckets: &[f64]) -> Self {
        let with_extra = |own: &[&'static str]| -> Vec<String> {
            own.iter().map(|label| (*label).to_owned()).chain(extra.iter().cloned()).collect()
        };
        fn texts(labels: &[String]) -> Vec<&str> {
            labels.iter().map(String::as_str).collect()
        }
        Self {
            transitions: r.counter(
                &format!("{prefix}_status_condition_transitions_total"),
                "The count of transitions of a given object, type and status.",
                &texts(&with_extra(&["type", "status", "reason"])),
            ),
            transition_seconds: r.histogram(
                &format!("{prefix}_status_condition_transition_seconds"),
                "The amount of time a condition was in a given state before transitioning.",
                &texts(&with_extra(&["type", "status"])),
                buckets,
            ),
            termination_seconds: r.histogram(
                &format!("{prefix}_termination_duration_seconds"),
                "The amount of time taken by an object to terminate completely.",
                &texts(&with_extra(&[])),
                buckets,
            ),
        }
    }

    /// Registers the families with the deprecated names, which cover all of Karpenter's kinds.
    pub(super) fn deprecated(r: &Registry) -> Self {
        Self::new(r, "operator", &["group".to_owned(), "kind".to_owned()], &default_buckets())
    }
}

/// Returns the upper bounds of the histograms of most kinds.
pub(super) fn default_buckets() -> Vec<f64> {
    exponential_buckets(0.5, 15)
}

impl StatusController {
    pub(crate) fn new(ctx: Context, kind: StatusKind) -> Self {
        let classes: Vec<String> = ctx.cloud.node_classes().iter().map(kerf_cloud::NodeClassKind::label_key).collect();
        let extra_label_keys: Vec<String> = match kind {
            StatusKind::NodeClaim => conditions::claim_keys(&classes).map(str::to_owned).collect(),
            StatusKind::NodePool | StatusKind::NodeClass(_) => Vec::new(),
            StatusKind::Node => conditions::node_keys(&classes).map(str::to_owned).collect(),
        };
        let prefix = format!("operator_{}", kind.name().to_lowercase());
        let names: Vec<String> = extra_label_keys.iter().map(|key| conditions::label_name(key)).collect();
        let families = StatusFamilies::new(ctx.metrics.registry(), &prefix, &names, &kind.buckets());
        Self { ctx, kind, extra_label_keys, families, last_observed: Mutex::default() }
    }

    /// Returns the families to count in, each with the values of its extra labels.
    fn families<'s>(&'s self, object: &'s ObservedObject) -> impl Iterator<Item = (&'s StatusFamilies, Vec<&'s str>)> {
        let own = (&self.families, object.extra_labels.iter().map(String::as_str).collect());
        let deprecated = || (&self.ctx.metrics.deprecated_status, vec![self.kind.group(), self.kind.name()]);
        [own].into_iter().chain((self.kind != StatusKind::Node).then(deprecated))
    }

    fn observe(&self, key: &str) -> Option<ObservedObject> {
        let cluster = self.ctx.cluster.lock();
        let (metadata, conditions, reference) = match self.kind {
            StatusKind::NodeClaim => {
                let object = &cluster.get::<TrackedClaim>(key)?.object;
                (&object.metadata, conditions::claim_conditions(object), claim_reference(object))
            }
            StatusKind::NodePool => {
                let object = cluster.get::<NodePool>(key)?;
                (&object.metadata, conditions::pool_conditions(object), pool_reference(object))
            }
            StatusKind::NodeClass(report) => {
                let kind = report.kind;
                let class = cluster.node_class(&NodeClassReference {
                    group: kind.group.to_owned(),
                    kind: kind.kind.to_owned(),
                    name: key.to_owned(),
                })?;
                (&class.metadata, conditions::class_conditions(class, report.dependents), class_reference(class))
            }
            StatusKind::Node => {
                let node = cluster.get::<Node>(key)?;
                let value = |key: &String| node.metadata.labels.get(key).unwrap_or_default().to_owned();
                return Some(ObservedObject {
                    reference: node_reference(node),
                    conditions: conditions::node_conditions(node),
                    finalizers: node.metadata.finalizers.iter().map(Str::to_string).collect(),
                    deleted: node.metadata.deletion_timestamp,
                    extra_labels: self.extra_label_keys.iter().map(value).collect(),
                });
            }
        };
        let value = |key: &String| metadata.labels.as_ref().and_then(|all| all.get(key)).cloned().unwrap_or_default();
        Some(ObservedObject {
            reference,
            conditions,
            finalizers: metadata.finalizers.iter().flatten().cloned().collect(),
            deleted: metadata.deletion_timestamp.as_ref().map(|time| time.0),
            extra_labels: self.extra_label_keys.iter().map(value).collect(),
        })
    }

    fn record_changes(&self, before: Option<&ObservedObject>, current: &ObservedObject) {
        for condition in &current.conditions {
            let known = before.and_then(|before| {
                before.conditions.iter().find(|known| known.condition_type == condition.condition_type)
            });
            match known {
                Some(known) if known.status == condition.status => {}
                Some(known) => {
                    self.count_transition(current, condition);
                    let took = condition.last_transition_time.0.duration_since(known.last_transition_time.0);
                    let previous_labels = [known.condition_type.as_str(), known.status.as_str()];
                    for (families, extra) in self.families(current) {
                        let labels: Vec<&str> = previous_labels.into_iter().chain(extra).collect();
                        families.transition_seconds.observe(&labels, took.as_secs_f64());
                    }
                    self.ctx.publish(events::transitioned(current.reference.clone(), known, condition));
                }
                None if condition.status == ConditionStatus::Unknown => {}
                None => self.count_transition(current, condition),
            }
        }
        self.publish_finalized(before, current);
    }

    fn count_transition(&self, object: &ObservedObject, condition: &Condition) {
        let own = [condition.condition_type.as_str(), condition.status.as_str(), condition.reason.as_str()];
        for (families, extra) in self.families(object) {
            families.transitions.inc(&own.into_iter().chain(extra).collect::<Vec<&str>>());
        }
    }

    fn publish_finalized(&self, before: Option<&ObservedObject>, current: &ObservedObject) {
        for finalizer in before.iter().flat_map(|before| before.finalizers.difference(&current.finalizers)) {
            self.ctx.publish(events::finalized(current.reference.clone(), finalizer));
        }
    }

    /// Records the end of an object: all of its remaining finalizers were removed.
    fn record_deleted(&self, before: &ObservedObject) {
        let without_finalizers = ObservedObject { finalizers: BTreeSet::new(), ..before.clone() };
        self.publish_finalized(Some(before), &without_finalizers);
        if let Some(deleted) = before.deleted {
            let took = self.ctx.now().duration_since(deleted).as_secs_f64();
            for (families, extra) in self.families(before) {
                families.termination_seconds.observe(&extra, took);
            }
        }
    }
}

impl Reconcile for StatusController {
    type Error = Error;

    /// Compares the object with its last observed state. Never fails.
    async fn reconcile(&self, key: &Str) -> Result<ReconcileAction, Error> {
        let current = self.observe(key).map(Arc::new);
        let before = {
            let mut last_observed = self.last_observed.lock().unwrap_or_else(PoisonError::into_inner);
            match &current {
                Some(current) => last_observed.insert(key.clone(), current.clone()),
                None => last_observed.remove(key),
            }
        };
        let is_same = |before: &ObservedObject| {
            current.as_ref().is_some_and(|current| current.reference.uid == before.reference.uid)
        };
        if let Some(before) = before.as_deref().filter(|before| !is_same(before)) {
            self.record_deleted(before);
        }
        if let Some(current) = &current {
            // A deleted object of the same name is not an earlier state of this one.
            self.record_changes(before.as_deref().filter(|before| is_same(before)), current);
        }
        Ok(ReconcileAction::Done)
    }
}
