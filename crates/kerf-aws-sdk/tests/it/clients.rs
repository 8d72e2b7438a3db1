//! Clients of a server on the loopback address.

use std::time::Duration;

use aws_config::retry::RetryConfig;
use aws_config::{BehaviorVersion, Region, SdkConfig};
use aws_sdk_ec2::config::{Credentials, SharedCredentialsProvider};
use kerf_aws::ports::AwsPorts;
use kerf_aws_sdk::{CallLimits, TrustedRoots, http_client, ports};

/// Limits for tests in which nothing hangs.
pub(crate) const GENEROUS: CallLimits =
    CallLimits { connect: Duration::from_secs(5), attempt: Duration::from_mins(1), call: Duration::from_mins(1) };

/// Returns the services at `endpoint`, with three attempts per call and short pauses between them.
pub(crate) fn ports_at(endpoint: &str, limits: CallLimits) -> AwsPorts {
    let credentials = Credentials::new("test", "test", None, None, "test");
    let config = SdkConfig::builder()
        .behavior_version(BehaviorVersion::latest())
        .region(Region::new("us-west-2"))
        .endpoint_url(endpoint)
        .credentials_provider(SharedCredentialsProvider::new(credentials))
        .http_client(http_client(TrustedRoots::System).unwrap())
        .timeout_config(limits.into())
        .retry_config(RetryConfig::standard().with_initial_backoff(Duration::from_millis(1)))
        .build();
    ports(&config)
}
