//! Tests of the conditions `Drifted` and `Consolidatable`, and of the expiration of claims (spec 03
//! §2 and §12.1).

use kerf_engine::{Consolidatable, consolidatable, drift_reason, expires_at};

use super::{block_codes, check};
use crate::fixture::Fixture;

/// Returns the drift reason of the only claim in the first pool; empty if it has not drifted.
#[track_caller]
fn drift(pool: &str, node: &str) -> String {
    let fixture = Fixture::new(&format!("type t cpu=4 zones=a \n {pool} \n pool-node n {node}"));
    let input = &fixture.input;
    let types = input.catalogues[0].types();
    drift_reason(&input.node_claims[0], &input.pools[0], types, &input.label_rules, input.at)
        .unwrap_or_default()
        .to_string()
}

#[test]
fn spec_03_1_a_claim_that_is_not_launched_has_not_drifted() {
    assert_eq!(drift("pool p hash=new:v3", "type=t hash=old:v3"), "NodePoolDrifted");
    assert_eq!(drift("pool p hash=new:v3", "type=t hash=old:v3 unlaunched drifted=60"), "");
}

#[test]
fn spec_03_2_without_its_pool_a_claim_does_not_drift() {
    check("pool q \n pool-node n type=t hash=old:v3 provider-drift=AMIDrift", "");
    assert_eq!(block_codes("pool q \n pool-node n type=t provider-drift=AMIDrift", "n"), ["NodePoolNotFound"]);
}

#[test]
fn spec_03_4_and_5_drift_from_the_pool_takes_precedence_over_provider_drift() {
    assert_eq!(drift("pool p", "type=t provider-drift=AMIDrift"), "AMIDrift");
    assert_eq!(drift("pool p hash=b:v3", "type=t hash=a:v3 provider-drift=AMIDrift"), "NodePoolDrifted");
    assert_eq!(
        drift("pool p req=\"arch In arm64\"", "type=t arch=amd64 provider-drift=AMIDrift"),
        "RequirementsDrifted"
    );
}

#[test]
fn spec_03_6_and_7_hashes_are_compared_only_if_both_exist_with_one_version() {
    assert_eq!(drift("pool p hash=b:v2", "type=t hash=a:v3"), "");
    assert_eq!(drift("pool p", "type=t hash=a:v3"), "");
    assert_eq!(drift("pool p hash=b:v3", "type=t"), "");
    assert_eq!(drift("pool p hash=b:v3", "type=t hash=a:"), "");
    assert_eq!(drift("pool p hash=a:v3", "type=t hash=a:v3"), "");
}

#[test]
fn spec_03_10_to_13_labels_must_still_meet_the_requirements() {
    let drifted = "RequirementsDrifted";
    // 10
    assert_eq!(drift("pool p req=\"os In windows\"", "type=t label=os:linux"), drifted);
    assert_eq!(drift("pool p req=\"os In linux,windows\"", "type=t label=os:linux"), "");
    assert_eq!(drift("pool p req=\"os In windows\"", "type=t label=os:windows"), "");
    // 11
    assert_eq!(drift("pool p req=\"arch In amd64\"", "type=t"), drifted);
    assert_eq!(drift("pool p req=\"arch NotIn arm64\"", "type=t"), "");
    assert_eq!(drift("pool p req=\"team Exists\"", "type=t"), drifted);
    assert_eq!(drift("pool p req=\"size Gt 1\"", "type=t"), drifted);
    // 12
    assert_eq!(drift("pool p req=\"team Exists\"", "type=t label=team:x"), "");
    assert_eq!(drift("pool p req=\"team DoesNotExist\"", "type=t label=team:x"), drifted);
    assert_eq!(drift("pool p req=\"team DoesNotExist\"", "type=t"), "");
    // 13
    assert_eq!(drift("pool p req=\"size Gt 2\"", "type=t label=size:5"), "");
    assert_eq!(drift("pool p req=\"size Gt 10\"", "type=t label=size:5"), drifted);
    assert_eq!(drift("pool p req=\"size Lt 5\"", "type=t label=size:2"), "");
    assert_eq!(drift("pool p req=\"size Lt 1\"", "type=t label=size:2"), drifted);
}

