//! Looks for a better solution than first fit.
//!
//! The first pass is Karpenter's first fit. Further passes use other pod orders and other rules for
//! choosing claims and domains. A result of a further pass is accepted only if it places every pod
//! that first fit places. In addition it must place more pods, or else
//!
//! - give up no more preferences,
//! - use no pools of lower weight (by `SolutionRank::pool_rank`), and
//! - break fewer spreads, or cost more than 1% less, or cost no more with no more claims.
//!
//! So a solution that keeps a spread which first fit breaks may cost more. A result is skipped if
//! truncating its lists of instance types would break `minValues`. Of the accepted results the one
//! with the lowest [`SolutionRank`] wins.
//!
//! Passes run in rounds; the search ends after a round without improvement. The number of passes
//! depends only on the size of the input and on the number of steps that first fit takes, and of
//! equal results the earliest pass wins. So the solution is equal on every machine and for any
//! number of threads.

use super::class::GroupConstraint;
use super::pass::{ClaimOrder, PlacementPass, SearchVariant};
use super::price_bound;
use super::problem::{PodIx, SchedulingProblem};
use super::solution::{Solution, build_solution, truncation_breaks_min_values};
use super::spread_violations;
use crate::cluster::Effort;
use crate::price::{Price, saves_enough};
use crate::resources::ResourceIx;
use crate::seeded_hash::splitmix64;
use crate::topology::GroupKind;

/// Approximate number of placements over all further passes. Bounds the work for large inputs.
const SEARCH_MAX_PLACEMENTS: usize = 40_000;
/// With fewer placements in total, a further thread and its copy of the state are not worth their
/// cost.
const MULTITHREAD_MIN_PLACEMENTS: usize = 10_000;
/// With more pods, failed pods are not retried after each placement, because the work may grow with
/// the square of their number.
const EAGER_RETRY_MAX_PODS: usize = 256;
/// Maximum number of further passes, reached only for small inputs.
const SEARCH_MAX_PASSES: usize = 192;
/// Approximate number of steps (see `SolveStats::steps`) over all further passes. Bounds the work
/// for inputs in which a placement takes many steps.
const SEARCH_MAX_STEPS: u64 = 8_000_000;
/// Approximate number of placements per round.
const ROUND_PLACEMENTS: usize = 8_000;
/// Minimum number of passes per round, so that the first round includes every claim order and pod
/// order.
const ROUND_MIN_PASSES: usize = 32;

/// The choices of one further pass.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct SearchAttempt {
    claim_order: ClaimOrder,
    pod_order: PodOrder,
    /// Place pods with affinity, spread or anti-affinity first. Pods without such rules can be
    /// placed later as well and might take the capacity that the others need.
    constrained_first: bool,
    seed: u64,
    search_variant: SearchVariant,
}

/// The order in which a pass takes the pods.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum PodOrder {
    /// Highest CPU request first: the order of the queue.
    Cpu,
    /// Highest memory request first.
    Memory,
    /// Highest share of the total CPU or total memory requests first, whichever is higher for the
    /// pod.
    DominantShare,
    /// Highest ratio of memory to CPU first; pods of equal ratio in the order of the queue.
    Ratio,
    /// The order of the queue, perturbed by the seed.
    Shuffled,
}

/// Rank of a solution, compared field by field; the lowest is best.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct SolutionRank {
    unplaced: usize,
    /// Pods whose spread cannot be kept, in whichever order the pods are bound.
    spread_violations: usize,
    relaxations: usize,
    /// Sum over all pods on claims of their pool's position in the order of pools.
    pool_rank: usize,
    price: Price,
    claims: usize,
}

/// The result of the first pass.
struct FirstFitResult {
    rank: SolutionRank,
    /// For each pod of the queue, true if it was placed.
    placed: Vec<bool>,
    /// The choices of the pass.
    variant: SearchVariant,
}

/// Returns the best solution found for these pods, which must be in queue order. Leaves the pass in
/// the state of that solution.
pub(crate) fn solve_with_search(pass: &mut PlacementPass<'_>, queue: &[PodIx]) -> Solution {
    (pass.state.steps, pass.state.max_cache_bytes) = (0, 0);
    let (attempts, first_fit_price) = search_cheaper(pass, queue, SEARCH_MAX_PLACEMENTS);
    build_solution(pass, attempts, first_fit_price)
}

