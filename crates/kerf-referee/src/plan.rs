//! The JSON that `kerf plan -o json` prints (spec 09 §2.2). The oracle prints the same format.

use std::collections::BTreeMap;

use serde::{Deserialize, Deserializer};
use serde_json::Value;

use crate::price::Price;
use crate::selectors::satisfies;

/// A plan as `kerf plan` prints it.
#[derive(Debug, Clone, Default, Deserialize)]
pub struct Plan {
    /// Placement of pending pods.
    #[serde(default)]
    pub provisioning: PlanProvisioning,
    /// Nodes to remove.
    #[serde(default)]
    pub disruption: PlanDisruption,
    /// Cost of all nodes before and after.
    #[serde(default)]
    pub cost: PlanCost,
}

/// The disruption part of a plan.
#[derive(Debug, Clone, Default, Deserialize)]
pub struct PlanDisruption {
    /// Commands, in the order of execution.
    #[serde(default, deserialize_with = "or_default")]
    pub commands: Vec<PlanCommand>,
    /// Nodes that are not removed, with the reason.
    #[serde(default, deserialize_with = "or_default")]
    pub blocked: Vec<PlanBlockedNode>,
}

/// A disruption command: nodes that are removed together.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PlanCommand {
    /// `Empty`, `Drifted` or `Underutilized`.
    pub reason: String,
    /// `delete` or `replace`.
    pub decision: String,
    /// Names of the nodes to remove.
    pub nodes: Vec<String>,
    /// Pods that must move, `namespace/name`.
    #[serde(default, deserialize_with = "or_default")]
    pub pods: Vec<String>,
    /// Nodes that are launched before the others are removed.
    #[serde(default, deserialize_with = "or_default")]
    pub replacements: Vec<PlanClaim>,
    /// Pods that move to existing nodes.
    #[serde(default, deserialize_with = "or_default")]
    pub existing_nodes: Vec<ExistingPlacement>,
    /// Price of the removed nodes minus price of the replacements, per hour.
    pub savings_per_hour: Price,
}

/// A node that is not removed, and the reason.
#[derive(Debug, Clone, Deserialize)]
pub struct PlanBlockedNode {
    /// Name of the node.
    pub node: String,
    /// Reason code, for programs.
    #[serde(default)]
    pub code: String,
    /// Reason text, for people.
    #[serde(default)]
    pub message: String,
}

/// Cost of all nodes before and after the plan.
#[derive(Debug, Clone, Copy, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PlanCost {
    /// Price of all nodes now.
    #[serde(default)]
    pub current_per_hour: Price,
    /// Price of all nodes after the plan.
    #[serde(default)]
    pub planned_per_hour: Price,
}

/// The provisioning part of a plan: placement of pending pods.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PlanProvisioning {
    /// NodeClaims to create.
    #[serde(default, deserialize_with = "or_default")]
    pub node_claims: Vec<PlanClaim>,
    /// Pods that fit on existing nodes.
    #[serde(default, deserialize_with = "or_default")]
    pub existing_nodes: Vec<ExistingPlacement>,
    /// Pods that the plan does not place.
    #[serde(default, deserialize_with = "or_default")]
    pub unschedulable: Vec<UnschedulablePod>,
}

/// A NodeClaim to create.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PlanClaim {
    /// Name of the NodePool.
    pub node_pool: String,
    /// Name by which later commands of the plan refer to the node. Empty unless the claim is a
    /// replacement.
    #[serde(default)]
    pub name: String,
    /// Pods that the node is for, `namespace/name`.
    #[serde(default, deserialize_with = "or_default")]
    pub pods: Vec<String>,
    /// Instance types that may be launched, cheapest first.
    #[serde(default, deserialize_with = "or_default")]
    pub instance_types: Vec<String>,
    /// Requirements on the node's labels.
    #[serde(default, deserialize_with = "or_default")]
    pub requirements: Vec<NodeRequirement>,
    /// Requests of the pods and of the DaemonSet pods, by resource.
    #[serde(default, deserialize_with = "or_default")]
    pub requests: BTreeMap<String, String>,
    /// The cheapest launch that the claim allows.
    pub estimate: Estimate,
}

/// A requirement on one label of a node.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NodeRequirement {
    /// Label key.
    pub key: String,
    /// `In`, `NotIn`, `Exists`, `DoesNotExist`, `Gt`, `Lt`, `Gte` or `Lte`.
    pub operator: String,
    /// Values that the label is compared with.
    #[serde(default, deserialize_with = "or_default")]
    pub values: Vec<String>,
    /// Number of different values of the label that the listed types must offer; `None` if any
    /// number suffices.
    pub min_values: Option<i64>,
}

impl NodeRequirement {
    /// Returns true if a label value satisfies the requirement; `None` means that the label is
    /// absent.
    pub fn allows(&self, label: Option<&str>) -> bool {
        satisfies(label, &self.operator, &self.values)
    }
}

/// The cheapest launch that a claim allows. It is the most likely launch.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Estimate {
    /// Name of the instance type.
    pub instance_type: String,
    /// Zone of the offering.
    pub zone: String,
    /// `spot`, `on-demand` or `reserved`.
    pub capacity_type: String,
    /// Price of the offering.
    pub price_per_hour: Price,
}

/// Pods that are placed on an existing node.
#[derive(Debug, Clone, Deserialize)]
pub struct ExistingPlacement {
    /// Name of the node.
    pub node: String,
    /// The pods, `namespace/name`.
    #[serde(default, deserialize_with = "or_default")]
    pub pods: Vec<String>,
}

/// A pod that the plan does not place.
#[derive(Debug, Clone, Deserialize)]
pub struct UnschedulablePod {
    /// The pod, `namespace/name`.
    pub pod: String,
    /// Reason text, for people.
    #[serde(default)]
    pub message: String,
}

impl Plan {
    /// Decodes a plan from JSON.
    pub fn read(value: &Value) -> Result<Self, serde_json::Error> {
        Self::deserialize(value)
    }

    /// Returns the number of pods that the plan places.
    pub fn placed(&self) -> usize {
        self.placed_pods().count()
    }

    /// Returns the pods that the plan places, `namespace/name`.
    pub fn placed_pods(&self) -> impl Iterator<Item = &str> {
        let new = self.provisioning.node_claims.iter().flat_map(|claim| &claim.pods);
        let existing = self.provisioning.existing_nodes.iter().flat_map(|node| &node.pods);
        new.chain(existing).map(String::as_str)
    }

    /// Returns the price of the new nodes, the sum of their estimates.
    pub fn price(&self) -> Price {
        self.provisioning.node_claims.iter().map(|claim| claim.estimate.price_per_hour).sum()
    }
}

/// Decodes an explicit `null` as the default: Go prints `null` for an empty list.
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
