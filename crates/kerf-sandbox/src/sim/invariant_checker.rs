//! Records of pods, nodes, NodeClaims and costs during a simulation. The checker receives every
//! change in the order of the writes, and checks the invariants at each.

mod consolidation;
mod prices;
mod scenario_steps;
mod tracked_kind;

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use kerf_api::annotations::{DO_NOT_DISRUPT, kerf::REPLACED};
use kerf_api::conditions::ConditionStatus;
use kerf_api::labels;
use kerf_api::nodeclaim::NodeClaim;
use kerf_api::nodepool::NodePool;
use kerf_api::slim::{Node, Pod, PodPhase, ResourceList, Str};
use serde::Deserialize;
use serde::de::DeserializeOwned;

use super::cost_meter::CostMeter;
use super::invariants;
use super::report::{
    CostComparison, NodeReport, PlanComparisonReport, PodReport, Sample, SimulationReport, TimesToRun, Violation,
};
use super::steady::SteadyCheck;
use crate::api::ObjectKey;
use crate::cluster::{PRICE_LABEL, parse_micro_dollars};
pub(super) use scenario_steps::ObjectsOfPools;
pub(super) use tracked_kind::TrackedKind;

/// Condition of a NodeClaim that holds the reason of its disruption.
const DISRUPTION_REASON: &str = "DisruptionReason";
/// Reason of claims without a disruption decision: expired, instance lost, or deleted by a user.
const OTHER_REASON: &str = "Other";

/// A pod and its history.
#[derive(Debug)]
pub(super) struct PodRecord {
    pub(super) pod: Pod,
    created: Timestamp,
    has_run: bool,
    is_evicted: bool,
    /// True if the pod has the condition of an eviction and is not terminating yet.
    has_eviction_condition: bool,
}

/// The facts about a NodeClaim that the invariants need.
#[derive(Debug, Default)]
pub(super) struct ClaimRecord {
    pub(super) pool: String,
    pub(super) node: Str,
    pub(super) provider_id: String,
    /// Reason of its disruption; `None` if there was no decision.
    pub(super) reason: Option<String>,
    pub(super) is_deleting: bool,
    /// True if the claim has ever been initialized.
    pub(super) is_initialized: bool,
    pub(super) is_terminating: bool,
    pub(super) has_termination_grace_period: bool,
    pub(super) expires: Option<Timestamp>,
    /// Names of the claims that it was launched to replace.
    pub(super) replaces: Vec<String>,
    /// Number of the change that created it.
    pub(super) created_at_change: u64,
    pub(super) disruption_mark: Option<DisruptionMark>,
}

/// State at the decision to disrupt a claim.
#[derive(Debug)]
pub(super) struct DisruptionMark {
    /// Number of the change that held the decision.
    pub(super) at_change: u64,
    /// Uids of the pods on the claim's node.
    pub(super) pods: BTreeSet<Str>,
}

#[derive(Debug)]
pub(super) struct NodeRecord {
    pub(super) provider_id: Str,
    pub(super) pool: String,
    pub(super) capacity_type: String,
    pub(super) created: Timestamp,
    pub(super) is_ready: bool,
    pub(super) is_initialized: bool,
    pub(super) is_protected: bool,
    /// Price of its instance, or of its label.
    price: u64,
    /// Price of its label; 0 for instances of an attached cloud, whose list has their prices.
    label_price: u64,
    allocatable: ResourceList,
}

/// Counts since the last progress line.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct RecentCounts {
    pub(super) pending: usize,
    pub(super) running: usize,
    pub(super) evicted: usize,
    pub(super) ended: usize,
    pub(super) claims: usize,
    pub(super) nodes_up: usize,
    pub(super) nodes_down: usize,
    pub(super) moves: BTreeMap<String, usize>,
}

