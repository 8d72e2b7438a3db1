//! Named faults for `--faults` and scenario files, with preset rates. Faults of the API affect only
//! the autoscaler under test, never the cluster's own components.

use std::borrow::Cow;
use std::str::FromStr;
use std::time::Duration;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::Error as _;
use serde::{Deserialize, Deserializer};
use serde_json::Value;

use crate::cloud::{CloudFault, CloudFaultRule};
use crate::durations::{self, DurationText};
use crate::faults::{Fault, FaultRule};
use crate::rates::parse_rate;

/// Prefix of the user agent of the system under test.
const TESTED_AGENT: &str = "kerf";
/// Rate of a fault that always happens, in parts per million.
const ALWAYS: u32 = 1_000_000;

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
    /// 1 % of requests are never answered and have no effect.
    #[serde(rename = "hung-request")]
    NoResponse,
    /// Every watch ends after 5 seconds.
    DroppedWatch,
    /// 30 % of watches deliver nothing after 90 seconds, and do not end.
    SilentWatch,
    /// 30 % of watches fail with status 410.
    ExpiredWatch,
    /// 10 % of reads return an old state.
    StaleRead,
    /// A third of all offerings is unavailable, drawn again every ten minutes.
    Stockout,
    /// 20 % of launches are rejected by throttling.
    Throttling,
    /// 5 % of instances never join the cluster.
    NeverJoins,
    /// 5 % of instances join the cluster, and their Nodes are never ready.
    NeverReady,
    /// 20 % of instances take two minutes longer to boot.
    SlowBoot,
    /// 10 % of instances are terminated after ten minutes.
    Interruption,
    /// The kubelets of 5 % of instances die after ten minutes.
    KubeletDeath,
    /// The Nodes of 10 % of instances are not ready for 30 seconds, every 4 to 8 minutes.
    FlappingReadiness,
}

/// The part of the cluster that a fault affects, and its preset rate in parts per million.
enum FaultPreset {
    Api(Fault, u32),
    Cloud(CloudFault, u32),
}

