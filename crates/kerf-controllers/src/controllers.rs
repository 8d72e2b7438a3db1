//! All controllers, each on a queue of its own: which news wakes which of them, and how often they come back (spec 04 §3).
//!
//! News is taken in one at a time: first the index is told, then everybody whose business it is finds the key in their queue.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures::FutureExt as _;
use futures::future::{BoxFuture, join_all};
use k8s_openapi::api::{apps, core, policy, storage};
use kerf_api::nodepool::NodePool;
use kerf_api::slim::{
    CsiNode, DaemonSet, Namespace, Node, PersistentVolume, PersistentVolumeClaim, Pod, PodDisruptionBudget,
    StorageClass, Str, VolumeAttachment,
};
use kerf_runtime::{Backoff, Chance, Event, Kind, Next, Queue, QueueSettings, Rate, Stop, Watch, WatchSettings, watch};
use kerf_state::{Change, Claim, NodeClass, Tracked};
use serde::de::DeserializeOwned;

use crate::context::Context;
use crate::disruption::{self, Disruption, History, Memory, News, Orchestration};
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
use crate::nodeclaim::stale::{self, StaleClaims};
use crate::nodepool::cost::Cost;
use crate::nodepool::counter::Counter;
use crate::nodepool::hash::Hash;
use crate::nodepool::readiness::Readiness;
use crate::nodepool::registrationhealth::PoolHealth;
use crate::nodepool::validation::Validation;
use crate::process::reconcile::observed;
use crate::provisioning::{Batcher, NodeTrigger, PodTrigger, Provisioner};
use crate::static_capacity::deprovisioning::StaticDeprovisioning;
use crate::static_capacity::provisioning::StaticProvisioning;

/// The key of controllers that look at everything at once.
const EVERYTHING: Str = Str::new_static("");

/// A controller and what it has to do.
struct Hung<C> {
    name: &'static str,
    controller: C,
    queue: Queue<Str>,
}

impl<C> Hung<C> {
    fn new(name: &'static str, controller: C, settings: QueueSettings) -> Self {
        Self { name, controller, queue: Queue::new(settings) }
    }

    /// Works until told to stop. What fails is logged and comes back.
    async fn run<'c, R>(&'c self, ctx: &'c Context, stop: Stop, reconcile: impl Fn(&'c C, Str) -> R)
    where
        R: Future<Output = Result<Next, Error>>,
    {
        // Where the identifiers of reconciles come from: another process has others.
        let ids = Mutex::new(Chance::new(ctx.settings.seed, self.name));
        let work = |key: Str| {
            let id = ids.lock().unwrap_or_else(PoisonError::into_inner).uuid();
            let outcome = reconcile(&self.controller, key.clone());
            async move { observed(ctx, self.name, &key, &id, outcome).await }
        };
        ctx.metrics.max_concurrent_reconciles.set(&[self.name], self.queue.workers() as f64);
        ctx.metrics.queues.follow(self.name, &self.queue);
        self.queue.run(stop, work).await;
    }
}

/// All controllers.
pub struct Controllers {
    ctx: Context,
    lifecycle: Hung<Lifecycle>,
    consistency: Hung<Consistency>,
    claim_disruption: Hung<ClaimDisruption>,
    expiration: Hung<Expiration>,
    claim_hydration: Hung<ClaimHydration>,
    node_health: Hung<Health>,
    node_hydration: Hung<NodeHydration>,
    termination: Hung<Termination>,
    evictions: Hung<Arc<Evictions>>,
    claim_status: Hung<Status>,
    pool_status: Hung<Status>,
    pod_events: Hung<PodEvents>,
    stale_claims: Hung<StaleClaims>,
    garbage_collection: Hung<GarbageCollection>,
    hash: Hung<Hash>,
    cost: Hung<Cost>,
    counter: Hung<Counter>,
    readiness: Hung<Readiness>,
    pool_health: Hung<PoolHealth>,
    validation: Hung<Validation>,
    static_provisioning: Hung<StaticProvisioning>,
    static_deprovisioning: Hung<StaticDeprovisioning>,
    pod_trigger: Hung<PodTrigger>,
    node_trigger: Hung<NodeTrigger>,
    provisioner: Provisioner,
    disruption: Hung<Disruption>,
    disruption_queue: Hung<Arc<Orchestration>>,
    history: Arc<History>,
}

