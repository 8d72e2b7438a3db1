//! `providers.pricing`: keeps the prices current (spec 06 §16.1).

use std::collections::BTreeMap;
use std::fmt;
use std::hash::{DefaultHasher, Hasher as _};
use std::sync::Arc;
use std::time::Duration;

use kerf_api::slim::Str;
use kerf_cloud::ProviderSetup;
use kerf_operator::{Concurrency, Reconcile, ReconcileError};
use kerf_runtime::ReconcileAction;
use tracing::debug;

use crate::change_log::ChangeLog;
use crate::context::AwsContext;
use crate::pricing::{PriceUpdateError, read_on_demand_prices, read_spot_prices};

/// Time between two updates.
const PRICING_REFRESH_INTERVAL: Duration = Duration::from_hours(12);
/// Begin of the names of regions without a price list.
const GOV_CLOUD_PREFIX: &str = "us-gov";
/// Subjects of the change log.
const ON_DEMAND_SUBJECT: &str = "on-demand-prices";
const SPOT_SUBJECT: &str = "spot-prices";

/// `providers.pricing`: reads prices from AWS.
pub(crate) struct PricingRefresh {
    context: Arc<AwsContext>,
    logged: ChangeLog,
}

/// The failed parts of an update. The other part was used.
#[derive(Debug)]
pub(crate) struct PricingRefreshError(Vec<PriceUpdateError>);

impl fmt::Display for PricingRefreshError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let texts: Vec<String> = self.0.iter().map(ToString::to_string).collect();
        write!(f, "updating pricing, {}", texts.join("; "))
    }
}

impl std::error::Error for PricingRefreshError {}

impl ReconcileError for PricingRefreshError {
    fn log_fields(&self) -> Vec<(String, serde_json::Value)> {
        let first = self.0.iter().find_map(|error| match error {
            PriceUpdateError::Aws(error) => Some(error),
            PriceUpdateError::NoOnDemandPrices | PriceUpdateError::NoSpotPrices => None,
        });
        first.map(crate::ports::AwsError::log_fields).unwrap_or_default()
    }
}

impl PricingRefresh {
    pub(crate) fn add_to(setup: &mut ProviderSetup<'_>, context: Arc<AwsContext>) {
        let settings = Concurrency { cores: 1 }.single_worker();
        setup.set.add_singleton::<Self>("providers.pricing", Self::new(context), settings);
    }

    fn new(context: Arc<AwsContext>) -> Self {
        let logged = ChangeLog::new(context.clock);
        Self { context, logged }
    }

    async fn update_on_demand(&self) -> Result<(), PriceUpdateError> {
        let region = &self.context.ports.region;
        if let Some(message) = skip_message(region, self.context.settings.isolated_vpc) {
            if self.logged.is_new(ON_DEMAND_SUBJECT, "") {
                debug!("{message}");
            }
            return Ok(());
        }
        let prices = read_on_demand_prices(self.context.ports.price_list.as_ref(), region).await?;
        let pricing = self.context.instance_types.pricing();
        pricing.merge_on_demand(prices);
        let known = pricing.on_demand_prices();
        if self.logged.is_new(ON_DEMAND_SUBJECT, &fingerprint(&known)) {
            debug!("instance-type-count" = known.len(), "updated on-demand pricing");
        }
        Ok(())
    }

    async fn update_spot(&self) -> Result<(), PriceUpdateError> {
        let prices = read_spot_prices(self.context.ports.ec2.as_ref(), self.context.clock.now()).await?;
        let pricing = self.context.instance_types.pricing();
        pricing.merge_spot(prices);
        let known = pricing.zonal_spot_prices();
        if self.logged.is_new(SPOT_SUBJECT, &fingerprint(&known)) {
            debug!(
                "instance-type-count" = known.len(),
                "offering-count" = known.values().map(BTreeMap::len).sum::<usize>(),
                "updated spot pricing with instance types and offerings"
            );
        }
        Ok(())
    }
}

impl Reconcile for PricingRefresh {
    type Error = PricingRefreshError;

