//! Tests of the requirement algebra through the solver (spec 02 §3). Its unit tests are in the
//! crate.

use crate::check_solution::{check, unplaced_reason};
use crate::fixture::Fixture;

#[test]
fn spec_02_25_and_26_custom_labels_must_be_known_and_well_known_ones_need_not() {
    check("pool p \n pod a cpu=1 sel=zone:b", "claim pool=p types=t pods=a zone=b");
    check("pool p \n pod a cpu=1 sel=team:x", "unplaced a IncompatibleRequirements");
    check("pool p \n pod a cpu=1 req=\"team Exists\"", "unplaced a IncompatibleRequirements");
    check("pool p \n pod a cpu=1 req=\"team NotIn x\"", "claim pool=p types=t pods=a team!=x");
    check("pool p \n pod a cpu=1 req=\"team DoesNotExist\"", "claim pool=p types=t pods=a !team");
    check("pool p label=team:x \n pod a cpu=1 sel=team:x", "claim pool=p types=t pods=a");
}

#[test]
fn spec_02_28_the_message_for_a_misspelt_label_has_a_hint() {
    assert_eq!(
        unplaced_reason("pool p \n pod a cpu=1 sel=topology.kubernetes.io/zon:b", "a"),
        "incompatible requirements, label \"topology.kubernetes.io/zon\" does not have known values (typo of \
         \"topology.kubernetes.io/zone\"?)"
    );
}

#[test]
fn spec_02_29_deprecated_label_names_are_equivalent() {
    check("pool p \n pod a cpu=1 sel=failure-domain.beta.kubernetes.io/zone:b", "claim pool=p types=t pods=a zone=b");
    check(
        "pool p \n node n1 zone=b \n pod a cpu=1 req=\"failure-domain.beta.kubernetes.io/zone In b\"",
        "node n1 pods=a",
    );
}

#[test]
fn spec_02_30_all_expressions_of_a_term_count() {
    check("pool p \n pod a cpu=1 req=\"zone In nope & zone Exists\"", "unplaced a NoInstanceTypeFits");
    check("pool p \n pod a cpu=1 req=\"zone Exists & zone In nope\"", "unplaced a NoInstanceTypeFits");
    check("pool p req=\"zone In a\" \n pod a cpu=1 req=\"zone In b\"", "unplaced a IncompatibleRequirements");
}

#[test]
fn spec_02_31_only_pods_with_compatible_requirements_share_a_node() {
    let pool = "pool p req=\"k In a,b\"";
    let label = |fixture: &str| -> Vec<String> {
        let solution = Fixture::new(fixture).solve();
        solution.claims.iter().map(|c| c.launch.labels.get("k").unwrap_or("none").to_owned()).collect()
    };
    let agreeing = format!("{pool} \n pod x cpu=1 req=\"k In a\" \n pod y cpu=1 req=\"k NotIn b\"");
    check(&agreeing, "claim pool=p types=t pods=x,y k=a");
    assert_eq!(label(&agreeing), ["a"]);
    let apart = format!("{pool} \n pod x cpu=1 req=\"k In a\" \n pod y cpu=1 req=\"k In b\"");
    check(&apart, "claim pool=p types=t pods=x k=a \n claim pool=p types=t pods=y k=b");
    assert_eq!(label(&apart), ["a", "b"]);
}

#[test]
fn spec_02_32_a_label_of_some_types_selects_or_excludes_them() {
    let types = "type plain cpu=4 without=karpenter.k8s.aws/instance-gpu-name \n type gpu cpu=4 label=karpenter.k8s.aws/instance-gpu-name:t4 \n pool p";
    check(
        &format!("{types} \n pod a cpu=1 req=\"karpenter.k8s.aws/instance-gpu-name Exists\""),
        "claim pool=p types=gpu pods=a karpenter.k8s.aws/instance-gpu-name=*",
    );
    check(
        &format!("{types} \n pod a cpu=1 req=\"karpenter.k8s.aws/instance-gpu-name DoesNotExist\""),
        "claim pool=p types=plain pods=a !karpenter.k8s.aws/instance-gpu-name",
    );
}

#[test]
fn spec_02_19_to_23_bounds_choose_types() {
    let types = "type s label=karpenter.k8s.aws/instance-cpu:2 \n type m label=karpenter.k8s.aws/instance-cpu:4
        type l label=karpenter.k8s.aws/instance-cpu:8 \n pool p";
    let key = "karpenter.k8s.aws/instance-cpu";
    for (expression, listed) in [
        (format!("{key} Gt 2"), "claim pool=p types=l,m pods=a karpenter.k8s.aws/instance-cpu=*>=3"),
        (format!("{key} Lt 4"), "claim pool=p types=s pods=a karpenter.k8s.aws/instance-cpu=*<=3"),
        (format!("{key} Gte 4 & {key} Lte 4"), "claim pool=p types=m pods=a karpenter.k8s.aws/instance-cpu=*>=4<=4"),
        (format!("{key} Gt 8"), "unplaced a NoInstanceTypeFits"),
        (format!("{key} Gt 4 & {key} Lt 3"), "unplaced a NoInstanceTypeFits"),
    ] {
        check(&format!("{types} \n pod a cpu=1 req=\"{expression}\""), listed);
    }
}
