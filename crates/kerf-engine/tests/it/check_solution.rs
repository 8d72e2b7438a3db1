//! Solutions as short text, and the check that every example uses.
//!
//! `claim pool=p types=s,m pods=web-1..3 zone=a` lists all instance types, cheapest first, and only
//! those requirements that the pool itself does not state. `node n1 pods=…` lists pods on existing
//! nodes. `unplaced big NoInstanceTypeFits` shows the reason's code.

use std::fmt::Write as _;

use kerf_api::labels;
use kerf_api::slim::Str;
use kerf_engine::catalogue::InstanceTypeRef;
use kerf_engine::requirement::{EffectiveOperator, Requirement, Requirements};
use kerf_engine::{Effort, Input, PlannedClaim, Solution};

use crate::fixture::{Fixture, label_short_name};

/// Solves the fixture and compares the solution line by line. Also checks that a search places at
/// least the pods that first fit places, costs no more, and does not depend on the number of
/// threads.
#[track_caller]
pub(crate) fn check(fixture: &str, expected: &str) {
    let fixture = Fixture::new(fixture);
    let solution = fixture.solve();
    let actual = solution_text(&fixture.input, &solution);
    let lines =
        |text: &str| text.lines().map(str::trim).filter(|l| !l.is_empty()).map(str::to_owned).collect::<Vec<_>>();
    assert!(lines(&actual) == lines(expected), "expected\n{}\ngot\n{actual}", lines(expected).join("\n"));
    check_search(&fixture, &solution);
}

#[track_caller]
pub(crate) fn check_search(fixture: &Fixture, first_fit: &Solution) {
    let search = |threads| {
        fixture
            .with_settings(|s| {
                s.effort = Effort::Search;
                s.threads = threads;
            })
            .solve()
    };
    let (one, two) = (search(1), search(2));
    assert_eq!(solution_text(&fixture.input, &one), solution_text(&fixture.input, &two), "threads must not matter");
    for pod in one.unplaced.iter().map(|u| &u.pod) {
        assert!(first_fit.unplaced.iter().any(|u| u.pod == *pod), "a search must not lose {pod}");
    }
    let placed_alike = one.unplaced.len() == first_fit.unplaced.len();
    assert!(!placed_alike || one.price() <= first_fit.price(), "a search must not cost more");
}

/// Solves the fixture and returns the solution as text.
pub(crate) fn solved_text(fixture: &str) -> String {
    let fixture = Fixture::new(fixture);
    solution_text(&fixture.input, &fixture.solve())
}

/// Returns the reason why a pod stays pending.
#[track_caller]
pub(crate) fn unplaced_reason(fixture: &str, pod: &str) -> String {
    let solution = Fixture::new(fixture).solve();
    let unplaced = solution.unplaced.iter().find(|u| without_default_namespace(&u.pod) == pod);
    unplaced.unwrap_or_else(|| panic!("{pod} is not unplaced: {solution:?}")).reason.to_string()
}

pub(crate) fn solution_text(input: &Input, solution: &Solution) -> String {
    let mut out = String::new();
    for claim in &solution.claims {
        let types: Vec<&str> = claim.launch.instance_types.iter().map(Str::as_str).collect();
        let (pods, types) = (pod_names_text(&claim.pods), types.join(","));
        writeln!(out, "claim pool={} types={types} pods={pods}{}", claim.pool, requirements_beyond_pool(input, claim))
            .unwrap();
    }
    for node in &solution.nodes {
        writeln!(out, "node {} pods={}", node.node, pod_names_text(&node.pods)).unwrap();
    }
    for code in unplaced_codes(solution) {
        let pods: Vec<Str> =
            solution.unplaced.iter().filter(|u| u.reason.code() == code).map(|u| u.pod.clone()).collect();
        writeln!(out, "unplaced {} {code}", pod_names_text(&pods)).unwrap();
    }
    out
}

fn unplaced_codes(solution: &Solution) -> Vec<&'static str> {
    let mut codes: Vec<_> = solution.unplaced.iter().map(|u| u.reason.code()).collect();
    codes.sort_unstable();
    codes.dedup();
    codes
}

