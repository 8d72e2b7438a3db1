//! One run: the cluster lives through its scenario while the system under test does what it does. Everything happens on the runtime's
//! clock; on a paused one that is virtual time, on a real one it is a show.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures::future::BoxFuture;
use k8s_openapi::api::core;
use kerf_api::nodeclaim::NodeClaim;
use kerf_api::nodepool::NodePool;
use kerf_runtime::{Event, Kind, WatchSettings, watch};
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::act::Person;
use super::faults::{NamedFault, SYSTEM};
use super::invariants;
use super::ledger::{Ledger, Recent};
use super::report::{Report, Sample};
use super::scenario::Scenario;
use crate::cluster::{Cluster, Cost};

/// How often somebody looks and tells.
const TICK: Duration = Duration::from_secs(5);
/// How long everything may take to come right once nothing goes wrong any more: longer than it takes to give up on a machine.
const PATIENCE: Duration = Duration::from_mins(45);
/// How many samples a report has at most.
const SAMPLES: u32 = 48;

/// A run in the making.
#[derive(Clone, Debug)]
pub struct Simulation {
    /// What happens.
    pub scenario: Scenario,
    /// Where chance comes from.
    pub seed: u64,
}

/// Something to tell whoever watches.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line {
    /// When, counted from the start.
    pub at: Duration,
    /// What.
    pub text: String,
}

impl fmt::Display for Line {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = self.at.as_secs();
        write!(f, "{:02}:{:02}:{:02}  {}", seconds / 3600, seconds / 60 % 60, seconds % 60, self.text)
    }
}

#[derive(Clone)]
struct Shared(Arc<Mutex<Ledger>>);

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Ledger> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Simulation {
    /// Lives through it on a cluster, with somebody who runs its nodes, and says what came of it.
    pub async fn run(&self, cluster: &Cluster, system: BoxFuture<'static, ()>, mut tell: impl FnMut(Line)) -> Report {
        let clock = cluster.api().clock();
        let started = Instant::now();
        let ledger = Shared(Arc::new(Mutex::new(Ledger::new(clock.now()))));
        let mut tasks = JoinSet::new();
        self.observe(cluster, &ledger, &mut tasks);
        tasks.spawn(system);
        cluster.api().start_audit();
        self.set_faults(cluster, &self.scenario.faults);

        let person = Person::new(cluster);
        let end = started + self.scenario.until;
        let every = (self.scenario.until / SAMPLES).max(TICK);
        let mut steps = self.scenario.steps.iter().peekable();
        let (mut next_tick, mut next_sample) = (started + TICK, started);
        loop {
            let next_step = steps.peek().map(|step| started + step.at);
            let wake = next_step.map_or(next_tick, |step| step.min(next_tick)).min(end);
            tokio::time::sleep_until(wake).await;
            let at = started.elapsed();
            let now = clock.now();
            while let Some(step) = steps.next_if(|step| started + step.at <= wake) {
                narrate(cluster, &ledger, at, &mut tell);
                if let Some(say) = &step.say {
                    tell(Line { at, text: format!("» {say}") });
                }
                if let Some(faults) = &step.faults {
                    self.set_faults(cluster, faults);
                }
                let machines = ledger.lock().machines();
                for refused in person.act(step, &machines) {
                    ledger.lock().violate(now, "every step is possible", refused);
                }
            }
            if wake >= next_sample {
                ledger.lock().keep_sample(now);
                next_sample += every;
            }
            if wake >= next_tick {
                narrate(cluster, &ledger, at, &mut tell);
                next_tick += TICK;
            }
            if wake >= end {
                break;
            }
        }
        self.settle(cluster, &ledger, started, &mut tell).await;
        drop(tasks);
        let now = clock.now();
        ledger.lock().keep_sample(now);
        let finished = std::mem::replace(&mut *ledger.lock(), Ledger::new(now));
        finished.report(&self.scenario.name, self.seed, cluster.api().fingerprint(), now)
    }

    /// The liveness phase: nothing goes wrong any more, so everything must come right.
    async fn settle(&self, cluster: &Cluster, ledger: &Shared, started: Instant, tell: &mut impl FnMut(Line)) {
        self.set_faults(cluster, &[]);
        let deadline = Instant::now() + PATIENCE;
        loop {
            let unsettled = invariants::unsettled(&ledger.lock(), self.scenario.pending);
            if unsettled.is_empty() {
                return;
            }
            if Instant::now() >= deadline {
                let now = cluster.api().clock().now();
                for (rule, what) in unsettled {
                    ledger.lock().violate(now, rule, what);
                }
                return;
            }
            tokio::time::sleep(TICK).await;
            narrate(cluster, ledger, started.elapsed(), tell);
        }
    }

    fn set_faults(&self, cluster: &Cluster, faults: &[NamedFault]) {
        cluster.api().set_faults(faults.iter().filter_map(|fault| fault.at_the_api()).collect(), self.seed);
        cluster.cloud().set_faults(faults.iter().filter_map(|fault| fault.at_the_cloud()).collect(), self.seed);
    }

    /// Watches everything that the ledger keeps.
    fn observe(&self, cluster: &Cluster, ledger: &Shared, tasks: &mut JoinSet<()>) {
        let clock = cluster.api().clock();
        let client = || cluster.api().client_as("simulation");
        let book = || ledger.clone();
        let settings = |kind| WatchSettings::new(kind, self.seed);
        let pods = book();
        tasks.spawn(
            watch(client(), settings(Kind::of::<core::v1::Pod>()), move |event| {
                pods.lock().on_pod(event, clock.now());
            })
            .1,
        );
        let nodes = book();
        tasks.spawn(
            watch(client(), settings(Kind::of::<core::v1::Node>()), move |event| {
                nodes.lock().on_node(event, clock.now());
            })
            .1,
        );
        let claims = book();
        tasks.spawn(
            watch(client(), settings(Kind::of::<NodeClaim>()), move |event: Event<NodeClaim>| {
                claims.lock().on_claim(event, clock.now());
            })
            .1,
        );
        let pools = book();
        tasks.spawn(watch(client(), settings(Kind::of::<NodePool>()), move |event| pools.lock().on_pool(event)).1);
    }
}

