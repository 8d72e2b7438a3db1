//! Meaning of the annotation `karpenter.sh/do-not-disrupt` on a pod and on a node (spec 01 §11.1).

use jiff::Timestamp;

use super::Duration;

/// Effect of the annotation on a pod.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DoNotDisrupt {
    /// The pod must not be disrupted.
    Protected {
        /// End of the protection. `None` if the value is `true` or the pod has not started yet.
        until: Option<Timestamp>,
    },
    /// The duration of the protection has elapsed.
    Elapsed {
        /// Time at which the protection ended.
        at: Timestamp,
    },
    /// The value is invalid and has no effect.
    Invalid {
        /// Reason, as in the text of the event on the pod.
        why: String,
    },
}

impl DoNotDisrupt {
    /// Returns true if the pod must not be disrupted.
    pub fn is_protected(&self) -> bool {
        matches!(self, Self::Protected { .. })
    }
}

/// Evaluates the value of a pod's annotation at `now`. `started` is the pod's `status.startTime`.
pub fn evaluate_do_not_disrupt(value: &str, started: Option<Timestamp>, now: Timestamp) -> DoNotDisrupt {
    if value == "true" {
        return DoNotDisrupt::Protected { until: None };
    }
    let duration = match value.parse::<Duration>() {
        Ok(duration) if duration > Duration::ZERO => duration,
        Ok(_) => return DoNotDisrupt::Invalid { why: format!("duration {value:?} must be positive") },
        Err(error) => {
            return DoNotDisrupt::Invalid { why: format!("failed to parse {value:?} as a duration: {error}") };
        }
    };
    match started.map(|started| duration.after(started)) {
        Some(end) if end <= now => DoNotDisrupt::Elapsed { at: end },
        until => DoNotDisrupt::Protected { until },
    }
}

/// Returns true if a node's annotation protects it from voluntary disruption. Only `true` does;
/// durations have no effect on nodes.
pub fn is_node_protected(value: Option<&str>) -> bool {
    value == Some("true")
}
