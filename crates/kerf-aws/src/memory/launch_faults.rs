//! Reasons beside the request itself why an instance is not launched or does not start: faults that
//! something outside draws, stock-outs, quotas, keys and volumes.

use jiff::Timestamp;

use super::AwsFailure;
use super::market::{CapacityPool, Stock};
use super::records::LaunchedInstance;
use super::state::AwsState;
use crate::ports::ec2::LaunchTemplateData;

/// State reason of an instance whose volume is encrypted with a key that cannot be used.
const DISABLED_KEY: &str = "Client.InvalidKMSKey.InvalidState";
/// State reason of an instance whose volumes exceed the quota of the account.
const VOLUME_LIMIT: &str = "Client.VolumeLimitExceeded";
const SPOT: &str = "spot";

impl AwsState {
    /// Returns the number of instances that can be launched from a pool now.
    pub(super) fn stock(&self, pool: &CapacityPool, now: Timestamp) -> Stock {
        if self.launch_faults.as_ref().is_some_and(|faults| faults.is_out_of_stock(pool)) {
            return Stock::Insufficient;
        }
        self.market.stock(pool, now)
    }

    /// Returns the number of instances of a pool that the vCPU quota allows. Returns `None` without
    /// a quota.
    pub(super) fn launchable_by_quota(&self, pool: &CapacityPool) -> Option<usize> {
        let quota = i64::from(*self.account.vcpu_quotas.get(quota_of(pool))?);
        let vcpus = |name: &str| self.account.instance_type(name).map_or(0, |info| i64::from(info.vcpus.default_vcpus));
        let is_spot = pool.capacity_type == SPOT;
        let counts = |launched: &&LaunchedInstance| {
            !launched.instance.state.is_terminating() && launched.instance.spot_request_id.is_some() == is_spot
        };
        let used: i64 =
            self.instances.values().filter(counts).map(|launched| vcpus(&launched.instance.instance_type)).sum();
        let free = (quota - used).max(0);
        usize::try_from(free / vcpus(&pool.instance_type).max(1)).ok()
    }

    /// Returns EC2's error if the vCPU quota allows no further instance of a pool. Returns `None`
    /// if it allows one.
    pub(super) fn quota_failure(&self, pool: &CapacityPool) -> Option<AwsFailure> {
        if self.launchable_by_quota(pool)? > 0 {
            return None;
        }
        if pool.capacity_type == SPOT {
            return Some(AwsFailure::bad_request("MaxSpotInstanceCountExceeded", "Max spot instance count exceeded"));
        }
        let quota = self.account.vcpu_quotas.get(quota_of(pool)).copied().unwrap_or_default();
        let message = format!(
            "You have requested more vCPU capacity than your current vCPU limit of {quota} allows for the instance \
             bucket that the specified instance type belongs to. Please visit \
             http://aws.amazon.com/contact-us/ec2-request to request an adjustment to this limit."
        );
        Some(AwsFailure::bad_request("VcpuLimitExceeded", message))
    }

    /// Returns the state reason of a new instance that cannot start. Returns `None` if it starts.
    pub(super) fn launch_failure(&mut self, data: &LaunchTemplateData, pool: &CapacityPool) -> Option<String> {
        let mut keys = data.block_devices.iter().filter_map(|device| device.kms_key_id.as_ref());
        if keys.any(|key| self.account.disabled_kms_keys.contains(key)) {
            return Some(DISABLED_KEY.to_owned());
        }
        if let Some(quota) = self.account.volume_gib_quota {
            let counted = self.instances.values().filter(|launched| !launched.instance.state.is_terminating());
            let used: u64 = counted.map(|launched| volume_gib(&launched.template)).sum();
            if used + volume_gib(data) > quota {
                return Some(VOLUME_LIMIT.to_owned());
            }
        }
        self.market.draw_launch_failure(pool)
    }
}

fn volume_gib(data: &LaunchTemplateData) -> u64 {
    data.block_devices.iter().filter_map(|device| u64::try_from(device.volume_size_gib?).ok()).sum()
}

