//! `TerminateInstances` of many instances at once.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use futures::{FutureExt as _, StreamExt as _, stream};
use kerf_runtime::Causes;
use tracing::error;

use super::{Batcher, BatcherMetrics, BatcherSettings, CONCURRENT_SINGLE_CALLS_MAX};
use crate::ports::AwsError;
use crate::ports::ec2::Ec2;

const SETTINGS: BatcherSettings = BatcherSettings {
    name: "terminate_instances",
    idle: Duration::from_millis(100),
    max: Duration::from_secs(1),
    requests_max: 500,
};

/// Terminates instances.
pub(crate) struct TerminateBatcher(Batcher<String, Result<(), AwsError>>);

impl TerminateBatcher {
    pub(crate) fn new(ec2: Arc<dyn Ec2>, metrics: BatcherMetrics) -> Self {
        let run = move |ids: Vec<String>| terminate(Arc::clone(&ec2), ids).boxed();
        Self(Batcher::new(SETTINGS, metrics, |_| 0, Box::new(run)))
    }

    /// Terminates one instance.
    pub(crate) async fn terminate(&self, id: &str) -> Result<(), AwsError> {
        let result = self.0.call(id.to_owned()).await;
        result.unwrap_or_else(|| Err(AwsError::no_answer("EC2", "TerminateInstances", "error making call")))
    }
}

async fn terminate(ec2: Arc<dyn Ec2>, ids: Vec<String>) -> Vec<Result<(), AwsError>> {
    let mut unique = ids.clone();
    unique.sort_unstable();
    unique.dedup();
    let terminated: BTreeSet<String> = match ec2.terminate_instances(unique.clone()).await {
        Ok(changes) => {
            changes.into_iter().filter(|change| change.current.is_terminating()).map(|change| change.id).collect()
        }
        Err(cause) => {
            error!(error = %Causes(&cause), "failed terminating instances");
            BTreeSet::new()
        }
    };
    let missing: Vec<String> = unique.into_iter().filter(|id| !terminated.contains(id)).collect();
    let singles = stream::iter(missing)
        .map(|id| {
            let ec2 = Arc::clone(&ec2);
            async move {
                let result = ec2.terminate_instances(vec![id.clone()]).await.map(|_| ());
                (id, result)
            }
        })
        .buffer_unordered(CONCURRENT_SINGLE_CALLS_MAX)
        .collect::<BTreeMap<_, _>>();
    let singles = singles.await;
    ids.iter().map(|id| singles.get(id).cloned().unwrap_or(Ok(()))).collect()
}
