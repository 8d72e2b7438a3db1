//! Fleets: strategies, errors of overrides, and what an instance gets.

use super::super::testing::{SUBNETS, aws, aws_with, fleet, on_demand, spot, template};
use super::super::{AwsFault, AwsFaultRule, MemoryAws, MemorySettings};
use super::*;
use crate::ports::ec2::{FleetConfig, InstanceTypeOffering};
use crate::ports::{CreateInstanceProfile, Ec2 as _, Iam as _};

fn price(dollars: &str) -> Price {
    Price::from_decimal(dollars).unwrap()
}

async fn aws_with_template() -> MemoryAws {
    let aws = aws();
    aws.create_launch_template(template(&aws, "demo")).await.unwrap();
    aws
}

/// Returns the launched (type, zone, count) and the errors (type, zone, code) of an answer.
/// Code, instance type and subnet or zone of an error.
type ErrorSummary<'a> = (&'a str, &'a str, &'a str);

fn outcome(answer: &FleetAnswer) -> (Vec<(&str, &str, usize)>, Vec<ErrorSummary<'_>>) {
    let launched = |own: &'_ FleetInstance| own.ids.len();
    let instances =
        answer.instances.iter().map(|own| (own.instance_type.as_str(), own.zone.as_str(), launched(own))).collect();
    let errors = answer
        .errors
        .iter()
        .map(|error| (error.instance_type.as_deref().unwrap(), error.zone.as_deref().unwrap(), error.code.as_str()));
    (instances, errors.collect())
}

#[tokio::test(start_paused = true)]
async fn on_demand_takes_the_lowest_price_and_spot_the_deepest_pool_first() {
    let aws = aws_with_template().await;
    aws.change_market(|market| {
        market.set_on_demand_price("m5.large", price("0.096"));
        market.set_on_demand_price("m5.xlarge", price("0.192"));
        market.set_spot_price("m5.xlarge", "us-west-2b", price("0.05"));
        market.set_stock(CapacityPool::new("m5.xlarge", "us-west-2b", "spot"), Stock::Limited(5));
    });
    let overrides = [("m5.xlarge", SUBNETS[1]), ("m5.large", SUBNETS[0])];
    let answer = aws.create_fleet(fleet(1, on_demand(), "demo", &overrides)).await.unwrap();
    assert_eq!(outcome(&answer), (vec![("m5.large", "us-west-2a", 1)], vec![]));
    let answer = aws.create_fleet(fleet(1, spot(), "demo", &overrides)).await.unwrap();
    assert_eq!(outcome(&answer), (vec![("m5.large", "us-west-2a", 1)], vec![]), "the cheaper pool is shallow");
    let lowest = FleetTarget::Spot { allocation_strategy: "lowest-price".into() };
    let answer = aws.create_fleet(fleet(1, lowest, "demo", &overrides)).await.unwrap();
    assert_eq!(outcome(&answer), (vec![("m5.xlarge", "us-west-2b", 1)], vec![]));
    assert_eq!(answer.instances[0].lifecycle, "spot");
}

// spec 05 #111
#[tokio::test(start_paused = true)]
async fn prioritized_follows_the_priorities() {
    let aws = aws_with_template().await;
    aws.change_market(|market| market.set_on_demand_price("m5.large", price("0.096")));
    let prioritized = FleetTarget::OnDemand { allocation_strategy: "prioritized".into() };
    let mut request = fleet(1, prioritized, "demo", &[("m5.large", SUBNETS[0]), ("m5.xlarge", SUBNETS[0])]);
    request.configs[0].overrides[0].priority = Some(0.2);
    request.configs[0].overrides[1].priority = Some(0.1);
    let answer = aws.create_fleet(request.clone()).await.unwrap();
    assert_eq!(outcome(&answer).0, [("m5.xlarge", "us-west-2a", 1)]);
    let optimized = FleetTarget::Spot { allocation_strategy: "capacity-optimized-prioritized".into() };
    let answer = aws.create_fleet(CreateFleet { target: optimized, ..request.clone() }).await.unwrap();
    assert_eq!(outcome(&answer).0, [("m5.xlarge", "us-west-2a", 1)]);
    let unknown = FleetTarget::OnDemand { allocation_strategy: "cheapest".into() };
    let error = aws.create_fleet(CreateFleet { target: unknown, ..request }).await.unwrap_err();
    assert!(error.has_code("InvalidParameterValue"), "{error}");
}

