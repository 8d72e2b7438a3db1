//! Conditions and resolved fields.

use std::time::Duration;

use kerf_operator::ReconcileError as _;
use kerf_runtime::ReconcileAction;
use kerf_sandbox::{Fault, FaultRule};
use serde_json::json;

use super::test_env::NodeClassEnv;
use crate::memory::{AwsFault, AwsFaultRule};

const ONE_MINUTE: ReconcileAction = ReconcileAction::RequeueAfter(Duration::from_mins(1));

// spec 06 §4.1: an alias without images
#[tokio::test(start_paused = true)]
async fn an_alias_without_images_is_in_the_condition() {
    let env = NodeClassEnv::new().await;
    env.create_class("default", json!({})).await;
    env.reconcile("default").await.unwrap();
    let use_alias = |alias: &str| json!({"spec": {"amiSelectorTerms": [{"alias": alias}]}});
    env.patch_class("default", use_alias("al2023@v20990101")).await;
    let text = env.reconcile("default").await.unwrap_err().to_string();
    assert!(text.ends_with("failed to discover any AMIs for alias (alias=al2023@v20990101)"), "{text}");
    assert_eq!(
        env.condition("default", "AMIsReady").await,
        "AMIsReady=Unknown AliasNotFound: Alias \"al2023@v20990101\" names no AMIs for the Kubernetes version of the cluster"
    );
    assert!(env.condition("default", "Ready").await.starts_with("Ready=Unknown ReconcilingDependents: "));

    // A parameter that cannot be read may exist.
    env.aws.set_faults(vec![AwsFaultRule { times: None, ..AwsFaultRule::once("GetParameter", AwsFault::Throttled) }]);
    env.patch_class("default", use_alias("al2023@v20990102")).await;
    env.reconcile("default").await.unwrap_err();
    assert_eq!(
        env.condition("default", "AMIsReady").await,
        "AMIsReady=Unknown AliasNotFound: The parameters of alias \"al2023@v20990102\" cannot be read: ThrottlingException"
    );
    env.aws.set_faults(Vec::new());
    env.patch_class("default", use_alias("al2023@latest")).await;
    env.reconcile("default").await.unwrap();
    assert_eq!(env.condition("default", "Ready").await, "Ready=True");

    // Images that were resolved for the present spec stay in use.
    tokio::time::advance(Duration::from_hours(25)).await;
    env.aws.change_account(|account| account.parameters.clear());
    env.reconcile("default").await.unwrap_err();
    assert_eq!(env.condition("default", "AMIsReady").await, "AMIsReady=True");
    assert_eq!(env.condition("default", "Ready").await, "Ready=True");
}

// spec 06 §4.7.8: tags of AWS
#[tokio::test(start_paused = true)]
async fn a_tag_of_aws_is_in_the_condition() {
    let env = NodeClassEnv::new().await;
    env.create_class("default", json!({"tags": {"aws:createdBy": "me"}})).await;
    env.reconcile("default").await.unwrap_err();
    assert_eq!(
        env.condition("default", "ValidationSucceeded").await,
        "ValidationSucceeded=False TagValidationFailed: tags failed validation requirements (tags=\"aws:createdBy\")"
    );
}

// spec 06 #1, #52
#[tokio::test(start_paused = true)]
async fn a_new_class_becomes_ready_in_one_reconcile() {
    let env = NodeClassEnv::new().await;
    env.create_class("default", json!({})).await;
    assert_eq!(env.reconcile("default").await.unwrap(), ONE_MINUTE);
    let class = env.class("default").await;
    assert_eq!(class.metadata.finalizers.as_deref(), Some(&["karpenter.k8s.aws/termination".to_owned()][..]));
    let ready = [
        "AMIsReady=True",
        "CapacityReservationsReady=True",
        "InstanceProfileReady=True",
        "PlacementGroupReady=True",
        "Ready=True",
        "SecurityGroupsReady=True",
        "SubnetsReady=True",
        "ValidationSucceeded=True",
    ];
    assert_eq!(env.conditions("default").await, ready);
    let status = class.status.unwrap();
    assert_eq!(status.amis.unwrap().len(), 5);
    let subnets: Vec<String> =
        status.subnets.unwrap().iter().map(|s| format!("{} {}", s.zone, s.zone_id.as_deref().unwrap())).collect();
    assert_eq!(subnets, ["us-west-2a usw2-az1", "us-west-2b usw2-az2", "us-west-2c usw2-az3"]);
    assert_eq!(status.security_groups.unwrap()[0].name.as_deref(), Some("demo-node"));
    assert!(status.instance_profile.unwrap().starts_with("demo_"));
    let operations = env.take_operations();
    assert!(!operations.iter().any(|name| name.contains("Template") || name.contains("Fleet")), "{operations:?}");

    let version = class.metadata.resource_version;
    env.reconcile("default").await.unwrap();
    assert_eq!(env.class("default").await.metadata.resource_version, version, "nothing changed, nothing is written");
    assert_eq!(env.take_operations(), Vec::<&str>::new(), "all answers are kept");
}

