//! KWOKNodeClass, `karpenter.kwok.sh/v1alpha1`: the node class of the simulated provider (spec 04
//! §14.1).
//!
//! It has no controller: a default in its schema makes it ready when it is created.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::conditions::Condition;
use crate::kind::{Column, CustomKind, ScaleSubresource, kind};
use crate::schema::DURATION;
use crate::unparsed::DurationText;

kind! {
    /// KWOKNodeClass defines how simulated nodes are created. They exist only as objects, which
    /// KWOK keeps ready.
    pub struct KWOKNodeClass {
        /// Settings of the simulation.
        spec: optional KWOKNodeClassSpec,
        /// Observed state of the class. It is ready when it is created.
        #[schemars(extend("default" = {
            "conditions": [{
                "lastTransitionTime": "2024-01-01T01:01:01Z",
                "message": "",
                "reason": "Ready",
                "status": "True",
                "type": "Ready",
            }],
        }))]
        status: KWOKNodeClassStatus,
    }
    "karpenter.kwok.sh" / "v1alpha1", "kwoknodeclasses", ClusterResourceScope
}

impl CustomKind for KWOKNodeClass {
    const NAMESPACED: bool = false;
    const SHORT_NAMES: &'static [&'static str] = &["kwoknc", "kwokncs"];
    const CATEGORIES: &'static [&'static str] = &["karpenter"];
    const COLUMNS: &'static [Column] = &[];
    const SCALE: Option<ScaleSubresource> = None;
}

/// Settings of the simulation.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct KWOKNodeClassSpec {
    /// Time between the launch of an instance and the creation of its Node, which simulates the
    /// boot time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("pattern" = DURATION))]
    pub node_registration_delay: Option<DurationText>,
}

/// Observed state of the class.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct KWOKNodeClassStatus {
    /// Conditions of the class.
    // Karpenter's schema sets no list type here, so the list is atomic and may contain a type
    // twice.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
}
