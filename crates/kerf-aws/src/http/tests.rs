//! Tests of the answers over HTTP: one snapshot of requests and answers for each service.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::{AUTHORIZATION, CONTENT_TYPE};
use http::{Method, Request};
use kerf_engine::Price;
use kerf_runtime::Rng;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use super::query::Parameters;
use super::{AwsHttp, AwsServer, ec2, iam};
use crate::memory::testing::{SUBNETS, aws, x86_image};
use crate::memory::{Account, AwsFault, AwsFaultRule, EC2_OPERATIONS, IAM_OPERATIONS, MemoryAws};
use crate::ports::ZonalShiftRecord;
use crate::ports::ec2::{Ec2CapacityReservation, InstanceStatus, PlacementGroup, ScheduledEvent, StatusCheck};

const FORM: &str = "application/x-www-form-urlencoded; charset=utf-8";

fn authorization(region: &str, service: &str) -> String {
    format!(
        "AWS4-HMAC-SHA256 Credential=test/20260101/{region}/{service}/aws4_request, SignedHeaders=host, Signature=0"
    )
}

fn signed(service: &str) -> http::request::Builder {
    Request::builder().method(Method::POST).uri("/").header(AUTHORIZATION, authorization("us-west-2", service))
}

fn form(service: &str, version: &str, form: &str) -> Request<Bytes> {
    let body = format!("{form}&Version={version}");
    signed(service).header(CONTENT_TYPE, FORM).body(Bytes::from(body)).unwrap()
}

fn ec2_form(text: &str) -> Request<Bytes> {
    form("ec2", ec2::VERSION, text)
}

fn iam_form(text: &str) -> Request<Bytes> {
    form("iam", iam::VERSION, text)
}

/// Returns status and body of an answer, with one element per line.
async fn answer(aws: &MemoryAws, request: Request<Bytes>) -> String {
    let Some(response) = AwsHttp::new(aws.clone()).respond(request).await else { return "no answer".to_owned() };
    let content_type = response.headers()[CONTENT_TYPE].to_str().unwrap().to_owned();
    let error_type = response.headers().get("x-amzn-errortype").map(|code| format!(" {code:?}")).unwrap_or_default();
    let body = String::from_utf8(response.body().to_vec()).unwrap();
    let body = if ["application/json", "application/x-amz-json-1.1"].contains(&content_type.as_str()) {
        serde_json::to_string_pretty(&serde_json::from_str::<serde_json::Value>(&body).unwrap()).unwrap()
    } else {
        body.replace("><", ">\n<")
    };
    format!("{} {content_type}{error_type}\n{body}\n", response.status().as_u16())
}

/// Returns the status and the error code of an answer.
async fn outcome(aws: &MemoryAws, request: Request<Bytes>) -> String {
    let text = answer(aws, request).await;
    let status = text.split(' ').next().unwrap_or_default().to_owned();
    let between = |begin: &str, end: &str| Some(text.split_once(begin)?.1.split_once(end)?.0.to_owned());
    let code = between("<Code>", "<").or_else(|| between("__type\": \"", "\"")).or_else(|| between(" \"", "\""));
    format!("{status} {}", code.unwrap_or_default())
}

/// Answers all requests one after the other and returns them with their answers.
async fn transcript(aws: &MemoryAws, requests: &[&str], request: impl Fn(&str) -> Request<Bytes>) -> String {
    let mut text = String::new();
    for form in requests {
        text += &["--- ", form, "\n", &answer(aws, request(form)).await].concat();
    }
    text
}

fn actions(requests: &[&str]) -> BTreeSet<String> {
    let action = |form: &&str| form.strip_prefix("Action=").unwrap().split('&').next().unwrap().to_owned();
    requests.iter().map(action).collect()
}

