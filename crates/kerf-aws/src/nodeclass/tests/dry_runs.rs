//! Validation with AWS calls.

use std::time::Duration;

use kerf_operator::ReconcileError as _;
use kerf_runtime::ReconcileAction;
use serde_json::json;

use super::test_env::NodeClassEnv;
use crate::memory::{AwsFault, AwsFaultRule};

async fn env_with_dry_runs() -> NodeClassEnv {
    NodeClassEnv::with_settings(|settings| settings.disable_dry_run = false).await
}

fn error(status: u16, code: &str, message: &str) -> AwsFault {
    AwsFault::Error { status, code: code.to_owned(), message: message.to_owned() }
}

fn unauthorized(message: &str) -> AwsFault {
    error(403, "UnauthorizedOperation", message)
}

/// Returns the operations of the dry runs since the last time.
fn dry_runs(env: &NodeClassEnv) -> Vec<&'static str> {
    let checked = ["CreateLaunchTemplate", "CreateFleet", "RunInstances"];
    env.take_operations().into_iter().filter(|name| checked.contains(name)).collect()
}

// spec 06 #51
#[tokio::test(start_paused = true)]
async fn a_class_is_validated_with_a_template_and_two_dry_runs() {
    let env = env_with_dry_runs().await;
    env.create_class("default", json!({})).await;
    env.reconcile("default").await.unwrap();
    assert_eq!(env.condition("default", "Ready").await, "Ready=True");
    assert_eq!(dry_runs(&env), ["CreateLaunchTemplate", "CreateFleet", "RunInstances"]);
    assert!(env.aws.instances().is_empty());
    env.reconcile("default").await.unwrap();
    assert_eq!(dry_runs(&env), Vec::<&str>::new(), "the outcome is kept");
    env.patch_class("default", json!({"metadata": {"annotations": {"a": "b"}}})).await;
    env.reconcile("default").await.unwrap();
    assert_eq!(dry_runs(&env), ["CreateFleet", "RunInstances"], "the template is kept for a minute");
    tokio::time::advance(Duration::from_mins(31)).await;
    env.reconcile("default").await.unwrap();
    let calls = dry_runs(&env);
    assert!(calls.ends_with(&["CreateFleet", "RunInstances"]), "the outcome is kept for 30 minutes: {calls:?}");
}

// spec 06 #43, #44, #45
#[tokio::test(start_paused = true)]
async fn a_rejected_fleet_is_kept_with_its_reason() {
    let unauthorized_prefix = "ValidationSucceeded=False CreateFleetAuthCheckFailed: Controller isn't authorized to call \
                               ec2:CreateFleet: User is not authorized to perform this operation";
    for (message, end) in [
        ("no", " because no identity-based policy allows it"),
        ("with an explicit deny in a service control policy", " due to a service control policy"),
        ("with an explicit deny in a permissions boundary", " due to a permission boundary"),
    ] {
        let env = env_with_dry_runs().await;
        env.create_class("default", json!({})).await;
        env.aws.set_faults(vec![AwsFaultRule::once("CreateFleet", unauthorized(message))]);
        env.reconcile("default").await.unwrap();
        let condition = env.condition("default", "ValidationSucceeded").await;
        assert_eq!(condition, format!("{unauthorized_prefix}{end}"));
        assert_eq!(dry_runs(&env), ["CreateLaunchTemplate", "CreateFleet"]);
        env.reconcile("default").await.unwrap();
        assert_eq!(env.condition("default", "ValidationSucceeded").await, condition);
        assert_eq!(dry_runs(&env), Vec::<&str>::new());
        tokio::time::advance(Duration::from_mins(30)).await;
        env.reconcile("default").await.unwrap();
        assert_eq!(env.condition("default", "ValidationSucceeded").await, "ValidationSucceeded=True");
    }
}

// spec 06 #46
#[tokio::test(start_paused = true)]
async fn one_subnet_that_passes_is_enough() {
    let env = env_with_dry_runs().await;
    env.create_class("default", json!({})).await;
    env.aws.set_faults(vec![AwsFaultRule::once("RunInstances", error(500, "InternalError", "no"))]);
    env.reconcile("default").await.unwrap();
    assert_eq!(env.condition("default", "ValidationSucceeded").await, "ValidationSucceeded=True");
    assert_eq!(dry_runs(&env), ["CreateLaunchTemplate", "CreateFleet", "RunInstances", "RunInstances"]);
}

