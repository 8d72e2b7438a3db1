//! Everything that an EC2 in memory remembers, and its changes over time.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use kerf_runtime::Rng;

use super::MemorySettings;
use super::account::Account;
use super::client_tokens::ClientTokens;
use super::faults::{AwsFaultInjector, LaunchFaults};
use super::market::{CAPACITY_BLOCK, Market};
use super::records::{CallRecord, LaunchedInstance, StoredProfile, StoredTemplate, SubnetAddresses};
use super::stored_queue::StoredQueue;
use crate::ports::ec2::{
    CreateFleet, CreateLaunchTemplate, Ec2CapacityReservation, FleetAnswer, InstanceStateName, InstanceStatus,
    LaunchTemplate,
};

/// State reason of an instance that EC2 takes back.
pub(super) const SPOT_INTERRUPTION: &str = "Server.SpotInstanceTermination";

/// Time before the end of a capacity block at which EC2 terminates its instances.
const BLOCK_RECLAIM_TIME: SignedDuration = SignedDuration::from_mins(30);

/// The state behind all calls.
#[derive(Clone)]
pub(crate) struct AwsState {
    pub(super) settings: MemorySettings,
    pub(crate) account: Account,
    pub(super) market: Market,
    pub(super) faults: AwsFaultInjector,
    pub(super) call_log: VecDeque<CallRecord>,
    /// Instances by ID.
    pub(crate) instances: BTreeMap<String, LaunchedInstance>,
    /// Launch templates by name.
    pub(super) templates: BTreeMap<String, StoredTemplate>,
    /// Instance profiles by name.
    pub(super) profiles: BTreeMap<String, StoredProfile>,
    /// Addresses in use by subnet ID.
    pub(super) addresses: BTreeMap<String, SubnetAddresses>,
    /// Console output by instance ID.
    pub(super) consoles: BTreeMap<String, Vec<String>>,
    /// Status checks and scheduled events by instance ID.
    pub(super) statuses: BTreeMap<String, InstanceStatus>,
    /// Messages by the name of their queue.
    pub(super) queues: BTreeMap<String, StoredQueue>,
    pub(super) fleet_tokens: ClientTokens<CreateFleet, FleetAnswer>,
    pub(super) template_tokens: ClientTokens<CreateLaunchTemplate, LaunchTemplate>,
    /// Number of changes of instances by calls so far.
    pub(super) instance_changes: u64,
    /// Number of messages that were sent to queues so far.
    pub(super) messages_sent: u64,
    /// Faults of launches that something outside draws; `None` for none.
    pub(super) launch_faults: Option<Arc<dyn LaunchFaults>>,
    transitions: BTreeSet<(Timestamp, String, Transition)>,
    rng: Rng,
}

/// A change of an instance that only the clock causes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Transition {
    /// From `pending` to `running`, or to `shutting-down` if the instance cannot start.
    Run,
    /// From `shutting-down` to `terminated`.
    Terminate,
    /// The instance is no longer described.
    Forget,
    /// From `stopping` to `stopped`.
    Stop,
    /// The two-minute notice of an interruption is over.
    Reclaim,
}

impl AwsState {
    pub(super) fn new(account: Account, settings: MemorySettings) -> Self {
        Self {
            account,
            market: Market::default(),
            faults: AwsFaultInjector::new(settings.seed),
            call_log: VecDeque::new(),
            instances: BTreeMap::new(),
            templates: BTreeMap::new(),
            profiles: BTreeMap::new(),
            addresses: BTreeMap::new(),
            consoles: BTreeMap::new(),
            statuses: BTreeMap::new(),
            queues: BTreeMap::new(),
            fleet_tokens: ClientTokens::default(),
            template_tokens: ClientTokens::default(),
            instance_changes: 0,
            messages_sent: 0,
            launch_faults: None,
            transitions: BTreeSet::new(),
            rng: Rng::new(settings.seed).fork("aws"),
            settings,
        }
    }

    pub(super) fn reseed(&mut self, seed: u64) {
        self.rng = Rng::new(seed).fork("aws");
    }

    /// Returns a new ID of EC2, for example `i-` with 17 hexadecimal digits.
    pub(super) fn new_id(&mut self, prefix: &str) -> String {
        format!("{prefix}-0{:016x}", self.rng.next_u64())
    }

    pub(super) fn new_request_id(&mut self) -> String {
        self.rng.uuid()
    }

    pub(super) fn record_call(&mut self, record: CallRecord) {
        self.call_log.push_back(record);
        while self.call_log.len() > self.settings.call_log_max {
            self.call_log.pop_front();
        }
    }

    pub(super) fn schedule(&mut self, at: Timestamp, id: &str, transition: Transition) {
        self.transitions.insert((at, id.to_owned(), transition));
    }

    /// Returns the time of the next change that only the clock causes: of an instance, of a
    /// reservation or of prices.
    pub(super) fn next_transition_at(&self, now: Timestamp) -> Option<Timestamp> {
        let of_reservations = self.account.capacity_reservations.values().flat_map(ends).filter(|at| *at > now);
        let of_prices = self.market.next_price_change_at(now);
        self.next_instance_transition_at().into_iter().chain(of_reservations).chain(of_prices).min()
    }

