//! Region, credentials and settings from the environment.

use std::panic::AssertUnwindSafe;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use aws_config::retry::RetryMode;
use aws_config::timeout::TimeoutConfig;
use aws_config::{BehaviorVersion, ConfigLoader, FrameworkMetadata, SdkConfig};
use aws_sdk_ec2::config::ProvideCredentials as _;
use futures::FutureExt as _;
use kerf_aws::ports::{AwsPorts, ConnectError};

use crate::calls::causes;
use crate::ec2::SdkEc2;
use crate::eks::SdkEks;
use crate::http_client::{TrustedRoots, http_client};
use crate::iam::SdkIam;
use crate::ssm::SdkSsm;

/// Time for loading credentials at the start, which may call STS or a metadata service.
const CREDENTIALS_TIMEOUT: Duration = Duration::from_secs(30);

const REGION_HINT: &str = "set AWS_REGION, or set AWS_PROFILE to a profile with a region";

const CREDENTIALS_HINT: &str = "in a pod on EKS, give the service account a role (EKS Pod Identity or IRSA); elsewhere \
                                set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE";

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
    connect_with(aws_config::defaults(BehaviorVersion::latest()), &|name| std::env::var(name).ok()).await
}

/// `loader` and `variable` have the same environment variables.
async fn connect_with(
    loader: ConfigLoader,
    variable: &(dyn Fn(&str) -> Option<String> + Sync),
) -> Result<AwsPorts, ConnectError> {
    check_retry_variables(variable)?;
    let bundle = variable("AWS_CA_BUNDLE").map(PathBuf::from);
    let http_client = http_client(TrustedRoots::from_bundle(bundle.as_deref())?)?;
    let config = load(loader.http_client(http_client)).await?;
    check_region_and_credentials(&config).await?;
    Ok(ports(&config))
}

/// Returns the services that `config` describes.
pub fn ports(config: &SdkConfig) -> AwsPorts {
    AwsPorts {
        region: config.region().map(ToString::to_string).unwrap_or_default(),
        ec2: Arc::new(SdkEc2::new(aws_sdk_ec2::Client::new(config))),
        ssm: Arc::new(SdkSsm::new(aws_sdk_ssm::Client::new(config))),
        iam: Arc::new(SdkIam::new(aws_sdk_iam::Client::new(config))),
        eks: Arc::new(SdkEks::new(aws_sdk_eks::Client::new(config))),
    }
}

/// Checks the variables on whose wrong values the SDK panics.
fn check_retry_variables(variable: &(dyn Fn(&str) -> Option<String> + Sync)) -> Result<(), ConnectError> {
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
            // The error says only whether the chain was empty or a provider failed; its cause says
            // which one.
            let causes = causes(std::error::Error::source(&error));
            Some(if causes.is_empty() {
                "no AWS credentials were found".to_owned()
            } else {
                format!("no AWS credentials could be loaded: {causes}")
            })
        }
        Err(_) => Some(format!("no AWS credentials could be loaded within {} seconds", CREDENTIALS_TIMEOUT.as_secs())),
    }
}

#[cfg(test)]
mod tests {
    use aws_types::os_shim_internal::{Env, Fs};
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::TcpListener;

    use super::*;

    #[test]
    fn wrong_retry_variables_are_errors_that_name_the_variable() {
        let check = |name: &str, value: &str| {
            let outcome = check_retry_variables(&|asked| (asked == name).then(|| value.to_owned()));
            outcome.err().map(|error| error.problem)
        };
        for value in ["0", "-1", "many", ""] {
            let problem = check("AWS_MAX_ATTEMPTS", value).unwrap();
            assert_eq!(problem, format!("AWS_MAX_ATTEMPTS is \"{value}\", which is not a number above 0"));
        }
        let problem = check("AWS_RETRY_MODE", "legacy").unwrap();
        assert_eq!(problem, "AWS_RETRY_MODE is \"legacy\", which is not a retry mode");
        assert_eq!(check("AWS_MAX_ATTEMPTS", "5"), None);
        assert_eq!((check("AWS_RETRY_MODE", "standard"), check("AWS_RETRY_MODE", "adaptive")), (None, None));
    }

