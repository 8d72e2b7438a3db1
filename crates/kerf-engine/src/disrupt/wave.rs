//! All that can be done for money at once. One command after the other, each looked for when the last is carried out, lets a large cluster
//! shrink a few nodes a minute: every pod that moves makes the node that takes it in rest for its pool's `consolidateAfter`. So a look goes
//! on beside the commands that it has found, as if their nodes were gone and the room that their pods take were taken, until it
//! finds nothing more.
//!
//! Always: no node of a wave takes in pods of the wave; no pod of one command goes to a machine that another launches, so each can be carried
//! out, or fail, by itself; and nothing ties its commands together from afar (`batch::stands_alone`), so that what holds beside some of
//! them holds beside fewer.

use rustc_hash::FxHashSet;

use super::apply_commands::with_commands_reserved;
use super::command::{DisruptionCommand, Method};
use super::independent_commands::is_independent;
use super::input::{DisruptionSettings, Passes};
use super::pass::{DisruptionPass, PlannedNodes, SurveyIx};
use super::plan_builder::PlanBuilder;
use super::survey::Survey;
use crate::cluster::Input;

/// How often it is looked beside what was found.
const WAVE_MAX_PASSES: usize = 32;

/// A wave takes much of a cluster if it takes at least so many nodes, and at least the so-manyth part of all.
const LARGE_WAVE_MIN_NODES: usize = 10;
const LARGE_WAVE_MIN_SHARE_DIVISOR: usize = 10;

/// Whether so many nodes are much of a cluster of so many.
pub fn is_large_wave(nodes: usize, of: usize) -> bool {
    nodes >= LARGE_WAVE_MIN_NODES && nodes * LARGE_WAVE_MIN_SHARE_DIVISOR >= of
}

/// Whether others may be carried out together with these commands.
pub(crate) fn can_extend(pass: &DisruptionPass<'_, '_>, found: &[DisruptionCommand]) -> bool {
    let stands = |command: &DisruptionCommand| {
        let nodes: Vec<SurveyIx> = command.nodes.iter().filter_map(|node| pass.survey.find(&node.name)).collect();
        command.method.is_for_savings() && is_independent(pass, &nodes, command)
    };
    pass.settings.passes == Passes::All && !found.is_empty() && found.iter().all(stands)
}

/// Adds to the draft what can be carried out together with what was found first.
pub(crate) fn extend(
    input: &Input,
    settings: &DisruptionSettings,
    draft: &mut PlanBuilder,
    found: Vec<DisruptionCommand>,
) {
    let mut spared = FxHashSet::default();
    let mut last = found;
    let mut world = input.clone();
    for _ in 0..WAVE_MAX_PASSES {
        spared.extend(last.iter().flat_map(DisruptionCommand::receiving_nodes).cloned());
        world = with_commands_reserved(world, &last);
        let survey = Survey::new(&world);
        let planned = PlannedNodes { launched: FxHashSet::default(), excluded: spared };
        let budgets = draft.budgets.clone();
        let mut pass = DisruptionPass::new(&survey, settings, &budgets).with_planned_nodes(&planned);
        let methods = Method::ALL.into_iter().filter(|method| method.is_for_savings());
        let found = methods.map(|method| pass.commands_of(method)).find(|commands| !commands.is_empty());
        let found = found.filter(|commands| can_extend(&pass, commands));
        let said = pass.into_report(found.as_deref().unwrap_or_default());
        draft.count_pass(&said);
        spared = planned.excluded;
        let Some(found) = found else { return };
        last = draft.add_commands(input, settings, found);
    }
}
