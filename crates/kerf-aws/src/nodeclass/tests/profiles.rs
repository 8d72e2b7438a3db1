//! Instance profiles of classes, and their garbage collection.

use std::time::Duration;

use kerf_api::slim::Str;
use kerf_operator::Reconcile as _;
use kerf_runtime::ReconcileAction;
use kube::api::{Patch, PatchParams};
use serde_json::json;

use super::super::profile_gc::InstanceProfileGarbageCollection;
use super::test_env::{NodeClassEnv, ROLE};
use crate::memory::{AwsFault, AwsFaultRule};
use crate::ports::CreateInstanceProfile;

async fn profile(env: &NodeClassEnv, class: &str) -> String {
    env.class(class).await.status.unwrap().instance_profile.unwrap_or_default()
}

// spec 06 #27, #38
#[tokio::test(start_paused = true)]
async fn each_class_has_a_profile_of_its_own() {
    let env = NodeClassEnv::new().await;
    for name in ["a", "b"] {
        env.create_class(name, json!({})).await;
        env.reconcile(name).await.unwrap();
    }
    let (a, b) = (profile(&env, "a").await, profile(&env, "b").await);
    let mut expected = [format!("{a} {ROLE}"), format!("{b} {ROLE}")];
    expected.sort();
    assert_eq!(env.profiles().await, expected);
}

// spec 06 #29, spec 12 #47
#[tokio::test(start_paused = true)]
async fn the_profile_that_karpenter_made_is_used_again() {
    let env = NodeClassEnv::new().await;
    let made = CreateInstanceProfile { name: "demo_1234".to_owned(), ..CreateInstanceProfile::default() };
    let iam = env.aws.ports().iam;
    iam.create_instance_profile(made).await.unwrap();
    iam.add_role_to_instance_profile("demo_1234", ROLE).await.unwrap();
    env.create_class("default", json!({})).await;
    let status = json!({"status": {"instanceProfile": "demo_1234"}});
    env.classes().patch_status("default", &PatchParams::default(), &Patch::Merge(status)).await.unwrap();
    env.take_operations();
    env.reconcile("default").await.unwrap();
    assert_eq!(profile(&env, "default").await, "demo_1234");
    let operations = env.take_operations();
    assert!(!operations.contains(&"CreateInstanceProfile") && !operations.contains(&"AddRoleToInstanceProfile"));
}

// spec 06 #28
#[tokio::test(start_paused = true)]
async fn each_change_of_the_role_gives_a_new_profile() {
    let env = NodeClassEnv::new().await;
    env.aws.change_account(|account| account.roles.extend(["role-b".to_owned(), "role-c".to_owned()]));
    env.create_class("default", json!({})).await;
    let mut names = Vec::new();
    for role in [ROLE, "role-b", "role-c"] {
        env.patch_class("default", json!({"spec": {"role": role}})).await;
        env.reconcile("default").await.unwrap();
        names.push(profile(&env, "default").await);
    }
    assert_eq!(env.profiles().await.len(), 3);
    assert!(names.iter().all(|name| env.context.instance_profiles.is_protected(name)));
}

// spec 06 #30
#[tokio::test(start_paused = true)]
async fn a_profile_without_the_role_is_replaced() {
    let env = NodeClassEnv::new().await;
    env.create_class("default", json!({})).await;
    env.reconcile("default").await.unwrap();
    let first = profile(&env, "default").await;
    env.aws.ports().iam.remove_role_from_instance_profile(&first, ROLE).await.unwrap();
    tokio::time::advance(Duration::from_mins(14)).await;
    env.reconcile("default").await.unwrap();
    assert_eq!(profile(&env, "default").await, first, "the profile is read again after 15 minutes");
    tokio::time::advance(Duration::from_mins(1)).await;
    env.reconcile("default").await.unwrap();
    let second = profile(&env, "default").await;
    let mut expected = [format!("{first} "), format!("{second} {ROLE}")];
    expected.sort();
    assert_eq!(env.profiles().await, expected);
}