impl std::fmt::Debug for Controllers {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Controllers").field("ctx", &self.ctx).finish_non_exhaustive()
    }
}

/// Workers between `min` and `max`, as the cores that the process asked for allow (spec 04 §1.9).
fn workers(cores: usize, min: usize, max: usize) -> usize {
    (min + (max - min) * cores.saturating_sub(1) / 59).clamp(min, max)
}

impl Controllers {
    /// All controllers, with nothing to do yet.
    pub fn new(ctx: Context) -> Arc<Self> {
        let cores = ctx.settings.cores;
        let scaled =
            |min, max| QueueSettings { workers: workers(cores, min, max), backoff: Backoff::DEFAULT, rate: None };
        let alone = QueueSettings { workers: 1, backoff: Backoff::DEFAULT, rate: None };
        let reasonable = QueueSettings {
            workers: workers(cores, 1000, 5000),
            backoff: Backoff { base: Duration::from_millis(100), max: Duration::from_mins(1) },
            rate: Some(Rate { per_second: 10, burst: 100 }),
        };
        let claims = workers(cores, 1000, 5000);
        let claims_a_second = u32::try_from(claims.div_ceil(100)).unwrap_or(u32::MAX);
        let lifecycle = QueueSettings {
            workers: claims,
            backoff: Backoff { base: Duration::from_secs(1), max: Duration::from_mins(1) },
            rate: Some(Rate { per_second: claims_a_second, burst: claims_a_second.saturating_mul(10) }),
        };
        let health = Arc::new(RegistrationHealth::default());
        let batcher = Arc::new(Batcher::new(ctx.settings.batch_idle, ctx.settings.batch_max));
        let drains = |per_second: u32| {
            let workers = workers(cores, 100, 5000);
            let per_second = u32::try_from(workers).unwrap_or(u32::MAX).saturating_mul(per_second) / 100;
            QueueSettings {
                workers,
                backoff: Backoff { base: Duration::from_millis(100), max: Duration::from_secs(10) },
                rate: Some(Rate { per_second, burst: per_second.saturating_mul(10) }),
            }
        };
        let each = || ctx.clone();
        let evictions = Arc::new(Evictions::new(each()));
        let eviction_queue = Hung::new("eviction-queue", evictions.clone(), drains(100));
        evictions.use_queue(&eviction_queue.queue);
        let (history, memory) = (Arc::new(History::default()), Arc::new(Memory::new(ctx.settings.seed)));
        let orchestration = Arc::new(Orchestration::new(each(), memory.clone(), history.clone()));
        let commands = QueueSettings {
            workers: workers(cores, 100, 1000),
            backoff: Backoff { base: Duration::from_secs(1), max: Duration::from_secs(10) },
            rate: Some(Rate { per_second: 100, burst: 1000 }),
        };
        let disruption_queue = Hung::new("disruption.queue", orchestration.clone(), commands);
        orchestration.use_queue(&disruption_queue.queue);
        let disruption = Disruption::new(each(), orchestration, memory, history.clone());
        Arc::new(Self {
            disruption: Hung::new("disruption", disruption, alone),
            disruption_queue,
            history,
            lifecycle: Hung::new("nodeclaim.lifecycle", Lifecycle::new(each(), health.clone()), lifecycle),
            consistency: Hung::new("nodeclaim.consistency", Consistency::new(each()), scaled(10, 1000)),
            claim_disruption: Hung::new("nodeclaim.disruption", ClaimDisruption::new(each()), scaled(10, 1000)),
            expiration: Hung::new("nodeclaim.expiration", Expiration::new(each()), scaled(10, 1000)),
            claim_hydration: Hung::new("nodeclaim.hydration", ClaimHydration::new(each()), reasonable),
            node_health: Hung::new("node.health", Health::new(each()), scaled(10, 1000)),
            node_hydration: Hung::new("node.hydration", NodeHydration::new(each()), reasonable),
            termination: Hung::new("node.termination", Termination::new(each(), evictions), drains(10)),
            evictions: eviction_queue,
            claim_status: Hung::new(
                "operatorpkg.nodeclaim.status",
                Status::new(each(), StatusOf::NodeClaim),
                scaled(10, 10),
            ),
            pool_status: Hung::new(
                "operatorpkg.nodepool.status",
                Status::new(each(), StatusOf::NodePool),
                scaled(10, 10),
            ),
            pod_events: Hung::new("nodeclaim.podevents", PodEvents::new(each()), alone),
            stale_claims: Hung::new("state.nodeclaimgc", StaleClaims::new(each()), alone),
            garbage_collection: Hung::new("nodeclaim.garbagecollection", GarbageCollection::new(each()), alone),
            hash: Hung::new("nodepool.hash", Hash::new(each()), scaled(10, 1000)),
            cost: Hung::new("metrics.nodepool", Cost::new(each()), alone),
            counter: Hung::new("nodepool.counter", Counter::new(each()), scaled(10, 1000)),
            readiness: Hung::new("nodepool.readiness", Readiness::new(each()), scaled(10, 1000)),
            pool_health: Hung::new("nodepool.registrationhealth", PoolHealth::new(each(), health), scaled(10, 1000)),
            validation: Hung::new("nodepool.validation", Validation::new(each()), scaled(10, 10)),
            static_provisioning: Hung::new("static.provisioning", StaticProvisioning::new(each()), scaled(10, 10)),
            static_deprovisioning: Hung::new(
                "static.deprovisioning",
                StaticDeprovisioning::new(each()),
                scaled(10, 10),
            ),
            pod_trigger: Hung::new(
                "provisioner.trigger.pod",
                PodTrigger::new(each(), batcher.clone()),
                scaled(10, 1000),
            ),
            node_trigger: Hung::new(
                "provisioner.trigger.node",
                NodeTrigger::new(each(), batcher.clone()),
                scaled(10, 1000),
            ),
            provisioner: Provisioner::new(each(), batcher),
            ctx,
        })
    }