fn template_form(image: &str) -> String {
    let data = format!(
        "ImageId={image}&IamInstanceProfile.Name=p&Monitoring.Enabled=true&UserData=I2EgPCBi&BlockDeviceMapping.1.DeviceName\
         =/dev/xvda&BlockDeviceMapping.1.Ebs.Encrypted=true&BlockDeviceMapping.1.Ebs.VolumeSize=20&BlockDeviceMapping.1.Ebs.\
         VolumeType=gp3&BlockDeviceMapping.1.Ebs.DeleteOnTermination=true&BlockDeviceMapping.1.Ebs.Iops=3000&\
         BlockDeviceMapping.1.Ebs.KmsKeyId=key&BlockDeviceMapping.1.Ebs.SnapshotId=snap-1&BlockDeviceMapping.1.Ebs.\
         Throughput=125&BlockDeviceMapping.1.Ebs.VolumeInitializationRate=100&MetadataOptions.HttpEndpoint=enabled&\
         MetadataOptions.HttpTokens=required&MetadataOptions.HttpPutResponseHopLimit=1&MetadataOptions.HttpProtocolIpv6=\
         disabled&MetadataOptions.InstanceMetadataTags=disabled&CpuOptions.NestedVirtualization=enabled&NetworkInterface.1.\
         DeviceIndex=0&NetworkInterface.1.SecurityGroupId.1=sg-00000000000000002&NetworkInterface.1.\
         AssociatePublicIpAddress=false&NetworkInterface.1.Ipv4PrefixCount=1&NetworkInterface.1.Ipv6PrefixCount=2&\
         NetworkInterface.1.Ipv6AddressCount=3&NetworkInterface.1.PrimaryIpv6=true&NetworkInterface.1.\
         ConnectionTrackingSpecification.TcpEstablishedTimeout=300&NetworkInterface.1.ConnectionTrackingSpecification.\
         UdpStreamTimeout=60&NetworkInterface.1.ConnectionTrackingSpecification.UdpTimeout=30&NetworkInterface.2.\
         NetworkCardIndex=1&NetworkInterface.2.DeviceIndex=1&NetworkInterface.2.InterfaceType=efa-only&TagSpecification.1.\
         ResourceType=network-interface&TagSpecification.1.Tag.1.Key=team&TagSpecification.1.Tag.1.Value=a&Placement.\
         Tenancy=dedicated&Placement.GroupId=pg-1&Placement.PartitionNumber=2&EnclaveOptions.Enabled=true&\
         CapacityReservationSpecification.CapacityReservationPreference=capacity-reservations-only&\
         CapacityReservationSpecification.CapacityReservationTarget.CapacityReservationId=cr-1&InstanceMarketOptions.\
         MarketType=capacity-block"
    );
    let data = data.replace('&', "&LaunchTemplateData.");
    format!("Action=CreateLaunchTemplate&LaunchTemplateName=all&LaunchTemplateData.{data}")
}

#[test]
fn every_member_of_a_launch_template_is_read() {
    let parameters = Parameters::parse(&template_form("ami-1"), &http::HeaderMap::new(), b"").unwrap();
    let data = parameters.read(|query| {
        query.text("LaunchTemplateName");
        query.object("LaunchTemplateData", ec2::template_data::read_template_data)
    });
    insta::assert_debug_snapshot!(data.unwrap().unwrap());
}

fn add_reservation_and_group(account: &mut Account) {
    let reservation = Ec2CapacityReservation {
        id: "cr-1".to_owned(),
        owner_id: account.account_id.clone(),
        instance_type: "m5.large".to_owned(),
        zone: "us-west-2a".to_owned(),
        zone_id: "usw2-az1".to_owned(),
        state: "active".to_owned(),
        instance_match_criteria: "targeted".to_owned(),
        reservation_type: "default".to_owned(),
        total_instance_count: 3,
        available_instance_count: 2,
        ends_at: "2026-02-01T00:00:00Z".parse().ok(),
        tags: [("team".to_owned(), "a".to_owned())].into(),
        ..Ec2CapacityReservation::default()
    };
    account.capacity_reservations.insert(reservation.id.clone(), reservation);
    let group = PlacementGroup {
        id: "pg-1".to_owned(),
        name: "racks".to_owned(),
        state: "available".to_owned(),
        strategy: "spread".to_owned(),
        spread_level: Some("rack".to_owned()),
        ..PlacementGroup::default()
    };
    account.placement_groups.insert(group.id.clone(), group);
}

