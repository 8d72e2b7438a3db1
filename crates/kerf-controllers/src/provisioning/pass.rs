//! `provisioner`: passes over pending pods, each on one consistent state of the cluster (spec 02
//! §1.3).
//!
//! A pass waits until claims are launched. So a pod that is still pending is simulated together
//! with the instance that was launched for it. The engine tries that instance first, so a later
//! pass keeps the packing of the earlier one. A claim that is not launched within ten seconds
//! delays only its own pods: they stay assigned to it and are left out of the pass (spec 04 §4.9).

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures::future::join_all;
use kerf_api::nodepool::NodePool;
use kerf_api::quantity::Quantity;
use kerf_api::slim::{Pod, Str};
use kerf_cloud::InstanceTypesError;
use kerf_engine::catalogue::InstanceTypes;
use kerf_engine::{PlannedClaim, PreferencePolicy, Solution, UnsupportedStorage, is_provisionable};
use kerf_runtime::{ReconcileAction, Rng, ShutdownSignal};
use kerf_state::{Cluster, InputContext, SyncStatus, Tracked as _};
use tokio::time::Instant;
use tracing::{Level, debug, enabled, error, info};

use super::batch::Batcher;
use super::decision_notes::DecisionNotes;
use super::preference_warnings::{self, PreferenceWarnings};
use super::report::is_ignored;
use super::{claim, report};
use crate::context::Context;
use crate::error::Error;
use crate::events;
use kerf_operator::logs::reference;
use kerf_operator::{ControllerName, instrument_reconcile};

/// Name of the controller.
const NAME: &str = "provisioner";
/// Interval between two checks while cluster state is not synced.
const UNSYNCED_RETRY_DELAY: Duration = Duration::from_millis(500);
/// Log an error only after cluster state has been unsynced for this long.
const UNSYNCED_WARN_AFTER: Duration = Duration::from_secs(30);
/// Interval between two such log lines.
const UNSYNCED_WARN_INTERVAL: Duration = Duration::from_secs(10);

/// A decision, with the NodePools and pods that it was made on.
struct ProvisioningDecision {
    solution: Solution,
    pools: BTreeMap<Str, Arc<NodePool>>,
    /// Pending pods with preferences that can prevent consolidation.
    with_blocking_preferences: Vec<Arc<Pod>>,
    /// Number of pending pods, without ignored ones.
    pending: usize,
    /// Number of pods on nodes that are being deleted.
    deleting: usize,
    /// `None` if there was no pod to place.
    notes: Option<DecisionNotes>,
}

pub(crate) struct Provisioner {
    ctx: Context,
    batcher: Arc<Batcher>,
    /// Source of the IDs of passes.
    pass_id_rng: Mutex<Rng>,
    /// Source of the IDs of simulations.
    simulation_id_rng: Mutex<Rng>,
    preference_warnings: Mutex<PreferenceWarnings>,
}

impl Provisioner {
    pub(crate) fn new(ctx: Context, batcher: Arc<Batcher>) -> Self {
        let pass_id_rng = Mutex::new(Rng::new(ctx.settings.seed).fork(NAME));
        let simulation_id_rng = Mutex::new(Rng::new(ctx.settings.seed).fork("provisioner.simulation"));
        Self { ctx, batcher, pass_id_rng, simulation_id_rng, preference_warnings: Mutex::default() }
    }

    /// Runs until shutdown is requested.
    pub(crate) async fn run(&self, mut stop: ShutdownSignal) {
        let (metrics, batcher) = (&self.ctx.metrics, self.batcher.clone());
        metrics.controllers.init_controller_series(NAME, 1);
        metrics.controllers.queues.register_queue(NAME, move || batcher.stats());
        loop {
            tokio::select! {
                biased;
                () = stop.requested() => return,
                () = self.batcher.wait() => {}
            }
            tokio::select! {
                biased;
                () = stop.requested() => return,
                () = self.wait_until_synced() => {}
            }
            let id = self.pass_id_rng.lock().unwrap_or_else(PoisonError::into_inner).uuid();
            let pass = async { self.pass().await.map(|()| ReconcileAction::Done) };
            // Failed passes are not retried here: pods that are still pending trigger the next
            // batch.
            metrics.controllers.queues.observe_queue_duration(NAME, self.batcher.begin());
            instrument_reconcile(
                &metrics.controllers,
                self.ctx.clock,
                ControllerName::singleton(NAME),
                &Str::default(),
                &id,
                pass,
            )
            .await;
            self.batcher.end();
        }
    }

