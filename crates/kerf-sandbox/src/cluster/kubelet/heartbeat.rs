//! Saying again what was said before, at a later time. Nearly all writes of a quiet cluster are kubelets that renew their leases and
//! report that nothing has changed: the object is the one that they wrote last, but for the times in it. Such a write is made where the
//! object stands, without reading, judging and encoding it anew.
//!
//! What always holds: the bytes that are stored are those that the ordinary way would store. A beat is only remembered of a write of our
//! own that is the last one of its object; it is of no use when the object has moved on; and it is only found where the times that the
//! next write changes can be told from all others.

use bytes::Bytes;
use jiff::Timestamp;

use crate::api::ServerState;
use crate::api::object::{rfc3339_micros, rfc3339_seconds};
use crate::api::storage::{ObjectKey, TableIx};

/// What a kubelet says again and again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum HeartbeatKind {
    /// That it is there: its lease is renewed.
    LeaseRenewal,
    /// How its node is: the conditions of its status.
    Conditions {
        /// How many there are.
        count: usize,
    },
}

/// An object as we wrote it last, and where in it the times of that write stand.
#[derive(Debug)]
pub(super) struct HeartbeatTemplate {
    revision: u64,
    /// When it was written.
    written_at: Timestamp,
    /// Where the times begin, counted from the end: what stands before them grows with the version's digits.
    micros_offsets: Vec<usize>,
    seconds_offsets: Vec<usize>,
}

impl HeartbeatTemplate {
    /// Looks for the times in an object that was just `written` at `now`, the one at which we came to own our fields among them. Nothing, if
    /// somebody else has written the object since, or if there is any doubt.
    pub(super) fn from_write(
        server: &ServerState,
        (table, key): (TableIx, &ObjectKey),
        written: &Bytes,
        now: Timestamp,
        said: HeartbeatKind,
    ) -> Option<Self> {
        let stored = server.storage.get(table, key).filter(|stored| stored.bytes() == written)?;
        let mut to_the_second = timestamp_offsets(written, "time", &rfc3339_seconds(now));
        // The entries of managed fields are in order of time. Ours must be the last already, or it would have to move there.
        if to_the_second.len() != 1 || !is_in_last_entry(written, to_the_second[0]) {
            return None;
        }
        let exact = match said {
            HeartbeatKind::LeaseRenewal => {
                let renewed = timestamp_offsets(written, "renewTime", &rfc3339_micros(now));
                (renewed.len() == 1).then_some(renewed)?
            }
            HeartbeatKind::Conditions { count } => {
                let beats = timestamp_offsets(written, "lastHeartbeatTime", &rfc3339_seconds(now));
                to_the_second.extend((beats.len() == count).then_some(beats)?);
                Vec::new()
            }
        };
        Some(Self { revision: stored.revision, written_at: now, micros_offsets: exact, seconds_offsets: to_the_second })
    }

    /// Writes the object once more, at `now`. Says whether that was possible.
    pub(super) fn rewrite_at(&mut self, server: &ServerState, table: TableIx, key: &ObjectKey, now: Timestamp) -> bool {
        let same = if self.micros_offsets.is_empty() {
            now.as_second() == self.written_at.as_second()
        } else {
            now.as_microsecond() == self.written_at.as_microsecond()
        };
        if same {
            // A write that changes nothing is none: the ordinary way knows.
            return false;
        }
        let to_the_second = rfc3339_seconds(now);
        let exact = if self.micros_offsets.is_empty() { String::new() } else { rfc3339_micros(now) };
        let written = server.storage.update_bytes_in_place(table, key, self.revision, |text| {
            for (places, time) in [(&self.seconds_offsets, &to_the_second), (&self.micros_offsets, &exact)] {
                for place in places {
                    let start = text.len().saturating_sub(*place);
                    if let Some(old) = text.get_mut(start..start + time.len()) {
                        old.copy_from_slice(time.as_bytes());
                    }
                }
            }
        });
        if let Ok(revision) = written {
            (self.revision, self.written_at) = (revision, now);
        }
        written.is_ok()
    }
}

/// Where the values of fields of that name and value begin, counted from the end. A quote inside a text is never bare, so what looks like a
/// field is one.
fn timestamp_offsets(text: &[u8], field: &str, value: &str) -> Vec<usize> {
    let wanted = format!("\"{field}\":\"{value}\"");
    let before = field.len() + "\"\":\"".len();
    let Ok(searched) = std::str::from_utf8(text) else { return Vec::new() };
    searched.match_indices(&wanted).map(|(at, _)| text.len() - at - before).collect()
}

/// Whether the time that begins so far from the end is in the last entry of the managed fields, of which it is the last field.
fn is_in_last_entry(text: &[u8], place: usize) -> bool {
    let value = "2026-01-01T00:00:00Z".len();
    text[text.len() - place..].get(value..).is_some_and(|behind| behind.starts_with(b"\"}]"))
}
