//! What nodes cost over time.

use jiff::Timestamp;

use super::report::CostReport;

/// Money over time: a rate that changes, and what has come together so far.
#[derive(Debug)]
pub(super) struct CostMeter {
    since: Timestamp,
    pub(super) rate: u64,
    peak: u64,
    /// Millionths of a dollar an hour, times milliseconds.
    spent: u128,
    /// The same for the highest rate so far: a cluster that never shrinks.
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

    /// From now on the price an hour is another.
    pub(super) fn set_rate(&mut self, now: Timestamp, rate: u64) {
        self.accrue_until(now);
        self.rate = rate;
        self.peak = self.peak.max(rate);
    }

    /// What it has cost until now.
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
