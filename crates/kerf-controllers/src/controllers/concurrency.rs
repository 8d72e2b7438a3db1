//! How wide each controller works and how failed keys come back (spec 04 §1.9, spec 07 §1.2): most scale with the cores that the process has
//! asked for, between a lower and an upper end of their own.

use std::time::Duration;

use kerf_runtime::{Backoff, QueueSettings, Rate};

/// The cores that the process has asked for.
#[derive(Clone, Copy, Debug)]
pub(super) struct Concurrency {
    pub(super) cores: usize,
}

impl Concurrency {
    /// Workers between `min` and `max`, as the cores allow.
    fn workers(self, min: usize, max: usize) -> usize {
        (min + (max - min) * self.cores.saturating_sub(1) / 59).clamp(min, max)
    }

    /// One key at a time.
    pub(super) fn single_worker(self) -> QueueSettings {
        self.scaled(1, 1)
    }

    /// So many keys at a time, failed ones as they usually come back.
    pub(super) fn scaled(self, min: usize, max: usize) -> QueueSettings {
        QueueSettings { workers: self.workers(min, max), backoff: Backoff::DEFAULT, retry_rate: None }
    }

    /// For small repairs of many objects.
    pub(super) fn hydration(self) -> QueueSettings {
        QueueSettings {
            workers: self.workers(1000, 5000),
            backoff: Backoff { base: Duration::from_millis(100), max: Duration::from_mins(1) },
            retry_rate: Some(Rate { per_second: 10, burst: 100 }),
        }
    }

    /// For claims on their way.
    pub(super) fn lifecycle(self) -> QueueSettings {
        let workers = self.workers(1000, 5000);
        let per_second = u32::try_from(workers.div_ceil(100)).unwrap_or(u32::MAX);
        QueueSettings {
            workers,
            backoff: Backoff { base: Duration::from_secs(1), max: Duration::from_mins(1) },
            retry_rate: Some(Rate { per_second, burst: per_second.saturating_mul(10) }),
        }
    }

    /// For drains, at so many failures a second for each hundred workers.
    pub(super) fn drains(self, per_second: u32) -> QueueSettings {
        let workers = self.workers(100, 5000);
        let per_second = u32::try_from(workers).unwrap_or(u32::MAX).saturating_mul(per_second) / 100;
        QueueSettings {
            workers,
            backoff: Backoff { base: Duration::from_millis(100), max: Duration::from_secs(10) },
            retry_rate: Some(Rate { per_second, burst: per_second.saturating_mul(10) }),
        }
    }

    /// For commands of disruption.
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
