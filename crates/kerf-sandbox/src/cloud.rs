//! Faults of the simulated cloud: insufficient capacity, throttling, and instances that never join,
//! never become ready, boot slowly, flap, lose their kubelet or are interrupted.
//!
//! A provider calls [`Cloud::check_launch`] before it launches an instance. The faults of a
//! launched instance are drawn in `draw_instance_faults` and carried out by its simulated kubelet,
//! whichever cloud has launched it. Every fault has a rate, a time window and a seed.
//!
//! Invariant: an offering that is out of stock stays out of stock until the next redraw. The number
//! of calls does not change stock.

use std::hash::{Hash as _, Hasher as _};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use kerf_runtime::{Clock, Rng};
use rustc_hash::FxHasher;

/// Time for which an offering stays in or out of stock.
const STOCK_REDRAW_INTERVAL: Duration = Duration::from_mins(10);

/// A fault of the simulated cloud.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CloudFault {
    /// Launches of an offering fail with insufficient capacity. The rate is the share of offerings
    /// that are out of stock; it is drawn again every ten minutes.
    StockOut,
    /// A launch fails because the request rate is exceeded.
    Throttled,
    /// The instance starts and its node never becomes ready. The kubelet of an instance of an
    /// attached cloud never registers a Node.
    NeverJoins,
    /// The kubelet runs and renews its Lease, and its Node is never ready, as without a network
    /// plugin.
    NeverReady,
    /// The kubelet dies: heartbeats end, and its pods keep their last status. The instance stays.
    KubeletDeath {
        /// Time between the end of the boot and the death.
        after: Duration,
    },
    /// The Node is not ready for a while, again and again, as long as the rule applies.
    FlappingReadiness {
        /// Time for which the Node is ready, twice as long at most.
        ready_for: Duration,
        /// Time for which the Node is not ready.
        not_ready_for: Duration,
    },
    /// The instance takes longer to boot.
    SlowBoot {
        /// Time that is added to the boot time.
        by: Duration,
    },
    /// The instance is terminated and its Node is deleted. An attached cloud decides how its
    /// instances end ([`crate::SimulatedCloud::interrupt`]).
    Interruption {
        /// Time between the end of the boot and the interruption.
        after: Duration,
    },
}

/// A fault with its rate, its time window and the offerings that it affects.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CloudFaultRule {
    /// The fault to inject.
    pub fault: CloudFault,
    /// Rate in parts per million.
    pub per_million: u32,
    /// Start of the window, as time since the cluster's start.
    pub from: Duration,
    /// End of the window, as time since the cluster's start; `None` for no end.
    pub until: Option<Duration>,
    /// Affected instance types; empty for all.
    pub instance_types: Vec<String>,
    /// Affected zones; empty for all.
    pub zones: Vec<String>,
    /// Affected capacity types, such as `spot`; empty for all.
    pub capacity_types: Vec<String>,
}

impl CloudFaultRule {
    /// Returns a rule that affects all offerings at all times.
    pub fn new(fault: CloudFault, per_million: u32) -> Self {
        let (instance_types, zones, capacity_types) = (Vec::new(), Vec::new(), Vec::new());
        Self { fault, per_million, from: Duration::ZERO, until: None, instance_types, zones, capacity_types }
    }

    fn is_in_window(&self, at: Duration) -> bool {
        at >= self.from && self.until.is_none_or(|until| at < until)
    }

    fn applies_to(&self, offering: &OfferingRef<'_>, at: Duration) -> bool {
        let includes = |names: &[String], name: &str| names.is_empty() || names.iter().any(|own| own == name);
        self.is_in_window(at)
            && includes(&self.instance_types, offering.instance_type)
            && includes(&self.zones, offering.zone)
            && includes(&self.capacity_types, offering.capacity_type)
    }
}

/// The offering of a launch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct OfferingRef<'a> {
    /// Name of the instance type.
    pub instance_type: &'a str,
    /// Name of the zone.
    pub zone: &'a str,
    /// `spot`, `on-demand` or `reserved`.
    pub capacity_type: &'a str,
}

