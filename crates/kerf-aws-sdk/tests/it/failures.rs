//! Failed calls as data: what the service answers, and what happens when it does not answer.

use std::time::Duration;

use kerf_aws::ports::ec2::{DescribeInstances, InstanceStateName, RunInstances, RunNetworkInterface, TagSpecification};
use kerf_aws::ports::{AwsError, AwsPorts, Fault, PageRequest};
use kerf_aws_sdk::CallLimits;
use tokio::net::TcpListener;

use crate::canned_server::{CannedServer, Reaction};
use crate::clients::{GENEROUS, ports_at};

const SUBNETS: &str = "<DescribeSubnetsResponse><subnetSet><item><subnetId>subnet-1</subnetId></item></subnetSet>\
                       </DescribeSubnetsResponse>";

/// An error answer of EC2.
macro_rules! ec2_error {
    ($code:literal, $message:literal) => {
        concat!(
            "<?xml version=\"1.0\"?><Response><Errors><Error><Code>",
            $code,
            "</Code><Message>",
            $message,
            "</Message></Error></Errors><RequestID>request-1</RequestID></Response>"
        )
    };
}

async fn describe_subnets(ports: &AwsPorts) -> Result<Vec<String>, AwsError> {
    let page = ports.ec2.describe_subnets(vec![], PageRequest::default()).await?;
    Ok(page.items.into_iter().map(|subnet| subnet.id).collect())
}

/// Returns the outcome of `DescribeSubnets` and the number of requests.
async fn outcome(reactions: Vec<Reaction>) -> (Result<Vec<String>, AwsError>, usize) {
    let server = CannedServer::start(reactions).await;
    let outcome = describe_subnets(&ports_at(&server.endpoint(), GENEROUS)).await;
    let outcome =
        outcome.map_err(|error| AwsError { message: error.message.replace(&server.endpoint(), "ENDPOINT"), ..error });
    (outcome, server.requests().len())
}

/// Returns the failure of calls that always get one reaction.
async fn failure(reaction: Reaction) -> AwsError {
    let (outcome, requests) = outcome(vec![reaction]).await;
    let error = outcome.unwrap_err();
    assert_eq!((error.service, error.operation), ("EC2", "DescribeSubnets"));
    assert_eq!(error.attempts as usize, requests);
    error
}

#[tokio::test]
async fn an_error_of_the_request_is_not_tried_again() {
    let body = ec2_error!("UnauthorizedOperation", "You are not authorized to perform this operation.");
    let error = failure(Reaction::Answer(403, body)).await;
    let message = "You are not authorized to perform this operation.";
    let expected = AwsError {
        request_id: Some("request-1".to_owned()),
        ..AwsError::api("EC2", "DescribeSubnets", 403, "UnauthorizedOperation", message)
    };
    assert_eq!(error, expected);
}

// spec 05 §2: at most three attempts, on throttling codes and server errors
#[tokio::test]
async fn throttling_and_server_errors_are_tried_three_times() {
    let error = failure(Reaction::Answer(503, ec2_error!("RequestLimitExceeded", "Request limit exceeded."))).await;
    assert_eq!((error.code.as_deref(), error.attempts, error.is_retryable), (Some("RequestLimitExceeded"), 3, true));
    let error = failure(Reaction::Answer(400, ec2_error!("Throttling", "Rate exceeded"))).await;
    assert_eq!((error.fault, error.attempts, error.is_retryable), (Fault::Client, 3, true));
    let error = failure(Reaction::Answer(500, ec2_error!("InternalError", "An internal error has occurred"))).await;
    assert_eq!((error.fault, error.attempts, error.is_retryable), (Fault::Server, 3, true));
}

#[tokio::test]
async fn a_call_succeeds_if_a_later_attempt_does() {
    let throttled = Reaction::Answer(503, ec2_error!("RequestLimitExceeded", "Request limit exceeded."));
    let (outcome, requests) = outcome(vec![throttled, Reaction::Close, Reaction::Answer(200, SUBNETS)]).await;
    assert_eq!((outcome, requests), (Ok(vec!["subnet-1".to_owned()]), 3));
}

