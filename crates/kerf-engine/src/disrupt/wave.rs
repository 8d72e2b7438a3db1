//! Waves: all commands that save money and can be carried out at the same time.
//!
//! A pod that moves starts the `consolidateAfter` of the node that receives it. If the search for
//! each command started only after the last one is done, a large cluster would shrink by a few
//! nodes per minute. So after the first commands the search continues: it treats the nodes of these
//! commands as removed, and the capacity that their pods need as used, until it finds nothing more.
//!
//! Invariants of a wave:
//! - No node that a command removes receives pods of the wave.
//! - No pod moves to a node that another command launches. So each command can succeed or fail by
//!   itself.
//! - No constraint connects the commands (`independent_commands::is_independent`). So a command
//!   that is valid together with some of the others is also valid together with fewer of them.

use rustc_hash::FxHashSet;

use super::apply_commands::with_commands_reserved;
use super::command::{DisruptionCommand, Method};
use super::independent_commands::is_independent;
use super::input::{DisruptionSettings, Passes};
use super::pass::{DisruptionPass, PlannedNodes, SurveyIx};
use super::plan_builder::PlanBuilder;
use super::survey::Survey;
use crate::cluster::Input;

/// Maximum number of passes that extend a wave.
const WAVE_MAX_PASSES: usize = 32;

/// A wave is large if it removes at least [`LARGE_WAVE_MIN_NODES`] nodes and at least
/// 1/[`LARGE_WAVE_MIN_SHARE_DIVISOR`] of all nodes.
const LARGE_WAVE_MIN_NODES: usize = 10;
const LARGE_WAVE_MIN_SHARE_DIVISOR: usize = 10;

/// Returns true if removing `nodes` nodes of a cluster with `total` nodes is a large wave: at least
/// 10 nodes and a tenth of the cluster.
pub fn is_large_wave(nodes: usize, total: usize) -> bool {
    nodes >= LARGE_WAVE_MIN_NODES && nodes * LARGE_WAVE_MIN_SHARE_DIVISOR >= total
}

/// Returns true if other commands may be carried out together with these.
pub(crate) fn can_extend(pass: &DisruptionPass<'_, '_>, commands: &[DisruptionCommand]) -> bool {
    let is_extendable = |command: &DisruptionCommand| {
        let nodes: Vec<SurveyIx> = command.nodes.iter().filter_map(|node| pass.survey.find(&node.name)).collect();
        command.method.is_for_savings() && is_independent(pass, &nodes, command)
    };
    pass.settings.passes == Passes::All && !commands.is_empty() && commands.iter().all(is_extendable)
}

/// Adds to the plan the commands that can be carried out together with those found first.
pub(crate) fn extend(
    input: &Input,
    settings: &DisruptionSettings,
    builder: &mut PlanBuilder,
    first: Vec<DisruptionCommand>,
) {
    let mut excluded = FxHashSet::default();
    let mut last = first;
    let mut current = input.clone();
    for _ in 0..WAVE_MAX_PASSES {
        excluded.extend(last.iter().flat_map(DisruptionCommand::receiving_nodes).cloned());
        current = with_commands_reserved(current, &last);
        let survey = Survey::new(&current);
        let planned = PlannedNodes { launched: FxHashSet::default(), excluded };
        let budgets = builder.budgets.clone();
        let mut pass = DisruptionPass::new(&survey, settings, &budgets).with_planned_nodes(&planned);
        let methods = Method::ALL.into_iter().filter(|method| method.is_for_savings());
        let commands = methods.map(|method| pass.commands_of(method)).find(|commands| !commands.is_empty());
        let commands = commands.filter(|commands| can_extend(&pass, commands));
        let report = pass.into_report(commands.as_deref().unwrap_or_default());
        builder.count_pass(&report);
        excluded = planned.excluded;
        let Some(commands) = commands else { return };
        last = builder.add_commands(input, settings, commands);
    }
}
