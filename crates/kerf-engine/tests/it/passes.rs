//! Provisioning pass after pass (spec 02 #129, spec 09 #26).

use kerf_engine::{Effort, ProvisioningPlan, solve_passes};

use crate::check_solution::solution_text;
use crate::fixture::Fixture;

fn passes(text: &str, max_passes: usize) -> (String, ProvisioningPlan) {
    let fixture = Fixture::new(text).with_settings(|settings| settings.effort = Effort::Search);
    let plan = solve_passes(&fixture.input, &fixture.settings, max_passes);
    (solution_text(&fixture.input, &plan.solution), plan)
}

const ZONES: &str = "type t cpu=4 zones=a,b,c price=0.4";

#[test]
fn spec_02_129_pods_that_must_be_in_different_zones_are_planned_one_pass_each() {
    let text = format!("{ZONES} \n pool p \n pod x x4 cpu=1 anti=zone:app=x labels=app:x");
    let (solution, plan) = passes(&text, 100);
    assert_eq!((plan.passes, plan.is_complete), (3, true), "{solution}");
    assert_eq!(plan.solution.claims.len(), 3, "{solution}");
    assert!(solution.contains("unplaced x-4 TopologyUnsatisfiable"), "{solution}");
    // The first pass alone, as the controller makes it.
    let fixture = Fixture::new(&text).with_settings(|settings| settings.effort = Effort::Search);
    let (first, plan) = passes(&text, 1);
    assert_eq!(first, solution_text(&fixture.input, &fixture.solve()));
    assert_eq!((plan.passes, plan.is_complete), (1, false));
    let (_, plan) = passes(&text, 2);
    assert_eq!((plan.passes, plan.is_complete, plan.solution.claims.len()), (2, false, 2));
}

#[test]
fn spec_02_129_pods_that_wait_for_a_reservation_are_planned_on_other_capacity() {
    let text = "type t cpu=4 \n offer t ct=reserved reservation=r1:1 price=0 \n offer t ct=on-demand price=0.4 \n pool p \n pod x x2 cpu=4";
    let (solution, plan) = passes(text, 100);
    assert_eq!(plan.passes, 2, "{solution}");
    assert_eq!((plan.solution.claims.len(), plan.solution.unplaced.len()), (2, 0), "{solution}");
}

#[test]
fn spec_02_129_a_pod_of_a_later_pass_may_use_a_node_of_an_earlier_one() {
    // The zone of the first pod is not decided in the pass that places it.
    let text = format!("{ZONES} \n pool p \n pod a cpu=1 labels=app:a \n pod b cpu=1 aff=zone:app=a");
    let (solution, plan) = passes(&text, 100);
    assert_eq!(plan.passes, 2, "{solution}");
    assert_eq!((plan.solution.claims.len(), plan.solution.unplaced.len()), (1, 0), "{solution}");
    let claim = &plan.solution.claims[0];
    assert_eq!(claim.pods, ["default/a", "default/b"]);
    assert_eq!(claim.requests.get("cpu").unwrap().to_string(), "2");
    assert_eq!(claim.requests.get("pods").unwrap().to_string(), "2");
}

#[test]
fn spec_02_129_one_pass_is_enough_if_no_further_node_helps() {
    for text in [
        format!("{ZONES} \n pool p \n pod x cpu=1 \n pod big cpu=100"),
        format!("{ZONES} \n pool p taint=k=v \n pod x cpu=1 tol=k \n pod y cpu=1"),
        format!("{ZONES} \n pool p \n pod x cpu=1"),
        "pod x cpu=1".to_owned(),
    ] {
        let (solution, plan) = passes(&text, 100);
        assert_eq!((plan.passes, plan.is_complete), (1, true), "{solution}");
    }
}