/// Returns the claim's requirements that the pool does not state. Leaves the capacity type out if
/// it follows from the types.
fn requirements_beyond_pool(input: &Input, claim: &PlannedClaim) -> String {
    let pool = input.pools.iter().find(|p| p.name == claim.pool).unwrap();
    let rules = &input.label_rules;
    let mut base: Requirements = pool
        .requirements
        .iter()
        .map(|r| Requirement::from_expression(rules, &r.expression).unwrap().with_min_values(r.min_values))
        .collect();
    base.add_all(&Requirements::from_labels(rules, &pool.labels));
    let types = pool.catalogue.iter().flat_map(|c| input.catalogues[*c].iter());
    let listed = types.filter(|t| claim.launch.instance_types.contains(&t.name));
    let offered = listed.flat_map(InstanceTypeRef::offerings).filter(|o| o.is_available());
    let capacity_types: Vec<Str> = offered
        .filter_map(|o| o.offering().requirements.get(labels::CAPACITY_TYPE))
        .flat_map(Requirement::values)
        .cloned()
        .collect();
    let all_capacity_types = Requirement::one_of(labels::CAPACITY_TYPE, capacity_types);
    let mut out = String::new();
    for requirement in &claim.launch.requirements {
        let is_derived = requirement.key() == labels::INSTANCE_TYPE && requirement.min_values().is_none();
        if base.get(requirement.key()) != Some(requirement) && !is_derived && *requirement != all_capacity_types {
            write!(out, " {}", requirement_text(requirement)).unwrap();
        }
    }
    out
}

fn requirement_text(requirement: &Requirement) -> String {
    let key = label_short_name(requirement.key());
    let values: Vec<&str> = requirement.values().iter().map(Str::as_str).collect();
    let values = values.join("|");
    let mut text = match requirement.operator() {
        EffectiveOperator::In => format!("{key}={values}"),
        EffectiveOperator::NotIn => format!("{key}!={values}"),
        EffectiveOperator::Exists => format!("{key}=*"),
        EffectiveOperator::DoesNotExist => format!("!{key}"),
    };
    if let Some(gte) = requirement.gte() {
        write!(text, ">={gte}").unwrap();
    }
    if let Some(lte) = requirement.lte() {
        write!(text, "<={lte}").unwrap();
    }
    if let Some(least) = requirement.min_values() {
        write!(text, "(min {least})").unwrap();
    }
    text
}

/// Returns pod names without the default namespace, and consecutive numbers as `web-1..3`.
fn pod_names_text(pods: &[Str]) -> String {
    let mut all: Vec<(&str, Option<u32>)> =
        pods.iter().map(|pod| split_number(without_default_namespace(pod))).collect();
    all.sort_unstable();
    let mut runs: Vec<(&str, Option<(u32, u32)>)> = Vec::new();
    for (name, number) in all {
        match (runs.last_mut(), number) {
            (Some((last, Some((_, to)))), Some(number)) if *last == name && *to + 1 == number => *to = number,
            _ => runs.push((name, number.map(|n| (n, n)))),
        }
    }
    let texts: Vec<String> = runs
        .into_iter()
        .map(|(name, run)| match run {
            None => name.to_owned(),
            Some((from, to)) if from == to => format!("{name}-{from}"),
            Some((from, to)) => format!("{name}-{from}..{to}"),
        })
        .collect();
    texts.join(",")
}

pub(crate) fn without_default_namespace(pod: &str) -> &str {
    pod.strip_prefix("default/").unwrap_or(pod)
}

fn split_number(name: &str) -> (&str, Option<u32>) {
    match name.rsplit_once('-').map(|(stem, number)| (stem, number.parse())) {
        Some((stem, Ok(number))) => (stem, Some(number)),
        _ => (name, None),
    }
}

/// Returns the number of pods in each domain of a label, fewest first. Pods whose domain is not
/// decided count as `?`.
pub(crate) fn pods_per_domain(fixture: &Fixture, solution: &Solution, key: &str) -> Vec<(usize, String)> {
    let mut counts: std::collections::BTreeMap<String, usize> = std::collections::BTreeMap::new();
    for claim in &solution.claims {
        let domain = match claim.launch.requirements.get(key).and_then(Requirement::allowed_values) {
            Some([domain]) => domain.to_string(),
            Some(_) | None => "?".to_owned(),
        };
        *counts.entry(domain).or_default() += claim.pods.len();
    }
    for placed in &solution.nodes {
        let node = fixture.input.nodes.iter().find(|n| n.metadata.name == placed.node);
        let domain = node.and_then(|n| n.metadata.labels.get(key)).unwrap_or("?");
        *counts.entry(domain.to_owned()).or_default() += placed.pods.len();
    }
    let mut sorted: Vec<(usize, String)> = counts.into_iter().map(|(domain, count)| (count, domain)).collect();
    sorted.sort();
    sorted
}

/// Solves the fixture and returns only the numbers of [`pods_per_domain`].
pub(crate) fn pod_counts_per_domain(fixture: &str, key: &str) -> Vec<usize> {
    let fixture = Fixture::new(fixture);
    let solution = fixture.solve();
    check_search(&fixture, &solution);
    pods_per_domain(&fixture, &solution, &crate::fixture::label_key(key)).into_iter().map(|(count, _)| count).collect()
}
