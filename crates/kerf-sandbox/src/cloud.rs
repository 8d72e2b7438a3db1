//! What goes wrong at the cloud: machines that cannot be had, a cloud that has had enough of us, machines that never join, boot slowly, or
//! are taken away again. A provider asks [`Cloud::launch`] before it launches; what happens to a machine afterwards happens to its
//! kubelet here. Like all faults these have a rate, a window and a seed.
//! Invariant: an offering that is out of stock stays so for a while, whoever asks and however often; nothing depends on how often
//! somebody asks.

use std::hash::{Hash as _, Hasher as _};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use kerf_runtime::Clock;
use rustc_hash::FxHasher;

use crate::rng::Rng;

/// For how long an offering stays in or out of stock.
const STOCK_REDRAW_INTERVAL: Duration = Duration::from_mins(10);

/// Something that can go wrong at the cloud.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CloudFault {
    /// An offering cannot be had. The rate is the share of offerings, drawn anew every ten minutes.
    StockOut,
    /// A launch is refused because there were too many.
    Throttled,
    /// A machine starts and never becomes ready.
    NeverJoins,
    /// A machine takes longer to boot.
    SlowBoot {
        /// By how much.
        by: Duration,
    },
    /// A machine is taken away, and its Node with it.
    Interruption {
        /// How long after its boot.
        after: Duration,
    },
}

/// When a fault happens at the cloud, and to which machines.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CloudFaultRule {
    /// What happens.
    pub fault: CloudFault,
    /// How often, out of a million.
    pub per_million: u32,
    /// From when, counted from the cluster's start.
    pub from: Duration,
    /// Until when; for ever, if none is given.
    pub until: Option<Duration>,
    /// Only these instance types; none means all.
    pub instance_types: Vec<String>,
    /// Only these zones; none means all.
    pub zones: Vec<String>,
    /// Only these capacity types (`spot`); none means all.
    pub capacity_types: Vec<String>,
}

impl CloudFaultRule {
    /// A fault that may happen to every machine, always.
    pub fn new(fault: CloudFault, per_million: u32) -> Self {
        let (instance_types, zones, capacity_types) = (Vec::new(), Vec::new(), Vec::new());
        Self { fault, per_million, from: Duration::ZERO, until: None, instance_types, zones, capacity_types }
    }

    fn applies_to(&self, offering: &OfferingRef<'_>, at: Duration) -> bool {
        let among = |names: &[String], name: &str| names.is_empty() || names.iter().any(|own| own == name);
        at >= self.from
            && self.until.is_none_or(|until| at < until)
            && among(&self.instance_types, offering.instance_type)
            && among(&self.zones, offering.zone)
            && among(&self.capacity_types, offering.capacity_type)
    }
}

/// A machine as the cloud offers it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct OfferingRef<'a> {
    /// The instance type.
    pub instance_type: &'a str,
    /// The zone.
    pub zone: &'a str,
    /// `spot`, `on-demand`, `reserved`.
    pub capacity_type: &'a str,
}

/// Why a machine was not launched.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LaunchError {
    /// There is none to be had; another offering may do.
    #[error("there is no capacity for this offering at the moment")]
    InsufficientCapacity,
    /// There were too many requests; later may do.
    #[error("the request rate is exceeded")]
    Throttled,
}

/// What becomes of a machine that was launched.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct InstanceFaults {
    pub(crate) never_joins: bool,
    pub(crate) boot_delay: Duration,
    pub(crate) interrupted_after: Option<Duration>,
}

/// The simulated cloud. Copies share one state.
#[derive(Clone, Debug)]
pub struct Cloud {
    clock: Clock,
    state: Arc<Mutex<CloudFaultState>>,
}

#[derive(Debug)]
struct CloudFaultState {
    rules: Vec<CloudFaultRule>,
    seed: u64,
    rng: Rng,
}

impl Cloud {
    pub(crate) fn new(clock: Clock, seed: u64) -> Self {
        let state = CloudFaultState { rules: Vec::new(), seed, rng: Rng::new(seed).fork("cloud") };
        Self { clock, state: Arc::new(Mutex::new(state)) }
    }

    /// Lets things go wrong from now on, by these rules and this seed, instead of whatever went wrong before.
    pub fn set_faults(&self, rules: Vec<CloudFaultRule>, seed: u64) {
        *self.lock() = CloudFaultState { rules, seed, rng: Rng::new(seed).fork("cloud") };
    }

    /// Whether a machine like this can be launched now.
    pub fn check_launch(&self, offering: OfferingRef<'_>) -> Result<(), LaunchError> {
        let at = self.clock.elapsed();
        let mut state = self.lock();
        let CloudFaultState { rules, seed, rng: chance } = &mut *state;
        for (place, rule) in rules.iter().enumerate().filter(|(_, rule)| rule.applies_to(&offering, at)) {
            match rule.fault {
                CloudFault::StockOut => {
                    let mut hasher = FxHasher::default();
                    (*seed, place, offering, at.as_secs() / STOCK_REDRAW_INTERVAL.as_secs()).hash(&mut hasher);
                    if Rng::new(hasher.finish()).happens_per_million(rule.per_million) {
                        return Err(LaunchError::InsufficientCapacity);
                    }
                }
                CloudFault::Throttled if chance.happens_per_million(rule.per_million) => {
                    return Err(LaunchError::Throttled);
                }
                CloudFault::Throttled
                | CloudFault::NeverJoins
                | CloudFault::SlowBoot { .. }
                | CloudFault::Interruption { .. } => {}
            }
        }
        Ok(())
    }

