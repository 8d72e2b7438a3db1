//! Checks that the controllers run after admission (spec 01 §3.4, §5, §7.3, §7.5).
//!
//! The API server's schema accepts more than Kerf can use, partly by mistakes that Kerf keeps for
//! compatibility. These checks report the rest in the condition `ValidationSucceeded`. Every check
//! returns all failures, with the messages of Karpenter and Kubernetes, because users search for
//! them. An empty list means that the object is valid.

pub mod ec2nodeclass;
pub mod kubelet;
pub mod nodeoverlay;
pub mod nodepool;
pub mod requirement;

/// Joins all failures to the message of a condition.
pub fn join(failures: &[String]) -> String {
    failures.join("; ")
}

/// Formats a list as Go does: `[a b]`.
fn go_list<'a>(texts: impl IntoIterator<Item = &'a str>) -> String {
    format!("[{}]", texts.into_iter().collect::<Vec<_>>().join(" "))
}
