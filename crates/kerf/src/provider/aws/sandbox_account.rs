//! The AWS account of a sandbox and of `kerf aws serve`: what Karpenter's getting-started guide
//! sets up, with the instance types and prices that Kerf ships.

use std::time::Duration;

use kerf_aws::data;
use kerf_aws::memory::{Account, MemoryAws, MemorySettings, SeededSpotPrices};
use kerf_runtime::Clock;

/// The parts of an account that differ between its uses.
#[derive(Debug, Clone)]
pub(crate) struct AccountOptions<'a> {
    /// Name of the EKS cluster, of its discovery tags and of its node role.
    pub(crate) cluster_name: &'a str,
    /// Kubernetes version of the cluster and of the images.
    pub(crate) kubernetes_version: &'a str,
    /// URL of the API server; `None` for one that does not exist.
    pub(crate) endpoint: Option<String>,
    /// True if instances start and stop without delay.
    pub(crate) is_instant: bool,
    /// Seed of all identifiers.
    pub(crate) seed: u64,
}

/// Returns an EC2 with a cluster of three zones.
pub(crate) fn memory_aws(clock: Clock, options: &AccountOptions<'_>) -> MemoryAws {
    let shipped = data::catalogue();
    let mut account = Account::eks(options.cluster_name, options.kubernetes_version, shipped.instance_types.clone());
    account.set_offerings(shipped.offerings.iter().cloned());
    account.add_example_capacity(options.cluster_name);
    let region = account.region.clone();
    if let Some(cluster) = account.clusters.get_mut(options.cluster_name)
        && let Some(endpoint) = &options.endpoint
    {
        cluster.endpoint = Some(endpoint.clone());
    }
    let event_queue = Some(options.cluster_name.to_owned());
    let mut settings = MemorySettings { seed: options.seed, event_queue, ..MemorySettings::default() };
    if options.is_instant {
        settings.pending_for = Duration::ZERO;
        settings.shutting_down_for = Duration::ZERO;
    }
    let aws = MemoryAws::new(clock, account, settings);
    aws.change_market(|market| {
        for (instance_type, price) in data::prices(&region) {
            market.set_on_demand_price(instance_type, *price);
        }
        market.set_seeded_spot_prices(Some(SeededSpotPrices { seed: options.seed, change_every: None }));
    });
    aws
}
