//! What becomes of events that repeat, as client-go does it: an identical one raises a count, many similar ones become one that says
//! so, and an object that has too much to say is cut short.

use std::collections::{BTreeMap, BTreeSet};

use jiff::{SignedDuration, Timestamp};

use super::{Event, event_type_name};

/// More than so many different messages of one sort are combined.
const SIMILAR_MAX: usize = 10;
/// In this time.
const SIMILAR_WINDOW: SignedDuration = SignedDuration::from_mins(10);
/// Events of one object at once.
const EVENTS_PER_OBJECT_BURST: f64 = 25.0;
/// And then one in so many seconds.
const SECONDS_PER_EVENT: f64 = 300.0;
/// What is kept at most before old entries are forgotten.
const ENTRIES_MAX: usize = 4096;

/// What is to be done with an event.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Correlated {
    /// Nothing.
    Dropped,
    /// Write it, with this message.
    New { message: String },
    /// Raise the count of one that is there.
    Repeat { name: String, message: String, count: i32 },
}

#[derive(Debug, Default)]
pub(super) struct Correlator {
    /// Tokens left and as of when, by object.
    budgets: BTreeMap<String, (f64, Timestamp)>,
    /// Messages of one sort since when, by object, severity and reason.
    similar: BTreeMap<String, (BTreeSet<String>, Timestamp)>,
    /// Events that were written, by object, severity, reason and message.
    written: BTreeMap<String, WrittenEvent>,
}

#[derive(Debug)]
struct WrittenEvent {
    name: String,
    count: i32,
    last: Timestamp,
}

impl Correlator {
    pub(super) fn correlate(&mut self, event: &Event, now: Timestamp) -> Correlated {
        self.forget(now);
        if !self.take_token(event, now) {
            return Correlated::Dropped;
        }
        let (message, key) = self.combined(event, now);
        match self.written.get_mut(&key) {
            Some(written) => {
                written.count = written.count.saturating_add(1);
                written.last = now;
                Correlated::Repeat { name: written.name.clone(), message, count: written.count }
            }
            None => Correlated::New { message },
        }
    }

    /// Remembers an event that was created; none is one that could not be.
    pub(super) fn record_written(&mut self, event: &Event, message: &str, name: Option<String>, now: Timestamp) {
        let key = key(event, message);
        match name {
            Some(name) => {
                let count = self.written.get(&key).map_or(1, |written| written.count);
                self.written.insert(key, WrittenEvent { name, count, last: now });
            }
            None => {
                self.written.remove(&key);
            }
        }
    }

    fn take_token(&mut self, event: &Event, now: Timestamp) -> bool {
        let (left, since) = self.budgets.entry(object(event)).or_insert((EVENTS_PER_OBJECT_BURST, now));
        let filled =
            (*left + now.duration_since(*since).as_secs_f64() / SECONDS_PER_EVENT).min(EVENTS_PER_OBJECT_BURST);
        let may = filled >= 1.0;
        (*left, *since) = (if may { filled - 1.0 } else { filled }, now);
        may
    }

    /// The message to write and the key to count by: its own, or one for all of its sort if there are too many.
    fn combined(&mut self, event: &Event, now: Timestamp) -> (String, String) {
        let sort = key(event, "");
        let (messages, since) = self.similar.entry(sort).or_insert_with(|| (BTreeSet::new(), now));
        if now.duration_since(*since) > SIMILAR_WINDOW {
            messages.clear();
        }
        *since = now;
        messages.insert(event.message.clone());
        if messages.len() > SIMILAR_MAX {
            messages.pop_first();
            (format!("(combined from similar events): {}", event.message), key(event, "(combined)"))
        } else {
            (event.message.clone(), key(event, &event.message))
        }
    }

    fn forget(&mut self, now: Timestamp) {
        let is_fresh = |last: Timestamp| now.duration_since(last) <= SIMILAR_WINDOW;
        if self.budgets.len() > ENTRIES_MAX {
            // An object that has been silent for so long has all its tokens back, or nearly.
            self.budgets.retain(|_, (_, since)| is_fresh(*since));
        }
        if self.similar.len() > ENTRIES_MAX {
            self.similar.retain(|_, (_, since)| is_fresh(*since));
        }
        if self.written.len() > ENTRIES_MAX {
            self.written.retain(|_, written| is_fresh(written.last));
        }
    }
}

fn key(event: &Event, message: &str) -> String {
    let message = if message.starts_with("(combined from") { "(combined)" } else { message };
    format!("{}\u{0}{}\u{0}{}\u{0}{message}", object(event), event_type_name(event.event_type), event.reason)
}

/// What tells objects apart.
fn object(event: &Event) -> String {
    let about = &event.involved_object;
    let parts = [&about.kind, &about.namespace, &about.name, &about.uid];
    parts.map(|part| part.as_deref().unwrap_or_default()).join("/")
}
