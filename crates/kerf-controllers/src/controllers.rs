//! All controllers, each on a queue of its own (spec 04 §3): `hung` has what they do alike, `widths` how much of it at a time, `news` which news
//! wakes which of them. Here they are put together.

mod concurrency;
mod controller_set;
mod event_handlers;

use std::sync::Arc;

use futures::FutureExt as _;
use futures::stream::{FuturesUnordered, StreamExt as _};
use kerf_api::slim::Str;
use kerf_runtime::{ReconcileAction, ShutdownSignal};

use crate::context::Context;
use crate::disruption::{Disruption, History, Memory, Orchestration};
use crate::error::Error;
use crate::metrics::{Status, StatusOf};
use crate::node::health::Health;
use crate::node::hydration::NodeHydration;
use crate::node::termination::{Evictions, Termination};
use crate::nodeclaim::consistency::Consistency;
use crate::nodeclaim::disruption::ClaimDisruption;
use crate::nodeclaim::expiration::Expiration;
use crate::nodeclaim::garbagecollection::GarbageCollection;
use crate::nodeclaim::hydration::ClaimHydration;
use crate::nodeclaim::lifecycle::{Lifecycle, RegistrationHealth};
use crate::nodeclaim::podevents::PodEvents;
use crate::nodeclaim::stale::StaleClaims;
use crate::nodepool::cost::Cost;
use crate::nodepool::counter::Counter;
use crate::nodepool::hash::Hash;
use crate::nodepool::readiness::Readiness;
use crate::nodepool::registrationhealth::PoolHealth;
use crate::nodepool::validation::Validation;
use crate::provisioning::{Batcher, NodeTrigger, PodTrigger, Provisioner};
use crate::static_capacity::deprovisioning::StaticDeprovisioning;
use crate::static_capacity::provisioning::StaticProvisioning;
use concurrency::Widths;
pub(crate) use controller_set::Reconcile;
use controller_set::{EVERYTHING, Hung, Rack};

/// All controllers.
pub struct Controllers {
    ctx: Context,
    rack: Rack,
    provisioner: Provisioner,
    history: Arc<History>,
    claim_disruption: Hung<ClaimDisruption>,
    claim_hydration: Hung<ClaimHydration>,
    claim_status: Hung<Status>,
    commands: Hung<Orchestration>,
    consistency: Hung<Consistency>,
    cost: Hung<Cost>,
    counter: Hung<Counter>,
    disruption: Hung<Disruption>,
    expiration: Hung<Expiration>,
    garbage_collection: Hung<GarbageCollection>,
    hash: Hung<Hash>,
    lifecycle: Hung<Lifecycle>,
    node_health: Hung<Health>,
    node_hydration: Hung<NodeHydration>,
    node_status: Hung<Status>,
    node_trigger: Hung<NodeTrigger>,
    pod_events: Hung<PodEvents>,
    pod_trigger: Hung<PodTrigger>,
    pool_health: Hung<PoolHealth>,
    pool_status: Hung<Status>,
    readiness: Hung<Readiness>,
    stale_claims: Hung<StaleClaims>,
    static_deprovisioning: Hung<StaticDeprovisioning>,
    static_provisioning: Hung<StaticProvisioning>,
    termination: Hung<Termination>,
    validation: Hung<Validation>,
}

impl std::fmt::Debug for Controllers {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Controllers").field("ctx", &self.ctx).finish_non_exhaustive()
    }
}

