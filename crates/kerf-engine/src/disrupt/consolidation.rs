//! Consolidation: removes nodes whose pods fit on other nodes or on one cheaper new node (spec 03
//! §8.4 to §8.8).
//!
//! Multi-node consolidation tries several nodes together: prefixes of a sorted list of candidates.
//! Single-node consolidation then tries each node by itself.

use kerf_api::nodepool::DisruptionReason;

use super::balanced::{BalancedScore, Totals};
use super::block_reason::{BlockReason, capitalize_first};
use super::command::{DisruptionCommand, Method};
use super::emptiness::select_within_budgets;
use super::independent_commands::IndependentCommands;
use super::pass::{DisruptionPass, SurveyIx, sort_by_savings_ratio};
use super::replacement::ReplacementFilter;
use super::simulate::Purpose;
use super::survey::{DisruptionClass, NodeFacts};
use crate::cluster::Input;

/// Maximum number of nodes in one command.
pub(crate) const MAX_BATCH_NODES: usize = 100;
/// All prefixes up to this length are tried; longer ones by binary search.
const EXHAUSTIVE_MAX_NODES: usize = 12;

/// Returns true if consolidation considers the candidate.
pub(crate) fn accepts(facts: &NodeFacts<'_>, input: &Input) -> bool {
    !facts.is_empty() && facts.consolidation_blocks(input).is_empty()
}

/// Returns the candidates of consolidation, highest savings ratio first.
pub(crate) fn candidates(pass: &DisruptionPass<'_, '_>) -> Vec<SurveyIx> {
    let input = pass.survey.input;
    let mut candidates = pass.candidates_including_planned(DisruptionClass::Graceful, |facts| accepts(facts, input));
    sort_by_savings_ratio(pass, &mut candidates);
    candidates
}

/// Returns the command that removes several nodes together and saves most.
///
/// Two lists of candidates are searched: by savings ratio, as Karpenter does, and by usage,
/// emptiest first. The second helps because the pods of the emptiest nodes often fit elsewhere when
/// the pods of many small nodes do not.
pub(crate) fn multi_node(pass: &mut DisruptionPass<'_, '_>) -> Vec<DisruptionCommand> {
    let candidates = candidates(pass);
    let within_budget = select_within_budgets(pass, &candidates, &DisruptionReason::Underutilized);
    if within_budget.len() < 2 {
        return Vec::new();
    }
    let totals = Totals::new(pass.survey);
    let mut search = MultiNodeSearch { totals, best: None, rejected: None };
    search.search_prefixes(pass, &within_budget);
    // For short lists all prefixes have been tried already.
    if within_budget.len() > EXHAUSTIVE_MAX_NODES {
        let emptiest = pass.emptiest_first(&candidates);
        let emptiest = select_within_budgets(pass, &emptiest, &DisruptionReason::Underutilized);
        search.search_longest_prefix(pass, &emptiest);
    }
    if let Some(rejected) = search.rejected.filter(|_| search.best.is_none()) {
        pass.record_rejected(rejected);
    }
    search.best.into_iter().collect()
}

/// A search for nodes that can be removed together.
struct MultiNodeSearch {
    totals: Totals,
    best: Option<DisruptionCommand>,
    /// The last command that the `Balanced` policy of some pool rejected.
    rejected: Option<DisruptionCommand>,
}

impl MultiNodeSearch {
    /// Tries prefixes of a list: all short ones, and longer ones by binary search, as Karpenter
    /// does.
    ///
    /// Karpenter takes the longest prefix that works. Kerf takes the one that saves most: the
    /// longest may need a replacement that costs more than the additional nodes save.
    fn search_prefixes(&mut self, pass: &mut DisruptionPass<'_, '_>, nodes: &[SurveyIx]) {
        let max_len = nodes.len().min(MAX_BATCH_NODES);
        let short_results: Vec<bool> = (0..=max_len.min(EXHAUSTIVE_MAX_NODES))
            .map(|length| length >= 2 && self.try_batch(pass, &nodes[..length]))
            .collect();
        let (mut low, mut high) = (2, max_len);
        while low <= high {
            let middle = usize::midpoint(low, high);
            if short_results.get(middle).copied().unwrap_or_else(|| self.try_batch(pass, &nodes[..middle])) {
                low = middle + 1;
            } else {
                high = middle - 1;
            }
        }
    }

    /// Searches for the longest prefix that works, from the longest down. A binary search alone
    /// would not do: if a prefix fails because it needs two new nodes, a shorter or longer one may
    /// still need only one. Prefixes of up to 12 nodes are left to the search by savings ratio, as
    /// in Karpenter.
    fn search_longest_prefix(&mut self, pass: &mut DisruptionPass<'_, '_>, nodes: &[SurveyIx]) {
        let max_len = nodes.len().min(MAX_BATCH_NODES);
        let lengths = std::iter::successors(Some(max_len), |length| Some(length - length.div_ceil(5)));
        let mut too_long = max_len + 1;
        for length in lengths.take_while(|length| *length > EXHAUSTIVE_MAX_NODES) {
            if !self.try_batch(pass, &nodes[..length]) {
                too_long = length;
                continue;
            }
            let mut low = length;
            while low + 1 < too_long {
                let middle = usize::midpoint(low, too_long);
                if self.try_batch(pass, &nodes[..middle]) {
                    low = middle;
                } else {
                    too_long = middle;
                }
            }
            return;
        }
    }

