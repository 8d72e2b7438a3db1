//! Every operation through the SDK and HTTP gives the same value, or the same error, as the same
//! call in process.

use std::fmt::Debug;
use std::time::Duration;

use jiff::Unit;
use kerf_aws::data;
use kerf_aws::http::AwsServer;
use kerf_aws::memory::{Account, AwsFault, AwsFaultRule, CapacityPool, MemoryAws, MemorySettings, Stock};
use kerf_aws::ports::ec2::{
    CreateFleet, CreateLaunchTemplate, DescribeCapacityReservations, DescribeImages, DescribeInstanceTypes,
    DescribeInstances, DescribeLaunchTemplates, DescribePlacementGroups, DescribeSpotPriceHistory,
    Ec2CapacityReservation, FleetConfig, FleetOverride, FleetTarget, InstanceStatus, LaunchTemplateData,
    LaunchTemplateRef, PlacementGroup, RunInstances, RunNetworkInterface, ScheduledEvent, StatusCheck,
    TagSpecification, TemplateBlockDevice, TemplateCapacityReservation, TemplateMetadataOptions,
    TemplateNetworkInterface, TemplatePlacement,
};
use kerf_aws::ports::{
    AwsError, AwsPorts, CreateInstanceProfile, Fault, Filter, GetProducts, Page, PageRequest, ProductFilter,
    ReceiveMessages, Tags, ZonalShiftRecord, all_pages,
};
use kerf_runtime::Clock;

use crate::clients::{GENEROUS, ports_at};

const ROLE: &str = "KarpenterNodeRole-demo";
const SUBNETS: [&str; 2] = ["subnet-01000000000000001", "subnet-01000000000000002"];
const GROUP: &str = "sg-00000000000000002";

/// An EC2 in memory with a server, and a client of the server.
struct TestAccount {
    aws: MemoryAws,
    sdk: AwsPorts,
    _server: AwsServer,
}

impl TestAccount {
    /// Instances stay pending, so that two descriptions one after the other are equal.
    async fn new() -> Self {
        let catalogue = data::catalogue();
        let mut account = Account::eks("demo", "1.34", catalogue.instance_types.clone());
        account.set_offerings(catalogue.offerings.iter().cloned());
        let settings = MemorySettings { pending_for: Duration::from_hours(1), ..MemorySettings::default() };
        let clock = Clock::starting_at("2026-01-01T00:00:00Z".parse().unwrap());
        let aws = MemoryAws::new(clock, account, settings);
        let server = AwsServer::bind(aws.clone(), 0).await.unwrap();
        let sdk = ports_at(&server.endpoint(), GENEROUS);
        Self { aws, sdk, _server: server }
    }

    /// Makes a call over HTTP, and the same call in process on a copy of the account before the
    /// call. Both must have the same outcome, also the ID of the request.
    async fn both<T: PartialEq + Debug>(
        &self,
        call: impl AsyncFn(&AwsPorts) -> Result<T, AwsError>,
    ) -> Result<T, AwsError> {
        let copy = self.aws.fork(self.aws.clock()).ports();
        let over_http = call(&self.sdk).await;
        let in_process = call(&copy).await;
        assert_eq!(over_http, in_process, "over HTTP and in process");
        over_http
    }

    /// Calls [`Self::both`] and returns the code of the error, which must be there.
    async fn both_fail<T: PartialEq + Debug>(&self, call: impl AsyncFn(&AwsPorts) -> Result<T, AwsError>) -> String {
        self.both(call).await.unwrap_err().code.unwrap()
    }

    fn image_id(&self) -> String {
        let name = "/aws/service/eks/optimized-ami/1.34/amazon-linux-2023/x86_64/standard/recommended/image_id";
        self.aws.change_account(|account| account.parameters[name].clone())
    }
}

/// Makes a call from a body that uses `ports`.
macro_rules! call {
    (|$ports:ident| $body:expr) => {
        async |$ports: &AwsPorts| $body.await
    };
}

fn tags(pairs: &[(&str, &str)]) -> Tags {
    pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
}