    /// Waits until cluster state is synced. If that takes long, logs what is missing.
    async fn wait_until_synced(&self) {
        let start = Instant::now();
        let mut last_logged = start;
        loop {
            let synced = self.ctx.cluster.lock().check_synced_for_provisioning(self.ctx.now());
            let now = Instant::now();
            let SyncStatus::Unsynced(missing) = synced else { return };
            if now - start >= UNSYNCED_WARN_AFTER && now - last_logged >= UNSYNCED_WARN_INTERVAL {
                last_logged = now;
                let missing_names: Vec<String> = missing.iter().map(ToString::to_string).collect();
                error!(
                    controller = NAME,
                    duration = ?(now - start),
                    waiting_on = missing_names.join("; "),
                    "cluster is waiting on sync for extended duration"
                );
            }
            tokio::time::sleep(UNSYNCED_RETRY_DELAY).await;
        }
    }

    /// Makes one decision and creates its claims.
    pub(crate) async fn pass(&self) -> Result<(), Error> {
        let instance_types = self.instance_types().await;
        let input_context = InputContext {
            at: self.ctx.now(),
            instance_types,
            label_rules: self.ctx.cloud.label_rules().clone(),
            node_class_groups: self.ctx.node_class_groups(),
            unsupported_storage: UnsupportedStorage::default(),
        };
        let start = Instant::now();
        let metrics = &self.ctx.metrics;
        let decision = {
            // The lock is held until the solution is computed, so that the decision is based on one
            // consistent state.
            let mut cluster = self.ctx.cluster.lock();
            let (provisionable, with_blocking_preferences) = self.pending_pods(&cluster);
            let id = self.simulation_id_rng.lock().unwrap_or_else(PoisonError::into_inner).uuid();
            let simulation = metrics.scheduler.begin_simulation(NAME, id, provisionable, self.ctx.now());
            let pools: BTreeMap<Str, Arc<NodePool>> =
                cluster.all::<NodePool>().iter().map(|(name, pool)| (name.clone(), pool.clone())).collect();
            let solution = cluster.solve(&input_context, &self.ctx.settings.engine);
            simulation.set_remaining(solution.unplaced.len());
            metrics.scheduler.set_pending_by_zone(NAME, &cluster.pending_by_zone());
            let is_unbound = |key: &Str| cluster.get::<Pod>(key).is_some_and(|pod| pod.spec.node_name.is_none());
            let ignored = solution.unplaced.iter().filter(|pod| is_ignored(pod) && is_unbound(&pod.pod)).count();
            let (pending, deleting) =
                (provisionable.saturating_sub(ignored), solution.stats.pods.saturating_sub(provisionable));
            let notes = (pending + deleting > 0).then(|| DecisionNotes::collect(&mut cluster, &solution));
            ProvisioningDecision { solution, pools, with_blocking_preferences, pending, deleting, notes }
        };
        self.log_inputs(&decision);
        let ProvisioningDecision { solution, pools, .. } = decision;
        metrics.scheduler.scheduling_duration.observe(&[NAME], start.elapsed().as_secs_f64());
        let ignored = solution.unplaced.iter().filter(|pod| is_ignored(pod)).count();
        metrics.scheduler.ignored_pods.set(&[], ignored as f64);
        metrics.scheduler.unschedulable_pods.set(&[NAME], (solution.unplaced.len() - ignored) as f64);
        let placed =
            solution.claims.iter().map(|claim| &claim.pods).chain(solution.nodes.iter().map(|node| &node.pods));
        metrics.pods_decided(placed.flatten(), solution.unplaced.iter().map(|pod| &pod.pod), self.ctx.now());
        report::report_and_nominate(&self.ctx, &solution, start.elapsed());
        self.create_claims(&solution, &pools).await
    }

    /// Returns the number of pending pods, and those with preferences that can prevent
    /// consolidation.
    fn pending_pods(&self, cluster: &Cluster) -> (usize, Vec<Arc<Pod>>) {
        let settings = &self.ctx.settings.engine;
        let checks_preferences = settings.preference_policy == PreferencePolicy::Respect && enabled!(Level::INFO);
        let (mut count, mut with_blocking_preferences) = (0, Vec::new());
        let assigned = cluster.pods_of_unlaunched_claims();
        for (key, pod) in cluster.all::<Pod>().iter().filter(|(_, pod)| is_provisionable(pod, settings)) {
            if assigned.contains(key) {
                continue;
            }
            count += 1;
            if checks_preferences && preference_warnings::has_blocking_preference(pod) {
                with_blocking_preferences.push(pod.clone());
            }
        }
        (count, with_blocking_preferences)
    }

    /// Logs the inputs of the decision; `report` logs its outcome.
    fn log_inputs(&self, decision: &ProvisioningDecision) {
        let is_ignored = |pod: &Arc<Pod>| {
            let unplaced_pods = &decision.solution.unplaced;
            let at = unplaced_pods.binary_search_by(|unplaced| unplaced.pod.cmp(&pod.key()));
            at.is_ok_and(|at| is_ignored(&unplaced_pods[at]))
        };
        let pods: Vec<Arc<Pod>> =
            decision.with_blocking_preferences.iter().filter(|pod| !is_ignored(pod)).cloned().collect();
        self.preference_warnings.lock().unwrap_or_else(PoisonError::into_inner).log_new(&pods, self.ctx.now());
        if let Some(notes) = &decision.notes {
            debug!(
                "pending-pods" = decision.pending,
                "deleting-pods" = decision.deleting,
                "computing scheduling decision for provisionable pod(s)"
            );
            notes.report(&self.ctx, &decision.pools);
        }
    }

