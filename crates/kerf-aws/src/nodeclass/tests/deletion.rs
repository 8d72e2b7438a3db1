//! Deletion of classes.

use std::time::Duration;

use kerf_runtime::ReconcileAction;
use kube::api::DeleteParams;
use serde_json::json;

use super::test_env::{ROLE, TestEnv};
use crate::memory::testing::template;
use crate::memory::{AwsFault, AwsFaultRule};
use crate::ports::ec2::DescribeLaunchTemplates;
use crate::ports::{CreateInstanceProfile, PageRequest, Tags};

async fn ready_class(env: &TestEnv) {
    env.create_class("default", json!({})).await;
    env.reconcile("default").await.unwrap();
}

async fn delete_class(env: &TestEnv) {
    env.classes().delete("default", &DeleteParams::default()).await.unwrap();
}

async fn add_template(env: &TestEnv, name: &str, cluster: &str, class: &str) {
    let tags = [("eks:eks-cluster-name", cluster), ("karpenter.k8s.aws/ec2nodeclass", class)];
    let mut request = template(&env.aws, name);
    request.tags = tags.map(|(key, value)| (key.to_owned(), value.to_owned())).into();
    env.aws.ports().ec2.create_launch_template(request).await.unwrap();
}

async fn templates(env: &TestEnv) -> Vec<String> {
    let request = DescribeLaunchTemplates::default();
    let page = env.aws.ports().ec2.describe_launch_templates(request, PageRequest::first(200)).await.unwrap();
    page.items.into_iter().map(|template| template.name).collect()
}

// spec 06 #67
#[tokio::test(start_paused = true)]
async fn a_class_waits_for_its_claims() {
    let env = TestEnv::new().await;
    ready_class(&env).await;
    for name in ["c1", "c2", "c3", "c4", "c5", "c6"] {
        env.create_claim(name, "default", json!({})).await;
    }
    env.create_claim("other", "another-class", json!({})).await;
    delete_class(&env).await;
    let action = env.reconcile("default").await.unwrap();
    assert_eq!(action, ReconcileAction::RequeueAfter(Duration::from_mins(10)));
    let expected =
        "WaitingOnNodeClaimTermination: Waiting on NodeClaim termination for c1, c2, c3, c4, c5 and 1 other(s)";
    assert_eq!(env.events.texts(), [expected]);
    assert_eq!(env.profiles().await.len(), 1, "nothing is deleted yet");
    for name in ["c1", "c2", "c3", "c4", "c5", "c6"] {
        env.claims().delete(name, &DeleteParams::default()).await.unwrap();
    }
    assert_eq!(env.reconcile("default").await.unwrap(), ReconcileAction::Done);
    assert!(!env.class_exists("default").await);
    assert_eq!(env.profiles().await, Vec::<String>::new());
}

// spec 06 #70, #36
#[tokio::test(start_paused = true)]
async fn profiles_of_the_path_and_the_legacy_profile_are_deleted() {
    let env = TestEnv::new().await;
    ready_class(&env).await;
    let iam = env.aws.ports().iam;
    for name in ["demo_4067990795380418201", "foreign"] {
        let request = CreateInstanceProfile { name: name.to_owned(), path: None, tags: Tags::new() };
        iam.create_instance_profile(request).await.unwrap();
        iam.add_role_to_instance_profile(name, ROLE).await.unwrap();
    }
    delete_class(&env).await;
    env.reconcile("default").await.unwrap();
    assert_eq!(env.profiles().await, [format!("foreign {ROLE}")]);
}

// spec 06 #71
#[tokio::test(start_paused = true)]
async fn a_legacy_name_that_iam_does_not_accept_is_skipped() {
    let env = TestEnv::with_settings(|settings| settings.cluster_name = "a:b".to_owned()).await;
    env.create_class("default", json!({"role": null, "instanceProfile": "mine"})).await;
    env.reconcile("default").await.ok();
    delete_class(&env).await;
    env.take_operations();
    env.reconcile("default").await.unwrap();
    assert!(!env.class_exists("default").await);
    let operations = env.take_operations();
    assert!(!operations.contains(&"GetInstanceProfile"), "{operations:?}");
}

// spec 06 #72
#[tokio::test(start_paused = true)]
async fn in_an_isolated_vpc_no_profile_is_deleted() {
    let env = TestEnv::with_settings(|settings| settings.isolated_vpc = true).await;
    ready_class(&env).await;
    delete_class(&env).await;
    env.take_operations();
    env.reconcile("default").await.unwrap();
    assert!(!env.class_exists("default").await);
    let operations = env.take_operations();
    assert!(!operations.iter().any(|name| name.contains("Profile")), "{operations:?}");
    assert_eq!(env.profiles().await.len(), 1);
}

// spec 06 #69
#[tokio::test(start_paused = true)]
async fn only_templates_of_the_class_and_the_cluster_are_deleted() {
    let env = TestEnv::new().await;
    ready_class(&env).await;
    add_template(&env, "own-1", "demo", "default").await;
    add_template(&env, "own-2", "demo", "default").await;
    add_template(&env, "other-class", "demo", "other").await;
    add_template(&env, "other-cluster", "demo2", "default").await;
    delete_class(&env).await;
    env.reconcile("default").await.unwrap();
    assert_eq!(templates(&env).await, ["other-class", "other-cluster"]);
}

// spec 06 #68, #132
#[tokio::test(start_paused = true)]
async fn the_finalizer_stays_until_all_templates_are_deleted() {
    let env = TestEnv::new().await;
    ready_class(&env).await;
    add_template(&env, "own-1", "demo", "default").await;
    add_template(&env, "own-2", "demo", "default").await;
    delete_class(&env).await;
    let gone = AwsFault::Error {
        status: 400,
        code: "InvalidLaunchTemplateName.NotFoundException".to_owned(),
        message: "The specified launch template, with template name own-1, does not exist.".to_owned(),
    };
    env.aws.set_faults(vec![AwsFaultRule::once("DeleteLaunchTemplate", gone)]);
    let text = env.reconcile("default").await.unwrap_err().to_string();
    assert!(text.starts_with("deleting launch templates, operation error EC2: DeleteLaunchTemplate"), "{text}");
    assert!(env.class_exists("default").await);
    assert_eq!(templates(&env).await, ["own-1"], "the other template is deleted nevertheless");
    env.reconcile("default").await.unwrap();
    assert!(!env.class_exists("default").await);
}

#[tokio::test(start_paused = true)]
async fn a_class_without_our_finalizer_is_left_alone() {
    let env = TestEnv::new().await;
    ready_class(&env).await;
    env.patch_class("default", json!({"metadata": {"finalizers": ["example.com/other"]}})).await;
    delete_class(&env).await;
    env.take_operations();
    assert_eq!(env.reconcile("default").await.unwrap(), ReconcileAction::Done);
    assert_eq!(env.take_operations(), Vec::<&str>::new());
    assert_eq!(env.reconcile("missing").await.unwrap(), ReconcileAction::Done);
}
