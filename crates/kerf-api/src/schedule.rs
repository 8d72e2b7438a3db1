//! Cron schedules of disruption budgets: each match opens a window in which the budget applies
//! (spec 01 §3.2).
//!
//! The syntax is that of Karpenter's parser, quirks included: a different reading would allow
//! disruption at the wrong time. All times are UTC. The caller passes the current time.

mod budgets;
mod parse;
#[cfg(test)]
mod tests;

use jiff::civil::{Date, DateTime};
use jiff::tz::{Offset, TimeZone};
use jiff::{SignedDuration, Timestamp};

use crate::duration::Duration;

pub use budgets::{BudgetError, BudgetProblem, UNLIMITED, allowed_disruptions, budget_errors};
pub use parse::ScheduleError;

/// Number of years after the starting year in which a match is searched.
const SEARCH_YEARS_MAX: i16 = 5;

/// Cron schedule with a resolution of one minute, in UTC.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Schedule {
    minutes: CronField,
    hours: CronField,
    days_of_month: CronField,
    months: CronField,
    days_of_week: CronField,
}

/// Values of one field of a schedule.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct CronField {
    /// One bit for each value.
    values: u64,
    /// True if the field contains a star without a step, which changes how the two day fields are
    /// combined.
    is_star: bool,
}

impl CronField {
    fn has(self, value: i8) -> bool {
        // Values are between 0 and 59.
        self.values >> (value & 63) & 1 == 1
    }

    /// Returns the smallest value that is at least `least`, or `None` if there is none.
    fn first_from(self, least: i8) -> Option<i8> {
        let rest = self.values & (u64::MAX.checked_shl(least.unsigned_abs().into()).unwrap_or(0));
        (rest != 0).then_some(rest.trailing_zeros() as i8)
    }
}

impl Schedule {
    /// Returns true if a window of this length is open now. A schedule that never matches counts as
    /// open, which protects nodes.
    pub fn is_active(&self, window: Duration, now: Timestamp) -> bool {
        self.next_after(window.before(now)).is_none_or(|next_match| next_match <= now)
    }

    /// Returns the first match after an instant. Returns `None` if there is none until the end of
    /// the fifth year after it.
    pub fn next_after(&self, instant: Timestamp) -> Option<Timestamp> {
        let next_second =
            Timestamp::from_second(instant.as_second() + i64::from(instant.subsec_nanosecond() >= 0)).ok()?;
        let last_year = TimeZone::UTC.to_datetime(next_second).year().saturating_add(SEARCH_YEARS_MAX);
        let mut from = TimeZone::UTC.to_datetime(round_up_to_minute(next_second)?);
        while from.year() <= last_year {
            let date = from.date();
            if !self.months.has(date.month()) {
                from = next_month(date)?.at(0, 0, 0, 0);
            } else if let Some(next_match) = self.first_match_of_day(from) {
                return Offset::UTC.to_timestamp(next_match).ok();
            } else {
                from = date.tomorrow().ok()?.at(0, 0, 0, 0);
            }
        }
        None
    }

    /// Returns the first match on the day of `from`, at `from` or later.
    fn first_match_of_day(&self, from: DateTime) -> Option<DateTime> {
        if !self.matches_day(from.date()) {
            return None;
        }
        let in_this_hour = self.hours.has(from.hour()).then(|| self.minutes.first_from(from.minute())).flatten();
        let (hour, minute) = match in_this_hour {
            Some(minute) => (from.hour(), minute),
            None => (self.hours.first_from(from.hour() + 1)?, self.minutes.first_from(0)?),
        };
        Some(from.date().at(hour, minute, 0, 0))
    }

    /// Returns true if the date matches the day fields. If both are restricted, a match of either
    /// one suffices.
    fn matches_day(&self, date: Date) -> bool {
        let by_month = self.days_of_month.has(date.day());
        let by_week = self.days_of_week.has(date.weekday().to_sunday_zero_offset());
        if self.days_of_month.is_star || self.days_of_week.is_star { by_month && by_week } else { by_month || by_week }
    }
}

/// Returns the first full minute at or after `second`.
fn round_up_to_minute(second: Timestamp) -> Option<Timestamp> {
    let rest = second.as_second().rem_euclid(60);
    second.checked_add(SignedDuration::from_secs(if rest == 0 { 0 } else { 60 - rest })).ok()
}

fn next_month(date: Date) -> Option<Date> {
    date.last_of_month().tomorrow().ok()
}
