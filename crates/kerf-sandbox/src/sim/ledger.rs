//! What happened, written down as it happens: pods, nodes, claims and the money that they cost. It is fed by watches, like everybody else,
//! so it sees every change, and it is the place where the invariants are checked.

use std::collections::BTreeMap;

use jiff::Timestamp;
use kerf_api::conditions::ConditionStatus;
use kerf_api::nodeclaim::NodeClaim;
use kerf_api::nodepool::NodePool;
use kerf_api::slim::{Node, Pod, PodPhase, Str};
use kerf_runtime::Event;

use super::invariants;
use super::report::{CostReport, NodeReport, PodReport, Report, Sample, TimesToRun, Violation};
use crate::cluster::{PRICE, micro_dollars};

/// The condition that says why a claim is disrupted.
const DISRUPTION_REASON: &str = "DisruptionReason";
const POOL: &str = "karpenter.sh/nodepool";
const CAPACITY_TYPE: &str = "karpenter.sh/capacity-type";

/// A pod as far as the story is concerned.
#[derive(Debug)]
pub(super) struct PodRecord {
    pub(super) pod: Pod,
    pub(super) is_gone: bool,
    created: Timestamp,
    ran: Option<Timestamp>,
}

/// A claim as far as the story is concerned.
#[derive(Debug)]
pub(super) struct ClaimRecord {
    pub(super) pool: String,
    pub(super) node: String,
    /// Why it goes, if somebody decided so.
    pub(super) reason: Option<String>,
    pub(super) provider_id: String,
}

#[derive(Debug)]
pub(super) struct NodeRecord {
    pub(super) provider_id: Str,
    pub(super) capacity_type: String,
    price: u64,
}

/// What has happened since somebody last asked.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Recent {
    pub(super) pending: usize,
    pub(super) running: usize,
    pub(super) ended: usize,
    pub(super) claims: usize,
    pub(super) nodes_up: usize,
    pub(super) nodes_down: usize,
    pub(super) moves: BTreeMap<String, usize>,
}

/// Everything that happened.
#[derive(Debug)]
pub(super) struct Ledger {
    started: Timestamp,
    pub(super) pods: BTreeMap<Str, PodRecord>,
    pub(super) nodes: BTreeMap<Str, NodeRecord>,
    pub(super) claims: BTreeMap<String, ClaimRecord>,
    pub(super) pools: BTreeMap<String, NodePool>,
    recent: Recent,
    launched: usize,
    peak_nodes: usize,
    moves: BTreeMap<String, usize>,
    pub(super) evictions: usize,
    pub(super) violations: Vec<Violation>,
    samples: Vec<Sample>,
    money: Money,
}

/// Money over time: a rate that changes, and what has come together so far.
#[derive(Debug)]
struct Money {
    since: Timestamp,
    rate: u64,
    peak: u64,
    /// Millionths of a dollar an hour, times milliseconds.
    spent: u128,
    /// The same for the highest rate so far: a cluster that never shrinks.
    unshrunk: u128,
}

impl Money {
    fn pass_until(&mut self, now: Timestamp) {
        let millis = u128::try_from(now.duration_since(self.since).as_millis()).unwrap_or_default();
        self.spent += u128::from(self.rate) * millis;
        self.unshrunk += u128::from(self.peak) * millis;
        self.since = now;
    }

    fn change(&mut self, now: Timestamp, rate: u64) {
        self.pass_until(now);
        self.rate = rate;
        self.peak = self.peak.max(rate);
    }
}

fn dollars(rate_millis: u128) -> u64 {
    u64::try_from(rate_millis / 3_600_000).unwrap_or(u64::MAX)
}

impl Ledger {
    pub(super) fn new(started: Timestamp) -> Self {
        Self {
            started,
            pods: BTreeMap::new(),
            nodes: BTreeMap::new(),
            claims: BTreeMap::new(),
            pools: BTreeMap::new(),
            recent: Recent::default(),
            launched: 0,
            peak_nodes: 0,
            moves: BTreeMap::new(),
            evictions: 0,
            violations: Vec::new(),
            samples: Vec::new(),
            money: Money { since: started, rate: 0, peak: 0, spent: 0, unshrunk: 0 },
        }
    }

    /// Notes that a rule was broken.
    pub(super) fn violate(&mut self, now: Timestamp, rule: &'static str, what: String) {
        let at_seconds = self.seconds(now);
        self.violations.push(Violation { at_seconds, rule, what });
    }

