//! Tests of quantities with Kubernetes' own table of texts, and against exact rational numbers.

use std::cmp::Ordering;

use proptest::prelude::*;

use super::*;

fn parse_quantity(text: &str) -> Quantity {
    text.parse().unwrap()
}

// spec 02 §4.1
#[test]
fn texts_have_their_kubernetes_value_and_canonical_form() {
    for (text, nanos, canonical) in [
        ("0", 0, "0"),
        ("-0", 0, "0"),
        ("0Ki", 0, "0"),
        ("0n", 0, "0"),
        ("1", 1_000_000_000, "1"),
        ("+1", 1_000_000_000, "1"),
        ("-1", -1_000_000_000, "-1"),
        ("007", 7_000_000_000, "7"),
        (".5", 500_000_000, "500m"),
        ("5.", 5_000_000_000, "5"),
        ("5.Ki", 5_120_000_000_000, "5Ki"),
        ("1.5", 1_500_000_000, "1500m"),
        ("1n", 1, "1n"),
        ("1u", 1_000, "1u"),
        ("1m", 1_000_000, "1m"),
        ("1k", 1_000_000_000_000, "1k"),
        ("1M", 1_000_000_000_000_000, "1M"),
        ("1G", 1_000_000_000_000_000_000, "1G"),
        ("1T", 1_000_000_000_000_000_000_000, "1T"),
        ("1P", 1_000_000_000_000_000_000_000_000, "1P"),
        ("1E", 1_000_000_000_000_000_000_000_000_000, "1E"),
        ("1Ki", 1_024_000_000_000, "1Ki"),
        ("1Mi", (1_i128 << 20) * 1_000_000_000, "1Mi"),
        ("1Gi", (1_i128 << 30) * 1_000_000_000, "1Gi"),
        ("1Ti", (1_i128 << 40) * 1_000_000_000, "1Ti"),
        ("1Pi", (1_i128 << 50) * 1_000_000_000, "1Pi"),
        ("1Ei", (1_i128 << 60) * 1_000_000_000, "1Ei"),
        ("1024Gi", (1_i128 << 40) * 1_000_000_000, "1Ti"),
        ("2000Gi", 2000 * (1_i128 << 30) * 1_000_000_000, "2000Gi"),
        ("1000G", 1_000_000_000_000_000_000_000, "1T"),
        ("1.5Gi", 3 * (1_i128 << 29) * 1_000_000_000, "1536Mi"),
        ("100Mi", 100 * (1_i128 << 20) * 1_000_000_000, "100Mi"),
        ("0.5Ki", 512_000_000_000, "512"),
        ("0.001Ki", 1_024_000_000, "1024m"),
        ("1.0001Ki", 1_024_102_400_000, "1024102400u"),
        ("0.0001Ki", 102_400_000, "102400u"),
        ("1e3", 1_000_000_000_000, "1e3"),
        ("1E3", 1_000_000_000_000, "1e3"),
        ("1e+3", 1_000_000_000_000, "1e3"),
        ("1500e-3", 1_500_000_000, "1500e-3"),
        ("10e1", 100_000_000_000, "100"),
        ("1e-9", 1, "1e-9"),
        ("12e6", 12_000_000_000_000_000, "12e6"),
        ("0.1n", 1, "1n"),
        ("-0.1n", -1, "-1n"),
        ("1.1n", 2, "2n"),
        ("1.0000000001", 1_000_000_001, "1000000001n"),
        ("-1.0000000001", -1_000_000_001, "-1000000001n"),
        ("1e-100", 1, "1e-9"),
        ("0e99999", 0, "0"),
        ("18446744073709551616", 18_446_744_073_709_551_616_000_000_000, "18446744073709551616"),
        ("1000E", 1_000_000_000_000_000_000_000_000_000_000, "1e21"),
        ("8Ei", i128::from(i64::MAX) * 1_000_000_000, "9223372036854775807"),
        (
            "9999999999999999999999999999999999999999999999Ki",
            i128::from(i64::MAX) * 1_000_000_000,
            "9223372036854775807",
        ),
        ("-99999999Ei", -i128::from(i64::MAX) * 1_000_000_000, "-9223372036854775807"),
        ("-3.5Mi", -3_670_016_000_000_000, "-3584Ki"),
    ] {
        let parsed = parse_quantity(text);
        assert_eq!(parsed.nanos(), nanos, "value of {text}");
        assert_eq!(parsed.to_string(), canonical, "canonical text of {text}");
        assert_eq!(parse_quantity(canonical), parsed, "canonical text of {text} read again");
    }
}

