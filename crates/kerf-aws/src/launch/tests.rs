//! Launches through the facade, on an EC2 in memory.

mod reserved;

use std::collections::BTreeSet;

use kerf_api::labels::{self, aws};
use kerf_cloud::CloudProvider as _;
use serde_json::{Value, json};

use super::*;
use crate::memory::testing::SUBNETS;
use crate::memory::{AwsFault, AwsFaultRule, CapacityPool, Stock};
use crate::ports::AwsError;
use crate::ports::ec2::{CreateFleet, FleetAnswer, FleetError, FleetTarget};
use crate::testing::{ProviderEnv, TYPES, claim, on_demand, require};

const ZONES: [&str; 3] = ["us-west-2a", "us-west-2b", "us-west-2c"];

fn ice(instance_type: &str, zone: &str) -> FleetError {
    fleet_error("InsufficientInstanceCapacity", "We currently do not have sufficient capacity.", instance_type, zone)
}

fn fleet_error(code: &str, message: &str, instance_type: &str, zone: &str) -> FleetError {
    FleetError {
        code: code.into(),
        message: message.into(),
        instance_type: Some(instance_type.into()),
        subnet_id: None,
        zone: Some(zone.into()),
    }
}

#[allow(clippy::unnecessary_wraps, reason = "the answer of a call, which may also be an error")]
fn answer(errors: Vec<FleetError>) -> Result<FleetAnswer, AwsError> {
    Ok(FleetAnswer { fleet_id: "fleet-1".into(), instances: Vec::new(), errors })
}

fn capacity_type(instance: &Instance) -> &str {
    &instance.labels[labels::CAPACITY_TYPE]
}

fn types_of(request: &CreateFleet) -> BTreeSet<&str> {
    let overrides = request.configs.iter().flat_map(|config| &config.overrides);
    overrides.map(|choice| choice.instance_type.as_str()).collect()
}

/// Returns class and text of a failed launch.
fn failure(result: Result<Instance, CreateError>) -> String {
    match result.unwrap_err() {
        CreateError::InsufficientCapacity(cause) => format!("InsufficientCapacity: {cause}"),
        CreateError::NodeClassNotReady(cause) => format!("NodeClassNotReady: {cause}"),
        CreateError::Rejected { reason, message, cause } => format!("CreateError {reason}: {message} [{cause}]"),
        CreateError::Other(cause) => format!("Other: {cause}"),
    }
}

#[track_caller]
fn assert_count(actual: f64, expected: f64) {
    assert!((actual - expected).abs() < f64::EPSILON, "{actual} instead of {expected}");
}

async fn failed_with(env: &ProviderEnv, errors: Vec<FleetError>) -> String {
    env.fleets.answer_next(answer(errors));
    failure(env.provider.create(&claim("failed", json!([on_demand()]))).await)
}

// spec 05 #104
#[tokio::test(start_paused = true)]
async fn spot_is_launched_before_on_demand_and_on_demand_once_spot_is_out_of_stock() {
    let env = ProviderEnv::new().await;
    let first = env.provider.create(&claim("a", json!([]))).await.unwrap();
    assert_eq!(capacity_type(&first), "spot");
    env.aws.change_market(|market| {
        for name in TYPES {
            for zone in ZONES {
                market.set_stock(CapacityPool::new(name, zone, "spot"), Stock::Insufficient);
            }
        }
    });
    let failed = failure(env.provider.create(&claim("b", json!([]))).await);
    assert!(
        failed.starts_with("InsufficientCapacity: with fleet error(s), InsufficientInstanceCapacity: "),
        "{failed}"
    );
    let next = env.provider.create(&claim("b", json!([]))).await.unwrap();
    assert_eq!(capacity_type(&next), "on-demand");
    tokio::time::sleep(Duration::from_secs(191)).await;
    env.aws.change_market(|market| *market = crate::memory::Market::default());
    assert_eq!(capacity_type(&env.provider.create(&claim("c", json!([]))).await.unwrap()), "spot");
}