/// All records of a simulation.
#[derive(Debug)]
pub(super) struct InvariantChecker {
    started: Timestamp,
    /// Number of changes so far.
    changes: u64,
    pub(super) pods: BTreeMap<ObjectKey, PodRecord>,
    /// Keys of the pods on each node.
    on_nodes: BTreeMap<Str, BTreeSet<ObjectKey>>,
    pub(super) nodes: BTreeMap<Str, NodeRecord>,
    pub(super) claims: BTreeMap<String, ClaimRecord>,
    pub(super) pools: BTreeMap<String, NodePool>,
    pub(super) budgets: BTreeMap<ObjectKey, PodDisruptionBudget>,
    recent: RecentCounts,
    created: usize,
    times_to_run: Vec<u64>,
    launched: usize,
    peak_nodes: usize,
    moves: BTreeMap<String, usize>,
    pub(super) evictions: usize,
    evictions_by_reason: BTreeMap<String, usize>,
    /// Number of pods that ran on an instance when it ended.
    pub(super) killed: usize,
    pub(super) steady_check: SteadyCheck,
    /// Comparisons for the report alone.
    pub(super) plan_comparisons: Vec<CostComparison>,
    pub(super) violations: Vec<Violation>,
    /// Violations about the list of instances so far, so that each is recorded once.
    pub(super) instance_violations: BTreeSet<String>,
    samples: Vec<Sample>,
    cost_meter: CostMeter,
    /// Prices of the live instances of the attached cloud, by provider ID.
    instance_prices: BTreeMap<String, u64>,
}

impl InvariantChecker {
    pub(super) fn new(started: Timestamp) -> Self {
        Self {
            started,
            changes: 0,
            pods: BTreeMap::new(),
            on_nodes: BTreeMap::new(),
            nodes: BTreeMap::new(),
            claims: BTreeMap::new(),
            pools: BTreeMap::new(),
            budgets: BTreeMap::new(),
            recent: RecentCounts::default(),
            created: 0,
            times_to_run: Vec::new(),
            launched: 0,
            peak_nodes: 0,
            moves: BTreeMap::new(),
            evictions: 0,
            evictions_by_reason: BTreeMap::new(),
            killed: 0,
            steady_check: SteadyCheck::default(),
            plan_comparisons: Vec::new(),
            violations: Vec::new(),
            instance_violations: BTreeSet::new(),
            samples: Vec::new(),
            cost_meter: CostMeter::new(started),
            instance_prices: BTreeMap::new(),
        }
    }

    /// Records a violation of a rule.
    pub(super) fn record_violation(&mut self, now: Timestamp, rule: &'static str, what: String) {
        let at_seconds = self.seconds_since_start(now);
        self.violations.push(Violation { at_seconds, rule, what });
    }

    pub(super) fn seconds_since_start(&self, now: Timestamp) -> u64 {
        u64::try_from(now.duration_since(self.started).as_secs()).unwrap_or_default()
    }

    /// Records the new state of an object, `None` if it was deleted.
    pub(super) fn apply_change(&mut self, kind: TrackedKind, key: &ObjectKey, object: Option<&[u8]>, now: Timestamp) {
        self.changes += 1;
        match (kind, object) {
            (TrackedKind::Pod, Some(text)) => self.apply_pod(key, text, now),
            (TrackedKind::Pod, None) => self.remove_pod(key, now),
            (TrackedKind::Node, Some(text)) => self.apply_node(text, now),
            (TrackedKind::Node, None) => self.remove_node(key.name(), now),
            (TrackedKind::Claim, Some(text)) => self.apply_claim(text, now),
            (TrackedKind::Claim, None) => self.remove_claim(key.name()),
            (TrackedKind::Pool, Some(text)) => {
                self.pools.extend(decode::<NodePool>(text).map(|pool| (key.name().to_owned(), pool)));
            }
            (TrackedKind::Pool, None) => drop(self.pools.remove(key.name())),
            (TrackedKind::Budget, Some(text)) => self.budgets.extend(decode(text).map(|budget| (key.clone(), budget))),
            (TrackedKind::Budget, None) => drop(self.budgets.remove(key)),
        }
    }

    /// Returns the keys of all recorded objects of a kind.
    pub(super) fn keys(&self, kind: TrackedKind) -> Vec<ObjectKey> {
        let key = |name: &str| ObjectKey::new(None, name);
        match kind {
            TrackedKind::Pod => self.pods.keys().cloned().collect(),
            TrackedKind::Node => self.nodes.keys().map(|name| key(name)).collect(),
            TrackedKind::Claim => self.claims.keys().map(|name| key(name)).collect(),
            TrackedKind::Pool => self.pools.keys().map(|name| key(name)).collect(),
            TrackedKind::Budget => self.budgets.keys().cloned().collect(),
        }
    }

