//! Repeats a kubelet's last write with new timestamps. In a cluster without changes, nearly all
//! writes are Lease renewals and unchanged status reports of kubelets. Such an object differs from
//! the last write only in its timestamps, so the timestamps are replaced in a copy of the stored
//! bytes, without decoding, validating and encoding the object again.
//!
//! Invariant: the stored bytes equal those that an ordinary request would store. A
//! [`RepeatableWrite`] exists only if every timestamp to replace can be found without ambiguity. It
//! is not repeated once another client has written the object, that is, once the object has another
//! revision; the kubelet then sends an ordinary request.

use bytes::Bytes;
use jiff::Timestamp;

use crate::api::ServerState;
use crate::api::object::{rfc3339_micros, rfc3339_seconds};
use crate::api::storage::{ObjectKey, TableIx};

/// The kind of write that a kubelet repeats.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum HeartbeatKind {
    /// Renewing a Lease: `renewTime` changes.
    LeaseRenewal,
    /// Reporting the node's status: `lastHeartbeatTime` of each condition changes.
    StatusReport {
        /// Number of conditions in the status.
        condition_count: usize,
    },
}

/// Revision and time of the last write of an object, and the positions of the timestamps that
/// change when a kubelet repeats the write.
#[derive(Debug)]
pub(super) struct RepeatableWrite {
    revision: u64,
    /// Time of the write. The timestamps at the offsets have this value.
    written_at: Timestamp,
    /// Offsets of timestamps with microseconds, counted from the end of the bytes, because
    /// `resourceVersion` before them may grow.
    micros_offsets: Vec<usize>,
    /// Offsets of timestamps with seconds, counted from the end too.
    seconds_offsets: Vec<usize>,
}

impl RepeatableWrite {
    /// Finds the timestamps in `written`, the bytes that an ordinary request has stored at `now`.
    /// The `time` of the kubelet's entry in `managedFields` is one of them. Returns `None` if
    /// another client has written the object since, or if the timestamps are ambiguous.
    pub(super) fn from_ordinary_write(
        server: &ServerState,
        (table, key): (TableIx, &ObjectKey),
        written: &Bytes,
        now: Timestamp,
        kind: HeartbeatKind,
    ) -> Option<Self> {
        let stored = server.storage.get(table, key).filter(|stored| stored.bytes() == written)?;
        let mut seconds_offsets = timestamp_offsets(written, "time", &rfc3339_seconds(now));
        // Entries of managed fields are ordered by time. The kubelet's entry must already be the
        // last one, because the new time would otherwise change the order of the entries.
        if seconds_offsets.len() != 1 || !is_in_last_entry(written, seconds_offsets[0]) {
            return None;
        }
        let micros_offsets = match kind {
            HeartbeatKind::LeaseRenewal => {
                let offsets = timestamp_offsets(written, "renewTime", &rfc3339_micros(now));
                (offsets.len() == 1).then_some(offsets)?
            }
            HeartbeatKind::StatusReport { condition_count } => {
                let offsets = timestamp_offsets(written, "lastHeartbeatTime", &rfc3339_seconds(now));
                seconds_offsets.extend((offsets.len() == condition_count).then_some(offsets)?);
                Vec::new()
            }
        };
        Some(Self { revision: stored.revision, written_at: now, micros_offsets, seconds_offsets })
    }

    /// Writes the object again with the timestamps of `now`. Returns false if the object has
    /// another revision or the timestamps would not change; the caller then sends an ordinary
    /// request.
    pub(super) fn repeat_at(&mut self, server: &ServerState, table: TableIx, key: &ObjectKey, now: Timestamp) -> bool {
        let is_same_time = if self.micros_offsets.is_empty() {
            now.as_second() == self.written_at.as_second()
        } else {
            now.as_microsecond() == self.written_at.as_microsecond()
        };
        if is_same_time {
            // The timestamps would be equal, and a write that changes nothing must not create a
            // revision. The ordinary request handles that.
            return false;
        }
        let seconds = rfc3339_seconds(now);
        let micros = if self.micros_offsets.is_empty() { String::new() } else { rfc3339_micros(now) };
        let new_revision = server.storage.update_bytes(table, key, self.revision, |text| {
            for (offsets, time) in [(&self.seconds_offsets, &seconds), (&self.micros_offsets, &micros)] {
                for offset in offsets {
                    let start = text.len().saturating_sub(*offset);
                    if let Some(target) = text.get_mut(start..start + time.len()) {
                        target.copy_from_slice(time.as_bytes());
                    }
                }
            }
        });
        if let Ok(revision) = new_revision {
            (self.revision, self.written_at) = (revision, now);
        }
        new_revision.is_ok()
    }
}

/// Returns the offsets, from the end, of the values of all fields with this name and value. Quotes
/// inside a JSON string are escaped, so every match is a field, but perhaps not the intended one:
/// the caller compares the number of matches with the number that it expects.
fn timestamp_offsets(text: &[u8], field: &str, value: &str) -> Vec<usize> {
    let pattern = format!("\"{field}\":\"{value}\"");
    let prefix_len = field.len() + "\"\":\"".len();
    let Ok(searched) = std::str::from_utf8(text) else { return Vec::new() };
    searched.match_indices(&pattern).map(|(start, _)| text.len() - start - prefix_len).collect()
}

/// Returns true if the time at this offset from the end is in the last entry of the managed fields.
/// The time is the last field of its entry, so `"}]` after it ends the entry and the list.
fn is_in_last_entry(text: &[u8], offset: usize) -> bool {
    let value_len = "2026-01-01T00:00:00Z".len();
    text[text.len() - offset..].get(value_len..).is_some_and(|rest| rest.starts_with(b"\"}]"))
}