#[tokio::test]
async fn the_whole_catalogue_is_equal() {
    let account = TestAccount::new().await;
    let types = |ports: AwsPorts| async move {
        all_pages(Some(100), |page| {
            let filters = vec![
                Filter::new("supported-virtualization-type", "hvm"),
                Filter::any_of("processor-info.supported-architecture", ["x86_64", "arm64"]),
            ];
            let request = DescribeInstanceTypes { filters, is_dry_run: false, page };
            ports.ec2.describe_instance_types(request)
        })
        .await
    };
    let over_http = types(account.sdk.clone()).await.unwrap();
    assert!(over_http.len() > 1_000, "{}", over_http.len());
    assert!(over_http == types(account.aws.ports()).await.unwrap(), "a type differs");

    let offerings = |ports: AwsPorts| async move {
        all_pages(Some(1000), |page| ports.ec2.describe_instance_type_offerings(page)).await
    };
    let over_http = offerings(account.sdk.clone()).await.unwrap();
    assert!(over_http.len() > 1_000 && over_http == offerings(account.aws.ports()).await.unwrap());
}

// spec 06 §20.1: the answer to a dry run is an error with a code of its own
#[tokio::test]
async fn wrong_requests_for_types_and_dry_runs_have_the_same_errors() {
    let account = TestAccount::new().await;
    let dry_run = DescribeInstanceTypes { is_dry_run: true, ..DescribeInstanceTypes::default() };
    let code = account.both_fail(call!(|ports| ports.ec2.describe_instance_types(dry_run.clone()))).await;
    assert_eq!(code, "DryRunOperation");
    let wrong_filter =
        DescribeInstanceTypes { filters: vec![Filter::new("colour", "red")], ..DescribeInstanceTypes::default() };
    account.both_fail(call!(|ports| ports.ec2.describe_instance_types(wrong_filter.clone()))).await;
    let page = PageRequest { max_results: Some(5), token: Some("no token".to_owned()) };
    account.both_fail(call!(|ports| ports.ec2.describe_instance_type_offerings(page.clone()))).await;
    account.both_fail(call!(|ports| ports.ec2.describe_instance_type_offerings(PageRequest::first(100_000)))).await;
}

#[tokio::test]
async fn subnets_security_groups_and_images_are_equal() {
    let account = TestAccount::new().await;
    let discovery = vec![Filter::new("tag:karpenter.sh/discovery", "demo")];
    let private = account.both(call!(|ports| ports.ec2.describe_subnets(discovery.clone(), PageRequest::default())));
    assert_eq!(private.await.unwrap().items.len(), 3);
    let all = account.both(call!(|ports| ports.ec2.describe_subnets(vec![], PageRequest::first(5)))).await.unwrap();
    let rest = PageRequest { max_results: Some(5), token: all.next_token };
    assert!(rest.token.is_some());
    account.both(call!(|ports| ports.ec2.describe_subnets(vec![], rest.clone()))).await.unwrap();
    account.both_fail(call!(|ports| ports.ec2.describe_subnets(vec![], PageRequest::first(1)))).await;

    let names = vec![Filter::any_of("group-name", ["demo-*", "default"])];
    let groups =
        account.both(call!(|ports| ports.ec2.describe_security_groups(names.clone(), PageRequest::first(500)))).await;
    assert_eq!(groups.unwrap().items.len(), 2);

    let request = DescribeImages {
        filters: vec![Filter::new("image-id", account.image_id())],
        owners: vec!["amazon".to_owned()],
        include_deprecated: true,
    };
    let images =
        account.both(call!(|ports| ports.ec2.describe_images(request.clone(), PageRequest::first(1000)))).await;
    assert_eq!(images.unwrap().items.len(), 1);
    let all = DescribeImages::default();
    let images = account.both(call!(|ports| ports.ec2.describe_images(all.clone(), PageRequest::default()))).await;
    assert!(images.unwrap().items.len() > 1);
}

fn add_reservations_and_groups(account: &mut Account) {
    let full = Ec2CapacityReservation {
        id: "cr-1".to_owned(),
        owner_id: "444455556666".to_owned(),
        instance_type: "m5.large".to_owned(),
        zone: "us-west-2a".to_owned(),
        zone_id: "usw2-az1".to_owned(),
        state: "active".to_owned(),
        instance_match_criteria: "targeted".to_owned(),
        reservation_type: "capacity-block".to_owned(),
        is_interruptible: true,
        total_instance_count: 3,
        available_instance_count: 2,
        starts_at: "2026-01-01T00:00:00.5Z".parse().ok(),
        ends_at: "2026-02-01T00:00:00Z".parse().ok(),
        tags: tags(&[("team", "a & b"), ("empty", "")]),
    };
    let other = Ec2CapacityReservation { id: "cr-2".to_owned(), ..Ec2CapacityReservation::default() };
    account.capacity_reservations.extend([full, other].map(|own| (own.id.clone(), own)));
    let group = |id: &str, strategy: &str| PlacementGroup {
        id: id.to_owned(),
        name: format!("{strategy} group"),
        state: "available".to_owned(),
        strategy: strategy.to_owned(),
        tags: tags(&[("team", "a")]),
        ..PlacementGroup::default()
    };
    let partition = PlacementGroup { partition_count: Some(7), ..group("pg-2", "partition") };
    let spread = PlacementGroup { spread_level: Some("rack".to_owned()), ..group("pg-3", "spread") };
    account.placement_groups.extend([group("pg-1", "cluster"), partition, spread].map(|own| (own.id.clone(), own)));
}

