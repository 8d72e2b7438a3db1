//! The few kinds of metrics that there are, and their text form. It is ours because of two things that no crate for it does: real
//! summaries (published dashboards read their quantiles), and gauges that mirror objects and must vanish with them (`state`).
//! Invariants: series are written in the order of their names and labels, so that two texts can be compared; a series that was
//! removed is not written again until somebody sets it.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use jiff::Timestamp;

use super::summary::SummaryWindow;

/// Something that can be written as text.
trait Expose: Send + Sync {
    fn write(&self, out: &mut String, now: Timestamp);

    #[cfg(test)]
    fn describe(&self) -> FamilyDescription;
}

/// What a family is, whether it has series or not.
#[cfg(test)]
#[derive(Debug, Clone, PartialEq)]
pub(super) struct FamilyDescription {
    pub(super) name: String,
    pub(super) kind: &'static str,
    pub(super) labels: Vec<String>,
    pub(super) bounds: Vec<f64>,
}

/// All metrics of a process.
#[derive(Default)]
pub struct Registry(Mutex<BTreeMap<String, Arc<dyn Expose>>>);

impl std::fmt::Debug for Registry {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Registry").finish_non_exhaustive()
    }
}

impl Registry {
    /// A counter.
    pub fn counter(&self, name: &str, help: &'static str, labels: &[&str]) -> Counter {
        Counter(self.family(name, help, "counter", labels, &[]))
    }

    /// A gauge.
    pub fn gauge(&self, name: &str, help: &'static str, labels: &[&str]) -> Gauge {
        Gauge(self.family(name, help, "gauge", labels, &[]))
    }

    /// A histogram with these upper bounds.
    pub fn histogram(&self, name: &str, help: &'static str, labels: &[&str], bounds: &[f64]) -> Histogram {
        Histogram(self.family(name, help, "histogram", labels, bounds))
    }

    /// A summary.
    pub fn summary(&self, name: &str, help: &'static str, labels: &[&str]) -> Summary {
        Summary(self.family(name, help, "summary", labels, &[]))
    }

    /// The text of all metrics that have a series.
    pub fn text(&self, now: Timestamp) -> String {
        let families: Vec<Arc<dyn Expose>> = lock(&self.0).values().cloned().collect();
        let mut out = String::new();
        for family in families {
            family.write(&mut out, now);
        }
        out
    }

    /// Every family that could have series.
    #[cfg(test)]
    pub(super) fn describe(&self) -> Vec<FamilyDescription> {
        lock(&self.0).values().map(|family| family.describe()).collect()
    }