#[tokio::test]
async fn a_server_error_with_an_html_page_has_a_status_and_no_code() {
    let error = failure(Reaction::Answer(502, "<html><body><h1>502 Bad Gateway</h1></body></html>")).await;
    assert_eq!((error.code.as_deref(), error.http_status, error.fault), (None, Some(502), Fault::Server));
    assert_eq!((error.attempts, error.is_retryable), (3, true));
    assert_eq!(error.message, "the service answered with HTTP status 502 and no error code (ENDPOINT)");
    let error = failure(Reaction::Answer(500, "upstream is down")).await;
    assert_eq!((error.code.as_deref(), error.http_status, error.fault), (None, Some(500), Fault::Server));
    assert!(!error.message.is_empty() && error.is_retryable);
}

#[tokio::test]
async fn an_error_without_a_code_is_classified_by_its_status() {
    for body in ["", "<Response><Errors><Error><Message>odd</Message></Error></Errors></Response>"] {
        let error = failure(Reaction::Answer(400, body)).await;
        assert_eq!((error.code.as_deref(), error.http_status, error.fault), (None, Some(400), Fault::Client), "{body}");
        assert!(!error.message.is_empty() && !error.is_retryable, "{error:?}");
    }
}

#[tokio::test]
async fn an_answer_that_cannot_be_read_is_an_error_that_says_so() {
    for reaction in [
        Reaction::Answer(200, "<DescribeSubnetsResponse><subnetSet><item>"),
        Reaction::Answer(200, "<DescribeSubnetsResponse><subnetSet><item><subnetId"),
        Reaction::Answer(200, "no XML"),
        Reaction::Answer(200, "<html><body>a proxy's page</body></html>"),
        Reaction::Answer(
            200,
            "<DescribeSubnetsResponse><subnetSet><item><availableIpAddressCount>many</availableIpAddressCount></item>\
             </subnetSet></DescribeSubnetsResponse>",
        ),
    ] {
        let error = failure(reaction.clone()).await;
        assert!(error.message.starts_with("the answer cannot be read: "), "{reaction:?} {error:?}");
        assert_eq!((error.code.as_deref(), error.http_status), (None, Some(200)), "{reaction:?}");
        assert!(error.is_retryable, "{reaction:?}");
    }
}

#[tokio::test]
async fn connections_that_close_early_are_tried_three_times() {
    for reaction in [Reaction::Close, Reaction::Truncate(SUBNETS)] {
        let error = failure(reaction.clone()).await;
        assert_eq!((error.attempts, error.is_retryable, error.fault), (3, true, Fault::Unknown), "{reaction:?}");
        assert!(!error.message.is_empty(), "{reaction:?}");
    }
}

#[tokio::test]
async fn an_endpoint_without_a_listener_is_named() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let endpoint = format!("http://{}", listener.local_addr().unwrap());
    drop(listener);
    let error = describe_subnets(&ports_at(&endpoint, GENEROUS)).await.unwrap_err();
    let expected = AwsError {
        attempts: 3,
        ..AwsError::no_answer(
            "EC2",
            "DescribeSubnets",
            format!(
                "no answer from {endpoint}: client error (Connect): tcp connect error: Connection refused (os error 111)"
            ),
        )
    };
    assert_eq!(error, expected);
}

#[tokio::test]
async fn a_connection_that_hangs_is_tried_again_until_the_limits_of_attempt_and_call() {
    let server = CannedServer::start(vec![Reaction::Hang]).await;
    let limits = CallLimits { attempt: Duration::from_millis(100), ..GENEROUS };
    let error = describe_subnets(&ports_at(&server.endpoint(), limits)).await.unwrap_err();
    assert_eq!((error.attempts, error.is_retryable, server.requests().len()), (3, true, 3));
    let begin_of_text = format!("no answer from {}: ", server.endpoint());
    assert!(error.message.starts_with(&begin_of_text) && error.message.contains("100ms"), "{}", error.message);

    let limits = CallLimits { call: Duration::from_millis(100), ..GENEROUS };
    let error = describe_subnets(&ports_at(&server.endpoint(), limits)).await.unwrap_err();
    assert_eq!((error.attempts, error.is_retryable), (1, true));
    assert!(error.message.starts_with(&begin_of_text), "{}", error.message);
}

#[tokio::test]
async fn a_call_after_a_hanging_attempt_succeeds() {
    let server = CannedServer::start(vec![Reaction::Hang, Reaction::Answer(200, SUBNETS)]).await;
    let limits = CallLimits { attempt: Duration::from_secs(1), ..GENEROUS };
    let outcome = describe_subnets(&ports_at(&server.endpoint(), limits)).await;
    assert_eq!(outcome, Ok(vec!["subnet-1".to_owned()]));
}

