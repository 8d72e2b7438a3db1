//! Tests of schedules and budgets by the cases of spec 01, and of windows against a model that
//! checks every minute.

mod model;

use super::*;
use crate::nodepool::{Budget, DisruptionReason};
use DisruptionReason::{Drifted, Empty, Underutilized};

fn timestamp(text: &str) -> Timestamp {
    text.parse().unwrap()
}

fn schedule(text: &str) -> Schedule {
    text.parse().unwrap()
}

fn budget(nodes: &str) -> Budget {
    Budget { nodes: nodes.to_owned(), ..Budget::default() }
}

fn scheduled(nodes: &str, schedule: &str, duration: &str) -> Budget {
    Budget { schedule: Some(schedule.to_owned()), duration: Some(duration.into()), ..budget(nodes) }
}

fn for_reasons(budget: Budget, reasons: &[DisruptionReason]) -> Budget {
    Budget { reasons: Some(reasons.to_vec()), ..budget }
}

const REASONS: [DisruptionReason; 3] = [Drifted, Empty, Underutilized];
const NOON: &str = "2026-03-04T12:00:00Z";

#[test]
fn spec_01_44_the_smallest_budget_of_a_reason_applies() {
    let budgets = [budget("10"), budget("100"), budget("100%"), for_reasons(budget("5"), &[Drifted])];
    assert_eq!(allowed_disruptions(&budgets, &Drifted, 100, timestamp(NOON)), Ok(5));
    assert_eq!(allowed_disruptions(&budgets, &Empty, 100, timestamp(NOON)), Ok(10));
}

#[test]
fn spec_01_45_without_an_active_budget_there_is_no_limit() {
    let inactive = scheduled("0", "0 0 * * *", "1h");
    for reason in &REASONS {
        assert_eq!(
            allowed_disruptions(std::slice::from_ref(&inactive), reason, 10, timestamp(NOON)),
            Ok(2_147_483_647)
        );
        assert_eq!(allowed_disruptions(&[], reason, 10, timestamp(NOON)), Ok(2_147_483_647));
    }
}

#[test]
fn spec_01_46_an_invalid_schedule_in_any_budget_is_an_error() {
    let budgets = [budget("10"), for_reasons(scheduled("5", "@wrongly", "1h"), &[Drifted])];
    for reason in &REASONS {
        let error = allowed_disruptions(&budgets, reason, 10, timestamp(NOON)).unwrap_err();
        assert_eq!(error.to_string(), "budgets[1], invalid schedule \"@wrongly\", unrecognized descriptor: @wrongly");
    }
    // These match the pattern of admission.
    for text in ["@dailyfoo", "0 0 * * * *", "TZ=UTC 0 0 * * *", "CRON_TZ=UTC 0 0 * * *", "0 0 * * 7"] {
        assert!(allowed_disruptions(&[scheduled("5", text, "1h")], &Empty, 10, timestamp(NOON)).is_err(), "{text}");
    }
    let too_long = scheduled("5", "@daily", "9999999999h");
    let error = allowed_disruptions(&[too_long], &Empty, 10, timestamp(NOON)).unwrap_err();
    assert_eq!(error.to_string(), "budgets[0], invalid duration, time: invalid duration \"9999999999h\"");
    let without_schedule = Budget { schedule: None, ..scheduled("5", "", "1h") };
    assert!(allowed_disruptions(&[without_schedule], &Empty, 10, timestamp(NOON)).is_err());
}

#[test]
fn spec_01_47_invalid_nodes_are_an_error() {
    for nodes in ["1000a%", "", "%", "-5", "+5", "5.5", "a", "99999999999999999999", " 5", "5 %"] {
        // Also where the budget does not apply now.
        for invalid in [budget(nodes), scheduled(nodes, "0 0 * * *", "1h"), for_reasons(budget(nodes), &[])] {
            let error = allowed_disruptions(&[invalid], &Empty, 10, timestamp(NOON)).unwrap_err();
            assert_eq!(error.problem, BudgetProblem::Nodes(nodes.to_owned()));
        }
    }
}

#[test]
fn spec_01_48_percentages_round_up() {
    for (nodes, total, allowed) in [
        ("5%", 10, 1),
        ("10%", 10, 1),
        ("10%", 11, 2),
        ("0%", 10, 0),
        ("100%", 7, 7),
        ("5%", 0, 0),
        ("1%", 100, 1),
        ("1%", 101, 2),
        ("7", 3, 7),
        ("0", 3, 0),
        ("4294967296", 3, 2_147_483_647),
        ("9223372036854775807%", u32::MAX, 2_147_483_647),
    ] {
        assert_eq!(
            allowed_disruptions(&[budget(nodes)], &Empty, total, timestamp(NOON)),
            Ok(allowed),
            "{nodes} of {total}"
        );
    }
}