/// The reason why an instance was not launched.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LaunchError {
    /// The offering is out of stock; another offering may be available.
    #[error("the cloud has no capacity for this offering now")]
    InsufficientCapacity,
    /// There were too many requests; a later attempt may succeed.
    #[error("the request rate is exceeded")]
    Throttled,
}

/// The faults drawn for one launched instance.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct InstanceFaults {
    pub(crate) never_joins: bool,
    pub(crate) boot_delay: Duration,
    pub(crate) interrupted_after: Option<Duration>,
    pub(crate) never_ready: bool,
    pub(crate) kubelet_dies_after: Option<Duration>,
    pub(crate) flaps: Option<FlapTimes>,
}

/// Durations of a Node whose readiness flaps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FlapTimes {
    /// The Node is ready for this time at least, and for twice this time at most.
    pub(crate) ready_for: Duration,
    pub(crate) not_ready_for: Duration,
}

/// Availability and faults of the simulated cloud. Clones share one state. The instances are in
/// another place: Nodes, or a [`crate::SimulatedCloud`].
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

impl CloudFaultState {
    /// Returns true if an offering is out of stock by the rule with this index.
    fn is_drawn_out_of_stock(&self, rule_index: usize, offering: &OfferingRef<'_>, at: Duration) -> bool {
        let mut hasher = FxHasher::default();
        (self.seed, rule_index, offering, at.as_secs() / STOCK_REDRAW_INTERVAL.as_secs()).hash(&mut hasher);
        Rng::new(hasher.finish()).happens_per_million(self.rules[rule_index].per_million)
    }
}

impl Cloud {
    pub(crate) fn new(clock: Clock, seed: u64) -> Self {
        let state = CloudFaultState { rules: Vec::new(), seed, rng: Rng::new(seed).fork("cloud") };
        Self { clock, state: Arc::new(Mutex::new(state)) }
    }

    /// Replaces all rules and restarts the random stream with `seed`.
    pub fn set_faults(&self, rules: Vec<CloudFaultRule>, seed: u64) {
        *self.lock() = CloudFaultState { rules, seed, rng: Rng::new(seed).fork("cloud") };
    }

    /// Returns an error if an instance of this offering cannot be launched now. Providers call it
    /// before each launch.
    pub fn check_launch(&self, offering: OfferingRef<'_>) -> Result<(), LaunchError> {
        let at = self.clock.elapsed();
        let mut state = self.lock();
        for rule_index in 0..state.rules.len() {
            let rule = &state.rules[rule_index];
            if !rule.applies_to(&offering, at) {
                continue;
            }
            let (fault, per_million) = (rule.fault, rule.per_million);
            match fault {
                CloudFault::StockOut => {
                    if state.is_drawn_out_of_stock(rule_index, &offering, at) {
                        return Err(LaunchError::InsufficientCapacity);
                    }
                }
                CloudFault::Throttled if state.rng.happens_per_million(per_million) => {
                    return Err(LaunchError::Throttled);
                }
                CloudFault::Throttled
                | CloudFault::NeverJoins
                | CloudFault::NeverReady
                | CloudFault::KubeletDeath { .. }
                | CloudFault::FlappingReadiness { .. }
                | CloudFault::SlowBoot { .. }
                | CloudFault::Interruption { .. } => {}
            }
        }
        Ok(())
    }

    /// Returns true if an offering is out of stock now. A cloud with a list of its own calls it for
    /// each offering of a launch; asking changes nothing.
    pub fn is_out_of_stock(&self, offering: OfferingRef<'_>) -> bool {
        let at = self.clock.elapsed();
        let state = self.lock();
        let mut rules = state.rules.iter().enumerate().filter(|(_, rule)| rule.applies_to(&offering, at));
        rules.any(|(index, rule)| {
            rule.fault == CloudFault::StockOut && state.is_drawn_out_of_stock(index, &offering, at)
        })
    }

    /// Returns true if the cloud throttles a request to launch now. A cloud with a list of its own
    /// calls it once for each request, which may name several offerings.
    pub fn is_launch_throttled(&self) -> bool {
        let at = self.clock.elapsed();
        let mut state = self.lock();
        let CloudFaultState { rules, rng, .. } = &mut *state;
        let is_active = |rule: &&CloudFaultRule| rule.fault == CloudFault::Throttled && rule.is_in_window(at);
        rules.iter().filter(is_active).any(|rule| rng.happens_per_million(rule.per_million))
    }