/// Tells what has happened since this was last told, in a line.
fn narrate(cluster: &Cluster, ledger: &Shared, at: Duration, tell: &mut impl FnMut(Line)) {
    let is_eviction = |write: &crate::audit::Write| {
        write.agent == SYSTEM && write.subresource == "eviction" && (200..300).contains(&write.code)
    };
    let evictions = cluster.api().take_audit().iter().filter(|write| is_eviction(write)).count();
    let mut book = ledger.lock();
    book.evictions += evictions;
    let recent = book.take_recent();
    if recent == Recent::default() && evictions == 0 {
        return;
    }
    let sample = book.sample(cluster.api().clock().now());
    drop(book);
    tell(Line { at, text: sentence(&recent, evictions, &sample) });
}

/// What happened, and how things stand now.
fn sentence(recent: &Recent, evictions: usize, sample: &Sample) -> String {
    let mut parts = Vec::new();
    let mut part = |count: usize, one: &str, many: &str| {
        if count > 0 {
            parts.push(format!("{count} {}", if count == 1 { one } else { many }));
        }
    };
    part(recent.pending, "pod created", "pods created");
    part(recent.claims, "claim created", "claims created");
    part(recent.nodes_up, "node came", "nodes came");
    part(recent.running, "pod started", "pods started");
    part(evictions, "pod evicted", "pods evicted");
    part(recent.ended, "pod ended", "pods ended");
    part(recent.nodes_down, "node gone", "nodes gone");
    for (reason, count) in &recent.moves {
        part(*count, &format!("claim ended ({reason})"), &format!("claims ended ({reason})"));
    }
    let cost = Cost { nodes: sample.nodes, micro_dollars_per_hour: sample.micro_dollars_per_hour };
    format!("{}  ·  {} waiting, {} running, {cost}", parts.join(", "), sample.pending, sample.running)
}
