//! A plan as published JSON (spec 09 section 2.2). These types are separate from the engine's and
//! converted by hand, so that a change of the engine cannot change the JSON. A field never changes
//! its meaning; new fields may be added.
//!
//! The types borrow from the engine's result: a plan for 20,000 pods lists a million instance
//! types, and copying them would take longer than computing them.

mod table;

use std::collections::BTreeMap;
use std::io;

use jiff::Timestamp;
use kerf_api::slim::{ResourceList, Str};
use kerf_engine::requirement::Requirements;
use kerf_engine::{BlockReason, DisruptionPlan, PlannedClaim, Price, Solution};
use serde::{Serialize, Serializer};

use crate::args::Format;
use crate::output::json;

/// A whole plan: what the controllers would do now.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct PublishedPlan<'s> {
    api_version: &'static str,
    kind: &'static str,
    at: String,
    pub(crate) provisioning: PublishedProvisioning<'s>,
    pub(crate) disruption: PublishedDisruption<'s>,
    pub(crate) cost: PublishedCost,
    #[serde(skip_serializing_if = "Option::is_none")]
    stats: Option<PublishedStats>,
}

/// Nodes for pending pods.
#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct PublishedProvisioning<'s> {
    /// Instances to launch.
    node_claims: Vec<PublishedNodeClaim<'s>>,
    /// Pods that fit on existing nodes.
    existing_nodes: Vec<PublishedPlacement<'s>>,
    /// Pods that cannot be placed.
    pub(crate) unschedulable: Vec<PublishedUnschedulable<'s>>,
}

/// An instance to launch.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct PublishedNodeClaim<'s> {
    node_pool: &'s str,
    /// `namespace/name`, sorted.
    pods: &'s [Str],
    /// All instance types that may be launched, cheapest first. A claim that holds reservations
    /// lists its other types last; they are never launched.
    instance_types: &'s [Str],
    /// Sorted by key and operator.
    #[serde(serialize_with = "requirements")]
    requirements: &'s Requirements,
    /// Canonical quantities by resource.
    #[serde(serialize_with = "quantities")]
    requests: &'s ResourceList,
    estimate: Option<PublishedEstimate<'s>>,
}

/// A requirement on the labels of a node.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct PublishedRequirement<'s> {
    key: &'s str,
    operator: &'s str,
    values: &'s [Str],
    #[serde(skip_serializing_if = "Option::is_none")]
    min_values: Option<u32>,
}

/// The cheapest launch that a claim allows.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct PublishedEstimate<'s> {
    instance_type: &'s str,
    zone: &'s str,
    capacity_type: &'s str,
    price_per_hour: f64,
}

/// Pods to place on an existing node.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct PublishedPlacement<'s> {
    node: &'s str,
    pods: &'s [Str],
}

/// A pod that cannot be placed.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct PublishedUnschedulable<'s> {
    pod: &'s str,
    /// A code of `docs/reasons.md`.
    code: &'static str,
    message: String,
}

/// Nodes to remove or replace, and nodes that stay.
#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct PublishedDisruption<'s> {
    /// In the order of execution.
    pub(crate) commands: Vec<PublishedCommand<'s>>,
    /// Nodes that stay; one entry per node and reason.
    blocked: Vec<PublishedBlock<'s>>,
}

/// A disruption command.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct PublishedCommand<'s> {
    /// `Empty`, `Drifted` or `Underutilized`.
    reason: String,
    /// `delete` or `replace`.
    decision: &'static str,
    /// The nodes that are removed together, sorted.
    nodes: Vec<&'s str>,
    /// Pods that are evicted and must run elsewhere.
    pods: &'s [Str],
    replacements: Vec<PublishedReplacement<'s>>,
    /// Pods to place on existing nodes: evicted pods, and others that were pending.
    existing_nodes: Vec<PublishedPlacement<'s>>,
    /// Savings in dollars per hour; negative if drift leads to a more expensive node.
    savings_per_hour: f64,
}

/// An instance to launch before nodes are removed.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct PublishedReplacement<'s> {
    node_pool: &'s str,
    /// Name by which later commands of the plan refer to the node.
    name: &'s str,
    /// `namespace/name`, sorted.
    pods: &'s [Str],
    instance_types: &'s [Str],
    #[serde(serialize_with = "requirements")]
    requirements: &'s Requirements,
    estimate: Option<PublishedEstimate<'s>>,
}

/// A node that stays, with one reason.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct PublishedBlock<'s> {
    node: &'s str,
    /// A code of `docs/reasons.md`.
    code: &'static str,
    message: String,
}

/// Price of the managed nodes, in dollars per hour.
#[derive(Debug, Clone, Copy, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct PublishedCost {
    /// Price of the managed nodes of the input.
    pub(crate) current_per_hour: f64,
    /// Price after provisioning and disruption.
    pub(crate) planned_per_hour: f64,
}

/// Measurements. They differ between runs with the same input.
#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct PublishedStats {
    pub(crate) pods: usize,
    pub(crate) nodes: usize,
    pub(crate) instance_types: usize,
    pub(crate) pod_classes: usize,
    pub(crate) candidates: usize,
    pub(crate) candidates_evaluated: usize,
    pub(crate) load_seconds: f64,
    pub(crate) resolve_seconds: f64,
    pub(crate) provisioning_seconds: f64,
    pub(crate) disruption_seconds: f64,
    pub(crate) peak_rss_bytes: u64,
}

