//! The registration hook of partition placement groups (spec 06 §12): a node counts as registered
//! only when its claim names the partition that EC2 has chosen for the instance.

use std::sync::Arc;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use kerf_api::labels::aws;
use kerf_api::nodeclaim::NodeClaim;
use kerf_cloud::{BoxError, HookResult, RegistrationHook};

use crate::context::AwsContext;
use crate::instances::{ReadFrom, parse_provider_id};

/// Copies the partition of an instance to its claim before registration.
pub(crate) struct PlacementGroupRegistrationHook {
    context: Arc<AwsContext>,
}

impl PlacementGroupRegistrationHook {
    pub(crate) fn new(context: Arc<AwsContext>) -> Self {
        Self { context }
    }

    async fn check(&self, claim: &NodeClaim) -> Result<HookResult, BoxError> {
        if !waits_for_partition(claim) {
            return Ok(HookResult::satisfied());
        }
        let requeue = HookResult { requeue: true, ..HookResult::default() };
        let provider_id = claim.status.as_ref().and_then(|status| status.provider_id.as_deref()).unwrap_or_default();
        if provider_id.is_empty() {
            return Ok(requeue);
        }
        let instance = self.context.instances.get(parse_provider_id(provider_id)?, ReadFrom::Ec2).await?;
        let Some(partition) = instance.partition else { return Ok(requeue) };
        let labels = [(aws::PLACEMENT_GROUP_PARTITION.to_owned(), partition.to_string())];
        Ok(HookResult { labels: labels.into(), ..HookResult::satisfied() })
    }
}

/// Returns true if a claim in a placement group has a label for the partition that is still empty.
fn waits_for_partition(claim: &NodeClaim) -> bool {
    let label = |key: &str| claim.metadata.labels.as_ref()?.get(key);
    label(aws::PLACEMENT_GROUP_ID).is_some() && label(aws::PLACEMENT_GROUP_PARTITION).is_some_and(String::is_empty)
}

impl RegistrationHook for PlacementGroupRegistrationHook {
    fn name(&self) -> &'static str {
        "PlacementGroupRegistrationHook"
    }

    fn check_registration<'a>(&'a self, claim: &'a NodeClaim) -> BoxFuture<'a, Result<HookResult, BoxError>> {
        self.check(claim).boxed()
    }
}

#[cfg(test)]
mod tests {
    use kerf_cloud::CloudProvider as _;
    use serde_json::json;

    use super::*;
    use crate::memory::AwsFault;
    use crate::memory::AwsFaultRule;
    use crate::ports::ec2::PlacementGroup;
    use crate::testing::{ProviderEnv, claim, on_demand};

    // spec 06 #120, spec 05 #120
    #[tokio::test(start_paused = true)]
    async fn spec_06_120_registration_waits_until_ec2_reports_the_partition() {
        let env = ProviderEnv::new().await;
        let group = PlacementGroup {
            id: "pg-1".into(),
            name: "racks".into(),
            state: "available".into(),
            strategy: "partition".into(),
            partition_count: Some(3),
            ..PlacementGroup::default()
        };
        env.aws.change_account(|account| account.placement_groups.insert(group.id.clone(), group));
        env.change_class(|class| class["spec"]["placementGroupSelector"] = json!({ "name": "racks" }));
        let mut launched = claim("a", json!([on_demand()]));
        let instance = env.provider.create(&launched).await.unwrap();
        assert_eq!(instance.labels[aws::PLACEMENT_GROUP_ID], "pg-1");
        assert_eq!(instance.labels[aws::PLACEMENT_GROUP_PARTITION], "");
        let hook = &env.provider.registration_hooks()[0];
        // Without labels nothing is waited for.
        assert!(!hook.check_registration(&launched).await.unwrap().is_pending());
        launched.metadata.labels.get_or_insert_default().extend(instance.labels);
        assert!(hook.check_registration(&launched).await.unwrap().is_pending(), "no provider ID yet");
        launched.status = Some(serde_json::from_value(json!({ "providerID": instance.provider_id })).unwrap());
        env.fleets.hide_partitions(true);
        assert!(hook.check_registration(&launched).await.unwrap().is_pending());
        env.aws.set_faults(vec![AwsFaultRule {
            times: Some(9),
            ..AwsFaultRule::once("DescribeInstances", AwsFault::Throttled)
        }]);
        hook.check_registration(&launched).await.unwrap_err();
        env.aws.set_faults(Vec::new());
        env.fleets.hide_partitions(false);
        let result = hook.check_registration(&launched).await.unwrap();
        assert!(!result.is_pending());
        assert_eq!(result.labels[aws::PLACEMENT_GROUP_PARTITION], "1");
        // A partition that is known is not read again.
        launched.metadata.labels.get_or_insert_default().extend(result.labels);
        env.aws.clear_calls();
        assert!(!hook.check_registration(&launched).await.unwrap().is_pending());
        assert!(env.operations().is_empty());
    }
}
