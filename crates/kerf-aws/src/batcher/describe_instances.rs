//! `DescribeInstances` of many instances at once, by ID.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures::{FutureExt as _, StreamExt as _, stream};

use super::{Batcher, BatcherMetrics, BatcherSettings, CONCURRENT_SINGLE_CALLS_MAX};
use crate::ports::ec2::{DescribeInstances, Ec2, Ec2Instance, InstanceStateName};
use crate::ports::{AwsError, Filter, PageRequest, all_pages};

const SETTINGS: BatcherSettings = BatcherSettings {
    name: "describe_instances",
    idle: Duration::from_millis(100),
    max: Duration::from_secs(1),
    requests_max: 500,
};

/// Number of pages after which an answer counts as endless.
const PAGES_MAX: usize = 1_000;

/// States of instances that exist. A terminated instance counts as not found.
pub(crate) const INSTANCE_STATES: [InstanceStateName; 5] = [
    InstanceStateName::Pending,
    InstanceStateName::Running,
    InstanceStateName::Stopping,
    InstanceStateName::Stopped,
    InstanceStateName::ShuttingDown,
];

/// Describes instances by ID.
pub(crate) struct DescribeBatcher(Batcher<String, Result<Option<Ec2Instance>, AwsError>>);

impl DescribeBatcher {
    pub(crate) fn new(ec2: Arc<dyn Ec2>, metrics: BatcherMetrics) -> Self {
        let run = move |ids: Vec<String>| describe(Arc::clone(&ec2), ids).boxed();
        // All requests have the same filters.
        Self(Batcher::new(SETTINGS, metrics, |_| 0, Box::new(run)))
    }

    /// Describes one instance. Returns `None` if EC2 answers without it.
    pub(crate) async fn describe(&self, id: &str) -> Result<Option<Ec2Instance>, AwsError> {
        let result = self.0.call(id.to_owned()).await;
        result.unwrap_or_else(|| Err(AwsError::no_answer("EC2", "DescribeInstances", "error making call")))
    }
}

async fn describe(ec2: Arc<dyn Ec2>, ids: Vec<String>) -> Vec<Result<Option<Ec2Instance>, AwsError>> {
    let mut unique = ids.clone();
    unique.sort_unstable();
    unique.dedup();
    let mut results: BTreeMap<String, Result<Option<Ec2Instance>, AwsError>> = BTreeMap::new();
    for instance in describe_together(ec2.as_ref(), &unique).await {
        results.insert(instance.id.clone(), Ok(Some(instance)));
    }
    let missing: Vec<String> = unique.into_iter().filter(|id| !results.contains_key(id)).collect();
    let singles = stream::iter(missing)
        .map(|id| {
            let ec2 = Arc::clone(&ec2);
            async move {
                let result = describe_alone(ec2.as_ref(), &id).await;
                (id, result)
            }
        })
        .buffer_unordered(CONCURRENT_SINGLE_CALLS_MAX)
        .collect::<Vec<_>>();
    results.extend(singles.await);
    ids.iter().map(|id| results.get(id).cloned().unwrap_or(Ok(None))).collect()
}

/// Returns the instances of all pages before the first page that failed.
async fn describe_together(ec2: &dyn Ec2, ids: &[String]) -> Vec<Ec2Instance> {
    let mut instances = Vec::new();
    let mut page = PageRequest::default();
    for _ in 0..PAGES_MAX {
        let Ok(answer) = ec2.describe_instances(request(ids.to_vec()), page.clone()).await else { break };
        instances.extend(answer.items);
        match answer.next_token {
            Some(token) if !token.is_empty() => page.token = Some(token),
            Some(_) | None => break,
        }
    }
    instances
}

async fn describe_alone(ec2: &dyn Ec2, id: &str) -> Result<Option<Ec2Instance>, AwsError> {
    let answer = all_pages(None, |page| ec2.describe_instances(request(vec![id.to_owned()]), page)).await?;
    Ok(answer.into_iter().find(|instance| instance.id == id))
}

fn request(ids: Vec<String>) -> DescribeInstances {
    let states = Filter::any_of("instance-state-name", INSTANCE_STATES.map(InstanceStateName::name));
    DescribeInstances { ids, filters: vec![states] }
}