#[tokio::test(start_paused = true)]
async fn a_fleet_that_runs_out_of_stock_reports_instances_and_errors() {
    let aws = aws_with_template().await;
    let pool = |zone: &str| CapacityPool::new("m5.large", zone, "on-demand");
    aws.change_market(|market| {
        market.set_stock(pool("us-west-2a"), Stock::Insufficient);
        market.set_stock(pool("us-west-2b"), Stock::Limited(2));
    });
    let overrides = SUBNETS.map(|subnet| ("m5.large", subnet));
    let answer = aws.create_fleet(fleet(3, on_demand(), "demo", &overrides)).await.unwrap();
    let ice = "InsufficientInstanceCapacity";
    assert_eq!(
        outcome(&answer),
        (
            vec![("m5.large", "us-west-2b", 2), ("m5.large", "us-west-2c", 1)],
            vec![("m5.large", "us-west-2a", ice), ("m5.large", "us-west-2b", ice)]
        )
    );
    let answer = aws.create_fleet(fleet(1, on_demand(), "demo", &overrides[..2])).await.unwrap();
    assert_eq!(outcome(&answer).1.len(), 2, "the two are taken");
    assert_eq!(answer.instances, []);
}

// spec 05 #74
#[tokio::test(start_paused = true)]
async fn a_full_subnet_is_an_error_and_terminated_instances_free_their_addresses() {
    let aws = aws_with_template().await;
    aws.change_account(|account| account.subnets.get_mut(SUBNETS[0]).unwrap().available_ip_count = 1);
    let request = fleet(2, on_demand(), "demo", &[("m5.large", SUBNETS[0])]);
    let answer = aws.create_fleet(request.clone()).await.unwrap();
    let full = ("m5.large", "us-west-2a", "InsufficientFreeAddressesInSubnet");
    assert_eq!(outcome(&answer), (vec![("m5.large", "us-west-2a", 1)], vec![full]));
    aws.terminate_instances(answer.instances[0].ids.clone()).await.unwrap();
    assert_eq!(outcome(&aws.create_fleet(request.clone()).await.unwrap()), (vec![], vec![full]));
    tokio::time::advance(MemorySettings::default().shutting_down_for).await;
    assert_eq!(outcome(&aws.create_fleet(request).await.unwrap()).0, [("m5.large", "us-west-2a", 1)]);
}

#[tokio::test(start_paused = true)]
async fn a_prefix_takes_sixteen_addresses() {
    let aws = aws();
    let mut with_prefix = template(&aws, "prefix");
    with_prefix.data.network_interfaces[0].ipv4_prefix_count = Some(1);
    aws.create_launch_template(with_prefix).await.unwrap();
    aws.create_fleet(fleet(1, on_demand(), "prefix", &[("m5.large", SUBNETS[0])])).await.unwrap();
    let subnets = aws.describe_subnets(vec![], crate::ports::PageRequest::default()).await.unwrap();
    assert_eq!(subnets.items[0].available_ip_count, 8187 - 17);
}

// spec 05 #88
#[tokio::test(start_paused = true)]
async fn a_missing_template_fails_the_whole_call() {
    let aws = aws_with_template().await;
    let mut request = fleet(1, on_demand(), "demo", &[("m5.large", SUBNETS[0])]);
    request.configs.push(FleetConfig { template_name: "other".into(), overrides: vec![] });
    let error = aws.create_fleet(request).await.unwrap_err();
    assert!(error.has_code("InvalidLaunchTemplateName.NotFoundException"), "{error}");
    assert!(aws.instances().is_empty());
    let error = aws.create_fleet(fleet(1, on_demand(), "demo", &[])).await.unwrap_err();
    assert!(error.has_code("MissingParameter"), "{error}");
    let error = aws.create_fleet(fleet(0, on_demand(), "demo", &[("m5.large", SUBNETS[0])])).await.unwrap_err();
    assert!(error.has_code("InvalidParameterValue"), "{error}");
}

#[tokio::test(start_paused = true)]
async fn each_reason_against_a_launch_is_an_error_of_its_override() {
    let aws = aws_with_template().await;
    aws.change_account(|account| {
        account.security_groups.get_mut("sg-00000000000000001").unwrap().vpc_id = "vpc-2".into();
        account.set_offerings([InstanceTypeOffering { instance_type: "m5.large".into(), zone: "us-west-2a".into() }]);
    });
    let code = async |change: &dyn Fn(&mut LaunchTemplateData), own: (&str, &str)| {
        let mut request = template(&aws, "changed");
        change(&mut request.data);
        aws.create_launch_template(request).await.unwrap();
        let answer = aws.create_fleet(fleet(1, on_demand(), "changed", &[own])).await.unwrap();
        aws.state().templates.remove("changed");
        answer
            .errors
            .into_iter()
            .map(|error| format!("{}: {}", error.code, error.message))
            .collect::<Vec<_>>()
            .join(";")
    };
    let good = ("m5.large", SUBNETS[0]);
    assert_eq!(code(&|_| {}, good).await, "");
    let missing_image = code(&|data| data.image_id = "ami-1".into(), good).await;
    assert_eq!(missing_image, "InvalidAMIID.NotFound: The image id '[ami-1]' does not exist");
    assert_eq!(
        code(&|data| data.instance_profile = "absent".into(), good).await,
        "InvalidParameterValue: Value (absent) for parameter iamInstanceProfile.name is invalid. \
         Invalid IAM Instance Profile name"
    );
    let groups = |group: &'static str| {
        move |data: &mut LaunchTemplateData| data.network_interfaces[0].security_group_ids = vec![group.to_owned()]
    };
    assert!(code(&groups("sg-9"), good).await.starts_with("InvalidGroup.NotFound"));
    assert_eq!(
        code(&groups("sg-00000000000000001"), good).await,
        "InvalidParameter: Security group sg-00000000000000001 and subnet subnet-01000000000000001 \
         belong to different networks."
    );
    assert!(code(&|_| {}, ("m5.large", "subnet-9")).await.starts_with("InvalidSubnetID.NotFound"));
    assert!(code(&|_| {}, ("m5.large", SUBNETS[1])).await.starts_with("Unsupported"), "not offered in the zone");
    assert!(code(&|_| {}, ("m9.large", SUBNETS[0])).await.starts_with("InvalidParameterValue"));
    assert!(code(&|_| {}, ("m6g.large", SUBNETS[0])).await.contains("The architecture 'arm64'"));
}