// spec 06 #31, #34; issue: a role that does not exist
#[tokio::test(start_paused = true)]
async fn a_missing_role_is_an_error_and_leaves_no_profile_behind() {
    let env = NodeClassEnv::new().await;
    env.create_class("default", json!({"role": "missing"})).await;
    let text = env.reconcile("default").await.unwrap_err().to_string();
    assert!(text.starts_with("creating instance profile, adding role \"missing\" to instance profile demo_"), "{text}");
    assert!(text.ends_with("The role with name missing cannot be found."), "{text}");
    let deletions = env.take_operations().iter().filter(|name| **name == "DeleteInstanceProfile").count();
    assert_eq!((deletions, env.profiles().await.len()), (1, 0));
    assert_eq!(env.class("default").await.status.unwrap().instance_profile, None);
    assert_eq!(env.condition("default", "SubnetsReady").await, "SubnetsReady=True");
    assert!(env.condition("default", "InstanceProfileReady").await.starts_with("InstanceProfileReady=Unknown"));
    env.take_operations();
    let text = env.reconcile("default").await.unwrap_err().to_string();
    assert!(text.starts_with("creating instance profile, role not found, "), "{text}");
    assert_eq!(env.take_operations(), Vec::<&str>::new());
    env.aws.change_account(|account| account.roles.insert("missing".to_owned()));
    tokio::time::advance(Duration::from_mins(1)).await;
    env.reconcile("default").await.unwrap();
    assert_eq!(env.condition("default", "Ready").await, "Ready=True");
}

// spec 06 §3.1: a role that is changed to one that does not exist
#[tokio::test(start_paused = true)]
async fn a_change_to_a_missing_role_is_in_the_condition() {
    let env = NodeClassEnv::new().await;
    env.create_class("default", json!({})).await;
    env.reconcile("default").await.unwrap();
    let first = profile(&env, "default").await;
    env.patch_class("default", json!({"spec": {"role": "missing"}})).await;
    env.reconcile("default").await.unwrap_err();
    let expected = "InstanceProfileReady=Unknown RoleNotFound: Role \"missing\" does not exist";
    assert_eq!(env.condition("default", "InstanceProfileReady").await, expected);
    let ready = "Ready=Unknown ReconcilingDependents: ";
    assert!(env.condition("default", "Ready").await.starts_with(ready), "{:?}", env.conditions("default").await);
    assert_eq!(profile(&env, "default").await, first, "the status keeps the profile");
    env.patch_class("default", json!({"spec": {"role": ROLE}})).await;
    env.reconcile("default").await.unwrap();
    assert_eq!(env.condition("default", "Ready").await, "Ready=True");
}

// spec 06 #32
#[tokio::test(start_paused = true)]
async fn a_failed_read_creates_nothing() {
    let env = NodeClassEnv::new().await;
    env.create_class("default", json!({})).await;
    env.reconcile("default").await.unwrap();
    tokio::time::advance(Duration::from_mins(15)).await;
    env.aws.set_faults(vec![AwsFaultRule::once("GetInstanceProfile", AwsFault::Throttled)]);
    let text = env.reconcile("default").await.unwrap_err().to_string();
    let expected = format!("getting instance profile {}, operation error IAM", profile(&env, "default").await);
    assert!(text.starts_with(&expected), "{text}");
    assert_eq!(env.profiles().await.len(), 1);
}

// spec 06 #33
#[tokio::test(start_paused = true)]
async fn a_new_profile_is_used_again_for_a_minute_if_the_status_was_lost() {
    let env = NodeClassEnv::new().await;
    env.aws.change_account(|account| account.roles.insert("role-b".to_owned()));
    env.create_class("default", json!({})).await;
    env.reconcile("default").await.unwrap();
    let first = profile(&env, "default").await;
    let lose_status = async || {
        let mut class = env.class("default").await;
        class.status.as_mut().unwrap().instance_profile = None;
        let text = serde_json::to_vec(&class).unwrap();
        env.classes()
            .replace_status("default", &kube::api::PostParams::default(), &serde_json::from_slice(&text).unwrap())
            .await
            .unwrap();
    };
    lose_status().await;
    env.reconcile("default").await.unwrap();
    assert_eq!(profile(&env, "default").await, first);
    lose_status().await;
    env.patch_class("default", json!({"spec": {"role": "role-b"}})).await;
    env.reconcile("default").await.unwrap();
    assert_ne!(profile(&env, "default").await, first, "the entry of another role is not used");
    tokio::time::advance(Duration::from_mins(1)).await;
    lose_status().await;
    env.reconcile("default").await.unwrap();
    assert_eq!(env.profiles().await.len(), 3);
}