#[tokio::test]
async fn capacity_reservations_and_placement_groups_are_equal() {
    let account = TestAccount::new().await;
    account.aws.change_account(add_reservations_and_groups);
    let all = DescribeCapacityReservations::default();
    let page = call!(|ports| ports.ec2.describe_capacity_reservations(all.clone(), PageRequest::first(1)));
    let page = account.both(page).await.unwrap();
    let rest = PageRequest { max_results: Some(1), token: page.next_token };
    assert!(rest.token.is_some());
    let page = call!(|ports| ports.ec2.describe_capacity_reservations(all.clone(), rest.clone()));
    assert_eq!(account.both(page).await.unwrap().items.len(), 1);
    let found = async |ids: &[&str], filters: Vec<Filter>| {
        let request = DescribeCapacityReservations { ids: ids.iter().map(|id| (*id).to_owned()).collect(), filters };
        let page = PageRequest::default();
        account.both(call!(|ports| ports.ec2.describe_capacity_reservations(request.clone(), page.clone()))).await
    };
    assert_eq!(found(&["cr-1"], vec![]).await.unwrap().items.len(), 1);
    assert_eq!(found(&[], vec![Filter::new("tag:team", "a*")]).await.unwrap().items.len(), 1);
    let code = found(&["cr-9"], vec![]).await.unwrap_err().code;
    assert_eq!(code.as_deref(), Some("InvalidCapacityReservationId.NotFound"));

    let groups = async |ids: &[&str], names: &[&str], filters: Vec<Filter>| {
        let texts = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect();
        let request = DescribePlacementGroups { ids: texts(ids), names: texts(names), filters };
        account.both(call!(|ports| ports.ec2.describe_placement_groups(request.clone()))).await
    };
    assert_eq!(groups(&[], &[], vec![Filter::new("state", "available")]).await.unwrap().len(), 3);
    assert_eq!(groups(&["pg-3"], &[], vec![]).await.unwrap().len(), 1);
    assert_eq!(groups(&[], &["partition group"], vec![]).await.unwrap().len(), 1);
    let code = groups(&[], &["absent"], vec![]).await.unwrap_err().code;
    assert_eq!(code.as_deref(), Some("InvalidPlacementGroup.Unknown"));
}

// spec 06 §15
#[tokio::test]
async fn zonal_shifts_are_equal() {
    let account = TestAccount::new().await;
    let arn = "arn:aws:eks:us-west-2:111122223333:cluster/demo two";
    let shift = |zone: &str, status: &str, expires_at: &str| ZonalShiftRecord {
        id: format!("shift {zone}"),
        away_from: zone.to_owned(),
        applied_status: status.to_owned(),
        started_at: "2026-01-01T00:00:00Z".parse().ok(),
        expires_at: expires_at.parse().ok(),
    };
    let shifts = vec![
        shift("usw2-az1", "APPLIED", "2026-01-01T12:00:00Z"),
        shift("usw2-az2", "NOT_APPLIED", "2026-01-01T12:00:00.5Z"),
    ];
    account.aws.change_account(|account| account.zonal_shifts.insert(arn.to_owned(), shifts.clone()));
    let resource = account.both(call!(|ports| ports.zonal_shift.get_managed_resource(arn))).await.unwrap();
    assert_eq!(resource.zonal_shifts, shifts);
    let code = account.both_fail(call!(|ports| ports.zonal_shift.get_managed_resource("arn:absent"))).await;
    assert_eq!(code, "ResourceNotFoundException");
}