#[tokio::test(start_paused = true)]
async fn answers_of_ec2() {
    let aws = aws();
    let image = x86_image(&aws);
    let create_template = format!(
        "Action=CreateLaunchTemplate&LaunchTemplateName=demo&ClientToken=t&TagSpecification.1.ResourceType=launch-template&\
         TagSpecification.1.Tag.1.Key=a&TagSpecification.1.Tag.1.Value=%3Cb%3E&LaunchTemplateData.ImageId={image}&\
         LaunchTemplateData.SecurityGroupId.1=sg-00000000000000002"
    );
    let create_fleet = format!(
        "Action=CreateFleet&Type=instant&TargetCapacitySpecification.TotalTargetCapacity=1&TargetCapacitySpecification.\
         DefaultTargetCapacityType=spot&SpotOptions.AllocationStrategy=price-capacity-optimized&LaunchTemplateConfigs.1.\
         LaunchTemplateSpecification.LaunchTemplateName=demo&LaunchTemplateConfigs.1.LaunchTemplateSpecification.Version=\
         %24Latest&LaunchTemplateConfigs.1.Overrides.1.InstanceType=m6g.large&LaunchTemplateConfigs.1.Overrides.1.SubnetId=\
         {subnet}&LaunchTemplateConfigs.1.Overrides.1.Priority=0.1&LaunchTemplateConfigs.1.Overrides.2.InstanceType=m5.\
         large&LaunchTemplateConfigs.1.Overrides.2.SubnetId={subnet}&LaunchTemplateConfigs.1.Overrides.2.ImageId={image}&\
         LaunchTemplateConfigs.1.Overrides.2.AvailabilityZone=us-west-2a&TagSpecification.1.ResourceType=instance&\
         TagSpecification.1.Tag.1.Key=karpenter.sh/nodepool&TagSpecification.1.Tag.1.Value=default",
        subnet = SUBNETS[0]
    );
    aws.change_account(add_reservation_and_group);
    aws.change_market(|market| {
        market.set_on_demand_price("m5.large", Price::from_decimal("0.096").unwrap());
    });
    let before = [
        "Action=DescribeRegions",
        "Action=DescribeAvailabilityZones",
        "Action=DescribeInstanceTypes&MaxResults=5&Filter.1.Name=instance-type&Filter.1.Value.1=m5.large",
        "Action=DescribeInstanceTypeOfferings&LocationType=availability-zone&MaxResults=5",
        "Action=DescribeSubnets&Filter.1.Name=tag%3Akarpenter.sh%2Fdiscovery&Filter.1.Value.1=d%2A&Filter.2.Name=\
         availability-zone&Filter.2.Value.1=us-west-2a",
        "Action=DescribeSecurityGroups&Filter.1.Name=group-name&Filter.1.Value.1=demo-node",
        &format!("Action=DescribeImages&IncludeDeprecated=true&Filter.1.Name=image-id&Filter.1.Value.1={image}"),
        "Action=DescribeCapacityReservations&Filter.1.Name=state&Filter.1.Value.1=active&MaxResults=1000",
        "Action=DescribePlacementGroups&GroupName.1=racks",
        "Action=DescribeSpotPriceHistory&ProductDescription.1=Linux%2FUNIX&StartTime=2026-01-01T00%3A00%3A00Z&MaxResults=1",
        &create_template,
        "Action=DescribeLaunchTemplates&LaunchTemplateName.1=demo",
        &create_fleet,
    ];
    let mut text = transcript(&aws, &before, ec2_form).await;
    let id = aws.instances()[0].instance.id.clone();
    aws.run_pending_instances();
    aws.set_instance_status(impaired(&id));
    let after = [
        &format!("Action=CreateTags&ResourceId.1={id}&Tag.1.Key=Name&Tag.1.Value=first"),
        &format!("Action=DescribeInstances&InstanceId.1={id}"),
        "Action=DescribeInstanceStatus&Filter.1.Name=instance-status.status&Filter.1.Value.1=impaired",
        &format!("Action=TerminateInstances&InstanceId.1={id}"),
        &format!(
            "Action=RunInstances&MinCount=1&MaxCount=1&ClientToken=u&LaunchTemplate.LaunchTemplateName=demo&LaunchTemplate.\
             Version=%24Latest&InstanceType=m5.large&NetworkInterface.1.DeviceIndex=0&NetworkInterface.1.SubnetId={}",
            SUBNETS[1]
        ),
        "Action=DeleteLaunchTemplate&LaunchTemplateName=demo",
        "Action=DeleteLaunchTemplate&LaunchTemplateName=demo",
    ];
    text += &transcript(&aws, &after, ec2_form).await;
    insta::assert_snapshot!(text);
    let mut called = actions(&before);
    called.extend(actions(&after));
    assert_eq!(called, EC2_OPERATIONS.map(str::to_owned).into(), "every operation has a snapshot");
    let calls: Vec<&str> = aws.calls().iter().map(|call| call.operation).collect();
    assert_eq!(calls.len(), before.len() + after.len(), "each request is one call: {calls:?}");
}

fn impaired(id: &str) -> InstanceStatus {
    let check = |status: &str| StatusCheck {
        name: "reachability".into(),
        status: status.into(),
        impaired_since: Some("2026-01-01T00:00:00Z".parse().unwrap()),
    };
    InstanceStatus {
        instance_id: id.to_owned(),
        instance_checks: vec![check("failed")],
        system_checks: vec![check("passed")],
        ebs_checks: Vec::new(),
        events: vec![ScheduledEvent { code: "instance-stop".into(), description: "maintenance".into() }],
    }
}

