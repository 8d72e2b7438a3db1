//! Offerings that EC2 had no capacity for (spec 05 §5.4): pools, whole capacity types and subnets,
//! each for three minutes. The marks are in memory only; a new process starts without any.
//!
//! Invariant: an expired mark is never served. Its removal, which changes the sequence numbers,
//! waits for the next sweep; a sweep runs at most every ten seconds, on any access.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use jiff::Timestamp;
use kerf_runtime::Clock;

use crate::cache_metrics::{CacheMetrics, OptionalCacheSize};

/// Time for which a mark counts.
pub(crate) const MARK_TTL: Duration = Duration::from_mins(3);
/// Smallest time between two removals of expired marks.
const SWEEP_INTERVAL: Duration = Duration::from_secs(10);
/// Largest number of marks of each kind. A further mark replaces the one that expires first.
const MARKS_MAX: usize = 100_000;

/// The part of a pool that a mark or a query is about.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum PoolScope {
    /// Instances without a placement group.
    #[default]
    Unscoped,
    /// Instances in a placement group, by its ID.
    PlacementGroup(String),
    /// Instances in one partition of a placement group.
    Partition {
        /// ID of the placement group.
        group: String,
        /// Number of the partition.
        partition: i32,
    },
}

/// A pool of instances: instance type, zone and capacity type, optionally in a placement group.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct InstancePool {
    /// Name of the instance type.
    pub instance_type: String,
    /// Name of the zone.
    pub zone: String,
    /// `on-demand` or `spot`.
    pub capacity_type: String,
    /// Placement group and partition.
    pub scope: PoolScope,
}

/// Writes the key of spec 05 §5.4, as logs show it.
impl fmt::Display for InstancePool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}:{}", self.capacity_type, self.instance_type, self.zone)?;
        match &self.scope {
            PoolScope::Unscoped => Ok(()),
            PoolScope::PlacementGroup(group) => write!(f, ":{group}"),
            PoolScope::Partition { group, partition } => write!(f, ":{group}:{partition}"),
        }
    }
}

/// The offerings that are unavailable now. Shared by launches, which mark, and listings, which
/// read.
#[derive(Debug)]
pub struct UnavailableOfferings {
    clock: Clock,
    marks: Mutex<Marks>,
    size: OptionalCacheSize,
}

#[derive(Debug)]
struct Marks {
    pools: ExpiringSet<InstancePool>,
    capacity_types: ExpiringSet<String>,
    subnets: ExpiringSet<String>,
    /// Number of changes to the pools of each instance type.
    pool_changes: BTreeMap<String, u64>,
    /// Number of changes to capacity types and subnets.
    shared_changes: u64,
    /// Number of all changes.
    all_changes: u64,
    next_sweep: Timestamp,
}

impl UnavailableOfferings {
    /// Creates an empty set.
    pub fn new(clock: Clock) -> Self {
        let marks = Marks {
            pools: ExpiringSet::default(),
            capacity_types: ExpiringSet::default(),
            subnets: ExpiringSet::default(),
            pool_changes: BTreeMap::new(),
            shared_changes: 0,
            all_changes: 0,
            next_sweep: clock.now(),
        };
        Self { clock, marks: Mutex::new(marks), size: OptionalCacheSize::default() }
    }

    /// Publishes the number of marks from now on.
    pub(crate) fn measure(&self, metrics: &CacheMetrics) {
        self.size.measure(metrics.of("unavailable_offerings"), self.swept(self.clock.now()).len());
    }

    /// Marks a pool as unavailable for three minutes from now.
    pub fn mark_pool(&self, pool: InstancePool) {
        let now = self.clock.now();
        let mut marks = self.swept(now);
        marks.count_pool_change(&pool.instance_type.clone());
        if let Some(replaced) = marks.pools.insert(pool, now) {
            marks.count_pool_change(&replaced.instance_type);
        }
        self.size.set(marks.len());
    }

    /// Marks all offerings of a capacity type as unavailable for three minutes from now.
    pub fn mark_capacity_type(&self, capacity_type: &str) {
        let now = self.clock.now();
        let mut marks = self.swept(now);
        marks.capacity_types.insert(capacity_type.to_owned(), now);
        marks.count_shared_change();
        self.size.set(marks.len());
    }

    /// Marks a subnet as full for three minutes from now.
    pub fn mark_subnet(&self, subnet_id: &str) {
        let now = self.clock.now();
        let mut marks = self.swept(now);
        marks.subnets.insert(subnet_id.to_owned(), now);
        marks.count_shared_change();
        self.size.set(marks.len());
    }

    /// Removes the mark of a pool.
    pub fn unmark_pool(&self, pool: &InstancePool) {
        let mut marks = self.swept(self.clock.now());
        if marks.pools.remove(pool) {
            marks.count_pool_change(&pool.instance_type);
        }
        self.size.set(marks.len());
    }

    /// Returns true if instances of the pool cannot be launched now: the pool, in exactly this
    /// scope, or its capacity type is marked, or all subnets of its zone are. Without subnets, no
    /// subnet makes a pool unavailable.
    pub fn is_unavailable(&self, pool: &InstancePool, subnet_ids: &[String]) -> bool {
        let now = self.clock.now();
        self.swept(now).snapshot(now).is_unavailable(pool, subnet_ids)
    }

    /// Returns the marks that count now, to check many pools.
    pub fn snapshot(&self) -> UnavailableSnapshot {
        let now = self.clock.now();
        self.swept(now).snapshot(now)
    }

