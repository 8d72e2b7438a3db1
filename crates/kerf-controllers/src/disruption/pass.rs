//! `disruption`: passes over the cluster, each on one consistent snapshot. The first method that
//! finds commands ends a pass (spec 03 §4). Consolidation commands are validated on a newer
//! snapshot before they start (spec 03 §9).
//!
//! A pass runs when a relevant change has happened, when time alone may have changed the result, or
//! else every five minutes. So an idle cluster costs nothing. The wait before validation is state,
//! not a sleep: neither shutdown nor a newer snapshot has to wait for it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures::future::join_all;
use jiff::{SignedDuration, Timestamp};
use kerf_api::labels;
use kerf_api::nodepool::NodePool;
use kerf_api::slim::Str;
use kerf_cloud::InstanceTypesError;
use kerf_engine::catalogue::{InstanceTypes, Offering};
use kerf_engine::{
    DisruptionCommand, DisruptionPlan, DisruptionSettings, Input, Method, MethodFilter, MethodReport, Passes,
    PlannedClaim, Price, ReservedMode, UnsupportedStorage, ValidationFailure, consolidation_deferred_until,
    next_commands, validate_all,
};
use kerf_runtime::{ReconcileAction, Rng, WatchHandle, same_process};
use kerf_state::InputContext;
use tokio::runtime::{Handle, RuntimeFlavor};
use tracing::{debug, error};

use super::churn_backoff::{self, DriftBackoffs, OfferingKey};
use super::consolidation_timestamp::{CONSOLIDATION_RECHECK_INTERVAL, ConsolidationTimestamp};
use super::decision::Decision;
use super::fresh_view::{FreshView, Refresh};
use super::held_commands::split_held_commands;
use super::history::DecisionHistory;
use super::low_value_moves::{cooldown_until, low_value_moves};
use super::queue::CommandQueue;
use super::step_times::{self, StepTimes};
use super::{next_change, report, taint};
use crate::context::Context;
use crate::error::Error;
use kerf_operator::logs::reference;

/// Delay between a relevant change and the next pass; long enough to coalesce a burst of events.
pub(crate) const CHANGE_COALESCE_DELAY: Duration = Duration::from_millis(500);
/// Delay before the next attempt while cluster state is not synced.
const UNSYNCED_RETRY_DELAY: Duration = Duration::from_secs(1);
/// Time between finding consolidation commands and validating them.
const VALIDATION_DELAY: Duration = Duration::from_secs(15);
/// Delay before the next pass after validation has rejected commands.
const REJECTED_RETRY_DELAY: Duration = Duration::from_secs(10);
/// Longest time for which consolidation waits for pending nodes: nodes that are being deleted, and
/// nodes whose `consolidateAfter` ends soon. Afterwards it can decide about all of them together.
const PENDING_NODES_WAIT_MAX: SignedDuration = SignedDuration::from_secs(60);
/// Number of offerings that are recorded for one replacement, in case its launch fails.
const OFFERINGS_PER_REPLACEMENT_MAX: usize = 128;

pub(crate) struct DisruptionController {
    ctx: Context,
    command_queue: Arc<CommandQueue>,
    drift_backoffs: Arc<DriftBackoffs>,
    history: Arc<DecisionHistory>,
    consolidation_timestamp: ConsolidationTimestamp,
    fresh_view: FreshView,
    state: Mutex<PassState>,
    command_id_rng: Mutex<Rng>,
}

/// State that is kept between passes. Losing it costs one pass.
#[derive(Debug, Default)]
struct PassState {
    waiting: Option<WaitingCommands>,
    /// The consolidation timestamp at which a pass found nothing to do, and the time until which
    /// that result holds if the timestamp does not change.
    idle_until: Option<(Timestamp, Timestamp)>,
    /// Since when cluster state is not synced; `None` while it is synced.
    unsynced_since: Option<Timestamp>,
    /// Since when consolidation waits for pending nodes, see [`PENDING_NODES_WAIT_MAX`].
    pending_nodes_since: Option<Timestamp>,
    /// End of the cooldown after a large wave.
    cooldown_until: Option<Timestamp>,
    /// The last reported problems of malformed NodePools; each set of problems is logged once.
    reported_malformed: String,
    step_times: StepTimes,
}

/// Commands that wait for validation.
#[derive(Debug)]
struct WaitingCommands {
    method: Method,
    commands: Vec<DisruptionCommand>,
    /// Price of all nodes when the commands were found.
    price_before: Price,
    since: Timestamp,
    due: Timestamp,
}