#[tokio::test(start_paused = true)]
async fn answers_of_iam() {
    let aws = aws();
    let requests = [
        "Action=CreateInstanceProfile&InstanceProfileName=p&Path=%2Fkarpenter%2F&Tags.member.1.Key=a&Tags.member.1.Value=1",
        "Action=AddRoleToInstanceProfile&InstanceProfileName=p&RoleName=KarpenterNodeRole-demo",
        "Action=GetInstanceProfile&InstanceProfileName=p",
        "Action=ListInstanceProfiles&PathPrefix=%2Fkarpenter%2F",
        "Action=RemoveRoleFromInstanceProfile&InstanceProfileName=p&RoleName=KarpenterNodeRole-demo",
        "Action=DeleteInstanceProfile&InstanceProfileName=p",
        "Action=DeleteInstanceProfile&InstanceProfileName=p",
    ];
    insta::assert_snapshot!(transcript(&aws, &requests, iam_form).await);
    assert_eq!(actions(&requests), IAM_OPERATIONS.map(str::to_owned).into(), "every operation has a snapshot");
}

#[tokio::test(start_paused = true)]
async fn answers_of_ssm_eks_and_sts() {
    let aws = aws();
    aws.change_account(|account| account.clusters.get_mut("demo").unwrap().certificate_authority = Some("Q0E=".into()));
    let parameter = |name: &str| {
        let body = serde_json::json!({ "Name": name }).to_string();
        let request = signed("ssm").header("x-amz-target", "AmazonSSM.GetParameter");
        request.header(CONTENT_TYPE, "application/x-amz-json-1.1").body(Bytes::from(body)).unwrap()
    };
    let cluster = |name: &str| {
        let header = authorization("us-west-2", "eks");
        let request = Request::get(format!("/clusters/{name}")).header(AUTHORIZATION, header);
        request.body(Bytes::new()).unwrap()
    };
    let image = "/aws/service/eks/optimized-ami/1.34/amazon-linux-2023/x86_64/standard/recommended/image_id";
    let mut text = transcript(&aws, &[image, "/absent"], parameter).await;
    text += &transcript(&aws, &["demo", "de%20mo"], cluster).await;
    text += &transcript(&aws, &["Action=GetCallerIdentity"], |text| form("sts", super::sts::VERSION, text)).await;
    insta::assert_snapshot!(text);
}

fn get_products(body: &str) -> Request<Bytes> {
    let request = Request::post("/").header(AUTHORIZATION, authorization("us-east-1", "pricing"));
    let request = request.header("x-amz-target", "AWSPriceListService.GetProducts");
    request.header(CONTENT_TYPE, "application/x-amz-json-1.1").body(Bytes::from(body.to_owned())).unwrap()
}

fn managed_resource(path: &str) -> Request<Bytes> {
    let header = authorization("us-west-2", "arc-zonal-shift");
    Request::get(format!("/managedresources{path}")).header(AUTHORIZATION, header).body(Bytes::new()).unwrap()
}

#[tokio::test(start_paused = true)]
async fn answers_of_pricing_and_zonal_shift() {
    let aws = aws();
    aws.change_market(|market| market.set_on_demand_price("m5.large", Price::from_decimal("0.096").unwrap()));
    let arn = "arn:aws:eks:us-west-2:111122223333:cluster/demo";
    let shift = ZonalShiftRecord {
        id: "shift-1".to_owned(),
        away_from: "usw2-az2".to_owned(),
        applied_status: "APPLIED".to_owned(),
        started_at: "2026-01-01T00:00:00.25Z".parse().ok(),
        expires_at: "2026-01-02T00:00:00Z".parse().ok(),
    };
    aws.change_account(|account| account.zonal_shifts.insert(arn.to_owned(), vec![shift]));
    let products = [
        r#"{"ServiceCode":"AmazonEC2","Filters":[{"Type":"TERM_MATCH","Field":"regionCode","Value":"us-west-2"}],"MaxResults":100}"#,
        r#"{"ServiceCode":"AmazonEC2","FormatVersion":"aws_v1","MaxResults":1000}"#,
    ];
    let mut text = transcript(&aws, &products, get_products).await;
    let arns = ["/arn%3Aaws%3Aeks%3Aus-west-2%3A111122223333%3Acluster%2Fdemo", "/arn%3Aabsent"];
    text += &transcript(&aws, &arns, managed_resource).await;
    insta::assert_snapshot!(text);
}

