//! One simulation: performs the steps of a scenario on a cluster while the system under test runs.
//! Everything uses the runtime's clock. On a paused clock that is virtual time; on a running clock
//! it is a demonstration in real time.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use jiff::{SignedDuration, Timestamp};
use tokio::time::Instant;

use super::actor::ScenarioActor;
use super::expectations::{ControllerOutput, failed_expectations};
use super::faults::FaultSetting;
use super::invariant_checker::RecentCounts;
use super::invariant_watcher::InvariantWatcher;
use super::invariants;
use super::replicas::{ReplicaStart, Replicas};
use super::report::{Sample, SimulationReport};
use super::scenario::{ControllerName, Scenario, ScenarioStep, Steady};
use crate::cluster::{Cluster, ClusterCost};

/// Interval of progress lines, and of the checks in the liveness phase.
const POLL_INTERVAL: Duration = Duration::from_secs(5);
/// Time for which the liveness phase may last. It is longer than the autoscaler takes to give up on
/// an instance.
const LIVENESS_TIMEOUT: Duration = Duration::from_mins(45);
/// Time after the end of a fault during which the cost is not compared with the best plan.
const COST_SETTLE_TIME: Duration = Duration::from_mins(30);
/// Age from which a workload counts as unchanged if the scenario states none.
const DEFAULT_UNCHANGED_FOR: Duration = Duration::from_hours(1);
/// Approximate number of samples in a report.
const MAX_SAMPLES: u32 = 48;

/// A scenario and a seed, ready to run.
#[derive(Clone)]
pub struct Simulation {
    /// The scenario to run.
    pub scenario: Scenario,
    /// Seed of all random numbers.
    pub seed: u64,
    /// Log and metrics of the controllers, for expectations; `None` if they are not collected.
    pub output: Option<Arc<dyn ControllerOutput>>,
}

/// A line of progress for a person watching the simulation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProgressLine {
    /// Time since the start of the simulation.
    pub at: Duration,
    /// Text of the line, without the time.
    pub text: String,
}

impl fmt::Display for ProgressLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = self.at.as_secs();
        write!(f, "{:02}:{:02}:{:02}  {}", seconds / 3600, seconds / 60 % 60, seconds % 60, self.text)
    }
}

