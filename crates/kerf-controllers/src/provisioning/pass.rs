//! `provisioner`: one pass after another, each on one consistent picture (spec 02 §1.3). A pod that still waits is simulated again and lands on
//! the machine that was launched for it, because that is now part of the picture and is offered to it first: another pass need not find the
//! same packing by itself. That is why no pass starts while a claim has no machine.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures::future::join_all;
use kerf_api::nodepool::NodePool;
use kerf_api::quantity::Quantity;
use kerf_api::slim::{Pod, Str};
use kerf_cloud::InstanceTypesError;
use kerf_engine::catalogue::InstanceType;
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
use crate::logs::reference;
use crate::process::reconcile::instrument_reconcile;

/// The controller's name.
const NAME: &str = "provisioner";
/// How often a picture that is not whole is looked at again.
const UNSYNCED_RETRY_DELAY: Duration = Duration::from_millis(500);
/// For how long an incomplete picture is nothing to talk about.
const UNSYNCED_WARN_AFTER: Duration = Duration::from_secs(30);
/// How often it is talked about after that.
const UNSYNCED_WARN_INTERVAL: Duration = Duration::from_secs(10);

/// A decision, and the picture that it was taken on.
struct ProvisioningDecision {
    solution: Solution,
    pools: BTreeMap<Str, Arc<NodePool>>,
    /// Pods that wait and have wishes that can be in the way of consolidation.
    with_blocking_preferences: Vec<Arc<Pod>>,
    /// How many pods wait for a place.
    pending: usize,
    /// How many lose theirs with a node that is about to go.
    deleting: usize,
    /// What there is to say of it, unless nobody needed a place.
    notes: Option<DecisionNotes>,
}

/// The controller.
pub(crate) struct Provisioner {
    ctx: Context,
    batcher: Arc<Batcher>,
    /// Where the identifiers of passes come from.
    pass_id_rng: Mutex<Rng>,
    /// Where those of simulations come from.
    simulation_id_rng: Mutex<Rng>,
    preference_warnings: Mutex<PreferenceWarnings>,
}

impl Provisioner {
    pub(crate) fn new(ctx: Context, batcher: Arc<Batcher>) -> Self {
        let ids = Mutex::new(Rng::new(ctx.settings.seed, NAME));
        let simulations = Mutex::new(Rng::new(ctx.settings.seed, "provisioner.simulation"));
        Self { ctx, batcher, pass_id_rng: ids, simulation_id_rng: simulations, preference_warnings: Mutex::default() }
    }

