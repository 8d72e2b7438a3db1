//! Clusters of EKS.

use super::calls::AwsOperation;
use super::{AwsFailure, MemoryAws};
use crate::ports::{AwsFuture, ClusterInfo, Eks};

const DESCRIBE_CLUSTER: AwsOperation = AwsOperation { service: "EKS", name: "DescribeCluster" };

impl Eks for MemoryAws {
    fn describe_cluster<'a>(&'a self, name: &'a str) -> AwsFuture<'a, ClusterInfo> {
        Box::pin(self.call(DESCRIBE_CLUSTER, name.to_owned(), move |state, _| {
            state.account.clusters.get(name).cloned().ok_or_else(|| {
                AwsFailure::new(404, "ResourceNotFoundException", format!("No cluster found for name: {name}."))
            })
        }))
    }
}
