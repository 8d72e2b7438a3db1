//! Better than first fit. The first pass is Karpenter's and sets the floor; further passes take pods in other orders and choose
//! claims by price, and the best answer that gives up nothing wins: one that places more pods besides all that the floor places, else
//! the cheapest that gives up no further wish and moves no pod to a lighter pool. Where the floor's counts are wrong enough for a spread
//! to be broken, one that keeps it may cost more.
//!
//! Passes come in rounds, and a round that finds nothing better is the last. How many there are at most, and in a round, depends on the size of
//! the input alone, and ties go to the earlier pass, so that the answer is the same on every machine and for any number of threads.

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

/// Pods placed over all further passes, about: bounds the work for large inputs.
const SEARCH_MAX_PLACEMENTS: usize = 40_000;
/// Fewer placements than this in all are not worth another thread and its copy of the books.
const MULTITHREAD_MIN_PLACEMENTS: usize = 10_000;
/// With more pods than this nobody is tried again after every success: it might take the square of their number.
const EAGER_RETRY_MAX_PODS: usize = 256;
/// The most passes for small inputs.
const SEARCH_MAX_PASSES: usize = 192;
/// Pods placed in a round, about: when all its passes are in vain, there is no other round.
const ROUND_PLACEMENTS: usize = 8_000;
/// The fewest passes of a round: some of every taste and order.
const ROUND_MIN_PASSES: usize = 32;

/// One way to go about it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct SearchAttempt {
    claim_order: ClaimOrder,
    pod_order: PodOrder,
    /// Those whom rules between pods bind come before all others: whoever has no such rule is welcome later, too, and might be in
    /// their way.
    constrained_first: bool,
    seed: u64,
    search_variant: SearchVariant,
}

/// In which order pods are taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum PodOrder {
    /// Much CPU first, as the queue has it.
    Cpu,
    /// Much memory first.
    Memory,
    /// Whatever the pod needs most of, measured against all pods.
    DominantShare,
    /// Alike in the ratio of memory to CPU together, the big ones first.
    Ratio,
    /// The queue's order, shaken by chance.
    Shuffled,
}

/// What makes one answer better than another; less is better.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct SolutionRank {
    unplaced: usize,
    /// Pods whose spread cannot be kept, whoever is bound first.
    spread_violations: usize,
    relaxations: usize,
    pool_rank: usize,
    price: Price,
    claims: usize,
}

/// What the first pass achieved.
struct FirstFitResult {
    rank: SolutionRank,
    /// Which pods of the queue have a place.
    placed: Vec<bool>,
}

/// The cheapest answer that is found for these pods, in the queue's order. The pass is left as the answer has it.
pub(crate) fn solve_with_search(pass: &mut PlacementPass<'_>, queue: &[PodIx]) -> Solution {
    let (attempts, floor) = search_cheaper(pass, queue, SEARCH_MAX_PLACEMENTS);
    build_solution(pass, attempts, floor)
}

/// Leaves the pass as the cheapest answer has it that is found with about so many placements on top of the first ones; the number of
/// attempts and the price of the first.
pub(crate) fn search_cheaper(pass: &mut PlacementPass<'_>, queue: &[PodIx], placements: usize) -> (usize, Price) {
    pass.run(queue);
    let merit = rank_solution(pass);
    let attempts = attempts(pass, merit, placements);
    if attempts.is_empty() {
        return (1, merit.price);
    }
    let floor = FirstFitResult { rank: merit, placed: placed_flags(pass, queue) };
    pass.state.undo_pass();
    let made = run_attempts(pass, queue, &floor, &attempts);
    (made + 1, merit.price)
}

