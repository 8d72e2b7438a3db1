//! The registration of controllers: each has its own queue, and each reconcile is instrumented in
//! one way. Event handlers put keys into the queue. A controller never reconciles one key twice at
//! the same time.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use kerf_api::slim::Str;
use kerf_runtime::{Clock, Queue, QueueSettings, ReconcileAction, Rng, ShutdownSignal};

use crate::change_handlers::ChangeHandlers;
use crate::controller::{ControllerName, Reconcile};
use crate::metrics::ControllerMetrics;
use crate::reconcile::instrument_reconcile;

/// The only key of controllers that process the whole cluster at once.
pub const SINGLETON_KEY: Str = Str::new_static("");

/// A controller and its queue. Clones share both.
#[derive(Debug)]
pub struct RegisteredController<C> {
    name: ControllerName,
    /// The controller; all clones share it.
    pub controller: Arc<C>,
    /// The queue of keys.
    pub queue: Queue<Str>,
    is_enabled: bool,
}

impl<C> Clone for RegisteredController<C> {
    fn clone(&self) -> Self {
        let Self { name, controller, queue, is_enabled } = self;
        Self { name: *name, controller: controller.clone(), queue: queue.clone(), is_enabled: *is_enabled }
    }
}

impl<C> RegisteredController<C> {
    /// Enqueues a key. Does nothing if the controller is disabled.
    pub fn enqueue(&self, key: &Str) {
        self.enqueue_after(key, Duration::ZERO);
    }

    /// Enqueues a key after a delay. Does nothing if the controller is disabled.
    pub fn enqueue_after(&self, key: &Str, delay: Duration) {
        if self.is_enabled {
            self.queue.add_after(key.clone(), delay);
        }
    }
}

/// Parts of the process that run the controllers.
#[derive(Clone, Debug)]
pub struct ControllerEnvironment {
    /// Metrics of reconciles and queues.
    pub metrics: Arc<ControllerMetrics>,
    /// The only source of time.
    pub clock: Clock,
    /// Seed of the reconcile IDs. It must differ between processes.
    pub seed: u64,
    /// CPU cores of the process, from which numbers of workers are computed.
    pub cores: usize,
}

/// All enabled controllers that have a queue, and the handlers that enqueue their keys.
pub struct ControllerSet {
    environment: ControllerEnvironment,
    controllers: Vec<Box<dyn Runnable>>,
    /// Queues of the singletons; each gets its key when the controllers start.
    singletons: Vec<Queue<Str>>,
    handlers: ChangeHandlers,
}

impl fmt::Debug for ControllerSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ControllerSet").field("controllers", &self.controllers.len()).finish_non_exhaustive()
    }
}

impl ControllerSet {
    /// Returns a set without controllers.
    pub fn new(environment: ControllerEnvironment) -> Self {
        Self { environment, controllers: Vec::new(), singletons: Vec::new(), handlers: ChangeHandlers::default() }
    }

    /// Returns metrics, clock and seed of the controllers.
    pub fn environment(&self) -> &ControllerEnvironment {
        &self.environment
    }

    /// Returns the handlers that run after each change of cluster state, to add further ones.
    pub fn handlers_mut(&mut self) -> &mut ChangeHandlers {
        &mut self.handlers
    }

    /// Returns the handlers that run after each change of cluster state.
    pub fn handlers(&self) -> &ChangeHandlers {
        &self.handlers
    }

    /// Adds a controller.
    pub fn add<C: Reconcile>(
        &mut self,
        name: ControllerName,
        controller: impl Into<Arc<C>>,
        settings: QueueSettings,
    ) -> RegisteredController<C> {
        self.add_if(true, name, controller, settings)
    }

    /// Adds a controller that can be disabled. A disabled controller ignores all keys and has no
    /// metrics.
    pub fn add_if<C: Reconcile>(
        &mut self,
        is_enabled: bool,
        name: ControllerName,
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

    /// Adds a controller with a single key and one worker. Its first run starts when the process
    /// becomes leader; each further run follows from the result of the run before.
    pub fn add_singleton<C: Reconcile>(
        &mut self,
        name: &'static str,
        controller: impl Into<Arc<C>>,
        settings: QueueSettings,
    ) -> RegisteredController<C> {
        let registered =
            self.add(ControllerName::singleton(name), controller, QueueSettings { workers: 1, ..settings });
        self.singletons.push(registered.queue.clone());
        registered
    }

    /// Returns one future per controller, which runs until shutdown is requested and the running
    /// reconciles have finished. Enqueues the first run of each singleton.
    pub fn run(&self, stop: &ShutdownSignal) -> Vec<BoxFuture<'_, ()>> {
        for queue in &self.singletons {
            queue.add_after(SINGLETON_KEY, Duration::ZERO);
        }
        self.controllers.iter().map(|controller| controller.run(&self.environment, stop.clone())).collect()
    }
}

/// A [`RegisteredController`] with its type erased.
trait Runnable: Send + Sync {
    fn run<'c>(&'c self, environment: &'c ControllerEnvironment, stop: ShutdownSignal) -> BoxFuture<'c, ()>;
}

impl<C: Reconcile> Runnable for RegisteredController<C> {
    fn run<'c>(&'c self, environment: &'c ControllerEnvironment, stop: ShutdownSignal) -> BoxFuture<'c, ()> {
        let name = self.name;
        let metrics = &environment.metrics;
        // Source of the reconcile IDs. The seed differs between processes, so the IDs do too.
        let id_rng = Mutex::new(Rng::new(environment.seed).fork(name.name));
        let shutdown = stop.clone();
        let reconcile = move |key: Str, waited: Duration| {
            metrics.queues.observe_queue_duration(name.name, waited);
            let id = id_rng.lock().unwrap_or_else(PoisonError::into_inner).uuid();
            let mut shutdown = shutdown.clone();
            async move {
                let reconcile = self.controller.reconcile(&key);
                let reconcile = instrument_reconcile(metrics, environment.clock, name, &key, &id, reconcile);
                if !C::ENDS_AT_SHUTDOWN {
                    return reconcile.await;
                }
                tokio::select! {
                    biased;
                    () = shutdown.requested() => ReconcileAction::Done,
                    action = reconcile => action,
                }
            }
        };
        async move {
            metrics.init_controller_series(name.name, self.queue.workers());
            let queue = self.queue.clone();
            metrics.queues.register_queue(name.name, move || queue.stats());
            self.queue.run(stop, reconcile).await;
        }
        .boxed()
    }
}
