//! The `tracing` layer that turns spans and events into log lines.

use std::collections::BTreeMap;
use std::fmt::{self, Write as _};
use std::io;
use std::sync::{Mutex, PoisonError};

use kerf_runtime::Clock;
use serde_json::{Map, Value};
use tracing::field::{Field, Visit};
use tracing::{Event, Metadata, Subscriber, span};
use tracing_subscriber::layer::{Context, Layer};
use tracing_subscriber::registry::{LookupSpan, Scope};

use super::{COMMIT, EXTRA_FIELDS, JSON_MARK};

/// This many lines per second with equal level and message are logged; of the rest, one in this
/// many.
const SAMPLING_THRESHOLD: u64 = 100;

/// The least important level that is logged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// Debug, info and error lines, with the source location.
    Debug,
    /// Info and error lines.
    Info,
    /// Error lines only.
    Error,
}

impl Level {
    fn of(level: tracing::Level) -> Self {
        match level {
            tracing::Level::ERROR => Self::Error,
            tracing::Level::WARN | tracing::Level::INFO => Self::Info,
            tracing::Level::DEBUG | tracing::Level::TRACE => Self::Debug,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Debug => "DEBUG",
            Self::Info => "INFO",
            Self::Error => "ERROR",
        }
    }
}

/// The format of log lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LineFormat {
    /// One JSON object per line.
    Json,
    /// Time, level, message and `key=value` pairs, for a terminal.
    Console,
}

/// Settings of a [`LogLayer`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogSettings {
    /// The least important level that is logged.
    pub level: Level,
    /// The format of the lines.
    pub format: LineFormat,
}

/// Formats events and writes them to one or several outputs.
pub struct LogLayer {
    settings: LogSettings,
    /// The least important level that some layer of the subscriber logs.
    enabled_level: Level,
    clock: Clock,
    outputs: Mutex<Vec<Box<dyn io::Write + Send>>>,
    /// The current second, and the lines logged in it by level and message.
    counts_this_second: Mutex<(i64, MessageCounts)>,
}

/// Number of lines by level and message.
type MessageCounts = BTreeMap<(Level, String), u64>;

impl LogLayer {
    /// Creates a layer that writes every line to all `outputs`.
    pub fn new(settings: LogSettings, clock: Clock, outputs: Vec<Box<dyn io::Write + Send>>) -> Self {
        let outputs = Mutex::new(outputs);
        Self { settings, enabled_level: settings.level, clock, outputs, counts_this_second: Mutex::default() }
    }

    /// Returns a layer that leaves events of `level` to a second layer of the same subscriber. An
    /// event that one layer does not enable reaches no layer.
    #[must_use]
    pub fn beside(self, level: Level) -> Self {
        Self { enabled_level: self.enabled_level.min(level), ..self }
    }

    fn is_sampled_out(&self, level: Level, message: &str) -> bool {
        let second = self.clock.now().as_second();
        let mut counts = self.counts_this_second.lock().unwrap_or_else(PoisonError::into_inner);
        if counts.0 != second {
            *counts = (second, BTreeMap::new());
        }
        let count = counts.1.entry((level, message.to_owned())).or_insert(0);
        *count += 1;
        *count > SAMPLING_THRESHOLD && !(*count - SAMPLING_THRESHOLD).is_multiple_of(SAMPLING_THRESHOLD)
    }

    fn line(&self, level: Level, message: &str, metadata: &Metadata<'_>, fields: &[(String, String)]) -> String {
        let time = self.clock.now().strftime("%Y-%m-%dT%H:%M:%S%.3fZ");
        let mut line = String::with_capacity(256);
        // Writing to a String cannot fail.
        match self.settings.format {
            LineFormat::Json => {
                let _ = write!(line, "{{\"level\":\"{}\",\"time\":\"{time}\",\"logger\":\"controller\"", level.name());
                if self.settings.level == Level::Debug {
                    let caller =
                        format!("{}:{}", metadata.file().unwrap_or_default(), metadata.line().unwrap_or_default());
                    let _ = write!(line, ",\"caller\":{}", quoted(&caller));
                }
                let _ = write!(line, ",\"message\":{},\"commit\":\"{COMMIT}\"", quoted(message));
                for (key, value) in fields {
                    let _ = write!(line, ",{}:{value}", quoted(key));
                }
                line.push('}');
            }
            LineFormat::Console => {
                let _ = write!(line, "{time} {:5} {message}", level.name());
                for (key, value) in fields.iter().filter(|(_, value)| value != "\"\"") {
                    let _ = write!(line, " {key}={value}");
                }
            }
        }
        line.push('\n');
        line
    }
}

impl fmt::Debug for LogLayer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LogLayer").field("settings", &self.settings).finish_non_exhaustive()
    }
}

impl<S: Subscriber + for<'a> LookupSpan<'a>> Layer<S> for LogLayer {
    fn enabled(&self, metadata: &Metadata<'_>, _: Context<'_, S>) -> bool {
        metadata.is_span() && is_ours(metadata) || is_logged(metadata, self.enabled_level)
    }