/// Data that one pass decides on.
struct ClusterSnapshot {
    input: Arc<Input>,
    instance_types: BTreeMap<Str, InstanceTypes>,
}

impl DisruptionController {
    pub(crate) fn new(
        ctx: Context,
        command_queue: Arc<CommandQueue>,
        drift_backoffs: Arc<DriftBackoffs>,
        history: Arc<DecisionHistory>,
    ) -> Self {
        let now = ctx.now();
        // The seed includes the time, so that two processes do not generate equal command IDs.
        let seed = u64::try_from(now.as_nanosecond()).unwrap_or_default() ^ ctx.settings.seed;
        let command_id_rng = Mutex::new(Rng::new(seed).fork("disruption.command"));
        Self {
            ctx,
            command_queue,
            drift_backoffs,
            history,
            consolidation_timestamp: ConsolidationTimestamp::new(now),
            fresh_view: FreshView::default(),
            state: Mutex::default(),
            command_id_rng,
        }
    }

    /// Records that a change may have opened an opportunity for consolidation.
    pub(crate) fn mark_unconsolidated(&self) {
        self.consolidation_timestamp.mark_unconsolidated(self.ctx.now());
    }

    /// Sets the watches that must be fresh before nodes are disrupted.
    pub(crate) fn set_watches(&self, watches: &[WatchHandle]) {
        self.fresh_view.set_watches(watches);
    }

