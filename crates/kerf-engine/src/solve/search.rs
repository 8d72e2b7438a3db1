//! Better than first fit. The first pass is Karpenter's and sets the floor; further passes take pods in other orders and choose
//! claims by price, and the cheapest answer that gives up nothing wins (every pod that the floor places is placed, no further
//! wish is given up, no pod moves to a lighter pool).
//!
//! The number of passes depends on the size of the input alone, and ties go to the earlier pass, so that the answer is
//! the same on every machine and for any number of threads.

use super::answer::{Solution, answer, cuts_short};
use super::pass::{Pass, Taste};
use super::place_claim::saves_enough;
use super::problem::{PodIx, Problem};
use crate::chance::mix;
use crate::price::Price;
use crate::resources::ResourceIx;
use crate::world::Effort;

/// Pods placed over all further passes, about: bounds the work for large inputs.
const PLACEMENTS: usize = 40_000;
/// The most passes for small inputs.
const MOST_PASSES: usize = 192;

/// One way to go about it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Attempt {
    taste: Taste,
    order: Order,
    seed: u64,
}

/// In which order pods are taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Order {
    /// Much CPU first, as the queue has it.
    Cpu,
    /// Much memory first.
    Memory,
    /// Whatever the pod needs most of, measured against all pods.
    Dominant,
    /// Alike in the ratio of memory to CPU together, the big ones first.
    Ratio,
    /// The queue's order, shaken by chance.
    Shaken,
}

/// What makes one answer better than another; less is better.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Merit {
    unplaced: usize,
    concessions: usize,
    rank: usize,
    price: Price,
    claims: usize,
}

/// The answer of Karpenter's order alone.
pub(crate) fn first_fit(problem: &Problem) -> Solution {
    let mut floor = Pass::first_fit(problem);
    floor.run(&problem.queue());
    let price = floor.total_price();
    answer(floor, 1, price)
}

/// The cheapest answer that is found.
pub(crate) fn best(problem: &Problem) -> Solution {
    let queue = problem.queue();
    let mut floor = Pass::new(problem, Taste::FewestPods, problem.world.settings.seed);
    floor.run(&queue);
    let floor_price = floor.total_price();
    let attempts = attempts(problem, &floor);
    let count = attempts.len() + 1;
    let winner = better(problem, &queue, &floor, &attempts);
    answer(winner.unwrap_or(floor), count, floor_price)
}

fn attempts(problem: &Problem, floor: &Pass<'_>) -> Vec<Attempt> {
    // Reservations are handed out in the order of the queue; another order would hand them to others.
    if problem.world.settings.effort == Effort::FirstFit || floor.claims.is_empty() || !problem.reservations.is_empty()
    {
        return Vec::new();
    }
    let passes = (PLACEMENTS / problem.pods.len().max(1)).clamp(1, MOST_PASSES);
    let seed = problem.world.settings.seed;
    let planned = [
        (Taste::CheapestGrowth, Order::Cpu),
        (Taste::Oldest, Order::Dominant),
        (Taste::CheapestGrowth, Order::Memory),
        (Taste::Oldest, Order::Ratio),
        (Taste::CheapestGrowth, Order::Dominant),
        (Taste::CheapestGrowth, Order::Ratio),
        (Taste::Oldest, Order::Cpu),
        (Taste::Oldest, Order::Memory),
    ];
    let shaken = (1..).map(|i: u64| {
        let taste = if i.is_multiple_of(4) { Taste::Oldest } else { Taste::CheapestGrowth };
        Attempt { taste, order: Order::Shaken, seed: mix(seed.wrapping_add(i)) }
    });
    planned.into_iter().map(|(taste, order)| Attempt { taste, order, seed }).chain(shaken).take(passes).collect()
}

