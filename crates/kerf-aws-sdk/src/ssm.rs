//! The calls of AWS Systems Manager.

use aws_sdk_ssm::Client;
use kerf_aws::ports::{AwsFuture, Ssm};

use crate::calls::Calls;

/// AWS Systems Manager through the SDK.
pub(crate) struct SdkSsm {
    client: Client,
    calls: Calls,
}

impl SdkSsm {
    pub(crate) fn new(client: Client) -> Self {
        Self { client, calls: Calls::new("SSM") }
    }
}

impl Ssm for SdkSsm {
    fn get_parameter<'a>(&'a self, name: &'a str) -> AwsFuture<'a, String> {
        Box::pin(async move {
            let request = self.client.get_parameter().name(name).customize();
            let answer = self.calls.run("GetParameter", |recorder| request.interceptor(recorder).send()).await?;
            Ok(answer.parameter.and_then(|parameter| parameter.value).unwrap_or_default())
        })
    }
}
