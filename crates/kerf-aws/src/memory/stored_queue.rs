//! The messages of one queue: which are visible, and which are received.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;

use super::AwsFailure;
use crate::ports::{QueueMessage, ReceiveMessages};

/// Time after which a message is dropped.
const RETENTION: Duration = Duration::from_mins(5);
/// Largest number of messages of a queue. A further message replaces the oldest.
const MESSAGES_MAX: usize = 100_000;

/// The messages of one queue, by their number.
#[derive(Debug, Clone, Default)]
pub(super) struct StoredQueue {
    messages: BTreeMap<u64, StoredMessage>,
    next_number: u64,
}

#[derive(Debug, Clone)]
struct StoredMessage {
    id: String,
    body: String,
    sent_at: Timestamp,
    visible_from: Timestamp,
    receive_count: u32,
}

impl StoredQueue {
    pub(super) fn send(&mut self, id: String, body: String, now: Timestamp) {
        // SQS reports the time in milliseconds.
        let sent_at = Timestamp::from_millisecond(now.as_millisecond()).unwrap_or(now);
        let message = StoredMessage { id, body, sent_at, visible_from: now, receive_count: 0 };
        self.messages.insert(self.next_number, message);
        self.next_number += 1;
        if self.messages.len() > MESSAGES_MAX {
            self.messages.pop_first();
        }
    }

    /// Drops the messages that are older than the retention time.
    pub(super) fn drop_old(&mut self, now: Timestamp) {
        while let Some(first) = self.messages.first_entry()
            && add(first.get().sent_at, RETENTION) <= now
        {
            first.remove();
        }
    }

    pub(super) fn receive(&mut self, request: &ReceiveMessages, now: Timestamp) -> Vec<QueueMessage> {
        let count = usize::try_from(request.max_messages).unwrap_or_default();
        let visible = self.messages.iter_mut().filter(|(_, message)| message.visible_from <= now);
        let receive = |(number, message): (&u64, &mut StoredMessage)| {
            message.receive_count += 1;
            message.visible_from = add(now, request.visibility_timeout);
            QueueMessage {
                id: message.id.clone(),
                receipt_handle: format!("{number}-{}", message.receive_count),
                body: Some(message.body.clone()),
                sent_at: Some(message.sent_at),
            }
        };
        visible.take(count).map(receive).collect()
    }

    /// Deletes the message of a receipt. The handle of an earlier receipt deletes nothing.
    pub(super) fn delete(&mut self, receipt_handle: &str) -> Result<(), AwsFailure> {
        let invalid = || {
            let message = format!("The input receipt handle \"{receipt_handle}\" is not a valid receipt handle.");
            AwsFailure::bad_request("ReceiptHandleIsInvalid", message)
        };
        let (number, receipt) = receipt_handle.split_once('-').ok_or_else(invalid)?;
        let number: u64 = number.parse().map_err(|_| invalid())?;
        let receipt: u32 = receipt.parse().map_err(|_| invalid())?;
        if self.messages.get(&number).is_some_and(|message| message.receive_count == receipt) {
            self.messages.remove(&number);
        }
        Ok(())
    }

    /// Returns a time from which a message can be received: that of the oldest message that is
    /// visible now, or the earliest of all. Returns `None` if the queue is empty.
    pub(super) fn next_visible_at(&self, now: Timestamp) -> Option<Timestamp> {
        let times = || self.messages.values().map(|message| message.visible_from);
        // Mostly the oldest message is visible, so that the others are not read.
        times().find(|visible_from| *visible_from <= now).or_else(|| times().min())
    }

    /// Returns the texts of all messages, oldest first.
    pub(super) fn bodies(&self) -> Vec<String> {
        self.messages.values().map(|message| message.body.clone()).collect()
    }
}

fn add(time: Timestamp, duration: Duration) -> Timestamp {
    time.saturating_add(duration).unwrap_or(Timestamp::MAX)
}