    /// Returns a number that changes with every change that concerns an instance type: marks (a
    /// repeated one too), removals and expired marks of its pools, of capacity types and of
    /// subnets.
    pub fn sequence_number(&self, instance_type: &str) -> u64 {
        let marks = self.swept(self.clock.now());
        marks.shared_changes + marks.pool_changes.get(instance_type).copied().unwrap_or_default()
    }

    /// Returns a number that changes with every change of any mark.
    pub fn change_number(&self) -> u64 {
        self.swept(self.clock.now()).all_changes
    }

    fn swept(&self, now: Timestamp) -> MutexGuard<'_, Marks> {
        let mut marks = self.marks.lock().unwrap_or_else(PoisonError::into_inner);
        marks.sweep(now);
        self.size.set(marks.len());
        marks
    }
}

/// The marks that count at one time.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct UnavailableSnapshot {
    pools: BTreeSet<InstancePool>,
    /// Names of the instance types of `pools`.
    types: BTreeSet<String>,
    capacity_types: BTreeSet<String>,
    subnets: BTreeSet<String>,
}

impl UnavailableSnapshot {
    /// Returns true if nothing is marked.
    pub fn is_empty(&self) -> bool {
        self.pools.is_empty() && self.capacity_types.is_empty() && self.subnets.is_empty()
    }

    /// Returns true if instances of the pool cannot be launched, see
    /// [`UnavailableOfferings::is_unavailable`].
    pub fn is_unavailable(&self, pool: &InstancePool, subnet_ids: &[String]) -> bool {
        self.is_pool_marked(pool)
            || self.is_capacity_type_marked(&pool.capacity_type)
            || self.are_subnets_marked(subnet_ids)
    }

    /// Returns true if the pool, in exactly this scope, is marked.
    pub(crate) fn is_pool_marked(&self, pool: &InstancePool) -> bool {
        self.pools.contains(pool)
    }

    /// Returns true if any pool of an instance type is marked.
    pub(crate) fn has_pools_of(&self, instance_type: &str) -> bool {
        self.types.contains(instance_type)
    }

    /// Returns true if a whole capacity type is marked.
    pub(crate) fn is_capacity_type_marked(&self, capacity_type: &str) -> bool {
        self.capacity_types.contains(capacity_type)
    }

    /// Returns true if there are subnets and all of them are marked.
    pub(crate) fn are_subnets_marked(&self, subnet_ids: &[String]) -> bool {
        !subnet_ids.is_empty() && subnet_ids.iter().all(|id| self.subnets.contains(id))
    }
}

impl Marks {
    /// Returns the number of all marks.
    fn len(&self) -> usize {
        self.pools.0.len() + self.capacity_types.0.len() + self.subnets.0.len()
    }

    fn sweep(&mut self, now: Timestamp) {
        if now < self.next_sweep {
            return;
        }
        self.next_sweep = add(now, SWEEP_INTERVAL);
        for pool in self.pools.remove_expired(now) {
            self.count_pool_change(&pool.instance_type);
        }
        let shared = self.capacity_types.remove_expired(now).len() + self.subnets.remove_expired(now).len();
        for _ in 0..shared {
            self.count_shared_change();
        }
    }

    fn count_pool_change(&mut self, instance_type: &str) {
        self.all_changes += 1;
        *self.pool_changes.entry(instance_type.to_owned()).or_default() += 1;
    }

    fn count_shared_change(&mut self) {
        self.all_changes += 1;
        self.shared_changes += 1;
    }

    fn snapshot(&self, now: Timestamp) -> UnavailableSnapshot {
        let pools = self.pools.live(now);
        UnavailableSnapshot {
            types: pools.iter().map(|pool| pool.instance_type.clone()).collect(),
            pools,
            capacity_types: self.capacity_types.live(now),
            subnets: self.subnets.live(now),
        }
    }
}

/// A set whose members expire.
#[derive(Debug)]
struct ExpiringSet<K>(BTreeMap<K, Timestamp>);

impl<K> Default for ExpiringSet<K> {
    fn default() -> Self {
        Self(BTreeMap::new())
    }
}

impl<K: Ord + Clone> ExpiringSet<K> {
    /// Adds a member or extends its time. Returns the member that it replaces if the set is full.
    fn insert(&mut self, key: K, now: Timestamp) -> Option<K> {
        let mut replaced = None;
        if self.0.len() >= MARKS_MAX && !self.0.contains_key(&key) {
            replaced = self.0.iter().min_by_key(|(_, expires)| **expires).map(|(first, _)| first.clone());
            if let Some(first) = &replaced {
                self.0.remove(first);
            }
        }
        self.0.insert(key, add(now, MARK_TTL));
        replaced
    }

    fn remove(&mut self, key: &K) -> bool {
        self.0.remove(key).is_some()
    }

    fn remove_expired(&mut self, now: Timestamp) -> Vec<K> {
        let expired: Vec<K> =
            self.0.iter().filter(|(_, expires)| **expires <= now).map(|(key, _)| key.clone()).collect();
        for key in &expired {
            self.0.remove(key);
        }
        expired
    }

    fn live(&self, now: Timestamp) -> BTreeSet<K> {
        self.0.iter().filter(|(_, expires)| **expires > now).map(|(key, _)| key.clone()).collect()
    }
}

fn add(time: Timestamp, duration: Duration) -> Timestamp {
    time.saturating_add(duration).unwrap_or(Timestamp::MAX)
}

#[cfg(test)]
mod tests;
