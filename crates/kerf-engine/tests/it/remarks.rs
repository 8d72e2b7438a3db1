//! Tests of what an incremental solver reports about its last solution: pools without instance
//! types, types beyond limits, preferences that were given up (spec 02 §4.6, §5.4 and §6.4).

use kerf_engine::{IncrementalSolver, Relaxation};

use crate::fixture::Fixture;

fn solved(fixture: &str) -> IncrementalSolver {
    let fixture = Fixture::new(fixture);
    let mut solver = IncrementalSolver::new(&fixture.input, &fixture.settings);
    solver.solve();
    solver
}

// spec 02 #59
#[test]
fn pools_whose_requirements_exclude_every_type_are_reported() {
    let mut solver = solved(
        "type s cpu=2 zones=a,b \n type l cpu=8 zones=a,b \n pool good \n pool far req=\"zone In z\" weight=5
         pool picky req=\"node.kubernetes.io/instance-type Exists min 3\" \n pod x cpu=1",
    );
    let named: Vec<String> =
        solver.pools_without_types().iter().map(|w| format!("{} {}", w.pool, w.min_values.join(","))).collect();
    assert_eq!(named, ["far ", "picky node.kubernetes.io/instance-type"]);
}

#[test]
fn types_beyond_a_limit_are_reported_unless_all_are() {
    let solver = solved(
        "type s cpu=2 zones=a,b \n type m cpu=4 \n type l cpu=8 \n pool open \n pool tight limit=cpu:3 \n pool closed limit=cpu:1
         pod x cpu=1",
    );
    let counted: Vec<String> =
        solver.types_beyond_limits().iter().map(|b| format!("{} {}/{}", b.pool, b.excluded, b.total)).collect();
    assert_eq!(counted, ["tight 2/3"]);
}

#[test]
fn relaxed_preferences_are_reported_in_order() {
    let kinds = |solver: &IncrementalSolver| -> Vec<String> {
        let kind = |relaxation: &Relaxation| match relaxation {
            Relaxation::RequiredNodeAffinityTerm(_) => "alternative",
            Relaxation::PodAffinity(_) => "near",
            Relaxation::PodAntiAffinity(_) => "away",
            Relaxation::NodeAffinity(term) if term.weight == 9 => "heavy",
            Relaxation::NodeAffinity(_) => "light",
            Relaxation::Spread(_) => "spread",
            Relaxation::PreferNoSchedule => "prefer-no-schedule",
        };
        let relaxed = solver.relaxed_pods().into_iter();
        relaxed
            .map(|r| format!("{}: {}", r.pod, r.relaxations.iter().map(kind).collect::<Vec<_>>().join(" ")))
            .collect()
    };
    // The heavier preference cannot be met. Without it the pod can be placed, and the lighter one
    // is kept.
    let placed = solved(
        "type s cpu=2 zones=a,b \n pool p \n pod content cpu=1 pref=\"1 zone In a\"
         pod picky cpu=1 pref=\"1 zone In a\" pref=\"9 zone In z\"",
    );
    assert_eq!(kinds(&placed), ["default/picky: heavy"]);
    // A pod that cannot be placed has given up every preference, and is reported after each solve.
    let mut unplaced = solved(
        "type s cpu=2 zones=a,b \n pool p taint=k=v:PreferNoSchedule
         pod huge cpu=90 req=\"zone In a\" req=\"zone In b\" pref=\"1 zone In a\" spread=zone:1:app=x:any",
    );
    let all = ["default/huge: alternative light spread prefer-no-schedule"];
    assert_eq!(kinds(&unplaced), all);
    unplaced.solve();
    assert_eq!(kinds(&unplaced), all);
}