    fn next_instance_transition_at(&self) -> Option<Timestamp> {
        self.transitions.first().map(|(at, _, _)| *at)
    }

    /// Carries out all transitions that are due.
    pub(super) fn advance(&mut self, now: Timestamp) {
        self.expire_reservations(now);
        while self.next_instance_transition_at().is_some_and(|at| at <= now)
            && let Some((at, id, transition)) = self.transitions.pop_first()
        {
            self.apply_transition(&id, transition, at);
        }
    }

    /// Ends the reservations whose time is over, and terminates the instances of capacity blocks
    /// that end soon.
    fn expire_reservations(&mut self, now: Timestamp) {
        let reservations = self.account.capacity_reservations.values();
        let due: Vec<(String, bool)> = reservations
            .filter(|own| ends(own).into_iter().any(|at| at <= now))
            .map(|own| (own.id.clone(), own.ends_at.is_some_and(|at| at <= now)))
            .collect();
        for (id, is_over) in due {
            self.terminate_block(&id, now);
            if is_over {
                self.expire_reservation(&id, now);
            }
        }
    }

    /// Ends a reservation. Its instances become on-demand instances; those of a capacity block are
    /// terminated.
    pub(super) fn expire_reservation(&mut self, id: &str, now: Timestamp) {
        self.terminate_block(id, now);
        if let Some(own) = self.account.capacity_reservations.get_mut(id) {
            "expired".clone_into(&mut own.state);
        }
        for launched in self.instances.values_mut() {
            let instance = &mut launched.instance;
            if instance.capacity_reservation_id.as_deref() == Some(id) && !instance.state.is_terminating() {
                (instance.capacity_reservation_id, instance.lifecycle) = (None, None);
            }
        }
        self.instance_changes += 1;
    }

    /// Terminates the instances of a capacity block. Does nothing for another reservation.
    fn terminate_block(&mut self, id: &str, now: Timestamp) {
        let is_block = |own: &Ec2CapacityReservation| own.reservation_type == CAPACITY_BLOCK;
        if !self.account.capacity_reservations.get(id).is_some_and(is_block) {
            return;
        }
        let instances = self.instances.values().map(|launched| &launched.instance);
        let ids: Vec<String> = instances
            .filter(|instance| instance.capacity_reservation_id.as_deref() == Some(id))
            .map(|instance| instance.id.clone())
            .collect();
        for id in ids {
            self.terminate(&id, "Server.CapacityBlockExpired", now);
        }
    }

    /// Makes every pending instance run.
    pub(super) fn run_pending(&mut self, now: Timestamp) {
        let is_pending = |launched: &&LaunchedInstance| launched.instance.state == InstanceStateName::Pending;
        let pending: Vec<String> =
            self.instances.values().filter(is_pending).map(|own| own.instance.id.clone()).collect();
        for id in pending {
            self.apply_transition(&id, Transition::Run, now);
            self.instance_changes += 1;
        }
    }

    fn apply_transition(&mut self, id: &str, transition: Transition, at: Timestamp) {
        let Some(launched) = self.instances.get_mut(id) else { return };
        match transition {
            Transition::Run if launched.instance.state == InstanceStateName::Pending => {
                if let Some(reason) = launched.fails_with.clone() {
                    self.terminate(id, &reason, at);
                    return;
                }
                launched.instance.state = InstanceStateName::Running;
                self.publish_state(id, InstanceStateName::Running, at);
            }
            Transition::Stop if launched.instance.state == InstanceStateName::Stopping => {
                launched.instance.state = InstanceStateName::Stopped;
                self.publish_state(id, InstanceStateName::Stopped, at);
            }
            // The instance was terminated before it ran or stopped.
            Transition::Run | Transition::Stop => {}
            Transition::Reclaim => {
                self.terminate(id, SPOT_INTERRUPTION, at);
            }
            Transition::Terminate => {
                launched.instance.state = InstanceStateName::Terminated;
                self.publish_state(id, InstanceStateName::Terminated, at);
                let Some(launched) = self.instances.get(id) else { return };
                let launched = launched.clone();
                self.release_addresses(&launched);
                let forget_at = at.saturating_add(self.settings.terminated_shown_for).unwrap_or(Timestamp::MAX);
                self.schedule(forget_at, id, Transition::Forget);
            }
            Transition::Forget => {
                self.instances.remove(id);
                self.statuses.remove(id);
                self.consoles.remove(id);
            }
        }
    }
}

/// Returns the times at which something happens to the instances of an active reservation by
/// itself: its end, and for a capacity block the time at which EC2 terminates its instances.
fn ends(own: &Ec2CapacityReservation) -> Vec<Timestamp> {
    let Some(ends_at) = own.ends_at.filter(|_| own.state == "active") else { return Vec::new() };
    let reclaimed_at = ends_at.saturating_sub(BLOCK_RECLAIM_TIME).unwrap_or(Timestamp::MIN);
    if own.reservation_type == CAPACITY_BLOCK { vec![reclaimed_at, ends_at] } else { vec![ends_at] }
}
