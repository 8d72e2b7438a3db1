//! NodePools of other providers, such as EKS Auto Mode (spec 02 #130).

use crate::check_solution::check;
use crate::disruption::block_reasons;
use crate::fixture::Fixture;

const AUTO: &str = "pool auto catalogue=none other=eks.amazonaws.com";

fn reason_text(fixture: &str, pod: &str) -> String {
    let solution = Fixture::new(fixture).solve();
    let unplaced = solution.unplaced.iter().find(|unplaced| unplaced.pod.ends_with(pod)).unwrap();
    format!("{}: {}", unplaced.reason.code(), solution.reason_text(&unplaced.reason))
}

#[test]
fn spec_02_130_pods_that_only_another_provider_could_serve_have_a_reason_of_their_own() {
    assert_eq!(
        reason_text(&format!("{AUTO} \n pod a cpu=1"), "a"),
        "OtherProvider: no dynamic nodepools found; not considered: 1 NodePool of eks.amazonaws.com"
    );
    // Kerf's pool rejects the pod by its taint or its labels.
    check(&format!("{AUTO} \n pool p taint=k=v \n pod a cpu=1"), "unplaced a OtherProvider");
    check(&format!("{AUTO} \n pool p \n pod a cpu=1 sel=eks.amazonaws.com/compute-type:auto"), "unplaced a OtherProvider");
    check(&format!("{AUTO} label=team:x \n pool p \n pod a cpu=1 sel=team:x"), "unplaced a OtherProvider");
    // The other pool does not accept these pods either.
    check(&format!("{AUTO} taint=x=y \n pool p taint=k=v \n pod a cpu=1"), "unplaced a TaintNotTolerated");
    check(&format!("{AUTO} req=\"zone In z\" \n pool p taint=k=v \n pod a cpu=1 sel=zone:a"), "unplaced a TaintNotTolerated");
    check(&format!("{AUTO} \n pool p \n pod a cpu=1 sel=unheard.of/label:x"), "unplaced a IncompatibleRequirements");
    check(&format!("{AUTO} taint=x=y \n pod a cpu=1"), "unplaced a NoNodePool");
    // A pod that Kerf's pool serves is not for another provider, even if no type fits now.
    assert_eq!(
        reason_text(&format!("{AUTO} \n pool other2 other=eks.amazonaws.com \n pool q other=x.y \n pool p limit=nodes:0 \n pod a cpu=1"), "a"),
        "LimitExceeded: node limits have been exhausted for nodepool (NodePool=p); not considered: 2 NodePools of \
         eks.amazonaws.com, 1 NodePool of x.y"
    );
    // Reasons that have nothing to do with NodePools do not mention them.
    assert!(!reason_text(&format!("{AUTO} \n pool p \n pod a cpu=1 sel=karpenter.sh/nope:x"), "a").contains("not considered"));
    check(&format!("{AUTO} \n pool p \n pod a cpu=1"), "claim pool=p types=t pods=a");
}

#[test]
fn spec_02_130_nodes_of_other_providers_take_pods_and_are_not_disrupted() {
    let fixture = format!("{AUTO} \n pool p \n node n1 pool=auto cpu=4 \n node bare pool=auto cpu=4 unmanaged");
    check(&format!("{fixture} \n pod a cpu=3"), "node n1 pods=a");
    for node in ["n1", "bare"] {
        assert_eq!(
            block_reasons(&fixture, node),
            ["OtherProvider: Node belongs to a NodePool of another provider (node class group=eks.amazonaws.com)"],
            "{node}"
        );
    }
}
