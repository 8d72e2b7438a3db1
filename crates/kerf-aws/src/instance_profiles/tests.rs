//! Tests of instance profiles against the IAM in memory.

use kerf_api::ec2nodeclass::EC2NodeClassSpec;

use super::*;
use crate::memory::testing::aws;
use crate::memory::{AwsFault, AwsFaultRule, MemoryAws};

const ROLE: &str = "KarpenterNodeRole-demo";

fn profiles(aws: &MemoryAws) -> InstanceProfiles {
    InstanceProfiles::new(&aws.ports(), &AwsSettings::new("demo"), aws.clock())
}

fn class() -> EC2NodeClass {
    let mut class = EC2NodeClass::default();
    class.metadata.name = Some("default".to_owned());
    class.metadata.uid = Some("uid-1".to_owned());
    class
}

/// Returns the operations that were called since the last time, without the prefix of IAM.
fn operations(aws: &MemoryAws) -> String {
    let calls: Vec<&str> = aws.calls().iter().map(|call| call.operation).collect();
    aws.clear_calls();
    calls.join(" ")
}

#[tokio::test(start_paused = true)]
async fn names_are_hashes_of_region_class_and_a_random_part() {
    let mut settings = AwsSettings::new("demo");
    let aws = aws();
    let profiles = profiles(&aws);
    assert_eq!(profiles.legacy_name("default").unwrap(), "demo_4067990795380418201");
    let (first, second) = (profiles.new_name("default"), profiles.new_name("default"));
    assert!(first.starts_with("demo_") && second.starts_with("demo_") && first != second);
    // spec 06 #71
    settings.cluster_name = "arn:aws:eks".to_owned();
    let odd = InstanceProfiles::new(&aws.ports(), &settings, aws.clock());
    assert_eq!(odd.legacy_name("default"), None);
    settings.cluster_name = "c".repeat(128);
    assert_eq!(InstanceProfiles::new(&aws.ports(), &settings, aws.clock()).legacy_name("default"), None);
}

// spec 06 #27, #29
#[tokio::test(start_paused = true)]
async fn a_profile_is_created_with_path_tags_and_role_once() {
    let (aws, mut class) = (aws(), class());
    let tags = [("team", "a"), ("eks:eks-cluster-name", "other")].map(|(key, value)| (key.into(), value.into()));
    class.spec = Some(EC2NodeClassSpec { tags: Some(tags.into()), ..EC2NodeClassSpec::default() });
    let profiles = profiles(&aws);
    profiles.create("p", ROLE, &class).await.unwrap();
    assert_eq!(operations(&aws), "GetInstanceProfile CreateInstanceProfile AddRoleToInstanceProfile");
    assert!(profiles.is_protected("p"));
    let profile = aws.ports().iam.get_instance_profile("p").await.unwrap();
    assert_eq!((profile.path.as_str(), profile.roles), ("/karpenter/us-west-2/demo/uid-1/", vec![ROLE.to_owned()]));
    let tags: Vec<String> = profile.tags.iter().map(|(key, value)| format!("{key}={value}")).collect();
    let expected = [
        "eks:eks-cluster-name=demo",
        "karpenter.k8s.aws/ec2nodeclass=default",
        "kubernetes.io/cluster/demo=owned",
        "team=a",
        "topology.kubernetes.io/region=us-west-2",
    ];
    assert_eq!(tags, expected);
    aws.clear_calls();
    profiles.create("p", ROLE, &class).await.unwrap();
    assert_eq!(operations(&aws), "");
    tokio::time::advance(PROFILE_TTL).await;
    profiles.create("p", ROLE, &class).await.unwrap();
    assert_eq!(operations(&aws), "GetInstanceProfile");
}

#[tokio::test(start_paused = true)]
async fn another_role_is_removed_first() {
    let aws = aws();
    aws.change_account(|account| account.roles.insert("other".to_owned()));
    profiles(&aws).create("p", "other", &class()).await.unwrap();
    aws.clear_calls();
    profiles(&aws).create("p", ROLE, &class()).await.unwrap();
    assert_eq!(operations(&aws), "GetInstanceProfile RemoveRoleFromInstanceProfile AddRoleToInstanceProfile");
}

// spec 06 #34, #35
#[tokio::test(start_paused = true)]
async fn a_missing_role_is_not_tried_again_for_a_minute() {
    let aws = aws();
    let profiles = profiles(&aws);
    let error = profiles.create("p", "path/missing", &class()).await.unwrap_err();
    assert!(error.may_have_created_profile());
    let text = error.to_string();
    assert!(text.starts_with("adding role \"missing\" to instance profile p, operation error IAM"), "{text}");
    assert!(text.ends_with("NoSuchEntity: The role with name missing cannot be found."), "{text}");
    operations(&aws);
    tokio::time::advance(Duration::from_secs(59)).await;
    let error = profiles.create("p2", "other-path/missing", &class()).await.unwrap_err();
    assert!(error.to_string().starts_with("role not found, ") && !error.may_have_created_profile());
    assert_eq!(operations(&aws), "");
    aws.change_account(|account| account.roles.insert("missing".to_owned()));
    tokio::time::advance(Duration::from_secs(1)).await;
    profiles.create("p2", "path/missing", &class()).await.unwrap();
    assert_eq!(aws.ports().iam.get_instance_profile("p2").await.unwrap().roles, ["missing"]);
}

#[tokio::test(start_paused = true)]
async fn a_deleted_profile_is_forgotten() {
    let aws = aws();
    let profiles = profiles(&aws);
    profiles.create("p", ROLE, &class()).await.unwrap();
    profiles.protect("p");
    aws.clear_calls();
    profiles.delete("p").await.unwrap();
    assert_eq!(operations(&aws), "GetInstanceProfile RemoveRoleFromInstanceProfile DeleteInstanceProfile");
    assert!(!profiles.is_protected("p"));
    assert_eq!(profiles.get("p").await.unwrap(), None);
    profiles.delete("p").await.unwrap();
    aws.set_faults(vec![AwsFaultRule::once("GetInstanceProfile", AwsFault::Throttled)]);
    assert!(profiles.delete("p").await.is_err());
}

#[tokio::test(start_paused = true)]
async fn profiles_are_protected_for_an_hour() {
    let profiles = profiles(&aws());
    profiles.protect("p");
    profiles.protect("");
    tokio::time::advance(Duration::from_secs(3599)).await;
    assert!(profiles.is_protected("p") && !profiles.is_protected(""));
    tokio::time::advance(Duration::from_secs(1)).await;
    assert!(!profiles.is_protected("p"));
}
