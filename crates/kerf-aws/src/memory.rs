//! An EC2 in memory: one account in one region, with the services that [`crate::ports`] names.
//!
//! Unit tests call it in process on virtual time, the sandbox launches its nodes from it, and
//! `http` serves it in AWS's wire formats. It answers as AWS does, including the error
//! codes. Where AWS is random (identifiers, order of ties), it draws from a seed or uses the order
//! of the request.
//!
//! Three parts can be changed while it is used: the [`Account`] (what exists), the [`Market`] (what
//! can be launched, and its price) and the fault rules ([`AwsFaultRule`]). All calls are recorded
//! in a bounded log.
//!
//! Invariant: all times come from the clock and all random numbers from the seed, so that one seed
//! on a paused clock gives the same answers in every run.

mod account;
mod by_hand;
mod calls;
mod client_tokens;
mod ec2;
mod eks;
mod event_bridge;
mod example_capacity;
mod failure;
mod faults;
mod filters;
mod fleet;
mod iam;
mod images;
mod instance_status;
mod instances;
mod interruptions;
mod launch_faults;
mod launch_templates;
mod market;
mod network;
mod operations;
mod paging;
mod parameters;
mod prices;
mod records;
mod reserved_capacity;
mod reserved_launches;
mod sqs;
mod ssm;
mod state;
mod stored_queue;
#[cfg(test)]
pub(crate) mod testing;
mod validation;
mod zonal_shift;

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use jiff::Timestamp;
use kerf_runtime::Clock;
use tokio::sync::watch;

pub use account::{Account, Zone};
pub use calls::CallObserver;
pub(crate) use calls::{AwsOperation, with_record};
pub(crate) use failure::AwsFailure;
pub use faults::{AwsFault, AwsFaultRule, LaunchFaults};

pub use filters::matches_pattern;
pub use market::{CapacityPool, LaunchFailure, Market, PoolPattern, SeededSpotPrices, Stock, StockOut};
pub(crate) use operations::{EC2_OPERATIONS, IAM_OPERATIONS, SQS_OPERATIONS};
pub use operations::{operation_actions, operation_names};
pub use records::{CallRecord, LaunchedInstance};

use crate::ports::AwsPorts;
use state::AwsState;

/// Largest number of lines of the console output of an instance.
const CONSOLE_LINES_MAX: usize = 100;

/// An EC2 in memory. Clones share one state.
#[derive(Clone)]
pub struct MemoryAws {
    inner: Arc<Inner>,
}

struct Inner {
    clock: Clock,
    state: Mutex<AwsState>,
    observer: Mutex<Option<CallObserver>>,
    /// Number of changes of instances so far.
    changes: watch::Sender<u64>,
    /// Number of messages that were sent to queues so far.
    messages_sent: watch::Sender<u64>,
    /// Number of requests so far to read kept parameters again.
    parameter_refreshes: AtomicU64,
}

/// Times and limits of an EC2 in memory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MemorySettings {
    /// Seed of identifiers and of fault rules with a rate.
    pub seed: u64,
    /// Time from the launch of an instance until it is `running`.
    pub pending_for: Duration,
    /// Time from the termination request until the instance is `terminated`.
    pub shutting_down_for: Duration,
    /// Time for which a terminated instance is still described.
    pub terminated_shown_for: Duration,
    /// Time for which `DescribeInstances` does not know a new instance (eventual consistency).
    pub instances_visible_after: Duration,
    /// Time for which EC2 does not know a new instance profile (eventual consistency).
    pub profiles_visible_after: Duration,
    /// Name of the queue that gets the events about instances, if it exists; `None` for no queue.
    pub event_queue: Option<String>,
    /// Largest number of items of a page, below the limit of AWS; `None` for AWS's limit.
    pub page_size_max: Option<usize>,
    /// True if the first page of every list of EC2 is empty although items follow.
    pub first_page_is_empty: bool,
    /// Number of calls in the call log; older calls are dropped.
    pub call_log_max: usize,
}

impl Default for MemorySettings {
    fn default() -> Self {
        Self {
            seed: 0,
            pending_for: Duration::from_secs(10),
            shutting_down_for: Duration::from_secs(30),
            terminated_shown_for: Duration::from_hours(1),
            instances_visible_after: Duration::ZERO,
            profiles_visible_after: Duration::ZERO,
            event_queue: None,
            page_size_max: None,
            first_page_is_empty: false,
            call_log_max: 10_000,
        }
    }
}

impl MemoryAws {
    /// Creates an EC2 with the resources of `account`, without instances or launch templates.
    pub fn new(clock: Clock, account: Account, settings: MemorySettings) -> Self {
        Self::from_state(clock, AwsState::new(account, settings))
    }

    fn from_state(clock: Clock, state: AwsState) -> Self {
        let inner = Inner {
            clock,
            state: Mutex::new(state),
            observer: Mutex::new(None),
            changes: watch::Sender::new(0),
            messages_sent: watch::Sender::new(0),
            parameter_refreshes: AtomicU64::new(0),
        };
        Self { inner: Arc::new(inner) }
    }

    /// Returns an independent copy with its own clock: the same resources, market, client tokens
    /// and log, but no fault rules and no observer. Later calls to either copy do not affect the
    /// other.
    #[must_use]
    pub fn fork(&self, clock: Clock) -> Self {
        let mut state = self.state().clone();
        state.faults.replace(Vec::new());
        state.launch_faults = None;
        Self::from_state(clock, state)
    }

    /// Sets another seed for identifiers from now on, so that forks of one EC2 differ.
    pub fn reseed(&self, seed: u64) {
        self.state().reseed(seed);
    }

