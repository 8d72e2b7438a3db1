//! How many nodes of a pool may be disrupted at once.

use jiff::Timestamp;

use super::{Schedule, ScheduleError};
use crate::duration::{Duration, DurationError};
use crate::nodepool::{Budget, DisruptionReason};

/// The answer where no budget says anything.
pub const UNLIMITED: u32 = i32::MAX.unsigned_abs();

/// A budget that cannot be evaluated.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("budgets[{index}], {problem}")]
pub struct BudgetError {
    /// Its place in the list.
    pub index: usize,
    /// What is wrong with it.
    pub problem: BudgetProblem,
}

/// What is wrong with a budget. Admission refuses most of these, not all.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BudgetProblem {
    /// The schedule cannot be read.
    #[error("invalid schedule {text:?}, {error}")]
    Schedule {
        /// What was written.
        text: String,
        /// What is wrong with it.
        error: ScheduleError,
    },
    /// The duration cannot be read.
    #[error("invalid duration, {0}")]
    Duration(#[from] DurationError),
    /// Neither a number nor a percentage.
    #[error("invalid nodes {0:?}, must be a number or a percentage")]
    Nodes(String),
}

/// How many of a pool's nodes may be disrupted at once for this reason: the least that any budget says which is active and does
/// not name other reasons. A budget that cannot be evaluated, even one that would not apply, is an error, and whoever cannot act
/// on errors must then disrupt nothing.
pub fn allowed_disruptions(
    budgets: &[Budget],
    reason: &DisruptionReason,
    nodes: u32,
    now: Timestamp,
) -> Result<u32, BudgetError> {
    let mut allowed = UNLIMITED;
    for (index, budget) in budgets.iter().enumerate() {
        let limit = active_limit(budget, nodes, now).map_err(|problem| BudgetError { index, problem })?;
        if budget.reasons.as_ref().is_none_or(|reasons| reasons.contains(reason)) {
            allowed = allowed.min(limit);
        }
    }
    Ok(allowed)
}

fn active_limit(budget: &Budget, nodes: u32, now: Timestamp) -> Result<u32, BudgetProblem> {
    let limit = resolve_limit(&budget.nodes, nodes).ok_or_else(|| BudgetProblem::Nodes(budget.nodes.clone()))?;
    Ok(if is_active(budget, now)? { limit } else { UNLIMITED })
}

fn is_active(budget: &Budget, now: Timestamp) -> Result<bool, BudgetProblem> {
    if budget.schedule.is_none() && budget.duration.is_none() {
        return Ok(true);
    }
    let text = budget.schedule.as_deref().unwrap_or_default();
    let schedule: Schedule = text.parse().map_err(|error| BudgetProblem::Schedule { text: text.to_owned(), error })?;
    let window: Duration = budget.duration.as_ref().map_or(Ok(Duration::ZERO), |text| text.as_str().parse())?;
    Ok(schedule.is_active(window, now))
}

/// A number as it is, a percentage of the nodes rounded up; never more than [`UNLIMITED`].
fn resolve_limit(text: &str, nodes: u32) -> Option<u32> {
    let (digits, is_percentage) = text.strip_suffix('%').map_or((text, false), |digits| (digits, true));
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let number = u128::try_from(digits.parse::<i64>().ok()?).ok()?;
    let limit = if is_percentage { (number * u128::from(nodes)).div_ceil(100) } else { number };
    Some(u32::try_from(limit).unwrap_or(UNLIMITED).min(UNLIMITED))
}