#[tokio::test(start_paused = true)]
async fn requests_without_valid_credentials_get_the_error_of_the_service() {
    let aws = aws();
    let unsigned = |path: &str, target: Option<&str>, body: &str| {
        let mut request = Request::post(path).header(CONTENT_TYPE, FORM);
        if let Some(target) = target {
            request = request.header("x-amz-target", target);
        }
        request.body(Bytes::from(body.to_owned())).unwrap()
    };
    let elsewhere = |service: &str| {
        let request = Request::post("/").header(AUTHORIZATION, authorization("eu-west-1", service));
        request.header(CONTENT_TYPE, FORM).body(Bytes::from("Action=DescribeSubnets&Version=2016-11-15")).unwrap()
    };
    for (request, expected) in [
        (unsigned("/", None, "Action=DescribeSubnets&Version=2016-11-15"), "401 AuthFailure"),
        (unsigned("/", None, "Action=GetInstanceProfile&Version=2010-05-08"), "403 MissingAuthenticationToken"),
        (unsigned("/", None, "Action=GetCallerIdentity&Version=2011-06-15"), "403 MissingAuthenticationToken"),
        (unsigned("/", Some("AmazonSSM.GetParameter"), "{}"), "400 MissingAuthenticationTokenException"),
        (unsigned("/", Some("AWSPriceListService.GetProducts"), "{}"), "400 MissingAuthenticationTokenException"),
        (unsigned("/clusters/demo", None, ""), "403 MissingAuthenticationTokenException"),
        (unsigned("/managedresources/arn", None, ""), "403 MissingAuthenticationTokenException"),
        (elsewhere("ec2"), "401 AuthFailure"),
        (elsewhere("ssm"), "400 InvalidSignatureException"),
        (elsewhere("eks"), "403 InvalidSignatureException"),
        (elsewhere("autoscaling"), "400 InvalidAction"),
        // The price list of us-west-2 is in us-east-1.
        (signed("pricing").body(Bytes::from("{}")).unwrap(), "400 InvalidSignatureException"),
        (elsewhere("arc-zonal-shift"), "403 InvalidSignatureException"),
        (signed("dynamodb").body(Bytes::from("{}")).unwrap(), "400 UnknownOperationException"),
    ] {
        assert_eq!(outcome(&aws, request).await, expected);
    }
    assert_eq!(aws.calls().len(), 14, "rejected requests are recorded");
    let presigned = "/?Action=GetCallerIdentity&Version=2011-06-15&X-Amz-Credential=test%2F20260101%2Fus-east-1%2Fsts%2Faws4_request&\
         X-Amz-Signature=0";
    assert_eq!(outcome(&aws, Request::get(presigned).body(Bytes::new()).unwrap()).await, "200 ");
}

