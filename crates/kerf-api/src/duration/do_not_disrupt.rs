//! What the annotation `karpenter.sh/do-not-disrupt` means on a pod, and what on a node (spec 01 §11.1).

use jiff::Timestamp;

use super::Duration;

/// Whether a pod's annotation protects it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DoNotDisrupt {
    /// The pod must be left alone.
    Protected {
        /// When that ends; none for `true`, and for a pod whose time has not begun.
        until: Option<Timestamp>,
    },
    /// The time that was asked for is over.
    Elapsed {
        /// When it ended.
        at: Timestamp,
    },
    /// The value means nothing and protects nobody.
    Invalid {
        /// The reason, as the event on the pod tells it.
        why: String,
    },
}

impl DoNotDisrupt {
    /// Whether the pod must be left alone.
    pub fn is_protected(&self) -> bool {
        matches!(self, Self::Protected { .. })
    }
}

/// Judges the value of a pod's annotation at an instant. `started` is the pod's `status.startTime`.
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

/// Whether the annotation of a node protects it from voluntary disruption. Only `true` does: durations mean nothing there.
pub fn is_node_protected(value: Option<&str>) -> bool {
    value == Some("true")
}
