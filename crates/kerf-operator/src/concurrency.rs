//! Number of workers and retry back-off of a controller's queue (spec 04 §1.9, spec 07 §1.2).

use std::time::Duration;

use kerf_runtime::{Backoff, QueueSettings, Rate};

/// Computes queue settings from the CPU cores that the process requests. Most numbers of workers
/// scale with the cores, between a minimum and a maximum per controller.
#[derive(Clone, Copy, Debug)]
pub struct Concurrency {
    /// CPU cores, rounded to a whole number.
    pub cores: usize,
}

impl Concurrency {
    /// Returns the number of workers: `min` for one core, `max` for 60 cores or more, linear in
    /// between.
    pub fn workers(self, min: usize, max: usize) -> usize {
        (min + (max - min) * self.cores.saturating_sub(1) / 59).clamp(min, max)
    }

    /// Returns settings with one worker and the default back-off, as for singletons.
    pub fn single_worker(self) -> QueueSettings {
        self.scaled(1, 1)
    }

    /// Returns settings with between `min` and `max` workers and the default back-off.
    pub fn scaled(self, min: usize, max: usize) -> QueueSettings {
        QueueSettings { workers: self.workers(min, max), backoff: Backoff::DEFAULT, retry_rate: None }
    }

    /// Returns settings with the limiter that spec 06 §1.1 calls *reasonable*: a back-off from
    /// 100 ms to one minute, and at most ten retries per second of all keys together.
    pub fn reasonable(workers: usize) -> QueueSettings {
        QueueSettings {
            workers,
            backoff: Backoff { base: Duration::from_millis(100), max: Duration::from_mins(1) },
            retry_rate: Some(Rate { per_second: 10, burst: 100 }),
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
