//! Free slots of capacity reservations (spec 05 §8.2, 06 §11.3): what EC2 reported last, corrected
//! by the launches and terminations since then. A number that is too high costs one failed launch;
//! a number that is too low leaves paid capacity unused, so doubtful cases count as free.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use jiff::Timestamp;
use kerf_runtime::Clock;

use crate::cache_metrics::{CacheMetrics, OptionalCacheSize};

/// Time for which a number is kept after it was last changed, so that an outage of EC2 loses none.
const SLOTS_TTL: Duration = Duration::from_hours(24);
/// Time for which a reservation counts as unavailable after EC2 announced that its owner reclaims
/// the capacity: as long as a mark of missing capacity.
const RECLAIMED_FOR: Duration = Duration::from_mins(3);
/// Largest number of reservations. A further one replaces the one that expires first.
const RESERVATIONS_MAX: usize = 10_000;

/// The free slots of capacity reservations. Listings set them, launches and terminations correct
/// them, and lists of instance types read them.
#[derive(Debug)]
pub struct ReservationSlots {
    clock: Clock,
    state: Mutex<SlotsState>,
    size: OptionalCacheSize,
}

#[derive(Debug, Default)]
struct SlotsState {
    by_id: BTreeMap<String, Slots>,
    /// Number of all changes.
    changes: u64,
}

#[derive(Debug, Clone)]
struct Slots {
    free: i32,
    /// Time of the answer of EC2 that set the number.
    synced_at: Timestamp,
    expires: Timestamp,
    /// End of the time in which the capacity is being reclaimed; `None` if it is not.
    reclaimed_until: Option<Timestamp>,
}

/// The free slots at one time.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SlotsSnapshot {
    free: BTreeMap<String, i32>,
    reclaimed: BTreeSet<String>,
}

impl SlotsSnapshot {
    /// Returns the number of free slots; 0 for an unknown reservation.
    pub fn free(&self, id: &str) -> i32 {
        self.free.get(id).copied().unwrap_or_default()
    }

    /// Returns true if the owner of the capacity is reclaiming it (spec 10 §12.4).
    pub fn is_reclaimed(&self, id: &str) -> bool {
        self.reclaimed.contains(id)
    }
}

impl ReservationSlots {
    /// Creates the store without any reservation.
    pub fn new(clock: Clock) -> Self {
        Self { clock, state: Mutex::default(), size: OptionalCacheSize::default() }
    }

    /// Publishes the number of reservations from now on.
    pub(crate) fn measure(&self, metrics: &CacheMetrics) {
        self.size.measure(metrics.of("reservation_slots"), self.lock().by_id.len());
    }

    /// Sets the numbers that EC2 has just reported.
    pub fn set_free(&self, counts: impl IntoIterator<Item = (String, i32)>) {
        let now = self.clock.now();
        let mut state = self.lock();
        for (id, free) in counts {
            let known = state.by_id.get(&id);
            let is_same = known.is_some_and(|known| known.free == free && known.expires > now);
            let reclaimed_until = known.and_then(|known| known.reclaimed_until);
            if known.is_none() && state.by_id.len() >= RESERVATIONS_MAX {
                state.remove_first_to_expire();
            }
            state.by_id.insert(id, Slots { free, synced_at: now, expires: after(now, SLOTS_TTL), reclaimed_until });
            // An unchanged number changes no offering.
            state.changes += u64::from(!is_same);
        }
        self.size.set(state.by_id.len());
    }

    /// Takes one slot for a launch that began at a time. EC2's answer counts the launch already if
    /// it is later than that.
    pub fn record_launch(&self, id: &str, began_at: Timestamp) {
        self.update(id, |slots| {
            if slots.synced_at <= began_at {
                slots.free = (slots.free - 1).max(0);
            }
        });
    }

    /// Gives the slot of an instance back that EC2 no longer knows.
    pub fn record_termination(&self, id: &str) {
        self.update(id, |slots| slots.free = slots.free.saturating_add(1));
    }

    /// Records that a launch found no free slot.
    pub fn mark_full(&self, id: &str) {
        self.update(id, |slots| slots.free = 0);
    }

    /// Records that the owner of the capacity reclaims it: no slot is free, and for three minutes
    /// the reservation is unavailable.
    pub fn mark_reclaimed(&self, id: &str) {
        let until = after(self.clock.now(), RECLAIMED_FOR);
        self.update(id, |slots| (slots.free, slots.reclaimed_until) = (0, Some(until)));
    }

    /// Returns the number of free slots; 0 for an unknown reservation.
    pub fn free(&self, id: &str) -> i32 {
        self.snapshot().free(id)
    }