// spec 05 §15.5
#[tokio::test(start_paused = true)]
async fn a_fleet_request_has_one_override_for_each_type_and_zone() {
    let env = ProviderEnv::new().await;
    env.provider.create(&claim("a", json!([on_demand()]))).await.unwrap();
    let requests = env.fleets.take_requests();
    let [request] = &requests[..] else { panic!("{requests:?}") };
    assert_eq!(request.target, FleetTarget::OnDemand { allocation_strategy: "lowest-price".into() });
    assert!(!request.client_token.is_empty());
    let resources: Vec<&str> = request.tags.iter().map(|tags| tags.resource_type).collect();
    assert_eq!(resources, ["instance", "volume", "fleet"]);
    let overrides: Vec<String> = request
        .configs
        .iter()
        .flat_map(|config| &config.overrides)
        .map(|o| format!("{} {} {} {}", o.instance_type, o.zone.as_deref().unwrap(), o.subnet_id, o.priority.unwrap()))
        .collect();
    insta::assert_debug_snapshot!(overrides);
}

// spec 05 #87
#[tokio::test(start_paused = true)]
async fn types_with_other_numbers_of_pods_or_images_have_other_templates() {
    let env = ProviderEnv::new().await;
    env.provider.create(&claim("a", json!([on_demand()]))).await.unwrap();
    let names = |requests: Vec<CreateFleet>| {
        requests[0].configs.iter().map(|config| config.template_name.clone()).collect::<BTreeSet<_>>()
    };
    // 29 pods of the large types and 58 of m5.xlarge on x86, 29 on Arm.
    assert_eq!(names(env.fleets.take_requests()).len(), 3);
    env.change_class(|class| class["spec"]["kubelet"] = json!({ "maxPods": 20 }));
    env.provider.create(&claim("b", json!([on_demand()]))).await.unwrap();
    assert_eq!(names(env.fleets.take_requests()).len(), 2, "one for each image");
}

// spec 05 #111
#[tokio::test(start_paused = true)]
async fn a_price_overlay_selects_prioritized_strategies() {
    let env = ProviderEnv::new().await;
    let launch = async |requirements: Value, name: &str| {
        let mut claim = claim(name, requirements);
        let overlay = ("karpenter.sh/price-overlay-applied".to_owned(), String::new());
        claim.metadata.annotations = Some([overlay].into());
        env.provider.create(&claim).await.unwrap();
        env.fleets.take_requests().remove(0).target
    };
    let prioritized = FleetTarget::OnDemand { allocation_strategy: "prioritized".into() };
    assert_eq!(launch(json!([on_demand()]), "a").await, prioritized);
    let spot = FleetTarget::Spot { allocation_strategy: "capacity-optimized-prioritized".into() };
    assert_eq!(launch(json!([]), "b").await, spot);
    env.provider.create(&claim("c", json!([]))).await.unwrap();
    let default = FleetTarget::Spot { allocation_strategy: "price-capacity-optimized".into() };
    assert_eq!(env.fleets.take_requests()[0].target, default);
}

// spec 05 #112
#[tokio::test(start_paused = true)]
async fn the_context_is_sent_unless_min_values_are_relaxed() {
    let env = ProviderEnv::new().await;
    env.change_class(|class| class["spec"]["context"] = json!("ctx-1"));
    let launch = async |name: &str, relaxed: &str| {
        let mut claim = claim(name, json!([on_demand()]));
        let relaxed = ("karpenter.sh/nodeclaim-min-values-relaxed".to_owned(), relaxed.to_owned());
        claim.metadata.annotations = Some([relaxed].into());
        env.provider.create(&claim).await.unwrap();
        env.fleets.take_requests().remove(0).context
    };
    assert_eq!(launch("a", "false").await.as_deref(), Some("ctx-1"));
    assert_eq!(launch("b", "true").await, None);
}

