//! What the controllers check after admission (spec 01 §3.4, §5, §7.3, §7.5).
//!
//! The API server's schema is looser than what Kerf can work with, partly by mistake and kept so; the rest is checked here and ends
//! in the condition `ValidationSucceeded`. Every check returns all failures that it finds, in the words of Karpenter and of
//! Kubernetes, because people search for them; none means that the object is good.

pub mod ec2nodeclass;
pub mod kubelet;
pub mod nodeoverlay;
pub mod nodepool;
pub mod requirement;

/// All failures in one line, as a condition's message holds them.
pub fn join(failures: &[String]) -> String {
    failures.join("; ")
}

/// A list as Go prints one: `[a b]`.
fn go_list<'a>(texts: impl IntoIterator<Item = &'a str>) -> String {
    format!("[{}]", texts.into_iter().collect::<Vec<_>>().join(" "))
}