    fn apply_pod(&mut self, key: &ObjectKey, text: &[u8], now: Timestamp) {
        let Some(pod) = decode::<Pod>(text) else { return };
        if self.pods.get(key).is_some_and(|known| known.pod.metadata.uid != pod.metadata.uid) {
            self.remove_pod(key, now);
        }
        let known = self.pods.get(key);
        let was_terminating = known.is_some_and(|known| known.pod.is_terminating());
        let mut record = PodRecord {
            created: known.map_or_else(|| pod.metadata.creation_timestamp.unwrap_or(now), |known| known.created),
            has_run: known.is_some_and(|known| known.has_run),
            is_evicted: known.is_some_and(|known| known.is_evicted),
            has_eviction_condition: false,
            pod,
        };
        if known.is_none() {
            self.created += 1;
            self.recent.pending += 1;
            self.steady_check.record_pod(&record.pod, now);
        }
        if !record.has_run && record.pod.status.phase == PodPhase::Running {
            record.has_run = true;
            self.recent.running += 1;
            let elapsed = now.duration_since(record.created).as_millis();
            self.times_to_run.push(u64::try_from(elapsed).unwrap_or_default());
        }
        let may_be_evicted = !was_terminating && !record.is_evicted && is_evicted(text);
        let is_evicted = may_be_evicted && record.pod.is_terminating();
        record.has_eviction_condition = may_be_evicted && !is_evicted;
        record.is_evicted |= is_evicted;
        if let Some(node) = &record.pod.spec.node_name {
            self.on_nodes.entry(node.clone()).or_default().insert(key.clone());
        }
        self.pods.insert(key.clone(), record);
        if is_evicted {
            self.record_eviction(key, now);
        }
    }

    fn record_eviction(&mut self, key: &ObjectKey, now: Timestamp) {
        self.evictions += 1;
        self.recent.evicted += 1;
        let reason = self.disruption_reason_of(key).unwrap_or(OTHER_REASON).to_owned();
        *self.evictions_by_reason.entry(reason).or_default() += 1;
        invariants::on_eviction(self, key, now);
    }

    fn remove_pod(&mut self, key: &ObjectKey, now: Timestamp) {
        // An evicted pod without a grace period is never terminating: after the condition, it is
        // gone. The eviction of a pod that has ended disrupts nothing.
        if self.pods.get(key).is_some_and(|known| known.has_eviction_condition && !known.pod.is_terminal()) {
            self.record_eviction(key, now);
        }
        let Some(record) = self.pods.remove(key) else { return };
        self.recent.ended += 1;
        if let Some(node) = &record.pod.spec.node_name
            && let Some(pods) = self.on_nodes.get_mut(node)
        {
            pods.remove(key);
        }
    }

    fn apply_node(&mut self, text: &[u8], now: Timestamp) {
        let Some(node) = decode::<Node>(text) else { return };
        let node_labels = &node.metadata.labels;
        let is_ready = node.status.conditions.iter().any(|c| c.condition_type == "Ready" && c.status == "True");
        let label_price = node_labels.get(PRICE_LABEL).map_or(0, parse_micro_dollars);
        let instance_price = self.instance_prices.get(node.spec.provider_id.as_str()).copied();
        let record = NodeRecord {
            provider_id: node.spec.provider_id.clone(),
            pool: node_labels.get(labels::NODEPOOL).unwrap_or_default().to_owned(),
            capacity_type: node_labels.get(labels::CAPACITY_TYPE).unwrap_or_default().to_owned(),
            created: node.metadata.creation_timestamp.unwrap_or(now),
            is_ready,
            is_initialized: node_labels.has_value(labels::INITIALIZED, "true"),
            is_protected: node.metadata.annotations.has_value(DO_NOT_DISRUPT, "true"),
            price: instance_price.unwrap_or(label_price),
            label_price,
            allocatable: node.status.allocatable.clone(),
        };
        if self.nodes.insert(node.metadata.name.clone(), record).is_none() {
            self.recent.nodes_up += 1;
            self.launched += 1;
            self.peak_nodes = self.peak_nodes.max(self.nodes.len());
            invariants::on_new_node(self, &node.metadata.name, now);
        }
        self.update_price(now);
    }

