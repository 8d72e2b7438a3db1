//! Namespaces, PodDisruptionBudgets and ControllerRevisions, reduced to the fields that the control
//! plane reads.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde_json::Value;
use smol_str::SmolStr;

use super::Meta;
use crate::api::selector::LabelSelector;

#[derive(Clone, Debug, Default, serde::Deserialize)]
#[serde(default)]
pub(crate) struct Namespace {
    pub(crate) metadata: Meta,
    pub(crate) spec: NamespaceSpec,
}

#[derive(Clone, Debug, Default, serde::Deserialize)]
#[serde(default)]
pub(crate) struct NamespaceSpec {
    pub(crate) finalizers: Vec<SmolStr>,
}

#[derive(Clone, Debug, Default, serde::Deserialize)]
#[serde(default)]
pub(crate) struct PodDisruptionBudget {
    pub(crate) metadata: Meta,
    pub(crate) spec: PodDisruptionBudgetSpec,
    /// The status as JSON. The controller compares single fields of it before it writes.
    pub(crate) status: Value,
}

#[derive(Clone, Debug, Default, serde::Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct PodDisruptionBudgetSpec {
    pub(crate) min_available: Option<Value>,
    pub(crate) max_unavailable: Option<Value>,
    pub(crate) selector: Option<Value>,
}

impl PodDisruptionBudget {
    /// Returns the parsed selector. `None` if it is missing or invalid, which selects no pod; an
    /// empty selector selects every pod of the namespace.
    pub(crate) fn selector(&self) -> Option<LabelSelector> {
        LabelSelector::from_object(self.spec.selector.as_ref())
    }

    /// Returns the names of the pods that were evicted and may still exist, with the time of each
    /// eviction. Empty if the status lists none or is malformed.
    pub(crate) fn disrupted_pods(&self) -> BTreeMap<SmolStr, Timestamp> {
        let pods = self.status.get("disruptedPods").cloned().unwrap_or_default();
        serde_json::from_value(pods).unwrap_or_default()
    }
}

/// One version of the pod template of a StatefulSet or DaemonSet.
#[derive(Clone, Debug, Default, serde::Deserialize)]
#[serde(default)]
#[allow(clippy::struct_field_names, reason = "this is the field name in the API")]
pub(crate) struct ControllerRevision {
    pub(crate) metadata: Meta,
    pub(crate) data: Value,
    pub(crate) revision: i64,
}
