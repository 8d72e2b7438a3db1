//! Queue settings of the controllers that need other numbers than the default (spec 04 §1.9, spec
//! 07 §1.2).

use std::time::Duration;

use kerf_operator::Concurrency;
use kerf_runtime::{Backoff, QueueSettings, Rate};

/// Returns settings for the hydration controllers, which make one small write per object.
pub(super) fn hydration(concurrency: Concurrency) -> QueueSettings {
    Concurrency::reasonable(concurrency.workers(1000, 5000))
}

/// Returns settings for the NodeClaim lifecycle.
pub(super) fn lifecycle(concurrency: Concurrency) -> QueueSettings {
    let workers = concurrency.workers(1000, 5000);
    let per_second = u32::try_from(workers.div_ceil(100)).unwrap_or(u32::MAX);
    QueueSettings {
        workers,
        backoff: Backoff { base: Duration::from_secs(1), max: Duration::from_mins(1) },
        retry_rate: Some(Rate { per_second, burst: per_second.saturating_mul(10) }),
    }
}

/// Returns settings for drains. Failed keys are retried at most `per_second` times a second for
/// each hundred workers.
pub(super) fn drains(concurrency: Concurrency, per_second: u32) -> QueueSettings {
    let workers = concurrency.workers(100, 5000);
    let per_second = u32::try_from(workers).unwrap_or(u32::MAX).saturating_mul(per_second) / 100;
    QueueSettings {
        workers,
        backoff: Backoff { base: Duration::from_millis(100), max: Duration::from_secs(10) },
        retry_rate: Some(Rate { per_second, burst: per_second.saturating_mul(10) }),
    }
}

/// Returns settings for the queue of disruption commands.
pub(super) fn commands(concurrency: Concurrency) -> QueueSettings {
    QueueSettings {
        workers: concurrency.workers(100, 1000),
        backoff: Backoff { base: Duration::from_secs(1), max: Duration::from_secs(10) },
        retry_rate: Some(Rate { per_second: 100, burst: 1000 }),
    }
}