/// Runs first fit and then further passes with about `placements` placements in total. Leaves the
/// pass in the state of the best solution. Returns the number of passes and the price of first fit.
pub(crate) fn search_cheaper(pass: &mut PlacementPass<'_>, queue: &[PodIx], placements: usize) -> (usize, Price) {
    let steps_before = pass.state.steps;
    let first_fit_variant = run_first_fit(pass, queue);
    let max_passes = (SEARCH_MAX_STEPS / (pass.state.steps - steps_before).max(1)).max(1);
    let rank = rank_solution(pass);
    let mut attempts = attempts(pass, rank, placements);
    attempts.truncate(usize::try_from(max_passes).unwrap_or(usize::MAX));
    if attempts.is_empty() {
        return (1, rank.price);
    }
    let first_fit = FirstFitResult { rank, placed: placed_flags(pass, queue), variant: first_fit_variant };
    pass.state.undo_pass();
    let attempts_run = run_attempts(pass, queue, &first_fit, &attempts);
    (attempts_run + 1, rank.price)
}

/// Runs first fit. Returns its choices.
///
/// Karpenter counts a claim against the limits of its pool as the largest type that it could need.
/// If that restricts a claim, first fit runs again and counts each claim as the smallest types that
/// it needs. The second run is used if it places every pod of the first, and the first left a pod to
/// limits or is otherwise worse. So limits that suffice for the smallest types do not change the
/// nodes, and no pod that Karpenter places is lost.
pub(crate) fn run_first_fit(pass: &mut PlacementPass<'_>, queue: &[PodIx]) -> SearchVariant {
    let variant = SearchVariant::default();
    pass.search_variant = variant;
    pass.run(queue);
    if !pass.state.is_restricted_by_limits {
        return variant;
    }
    let leaves_pods_to_limits = pass.left_pods_to_limits;
    let karpenters = FirstFitResult { rank: rank_solution(pass), placed: placed_flags(pass, queue), variant };
    pass.state.undo_pass();
    pass.search_variant = SearchVariant { shrink_claims_to_limits: true, ..variant };
    pass.run(queue);
    let (rank, placed) = (rank_solution(pass), placed_flags(pass, queue));
    let is_better = if leaves_pods_to_limits {
        rank.unplaced <= karpenters.rank.unplaced && places_all_of(&placed, &karpenters.placed)
    } else {
        rank < karpenters.rank && is_no_worse(rank, &placed, &karpenters)
    };
    if !is_better {
        pass.state.undo_pass();
        pass.search_variant = variant;
        pass.run(queue);
    }
    pass.search_variant
}