/// Returns the name of the vCPU quota of a pool: `spot` or `on-demand`.
fn quota_of(pool: &CapacityPool) -> &'static str {
    if pool.capacity_type == SPOT { SPOT } else { "on-demand" }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use super::super::testing::{SUBNETS, aws, fleet, on_demand, spot, template};
    use super::super::{LaunchFailure, LaunchFaults, MemoryAws, PoolPattern, StockOut};
    use super::*;
    use crate::ports::Ec2 as _;
    use crate::ports::ec2::{InstanceStateName, TemplateBlockDevice};

    async fn aws_with_template(change: impl FnOnce(&mut LaunchTemplateData)) -> MemoryAws {
        let aws = aws();
        let mut request = template(&aws, "demo");
        change(&mut request.data);
        aws.create_launch_template(request).await.unwrap();
        aws
    }

    /// Launches m5.large, and returns the number of instances and the error codes.
    async fn launch(aws: &MemoryAws, count: i32, target: crate::ports::ec2::FleetTarget) -> (usize, Vec<String>) {
        let answer = aws.create_fleet(fleet(count, target, "demo", &[("m5.large", SUBNETS[0])])).await.unwrap();
        let launched = answer.instances.iter().map(|own| own.ids.len()).sum();
        (launched, answer.errors.into_iter().map(|error| error.code).collect())
    }

    fn state_reasons(aws: &MemoryAws) -> Vec<Option<String>> {
        aws.instances().into_iter().map(|launched| launched.instance.state_reason).collect()
    }

    // spec 05 §18
    #[tokio::test(start_paused = true)]
    async fn a_vcpu_quota_counts_the_live_instances_of_its_capacity_type() {
        let aws = aws_with_template(|_| {}).await;
        aws.change_account(|account| account.vcpu_quotas.insert("on-demand".into(), 5));
        assert_eq!(launch(&aws, 3, on_demand()).await, (2, vec!["VcpuLimitExceeded".into()]));
        assert_eq!(launch(&aws, 3, spot()).await, (3, vec![]), "spot has a quota of its own");
        let on_demand_id = |launched: &LaunchedInstance| launched.instance.spot_request_id.is_none();
        let first = aws.instances().into_iter().find(on_demand_id).unwrap().instance.id;
        aws.terminate_instances(vec![first]).await.unwrap();
        assert_eq!(launch(&aws, 3, on_demand()).await, (1, vec!["VcpuLimitExceeded".into()]));
        aws.change_account(|account| account.vcpu_quotas.insert("spot".into(), 6));
        assert_eq!(launch(&aws, 1, spot()).await, (0, vec!["MaxSpotInstanceCountExceeded".into()]));
    }

    // spec 05 §15.7
    #[tokio::test(start_paused = true)]
    async fn an_instance_whose_key_is_disabled_starts_and_dies_with_the_reason() {
        let device = |key: &str| TemplateBlockDevice {
            kms_key_id: Some(key.to_owned()),
            volume_size_gib: Some(20),
            ..TemplateBlockDevice::default()
        };
        let aws = aws_with_template(|data| data.block_devices = vec![device("key-1")]).await;
        aws.change_account(|account| account.disabled_kms_keys.insert("key-1".into()));
        assert_eq!(launch(&aws, 1, on_demand()).await, (1, vec![]), "the launch itself succeeds");
        assert_eq!(state_reasons(&aws), [None]);
        tokio::time::advance(super::super::MemorySettings::default().pending_for).await;
        assert_eq!(state_reasons(&aws), [Some(DISABLED_KEY.to_owned())]);
        assert_eq!(aws.instances()[0].instance.state, InstanceStateName::ShuttingDown);
        aws.change_account(|account| account.disabled_kms_keys.clear());
        aws.change_account(|account| account.volume_gib_quota = Some(30));
        launch(&aws, 2, on_demand()).await;
        aws.run_pending_instances();
        let reasons: Vec<Option<String>> = state_reasons(&aws);
        assert_eq!(reasons.iter().filter(|reason| reason.as_deref() == Some(VOLUME_LIMIT)).count(), 1, "{reasons:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn launch_failures_affect_their_pools_by_count() {
        let aws = aws_with_template(|_| {}).await;
        let pools = PoolPattern { instance_type: "m5.*".into(), ..PoolPattern::default() };
        aws.change_market(|market| {
            market.add_launch_failure(LaunchFailure { pools, reason: "Server.InternalError".into(), times: Some(1) });
        });
        launch(&aws, 2, on_demand()).await;
        aws.run_pending_instances();
        let mut reasons = state_reasons(&aws);
        reasons.sort();
        assert_eq!(reasons, [None, Some("Server.InternalError".to_owned())]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_stock_out_that_has_ended_is_not_counted_when_its_pools_are_restocked() {
        let aws = aws();
        let pools = PoolPattern { zone: "us-west-2a".into(), ..PoolPattern::default() };
        let until = aws.clock().now() + Duration::from_mins(1);
        let stock_out = |until| StockOut { pools: pools.clone(), until };
        aws.change_market(|market| market.add_stock_out(stock_out(Some(until))));
        tokio::time::advance(Duration::from_mins(1)).await;
        assert_eq!(aws.change_market(|market| market.end_stock_outs(&pools)), 0);
        aws.change_market(|market| market.add_stock_out(stock_out(None)));
        assert_eq!(aws.change_market(|market| market.end_stock_outs(&pools)), 1);
    }

    struct Faults;

    impl LaunchFaults for Faults {
        fn is_out_of_stock(&self, pool: &CapacityPool) -> bool {
            pool.capacity_type == "spot"
        }

        fn is_throttled(&self) -> bool {
            false
        }
    }

    #[tokio::test(start_paused = true)]
    async fn faults_from_outside_affect_launches_but_no_fork() {
        let aws = aws_with_template(|_| {}).await;
        aws.set_launch_faults(Some(Arc::new(Faults)));
        assert_eq!(launch(&aws, 1, spot()).await, (0, vec!["InsufficientInstanceCapacity".into()]));
        assert_eq!(launch(&aws, 1, on_demand()).await, (1, vec![]));
        assert_eq!(launch(&aws.fork(aws.clock()), 1, spot()).await, (1, vec![]));
    }
}
