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
    let generated = provisioning_cluster(0, ClusterSize::Small);
    let pods = ClusterManifests::read(&generated.manifests).map_or(0, |cluster| cluster.pending_pods().len());
    let world = RecordedWorld { seed: 0, size: ClusterSize::Small, fingerprint: generated.fingerprint(), pods, runs };
    RecordedWorlds { karpenter: "v1.14.1".to_owned(), worlds: vec![world] }
}

/// Returns a plan that places no pod and lists each as unschedulable.
fn plan_nothing(manifests: &str, _types: &str) -> Value {
    let pods = ClusterManifests::read(manifests).map(|cluster| {
        let pending = cluster.pending_pods();
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
fn kerf_must_place_as_many_equivalent_pods_as_karpenter_always_places() {
    let all = all_pods();
    assert_eq!(all.len(), 3, "the three pods are identical");
    let recorded = recorded_worlds(vec![
        recorded_run(1, 100, &[], &[]),
        recorded_run(1, 100, &[&all[0]], &[]),
        recorded_run(1, 100, &[&all[1]], &[]),
    ]);
    let report = compare_with_karpenter(&plan_nothing, &KarpenterAnswers::Recorded(&recorded));
    let comparison = &report.comparisons[0];
    assert_eq!(comparison.left_out, all[1..], "every run places two of the pods");
    assert!(comparison.places_fewer() && !report.is_clean());
}

#[test]
fn runs_with_violations_are_not_compared() {
    let recorded = recorded_worlds(vec![recorded_run(1, 100, &[], &["Limits"])]);
    let report = compare_with_karpenter(&plan_nothing, &KarpenterAnswers::Recorded(&recorded));
    assert!(report.is_clean(), "{report}");
    assert_eq!((report.comparisons[0].karpenter_placed, report.comparisons[0].ratio()), (None, None));
}

#[test]
fn prices_are_compared_with_the_median_of_runs_that_place_as_many_pods() {
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
fn a_stale_record_is_reported() {
    let mut recorded = recorded_worlds(Vec::new());
    recorded.worlds[0].fingerprint = "0".to_owned();
    let report = compare_with_karpenter(&plan_nothing, &KarpenterAnswers::Recorded(&recorded));
    assert!(report.to_string().contains("the generator has changed"), "{report}");
}

#[test]
fn records_are_written_and_read_back() -> Result<(), serde_json::Error> {
    let recorded = recorded_worlds(vec![recorded_run(2, 5, &["default/x"], &["Limits"])]);
    assert_eq!(RecordedWorlds::read(&recorded.write()?)?, recorded);
    Ok(())
}

/// The recorded file belongs to the current generator. The exhaustive search is no worse than any
/// valid run of Karpenter on a small cluster.
#[test]
fn the_record_is_current_and_no_valid_run_beats_the_optimum() -> Result<(), Box<dyn std::error::Error>> {
    let recorded = RecordedWorlds::read(include_str!("../../../kerf/tests/recorded/karpenter.json"))?;
    assert_eq!(recorded.worlds.len(), 50);
    let mut compared = 0;
    for world in &recorded.worlds {
        let generated = provisioning_cluster(world.seed, world.size);
        assert_eq!(generated.fingerprint(), world.fingerprint, "cluster {}: record it again", world.seed);
        if world.size != ClusterSize::Small {
            continue;
        }
        let (cluster, types) = (ClusterManifests::read(&generated.manifests)?, catalogue::read(&generated.types)?);
        let Some(best) = optimum(&cluster, &types, DomainChoice::Unrestricted, 20_000) else { continue };
        for run in world.runs.iter().filter(|run| run.broken.is_empty()) {
            let placed = world.pods - run.unplaced.len();
            let no_worse = best.placed > placed || (best.placed == placed && best.price <= run.price());
            assert!(no_worse, "cluster {}: {best:?} against {placed} pods for {}", world.seed, run.price());
            compared += 1;
        }
    }
    assert!(compared >= 90, "only {compared} runs could be compared");
    Ok(())
}
