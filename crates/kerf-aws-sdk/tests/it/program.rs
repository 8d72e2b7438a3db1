//! The program `kerf-aws` with wrong settings of AWS: one clear error each.

use std::process::Stdio;
use std::time::Duration;

use tokio::process::Command;

use crate::canned_server::{CannedServer, Reaction};

/// A kubeconfig of a cluster that does not answer. AWS is checked before.
const KUBECONFIG: &str = "
apiVersion: v1
kind: Config
clusters: [{name: none, cluster: {server: 'http://127.0.0.1:1'}}]
users: [{name: none, user: {}}]
contexts: [{name: none, context: {cluster: none, user: none}}]
current-context: none
";

const KEYS: [(&str, &str); 2] = [("AWS_ACCESS_KEY_ID", "test"), ("AWS_SECRET_ACCESS_KEY", "test")];
const REGION: (&str, &str) = ("AWS_REGION", "us-west-2");

/// Runs `kerf-aws controller` with these variables and this `~/.aws/config`, and without instance
/// metadata service. Returns its error output. The program must fail within a minute.
async fn controller_error(variables: &[(&str, &str)], profiles: &str) -> String {
    let home = tempfile::tempdir().unwrap();
    std::fs::create_dir(home.path().join(".aws")).unwrap();
    std::fs::write(home.path().join(".aws/config"), profiles).unwrap();
    std::fs::write(home.path().join("kubeconfig"), KUBECONFIG).unwrap();
    // Cargo sets the variable for the run of the tests.
    let path = std::env::var_os("CARGO_BIN_EXE_kerf-aws").unwrap();
    let program = Command::new(path)
        .args(["controller", "--metrics-port=0", "--health-probe-port=0", "--disable-leader-election"])
        .env_clear()
        .env("HOME", home.path())
        .env("KUBECONFIG", home.path().join("kubeconfig"))
        .env("CLUSTER_NAME", "demo")
        .env("AWS_EC2_METADATA_DISABLED", "true")
        .envs(variables.iter().copied())
        .stdin(Stdio::null())
        .kill_on_drop(true)
        .output();
    let output = tokio::time::timeout(Duration::from_mins(1), program).await.unwrap().unwrap();
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    String::from_utf8(output.stderr).unwrap()
}

#[tokio::test]
async fn missing_region_and_credentials_are_one_error_that_says_what_to_set() {
    let credentials_hint = "in a pod on EKS, give the service account a role (EKS Pod Identity or IRSA); elsewhere set \
                            AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE";
    let region_hint = "set AWS_REGION, or set AWS_PROFILE to a profile with a region";
    assert_eq!(
        controller_error(&[], "").await,
        format!(
            "error: no AWS region is configured, and no AWS credentials were found\n\
             hint:  {region_hint}; {credentials_hint}\n"
        )
    );
    assert_eq!(
        controller_error(&[REGION], "").await,
        format!("error: no AWS credentials were found\nhint:  {credentials_hint}\n")
    );
    assert_eq!(
        controller_error(&KEYS, "").await,
        format!("error: no AWS region is configured\nhint:  {region_hint}\n")
    );
}

#[tokio::test]
async fn a_profile_on_which_the_sdk_panics_is_an_error() {
    let profile = "[default]\nregion = us-east-2\nmax_attempts = 0\n";
    let error = controller_error(&KEYS, profile).await;
    assert!(error.contains("error: the AWS configuration is wrong: "), "{error}");
    assert!(error.contains("hint:  correct max_attempts"), "{error}");
}

#[tokio::test]
async fn a_token_file_that_does_not_exist_is_named() {
    let role = ("AWS_ROLE_ARN", "arn:aws:iam::111122223333:role/kerf");
    let error = controller_error(&[REGION, role, ("AWS_WEB_IDENTITY_TOKEN_FILE", "/absent/token")], "").await;
    let expected = "error: no AWS credentials could be loaded with AWS_WEB_IDENTITY_TOKEN_FILE=/absent/token: No such \
                    file or directory (os error 2)";
    assert_eq!(error.lines().next(), Some(expected));
}

#[tokio::test]
async fn wrong_credentials_are_an_error_of_the_first_call_which_names_the_program() {
    let body = "<Response><Errors><Error><Code>AuthFailure</Code><Message>AWS was not able to validate the provided \
                access credentials</Message></Error></Errors><RequestID>request-1</RequestID></Response>";
    let server = CannedServer::start(vec![Reaction::Answer(401, body)]).await;
    let endpoint = server.endpoint();
    let mut variables = vec![("AWS_ENDPOINT_URL", endpoint.as_str())];
    variables.extend(KEYS);
    // The region comes from a profile.
    let error = controller_error(&variables, "[default]\nregion = us-west-2\n").await;
    assert_eq!(
        error.lines().next(),
        Some(
            "error: ec2 api connectivity check failed, operation error EC2: DescribeInstanceTypes, https response error \
             StatusCode: 401, RequestID: request-1, api error AuthFailure: AWS was not able to validate the provided \
             access credentials"
        )
    );
    let requests = server.requests();
    assert_eq!(requests.len(), 1);
    assert!(requests[0].contains("Action=DescribeInstanceTypes&") && requests[0].contains("DryRun=true"));
    assert!(requests[0].contains(concat!(" lib/kerf/", env!("CARGO_PKG_VERSION"))), "{}", requests[0]);
    assert!(requests[0].contains("/us-west-2/ec2/aws4_request"), "{}", requests[0]);
}
