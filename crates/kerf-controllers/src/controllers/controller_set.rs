//! A controller on a queue of its own: everything that all of them do alike. Keys are put into the queue by whoever hears of something; the
//! controller looks at what a key names, one reconcile at a time for each, and every reconcile is seen by operators in the same way.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use kerf_api::slim::Str;
use kerf_runtime::{Queue, QueueSettings, ReconcileAction, Rng, ShutdownSignal};

use crate::context::Context;
use crate::error::Error;
use crate::process::reconcile::instrument_reconcile;

/// The key of controllers that look at everything at once.
pub(super) const SINGLETON_KEY: Str = Str::new_static("");

/// A controller.
pub(crate) trait Reconcile: Send + Sync + 'static {
    /// Looks at what a key names, does what there is to do, and says when to look again. It acts on what is, not on what happened, so it does
    /// not matter who asked, or how often.
    fn reconcile(&self, key: &Str) -> impl Future<Output = Result<ReconcileAction, Error>> + Send;
}

/// A controller and its queue. Copies are the same.
#[derive(Debug)]
pub(super) struct RegisteredController<C> {
    name: &'static str,
    pub(super) controller: Arc<C>,
    pub(super) queue: Queue<Str>,
    is_enabled: bool,
}

impl<C> Clone for RegisteredController<C> {
    fn clone(&self) -> Self {
        let Self { name, controller, queue, is_enabled: is_on } = self;
        Self { name, controller: controller.clone(), queue: queue.clone(), is_enabled: *is_on }
    }
}

impl<C> RegisteredController<C> {
    /// Wants a key looked at.
    pub(super) fn enqueue(&self, key: &Str) {
        self.enqueue_after(key, Duration::ZERO);
    }

    /// Wants a key looked at after a while.
    pub(super) fn enqueue_after(&self, key: &Str, delay: Duration) {
        if self.is_enabled {
            self.queue.add_after(key.clone(), delay);
        }
    }
}

/// All controllers that hang on queues, to be run together.
pub(super) struct ControllerSet {
    ctx: Context,
    controllers: Vec<Box<dyn Runnable>>,
}

impl ControllerSet {
    pub(super) fn new(ctx: Context) -> Self {
        Self { ctx, controllers: Vec::new() }
    }

    /// Hangs up a controller.
    pub(super) fn add<C: Reconcile>(
        &mut self,
        name: &'static str,
        controller: impl Into<Arc<C>>,
        settings: QueueSettings,
    ) -> RegisteredController<C> {
        self.add_if(true, name, controller, settings)
    }

    /// Hangs up a controller that can be switched off: then whatever is added for it is forgotten, and nothing is seen of it.
    pub(super) fn add_if<C: Reconcile>(
        &mut self,
        is_on: bool,
        name: &'static str,
        controller: impl Into<Arc<C>>,
        settings: QueueSettings,
    ) -> RegisteredController<C> {
        let hung = RegisteredController {
            name,
            controller: controller.into(),
            queue: Queue::new(settings),
            is_enabled: is_on,
        };
        if is_on {
            self.controllers.push(Box::new(hung.clone()));
        }
        hung
    }

    /// The work of all of them, until told to stop. What is running then is finished.
    pub(super) fn run(&self, stop: &ShutdownSignal) -> Vec<BoxFuture<'_, ()>> {
        self.controllers.iter().map(|hung| hung.run(&self.ctx, stop.clone())).collect()
    }
}

/// A controller of any kind.
trait Runnable: Send + Sync {
    fn run<'c>(&'c self, ctx: &'c Context, stop: ShutdownSignal) -> BoxFuture<'c, ()>;
}

impl<C: Reconcile> Runnable for RegisteredController<C> {
    fn run<'c>(&'c self, ctx: &'c Context, stop: ShutdownSignal) -> BoxFuture<'c, ()> {
        let name = self.name;
        // Where the identifiers of reconciles come from: another process has others.
        let ids = Mutex::new(Rng::new(ctx.settings.seed, name));
        let reconcile = move |key: Str, waited: Duration| {
            ctx.metrics.queues.observe_queue_duration(name, waited);
            let id = ids.lock().unwrap_or_else(PoisonError::into_inner).uuid();
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
