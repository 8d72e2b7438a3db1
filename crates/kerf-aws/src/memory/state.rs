//! Everything that an EC2 in memory remembers, and its changes over time.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use jiff::Timestamp;
use kerf_runtime::Rng;

use super::MemorySettings;
use super::account::Account;
use super::client_tokens::ClientTokens;
use super::faults::AwsFaultInjector;
use super::market::Market;
use super::records::{CallRecord, LaunchedInstance, StoredProfile, StoredTemplate, SubnetAddresses};
use super::stored_queue::StoredQueue;
use crate::ports::ec2::{
    CreateFleet, CreateLaunchTemplate, FleetAnswer, InstanceStateName, InstanceStatus, LaunchTemplate,
};

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
    /// Status checks and scheduled events by instance ID.
    pub(super) statuses: BTreeMap<String, InstanceStatus>,
    /// Messages by the name of their queue.
    pub(super) queues: BTreeMap<String, StoredQueue>,
    pub(super) fleet_tokens: ClientTokens<CreateFleet, FleetAnswer>,
    pub(super) template_tokens: ClientTokens<CreateLaunchTemplate, LaunchTemplate>,
    /// Number of changes of instances by calls so far.
    pub(super) instance_changes: u64,
    transitions: BTreeSet<(Timestamp, String, Transition)>,
    rng: Rng,
}

/// A change of an instance that only the clock causes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Transition {
    /// From `pending` to `running`.
    Run,
    /// From `shutting-down` to `terminated`.
    Terminate,
    /// The instance is no longer described.
    Forget,
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
            statuses: BTreeMap::new(),
            queues: BTreeMap::new(),
            fleet_tokens: ClientTokens::default(),
            template_tokens: ClientTokens::default(),
            instance_changes: 0,
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

    pub(super) fn next_transition_at(&self) -> Option<Timestamp> {
        self.transitions.first().map(|(at, _, _)| *at)
    }

    /// Carries out all transitions that are due.
    pub(super) fn advance(&mut self, now: Timestamp) {
        while self.next_transition_at().is_some_and(|at| at <= now)
            && let Some((at, id, transition)) = self.transitions.pop_first()
        {
            self.apply_transition(&id, transition, at);
        }
    }

    /// Makes every pending instance run.
    pub(super) fn run_pending(&mut self) {
        for launched in self.instances.values_mut() {
            if launched.instance.state == InstanceStateName::Pending {
                launched.instance.state = InstanceStateName::Running;
                self.instance_changes += 1;
            }
        }
    }

    fn apply_transition(&mut self, id: &str, transition: Transition, at: Timestamp) {
        let Some(launched) = self.instances.get_mut(id) else { return };
        match transition {
            Transition::Run if launched.instance.state == InstanceStateName::Pending => {
                launched.instance.state = InstanceStateName::Running;
            }
            // The instance was terminated before it ran.
            Transition::Run => {}
            Transition::Terminate => {
                launched.instance.state = InstanceStateName::Terminated;
                let launched = launched.clone();
                self.release_addresses(&launched);
                let forget_at = at.saturating_add(self.settings.terminated_shown_for).unwrap_or(Timestamp::MAX);
                self.schedule(forget_at, id, Transition::Forget);
            }
            Transition::Forget => {
                self.instances.remove(id);
                self.statuses.remove(id);
            }
        }
    }
}