    /// Returns the numbers that count now.
    pub fn snapshot(&self) -> SlotsSnapshot {
        let now = self.clock.now();
        let state = self.lock();
        let live = || state.by_id.iter().filter(|(_, slots)| slots.expires > now);
        SlotsSnapshot {
            free: live().map(|(id, slots)| (id.clone(), slots.free)).collect(),
            reclaimed: live()
                .filter(|(_, slots)| slots.reclaimed_until.is_some_and(|until| until > now))
                .map(|(id, _)| id.clone())
                .collect(),
        }
    }

    /// Returns a number that changes with every change of a number or of its validity.
    pub(crate) fn change_number(&self) -> u64 {
        let now = self.clock.now();
        let mut state = self.lock();
        let before = state.by_id.len();
        state.by_id.retain(|_, slots| slots.expires > now);
        let mut ended = before - state.by_id.len();
        self.size.set(state.by_id.len());
        for slots in state.by_id.values_mut() {
            if slots.reclaimed_until.is_some_and(|until| until <= now) {
                slots.reclaimed_until = None;
                ended += 1;
            }
        }
        state.changes += ended as u64;
        state.changes
    }

    fn update(&self, id: &str, change: impl FnOnce(&mut Slots)) {
        let now = self.clock.now();
        let mut state = self.lock();
        if let Some(slots) = state.by_id.get_mut(id).filter(|slots| slots.expires > now) {
            change(slots);
            slots.expires = after(now, SLOTS_TTL);
            state.changes += 1;
        }
    }

    fn lock(&self) -> MutexGuard<'_, SlotsState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl SlotsState {
    fn remove_first_to_expire(&mut self) {
        let first = self.by_id.iter().min_by_key(|(_, slots)| slots.expires).map(|(id, _)| id.clone());
        if let Some(first) = first {
            self.by_id.remove(&first);
        }
    }
}

fn after(time: Timestamp, duration: Duration) -> Timestamp {
    time.saturating_add(duration).unwrap_or(Timestamp::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn slots(free: i32) -> ReservationSlots {
        let slots = ReservationSlots::new(Clock::starting_at(Timestamp::UNIX_EPOCH));
        slots.set_free([("cr-1".to_owned(), free)]);
        slots
    }

    // spec 05 #63: the numbers; spec 06 #94
    #[tokio::test(start_paused = true)]
    async fn spec_05_63_launches_take_slots_and_terminations_give_them_back() {
        let slots = slots(10);
        let now = Timestamp::UNIX_EPOCH;
        slots.record_launch("cr-1", now);
        assert_eq!(slots.free("cr-1"), 9);
        slots.record_termination("cr-1");
        assert_eq!(slots.free("cr-1"), 10);
        slots.mark_full("cr-1");
        slots.record_launch("cr-1", now);
        assert_eq!(slots.free("cr-1"), 0, "never below zero");
        for change in [ReservationSlots::mark_full, ReservationSlots::record_termination] {
            change(&slots, "cr-9");
        }
        assert_eq!(slots.free("cr-9"), 0, "an unknown reservation stays unknown");
    }

    // spec 06 §11.3
    #[tokio::test(start_paused = true)]
    async fn a_launch_that_began_before_the_last_listing_is_counted_by_ec2() {
        let slots = slots(10);
        let began_at = Timestamp::UNIX_EPOCH;
        tokio::time::advance(Duration::from_secs(1)).await;
        slots.set_free([("cr-1".to_owned(), 5)]);
        slots.record_launch("cr-1", began_at);
        assert_eq!(slots.free("cr-1"), 5);
        slots.record_launch("cr-1", slots.clock.now());
        assert_eq!(slots.free("cr-1"), 4);
    }

    // spec 05 §3: the lifetime; spec 10 §12.4: reclaimed capacity
    #[tokio::test(start_paused = true)]
    async fn a_number_lives_for_a_day_and_a_reclaimed_reservation_is_unavailable_for_three_minutes() {
        let slots = slots(3);
        let first = slots.change_number();
        slots.set_free([("cr-1".to_owned(), 3)]);
        assert_eq!(slots.change_number(), first, "an equal number is no change");
        slots.mark_reclaimed("cr-1");
        slots.set_free([("cr-1".to_owned(), 2)]);
        let snapshot = slots.snapshot();
        assert_eq!((snapshot.free("cr-1"), snapshot.is_reclaimed("cr-1")), (2, true));
        let reclaimed = slots.change_number();
        tokio::time::advance(RECLAIMED_FOR).await;
        assert_ne!(slots.change_number(), reclaimed);
        assert!(!slots.snapshot().is_reclaimed("cr-1"));
        tokio::time::advance(SLOTS_TTL).await;
        assert_eq!(slots.free("cr-1"), 0);
    }

    #[tokio::test(start_paused = true)]
    async fn the_number_of_reservations_has_a_bound() {
        let slots = slots(1);
        slots.set_free((0..RESERVATIONS_MAX).map(|number| (format!("cr-x{number}"), 1)));
        assert_eq!(slots.lock().by_id.len(), RESERVATIONS_MAX);
    }
}
