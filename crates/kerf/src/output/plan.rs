//! A plan as programs read it (spec 09 section 2.2): a published interface. The types here are written for their readers and converted
//! to by hand, so that a change inside the engine cannot change what a script sees. A field never changes its meaning; new ones may come.
//!
//! They borrow from the engine's answer: a plan for 20,000 pods lists a million instance types, and copying them would take longer than
//! finding them.

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

/// What would happen.
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

/// Where pending pods would go.
#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct PublishedProvisioning<'s> {
    /// Machines to launch.
    node_claims: Vec<PublishedNodeClaim<'s>>,
    /// Pods that fit on what is there.
    existing_nodes: Vec<PublishedPlacement<'s>>,
    /// Pods that find no place.
    pub(crate) unschedulable: Vec<PublishedUnschedulable<'s>>,
}

/// A machine to launch.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct PublishedNodeClaim<'s> {
    node_pool: &'s str,
    /// `namespace/name`, sorted.
    pods: &'s [Str],
    /// All that may be launched, cheapest first; beside a reservation what else would have done, last.
    instance_types: &'s [Str],
    /// Sorted by key and operator.
    #[serde(serialize_with = "requirements")]
    requirements: &'s Requirements,
    /// Canonical quantities by resource.
    #[serde(serialize_with = "quantities")]
    requests: &'s ResourceList,
    estimate: Option<PublishedEstimate<'s>>,
}

/// What a machine must be.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct PublishedRequirement<'s> {
    key: &'s str,
    operator: &'s str,
    values: &'s [Str],
    #[serde(skip_serializing_if = "Option::is_none")]
    min_values: Option<u32>,
}

/// The launch that is expected.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct PublishedEstimate<'s> {
    instance_type: &'s str,
    zone: &'s str,
    capacity_type: &'s str,
    price_per_hour: f64,
}

/// Pods for a node that is there.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct PublishedPlacement<'s> {
    node: &'s str,
    pods: &'s [Str],
}

/// A pod that finds no place.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct PublishedUnschedulable<'s> {
    pod: &'s str,
    /// From the list in `docs/reasons.md`.
    code: &'static str,
    message: String,
}

/// What would be taken away or replaced.
#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct PublishedDisruption<'s> {
    /// In the order of execution.
    pub(crate) commands: Vec<PublishedCommand<'s>>,
    /// Nodes that stay: one entry for each reason.
    blocked: Vec<PublishedBlock<'s>>,
}

/// One step of disruption.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct PublishedCommand<'s> {
    /// `Empty`, `Drifted` or `Underutilized`.
    reason: String,
    /// `delete` or `replace`.
    decision: &'static str,
    /// Sorted: they go together.
    nodes: Vec<&'s str>,
    /// Pods that would be evicted and run again elsewhere.
    pods: &'s [Str],
    replacements: Vec<PublishedReplacement<'s>>,
    /// Pods for nodes that are there: those that are evicted, and others that were pending.
    existing_nodes: Vec<PublishedPlacement<'s>>,
    /// Less than nothing when drift leads to something dearer.
    savings_per_hour: f64,
}

/// A machine to launch before others go.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct PublishedReplacement<'s> {
    node_pool: &'s str,
    /// What later commands of the plan call the node.
    name: &'s str,
    /// `namespace/name`, sorted.
    pods: &'s [Str],
    instance_types: &'s [Str],
    #[serde(serialize_with = "requirements")]
    requirements: &'s Requirements,
    estimate: Option<PublishedEstimate<'s>>,
}

/// A node that is left alone, and why.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct PublishedBlock<'s> {
    node: &'s str,
    /// From the list in `docs/reasons.md`.
    code: &'static str,
    message: String,
}

/// Money.
#[derive(Debug, Clone, Copy, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct PublishedCost {
    /// The managed nodes of the input.
    pub(crate) current_per_hour: f64,
    /// After provisioning and disruption.
    pub(crate) planned_per_hour: f64,
}

/// What was measured; not part of "same input, same bytes".
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
    pub(crate) provisioning_seconds: f64,
    pub(crate) disruption_seconds: f64,
    pub(crate) peak_rss_bytes: u64,
}

impl<'s> PublishedPlan<'s> {
    /// A plan for an instant, with what the engine found for the pending pods and for the nodes; `notes` adds to the reasons of some pods that
    /// find no place.
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

    /// Writes the plan.
    pub(crate) fn write(&self, format: Format, to: &mut dyn io::Write) -> io::Result<()> {
        match format {
            Format::Table => to.write_all(table::render(self).as_bytes()),
            Format::Json => json::write(self, to),
            Format::Yaml => to.write_all(self.yaml()?.as_bytes()),
        }
    }
}

impl PublishedPlan<'_> {
    /// YAML whose instant is a text for every reader: without quotes those of YAML 1.1 make a time of it.
    fn yaml(&self) -> io::Result<String> {
        let text = serde_yaml_ng::to_string(self).map_err(io::Error::other)?;
        let bare = format!("\nat: {}\n", self.at);
        Ok(text.replacen(&bare, &format!("\nat: \"{}\"\n", self.at), 1))
    }
}

impl<'s> PublishedProvisioning<'s> {
    fn of(solution: &'s Solution, notes: &BTreeMap<Str, String>) -> Self {
        let unschedulable = solution.unplaced.iter().map(|unplaced| {
            let reason = &unplaced.reason;
            let message = match notes.get(&unplaced.pod) {
                Some(note) => format!("{reason}; {note}"),
                None => reason.to_string(),
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