/// Returns the further passes to run. Empty if they cannot improve on first fit.
fn attempts(pass: &mut PlacementPass<'_>, first_fit: SolutionRank, placements: usize) -> Vec<SearchAttempt> {
    let settings = &pass.problem.cluster.settings;
    // Under the rule of first fit, so that a plan never costs more than one that keeps to
    // Karpenter's rule throughout.
    let shrink_claims_to_limits = pass.search_variant.shrink_claims_to_limits;
    // Claims take reservations in queue order; another order would give them to other pods.
    if settings.effort == Effort::FirstFit || !pass.state.reservations.is_empty() {
        return Vec::new();
    }
    let may_gain = if first_fit.unplaced > 0 {
        // If no pod was placed, every pod was rejected by the unchanged cluster, and any order
        // begins with the unchanged cluster.
        pass.placed_count() > 0
    } else {
        let has_claims = !pass.state.claims.is_empty();
        has_claims
            && (first_fit.spread_violations > 0
                || first_fit.relaxations > 0
                || saves_enough(price_bound::lower_bound_price(pass), first_fit.price))
    };
    if !may_gain {
        return Vec::new();
    }
    let passes = (placements / pass.state.queue.len().max(1)).clamp(1, SEARCH_MAX_PASSES);
    let seed = settings.seed;
    let planned = [
        (ClaimOrder::SmallestPriceIncrease, PodOrder::Cpu),
        (ClaimOrder::Oldest, PodOrder::DominantShare),
        (ClaimOrder::SmallestPriceIncrease, PodOrder::Memory),
        (ClaimOrder::Oldest, PodOrder::Ratio),
        (ClaimOrder::SmallestPriceIncrease, PodOrder::DominantShare),
        (ClaimOrder::SmallestPriceIncrease, PodOrder::Ratio),
        (ClaimOrder::Oldest, PodOrder::Cpu),
        (ClaimOrder::Oldest, PodOrder::Memory),
    ];
    let shuffled = (1..).map(|i: u64| {
        let claim_order = if i.is_multiple_of(4) { ClaimOrder::Oldest } else { ClaimOrder::SmallestPriceIncrease };
        let cheapest_domain = i % 6 == 1;
        let search_variant = SearchVariant {
            prefer_newest_claim: i.is_multiple_of(2),
            pick_any_domain: i.is_multiple_of(3),
            cheapest_domain,
            ..SearchVariant::default()
        };
        SearchAttempt {
            claim_order,
            pod_order: PodOrder::Shuffled,
            constrained_first: false,
            seed: splitmix64(seed.wrapping_add(i)),
            search_variant,
        }
    });
    let search_variant = SearchVariant::default();
    let planned = planned.map(|(claim_order, pod_order)| SearchAttempt {
        claim_order,
        pod_order,
        constrained_first: false,
        seed,
        search_variant,
    });
    let mut attempts: Vec<SearchAttempt> = planned.into_iter().chain(shuffled).take(passes).collect();
    if first_fit.unplaced > 0 {
        let may_retry_eagerly = pass.state.queue.len() <= EAGER_RETRY_MAX_PODS;
        for (ix, attempt) in attempts.iter_mut().enumerate() {
            attempt.constrained_first = ix.is_multiple_of(2);
            attempt.search_variant.retry_after_each_placement = may_retry_eagerly && ix % 4 > 1;
            attempt.search_variant.keep_colocated_together = may_retry_eagerly && ix % 8 > 3;
        }
    }
    for attempt in &mut attempts {
        attempt.search_variant.recount_narrowed_claims = first_fit.spread_violations > 0;
        attempt.search_variant.pin_claims_to_domains = true;
        attempt.search_variant.shrink_claims_to_limits = shrink_claims_to_limits;
    }
    if first_fit.spread_violations > 0 {
        // First fit again: restricting its claims to domains may be enough.
        let search_variant =
            SearchVariant { pin_claims_to_domains: true, shrink_claims_to_limits, ..SearchVariant::default() };
        attempts.insert(
            0,
            SearchAttempt {
                claim_order: ClaimOrder::FewestPods,
                pod_order: PodOrder::Cpu,
                constrained_first: false,
                seed,
                search_variant,
            },
        );
    }
    attempts
}

/// The results of one worker, which runs its attempts one after the other.
#[derive(Clone, Copy, Default)]
struct WorkerResult {
    /// Rank and index of its best attempt that is accepted over first fit.
    best: Option<(SolutionRank, usize)>,
    /// Index of the attempt whose result its state holds.
    last: Option<usize>,
}

