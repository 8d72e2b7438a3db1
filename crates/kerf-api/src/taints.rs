//! Taints: the two that Kerf sets, the ephemeral taints of a starting node, and how two taints
//! match (spec 01 §11.2, spec 04 §1.3).
//!
//! Everywhere in Kerf taints match by key and effect; values are ignored.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::open_enum::open_enum;
use crate::schema::QUALIFIED_KEY;

/// Taint of a node that is queued for disruption or being terminated. It has no value and the
/// effect `NoSchedule`.
pub const DISRUPTED: &str = "karpenter.sh/disrupted";
/// Taint that the kubelet sets at boot and Kerf removes at registration. It has no value and the
/// effect `NoExecute`.
pub const UNREGISTERED: &str = "karpenter.sh/unregistered";

/// Prefix of the taint keys of readiness gates. They disappear when the node is ready, with any
/// effect.
pub const READINESS_PREFIX: &str = "readiness.k8s.io/";

const EPHEMERAL: [(&str, TaintEffect); 5] = [
    ("node.kubernetes.io/not-ready", TaintEffect::NoSchedule),
    ("node.kubernetes.io/not-ready", TaintEffect::NoExecute),
    ("node.kubernetes.io/unreachable", TaintEffect::NoSchedule),
    ("node.cloudprovider.kubernetes.io/uninitialized", TaintEffect::NoSchedule),
    (UNREGISTERED, TaintEffect::NoExecute),
];

open_enum! {
    /// Effect of a taint on pods that do not tolerate it.
    #[derive(Default)]
    pub enum TaintEffect {
        /// New pods are not scheduled.
        #[default]
        NoSchedule = "NoSchedule",
        /// New pods are scheduled elsewhere if possible.
        PreferNoSchedule = "PreferNoSchedule",
        /// New pods are not scheduled, and running pods are evicted.
        NoExecute = "NoExecute",
    }
}

/// Taint of a node.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Taint {
    /// Effect on pods that do not tolerate the taint: `NoSchedule` keeps new pods away,
    /// `PreferNoSchedule` does so if possible, `NoExecute` also evicts running pods.
    pub effect: TaintEffect,
    /// Key of the taint, with an optional DNS prefix.
    #[schemars(extend("minLength" = 1, "pattern" = QUALIFIED_KEY))]
    pub key: String,
    /// Time at which the taint was added.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<crate::schema::DateTime>")]
    pub time_added: Option<Time>,
    /// Value of the taint.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("pattern" = QUALIFIED_KEY))]
    pub value: Option<String>,
}

impl Taint {
    /// Returns true if both taints have the same key and effect, which makes them equal for Kerf.
    pub fn matches(&self, other: &Self) -> bool {
        self.key == other.key && self.effect == other.effect
    }
}

/// Returns true if a starting node loses the taint by itself. Such a taint is ignored while the
/// node is not initialized, and it blocks initialization.
pub fn is_ephemeral(key: &str, effect: &TaintEffect) -> bool {
    key.starts_with(READINESS_PREFIX) || EPHEMERAL.iter().any(|(k, e)| *k == key && e == effect)
}

#[cfg(test)]
mod tests {
    use super::*;

    // spec 01 #66 (only the predicate; the controller handles initialization)
    #[test]
    fn ephemeral_taints_match_by_key_and_effect() {
        assert!(is_ephemeral("node.kubernetes.io/not-ready", &TaintEffect::NoExecute));
        assert!(!is_ephemeral("node.kubernetes.io/unreachable", &TaintEffect::NoExecute));
        assert!(is_ephemeral(UNREGISTERED, &TaintEffect::NoExecute));
        assert!(!is_ephemeral(UNREGISTERED, &TaintEffect::NoSchedule));
        assert!(!is_ephemeral(DISRUPTED, &TaintEffect::NoSchedule));
        for effect in [TaintEffect::NoSchedule, TaintEffect::PreferNoSchedule, TaintEffect::NoExecute] {
            assert!(is_ephemeral("readiness.k8s.io/x", &effect));
            assert!(!is_ephemeral("readiness.k8s.io", &effect));
        }
    }

    #[test]
    fn a_taint_distinguishes_absent_and_empty_and_keeps_an_unknown_effect() {
        let text = r#"{"effect":"NoBreakfast","key":"a","value":""}"#;
        let taint: Taint = serde_json::from_str(text).unwrap();
        assert_eq!(taint.effect, TaintEffect::Unsupported("NoBreakfast".into()));
        assert_eq!(taint.value.as_deref(), Some(""));
        assert_eq!(serde_json::to_string(&taint).unwrap(), text);
        assert!(taint.matches(&Taint { value: None, ..taint.clone() }));
    }
}