    fn on_new_span(&self, attributes: &span::Attributes<'_>, id: &span::Id, context: Context<'_, S>) {
        let mut fields = Fields::default();
        attributes.record(&mut fields);
        if let Some(span) = context.span(id) {
            // Two layers on one registry share the fields of a span.
            span.extensions_mut().replace(fields);
        }
    }

    fn on_record(&self, id: &span::Id, values: &span::Record<'_>, context: Context<'_, S>) {
        if let Some(span) = context.span(id)
            && let Some(fields) = span.extensions_mut().get_mut::<Fields>()
        {
            values.record(fields);
        }
    }

    fn on_event(&self, event: &Event<'_>, context: Context<'_, S>) {
        if !is_logged(event.metadata(), self.settings.level) {
            return;
        }
        let mut own = Fields::default();
        event.record(&mut own);
        let level = Level::of(*event.metadata().level());
        if self.is_sampled_out(level, &own.message) {
            return;
        }
        let mut fields: Vec<(String, String)> = Vec::new();
        for span in context.event_scope(event).into_iter().flat_map(Scope::from_root) {
            if let Some(of_span) = span.extensions().get::<Fields>() {
                fields.extend(of_span.entries());
            }
        }
        // Fields that the span already has are not repeated. The error comes last.
        let new_fields = own.entries().into_iter().filter(|(key, _)| fields.iter().all(|(known, _)| known != key));
        let (error, rest): (Vec<_>, Vec<_>) = new_fields.partition(|(key, _)| key == "error");
        fields.extend(rest);
        fields.extend(error);
        let line = self.line(level, &own.message, event.metadata(), &fields);
        for output in self.outputs.lock().unwrap_or_else(PoisonError::into_inner).iter_mut() {
            // A failed write to the log cannot be reported anywhere.
            let _ = output.write_all(line.as_bytes()).and_then(|()| output.flush());
        }
    }
}

fn is_ours(metadata: &Metadata<'_>) -> bool {
    metadata.target().starts_with("kerf")
}

/// Returns true if events with this metadata are logged from `lowest` on. Events of dependencies
/// are logged at debug level. Their own debug events, such as one per request, are never logged.
fn is_logged(metadata: &Metadata<'_>, lowest: Level) -> bool {
    let (level, most_verbose) = if is_ours(metadata) {
        (Level::of(*metadata.level()), tracing::Level::DEBUG)
    } else {
        (Level::Debug, tracing::Level::INFO)
    };
    level >= lowest && *metadata.level() <= most_verbose
}

/// The fields of a span or an event, with values as JSON.
#[derive(Default)]
struct Fields {
    message: String,
    fields: Vec<(&'static str, String)>,
}

impl Fields {
    /// Returns the fields, with the entries of [`EXTRA_FIELDS`], and adds the reconciled object
    /// under the name of its kind.
    fn entries(&self) -> Vec<(String, String)> {
        let text = |name: &str| {
            let value = self.fields.iter().find(|(key, _)| *key == name).map(|(_, value)| value.as_str());
            value.and_then(|value| serde_json::from_str::<String>(value).ok()).unwrap_or_default()
        };
        let mut entries = Vec::with_capacity(self.fields.len() + 1);
        for (key, value) in &self.fields {
            if *key == EXTRA_FIELDS {
                let extra: Map<String, Value> = serde_json::from_str(value).unwrap_or_default();
                entries.extend(extra.into_iter().map(|(key, value)| (key, value.to_string())));
                continue;
            }
            entries.push(((*key).to_owned(), value.clone()));
            if *key == "controllerKind" {
                let (namespace, name) = (text("namespace"), text("name"));
                let object = if namespace.is_empty() {
                    serde_json::json!({ "name": name })
                } else {
                    serde_json::json!({ "name": name, "namespace": namespace })
                };
                entries.push((text("controllerKind"), object.to_string()));
            }
        }
        entries
    }

    fn put(&mut self, field: &Field, value: String) {
        self.fields.push((field.name(), value));
    }

    fn put_text(&mut self, field: &Field, text: &str) {
        match text.strip_prefix(JSON_MARK) {
            Some(json) => self.put(field, json.to_owned()),
            None => self.put(field, quoted(text)),
        }
    }
}

impl Visit for Fields {
    fn record_str(&mut self, field: &Field, value: &str) {
        if field.name() == "message" {
            value.clone_into(&mut self.message);
        } else {
            self.put_text(field, value);
        }
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.record_str(field, &format!("{value:?}"));
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.put(field, value.to_string());
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.put(field, value.to_string());
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.put(field, value.to_string());
    }

    fn record_f64(&mut self, field: &Field, value: f64) {
        self.put(field, serde_json::json!(value).to_string());
    }
}

fn quoted(text: &str) -> String {
    Value::from(text).to_string()
}