    /// Draws the faults of a new instance. Of several interruptions the earliest takes effect;
    /// delays of slow boots add up.
    pub(crate) fn draw_instance_faults(&self, offering: OfferingRef<'_>) -> InstanceFaults {
        let at = self.clock.elapsed();
        let mut state = self.lock();
        let CloudFaultState { rules, rng, .. } = &mut *state;
        let mut faults = InstanceFaults::default();
        for rule in rules.iter().filter(|rule| rule.applies_to(&offering, at)) {
            match rule.fault {
                CloudFault::NeverJoins => faults.never_joins |= rng.happens_per_million(rule.per_million),
                CloudFault::NeverReady => faults.never_ready |= rng.happens_per_million(rule.per_million),
                CloudFault::KubeletDeath { after } if rng.happens_per_million(rule.per_million) => {
                    faults.kubelet_dies_after = Some(faults.kubelet_dies_after.map_or(after, |other| other.min(after)));
                }
                CloudFault::FlappingReadiness { ready_for, not_ready_for }
                    if rng.happens_per_million(rule.per_million) =>
                {
                    faults.flaps = Some(FlapTimes { ready_for, not_ready_for });
                }
                CloudFault::SlowBoot { by } if rng.happens_per_million(rule.per_million) => faults.boot_delay += by,
                CloudFault::Interruption { after } if rng.happens_per_million(rule.per_million) => {
                    faults.interrupted_after = Some(faults.interrupted_after.map_or(after, |other| other.min(after)));
                }
                CloudFault::SlowBoot { .. }
                | CloudFault::KubeletDeath { .. }
                | CloudFault::FlappingReadiness { .. }
                | CloudFault::Interruption { .. }
                | CloudFault::StockOut
                | CloudFault::Throttled => {}
            }
        }
        faults
    }

    /// Returns true if a rule with this fault applies now to some offering. Kubelets check it
    /// before they carry out a fault that was drawn earlier.
    pub(crate) fn has_fault_now(&self, matches: impl Fn(&CloudFault) -> bool) -> bool {
        let at = self.clock.elapsed();
        let state = self.lock();
        state.rules.iter().any(|rule| matches(&rule.fault) && rule.is_in_window(at))
    }

    /// Locks the state. A poisoned lock is used as it is: the state is consistent between any two
    /// statements, so a panic of another holder leaves it valid.
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
    async fn stock_is_redrawn_after_ten_minutes_and_depends_on_the_seed() {
        let rule = || vec![CloudFaultRule::new(CloudFault::StockOut, 500_000)];
        let one = cloud(rule(), 1);
        let first = launch_failures_by_zone(&one);
        assert!(first.contains(&true) && first.contains(&false), "{first:?}");
        assert_eq!(first, launch_failures_by_zone(&one), "asking again changes nothing");
        let zones = ["a", "b", "c", "d", "e", "f", "g", "h"];
        let offering = |zone| OfferingRef { instance_type: "c-4x", zone, capacity_type: "spot" };
        assert_eq!(zones.map(|zone| one.is_out_of_stock(offering(zone))).to_vec(), first);
        assert!(!one.is_launch_throttled());
        assert_eq!(first, launch_failures_by_zone(&cloud(rule(), 1)));
        assert_ne!(first, launch_failures_by_zone(&cloud(rule(), 2)));
        tokio::time::advance(STOCK_REDRAW_INTERVAL).await;
        assert_ne!(first, launch_failures_by_zone(&one), "it is drawn anew after a while");
    }

    #[tokio::test(start_paused = true)]
    async fn rules_affect_only_their_offerings_and_windows() {
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
    async fn throttling_slow_boots_and_interruptions_are_injected() {
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
        assert!(cloud.is_launch_throttled() && !cloud.is_out_of_stock(offering));
        let faults = InstanceFaults {
            boot_delay: seconds(5),
            interrupted_after: Some(seconds(60)),
            ..InstanceFaults::default()
        };
        assert_eq!(cloud.draw_instance_faults(offering), faults);
    }
}