// spec 06 #1
#[tokio::test(start_paused = true)]
async fn without_reserved_capacity_there_are_seven_conditions() {
    let env = NodeClassEnv::with_settings(|settings| settings.reserved_capacity = false).await;
    env.create_class("default", json!({})).await;
    env.reconcile("default").await.unwrap();
    let conditions = env.conditions("default").await;
    assert!(conditions.len() == 7 && conditions.contains(&"Ready=True".to_owned()), "{conditions:?}");
}

// spec 06 #2: the part of the status
#[tokio::test(start_paused = true)]
async fn after_an_edit_the_conditions_are_of_the_old_generation_until_the_next_reconcile() {
    let env = NodeClassEnv::new().await;
    env.create_class("default", json!({})).await;
    env.reconcile("default").await.unwrap();
    env.patch_class("default", json!({"spec": {"tags": {"team": "a"}}})).await;
    let observed = async || {
        let class = env.class("default").await;
        let is_current = |observed: Option<i64>| observed == class.metadata.generation;
        class.status.unwrap().conditions.iter().all(|condition| is_current(condition.observed_generation))
    };
    assert!(!observed().await);
    env.reconcile("default").await.unwrap();
    assert!(observed().await);
    assert_eq!(env.condition("default", "Ready").await, "Ready=True");
}

// spec 06 #3
#[tokio::test(start_paused = true)]
async fn a_failed_lookup_keeps_its_condition_and_the_other_results_are_written() {
    let env = NodeClassEnv::new().await;
    env.create_class("default", json!({})).await;
    env.aws.set_faults(vec![
        AwsFaultRule::once("DescribeImages", AwsFault::Throttled),
        AwsFaultRule::once("DescribeSubnets", AwsFault::Throttled),
    ]);
    let errors = env.reconcile("default").await.unwrap_err();
    assert!(!errors.is_terminal());
    let text = errors.to_string();
    assert!(text.contains("getting amis, describing images, operation error EC2: DescribeImages"), "{text}");
    assert!(text.contains("; getting subnets, operation error EC2: DescribeSubnets"), "{text}");
    let fields: Vec<String> = errors.log_fields().into_iter().map(|(key, _)| key).collect();
    assert!(fields.contains(&"aws-operation-names".to_owned()), "{fields:?}");
    let unknown = "Unknown AwaitingReconciliation: object is awaiting reconciliation";
    assert_eq!(env.condition("default", "AMIsReady").await, format!("AMIsReady={unknown}"));
    assert_eq!(env.condition("default", "SecurityGroupsReady").await, "SecurityGroupsReady=True");
    assert_eq!(env.condition("default", "InstanceProfileReady").await, "InstanceProfileReady=True");
    // spec 06 #42
    let waiting = "DependenciesNotReady: Awaiting AMI, Instance Profile, Security Group, and Subnet resolution";
    assert_eq!(env.condition("default", "ValidationSucceeded").await, format!("ValidationSucceeded=Unknown {waiting}"));
    env.reconcile("default").await.unwrap();
    assert_eq!(env.condition("default", "Ready").await, "Ready=True");
    env.aws.set_faults(vec![AwsFaultRule::once("DescribeImages", AwsFault::Throttled)]);
    tokio::time::advance(Duration::from_mins(1)).await;
    assert!(env.reconcile("default").await.is_err());
    assert_eq!(env.condition("default", "AMIsReady").await, "AMIsReady=True", "the value of before");
}

// spec 06 #4, #10, #42; issue: a class without subnets
#[tokio::test(start_paused = true)]
async fn selectors_without_a_match_clear_the_status_and_name_the_reason() {
    let env = NodeClassEnv::new().await;
    env.create_class("default", json!({})).await;
    env.reconcile("default").await.unwrap();
    let nothing = json!([{"tags": {"karpenter.sh/discovery": "other"}}]);
    env.patch_class(
        "default",
        json!({"spec": {"subnetSelectorTerms": nothing, "securityGroupSelectorTerms": nothing,
            "amiFamily": "AL2023", "amiSelectorTerms": [{"id": "ami-missing"}]}}),
    )
    .await;
    assert_eq!(env.reconcile("default").await.unwrap(), ONE_MINUTE);
    let status = env.class("default").await.status.unwrap();
    assert_eq!((status.subnets, status.security_groups, status.amis), (None, None, None));
    insta::assert_snapshot!(env.conditions("default").await.join("\n"));
    // Another class is not affected.
    env.create_class("other", json!({})).await;
    env.reconcile("other").await.unwrap();
    assert_eq!(env.condition("other", "Ready").await, "Ready=True");
}

