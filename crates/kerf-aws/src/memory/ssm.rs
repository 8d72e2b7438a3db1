//! Parameters of Systems Manager.

use std::sync::atomic::Ordering;

use super::calls::AwsOperation;
use super::{AwsFailure, MemoryAws};
use crate::ports::{AwsFuture, Ssm};

const GET_PARAMETER: AwsOperation = AwsOperation { service: "SSM", name: "GetParameter" };

impl Ssm for MemoryAws {
    fn get_parameter<'a>(&'a self, name: &'a str) -> AwsFuture<'a, String> {
        Box::pin(self.call(GET_PARAMETER, name.to_owned(), move |state, _| {
            let parameters = &state.account.parameters;
            let value = match name.strip_prefix("arn:").and_then(|arn| arn.split_once(":parameter")) {
                // The ARN of the parameter `name` ends in `/name`, that of `/path/name` in
                // `/path/name`.
                Some((_, path)) => parameters.get(path).or_else(|| parameters.get(path.trim_start_matches('/'))),
                None => parameters.get(name),
            };
            // Systems Manager sends no message with this code.
            value.cloned().ok_or_else(|| AwsFailure::bad_request("ParameterNotFound", ""))
        }))
    }

    fn refresh_count(&self) -> u64 {
        self.inner.parameter_refreshes.load(Ordering::Relaxed)
    }
}
