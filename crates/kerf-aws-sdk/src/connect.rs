//! Region, credentials and settings from the environment.

use std::panic::AssertUnwindSafe;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use aws_config::retry::RetryMode;
use aws_config::timeout::TimeoutConfig;
use aws_config::{BehaviorVersion, ConfigLoader, FrameworkMetadata, Region, SdkConfig};
use aws_sdk_ec2::config::ProvideCredentials as _;
use futures::FutureExt as _;
use kerf_aws::ports::{AwsPorts, ConnectError};
use kerf_aws::pricing::price_list_region;

use crate::calls::causes;
use crate::ec2::SdkEc2;
use crate::eks::SdkEks;
use crate::http_client::{TrustedRoots, http_client};
use crate::iam::SdkIam;
use crate::price_list::SdkPriceList;
use crate::sqs::SdkSqs;
use crate::ssm::SdkSsm;
use crate::zonal_shift::SdkZonalShift;

/// Time for loading credentials at the start, which may call STS or a metadata service.
const CREDENTIALS_TIMEOUT: Duration = Duration::from_secs(30);

const REGION_HINT: &str = "set AWS_REGION, or set AWS_PROFILE to a profile with a region";

const CREDENTIALS_HINT: &str = "in a pod on EKS, give the service account a role (EKS Pod Identity or IRSA); elsewhere \
                                set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE";

/// Begin of the SDK's text if no source of credentials is configured. A list of all sources
/// follows.
const EMPTY_CHAIN: &str = "no credentials found in chain";

/// Variables that select a source of credentials and hold no secret. The SDK's texts do not name
/// the file that it cannot read.
const SOURCE_VARIABLES: [&str; 4] = [
    "AWS_PROFILE",
    "AWS_WEB_IDENTITY_TOKEN_FILE",
    "AWS_CONTAINER_CREDENTIALS_FULL_URI",
    "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI",
];

/// Variables with the name of the region.
const REGION_VARIABLES: [&str; 2] = ["AWS_REGION", "AWS_DEFAULT_REGION"];

/// Variables with the address of an endpoint.
const ENDPOINT_VARIABLES: [&str; 9] = [
    "AWS_ENDPOINT_URL",
    "AWS_ENDPOINT_URL_ARC_ZONAL_SHIFT",
    "AWS_ENDPOINT_URL_EC2",
    "AWS_ENDPOINT_URL_EKS",
    "AWS_ENDPOINT_URL_IAM",
    "AWS_ENDPOINT_URL_PRICING",
    "AWS_ENDPOINT_URL_SQS",
    "AWS_ENDPOINT_URL_SSM",
    "AWS_ENDPOINT_URL_STS",
];

/// Limits of the time of AWS calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CallLimits {
    /// Time to connect to an endpoint.
    pub connect: Duration,
    /// Time of one attempt.
    pub attempt: Duration,
    /// Time of a call with all its attempts.
    pub call: Duration,
}

impl Default for CallLimits {
    /// The limits of spec 05 §2. Three attempts fit into a call, so that a connection that hangs is
    /// tried again.
    fn default() -> Self {
        Self { connect: Duration::from_secs(5), attempt: Duration::from_secs(75), call: Duration::from_mins(4) }
    }
}

impl From<CallLimits> for TimeoutConfig {
    fn from(limits: CallLimits) -> Self {
        Self::builder()
            .connect_timeout(limits.connect)
            .operation_attempt_timeout(limits.attempt)
            .operation_timeout(limits.call)
            .build()
    }
}

/// Reads region, credentials and settings as every program with an AWS SDK does: environment,
/// profile, EKS Pod Identity, IRSA, instance metadata service. Returns the services of the account.
///
/// Calls no service but those that credentials come from, so that an endpoint that does not answer
/// is found by the first call. Fails after at most 30 seconds for credentials.
pub async fn connect() -> Result<AwsPorts, ConnectError> {
    check_variables(&|name| std::env::var(name).ok())?;
    let bundle = std::env::var_os("AWS_CA_BUNDLE").map(PathBuf::from);
    let http_client = http_client(TrustedRoots::from_bundle(bundle.as_deref())?)?;
    let config = load(aws_config::defaults(BehaviorVersion::latest()).http_client(http_client)).await?;
    check_region_and_credentials(&config).await?;
    Ok(ports(&config))
}

/// Returns the services that `config` describes.
pub fn ports(config: &SdkConfig) -> AwsPorts {
    let region = config.region().map(ToString::to_string).unwrap_or_default();
    let price_list = aws_sdk_pricing::config::Builder::from(config).region(Region::new(price_list_region(&region)));
    AwsPorts {
        region,
        ec2: Arc::new(SdkEc2::new(aws_sdk_ec2::Client::new(config))),
        ssm: Arc::new(SdkSsm::new(aws_sdk_ssm::Client::new(config))),
        iam: Arc::new(SdkIam::new(aws_sdk_iam::Client::new(config))),
        eks: Arc::new(SdkEks::new(aws_sdk_eks::Client::new(config))),
        price_list: Arc::new(SdkPriceList::new(aws_sdk_pricing::Client::from_conf(price_list.build()))),
        sqs: Arc::new(SdkSqs::new(aws_sdk_sqs::Client::new(config))),
        zonal_shift: Arc::new(SdkZonalShift::new(aws_sdk_arczonalshift::Client::new(config))),
    }
}