impl Simulation {
    /// Runs the scenario on a cluster, and returns the report.
    ///
    /// `start` returns a process of the autoscaler under test. It is called for each replica and
    /// for each restart; all processes are stopped at the end. `best_price` returns the cost of the
    /// best plan for all existing pods in millionths of a dollar per hour, or `None` if it is
    /// unknown. `on_progress` receives the lines of progress.
    pub async fn run(
        &self,
        cluster: &Cluster,
        start: impl Fn(ReplicaStart) -> BoxFuture<'static, ()>,
        best_price: impl AsyncFn() -> Option<u64>,
        mut on_progress: impl FnMut(ProgressLine),
    ) -> SimulationReport {
        let clock = cluster.api().clock();
        let started = Instant::now();
        let watcher = InvariantWatcher::start(cluster);
        let mut replicas = Replicas::new(start, self.scenario.needs_leader_election());
        replicas.scale(self.scenario.replicas.unwrap_or(1));
        let mut faults: &[FaultSetting] = &self.scenario.faults;
        self.set_faults(cluster, faults);

        let mut actor = ScenarioActor::new(cluster, self.seed);
        let end = started + self.scenario.until;
        let every = (self.scenario.until / MAX_SAMPLES).max(POLL_INTERVAL);
        let mut steps = self.scenario.timeline().into_iter().peekable();
        let (mut next_tick, mut next_sample) = (started + POLL_INTERVAL, started);
        let comparison_times = self.scenario.comparison_times();
        let mut next_comparison = comparison_times.map(|(from, _)| started + from);
        loop {
            let next_step = steps.peek().map(|timed| started + timed.at);
            let timers = [next_step, next_comparison, replicas.next_due()];
            let wake = timers.into_iter().flatten().fold(next_tick, Instant::min).min(end);
            tokio::time::sleep_until(wake).await;
            let at = started.elapsed();
            let now = clock.now();
            replicas.advance();
            if let (Some((_, interval)), Some(due)) = (comparison_times, next_comparison.filter(|due| *due <= wake)) {
                let settled = at.saturating_sub(COST_SETTLE_TIME);
                let is_faulty = faults.iter().any(|fault| fault.overlaps(settled, at));
                match &self.scenario.steady {
                    Some(steady) => {
                        let best = if is_faulty { None } else { best_price().await };
                        check_cost(&watcher, steady, best, now);
                    }
                    None => record_plan_price(&watcher, best_price().await, now),
                }
                next_comparison = Some(due + interval);
            }
            while let Some(timed) = steps.next_if(|timed| started + timed.at <= wake) {
                let step = timed.step;
                emit_progress(&watcher, at, now, &mut on_progress);
                if let Some(say) = &step.say {
                    on_progress(ProgressLine { at, text: format!("» {say}") });
                }
                let path = format!("steps[{}]", timed.index);
                if let Some(expected) = &step.expect {
                    let objects = watcher.checker().objects_of_pools();
                    let failed = failed_expectations(expected, self.output.as_deref(), &mut actor, &objects);
                    let cloud = cluster.api().attached_cloud();
                    let mut checker = watcher.checker();
                    for difference in checker.unexpected_counts(expected, cloud.as_deref()).into_iter().chain(failed) {
                        checker.record_violation(now, "expectations hold", format!("{path}.expect: {difference}"));
                    }
                }
                if let Some(changed) = &step.faults {
                    faults = changed;
                    self.set_faults(cluster, faults);
                }
                let objects = watcher.checker().objects_of_pools();
                let mut errors = actor.perform(step, &path, &objects);
                errors.extend(perform_process_step(step, &path, &mut replicas, &actor));
                if let Some(jump) = step.clock.map(|clock| clock.jump) {
                    if clock.jump(jump) {
                        watcher.checker().record_clock_jump(SignedDuration::try_from(jump).unwrap_or_default());
                    } else {
                        errors.push(format!("{path}.clock: the clock of this cluster cannot jump"));
                    }
                }
                let now = clock.now();
                for error in errors {
                    watcher.checker().record_violation(now, "every step succeeds", error);
                }
            }
            let now = clock.now();
            if wake >= next_sample {
                watcher.checker().record_sample(now);
                next_sample += every;
            }
            if wake >= next_tick {
                emit_progress(&watcher, at, now, &mut on_progress);
                next_tick += POLL_INTERVAL;
            }
            if wake >= end {
                break;
            }
        }
        self.run_liveness_phase(cluster, &watcher, &mut replicas, started, &mut on_progress).await;
        drop(replicas);
        let now = clock.now();
        watcher.checker().record_sample(now);
        watcher.into_checker(now).report(&self.scenario.name, self.seed, cluster.api().fingerprint(), now)
    }

    /// Runs the liveness phase: faults are off, and the cluster must reach the desired state before
    /// the timeout.
    async fn run_liveness_phase(
        &self,
        cluster: &Cluster,
        watcher: &InvariantWatcher,
        replicas: &mut Replicas<impl Fn(ReplicaStart) -> BoxFuture<'static, ()>>,
        started: Instant,
        on_progress: &mut impl FnMut(ProgressLine),
    ) {
        self.set_faults(cluster, &[]);
        let deadline = Instant::now() + LIVENESS_TIMEOUT;
        loop {
            let cloud = cluster.api().attached_cloud();
            let violations =
                invariants::liveness_violations(&watcher.checker(), cloud.as_deref(), self.scenario.pending);
            if violations.is_empty() {
                return;
            }
            if Instant::now() >= deadline {
                let now = cluster.api().clock().now();
                for (rule, message) in violations {
                    watcher.checker().record_violation(now, rule, message);
                }
                return;
            }
            tokio::time::sleep(POLL_INTERVAL).await;
            replicas.advance();
            emit_progress(watcher, started.elapsed(), cluster.api().clock().now(), on_progress);
        }
    }