// spec 05 #113, spec 06 #2
#[tokio::test(start_paused = true)]
async fn a_class_that_is_not_ready_launches_nothing() {
    let env = ProviderEnv::new().await;
    let attempt = async |change: fn(&mut Value)| {
        env.change_class(change);
        failure(env.provider.create(&claim("a", json!([on_demand()]))).await)
    };
    let ready = |class: &mut Value, status: &str, message: &str| {
        // The last condition is `Ready`.
        let ready = class["status"]["conditions"].as_array_mut().unwrap().last_mut().unwrap();
        ready["status"] = json!(status);
        ready["message"] = json!(message);
    };
    env.change_class(|class| ready(class, "False", "SubnetsReady=False"));
    assert_eq!(attempt(|_| {}).await, "NodeClassNotReady: SubnetsReady=False");
    env.change_class(|class| ready(class, "Unknown", ""));
    assert!(attempt(|_| {}).await.starts_with("CreateError NodeClassReadinessUnknown: NodeClass is in Ready=Unknown"));
    env.change_class(|class| ready(class, "True", ""));
    let without_dependent = attempt(|class| {
        class["status"]["conditions"].as_array_mut().unwrap().remove(0);
    });
    let without_dependent = without_dependent.await;
    assert!(without_dependent.starts_with("CreateError NodeClassReadinessUnknown"), "{without_dependent}");
    env.change_class(|class| {
        let conditions = class["status"]["conditions"].as_array_mut().unwrap();
        let other = json!({ "type": "AMIsReady", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z" });
        conditions.insert(0, other);
    });
    assert_eq!(
        attempt(|class| class["metadata"]["generation"] = json!(2)).await,
        "NodeClassNotReady: nodeclass status has not been reconciled against the latest spec"
    );
    let restricted = attempt(|class| {
        class["metadata"]["generation"] = json!(1);
        class["spec"]["tags"] = json!({ "karpenter.sh/nodepool": "x" });
    });
    let restricted = restricted.await;
    assert!(restricted.starts_with("NodeClassNotReady: tags failed validation requirements"), "{restricted}");
    let missing = attempt(|class| {
        class["spec"]["tags"] = json!({});
        class["status"]["subnets"] = json!([]);
    });
    assert_eq!(
        missing.await,
        "CreateError InstanceTypeResolutionFailed: Error resolving instance types [no subnets found]"
    );
    assert_eq!(env.operations(), Vec::<&str>::new(), "nothing was called");
}

// spec 05 §15.1
#[tokio::test(start_paused = true)]
async fn a_class_that_is_missing_or_terminating_is_insufficient_capacity() {
    let env = ProviderEnv::new().await;
    env.change_class(|class| class["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z"));
    assert_eq!(
        failure(env.provider.create(&claim("a", json!([]))).await),
        "InsufficientCapacity: resolving node class, ec2nodeclasses.karpenter.k8s.aws \"default\" is terminating, \
         treating as not found"
    );
    env.remove_classes();
    assert_eq!(
        failure(env.provider.create(&claim("a", json!([]))).await),
        "InsufficientCapacity: resolving node class, ec2nodeclasses.karpenter.k8s.aws \"default\" not found"
    );
    assert_eq!(env.events.texts(), vec![r#"NodeClaim/a Warning "" Failed resolving NodeClass"#; 2]);
}

// spec 05 #108
#[tokio::test(start_paused = true)]
async fn fleet_errors_decide_the_class_of_a_failure() {
    let env = ProviderEnv::new().await;
    let both =
        vec![ice("m5.large", "us-west-2a"), fleet_error("VcpuLimitExceeded", "Quota.", "c5.large", "us-west-2b")];
    assert_eq!(
        failed_with(&env, both).await,
        "InsufficientCapacity: with fleet error(s), InsufficientInstanceCapacity: We currently do not have sufficient \
         capacity.; VcpuLimitExceeded: Quota."
    );
    let throttled = vec![
        ice("m5.large", "us-west-2a"),
        fleet_error("RequestLimitExceeded", "Request limit exceeded.", "m5.large", "us-west-2a"),
    ];
    assert_eq!(
        failed_with(&env, throttled).await,
        "CreateError RequestLimitExceeded: Request limit exceeded [InsufficientInstanceCapacity: We currently do not \
         have sufficient capacity.; RequestLimitExceeded: Request limit exceeded.]"
    );
    // AWS's own code and text stay, also for codes that no class covers.
    let policy =
        fleet_error("TagPolicyViolation", "The tag policy does not allow the specified value.", "m5.large", "z");
    assert_eq!(
        failed_with(&env, vec![policy]).await,
        "CreateError LaunchFailed: Instance launch failed [TagPolicyViolation: The tag policy does not allow the \
         specified value.]"
    );
}

// spec 05 #123
#[tokio::test(start_paused = true)]
async fn an_answer_without_instance_and_error_is_a_failed_launch() {
    let env = ProviderEnv::new().await;
    assert_eq!(
        failed_with(&env, Vec::new()).await,
        "CreateError LaunchFailed: Instance launch failed [too few instances returned]"
    );
    assert!(env.provider.context().unavailable.snapshot().is_empty());
}

// spec 05 §15.7, §22 (6)
#[tokio::test(start_paused = true)]
async fn an_error_without_an_override_is_counted_and_marks_nothing() {
    let env = ProviderEnv::new().await;
    let error = FleetError { code: "InsufficientInstanceCapacity".into(), ..FleetError::default() };
    assert!(failed_with(&env, vec![error]).await.starts_with("InsufficientCapacity: "));
    assert!(env.provider.context().unavailable.snapshot().is_empty());
    let failures = &env.provider.context().launch_metrics.failures;
    assert_count(failures.get(&["", "", "on-demand", "LaunchFailed"]), 1.0);
}

// spec 05 #109
#[tokio::test(start_paused = true)]
async fn a_missing_spot_role_disables_spot_and_is_published() {
    let env = ProviderEnv::new().await;
    let error =
        fleet_error("AuthFailure.ServiceLinkedRoleCreationNotPermitted", "Not permitted.", "m5.large", "us-west-2a");
    env.fleets.answer_next(answer(vec![error]));
    let failed = failure(env.provider.create(&claim("a", json!([]))).await);
    assert!(failed.starts_with("InsufficientCapacity: with fleet error(s), AuthFailure."), "{failed}");
    assert_eq!(
        env.events.texts(),
        ["NodeClaim/a Warning \"\" Attempted to launch a spot instance but failed due to \
          \"AuthFailure.ServiceLinkedRoleCreationNotPermitted\""]
    );
    assert_eq!(capacity_type(&env.provider.create(&claim("a", json!([]))).await.unwrap()), "on-demand");
}

// spec 05 #110, #122
#[tokio::test(start_paused = true)]
async fn each_claim_of_a_fleet_counts_all_its_errors() {
    let env = ProviderEnv::new().await;
    let errors = vec![ice("m5.large", "us-west-2a"), ice("c5.large", "us-west-2a")];
    env.fleets.answer_next(answer(errors));
    let claims: Vec<NodeClaim> = (0..3).map(|i| claim(&format!("c{i}"), json!([on_demand()]))).collect();
    let results = futures::future::join_all(claims.iter().map(|claim| env.provider.create(claim))).await;
    assert!(results.iter().all(Result::is_err));
    assert_eq!(env.fleets.take_requests().len(), 1);
    let failures = &env.provider.context().launch_metrics.failures;
    assert_count(failures.get(&["us-west-2a", "usw2-az1", "on-demand", "LaunchFailed"]), 6.0);
    failed_with(&env, vec![fleet_error("Strange", "?", "m5.large", "us-west-2x")]).await;
    assert_count(failures.get(&["us-west-2x", "", "on-demand", "LaunchFailed"]), 1.0);
}

// spec 05 §15.7: errors beside an instance
#[tokio::test(start_paused = true)]
async fn errors_mark_pools_although_an_instance_was_launched() {
    let env = ProviderEnv::new().await;
    let without_stock = |zone: &str| CapacityPool::new("c5.large", zone, "on-demand");
    env.aws.change_market(|market| market.set_stock(without_stock("us-west-2a"), Stock::Insufficient));
    let only = |zone: &[&str]| {
        json!([on_demand(), require("topology.kubernetes.io/zone", zone), require("kubernetes.io/arch", &["amd64"])])
    };
    let instance = env.provider.create(&claim("a", only(&["us-west-2a"]))).await.unwrap();
    assert_eq!(instance.labels[labels::INSTANCE_TYPE], "m5.large", "the next cheapest");
    env.fleets.take_requests();
    env.provider.create(&claim("b", only(&["us-west-2a"]))).await.unwrap();
    let requests = env.fleets.take_requests();
    assert_eq!(types_of(&requests[0]), BTreeSet::from(["m5.large", "m5.xlarge"]));
}

// spec 05 #74, §15.7
#[tokio::test(start_paused = true)]
async fn a_subnet_without_addresses_is_used_last() {
    let env = ProviderEnv::new().await;
    let second = "subnet-02000000000000001";
    env.change_class(|class| {
        let subnets = class["status"]["subnets"].as_array_mut().unwrap();
        subnets.push(json!({ "id": second, "zone": "us-west-2a", "zoneID": "usw2-az1" }));
        class["spec"]["subnetSelectorTerms"] = json!([{ "id": SUBNETS[0] }, { "id": second }]);
    });
    let context = env.provider.context();
    let class = context.node_classes.get("default").await.unwrap();
    assert_eq!(context.subnets.list(&class).await.unwrap().len(), 2);
    let zone_a = || json!([on_demand(), require("topology.kubernetes.io/zone", &["us-west-2a"])]);
    let error = FleetError {
        subnet_id: Some(SUBNETS[0].into()),
        ..fleet_error("InsufficientFreeAddressesInSubnet", "None.", "m5.large", "us-west-2a")
    };
    env.fleets.answer_next(answer(vec![error]));
    let failed = failure(env.provider.create(&claim("a", zone_a())).await);
    assert!(failed.starts_with("InsufficientCapacity: with fleet error(s), InsufficientFreeAddressesInSubnet: None."));
    env.fleets.take_requests();
    env.provider.create(&claim("a", zone_a())).await.unwrap();
    let request = env.fleets.take_requests().remove(0);
    let subnets: BTreeSet<&str> =
        request.configs.iter().flat_map(|config| &config.overrides).map(|o| o.subnet_id.as_str()).collect();
    assert_eq!(subnets, BTreeSet::from([second]));
}

// spec 05 #88
#[tokio::test(start_paused = true)]
async fn a_template_that_was_deleted_is_created_again_once() {
    let env = ProviderEnv::new().await;
    env.provider.create(&claim("a", json!([on_demand()]))).await.unwrap();
    for config in &env.fleets.take_requests()[0].configs {
        let name = crate::ports::ec2::LaunchTemplateRef::Name(config.template_name.clone());
        env.aws.ports().ec2.delete_launch_template(name).await.unwrap();
    }
    env.provider.create(&claim("b", json!([on_demand()]))).await.unwrap();
    assert_eq!(env.fleets.take_requests().len(), 2);
    let gone = || AwsError::api("EC2", "CreateFleet", 400, "InvalidLaunchTemplateName.NotFoundException", "Not there.");
    env.fleets.answer_next(Err(gone()));
    env.fleets.answer_next(Err(gone()));
    let failed = failure(env.provider.create(&claim("c", json!([on_demand()]))).await);
    assert!(
        failed.starts_with(
            "CreateError LaunchFailed: Launch templates not found when creating fleet request: Instance launch failed ["
        ),
        "{failed}"
    );
    assert_eq!(env.fleets.take_requests().len(), 2, "one repetition");
}

// spec 05 §15.6
#[tokio::test(start_paused = true)]
async fn a_failed_call_is_a_create_error_with_the_code_of_aws() {
    let env = ProviderEnv::new().await;
    let deny = AwsFault::Error {
        status: 403,
        code: "UnauthorizedOperation".into(),
        message: "Denied with an explicit deny in a service control policy.".into(),
    };
    env.aws.set_faults(vec![AwsFaultRule::always("CreateFleet", deny.clone())]);
    let failed = failure(env.provider.create(&claim("a", json!([on_demand()]))).await);
    assert!(
        failed.starts_with(
            "CreateError Unauthorized: Error creating fleet request: User is not authorized to perform this operation \
             due to a service control policy [creating fleet request, operation error EC2: CreateFleet, "
        ),
        "{failed}"
    );
    assert!(failed.contains("api error UnauthorizedOperation: Denied with"), "{failed}");
    env.aws.set_faults(vec![AwsFaultRule::always("DescribeLaunchTemplates", deny)]);
    tokio::time::sleep(Duration::from_mins(3)).await;
    let failed = failure(env.provider.create(&claim("b", json!([on_demand()]))).await);
    assert!(
        failed.starts_with(
            "CreateError Unauthorized: Error getting launch template configs: User is not authorized to perform this \
             operation due to a service control policy ["
        ),
        "{failed}"
    );
    assert!(failed.contains("UnauthorizedOperation"), "{failed}");
}

// spec 05 #99
#[tokio::test(start_paused = true)]
async fn al2023_without_a_service_cidr_is_a_class_that_is_not_ready() {
    let env = ProviderEnv::new().await;
    env.provider.context().discovery.facts().update(|facts| facts.service_cidr = None);
    env.aws.change_account(|account| {
        for cluster in account.clusters.values_mut() {
            cluster.service_ipv4_cidr = None;
        }
    });
    let failed = failure(env.provider.create(&claim("a", json!([on_demand()]))).await);
    assert!(failed.starts_with("NodeClassNotReady: "), "{failed}");
    assert!(failed.contains("the range of Service addresses is not known yet"), "{failed}");
    assert!(!env.operations().contains(&"CreateLaunchTemplate"));
}

// A process that has just started must not delete the claims of classes that its predecessor
// validated.
#[tokio::test(start_paused = true)]
async fn a_new_process_reads_the_service_cidr_before_its_first_launch() {
    let env = ProviderEnv::new().await;
    env.provider.context().discovery.facts().update(|facts| facts.service_cidr = None);
    env.aws.set_faults(vec![AwsFaultRule::always("DescribeCluster", AwsFault::Throttled)]);
    let (one, two) = (claim("a", json!([on_demand()])), claim("b", json!([on_demand()])));
    let failed = env.provider.create(&one).await;
    let is_temporary = matches!(&failed, Err(CreateError::Other(cause)) if cause.to_string().contains("cluster CIDR"));
    assert!(is_temporary, "{failed:?}");
    env.aws.set_faults(Vec::new());
    env.aws.clear_calls();
    let (first, second) = tokio::join!(env.provider.create(&one), env.provider.create(&two));
    assert!(first.is_ok() && second.is_ok());
    let reads = env.operations().into_iter().filter(|operation| *operation == "DescribeCluster").count();
    assert_eq!(reads, 1, "both launches share the call");
}

// spec 05 #11
#[tokio::test(start_paused = true)]
async fn tenancy_is_default_unless_only_dedicated_is_allowed() {
    let env = ProviderEnv::new().await;
    let tenancy = async |name: &str, requirements: Value| {
        let instance = env.provider.create(&claim(name, requirements)).await.unwrap();
        let launched = env.aws.instances();
        let id = instance.provider_id.rsplit_once('/').unwrap().1;
        let launched = launched.iter().find(|launched| launched.instance.id == id).unwrap();
        assert_eq!(instance.labels[aws::INSTANCE_TENANCY], launched.instance.tenancy);
        launched.template.placement.tenancy.clone()
    };
    assert_eq!(tenancy("a", json!([on_demand()])).await, "default");
    let both = require(aws::INSTANCE_TENANCY, &["dedicated", "default"]);
    assert_eq!(tenancy("b", json!([on_demand(), both])).await, "default");
    let dedicated = require(aws::INSTANCE_TENANCY, &["dedicated"]);
    assert_eq!(tenancy("c", json!([on_demand(), dedicated])).await, "dedicated");
}

// spec 05 #114
#[tokio::test(start_paused = true)]
async fn efa_interfaces_count_only_if_they_are_requested() {
    let env = ProviderEnv::with_types(&["m5.large", "p5.48xlarge"]).await;
    let only = || json!([on_demand(), require(labels::INSTANCE_TYPE, &["p5.48xlarge"])]);
    let without = env.provider.create(&claim("a", only())).await.unwrap();
    assert!(!without.allocatable.contains_key("vpc.amazonaws.com/efa"));
    assert!(without.allocatable.contains_key("nvidia.com/gpu"));
    let mut efa = claim("b", only());
    let requests = efa.spec.resources.as_mut().unwrap().requests.as_mut().unwrap();
    requests.insert("vpc.amazonaws.com/efa".into(), "2".into());
    let with = env.provider.create(&efa).await.unwrap();
    assert_eq!(with.allocatable["vpc.amazonaws.com/efa"].text(), "32");
    let interfaces = |instance: &Instance| {
        let id = instance.provider_id.rsplit_once('/').unwrap().1.to_owned();
        let launched = env.aws.instances();
        launched.iter().find(|launched| launched.instance.id == id).unwrap().instance.interface_types.len()
    };
    assert_eq!((interfaces(&without), interfaces(&with)), (1, 32));
}

// spec 05 §15.3: resource requests
#[tokio::test(start_paused = true)]
async fn a_claim_that_no_type_can_hold_is_insufficient_capacity() {
    let env = ProviderEnv::new().await;
    let mut large = claim("a", json!([on_demand()]));
    large.spec.resources.as_mut().unwrap().requests.as_mut().unwrap().insert("cpu".into(), "64".into());
    assert_eq!(
        failure(env.provider.create(&large).await),
        "InsufficientCapacity: all requested instance types were unavailable during launch"
    );
    large.spec.resources.as_mut().unwrap().requests.as_mut().unwrap().insert("cpu".into(), "many".into());
    let failed = failure(env.provider.create(&large).await);
    assert!(failed.starts_with("Other: creating instance, spec.resources.requests[cpu]: "), "{failed}");
}

// spec 10 #111
#[tokio::test(start_paused = true)]
async fn a_spot_price_above_the_maximum_marks_the_offering() {
    let env = ProviderEnv::new().await;
    let too_low = fleet_error("SpotMaxPriceTooLow", "Your Spot request price is too low.", "m5.large", "us-west-2a");
    env.fleets.answer_next(answer(vec![too_low]));
    let failed = failure(env.provider.create(&claim("a", json!([]))).await);
    assert!(failed.starts_with("InsufficientCapacity: with fleet error(s), SpotMaxPriceTooLow: "), "{failed}");
    let pool = crate::unavailable_offerings::InstancePool {
        instance_type: "m5.large".into(),
        zone: "us-west-2a".into(),
        capacity_type: "spot".into(),
        scope: crate::unavailable_offerings::PoolScope::Unscoped,
    };
    assert!(env.provider.context().unavailable.is_unavailable(&pool, &[]));
}

/// Returns the figures of free addresses by which the next launch chooses, for a subnet of zone a
/// and one of zone b.
fn remaining_addresses(env: &ProviderEnv) -> [Option<i64>; 2] {
    let subnets = &env.provider.context().subnets;
    [subnets.remaining(SUBNETS[0]), subnets.remaining(SUBNETS[1])]
}

// spec 05 #73, #121
#[tokio::test(start_paused = true)]
async fn addresses_are_given_back_only_for_subnets_that_were_requested() {
    let env = ProviderEnv::with_types(&["m5.large"]).await;
    let context = env.provider.context();
    let class = context.node_classes.get("default").await.unwrap();
    context.subnets.list(&class).await.unwrap();
    let zone_a = || json!([on_demand(), require("topology.kubernetes.io/zone", &["us-west-2a"])]);
    // An instance of m5.large has 29 pods.
    env.provider.create(&claim("a", zone_a())).await.unwrap();
    assert_eq!(remaining_addresses(&env), [Some(8_187 - 29), Some(8_187 - 29)], "b was not requested");
    env.fleets.answer_next(Err(AwsError::api("EC2", "CreateFleet", 503, "Unavailable", "")));
    env.provider.create(&claim("b", json!([on_demand()]))).await.unwrap_err();
    assert_eq!(remaining_addresses(&env), [Some(8_187 - 29), Some(8_187 - 29)], "both are given back");
    let deny = AwsFault::Error { status: 403, code: "UnauthorizedOperation".into(), message: String::new() };
    env.aws.set_faults(vec![AwsFaultRule::always("DescribeLaunchTemplates", deny)]);
    tokio::time::sleep(Duration::from_mins(2)).await;
    env.provider.create(&claim("c", json!([on_demand()]))).await.unwrap_err();
    assert_eq!(remaining_addresses(&env), [Some(8_187 - 58), Some(8_187 - 58)], "the fleet was not requested");
}