    fn family<V: MetricValue + 'static>(
        &self,
        name: &str,
        help: &'static str,
        kind: &'static str,
        labels: &[&str],
        bounds: &[f64],
    ) -> Arc<Family<V>> {
        let labels = labels.iter().map(|label| (*label).to_owned()).collect();
        let family = Arc::new(Family {
            name: name.to_owned(),
            help,
            kind,
            labels,
            bounds: bounds.into(),
            series: Mutex::default(),
        });
        lock(&self.0).insert(name.to_owned(), family.clone());
        family
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Every change is one statement, so a panic elsewhere does not spoil what the lock guards.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What stands between the values of labels in the key of a series. It sorts before all that a value has.
const LABEL_VALUE_SEPARATOR: char = '\0';

/// The series of one name.
#[derive(Debug)]
struct Family<V> {
    name: String,
    help: &'static str,
    kind: &'static str,
    labels: Vec<String>,
    /// Upper bounds, of a histogram.
    bounds: Box<[f64]>,
    series: Mutex<Series<V>>,
}

/// Series by the values of their labels.
#[derive(Debug)]
struct Series<V> {
    all: BTreeMap<Box<str>, V>,
    /// Where keys are put together to look for them: most are there already, and nothing is allocated for those.
    key: String,
}

impl<V> Default for Series<V> {
    fn default() -> Self {
        Self { all: BTreeMap::new(), key: String::new() }
    }
}

impl<V> Series<V> {
    fn build_key(&mut self, values: &[&str]) {
        self.key.clear();
        for (place, value) in values.iter().enumerate() {
            if place > 0 {
                self.key.push(LABEL_VALUE_SEPARATOR);
            }
            self.key.push_str(value);
        }
    }

    fn find(&mut self, values: &[&str]) -> Option<&V> {
        self.build_key(values);
        self.all.get(self.key.as_str())
    }

    fn remove(&mut self, values: &[&str]) {
        self.build_key(values);
        self.all.remove(self.key.as_str());
    }
}

impl<V> Family<V> {
    /// Changes a series, which begins as `new` says.
    fn change(&self, values: &[&str], new: impl FnOnce() -> V, change: impl FnOnce(&mut V)) {
        debug_assert_eq!(values.len(), self.labels.len(), "a value for each label of {}", self.name);
        let mut series = lock(&self.series);
        series.build_key(values);
        let Series { all, key } = &mut *series;
        if let Some(value) = all.get_mut(key.as_str()) {
            change(value);
        } else {
            change(all.entry(key.as_str().into()).or_insert_with(new));
        }
    }
}

/// What a series holds.
trait MetricValue: Send {
    fn write(&self, out: &mut String, of: SeriesInfo<'_>, now: Timestamp);
}

/// The series that is written.
struct SeriesInfo<'a> {
    name: &'a str,
    labels: &'a str,
    bounds: &'a [f64],
}

impl<V: MetricValue> Expose for Family<V> {
    fn write(&self, out: &mut String, now: Timestamp) {
        let series = lock(&self.series);
        if series.all.is_empty() {
            return;
        }
        // Writing to a String cannot fail.
        let _ = writeln!(out, "# HELP {} {}\n# TYPE {} {}", self.name, self.help, self.name, self.kind);
        for (values, value) in &series.all {
            let pairs: Vec<String> = self
                .labels
                .iter()
                .zip(values.split(LABEL_VALUE_SEPARATOR))
                .map(|(label, value)| format!("{label}=\"{}\"", escaped(value)))
                .collect();
            value.write(out, SeriesInfo { name: &self.name, labels: &pairs.join(","), bounds: &self.bounds }, now);
        }
    }

    #[cfg(test)]
    fn describe(&self) -> FamilyDescription {
        let (name, labels, bounds) = (self.name.clone(), self.labels.clone(), self.bounds.to_vec());
        FamilyDescription { name, kind: self.kind, labels, bounds }
    }
}

pub(super) fn escaped(value: &str) -> String {
    value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

fn braced(labels: &str) -> String {
    if labels.is_empty() { String::new() } else { format!("{{{labels}}}") }
}

fn with_label(labels: &str, name: &str, value: f64) -> String {
    let comma = if labels.is_empty() { "" } else { "," };
    if value.is_infinite() {
        format!("{labels}{comma}{name}=\"+Inf\"")
    } else {
        format!("{labels}{comma}{name}=\"{value}\"")
    }
}

impl MetricValue for f64 {
    fn write(&self, out: &mut String, SeriesInfo { name, labels, .. }: SeriesInfo<'_>, _: Timestamp) {
        let _ = writeln!(out, "{name}{} {self}", braced(labels));
    }
}

/// A number that only grows.
#[derive(Clone, Debug)]
pub struct Counter(Arc<Family<f64>>);

impl Counter {
    /// Counts one.
    pub fn inc(&self, labels: &[&str]) {
        self.add(labels, 1.0);
    }

    /// Counts some; nothing makes the series visible at zero.
    pub fn add(&self, labels: &[&str], amount: f64) {
        self.0.change(labels, || 0.0, |value| *value += amount);
    }

    /// The count now.
    pub fn get(&self, labels: &[&str]) -> f64 {
        lock(&self.0.series).find(labels).copied().unwrap_or_default()
    }
}

/// A number that is what it is.
#[derive(Clone, Debug)]
pub struct Gauge(Arc<Family<f64>>);

impl Gauge {
    /// It is this now.
    pub fn set(&self, labels: &[&str], value: f64) {
        self.0.change(labels, || value, |known| *known = value);
    }

    /// It is so much more now.
    pub fn add(&self, labels: &[&str], amount: f64) {
        self.0.change(labels, || 0.0, |value| *value += amount);
    }

    /// It is no more.
    pub fn remove(&self, labels: &[&str]) {
        lock(&self.0.series).remove(labels);
    }

    /// Whether the series is there, and what it says.
    pub fn get(&self, labels: &[&str]) -> Option<f64> {
        lock(&self.0.series).find(labels).copied()
    }
}

/// Observations by size.
#[derive(Clone, Debug)]
pub struct Histogram(Arc<Family<Buckets>>);

#[derive(Debug)]
struct Buckets {
    counts: Vec<u64>,
    sum: f64,
    count: u64,
}

impl Histogram {
    /// Observes something.
    pub fn observe(&self, labels: &[&str], value: f64) {
        let none = || Buckets { counts: vec![0; self.0.bounds.len()], sum: 0.0, count: 0 };
        self.0.change(labels, none, |buckets| {
            if let Some(place) = self.0.bounds.iter().position(|bound| value <= *bound) {
                buckets.counts[place] += 1;
            }
            buckets.sum += value;
            buckets.count += 1;
        });
    }

    /// How many were observed.
    pub fn count(&self, labels: &[&str]) -> u64 {
        lock(&self.0.series).find(labels).map_or(0, |buckets| buckets.count)
    }
}

impl MetricValue for Buckets {
    fn write(&self, out: &mut String, SeriesInfo { name, labels, bounds }: SeriesInfo<'_>, _: Timestamp) {
        let mut below = 0;
        for (bound, count) in bounds.iter().zip(&self.counts) {
            below += count;
            let _ = writeln!(out, "{name}_bucket{} {below}", braced(&with_label(labels, "le", *bound)));
        }
        let _ = writeln!(out, "{name}_bucket{} {}", braced(&with_label(labels, "le", f64::INFINITY)), self.count);
        let _ =
            writeln!(out, "{name}_sum{} {}\n{name}_count{} {}", braced(labels), self.sum, braced(labels), self.count);
    }
}

/// Observations by quantile, of the last ten minutes.
#[derive(Clone, Debug)]
pub struct Summary(Arc<Family<SummaryValue>>);

#[derive(Debug, Default)]
struct SummaryValue {
    window: SummaryWindow,
    sum: f64,
    count: u64,
}

impl Summary {
    /// Observes something.
    pub fn observe(&self, labels: &[&str], value: f64, now: Timestamp) {
        self.0.change(labels, SummaryValue::default, |observed| {
            observed.window.add(value, now);
            observed.sum += value;
            observed.count += 1;
        });
    }

    /// How many were observed.
    pub fn count(&self, labels: &[&str]) -> u64 {
        lock(&self.0.series).find(labels).map_or(0, |observed| observed.count)
    }
}

impl MetricValue for SummaryValue {
    fn write(&self, out: &mut String, SeriesInfo { name, labels, .. }: SeriesInfo<'_>, now: Timestamp) {
        for (quantile, value) in self.window.quantiles(now) {
            let value = value.map_or_else(|| "NaN".to_owned(), |value| value.to_string());
            let _ = writeln!(out, "{name}{} {value}", braced(&with_label(labels, "quantile", quantile)));
        }
        let _ =
            writeln!(out, "{name}_sum{} {}\n{name}_count{} {}", braced(labels), self.sum, braced(labels), self.count);
    }
}
