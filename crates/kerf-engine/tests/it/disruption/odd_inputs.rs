//! Tests of invalid inputs: each is reported, and the rest of the cluster is planned as usual.

use super::{THREE_TYPES, block_codes, check, warnings_text};

/// An empty node that is deleted in each of these tests.
const EMPTY_NODE: &str = "pool-node zz type=s";
const DELETES_EMPTY_NODE: &str = "empty delete zz saves 0.2";

#[test]
fn claims_without_nodes_and_nodes_without_claims_or_pools_stay() {
    let fixture = format!(
        "{THREE_TYPES} \n {EMPTY_NODE} \n pool-node claim-only type=s inflight \n node node-only type=s cpu=2
         pool-node orphan pool=deleted type=s \n pod x on=orphan cpu=1"
    );
    check(&fixture, DELETES_EMPTY_NODE);
    assert_eq!(block_codes(&fixture, "claim-only"), ["NoNode"]);
    assert_eq!(block_codes(&fixture, "node-only"), ["NotManaged"]);
    assert_eq!(block_codes(&fixture, "orphan"), ["NodePoolNotFound"]);
}

#[test]
fn an_unknown_type_or_price_is_reported() {
    let fixture = format!(
        "{THREE_TYPES} \n {EMPTY_NODE} \n pool-node a type=missing \n pod x on=a cpu=1 \n pool-node b type=s zone=nowhere \n pod y on=b cpu=2"
    );
    let plan = crate::fixture::Fixture::new(&fixture).disrupt();
    assert_eq!(plan.commands[0].nodes[0].name, "zz");
    assert_eq!(block_codes(&fixture, "a"), ["InstanceTypeNotFound"]);
    assert_eq!(block_codes(&fixture, "b"), ["NoSaving"]);
    assert_eq!(
        warnings_text(&fixture),
        [
            "NoPrice Node b: no offering of its instance type has its zone and capacity type: its price counts as 0, and \
          consolidation does not disrupt it"
        ]
    );
}

#[test]
fn times_in_the_future_are_reported() {
    let fixture = format!("{THREE_TYPES} after=1m \n {EMPTY_NODE} \n pool-node a type=s age=-60 init=-60 event=-30");
    check(&fixture, DELETES_EMPTY_NODE);
    assert_eq!(block_codes(&fixture, "a"), ["ConsolidateAfter"]);
    assert_eq!(
        warnings_text(&fixture),
        [
            "ClockAhead NodeClaim claim-of-a: it was created at 2027-01-15T08:01:00Z, which is after 2027-01-15T08:00:00Z",
            "ClockAhead NodeClaim claim-of-a: it had its last pod event at 2027-01-15T08:00:30Z, which is after 2027-01-15T08:00:00Z",
            "ClockAhead NodeClaim claim-of-a: it was initialized at 2027-01-15T08:01:00Z, which is after 2027-01-15T08:00:00Z",
        ]
    );
}

#[test]
fn an_invalid_pod_disruption_budget_protects_its_namespace() {
    let mut fixture = crate::fixture::Fixture::new(&format!(
        "{THREE_TYPES} \n {EMPTY_NODE} \n pool-node a type=s \n pool-node b type=s \n pod x on=a cpu=1 ns=dark \n pod y on=b cpu=1 \n pdb odd ns=dark sel=app=x"
    ));
    let selector = fixture.input.disruption_budgets[0].selector.as_mut().unwrap();
    selector.match_expressions.push(kerf_api::slim::LabelSelectorRequirement {
        key: "app".into(),
        operator: kerf_api::slim::LabelSelectorOperator::Unsupported("Like".into()),
        values: Vec::new(),
    });
    let plan = fixture.disrupt();
    assert_eq!(super::commands_text(&plan), "empty delete zz saves 0.2\nsingle delete b saves 0.2\n");
    assert_eq!(
        super::block_reasons_in(&plan, "a"),
        ["InvalidPodDisruptionBudget: Pdb has an invalid selector (PodDisruptionBudget=[dark/odd])"]
    );
    assert_eq!(plan.warnings[0].code, "InvalidPodDisruptionBudget");
}

#[test]
fn an_empty_cluster_has_an_empty_plan() {
    check("", "");
    check("pool p", "");
}
