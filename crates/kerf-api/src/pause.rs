//! Meaning of the annotation `kerf.sh/pause-disruption` on a NodePool, which stops voluntary
//! disruption. It is Kerf's own; Karpenter ignores it.
//!
//! An invalid value also pauses, and Kerf reports it: an operator sets the annotation in order to
//! stop disruption.

use jiff::Timestamp;

/// Parsed value of the annotation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Pause {
    /// Not paused: `false`.
    Off,
    /// Paused until the annotation is removed: `true`.
    Indefinite,
    /// Paused until a time, given in RFC 3339.
    Until(Timestamp),
    /// Invalid value. The pool is paused.
    Malformed(String),
}

impl Pause {
    /// Parses the value of the annotation.
    pub fn parse(value: &str) -> Self {
        match value.trim() {
            "true" => Self::Indefinite,
            "false" => Self::Off,
            text => text.parse::<Timestamp>().map_or_else(|_| Self::Malformed(value.to_owned()), Self::Until),
        }
    }

    /// Returns the end of the pause. Returns `None` if there is no pause, and [`Timestamp::MAX`] if
    /// the pause has no end.
    pub fn until(&self) -> Option<Timestamp> {
        match self {
            Self::Off => None,
            Self::Indefinite | Self::Malformed(_) => Some(Timestamp::MAX),
            Self::Until(end) => Some(*end),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_invalid_value_pauses() {
        let end: Timestamp = "2026-01-01T06:00:00Z".parse().unwrap_or_default();
        assert_eq!(Pause::parse("2026-01-01T06:00:00Z").until(), Some(end));
        assert_eq!(Pause::parse("2026-01-01T07:00:00+01:00").until(), Some(end));
        assert_eq!(Pause::parse("true").until(), Some(Timestamp::MAX));
        assert_eq!(Pause::parse("false").until(), None);
        for invalid in ["", "yes", "tomorrow", "2026-13-01T00:00:00Z", "2026-01-01"] {
            assert_eq!(Pause::parse(invalid), Pause::Malformed(invalid.to_owned()));
            assert_eq!(Pause::parse(invalid).until(), Some(Timestamp::MAX));
        }
    }
}