impl NamedFault {
    /// All faults with their names.
    pub const ALL: [(&'static str, Self); 16] = [
        ("conflict", Self::Conflict),
        ("error", Self::Error),
        ("lost-response", Self::LostResponse),
        ("hung-request", Self::NoResponse),
        ("dropped-watch", Self::DroppedWatch),
        ("silent-watch", Self::SilentWatch),
        ("expired-watch", Self::ExpiredWatch),
        ("stale-read", Self::StaleRead),
        ("stockout", Self::Stockout),
        ("throttling", Self::Throttling),
        ("never-joins", Self::NeverJoins),
        ("never-ready", Self::NeverReady),
        ("slow-boot", Self::SlowBoot),
        ("interruption", Self::Interruption),
        ("kubelet-death", Self::KubeletDeath),
        ("flapping-readiness", Self::FlappingReadiness),
    ];

    fn preset(self) -> FaultPreset {
        let (seconds, minutes) = (Duration::from_secs, Duration::from_mins);
        match self {
            Self::Conflict => FaultPreset::Api(Fault::Conflict, 200_000),
            Self::Error => FaultPreset::Api(Fault::InternalError, 100_000),
            Self::LostResponse => FaultPreset::Api(Fault::LostResponse, 50_000),
            Self::NoResponse => FaultPreset::Api(Fault::NoResponse, 10_000),
            Self::DroppedWatch => FaultPreset::Api(Fault::DroppedWatch { after: seconds(5) }, ALWAYS),
            Self::SilentWatch => FaultPreset::Api(Fault::SilentWatch { after: seconds(90) }, 300_000),
            Self::ExpiredWatch => FaultPreset::Api(Fault::Gone, 300_000),
            Self::StaleRead => FaultPreset::Api(Fault::StaleRead { revisions: 20 }, 100_000),
            Self::Stockout => FaultPreset::Cloud(CloudFault::StockOut, 333_333),
            Self::Throttling => FaultPreset::Cloud(CloudFault::Throttled, 200_000),
            Self::NeverJoins => FaultPreset::Cloud(CloudFault::NeverJoins, 50_000),
            Self::NeverReady => FaultPreset::Cloud(CloudFault::NeverReady, 50_000),
            Self::SlowBoot => FaultPreset::Cloud(CloudFault::SlowBoot { by: minutes(2) }, 200_000),
            Self::Interruption => FaultPreset::Cloud(CloudFault::Interruption { after: minutes(10) }, 100_000),
            Self::KubeletDeath => FaultPreset::Cloud(CloudFault::KubeletDeath { after: minutes(10) }, 50_000),
            Self::FlappingReadiness => {
                let flap = CloudFault::FlappingReadiness { ready_for: minutes(4), not_ready_for: seconds(30) };
                FaultPreset::Cloud(flap, 100_000)
            }
        }
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

/// A named fault with its rate and its time window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FaultSetting {
    /// The fault to inject.
    pub fault: NamedFault,
    /// Rate in parts per million; `None` for the preset rate.
    pub per_million: Option<u32>,
    /// Start of the window, as time since the start of the run.
    pub from: Duration,
    /// End of the window, as time since the start of the run; `None`: until the end of the run.
    pub until: Option<Duration>,
}

impl FaultSetting {
    /// Returns the rule for the API server, or `None` if it is a fault of the cloud.
    pub(super) fn api_rule(self) -> Option<FaultRule> {
        let FaultPreset::Api(fault, preset) = self.fault.preset() else { return None };
        Some(FaultRule {
            user_agent_prefix: TESTED_AGENT.to_owned(),
            from: self.from,
            until: self.until,
            ..FaultRule::new(fault, self.per_million.unwrap_or(preset))
        })
    }

    /// Returns the rule for the cloud, or `None` if it is a fault of the API server.
    pub(super) fn cloud_rule(self) -> Option<CloudFaultRule> {
        let FaultPreset::Cloud(fault, preset) = self.fault.preset() else { return None };
        Some(CloudFaultRule {
            from: self.from,
            until: self.until,
            ..CloudFaultRule::new(fault, self.per_million.unwrap_or(preset))
        })
    }

    /// Returns true if the window contains a time between the two.
    pub(super) fn overlaps(&self, from: Duration, until: Duration) -> bool {
        self.from <= until && self.until.is_none_or(|end| end > from)
    }

    /// Reads a fault of a scenario file, in either form.
    pub(super) fn from_tree(tree: &Value) -> Result<Self, String> {
        match tree {
            Value::String(text) => text.parse(),
            Value::Object(_) => {
                let fields: FaultFields = serde_json::from_value(tree.clone()).map_err(|cause| cause.to_string())?;
                let rate = fields.rate.map(|rate| match rate {
                    RateValue::Number(number) => parse_rate(&number.to_string()),
                    RateValue::Text(text) => parse_rate(&text),
                });
                let setting = Self {
                    fault: fields.fault.parse()?,
                    per_million: rate.transpose()?,
                    from: fields.from.unwrap_or_default(),
                    until: fields.until,
                };
                setting.check_window()
            }
            other => Err(format!(
                "{other} is not a fault; write for example `hung-request` or \
                 `{{fault: hung-request, rate: 0.05, from: 10m, until: 20m}}`"
            )),
        }
    }

    /// Fails if the window contains no time between `since` and `end`, both since the start of the
    /// run: the fault would never be active.
    pub fn check_active(&self, since: Duration, end: Duration) -> Result<(), String> {
        if self.from >= end {
            return Err("the window begins at the end of the scenario or later, so the fault is never active; both \
                        ends of a window are times since the start of the run"
                .to_owned());
        }
        if self.until.is_some_and(|until| until <= since) {
            return Err("the window ends before the step, so the fault is never active; both ends of a window are \
                        times since the start of the run"
                .to_owned());
        }
        Ok(())
    }

    fn check_window(self) -> Result<Self, String> {
        if self.until.is_some_and(|until| until <= self.from) {
            return Err("until: must be later than `from`; both are times since the start of the run".to_owned());
        }
        Ok(self)
    }
}

impl From<NamedFault> for FaultSetting {
    fn from(fault: NamedFault) -> Self {
        Self { fault, per_million: None, from: Duration::ZERO, until: None }
    }
}

/// Parses `name`, `name=rate` or `name=rate@from-until`; rate, window and `-until` can be left out.
impl FromStr for FaultSetting {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (head, window) = text.split_once('@').map_or((text, None), |(head, window)| (head, Some(window)));
        let (name, rate) = head.split_once('=').map_or((head, None), |(name, rate)| (name, Some(rate)));
        let (from, until) = match window {
            None => (None, None),
            Some(window) => {
                window.split_once('-').map_or((Some(window), None), |(from, until)| (Some(from), Some(until)))
            }
        };
        Self {
            fault: name.parse()?,
            per_million: rate.map(parse_rate).transpose()?,
            from: from.map(durations::parse).transpose()?.unwrap_or_default(),
            until: until.map(durations::parse).transpose()?,
        }
        .check_window()
    }
}

/// The object form of a fault in a scenario file.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct FaultFields {
    fault: String,
    #[serde(default)]
    rate: Option<RateValue>,
    #[serde(default, deserialize_with = "durations::optional")]
    from: Option<Duration>,
    #[serde(default, deserialize_with = "durations::optional")]
    until: Option<Duration>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum RateValue {
    Number(serde_json::Number),
    Text(String),
}

impl<'de> Deserialize<'de> for FaultSetting {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Self::from_tree(&Value::deserialize(deserializer)?).map_err(D::Error::custom)
    }
}