/// Runs the attempts in rounds until a round finds nothing better, on as many threads as the
/// settings allow. Leaves the pass in the state of the best accepted attempt, or of first fit if
/// none is accepted. Returns the number of attempts that were run.
fn run_attempts(
    pass: &mut PlacementPass<'_>,
    queue: &[PodIx],
    first_fit: &FirstFitResult,
    attempts: &[SearchAttempt],
) -> usize {
    let threads = if attempts.len() * queue.len() < MULTITHREAD_MIN_PLACEMENTS {
        1
    } else {
        pass.problem.cluster.settings.threads
    };
    let threads = threads.clamp(1, attempts.len());
    // All threads together keep to the limit of one; each starts with a copy of the caches.
    let cache_bytes_limit = pass.state.cache_bytes_limit;
    pass.state.set_cache_bytes_limit(cache_bytes_limit / threads);
    pass.state.limit_caches();
    let mut other_workers: Vec<(PlacementPass<'_>, WorkerResult)> =
        (1..threads).map(|_| (pass.clone(), WorkerResult::default())).collect();
    let steps_before = pass.state.steps;
    let mut own_result = WorkerResult::default();
    let (mut winner, mut attempts_run) = (None, 0);
    let round_size = (ROUND_PLACEMENTS / queue.len().max(1)).max(ROUND_MIN_PASSES);
    while attempts_run < attempts.len() {
        let round = attempts_run..attempts.len().min(attempts_run + round_size);
        let share = |worker| round.clone().skip(worker).step_by(threads);
        std::thread::scope(|scope| {
            for (worker, (pass, result)) in other_workers.iter_mut().enumerate() {
                scope.spawn(move || run_worker_share(pass, queue, first_fit, attempts, share(worker + 1), result));
            }
            run_worker_share(pass, queue, first_fit, attempts, share(0), &mut own_result);
        });
        attempts_run = round.end;
        let best =
            other_workers.iter().map(|(_, result)| *result).chain([own_result]).filter_map(|result| result.best).min();
        if best == winner {
            break;
        }
        winner = best;
    }
    let winner = winner.map(|(_, ix)| ix);
    let own_state = &pass.state;
    let other_states = || other_workers.iter().map(|(pass, _)| &pass.state);
    let steps = own_state.steps + other_states().map(|state| state.steps - steps_before).sum::<u64>();
    let max_cache_bytes = own_state.max_cache_bytes + other_states().map(|state| state.max_cache_bytes).sum::<usize>();
    // If the state of a worker still holds the best result, it is used; else that attempt runs
    // again.
    let holds_winner = |result: WorkerResult| winner.is_some() && result.last == winner;
    let holder = other_workers.iter().position(|(_, result)| holds_winner(*result));
    if let Some(at) = holder {
        pass.state = other_workers.swap_remove(at).0.state;
    }
    (pass.state.steps, pass.state.max_cache_bytes) = (steps, max_cache_bytes);
    pass.state.set_cache_bytes_limit(cache_bytes_limit);
    if holder.is_none() && !holds_winner(own_result) {
        pass.state.undo_pass();
        match winner {
            Some(ix) => run_attempt(pass, queue, attempts[ix]),
            None => {
                pass.claim_order = ClaimOrder::FewestPods;
                pass.seed = pass.problem.cluster.settings.seed;
                pass.search_variant = first_fit.variant;
                pass.run(queue);
            }
        }
    }
    attempts_run
}

/// Runs a worker's share of the attempts, given by index.
fn run_worker_share(
    pass: &mut PlacementPass<'_>,
    queue: &[PodIx],
    first_fit: &FirstFitResult,
    attempts: &[SearchAttempt],
    share: impl Iterator<Item = usize>,
    result: &mut WorkerResult,
) {
    for ix in share {
        pass.state.undo_pass();
        run_attempt(pass, queue, attempts[ix]);
        result.last = Some(ix);
        if truncation_breaks_min_values(pass) {
            continue;
        }
        let rank = rank_solution(pass);
        let is_better = result.best.map_or(rank < first_fit.rank, |(best, _)| rank < best);
        if is_better && is_no_worse(rank, &placed_flags(pass, queue), first_fit) {
            result.best = Some((rank, ix));
        }
    }
}

fn run_attempt(pass: &mut PlacementPass<'_>, queue: &[PodIx], attempt: SearchAttempt) {
    pass.claim_order = attempt.claim_order;
    pass.seed = attempt.seed;
    pass.search_variant = attempt.search_variant;
    let order = order_pods(pass.problem, queue, attempt);
    pass.run(&order);
}

fn rank_solution(pass: &PlacementPass<'_>) -> SolutionRank {
    SolutionRank {
        unplaced: pass.state.queue.len() - pass.placed_count(),
        spread_violations: spread_violations::count_spread_violations(pass),
        relaxations: pass.state.relaxations,
        pool_rank: pass.state.claims.iter().map(|c| c.template * c.pods.len()).sum(),
        price: pass.total_price(),
        claims: pass.state.claims.len(),
    }
}

fn placed_flags(pass: &PlacementPass<'_>, queue: &[PodIx]) -> Vec<bool> {
    queue.iter().map(|pod| pass.state.placements[pod.0 as usize].is_some()).collect()
}

/// Returns true if the result of a pass may replace that of first fit (see the module head).
fn is_no_worse(rank: SolutionRank, placed: &[bool], first_fit: &FirstFitResult) -> bool {
    let first_fit_rank = first_fit.rank;
    let costs_less = || {
        saves_enough(rank.price, first_fit_rank.price)
            || (rank.price <= first_fit_rank.price && rank.claims <= first_fit_rank.claims)
    };
    let is_otherwise_better = || {
        rank.relaxations <= first_fit_rank.relaxations
            && rank.pool_rank <= first_fit_rank.pool_rank
            && (rank.spread_violations < first_fit_rank.spread_violations || costs_less())
    };
    places_all_of(placed, &first_fit.placed)
        && (rank.unplaced < first_fit_rank.unplaced || is_otherwise_better())
}

/// Returns true if every pod that is placed in `before` is placed now.
fn places_all_of(placed: &[bool], before: &[bool]) -> bool {
    placed.iter().zip(before).all(|(is_placed, was_placed)| *is_placed || !*was_placed)
}

fn order_pods(problem: &SchedulingProblem, queue: &[PodIx], attempt: SearchAttempt) -> Vec<PodIx> {
    let mut order = queue.to_vec();
    let request = |pod: PodIx, resource| problem.class_of(pod).requests.get(resource);
    match attempt.pod_order {
        PodOrder::Cpu => {}
        PodOrder::Memory => order.sort_by_key(|pod| std::cmp::Reverse(request(*pod, ResourceIx::MEMORY))),
        PodOrder::DominantShare => {
            let total = |resource| queue.iter().map(|p| request(*p, resource) >> 10).sum::<i128>().max(1);
            let (cpu, memory) = (total(ResourceIx::CPU), total(ResourceIx::MEMORY));
            order.sort_by_key(|pod| {
                let share = |amount: i128, all: i128| (amount >> 10).saturating_mul(1 << 20) / all;
                std::cmp::Reverse(
                    share(request(*pod, ResourceIx::CPU), cpu).max(share(request(*pod, ResourceIx::MEMORY), memory)),
                )
            });
        }
        PodOrder::Ratio => order.sort_by_key(|pod| {
            let cpu = request(*pod, ResourceIx::CPU).max(1);
            std::cmp::Reverse(request(*pod, ResourceIx::MEMORY) / cpu)
        }),
        PodOrder::Shuffled => {
            // A pod moves back by less than the length of the queue, so large pods still tend to
            // come first.
            let mut keyed: Vec<(u64, usize, PodIx)> = order
                .iter()
                .enumerate()
                .map(|(rank, pod)| {
                    let offset = splitmix64(attempt.seed ^ rank as u64) % (queue.len() as u64).max(1);
                    (rank as u64 + offset, rank, *pod)
                })
                .collect();
            keyed.sort_unstable();
            order = keyed.into_iter().map(|(_, _, pod)| pod).collect();
        }
    }
    if attempt.constrained_first {
        order.sort_by_key(|pod| constraint_priority(problem, *pod));
    }
    order
}

/// Returns the sort key of a pod: 0 with spread or affinity, 1 with only anti-affinity, 2 without.
/// Only the pod's own rules count. Groups owned by other pods do not, because their owners may be
/// deleted.
fn constraint_priority(problem: &SchedulingProblem, pod: PodIx) -> u8 {
    let priority = |constraint: &GroupConstraint| match problem.groups[constraint.group.0].identity.kind {
        GroupKind::Spread { .. } | GroupKind::Affinity => 0,
        GroupKind::AntiAffinity => 1,
        GroupKind::InverseAntiAffinity => 2,
    };
    problem.class_of(pod).constraints().map(priority).min().unwrap_or(2)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::Fixture;

    // An `IncrementalSolver` keeps groups of deleted pods; they must not change the order.
    #[test]
    fn a_pod_comes_first_only_because_of_its_own_rules() {
        let fixture = Fixture::new(
            "pool p \n node n1 \n pod guard on=n1 anti=host:app=api \n pod api labels=app:api \n pod plain
             pod shy labels=app:shy anti=host:app=shy \n pod web labels=app:web spread=zone:1:app=web",
        );
        let (problem, _) = SchedulingProblem::new(&fixture.input, &fixture.settings);
        let rank = |name: &str| {
            let pod = problem.pods.iter().position(|pod| pod.name == name);
            pod.map(|ix| constraint_priority(&problem, PodIx(ix as u32)))
        };
        let ranks = ["default/web", "default/shy", "default/plain", "default/api"].map(rank);
        assert_eq!(ranks, [Some(0), Some(1), Some(2), Some(2)]);
    }
}
