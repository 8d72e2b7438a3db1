//! Queues of SQS. A received message is hidden for its visibility timeout; a message that is not
//! deleted appears again. Messages are dropped after the retention time of the queue that
//! Karpenter's `CloudFormation` template creates.

use std::time::Duration;

use jiff::Timestamp;
use tokio::time::Instant;

use super::calls::AwsOperation;
use super::state::AwsState;
use super::stored_queue::StoredQueue;
use super::{AwsFailure, MemoryAws};
use crate::ports::{AwsFuture, QueueMessage, ReceiveMessages, Sqs};

/// Largest number of messages of one answer.
const RECEIVED_MAX: i32 = 10;
/// Longest time that a call may wait for messages.
const WAIT_MAX: Duration = Duration::from_secs(20);

const fn sqs(name: &'static str) -> AwsOperation {
    AwsOperation { service: "SQS", name }
}

impl AwsState {
    /// Returns the queue of a URL. Only the name, the last part, decides.
    fn queue(&mut self, url: &str) -> Result<&mut StoredQueue, AwsFailure> {
        let name = url.rsplit('/').next().unwrap_or_default();
        if !self.account.queues.contains(name) {
            return Err(no_queue());
        }
        Ok(self.queues.entry(name.to_owned()).or_default())
    }

    /// Sends a message to a queue. Returns false if the queue does not exist.
    pub(super) fn send_to_queue(&mut self, queue_name: &str, id: String, body: String, now: Timestamp) -> bool {
        let Ok(queue) = self.queue(queue_name) else { return false };
        queue.send(id, body, now);
        self.messages_sent += 1;
        true
    }
}

impl MemoryAws {
    /// Sends a message to a queue, as `EventBridge` does. Returns false if the queue does not
    /// exist.
    pub fn send_message(&self, queue_name: &str, body: impl Into<String>) -> bool {
        let now = self.inner.clock.now();
        let mut state = self.state();
        let id = state.new_request_id();
        let is_sent = state.send_to_queue(queue_name, id, body.into(), now);
        self.notify_changes(&state);
        is_sent
    }

    /// Returns the bodies of the messages of a queue, oldest first, also of those that are hidden.
    pub fn queued_messages(&self, queue_name: &str) -> Vec<String> {
        let now = self.inner.clock.now();
        let mut state = self.state();
        let Ok(queue) = state.queue(queue_name) else { return Vec::new() };
        queue.drop_old(now);
        queue.bodies()
    }

    /// Returns once a message is visible, or after the waiting time.
    async fn wait_for_message(&self, queue_url: &str, wait: Duration) {
        let deadline = Instant::now() + wait.min(WAIT_MAX);
        let mut sent = self.inner.messages_sent.subscribe();
        loop {
            let now = self.inner.clock.now();
            let visible_from = self.state().queue(queue_url).map(|queue| {
                queue.drop_old(now);
                queue.next_visible_at(now)
            });
            // A missing queue answers at once.
            let Ok(visible_from) = visible_from else { return };
            let until_visible = visible_from.map(|at| Duration::try_from(at.duration_since(now)).unwrap_or_default());
            if until_visible.is_some_and(|wait| wait.is_zero()) || Instant::now() >= deadline {
                return;
            }
            let next = until_visible.map_or(deadline, |wait| (Instant::now() + wait).min(deadline));
            tokio::select! {
                biased;
                // The sender lives as long as this EC2.
                _ = sent.changed() => {}
                () = tokio::time::sleep_until(next) => {}
            }
        }
    }
}

impl Sqs for MemoryAws {
    fn get_queue_url<'a>(&'a self, queue_name: &'a str) -> AwsFuture<'a, String> {
        Box::pin(self.call(sqs("GetQueueUrl"), queue_name.to_owned(), move |state, _| {
            let account = &state.account;
            if !account.queues.contains(queue_name) {
                return Err(no_queue());
            }
            Ok(format!("https://sqs.{}.amazonaws.com/{}/{queue_name}", account.region, account.account_id))
        }))
    }

    fn receive_messages(&self, request: ReceiveMessages) -> AwsFuture<'_, Vec<QueueMessage>> {
        let name = request.queue_url.rsplit('/').next().unwrap_or_default();
        let text = format!("{name} max {}", request.max_messages);
        Box::pin(async move {
            self.wait_for_message(&request.queue_url, request.wait).await;
            self.call(sqs("ReceiveMessage"), text, move |state, now| {
                if !(1..=RECEIVED_MAX).contains(&request.max_messages) {
                    let message = format!(
                        "Value {} for parameter MaxNumberOfMessages is invalid. Reason: Must be between 1 and 10, if provided.",
                        request.max_messages
                    );
                    return Err(AwsFailure::invalid_value(message));
                }
                let queue = state.queue(&request.queue_url)?;
                queue.drop_old(now);
                Ok(queue.receive(&request, now))
            })
            .await
        })
    }

    fn delete_message<'a>(&'a self, queue_url: &'a str, receipt_handle: &'a str) -> AwsFuture<'a, ()> {
        Box::pin(self.call(sqs("DeleteMessage"), receipt_handle.to_owned(), move |state, _| {
            state.queue(queue_url)?.delete(receipt_handle)
        }))
    }
}

