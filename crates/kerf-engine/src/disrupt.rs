//! Taking nodes away (spec 03): which may go, which must be replaced and by what, in what order and under which budgets, and for every
//! node that stays, why.
//!
//! A [`Survey`] collects what is known of every node. A [`Pass`] asks the methods in their order, and each asks a simulator
//! what would become of the pods. [`disrupt`] repeats passes on the world that the last one leaves behind; a controller, which carries
//! out what it is told, takes one [`look`] after the other and [`validate`]s each command before it is carried out.
//!
//! Always: the commands of a plan keep every budget together; a command that is not about drift costs less than what it takes away; none
//! takes away a machine that another of the same plan launches; the plan for the world after a plan is empty, unless a budget held something
//! back or the plan says of such a machine that it could go in turn.

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
use std::sync::Arc;

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
pub use pods::eviction_cost;
pub use static_drift::claim_from_template;
pub use validate::{ValidationFailure, validate, validate_all};
pub use wave::is_large_wave;

use kerf_api::labels;
use pass::DisruptionPass;
use plan_builder::PlanBuilder;
use survey::Survey;

use crate::cluster::Input;

/// Decides which nodes of a cluster go.
pub fn disrupt(input: &Input, settings: &DisruptionSettings) -> DisruptionPlan {
    let mut world = without_failed_launches(input);
    let mut draft: Option<PlanBuilder> = None;
    // Each pass takes away a node or makes one cheaper; this bounds the passes even if some rule were to go round in circles.
    for passes_left in (0..2 * input.nodes.len() + 2).rev() {
        let survey = Survey::new(&world);
        let draft = draft.get_or_insert_with(|| PlanBuilder::new(&survey));
        let mut pass = DisruptionPass::new(&survey, settings, &draft.budgets).with_planned_nodes(&draft.planned);
        let mut found = pass.run();
        name_replacements(&world, &mut found);
        let is_last = found.is_empty() || settings.passes == Passes::First || passes_left == 0;
        let said = pass.into_report(&found);
        draft.count_pass(&said);
        let done = draft.add_commands(&world, settings, found);
        if is_last {
            draft.add_blocked_nodes(said);
            break;
        }
        drop(survey);
        if !done.is_empty() {
            world = Cow::Owned(with_commands_done(world.into_owned(), &done));
        }
    }
    draft.map(|draft| draft.finish(input)).unwrap_or_default()
}

/// The input in which nothing is on offer whose launch just failed.
fn without_failed_launches(input: &Input) -> Cow<'_, Input> {
    let failed: Vec<&LaunchBackoff> = input.launch_backoffs.iter().filter(|b| input.at < b.until).collect();
    if failed.is_empty() {
        return Cow::Borrowed(input);
    }
    let mut input = input.clone();
    for described in input.catalogues.iter_mut().flat_map(Arc::make_mut) {
        for offering in &mut described.offerings {
            let is = |key: &str, value: &str| offering.requirements.get(key).is_none_or(|r| r.has(value));
            let has_failed = |b: &&LaunchBackoff| {
                b.instance_type == described.name
                    && is(labels::ZONE, &b.zone)
                    && is(labels::CAPACITY_TYPE, &b.capacity_type)
            };
            offering.available &= !failed.iter().any(has_failed);
        }
    }
    Cow::Owned(input)
}
