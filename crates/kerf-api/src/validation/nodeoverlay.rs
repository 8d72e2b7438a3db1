//! Checks of NodeOverlays (spec 01 §5): requirements, and resources that the provider reports
//! itself.

use super::requirement;
use crate::labels::LabelRules;
use crate::nodeoverlay::NodeOverlaySpec;
use crate::quantity::Quantity;
use crate::requirement::Operator;

/// Resources of the simulated provider's instance types, which no overlay may change.
pub const KWOK_RESOURCES: &[&str] = &["cpu", "memory", "ephemeral-storage", "pods"];

/// Resources of EC2 instance types, which no overlay may change. GPU resources of device plugins
/// are not included.
pub const AWS_RESOURCES: &[&str] = &[
    "cpu",
    "memory",
    "ephemeral-storage",
    "pods",
    "vpc.amazonaws.com/pod-eni",
    "aws.amazon.com/neuron",
    "aws.amazon.com/neuroncore",
    "habana.ai/gaudi",
    "vpc.amazonaws.com/efa",
];

/// Returns all failures of an overlay. `provider_resources` are the resources that the provider's
/// instance types have.
pub fn failures(spec: &NodeOverlaySpec, rules: &LabelRules, provider_resources: &[&str]) -> Vec<String> {
    let mut failures = Vec::new();
    for requirement in &spec.requirements {
        failures.extend(requirement::requirement_failure(requirement.into(), rules));
        if requirement.operator == Operator::NotIn && requirement.values.as_deref().unwrap_or_default().is_empty() {
            let key = rules.normalise(&requirement.key);
            failures.push(format!("key {key} with operator NotIn must have a value defined"));
        }
    }
    for (name, quantity) in spec.capacity.iter().flatten() {
        if provider_resources.contains(&name.as_str()) {
            failures.push(format!("invalid capacity: {name} in resource, restricted"));
        }
        if let Err(error) = quantity.text().parse::<Quantity>() {
            failures.push(format!("invalid capacity: {error} in {name}"));
        }
    }
    failures
}
