//! Named faults with preset rates, for `--faults` and scenario files. Faults of the API affect only
//! the autoscaler under test, never the cluster's own components.

use std::str::FromStr;
use std::time::Duration;

use serde::Deserialize;

use crate::cloud::{CloudFault, CloudFaultRule};
use crate::faults::{Fault, FaultRule};

/// Prefix of the user agent of the system under test.
const TESTED_AGENT: &str = "kerf";

/// A fault that scenario files and the command line can name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum NamedFault {
    /// 20 % of writes to existing objects fail with a conflict.
    Conflict,
    /// 10 % of requests fail with status 500.
    Error,
    /// 5 % of writes are carried out, but their response is lost.
    LostResponse,
    /// Every watch ends after 5 seconds.
    DroppedWatch,
    /// 10 % of reads return an old state.
    StaleRead,
    /// A third of all offerings is unavailable, drawn again every ten minutes.
    Stockout,
    /// 20 % of launches are rejected by throttling.
    Throttling,
    /// 5 % of instances never join the cluster.
    NeverJoins,
    /// 20 % of instances take two minutes longer to boot.
    SlowBoot,
    /// 10 % of instances are terminated after ten minutes.
    Interruption,
}

impl NamedFault {
    /// All faults with their names.
    pub const ALL: [(&'static str, Self); 10] = [
        ("conflict", Self::Conflict),
        ("error", Self::Error),
        ("lost-response", Self::LostResponse),
        ("dropped-watch", Self::DroppedWatch),
        ("stale-read", Self::StaleRead),
        ("stockout", Self::Stockout),
        ("throttling", Self::Throttling),
        ("never-joins", Self::NeverJoins),
        ("slow-boot", Self::SlowBoot),
        ("interruption", Self::Interruption),
    ];

    /// Returns the fault rule for the API server, or `None` if it is a fault of the cloud.
    pub(super) fn api_rule(self) -> Option<FaultRule> {
        let (fault, per_million) = match self {
            Self::Conflict => (Fault::Conflict, 200_000),
            Self::Error => (Fault::InternalError, 100_000),
            Self::LostResponse => (Fault::LostResponse, 50_000),
            Self::DroppedWatch => (Fault::DroppedWatch { after: Duration::from_secs(5) }, 1_000_000),
            Self::StaleRead => (Fault::StaleRead { revisions: 20 }, 100_000),
            Self::Stockout | Self::Throttling | Self::NeverJoins | Self::SlowBoot | Self::Interruption => return None,
        };
        Some(FaultRule { user_agent_prefix: TESTED_AGENT.to_owned(), ..FaultRule::new(fault, per_million) })
    }

    /// Returns the fault rule for the cloud, or `None` if it is a fault of the API server.
    pub(super) fn cloud_rule(self) -> Option<CloudFaultRule> {
        let (fault, per_million) = match self {
            Self::Stockout => (CloudFault::StockOut, 333_333),
            Self::Throttling => (CloudFault::Throttled, 200_000),
            Self::NeverJoins => (CloudFault::NeverJoins, 50_000),
            Self::SlowBoot => (CloudFault::SlowBoot { by: Duration::from_mins(2) }, 200_000),
            Self::Interruption => (CloudFault::Interruption { after: Duration::from_mins(10) }, 100_000),
            Self::Conflict | Self::Error | Self::LostResponse | Self::DroppedWatch | Self::StaleRead => return None,
        };
        Some(CloudFaultRule::new(fault, per_million))
    }
}

impl FromStr for NamedFault {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        Self::ALL.iter().find(|(name, _)| *name == text).map(|(_, fault)| *fault).ok_or_else(|| {
            let known: Vec<&str> = Self::ALL.iter().map(|(name, _)| *name).collect();
            format!("unknown fault \"{text}\"; use one of: {}", known.join(", "))
        })
    }
}