#[tokio::test(start_paused = true)]
async fn requests_that_cannot_be_read_are_errors_and_change_nothing() {
    let aws = aws();
    let ssm = |target: &str, body: &str| {
        signed("ssm").header("x-amz-target", target).body(Bytes::from(body.to_owned())).unwrap()
    };
    let eks = |path: &str| {
        let request = Request::get(path).header(AUTHORIZATION, authorization("us-west-2", "eks"));
        request.body(Bytes::new()).unwrap()
    };
    for (request, expected) in [
        (ec2_form(""), "400 MissingAction"),
        (ec2_form("Action=StopInstances"), "400 InvalidAction"),
        (ec2_form("Action=RunInstances&MinCount=1&MaxCount=2"), "400 InvalidParameterValue"),
        (ec2_form("Action=RunInstances&MinCount=1&MaxCount=1&InstanceType=m5.large"), "400 MissingParameter"),
        (iam_form("Action=CreateUser"), "400 InvalidAction"),
        (form("ec2", "2014-01-01", "Action=DescribeSubnets"), "400 NoSuchVersion"),
        (ec2_form("Action=DescribeSubnets&Colour=red"), "400 UnknownParameter"),
        (ec2_form("Action=DescribeSubnets&MaxResults=many"), "400 InvalidParameterValue"),
        (ec2_form("Action=DescribeSubnets&MaxResults=%zz"), "400 MalformedQueryString"),
        (ec2_form("Action=DescribeSubnets&SubnetId.1=subnet-%2A"), "400 InvalidSubnetID.NotFound"),
        (ec2_form("Action=DescribeSecurityGroups&GroupId.1=sg-1"), "400 InvalidGroup.NotFound"),
        (ec2_form("Action=DescribeImages&ImageId.1=ami-1"), "400 InvalidAMIID.NotFound"),
        (ec2_form("Action=DescribeInstanceTypes&InstanceType.1=m5.large&InstanceType.2=x"), "400 InvalidInstanceType"),
        (ec2_form("Action=DescribeSubnets&DryRun=true"), "412 DryRunOperation"),
        (ec2_form("Action=DescribeInstanceTypes&DryRun=true"), "412 DryRunOperation"),
        (ec2_form("Action=DescribeInstanceTypeOfferings"), "400 InvalidParameterValue"),
        (ec2_form("Action=CreateLaunchTemplate&LaunchTemplateName=demo"), "400 MissingParameter"),
        (ec2_form("Action=DeleteLaunchTemplate"), "400 MissingParameter"),
        (
            ec2_form("Action=DeleteLaunchTemplate&LaunchTemplateId=lt-1&LaunchTemplateName=demo"),
            "400 InvalidParameterCombination",
        ),
        (ec2_form("Action=CreateFleet&Type=instant"), "400 MissingParameter"),
        (ec2_form("Action=CreateFleet&TargetCapacitySpecification.TotalTargetCapacity=1"), "400 InvalidParameterValue"),
        (
            ec2_form(
                "Action=CreateLaunchTemplate&LaunchTemplateName=demo&LaunchTemplateData.ImageId=ami-1&TagSpecification.1.\
                 ResourceType=instance",
            ),
            "400 InvalidParameterValue",
        ),
        (
            ec2_form("Action=CreateFleet&Type=instant&ReservedCapacityOptions.ReservationType.1=capacity-block"),
            "400 InvalidParameterValue",
        ),
        (ssm("AmazonSSM.GetParameters", "{}"), "400 UnknownOperationException"),
        (ssm("AmazonSSM.GetParameter", "{"), "400 SerializationException"),
        (ssm("AmazonSSM.GetParameter", "{\"Name\":\"x\",\"Colour\":1}"), "400 SerializationException"),
        (get_products("{"), "400 SerializationException"),
        (get_products("{\"ServiceCode\":\"AmazonEC2\",\"Colour\":1}"), "400 SerializationException"),
        (get_products("{\"ServiceCode\":\"AmazonEC2\",\"FormatVersion\":\"v2\"}"), "400 InvalidParameterException"),
        (
            get_products("{\"ServiceCode\":\"A\",\"Filters\":[{\"Type\":\"EQUALS\",\"Field\":\"a\",\"Value\":\"b\"}]}"),
            "400 InvalidParameterException",
        ),
        (managed_resource(""), "404 UnknownOperationException"),
        (managed_resource("/a/b"), "404 UnknownOperationException"),
        (managed_resource("/%ff"), "400 ValidationException"),
        (ec2_form("Action=DescribeSpotPriceHistory&StartTime=today"), "400 InvalidParameterValue"),
        (ec2_form("Action=DescribePlacementGroups&GroupName.1=absent"), "400 InvalidPlacementGroup.Unknown"),
        (eks("/clusters"), "404 UnknownOperationException"),
        (eks("/clusters/a/nodegroups"), "404 UnknownOperationException"),
        (eks("/clusters/%ff"), "400 InvalidParameterException"),
    ] {
        let path_and_query = request.uri().clone();
        let body = request.body().clone();
        assert_eq!(outcome(&aws, request).await, expected, "{path_and_query} {body:?}");
    }
    assert_eq!(aws.instances().len(), 0);
}

#[tokio::test(start_paused = true)]
async fn resources_are_found_by_id() {
    let aws = aws();
    let image = x86_image(&aws);
    for (request, element, count) in [
        (format!("Action=DescribeSubnets&SubnetId.1={}&SubnetId.2={}", SUBNETS[0], SUBNETS[2]), "<subnetId>", 2),
        ("Action=DescribeSecurityGroups&GroupId.1=sg-00000000000000002".to_owned(), "<groupId>", 1),
        (format!("Action=DescribeImages&ImageId.1={image}"), "<imageId>", 1),
        ("Action=DescribeInstanceTypes&InstanceType.1=m5.large".to_owned(), "<instanceType>", 1),
    ] {
        assert_eq!(answer(&aws, ec2_form(&request)).await.matches(element).count(), count, "{request}");
    }
}

