//! Number of workers and retry back-off of each controller's queue (spec 04 §1.9, spec 07 §1.2).
//! Most numbers scale with the CPU cores that the process requests, between a minimum and a maximum
//! per controller.

use std::time::Duration;

use kerf_runtime::{Backoff, QueueSettings, Rate};

/// Computes queue settings from the CPU cores that the process requests.
#[derive(Clone, Copy, Debug)]
pub(super) struct Concurrency {
    pub(super) cores: usize,
}

impl Concurrency {
    /// Returns the number of workers: `min` for one core, `max` for 60 cores or more, linear in
    /// between.
    fn workers(self, min: usize, max: usize) -> usize {
        (min + (max - min) * self.cores.saturating_sub(1) / 59).clamp(min, max)
    }

    pub(super) fn single_worker(self) -> QueueSettings {
        self.scaled(1, 1)
    }

    /// Returns settings with between `min` and `max` workers and the default back-off.
    pub(super) fn scaled(self, min: usize, max: usize) -> QueueSettings {
        QueueSettings { workers: self.workers(min, max), backoff: Backoff::DEFAULT, retry_rate: None }
    }

    /// Returns settings for the hydration controllers, which make one small write per object.
    pub(super) fn hydration(self) -> QueueSettings {
        QueueSettings {
            workers: self.workers(1000, 5000),
            backoff: Backoff { base: Duration::from_millis(100), max: Duration::from_mins(1) },
            retry_rate: Some(Rate { per_second: 10, burst: 100 }),
        }
    }

    /// Returns settings for the NodeClaim lifecycle.
    pub(super) fn lifecycle(self) -> QueueSettings {
        let workers = self.workers(1000, 5000);
        let per_second = u32::try_from(workers.div_ceil(100)).unwrap_or(u32::MAX);
        QueueSettings {
            workers,
            backoff: Backoff { base: Duration::from_secs(1), max: Duration::from_mins(1) },
            retry_rate: Some(Rate { per_second, burst: per_second.saturating_mul(10) }),
        }
    }

    /// Returns settings for drains. Failed keys are retried at most `per_second` times a second for
    /// each hundred workers.
    pub(super) fn drains(self, per_second: u32) -> QueueSettings {
        let workers = self.workers(100, 5000);
        let per_second = u32::try_from(workers).unwrap_or(u32::MAX).saturating_mul(per_second) / 100;
        QueueSettings {
            workers,
            backoff: Backoff { base: Duration::from_millis(100), max: Duration::from_secs(10) },
            retry_rate: Some(Rate { per_second, burst: per_second.saturating_mul(10) }),
        }
    }

    /// Returns settings for the queue of disruption commands.
    pub(super) fn commands(self) -> QueueSettings {
        QueueSettings {
            workers: self.workers(100, 1000),
            backoff: Backoff { base: Duration::from_secs(1), max: Duration::from_secs(10) },
            retry_rate: Some(Rate { per_second: 100, burst: 1000 }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // spec 04 §1.9, spec 07 §1.2
    #[test]
    fn workers_scale_with_cores() {
        let workers = |cores, min, max| Concurrency { cores }.workers(min, max);
        assert_eq!(workers(1, 10, 1000), 10);
        assert_eq!(workers(2, 10, 1000), 26);
        assert_eq!(workers(15, 10, 1000), 244);
        assert_eq!(workers(60, 10, 1000), 1000);
        assert_eq!(workers(500, 1000, 5000), 5000);
    }
}