    fn seconds(&self, now: Timestamp) -> u64 {
        u64::try_from(now.duration_since(self.started).as_secs()).unwrap_or_default()
    }

    pub(super) fn on_pod(&mut self, event: Event<Pod>, now: Timestamp) {
        match event {
            Event::Reset(pods) => {
                let known: Vec<Str> = pods.iter().map(|pod| pod.metadata.uid.clone()).collect();
                let gone = self.pods.iter().filter(|(uid, record)| !record.is_gone && !known.contains(uid));
                let gone: Vec<Str> = gone.map(|(uid, _)| uid.clone()).collect();
                for uid in &gone {
                    self.forget_pod(uid);
                }
                for pod in pods {
                    self.note_pod(pod, now);
                }
            }
            Event::Applied(pod) => self.note_pod(pod, now),
            Event::Deleted(pod) => self.forget_pod(&pod.metadata.uid),
        }
    }

    fn forget_pod(&mut self, uid: &str) {
        if let Some(record) = self.pods.get_mut(uid) {
            record.is_gone = true;
            self.recent.ended += 1;
        }
    }

    fn note_pod(&mut self, pod: Pod, now: Timestamp) {
        let uid = pod.metadata.uid.clone();
        let created = pod.metadata.creation_timestamp.unwrap_or(now);
        let is_new = !self.pods.contains_key(&uid);
        let ran = self.pods.get(&uid).and_then(|record| record.ran);
        let runs_now = ran.is_none() && pod.status.phase == PodPhase::Running;
        self.recent.pending += usize::from(is_new);
        self.recent.running += usize::from(runs_now);
        let ran = if runs_now { Some(now) } else { ran };
        self.pods.insert(uid, PodRecord { pod, is_gone: false, created, ran });
    }

    pub(super) fn on_node(&mut self, event: Event<Node>, now: Timestamp) {
        match event {
            Event::Reset(nodes) => {
                let names: Vec<&Str> = nodes.iter().map(|node| &node.metadata.name).collect();
                let gone: Vec<Str> = self.nodes.keys().filter(|name| !names.contains(name)).cloned().collect();
                for name in &gone {
                    self.forget_node(name);
                }
                for node in nodes {
                    self.note_node(&node);
                }
            }
            Event::Applied(node) => self.note_node(&node),
            Event::Deleted(node) => self.forget_node(&node.metadata.name),
        }
        let rate = self.nodes.values().map(|node| node.price).sum();
        self.money.change(now, rate);
        self.peak_nodes = self.peak_nodes.max(self.nodes.len());
        invariants::on_nodes(self, now);
    }

    fn note_node(&mut self, node: &Node) {
        let labels = &node.metadata.labels;
        let record = NodeRecord {
            provider_id: node.spec.provider_id.clone(),
            capacity_type: labels.get(CAPACITY_TYPE).unwrap_or_default().to_owned(),
            price: labels.get(PRICE).map_or(0, micro_dollars),
        };
        if self.nodes.insert(node.metadata.name.clone(), record).is_none() {
            self.recent.nodes_up += 1;
            self.launched += 1;
        }
    }

    fn forget_node(&mut self, name: &str) {
        if self.nodes.remove(name).is_some() {
            self.recent.nodes_down += 1;
        }
    }

    pub(super) fn on_claim(&mut self, event: Event<NodeClaim>, now: Timestamp) {
        match event {
            Event::Reset(claims) => {
                let names: Vec<&str> = claims.iter().filter_map(|claim| claim.metadata.name.as_deref()).collect();
                let gone: Vec<String> =
                    self.claims.keys().filter(|name| !names.contains(&name.as_str())).cloned().collect();
                for name in &gone {
                    self.forget_claim(name);
                }
                for claim in claims {
                    self.note_claim(&claim, now);
                }
            }
            Event::Applied(claim) => self.note_claim(&claim, now),
            Event::Deleted(claim) => self.forget_claim(claim.metadata.name.as_deref().unwrap_or_default()),
        }
    }