// spec 06 #47
#[tokio::test(start_paused = true)]
async fn all_subnets_unauthorized() {
    let env = env_with_dry_runs().await;
    env.create_class("default", json!({})).await;
    env.aws.set_faults(vec![AwsFaultRule::always("RunInstances", unauthorized("no"))]);
    env.reconcile("default").await.unwrap();
    let condition = env.condition("default", "ValidationSucceeded").await;
    let prefix = "ValidationSucceeded=False RunInstancesAuthCheckFailed: Controller isn't authorized to call \
                  ec2:RunInstances: ";
    assert!(condition.starts_with(prefix), "{condition}");
}

#[tokio::test(start_paused = true)]
async fn throttling_is_retried_and_other_errors_are_errors() {
    for operation in ["CreateLaunchTemplate", "CreateFleet", "RunInstances"] {
        let env = env_with_dry_runs().await;
        env.create_class("default", json!({})).await;
        env.aws.set_faults(vec![AwsFaultRule::always(operation, AwsFault::Throttled)]);
        assert_eq!(env.reconcile("default").await.unwrap(), ReconcileAction::RequeueWithBackoff, "{operation}");
        assert!(env.condition("default", "ValidationSucceeded").await.contains("=Unknown AwaitingReconciliation"));
        env.aws.set_faults(vec![AwsFaultRule::always(operation, error(400, "InvalidParameterValue", "no"))]);
        let errors = env.reconcile("default").await.unwrap_err();
        let expected = format!("validating ec2:{operation} authorization, operation error EC2: {operation}");
        assert!(errors.to_string().starts_with(&expected) && !errors.is_terminal(), "{errors}");
        assert_eq!(env.class("default").await.status.unwrap().subnets.unwrap().len(), 3, "the rest is written");
    }
}

// spec 06 #48, #49
#[tokio::test(start_paused = true)]
async fn a_profile_that_ec2_does_not_know() {
    let env = env_with_dry_runs().await;
    env.create_class("mine", json!({"role": null, "instanceProfile": "mine"})).await;
    assert_eq!(env.reconcile("mine").await.unwrap(), ReconcileAction::RequeueWithBackoff);
    let condition = env.condition("mine", "ValidationSucceeded").await;
    assert_eq!(condition, "ValidationSucceeded=False InstanceProfileNotFound: Instance profile \"mine\" not found");
    dry_runs(&env);
    env.reconcile("mine").await.unwrap();
    assert!(dry_runs(&env).contains(&"RunInstances"), "the outcome is not kept");

    env.create_class("role", json!({})).await;
    let message = "Value (p) for parameter iamInstanceProfile.name is invalid. Invalid IAM Instance Profile name";
    env.aws.set_faults(vec![AwsFaultRule::always("RunInstances", error(400, "InvalidParameterValue", message))]);
    assert_eq!(env.reconcile("role").await.unwrap(), ReconcileAction::RequeueWithBackoff);
    assert!(env.condition("role", "ValidationSucceeded").await.contains("=Unknown AwaitingReconciliation"));
}

// spec 06 #50
#[tokio::test(start_paused = true)]
async fn user_data_that_is_too_large() {
    let env = env_with_dry_runs().await;
    env.create_class("default", json!({})).await;
    let code = "InvalidUserData.Malformed";
    let base64 = error(400, code, "Invalid BASE64 encoding of user data.");
    env.aws.set_faults(vec![AwsFaultRule::once("CreateLaunchTemplate", base64)]);
    assert!(env.reconcile("default").await.is_err());
    let size = error(400, code, "User data is limited to 16384 bytes");
    env.aws.set_faults(vec![AwsFaultRule::once("CreateLaunchTemplate", size)]);
    env.reconcile("default").await.unwrap();
    let expected = "ValidationSucceeded=False UserDataSizeLimitExceeded: ec2:CreateLaunchTemplate rejected the rendered \
                    user data as too large: Rendered user data exceeds the EC2 user data size limit";
    assert_eq!(env.condition("default", "ValidationSucceeded").await, expected);
}

// spec 06 #53
#[tokio::test(start_paused = true)]
async fn outcomes_of_a_deleted_class_are_forgotten() {
    let env = env_with_dry_runs().await;
    for name in ["default", "default-2"] {
        env.create_class(name, json!({})).await;
        env.reconcile(name).await.unwrap();
    }
    assert_eq!(env.controller.validation_outcome_count(), 2);
    env.classes().delete("default", &kube::api::DeleteParams::default()).await.unwrap();
    env.reconcile("default").await.unwrap();
    assert_eq!(env.controller.validation_outcome_count(), 1);
}

