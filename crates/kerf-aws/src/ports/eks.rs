//! Amazon EKS: facts about the cluster.

use super::AwsFuture;

/// The calls of Amazon EKS.
pub trait Eks: Send + Sync {
    /// `DescribeCluster`.
    fn describe_cluster<'a>(&'a self, name: &'a str) -> AwsFuture<'a, ClusterInfo>;
}

/// A cluster of Amazon EKS. Facts that the service does not report are `None`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ClusterInfo {
    /// ARN of the cluster.
    pub arn: Option<String>,
    /// URL of the API server.
    pub endpoint: Option<String>,
    /// Kubernetes version, for example `1.34`.
    pub version: Option<String>,
    /// Range of Service addresses of an IPv4 cluster.
    pub service_ipv4_cidr: Option<String>,
    /// Range of Service addresses of an IPv6 cluster.
    pub service_ipv6_cidr: Option<String>,
    /// CA certificate of the API server, base64.
    pub certificate_authority: Option<String>,
}