    /// Does what there is to do until told to stop, then lets what is running finish.
    pub async fn run(&self, stop: Stop) {
        self.garbage_collection.queue.add(EVERYTHING);
        self.disruption.queue.add(EVERYTHING);
        let (s, all) = (|| stop.clone(), self);
        let working: Vec<BoxFuture<'_, ()>> = vec![
            all.lifecycle.run(&all.ctx, s(), |c, key| async move { c.reconcile(&key).await }).boxed(),
            all.consistency.run(&all.ctx, s(), |c, key| async move { c.reconcile(&key).await }).boxed(),
            all.claim_disruption.run(&all.ctx, s(), |c, key| async move { c.reconcile(&key).await }).boxed(),
            all.expiration.run(&all.ctx, s(), |c, key| async move { c.reconcile(&key).await }).boxed(),
            all.claim_hydration.run(&all.ctx, s(), |c, key| async move { c.reconcile(&key).await }).boxed(),
            all.node_health.run(&all.ctx, s(), |c, key| async move { c.reconcile(&key).await }).boxed(),
            all.node_hydration.run(&all.ctx, s(), |c, key| async move { c.reconcile(&key).await }).boxed(),
            all.termination.run(&all.ctx, s(), |c, key| async move { c.reconcile(&key).await }).boxed(),
            all.evictions.run(&all.ctx, s(), |c, key| async move { c.reconcile(&key).await }).boxed(),
            all.claim_status
                .run(&all.ctx, s(), |c, key| async move {
                    c.reconcile(&key);
                    Ok(Next::Done)
                })
                .boxed(),
            all.pool_status
                .run(&all.ctx, s(), |c, key| async move {
                    c.reconcile(&key);
                    Ok(Next::Done)
                })
                .boxed(),
            all.pod_events.run(&all.ctx, s(), |c, key| async move { c.reconcile(&key).await }).boxed(),
            all.stale_claims.run(&all.ctx, s(), |c, key| async move { c.reconcile(&key).await }).boxed(),
            all.garbage_collection.run(&all.ctx, s(), |c, _| c.reconcile()).boxed(),
            all.hash.run(&all.ctx, s(), |c, key| async move { c.reconcile(&key).await }).boxed(),
            all.cost.run(&all.ctx, s(), |c, key| async move { Ok(c.reconcile(&key).await) }).boxed(),
            all.counter.run(&all.ctx, s(), |c, key| async move { c.reconcile(&key).await }).boxed(),
            all.readiness.run(&all.ctx, s(), |c, key| async move { c.reconcile(&key).await }).boxed(),
            all.pool_health.run(&all.ctx, s(), |c, key| async move { c.reconcile(&key).await }).boxed(),
            all.validation.run(&all.ctx, s(), |c, key| async move { c.reconcile(&key).await }).boxed(),
            all.static_provisioning.run(&all.ctx, s(), |c, key| async move { c.reconcile(&key).await }).boxed(),
            all.static_deprovisioning.run(&all.ctx, s(), |c, key| async move { c.reconcile(&key).await }).boxed(),
            all.pod_trigger.run(&all.ctx, s(), |c, key| async move { Ok(c.reconcile(&key)) }).boxed(),
            all.node_trigger.run(&all.ctx, s(), |c, key| async move { Ok(c.reconcile(&key)) }).boxed(),
            all.provisioner.run(s()).boxed(),
            all.disruption.run(&all.ctx, s(), |c, _| c.reconcile()).boxed(),
            all.disruption_queue.run(&all.ctx, s(), |c, key| async move { c.reconcile(&key).await }).boxed(),
        ];
        join_all(working).await;
    }

    /// The decisions of the last while.
    pub fn history(&self) -> Arc<History> {
        self.history.clone()
    }

    /// Something happened. Disruption looks again if it can matter to it.
    fn heard<T: News>(&self, change: &Change<T>) {
        if T::matters(change) {
            self.disruption.controller.changed();
            self.disruption.queue.add_after(EVERYTHING, disruption::SOON);
        }
    }

    /// The watches that feed the index and wake the controllers: how far each is, and the work, which goes on for as long as it is
    /// polled. They may run before [`Controllers::run`] does, so that a standby's picture is whole when its turn comes.
    pub fn watches(self: &Arc<Self>, seed: u64) -> (Vec<Watch>, BoxFuture<'static, ()>) {
        let mut watches = Watches { of: self.clone(), seed, outside: Vec::new(), work: Vec::new() };
        watches.add(Kind::of::<kerf_api::nodeclaim::NodeClaim>(), Self::on_claim);
        watches.add(Kind::of::<NodePool>(), Self::on_pool);
        for class in self.ctx.cloud.node_classes() {
            let kind = Kind { group: class.group, version: class.version, plural: class.plural, name: class.kind };
            watches.add(kind, Self::on_class);
        }
        watches.add(Kind::of::<core::v1::Node>(), Self::on_node);
        watches.add(Kind::of::<core::v1::Pod>(), Self::on_pod);
        watches.add(Kind::of::<apps::v1::DaemonSet>(), Self::on_other::<DaemonSet>);
        watches.add(Kind::of::<policy::v1::PodDisruptionBudget>(), Self::on_budget);
        watches.add(Kind::of::<core::v1::PersistentVolumeClaim>(), Self::on_other::<PersistentVolumeClaim>);
        watches.add(Kind::of::<core::v1::PersistentVolume>(), Self::on_other::<PersistentVolume>);
        watches.add(Kind::of::<storage::v1::StorageClass>(), Self::on_other::<StorageClass>);
        watches.add(Kind::of::<storage::v1::CSINode>(), Self::on_other::<CsiNode>);
        watches.add(Kind::of::<storage::v1::VolumeAttachment>(), Self::on_other::<VolumeAttachment>);
        watches.add(Kind::of::<core::v1::Namespace>(), Self::on_other::<Namespace>);
        (watches.outside, join_all(watches.work).map(drop).boxed())
    }

    /// Tells the index, and gives what that changed.
    fn told<T: Tracked>(&self, news: Event<T>) -> Vec<Change<T>> {
        let mut cluster = self.ctx.cluster.lock();
        match news {
            Event::Reset(objects) => cluster.reset(objects),
            Event::Applied(object) => cluster.apply(object).into_iter().collect(),
            Event::Deleted(object) => cluster.delete(&object).into_iter().collect(),
        }
    }

    fn on_other<T: Tracked>(&self, news: Event<T>) {
        self.told(news);
    }

    fn on_budget(&self, news: Event<PodDisruptionBudget>) {
        for change in self.told(news) {
            self.heard(&change);
        }
    }

    fn on_claim(&self, news: Event<Claim>) {
        {
            let mut cluster = self.ctx.cluster.lock();
            let heard_of = match &news {
                Event::Reset(claims) => claims.as_slice(),
                Event::Applied(claim) | Event::Deleted(claim) => std::slice::from_ref(claim),
            };
            for claim in heard_of {
                cluster.confirm(claim.name());
            }
        }
        for change in self.told(news) {
            self.heard(&change);
            let Some(claim) = change.latest() else { continue };
            let name = claim.name();
            self.lifecycle.queue.add(name.clone());
            self.claim_status.queue.add(name.clone());
            if change.after.is_some() {
                self.consistency.queue.add(name.clone());
                self.claim_disruption.queue.add(name.clone());
                self.expiration.queue.add(name.clone());
                self.claim_hydration.queue.add(name.clone());
            }
            let comes_or_goes = change.before.is_none() || change.after.is_none() || claim.is_terminating();
            if let Some(pool) = claim.pool().filter(|_| comes_or_goes) {
                self.look_at_replicas(&Str::from(pool));
            }
            if change.before.is_none() {
                self.stale_claims.queue.add_after(name.clone(), stale::DELAY);
            }
            let cluster = self.ctx.cluster.lock();
            for node in cluster.nodes_of(&claim.seen.provider_id) {
                self.node_hydration.queue.add(node.metadata.name.clone());
                if change.before.is_none() && self.node_health.controller.is_on() {
                    self.node_health.queue.add(node.metadata.name.clone());
                }
            }
        }
    }

    fn on_pool(&self, news: Event<NodePool>) {
        for change in self.told(news) {
            self.heard(&change);
            if let Some(pool) = change.latest() {
                self.pool_status.queue.add(pool.key());
                self.cost.queue.add(pool.key());
                if change.after.is_none() {
                    self.claim_disruption.controller.forget(&pool.key());
                }
            }
            if let (Some(pool), None) = (&change.before, &change.after) {
                disruption::forget_pool(&self.ctx, pool);
            }
            let Some(pool) = change.after.as_ref().filter(|pool| self.ctx.manages_pool(pool)) else { continue };
            let name = pool.key();
            if self.claim_disruption.controller.is_news(pool) {
                self.look_at_disruption(|claim| claim.pool() == Some(name.as_str()));
            }
            if pool.spec.replicas.is_some() {
                self.look_at_replicas(&name);
            }
            self.hash.queue.add(name.clone());
            self.readiness.queue.add(name.clone());
            self.pool_health.queue.add(name.clone());
            self.validation.queue.add(name.clone());
            if change.before.is_none() {
                self.counter.queue.add(name);
            }
        }
    }

    fn on_class(&self, news: Event<NodeClass>) {
        let is_list = matches!(news, Event::Reset(_));
        let changed: Vec<Str> = self.told(news).iter().filter_map(Change::latest).map(|class| class.key()).collect();
        self.look_at_disruption(|claim| changed.iter().any(|name| *name == claim.object.spec.node_class_ref.name));
        let cluster = self.ctx.cluster.lock();
        for (name, pool) in cluster.all::<NodePool>().iter() {
            // A list also tells which classes there are not.
            let class = pool.spec.template.spec.node_class_ref.name.as_str();
            if is_list || changed.iter().any(|name| name == class) {
                self.readiness.queue.add(name.clone());
                self.pool_health.queue.add(name.clone());
            }
        }
    }

    /// Has some claims looked at again: have they drifted, may they be consolidated?
    fn look_at_disruption(&self, is_meant: impl Fn(&Claim) -> bool) {
        let cluster = self.ctx.cluster.lock();
        for claim in cluster.all::<Claim>().values().filter(|claim| is_meant(claim)) {
            self.claim_disruption.queue.add(claim.name().clone());
        }
    }

    /// Has a pool looked at that may be a static one.
    fn look_at_replicas(&self, pool: &Str) {
        if self.ctx.settings.static_capacity {
            self.static_provisioning.queue.add(pool.clone());
            self.static_deprovisioning.queue.add(pool.clone());
        }
    }

    fn on_node(&self, news: Event<Node>) {
        for change in self.told(news) {
            self.heard(&change);
            let cluster = self.ctx.cluster.lock();
            for node in [&change.before, &change.after].into_iter().flatten() {
                for claim in cluster.claims_of(&node.spec.provider_id) {
                    self.lifecycle.queue.add(claim.name().clone());
                    self.consistency.queue.add(claim.name().clone());
                }
            }
            if let Some(node) = &change.after {
                self.node_hydration.queue.add(node.metadata.name.clone());
                self.node_trigger.queue.add(node.metadata.name.clone());
                let before = change.before.as_ref().map(|node| &node.status.conditions);
                if before != Some(&node.status.conditions) && self.node_health.controller.is_on() {
                    self.node_health.queue.add(node.metadata.name.clone());
                }
                if node.metadata.is_terminating() {
                    self.termination.queue.add(node.metadata.name.clone());
                }
            } else if let Some(node) = &change.before {
                self.termination.controller.forget(node);
            }
        }
    }

    fn on_pod(&self, news: Event<Pod>) {
        for change in self.told(news) {
            self.heard(&change);
            self.ctx.metrics.pod_changed(&change, self.ctx.now());
            if let Some(pod) = change.after.as_ref().filter(|pod| pod.spec.node_name.is_none()) {
                self.pod_trigger.queue.add(pod.key());
            }
            if let Some(node) = self.pod_events.controller.node_to_tell(&change) {
                self.pod_events.queue.add(node);
            }
        }
    }
}

/// Watches in the making.
struct Watches {
    of: Arc<Controllers>,
    seed: u64,
    outside: Vec<Watch>,
    work: Vec<BoxFuture<'static, ()>>,
}

impl Watches {
    fn add<T>(&mut self, kind: Kind, tell: fn(&Controllers, Event<T>))
    where
        T: DeserializeOwned + Send + 'static,
    {
        let controllers = self.of.clone();
        let client = controllers.ctx.client.clone();
        let (outside, work) = watch(client, WatchSettings::new(kind, self.seed), move |news| tell(&controllers, news));
        self.outside.push(outside);
        self.work.push(work.boxed());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // spec 04 §1.9, spec 07 §1.2
    #[test]
    fn workers_scale_with_cores() {
        assert_eq!(workers(1, 10, 1000), 10);
        assert_eq!(workers(2, 10, 1000), 26);
        assert_eq!(workers(15, 10, 1000), 244);
        assert_eq!(workers(60, 10, 1000), 1000);
        assert_eq!(workers(500, 1000, 5000), 5000);
    }
}
