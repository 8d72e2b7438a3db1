//! Amazon SQS: the queue with interruption messages.

use std::time::Duration;

use jiff::Timestamp;

use super::AwsFuture;

/// The calls of Amazon SQS.
pub trait Sqs: Send + Sync {
    /// `GetQueueUrl`: returns the URL of a queue of the account.
    fn get_queue_url<'a>(&'a self, queue_name: &'a str) -> AwsFuture<'a, String>;

    /// `ReceiveMessage`: returns messages that are visible, and hides them for a while. Returns an
    /// empty list if no message came within the waiting time.
    fn receive_messages(&self, request: ReceiveMessages) -> AwsFuture<'_, Vec<QueueMessage>>;

    /// `DeleteMessage`. A message that is deleted already is no error.
    fn delete_message<'a>(&'a self, queue_url: &'a str, receipt_handle: &'a str) -> AwsFuture<'a, ()>;
}

/// The request of `ReceiveMessage`. The answers have all attributes of the messages.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReceiveMessages {
    /// As `GetQueueUrl` returns it.
    pub queue_url: String,
    /// Largest number of messages, 1 to 10.
    pub max_messages: i32,
    /// Time for which the received messages are hidden from other calls, in whole seconds.
    pub visibility_timeout: Duration,
    /// Longest time that the call waits for a message, in whole seconds.
    pub wait: Duration,
}

/// A received message.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct QueueMessage {
    /// ID of the message, which stays if the message is received again.
    pub id: String,
    /// Handle of this receipt, with which the message is deleted.
    pub receipt_handle: String,
    /// The text; `None` if the answer has none.
    pub body: Option<String>,
    /// Time at which the message was sent; `None` if the answer has none.
    pub sent_at: Option<Timestamp>,
}