/// Runs the attempts on as many threads as allowed; the best of them, if it beats the floor.
fn better<'p>(problem: &'p Problem, queue: &[PodIx], floor: &Pass<'p>, attempts: &[Attempt]) -> Option<Pass<'p>> {
    let threads = problem.world.settings.threads.clamp(1, attempts.len().max(1));
    let bar = merit(floor);
    let run = |worker: usize| {
        let mut best: Option<(Merit, usize, Pass<'p>)> = None;
        for (ix, attempt) in attempts.iter().enumerate().skip(worker).step_by(threads) {
            let mut pass = Pass::new(problem, attempt.taste, attempt.seed);
            pass.run(&ordered(problem, queue, *attempt));
            if cuts_short(&mut pass) {
                continue;
            }
            let found = merit(&pass);
            let beats = best.as_ref().map_or(found < bar, |(least, ..)| found < *least);
            if beats && gives_up_nothing(&pass, floor) {
                best = Some((found, ix, pass));
            }
        }
        best
    };
    let run = &run;
    let found: Vec<_> = if threads == 1 {
        vec![run(0)]
    } else {
        std::thread::scope(|scope| {
            let workers: Vec<_> = (0..threads).map(|w| scope.spawn(move || run(w))).collect();
            workers.into_iter().map(|w| w.join().unwrap_or(None)).collect()
        })
    };
    found.into_iter().flatten().min_by_key(|(merit, ix, _)| (*merit, *ix)).map(|(_, _, pass)| pass)
}

fn merit(pass: &Pass<'_>) -> Merit {
    Merit {
        unplaced: pass.places.len() - pass.placed(),
        concessions: pass.concessions,
        rank: pass.claims.iter().map(|c| c.template * c.pods.len()).sum(),
        price: pass.total_price(),
        claims: pass.claims.len(),
    }
}

fn gives_up_nothing(pass: &Pass<'_>, floor: &Pass<'_>) -> bool {
    pass.places.iter().zip(&floor.places).all(|(here, there)| here.is_some() || there.is_none())
        && pass.concessions <= floor.concessions
        && merit(pass).rank <= merit(floor).rank
        && (saves_enough(pass.total_price(), floor.total_price())
            || (pass.total_price() <= floor.total_price() && pass.claims.len() <= floor.claims.len()))
}

fn ordered(problem: &Problem, queue: &[PodIx], attempt: Attempt) -> Vec<PodIx> {
    let mut order = queue.to_vec();
    let request = |pod: PodIx, resource| problem.class_of(pod).requests.get(resource);
    match attempt.order {
        Order::Cpu => {}
        Order::Memory => order.sort_by_key(|pod| std::cmp::Reverse(request(*pod, ResourceIx::MEMORY))),
        Order::Dominant => {
            let total = |resource| queue.iter().map(|p| request(*p, resource) >> 10).sum::<i128>().max(1);
            let (cpu, memory) = (total(ResourceIx::CPU), total(ResourceIx::MEMORY));
            order.sort_by_key(|pod| {
                let share = |amount: i128, all: i128| (amount >> 10).saturating_mul(1 << 20) / all;
                std::cmp::Reverse(
                    share(request(*pod, ResourceIx::CPU), cpu).max(share(request(*pod, ResourceIx::MEMORY), memory)),
                )
            });
        }
        Order::Ratio => order.sort_by_key(|pod| {
            let cpu = request(*pod, ResourceIx::CPU).max(1);
            std::cmp::Reverse(request(*pod, ResourceIx::MEMORY) / cpu)
        }),
        Order::Shaken => {
            // Each pod moves by up to its whole rank: big pods still tend to come first.
            let mut keyed: Vec<(u64, usize, PodIx)> = order
                .iter()
                .enumerate()
                .map(|(rank, pod)| {
                    let chance = mix(attempt.seed ^ rank as u64) % (queue.len() as u64).max(1);
                    (rank as u64 + chance, rank, *pod)
                })
                .collect();
            keyed.sort_unstable();
            order = keyed.into_iter().map(|(_, _, pod)| pod).collect();
        }
    }
    order
}
