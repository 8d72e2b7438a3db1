//! Durations in the simulated cluster. Each [`Delay`] has a fixed part and a random part. The
//! random part is drawn from the seed, so that a run is realistic and repeatable.

use std::time::Duration;

use kerf_runtime::Rng;

/// A duration of at least `base` and less than `base + spread`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Delay {
    /// Shortest duration.
    pub base: Duration,
    /// Width of the random part, which is uniformly distributed.
    pub spread: Duration,
}

impl Delay {
    /// A delay of zero.
    pub const ZERO: Self = Self { base: Duration::ZERO, spread: Duration::ZERO };

    /// Returns a delay without a random part.
    pub const fn fixed(base: Duration) -> Self {
        Self { base, spread: Duration::ZERO }
    }

    /// Returns a delay between `base` and `base + spread`.
    pub const fn between(base: Duration, spread: Duration) -> Self {
        Self { base, spread }
    }

    pub(crate) fn draw(self, rng: &mut Rng) -> Duration {
        if self.spread.is_zero() {
            return self.base;
        }
        self.base + Duration::from_nanos(rng.below(self.spread.as_nanos().min(u128::from(u64::MAX)) as u64))
    }
}

/// Durations of everything that takes time in a cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timing {
    /// From the creation of a simulated Node to its condition `Ready`.
    pub node_ready: Delay,
    /// From binding to `Running`. A pod's annotation `pod-ready.stage.kwok.x-k8s.io/delay`
    /// overrides it.
    pub pod_start: Delay,
    /// From the deletion of a pod to the end of its containers, at most the grace period. A pod's
    /// annotation `pod-delete.stage.kwok.x-k8s.io/delay` overrides it.
    pub pod_stop: Delay,
    /// Run time of a Job's pod. A pod's annotation `pod-complete.stage.kwok.x-k8s.io/delay`
    /// overrides it.
    pub job_run: Delay,
    /// Time to attach a volume to a node. Provisioning a volume takes the fixed part of it.
    pub volume_attach: Delay,
    /// Interval at which a kubelet renews its Lease.
    pub lease_renewal: Duration,
    /// Interval at which a kubelet writes its node's status if nothing has changed.
    pub node_report: Duration,
    /// Time without a heartbeat after which a node counts as unreachable.
    pub node_grace: Duration,
    /// Time for which a pod may be bound to a node that does not exist before it is deleted.
    pub orphan_quarantine: Duration,
}

impl Timing {
    /// Boots, pod starts, pod stops and attachments take no time. Heartbeats and grace periods have
    /// their usual values.
    pub const INSTANT: Self = Self {
        node_ready: Delay::ZERO,
        pod_start: Delay::ZERO,
        pod_stop: Delay::ZERO,
        job_run: Delay::ZERO,
        volume_attach: Delay::ZERO,
        lease_renewal: Duration::from_secs(10),
        node_report: Duration::from_mins(5),
        node_grace: Duration::from_secs(50),
        orphan_quarantine: Duration::from_secs(40),
    };

    /// Durations of a cloud, shortened enough to watch: nodes are ready within 7 seconds, pods
    /// start within 2.
    pub const LIFELIKE: Self = Self {
        node_ready: Delay::between(Duration::from_secs(4), Duration::from_secs(3)),
        pod_start: Delay::between(Duration::from_millis(500), Duration::from_millis(1500)),
        pod_stop: Delay::between(Duration::from_millis(200), Duration::from_millis(800)),
        job_run: Delay::fixed(Duration::from_secs(10)),
        volume_attach: Delay::fixed(Duration::from_secs(1)),
        ..Self::INSTANT
    };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delays_stay_in_their_bounds_and_follow_the_seed() {
        let delay = Delay::between(Duration::from_secs(2), Duration::from_secs(3));
        let draw = |seed| {
            let mut rng = Rng::new(seed);
            (0..100).map(|_| delay.draw(&mut rng)).collect::<Vec<_>>()
        };
        assert!(draw(1).iter().all(|drawn| (2..5).contains(&drawn.as_secs())));
        assert_eq!(draw(1), draw(1));
        assert_ne!(draw(1), draw(2));
        assert_eq!(Delay::fixed(Duration::from_secs(1)).draw(&mut Rng::new(1)), Duration::from_secs(1));
    }
}
