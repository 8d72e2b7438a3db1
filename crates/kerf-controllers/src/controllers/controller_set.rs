//! The registration of controllers: each has its own queue, and each reconcile is instrumented in
//! one way. Event handlers put keys into the queue. A controller never reconciles one key twice at
//! the same time.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use kerf_api::slim::Str;
use kerf_runtime::{Queue, QueueSettings, ReconcileAction, Rng, ShutdownSignal};

use crate::context::Context;
use crate::error::Error;
use crate::process::reconcile::instrument_reconcile;

/// The only key of controllers that process the whole cluster at once.
pub(super) const SINGLETON_KEY: Str = Str::new_static("");

/// A controller.
pub(crate) trait Reconcile: Send + Sync + 'static {
    /// Compares the wanted with the actual state of the object that the key names, acts on the
    /// difference, and returns when to run again. It reads the current state, not the event that
    /// enqueued the key, so the source and the number of events do not matter.
    fn reconcile(&self, key: &Str) -> impl Future<Output = Result<ReconcileAction, Error>> + Send;
}

/// A controller and its queue. Clones share both.
#[derive(Debug)]
pub(super) struct RegisteredController<C> {
    name: &'static str,
    pub(super) controller: Arc<C>,
    pub(super) queue: Queue<Str>,
    is_enabled: bool,
}

impl<C> Clone for RegisteredController<C> {
    fn clone(&self) -> Self {
        let Self { name, controller, queue, is_enabled } = self;
        Self { name, controller: controller.clone(), queue: queue.clone(), is_enabled: *is_enabled }
    }
}

impl<C> RegisteredController<C> {
    /// Enqueues a key. Does nothing if the controller is disabled.
    pub(super) fn enqueue(&self, key: &Str) {
        self.enqueue_after(key, Duration::ZERO);
    }

    /// Enqueues a key after a delay. Does nothing if the controller is disabled.
    pub(super) fn enqueue_after(&self, key: &Str, delay: Duration) {
        if self.is_enabled {
            self.queue.add_after(key.clone(), delay);
        }
    }
}

/// All enabled controllers that have a queue.
pub(super) struct ControllerSet {
    ctx: Context,
    controllers: Vec<Box<dyn Runnable>>,
}

impl ControllerSet {
    pub(super) fn new(ctx: Context) -> Self {
        Self { ctx, controllers: Vec::new() }
    }

    /// Adds a controller.
    pub(super) fn add<C: Reconcile>(
        &mut self,
        name: &'static str,
        controller: impl Into<Arc<C>>,
        settings: QueueSettings,
    ) -> RegisteredController<C> {
        self.add_if(true, name, controller, settings)
    }

    /// Adds a controller that can be disabled. A disabled controller ignores all keys and has no
    /// metrics.
    pub(super) fn add_if<C: Reconcile>(
        &mut self,
        is_enabled: bool,
        name: &'static str,
        controller: impl Into<Arc<C>>,
        settings: QueueSettings,
    ) -> RegisteredController<C> {
        let registered =
            RegisteredController { name, controller: controller.into(), queue: Queue::new(settings), is_enabled };
        if is_enabled {
            self.controllers.push(Box::new(registered.clone()));
        }
        registered
    }

    /// Returns one future per controller, which runs until shutdown is requested and the running
    /// reconciles have finished.
    pub(super) fn run(&self, stop: &ShutdownSignal) -> Vec<BoxFuture<'_, ()>> {
        self.controllers.iter().map(|controller| controller.run(&self.ctx, stop.clone())).collect()
    }
}

/// A [`RegisteredController`] with its type erased.
trait Runnable: Send + Sync {
    fn run<'c>(&'c self, ctx: &'c Context, stop: ShutdownSignal) -> BoxFuture<'c, ()>;
}

impl<C: Reconcile> Runnable for RegisteredController<C> {
    fn run<'c>(&'c self, ctx: &'c Context, stop: ShutdownSignal) -> BoxFuture<'c, ()> {
        let name = self.name;
        // Source of the reconcile IDs. The seed differs between processes, so the IDs do too.
        let id_rng = Mutex::new(Rng::new(ctx.settings.seed).fork(name));
        let reconcile = move |key: Str, waited: Duration| {
            ctx.metrics.queues.observe_queue_duration(name, waited);
            let id = id_rng.lock().unwrap_or_else(PoisonError::into_inner).uuid();
            async move { instrument_reconcile(ctx, name, &key, &id, self.controller.reconcile(&key)).await }
        };
        async move {
            ctx.metrics.init_controller_series(name, self.queue.workers());
            let queue = self.queue.clone();
            ctx.metrics.queues.register_queue(name, move || queue.stats());
            self.queue.run(stop, reconcile).await;
        }
        .boxed()
    }
}