    fn note_claim(&mut self, claim: &NodeClaim, now: Timestamp) {
        let name = claim.metadata.name.clone().unwrap_or_default();
        let status = claim.status.clone().unwrap_or_default();
        let reason = status
            .conditions
            .iter()
            .find(|condition| condition.condition_type == DISRUPTION_REASON)
            .filter(|condition| condition.status == ConditionStatus::True)
            .map(|condition| condition.reason.clone());
        let pool = claim.metadata.labels.as_ref().and_then(|labels| labels.get(POOL)).cloned().unwrap_or_default();
        let node = status.node_name.unwrap_or_default();
        let is_decided = reason.is_some() && self.claims.get(&name).is_none_or(|known| known.reason.is_none());
        let record = ClaimRecord { pool, node, reason, provider_id: status.provider_id.unwrap_or_default() };
        self.recent.claims += usize::from(self.claims.insert(name.clone(), record).is_none());
        if is_decided {
            invariants::on_decision(self, &name, now);
        }
    }

    fn forget_claim(&mut self, name: &str) {
        let Some(record) = self.claims.remove(name) else { return };
        let reason = record.reason.unwrap_or_else(|| "Other".to_owned());
        *self.recent.moves.entry(reason.clone()).or_default() += 1;
        *self.moves.entry(reason).or_default() += 1;
    }

    pub(super) fn on_pool(&mut self, event: Event<NodePool>) {
        let mut note = |pool: NodePool| {
            self.pools.insert(pool.metadata.name.clone().unwrap_or_default(), pool);
        };
        match event {
            Event::Reset(pools) => pools.into_iter().for_each(note),
            Event::Applied(pool) => note(pool),
            Event::Deleted(pool) => {
                self.pools.remove(pool.metadata.name.as_deref().unwrap_or_default());
            }
        }
    }

    /// What has happened since this was last asked.
    pub(super) fn take_recent(&mut self) -> Recent {
        std::mem::take(&mut self.recent)
    }

    /// Nodes with their capacity types, by name.
    pub(super) fn machines(&self) -> Vec<(String, String)> {
        self.nodes.iter().map(|(name, node)| (name.to_string(), node.capacity_type.clone())).collect()
    }

    /// Pods that wait for a place, or for their node.
    pub(super) fn waiting(&self) -> impl Iterator<Item = &Pod> {
        let pods = self.live().map(|record| &record.pod);
        pods.filter(|pod| pod.status.phase == PodPhase::Pending && !pod.is_terminating())
    }

    pub(super) fn live(&self) -> impl Iterator<Item = &PodRecord> {
        self.pods.values().filter(|record| !record.is_gone)
    }

    /// How things stand.
    pub(super) fn sample(&mut self, now: Timestamp) -> Sample {
        let running = self.live().filter(|record| record.pod.status.phase == PodPhase::Running).count();
        Sample {
            at_seconds: self.seconds(now),
            pending: self.waiting().count(),
            running,
            nodes: self.nodes.len(),
            micro_dollars_per_hour: self.money.rate,
        }
    }

    /// Remembers how things stand.
    pub(super) fn keep_sample(&mut self, now: Timestamp) {
        let sample = self.sample(now);
        if self.samples.last().is_none_or(|last| last.at_seconds < sample.at_seconds) {
            self.samples.push(sample);
        }
    }

    /// What came of it all.
    pub(super) fn report(mut self, scenario: &str, seed: u64, fingerprint: u64, now: Timestamp) -> Report {
        self.money.pass_until(now);
        let waited = |record: &PodRecord| {
            let ran = record.ran?;
            Some(u64::try_from(ran.duration_since(record.created).as_millis()).unwrap_or_default())
        };
        let times: Vec<u64> = self.pods.values().filter_map(waited).collect();
        let (created, ran, pending) = (self.pods.len(), times.len(), self.waiting().count());
        Report {
            scenario: scenario.to_owned(),
            seed,
            virtual_seconds: self.seconds(now),
            pods: PodReport { created, ran, pending, time_to_run: TimesToRun::of(times) },
            nodes: NodeReport { launched: self.launched, peak: self.peak_nodes, at_end: self.nodes.len() },
            moves: self.moves,
            evictions: self.evictions,
            cost: CostReport {
                spent_micro_dollars: dollars(self.money.spent),
                saved_micro_dollars: dollars(self.money.unshrunk.saturating_sub(self.money.spent)),
                peak_micro_dollars_per_hour: self.money.peak,
                at_end_micro_dollars_per_hour: self.money.rate,
            },
            timeline: self.samples,
            violations: self.violations,
            fingerprint: format!("{fingerprint:016x}"),
        }
    }
}