#[test]
fn spec_03_14_a_missing_type_counts_as_drift_after_an_hour() {
    assert_eq!(drift("pool p", "type=missing age=3540"), "");
    assert_eq!(drift("pool p", "type=missing age=3600"), "");
    assert_eq!(drift("pool p", "type=missing age=7200"), "InstanceTypeNotFound");
    assert_eq!(drift("pool p", "type=missing age=7200 verified=-60"), "");
    assert_eq!(drift("pool p", "type=missing age=7200 verified=0"), "InstanceTypeNotFound");
}

#[test]
fn spec_03_15_a_missing_type_and_a_missing_offering_have_one_reason() {
    let missing = "InstanceTypeNotFound";
    assert_eq!(drift("pool p", "age=7200"), missing);
    assert_eq!(drift("pool p", "type=t zone=elsewhere age=7200"), missing);
    assert_eq!(drift("pool p", "type=t ct=spot age=7200"), missing);
    assert_eq!(drift("pool p", "type=t age=7200"), "");
    // An unavailable offering is still an offering.
    assert_eq!(drift("type u out=a/on-demand zones=a \n pool p", "type=u age=7200"), "");
}

#[test]
fn spec_03_16_a_reserved_node_may_outlive_its_reservation() {
    let reserved = "type=r ct=reserved age=7200 label=karpenter.k8s.aws/capacity-reservation-id:missing";
    let drift_with = |offer: &str| drift(&format!("type r cpu=4 \n {offer} \n pool p"), reserved);
    assert_eq!(drift_with("offer r zone=a ct=on-demand"), "");
    assert_eq!(drift_with("offer r zone=a ct=reserved reservation=other:1"), "");
    assert_eq!(drift_with("offer r zone=a ct=spot"), "InstanceTypeNotFound");
    assert_eq!(drift_with("offer r zone=b ct=on-demand"), "InstanceTypeNotFound");
}

fn consolidatable_state(pool: &str, node: &str) -> Consolidatable {
    let fixture = Fixture::new(&format!("pool p {pool} \n pool-node n type=t {node}"));
    consolidatable(&fixture.input.node_claims[0], &fixture.input.pools[0], fixture.input.at)
}

fn is_waiting(state: Consolidatable) -> bool {
    matches!(state, Consolidatable::Waiting { .. })
}

#[test]
fn spec_03_17_drifted_and_consolidatable_do_not_depend_on_each_other() {
    assert_eq!(drift("pool p after=30s hash=b:v3", "type=t hash=a:v3 event=60"), "NodePoolDrifted");
    assert_eq!(consolidatable_state("after=30s", "event=60"), Consolidatable::Yes);
    assert_eq!(drift("pool p after=30s hash=a:v3", "type=t hash=a:v3 event=0"), "");
    assert!(is_waiting(consolidatable_state("after=30s", "event=0")));
}

#[test]
fn spec_03_18_disabled_pools_and_uninitialized_claims_are_not_consolidatable() {
    assert_eq!(consolidatable_state("after=Never", ""), Consolidatable::Disabled);
    assert_eq!(consolidatable_state("after=0s", "claim-uninitialized"), Consolidatable::NotInitialized);
    assert_eq!(consolidatable_state("after=0s", "event=0"), Consolidatable::Yes);
}

#[test]
fn spec_03_19_and_20_the_wait_counts_from_the_last_pod_event_or_from_initialization() {
    assert!(is_waiting(consolidatable_state("after=30s", "event=0")));
    assert!(is_waiting(consolidatable_state("after=30s", "event=29")));
    assert_eq!(consolidatable_state("after=30s", "event=30"), Consolidatable::Yes);
    // The pod event counts, not the earlier initialization.
    assert!(is_waiting(consolidatable_state("after=30s", "init=600 event=10")));
    assert!(is_waiting(consolidatable_state("after=30s", "init=10")));
    assert_eq!(consolidatable_state("after=30s", "init=30"), Consolidatable::Yes);
}

#[test]
fn spec_03_118_a_claim_expires_by_its_own_age_alone() {
    let seconds_until_expiration = |node: &str| {
        let fixture = Fixture::new(&format!("pool p budget=0 \n pool-node n type=t protect=true {node}"));
        expires_at(&fixture.input.node_claims[0]).map(|end| end.duration_since(fixture.input.at).as_secs())
    };
    assert_eq!(seconds_until_expiration("expire=30s age=30"), Some(0));
    assert_eq!(seconds_until_expiration("expire=200s age=100"), Some(100));
    assert_eq!(seconds_until_expiration("age=100"), None);
}