#[test]
fn amounts_beyond_the_representation_saturate() {
    assert_eq!(parse_quantity("1e30").nanos(), i128::MAX);
    assert_eq!(parse_quantity("-1e9223372036854775807").nanos(), -i128::MAX);
    assert_eq!(parse_quantity("1e-9223372036854775808").nanos(), 1);
    let max = Quantity::from_nanos(i128::MAX, QuantityFormat::DecimalSi);
    assert_eq!((max + max).nanos(), i128::MAX);
    assert_eq!((Quantity::ZERO - max - max).nanos(), i128::MIN);
}

#[test]
fn invalid_texts_are_rejected_with_text_and_rule() {
    for text in [
        "", "+", "-", ".", "+.", "Ki", "m", "e5", " 1", "1 ", "1.1.M", "1+1.0M", "aoeu", "1,5", "1x", "1KI", "0x10",
        "1e1.5", "١", "1_000", "--1",
    ] {
        let error = text.parse::<Quantity>().unwrap_err();
        assert_eq!(error, QuantityError::Malformed { text: text.to_owned() }, "{text}");
        assert!(
            error.to_string().contains(&format!("{text:?}: quantities must match the regular expression")),
            "{error}"
        );
    }
    for text in [
        "1i",
        ".5i",
        "-3.01i",
        "-3.01e-",
        "0.1mi",
        "1K",
        "1ki",
        "1e",
        "1Ee",
        "1e99999999999999999999",
        "1nu",
        "1m5",
        "1Ki3",
    ] {
        let error = text.parse::<Quantity>().unwrap_err();
        assert!(matches!(&error, QuantityError::Suffix { text: error_text, .. } if error_text == text), "{error:?}");
    }
}

#[test]
fn values_round_away_from_zero() {
    for (text, units, millis) in [
        ("1", 1, 1000),
        ("1.1", 2, 1100),
        ("-1.1", -2, -1100),
        ("1n", 1, 1),
        ("-1n", -1, -1),
        ("999u", 1, 1),
        ("0", 0, 0),
        ("1e25", i64::MAX, i64::MAX),
        ("-1e25", i64::MIN, i64::MIN),
    ] {
        assert_eq!(parse_quantity(text).value(), units, "{text}");
        assert_eq!(parse_quantity(text).milli_value(), millis, "{text}");
    }
}

// spec 02 §4.1
#[test]
fn sums_keep_the_format_of_the_first_operand_that_is_not_zero() {
    for (a, b, sum) in [
        ("1Ki", "1", "1025"),
        ("1Ki", "1k", "2024"),
        ("1Mi", "2Mi", "3Mi"),
        ("0", "1Mi", "1Mi"),
        ("0Ki", "1000000", "1M"),
        ("1", "500m", "1500m"),
        ("1k", "1Ki", "2024"),
        ("1e3", "1k", "2e3"),
    ] {
        assert_eq!((parse_quantity(a) + parse_quantity(b)).to_string(), sum, "{a} + {b}");
    }
    let mut difference = parse_quantity("1Gi");
    difference -= parse_quantity("1Mi");
    assert_eq!(difference.to_string(), "1023Mi");
    difference += parse_quantity("1Mi");
    assert_eq!(difference, parse_quantity("1Gi"));
    assert_eq!(["1", "500m", "250m"].map(parse_quantity).into_iter().sum::<Quantity>().to_string(), "1750m");
}

// spec 01 §2.1
#[test]
fn json_is_a_string_or_an_integer() {
    let decode = |json: &str| serde_json::from_str::<Quantity>(json);
    assert_eq!(decode("\"1500m\"").unwrap(), parse_quantity("1500m"));
    assert_eq!(decode("\" 2 \"").unwrap(), parse_quantity("2"));
    assert_eq!(decode("3").unwrap(), parse_quantity("3"));
    assert_eq!(decode("-3").unwrap(), parse_quantity("-3"));
    assert_eq!(decode("18446744073709551615").unwrap(), parse_quantity("18446744073709551615"));
    for invalid in ["1.5", "1e400", "true", "null", "[]", "{}", "\"x\""] {
        assert!(decode(invalid).is_err(), "{invalid}");
    }
    assert!(decode("1.5").unwrap_err().to_string().contains("floating point `1.5`, expected a quantity"));
    assert_eq!(serde_json::to_string(&parse_quantity("1024Mi")).unwrap(), "\"1Gi\"");
}