#[test]
fn spec_01_49_a_window_longer_than_its_period_never_closes() {
    let daily = schedule("@daily");
    for minute in 0..(3 * 24 * 60) {
        let now = Duration::from_secs(minute * 60 + 59).after(timestamp(NOON));
        assert!(daily.is_active(Duration::from_secs(48 * 3600), now));
    }
}

#[test]
fn spec_01_50_the_window_of_last_sunday_is_over() {
    let sundays = schedule("30 6 * * SUN");
    let six_hours = Duration::from_secs(6 * 3600);
    assert!(!sundays.is_active(six_hours, timestamp("2026-03-01T00:00:00Z")));
    assert!(sundays.is_active(six_hours, timestamp("2026-03-01T06:30:00Z")));
    assert!(sundays.is_active(six_hours, timestamp("2026-03-01T12:29:59Z")));
    assert!(!sundays.is_active(six_hours, timestamp("2026-03-01T12:30:00Z")));
    assert!(!sundays.is_active(six_hours, timestamp("2026-03-02T08:00:00Z")));
}

#[test]
fn spec_01_51_midnight_is_in_utc() {
    let half_an_hour = Duration::from_secs(1800);
    assert!(!schedule("@daily").is_active(half_an_hour, timestamp("2026-03-04T00:00:00+01:00")));
    assert!(schedule("@daily").is_active(half_an_hour, timestamp("2026-03-04T01:00:00+01:00")));
}

#[test]
fn spec_01_52_backward_ranges_are_an_error() {
    let error = "0 0 * * tue-mon".parse::<Schedule>().unwrap_err().to_string();
    assert_eq!(error, "beginning of range (2) beyond end of range (1): tue-mon");
}

#[test]
fn spec_01_53_a_window_is_closed_at_its_end() {
    let hour = Duration::from_secs(3600);
    let daily = schedule("0 11 * * *");
    assert!(daily.is_active(hour, timestamp("2026-03-04T11:59:59.999999999Z")));
    assert!(!daily.is_active(hour, timestamp("2026-03-04T12:00:00Z")));
    assert!(daily.is_active(hour, timestamp("2026-03-04T11:00:00Z")));
    assert!(!daily.is_active(hour, timestamp("2026-03-04T10:59:59.999999999Z")));
    assert!(!daily.is_active(Duration::ZERO, timestamp("2026-03-04T11:00:00Z")));
}

#[test]
fn spec_01_54_an_empty_list_of_reasons_limits_nothing() {
    let none = for_reasons(budget("0"), &[]);
    for reason in &REASONS {
        assert_eq!(allowed_disruptions(std::slice::from_ref(&none), reason, 10, timestamp(NOON)), Ok(UNLIMITED));
    }
}

// spec 01 §3.2
#[test]
fn a_schedule_that_never_matches_is_active() {
    let never = schedule("0 0 30 2 *");
    assert_eq!(never.next_after(timestamp(NOON)), None);
    assert!(never.is_active(Duration::from_secs(60), timestamp(NOON)));
    assert!(schedule(", * * * *").is_active(Duration::from_secs(60), timestamp(NOON)));
    // From 2097 the next 29 February is seven years away, beyond the search limit of five.
    let leap_day = schedule("0 0 29 2 *");
    assert_eq!(leap_day.next_after(timestamp("2097-03-01T00:00:00Z")), None);
    assert_eq!(leap_day.next_after(timestamp("2096-02-29T00:00:00Z")), None);
    assert_eq!(leap_day.next_after(timestamp("2099-01-01T00:00:00Z")), Some(timestamp("2104-02-29T00:00:00Z")));
    assert_eq!(leap_day.next_after(timestamp(NOON)), Some(timestamp("2028-02-29T00:00:00Z")));
}