// spec 06 #35
#[tokio::test(start_paused = true)]
async fn a_role_with_a_path_is_compared_by_its_name() {
    let env = NodeClassEnv::new().await;
    env.aws.change_account(|account| account.roles.insert("nodeRole".to_owned()));
    env.create_class("default", json!({"role": "CustomPath/nodeRole"})).await;
    env.reconcile("default").await.unwrap();
    let first = profile(&env, "default").await;
    assert_eq!(env.profiles().await, [format!("{first} nodeRole")]);
    tokio::time::advance(Duration::from_mins(15)).await;
    env.reconcile("default").await.unwrap();
    assert_eq!(profile(&env, "default").await, first);
}

// spec 06 #36, #37
#[tokio::test(start_paused = true)]
async fn a_profile_of_the_user_needs_no_call_and_the_old_one_is_protected() {
    let env = NodeClassEnv::new().await;
    env.create_class("default", json!({})).await;
    env.reconcile("default").await.unwrap();
    let first = profile(&env, "default").await;
    tokio::time::advance(Duration::from_mins(61)).await;
    env.take_operations();
    env.patch_class("default", json!({"spec": {"role": null, "instanceProfile": "mine"}})).await;
    env.reconcile("default").await.unwrap();
    assert_eq!(profile(&env, "default").await, "mine");
    assert!(env.context.instance_profiles.is_protected(&first));
    let operations = env.take_operations();
    assert!(!operations.iter().any(|name| name.contains("Profile")), "{operations:?}");
}

async fn run_gc(env: &NodeClassEnv) -> Result<ReconcileAction, String> {
    env.sync().await;
    let gc = InstanceProfileGarbageCollection::new(env.context.clone());
    gc.reconcile(&Str::new_static("")).await.map_err(|error| error.to_string())
}

// spec 06 #39, #40, #41, #130
#[tokio::test(start_paused = true)]
async fn unused_profiles_of_the_cluster_are_deleted() {
    let env = NodeClassEnv::new().await;
    env.create_class("default", json!({})).await;
    env.reconcile("default").await.unwrap();
    let current = profile(&env, "default").await;
    let iam = env.aws.ports().iam;
    for (name, path) in [
        ("active", "/karpenter/us-west-2/demo/1/"),
        ("protected", "/karpenter/us-west-2/demo/2/"),
        ("unused", "/karpenter/us-west-2/demo/3/"),
        ("other-cluster", "/karpenter/us-west-2/demo2/3/"),
        ("foreign", "/"),
    ] {
        let request = CreateInstanceProfile {
            name: name.to_owned(),
            path: Some(path.to_owned()),
            tags: crate::ports::Tags::new(),
        };
        iam.create_instance_profile(request).await.unwrap();
    }
    env.context.instance_profiles.protect("protected");
    env.create_claim("claim", "default", json!({"karpenter.k8s.aws/instance-profile-name": "active"})).await;
    env.aws.set_faults(vec![AwsFaultRule::once("DeleteInstanceProfile", AwsFault::Throttled)]);
    assert!(run_gc(&env).await.unwrap_err().starts_with("deleting instance profile unused, "));
    assert_eq!(run_gc(&env).await.unwrap(), ReconcileAction::RequeueAfter(Duration::from_mins(30)));
    let names: Vec<String> =
        env.profiles().await.iter().map(|text| text.split(' ').next().unwrap().to_owned()).collect();
    let mut expected = ["active", "foreign", "other-cluster", "protected", &current].map(str::to_owned);
    expected.sort();
    assert_eq!(names, expected);
    tokio::time::advance(Duration::from_hours(1)).await;
    run_gc(&env).await.unwrap();
    assert!(!env.profiles().await.contains(&"protected ".to_owned()), "protection ends after an hour");
}
