//! Construction and main loop of all controllers. Each controller has its own queue (spec 04 §3).
//! `names` holds the kinds that their keys name, `queue_settings` their number of workers and their
//! back-off, and `event_handlers` which watch event enqueues which keys.

mod event_handlers;
mod names;
mod queue_settings;

use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt as _;
use futures::stream::{FuturesUnordered, StreamExt as _};
use kerf_api::slim::Str;
use kerf_cloud::ProviderSetup;
use kerf_operator::logs::ObjectKind;
use kerf_operator::{Concurrency, ControllerName, ControllerSet, Reconcile, RegisteredController};
use kerf_runtime::{QueueSettings, ReconcileAction, ShutdownSignal};
use kerf_state::NodeClass;

use tracing::error;

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
pub(crate) use names::controller_name;

/// Time limit of the provider's step on becoming leader.
const LEADER_STEP_TIMEOUT: Duration = Duration::from_mins(1);

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
        let (concurrency, clone_ctx) = (Concurrency { cores: ctx.settings.cores }, || ctx.clone());
        let (many, ten, one) = (concurrency.scaled(10, 1000), concurrency.scaled(10, 10), concurrency.single_worker());
        let (has_object_metrics, has_static_capacity) =
            (ctx.settings.cluster_state_observability, ctx.settings.static_capacity);
        let mut set = ControllerSet::new(ctx.controller_environment());
        let health = Arc::new(RegistrationHealth::default());
        let batcher = Arc::new(Batcher::new(ctx.settings.batch_idle, ctx.settings.batch_max));
        let evictions: RegisteredController<EvictionQueue> = set.add(
            controller_name("eviction-queue"),
            EvictionQueue::new(clone_ctx()),
            queue_settings::drains(concurrency, 100),
        );
        evictions.controller.set_queue(&evictions.queue);
        let (history, drift_backoffs) =
            (Arc::new(DecisionHistory::default()), Arc::new(DriftBackoffs::new(ctx.settings.seed)));
        let commands: RegisteredController<CommandQueue> = set.add(
            controller_name("disruption.queue"),
            CommandQueue::new(clone_ctx(), drift_backoffs.clone(), history.clone()),
            queue_settings::commands(concurrency),
        );
        commands.controller.set_queue(&commands.queue);
        let disruption =
            DisruptionController::new(clone_ctx(), commands.controller.clone(), drift_backoffs, history.clone());
        let node_health = NodeHealth::new(clone_ctx());
        set.add_singleton::<GarbageCollection>("nodeclaim.garbagecollection", GarbageCollection::new(clone_ctx()), one);
        add_class_status(&ctx, &mut set, ten);
        ctx.cloud.clone().add_controllers(&mut ProviderSetup {
            set: &mut set,
            cloud: ctx.cloud.clone(),
            client: ctx.client.clone(),
            cluster: ctx.cluster.clone(),
            clock: ctx.clock,
            events: ctx.events.clone(),
            registry: ctx.metrics.registry().clone(),
        });
        Arc::new(Self {
            claim_disruption: set.add(controller_name("nodeclaim.disruption"), ClaimDisruption::new(clone_ctx()), many),
            claim_hydration: set.add(
                controller_name("nodeclaim.hydration"),
                ClaimHydration::new(clone_ctx()),
                queue_settings::hydration(concurrency),
            ),
            claim_status: set.add_if(
                has_object_metrics,
                controller_name("operatorpkg.nodeclaim.status"),
                StatusController::new(clone_ctx(), StatusKind::NodeClaim),
                ten,
            ),
            commands,
            consistency: set.add(controller_name("nodeclaim.consistency"), Consistency::new(clone_ctx()), many),
            cost: set.add_if(
                has_object_metrics,
                controller_name("metrics.nodepool"),
                NodePoolCost::new(clone_ctx()),
                one,
            ),
            counter: set.add(controller_name("nodepool.counter"), NodePoolCounter::new(clone_ctx()), many),
            disruption: set.add_singleton("disruption", disruption, one),
            expiration: set.add(controller_name("nodeclaim.expiration"), Expiration::new(clone_ctx()), many),
            hash: set.add(controller_name("nodepool.hash"), NodePoolHash::new(clone_ctx()), many),
            lifecycle: set.add(
                controller_name("nodeclaim.lifecycle"),
                Lifecycle::new(clone_ctx(), health.clone()),
                queue_settings::lifecycle(concurrency),
            ),
            node_health: set.add_if(node_health.is_enabled(), controller_name("node.health"), node_health, many),
            node_hydration: set.add(
                controller_name("node.hydration"),
                NodeHydration::new(clone_ctx()),
                queue_settings::hydration(concurrency),
            ),
            node_status: set.add_if(
                has_object_metrics,
                controller_name("operatorpkg.node.status"),
                StatusController::new(clone_ctx(), StatusKind::Node),
                ten,
            ),
            node_trigger: set.add(
                controller_name("provisioner.trigger.node"),
                NodeTrigger::new(clone_ctx(), batcher.clone()),
                many,
            ),
            pod_events: set.add(controller_name("nodeclaim.podevents"), PodEvents::new(clone_ctx()), one),
            pod_trigger: set.add(
                controller_name("provisioner.trigger.pod"),
                PodTrigger::new(clone_ctx(), batcher.clone()),
                many,
            ),
            pool_health: set.add(
                controller_name("nodepool.registrationhealth"),
                NodePoolRegistrationHealth::new(clone_ctx(), health),
                many,
            ),
            pool_status: set.add_if(
                has_object_metrics,
                controller_name("operatorpkg.nodepool.status"),
                StatusController::new(clone_ctx(), StatusKind::NodePool),
                ten,
            ),
            readiness: set.add(controller_name("nodepool.readiness"), Readiness::new(clone_ctx()), many),
            stale_claims: set.add(controller_name("state.nodeclaimgc"), StaleClaims::new(clone_ctx()), one),
            static_deprovisioning: set.add_if(
                has_static_capacity,
                controller_name("static.deprovisioning"),
                StaticDeprovisioning::new(clone_ctx()),
                ten,
            ),
            static_provisioning: set.add_if(
                has_static_capacity,
                controller_name("static.provisioning"),
                StaticProvisioning::new(clone_ctx()),
                ten,
            ),
            termination: set.add(
                controller_name("node.termination"),
                NodeTermination::new(clone_ctx(), evictions.controller),
                queue_settings::drains(concurrency, 10),
            ),
            validation: set.add(controller_name("nodepool.validation"), Validation::new(clone_ctx()), ten),
            provisioner: Provisioner::new(clone_ctx(), batcher),
            history,
            controller_set: set,
            ctx,
        })
    }

    /// Runs all controllers until shutdown is requested. Then waits for the running reconciles to
    /// finish.
    pub async fn run(&self, mut stop: ShutdownSignal) {
        tokio::select! {
            biased;
            () = stop.requested() => return,
            outcome = tokio::time::timeout(LEADER_STEP_TIMEOUT, self.ctx.cloud.on_leader()) => {
                if outcome.is_err() {
                    error!(
                        provider = self.ctx.cloud.name(),
                        timeout = %LEADER_STEP_TIMEOUT.as_secs(),
                        "the provider's leader step did not finish, starting the controllers"
                    );
                }
            }
        }
        let mut tasks = self.controller_set.run(&stop);
        tasks.push(self.provisioner.run(stop).boxed());
        // `FuturesUnordered` polls only the futures that were woken; `join_all` would poll all of
        // them.
        tasks.into_iter().collect::<FuturesUnordered<_>>().collect::<()>().await;
    }

    /// Returns the recent disruption decisions, as served by `/decisions`.
    pub fn history(&self) -> Arc<DecisionHistory> {
        self.history.clone()
    }
}

/// Adds the controller that reports the conditions of the provider's node classes, also if the
/// metrics of other objects are disabled (spec 07 #14).
fn add_class_status(ctx: &Context, set: &mut ControllerSet, settings: QueueSettings) {
    let Some(report) = ctx.cloud.node_class_status() else { return };
    let kind = ObjectKind { group: report.kind.group, kind: report.kind.kind };
    let controller = StatusController::new(ctx.clone(), StatusKind::NodeClass(report));
    let registered: RegisteredController<StatusController> =
        set.add(ControllerName::of_kind(report.controller, kind), controller, settings);
    set.handlers_mut().add::<NodeClass>(move |change| {
        if let Some(class) = change.latest().filter(|class| report.kind.matches(&class.reference())) {
            registered.enqueue(&Str::new(class.name()));
        }
    });
}

impl Reconcile for DisruptionController {
    type Error = Error;

    async fn reconcile(&self, _: &Str) -> Result<ReconcileAction, Error> {
        Self::reconcile(self).await
    }
}

impl Reconcile for CommandQueue {
    type Error = Error;

    async fn reconcile(&self, key: &Str) -> Result<ReconcileAction, Error> {
        Self::reconcile(self, key).await
    }
}
