//! `operatorpkg.nodeclaim.status` and `operatorpkg.nodepool.status`: count and tell every change of a condition's status, and what finalizers and
//! whole objects leave behind (spec 04 §13.4, spec 07 §6.6 and §8.4). What was seen last is kept in memory: after a restart the first look
//! counts and tells nothing of the past.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, PoisonError};

use jiff::Timestamp;
use k8s_openapi::api::core::v1::ObjectReference;
use kerf_api::conditions::{Condition, ConditionStatus};
use kerf_api::labels;
use kerf_api::nodepool::NodePool;
use kerf_api::slim::Str;
use kerf_state::Claim;

use super::registry::{Counter, Histogram};
use super::{Metrics, doubling};
use crate::context::Context;
use crate::events::{self, about_claim, about_pool};

/// Which kind's conditions are watched over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StatusOf {
    NodeClaim,
    NodePool,
}

/// The controller of one kind.
pub(crate) struct Status {
    ctx: Context,
    of: StatusOf,
    /// Label keys whose values are labels of the metrics.
    extra: Vec<String>,
    transitions: Counter,
    transition_seconds: Histogram,
    termination_seconds: Histogram,
    seen: Mutex<BTreeMap<Str, Seen>>,
}

/// An object as it was last seen.
#[derive(Clone, Debug)]
struct Seen {
    about: ObjectReference,
    conditions: Vec<Condition>,
    finalizers: BTreeSet<String>,
    deleted: Option<Timestamp>,
    extra: Vec<String>,
}

impl Status {
    pub(crate) fn new(ctx: Context, of: StatusOf) -> Self {
        let (kind, extra) = match of {
            StatusOf::NodeClaim => {
                let classes = ctx.cloud.node_classes().iter().map(kerf_cloud::NodeClassKind::label_key);
                ("nodeclaim", classes.chain([labels::NODEPOOL.to_owned()]).collect())
            }
            StatusOf::NodePool => ("nodepool", Vec::new()),
        };
        let (transitions, transition_seconds, termination_seconds) = families(&ctx.metrics, kind, &extra);
        Self { ctx, of, extra, transitions, transition_seconds, termination_seconds, seen: Mutex::default() }
    }

    /// Compares the object with what it was; there is nothing that could fail.
    pub(crate) fn reconcile(&self, key: &Str) {
        let now = self.look(key);
        let before = {
            let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
            match &now {
                Some(now) => seen.insert(key.clone(), now.clone()),
                None => seen.remove(key),
            }
        };
        match (before, now) {
            (before, Some(now)) => self.compare(before.as_ref(), &now),
            (Some(before), None) => self.gone(&before),
            (None, None) => {}
        }
    }

    fn look(&self, key: &str) -> Option<Seen> {
        let cluster = self.ctx.cluster.lock();
        let (metadata, conditions, about) = match self.of {
            StatusOf::NodeClaim => {
                let object = &cluster.get::<Claim>(key)?.object;
                let conditions = object.status.as_ref().map(|status| status.conditions.clone());
                (&object.metadata, conditions, about_claim(object))
            }
            StatusOf::NodePool => {
                let object = cluster.get::<NodePool>(key)?;
                let conditions = object.status.as_ref().map(|status| status.conditions.clone());
                (&object.metadata, conditions, about_pool(object))
            }
        };
        let value = |key: &String| metadata.labels.as_ref().and_then(|all| all.get(key)).cloned().unwrap_or_default();
        Some(Seen {
            about,
            conditions: conditions.unwrap_or_default(),
            finalizers: metadata.finalizers.iter().flatten().cloned().collect(),
            deleted: metadata.deletion_timestamp.as_ref().map(|time| time.0),
            extra: self.extra.iter().map(value).collect(),
        })
    }

    fn compare(&self, before: Option<&Seen>, now: &Seen) {
        for condition in &now.conditions {
            let known = before.and_then(|before| {
                before.conditions.iter().find(|known| known.condition_type == condition.condition_type)
            });
            match known {
                Some(known) if known.status == condition.status => {}
                Some(known) => {
                    self.count(now, condition);
                    let took = condition.last_transition_time.0.duration_since(known.last_transition_time.0);
                    let left = [known.condition_type.as_str(), known.status.as_str()];
                    let labels: Vec<&str> = left.into_iter().chain(now.extra.iter().map(String::as_str)).collect();
                    self.transition_seconds.observe(&labels, took.as_secs_f64());
                    self.ctx.publish(events::transitioned(now.about.clone(), known, condition));
                }
                None if condition.status == ConditionStatus::Unknown => {}
                None => self.count(now, condition),
            }
        }
        self.tell_finalized(before, now);
    }

    fn count(&self, object: &Seen, condition: &Condition) {
        let own = [condition.condition_type.as_str(), condition.status.as_str(), condition.reason.as_str()];
        let labels: Vec<&str> = own.into_iter().chain(object.extra.iter().map(String::as_str)).collect();
        self.transitions.inc(&labels);
    }

    fn tell_finalized(&self, before: Option<&Seen>, now: &Seen) {
        for finalizer in before.iter().flat_map(|before| before.finalizers.difference(&now.finalizers)) {
            self.ctx.publish(events::finalized(now.about.clone(), finalizer));
        }
    }

    /// An object that is gone had all its finalizers removed.
    fn gone(&self, before: &Seen) {
        let nothing = Seen { finalizers: BTreeSet::new(), ..before.clone() };
        self.tell_finalized(Some(before), &nothing);
        if let Some(deleted) = before.deleted {
            let took = self.ctx.now().duration_since(deleted).as_secs_f64();
            let labels: Vec<&str> = before.extra.iter().map(String::as_str).collect();
            self.termination_seconds.observe(&labels, took);
        }
    }
}

fn families(metrics: &Metrics, kind: &str, extra: &[String]) -> (Counter, Histogram, Histogram) {
    let registry = metrics.registry();
    let names: Vec<String> = extra.iter().map(|key| super::state::label_name(key)).collect();
    let with = |own: &[&'static str]| -> Vec<String> {
        own.iter().map(|label| (*label).to_owned()).chain(names.iter().cloned()).collect()
    };
    fn texts(labels: &[String]) -> Vec<&str> {
        labels.iter().map(String::as_str).collect()
    }
    let buckets = doubling(0.5, 15);
    let transitions = registry.counter(
        &format!("operator_{kind}_status_condition_transitions_total"),
        "The count of transitions of a given object, type and status.",
        &texts(&with(&["type", "status", "reason"])),
    );
    let seconds = registry.histogram(
        &format!("operator_{kind}_status_condition_transition_seconds"),
        "The amount of time a condition was in a given state before transitioning.",
        &texts(&with(&["type", "status"])),
        &buckets,
    );
    let termination = registry.histogram(
        &format!("operator_{kind}_termination_duration_seconds"),
        "The amount of time taken by an object to terminate completely.",
        &texts(&with(&[])),
        &buckets,
    );
    (transitions, seconds, termination)
}
