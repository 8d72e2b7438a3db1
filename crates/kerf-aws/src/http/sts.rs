//! The Security Token Service: who the caller is. All callers are one user of the account.

use super::names::iam_arn;
use super::query::Parameters;
use super::xml::Xml;
use super::{Content, OperationError};
use crate::memory::{AwsOperation, MemoryAws};

pub(super) const VERSION: &str = "2011-06-15";
pub(super) const NAMESPACE: &str = "https://sts.amazonaws.com/doc/2011-06-15/";

const GET_CALLER_IDENTITY: &str = "GetCallerIdentity";

pub(super) fn operation(action: &str) -> Option<&'static str> {
    (action == GET_CALLER_IDENTITY).then_some(GET_CALLER_IDENTITY)
}

pub(super) async fn call(aws: &MemoryAws, _operation: &str, parameters: Parameters) -> Content {
    parameters.read(|_| ())?;
    let operation = AwsOperation { service: "STS", name: GET_CALLER_IDENTITY };
    let content = aws.call(operation, String::new(), |state, _| {
        Ok(Xml::fragment(|xml| {
            xml.text("Arn", iam_arn(&state.account, "user", "/kerf"));
            xml.text("UserId", "AIDAKERFKERFKERFKERFK");
            xml.text("Account", &state.account.account_id);
        }))
    });
    content.await.map_err(OperationError::Call)
}
