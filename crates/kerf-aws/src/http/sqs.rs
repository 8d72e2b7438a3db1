//! SQS: JSON 1.0, the operation in the header `X-Amz-Target`.

use std::time::Duration;

use serde::Deserialize;
use serde_json::json;

use super::Content;
use crate::memory::{AwsFailure, MemoryAws, SQS_OPERATIONS};
use crate::ports::{ReceiveMessages, Sqs as _};

/// First part of all targets of the service.
pub(super) const TARGET_PREFIX: &str = "AmazonSQS.";

/// Time for which SQS hides a received message if the request does not say.
const VISIBILITY_TIMEOUT_SECONDS: u64 = 30;

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase", deny_unknown_fields)]
struct GetQueueUrl {
    queue_name: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase", deny_unknown_fields)]
struct ReceiveMessage {
    queue_url: String,
    /// The answers always have all attributes.
    #[serde(default, rename = "AttributeNames")]
    _attribute_names: Vec<String>,
    #[serde(default, rename = "MessageSystemAttributeNames")]
    _message_system_attribute_names: Vec<String>,
    #[serde(default, rename = "MessageAttributeNames")]
    _message_attribute_names: Vec<String>,
    max_number_of_messages: Option<i32>,
    visibility_timeout: Option<u64>,
    wait_time_seconds: Option<u64>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase", deny_unknown_fields)]
struct DeleteMessage {
    queue_url: String,
    receipt_handle: String,
}

pub(super) fn operation(target: &str) -> Option<&'static str> {
    let name = target.strip_prefix(TARGET_PREFIX)?;
    SQS_OPERATIONS.into_iter().find(|known| *known == name)
}

pub(super) async fn call(aws: &MemoryAws, operation: &str, body: &[u8]) -> Content {
    match operation {
        "GetQueueUrl" => {
            let request: GetQueueUrl = read(body)?;
            let url = aws.get_queue_url(&request.queue_name).await?;
            Ok(json!({ "QueueUrl": url }).to_string())
        }
        "ReceiveMessage" => receive(aws, read(body)?).await,
        "DeleteMessage" => {
            let request: DeleteMessage = read(body)?;
            aws.delete_message(&request.queue_url, &request.receipt_handle).await?;
            Ok("{}".to_owned())
        }
        _ => {
            let message = format!("This server has the operations {}.", SQS_OPERATIONS.join(", "));
            Err(AwsFailure::bad_request("UnknownOperationException", message).into())
        }
    }
}

async fn receive(aws: &MemoryAws, request: ReceiveMessage) -> Content {
    let received = aws.receive_messages(ReceiveMessages {
        queue_url: request.queue_url,
        max_messages: request.max_number_of_messages.unwrap_or(1),
        visibility_timeout: Duration::from_secs(request.visibility_timeout.unwrap_or(VISIBILITY_TIMEOUT_SECONDS)),
        wait: Duration::from_secs(request.wait_time_seconds.unwrap_or_default()),
    });
    let messages: Vec<serde_json::Value> = received
        .await?
        .into_iter()
        .map(|message| {
            let mut all = json!({ "MessageId": message.id, "ReceiptHandle": message.receipt_handle });
            if let Some(body) = message.body {
                all["Body"] = json!(body);
            }
            if let Some(sent_at) = message.sent_at {
                all["Attributes"] = json!({ "SentTimestamp": sent_at.as_millisecond().to_string() });
            }
            all
        })
        .collect();
    // SQS leaves the member out if there is no message.
    Ok(if messages.is_empty() { json!({}) } else { json!({ "Messages": messages }) }.to_string())
}

fn read<'b, T: Deserialize<'b>>(body: &'b [u8]) -> Result<T, AwsFailure> {
    serde_json::from_slice(body).map_err(|error| AwsFailure::bad_request("SerializationException", error.to_string()))
}