// spec 05 §7.2 and §7.3
#[tokio::test]
async fn spot_prices_and_the_price_list_are_equal() {
    let account = TestAccount::new().await;
    account.aws.change_market(|market| {
        for (instance_type, price) in data::prices("us-west-2") {
            market.set_on_demand_price(instance_type, *price);
        }
    });
    let request = DescribeSpotPriceHistory {
        product_descriptions: vec!["Linux/UNIX".to_owned()],
        start_time: Some(account.aws.clock().now()),
    };
    // A price is valid from the time of the call, which differs.
    let page = account.both(async |ports: &AwsPorts| {
        let mut page = ports.ec2.describe_spot_price_history(request.clone(), PageRequest::first(1000)).await?;
        for price in &mut page.items {
            price.at.take().expect("every price has a time");
        }
        Ok(page)
    });
    let page = page.await.unwrap();
    assert!(page.items.len() > 900 && page.next_token.is_some(), "{}", page.items.len());
    let other = DescribeSpotPriceHistory { product_descriptions: vec!["Windows".to_owned()], start_time: None };
    let page =
        account.both(call!(|ports| ports.ec2.describe_spot_price_history(other.clone(), PageRequest::default())));
    assert_eq!(page.await.unwrap(), Page::last(vec![]));

    let products = |instance_type: Option<&str>| GetProducts {
        service_code: "AmazonEC2".to_owned(),
        filters: [("regionCode", "us-west-2"), ("tenancy", "Shared")]
            .into_iter()
            .chain(instance_type.map(|name| ("instanceType", name)))
            .map(|(field, value)| ProductFilter::new(field, value))
            .collect(),
    };
    let (all, one) = (products(None), products(Some("m5.large")));
    let page = account.both(call!(|ports| ports.price_list.get_products(all.clone(), PageRequest::first(100)))).await;
    assert_eq!(page.unwrap().items.len(), 100);
    let page = account.both(call!(|ports| ports.price_list.get_products(one.clone(), PageRequest::default()))).await;
    assert_eq!(page.unwrap().items.len(), 1);
    account.both_fail(call!(|ports| ports.price_list.get_products(all.clone(), PageRequest::first(1000)))).await;
}

/// Returns a template in which every field is set.
fn full_template(image_id: String) -> LaunchTemplateData {
    LaunchTemplateData {
        image_id,
        instance_profile: "profile".to_owned(),
        detailed_monitoring: true,
        user_data: "TUlNRS1WZXJzaW9uOiAxLjAK+/8=".to_owned(),
        block_devices: vec![
            TemplateBlockDevice {
                device_name: Some("/dev/xvda".to_owned()),
                delete_on_termination: Some(true),
                encrypted: Some(true),
                iops: Some(3000),
                kms_key_id: Some("arn:aws:kms:us-west-2:111122223333:key/1".to_owned()),
                snapshot_id: Some("snap-0123".to_owned()),
                throughput: Some(125),
                volume_initialization_rate: Some(100),
                volume_size_gib: Some(20),
                volume_type: Some("gp3".to_owned()),
            },
            TemplateBlockDevice { device_name: Some("/dev/xvdb".to_owned()), ..TemplateBlockDevice::default() },
        ],
        metadata_options: TemplateMetadataOptions {
            http_endpoint: Some("enabled".to_owned()),
            http_protocol_ipv6: Some("disabled".to_owned()),
            http_put_response_hop_limit: Some(1),
            http_tokens: Some("required".to_owned()),
            instance_metadata_tags: Some("disabled".to_owned()),
        },
        nested_virtualization: Some("enabled".to_owned()),
        network_interfaces: vec![TemplateNetworkInterface {
            network_card_index: Some(0),
            device_index: 0,
            interface_type: Some("interface".to_owned()),
            security_group_ids: vec![GROUP.to_owned()],
            associate_public_ip: Some(false),
            ipv4_prefix_count: Some(1),
            ipv6_prefix_count: Some(0),
            ipv6_address_count: Some(1),
            primary_ipv6: Some(true),
            tcp_established_timeout: Some(60),
            udp_stream_timeout: Some(61),
            udp_timeout: Some(62),
        }],
        tags: vec![TagSpecification {
            resource_type: "network-interface",
            tags: tags(&[("Name", "a & b <c>"), ("empty", "")]),
        }],
        placement: TemplatePlacement { tenancy: "default".to_owned(), group_id: None, partition_number: None },
        enclave: false,
        capacity_reservation: Some(TemplateCapacityReservation { preference: "none".to_owned(), reservation_id: None }),
        market_type: None,
    }
}

