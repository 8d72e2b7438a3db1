//! Bounds on memory and work of a solve, measured by what the engine counts, not by time.

use std::fmt::Write as _;

use kerf_engine::{Effort, Solution};

use crate::fixture::Fixture;

/// Limit on the caches of the search in these tests, in bytes.
const CACHE_BYTES_MAX: usize = 8 << 20;

/// Returns 60 instance types with prices that are not proportional to their size.
fn types() -> String {
    (1..=60).fold(String::new(), |mut text, i| {
        let (cpu, mem, price) = (1 + i % 16, 2 + i % 7 * 4, 10 + i * 7 % 61);
        writeln!(text, "type t{i} cpu={cpu} mem={mem}Gi zones=a,b,c ct=spot,on-demand price=0.{price}").unwrap();
        text
    })
}

fn search(text: &str) -> Solution {
    Fixture::new(text).with_settings(|settings| settings.effort = Effort::Search).solve()
}

/// Returns pods of different sizes, each with the rules that `rules` returns for its
/// number.
fn pods(count: usize, rules: impl Fn(usize) -> String) -> String {
    (0..count).fold(String::new(), |mut text, i| {
        writeln!(text, "pod p{i} cpu=0.{} mem={}Mi {}", 1 + i % 9, 200 + i % 11 * 150, rules(i)).unwrap();
        text
    })
}

fn assert_cache_is_small(solution: &Solution) {
    let stats = solution.stats;
    assert!(stats.cache_bytes <= CACHE_BYTES_MAX, "{} bytes after {} passes", stats.cache_bytes, stats.attempts);
}

// Item 12. Karpenter documents this pattern for separating teams.
#[test]
fn values_that_no_instance_type_knows_do_not_fill_the_caches() {
    let pool = "pool p req=\"k0 Exists\" req=\"k1 Exists\" req=\"k2 Exists\" req=\"k3 Exists\" req=\"k4 Exists\"\n";
    let solution = search(&format!("{}{pool}{}", types(), pods(80, |i| format!("sel=k{}:t{i}", i % 5))));
    assert!(solution.unplaced.is_empty());
    assert_cache_is_small(&solution);
}

// Item 12.
#[test]
fn combinations_of_listed_values_do_not_fill_the_caches() {
    let values = (0..50).map(|value| format!("v{value}")).collect::<Vec<_>>().join(",");
    let pool = (0..20).map(|key| format!(" req=\"k{key} In {values}\"")).collect::<Vec<_>>().concat();
    let rules = |i: usize| format!("sel=k{}:v{} sel=k{}:v{}", i % 20, i % 50, (i + 7) % 20, i * 3 % 50);
    let solution = search(&format!("{}pool p{pool}\n{}", types(), pods(80, rules)));
    assert!(solution.unplaced.is_empty());
    assert_cache_is_small(&solution);
}

// Item 13.
#[test]
fn claims_with_another_value_of_a_label_are_not_checked_one_by_one() {
    let count = 200;
    let solution = search(&format!("{}pool p req=\"k Exists\"\n{}", types(), pods(count, |i| format!("sel=k:t{i}"))));
    assert_eq!(solution.claims.len(), count, "no two pods can share a node");
    let (passes, pods) = (solution.stats.attempts as u64, count as u64);
    assert!(solution.stats.steps <= 3 * passes * pods, "{} steps in {passes} passes", solution.stats.steps);
}

// Item 13.
#[test]
fn a_spread_that_cannot_be_kept_does_not_cost_a_check_of_all_others() {
    // The pool offers one domain of each key but `z`, which no node can have. Relaxation gives up
    // the spread on `z` last.
    let keys = 60;
    let labels = (1..keys).map(|key| format!(" label=k{key:03}:v")).collect::<Vec<_>>().concat();
    let mut spreads: Vec<String> = (1..keys).map(|key| format!(" spread=k{key:03}:1:app=web:any")).collect();
    spreads.insert(1, " spread=z:1:app=web:any".to_owned());
    let spreads = spreads.concat();
    let count = 20;
    let rules = |_| format!("labels=app:web{spreads}");
    let solution = search(&format!("{}pool p{labels}\n{}", types(), pods(count, rules)));
    assert!(solution.unplaced.is_empty());
    let stats = solution.stats;
    let (passes, pods, keys) = (stats.attempts as u64, count as u64, keys as u64);
    // Each pod gives up one spread after the other, until it has given up the last.
    assert!(stats.steps <= 4 * passes * pods * keys, "{} steps in {passes} passes", stats.steps);
}

// Item 13, spec 02 §8.5.
#[test]
fn the_work_does_not_grow_exponentially_with_the_keys_of_spread_constraints() {
    let keys = 20;
    let pool = (0..keys).map(|key| format!(" req=\"k{key:02} In a,b,c\"")).collect::<Vec<_>>().concat();
    let spreads = (0..keys).map(|key| format!(" spread=k{key:02}:1:app=web:any")).collect::<Vec<_>>().concat();
    let count = 4;
    let rules = |_| format!("labels=app:web{spreads}");
    let solution = search(&format!("{}pool p{pool}\n{}", types(), pods(count, rules)));
    assert!(solution.unplaced.is_empty());
    let stats = solution.stats;
    let (passes, pods, keys) = (stats.attempts as u64, count as u64, u64::try_from(keys).unwrap());
    assert!(stats.steps <= 8 * passes * pods * pods * keys * keys, "{} steps in {passes} passes", stats.steps);
    assert_cache_is_small(&solution);
}