    fn set_faults(&self, cluster: &Cluster, faults: &[FaultSetting]) {
        cluster.api().set_faults(faults.iter().filter_map(|fault| fault.api_rule()).collect(), self.seed);
        cluster.cloud().set_faults(faults.iter().filter_map(|fault| fault.cloud_rule()).collect(), self.seed);
    }
}

/// Performs the actions of a step that affect the processes under test. Returns the actions that
/// failed.
fn perform_process_step(
    step: &ScenarioStep,
    path: &str,
    replicas: &mut Replicas<impl Fn(ReplicaStart) -> BoxFuture<'static, ()>>,
    actor: &ScenarioActor<'_>,
) -> Vec<String> {
    if let Some(count) = step.replicas {
        replicas.scale(count);
    }
    let kill = step.kill.map(|ControllerName::Controller| ("kill", replicas.kill(&actor.lease_holders())));
    let stop = step.stop.map(|stop| ("stop", replicas.stop(&actor.lease_holders(), stop.controller)));
    let outcomes = kill.into_iter().chain(stop);
    outcomes.filter_map(|(action, outcome)| Some(format!("{path}.{action}: {}", outcome.err()?))).collect()
}

/// Compares the cost of the nodes with the cost of the best plan.
fn check_cost(watcher: &InvariantWatcher, steady: &Steady, best: Option<u64>, now: Timestamp) {
    let mut checker = watcher.checker();
    let unchanged_for = steady.unchanged_for.unwrap_or(DEFAULT_UNCHANGED_FOR);
    checker.steady_check.start(SignedDuration::try_from(unchanged_for).unwrap_or(SignedDuration::MAX));
    let Some(best_micro_dollars_per_hour) = best else { return };
    let comparison = checker.compare_cost(best_micro_dollars_per_hour, now);
    checker.steady_check.add_comparison(comparison);
    if comparison.permille() > 1000 + 10 * u64::from(steady.cost_within_percent) {
        let message = format!(
            "the nodes cost {} millionths of a dollar per hour, the best plan costs {best_micro_dollars_per_hour}",
            comparison.micro_dollars_per_hour
        );
        checker.record_violation(now, "cost is close to the best plan", message);
    }
}

/// Records the price of the nodes and that of the best plan for the report.
fn record_plan_price(watcher: &InvariantWatcher, best: Option<u64>, now: Timestamp) {
    let mut checker = watcher.checker();
    if let Some(best) = best {
        let comparison = checker.compare_cost(best, now);
        checker.plan_comparisons.push(comparison);
    }
}

/// Emits a line about everything since the last line, if anything has happened.
fn emit_progress(watcher: &InvariantWatcher, at: Duration, now: Timestamp, on_progress: &mut impl FnMut(ProgressLine)) {
    let mut checker = watcher.checker();
    let recent = checker.take_recent();
    if recent == RecentCounts::default() {
        return;
    }
    let sample = checker.sample(now);
    drop(checker);
    on_progress(ProgressLine { at, text: progress_text(&recent, &sample) });
}

/// Returns a line with the recent counts and the current state.
fn progress_text(recent: &RecentCounts, sample: &Sample) -> String {
    let mut parts = Vec::new();
    let mut part = |count: usize, one: &str, many: &str| {
        if count > 0 {
            parts.push(format!("{count} {}", if count == 1 { one } else { many }));
        }
    };
    part(recent.pending, "pod created", "pods created");
    part(recent.claims, "claim created", "claims created");
    part(recent.nodes_up, "node joined", "nodes joined");
    part(recent.running, "pod started", "pods started");
    part(recent.evicted, "pod evicted", "pods evicted");
    part(recent.ended, "pod deleted", "pods deleted");
    part(recent.nodes_down, "node removed", "nodes removed");
    for (reason, count) in &recent.moves {
        part(*count, &format!("claim deleted ({reason})"), &format!("claims deleted ({reason})"));
    }
    let cost = ClusterCost { nodes: sample.nodes, micro_dollars_per_hour: sample.micro_dollars_per_hour };
    format!("{}  ·  {} pending, {} running, {cost}", parts.join(", "), sample.pending, sample.running)
}
