//! What `kerf plan -o json` prints (spec 09 §2.2). The oracle prints the same shape.

use std::collections::BTreeMap;

use serde::{Deserialize, Deserializer};
use serde_json::Value;

use crate::price::Price;
use crate::selectors::satisfies;

/// A plan.
#[derive(Debug, Clone, Default, Deserialize)]
pub struct Plan {
    /// Where pending pods go.
    #[serde(default)]
    pub provisioning: PlanProvisioning,
    /// Which nodes go.
    #[serde(default)]
    pub disruption: PlanDisruption,
    /// Money.
    #[serde(default)]
    pub cost: PlanCost,
}

/// Which nodes go.
#[derive(Debug, Clone, Default, Deserialize)]
pub struct PlanDisruption {
    /// What to do, in this order.
    #[serde(default, deserialize_with = "or_default")]
    pub commands: Vec<PlanCommand>,
    /// Nodes that stay.
    #[serde(default, deserialize_with = "or_default")]
    pub blocked: Vec<PlanBlockedNode>,
}

/// Nodes that go together.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PlanCommand {
    /// `Empty`, `Drifted` or `Underutilized`.
    pub reason: String,
    /// `delete` or `replace`.
    pub decision: String,
    /// The nodes.
    pub nodes: Vec<String>,
    /// The pods that have to move, `namespace/name`.
    #[serde(default, deserialize_with = "or_default")]
    pub pods: Vec<String>,
    /// Machines that are launched first.
    #[serde(default, deserialize_with = "or_default")]
    pub replacements: Vec<PlanClaim>,
    /// Pods for nodes that are there.
    #[serde(default, deserialize_with = "or_default")]
    pub existing_nodes: Vec<ExistingPlacement>,
    /// What that saves.
    pub savings_per_hour: Price,
}

/// A node that stays, and why.
#[derive(Debug, Clone, Deserialize)]
pub struct PlanBlockedNode {
    /// The node.
    pub node: String,
    /// Why, for programs.
    #[serde(default)]
    pub code: String,
    /// Why, for people.
    #[serde(default)]
    pub message: String,
}

/// Money.
#[derive(Debug, Clone, Copy, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PlanCost {
    /// What the nodes cost now.
    #[serde(default)]
    pub current_per_hour: Price,
    /// What they cost afterwards.
    #[serde(default)]
    pub planned_per_hour: Price,
}

/// Where pending pods go.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PlanProvisioning {
    /// Nodes to launch.
    #[serde(default, deserialize_with = "or_default")]
    pub node_claims: Vec<PlanClaim>,
    /// Pods that fit on what is there.
    #[serde(default, deserialize_with = "or_default")]
    pub existing_nodes: Vec<ExistingPlacement>,
    /// Pods that fit nowhere.
    #[serde(default, deserialize_with = "or_default")]
    pub unschedulable: Vec<UnschedulablePod>,
}

/// A node to launch.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PlanClaim {
    /// The pool that it belongs to.
    pub node_pool: String,
    /// What later commands of the plan call the node; only replacements are called anything.
    #[serde(default)]
    pub name: String,
    /// The pods it is for, `namespace/name`.
    #[serde(default, deserialize_with = "or_default")]
    pub pods: Vec<String>,
    /// All types that may be launched, cheapest first.
    #[serde(default, deserialize_with = "or_default")]
    pub instance_types: Vec<String>,
    /// What the node's labels must satisfy.
    #[serde(default, deserialize_with = "or_default")]
    pub requirements: Vec<NodeRequirement>,
    /// What pods and daemons ask for.
    #[serde(default, deserialize_with = "or_default")]
    pub requests: BTreeMap<String, String>,
    /// The launch that is most likely.
    pub estimate: Estimate,
}

/// A demand on one label of a node.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NodeRequirement {
    /// The label.
    pub key: String,
    /// `In`, `NotIn`, `Exists`, `DoesNotExist`, `Gt`, `Lt`, `Gte` or `Lte`.
    pub operator: String,
    /// What the label is compared with.
    #[serde(default, deserialize_with = "or_default")]
    pub values: Vec<String>,
    /// How many different values of the label the listed types must offer.
    pub min_values: Option<i64>,
}

impl NodeRequirement {
    /// Whether a label (absent: `None`) satisfies it.
    pub fn allows(&self, label: Option<&str>) -> bool {
        satisfies(label, &self.operator, &self.values)
    }
}

/// The launch that is most likely: the cheapest.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Estimate {
    /// The type.
    pub instance_type: String,
    /// The zone.
    pub zone: String,
    /// Spot, on-demand or reserved.
    pub capacity_type: String,
    /// What it costs.
    pub price_per_hour: Price,
}

/// Pods that go on a node that is there.
#[derive(Debug, Clone, Deserialize)]
pub struct ExistingPlacement {
    /// The node.
    pub node: String,
    /// The pods, `namespace/name`.
    #[serde(default, deserialize_with = "or_default")]
    pub pods: Vec<String>,
}

/// A pod that fits nowhere.
#[derive(Debug, Clone, Deserialize)]
pub struct UnschedulablePod {
    /// The pod, `namespace/name`.
    pub pod: String,
    /// Why, for people.
    #[serde(default)]
    pub message: String,
}

impl Plan {
    /// Reads a plan.
    pub fn read(value: &Value) -> Result<Self, serde_json::Error> {
        Self::deserialize(value)
    }

    /// How many pods it places.
    pub fn placed(&self) -> usize {
        self.placed_pods().count()
    }

    /// The pods that it places, `namespace/name`.
    pub fn placed_pods(&self) -> impl Iterator<Item = &str> {
        let new = self.provisioning.node_claims.iter().flat_map(|claim| &claim.pods);
        let existing = self.provisioning.existing_nodes.iter().flat_map(|node| &node.pods);
        new.chain(existing).map(String::as_str)
    }

    /// What the new nodes cost by their estimates.
    pub fn price(&self) -> Price {
        self.provisioning.node_claims.iter().map(|claim| claim.estimate.price_per_hour).sum()
    }
}

/// An explicit `null`, which Go prints for an empty list, is the same as absence.
fn or_default<'de, D: Deserializer<'de>, T: Deserialize<'de> + Default>(deserializer: D) -> Result<T, D::Error> {
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn reads_nulls_and_adds_up() -> Result<(), serde_json::Error> {
        let plan = Plan::read(&json!({"provisioning": {"nodeClaims": [{
            "nodePool": "a", "pods": ["default/x"], "instanceTypes": ["t"], "requirements": null, "requests": {},
            "estimate": {"instanceType": "t", "zone": "z", "capacityType": "spot", "pricePerHour": 0.25},
        }], "existingNodes": null, "unschedulable": []}, "cost": {}}))?;
        assert_eq!((plan.placed(), plan.price()), (1, Price::from_wire(0.25)));
        Ok(())
    }
}