fn fleet(count: i32, target: FleetTarget, template: &str, overrides: &[(&str, &str)]) -> CreateFleet {
    let overrides = overrides.iter().map(|(instance_type, subnet)| FleetOverride {
        instance_type: (*instance_type).to_owned(),
        subnet_id: (*subnet).to_owned(),
        priority: Some(0.096_123_456_789),
        ..FleetOverride::default()
    });
    CreateFleet {
        target_capacity: count,
        target,
        configs: vec![FleetConfig { template_name: template.to_owned(), overrides: overrides.collect() }],
        tags: vec![
            TagSpecification { resource_type: "instance", tags: tags(&[("karpenter.sh/nodepool", "default")]) },
            TagSpecification { resource_type: "volume", tags: tags(&[("karpenter.sh/nodepool", "default")]) },
        ],
        context: None,
        client_token: format!("{template} {count}"),
        is_dry_run: false,
    }
}

fn on_demand() -> FleetTarget {
    FleetTarget::OnDemand { allocation_strategy: "lowest-price".to_owned() }
}

fn spot() -> FleetTarget {
    FleetTarget::Spot { allocation_strategy: "price-capacity-optimized".to_owned() }
}

fn template(name: &str, data: LaunchTemplateData) -> CreateLaunchTemplate {
    CreateLaunchTemplate {
        name: name.to_owned(),
        data,
        tags: tags(&[("eks:eks-cluster-name", "demo")]),
        client_token: format!("token of {name}"),
    }
}

#[tokio::test]
async fn launch_templates_are_equal() {
    let account = TestAccount::new().await;
    let data = full_template(account.image_id());
    for name in ["karpenter.k8s.aws/1", "karpenter.k8s.aws/2"] {
        let request = template(name, data.clone());
        account.both(call!(|ports| ports.ec2.create_launch_template(request.clone()))).await.unwrap();
    }
    let again = CreateLaunchTemplate { client_token: "other".to_owned(), ..template("karpenter.k8s.aws/1", data) };
    account.both_fail(call!(|ports| ports.ec2.create_launch_template(again.clone()))).await;

    let describe = |names: &[&str], filters: Vec<Filter>| DescribeLaunchTemplates {
        names: names.iter().map(|name| (*name).to_owned()).collect(),
        filters,
    };
    let by_name = describe(&["karpenter.k8s.aws/1"], vec![]);
    let by_tag = describe(&[], vec![Filter::new("tag:eks:eks-cluster-name", "demo")]);
    let absent = describe(&["absent"], vec![]);
    let described = account
        .both(call!(|ports| ports.ec2.describe_launch_templates(by_name.clone(), PageRequest::default())))
        .await
        .unwrap();
    let listed = account
        .both(call!(|ports| ports.ec2.describe_launch_templates(by_tag.clone(), PageRequest::first(200))))
        .await
        .unwrap();
    assert_eq!((described.items.len(), listed.items.len()), (1, 2));
    let code = account
        .both_fail(call!(|ports| ports.ec2.describe_launch_templates(absent.clone(), PageRequest::default())))
        .await;
    assert_eq!(code, "InvalidLaunchTemplateName.NotFoundException");

    let id = LaunchTemplateRef::Id(described.items[0].id.clone());
    account.both(call!(|ports| ports.ec2.delete_launch_template(id.clone()))).await.unwrap();
    account.both_fail(call!(|ports| ports.ec2.delete_launch_template(id.clone()))).await;
    let name = LaunchTemplateRef::Name("karpenter.k8s.aws/2".to_owned());
    account.both(call!(|ports| ports.ec2.delete_launch_template(name.clone()))).await.unwrap();
}

