//! The calls of Amazon EKS.

use aws_sdk_eks::Client;
use kerf_aws::ports::{AwsFuture, ClusterInfo, Eks};

use crate::calls::Calls;

/// Amazon EKS through the SDK.
pub(crate) struct SdkEks {
    client: Client,
    calls: Calls,
}

impl SdkEks {
    pub(crate) fn new(client: Client) -> Self {
        Self { client, calls: Calls::new("EKS") }
    }
}

impl Eks for SdkEks {
    fn describe_cluster<'a>(&'a self, name: &'a str) -> AwsFuture<'a, ClusterInfo> {
        Box::pin(async move {
            let request = self.client.describe_cluster().name(name).customize();
            let send = |recorder| request.interceptor(recorder).send();
            let Some(cluster) = self.calls.run("DescribeCluster", send).await?.cluster else {
                return Ok(ClusterInfo::default());
            };
            let network = cluster.kubernetes_network_config;
            let (service_ipv4_cidr, service_ipv6_cidr) =
                network.map_or((None, None), |network| (network.service_ipv4_cidr, network.service_ipv6_cidr));
            Ok(ClusterInfo {
                arn: cluster.arn,
                endpoint: cluster.endpoint,
                version: cluster.version,
                service_ipv4_cidr,
                service_ipv6_cidr,
                certificate_authority: cluster.certificate_authority.and_then(|authority| authority.data),
            })
        })
    }
}