    fn state(&self) -> MutexGuard<'_, PassState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) async fn reconcile(&self) -> Result<ReconcileAction, Error> {
        self.state().step_times.log_overdue(self.ctx.now());
        let outcome = self.run_pass().await;
        self.state().step_times.log_overdue(self.ctx.now());
        outcome
    }

    async fn run_pass(&self) -> Result<ReconcileAction, Error> {
        if !self.is_synced() {
            return Ok(ReconcileAction::RequeueAfter(UNSYNCED_RETRY_DELAY));
        }
        taint::remove_orphaned_marks(&self.ctx, |claim| self.command_queue.is_disrupting(claim)).await?;
        let now = self.ctx.now();
        self.state().step_times.record_start(step_times::LOOP_STEP, now);
        let timestamp = self.consolidation_timestamp.get_or_refresh(now);
        let waiting = {
            let mut state = self.state();
            if let Some(waiting) = state.waiting.as_ref().filter(|waiting| now < waiting.due) {
                return Ok(requeue_at(now, waiting.due));
            }
            state.waiting.take()
        };
        let mut rejected = None;
        if let Some(waiting) = waiting {
            if self.fresh_view.refresh().await == Refresh::TimedOut {
                let due = now.saturating_add(REJECTED_RETRY_DELAY).unwrap_or(Timestamp::MAX);
                self.state().waiting = Some(WaitingCommands { due, ..waiting });
                return Ok(ReconcileAction::RequeueAfter(REJECTED_RETRY_DELAY));
            }
            rejected = Some(waiting.method);
            if self.validate_waiting_commands(waiting).await? {
                return Ok(ReconcileAction::RequeueAfter(Duration::ZERO));
            }
        } else if let Some((_, until)) = self.state().idle_until.filter(|(at, until)| *at == timestamp && now < *until)
        {
            return Ok(requeue_at(now, until));
        }
        if self.ctx.settings.pause_disruption {
            return Ok(ReconcileAction::Done);
        }
        self.find_commands(timestamp, rejected).await
    }

    /// Returns true if cluster state is synced. Also updates the metrics about it, because no other
    /// controller checks as often.
    fn is_synced(&self) -> bool {
        let now = self.ctx.now();
        let is_synced = self.ctx.cluster.lock().check_synced().is_synced();
        let mut state = self.state();
        let since = if is_synced { None } else { Some(state.unsynced_since.unwrap_or(now)) };
        state.unsynced_since = since;
        let metrics = &self.ctx.metrics;
        metrics.cluster_state_synced.set(&[], f64::from(u8::from(is_synced)));
        metrics
            .cluster_state_unsynced_time
            .set(&[], since.map_or(0.0, |since| now.duration_since(since).as_secs_f64()));
        is_synced
    }

    /// Lets the engine find commands, and starts them or lets them wait for validation. `rejected`
    /// is the method whose commands validation has just rejected; only later methods are tried.
    async fn find_commands(&self, timestamp: Timestamp, rejected: Option<Method>) -> Result<ReconcileAction, Error> {
        let mut methods = rejected.map_or(MethodFilter::ALL, |method| MethodFilter::ALL.after_method(method));
        let (mut all_held, mut is_fresh) = (Vec::new(), false);
        loop {
            let snapshot = self.take_snapshot().await;
            let started = self.ctx.clock.elapsed();
            let pending_nodes_until = self.pending_nodes_wait_until(&snapshot.input);
            if pending_nodes_until.is_some() {
                methods = methods.excluding_savings();
            }
            let (plan, method_reports) = self.compute_plan(&snapshot, methods).await?;
            self.record_method_metrics(&method_reports);
            report::report_plan(&self.ctx, &snapshot.input, &plan);
            report::report_malformed_pools(&self.ctx, &plan, &mut self.state().reported_malformed);
            let now = self.ctx.now();
            let cooldown_end = self.state().cooldown_until;
            let (commands, held) = split_held_commands(&self.ctx, &snapshot.input, &plan, cooldown_end);
            let latest = now.saturating_add(CONSOLIDATION_RECHECK_INTERVAL).unwrap_or(Timestamp::MAX);
            let latest =
                self.state().cooldown_until.filter(|until| now < *until).map_or(latest, |until| latest.min(until));
            let next = next_change::next_change_at(&snapshot.input, &plan, latest);
            let method = plan.commands.first().map(|command| command.method);
            // Several methods may find an equal command.
            for command in held {
                if !all_held.contains(&command) {
                    all_held.push(command);
                }
            }
            let price_before = plan.price_before;
            self.history.record_pass(plan, all_held.clone(), now, self.ctx.clock.elapsed().saturating_sub(started));
            let Some(method) = method else {
                if let Some(until) = pending_nodes_until {
                    return Ok(requeue_at(now, until));
                }
                // A rejected command may be valid soon, so the pass does not count as idle.
                if rejected.is_some() {
                    return Ok(ReconcileAction::RequeueAfter(REJECTED_RETRY_DELAY));
                }
                self.state().idle_until = Some((timestamp, next));
                return Ok(requeue_at(now, next));
            };
            if commands.is_empty() {
                methods = methods.after_method(method);
                continue;
            }
            return match method {
                Method::StaticDrift | Method::Drift => {
                    // These commands start without validation.
                    match self.fresh_view.refresh().await {
                        Refresh::Listed if !std::mem::replace(&mut is_fresh, true) => continue,
                        Refresh::NotNeeded | Refresh::Listed => {}
                        Refresh::TimedOut => return Ok(ReconcileAction::RequeueAfter(REJECTED_RETRY_DELAY)),
                    }
                    self.start_commands(&snapshot, commands).await?;
                    Ok(ReconcileAction::RequeueAfter(Duration::ZERO))
                }
                Method::Emptiness | Method::MultiNode | Method::SingleNode | Method::Move => {
                    if method != Method::Emptiness {
                        for command in &commands {
                            report::publish_candidates(&self.ctx, command);
                        }
                    }
                    let due = now.saturating_add(VALIDATION_DELAY).unwrap_or(Timestamp::MAX);
                    self.state().waiting = Some(WaitingCommands { method, commands, price_before, since: now, due });
                    Ok(ReconcileAction::RequeueAfter(VALIDATION_DELAY))
                }
            };
        }
    }

    /// Returns the end of the wait for pending nodes, or `None` if there is no need to wait.
    fn pending_nodes_wait_until(&self, input: &Input) -> Option<Timestamp> {
        let mut state = self.state();
        let Some(until) = consolidation_deferred_until(input, state.pending_nodes_since.is_some()) else {
            state.pending_nodes_since = None;
            return None;
        };
        let since = *state.pending_nodes_since.get_or_insert(input.at);
        let latest = since.saturating_add(PENDING_NODES_WAIT_MAX).unwrap_or(Timestamp::MAX);
        (input.at < latest).then_some(until.min(latest))
    }

    /// Validates waiting commands and starts the valid ones. Returns true if there were any.
    async fn validate_waiting_commands(&self, waiting: WaitingCommands) -> Result<bool, Error> {
        let snapshot = self.take_snapshot().await;
        let (input, settings) = (snapshot.input.clone(), self.disruption_settings());
        let commands = waiting.commands.clone();
        let results = run_blocking(move || validate_all(&input, &settings, &commands)).await?;
        let metrics = &self.ctx.metrics.disruption;
        let mut valid_commands = Vec::new();
        for (command, result) in waiting.commands.iter().zip(results) {
            let (invalid_nodes, why) = match result {
                Ok(valid) => {
                    let invalid_nodes = command.nodes.len() - valid.nodes.len();
                    valid_commands.push(valid);
                    (invalid_nodes, None)
                }
                Err(why @ (ValidationFailure::Churn | ValidationFailure::Budget)) => (command.nodes.len(), Some(why)),
                Err(why @ ValidationFailure::Scheduling(_)) => (0, Some(why)),
            };
            let consolidation_type = command.method.consolidation_type();
            if invalid_nodes > 0 {
                metrics.failed_validations.add(&[consolidation_type], invalid_nodes as f64);
            }
            if let Some(why) = why {
                let abandoned = self.new_decision(command.clone());
                report::log_abandoned(&abandoned, &why);
                if command.method != Method::Emptiness {
                    report::publish_rejected(&self.ctx, command, why.category());
                }
            }
        }
        let took = self.ctx.now().duration_since(waiting.since).as_secs_f64();
        let reason = waiting.method.reason().to_string().to_lowercase();
        metrics.evaluation_duration.observe(&[&reason, waiting.method.consolidation_type()], took);
        // Pods may have settled since the commands were found.
        let cooldown_end = self.state().cooldown_until;
        let low_value = low_value_moves(&snapshot.input, &valid_commands, waiting.price_before, cooldown_end);
        let mut indices = 0..;
        valid_commands.retain(|_| indices.next().is_none_or(|index| !low_value.contains(&index)));
        if valid_commands.is_empty() {
            return Ok(false);
        }
        // The started commands empty further nodes, so the wait for pending nodes may begin anew.
        self.state().pending_nodes_since = None;
        let savings_commands = valid_commands.iter().filter(|command| command.method.is_for_savings());
        let emptied = savings_commands.map(|command| command.nodes.len()).sum();
        if let Some(end) = cooldown_until(emptied, snapshot.input.node_claims.len(), self.ctx.now()) {
            self.state().cooldown_until = Some(end);
        }
        self.start_commands(&snapshot, valid_commands).await?;
        Ok(true)
    }

    /// Gives a command its unique ID.
    fn new_decision(&self, command: DisruptionCommand) -> Decision {
        let id = Str::from(self.command_id_rng.lock().unwrap_or_else(PoisonError::into_inner).uuid());
        Decision { id, command, created: self.ctx.now() }
    }

    /// Starts commands that are independent of each other. One that fails does not stop the others.
    async fn start_commands(&self, snapshot: &ClusterSnapshot, commands: Vec<DisruptionCommand>) -> Result<(), Error> {
        let starts = commands.into_iter().map(|command| {
            let offerings = command.replacements.iter().map(|claim| launchable_offerings(snapshot, claim)).collect();
            self.command_queue.start(self.new_decision(command), offerings)
        });
        let starts: Vec<_> = starts.collect();
        Error::combine(join_all(starts).await.into_iter().filter_map(Result::err).collect())
    }

    /// Returns the engine's input, with active commands and all back-offs.
    async fn take_snapshot(&self) -> ClusterSnapshot {
        let instance_types = self.instance_types().await;
        let now = self.ctx.now();
        let input_context = InputContext {
            at: now,
            instance_types: instance_types.clone(),
            label_rules: self.ctx.cloud.label_rules().clone(),
            node_class_groups: self.ctx.node_class_groups(),
            unsupported_storage: UnsupportedStorage::default(),
        };
        let mut input = {
            let cluster = self.ctx.cluster.lock();
            let mut input = cluster.input(&input_context);
            input.launch_backoffs = churn_backoff::launch_backoffs(&cluster, now);
            input
        };
        let disrupting: BTreeSet<Str> = self.command_queue.disrupting_claims().into_iter().collect();
        for claim in &mut input.node_claims {
            claim.lifecycle.is_disrupting = disrupting.contains(&claim.name);
        }
        for pool in &mut input.pools {
            let until = self.drift_backoffs.backoff_until(&pool.name, now);
            let remaining_seconds = until.map_or(0.0, |until| until.duration_since(now).as_secs_f64());
            self.ctx.metrics.disruption.drift_backoff_seconds.set(&[&pool.name], remaining_seconds);
            pool.disruption.drift_backoff_until = until;
        }
        ClusterSnapshot { input: Arc::new(input), instance_types }
    }

    /// Returns the instance types of every managed NodePool. Nodes of a NodePool whose types cannot
    /// be listed are not consolidated.
    async fn instance_types(&self) -> BTreeMap<Str, InstanceTypes> {
        let pools: Vec<(Str, Arc<NodePool>)> = {
            let cluster = self.ctx.cluster.lock();
            let managed = cluster.all::<NodePool>().iter().filter(|(_, pool)| self.ctx.manages_pool(pool));
            managed.map(|(name, pool)| (name.clone(), pool.clone())).collect()
        };
        let results = join_all(pools.iter().map(|(_, pool)| self.ctx.cloud.instance_types(pool))).await;
        let mut by_pool = BTreeMap::new();
        for ((name, _), result) in pools.into_iter().zip(results) {
            match result {
                Ok(types) => {
                    by_pool.insert(name, types);
                }
                Err(InstanceTypesError::Unevaluated { .. }) => {
                    debug!(NodePool = %reference(&name), "skipping, node overlays are not applied");
                }
                Err(error @ InstanceTypesError::Other(_)) => {
                    error!(NodePool = %reference(&name), error = %error, "failed listing instance types");
                }
            }
        }
        by_pool
    }

    fn disruption_settings(&self) -> DisruptionSettings {
        DisruptionSettings {
            scheduling: kerf_engine::Settings {
                reserved_mode: ReservedMode::Fallback,
                ..self.ctx.settings.engine.clone()
            },
            allows_spot_to_spot: self.ctx.settings.spot_to_spot_consolidation,
            allows_moves: true,
            passes: Passes::All,
        }
    }

    /// Lets the engine compute commands, and measures the time that each method takes.
    async fn compute_plan(
        &self,
        snapshot: &ClusterSnapshot,
        methods: MethodFilter,
    ) -> Result<(DisruptionPlan, Vec<(MethodReport, Duration)>), Error> {
        let (input, settings, clock) = (snapshot.input.clone(), self.disruption_settings(), self.ctx.clock);
        run_blocking(move || {
            let mut reports = Vec::new();
            let mut last = clock.elapsed();
            let plan = next_commands(&input, &settings, methods, |report| {
                let now = clock.elapsed();
                reports.push((report, now.saturating_sub(last)));
                last = now;
            });
            (plan, reports)
        })
        .await
    }

    fn record_method_metrics(&self, reports: &[(MethodReport, Duration)]) {
        let (metrics, now) = (&self.ctx.metrics.disruption, self.ctx.now());
        let mut state = self.state();
        for (report, took) in reports {
            state.step_times.record_start(step_times::step_name(report.method), now);
            let reason = report.method.reason().to_string().to_lowercase();
            metrics.eligible_nodes.set(&[&reason], report.eligible as f64);
            let needs_validation = !matches!(report.method, Method::StaticDrift | Method::Drift) && report.commands > 0;
            if !needs_validation {
                let consolidation_type = report.method.consolidation_type();
                metrics.evaluation_duration.observe(&[&reason, consolidation_type], took.as_secs_f64());
            }
        }
    }
}