    /// Connects with these environment variables and this `~/.aws/config`, and without instance
    /// metadata service.
    async fn connect_in(variables: &[(&str, &str)], profiles: &str) -> Result<AwsPorts, ConnectError> {
        let mut variables = variables.to_vec();
        variables.extend([("HOME", "/home"), ("AWS_EC2_METADATA_DISABLED", "true")]);
        let loader = aws_config::defaults(BehaviorVersion::latest())
            .env(Env::from_slice(&variables))
            .fs(Fs::from_slice(&[("/home/.aws/config", profiles)]));
        let value = |name: &str| variables.iter().find(|(own, _)| *own == name).map(|(_, value)| (*value).to_owned());
        connect_with(loader, &value).await
    }

    const KEYS: [(&str, &str); 2] = [("AWS_ACCESS_KEY_ID", "test"), ("AWS_SECRET_ACCESS_KEY", "test")];

    #[tokio::test]
    async fn missing_region_and_credentials_are_one_error_that_says_what_to_set() {
        let text = async |variables: &[(&str, &str)]| {
            let error = connect_in(variables, "").await.unwrap_err();
            format!("{}\n{}", error.problem, error.hint)
        };
        let credentials_hint = "in a pod on EKS, give the service account a role (EKS Pod Identity or IRSA); \
                                elsewhere set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE";
        let region_hint = "set AWS_REGION, or set AWS_PROFILE to a profile with a region";
        assert_eq!(text(&KEYS).await, format!("no AWS region is configured\n{region_hint}"));
        let no_credentials = text(&[("AWS_REGION", "us-west-2")]).await;
        assert!(no_credentials.starts_with("no AWS credentials "), "{no_credentials}");
        assert!(no_credentials.ends_with(credentials_hint), "{no_credentials}");
        let nothing = text(&[]).await;
        assert!(nothing.starts_with("no AWS region is configured, and no AWS credentials "), "{nothing}");
        assert!(nothing.ends_with(&format!("{region_hint}; {credentials_hint}")), "{nothing}");
    }

    #[tokio::test]
    async fn region_and_credentials_come_from_the_environment_or_a_profile() {
        let mut variables = vec![("AWS_REGION", "eu-west-1")];
        variables.extend(KEYS);
        assert_eq!(connect_in(&variables, "").await.unwrap().region, "eu-west-1");
        let profile = "[profile team]\nregion = us-east-2\naws_access_key_id = a\naws_secret_access_key = b\n";
        assert_eq!(connect_in(&[("AWS_PROFILE", "team")], profile).await.unwrap().region, "us-east-2");
    }

    #[tokio::test]
    async fn a_profile_on_which_the_sdk_panics_is_an_error() {
        let error = connect_in(&KEYS, "[default]\nregion = us-east-2\nmax_attempts = 0\n").await.unwrap_err();
        assert!(error.problem.starts_with("the AWS configuration is wrong: "), "{}", error.problem);
        assert!(error.hint.contains("max_attempts"), "{}", error.hint);
    }

    #[tokio::test]
    async fn calls_go_to_the_configured_endpoint_with_the_name_of_the_program() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let endpoint = format!("http://{}", listener.local_addr().unwrap());
        let server = tokio::spawn(async move {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut head = vec![0; 16_384];
            let length = stream.read(&mut head).await.unwrap();
            stream.write_all(b"HTTP/1.1 403 x\r\ncontent-length: 0\r\n\r\n").await.unwrap();
            String::from_utf8_lossy(&head[..length]).to_lowercase()
        });
        let mut variables = vec![("AWS_REGION", "us-west-2"), ("AWS_ENDPOINT_URL_EKS", endpoint.as_str())];
        variables.extend(KEYS);
        let ports = connect_in(&variables, "").await.unwrap();
        assert_eq!(ports.eks.describe_cluster("demo").await.unwrap_err().http_status, Some(403));
        let head = server.await.unwrap();
        assert!(head.starts_with("get /clusters/demo "), "{head}");
        assert!(head.contains(concat!(" lib/kerf/", env!("CARGO_PKG_VERSION"))), "{head}");
    }

    #[test]
    fn three_attempts_fit_into_a_call() {
        let limits = CallLimits::default();
        assert!(limits.attempt * 3 < limits.call);
    }
}
