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
    unshrunk: u128,
}

impl CostMeter {
    pub(super) fn new(since: Timestamp) -> Self {
        Self { since, rate: 0, peak: 0, spent: 0, unshrunk: 0 }
    }

    fn pass_until(&mut self, now: Timestamp) {
        let millis = u128::try_from(now.duration_since(self.since).as_millis()).unwrap_or_default();
        self.spent += u128::from(self.rate) * millis;
        self.unshrunk += u128::from(self.peak) * millis;
        self.since = now;
    }

    /// From now on the price an hour is another.
    pub(super) fn change(&mut self, now: Timestamp, rate: u64) {
        self.pass_until(now);
        self.rate = rate;
        self.peak = self.peak.max(rate);
    }

    /// What it has cost until now.
    pub(super) fn report(mut self, now: Timestamp) -> CostReport {
        self.pass_until(now);
        CostReport {
            spent_micro_dollars: dollars(self.spent),
            saved_micro_dollars: dollars(self.unshrunk.saturating_sub(self.spent)),
            peak_micro_dollars_per_hour: self.peak,
            at_end_micro_dollars_per_hour: self.rate,
        }
    }
}

fn dollars(rate_millis: u128) -> u64 {
    u64::try_from(rate_millis / 3_600_000).unwrap_or(u64::MAX)
}