#[tokio::test(start_paused = true)]
async fn faults_become_answers_of_the_service() {
    let aws = aws();
    let subnets = || ec2_form("Action=DescribeSubnets");
    aws.set_faults(vec![
        AwsFaultRule::once("DescribeSubnets", AwsFault::Throttled),
        AwsFaultRule::once("DescribeSubnets", AwsFault::LostAnswer),
        AwsFaultRule::once("DescribeSubnets", AwsFault::Delayed { by: Duration::from_secs(5) }),
        AwsFaultRule::once("GetInstanceProfile", AwsFault::Throttled),
    ]);
    assert_eq!(outcome(&aws, subnets()).await, "503 RequestLimitExceeded");
    assert!(AwsHttp::new(aws.clone()).respond(subnets()).await.is_none());
    let begin = aws.clock().now();
    assert_eq!(outcome(&aws, subnets()).await, "200 ");
    assert_eq!(aws.clock().now().duration_since(begin).as_secs(), 5);
    assert_eq!(outcome(&aws, iam_form("Action=GetInstanceProfile&InstanceProfileName=p")).await, "400 Throttling");
    let statuses: Vec<Option<u16>> = aws.calls().iter().map(|call| call.status).collect();
    assert_eq!(statuses, [Some(503), None, Some(200), Some(400)]);
}

#[tokio::test(start_paused = true)]
async fn an_answer_has_the_request_id_of_its_own_call() {
    let aws = aws();
    let front = AwsHttp::new(aws.clone());
    let id_of = |response: http::Response<Bytes>| response.headers()["x-amzn-requestid"].to_str().unwrap().to_owned();
    aws.set_faults(vec![AwsFaultRule::once("DescribeRegions", AwsFault::Delayed { by: Duration::from_secs(5) })]);
    let (regions, subnets) = tokio::join!(
        front.respond(ec2_form("Action=DescribeRegions")),
        front.respond(ec2_form("Action=DescribeSubnets&Colour=red")),
    );
    let calls: Vec<(String, String)> =
        aws.calls().into_iter().map(|call| (call.operation.to_owned(), call.request_id)).collect();
    let expected = [
        ("DescribeSubnets".to_owned(), id_of(subnets.unwrap())),
        ("DescribeRegions".to_owned(), id_of(regions.unwrap())),
    ];
    assert_eq!(calls, expected);
}

#[tokio::test(start_paused = true)]
async fn tests_can_read_instances_and_calls() {
    let aws = aws();
    let image = x86_image(&aws);
    let get = |path: &str| Request::get(path).body(Bytes::new()).unwrap();
    let requests = [
        format!(
            "Action=CreateLaunchTemplate&LaunchTemplateName=demo&LaunchTemplateData.ImageId={image}&LaunchTemplateData.\
             UserData=I2EgPCBi"
        ),
        format!(
            "Action=CreateFleet&Type=instant&TargetCapacitySpecification.TotalTargetCapacity=1&LaunchTemplateConfigs.1.\
             LaunchTemplateSpecification.LaunchTemplateName=demo&LaunchTemplateConfigs.1.LaunchTemplateSpecification.\
             Version=1&LaunchTemplateConfigs.1.Overrides.1.InstanceType=m5.large&LaunchTemplateConfigs.1.Overrides.1.\
             SubnetId={}",
            SUBNETS[0]
        ),
        "Action=DescribeInstances&InstanceId.1=x".to_owned(),
    ];
    for request in &requests {
        outcome(&aws, ec2_form(request)).await;
    }
    assert_eq!(answer(&aws, get("/kerf/instances")).await, "200 application/json\n[]\n", "it is still pending");
    tokio::time::advance(Duration::from_secs(10)).await;
    let instances = answer(&aws, get("/kerf/instances")).await;
    let calls = answer(&aws, get("/kerf/calls")).await;
    insta::assert_snapshot!(format!("{instances}{calls}"));
    assert!(answer(&aws, get("/kerf/x")).await.starts_with("404 "));
    let change = Request::post("/kerf/aws").body(Bytes::from("reclaim: {}")).unwrap();
    assert!(answer(&aws, change).await.starts_with("404 "), "no function changes the account");
}

#[tokio::test(start_paused = true)]
async fn tests_can_change_the_account() {
    let aws = aws();
    let account = aws.clone();
    let front = AwsHttp::new(aws).with_account_change(Arc::new(move |body| {
        if body != "away: demo" {
            return Err(vec!["away: is missing".to_owned(), "x: is unknown".to_owned()]);
        }
        account.change_account(|account| account.clusters.clear());
        Ok(vec!["away: demo is deleted".to_owned()])
    }));
    let describe = || signed("eks").method(Method::GET).uri("/clusters/demo").body(Bytes::new()).unwrap();
    let mut statuses = Vec::new();
    for body in ["away: other", "away: demo"] {
        let answer = front.respond(Request::post("/kerf/aws").body(Bytes::from(body)).unwrap()).await.unwrap();
        let cluster = front.respond(describe()).await.unwrap();
        let text = String::from_utf8(answer.body().to_vec()).unwrap();
        statuses.push((answer.status().as_u16(), text, cluster.status().as_u16()));
    }
    let changes = "{\"changes\":[\"away: demo is deleted\"]}\n".to_owned();
    let expected = [(400, "away: is missing\nx: is unknown\n".to_owned(), 200), (200, changes, 404)];
    assert_eq!(statuses, expected);
}