#[tokio::test]
async fn launched_instances_are_equal_through_their_life() {
    let account = TestAccount::new().await;
    let profile = CreateInstanceProfile { name: "profile".to_owned(), path: None, tags: Tags::new() };
    account.sdk.iam.create_instance_profile(profile).await.unwrap();
    account.sdk.iam.add_role_to_instance_profile("profile", ROLE).await.unwrap();
    let data = full_template(account.image_id());
    account.sdk.ec2.create_launch_template(template("full", data.clone())).await.unwrap();

    let dry_run = CreateFleet { is_dry_run: true, ..fleet(1, on_demand(), "full", &[("m5.large", SUBNETS[0])]) };
    let code = account.both_fail(call!(|ports| ports.ec2.create_fleet(dry_run.clone()))).await;
    assert_eq!(code, "DryRunOperation");
    let absent = fleet(1, on_demand(), "absent", &[("m5.large", SUBNETS[0])]);
    let code = account.both_fail(call!(|ports| ports.ec2.create_fleet(absent.clone()))).await;
    assert_eq!(code, "InvalidLaunchTemplateName.NotFoundException");

    let run = |is_dry_run: bool, template_name: &str| RunInstances {
        template_name: template_name.to_owned(),
        instance_type: "m5.large".to_owned(),
        network_interfaces: vec![RunNetworkInterface {
            subnet_id: SUBNETS[0].to_owned(),
            ..RunNetworkInterface::default()
        }],
        tags: vec![TagSpecification { resource_type: "instance", tags: tags(&[("Name", "a b")]) }],
        is_dry_run,
    };
    let dry_run = run(true, "full");
    assert_eq!(account.both_fail(call!(|ports| ports.ec2.run_instances(dry_run.clone()))).await, "DryRunOperation");
    let absent = run(true, "absent");
    account.both_fail(call!(|ports| ports.ec2.run_instances(absent.clone()))).await;
    assert_eq!(account.aws.instances().len(), 0);

    // One type is sold out, so that the answer has instances and errors.
    account.aws.change_market(|market| {
        let pool = CapacityPool::new("m5.large", "us-west-2a", "on-demand");
        market.set_stock(pool, Stock::Insufficient);
    });
    let request = fleet(2, on_demand(), "full", &[("m5.large", SUBNETS[0]), ("m5.xlarge", SUBNETS[1])]);
    let launched = account.both(call!(|ports| ports.ec2.create_fleet(request.clone()))).await.unwrap();
    assert_eq!((launched.instances.len(), launched.errors.len()), (1, 1));
    let request =
        CreateFleet { context: Some("Context-1".to_owned()), ..fleet(1, spot(), "full", &[("m5.xlarge", SUBNETS[0])]) };
    let on_spot = account.both(call!(|ports| ports.ec2.create_fleet(request.clone()))).await.unwrap();
    assert_eq!(on_spot.instances[0].lifecycle, "spot");

    // The content of the template arrived as it was sent.
    let instances = account.aws.instances();
    assert_eq!((instances.len(), &*instances[0].template), (3, &data));

    // Times over HTTP have no nanoseconds.
    let describe = |ports: &AwsPorts, request: DescribeInstances, page: PageRequest| {
        let ports = ports.clone();
        async move {
            let page = ports.ec2.describe_instances(request, page).await;
            page.map(|page| Page {
                items: page
                    .items
                    .into_iter()
                    .map(|mut instance| {
                        instance.launched_at = instance.launched_at.map(|at| at.round(Unit::Second).unwrap());
                        instance
                    })
                    .collect(),
                next_token: page.next_token,
            })
        }
    };
    let ids = launched.instances[0].ids.clone();
    for (request, page) in [
        (DescribeInstances { ids: ids.clone(), filters: vec![] }, PageRequest::default()),
        (
            DescribeInstances {
                ids: vec![],
                filters: vec![
                    Filter::new("tag:karpenter.sh/nodepool", "*"),
                    Filter::any_of("instance-state-name", ["pending", "running"]),
                ],
            },
            PageRequest::first(1000),
        ),
        (DescribeInstances { ids: vec!["i-00000000000000000".to_owned()], filters: vec![] }, PageRequest::default()),
        (DescribeInstances { ids: vec!["no id".to_owned()], filters: vec![] }, PageRequest::default()),
    ] {
        let over_http = describe(&account.sdk, request.clone(), page.clone()).await;
        let in_process = describe(&account.aws.ports(), request, page).await;
        let without_id = |error: AwsError| AwsError { request_id: None, ..error };
        assert_eq!(over_http.map_err(without_id), in_process.map_err(without_id));
    }

    let new_tags = tags(&[("karpenter.sh/nodeclaim", "default-1"), ("Name", "a=b&c")]);
    account.both(call!(|ports| ports.ec2.create_tags(ids.clone(), new_tags.clone()))).await.unwrap();
    account.both_fail(call!(|ports| ports.ec2.create_tags(vec!["i-0".to_owned()], new_tags.clone()))).await;
    let first = account.aws.instances().into_iter().find(|launched| launched.instance.id == ids[0]).unwrap();
    assert_eq!(first.instance.tags["Name"], "a=b&c");

    let changes = account.both(call!(|ports| ports.ec2.terminate_instances(ids.clone()))).await.unwrap();
    assert_eq!(changes.len(), 2);
    let absent = vec!["i-00000000000000000".to_owned()];
    let code = account.both_fail(call!(|ports| ports.ec2.terminate_instances(absent.clone()))).await;
    assert_eq!(code, "InvalidInstanceID.NotFound");
}