/// Checks the variables on whose wrong values the SDK panics, or fails with a text that does not
/// name them.
fn check_variables(variable: &dyn Fn(&str) -> Option<String>) -> Result<(), ConnectError> {
    if let Some(value) = variable("AWS_MAX_ATTEMPTS")
        && !value.parse::<u32>().is_ok_and(|attempts| attempts > 0)
    {
        let problem = format!("AWS_MAX_ATTEMPTS is \"{value}\", which is not a number above 0");
        return Err(ConnectError::new(problem, "set it to the number of attempts of an AWS call, or unset it for 3"));
    }
    if let Some(value) = variable("AWS_RETRY_MODE")
        && value.parse::<RetryMode>().is_err()
    {
        let problem = format!("AWS_RETRY_MODE is \"{value}\", which is not a retry mode");
        return Err(ConnectError::new(problem, "set it to standard or adaptive, or unset it for standard"));
    }
    for name in REGION_VARIABLES {
        if let Some(value) = variable(name)
            && !value.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-')
        {
            let problem = format!("{name} is {value:?}, which is not the name of a region");
            return Err(ConnectError::new(problem, "set it to a region such as us-west-2"));
        }
    }
    for name in ENDPOINT_VARIABLES {
        if let Some(value) = variable(name)
            && !["http://", "https://"].into_iter().any(|scheme| value.starts_with(scheme))
        {
            let problem = format!("{name} is \"{value}\", which is not the address of an endpoint");
            return Err(ConnectError::new(problem, "set it to a URL such as http://127.0.0.1:4566, or unset it"));
        }
    }
    Ok(())
}

async fn load(loader: ConfigLoader) -> Result<SdkConfig, ConnectError> {
    let mut loader = loader.timeout_config(CallLimits::default().into());
    // The name and the version of this crate are valid metadata.
    if let Ok(metadata) = FrameworkMetadata::new("kerf", Some(env!("CARGO_PKG_VERSION"))) {
        loader = loader.framework_metadata(metadata);
    }
    // The SDK panics on wrong retry settings of a profile.
    AssertUnwindSafe(loader.load()).catch_unwind().await.map_err(|panic| {
        let text = panic.downcast_ref::<String>().map_or("", String::as_str);
        ConnectError::new(
            format!("the AWS configuration is wrong: {text}"),
            "correct max_attempts and retry_mode of the profile in ~/.aws/config",
        )
    })
}

async fn check_region_and_credentials(config: &SdkConfig) -> Result<(), ConnectError> {
    let has_region = config.region().is_some_and(|region| !region.as_ref().is_empty());
    match (has_region, credentials_problem(config).await) {
        (true, None) => Ok(()),
        (true, Some(problem)) => Err(ConnectError::new(problem, CREDENTIALS_HINT)),
        (false, None) => Err(ConnectError::new("no AWS region is configured", REGION_HINT)),
        (false, Some(problem)) => {
            let hint = format!("{REGION_HINT}; {CREDENTIALS_HINT}");
            Err(ConnectError::new(format!("no AWS region is configured, and {problem}"), hint))
        }
    }
}

/// Loads the credentials once. Returns why that fails, or `None` if it succeeds.
async fn credentials_problem(config: &SdkConfig) -> Option<String> {
    let Some(provider) = config.credentials_provider() else {
        return Some("no AWS credentials are configured".to_owned());
    };
    match tokio::time::timeout(CREDENTIALS_TIMEOUT, provider.provide_credentials()).await {
        Ok(Ok(_)) => None,
        Ok(Err(error)) => {
            // The error itself says only whether a source is configured.
            let causes = causes(std::error::Error::source(&error));
            Some(if causes.is_empty() || causes.starts_with(EMPTY_CHAIN) {
                "no AWS credentials were found".to_owned()
            } else {
                let sources: String = SOURCE_VARIABLES
                    .into_iter()
                    .filter_map(|name| Some(format!(", {name}={}", std::env::var(name).ok()?)))
                    .collect();
                format!("no AWS credentials could be loaded{}: {causes}", sources.replacen(',', " with", 1))
            })
        }
        Err(_) => Some(format!("no AWS credentials could be loaded within {} seconds", CREDENTIALS_TIMEOUT.as_secs())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wrong_variables_are_errors_that_name_the_variable() {
        let check = |name: &str, value: &str| {
            let outcome = check_variables(&|asked| (asked == name).then(|| value.to_owned()));
            outcome.err().map(|error| error.problem)
        };
        for value in ["0", "-1", "many", ""] {
            let problem = check("AWS_MAX_ATTEMPTS", value).unwrap();
            assert_eq!(problem, format!("AWS_MAX_ATTEMPTS is \"{value}\", which is not a number above 0"));
        }
        let problem = check("AWS_RETRY_MODE", "legacy").unwrap();
        assert_eq!(problem, "AWS_RETRY_MODE is \"legacy\", which is not a retry mode");
        let problem = check("AWS_ENDPOINT_URL_EC2", "127.0.0.1:4566").unwrap();
        assert_eq!(problem, "AWS_ENDPOINT_URL_EC2 is \"127.0.0.1:4566\", which is not the address of an endpoint");
        assert_eq!(check("AWS_ENDPOINT_URL", "http://127.0.0.1:4566"), None);
        assert_eq!(check("AWS_MAX_ATTEMPTS", "5"), None);
        let problem = check("AWS_REGION", "us west").unwrap();
        assert_eq!(problem, "AWS_REGION is \"us west\", which is not the name of a region");
        assert_eq!((check("AWS_REGION", "us-west-2"), check("AWS_DEFAULT_REGION", "us-gov-west-1")), (None, None));
        assert_eq!((check("AWS_RETRY_MODE", "standard"), check("AWS_RETRY_MODE", "adaptive")), (None, None));
    }

    #[test]
    fn three_attempts_fit_into_a_call() {
        let limits = CallLimits::default();
        assert!(limits.attempt * 3 < limits.call);
    }
}
