//! NodeOverlay, `karpenter.sh/v1alpha1`: changes prices and adds resources of instance types in
//! scheduling simulations only (spec 01 §5).

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::conditions::{self, Condition};
use crate::kind::{AGE_COLUMN, Column, CustomKind, READY_COLUMN, ScaleSubresource, kind, wide_column};
use crate::requirement::{self, NodeSelectorRequirement};
use crate::schema::{CelRule, rule};
use crate::unparsed::Resources;

kind! {
    /// NodeOverlay changes properties of instance types in scheduling simulations: their price, and
    /// extended resources that the provider does not report.
    pub struct NodeOverlay {
        /// Instance types that the overlay applies to, and the changes.
        spec: required NodeOverlaySpec,
        /// Observed state of the overlay.
        status: NodeOverlayStatus,
    }
    "karpenter.sh" / "v1alpha1", "nodeoverlays", ClusterResourceScope
}

impl CustomKind for NodeOverlay {
    const NAMESPACED: bool = false;
    const SHORT_NAMES: &'static [&'static str] = &["overlays"];
    const CATEGORIES: &'static [&'static str] = &["karpenter"];
    const COLUMNS: &'static [Column] = &[READY_COLUMN, AGE_COLUMN, wide_column("Weight", "integer", ".spec.weight")];
    const SCALE: Option<ScaleSubresource> = None;
}

const ONE_PRICE: CelRule =
    rule("!has(self.price) || !has(self.priceAdjustment)", "cannot set both 'price' and 'priceAdjustment'");
const EXTENDED_RESOURCES_ONLY: CelRule = rule(
    "!('cpu' in self || 'memory' in self || 'ephemeral-storage' in self || 'pods' in self)",
    "invalid resource restricted",
);

/// Instance types that the overlay applies to, and the changes.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = [ONE_PRICE]))]
pub struct NodeOverlaySpec {
    /// Extended resources that matching instance types have in addition. Resources that the
    /// provider reports itself cannot be changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-kubernetes-validations" = [EXTENDED_RESOURCES_ONLY]))]
    pub capacity: Option<Resources>,
    /// Hourly price of matching offerings, instead of their own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("pattern" = r"^\d+(\.\d+)?$"))]
    pub price: Option<String>,
    /// Change of the price of matching offerings: a signed amount, or a signed percentage of at
    /// least -100%.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend(
        "pattern" = r"^(([+-]{1}(\d*\.?\d+))|(\+{1}\d*\.?\d+%)|(^(-\d{1,2}(\.\d+)?%)$)|(-100%))$"
    ))]
    pub price_adjustment: Option<String>,
    /// Requirements that select instance types and offerings. An empty list selects all of them.
    #[schemars(transform = requirement::of_overlay)]
    pub requirements: Vec<NodeSelectorRequirement>,
    /// Precedence among overlays: if two overlays change the same property, the larger weight wins.
    /// An overlay without a weight has weight 0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("minimum" = 1, "maximum" = 10000))]
    pub weight: Option<i32>,
}

/// Observed state of an overlay.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NodeOverlayStatus {
    /// Conditions of the overlay.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(transform = conditions::map_list)]
    pub conditions: Vec<Condition>,
}