/// Computes on a separate thread, so that the other controllers continue meanwhile. A runtime with
/// one thread computes on that thread, which keeps the order of events deterministic.
async fn run_blocking<T: Send + 'static>(compute: impl FnOnce() -> T + Send + 'static) -> Result<T, Error> {
    let task = match Handle::current().runtime_flavor() {
        RuntimeFlavor::CurrentThread => tokio::spawn(same_process(async move { compute() })),
        _ => tokio::task::spawn_blocking(compute),
    };
    task.await.map_err(|failure| Error::Invalid(format!("computing disruption failed, {failure}")))
}

fn requeue_at(now: Timestamp, until: Timestamp) -> ReconcileAction {
    ReconcileAction::RequeueAfter(Duration::try_from(until.duration_since(now)).unwrap_or_default())
}

/// Returns the available offerings that a replacement's types and requirements allow.
fn launchable_offerings(snapshot: &ClusterSnapshot, planned: &PlannedClaim) -> Vec<OfferingKey> {
    let Some(types) = snapshot.instance_types.get(&planned.pool) else { return Vec::new() };
    let launch = &planned.launch;
    let allowed_types = launch.instance_types.iter().filter_map(|name| types.find(name));
    let single_value = |offering: &Offering, key: &str| match offering.requirements.get(key)?.allowed_values()? {
        [value] => Some(value.clone()),
        _ => None,
    };
    let offerings = allowed_types.flat_map(|instance_type| {
        let allowed = instance_type
            .offerings()
            .filter(|o| o.is_available() && launch.requirements.intersects(&o.requirements).is_ok());
        allowed.filter_map(move |offering| {
            Some(OfferingKey {
                zone: single_value(&offering, labels::ZONE)?,
                capacity_type: single_value(&offering, labels::CAPACITY_TYPE)?,
                instance_type: instance_type.name.clone(),
            })
        })
    });
    offerings.take(OFFERINGS_PER_REPLACEMENT_MAX).collect()
}
