//! HorizontalPodAutoscalers, reduced to the fields that their controller reads.

use serde_json::Value;
use smol_str::SmolStr;

use super::Meta;

#[derive(Clone, Debug, Default, serde::Deserialize)]
#[serde(default)]
pub(crate) struct HorizontalPodAutoscaler {
    pub(crate) metadata: Meta,
    pub(crate) spec: HorizontalPodAutoscalerSpec,
    /// The status as JSON. The controller compares it with the new status.
    pub(crate) status: Value,
}

#[derive(Clone, Debug, Default, serde::Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct HorizontalPodAutoscalerSpec {
    pub(crate) scale_target_ref: ScaleTargetRef,
    pub(crate) min_replicas: Option<i64>,
    pub(crate) max_replicas: i64,
    pub(crate) metrics: Vec<Value>,
}

/// The object whose replicas the autoscaler changes.
#[derive(Clone, Debug, Default, serde::Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct ScaleTargetRef {
    pub(crate) api_version: SmolStr,
    pub(crate) kind: SmolStr,
    pub(crate) name: SmolStr,
}
