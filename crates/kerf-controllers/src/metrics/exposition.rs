//! Writes gauges that are computed when `/metrics` is requested. Families keep the order in which
//! they are written. A family without series is omitted.

use std::fmt::Write as _;

use kerf_operator::metrics::escaped;

/// The text written so far.
#[derive(Debug, Default)]
pub(super) struct Exposition {
    pub(super) text: String,
}

/// Label names and values of one series.
pub(super) type LabelPairs<'a> = Vec<(&'a str, String)>;

impl Exposition {
    /// Writes a family of gauges. Writes nothing if it has no series.
    pub(super) fn write_family<'a>(
        &mut self,
        name: &str,
        help: &str,
        series: impl Iterator<Item = (LabelPairs<'a>, f64)>,
    ) {
        let mut is_first = true;
        for (pairs, value) in series {
            // Writing to a String cannot fail.
            if std::mem::take(&mut is_first) {
                let _ = writeln!(self.text, "# HELP {name} {help}\n# TYPE {name} gauge");
            }
            let pairs: Vec<String> =
                pairs.iter().map(|(label, value)| format!("{label}=\"{}\"", escaped(value))).collect();
            let labels = if pairs.is_empty() { String::new() } else { format!("{{{}}}", pairs.join(",")) };
            let _ = writeln!(self.text, "{name}{labels} {value}");
        }
    }
}