#[tokio::test]
async fn instance_profiles_are_equal() {
    let account = TestAccount::new().await;
    let request = |name: &str| CreateInstanceProfile {
        name: name.to_owned(),
        path: Some("/karpenter/us-west-2/demo/1/".to_owned()),
        tags: tags(&[("kubernetes.io/cluster/demo", "owned")]),
    };
    for name in ["one", "two"] {
        let request = request(name);
        account.both(call!(|ports| ports.iam.create_instance_profile(request.clone()))).await.unwrap();
    }
    let again = request("one");
    let code = account.both_fail(call!(|ports| ports.iam.create_instance_profile(again.clone()))).await;
    assert_eq!(code, "EntityAlreadyExists");
    account.both(call!(|ports| ports.iam.add_role_to_instance_profile("one", ROLE))).await.unwrap();
    let code = account.both_fail(call!(|ports| ports.iam.add_role_to_instance_profile("two", "absent"))).await;
    assert_eq!(code, "NoSuchEntity");
    account.both_fail(call!(|ports| ports.iam.add_role_to_instance_profile("one", ROLE))).await;
    let profile = account.both(call!(|ports| ports.iam.get_instance_profile("one"))).await.unwrap();
    assert_eq!((profile.roles, profile.tags.len()), (vec![ROLE.to_owned()], 1));
    assert_eq!(account.both_fail(call!(|ports| ports.iam.get_instance_profile("absent"))).await, "NoSuchEntity");
    let first = PageRequest::first(1);
    let page = account
        .both(call!(|ports| ports.iam.list_instance_profiles("/karpenter/us-west-2/demo/", first.clone())))
        .await
        .unwrap();
    let rest = PageRequest { max_results: Some(1), token: page.next_token };
    assert!(rest.token.is_some());
    let page = account
        .both(call!(|ports| ports.iam.list_instance_profiles("/karpenter/us-west-2/demo/", rest.clone())))
        .await
        .unwrap();
    assert_eq!((page.items.len(), page.next_token), (1, None));
    account.both_fail(call!(|ports| ports.iam.delete_instance_profile("one"))).await;
    account.both(call!(|ports| ports.iam.remove_role_from_instance_profile("one", ROLE))).await.unwrap();
    account.both_fail(call!(|ports| ports.iam.remove_role_from_instance_profile("one", ROLE))).await;
    account.both(call!(|ports| ports.iam.delete_instance_profile("one"))).await.unwrap();
    assert_eq!(account.both_fail(call!(|ports| ports.iam.delete_instance_profile("one"))).await, "NoSuchEntity");
}

#[tokio::test]
async fn parameters_and_clusters_are_equal() {
    let account = TestAccount::new().await;
    let name = "/aws/service/eks/optimized-ami/1.34/amazon-linux-2023/x86_64/standard/recommended/image_id";
    let value = account.both(call!(|ports| ports.ssm.get_parameter(name))).await.unwrap();
    assert_eq!(value, account.image_id());
    assert_eq!(account.both_fail(call!(|ports| ports.ssm.get_parameter("/absent"))).await, "ParameterNotFound");
    let cluster = account.both(call!(|ports| ports.eks.describe_cluster("demo"))).await.unwrap();
    assert_eq!(cluster.version.as_deref(), Some("1.34"));
    let code = account.both_fail(call!(|ports| ports.eks.describe_cluster("absent"))).await;
    assert_eq!(code, "ResourceNotFoundException");
}

#[tokio::test]
async fn messages_are_equal() {
    let account = TestAccount::new().await;
    let queue_url = account.both(call!(|ports| ports.sqs.get_queue_url("demo"))).await.unwrap();
    assert_eq!(account.both_fail(call!(|ports| ports.sqs.get_queue_url("absent"))).await, "QueueDoesNotExist");
    account.aws.send_message("demo", "one");
    let request = ReceiveMessages {
        queue_url: queue_url.clone(),
        max_messages: 10,
        visibility_timeout: Duration::from_secs(20),
        wait: Duration::ZERO,
    };
    let received = account.both(call!(|ports| ports.sqs.receive_messages(request.clone()))).await.unwrap();
    assert_eq!((received.len(), received[0].body.as_deref()), (1, Some("one")));
    assert!(received[0].sent_at.is_some());
    assert_eq!(account.both(call!(|ports| ports.sqs.receive_messages(request.clone()))).await, Ok(vec![]));
    let handle = received[0].receipt_handle.as_str();
    account.both(call!(|ports| ports.sqs.delete_message(&queue_url, handle))).await.unwrap();
    assert_eq!(account.aws.queued_messages("demo"), [""; 0]);
    let many = ReceiveMessages { max_messages: 11, ..request };
    assert_eq!(
        account.both_fail(call!(|ports| ports.sqs.receive_messages(many.clone()))).await,
        "InvalidParameterValue"
    );
    let code = account.both_fail(call!(|ports| ports.sqs.delete_message("demo", "x"))).await;
    assert_eq!(code, "ReceiptHandleIsInvalid");
}

