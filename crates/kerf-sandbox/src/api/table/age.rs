//! Durations as kubectl prints them, with at most two units.

use jiff::Timestamp;
use serde_json::Value;

use crate::api::object;

/// Formats a duration as Kubernetes tools do.
pub(crate) fn human_duration(seconds: i64) -> String {
    const MINUTE: i64 = 60;
    const HOUR: i64 = 60 * MINUTE;
    const DAY: i64 = 24 * HOUR;
    const YEAR: i64 = 365 * DAY;
    let two = |big: i64, unit: char, small: i64, sub: char| {
        if small == 0 { format!("{big}{unit}") } else { format!("{big}{unit}{small}{sub}") }
    };
    match seconds {
        ..-1 => "<invalid>".into(),
        -1 => "0s".into(),
        s if s < 2 * MINUTE => format!("{s}s"),
        s if s < 10 * MINUTE => two(s / MINUTE, 'm', s % MINUTE, 's'),
        s if s < 3 * HOUR => format!("{}m", s / MINUTE),
        s if s < 8 * HOUR => two(s / HOUR, 'h', s / MINUTE % 60, 'm'),
        s if s < 2 * DAY => format!("{}h", s / HOUR),
        s if s < 8 * DAY => two(s / DAY, 'd', s / HOUR % 24, 'h'),
        s if s < 2 * YEAR => format!("{}d", s / DAY),
        s if s < 8 * YEAR => two(s / YEAR, 'y', s / DAY % 365, 'd'),
        s => format!("{}y", s / YEAR),
    }
}

/// Returns the time since the timestamp at `path`, or `<unknown>`.
pub(crate) fn age(object: &Value, path: &[&str], now: Timestamp) -> String {
    let at: Option<Timestamp> = object::text(object, path).parse().ok();
    at.map_or_else(|| "<unknown>".into(), |at| human_duration(now.duration_since(at).as_secs()))
}

#[cfg(test)]
mod tests {
    use super::human_duration;

    #[test]
    fn durations() {
        for (seconds, text) in [
            (-5, "<invalid>"),
            (-1, "0s"),
            (0, "0s"),
            (119, "119s"),
            (120, "2m"),
            (150, "2m30s"),
            (600, "10m"),
            (10_799, "179m"),
            (10_800, "3h"),
            (10_860, "3h1m"),
            (30_000, "8h"),
            (172_799, "47h"),
            (172_800, "2d"),
            (180_000, "2d2h"),
            (700_000, "8d"),
            (63_072_000, "2y"),
            (63_072_000 + 86_400, "2y1d"),
            (400_000_000, "12y"),
        ] {
            assert_eq!(human_duration(seconds), text, "{seconds}");
        }
    }
}