// spec 06 #122
#[tokio::test(start_paused = true)]
async fn a_pool_for_which_there_is_no_image() {
    let env = env_with_dry_runs().await;
    let arm = env.aws.change_account(|account| {
        account.images.values().find(|image| image.architecture == "arm64").unwrap().id.clone()
    });
    env.create_class("default", json!({"amiFamily": "AL2023", "amiSelectorTerms": [{"id": arm}]})).await;
    env.create_pool("amd", json!([{"key": "kubernetes.io/arch", "operator": "In", "values": ["amd64"]}])).await;
    let text = env.reconcile("default").await.unwrap_err().to_string();
    assert_eq!(text, format!("no instance types satisfy requirements of amis [{arm}]"));
    let expected = format!(
        "ValidationSucceeded=Unknown NoCompatibleAMI: AMIs {arm} run on no instance type that the NodePools of the class \
         allow: select AMIs of another architecture in spec.amiSelectorTerms, or allow their architecture in a NodePool"
    );
    assert_eq!(env.condition("default", "ValidationSucceeded").await, expected);
    assert_eq!(env.condition("default", "AMIsReady").await, "AMIsReady=True");
}

// spec 06 #136
#[tokio::test(start_paused = true)]
async fn spec_06_136_user_data_that_cannot_be_read_is_in_the_condition() {
    let env = env_with_dry_runs().await;
    env.create_class("default", json!({"userData": "MIME-Version: 1.0\n"})).await;
    env.reconcile("default").await.unwrap_err();
    let condition = env.condition("default", "ValidationSucceeded").await;
    let expected = "ValidationSucceeded=Unknown InvalidUserData: spec.userData: parsing custom UserData, ";
    assert!(condition.starts_with(expected), "{condition}");

    let bottlerocket = json!([{"alias": "bottlerocket@latest"}]);
    let spec = json!({"amiSelectorTerms": bottlerocket, "userData": "[settings.kubernetes]\nmax-pods = 'x'"});
    env.create_class("toml", spec).await;
    env.reconcile("toml").await.unwrap_err();
    let condition = env.condition("toml", "ValidationSucceeded").await;
    assert_eq!(
        condition,
        "ValidationSucceeded=Unknown InvalidUserData: spec.userData: invalid UserData toml: \
         settings.kubernetes.max-pods: expected an integer, found string"
    );
    env.patch_class("toml", json!({"spec": {"userData": null}})).await;
    env.reconcile("toml").await.unwrap();
    assert_eq!(env.condition("toml", "ValidationSucceeded").await, "ValidationSucceeded=True");
}

// spec 06 §4.7.8: dry runs send no user data
#[tokio::test(start_paused = true)]
async fn only_a_template_can_have_user_data_that_is_too_large() {
    for operation in ["CreateFleet", "RunInstances"] {
        let env = env_with_dry_runs().await;
        env.create_class("default", json!({})).await;
        let size = error(400, "InvalidUserData.Malformed", "User data is limited to 16384 bytes");
        env.aws.set_faults(vec![AwsFaultRule::always(operation, size)]);
        let text = env.reconcile("default").await.unwrap_err().to_string();
        assert!(text.starts_with(&format!("validating ec2:{operation} authorization, ")), "{text}");
        assert!(env.condition("default", "ValidationSucceeded").await.contains("=Unknown AwaitingReconciliation"));
    }
}

// spec 05 §9: the next call asks again
#[tokio::test(start_paused = true)]
async fn spec_05_9_a_template_has_the_placement_group_that_a_later_call_finds() {
    for (failures, expected) in [(0, true), (1, true), (3, true), (4, false)] {
        let env = env_with_dry_runs().await;
        env.aws.change_account(|account| {
            let group = crate::ports::ec2::PlacementGroup {
                id: "pg-1".to_owned(),
                name: "racks".to_owned(),
                state: "available".to_owned(),
                strategy: "spread".to_owned(),
                ..Default::default()
            };
            account.placement_groups.insert(group.id.clone(), group);
            let mut types = vec![account.instance_type("m5.large").unwrap().clone()];
            types[0].placement.supported_strategies = vec!["spread".to_owned()];
            account.set_instance_types(types);
        });
        env.context.instance_types.refresh(env.context.ports.ec2.as_ref()).await.unwrap();
        env.create_class("default", json!({"placementGroupSelector": {"name": "racks"}})).await;
        let fault = AwsFaultRule::once("DescribePlacementGroups", unauthorized("no"));
        if failures > 0 {
            env.aws.set_faults(vec![AwsFaultRule { times: Some(failures), ..fault }]);
        }
        let outcome = env.reconcile("default").await;
        assert_eq!(outcome.is_ok(), failures == 0, "{outcome:?}");
        let contents = env.aws.template_contents();
        let groups: Vec<_> = contents.iter().map(|content| content.placement.group_id.clone()).collect();
        assert_eq!(groups, [expected.then(|| "pg-1".to_owned())], "{failures} failures");
    }
}