#[test]
fn matches_follow_the_calendar() {
    for (text, after, next_match) in [
        ("* * * * *", "2026-03-04T12:00:00Z", "2026-03-04T12:01:00Z"),
        ("* * * * *", "2026-03-04T11:59:59.5Z", "2026-03-04T12:00:00Z"),
        ("* * * * *", "1969-12-31T23:59:30.5Z", "1970-01-01T00:00:00Z"),
        ("*/15 * * * *", "2026-03-04T12:46:00Z", "2026-03-04T13:00:00Z"),
        ("5/20 * * * *", "2026-03-04T12:06:00Z", "2026-03-04T12:25:00Z"),
        ("0 9-17/4 * * *", "2026-03-04T12:00:00Z", "2026-03-04T13:00:00Z"),
        ("0 0 1 jan ?", "2026-03-04T12:00:00Z", "2027-01-01T00:00:00Z"),
        ("@yearly", "2026-03-04T12:00:00Z", "2027-01-01T00:00:00Z"),
        ("@annually", "2026-03-04T12:00:00Z", "2027-01-01T00:00:00Z"),
        ("@monthly", "2026-03-04T12:00:00Z", "2026-04-01T00:00:00Z"),
        ("@weekly", "2026-03-04T12:00:00Z", "2026-03-08T00:00:00Z"),
        ("@midnight", "2026-03-04T12:00:00Z", "2026-03-05T00:00:00Z"),
        (" @hourly ", "2026-03-04T12:00:00Z", "2026-03-04T13:00:00Z"),
        ("0\t0  *  *  MON,wed", "2026-03-04T12:00:00Z", "2026-03-09T00:00:00Z"),
        // Both day fields are restricted: a match of either one suffices.
        ("0 0 13 * fri", "2026-03-04T12:00:00Z", "2026-03-06T00:00:00Z"),
        ("0 0 13 * fri", "2026-03-06T12:00:00Z", "2026-03-13T00:00:00Z"),
        // One is a star: both must match.
        ("0 0 * * fri", "2026-03-04T12:00:00Z", "2026-03-06T00:00:00Z"),
        ("0 0 13 * *", "2026-03-04T12:00:00Z", "2026-03-13T00:00:00Z"),
        ("0 0 13 * */1", "2026-03-04T12:00:00Z", "2026-03-13T00:00:00Z"),
        // A star with a step is a restriction: the 13th, or sun, tue, thu, sat.
        ("0 0 13 * */2", "2026-03-04T12:00:00Z", "2026-03-05T00:00:00Z"),
        ("0 0 31 * *", "2026-04-01T00:00:00Z", "2026-05-31T00:00:00Z"),
        ("59 23 31 12 *", "2026-12-31T23:59:00Z", "2027-12-31T23:59:00Z"),
        // The upper end of a range that starts with a star is ignored.
        ("*-5 * * * *", "2026-03-04T12:06:00Z", "2026-03-04T12:07:00Z"),
    ] {
        assert_eq!(schedule(text).next_after(timestamp(after)), Some(timestamp(next_match)), "{text} after {after}");
    }
    assert_eq!(schedule("* * * * *").next_after(Timestamp::MAX), None);
    assert!(schedule("* * * * *").next_after(Timestamp::MIN).is_some());
}

#[test]
fn invalid_schedules_are_rejected_with_the_messages_of_the_parser() {
    for (text, message) in [
        ("", "expected exactly 5 fields, found 0: []"),
        ("* * * *", "expected exactly 5 fields, found 4: [* * * *]"),
        ("TZ=UTC 0 0 * * *", "expected exactly 5 fields, found 6: [TZ=UTC 0 0 * * *]"),
        ("@every 1h", "unrecognized descriptor: @every 1h"),
        ("@Daily", "unrecognized descriptor: @Daily"),
        ("0 0 * * 7", "end of range (7) above maximum (6): 7"),
        ("60 0 * * *", "end of range (60) above maximum (59): 60"),
        ("0 24 * * *", "end of range (24) above maximum (23): 24"),
        ("0 0 0 * *", "beginning of range (0) below minimum (1): 0"),
        ("0 0 * 13 *", "end of range (13) above maximum (12): 13"),
        ("0 0 * * tues", "failed to parse int from tues: strconv.Atoi: parsing \"tues\": invalid syntax"),
        ("0 0 mon * *", "failed to parse int from mon: strconv.Atoi: parsing \"mon\": invalid syntax"),
        (
            "99999999999999999999 * * * *",
            "failed to parse int from 99999999999999999999: strconv.Atoi: parsing \"99999999999999999999\": value out of range",
        ),
        ("1-2-3 * * * *", "too many hyphens: 1-2-3"),
        ("*/2/3 * * * *", "too many slashes: */2/3"),
        ("*/0 * * * *", "step of range should be a positive number: */0"),
        ("*/-1 * * * *", "negative number (-1) not allowed: -1"),
        ("-1 * * * *", "failed to parse int from : strconv.Atoi: parsing \"\": invalid syntax"),
        ("5-1 * * * *", "beginning of range (5) beyond end of range (1): 5-1"),
        ("1,99 * * * *", "end of range (99) above maximum (59): 99"),
    ] {
        assert_eq!(text.parse::<Schedule>().unwrap_err().to_string(), message, "{text}");
    }
}
