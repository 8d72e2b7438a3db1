//! The operations of the EC2 in memory, by service.

use super::calls::AwsOperation;

pub(crate) const EC2_OPERATIONS: [&str; 19] = [
    "CreateFleet",
    "CreateLaunchTemplate",
    "CreateTags",
    "DeleteLaunchTemplate",
    "DescribeAvailabilityZones",
    "DescribeCapacityReservations",
    "DescribeImages",
    "DescribeInstanceStatus",
    "DescribeInstanceTypeOfferings",
    "DescribeInstanceTypes",
    "DescribeInstances",
    "DescribeLaunchTemplates",
    "DescribePlacementGroups",
    "DescribeRegions",
    "DescribeSecurityGroups",
    "DescribeSpotPriceHistory",
    "DescribeSubnets",
    "RunInstances",
    "TerminateInstances",
];

pub(crate) const IAM_OPERATIONS: [&str; 6] = [
    "AddRoleToInstanceProfile",
    "CreateInstanceProfile",
    "DeleteInstanceProfile",
    "GetInstanceProfile",
    "ListInstanceProfiles",
    "RemoveRoleFromInstanceProfile",
];

pub(crate) const SQS_OPERATIONS: [&str; 3] = ["DeleteMessage", "GetQueueUrl", "ReceiveMessage"];

/// The operations of services that have one each.
const OTHER_OPERATIONS: [(&str, &str); 5] = [
    ("ARC Zonal Shift", "GetManagedResource"),
    ("EKS", "DescribeCluster"),
    ("Pricing", "GetProducts"),
    ("SSM", "GetParameter"),
    ("STS", "GetCallerIdentity"),
];

fn all() -> impl Iterator<Item = AwsOperation> {
    let of_service = |service: &'static str| move |name: &'static str| AwsOperation { service, name };
    let ec2 = EC2_OPERATIONS.into_iter().map(of_service("EC2"));
    let iam = IAM_OPERATIONS.into_iter().map(of_service("IAM"));
    let sqs = SQS_OPERATIONS.into_iter().map(of_service("SQS"));
    let others = OTHER_OPERATIONS.into_iter().map(|(service, name)| AwsOperation { service, name });
    ec2.chain(iam).chain(sqs).chain(others)
}

/// Returns the names of all operations, for example `CreateFleet`.
pub fn operation_names() -> impl Iterator<Item = &'static str> {
    all().map(|operation| operation.name)
}

/// Returns the names of all operations in IAM policies, for example `ec2:CreateFleet`.
pub fn operation_actions() -> impl Iterator<Item = String> {
    all().map(AwsOperation::action)
}
