//! Parts of timestamps and durations. A timestamp without a zone is in UTC. A zone is `UTC` or a
//! fixed offset, because named zones would need a time zone database.

use jiff::Zoned;
use jiff::tz::TimeZone;

use super::super::super::time::{SECOND, parse_zone};
use super::super::value::{Arguments, EvalFailure, EvalResult, Value, error, no_such_overload};

fn zoned(args: &Arguments<'_, '_>) -> Result<Zoned, EvalFailure> {
    match &args.values[..] {
        [Value::Timestamp(instant)] => Ok(instant.to_zoned(TimeZone::UTC)),
        [Value::Timestamp(instant), Value::String(zone)] => match parse_zone(zone) {
            Some(zone) => Ok(instant.to_zoned(zone)),
            None => error(format!("unknown time zone {}", &**zone)),
        },
        _ => no_such_overload(),
    }
}

fn part<'a>(args: &Arguments<'a, '_>, of: impl Fn(&Zoned) -> i64) -> EvalResult<'a> {
    Ok(Value::Int(of(&zoned(args)?)))
}

pub(in super::super) fn full_year<'a>(args: Arguments<'a, '_>) -> EvalResult<'a> {
    part(&args, |at| at.year().into())
}

pub(in super::super) fn month<'a>(args: Arguments<'a, '_>) -> EvalResult<'a> {
    part(&args, |at| i64::from(at.month()) - 1)
}

pub(in super::super) fn day_of_year<'a>(args: Arguments<'a, '_>) -> EvalResult<'a> {
    part(&args, |at| i64::from(at.day_of_year()) - 1)
}

pub(in super::super) fn day_of_month<'a>(args: Arguments<'a, '_>) -> EvalResult<'a> {
    part(&args, |at| i64::from(at.day()) - 1)
}

pub(in super::super) fn date<'a>(args: Arguments<'a, '_>) -> EvalResult<'a> {
    part(&args, |at| at.day().into())
}

pub(in super::super) fn day_of_week<'a>(args: Arguments<'a, '_>) -> EvalResult<'a> {
    part(&args, |at| at.weekday().to_sunday_zero_offset().into())
}

/// Returns a part of the time of day, or a whole duration in the given unit.
fn unit<'a>(args: &Arguments<'a, '_>, nanoseconds_each: i64, of: impl Fn(&Zoned) -> i64) -> EvalResult<'a> {
    match &args.values[..] {
        [Value::Duration(nanoseconds)] => Ok(Value::Int(nanoseconds / nanoseconds_each)),
        _ => part(args, of),
    }
}

pub(in super::super) fn hours<'a>(args: Arguments<'a, '_>) -> EvalResult<'a> {
    unit(&args, 3600 * SECOND, |at| at.hour().into())
}

pub(in super::super) fn minutes<'a>(args: Arguments<'a, '_>) -> EvalResult<'a> {
    unit(&args, 60 * SECOND, |at| at.minute().into())
}

pub(in super::super) fn seconds<'a>(args: Arguments<'a, '_>) -> EvalResult<'a> {
    unit(&args, SECOND, |at| at.second().into())
}

pub(in super::super) fn milliseconds<'a>(args: Arguments<'a, '_>) -> EvalResult<'a> {
    unit(&args, SECOND / 1000, |at| at.millisecond().into())
}
