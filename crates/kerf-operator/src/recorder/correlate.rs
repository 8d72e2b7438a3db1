//! Handles repeated Events as client-go does: an identical Event raises a count, many similar
//! Events are combined into one, and Events of one object are rate-limited.

use std::collections::{BTreeMap, BTreeSet};

use jiff::{SignedDuration, Timestamp};

use super::{Event, event_type_name};

/// Number of different messages of one object, type and reason above which they are combined.
const SIMILAR_MAX: usize = 10;
/// Time after the last similar Event in which messages count as similar.
const SIMILAR_WINDOW: SignedDuration = SignedDuration::from_mins(10);
/// Number of Events that one object can have at once.
const EVENTS_PER_OBJECT_BURST: f64 = 25.0;
/// Seconds until one object may have another Event after its burst.
const SECONDS_PER_EVENT: f64 = 300.0;
/// Number of entries per table above which old ones are removed.
const ENTRIES_MAX: usize = 4096;

/// The action to take for an Event.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Correlated {
    /// Do not write it: its object has too many.
    Dropped,
    /// Create an Event with this message.
    New { message: String },
    /// Raise the count of an existing Event.
    Repeat { name: String, message: String, count: i32 },
}

#[derive(Debug, Default)]
pub(super) struct Correlator {
    /// Tokens left and the time of that count, by object.
    budgets: BTreeMap<String, (f64, Timestamp)>,
    /// Similar messages and the time of the last one, by object, type and reason.
    similar: BTreeMap<String, (BTreeSet<String>, Timestamp)>,
    /// Events that were written, by object, type, reason and message.
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

    /// Records a created Event. `None` as name means that the creation failed.
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
        let is_allowed = filled >= 1.0;
        (*left, *since) = (if is_allowed { filled - 1.0 } else { filled }, now);
        is_allowed
    }

    /// Returns the message to write and the key to count by. The key is shared by all similar
    /// Events if there are too many.
    fn combined(&mut self, event: &Event, now: Timestamp) -> (String, String) {
        let similar_key = key(event, "");
        let (messages, since) = self.similar.entry(similar_key).or_insert_with(|| (BTreeSet::new(), now));
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
            // After this time without Events an object has regained some tokens; forgetting it
            // gives it all of them.
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

/// Returns a key that identifies the involved object.
fn object(event: &Event) -> String {
    let reference = &event.involved_object;
    let parts = [&reference.kind, &reference.namespace, &reference.name, &reference.uid];
    parts.map(|part| part.as_deref().unwrap_or_default()).join("/")
}
