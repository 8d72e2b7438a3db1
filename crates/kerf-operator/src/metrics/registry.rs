//! Counters, gauges, histograms and summaries, and their text format. Existing crates lack two
//! things: real summaries, whose quantiles published dashboards read, and gauges that mirror
//! objects and disappear with them (see `state`).
//! Invariants: series are written in the order of names and labels, so that two outputs can be
//! compared. A removed series is not written until it is set again.

use std::any::Any;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use jiff::Timestamp;

use super::summary::SummaryWindow;

/// A metric family that can be written as text.
trait Expose: Any + Send + Sync {
    fn write(&self, out: &mut String, now: Timestamp);

    fn describe(&self) -> FamilyDescription;
}

/// Name, type, labels and buckets of a family, with or without series.
#[derive(Debug, Clone, PartialEq)]
pub struct FamilyDescription {
    /// Name of the metric.
    pub name: String,
    /// `counter`, `gauge`, `histogram` or `summary`.
    pub kind: &'static str,
    /// Names of the labels.
    pub labels: Vec<String>,
    /// Upper bounds of a histogram's buckets; empty for other types.
    pub bounds: Vec<f64>,
}

/// All registered metrics of a process.
#[derive(Default)]
pub struct Registry(Mutex<BTreeMap<String, Arc<dyn Expose>>>);

impl std::fmt::Debug for Registry {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Registry").finish_non_exhaustive()
    }
}

/// A family that is registered twice, with the same type and labels, is one family: both callers
/// change the same series.
impl Registry {
    /// Registers a counter.
    pub fn counter(&self, name: &str, help: &'static str, labels: &[&str]) -> Counter {
        Counter(self.family(name, help, "counter", labels, &[]))
    }

    /// Registers a gauge.
    pub fn gauge(&self, name: &str, help: &'static str, labels: &[&str]) -> Gauge {
        Gauge(self.family(name, help, "gauge", labels, &[]))
    }

    /// Registers a histogram with these upper bounds, in ascending order.
    pub fn histogram(&self, name: &str, help: &'static str, labels: &[&str], bounds: &[f64]) -> Histogram {
        Histogram(self.family(name, help, "histogram", labels, bounds))
    }

    /// Registers a summary.
    pub fn summary(&self, name: &str, help: &'static str, labels: &[&str]) -> Summary {
        Summary(self.family(name, help, "summary", labels, &[]))
    }

    /// Returns the text of all families that have series.
    pub fn text(&self, now: Timestamp) -> String {
        let families: Vec<Arc<dyn Expose>> = lock(&self.0).values().cloned().collect();
        let mut out = String::new();
        for family in families {
            family.write(&mut out, now);
        }
        out
    }

