//! Actions that change the account, and actions that find nothing to change.

#![allow(clippy::unwrap_used, reason = "a test may fail by panicking")]

use kerf_runtime::Clock;

use super::super::sandbox_account::{AccountOptions, memory_aws};
use super::*;

const KUBERNETES_VERSION: &str = "1.36";

/// An account of the cluster `demo`.
fn demo_account() -> MemoryAws {
    let options = AccountOptions {
        cluster_name: "demo",
        kubernetes_version: KUBERNETES_VERSION,
        endpoint: None,
        is_instant: false,
        seed: 0,
    };
    memory_aws(Clock::system(), &options)
}

/// Carries out a step in YAML, and returns the failures.
fn failures(aws: &MemoryAws, step: &str) -> Vec<String> {
    let step: AwsStep = serde_yaml_ng::from_str(step).unwrap();
    let steps = AccountSteps { aws, cluster_name: "demo", kubernetes_version: KUBERNETES_VERSION };
    steps.perform(&step).err().unwrap_or_default()
}

#[tokio::test(start_paused = true)]
async fn an_action_that_changes_the_account_succeeds_once() {
    for (step, undo, field) in [
        ("deny: ['ec2:CreateFleet']", "allow: ['ec2:CreateFleet']", "deny"),
        ("disableKmsKeys: [key-1]", "enableKmsKeys: [key-1]", "disableKmsKeys"),
        ("unmapRole: KarpenterNodeRole-demo", "mapRole: KarpenterNodeRole-demo", "unmapRole"),
        ("createQueue: other", "deleteQueue: other", "createQueue"),
    ] {
        let aws = demo_account();
        assert_eq!(failures(&aws, undo).len(), 1, "{undo} has nothing to undo");
        assert_eq!(failures(&aws, step), [""; 0], "{step}");
        let again = failures(&aws, step);
        assert!(again.len() == 1 && again[0].starts_with(&format!("{field}: ")), "{step} again: {again:?}");
        assert_eq!(failures(&aws, undo), [""; 0], "{undo}");
        assert_eq!(failures(&aws, undo).len(), 1, "{undo} again");
    }
}

#[tokio::test(start_paused = true)]
async fn names_that_do_not_exist_are_failures() {
    let aws = demo_account();
    for step in [
        "callFault: {fault: throttled}",
        "callFault: {operation: GetCallerIdentity, fault: throttled}",
        "deny: ['iam:GetInstanceProfile', 'sqs:ReceiveMessage', 'arc-zonal-shift:GetManagedResource']",
        "stockOut: {instanceType: 'm5.*', zone: us-west-2?, capacityType: spot}",
        "launchFailure: {reason: Server.InternalError, pools: {}}",
        "price: {instanceType: m5.large, zone: us-west-2a, capacityType: spot, perHour: '0.03'}",
    ] {
        assert_eq!(failures(&aws, step), [""; 0], "{step}");
    }
    let problems: Vec<String> = [
        "deny: ['iam:GetProfile']",
        "deny: [CreateFleet]",
        "callFault: {operation: CreateFleets, fault: throttled}",
        "unmapRole: KarpenterNodeRole-dmo",
        "stockOut: {zone: us-west-2d}",
        "launchFailure: {reason: Server.InternalError, pools: {instanceType: m55.*}}",
        "price: {instanceType: m5.large, zone: us-west-2d, capacityType: spot, perHour: '0.03'}",
    ]
    .into_iter()
    .flat_map(|step| failures(&aws, step))
    // The first of the names that are possible is enough here.
    .map(|problem| problem.split(", ").next().unwrap().to_owned())
    .collect();
    insta::assert_snapshot!(problems.join("\n"), @r"
    deny: the EC2 in memory has no action iam:GetProfile; use one of iam:AddRoleToInstanceProfile
    deny: the EC2 in memory has no action CreateFleet; use one of ec2:CreateFleet
    callFault: operation: the EC2 in memory has no operation CreateFleets; use one of CreateFleet
    unmapRole: the account has no role KarpenterNodeRole-dmo; use one of KarpenterNodeRole-demo
    stockOut: no pool has such an instance type
    launchFailure: no pool has such an instance type
    price: zone: there is no such zone; use one of us-west-2a
    ");
}

#[tokio::test(start_paused = true)]
async fn a_denied_action_is_denied() {
    use kerf_aws::ports::Eks as _;
    let aws = demo_account();
    assert_eq!(failures(&aws, "deny: ['eks:DescribeCluster']"), [""; 0]);
    assert!(aws.describe_cluster("demo").await.is_err());
    assert_eq!(failures(&aws, "allow: ['eks:DescribeCluster']"), [""; 0]);
    assert!(aws.describe_cluster("demo").await.is_ok());
}
