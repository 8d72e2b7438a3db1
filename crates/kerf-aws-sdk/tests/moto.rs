//! The calls against moto, a third-party AWS, where it is faithful. `hack/aws/moto.sh` starts moto
//! and sets the environment, so that these tests also cover how [`connect`] reads it.

#![allow(clippy::unwrap_used, reason = "a test may fail by panicking")]

use aws_config::BehaviorVersion;
use kerf_aws::ports::ec2::{
    CreateFleet, CreateLaunchTemplate, DescribeImages, DescribeInstanceTypes, DescribeInstances,
    DescribeLaunchTemplates, FleetConfig, FleetOverride, FleetTarget, InstanceStateName, LaunchTemplateData,
    LaunchTemplateRef, RunInstances, RunNetworkInterface, TagSpecification,
};
use kerf_aws::ports::{AwsError, AwsPorts, CreateInstanceProfile, Filter, PageRequest, Tags};
use kerf_aws_sdk::{TrustedRoots, connect, http_client};

async fn ports() -> AwsPorts {
    let endpoint = std::env::var("AWS_ENDPOINT_URL").unwrap_or_default();
    assert!(endpoint.starts_with("http://127.0.0.1:"), "run these tests with hack/aws/moto.sh");
    connect().await.unwrap()
}

fn tags(pairs: &[(&str, &str)]) -> Tags {
    pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
}

fn code(error: &AwsError) -> &str {
    error.code.as_deref().unwrap_or("no code")
}

#[tokio::test]
async fn the_region_is_that_of_the_environment() {
    assert_eq!(ports().await.region, "us-west-2");
}

#[tokio::test]
async fn the_catalogue_is_read() {
    let request = DescribeInstanceTypes {
        filters: vec![
            Filter::new("supported-virtualization-type", "hvm"),
            Filter::any_of("processor-info.supported-architecture", ["x86_64", "arm64"]),
        ],
        is_dry_run: false,
        page: PageRequest::default(),
    };
    let ports = ports().await;
    let types = ports.ec2.describe_instance_types(request).await.unwrap().items;
    assert!(types.len() > 1_000, "{}", types.len());
    let large = types.iter().find(|info| info.name == "m5.large").unwrap();
    assert_eq!((large.vcpus.default_vcpus, large.memory.size_mib), (2, 8192));
    assert_eq!(large.supported_usage_classes, ["on-demand", "spot"]);
    let interfaces = (large.network.maximum_network_interfaces, large.network.ipv4_addresses_per_interface);
    assert_eq!(interfaces, (3, 10));
    let offerings = ports.ec2.describe_instance_type_offerings(PageRequest::default()).await.unwrap().items;
    assert!(offerings.iter().any(|offering| offering.instance_type == "m5.large" && offering.zone == "us-west-2a"));
}

