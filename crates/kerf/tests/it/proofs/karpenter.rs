//! Karpenter's own answers to fifty random worlds, recorded: Kerf places whatever Karpenter places, lawfully, and for no more money.

use kerf_referee::differential::{KarpenterAnswers, RecordedWorlds, differential};

use super::kerf;

#[test]
fn never_fewer_pods_and_never_dearer_than_karpenter() {
    let recorded = RecordedWorlds::read(include_str!("../../recorded/karpenter.json")).unwrap();
    let (kerf, _scratch) = kerf();
    let plan =
        |manifests: &str, types: &str| serde_json::from_slice(&kerf.plan(manifests, types, &[]).unwrap()).unwrap();
    let report = differential(&plan, &KarpenterAnswers::Recorded(&recorded));
    assert!(report.is_clean(), "{report}");
}
