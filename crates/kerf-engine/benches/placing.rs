//! Measures how long placing pods takes, as a growth curve: each line doubles the input of the line
//! before it. The mix is that of Karpenter's own scheduling benchmark: a fifth each of plain pods,
//! zone spread, hostname spread, zone affinity to the own label, and hostname anti-affinity of all
//! against all; 400 instance types.
//!
//! `cargo bench -p kerf-engine --bench placing [-- FILTER]`
#![allow(clippy::disallowed_methods, reason = "a benchmark reads the clock")]
#![allow(clippy::print_stdout, reason = "a benchmark prints")]

use kerf_engine::{Effort, Input, solve};

use cluster::{Stopwatch, diverse, identical, input, repelling, settings};

#[allow(dead_code, reason = "each benchmark uses its part")]
mod cluster;

fn main() {
    let filter = std::env::args().skip(1).find(|a| !a.starts_with('-'));
    let is_selected = |name: &str| filter.as_deref().is_none_or(|f| name.contains(f));
    println!(
        "{:<34} {:>8} {:>10} {:>10} {:>8} {:>8} {:>12}",
        "work", "pods", "first fit", "search", "claims", "waiting", "price saved"
    );
    if is_selected("diverse") {
        for pods in [2_500, 5_000, 10_000, 20_000] {
            report("diverse, empty cluster", &input(diverse(pods), 0));
        }
    }
    if is_selected("identical") {
        for pods in [6_250, 12_500, 25_000, 50_000] {
            report("identical, empty cluster", &input(identical(pods), 0));
        }
    }
    if is_selected("existing") {
        for pods in [2_500, 5_000, 10_000, 20_000] {
            report("diverse, one node per ten pods", &input(diverse(pods), pods / 10));
        }
    }
    if is_selected("repelling") {
        for pods in [250, 500, 1_000] {
            report("all repel, all fit nowhere", &input(repelling(pods), 0));
        }
    }
}

fn report(name: &str, input: &Input) {
    let mut times = Vec::new();
    let mut solutions = Vec::new();
    for effort in [Effort::FirstFit, Effort::Search] {
        let settings = settings(effort);
        let mut best = f64::INFINITY;
        for _ in 0..3 {
            let start = Stopwatch::start();
            let solution = solve(input, &settings);
            best = best.min(start.seconds());
            solutions.push(solution);
        }
        times.push(best);
    }
    let (first_fit, search) = (&solutions[0], &solutions[3]);
    let saved = 100.0 * (1.0 - search.price().dollars() / first_fit.price().dollars());
    println!(
        "{name:<34} {:>8} {:>8.1}ms {:>8.1}ms {:>8} {:>8} {:>11.2}%",
        input.pods.len(),
        times[0] * 1e3,
        times[1] * 1e3,
        search.claims.len(),
        search.unplaced.len(),
        saved,
    );
}