#[tokio::test]
async fn status_checks_are_equal() {
    let account = TestAccount::new().await;
    let data = LaunchTemplateData {
        image_id: account.image_id(),
        network_interfaces: vec![TemplateNetworkInterface {
            security_group_ids: vec![GROUP.to_owned()],
            ..TemplateNetworkInterface::default()
        }],
        ..LaunchTemplateData::default()
    };
    account.sdk.ec2.create_launch_template(template("small", data)).await.unwrap();
    let request = fleet(2, on_demand(), "small", &[("m5.large", SUBNETS[0])]);
    let ids = account.sdk.ec2.create_fleet(request).await.unwrap().instances.remove(0).ids;
    account.aws.run_pending_instances();
    let check = |status: &str, impaired_since| StatusCheck {
        name: "reachability".into(),
        status: status.into(),
        impaired_since,
    };
    let since = Some("2026-01-01T00:00:00Z".parse().unwrap());
    account.aws.set_instance_status(InstanceStatus {
        instance_id: ids[0].clone(),
        instance_checks: vec![check("failed", since)],
        system_checks: vec![check("passed", None)],
        ebs_checks: vec![check("failed", since)],
        events: vec![ScheduledEvent { code: "instance-stop".into(), description: "[Completed] maintenance".into() }],
    });
    let describe = async |filters: Vec<Filter>| {
        let answer = account
            .both(call!(|ports| { ports.ec2.describe_instance_status(filters.clone(), PageRequest::first(1000)) }));
        answer.await.map(|page| page.items.len())
    };
    assert_eq!(describe(vec![]).await, Ok(2));
    assert_eq!(describe(vec![Filter::new("instance-status.status", "impaired")]).await, Ok(1));
    assert_eq!(describe(vec![Filter::new("system-status.status", "impaired")]).await, Ok(0));
    assert_eq!(describe(vec![Filter::any_of("event.code", ["instance-stop"])]).await, Ok(1));
}

#[tokio::test]
async fn throttled_calls_and_lost_answers_are_tried_again() {
    let account = TestAccount::new().await;
    let cluster = async || account.sdk.eks.describe_cluster("demo").await;
    for fault in [AwsFault::Throttled, AwsFault::LostAnswer] {
        account.aws.clear_calls();
        account.aws.set_faults(vec![AwsFaultRule { ..AwsFaultRule::once("", fault.clone()) }]);
        assert!(cluster().await.is_ok(), "{fault:?}");
        assert_eq!(account.aws.calls().len(), 2, "{fault:?}");
        account.aws.clear_calls();
        account.aws.set_faults(vec![AwsFaultRule::always("", fault.clone())]);
        let error = cluster().await.unwrap_err();
        assert_eq!((error.attempts, error.is_retryable, account.aws.calls().len()), (3, true, 3), "{fault:?}");
    }
    let error = cluster().await.unwrap_err();
    assert_eq!((error.code, error.fault), (None, Fault::Unknown));
}

// spec 05 §2: the client token is the same for all attempts of one call
#[tokio::test]
async fn a_launch_whose_answer_is_lost_launches_nothing_twice() {
    let account = TestAccount::new().await;
    let data = LaunchTemplateData {
        image_id: account.image_id(),
        network_interfaces: vec![TemplateNetworkInterface {
            security_group_ids: vec![GROUP.to_owned()],
            ..TemplateNetworkInterface::default()
        }],
        ..LaunchTemplateData::default()
    };
    account.sdk.ec2.create_launch_template(template("small", data.clone())).await.unwrap();
    account.aws.set_faults(vec![AwsFaultRule::once("CreateFleet", AwsFault::LostAnswer)]);
    let request = fleet(1, on_demand(), "small", &[("m5.large", SUBNETS[0])]);
    let answer = account.sdk.ec2.create_fleet(request).await.unwrap();
    let instances = account.aws.instances();
    assert_eq!((instances.len(), &instances[0].instance.id), (1, &answer.instances[0].ids[0]));
    // A template in which nothing else is set arrived without additions.
    assert_eq!(*instances[0].template, data);
}