/// Parts of a quantity's text, small enough that the value is an exact rational of two `i128`.
#[derive(Debug, Clone)]
struct QuantityParts {
    negative: bool,
    whole: u32,
    fraction: Option<String>,
    suffix: &'static str,
}

impl QuantityParts {
    fn text(&self) -> String {
        let sign = if self.negative { "-" } else { "" };
        match &self.fraction {
            Some(fraction) => format!("{sign}{}.{fraction}{}", self.whole, self.suffix),
            None => format!("{sign}{}{}", self.whole, self.suffix),
        }
    }

    /// Returns numerator and denominator in units.
    fn rational(&self) -> (i128, i128) {
        let (mut numerator, mut denominator) = (i128::from(self.whole), 1_i128);
        for digit in self.fraction.iter().flat_map(|fraction| fraction.bytes()) {
            numerator = numerator * 10 + i128::from(digit - b'0');
            denominator *= 10;
        }
        let (up, down) = match self.suffix {
            "n" | "e-9" => (1, 1_000_000_000),
            "u" => (1, 1_000_000),
            "m" | "E-3" => (1, 1_000),
            "" => (1, 1),
            "k" | "e3" => (1_000, 1),
            "M" => (1_000_000, 1),
            "G" | "e9" => (1_000_000_000, 1),
            "Ki" => (1 << 10, 1),
            "Mi" => (1 << 20, 1),
            "Gi" => (1 << 30, 1),
            other => panic!("unknown suffix: {other}"),
        };
        let sign = if self.negative { -1 } else { 1 };
        (sign * numerator * up, denominator * down)
    }
}

fn any_quantity_parts() -> impl Strategy<Value = QuantityParts> {
    let suffix =
        prop::sample::select(vec!["n", "u", "m", "", "k", "M", "G", "Ki", "Mi", "Gi", "e3", "e9", "e-9", "E-3"]);
    (any::<bool>(), 0..2_000_000_u32, prop::option::of("[0-9]{0,6}"), suffix)
        .prop_map(|(negative, whole, fraction, suffix)| QuantityParts { negative, whole, fraction, suffix })
}

fn nanos_rounded_away_from_zero((numerator, denominator): (i128, i128)) -> i128 {
    let scaled = numerator * 1_000_000_000;
    scaled / denominator + (scaled % denominator).signum()
}

proptest! {
    #[test]
    fn a_text_has_the_value_of_its_exact_rational(text in any_quantity_parts()) {
        prop_assert_eq!(parse_quantity(&text.text()).nanos(), nanos_rounded_away_from_zero(text.rational()));
    }

    #[test]
    fn quantities_compare_like_exact_rationals(a in any_quantity_parts(), b in any_quantity_parts()) {
        let ((an, ad), (bn, bd)) = (a.rational(), b.rational());
        let exact = (an * bd).cmp(&(bn * ad));
        let actual = parse_quantity(&a.text()).cmp(&parse_quantity(&b.text()));
        // Rounding to nanos may make two different amounts equal, but never reverses their order.
        prop_assert!(actual == exact || actual == Ordering::Equal);
        if an * 1_000_000_000 % ad == 0 && bn * 1_000_000_000 % bd == 0 {
            prop_assert_eq!(actual, exact);
        }
    }

    #[test]
    fn sums_and_differences_are_exact(a in any_quantity_parts(), b in any_quantity_parts()) {
        let (a, b) = (parse_quantity(&a.text()), parse_quantity(&b.text()));
        prop_assert_eq!((a + b).nanos(), a.nanos() + b.nanos());
        prop_assert_eq!((a - b).nanos(), a.nanos() - b.nanos());
        prop_assert_eq!(a + b, b + a);
    }

    #[test]
    fn canonical_text_round_trips(nanos in any::<i128>(), format in prop::sample::select(vec![QuantityFormat::DecimalSi, QuantityFormat::BinarySi, QuantityFormat::DecimalExponent])) {
        // Binary texts are capped at 2^63-1 units when they are parsed.
        let nanos = if format == QuantityFormat::BinarySi { nanos % (i128::from(i64::MAX) * 1_000_000_000) } else { nanos.max(-i128::MAX) };
        let quantity = Quantity::from_nanos(nanos, format);
        let text = quantity.to_string();
        prop_assert_eq!(parse_quantity(&text), quantity);
        prop_assert_eq!(parse_quantity(&text).to_string(), text.clone());
        prop_assert!(!text.contains('.'));
        let json = serde_json::to_string(&quantity).unwrap();
        prop_assert_eq!(serde_json::from_str::<Quantity>(&json).unwrap(), quantity);
    }
}
