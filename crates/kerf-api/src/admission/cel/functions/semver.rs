//! Semantic versions: strict, or normalised (`v1.2` is `1.2.0`) if the caller requests it.
//! Comparisons ignore build metadata.

use std::cmp::Ordering;
use std::rc::Rc;

use super::super::value::{Arguments, EvalFailure, EvalResult, Value, error, no_such_overload};

#[derive(Debug)]
pub(in super::super) struct SemanticVersion {
    numbers: [u64; 3],
    prerelease: Vec<Identifier>,
}

#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Identifier {
    // Derived order: numbers sort before words.
    Number(u64),
    Word(String),
}

impl SemanticVersion {
    fn parse(text: &str) -> Result<Self, String> {
        if text.is_empty() {
            return Err("Version string empty".to_owned());
        }
        let mut parts = text.splitn(3, '.');
        let (Some(major), Some(minor), Some(rest)) = (parts.next(), parts.next(), parts.next()) else {
            return Err("No Major.Minor.Patch elements found".to_owned());
        };
        let (rest, build) = rest.split_once('+').map_or((rest, None), |(rest, build)| (rest, Some(build)));
        let (patch, prerelease) = rest.split_once('-').map_or((rest, None), |(patch, pre)| (patch, Some(pre)));
        let numbers = [number(major, "major")?, number(minor, "minor")?, number(patch, "patch")?];
        let prerelease =
            prerelease.into_iter().flat_map(|text| text.split('.')).map(identifier).collect::<Result<Vec<_>, _>>()?;
        for part in build.into_iter().flat_map(|text| text.split('.')) {
            if part.is_empty() {
                return Err("Build meta data is empty".to_owned());
            }
            if !is_word(part) {
                return Err(format!("Invalid character(s) found in build meta data {part:?}"));
            }
        }
        Ok(Self { numbers, prerelease })
    }

    /// Parses a version leniently: a leading `v` and leading zeros are removed, and missing numbers
    /// are 0.
    fn parse_normalized(text: &str) -> Result<Self, String> {
        let text = text.strip_prefix('v').unwrap_or(text);
        let mut parts: Vec<String> = text.splitn(3, '.').map(without_leading_zeros).collect();
        if parts.len() < 3 && parts.last().is_some_and(|last| last.contains(['+', '-'])) {
            return Err("short version cannot contain PreRelease/Build meta data".to_owned());
        }
        parts.resize(3, "0".to_owned());
        Self::parse(&parts.join("."))
    }

    pub(in super::super) fn cmp(&self, other: &Self) -> Ordering {
        self.numbers.cmp(&other.numbers).then_with(|| match (self.prerelease.is_empty(), other.prerelease.is_empty()) {
            (true, true) => Ordering::Equal,
            (true, false) => Ordering::Greater,
            (false, true) => Ordering::Less,
            (false, false) => self.prerelease.cmp(&other.prerelease),
        })
    }
}

fn without_leading_zeros(part: &str) -> String {
    if part.len() < 2 {
        return part.to_owned();
    }
    let trimmed = part.trim_start_matches('0');
    if trimmed.starts_with(|c: char| c.is_ascii_digit()) { trimmed.to_owned() } else { format!("0{trimmed}") }
}

fn is_word(text: &str) -> bool {
    text.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-')
}

fn number(text: &str, what: &str) -> Result<u64, String> {
    if text.is_empty() || !text.bytes().all(|b| b.is_ascii_digit()) {
        let what = what[..1].to_uppercase() + &what[1..];
        return Err(format!("Invalid character(s) found in {} number {text:?}", what.to_lowercase()));
    }
    if text.len() > 1 && text.starts_with('0') {
        let what = what[..1].to_uppercase() + &what[1..];
        return Err(format!("{what} number must not contain leading zeroes {text:?}"));
    }
    text.parse().map_err(|_| format!("strconv.ParseUint: parsing {text:?}: value out of range"))
}

fn identifier(text: &str) -> Result<Identifier, String> {
    if text.is_empty() {
        return Err("Prerelease is empty".to_owned());
    }
    if text.bytes().all(|b| b.is_ascii_digit()) {
        if text.len() > 1 && text.starts_with('0') {
            return Err(format!("Numeric PreRelease version must not contain leading zeroes {text:?}"));
        }
        return text
            .parse()
            .map(Identifier::Number)
            .map_err(|_| format!("strconv.ParseUint: parsing {text:?}: value out of range"));
    }
    if is_word(text) {
        Ok(Identifier::Word(text.to_owned()))
    } else {
        Err(format!("Invalid character(s) found in prerelease {text:?}"))
    }
}

fn parse_arguments(args: &Arguments<'_, '_>) -> Result<Result<SemanticVersion, String>, EvalFailure> {
    match &args.values[..] {
        [Value::String(text)] | [Value::String(text), Value::Bool(false)] => Ok(SemanticVersion::parse(text)),
        [Value::String(text), Value::Bool(true)] => Ok(SemanticVersion::parse_normalized(text)),
        _ => no_such_overload(),
    }
}

pub(in super::super) fn parse<'a>(args: Arguments<'a, '_>) -> EvalResult<'a> {
    match parse_arguments(&args)? {
        Ok(version) => Ok(Value::Semver(Rc::new(version))),
        Err(text) => error(text),
    }
}

pub(in super::super) fn is_semver<'a>(args: Arguments<'a, '_>) -> EvalResult<'a> {
    Ok(Value::Bool(parse_arguments(&args)?.is_ok()))
}

fn part<'a>(args: &Arguments<'a, '_>, at: usize) -> EvalResult<'a> {
    match &args.values[..] {
        [Value::Semver(version)] => Ok(Value::Int(i64::try_from(version.numbers[at]).unwrap_or(i64::MAX))),
        _ => no_such_overload(),
    }
}

pub(in super::super) fn major<'a>(args: Arguments<'a, '_>) -> EvalResult<'a> {
    part(&args, 0)
}

pub(in super::super) fn minor<'a>(args: Arguments<'a, '_>) -> EvalResult<'a> {
    part(&args, 1)
}

pub(in super::super) fn patch<'a>(args: Arguments<'a, '_>) -> EvalResult<'a> {
    part(&args, 2)
}
