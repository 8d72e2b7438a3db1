//! Disruption (spec 03): decides which nodes to delete or replace, and why every other node stays.
//!
//! - A **survey** (`survey`) collects the facts about every node. A node that no rule blocks is a
//!   *candidate*.
//! - A **method** finds commands in one way: emptiness, drift of static pools, drift, multi-node
//!   consolidation, single-node consolidation, moves. A **pass** (`pass`) tries the methods in this
//!   order. The first method that finds a command ends the pass.
//! - A **command** removes one or more nodes together. Its replacements are launched first. Drift
//!   and consolidation return a command only if a simulation (`simulate`) could place all pods of
//!   its nodes elsewhere.
//! - A **wave** (`wave`) is all commands that save money and can be carried out at the same time.
//! - A **repack** (`repack`) is one command that saves more than a large wave.
//! - **Validation** (`validate`) checks a command against a newer cluster state before it is
//!   carried out.
//!
//! [`disrupt`] plans ahead: it repeats passes, each on the cluster that the last one leaves behind.
//! A controller calls [`next_commands()`] instead, [`validate()`]s each command and carries it out.
//!
//! Invariants of a [`DisruptionPlan`]:
//! - All commands together keep every NodePool budget.
//! - Every command costs less than the nodes it removes, except for drift.
//! - No command removes a node that another command of the plan launches.
//! - A plan for the cluster after the plan is empty. Exceptions: a budget held a command back, or
//!   the plan reports a node as [`BlockReason::LaunchedByPlan`].

mod apply_commands;
mod balanced;
mod block_reason;
mod budgets;
mod command;
mod conditions;
mod consolidation;
mod drift;
mod emptiness;
mod independent_commands;
mod input;
mod merge_commands;
mod moves;
mod next_commands;
mod pass;
mod plan_builder;
mod pods;
mod repack;
mod replacement;
mod simulate;
mod static_drift;
mod survey;
mod validate;
mod wave;

use std::borrow::Cow;

pub(crate) use apply_commands::add_planned_node;
use apply_commands::name_replacements;
pub use apply_commands::with_commands_done;
pub use balanced::BalancedScore;
pub use block_reason::BlockReason;
pub use command::{
    BlockedNode, BudgetUse, CommandNode, DisruptionCommand, DisruptionPlan, DisruptionStats, InputWarning, Method,
    RejectedCommand,
};
pub use conditions::{Consolidatable, consolidatable, drift as drift_reason, expires_at, must_verify_type};
pub use input::{ClaimLifecycle, DisruptionSettings, LaunchBackoff, Passes, PoolDisruption, TemplateHash};
pub use next_commands::{MethodFilter, MethodReport, consolidation_deferred_until, next_commands};
pub use pods::{blocked_by_budget, budget_selects, eviction_cost};
pub use static_drift::claim_from_template;
pub use validate::{ValidationFailure, validate, validate_all};
pub use wave::is_large_wave;

use kerf_api::labels;
use pass::DisruptionPass;
use plan_builder::PlanBuilder;
use survey::Survey;

use crate::catalogue::OfferingState;
use crate::cluster::Input;

/// Plans all disruption of a cluster: repeats passes until one finds nothing, or does a single pass
/// if `settings.passes` is [`Passes::First`].
///
/// Never fails. Problems of the input are warnings of the plan.
pub fn disrupt(input: &Input, settings: &DisruptionSettings) -> DisruptionPlan {
    let mut current = without_failed_launches(input);
    let mut builder: Option<PlanBuilder> = None;
    // Each pass removes a node or makes one cheaper. The bound ends the loop even if some rule were
    // to undo the work of another.
    for passes_left in (0..2 * input.nodes.len() + 2).rev() {
        let survey = Survey::new(&current);
        let builder = builder.get_or_insert_with(|| PlanBuilder::new(&survey));
        let mut pass = DisruptionPass::new(&survey, settings, &builder.budgets).with_planned_nodes(&builder.planned);
        let mut commands = pass.run();
        name_replacements(&current, &mut commands);
        let is_last = commands.is_empty() || settings.passes == Passes::First || passes_left == 0;
        let report = pass.into_report(&commands);
        builder.count_pass(&report);
        let added = builder.add_commands(&current, settings, commands);
        if is_last {
            builder.add_blocked_nodes(report);
            break;
        }
        drop(survey);
        if !added.is_empty() {
            current = Cow::Owned(with_commands_done(current.into_owned(), &added));
        }
    }
    builder.map(|builder| builder.finish(input)).unwrap_or_default()
}

/// Returns the input without the offerings that are in a launch backoff: they are marked as
/// unavailable.
fn without_failed_launches(input: &Input) -> Cow<'_, Input> {
    let backoffs: Vec<&LaunchBackoff> = input.launch_backoffs.iter().filter(|b| input.at < b.until).collect();
    if backoffs.is_empty() {
        return Cow::Borrowed(input);
    }
    let mut input = input.clone();
    for types in &mut input.catalogues {
        *types = types.with_states(|instance_type, offering| {
            let allows = |key: &str, value: &str| offering.requirements.get(key).is_none_or(|r| r.has(value));
            let has_failed = |b: &&LaunchBackoff| {
                b.instance_type == instance_type.name
                    && allows(labels::ZONE, &b.zone)
                    && allows(labels::CAPACITY_TYPE, &b.capacity_type)
            };
            let is_available = offering.is_available() && !backoffs.iter().any(has_failed);
            OfferingState { is_available, ..offering.state() }
        });
    }
    Cow::Owned(input)
}