fn attempts(pass: &mut PlacementPass<'_>, floor: SolutionRank, placements: usize) -> Vec<SearchAttempt> {
    let settings = &pass.problem.cluster.settings;
    // Reservations are handed out in the order of the queue; another order would hand them to others.
    if settings.effort == Effort::FirstFit || !pass.state.reservations.is_empty() {
        return Vec::new();
    }
    let may_gain = if floor.unplaced > 0 {
        // Where nothing at all was placed, every pod has been refused by the world as it is, which comes first in any order.
        pass.placed_count() > 0
    } else {
        let has_claims = !pass.state.claims.is_empty();
        has_claims
            && (floor.spread_violations > 0
                || floor.relaxations > 0
                || saves_enough(price_bound::lower_bound_price(pass), floor.price))
    };
    if !may_gain {
        return Vec::new();
    }
    let passes = (placements / pass.state.queue.len().max(1)).clamp(1, SEARCH_MAX_PASSES);
    let seed = settings.seed;
    let planned = [
        (ClaimOrder::CheapestGrowth, PodOrder::Cpu),
        (ClaimOrder::Oldest, PodOrder::DominantShare),
        (ClaimOrder::CheapestGrowth, PodOrder::Memory),
        (ClaimOrder::Oldest, PodOrder::Ratio),
        (ClaimOrder::CheapestGrowth, PodOrder::DominantShare),
        (ClaimOrder::CheapestGrowth, PodOrder::Ratio),
        (ClaimOrder::Oldest, PodOrder::Cpu),
        (ClaimOrder::Oldest, PodOrder::Memory),
    ];
    let shaken = (1..).map(|i: u64| {
        let taste = if i.is_multiple_of(4) { ClaimOrder::Oldest } else { ClaimOrder::CheapestGrowth };
        let thrifty = i % 6 == 1;
        let whim = SearchVariant {
            prefer_newest_claim: i.is_multiple_of(2),
            pick_any_domain: i.is_multiple_of(3),
            cheapest_domain: thrifty,
            ..SearchVariant::default()
        };
        SearchAttempt {
            claim_order: taste,
            pod_order: PodOrder::Shuffled,
            constrained_first: false,
            seed: splitmix64(seed.wrapping_add(i)),
            search_variant: whim,
        }
    });
    let whim = SearchVariant::default();
    let planned = planned.map(|(taste, order)| SearchAttempt {
        claim_order: taste,
        pod_order: order,
        constrained_first: false,
        seed,
        search_variant: whim,
    });
    let mut attempts: Vec<SearchAttempt> = planned.into_iter().chain(shaken).take(passes).collect();
    if floor.unplaced > 0 {
        let may_be_impatient = pass.state.queue.len() <= EAGER_RETRY_MAX_PODS;
        for (ix, attempt) in attempts.iter_mut().enumerate() {
            attempt.constrained_first = ix.is_multiple_of(2);
            attempt.search_variant.retry_after_each_placement = may_be_impatient && ix % 4 > 1;
            attempt.search_variant.keep_colocated_together = may_be_impatient && ix % 8 > 3;
        }
    }
    for attempt in &mut attempts {
        attempt.search_variant.recount_narrowed_claims = floor.spread_violations > 0;
        attempt.search_variant.pin_claims_to_domains = true;
    }
    if floor.spread_violations > 0 {
        // The first pass over again: it may do to say where its claims have to be.
        let whim = SearchVariant { pin_claims_to_domains: true, ..SearchVariant::default() };
        attempts.insert(
            0,
            SearchAttempt {
                claim_order: ClaimOrder::FewestPods,
                pod_order: PodOrder::Cpu,
                constrained_first: false,
                seed,
                search_variant: whim,
            },
        );
    }
    attempts
}

/// Attempts that were made one after the other on the same books.
#[derive(Clone, Copy, Default)]
struct WorkerResult {
    /// The best by number, if it beats the floor.
    best: Option<(SolutionRank, usize)>,
    /// The one that the books show.
    last: Option<usize>,
}

