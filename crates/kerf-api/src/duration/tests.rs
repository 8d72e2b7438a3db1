//! Tests of durations with Go's own cases, and of the annotation `do-not-disrupt`.

use proptest::prelude::*;

use super::*;

const MINUTE: i64 = 60 * 1_000_000_000;
const HOUR: i64 = 60 * MINUTE;

fn parse_duration(text: &str) -> Duration {
    text.parse().unwrap()
}

#[test]
fn texts_have_the_same_value_as_in_go() {
    for (text, nanos) in [
        ("0", 0),
        ("-0", 0),
        ("+0", 0),
        ("0s", 0),
        ("5s", 5_000_000_000),
        ("1478s", 1_478_000_000_000),
        ("-5s", -5_000_000_000),
        ("+5s", 5_000_000_000),
        ("5.0s", 5_000_000_000),
        ("5.6s", 5_600_000_000),
        ("5.s", 5_000_000_000),
        (".5s", 500_000_000),
        ("1.004s", 1_004_000_000),
        ("100.00100s", 100_001_000_000),
        ("10ns", 10),
        ("11us", 11_000),
        ("12µs", 12_000),
        ("12μs", 12_000),
        ("13ms", 13_000_000),
        ("1h30m", HOUR + 30 * MINUTE),
        ("10.5s4m", 4 * MINUTE + 10_500_000_000),
        ("-2m3.4s", -(2 * MINUTE + 3_400_000_000)),
        ("1h2m3s4ms5us6ns", HOUR + 2 * MINUTE + 3_004_005_006),
        ("1s1h", HOUR + 1_000_000_000),
        ("1h1h", 2 * HOUR),
        ("0.3333333333333333333h", 20 * MINUTE),
        ("0.9223372036854775807h", 3_320_413_933_267),
        ("0.100000000000000000000h", 6 * MINUTE),
        ("9223372036854775807ns", i64::MAX),
        ("-9223372036854775808ns", i64::MIN),
        ("-9223372036s854ms775us808ns", i64::MIN),
        ("2562047h", 2_562_047 * HOUR),
    ] {
        assert_eq!(parse_duration(text).nanos(), nanos, "{text}");
    }
}

#[test]
fn invalid_texts_are_rejected_with_the_messages_of_go() {
    for (text, message) in [
        ("", "time: invalid duration \"\""),
        ("-", "time: invalid duration \"-\""),
        ("s", "time: invalid duration \"s\""),
        (".", "time: invalid duration \".\""),
        (".s", "time: invalid duration \".s\""),
        ("+.s", "time: invalid duration \"+.s\""),
        (" 5s", "time: invalid duration \" 5s\""),
        ("invalid-format", "time: invalid duration \"invalid-format\""),
        ("5", "time: missing unit in duration \"5\""),
        ("1s5", "time: missing unit in duration \"1s5\""),
        ("00", "time: missing unit in duration \"00\""),
        ("5d", "time: unknown unit \"d\" in duration \"5d\""),
        ("5s ", "time: unknown unit \"s \" in duration \"5s \""),
        ("1h-5m", "time: unknown unit \"h-\" in duration \"1h-5m\""),
        ("5\"", "time: unknown unit \"\\\"\" in duration \"5\\\"\""),
        ("5日", "time: unknown unit \"\\xe6\\x97\\xa5\" in duration \"5\\xe6\\x97\\xa5\""),
        ("9999999999h", "time: invalid duration \"9999999999h\""),
        ("9223372036854775808ns", "time: invalid duration \"9223372036854775808ns\""),
        ("-9223372036854775809ns", "time: invalid duration \"-9223372036854775809ns\""),
        ("99999999999999999999s", "time: invalid duration \"99999999999999999999s\""),
        ("2562047h2562047h", "time: invalid duration \"2562047h2562047h\""),
    ] {
        assert_eq!(text.parse::<Duration>().unwrap_err().to_string(), message);
    }
}

// spec 01 §2.2
#[test]
fn never_and_absent_are_the_same() {
    assert_eq!(parse_nillable(None), Ok(None));
    assert_eq!(parse_nillable(Some("Never")), Ok(None));
    assert_eq!(parse_nillable(Some("0s")), Ok(Some(Duration::ZERO)));
    assert_eq!(parse_nillable(Some("720h")), Ok(Some(Duration::from_secs(720 * 3600))));
    assert!(parse_nillable(Some("never")).is_err());
    // The pattern accepts this value, but it does not fit into 64 bits.
    assert!(parse_nillable(Some("9999999999h")).is_err());
}