    /// What becomes of a new machine.
    pub(crate) fn draw_instance_faults(&self, offering: OfferingRef<'_>) -> InstanceFaults {
        let at = self.clock.elapsed();
        let mut state = self.lock();
        let CloudFaultState { rules, rng: chance, .. } = &mut *state;
        let mut fate = InstanceFaults::default();
        for rule in rules.iter().filter(|rule| rule.applies_to(&offering, at)) {
            match rule.fault {
                CloudFault::NeverJoins => fate.never_joins |= chance.happens_per_million(rule.per_million),
                CloudFault::SlowBoot { by } if chance.happens_per_million(rule.per_million) => fate.boot_delay += by,
                CloudFault::Interruption { after } if chance.happens_per_million(rule.per_million) => {
                    fate.interrupted_after = Some(fate.interrupted_after.map_or(after, |other| other.min(after)));
                }
                CloudFault::SlowBoot { .. }
                | CloudFault::Interruption { .. }
                | CloudFault::StockOut
                | CloudFault::Throttled => {}
            }
        }
        fate
    }

    /// The state is whole between any two statements, so a panic elsewhere does not spoil it.
    fn lock(&self) -> std::sync::MutexGuard<'_, CloudFaultState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cloud(rules: Vec<CloudFaultRule>, seed: u64) -> Cloud {
        let cloud = Cloud::new(Clock::starting_at(jiff::Timestamp::UNIX_EPOCH), 0);
        cloud.set_faults(rules, seed);
        cloud
    }

    fn launch_failures_by_zone(cloud: &Cloud) -> Vec<bool> {
        let zones = ["a", "b", "c", "d", "e", "f", "g", "h"];
        let offering = |zone| OfferingRef { instance_type: "c-4x", zone, capacity_type: "spot" };
        zones.map(|zone| cloud.check_launch(offering(zone)).is_err()).to_vec()
    }

    #[tokio::test(start_paused = true)]
    async fn stock_lasts_a_while_and_follows_the_seed() {
        let rule = || vec![CloudFaultRule::new(CloudFault::StockOut, 500_000)];
        let one = cloud(rule(), 1);
        let first = launch_failures_by_zone(&one);
        assert!(first.contains(&true) && first.contains(&false), "{first:?}");
        assert_eq!(first, launch_failures_by_zone(&one), "asking again changes nothing");
        assert_eq!(first, launch_failures_by_zone(&cloud(rule(), 1)));
        assert_ne!(first, launch_failures_by_zone(&cloud(rule(), 2)));
        tokio::time::advance(STOCK_REDRAW_INTERVAL).await;
        assert_ne!(first, launch_failures_by_zone(&one), "it is drawn anew after a while");
    }

    #[tokio::test(start_paused = true)]
    async fn rules_keep_to_their_machines_and_windows() {
        let rule = CloudFaultRule {
            zones: vec!["a".into()],
            capacity_types: vec!["spot".into()],
            until: Some(Duration::from_secs(10)),
            ..CloudFaultRule::new(CloudFault::NeverJoins, 1_000_000)
        };
        let cloud = cloud(vec![rule], 1);
        let offering = OfferingRef { instance_type: "c-4x", zone: "a", capacity_type: "spot" };
        assert!(cloud.draw_instance_faults(offering).never_joins);
        assert!(!cloud.draw_instance_faults(OfferingRef { zone: "b", ..offering }).never_joins);
        assert!(!cloud.draw_instance_faults(OfferingRef { capacity_type: "on-demand", ..offering }).never_joins);
        tokio::time::advance(Duration::from_secs(10)).await;
        assert_eq!(cloud.draw_instance_faults(offering), InstanceFaults::default());
        assert_eq!(cloud.check_launch(offering), Ok(()));
    }

    #[tokio::test(start_paused = true)]
    async fn throttling_slow_boots_and_interruptions() {
        let seconds = Duration::from_secs;
        let rules = vec![
            CloudFaultRule::new(CloudFault::Throttled, 1_000_000),
            CloudFaultRule::new(CloudFault::SlowBoot { by: seconds(5) }, 1_000_000),
            CloudFaultRule::new(CloudFault::Interruption { after: seconds(90) }, 1_000_000),
            CloudFaultRule::new(CloudFault::Interruption { after: seconds(60) }, 1_000_000),
        ];
        let cloud = cloud(rules, 1);
        let offering = OfferingRef { instance_type: "x", zone: "a", capacity_type: "spot" };
        assert_eq!(cloud.check_launch(offering), Err(LaunchError::Throttled));
        let fate = InstanceFaults { never_joins: false, boot_delay: seconds(5), interrupted_after: Some(seconds(60)) };
        assert_eq!(cloud.draw_instance_faults(offering), fate);
    }
}