    fn try_batch(&mut self, pass: &mut DisruptionPass<'_, '_>, batch: &[SurveyIx]) -> bool {
        let Ok(command) = compute(pass, Method::MultiNode, batch) else { return false };
        let command = with_scores(pass, batch, &self.totals, command);
        let is_approved = command.scores.iter().all(BalancedScore::is_approved);
        if !is_approved {
            self.rejected = Some(command);
        } else if self.best.as_ref().is_none_or(|best| command.saved() > best.saved()) {
            self.best = Some(command);
        }
        is_approved
    }
}

/// Tries every node by itself, with the pools in turn. Returns independent commands.
pub(crate) fn single_node(pass: &mut DisruptionPass<'_, '_>) -> Vec<DisruptionCommand> {
    let totals = Totals::new(pass.survey);
    let mut commands = IndependentCommands::new(pass);
    for ix in interleave_pools(pass, &candidates(pass)) {
        if !commands.accepts_more() {
            break;
        }
        if commands.uses_node(pass, ix) {
            continue;
        }
        match single_node_command(pass, ix, &totals, &commands) {
            Ok(command) => commands.add_if_independent(pass, ix, command),
            Err(block) => pass.record_block(ix, block),
        }
    }
    commands.into_commands()
}

fn single_node_command(
    pass: &mut DisruptionPass<'_, '_>,
    ix: SurveyIx,
    totals: &Totals,
    commands: &IndependentCommands,
) -> Result<DisruptionCommand, BlockReason> {
    let reason = DisruptionReason::Underutilized;
    if !pass.is_within_budget(&commands.budgets, ix, &reason) {
        return Err(BlockReason::DisruptionBudget(reason));
    }
    if let Some(score) = totals.rejected_deletion_score(pass.survey, pass.facts(ix)) {
        return Err(BlockReason::BelowBalancedThreshold { score });
    }
    let command = compute(pass, Method::SingleNode, &[ix])?;
    let command = with_scores(pass, &[ix], totals, command);
    if let Some(block) = balanced_rejection(&command) {
        pass.record_rejected(command);
        return Err(block);
    }
    Ok(command)
}

/// Returns the command, or an error if the `Balanced` policy of a pool rejects it.
pub(crate) fn check_balanced(
    pass: &DisruptionPass<'_, '_>,
    batch: &[SurveyIx],
    totals: &Totals,
    command: DisruptionCommand,
) -> Result<DisruptionCommand, BlockReason> {
    let command = with_scores(pass, batch, totals, command);
    balanced_rejection(&command).map_or(Ok(command), Err)
}

/// Returns the command with the scores of all pools that have the `Balanced` policy.
fn with_scores(
    pass: &DisruptionPass<'_, '_>,
    batch: &[SurveyIx],
    totals: &Totals,
    command: DisruptionCommand,
) -> DisruptionCommand {
    let facts: Vec<&NodeFacts<'_>> = batch.iter().map(|ix| pass.facts(*ix)).collect();
    DisruptionCommand { scores: totals.scores(pass.survey, &facts, command.saved()), ..command }
}

/// Returns the lowest score below the threshold as a block reason, or `None` if all pools approve.
fn balanced_rejection(command: &DisruptionCommand) -> Option<BlockReason> {
    let rejecting = command.scores.iter().filter(|score| !score.is_approved());
    rejecting.map(|score| score.score).min_by(f64::total_cmp).map(|score| BlockReason::BelowBalancedThreshold { score })
}

/// Computes the command that removes these nodes together (spec 03 §8.5), or why it is not
/// possible.
pub(crate) fn compute(
    pass: &mut DisruptionPass<'_, '_>,
    method: Method,
    batch: &[SurveyIx],
) -> Result<DisruptionCommand, BlockReason> {
    let simulation = pass.simulate_removal(batch, Purpose::Consolidation).ok_or(BlockReason::NoNode)?;
    if !simulation.all_scheduled() {
        return Err(BlockReason::PodsUnschedulable(capitalize_first(&simulation.to_string())));
    }
    let facts: Vec<&NodeFacts<'_>> = batch.iter().map(|ix| pass.facts(*ix)).collect();
    let replacements = match simulation.claims.as_slice() {
        [] => Vec::new(),
        [claim] => {
            let mut replacement = ReplacementFilter::new(pass.survey, claim);
            replacement.keep_cheaper(&facts, pass.settings.allows_spot_to_spot)?;
            if method == Method::MultiNode {
                replacement.filter_out_same_types(&facts)?;
            }
            vec![replacement.into_claim()]
        }
        several => return Err(BlockReason::TooManyReplacements(several.len())),
    };
    Ok(pass.build_command(method, batch, replacements, Some(simulation)))
}

/// Orders candidates in rounds with one candidate of each pool, so that a large pool does not delay
/// the others. Within a round the highest savings ratio comes first; Karpenter orders pools
/// randomly.
fn interleave_pools(pass: &DisruptionPass<'_, '_>, candidates: &[SurveyIx]) -> Vec<SurveyIx> {
    let mut seen = vec![0_usize; pass.survey.input.pools.len()];
    let mut rounds: Vec<(usize, SurveyIx)> = Vec::with_capacity(candidates.len());
    for ix in candidates.iter().copied() {
        if let Some(pool) = pass.facts(ix).pool {
            rounds.push((seen[pool], ix));
            seen[pool] += 1;
        }
    }
    rounds.sort_by_key(|(round, _)| *round);
    rounds.into_iter().map(|(_, ix)| ix).collect()
}
