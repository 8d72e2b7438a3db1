//! Systems Manager: JSON 1.1, the operation in the header `X-Amz-Target`.

use serde::Deserialize;
use serde_json::json;

use super::Content;
use super::names::partition;
use crate::memory::{AwsFailure, MemoryAws};
use crate::ports::Ssm as _;

/// First part of all targets of the service.
pub(super) const TARGET_PREFIX: &str = "AmazonSSM.";

const GET_PARAMETER: &str = "GetParameter";

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase", deny_unknown_fields)]
struct GetParameter {
    name: String,
    /// Public parameters are not encrypted, so it changes nothing.
    #[serde(default, rename = "WithDecryption")]
    _with_decryption: Option<bool>,
}

pub(super) fn operation(target: &str) -> Option<&'static str> {
    (target.strip_prefix(TARGET_PREFIX) == Some(GET_PARAMETER)).then_some(GET_PARAMETER)
}

pub(super) async fn call(aws: &MemoryAws, operation: &str, body: &[u8]) -> Content {
    if operation != GET_PARAMETER {
        let message = format!("This server has the operation {GET_PARAMETER}.");
        return Err(AwsFailure::bad_request("UnknownOperationException", message).into());
    }
    let request: GetParameter = serde_json::from_slice(body)
        .map_err(|error| AwsFailure::bad_request("SerializationException", error.to_string()))?;
    let value = aws.get_parameter(&request.name).await?;
    // Parameters below `/aws/service` belong to AWS, so their ARNs have no account.
    let (region, owner) = aws.change_account(|account| {
        let is_public = request.name.contains("/aws/service/");
        (account.region.clone(), if is_public { String::new() } else { account.account_id.clone() })
    });
    let name = request.name.split_once(":parameter").map_or(request.name.as_str(), |(_, name)| name);
    let separator = if name.starts_with('/') { "" } else { "/" };
    let parameter = json!({
        "Name": name,
        "Type": "String",
        "Value": value,
        "Version": 1,
        "ARN": format!("arn:{}:ssm:{region}:{owner}:parameter{separator}{name}", partition(&region)),
        "DataType": if value.starts_with("ami-") { "aws:ec2:image" } else { "text" },
    });
    Ok(json!({ "Parameter": parameter }).to_string())
}
