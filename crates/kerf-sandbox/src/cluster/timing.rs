//! How long things take in the simulated cluster. Every length of time is a settled part and a part that is drawn from the seed, so
//! that a run can be lifelike and still be repeated.

use std::time::Duration;

use kerf_runtime::Rng;

/// A length of time: never less than `base`, and up to `spread` more.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Delay {
    /// What it takes at least.
    pub base: Duration,
    /// What it may take on top, drawn evenly.
    pub spread: Duration,
}

impl Delay {
    /// No time at all.
    pub const ZERO: Self = Self { base: Duration::ZERO, spread: Duration::ZERO };

    /// Always exactly so long.
    pub const fn fixed(base: Duration) -> Self {
        Self { base, spread: Duration::ZERO }
    }

    /// Between `base` and `base + spread`.
    pub const fn between(base: Duration, spread: Duration) -> Self {
        Self { base, spread }
    }

    pub(crate) fn draw(self, chance: &mut Rng) -> Duration {
        if self.spread.is_zero() {
            return self.base;
        }
        self.base + Duration::from_nanos(chance.below(self.spread.as_nanos().min(u128::from(u64::MAX)) as u64))
    }
}

/// How long things take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timing {
    /// From the Node object of a simulated machine to its being Ready.
    pub node_ready: Delay,
    /// From binding to Running. A pod's annotation `pod-ready.stage.kwok.x-k8s.io/delay` overrides it.
    pub pod_start: Delay,
    /// What a pod takes to end when it is told to, at most its grace period. A pod's annotation
    /// `pod-delete.stage.kwok.x-k8s.io/delay` overrides it.
    pub pod_stop: Delay,
    /// How long the pod of a Job runs. A pod's annotation `pod-complete.stage.kwok.x-k8s.io/delay` overrides it.
    pub job_run: Delay,
    /// What it takes to attach a volume to a node or to detach it.
    pub volume_attach: Delay,
    /// How often a kubelet renews its lease.
    pub lease_renewal: Duration,
    /// How often a kubelet reports its node's status when nothing has changed.
    pub node_report: Duration,
    /// After how long a silence a node counts as unreachable.
    pub node_grace: Duration,
    /// For how long pods may be bound to a node that does not exist before they are collected.
    pub orphan_quarantine: Duration,
}

impl Timing {
    /// Everything that a machine does happens at once; only the heartbeats and the patience of the controllers take their usual time.
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

    /// What a cloud takes, cut short enough to watch: nodes are ready after a few seconds, pods start within two.
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
            let mut chance = Rng::new(seed);
            (0..100).map(|_| delay.draw(&mut chance)).collect::<Vec<_>>()
        };
        assert!(draw(1).iter().all(|drawn| (2..5).contains(&drawn.as_secs())));
        assert_eq!(draw(1), draw(1));
        assert_ne!(draw(1), draw(2));
        assert_eq!(Delay::fixed(Duration::from_secs(1)).draw(&mut Rng::new(1)), Duration::from_secs(1));
    }
}
