//! Taints: the two that Kerf sets, the ones that a starting node sheds by itself, and how two taints match (spec 01 §11.2,
//! spec 04 §1.3).
//!
//! Everywhere in Kerf taints match by key and effect; values never decide.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::open_enum::open_enum;
use crate::schema::QUALIFIED_KEY;

/// Set, without a value and with effect `NoSchedule`, on a node that is queued for disruption or being terminated.
pub const DISRUPTED: &str = "karpenter.sh/disrupted";
/// Set, without a value and with effect `NoExecute`, by the kubelet at boot; taken away at registration.
pub const UNREGISTERED: &str = "karpenter.sh/unregistered";

/// Keys that start so belong to readiness gates; whatever their effect, they go away when the node is ready.
pub const READINESS_PREFIX: &str = "readiness.k8s.io/";

const EPHEMERAL: [(&str, TaintEffect); 5] = [
    ("node.kubernetes.io/not-ready", TaintEffect::NoSchedule),
    ("node.kubernetes.io/not-ready", TaintEffect::NoExecute),
    ("node.kubernetes.io/unreachable", TaintEffect::NoSchedule),
    ("node.cloudprovider.kubernetes.io/uninitialized", TaintEffect::NoSchedule),
    (UNREGISTERED, TaintEffect::NoExecute),
];

open_enum! {
    /// What a taint does to pods that do not tolerate it.
    #[derive(Default)]
    pub enum TaintEffect {
        /// New pods stay away.
        #[default]
        NoSchedule = "NoSchedule",
        /// New pods stay away if they can.
        PreferNoSchedule = "PreferNoSchedule",
        /// Running pods leave as well.
        NoExecute = "NoExecute",
    }
}

/// A taint that nodes carry.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Taint {
    /// Effect on pods that do not tolerate the taint: `NoSchedule` keeps new pods away, `PreferNoSchedule` does so where
    /// possible, `NoExecute` also evicts running ones.
    pub effect: TaintEffect,
    /// Key of the taint, with an optional DNS prefix.
    #[schemars(extend("minLength" = 1, "pattern" = QUALIFIED_KEY))]
    pub key: String,
    /// Time at which the taint was added.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<crate::schema::DateTime>")]
    pub time_added: Option<Time>,
    /// Value that goes with the key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("pattern" = QUALIFIED_KEY))]
    pub value: Option<String>,
}

impl Taint {
    /// Whether the two are the same taint for every purpose of Kerf: same key, same effect.
    pub fn matches(&self, other: &Self) -> bool {
        self.key == other.key && self.effect == other.effect
    }
}

/// Whether a starting node sheds the taint by itself: it is ignored while the node is not initialized, and blocks
/// initialization.
pub fn is_ephemeral(key: &str, effect: &TaintEffect) -> bool {
    key.starts_with(READINESS_PREFIX) || EPHEMERAL.iter().any(|(k, e)| *k == key && e == effect)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a failing test may panic")]
    use super::*;

    // spec 01 #66 (the predicate; initialization is the controller's)
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
    fn a_taint_keeps_absent_and_empty_apart_and_an_unknown_effect_as_it_is() {
        let text = r#"{"effect":"NoBreakfast","key":"a","value":""}"#;
        let taint: Taint = serde_json::from_str(text).unwrap();
        assert_eq!(taint.effect, TaintEffect::Unsupported("NoBreakfast".into()));
        assert_eq!(taint.value.as_deref(), Some(""));
        assert_eq!(serde_json::to_string(&taint).unwrap(), text);
        assert!(taint.matches(&Taint { value: None, ..taint.clone() }));
    }
}
