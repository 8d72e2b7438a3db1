//! Integrates the price of all nodes over time.

use jiff::{SignedDuration, Timestamp};

use super::report::CostReport;

/// A rate in millionths of a dollar per hour, and the cost accumulated so far.
#[derive(Debug)]
pub(super) struct CostMeter {
    since: Timestamp,
    pub(super) rate: u64,
    peak: u64,
    /// Accumulated cost: millionths of a dollar per hour times milliseconds.
    spent: u128,
    /// Accumulated cost in the same unit if the rate had stayed at its peak, as in a cluster that
    /// never shrinks.
    spent_at_peak_rate: u128,
}

impl CostMeter {
    pub(super) fn new(since: Timestamp) -> Self {
        Self { since, rate: 0, peak: 0, spent: 0, spent_at_peak_rate: 0 }
    }

    fn accrue_until(&mut self, now: Timestamp) {
        let millis = u128::try_from(now.duration_since(self.since).as_millis()).unwrap_or_default();
        self.spent += u128::from(self.rate) * millis;
        self.spent_at_peak_rate += u128::from(self.peak) * millis;
        self.since = now;
    }

    /// Moves the time of the last change, because the wall clock has jumped.
    pub(super) fn shift(&mut self, by: SignedDuration) {
        self.since = self.since.saturating_add(by).unwrap_or(Timestamp::MAX);
    }

    /// Sets the rate from now on.
    pub(super) fn set_rate(&mut self, now: Timestamp, rate: u64) {
        self.accrue_until(now);
        self.rate = rate;
        self.peak = self.peak.max(rate);
    }

    /// Returns the costs up to `now`.
    pub(super) fn report(mut self, now: Timestamp) -> CostReport {
        self.accrue_until(now);
        CostReport {
            spent_micro_dollars: to_micro_dollars(self.spent),
            saved_micro_dollars: to_micro_dollars(self.spent_at_peak_rate.saturating_sub(self.spent)),
            peak_micro_dollars_per_hour: self.peak,
            at_end_micro_dollars_per_hour: self.rate,
        }
    }
}

fn to_micro_dollars(rate_millis: u128) -> u64 {
    u64::try_from(rate_millis / 3_600_000).unwrap_or(u64::MAX)
}