#[tokio::test(start_paused = true)]
async fn a_new_profile_can_be_invisible_to_ec2_for_a_while() {
    let delay = std::time::Duration::from_secs(5);
    let aws = aws_with(MemorySettings { profiles_visible_after: delay, ..MemorySettings::default() });
    let mut request = template(&aws, "demo");
    request.data.instance_profile = "nodes".into();
    aws.create_launch_template(request).await.unwrap();
    let profile = CreateInstanceProfile { name: "nodes".into(), ..CreateInstanceProfile::default() };
    aws.create_instance_profile(profile).await.unwrap();
    let request = fleet(1, on_demand(), "demo", &[("m5.large", SUBNETS[0])]);
    assert_eq!(aws.create_fleet(request.clone()).await.unwrap().errors[0].code, "InvalidParameterValue");
    tokio::time::advance(delay).await;
    assert_eq!(aws.create_fleet(request).await.unwrap().errors, []);
}

#[tokio::test(start_paused = true)]
async fn a_dry_run_checks_and_launches_nothing() {
    let aws = aws_with_template().await;
    let request = CreateFleet { is_dry_run: true, ..fleet(1, on_demand(), "demo", &[("m5.large", SUBNETS[0])]) };
    let error = aws.create_fleet(request.clone()).await.unwrap_err();
    assert_eq!((error.code.as_deref(), error.http_status), (Some("DryRunOperation"), Some(412)));
    assert!(aws.instances().is_empty());
    let mut missing = request;
    missing.configs[0].template_name = "other".into();
    assert!(aws.create_fleet(missing).await.unwrap_err().has_code("InvalidLaunchTemplateName.NotFoundException"));
}

// spec 05 #124
#[tokio::test(start_paused = true)]
async fn a_repeated_client_token_launches_nothing_twice() {
    let aws = aws_with_template().await;
    aws.set_faults(vec![AwsFaultRule::once("CreateFleet", AwsFault::LostAnswer)]);
    let request =
        CreateFleet { client_token: "one".into(), ..fleet(2, on_demand(), "demo", &[("m5.large", SUBNETS[0])]) };
    let lost = aws.create_fleet(request.clone()).await.unwrap_err();
    assert_eq!((lost.code, lost.is_retryable), (None, true));
    let answer = aws.create_fleet(request.clone()).await.unwrap();
    assert_eq!(aws.create_fleet(request.clone()).await.unwrap(), answer);
    assert_eq!(aws.instances().len(), 2);
    let error = aws.create_fleet(CreateFleet { target_capacity: 1, ..request }).await.unwrap_err();
    assert!(error.has_code("IdempotentParameterMismatch"), "{error}");
}

#[tokio::test(start_paused = true)]
async fn an_instance_has_the_fleets_tags_a_dns_name_and_the_templates_user_data() {
    let aws = aws();
    let mut request = template(&aws, "demo");
    request.data.user_data = "aGVsbG8=".into();
    let template_id = aws.create_launch_template(request).await.unwrap().id;
    let answer = aws.create_fleet(fleet(1, spot(), "demo", &[("m5.large", SUBNETS[1])])).await.unwrap();
    let launched = aws.instances().remove(0);
    assert_eq!(launched.instance.id, answer.instances[0].ids[0]);
    assert_eq!((launched.template_name.as_str(), launched.template.user_data.as_str()), ("demo", "aGVsbG8="));
    let instance = launched.instance;
    assert_eq!(instance.private_dns_name, "ip-10-0-0-4.us-west-2.compute.internal");
    assert_eq!((instance.zone.as_str(), instance.zone_id.as_str()), ("us-west-2b", "usw2-az2"));
    assert_eq!(instance.lifecycle.as_deref(), Some("spot"));
    assert!(instance.spot_request_id.is_some());
    assert_eq!(instance.security_group_ids, ["sg-00000000000000002"]);
    assert_eq!(instance.tags["karpenter.sh/nodepool"], "default");
    assert_eq!(instance.tags["aws:ec2:fleet-id"], answer.fleet_id);
    assert_eq!(instance.tags["aws:ec2launchtemplate:id"], template_id);
}