/// Runs the attempts on as many threads as allowed, round by round until one finds nothing better; leaves the pass as the best of them has
/// it, or as the floor if none beats it. The number of attempts that were made.
fn run_attempts(
    pass: &mut PlacementPass<'_>,
    queue: &[PodIx],
    floor: &FirstFitResult,
    attempts: &[SearchAttempt],
) -> usize {
    let threads = if attempts.len() * queue.len() < MULTITHREAD_MIN_PLACEMENTS {
        1
    } else {
        pass.problem.cluster.settings.threads
    };
    let threads = threads.clamp(1, attempts.len());
    let mut others: Vec<(PlacementPass<'_>, WorkerResult)> =
        (1..threads).map(|_| (pass.clone(), WorkerResult::default())).collect();
    let mut mine = WorkerResult::default();
    let (mut winner, mut made) = (None, 0);
    let in_round = (ROUND_PLACEMENTS / queue.len().max(1)).max(ROUND_MIN_PASSES);
    while made < attempts.len() {
        let round = made..attempts.len().min(made + in_round);
        let share = |worker| round.clone().skip(worker).step_by(threads);
        std::thread::scope(|scope| {
            for (worker, (pass, tried)) in others.iter_mut().enumerate() {
                scope.spawn(move || run_worker_share(pass, queue, floor, attempts, share(worker + 1), tried));
            }
            run_worker_share(pass, queue, floor, attempts, share(0), &mut mine);
        });
        made = round.end;
        let best = others.iter().map(|(_, tried)| *tried).chain([mine]).filter_map(|tried| tried.best).min();
        if best == winner {
            break;
        }
        winner = best;
    }
    let winner = winner.map(|(_, ix)| ix);
    // Whoever shows the winner's books already has the answer; else the winner is run once more.
    let shows_winner = |tried: WorkerResult| winner.is_some() && tried.last == winner;
    let there = others.iter().position(|(_, tried)| shows_winner(*tried));
    if let Some(at) = there {
        pass.state = others.swap_remove(at).0.state;
    } else if !shows_winner(mine) {
        pass.state.undo_pass();
        match winner {
            Some(ix) => run_attempt(pass, queue, attempts[ix]),
            None => {
                pass.claim_order = ClaimOrder::FewestPods;
                pass.seed = pass.problem.cluster.settings.seed;
                pass.search_variant = SearchVariant::default();
                pass.run(queue);
            }
        }
    }
    made
}

/// A worker's share of the attempts, by their numbers.
fn run_worker_share(
    pass: &mut PlacementPass<'_>,
    queue: &[PodIx],
    floor: &FirstFitResult,
    attempts: &[SearchAttempt],
    share: impl Iterator<Item = usize>,
    tried: &mut WorkerResult,
) {
    for ix in share {
        pass.state.undo_pass();
        run_attempt(pass, queue, attempts[ix]);
        tried.last = Some(ix);
        if truncation_breaks_min_values(pass) {
            continue;
        }
        let found = rank_solution(pass);
        let beats = tried.best.map_or(found < floor.rank, |(least, _)| found < least);
        if beats && is_no_worse(pass, queue, floor) {
            tried.best = Some((found, ix));
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

fn is_no_worse(pass: &PlacementPass<'_>, queue: &[PodIx], floor: &FirstFitResult) -> bool {
    let (found, bar) = (rank_solution(pass), floor.rank);
    let costs_less =
        || saves_enough(found.price, bar.price) || (found.price <= bar.price && found.claims <= bar.claims);
    let is_as_good = || {
        found.relaxations <= bar.relaxations
            && found.pool_rank <= bar.pool_rank
            && (found.spread_violations < bar.spread_violations || costs_less())
    };
    placed_flags(pass, queue).iter().zip(&floor.placed).all(|(here, there)| *here || !*there)
        && (found.unplaced < bar.unplaced || is_as_good())
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
            // Each pod moves by up to its whole rank: big pods still tend to come first.
            let mut keyed: Vec<(u64, usize, PodIx)> = order
                .iter()
                .enumerate()
                .map(|(rank, pod)| {
                    let chance = splitmix64(attempt.seed ^ rank as u64) % (queue.len() as u64).max(1);
                    (rank as u64 + chance, rank, *pod)
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

/// Whose place depends on where others are comes before those who only keep away from some, and these before the rest. Their own rules
/// count, not those of others: who is still there to have any is another matter.
fn constraint_priority(problem: &SchedulingProblem, pod: PodIx) -> u8 {
    let rank = |bound: &GroupConstraint| match problem.groups[bound.group.0].identity.kind {
        GroupKind::Spread { .. } | GroupKind::Affinity => 0,
        GroupKind::AntiAffinity => 1,
        GroupKind::InverseAntiAffinity => 2,
    };
    problem.class_of(pod).constraints().map(rank).min().unwrap_or(2)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::Fixture;

    // A cluster that is kept up to date remembers rules of pods that are gone; they must not change the order.
    #[test]
    fn only_rules_of_ones_own_make_a_pod_come_first() {
        let world = Fixture::new(
            "pool p \n node n1 \n pod guard on=n1 anti=host:app=api \n pod api labels=app:api \n pod plain
             pod shy labels=app:shy anti=host:app=shy \n pod web labels=app:web spread=zone:1:app=web",
        );
        let (problem, _) = SchedulingProblem::new(&world.input, &world.settings);
        let rank = |name: &str| {
            let pod = problem.pods.iter().position(|pod| pod.name == name);
            pod.map(|ix| constraint_priority(&problem, PodIx(ix as u32)))
        };
        let ranks = ["default/web", "default/shy", "default/plain", "default/api"].map(rank);
        assert_eq!(ranks, [Some(0), Some(1), Some(2), Some(2)]);
    }
}