    fn remove_node(&mut self, name: &str, now: Timestamp) {
        if self.nodes.remove(name).is_some() {
            self.recent.nodes_down += 1;
            self.on_nodes.remove(name);
            self.update_price(now);
        }
    }

    fn apply_claim(&mut self, text: &[u8], now: Timestamp) {
        let Some(claim) = decode::<NodeClaim>(text) else { return };
        let name = claim.metadata.name.clone().unwrap_or_default();
        let mut record = ClaimRecord::of(&claim);
        let known = self.claims.remove(&name);
        let was_decided = known.as_ref().is_some_and(|known| known.reason.is_some());
        let was_deleting = known.as_ref().is_some_and(|known| known.is_deleting);
        if let Some(known) = known {
            record.created_at_change = known.created_at_change;
            record.is_initialized |= known.is_initialized;
            record.disruption_mark = known.disruption_mark.filter(|_| record.reason.is_some());
        } else {
            record.created_at_change = self.changes;
            self.recent.claims += 1;
        }
        let (is_decided, is_deleting) = (record.reason.is_some() && !was_decided, record.is_deleting && !was_deleting);
        if is_decided {
            let pods = self.pods_on(&record.node).map(|record| record.pod.metadata.uid.clone()).collect();
            record.disruption_mark = Some(DisruptionMark { at_change: self.changes, pods });
            self.record_consolidation(&name, &record, now);
        }
        self.claims.insert(name.clone(), record);
        if is_decided {
            invariants::on_disruption_decision(self, &name, now);
        }
        if is_deleting {
            invariants::on_claim_deletion(self, &name, now);
        }
    }

    fn remove_claim(&mut self, name: &str) {
        let Some(record) = self.claims.remove(name) else { return };
        let reason = record.reason.unwrap_or_else(|| OTHER_REASON.to_owned());
        *self.recent.moves.entry(reason.clone()).or_default() += 1;
        *self.moves.entry(reason).or_default() += 1;
    }

    /// Returns the reason for which the node of a pod is disrupted, or `None` if there is none.
    fn disruption_reason_of(&self, pod: &ObjectKey) -> Option<&str> {
        let node = self.pods.get(pod)?.pod.spec.node_name.as_ref().filter(|node| !node.is_empty())?;
        self.claims.values().find(|claim| claim.node == *node)?.reason.as_deref()
    }

    /// Returns the counts since the last call, and resets them.
    pub(super) fn take_recent(&mut self) -> RecentCounts {
        std::mem::take(&mut self.recent)
    }

    /// Returns the pods that are bound to a node.
    pub(super) fn pods_on(&self, node: &str) -> impl Iterator<Item = &PodRecord> {
        self.on_nodes.get(node).into_iter().flatten().filter_map(|key| self.pods.get(key))
    }

    /// Returns pods in the phase `Pending`: without a node, or not started yet.
    pub(super) fn pending_pods(&self) -> impl Iterator<Item = &Pod> {
        let pods = self.pods.values().map(|record| &record.pod);
        pods.filter(|pod| pod.status.phase == PodPhase::Pending && !pod.is_terminating())
    }

    /// Returns pod counts, node count and price at this time.
    pub(super) fn sample(&self, now: Timestamp) -> Sample {
        let running = self.pods.values().filter(|record| record.pod.status.phase == PodPhase::Running).count();
        Sample {
            at_seconds: self.seconds_since_start(now),
            pending: self.pending_pods().count(),
            running,
            nodes: self.nodes.len(),
            micro_dollars_per_hour: self.cost_meter.rate,
        }
    }

    /// Adds a sample to the timeline, at most one per second.
    pub(super) fn record_sample(&mut self, now: Timestamp) {
        let sample = self.sample(now);
        if self.samples.last().is_none_or(|last| last.at_seconds < sample.at_seconds) {
            self.samples.push(sample);
        }
    }