// spec 01 §2.2
#[test]
fn durations_print_with_their_leading_zero_units_dropped() {
    for (text, formatted) in [
        ("1h", "1h0m0s"),
        ("90s", "1m30s"),
        ("720h", "720h0m0s"),
        ("24h0m0s", "24h0m0s"),
        ("59s", "59s"),
        ("60s", "1m0s"),
        ("0s", "0s"),
        ("-90m", "-1h30m0s"),
        ("1.5s", "1.5s"),
        ("1m0.000000001s", "1m0.000000001s"),
        ("1100us", "1.1ms"),
        ("2200ns", "2.2µs"),
        ("999ns", "999ns"),
        ("250ms", "250ms"),
        ("9223372036854775807ns", "2562047h47m16.854775807s"),
        ("-9223372036854775808ns", "-2562047h47m16.854775808s"),
    ] {
        assert_eq!(parse_duration(text).to_string(), formatted);
    }
}

#[test]
fn instants_stay_within_the_range_of_timestamps() {
    let start: Timestamp = "2026-03-04T12:00:00Z".parse().unwrap();
    assert_eq!(parse_duration("1h").after(start), "2026-03-04T13:00:00Z".parse().unwrap());
    assert_eq!(parse_duration("1h").before(start), "2026-03-04T11:00:00Z".parse().unwrap());
    assert_eq!(parse_duration("2562047h").after(Timestamp::MAX), Timestamp::MAX);
    assert_eq!(parse_duration("-2562047h").after(Timestamp::MIN), Timestamp::MIN);
    assert_eq!(parse_duration("2562047h").before(Timestamp::MIN), Timestamp::MIN);
}

fn at(minutes: i64) -> Timestamp {
    Duration::from_nanos(minutes * MINUTE).after("2026-03-04T12:00:00Z".parse().unwrap())
}

#[test]
fn spec_01_120_a_duration_protects_from_the_start_of_the_pod() {
    let started = Some(at(0));
    assert_eq!(evaluate_do_not_disrupt("15m", started, at(10)), DoNotDisrupt::Protected { until: Some(at(15)) });
    assert_eq!(evaluate_do_not_disrupt("5m", started, at(10)), DoNotDisrupt::Elapsed { at: at(5) });
    assert_eq!(evaluate_do_not_disrupt("10m", started, at(10)), DoNotDisrupt::Elapsed { at: at(10) });
    assert_eq!(evaluate_do_not_disrupt("5m", None, at(10)), DoNotDisrupt::Protected { until: None });
    assert_eq!(evaluate_do_not_disrupt("true", started, at(10)), DoNotDisrupt::Protected { until: None });
    assert!(evaluate_do_not_disrupt("0.5h", started, at(29)).is_protected());
    assert!(!evaluate_do_not_disrupt("0.5h", started, at(30)).is_protected());
    assert!(evaluate_do_not_disrupt("2562047h", started, at(10)).is_protected());
}

#[test]
fn spec_01_121_other_values_do_not_protect_and_give_a_reason() {
    for (value, why) in [
        ("0s", "duration \"0s\" must be positive"),
        ("-5m", "duration \"-5m\" must be positive"),
        ("false", "failed to parse \"false\" as a duration: time: invalid duration \"false\""),
        ("True", "failed to parse \"True\" as a duration: time: invalid duration \"True\""),
        (
            "invalid-format",
            "failed to parse \"invalid-format\" as a duration: time: invalid duration \"invalid-format\"",
        ),
        ("5d", "failed to parse \"5d\" as a duration: time: unknown unit \"d\" in duration \"5d\""),
        ("5", "failed to parse \"5\" as a duration: time: missing unit in duration \"5\""),
        ("", "failed to parse \"\" as a duration: time: invalid duration \"\""),
    ] {
        for started in [None, Some(at(0))] {
            let evaluated = evaluate_do_not_disrupt(value, started, at(10));
            assert_eq!(evaluated, DoNotDisrupt::Invalid { why: why.to_owned() });
            assert!(!evaluated.is_protected());
        }
    }
}

#[test]
fn spec_01_122_on_a_node_only_true_counts() {
    assert!(is_node_protected(Some("true")));
    for value in [None, Some("false"), Some("4h"), Some("True"), Some("")] {
        assert!(!is_node_protected(value), "{value:?}");
    }
}

proptest! {
    #[test]
    fn formatted_durations_parse_to_the_same_value(nanos in any::<i64>()) {
        let duration = Duration::from_nanos(nanos);
        prop_assert_eq!(parse_duration(&duration.to_string()), duration);
    }

    #[test]
    fn a_text_is_the_sum_of_its_pairs(pairs in prop::collection::vec((0..100_000_u32, prop::sample::select(vec!["s", "m", "h"])), 1..6)) {
        let text = pairs.iter().map(|(count, unit)| format!("{count}{unit}")).collect::<Vec<_>>().concat();
        let seconds = pairs.iter().map(|(count, unit)| i64::from(*count) * match *unit { "s" => 1, "m" => 60, _ => 3600 }).sum();
        prop_assert_eq!(parse_duration(&text), Duration::from_secs(seconds));
    }
}
