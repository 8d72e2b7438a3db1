//! Compares windows with a model that checks for each minute if the schedule matches it.

use jiff::ToSpan;
use proptest::prelude::*;

use super::*;

/// One range of a field, independent of the parser's types.
#[derive(Debug, Clone)]
enum CronRange {
    Star,
    StarStep(i8),
    One(i8),
    OneStep(i8, i8),
    Range(i8, i8),
    RangeStep(i8, i8, i8),
}

impl CronRange {
    fn text(&self) -> String {
        match self {
            Self::Star => "*".to_owned(),
            Self::StarStep(step) => format!("?/{step}"),
            Self::One(one) => one.to_string(),
            Self::OneStep(one, step) => format!("{one}/{step}"),
            Self::Range(a, b) => format!("{a}-{b}"),
            Self::RangeStep(a, b, step) => format!("{a}-{b}/{step}"),
        }
    }

    fn has(&self, value: i8, min: i8) -> bool {
        match *self {
            Self::Star => true,
            Self::StarStep(step) => (value - min) % step == 0,
            Self::One(one) => value == one,
            Self::OneStep(one, step) => value >= one && (value - one) % step == 0,
            Self::Range(a, b) => (a..=b).contains(&value),
            Self::RangeStep(a, b, step) => (a..=b).contains(&value) && (value - a) % step == 0,
        }
    }

    fn is_star(&self) -> bool {
        matches!(self, Self::Star | Self::StarStep(1))
    }
}

#[derive(Debug, Clone)]
struct ModelField {
    min: i8,
    items: Vec<CronRange>,
}

impl ModelField {
    fn text(&self) -> String {
        self.items.iter().map(CronRange::text).collect::<Vec<_>>().join(",")
    }

    fn has(&self, value: i8) -> bool {
        self.items.iter().any(|item| item.has(value, self.min))
    }

    fn is_star(&self) -> bool {
        self.items.iter().any(CronRange::is_star)
    }
}

fn any_field(min: i8, max: i8) -> impl Strategy<Value = ModelField> {
    let range = (min..=max, min..=max).prop_map(|(a, b)| (a.min(b), a.max(b)));
    let item = prop_oneof![
        3 => Just(CronRange::Star),
        1 => (1..20_i8).prop_map(CronRange::StarStep),
        3 => (min..=max).prop_map(CronRange::One),
        1 => (min..=max, 1..20_i8).prop_map(|(one, step)| CronRange::OneStep(one, step)),
        2 => range.clone().prop_map(|(a, b)| CronRange::Range(a, b)),
        1 => (range, 1..20_i8).prop_map(|((a, b), step)| CronRange::RangeStep(a, b, step)),
    ];
    prop::collection::vec(item, 1..3).prop_map(move |items| ModelField { min, items })
}

/// Generates minute, hour, day of month, month and day of week.
fn any_fields() -> impl Strategy<Value = [ModelField; 5]> {
    (any_field(0, 59), any_field(0, 23), any_field(1, 31), any_field(1, 12), any_field(0, 6))
        .prop_map(|(a, b, c, d, e)| [a, b, c, d, e])
}

fn matches_day(fields: &[ModelField; 5], date: Date) -> bool {
    let [_, _, days, months, weekdays] = fields;
    let by_month = days.has(date.day());
    let by_week = weekdays.has(date.weekday().to_sunday_zero_offset());
    let both = days.is_star() || weekdays.is_star();
    months.has(date.month()) && if both { by_month && by_week } else { by_month || by_week }
}

fn matches_minute(fields: &[ModelField; 5], minute: i64) -> bool {
    let at = TimeZone::UTC.to_datetime(Timestamp::from_second(minute * 60).unwrap());
    fields[0].has(at.minute()) && fields[1].has(at.hour()) && matches_day(fields, at.date())
}

fn is_active(fields: &[ModelField; 5], window_seconds: i64, now: i64) -> bool {
    let first = (now - window_seconds).div_euclid(60) + 1;
    let last = now.div_euclid(60);
    if (first..=last).any(|minute| matches_minute(fields, minute)) {
        return true;
    }
    // No match in the window: active nevertheless if there is none in the five years after its
    // start.
    let start = TimeZone::UTC.to_datetime(Timestamp::from_second(now - window_seconds + 1).unwrap()).date();
    let mut days = start.series(1.day());
    !days.by_ref().take_while(|day| day.year() <= start.year() + 5).skip(1).any(|day| matches_day(fields, day))
        && !(first..first + 24 * 60).any(|minute| matches_minute(fields, minute))
}

proptest! {
    #[test]
    fn windows_agree_with_a_check_of_each_minute(
        fields in any_fields(),
        window_minutes in 0..4_000_i64,
        // 2020 to 2045
        now in 1_577_836_800..2_366_841_600_i64,
    ) {
        let text = fields.iter().map(ModelField::text).collect::<Vec<_>>().join(" ");
        let schedule = schedule(&text);
        let window = Duration::from_secs(window_minutes * 60);
        let actual = schedule.is_active(window, Timestamp::from_second(now).unwrap());
        prop_assert_eq!(actual, is_active(&fields, window_minutes * 60, now), "{} for {}m at {}", text, window_minutes, now);
    }

    #[test]
    fn the_next_match_is_the_first_one_after_an_instant(fields in any_fields(), after in 1_577_836_800..2_366_841_600_i64) {
        let text = fields.iter().map(ModelField::text).collect::<Vec<_>>().join(" ");
        let next = schedule(&text).next_after(Timestamp::from_second(after).unwrap());
        let first = after.div_euclid(60) + 1;
        let model = (first..first + 4_000).find(|minute| matches_minute(&fields, *minute)).map(|minute| minute * 60);
        match (next.map(Timestamp::as_second), model) {
            (Some(actual), Some(model)) => prop_assert_eq!(actual, model),
            (actual, None) => {
                prop_assert!(actual.is_none_or(|actual| actual >= (first + 4_000) * 60));
                prop_assert!(actual.is_none_or(|actual| matches_minute(&fields, actual / 60)));
            }
            (None, Some(model)) => prop_assert!(false, "missed {}", model),
        }
    }
}