#[tokio::test]
async fn an_instance_is_launched_described_tagged_and_terminated() {
    let ports = ports().await;
    let ec2 = &ports.ec2;
    // moto has a default network.
    let all = ec2.describe_subnets(vec![], PageRequest::default()).await.unwrap().items;
    let subnet = all.iter().find(|subnet| subnet.zone == "us-west-2a").unwrap().clone();
    ec2.create_tags(vec![subnet.id.clone()], tags(&[("karpenter.sh/discovery", "demo")])).await.unwrap();
    let discovery = vec![Filter::new("tag:karpenter.sh/discovery", "demo")];
    let found = ec2.describe_subnets(discovery, PageRequest::first(500)).await.unwrap().items;
    assert_eq!((found.len(), &found[0].id, &found[0].zone_id), (1, &subnet.id, &subnet.zone_id));
    assert_eq!(found[0].tags["karpenter.sh/discovery"], "demo");
    let by_name = vec![Filter::new("group-name", "default")];
    let groups = ec2.describe_security_groups(by_name, PageRequest::first(500)).await.unwrap().items;
    assert_eq!((groups.len(), groups[0].name.as_str()), (1, "default"));
    let amazon = DescribeImages { owners: vec!["amazon".to_owned()], ..DescribeImages::default() };
    let images = ec2.describe_images(amazon, PageRequest::default()).await.unwrap().items;
    let image = images.iter().find(|image| image.architecture == "x86_64" && image.created_at.is_some()).unwrap();

    let request = CreateLaunchTemplate {
        name: "karpenter.k8s.aws/1".to_owned(),
        data: LaunchTemplateData { image_id: image.id.clone(), ..LaunchTemplateData::default() },
        tags: tags(&[("eks:eks-cluster-name", "demo")]),
        client_token: "1".to_owned(),
    };
    let template = ec2.create_launch_template(request).await.unwrap();
    assert_eq!((template.name.as_str(), template.tags.len()), ("karpenter.k8s.aws/1", 1));

    let fleet = |template_name: &str| CreateFleet {
        target_capacity: 1,
        target: FleetTarget::OnDemand { allocation_strategy: "lowest-price".to_owned() },
        configs: vec![FleetConfig {
            template_name: template_name.to_owned(),
            overrides: vec![FleetOverride {
                instance_type: "m5.large".to_owned(),
                subnet_id: subnet.id.clone(),
                priority: Some(0.096),
                ..FleetOverride::default()
            }],
        }],
        tags: vec![TagSpecification { resource_type: "instance", tags: tags(&[("karpenter.sh/nodepool", "default")]) }],
        context: None,
        client_token: "2".to_owned(),
        is_dry_run: false,
    };
    let answer = ec2.create_fleet(fleet("karpenter.k8s.aws/1")).await.unwrap();
    assert_eq!((answer.instances.len(), answer.errors.len()), (1, 0));
    let id = answer.instances[0].ids[0].clone();
    let error = ec2.create_fleet(fleet("absent")).await.unwrap_err();
    assert_eq!(code(&error), "InvalidLaunchTemplateName.NotFoundException");

    let dry_run = RunInstances {
        template_name: "karpenter.k8s.aws/1".to_owned(),
        instance_type: "m5.large".to_owned(),
        network_interfaces: vec![RunNetworkInterface {
            subnet_id: subnet.id.clone(),
            ..RunNetworkInterface::default()
        }],
        tags: vec![],
        is_dry_run: true,
    };
    assert_eq!(code(&ec2.run_instances(dry_run).await.unwrap_err()), "DryRunOperation");

    ec2.create_tags(vec![id.clone()], tags(&[("Name", "a=b&c")])).await.unwrap();
    let by_id = DescribeInstances { ids: vec![id.clone()], filters: vec![] };
    let instances = ec2.describe_instances(by_id, PageRequest::default()).await.unwrap().items;
    let instance = &instances[0];
    assert_eq!((instance.instance_type.as_str(), instance.zone.as_str()), ("m5.large", "us-west-2a"));
    assert_eq!((&instance.subnet_id, &instance.image_id), (&subnet.id, &image.id));
    assert_eq!((instance.state, instance.launched_at.is_some()), (InstanceStateName::Running, true));
    assert_eq!((&*instance.tags["Name"], &*instance.tags["karpenter.sh/nodepool"]), ("a=b&c", "default"));

    let changes = ec2.terminate_instances(vec![id.clone()]).await.unwrap();
    assert_eq!((changes.len(), &changes[0].id, changes[0].previous), (1, &id, InstanceStateName::Running));
    let error = ec2.terminate_instances(vec!["i-00000000000000000".to_owned()]).await.unwrap_err();
    assert_eq!((code(&error), error.http_status, error.attempts), ("InvalidInstanceID.NotFound", Some(400), 1));

    ec2.delete_launch_template(LaunchTemplateRef::Id(template.id)).await.unwrap();
    let by_name = DescribeLaunchTemplates { names: vec![template.name], filters: vec![] };
    let error = ec2.describe_launch_templates(by_name, PageRequest::default()).await.unwrap_err();
    assert_eq!(code(&error), "InvalidLaunchTemplateName.NotFoundException");
}

#[tokio::test]
async fn an_instance_profile_lives_through_its_life_cycle() {
    // No port creates a role.
    let client = http_client(TrustedRoots::System).unwrap();
    let config = aws_config::defaults(BehaviorVersion::latest()).http_client(client).load().await;
    let iam = aws_sdk_iam::Client::new(&config);
    iam.create_role().role_name("node").assume_role_policy_document("{}").send().await.unwrap();

    let ports = ports().await;
    let request = CreateInstanceProfile {
        name: "demo".to_owned(),
        path: Some("/karpenter/".to_owned()),
        tags: tags(&[("kubernetes.io/cluster/demo", "owned")]),
    };
    let error = ports.iam.get_instance_profile("demo").await.unwrap_err();
    assert_eq!((code(&error), error.http_status), ("NoSuchEntity", Some(404)));
    ports.iam.create_instance_profile(request.clone()).await.unwrap();
    let error = ports.iam.create_instance_profile(request.clone()).await.unwrap_err();
    assert_eq!(code(&error), "EntityAlreadyExists");
    ports.iam.add_role_to_instance_profile("demo", "node").await.unwrap();
    let profile = ports.iam.get_instance_profile("demo").await.unwrap();
    assert_eq!(
        (profile.path.as_str(), profile.roles, profile.tags),
        ("/karpenter/", vec!["node".to_owned()], request.tags)
    );
    ports.iam.remove_role_from_instance_profile("demo", "node").await.unwrap();
    ports.iam.delete_instance_profile("demo").await.unwrap();
    assert_eq!(code(&ports.iam.get_instance_profile("demo").await.unwrap_err()), "NoSuchEntity");
}

#[tokio::test]
async fn missing_parameters_and_clusters_have_their_codes() {
    let ports = ports().await;
    assert_eq!(code(&ports.ssm.get_parameter("/absent").await.unwrap_err()), "ParameterNotFound");
    let value = ports.ssm.get_parameter("/aws/service/global-infrastructure/regions/us-west-2/longName").await;
    assert_eq!(value.as_deref(), Ok("US West (Oregon)"));
    let error = ports.eks.describe_cluster("absent").await.unwrap_err();
    assert_eq!((code(&error), error.http_status), ("ResourceNotFoundException", Some(404)));
}