    /// Returns the instance types of every managed NodePool. A NodePool whose types cannot be
    /// listed is skipped.
    async fn instance_types(&self) -> BTreeMap<Str, InstanceTypes> {
        let pools: Vec<(Str, Arc<NodePool>)> = {
            let cluster = self.ctx.cluster.lock();
            let all = cluster.all::<NodePool>().iter();
            all.filter(|(_, pool)| self.ctx.manages_pool(pool))
                .map(|(name, pool)| (name.clone(), pool.clone()))
                .collect()
        };
        let results = join_all(pools.iter().map(|(_, pool)| self.ctx.cloud.instance_types(pool))).await;
        let mut by_pool = BTreeMap::new();
        for ((name, _), result) in pools.into_iter().zip(results) {
            match result {
                Ok(types) if types.is_empty() => {
                    info!(NodePool = %reference(&name), "skipping, no resolved instance types found");
                }
                Ok(types) => {
                    by_pool.insert(name, types);
                }
                Err(InstanceTypesError::Unevaluated { .. }) => {
                    debug!(NodePool = %reference(&name), "skipping, awaiting nodeoverlay evaluation");
                }
                Err(error @ InstanceTypesError::Other(_)) => {
                    error!(NodePool = %reference(&name), error = %error, "skipping, unable to resolve instance types");
                }
            }
        }
        by_pool
    }

    /// Creates all claims concurrently. One that fails does not stop the others.
    async fn create_claims(&self, solution: &Solution, pools: &BTreeMap<Str, Arc<NodePool>>) -> Result<(), Error> {
        let creations = solution.claims.iter().map(|planned| self.create_claim(planned, pools));
        let errors: Vec<Error> = join_all(creations).await.into_iter().filter_map(Result::err).collect();
        Error::combine(errors)
    }

    async fn create_claim(&self, planned: &PlannedClaim, pools: &BTreeMap<Str, Arc<NodePool>>) -> Result<(), Error> {
        let Some(pool) = pools.get(&planned.pool) else { return Err(Error::PoolNotFound(planned.pool.to_string())) };
        self.check_limits(&planned.pool)?;
        let mut node_claim = claim::build_claim(planned, pool);
        let replaced = {
            let mut cluster = self.ctx.cluster.lock();
            let known = cluster.never_ready_claim_of(&planned.pods);
            known.or_else(|| cluster.take_never_ready_of_pool(&planned.pool))
        };
        if let Some(replaced) = replaced {
            claim::annotate_never_ready(&mut node_claim, &replaced);
        }
        let created = claim::create(&self.ctx, planned, &node_claim, "provisioned").await;
        let pods: Vec<Arc<Pod>> = {
            let mut cluster = self.ctx.cluster.lock();
            if let Ok(name) = &created {
                cluster.record_created_for(&planned.pods, &Str::from(name.as_str()), self.ctx.now());
            }
            planned.pods.iter().filter_map(|pod| cluster.get::<Pod>(pod).cloned()).collect()
        };
        for pod in pods {
            match &created {
                Ok(name) => self.ctx.publish(events::nominated(&pod, Some(name), None)),
                // An identical request will be rejected again until a user changes something, so
                // the pods get an Event.
                Err(error) if error.is_client_error() => {
                    self.ctx.publish(events::failed_scheduling(&pod, &error.to_string()));
                }
                Err(_) => {}
            }
        }
        created.map(|_| ())
    }

    /// Fails if the NodePool already exceeds one of its limits (spec 02 §4.6).
    fn check_limits(&self, name: &Str) -> Result<(), Error> {
        let cluster = self.ctx.cluster.lock();
        let Some(pool) = cluster.get::<NodePool>(name) else { return Err(Error::PoolNotFound(name.to_string())) };
        let Some(limits) = pool.spec.limits.as_ref().filter(|limits| !limits.is_empty()) else { return Ok(()) };
        let usage = cluster.pool_usage(name);
        for (resource, limit) in limits {
            // A limit that is not a valid quantity counts as zero.
            let max = limit.text().parse::<Quantity>().unwrap_or(Quantity::ZERO);
            let used = usage.get(resource.as_str()).copied().unwrap_or_default();
            if used > max {
                return Err(Error::LimitExceeded {
                    limit: limit.to_string(),
                    resource: resource.clone(),
                    usage: used.to_string(),
                });
            }
        }
        Ok(())
    }
}