async fn exchange(server: &AwsServer, request: &str) -> String {
    let mut stream = TcpStream::connect(server.address()).await.unwrap();
    // The server may close the connection before it has read everything.
    let _ = stream.write_all(request.as_bytes()).await;
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer).await;
    String::from_utf8(answer).unwrap()
}

#[tokio::test]
async fn the_listener_answers_closes_lost_answers_and_bounds_bodies() {
    let aws = aws();
    aws.set_faults(vec![AwsFaultRule::once("DescribeRegions", AwsFault::LostAnswer)]);
    let server = AwsServer::bind(aws.clone(), 0).await.unwrap();
    assert!(server.endpoint().starts_with("http://127.0.0.1:"));
    let head = format!(
        "Host: x\r\nConnection: close\r\nAuthorization: {}\r\nContent-Type: {FORM}\r\n",
        authorization("us-west-2", "ec2")
    );
    let body = format!("Action=DescribeRegions&Version={}", ec2::VERSION);
    let request = format!("POST / HTTP/1.1\r\n{head}Content-Length: {}\r\n\r\n{body}", body.len());
    assert_eq!(exchange(&server, &request).await, "", "the answer is lost");
    let answer = exchange(&server, &request).await;
    assert!(answer.starts_with("HTTP/1.1 200 OK\r\n") && answer.contains("us-west-2"), "{answer}");
    let size = (1 << 20) + 1;
    let large = format!("POST / HTTP/1.1\r\n{head}Content-Length: {size}\r\n\r\n{}", "a".repeat(size));
    assert!(exchange(&server, &large).await.starts_with("HTTP/1.1 413 "));
    assert!(exchange(&server, "nonsense\r\n\r\n").await.starts_with("HTTP/1.1 400 "));
    let address = server.address();
    server.shutdown().await;
    assert!(TcpStream::connect(address).await.is_err());
    assert_eq!(aws.calls().len(), 2);
}

#[tokio::test(start_paused = true)]
async fn connections_without_a_complete_request_are_closed() {
    let aws = aws();
    let server = AwsServer::bind(aws.clone(), 0).await.unwrap();
    let head = "POST / HTTP/1.1\r\nHost: x\r\n";
    for request in ["", head, &format!("{head}Content-Length: 10\r\n\r\nAction")] {
        assert_eq!(exchange(&server, request).await, "", "{request}");
    }
    assert_eq!(aws.calls(), []);
}

#[tokio::test(start_paused = true)]
async fn every_request_gets_an_answer() {
    const PARTS: [&str; 24] = [
        "Action=",
        "DescribeSubnets",
        "CreateFleet",
        "CreateLaunchTemplate",
        "DescribeInstances",
        "&",
        "&",
        "=",
        ".",
        ".1",
        ".0",
        ".99999999999",
        "%",
        "%4",
        "%41",
        "+",
        "\0",
        "ü",
        "Filter",
        "Name",
        "Value",
        "LaunchTemplateData",
        "Overrides",
        "X-Amz-Credential=a/b/us-west-2/ec2/aws4_request&",
    ];
    let (aws, mut rng) = (aws(), Rng::new(1));
    let mut codes = BTreeSet::new();
    for _ in 0..3_000 {
        let length = rng.next_u64() % 20;
        let form: String = (0..length).map(|_| PARTS[(rng.next_u64() % PARTS.len() as u64) as usize]).collect();
        let services = ["ec2", "iam", "sts", "ssm", "sqs", "eks", "pricing", "arc-zonal-shift", "other"];
        let service = services[(rng.next_u64() % services.len() as u64) as usize];
        let prefix =
            ["", "Action=DescribeSubnets&", "Action=GetInstanceProfile&", "{\"Name\":"][(rng.next_u64() % 4) as usize];
        codes.insert(outcome(&aws, self::form(service, ec2::VERSION, &format!("{prefix}{form}"))).await);
    }
    let expected = ["400 InvalidAction", "400 MalformedQueryString", "400 NoSuchVersion", "400 UnknownParameter"];
    assert!(expected.iter().all(|code| codes.contains(*code)), "{codes:?}");
    assert!(codes.iter().all(|code| !code.starts_with('5') && !code.starts_with("no")), "{codes:?}");
}