impl<'s> PublishedPlan<'s> {
    /// Builds the plan for time `at` from the engine's results. `notes` adds a text to the reasons
    /// of some unplaced pods.
    pub(crate) fn new(
        at: Timestamp,
        solution: Option<&'s Solution>,
        disruption: Option<&'s DisruptionPlan>,
        notes: &BTreeMap<Str, String>,
        current: Price,
        stats: Option<PublishedStats>,
    ) -> Self {
        let added = solution.map_or(Price::ZERO, Solution::price);
        let saved: Price =
            disruption.iter().flat_map(|plan| &plan.commands).map(kerf_engine::DisruptionCommand::saved).sum();
        let planned = current + added - saved;
        Self {
            api_version: "kerf.sh/v1alpha1",
            kind: "Plan",
            at: at.to_string(),
            provisioning: solution.map(|solution| PublishedProvisioning::of(solution, notes)).unwrap_or_default(),
            disruption: disruption.map(PublishedDisruption::of).unwrap_or_default(),
            cost: PublishedCost { current_per_hour: current.dollars(), planned_per_hour: planned.dollars() },
            stats,
        }
    }

    /// Writes the plan in a format.
    pub(crate) fn write(&self, format: Format, writer: &mut dyn io::Write) -> io::Result<()> {
        match format {
            Format::Table => writer.write_all(table::render(self).as_bytes()),
            Format::Json => json::write(self, writer),
            Format::Yaml => writer.write_all(self.yaml()?.as_bytes()),
        }
    }
}

impl PublishedPlan<'_> {
    /// Returns the plan as YAML. The time is quoted, because readers of YAML 1.1 would otherwise
    /// parse it as a timestamp.
    fn yaml(&self) -> io::Result<String> {
        let text = serde_yaml_ng::to_string(self).map_err(io::Error::other)?;
        let unquoted = format!("\nat: {}\n", self.at);
        Ok(text.replacen(&unquoted, &format!("\nat: \"{}\"\n", self.at), 1))
    }
}

impl<'s> PublishedProvisioning<'s> {
    fn of(solution: &'s Solution, notes: &BTreeMap<Str, String>) -> Self {
        let unschedulable = solution.unplaced.iter().map(|unplaced| {
            let reason = &unplaced.reason;
            let message = match notes.get(&unplaced.pod) {
                Some(note) => format!("{reason}; {note}"),
                None => solution.reason_text(reason),
            };
            PublishedUnschedulable { pod: &unplaced.pod, code: reason.code(), message }
        });
        let existing =
            solution.nodes.iter().map(|placed| PublishedPlacement { node: &placed.node, pods: &placed.pods });
        Self {
            node_claims: solution.claims.iter().map(PublishedNodeClaim::of).collect(),
            existing_nodes: existing.collect(),
            unschedulable: unschedulable.collect(),
        }
    }
}

impl<'s> PublishedNodeClaim<'s> {
    fn of(claim: &'s PlannedClaim) -> Self {
        Self {
            node_pool: &claim.pool,
            pods: &claim.pods,
            instance_types: &claim.launch.instance_types,
            requirements: &claim.launch.requirements,
            requests: &claim.requests,
            estimate: PublishedEstimate::of(claim),
        }
    }
}

impl<'s> PublishedEstimate<'s> {
    fn of(claim: &'s PlannedClaim) -> Option<Self> {
        claim.launch.estimate.as_ref().map(|estimate| Self {
            instance_type: &estimate.instance_type,
            zone: &estimate.zone,
            capacity_type: &estimate.capacity_type,
            price_per_hour: estimate.price.dollars(),
        })
    }
}

impl<'s> PublishedDisruption<'s> {
    fn of(plan: &'s DisruptionPlan) -> Self {
        let blocked = plan.blocked.iter().flat_map(|node| {
            let entry = |block: &BlockReason| PublishedBlock {
                node: &node.node,
                code: block.code(),
                message: block.to_string(),
            };
            node.reasons.iter().map(entry)
        });
        Self { commands: plan.commands.iter().map(PublishedCommand::of).collect(), blocked: blocked.collect() }
    }
}

impl<'s> PublishedCommand<'s> {
    fn of(command: &'s kerf_engine::DisruptionCommand) -> Self {
        let replacement = |(ix, claim): (usize, &'s PlannedClaim)| PublishedReplacement {
            node_pool: &claim.pool,
            name: command.replacement_names.get(ix).map_or("", Str::as_str),
            pods: &claim.pods,
            instance_types: &claim.launch.instance_types,
            requirements: &claim.launch.requirements,
            estimate: PublishedEstimate::of(claim),
        };
        let mut nodes: Vec<&str> = command.nodes.iter().map(|node| node.name.as_str()).collect();
        nodes.sort_unstable();
        let existing =
            command.placements.iter().map(|placed| PublishedPlacement { node: &placed.node, pods: &placed.pods });
        Self {
            reason: command.reason().to_string(),
            decision: command.decision(),
            nodes,
            pods: &command.pods,
            replacements: command.replacements.iter().enumerate().map(replacement).collect(),
            existing_nodes: existing.collect(),
            savings_per_hour: command.saved().dollars(),
        }
    }
}

fn requirements<S: Serializer>(requirements: &Requirements, serializer: S) -> Result<S::Ok, S::Error> {
    let entries = requirements.to_entries();
    serializer.collect_seq(entries.iter().map(|entry| PublishedRequirement {
        key: &entry.key,
        operator: entry.operator.as_str(),
        values: &entry.values,
        min_values: entry.min_values,
    }))
}

fn quantities<S: Serializer>(list: &ResourceList, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_map(list.iter().map(|(name, quantity)| (name, quantity.to_string())))
}