    async fn reconcile(&self, _: &Str) -> Result<ReconcileAction, PricingRefreshError> {
        let (spot, on_demand) = tokio::join!(self.update_spot(), self.update_on_demand());
        let errors: Vec<PriceUpdateError> = [spot, on_demand].into_iter().filter_map(Result::err).collect();
        if errors.is_empty() {
            Ok(ReconcileAction::RequeueAfter(PRICING_REFRESH_INTERVAL))
        } else {
            Err(PricingRefreshError(errors))
        }
    }
}

/// Returns the log line for a region whose on-demand prices are not updated. Returns `None` if they
/// are.
fn skip_message(region: &str, is_isolated: bool) -> Option<&'static str> {
    if is_isolated {
        return Some("running in an isolated VPC, on-demand pricing information will not be updated");
    }
    let is_gov_cloud = region.starts_with(GOV_CLOUD_PREFIX);
    is_gov_cloud.then_some("running in GovCloud, on-demand pricing information will not be updated")
}

/// Returns a short text that differs for different prices.
fn fingerprint(prices: &impl std::hash::Hash) -> String {
    let mut hasher = DefaultHasher::new();
    prices.hash(&mut hasher);
    format!("{:x}", hasher.finish())
}

#[cfg(test)]
mod tests {
    use kerf_engine::Price;
    use kerf_operator::logs::{Level, LineFormat, capturing_subscriber};

    use super::*;
    use crate::memory::{AwsFault, AwsFaultRule, MemorySettings};
    use crate::testing::{ProviderEnv, TYPES};

    fn dollars(text: &str) -> Price {
        Price::from_decimal(text).unwrap()
    }

    async fn env(change: impl FnOnce(&mut crate::AwsSettings)) -> (ProviderEnv, PricingRefresh) {
        let memory = MemorySettings { page_size_max: Some(2), first_page_is_empty: true, ..MemorySettings::default() };
        let env = ProviderEnv::with(&TYPES, memory, change).await;
        env.aws.change_market(|market| {
            market.set_on_demand_price("m5.large", dollars("0.2"));
            market.set_on_demand_price("m5.metal", dollars("4.608"));
            market.set_spot_price("m5.large", "us-west-2a", dollars("0.03"));
        });
        let refresh = PricingRefresh::new(env.provider.context().clone());
        (env, refresh)
    }

    impl PricingRefresh {
        async fn run(&self) -> Result<(), String> {
            self.reconcile(&Str::new_static("")).await.map(drop).map_err(|error| error.to_string())
        }

        fn price(&self, instance_type: &str, zone: &str) -> (Option<Price>, Option<Price>) {
            let pricing = self.context.instance_types.pricing();
            (pricing.on_demand(instance_type), pricing.spot(instance_type, zone))
        }
    }

    // spec 05 #60, #67
    #[tokio::test(start_paused = true)]
    async fn an_update_reads_all_pages_and_keeps_the_prices_of_missing_types() {
        let (env, refresh) = env(|_| {}).await;
        assert_eq!(refresh.price("m5.large", "us-west-2a"), (Some(dollars("0.096")), Some(dollars("0.096"))));
        refresh.run().await.unwrap();
        assert_eq!(refresh.price("m5.large", "us-west-2a"), (Some(dollars("0.2")), Some(dollars("0.03"))));
        assert_eq!(refresh.price("m5.metal", "us-west-2a"), (Some(dollars("4.608")), None), "not sold as spot here");
        assert_eq!(refresh.price("c7g.large", "us-west-2a").0, Some(dollars("0.0725")), "the shipped price");
        assert_eq!(refresh.price("c7g.large", "us-west-2a").1, None);
        // The page sizes of spec 05 section 2.
        let size_of = |operation: &str| {
            let calls = env.aws.calls().into_iter().filter(|call| call.operation == operation);
            calls
                .map(|call| call.request.split(" max ").nth(1).unwrap_or_default().split(' ').next().map(str::to_owned))
                .next()
        };
        assert_eq!(size_of("DescribeSpotPriceHistory").flatten().as_deref(), Some("2000"));
        assert_eq!(size_of("GetProducts").flatten().as_deref(), Some("100"));
    }

