//! Construction and main loop of all controllers. Each controller has its own queue (spec 04 §3).
//! `controller_set` holds what all controllers share, `concurrency` their number of workers and
//! their back-off, and `event_handlers` which watch event enqueues which keys.

mod concurrency;
mod controller_set;
mod event_handlers;

use std::sync::Arc;

use futures::FutureExt as _;
use futures::stream::{FuturesUnordered, StreamExt as _};
use kerf_api::slim::Str;
use kerf_runtime::{ReconcileAction, ShutdownSignal};

use crate::context::Context;
use crate::disruption::{CommandQueue, DecisionHistory, DisruptionController, DriftBackoffs};
use crate::error::Error;
use crate::metrics::{StatusController, StatusKind};
use crate::node::health::NodeHealth;
use crate::node::hydration::NodeHydration;
use crate::node::termination::{EvictionQueue, NodeTermination};
use crate::nodeclaim::consistency::Consistency;
use crate::nodeclaim::disruption::ClaimDisruption;
use crate::nodeclaim::expiration::Expiration;
use crate::nodeclaim::garbagecollection::GarbageCollection;
use crate::nodeclaim::hydration::ClaimHydration;
use crate::nodeclaim::lifecycle::{Lifecycle, RegistrationHealth};
use crate::nodeclaim::podevents::PodEvents;
use crate::nodeclaim::stale::StaleClaims;
use crate::nodepool::cost::NodePoolCost;
use crate::nodepool::counter::NodePoolCounter;
use crate::nodepool::hash::NodePoolHash;
use crate::nodepool::readiness::Readiness;
use crate::nodepool::registrationhealth::NodePoolRegistrationHealth;
use crate::nodepool::validation::Validation;
use crate::provisioning::{Batcher, NodeTrigger, PodTrigger, Provisioner};
use crate::static_capacity::deprovisioning::StaticDeprovisioning;
use crate::static_capacity::provisioning::StaticProvisioning;
use concurrency::Concurrency;
pub(crate) use controller_set::Reconcile;
use controller_set::{ControllerSet, RegisteredController, SINGLETON_KEY};

/// All controllers of one process.
pub struct Controllers {
    ctx: Context,
    controller_set: ControllerSet,
    provisioner: Provisioner,
    history: Arc<DecisionHistory>,
    claim_disruption: RegisteredController<ClaimDisruption>,
    claim_hydration: RegisteredController<ClaimHydration>,
    claim_status: RegisteredController<StatusController>,
    commands: RegisteredController<CommandQueue>,
    consistency: RegisteredController<Consistency>,
    cost: RegisteredController<NodePoolCost>,
    counter: RegisteredController<NodePoolCounter>,
    disruption: RegisteredController<DisruptionController>,
    expiration: RegisteredController<Expiration>,
    garbage_collection: RegisteredController<GarbageCollection>,
    hash: RegisteredController<NodePoolHash>,
    lifecycle: RegisteredController<Lifecycle>,
    node_health: RegisteredController<NodeHealth>,
    node_hydration: RegisteredController<NodeHydration>,
    node_status: RegisteredController<StatusController>,
    node_trigger: RegisteredController<NodeTrigger>,
    pod_events: RegisteredController<PodEvents>,
    pod_trigger: RegisteredController<PodTrigger>,
    pool_health: RegisteredController<NodePoolRegistrationHealth>,
    pool_status: RegisteredController<StatusController>,
    readiness: RegisteredController<Readiness>,
    stale_claims: RegisteredController<StaleClaims>,
    static_deprovisioning: RegisteredController<StaticDeprovisioning>,
    static_provisioning: RegisteredController<StaticProvisioning>,
    termination: RegisteredController<NodeTermination>,
    validation: RegisteredController<Validation>,
}

impl std::fmt::Debug for Controllers {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Controllers").field("ctx", &self.ctx).finish_non_exhaustive()
    }
}

