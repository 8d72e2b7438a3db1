//! The fields of `spec.kubelet` that Kerf interprets (spec 05 §4.9). All other fields are only
//! passed to nodes.

pub(crate) mod expressions;

pub use expressions::KubeletExpressions;

use std::collections::BTreeMap;
use std::str::FromStr as _;

use kerf_api::duration::Duration;
use kerf_api::quantity::Quantity;
use kerf_api::slim::{ResourceList, Str};
use kerf_api::validation::kubelet::{NumericExpressionError, is_expression};
use serde::Deserialize as _;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

/// The interpreted fields of `spec.kubelet`. A field that is not set is `None` or empty.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct KubeletSettings {
    /// Addresses of the DNS servers of pods.
    pub cluster_dns: Vec<String>,
    /// Number of pods, or an expression for it.
    pub max_pods: Option<MaxPods>,
    /// Number of pods for each vCPU.
    pub pods_per_core: Option<i64>,
    /// Resources reserved for the operating system, as written.
    pub system_reserved: BTreeMap<String, String>,
    /// Resources reserved for Kubernetes, as written.
    pub kube_reserved: BTreeMap<String, String>,
    /// Hard eviction thresholds by signal: a quantity or a percentage.
    pub eviction_hard: BTreeMap<String, String>,
    /// Soft eviction thresholds by signal.
    pub eviction_soft: BTreeMap<String, String>,
    /// Grace periods of the soft eviction thresholds.
    pub eviction_soft_grace_period: BTreeMap<String, Duration>,
    /// Longest grace period of an evicted pod in seconds.
    pub eviction_max_pod_grace_period: Option<i64>,
    /// Disk usage in percent at which images are always collected.
    pub image_gc_high_threshold_percent: Option<i64>,
    /// Disk usage in percent below which images are never collected.
    pub image_gc_low_threshold_percent: Option<i64>,
    /// True if CPU limits are enforced with quotas.
    pub cpu_cfs_quota: Option<bool>,
}

/// The value of `maxPods`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MaxPods {
    /// A number.
    Count(i64),
    /// A CEL expression: any text, even of digits.
    Expression(String),
}

/// Reason why `spec.kubelet` cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum KubeletError {
    /// A field has a value of the wrong type or form.
    #[error("parsing spec.kubelet, spec.kubelet.{field}: {message}")]
    Invalid {
        /// Path of the field below `spec.kubelet`.
        field: String,
        /// The problem, with the value.
        message: String,
    },
    /// An expression does not compile.
    #[error("{cause} (field=spec.kubelet.{field})")]
    Expression {
        /// Path of the field below `spec.kubelet`.
        field: String,
        /// The mistakes, with their positions.
        #[source]
        cause: NumericExpressionError,
    },
    /// An expression has no usable value for an instance type.
    #[error(
        "{}evaluating spec.kubelet.{field} for instance type {instance_type}, {problem}",
        if field == "maxPods" { "resolving maxPods, " } else { "" }
    )]
    Evaluation {
        /// Path of the field below `spec.kubelet`.
        field: String,
        /// The type for which the value cannot be used.
        instance_type: String,
        /// The reason, with the value if there is one.
        problem: String,
    },
}

impl KubeletSettings {
    /// Reads `spec.kubelet`. Fails at the first field with an invalid value.
    pub fn parse(kubelet: Option<&Map<String, Value>>) -> Result<Self, KubeletError> {
        let Some(kubelet) = kubelet else {
            return Ok(Self::default());
        };
        let grace_periods: BTreeMap<String, String> = field(kubelet, "evictionSoftGracePeriod")?.unwrap_or_default();
        Ok(Self {
            cluster_dns: field(kubelet, "clusterDNS")?.unwrap_or_default(),
            max_pods: max_pods(kubelet)?,
            pods_per_core: integer(kubelet, "podsPerCore")?,
            system_reserved: field(kubelet, "systemReserved")?.unwrap_or_default(),
            kube_reserved: field(kubelet, "kubeReserved")?.unwrap_or_default(),
            eviction_hard: field(kubelet, "evictionHard")?.unwrap_or_default(),
            eviction_soft: field(kubelet, "evictionSoft")?.unwrap_or_default(),
            eviction_soft_grace_period: grace_periods
                .into_iter()
                .map(|(signal, text)| match Duration::from_str(&text) {
                    Ok(duration) => Ok((signal, duration)),
                    Err(error) => Err(invalid(&format!("evictionSoftGracePeriod[{signal}]"), error)),
                })
                .collect::<Result<_, _>>()?,
            eviction_max_pod_grace_period: integer(kubelet, "evictionMaxPodGracePeriod")?,
            image_gc_high_threshold_percent: integer(kubelet, "imageGCHighThresholdPercent")?,
            image_gc_low_threshold_percent: integer(kubelet, "imageGCLowThresholdPercent")?,
            cpu_cfs_quota: field(kubelet, "cpuCFSQuota")?,
        })
    }