impl Controllers {
    /// All controllers, with nothing to do yet.
    pub fn new(ctx: Context) -> Arc<Self> {
        let (width, each) = (Widths { cores: ctx.settings.cores }, || ctx.clone());
        let (most, few, one) = (width.scaled(10, 1000), width.scaled(10, 10), width.alone());
        let (is_shown, has_static) = (ctx.settings.cluster_state_observability, ctx.settings.static_capacity);
        let mut rack = Rack::new(each());
        let health = Arc::new(RegistrationHealth::default());
        let batcher = Arc::new(Batcher::new(ctx.settings.batch_idle, ctx.settings.batch_max));
        let evictions: Hung<Evictions> = rack.hang("eviction-queue", Evictions::new(each()), width.drains(100));
        evictions.controller.use_queue(&evictions.queue);
        let (history, memory) = (Arc::new(History::default()), Arc::new(Memory::new(ctx.settings.seed)));
        let commands: Hung<Orchestration> = rack.hang(
            "disruption.queue",
            Orchestration::new(each(), memory.clone(), history.clone()),
            width.commands(),
        );
        commands.controller.use_queue(&commands.queue);
        let disruption = Disruption::new(each(), commands.controller.clone(), memory, history.clone());
        let node_health = Health::new(each());
        Arc::new(Self {
            claim_disruption: rack.hang("nodeclaim.disruption", ClaimDisruption::new(each()), most),
            claim_hydration: rack.hang("nodeclaim.hydration", ClaimHydration::new(each()), width.reasonable()),
            claim_status: rack.hang_if(
                is_shown,
                "operatorpkg.nodeclaim.status",
                Status::new(each(), StatusOf::NodeClaim),
                few,
            ),
            commands,
            consistency: rack.hang("nodeclaim.consistency", Consistency::new(each()), most),
            cost: rack.hang_if(is_shown, "metrics.nodepool", Cost::new(each()), one),
            counter: rack.hang("nodepool.counter", Counter::new(each()), most),
            disruption: rack.hang("disruption", disruption, one),
            expiration: rack.hang("nodeclaim.expiration", Expiration::new(each()), most),
            garbage_collection: rack.hang("nodeclaim.garbagecollection", GarbageCollection::new(each()), one),
            hash: rack.hang("nodepool.hash", Hash::new(each()), most),
            lifecycle: rack.hang("nodeclaim.lifecycle", Lifecycle::new(each(), health.clone()), width.lifecycle()),
            node_health: rack.hang_if(node_health.is_on(), "node.health", node_health, most),
            node_hydration: rack.hang("node.hydration", NodeHydration::new(each()), width.reasonable()),
            node_status: rack.hang_if(is_shown, "operatorpkg.node.status", Status::new(each(), StatusOf::Node), few),
            node_trigger: rack.hang("provisioner.trigger.node", NodeTrigger::new(each(), batcher.clone()), most),
            pod_events: rack.hang("nodeclaim.podevents", PodEvents::new(each()), one),
            pod_trigger: rack.hang("provisioner.trigger.pod", PodTrigger::new(each(), batcher.clone()), most),
            pool_health: rack.hang("nodepool.registrationhealth", PoolHealth::new(each(), health), most),
            pool_status: rack.hang_if(
                is_shown,
                "operatorpkg.nodepool.status",
                Status::new(each(), StatusOf::NodePool),
                few,
            ),
            readiness: rack.hang("nodepool.readiness", Readiness::new(each()), most),
            stale_claims: rack.hang("state.nodeclaimgc", StaleClaims::new(each()), one),
            static_deprovisioning: rack.hang_if(
                has_static,
                "static.deprovisioning",
                StaticDeprovisioning::new(each()),
                few,
            ),
            static_provisioning: rack.hang_if(has_static, "static.provisioning", StaticProvisioning::new(each()), few),
            termination: rack.hang(
                "node.termination",
                Termination::new(each(), evictions.controller),
                width.drains(10),
            ),
            validation: rack.hang("nodepool.validation", Validation::new(each()), few),
            provisioner: Provisioner::new(each(), batcher),
            history,
            rack,
            ctx,
        })
    }

    /// Does what there is to do until told to stop, then lets what is running finish.
    pub async fn run(&self, stop: ShutdownSignal) {
        self.garbage_collection.add(&EVERYTHING);
        self.disruption.add(&EVERYTHING);
        let mut working = self.rack.run(&stop);
        working.push(self.provisioner.run(stop).boxed());
        // Only those are polled that have something to do, as join_all would not.
        working.into_iter().collect::<FuturesUnordered<_>>().collect::<()>().await;
    }

    /// The decisions of the last while.
    pub fn history(&self) -> Arc<History> {
        self.history.clone()
    }
}

impl Reconcile for Disruption {
    async fn reconcile(&self, _: &Str) -> Result<ReconcileAction, Error> {
        Self::reconcile(self).await
    }
}

impl Reconcile for Orchestration {
    async fn reconcile(&self, key: &Str) -> Result<ReconcileAction, Error> {
        Self::reconcile(self, key).await
    }
}