    /// Returns the services as the provider uses them.
    pub fn ports(&self) -> AwsPorts {
        let aws = Arc::new(self.clone());
        AwsPorts {
            region: self.region(),
            ec2: aws.clone(),
            ssm: aws.clone(),
            iam: aws.clone(),
            eks: aws.clone(),
            zonal_shift: aws.clone(),
            price_list: aws.clone(),
            sqs: aws,
        }
    }

    /// Returns the region of the account.
    pub fn region(&self) -> String {
        self.state().account.region.clone()
    }

    /// Returns the clock of all times.
    pub fn clock(&self) -> Clock {
        self.inner.clock
    }

    /// Changes what exists in the account, for example publishes an image or removes a role. The
    /// change takes effect for the next call.
    pub fn change_account<T>(&self, change: impl FnOnce(&mut Account) -> T) -> T {
        change(&mut self.state().account)
    }

    /// Lets the provider read the parameters of images again now, which it keeps for a day.
    pub fn refresh_parameters(&self) {
        self.inner.parameter_refreshes.fetch_add(1, Ordering::Relaxed);
    }

    /// Changes what can be launched, and its price. Stock-outs that have ended are removed before.
    pub fn change_market<T>(&self, change: impl FnOnce(&mut Market) -> T) -> T {
        let now = self.inner.clock.now();
        let mut state = self.state();
        state.market.remove_ended_stock_outs(now);
        let result = change(&mut state.market);
        // Observers of instances also read their prices.
        state.instance_changes += 1;
        self.notify_changes(&state);
        result
    }

    /// Sets the faults of launches that something outside draws; `None` removes them.
    pub fn set_launch_faults(&self, faults: Option<Arc<dyn LaunchFaults>>) {
        self.state().launch_faults = faults;
    }

    /// Adds a fault rule after all others.
    pub fn add_fault(&self, rule: AwsFaultRule) {
        let now = self.inner.clock.now();
        self.state().faults.add(rule, now);
    }

    /// Returns the current price of the pool of an instance. Returns `None` if it has none.
    pub fn price_of(&self, launched: &LaunchedInstance) -> Option<kerf_engine::Price> {
        let instance = &launched.instance;
        // An instance of a reservation costs as much as without it.
        let capacity_type = if launched.capacity_type() == "spot" { "spot" } else { "on-demand" };
        let pool = CapacityPool::new(&instance.instance_type, &instance.zone, capacity_type);
        let now = self.inner.clock.now();
        self.state().market.price(&pool, now)
    }

    /// Replaces all fault rules. Rules are evaluated in order; the first that applies is used.
    pub fn set_faults(&self, rules: Vec<AwsFaultRule>) {
        self.state().faults.replace(rules);
    }

    /// Returns the recorded calls, oldest first.
    pub fn calls(&self) -> Vec<CallRecord> {
        self.state().call_log.iter().cloned().collect()
    }

    /// Removes all recorded calls.
    pub fn clear_calls(&self) {
        self.state().call_log.clear();
    }

    /// Sets a function that is called after each call, before its caller gets the answer. Tests of
    /// crashes fork the account in it. `None` removes it.
    pub fn observe_calls(&self, observer: Option<CallObserver>) {
        *self.inner.observer.lock().unwrap_or_else(PoisonError::into_inner) = observer;
    }

    /// Returns all instances that EC2 still knows, with what they were launched from, ordered by
    /// ID. Eventual consistency does not apply.
    pub fn instances(&self) -> Vec<LaunchedInstance> {
        let now = self.inner.clock.now();
        let mut state = self.state();
        state.advance(now);
        self.notify_changes(&state);
        state.instances.values().cloned().collect()
    }

    /// Carries out the transitions of all pending instances at once, for tests on a clock that does
    /// not advance.
    pub fn run_pending_instances(&self) {
        let now = self.inner.clock.now();
        let mut state = self.state();
        state.run_pending(now);
        self.notify_changes(&state);
    }

    /// Adds a line to the console output of an instance. The oldest lines are dropped.
    pub fn append_console(&self, id: &str, line: String) {
        let mut state = self.state();
        if state.instances.contains_key(id) {
            let lines = state.consoles.entry(id.to_owned()).or_default();
            if lines.len() >= CONSOLE_LINES_MAX {
                lines.remove(0);
            }
            lines.push(line);
        }
    }

    /// Returns the console output of an instance, oldest line first.
    pub fn console_output(&self, id: &str) -> Vec<String> {
        self.state().consoles.get(id).cloned().unwrap_or_default()
    }

    /// Returns a counter that changes whenever a call changes instances. Changes that only the
    /// clock causes are not counted; [`Self::next_transition_at`] gives their time.
    pub fn instance_changes(&self) -> watch::Receiver<u64> {
        self.inner.changes.subscribe()
    }

    /// Returns the time of the next change that only the clock causes: of an instance, of a
    /// reservation or of prices. Returns `None` if there is none.
    pub fn next_transition_at(&self) -> Option<Timestamp> {
        let now = self.inner.clock.now();
        self.state().next_transition_at(now)
    }

    /// Wakes up the observers of instances and queues if something has changed.
    fn notify_changes(&self, state: &AwsState) {
        for (sender, number) in
            [(&self.inner.changes, state.instance_changes), (&self.inner.messages_sent, state.messages_sent)]
        {
            sender.send_if_modified(|count| {
                let has_changed = *count != number;
                *count = number;
                has_changed
            });
        }
    }

    pub(crate) fn state(&self) -> MutexGuard<'_, AwsState> {
        self.inner.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl std::fmt::Debug for MemoryAws {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("MemoryAws").field("region", &self.region()).finish_non_exhaustive()
    }
}