fn no_queue() -> AwsFailure {
    AwsFailure::bad_request("QueueDoesNotExist", "The specified queue does not exist.")
}

#[cfg(test)]
mod tests {
    use super::super::testing::aws;
    use super::*;

    const QUEUE: &str = "demo";
    const HIDDEN_FOR: Duration = Duration::from_secs(20);

    fn aws_with_queue() -> MemoryAws {
        let aws = aws();
        aws.change_account(|account| account.queues.insert(QUEUE.to_owned()));
        aws
    }

    async fn receive(aws: &MemoryAws, max_messages: i32, wait_seconds: u64) -> Vec<QueueMessage> {
        let queue_url = aws.get_queue_url(QUEUE).await.unwrap();
        let wait = Duration::from_secs(wait_seconds);
        aws.receive_messages(ReceiveMessages { queue_url, max_messages, visibility_timeout: HIDDEN_FOR, wait })
            .await
            .unwrap()
    }

    fn bodies(messages: &[QueueMessage]) -> Vec<&str> {
        messages.iter().map(|message| message.body.as_deref().unwrap()).collect()
    }

    #[tokio::test(start_paused = true)]
    async fn a_received_message_is_hidden_until_its_visibility_timeout_ends() {
        let aws = aws_with_queue();
        for body in ["a", "b"] {
            assert!(aws.send_message(QUEUE, body));
        }
        let first = receive(&aws, 1, 0).await;
        assert_eq!(bodies(&first), ["a"]);
        assert_eq!(bodies(&receive(&aws, 10, 0).await), ["b"]);
        assert_eq!(bodies(&receive(&aws, 10, 0).await), [""; 0]);
        tokio::time::advance(HIDDEN_FOR).await;
        let again = receive(&aws, 10, 0).await;
        assert_eq!(bodies(&again), ["a", "b"]);
        assert_eq!((&first[0].id, first[0].sent_at), (&again[0].id, again[0].sent_at));
        aws.delete_message(QUEUE, &first[0].receipt_handle).await.unwrap();
        assert_eq!(aws.queued_messages(QUEUE).len(), 2, "the handle of an earlier receipt deletes nothing");
        aws.delete_message(QUEUE, &again[0].receipt_handle).await.unwrap();
        aws.delete_message(QUEUE, &again[0].receipt_handle).await.unwrap();
        assert_eq!(aws.queued_messages(QUEUE), ["b"]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_call_waits_for_the_next_visible_message() {
        let aws = aws_with_queue();
        let begin = Instant::now();
        assert_eq!(receive(&aws, 10, 20).await, []);
        assert_eq!(begin.elapsed(), Duration::from_secs(20));
        let (received, ()) = tokio::join!(receive(&aws, 10, 20), async {
            tokio::time::sleep(Duration::from_secs(3)).await;
            aws.send_message(QUEUE, "a");
        });
        assert_eq!((bodies(&received), begin.elapsed()), (vec!["a"], Duration::from_secs(23)));
        tokio::time::advance(Duration::from_secs(15)).await;
        assert_eq!(bodies(&receive(&aws, 10, 20).await), ["a"]);
        assert_eq!(begin.elapsed(), Duration::from_secs(43), "the message appears again");
    }

    #[tokio::test(start_paused = true)]
    async fn old_messages_are_dropped() {
        let aws = aws_with_queue();
        aws.send_message(QUEUE, "a");
        tokio::time::advance(Duration::from_mins(5)).await;
        assert_eq!(receive(&aws, 10, 0).await, []);
        assert_eq!(aws.queued_messages(QUEUE), [""; 0]);
    }

    #[tokio::test(start_paused = true)]
    async fn wrong_requests_are_errors() {
        let aws = aws_with_queue();
        assert!(!aws.send_message("other", "a"));
        assert!(aws.get_queue_url("other").await.unwrap_err().has_code("QueueDoesNotExist"));
        let request = |queue_url: &str, max_messages| ReceiveMessages {
            queue_url: queue_url.to_owned(),
            max_messages,
            visibility_timeout: HIDDEN_FOR,
            wait: Duration::from_secs(20),
        };
        let begin = Instant::now();
        assert!(aws.receive_messages(request("https://other", 10)).await.unwrap_err().has_code("QueueDoesNotExist"));
        assert_eq!(begin.elapsed(), Duration::ZERO);
        assert!(aws.receive_messages(request(QUEUE, 11)).await.unwrap_err().has_code("InvalidParameterValue"));
        assert!(aws.delete_message(QUEUE, "x").await.unwrap_err().has_code("ReceiptHandleIsInvalid"));
    }
}
