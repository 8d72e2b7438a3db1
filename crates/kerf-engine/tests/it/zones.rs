//! Tests of which zones pending pods can use (spec 02 §17.3).

use kerf_engine::{EffectiveZone, IncrementalSolver};

use crate::fixture::Fixture;

/// Returns the counts by zone as text.
fn zones(fixture: &str) -> String {
    let fixture = Fixture::new(fixture);
    let counts = IncrementalSolver::new(&fixture.input, &fixture.settings).pending_by_zone();
    let text = |(zone, count): (&EffectiveZone, &usize)| match zone {
        EffectiveZone::One(zone) => format!("{zone}={count}"),
        EffectiveZone::Flexible => format!("flexible={count}"),
        EffectiveZone::Nowhere => format!("none={count}"),
    };
    counts.iter().map(text).collect::<Vec<_>>().join(" ")
}

#[test]
fn node_affinity_and_volumes_decide_the_zone() {
    let nodes = "pool p \n node n1 zone=a \n node n2 zone=b";
    for (pod, expected) in [
        ("pod x cpu=1", "flexible=1"),
        ("pod x x3 cpu=1 req=\"zone In a\"", "a=3"),
        ("pod x cpu=1 req=\"zone In a,b\"", "flexible=1"),
        ("pod x cpu=1 req=\"zone NotIn a\"", "flexible=1"),
        ("sc s term=\"zone In b\" \n pvc c sc=s \n pod x cpu=1 pvc=c", "b=1"),
        ("sc s term=\"zone In b,c\" \n pvc c sc=s \n pod x cpu=1 pvc=c", "flexible=1"),
        ("sc s term=\"zone In b,c\" \n pvc c sc=s \n pod x cpu=1 pvc=c req=\"zone NotIn c\"", "b=1"),
        // Running pods are not counted.
        ("pod x on=n1 cpu=1 \n pod y cpu=1 req=\"zone In b\"", "b=1"),
    ] {
        assert_eq!(zones(&format!("{nodes} \n {pod}")), expected, "{pod}");
    }
}

#[test]
fn affinity_and_anti_affinity_decide_the_zone() {
    let nodes = "pool p \n node n1 zone=a \n node n2 zone=b";
    // Affinity to a pod in zone a; the same with only zone b allowed; affinity to no pod at all.
    for (pods, expected) in [
        ("pod web on=n1 cpu=1 labels=app:web \n pod x cpu=1 aff=zone:app=web", "a=1"),
        ("pod web on=n1 cpu=1 labels=app:web \n pod x cpu=1 aff=zone:app=web req=\"zone In b\"", "none=1"),
        ("pod x cpu=1 aff=zone:app=none", "none=1"),
    ] {
        assert_eq!(zones(&format!("{nodes} \n {pods}")), expected, "{pods}");
    }
    let away = "pod w1 on=n1 cpu=1 labels=app:web \n pod x cpu=1 anti=zone:app=web";
    assert_eq!(zones(&format!("{nodes} \n {away} req=\"zone In a\"")), "none=1");
    assert_eq!(zones(&format!("{nodes} \n {away} req=\"zone In a,b\"")), "b=1");
}
