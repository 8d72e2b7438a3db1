//! Parses schedules: five cron fields or a descriptor such as `@daily`.

use std::str::FromStr;

use super::{CronField, Schedule};

/// Reason why a text is not a schedule, in the wording of Karpenter's parser.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ScheduleError {
    /// Wrong number of fields. A time zone before the fields counts as a sixth field.
    #[error("expected exactly 5 fields, found {}: [{}]", .fields.len(), .fields.join(" "))]
    FieldCount {
        /// Fields of the text.
        fields: Vec<String>,
    },
    /// Unknown descriptor after `@`.
    #[error("unrecognized descriptor: {0}")]
    Descriptor(String),
    /// The text is neither a number nor a name of the field.
    #[error("failed to parse int from {text}: strconv.Atoi: parsing {text:?}: {why}")]
    Number {
        /// Part of the text that is not a number.
        text: String,
        /// Go's description of the error.
        why: &'static str,
    },
    /// Negative step.
    #[error("negative number ({number}) not allowed: {number}")]
    Negative {
        /// Value of the step.
        number: i64,
    },
    /// Range with more than one hyphen.
    #[error("too many hyphens: {0}")]
    Hyphens(String),
    /// Range with more than one step.
    #[error("too many slashes: {0}")]
    Slashes(String),
    /// Value below the minimum of the field.
    #[error("beginning of range ({start}) below minimum ({min}): {expression}")]
    BelowMinimum {
        /// First value of the range.
        start: u64,
        /// Smallest value of the field.
        min: u64,
        /// Part of the field that is wrong.
        expression: String,
    },
    /// Value above the maximum of the field.
    #[error("end of range ({end}) above maximum ({max}): {expression}")]
    AboveMaximum {
        /// Last value of the range.
        end: u64,
        /// Largest value of the field.
        max: u64,
        /// Part of the field that is wrong.
        expression: String,
    },
    /// Range whose start is greater than its end.
    #[error("beginning of range ({start}) beyond end of range ({end}): {expression}")]
    Backwards {
        /// First value of the range.
        start: u64,
        /// Last value of the range.
        end: u64,
        /// Part of the field that is wrong.
        expression: String,
    },
    /// Step of zero, which would never advance.
    #[error("step of range should be a positive number: {0}")]
    ZeroStep(String),
}

/// Valid values of a field.
struct Bounds {
    min: u64,
    max: u64,
    /// Names of values, starting with the smallest value.
    names: &'static [&'static str],
}

const MINUTES: Bounds = Bounds { min: 0, max: 59, names: &[] };
const HOURS: Bounds = Bounds { min: 0, max: 23, names: &[] };
const DAYS_OF_MONTH: Bounds = Bounds { min: 1, max: 31, names: &[] };
const MONTHS: Bounds = Bounds {
    min: 1,
    max: 12,
    names: &["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"],
};
const DAYS_OF_WEEK: Bounds = Bounds { min: 0, max: 6, names: &["sun", "mon", "tue", "wed", "thu", "fri", "sat"] };

impl FromStr for Schedule {
    type Err = ScheduleError;

    fn from_str(text: &str) -> Result<Self, ScheduleError> {
        let text = text.trim();
        let text = match text {
            "@yearly" | "@annually" => "0 0 1 1 *",
            "@monthly" => "0 0 1 * *",
            "@weekly" => "0 0 * * 0",
            "@daily" | "@midnight" => "0 0 * * *",
            "@hourly" => "0 * * * *",
            _ if text.starts_with('@') => return Err(ScheduleError::Descriptor(text.to_owned())),
            _ => text,
        };
        let fields: Vec<_> = text.split_whitespace().collect();
        let [minutes, hours, days_of_month, months, days_of_week] = fields[..] else {
            return Err(ScheduleError::FieldCount { fields: fields.into_iter().map(str::to_owned).collect() });
        };
        Ok(Self {
            minutes: parse_field(minutes, &MINUTES)?,
            hours: parse_field(hours, &HOURS)?,
            days_of_month: parse_field(days_of_month, &DAYS_OF_MONTH)?,
            months: parse_field(months, &MONTHS)?,
            days_of_week: parse_field(days_of_week, &DAYS_OF_WEEK)?,
        })
    }
}

/// Parses a comma-separated list of ranges. Empty members are ignored, so a single comma is a field
/// without values.
fn parse_field(text: &str, bounds: &Bounds) -> Result<CronField, ScheduleError> {
    let mut all = CronField { values: 0, is_star: false };
    for expression in text.split(',').filter(|expression| !expression.is_empty()) {
        let CronField { values, is_star } = parse_range(expression, bounds)?;
        all.values |= values;
        all.is_star |= is_star;
    }
    Ok(all)
}

/// Parses `*`, `?`, `a` or `a-b`, each with an optional `/step`.
fn parse_range(expression: &str, bounds: &Bounds) -> Result<CronField, ScheduleError> {
    let mut by_slash = expression.split('/');
    let values = by_slash.next().unwrap_or_default();
    let (step, is_too_long) = (by_slash.next(), by_slash.next().is_some());
    let mut by_hyphen = values.split('-');
    let low = by_hyphen.next().unwrap_or_default();
    let (high, has_more) = (by_hyphen.next(), by_hyphen.next().is_some());

    let star = matches!(low, "*" | "?");
    let (start, mut end) = if star {
        (bounds.min, bounds.max)
    } else {
        let start = parse_value(low, bounds)?;
        if has_more {
            return Err(ScheduleError::Hyphens(expression.to_owned()));
        }
        (start, high.map_or(Ok(start), |high| parse_value(high, bounds))?)
    };
    if is_too_long {
        return Err(ScheduleError::Slashes(expression.to_owned()));
    }
    let step = match step {
        Some(step) => {
            let step = parse_number(step)?;
            if high.is_none() {
                end = bounds.max;
            }
            step
        }
        None => 1,
    };
    let expression = || expression.to_owned();
    if start < bounds.min {
        return Err(ScheduleError::BelowMinimum { start, min: bounds.min, expression: expression() });
    }
    if end > bounds.max {
        return Err(ScheduleError::AboveMaximum { end, max: bounds.max, expression: expression() });
    }
    if start > end {
        return Err(ScheduleError::Backwards { start, end, expression: expression() });
    }
    let Some(stride) = usize::try_from(step).ok().filter(|stride| *stride > 0) else {
        return Err(ScheduleError::ZeroStep(expression()));
    };
    let values = (start..=end).step_by(stride).fold(0, |values, value| values | 1 << value);
    // A star with a step is a restriction like any other.
    Ok(CronField { values, is_star: star && step == 1 })
}

fn parse_value(text: &str, bounds: &Bounds) -> Result<u64, ScheduleError> {
    let named = bounds.names.iter().zip(bounds.min..).find(|(name, _)| name.eq_ignore_ascii_case(text));
    named.map_or_else(|| parse_number(text), |(_, value)| Ok(value))
}

fn parse_number(text: &str) -> Result<u64, ScheduleError> {
    use std::num::IntErrorKind::{NegOverflow, PosOverflow};
    let number = text.parse::<i64>().map_err(|error| {
        let is_too_big = matches!(error.kind(), PosOverflow | NegOverflow);
        let why = if is_too_big { "value out of range" } else { "invalid syntax" };
        ScheduleError::Number { text: text.to_owned(), why }
    })?;
    u64::try_from(number).map_err(|_| ScheduleError::Negative { number })
}
