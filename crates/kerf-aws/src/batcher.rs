//! Collects single requests to EC2 into few calls (spec 05 §17).
//!
//! A window opens with the first request. It closes after a time without a new request, after a
//! longest time, or when enough requests wait. The requests of a window are put into buckets, and
//! each bucket is one call.
//!
//! Invariants: every request gets its own result. A request whose caller has given up is still
//! carried out, because it may share its call with others.

mod describe_instances;
mod fleet;
mod terminate_instances;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures::future::BoxFuture;
use kerf_operator::Registry;
use kerf_operator::metrics::{DURATION_BUCKETS, Histogram};
use tokio::sync::{Semaphore, oneshot};
use tokio::time::Instant;

pub(crate) use describe_instances::{DescribeBatcher, INSTANCE_STATES};
pub(crate) use fleet::{FleetBatcher, FleetLaunch, FleetLaunchedInstance};
pub(crate) use terminate_instances::TerminateBatcher;

/// Number of calls of one batcher that run at the same time.
const CONCURRENT_CALLS_MAX: usize = 100;
/// Number of single calls that run at the same time after a call for many.
const CONCURRENT_SINGLE_CALLS_MAX: usize = 100;

/// Buckets of the histogram of batch sizes, in requests.
const SIZE_BUCKETS: [f64; 34] = [
    1.0, 2.0, 4.0, 5.0, 10.0, 15.0, 20.0, 25.0, 30.0, 40.0, 50.0, 60.0, 70.0, 80.0, 90.0, 100.0, 125.0, 150.0, 175.0,
    200.0, 225.0, 250.0, 275.0, 300.0, 350.0, 400.0, 450.0, 500.0, 550.0, 600.0, 700.0, 800.0, 900.0, 1000.0,
];

/// Name and bounds of a batcher.
#[derive(Debug, Clone, Copy)]
struct BatcherSettings {
    /// Name in metrics.
    name: &'static str,
    /// Time without a new request after which a window closes.
    idle: Duration,
    /// Longest time for which a window is open.
    max: Duration,
    /// Number of requests at which a window closes.
    requests_max: usize,
}

/// Metrics of all batchers.
#[derive(Debug, Clone)]
pub(crate) struct BatcherMetrics {
    window: Histogram,
    size: Histogram,
}

impl BatcherMetrics {
    pub(crate) fn new(registry: &Registry) -> Self {
        Self {
            window: registry.histogram(
                "karpenter_cloudprovider_batcher_batch_time_seconds",
                "Duration of the batching window per batcher",
                &["batcher"],
                &DURATION_BUCKETS,
            ),
            size: registry.histogram(
                "karpenter_cloudprovider_batcher_batch_size",
                "Size of the request batch per batcher",
                &["batcher"],
                &SIZE_BUCKETS,
            ),
        }
    }
}

/// Carries out the requests of one bucket and returns a result for each, in their order.
type RunBucket<R, T> = Box<dyn Fn(Vec<R>) -> BoxFuture<'static, Vec<T>> + Send + Sync>;

/// Collects requests and carries them out together.
struct Batcher<R, T>(Arc<BatcherInner<R, T>>);

struct BatcherInner<R, T> {
    settings: BatcherSettings,
    metrics: BatcherMetrics,
    bucket_of: fn(&R) -> u64,
    run_bucket: RunBucket<R, T>,
    running_calls: Semaphore,
    window: Mutex<Window<R, T>>,
}

/// The requests that wait. A window is open while there are any.
struct Window<R, T> {
    /// Number of windows so far, which tells the timer of an earlier window that it is closed.
    number: u64,
    opened: Instant,
    last_added: Instant,
    requests: Vec<Waiting<R, T>>,
}

struct Waiting<R, T> {
    request: R,
    result: oneshot::Sender<T>,
}

impl<R: Send + 'static, T: Send + 'static> Batcher<R, T> {
    fn new(
        settings: BatcherSettings,
        metrics: BatcherMetrics,
        bucket_of: fn(&R) -> u64,
        run_bucket: RunBucket<R, T>,
    ) -> Self {
        let now = Instant::now();
        Self(Arc::new(BatcherInner {
            settings,
            metrics,
            bucket_of,
            run_bucket,
            running_calls: Semaphore::new(CONCURRENT_CALLS_MAX),
            window: Mutex::new(Window { number: 0, opened: now, last_added: now, requests: Vec::new() }),
        }))
    }

    /// Adds a request to the open window and returns its result. Returns `None` if the call gave no
    /// result for it.
    async fn call(&self, request: R) -> Option<T> {
        let (result, receiver) = oneshot::channel();
        let now = Instant::now();
        {
            let mut window = self.0.lock();
            window.last_added = now;
            window.requests.push(Waiting { request, result });
            let is_first = window.requests.len() == 1;
            if is_first {
                window.number += 1;
                window.opened = now;
            }
            if window.requests.len() >= self.0.settings.requests_max {
                tokio::spawn(Arc::clone(&self.0).run(window.close(), now.duration_since(window.opened)));
            } else if is_first {
                tokio::spawn(Arc::clone(&self.0).close_after_time(window.number));
            }
        }
        receiver.await.ok()
    }
}

impl<R, T> Window<R, T> {
    fn close(&mut self) -> Vec<Waiting<R, T>> {
        std::mem::take(&mut self.requests)
    }
}

impl<R: Send + 'static, T: Send + 'static> BatcherInner<R, T> {
    fn lock(&self) -> MutexGuard<'_, Window<R, T>> {
        // Every change is complete when the lock is released, so a panic elsewhere leaves it valid.
        self.window.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Closes a window when its time has come, unless enough requests have closed it before.
    async fn close_after_time(self: Arc<Self>, number: u64) {
        let (requests, length) = loop {
            let deadline = {
                let mut window = self.lock();
                if window.number != number || window.requests.is_empty() {
                    return;
                }
                let deadline = (window.last_added + self.settings.idle).min(window.opened + self.settings.max);
                let now = Instant::now();
                if now >= deadline {
                    break (window.close(), now.duration_since(window.opened));
                }
                deadline
            };
            tokio::time::sleep_until(deadline).await;
        };
        self.run(requests, length).await;
    }

    async fn run(self: Arc<Self>, requests: Vec<Waiting<R, T>>, length: Duration) {
        let name = self.settings.name;
        self.metrics.window.observe(&[name], length.as_secs_f64());
        let mut buckets: BTreeMap<u64, Vec<Waiting<R, T>>> = BTreeMap::new();
        for waiting in requests {
            buckets.entry((self.bucket_of)(&waiting.request)).or_default().push(waiting);
        }
        let calls = buckets.into_values().map(|bucket| self.run_bucket(bucket));
        futures::future::join_all(calls).await;
    }

    async fn run_bucket(&self, bucket: Vec<Waiting<R, T>>) {
        // The semaphore is never closed.
        let Ok(_permit) = self.running_calls.acquire().await else { return };
        self.metrics.size.observe(&[self.settings.name], bucket.len() as f64);
        let (requests, receivers): (Vec<R>, Vec<oneshot::Sender<T>>) =
            bucket.into_iter().map(|waiting| (waiting.request, waiting.result)).unzip();
        let results = (self.run_bucket)(requests).await;
        for (receiver, result) in receivers.into_iter().zip(results) {
            // The caller may have given up.
            let _ = receiver.send(result);
        }
    }
}

#[cfg(test)]
mod tests;