    /// Returns the settings without the fields and entries that are expressions.
    pub fn without_expressions(mut self) -> ResolvedKubelet {
        self.kube_reserved.retain(|_, text| !is_expression(text));
        self.system_reserved.retain(|_, text| !is_expression(text));
        let max_pods = match self.max_pods {
            Some(MaxPods::Count(count)) => Some(count),
            Some(MaxPods::Expression(_)) | None => None,
        };
        ResolvedKubelet { max_pods, settings: self }
    }
}

/// Kubelet settings without expressions.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ResolvedKubelet {
    /// Number of pods; `None` to derive it from the instance type.
    pub max_pods: Option<i64>,
    /// All settings. The reserved maps hold quantities only; `max_pods` is not to be read.
    settings: KubeletSettings,
}

impl ResolvedKubelet {
    /// Returns the settings; `maxPods` is [`Self::max_pods`].
    pub fn settings(&self) -> &KubeletSettings {
        &self.settings
    }

    /// Returns the settings that decide if two types can share a launch template.
    pub(crate) fn template_key(&self) -> (Option<i64>, BTreeMap<String, String>, BTreeMap<String, String>) {
        (self.max_pods, self.settings.kube_reserved.clone(), self.settings.system_reserved.clone())
    }

    /// Returns the quantities of `kubeReserved`.
    pub fn kube_reserved(&self) -> ResourceList {
        quantities(&self.settings.kube_reserved)
    }

    /// Returns the quantities of `systemReserved`.
    pub fn system_reserved(&self) -> ResourceList {
        quantities(&self.settings.system_reserved)
    }

    /// Returns the hard eviction threshold of a signal for this much capacity in bytes. `100%`
    /// disables the threshold. Returns `None` if the signal is not set.
    pub fn eviction_threshold(&self, signal: &str, capacity_bytes: i64) -> Result<Option<Quantity>, KubeletError> {
        let Some(text) = self.settings.eviction_hard.get(signal) else {
            return Ok(None);
        };
        let field = format!("evictionHard[{signal}]");
        let Some(percent) = text.strip_suffix('%') else {
            return Quantity::from_str(text).map(Some).map_err(|error| invalid(&field, error));
        };
        match percent.parse::<f64>() {
            Ok(100.0) => Ok(Some(Quantity::ZERO)),
            Ok(percent) if percent.is_finite() => Ok(Some(share_of(capacity_bytes, percent))),
            Ok(_) | Err(_) => Err(invalid(&field, format!("expected a quantity or a percentage, found {text:?}"))),
        }
    }
}

/// Returns a percentage of a number of bytes, rounded up to whole bytes.
pub(super) fn share_of(capacity_bytes: i64, percent: f64) -> Quantity {
    super::bytes::bytes((capacity_bytes as f64 / 100.0 * percent).ceil() as i64)
}

fn quantities(texts: &BTreeMap<String, String>) -> ResourceList {
    texts.iter().filter_map(|(name, text)| Some((Str::new(name), text.parse().ok()?))).collect()
}

fn max_pods(kubelet: &Map<String, Value>) -> Result<Option<MaxPods>, KubeletError> {
    match kubelet.get("maxPods") {
        Some(Value::String(expression)) => Ok(Some(MaxPods::Expression(expression.clone()))),
        Some(_) | None => Ok(integer(kubelet, "maxPods")?.map(MaxPods::Count)),
    }
}

/// Reads a field of 32 bits, as the kubelet does.
fn integer(kubelet: &Map<String, Value>, name: &str) -> Result<Option<i64>, KubeletError> {
    Ok(field::<i32>(kubelet, name)?.map(i64::from))
}

fn field<T: DeserializeOwned>(kubelet: &Map<String, Value>, name: &str) -> Result<Option<T>, KubeletError> {
    match kubelet.get(name) {
        Some(value) => Option::<T>::deserialize(value).map_err(|error| invalid(name, error)),
        None => Ok(None),
    }
}

fn invalid(field: &str, message: impl ToString) -> KubeletError {
    KubeletError::Invalid { field: field.to_owned(), message: message.to_string() }
}

#[cfg(test)]
mod tests;
