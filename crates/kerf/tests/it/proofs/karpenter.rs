//! Karpenter's recorded answers for fifty random clusters: Kerf places every pod that Karpenter
//! places, without a violation, and for no more money.

use kerf_referee::differential::{KarpenterAnswers, RecordedWorlds, compare_with_karpenter};

use super::in_process_kerf;

#[test]
fn kerf_places_as_many_pods_as_karpenter_and_costs_no_more() {
    let recorded = RecordedWorlds::read(include_str!("../../recorded/karpenter.json")).unwrap();
    let (kerf, _scratch) = in_process_kerf();
    let plan = |manifests: &str, types: &str| {
        serde_json::from_slice(&kerf.plan_output(manifests, types, &[]).unwrap()).unwrap()
    };
    let report = compare_with_karpenter(&plan, &KarpenterAnswers::Recorded(&recorded));
    assert!(report.is_clean(), "{report}");
}