// spec 06 #5, #6, §4.7.9: no error retry, and the refresh goes on.
#[tokio::test(start_paused = true)]
async fn an_unsupported_alias_is_reported_once_and_the_rest_is_kept_up_to_date() {
    let env = NodeClassEnv::new().await;
    env.create_class("default", json!({"amiSelectorTerms": [{"alias": "al2@latest"}]})).await;
    let errors = env.reconcile("default").await.unwrap_err();
    assert!(errors.is_terminal());
    let condition = env.condition("default", "AMIsReady").await;
    let expected = "AMIsReady=False UnsupportedAlias: getting AMI queries, AL2 aliases are no longer supported on EKS \
                    1.33+ (see https://docs.aws.amazon.com/eks/latest/userguide/kubernetes-versions-standard.html\
                    #kubernetes-1-33)";
    assert_eq!(condition, expected);
    assert_eq!(env.reconcile("default").await.unwrap(), ONE_MINUTE, "the failure is known");
    env.aws.change_account(|account| account.subnets.clear());
    tokio::time::advance(Duration::from_mins(1)).await;
    assert_eq!(env.reconcile("default").await.unwrap(), ONE_MINUTE);
    let condition = env.condition("default", "SubnetsReady").await;
    assert_eq!(condition, "SubnetsReady=False SubnetsNotFound: SubnetSelector did not match any Subnets");
    env.patch_class("default", json!({"spec": {"amiSelectorTerms": [{"alias": "windows2025@latest"}]}})).await;
    let errors = env.reconcile("default").await.unwrap_err();
    assert!(errors.is_terminal(), "another failure is reported: {errors}");
    env.patch_class("default", json!({"spec": {"amiSelectorTerms": [{"alias": "al2023@latest"}]}})).await;
    env.reconcile("default").await.unwrap();
    env.patch_class("default", json!({"spec": {"amiSelectorTerms": [{"alias": "windows2025@latest"}]}})).await;
    assert!(env.reconcile("default").await.is_err(), "the failure was cured meanwhile");
}

// spec 06 #9
#[tokio::test(start_paused = true)]
async fn subnets_are_sorted_by_free_addresses_then_id() {
    let env = NodeClassEnv::new().await;
    env.aws.change_account(|account| {
        let template = account.subnets.values().next().unwrap().clone();
        account.subnets.clear();
        for (id, free) in [("subnet-c", 100), ("subnet-a", 100), ("subnet-b", 101), ("subnet-d", 5)] {
            let subnet = crate::ports::ec2::Subnet { id: id.to_owned(), available_ip_count: free, ..template.clone() };
            account.subnets.insert(id.to_owned(), subnet);
        }
    });
    env.create_class("default", json!({})).await;
    env.reconcile("default").await.unwrap();
    let subnets = env.class("default").await.status.unwrap().subnets.unwrap();
    let ids: Vec<&str> = subnets.iter().map(|subnet| subnet.id.as_str()).collect();
    assert_eq!(ids, ["subnet-b", "subnet-a", "subnet-c", "subnet-d"]);
}

// spec 06 #8
#[tokio::test(start_paused = true)]
async fn a_deprecated_image_is_marked_in_the_status() {
    let env = NodeClassEnv::new().await;
    env.create_class("default", json!({})).await;
    env.reconcile("default").await.unwrap();
    let deprecated = async || {
        let amis = env.class("default").await.status.unwrap().amis.unwrap();
        amis.iter().filter(|ami| ami.deprecated == Some(true)).count()
    };
    assert_eq!(deprecated().await, 0);
    env.aws.change_account(|account| {
        for image in account.images.values_mut() {
            image.deprecated_at = Some("2026-01-01T00:00:00Z".parse().unwrap());
        }
    });
    tokio::time::advance(Duration::from_mins(1)).await;
    env.reconcile("default").await.unwrap();
    assert_eq!(deprecated().await, 5);
}

// spec 06 §4.1: EC2 returns no name for some images
#[tokio::test(start_paused = true)]
async fn an_image_without_a_name_has_none_in_the_status() {
    let env = NodeClassEnv::new().await;
    env.aws.change_account(|account| account.images.values_mut().for_each(|image| image.name.clear()));
    env.create_class("default", json!({})).await;
    env.reconcile("default").await.unwrap();
    let amis = env.class("default").await.status.unwrap().amis.unwrap();
    assert!(!amis.is_empty() && amis.iter().all(|ami| ami.name.is_none()), "{amis:?}");
}