    /// Describes every family, with or without series.
    pub fn describe(&self) -> Vec<FamilyDescription> {
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
        let labels: Vec<String> = labels.iter().map(|label| (*label).to_owned()).collect();
        let mut families = lock(&self.0);
        let known: Option<Arc<dyn Any + Send + Sync>> = families.get(name).map(|known| known.clone() as _);
        if let Some(Ok(known)) = known.map(Arc::downcast::<Family<V>>)
            && known.kind == kind
            && known.labels == labels
        {
            return known;
        }
        let family = Arc::new(Family {
            name: name.to_owned(),
            help,
            kind,
            labels,
            bounds: bounds.into(),
            series: Mutex::default(),
        });
        families.insert(name.to_owned(), family.clone());
        family
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Every change is a single statement, so a panic elsewhere leaves the guarded data valid.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Separates label values in the key of a series. It sorts before every character of a value.
const LABEL_VALUE_SEPARATOR: char = '\0';

/// All series of one metric name.
#[derive(Debug)]
struct Family<V> {
    name: String,
    help: &'static str,
    kind: &'static str,
    labels: Vec<String>,
    /// Upper bounds of a histogram; empty for other types.
    bounds: Box<[f64]>,
    series: Mutex<Series<V>>,
}

/// Series by their label values.
#[derive(Debug)]
struct Series<V> {
    all: BTreeMap<Box<str>, V>,
    /// Buffer for building keys, so that a lookup of an existing series allocates nothing.
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
        for (index, value) in values.iter().enumerate() {
            if index > 0 {
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
    /// Changes a series. Creates it with `new` if it does not exist.
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

/// The value of a series.
trait MetricValue: Send {
    fn write(&self, out: &mut String, series: SeriesInfo<'_>, now: Timestamp);
}

/// Name, labels and bounds of the series being written.
struct SeriesInfo<'a> {
    name: &'a str,
    labels: &'a str,
    bounds: &'a [f64],
}

impl<V: MetricValue + 'static> Expose for Family<V> {
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

    fn describe(&self) -> FamilyDescription {
        let (name, labels, bounds) = (self.name.clone(), self.labels.clone(), self.bounds.to_vec());
        FamilyDescription { name, kind: self.kind, labels, bounds }
    }
}

/// Returns a label value with the escapes of the text format.
pub fn escaped(value: &str) -> String {
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
    /// Adds one.
    pub fn inc(&self, labels: &[&str]) {
        self.add(labels, 1.0);
    }

    /// Adds an amount. Zero creates the series without counting.
    pub fn add(&self, labels: &[&str], amount: f64) {
        self.0.change(labels, || 0.0, |value| *value += amount);
    }

    /// Returns the current count; zero if the series does not exist.
    pub fn get(&self, labels: &[&str]) -> f64 {
        lock(&self.0.series).find(labels).copied().unwrap_or_default()
    }
}

/// A number that can rise and fall.
#[derive(Clone, Debug)]
pub struct Gauge(Arc<Family<f64>>);

impl Gauge {
    /// Sets the value.
    pub fn set(&self, labels: &[&str], value: f64) {
        self.0.change(labels, || value, |known| *known = value);
    }

    /// Adds an amount, which may be negative.
    pub fn add(&self, labels: &[&str], amount: f64) {
        self.0.change(labels, || 0.0, |value| *value += amount);
    }

    /// Removes the series.
    pub fn remove(&self, labels: &[&str]) {
        lock(&self.0.series).remove(labels);
    }

    /// Returns the value. Returns `None` if the series does not exist.
    pub fn get(&self, labels: &[&str]) -> Option<f64> {
        lock(&self.0.series).find(labels).copied()
    }
}

/// Counts observations by bucket.
#[derive(Clone, Debug)]
pub struct Histogram(Arc<Family<Buckets>>);

#[derive(Debug)]
struct Buckets {
    counts: Vec<u64>,
    sum: f64,
    count: u64,
}

impl Histogram {
    /// Adds an observation.
    pub fn observe(&self, labels: &[&str], value: f64) {
        let empty = || Buckets { counts: vec![0; self.0.bounds.len()], sum: 0.0, count: 0 };
        self.0.change(labels, empty, |buckets| {
            if let Some(index) = self.0.bounds.iter().position(|bound| value <= *bound) {
                buckets.counts[index] += 1;
            }
            buckets.sum += value;
            buckets.count += 1;
        });
    }

    /// Returns the number of observations.
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

/// Quantiles of the observations of the last ten minutes.
#[derive(Clone, Debug)]
pub struct Summary(Arc<Family<SummaryValue>>);

#[derive(Debug, Default)]
struct SummaryValue {
    window: SummaryWindow,
    sum: f64,
    count: u64,
}

impl Summary {
    /// Adds an observation.
    pub fn observe(&self, labels: &[&str], value: f64, now: Timestamp) {
        self.0.change(labels, SummaryValue::default, |summary| {
            summary.window.add(value, now);
            summary.sum += value;
            summary.count += 1;
        });
    }

    /// Returns the number of observations since the start.
    pub fn count(&self, labels: &[&str]) -> u64 {
        lock(&self.0.series).find(labels).map_or(0, |summary| summary.count)
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
