//! The brake: what the annotation `kerf.sh/pause-disruption` on a NodePool means. It is Kerf's own; Karpenter ignores it.
//!
//! Whoever reaches for a brake wants things to stop: a value that cannot be read stops them too, and is told.

use jiff::Timestamp;

/// What the annotation says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Pause {
    /// Nothing is paused: `false`.
    Off,
    /// Nodes are left alone until somebody takes the annotation away: `true`.
    Indefinite,
    /// Nodes are left alone until an instant, written as RFC 3339.
    Until(Timestamp),
    /// The value is none of these. Nodes are left alone.
    Malformed(String),
}

impl Pause {
    /// Reads the value of the annotation.
    pub fn parse(value: &str) -> Self {
        match value.trim() {
            "true" => Self::Indefinite,
            "false" => Self::Off,
            text => text.parse::<Timestamp>().map_or_else(|_| Self::Malformed(value.to_owned()), Self::Until),
        }
    }

    /// When it ends: none if it does not hold at all, the end of time if nobody said.
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
    fn what_cannot_be_read_pauses() {
        let end: Timestamp = "2026-01-01T06:00:00Z".parse().unwrap_or_default();
        assert_eq!(Pause::parse("2026-01-01T06:00:00Z").until(), Some(end));
        assert_eq!(Pause::parse("2026-01-01T07:00:00+01:00").until(), Some(end));
        assert_eq!(Pause::parse("true").until(), Some(Timestamp::MAX));
        assert_eq!(Pause::parse("false").until(), None);
        for odd in ["", "yes", "tomorrow", "2026-13-01T00:00:00Z", "2026-01-01"] {
            assert_eq!(Pause::parse(odd), Pause::Malformed(odd.to_owned()));
            assert_eq!(Pause::parse(odd).until(), Some(Timestamp::MAX));
        }
    }
}