    /// Returns the report of the simulation.
    pub(super) fn report(self, scenario: &str, seed: u64, fingerprint: u64, now: Timestamp) -> SimulationReport {
        let (created, ran, pending) = (self.created, self.times_to_run.len(), self.pending_pods().count());
        SimulationReport {
            scenario: scenario.to_owned(),
            seed,
            virtual_seconds: self.seconds_since_start(now),
            nodes: NodeReport { launched: self.launched, peak: self.peak_nodes, at_end: self.nodes.len() },
            pods: PodReport {
                created,
                ran,
                pending,
                killed: self.killed,
                time_to_run: TimesToRun::of(self.times_to_run),
            },
            moves: self.moves,
            evictions: self.evictions,
            evictions_by_reason: self.evictions_by_reason,
            cost: self.cost_meter.report(now),
            steady: self.steady_check.report(),
            plan_comparison: PlanComparisonReport::of(&self.plan_comparisons),
            timeline: self.samples,
            violations: self.violations,
            fingerprint: format!("{fingerprint:016x}"),
        }
    }
}

impl ClaimRecord {
    fn of(claim: &NodeClaim) -> Self {
        let metadata = &claim.metadata;
        let conditions = claim.status.as_ref().map_or(&[][..], |status| &status.conditions);
        let is_true = |kind: &str| {
            conditions.iter().find(|c| c.condition_type == kind).filter(|c| c.status == ConditionStatus::True)
        };
        let status = claim.status.as_ref();
        let created = metadata.creation_timestamp.as_ref().map(|at| at.0);
        let expire_after = claim.spec.expire_after.as_ref().and_then(|text| text.as_str().parse().ok());
        let replaced = metadata.annotations.as_ref().and_then(|all| all.get(REPLACED));
        Self {
            pool: metadata.labels.as_ref().and_then(|all| all.get(labels::NODEPOOL)).cloned().unwrap_or_default(),
            node: status.and_then(|status| status.node_name.as_deref()).map(Str::new).unwrap_or_default(),
            provider_id: status.and_then(|status| status.provider_id.clone()).unwrap_or_default(),
            reason: is_true(DISRUPTION_REASON).map(|condition| condition.reason.clone()),
            is_deleting: metadata.deletion_timestamp.is_some(),
            is_initialized: is_true("Initialized").is_some(),
            is_terminating: is_true("InstanceTerminating").is_some(),
            has_termination_grace_period: claim.spec.termination_grace_period.is_some(),
            expires: created
                .zip(expire_after)
                .map(|(created, after): (Timestamp, kerf_api::duration::Duration)| after.after(created)),
            replaces: replaced
                .and_then(|text| decode::<ReplacedClaims>(text.as_bytes()))
                .unwrap_or_default()
                .node_claims,
            created_at_change: 0,
            disruption_mark: None,
        }
    }
}

/// Value of the annotation in which a claim names the claims that it replaces.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct ReplacedClaims {
    node_claims: Vec<String>,
}

/// Decodes an object. Every stored object can be decoded, because the API server has validated it.
fn decode<T: DeserializeOwned>(text: &[u8]) -> Option<T> {
    serde_json::from_slice(text).ok()
}

/// Returns the key of an object, read from its metadata.
pub(super) fn key_of(text: &[u8]) -> Option<ObjectKey> {
    #[derive(Deserialize)]
    struct WithMetadata {
        metadata: NameAndNamespace,
    }
    #[derive(Deserialize)]
    struct NameAndNamespace {
        name: String,
        namespace: Option<String>,
    }
    let WithMetadata { metadata } = decode(text)?;
    Some(ObjectKey::new(metadata.namespace.as_deref(), &metadata.name))
}

/// Returns true if a pod has the condition of the eviction API.
fn is_evicted(text: &[u8]) -> bool {
    #[derive(Deserialize)]
    struct WithConditions {
        #[serde(default)]
        status: ConditionReasons,
    }
    #[derive(Default, Deserialize)]
    struct ConditionReasons {
        #[serde(default)]
        conditions: Vec<ConditionReason>,
    }
    #[derive(Deserialize)]
    struct ConditionReason {
        #[serde(default)]
        reason: String,
    }
    let pod: Option<WithConditions> = decode(text);
    pod.is_some_and(|pod| pod.status.conditions.iter().any(|c| c.reason == "EvictionByEvictionAPI"))
}
