//! Clusters of EKS.

use super::calls::Operation;
use super::{Failure, MemoryAws};
use crate::ports::{AwsFuture, ClusterInfo, Eks};

const DESCRIBE_CLUSTER: Operation = Operation { service: "EKS", name: "DescribeCluster" };

impl Eks for MemoryAws {
    fn describe_cluster<'a>(&'a self, name: &'a str) -> AwsFuture<'a, ClusterInfo> {
        Box::pin(self.call(DESCRIBE_CLUSTER, name.to_owned(), move |state, _| {
            state.account.clusters.get(name).cloned().ok_or_else(|| {
                Failure::new(404, "ResourceNotFoundException", format!("No cluster found for name: {name}."))
            })
        }))
    }
}
