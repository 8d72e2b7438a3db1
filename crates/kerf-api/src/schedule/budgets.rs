//! Number of nodes of a pool that may be disrupted at once.

use jiff::Timestamp;

use super::{Schedule, ScheduleError};
use crate::duration::{Duration, DurationError};
use crate::nodepool::{Budget, DisruptionReason};

/// Result of [`allowed_disruptions`] if no budget limits the number.
pub const UNLIMITED: u32 = i32::MAX.unsigned_abs();

/// Error of a budget that cannot be evaluated.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("budgets[{index}], {problem}")]
pub struct BudgetError {
    /// Index of the budget in the list.
    pub index: usize,
    /// Problem of the budget.
    pub problem: BudgetProblem,
}

/// Problem of a budget. Admission rejects most of these, but not all.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BudgetProblem {
    /// The schedule cannot be parsed.
    #[error("invalid schedule {text:?}, {error}")]
    Schedule {
        /// Text of the schedule.
        text: String,
        /// Parse error of the schedule.
        error: ScheduleError,
    },
    /// The duration cannot be parsed.
    #[error("invalid duration, {0}")]
    Duration(#[from] DurationError),
    /// The value is neither a number nor a percentage.
    #[error("invalid nodes {0:?}, must be a number or a percentage")]
    Nodes(String),
}

/// Returns how many of a pool's nodes may be disrupted at once for this reason: the smallest limit
/// of all budgets that are active and cover the reason.
///
/// Fails if any budget cannot be evaluated, even one that does not apply. A caller that cannot
/// handle the error must then disrupt nothing.
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

/// Returns the problems of all budgets that cannot be evaluated, at most one per budget. With any
/// of them, [`allowed_disruptions`] fails at every time and for every reason.
pub fn budget_errors(budgets: &[Budget]) -> Vec<BudgetError> {
    let problems = budgets.iter().map(|budget| active_limit(budget, 0, Timestamp::UNIX_EPOCH).err());
    problems.enumerate().filter_map(|(index, problem)| Some(BudgetError { index, problem: problem? })).collect()
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

/// Returns a number as is, or a percentage of `nodes` rounded up, limited to [`UNLIMITED`]. Returns
/// `None` if the text is neither.
fn resolve_limit(text: &str, nodes: u32) -> Option<u32> {
    let (digits, is_percentage) = text.strip_suffix('%').map_or((text, false), |digits| (digits, true));
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let number = u128::try_from(digits.parse::<i64>().ok()?).ok()?;
    let limit = if is_percentage { (number * u128::from(nodes)).div_ceil(100) } else { number };
    Some(u32::try_from(limit).unwrap_or(UNLIMITED).min(UNLIMITED))
}