impl JsonSchema for FaultSetting {
    fn schema_name() -> Cow<'static, str> {
        "Fault".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let names: Vec<&str> = NamedFault::ALL.iter().map(|(name, _)| *name).collect();
        let duration = generator.subschema_for::<DurationText>();
        json_schema!({
            "description": "A fault with its preset rate, or with a rate and a time window.",
            "anyOf": [
                {
                    "description": "The name, or the short form `name=rate@from-until` of the command line.",
                    "type": "string",
                    "pattern": format!("^({})(=[0-9.]+%?)?(@[0-9a-z.]+(-[0-9a-z.]+)?)?$", names.join("|")),
                },
                {
                    "type": "object",
                    "additionalProperties": false,
                    "required": ["fault"],
                    "properties": {
                        "fault": {"description": "Name of the fault.", "type": "string", "enum": names},
                        "rate": {
                            "description": "Share of the requests, offerings or instances that the fault affects, such as 0.05 or 5%.",
                            "anyOf": [
                                {"type": "number", "minimum": 0, "maximum": 1},
                                {"type": "string", "pattern": "^[0-9.]+%?$"},
                            ],
                        },
                        "from": {"description": "Start of the window, since the start of the run.", "allOf": [duration.clone()]},
                        "until": {"description": "End of the window, since the start of the run.", "allOf": [duration]},
                    },
                },
            ],
        })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_fault_has_an_optional_rate_and_window_in_both_forms() {
        let plain = FaultSetting::from(NamedFault::NoResponse);
        let minutes = Duration::from_mins;
        let half = FaultSetting { per_million: Some(50_000), ..plain };
        let window = FaultSetting { from: minutes(10), until: Some(minutes(20)), ..half };
        for (text, object, expected) in [
            ("hung-request", json!({"fault": "hung-request"}), plain),
            ("hung-request=0.05", json!({"fault": "hung-request", "rate": 0.05}), half),
            ("hung-request=5%", json!({"fault": "hung-request", "rate": "5%"}), half),
            (
                "hung-request=0.05@10m-20m",
                json!({"fault": "hung-request", "rate": 0.05, "from": "10m", "until": "20m"}),
                window,
            ),
            (
                "hung-request@10m",
                json!({"fault": "hung-request", "from": "10m"}),
                FaultSetting { from: minutes(10), ..plain },
            ),
        ] {
            assert_eq!(text.parse(), Ok(expected), "{text}");
            assert_eq!(serde_json::from_value::<FaultSetting>(json!(text)).unwrap(), expected, "{text}");
            assert_eq!(serde_json::from_value::<FaultSetting>(object.clone()).unwrap(), expected, "{object}");
        }
    }

    #[test]
    fn errors_of_faults_say_what_to_write() {
        let errors = [
            json!("hung-request=2"),
            json!("hung-request=-1%"),
            json!("hung-request@20m-10m"),
            json!("hung-request@soon"),
            json!({"fault": "hung-request", "rates": 1}),
            json!({"fault": "error", "rate": "much"}),
            json!(7),
        ]
        .map(|tree| serde_json::from_value::<FaultSetting>(tree).unwrap_err().to_string());
        assert_eq!(
            errors,
            [
                "rate: \"2\" is not between 0 and 1; write for example 0.05 or 5%",
                "rate: \"-1%\" is not between 0 and 1; write for example 0.05 or 5%",
                "until: must be later than `from`; both are times since the start of the run",
                "time: invalid duration \"soon\"; write for example 10m or 1h30m",
                "unknown field `rates`, expected one of `fault`, `rate`, `from`, `until`",
                "rate: \"much\" is not between 0 and 1; write for example 0.05 or 5%",
                "7 is not a fault; write for example `hung-request` or \
                 `{fault: hung-request, rate: 0.05, from: 10m, until: 20m}`",
            ]
        );
    }

    #[test]
    fn a_rate_and_a_window_reach_the_rules() {
        for (name, fault) in NamedFault::ALL {
            let setting: FaultSetting = format!("{name}=25%@1m-2m").parse().unwrap();
            let window = (250_000, Duration::from_mins(1), Some(Duration::from_mins(2)));
            let api = setting.api_rule().map(|rule| (rule.per_million, rule.from, rule.until));
            let cloud = setting.cloud_rule().map(|rule| (rule.per_million, rule.from, rule.until));
            assert_eq!(api.into_iter().chain(cloud).collect::<Vec<_>>(), [window], "{name}");
            let preset = FaultSetting::from(fault);
            assert!(preset.api_rule().is_none_or(|rule| rule.user_agent_prefix == TESTED_AGENT), "{name}");
        }
    }
}
