//! Tests of the report of a comparison, with invented plans for a small cluster.

use serde_json::json;

use super::*;
use crate::price::Price;
use crate::search::{DomainChoice, optimum};

fn recorded_run(nodes: usize, price_nanos: i64, unplaced: &[&str], broken: &[&str]) -> RecordedRun {
    let owned = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect();
    RecordedRun { nodes, price_nanos, unplaced: owned(unplaced), broken: owned(broken) }
}

/// Returns records for a small cluster, with which a planner that places nothing can be compared.
fn recorded_worlds(runs: Vec<RecordedRun>) -> RecordedWorlds {
    let made = provisioning_cluster(0, ClusterSize::Small);
    let pods = ClusterManifests::read(&made.manifests).map_or(0, |world| world.pending_pods().len());
    let world = RecordedWorld { seed: 0, size: ClusterSize::Small, fingerprint: made.fingerprint(), pods, runs };
    RecordedWorlds { karpenter: "v1.14.1".to_owned(), worlds: vec![world] }
}

/// Returns a plan that places no pod and lists each as unschedulable.
fn plan_nothing(manifests: &str, _types: &str) -> Value {
    let pods = ClusterManifests::read(manifests).map(|world| {
        let pending = world.pending_pods();
        pending.iter().map(|p| json!({"pod": pod_key(p.pod)})).collect::<Vec<_>>()
    });
    json!({"provisioning": {"unschedulable": pods.unwrap_or_default()}})
}

fn all_pods() -> Vec<String> {
    let plan =
        Plan::read(&plan_nothing(&provisioning_cluster(0, ClusterSize::Small).manifests, "")).unwrap_or_default();
    plan.provisioning.unschedulable.into_iter().map(|u| u.pod).collect()
}

#[test]
fn as_many_pods_of_a_kind_must_be_placed_as_karpenter_always_places() {
    let all = all_pods();
    assert_eq!(all.len(), 3, "the three of them are alike");
    let recorded = recorded_worlds(vec![
        recorded_run(1, 100, &[], &[]),
        recorded_run(1, 100, &[&all[0]], &[]),
        recorded_run(1, 100, &[&all[1]], &[]),
    ]);
    let report = compare_with_karpenter(&plan_nothing, &KarpenterAnswers::Recorded(&recorded));
    let comparison = &report.comparisons[0];
    assert_eq!(comparison.left_out, all[1..], "every run places two, whichever they are");
    assert!(comparison.places_fewer() && !report.is_clean());
}

#[test]
fn unlawful_runs_are_no_yardstick() {
    let recorded = recorded_worlds(vec![recorded_run(1, 100, &[], &["Limits"])]);
    let report = compare_with_karpenter(&plan_nothing, &KarpenterAnswers::Recorded(&recorded));
    assert!(report.is_clean(), "{report}");
    assert_eq!((report.comparisons[0].karpenter_placed, report.comparisons[0].ratio()), (None, None));
}

#[test]
fn prices_are_compared_with_the_median_of_runs_that_place_as_much() {
    let all = all_pods();
    let none: Vec<&str> = all.iter().map(String::as_str).collect();
    let recorded = recorded_worlds(vec![
        recorded_run(0, 0, &none, &[]),
        recorded_run(0, 0, &none, &[]),
        recorded_run(1, 900, &[], &["Limits"]),
    ]);
    let report = compare_with_karpenter(&plan_nothing, &KarpenterAnswers::Recorded(&recorded));
    assert_eq!(report.ratios(), [1.0]);
    assert_eq!(
        median(vec![Price::from_nanos(3), Price::from_nanos(1), Price::from_nanos(2)]),
        Some(Price::from_nanos(2))
    );
}

#[test]
fn a_stale_record_is_noticed() {
    let mut recorded = recorded_worlds(Vec::new());
    recorded.worlds[0].fingerprint = "0".to_owned();
    let report = compare_with_karpenter(&plan_nothing, &KarpenterAnswers::Recorded(&recorded));
    assert!(report.to_string().contains("the generator has changed"), "{report}");
}

#[test]
fn records_survive_their_file() -> Result<(), serde_json::Error> {
    let recorded = recorded_worlds(vec![recorded_run(2, 5, &["default/x"], &["Limits"])]);
    assert_eq!(RecordedWorlds::read(&recorded.write()?)?, recorded);
    Ok(())
}

/// The recorded file belongs to the current generator. The exhaustive search is no worse than any
/// valid run of Karpenter on a small cluster.
#[test]
fn the_record_is_fresh_and_no_lawful_run_beats_the_best() -> Result<(), Box<dyn std::error::Error>> {
    let recorded = RecordedWorlds::read(include_str!("../../../kerf/tests/recorded/karpenter.json"))?;
    assert_eq!(recorded.worlds.len(), 50);
    let mut compared = 0;
    for theirs in &recorded.worlds {
        let made = provisioning_cluster(theirs.seed, theirs.size);
        assert_eq!(made.fingerprint(), theirs.fingerprint, "world {}: record anew", theirs.seed);
        if theirs.size != ClusterSize::Small {
            continue;
        }
        let (read, types) = (ClusterManifests::read(&made.manifests)?, catalogue::read(&made.types)?);
        let Some(best) = optimum(&read, &types, DomainChoice::Unrestricted, 20_000) else { continue };
        for run in theirs.runs.iter().filter(|run| run.broken.is_empty()) {
            let placed = theirs.pods - run.unplaced.len();
            let no_worse = best.placed > placed || (best.placed == placed && best.price <= run.price());
            assert!(no_worse, "world {}: {best:?} against {placed} pods for {}", theirs.seed, run.price());
            compared += 1;
        }
    }
    assert!(compared >= 90, "only {compared} runs could be compared");
    Ok(())
}