// spec 06 #14
#[tokio::test(start_paused = true)]
async fn a_conflict_requeues_without_an_error() {
    let env = NodeClassEnv::new().await;
    env.create_class("default", json!({})).await;
    let conflict = |per_million| {
        let rule = FaultRule::new(Fault::Conflict, per_million);
        FaultRule { user_agent_prefix: "kerf".to_owned(), ..rule }
    };
    env.server.set_faults(vec![conflict(1_000_000)], 1);
    assert_eq!(env.reconcile("default").await.unwrap(), ReconcileAction::RequeueWithBackoff);
    assert_eq!(env.class("default").await.metadata.finalizers, None);
    env.server.set_faults(vec![], 1);
    env.patch_class("default", json!({"metadata": {"finalizers": ["karpenter.k8s.aws/termination"]}})).await;
    env.server.set_faults(vec![conflict(1_000_000)], 1);
    assert_eq!(env.reconcile("default").await.unwrap(), ReconcileAction::RequeueWithBackoff);
    assert_eq!(env.conditions("default").await, Vec::<String>::new());
    env.server.set_faults(vec![], 1);
    env.reconcile("default").await.unwrap();
    // spec 06 #33: the profile of the lost write is used.
    assert_eq!(env.profiles().await.len(), 1);
}

// spec 06 #13, #61
#[tokio::test(start_paused = true)]
async fn tags_that_kerf_owns_fail_validation() {
    for key in [
        "kubernetes.io/cluster/demo",
        "karpenter.sh/nodepool",
        "eks:eks-cluster-name",
        "karpenter.k8s.aws/ec2nodeclass",
        "karpenter.sh/nodeclaim",
    ] {
        let env = NodeClassEnv::new().await;
        // Admission rejects these keys today; objects of older releases may have them.
        let mut class = env.create_class("default", json!({})).await;
        let tags = [(key.to_owned(), "v".to_owned())].into();
        class.spec.as_mut().unwrap().tags = Some(tags);
        env.reconcile("default").await.unwrap();
        class.metadata = env.class("default").await.metadata;
        let mut work = super::super::reconcile::ClassReconcile::new(class, true, env.context.clock.now());
        for condition in kerf_api::conditions::dependents::EC2NODECLASS_WITH_RESERVATIONS {
            work.set_true(condition);
        }
        let validation = super::super::validation::Validation::new(env.context.clock);
        let error = validation.validate(&env.context, &mut work).await.unwrap_err();
        let expected = format!("tags failed validation requirements (tags=\"{key}\")");
        assert_eq!(error.to_string(), format!("validating tags, {expected}"));
        let condition = work.conditions.get("ValidationSucceeded").unwrap();
        assert_eq!((condition.reason.as_str(), condition.message.as_str()), ("TagValidationFailed", &*expected));
        assert_eq!(work.conditions.get("Ready").unwrap().message, "ValidationSucceeded=False");
        assert!(super::super::error::NodeClassErrors::from(error).is_terminal());
    }
}

// spec 06 #59
#[tokio::test(start_paused = true)]
async fn the_service_cidr_is_read_for_al2023_only() {
    let env = NodeClassEnv::new().await;
    env.create_class("default", json!({"amiSelectorTerms": [{"alias": "bottlerocket@latest"}]})).await;
    env.reconcile("default").await.unwrap();
    assert!(!env.take_operations().contains(&"DescribeCluster"));
    assert_eq!(env.context.discovery.facts().get().service_cidr, None);
    env.create_class("al2023", json!({})).await;
    env.reconcile("al2023").await.unwrap();
    assert_eq!(env.context.discovery.facts().get().service_cidr.as_deref(), Some("10.100.0.0/16"));
}

// spec 06 #60, §4.7.1
#[tokio::test(start_paused = true)]
async fn a_failed_lookup_of_the_service_cidr() {
    let env = NodeClassEnv::new().await;
    env.create_class("default", json!({})).await;
    let error = |status, code: &str| AwsFault::Error { status, code: code.to_owned(), message: "no".to_owned() };
    env.aws.set_faults(vec![AwsFaultRule::once("DescribeCluster", error(500, "ServerException"))]);
    assert_eq!(env.reconcile("default").await.unwrap(), ReconcileAction::RequeueWithBackoff);
    let condition = env.condition("default", "ValidationSucceeded").await;
    let unknown = "Unknown AwaitingReconciliation: object is awaiting reconciliation";
    assert_eq!(condition, format!("ValidationSucceeded={unknown}"));
    env.aws.set_faults(vec![AwsFaultRule::once("DescribeCluster", error(403, "AccessDeniedException"))]);
    let errors = env.reconcile("default").await.unwrap_err();
    assert!(!errors.is_terminal() && errors.to_string().starts_with("resolving cluster CIDR, "), "{errors}");
    let condition = env.condition("default", "ValidationSucceeded").await;
    let expected = "ValidationSucceeded=False ClusterCIDRResolutionFailed: Failed to detect the cluster CIDR";
    assert_eq!(condition, expected);
}