#[tokio::test]
async fn unknown_values_and_missing_fields_are_no_errors() {
    let body = "<DescribeInstancesResponse><reservationSet><item><instancesSet><item><instanceId>i-1</instanceId>\
                <instanceType>z99.mega</instanceType><instanceState><code>96</code><name>dreaming</name>\
                </instanceState><novelty><a>1</a></novelty></item></instancesSet></item><item/></reservationSet>\
                <nextToken/></DescribeInstancesResponse>";
    let server = CannedServer::start(vec![Reaction::Answer(200, body)]).await;
    let ports = ports_at(&server.endpoint(), GENEROUS);
    let page = ports.ec2.describe_instances(DescribeInstances::default(), PageRequest::default()).await.unwrap();
    assert_eq!((page.items.len(), page.next_token), (1, None));
    let instance = &page.items[0];
    assert_eq!((instance.id.as_str(), instance.instance_type.as_str()), ("i-1", "z99.mega"));
    assert_eq!((instance.state, instance.launched_at), (InstanceStateName::Pending, None));
}

// spec 06 §4.7: the answer to a dry run that passes is an error
#[tokio::test]
async fn a_dry_run_of_run_instances_sends_template_interfaces_and_tags() {
    let body = ec2_error!("DryRunOperation", "Request would have succeeded, but DryRun flag is set.");
    let server = CannedServer::start(vec![Reaction::Answer(412, body)]).await;
    let request = RunInstances {
        template_name: "karpenter.k8s.aws/1".to_owned(),
        instance_type: "m5.large".to_owned(),
        network_interfaces: vec![RunNetworkInterface {
            network_card_index: 0,
            device_index: 1,
            interface_type: Some("efa-only".to_owned()),
            subnet_id: "subnet-1".to_owned(),
        }],
        tags: vec![TagSpecification {
            resource_type: "instance",
            tags: [("Name".to_owned(), "a b".to_owned())].into(),
        }],
        is_dry_run: true,
    };
    let error = ports_at(&server.endpoint(), GENEROUS).ec2.run_instances(request).await.unwrap_err();
    assert_eq!((error.code.as_deref(), error.http_status, error.attempts), (Some("DryRunOperation"), Some(412), 1));
    let request = &server.requests()[0];
    let (_, form) = request.split_once("\r\n\r\n").unwrap();
    let mut parameters: Vec<&str> =
        form.split('&').filter(|parameter| !parameter.starts_with("ClientToken=")).collect();
    parameters.sort_unstable();
    let expected = [
        "Action=RunInstances",
        "DryRun=true",
        "InstanceType=m5.large",
        "LaunchTemplate.LaunchTemplateName=karpenter.k8s.aws%2F1",
        "LaunchTemplate.Version=%24Latest",
        "MaxCount=1",
        "MinCount=1",
        "NetworkInterface.1.DeviceIndex=1",
        "NetworkInterface.1.InterfaceType=efa-only",
        "NetworkInterface.1.NetworkCardIndex=0",
        "NetworkInterface.1.SubnetId=subnet-1",
        "TagSpecification.1.ResourceType=instance",
        "TagSpecification.1.Tag.1.Key=Name",
        "TagSpecification.1.Tag.1.Value=a%20b",
        "Version=2016-11-15",
    ];
    assert_eq!(parameters, expected);
}

#[tokio::test]
async fn errors_of_json_services_are_translated_too() {
    let body = r#"{"__type":"ParameterNotFound"}"#;
    let server = CannedServer::start(vec![Reaction::Answer(400, body)]).await;
    let error = ports_at(&server.endpoint(), GENEROUS).ssm.get_parameter("absent").await.unwrap_err();
    let expected = AwsError::api("SSM", "GetParameter", 400, "ParameterNotFound", "");
    assert_eq!(error, AwsError { request_id: Some("request-1".to_owned()), ..expected });

    let server = CannedServer::start(vec![Reaction::Answer(400, "{")]).await;
    let error = ports_at(&server.endpoint(), GENEROUS).eks.describe_cluster("demo").await.unwrap_err();
    assert_eq!((error.code.as_deref(), error.http_status, error.fault), (None, Some(400), Fault::Client));
}
