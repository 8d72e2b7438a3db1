//! Parameters of AWS Systems Manager that name images (spec 05 §12.1, §12.6).

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use kerf_runtime::Clock;

use crate::cache_metrics::CacheMetrics;
use crate::ports::{AwsError, Ssm};
use crate::ttl_cache::TtlCache;

/// Time for which parameters of aliases are not read again.
const ALIAS_PARAMETER_TTL: Duration = Duration::from_hours(24);
/// Time for which parameters that a user names are not read again.
const USER_PARAMETER_TTL: Duration = Duration::from_mins(5);
/// Number of parameters that are kept.
const PARAMETERS_MAX: usize = 10_000;

/// The origin of a parameter, which decides for how long its value is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ParameterKind {
    /// A parameter of an alias with a fixed version: its value never changes.
    Pinned,
    /// A parameter of an alias without a version, such as `latest`: AWS changes its value.
    Latest,
    /// A parameter that a node class names.
    UserSupplied,
}

impl ParameterKind {
    fn ttl(self) -> Duration {
        match self {
            Self::Pinned | Self::Latest => ALIAS_PARAMETER_TTL,
            Self::UserSupplied => USER_PARAMETER_TTL,
        }
    }
}

/// The parameters that were read. Failures are not kept.
pub(crate) struct SsmParameters {
    ssm: Arc<dyn Ssm>,
    values: TtlCache<String, (String, ParameterKind)>,
    /// [`Ssm::refresh_count`] at the last look-up.
    seen_refresh_count: AtomicU64,
}

impl SsmParameters {
    /// Creates the provider without any value.
    pub(crate) fn new(ssm: Arc<dyn Ssm>, clock: Clock) -> Self {
        let values = TtlCache::new(clock, ALIAS_PARAMETER_TTL, PARAMETERS_MAX);
        Self { seen_refresh_count: AtomicU64::new(ssm.refresh_count()), ssm, values }
    }

    /// Publishes the number of entries of the caches from now on.
    pub(crate) fn measure(&self, metrics: &CacheMetrics) {
        self.values.measure(metrics.of("parameters"));
    }

    /// Returns the value of a parameter.
    pub(crate) async fn get(&self, name: &str, kind: ParameterKind) -> Result<String, AwsError> {
        let refresh_count = self.ssm.refresh_count();
        if self.seen_refresh_count.swap(refresh_count, Ordering::Relaxed) != refresh_count {
            self.values.remove_where(|_, (_, kind)| *kind == ParameterKind::Latest);
        }
        if let Some((value, _)) = self.values.get(name) {
            return Ok(value);
        }
        let value = self.ssm.get_parameter(name).await?;
        self.values.insert_for(name.to_owned(), (value.clone(), kind), kind.ttl());
        Ok(value)
    }

    /// Returns the distinct values of the kept parameters whose values AWS changes.
    pub(crate) fn latest_values(&self) -> BTreeSet<String> {
        let entries = self.values.entries().into_iter();
        entries.filter(|(_, (_, kind))| *kind == ParameterKind::Latest).map(|(_, (value, _))| value).collect()
    }

    /// Removes the parameters with one of these values whose values AWS changes, so that they are
    /// read again.
    pub(crate) fn forget_latest(&self, values: &BTreeSet<String>) {
        self.values.remove_where(|_, (value, kind)| *kind == ParameterKind::Latest && values.contains(value));
    }
}