impl Controllers {
    /// Creates all controllers with empty queues. Call [`Controllers::watches`] and
    /// [`Controllers::run`] to start them.
    pub fn new(ctx: Context) -> Arc<Self> {
        let (width, each) = (Concurrency { cores: ctx.settings.cores }, || ctx.clone());
        let (most, few, one) = (width.scaled(10, 1000), width.scaled(10, 10), width.single_worker());
        let (is_shown, has_static) = (ctx.settings.cluster_state_observability, ctx.settings.static_capacity);
        let mut rack = ControllerSet::new(each());
        let health = Arc::new(RegistrationHealth::default());
        let batcher = Arc::new(Batcher::new(ctx.settings.batch_idle, ctx.settings.batch_max));
        let evictions: RegisteredController<EvictionQueue> =
            rack.add("eviction-queue", EvictionQueue::new(each()), width.drains(100));
        evictions.controller.set_queue(&evictions.queue);
        let (history, memory) = (Arc::new(DecisionHistory::default()), Arc::new(DriftBackoffs::new(ctx.settings.seed)));
        let commands: RegisteredController<CommandQueue> =
            rack.add("disruption.queue", CommandQueue::new(each(), memory.clone(), history.clone()), width.commands());
        commands.controller.set_queue(&commands.queue);
        let disruption = DisruptionController::new(each(), commands.controller.clone(), memory, history.clone());
        let node_health = NodeHealth::new(each());
        Arc::new(Self {
            claim_disruption: rack.add("nodeclaim.disruption", ClaimDisruption::new(each()), most),
            claim_hydration: rack.add("nodeclaim.hydration", ClaimHydration::new(each()), width.hydration()),
            claim_status: rack.add_if(
                is_shown,
                "operatorpkg.nodeclaim.status",
                StatusController::new(each(), StatusKind::NodeClaim),
                few,
            ),
            commands,
            consistency: rack.add("nodeclaim.consistency", Consistency::new(each()), most),
            cost: rack.add_if(is_shown, "metrics.nodepool", NodePoolCost::new(each()), one),
            counter: rack.add("nodepool.counter", NodePoolCounter::new(each()), most),
            disruption: rack.add("disruption", disruption, one),
            expiration: rack.add("nodeclaim.expiration", Expiration::new(each()), most),
            garbage_collection: rack.add("nodeclaim.garbagecollection", GarbageCollection::new(each()), one),
            hash: rack.add("nodepool.hash", NodePoolHash::new(each()), most),
            lifecycle: rack.add("nodeclaim.lifecycle", Lifecycle::new(each(), health.clone()), width.lifecycle()),
            node_health: rack.add_if(node_health.is_enabled(), "node.health", node_health, most),
            node_hydration: rack.add("node.hydration", NodeHydration::new(each()), width.hydration()),
            node_status: rack.add_if(
                is_shown,
                "operatorpkg.node.status",
                StatusController::new(each(), StatusKind::Node),
                few,
            ),
            node_trigger: rack.add("provisioner.trigger.node", NodeTrigger::new(each(), batcher.clone()), most),
            pod_events: rack.add("nodeclaim.podevents", PodEvents::new(each()), one),
            pod_trigger: rack.add("provisioner.trigger.pod", PodTrigger::new(each(), batcher.clone()), most),
            pool_health: rack.add("nodepool.registrationhealth", NodePoolRegistrationHealth::new(each(), health), most),
            pool_status: rack.add_if(
                is_shown,
                "operatorpkg.nodepool.status",
                StatusController::new(each(), StatusKind::NodePool),
                few,
            ),
            readiness: rack.add("nodepool.readiness", Readiness::new(each()), most),
            stale_claims: rack.add("state.nodeclaimgc", StaleClaims::new(each()), one),
            static_deprovisioning: rack.add_if(
                has_static,
                "static.deprovisioning",
                StaticDeprovisioning::new(each()),
                few,
            ),
            static_provisioning: rack.add_if(has_static, "static.provisioning", StaticProvisioning::new(each()), few),
            termination: rack.add(
                "node.termination",
                NodeTermination::new(each(), evictions.controller),
                width.drains(10),
            ),
            validation: rack.add("nodepool.validation", Validation::new(each()), few),
            provisioner: Provisioner::new(each(), batcher),
            history,
            controller_set: rack,
            ctx,
        })
    }

    /// Runs all controllers until shutdown is requested. Then waits for the running reconciles to
    /// finish.
    pub async fn run(&self, stop: ShutdownSignal) {
        self.garbage_collection.enqueue(&SINGLETON_KEY);
        self.disruption.enqueue(&SINGLETON_KEY);
        let mut working = self.controller_set.run(&stop);
        working.push(self.provisioner.run(stop).boxed());
        // `FuturesUnordered` polls only the futures that were woken; `join_all` would poll all of
        // them.
        working.into_iter().collect::<FuturesUnordered<_>>().collect::<()>().await;
    }

    /// Returns the recent disruption decisions, as served by `/decisions`.
    pub fn history(&self) -> Arc<DecisionHistory> {
        self.history.clone()
    }
}

impl Reconcile for DisruptionController {
    async fn reconcile(&self, _: &Str) -> Result<ReconcileAction, Error> {
        Self::reconcile(self).await
    }
}

impl Reconcile for CommandQueue {
    async fn reconcile(&self, key: &Str) -> Result<ReconcileAction, Error> {
        Self::reconcile(self, key).await
    }
}