    // spec 05 #69, spec 06 §16.1
    #[tokio::test(start_paused = true)]
    async fn spec_05_69_an_isolated_vpc_never_reads_the_price_list() {
        let (env, refresh) = env(|settings| settings.isolated_vpc = true).await;
        refresh.run().await.unwrap();
        let operations = env.operations();
        assert!(operations.contains(&"DescribeSpotPriceHistory") && !operations.contains(&"GetProducts"));
        assert_eq!(refresh.price("m5.large", "us-west-2a"), (Some(dollars("0.096")), Some(dollars("0.03"))));
        assert!(skip_message("us-gov-east-1", false).is_some() && skip_message("us-iso-east-1", false).is_none());
    }

    // spec 06 #131
    #[tokio::test(start_paused = true)]
    async fn spec_06_131_the_half_that_was_read_is_used_and_both_are_read_again() {
        let (env, refresh) = env(|_| {}).await;
        env.aws.set_faults(vec![AwsFaultRule::once("GetProducts", AwsFault::Throttled)]);
        let error = refresh.run().await.unwrap_err();
        assert!(error.starts_with("updating pricing, operation error Pricing: GetProducts, "), "{error}");
        assert_eq!(refresh.price("m5.large", "us-west-2a"), (Some(dollars("0.096")), Some(dollars("0.03"))));
        env.aws.clear_calls();
        refresh.run().await.unwrap();
        let operations = env.operations();
        assert!(operations.contains(&"DescribeSpotPriceHistory") && operations.contains(&"GetProducts"));
        assert_eq!(refresh.price("m5.large", "us-west-2a").0, Some(dollars("0.2")));
    }

    // spec 05 #68, spec 06 §16.1: an empty answer is a failure
    #[tokio::test(start_paused = true)]
    async fn empty_answers_are_failures_and_change_nothing() {
        let (env, refresh) = env(|_| {}).await;
        env.aws.change_market(|market| *market = crate::memory::Market::default());
        let error = refresh.run().await.unwrap_err();
        assert_eq!(error, "updating pricing, no spot pricing found; no on-demand pricing found");
        assert_eq!(refresh.price("m5.large", "us-west-2a"), (Some(dollars("0.096")), Some(dollars("0.096"))));
        // Only the list of bare-metal instances is empty.
        env.aws.change_market(|market| market.set_on_demand_price("m5.large", dollars("0.2")));
        assert_eq!(refresh.run().await.unwrap_err(), "updating pricing, no on-demand pricing found");
        assert_eq!(refresh.price("m5.large", "us-west-2a").0, Some(dollars("0.096")));
    }

    // spec 05 #136
    #[tokio::test(start_paused = true)]
    async fn spec_05_136_a_running_update_does_not_block_readers() {
        let (env, refresh) = env(|_| {}).await;
        let slow = AwsFault::Delayed { by: Duration::from_mins(1) };
        env.aws.set_faults(vec![AwsFaultRule::always("", slow)]);
        let update = refresh.run();
        tokio::pin!(update);
        assert!(futures::poll!(update.as_mut()).is_pending());
        let class = env.provider.context().node_classes.get("default").await.unwrap();
        assert!(!env.provider.context().instance_types.list(&class).unwrap().types().is_empty());
        assert_eq!(refresh.price("m5.large", "us-west-2a").1, Some(dollars("0.096")));
        update.await.unwrap();
        assert_eq!(refresh.price("m5.large", "us-west-2a").1, Some(dollars("0.03")));
    }

    // spec 06 §16.1, §1.5
    #[tokio::test(start_paused = true)]
    async fn prices_are_logged_when_they_change() {
        let (subscriber, lines) = capturing_subscriber(Level::Debug, LineFormat::Json);
        let _guard = tracing::subscriber::set_default(subscriber);
        let (env, refresh) = env(|_| {}).await;
        refresh.run().await.unwrap();
        refresh.run().await.unwrap();
        env.aws.change_market(|market| market.set_spot_price("m5.large", "us-west-2a", dollars("0.04")));
        refresh.run().await.unwrap();
        let text = lines.text();
        let count = |message: &str| text.lines().filter(|line| line.contains(message)).count();
        assert_eq!(count("\"updated on-demand pricing\""), 1, "{text}");
        assert_eq!(count("\"updated spot pricing with instance types and offerings\""), 2, "{text}");
        assert!(text.contains("\"instance-type-count\":4,\"offering-count\":12"), "{text}");
    }
}
