//! The AWS provider as commands see it.

#![allow(clippy::unwrap_used, reason = "a test may fail by panicking")]

use kerf_aws::ports::{ConnectError, Eks as _};
use kerf_operator::{Recorder, Registry, SharedCluster};
use kerf_runtime::Clock;
use kerf_sandbox::{ApiServer, ApiServerConfig};

use super::*;

fn options(cluster_name: &str) -> AccountOptions<'_> {
    AccountOptions {
        cluster_name,
        kubernetes_version: SANDBOX_KUBERNETES_VERSION,
        endpoint: None,
        is_instant: false,
        seed: 0,
    }
}

#[tokio::test(start_paused = true)]
async fn the_sandbox_account_has_what_the_getting_started_guide_sets_up() {
    let aws = memory_aws(Clock::system(), &options("demo"));
    aws.change_account(|account| {
        let tagged =
            |tags: &kerf_aws::ports::Tags| tags.get("karpenter.sh/discovery").is_some_and(|name| name == "demo");
        let zones: Vec<&str> =
            account.subnets.values().filter(|subnet| tagged(&subnet.tags)).map(|subnet| subnet.zone.as_str()).collect();
        assert_eq!(zones, ["us-west-2a", "us-west-2b", "us-west-2c"]);
        assert_eq!(account.security_groups.values().filter(|group| tagged(&group.tags)).count(), 1);
        assert!(account.roles.contains("KarpenterNodeRole-demo"));
    });
    let cluster = aws.describe_cluster("demo").await.unwrap();
    assert_eq!(cluster.version.as_deref(), Some(SANDBOX_KUBERNETES_VERSION));
}

#[tokio::test(start_paused = true)]
async fn the_version_of_the_account_is_that_of_the_sandbox() {
    let server = ApiServer::new(ApiServerConfig::new(Clock::system(), 0));
    let version = server.client().apiserver_version().await.unwrap();
    assert_eq!(format!("{}.{}", version.major, version.minor), SANDBOX_KUBERNETES_VERSION);
}

#[tokio::test(start_paused = true)]
async fn the_account_is_changed_over_http() {
    let aws = memory_aws(Clock::system(), &options("demo"));
    let change = account_change(aws.clone(), "demo".to_owned(), "1.34".to_owned());
    let changes = change(&"sendMessage: hello\npublishImages: {release: '20260115', bottlerocket: 1.53.0}".into());
    assert!(
        changes.as_ref().is_ok_and(|lines| lines.iter().any(|line| line.starts_with("publishImages"))),
        "{changes:?}"
    );
    assert_eq!(aws.queued_messages("demo"), ["hello"]);
    let newest = "/aws/service/eks/optimized-ami/1.34/amazon-linux-2023/x86_64/standard/recommended/image_id";
    assert!(aws.change_account(|account| account.parameters.contains_key(newest)), "the version of the server");
    let mut problems = Vec::new();
    for body in [
        "",
        "reclaim",
        "reclaim: {}",
        "deleteQueue: other\nendZonalShift: us-west-2a",
        "colour: red",
        "tags: {resources: 'x'}",
    ] {
        problems.push(format!("{body:?}: {}", change(&body.into()).unwrap_err().join(" | ")));
    }
    insta::assert_snapshot!(problems.join("\n"));
}

/// Returns the problem of a provider that connects with this function.
async fn connect_problem(connect: Option<ConnectAws>) -> Problem {
    let server = ApiServer::new(ApiServerConfig::new(Clock::system(), 0));
    let (client, clock) = (server.client(), server.clock());
    let parts = CloudParts {
        events: Arc::new(Recorder::new(client.clone(), clock, 0)),
        client,
        clock,
        cluster: SharedCluster::default(),
        registry: Arc::new(Registry::default()),
        sandbox: None,
        ca_bundle: None,
        seed: 0,
    };
    let provider = Ec2Provider::new(AwsSettings::new("demo"), connect);
    provider.cloud(parts).await.err().unwrap()
}

#[tokio::test(start_paused = true)]
async fn a_failed_connection_is_one_problem_with_a_hint() {
    let problem = connect_problem(None).await;
    assert_eq!(problem.to_string(), "--provider aws: this program has no AWS SDK");
    let no_region = connect_problem(Some(|| {
        async { Err(ConnectError::new("no AWS region is configured", "set AWS_REGION")) }.boxed()
    }));
    let problem = no_region.await;
    assert_eq!((problem.to_string().as_str(), problem.hint()), ("no AWS region is configured", Some("set AWS_REGION")));
    let problem = connect_problem(Some(|| std::future::pending().boxed())).await;
    assert_eq!(problem.to_string(), "connecting to AWS took longer than 60 s");
}
