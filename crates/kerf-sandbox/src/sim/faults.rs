//! Faults by name: what `--faults` and scenario files can ask for, with rates that a bad day has. Faults of the API hit the autoscaler
//! under test alone; the cluster's own parts have a good day.

use std::str::FromStr;
use std::time::Duration;

use serde::Deserialize;

use crate::cloud::{CloudFault, CloudFaultRule};
use crate::faults::{Fault, FaultRule};

/// The agent under which the system under test writes.
const TESTED_AGENT: &str = "kerf";

/// A fault that can be asked for by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum NamedFault {
    /// A fifth of all writes of what exists is refused with a conflict.
    Conflict,
    /// A tenth of all requests fails with 500.
    Error,
    /// A twentieth of all writes happens, and the answer is lost.
    LostResponse,
    /// Every watch ends after a few seconds.
    DroppedWatch,
    /// A tenth of all reads shows the past.
    StaleRead,
    /// A third of all offerings cannot be had, drawn anew every ten minutes.
    Stockout,
    /// A fifth of all launches is refused because there were too many.
    Throttling,
    /// One machine in twenty never joins.
    NeverJoins,
    /// One machine in five takes two minutes longer.
    SlowBoot,
    /// One machine in ten is taken away after ten minutes.
    Interruption,
}

impl NamedFault {
    /// All of them.
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

    /// The rule at the API, if it is a fault of the API.
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

    /// The rule at the cloud, if it is a fault of the cloud.
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
            format!("\"{text}\" is no fault; there are {}", known.join(", "))
        })
    }
}