    /// Works until told to stop.
    pub(crate) async fn run(&self, mut stop: ShutdownSignal) {
        let (metrics, batcher) = (&self.ctx.metrics, self.batcher.clone());
        metrics.init_controller_series(NAME, 1);
        metrics.queues.register_queue(NAME, move || batcher.stats());
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
            // After a failure the pods that are still pending come back by themselves; what they did not get is tried again then.
            metrics.queues.observe_queue_duration(NAME, self.batcher.begin());
            instrument_reconcile(&self.ctx, NAME, &Str::default(), &id, pass).await;
            self.batcher.end();
        }
    }

    /// Waits until the picture is whole, and says what it is waiting for if that takes long.
    async fn wait_until_synced(&self) {
        let start = Instant::now();
        let mut said = start;
        loop {
            let synced = self.ctx.cluster.lock().check_synced();
            let now = Instant::now();
            let SyncStatus::Unsynced(waiting) = synced else { return };
            if now - start >= UNSYNCED_WARN_AFTER && now - said >= UNSYNCED_WARN_INTERVAL {
                said = now;
                let on: Vec<String> = waiting.iter().map(ToString::to_string).collect();
                error!(
                    controller = NAME,
                    duration = ?(now - start),
                    waiting_on = on.join("; "),
                    "cluster is waiting on sync for extended duration"
                );
            }
            tokio::time::sleep(UNSYNCED_RETRY_DELAY).await;
        }
    }

    /// One decision and its deeds.
    pub(crate) async fn pass(&self) -> Result<(), Error> {
        let instance_types = self.instance_types().await;
        // From here to the answer nobody else gets to do anything: one consistent picture.
        let ask = InputContext {
            at: self.ctx.now(),
            instance_types,
            label_rules: self.ctx.cloud.label_rules().clone(),
            unsupported_storage: UnsupportedStorage::default(),
        };
        let start = Instant::now();
        let metrics = &self.ctx.metrics;
        let decided = {
            let mut cluster = self.ctx.cluster.lock();
            let (waiting, in_the_way) = self.pending_pods(&cluster);
            let id = self.simulation_id_rng.lock().unwrap_or_else(PoisonError::into_inner).uuid();
            let simulation = metrics.scheduler.begin_simulation(NAME, id, waiting, self.ctx.now());
            let pools: BTreeMap<Str, Arc<NodePool>> =
                cluster.all::<NodePool>().iter().map(|(name, pool)| (name.clone(), pool.clone())).collect();
            let solution = cluster.solve(&ask, &self.ctx.settings.engine);
            simulation.set_remaining(solution.unplaced.len());
            metrics.scheduler.set_pending_by_zone(NAME, &cluster.pending_by_zone());
            let waits = |key: &Str| cluster.get::<Pod>(key).is_some_and(|pod| pod.spec.node_name.is_none());
            let ignored = solution.unplaced.iter().filter(|pod| is_ignored(pod) && waits(&pod.pod)).count();
            let (pending, leaving) = (waiting.saturating_sub(ignored), solution.stats.pods.saturating_sub(waiting));
            let remarks = (pending + leaving > 0).then(|| DecisionNotes::collect(&mut cluster, &solution));
            ProvisioningDecision {
                solution,
                pools,
                with_blocking_preferences: in_the_way,
                pending,
                deleting: leaving,
                notes: remarks,
            }
        };
        self.log_inputs(&decided);
        let ProvisioningDecision { solution, pools, .. } = decided;
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

    /// How many pods wait, and which of them have wishes that can be in the way of consolidation.
    fn pending_pods(&self, cluster: &Cluster) -> (usize, Vec<Arc<Pod>>) {
        let settings = &self.ctx.settings.engine;
        let counts_wishes = settings.preference_policy == PreferencePolicy::Respect && enabled!(Level::INFO);
        let (mut count, mut in_the_way) = (0, Vec::new());
        for pod in cluster.all::<Pod>().values().filter(|pod| is_provisionable(pod, settings)) {
            count += 1;
            if counts_wishes && preference_warnings::has_blocking_preference(pod) {
                in_the_way.push(pod.clone());
            }
        }
        (count, in_the_way)
    }

    /// Says what was decided about, before it is said what was decided.
    fn log_inputs(&self, decided: &ProvisioningDecision) {
        let is_ignored = |pod: &Arc<Pod>| {
            let all = &decided.solution.unplaced;
            let at = all.binary_search_by(|unplaced| unplaced.pod.cmp(&pod.key()));
            at.is_ok_and(|at| is_ignored(&all[at]))
        };
        let in_the_way: Vec<Arc<Pod>> =
            decided.with_blocking_preferences.iter().filter(|pod| !is_ignored(pod)).cloned().collect();
        self.preference_warnings.lock().unwrap_or_else(PoisonError::into_inner).log_new(&in_the_way, self.ctx.now());
        if let Some(remarks) = &decided.notes {
            debug!(
                "pending-pods" = decided.pending,
                "deleting-pods" = decided.deleting,
                "computing scheduling decision for provisionable pod(s)"
            );
            remarks.report(&self.ctx, &decided.pools);
        }
    }

    /// The instance types of every pool that takes pods. One whose types cannot be listed sits out.
    async fn instance_types(&self) -> BTreeMap<Str, Arc<Vec<InstanceType>>> {
        let pools: Vec<(Str, Arc<NodePool>)> = {
            let cluster = self.ctx.cluster.lock();
            let all = cluster.all::<NodePool>().iter();
            all.filter(|(_, pool)| self.ctx.manages_pool(pool))
                .map(|(name, pool)| (name.clone(), pool.clone()))
                .collect()
        };
        let answers = join_all(pools.iter().map(|(_, pool)| self.ctx.cloud.instance_types(pool))).await;
        let mut all = BTreeMap::new();
        for ((name, _), answer) in pools.into_iter().zip(answers) {
            match answer {
                Ok(types) if types.is_empty() => {
                    info!(NodePool = %reference(&name), "skipping, no resolved instance types found");
                }
                Ok(types) => {
                    all.insert(name, types);
                }
                Err(InstanceTypesError::Unevaluated { .. }) => {
                    debug!(NodePool = %reference(&name), "skipping, awaiting nodeoverlay evaluation");
                }
                Err(why @ InstanceTypesError::Other(_)) => {
                    error!(NodePool = %reference(&name), error = %why, "skipping, unable to resolve instance types");
                }
            }
        }
        all
    }

    /// Creates all claims at once. One that fails does not keep the others from standing.
    async fn create_claims(&self, solution: &Solution, pools: &BTreeMap<Str, Arc<NodePool>>) -> Result<(), Error> {
        let creations = solution.claims.iter().map(|planned| self.create_claim(planned, pools));
        let errors: Vec<Error> = join_all(creations).await.into_iter().filter_map(Result::err).collect();
        Error::combine(errors)
    }

    async fn create_claim(&self, planned: &PlannedClaim, pools: &BTreeMap<Str, Arc<NodePool>>) -> Result<(), Error> {
        let Some(pool) = pools.get(&planned.pool) else { return Err(Error::PoolNotFound(planned.pool.to_string())) };
        self.check_limits(&planned.pool)?;
        let created = claim::create(&self.ctx, planned, &claim::build_claim(planned, pool), "provisioned").await;
        let pods: Vec<Arc<Pod>> = {
            let mut cluster = self.ctx.cluster.lock();
            if let Ok(name) = &created {
                planned.pods.iter().for_each(|pod| cluster.record_launched_for(pod.clone(), Str::from(name.as_str())));
            }
            planned.pods.iter().filter_map(|pod| cluster.get::<Pod>(pod).cloned()).collect()
        };
        for pod in pods {
            match &created {
                Ok(name) => self.ctx.publish(events::nominated(&pod, Some(name), None)),
                // What was refused is asked for again, and will be refused again until somebody who reads this does something.
                Err(why) if why.is_client_error() => {
                    self.ctx.publish(events::failed_scheduling(&pod, &why.to_string()))
                }
                Err(_) => {}
            }
        }
        created.map(|_| ())
    }

    /// A pool that is over a limit by now gets no more (spec 02 §4.6).
    fn check_limits(&self, name: &Str) -> Result<(), Error> {
        let cluster = self.ctx.cluster.lock();
        let Some(pool) = cluster.get::<NodePool>(name) else { return Err(Error::PoolNotFound(name.to_string())) };
        let Some(limits) = pool.spec.limits.as_ref().filter(|limits| !limits.is_empty()) else { return Ok(()) };
        let usage = cluster.pool_usage(name);
        for (resource, limit) in limits {
            // A limit that is no quantity limits to nothing.
            let most = limit.text().parse::<Quantity>().unwrap_or(Quantity::ZERO);
            let used = usage.get(resource.as_str()).copied().unwrap_or_default();
            if used > most {
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
