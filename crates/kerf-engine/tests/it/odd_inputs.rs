//! Tests that the solver returns a solution for any input, however odd.

use std::fmt::Write as _;

use kerf_engine::Effort;

use crate::fixture::Fixture;

/// Asserts that every pending pod is in the solution exactly once.
fn assert_every_pod_in_solution(text: &str) {
    for effort in [Effort::FirstFit, Effort::Search] {
        let fixture = Fixture::new(text).with_settings(|s| s.effort = effort);
        let solution = fixture.solve();
        let placed: usize = solution.claims.iter().map(|c| c.pods.len()).sum::<usize>()
            + solution.nodes.iter().map(|n| n.pods.len()).sum::<usize>();
        let pending = fixture.input.pods.iter().filter(|p| p.spec.node_name.is_none()).count();
        assert_eq!(placed + solution.unplaced.len(), pending, "{text}");
        assert!(solution.unplaced.iter().all(|u| !u.reason.to_string().is_empty()), "{text}");
    }
}

#[test]
fn odd_quantities() {
    for amount in ["-1", "0", "1n", "9223372036854775807", "-9223372036854775808", "1E", "0.0000000001"] {
        assert_every_pod_in_solution(&format!(
            "pool p \n node n1 \n pod old on=n1 cpu={amount} \n pod x x3 cpu={amount} mem={amount}"
        ));
        assert_every_pod_in_solution(&format!(
            "type t cpu={amount} price=1 \n pool p \n daemonset d cpu={amount} \n pod x cpu=1"
        ));
        assert_every_pod_in_solution(&format!("pool p limit=cpu:{amount},nodes:{amount} \n pod x x3 cpu=1"));
        assert_every_pod_in_solution(&format!(
            "type t overhead=cpu:{amount} \n pool p \n node n1 cpu={amount} \n pod x cpu=1"
        ));
    }
}

#[test]
fn odd_requirements() {
    for expression in
        ["zone In a & zone NotIn a", "zone Exists & zone DoesNotExist", "k Gt 5 & k Lt 3", "k Like x", "zone In"]
    {
        assert_every_pod_in_solution(&format!(
            "pool p \n node n1 zone=a \n pod x cpu=1 req=\"{expression}\" pref=\"1 {expression}\""
        ));
        if !expression.contains('&') {
            assert_every_pod_in_solution(&format!("pool p req=\"{expression}\" \n pod x cpu=1"));
        }
    }
}

#[test]
fn odd_constraints() {
    for skew in ["-1", "0", "2147483647", "-2147483648"] {
        for key in ["zone", "host", "rack"] {
            assert_every_pod_in_solution(&format!(
                "pool p \n pod x x3 cpu=1 labels=a:b spread={key}:{skew}:a=b:min={skew}"
            ));
        }
    }
    assert_every_pod_in_solution(
        "pool p \n pod x cpu=1 labels=app:x aff=host:app=y anti=zone:app=x \n pod y cpu=1 labels=app:y aff=host:app=z
         pod z cpu=1 labels=app:z aff=host:app=x anti=host:*",
    );
}

#[test]
fn odd_pools_and_prices() {
    assert_every_pod_in_solution("pool p catalogue=none \n pool q catalogue=9 \n pod x cpu=1");
    assert_every_pod_in_solution("type t price=-1 \n type u price=9000000000 \n pool p \n pod x x5 cpu=2");
    assert_every_pod_in_solution("settings max-types=0 \n pool p \n pod x cpu=1");
}

#[test]
fn thousands_of_labels() {
    let mut labels = String::from("k0:v");
    for i in 1..3000 {
        write!(labels, ",k{i}:v{i}").unwrap();
    }
    assert_every_pod_in_solution(&format!(
        "pool p label={labels} \n node n1 label={labels} \n pod x x3 cpu=2 labels={labels} sel=k7:v7 spread=zone:1:k9=v9"
    ));
}
