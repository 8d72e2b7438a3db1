//! The calls of Amazon SQS.

use std::time::Duration;

use aws_sdk_sqs::Client;
use aws_sdk_sqs::types::{Message, MessageSystemAttributeName};
use jiff::Timestamp;
use kerf_aws::ports::{AwsFuture, QueueMessage, ReceiveMessages, Sqs};

use crate::calls::Calls;
use crate::convert::list;

/// Amazon SQS through the SDK.
pub(crate) struct SdkSqs {
    client: Client,
    calls: Calls,
}

impl SdkSqs {
    pub(crate) fn new(client: Client) -> Self {
        Self { client, calls: Calls::new("SQS") }
    }
}

impl Sqs for SdkSqs {
    fn get_queue_url<'a>(&'a self, queue_name: &'a str) -> AwsFuture<'a, String> {
        Box::pin(async move {
            let request = self.client.get_queue_url().queue_name(queue_name).customize();
            let answer = self.calls.run("GetQueueUrl", |recorder| request.interceptor(recorder).send()).await?;
            Ok(answer.queue_url.unwrap_or_default())
        })
    }

    fn receive_messages(&self, request: ReceiveMessages) -> AwsFuture<'_, Vec<QueueMessage>> {
        Box::pin(async move {
            let wait = request.wait;
            let request = self
                .client
                .receive_message()
                .queue_url(request.queue_url)
                .max_number_of_messages(request.max_messages)
                .visibility_timeout(seconds(request.visibility_timeout))
                .wait_time_seconds(seconds(request.wait))
                .message_system_attribute_names(MessageSystemAttributeName::SentTimestamp)
                .message_attribute_names("All")
                .customize();
            let poll = self.calls.run_waiting("ReceiveMessage", wait, |recorder| request.interceptor(recorder).send());
            let answer = poll.await?;
            Ok(list(answer.messages, message))
        })
    }

    fn delete_message<'a>(&'a self, queue_url: &'a str, receipt_handle: &'a str) -> AwsFuture<'a, ()> {
        Box::pin(async move {
            let request = self.client.delete_message().queue_url(queue_url).receipt_handle(receipt_handle).customize();
            self.calls.run("DeleteMessage", |recorder| request.interceptor(recorder).send()).await.map(drop)
        })
    }
}

fn seconds(time: Duration) -> i32 {
    i32::try_from(time.as_secs()).unwrap_or(i32::MAX)
}

fn message(message: Message) -> QueueMessage {
    let attributes = message.attributes.unwrap_or_default();
    let sent_at = attributes.get(&MessageSystemAttributeName::SentTimestamp);
    QueueMessage {
        id: message.message_id.unwrap_or_default(),
        receipt_handle: message.receipt_handle.unwrap_or_default(),
        body: message.body,
        sent_at: sent_at.and_then(|text| Timestamp::from_millisecond(text.parse().ok()?).ok()),
    }
}
