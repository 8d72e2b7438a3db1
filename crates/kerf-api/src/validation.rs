//! Checks that the controllers run after admission (spec 01 §3.4, §5, §7.3, §7.5).
//!
//! The API server's schema accepts more than Kerf can use, partly by mistakes that Kerf keeps for
//! compatibility. These checks report the rest in the condition `ValidationSucceeded`. Every check
//! returns all failures, with the messages of Karpenter and Kubernetes, because users search for
//! them. An empty list means that the object is valid.

pub mod ec2nodeclass;
pub mod kubelet;
pub mod kwoknodeclass;
pub mod nodeclaim;
pub mod nodeoverlay;
pub mod nodepool;
pub mod requirement;

use crate::duration::parse_nillable;
use crate::unparsed::DurationText;

/// Returns failures for durations that match their pattern but cannot be parsed, such as
/// `9999999999h`. Karpenter cannot decode such an object at all; Kerf decodes it and names the
/// field.
fn duration_failures<'d>(fields: impl IntoIterator<Item = (&'d str, Option<&'d DurationText>)>) -> Vec<String> {
    let failure = |(field, text): (&str, Option<&DurationText>)| {
        let error = parse_nillable(text.map(DurationText::as_str)).err()?;
        Some(format!("invalid value: {error} in {field}"))
    };
    fields.into_iter().filter_map(failure).collect()
}

/// Joins all failures to the message of a condition.
pub fn join(failures: &[String]) -> String {
    failures.join("; ")
}

/// Formats a list as Go does: `[a b]`.
fn go_list<'a>(texts: impl IntoIterator<Item = &'a str>) -> String {
    format!("[{}]", texts.into_iter().collect::<Vec<_>>().join(" "))
}
