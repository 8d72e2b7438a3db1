//! Tests of requirements against the examples of spec 02, and against a brute-force model over a
//! small set of values.

mod model;

use kerf_api::labels::LabelRules;
use kerf_api::slim::{Labels, NodeSelectorOperator, NodeSelectorRequirement, Str};

use super::*;
use NodeSelectorOperator::{DoesNotExist, Exists, Gt, Gte, In, Lt, Lte, NotIn};

fn requirement(key: &str, operator: NodeSelectorOperator, values: &[&str]) -> Requirement {
    let values: Vec<Str> = values.iter().map(Str::new).collect();
    Requirement::new(&LabelRules::aws(), key, &operator, &values, None).unwrap()
}

fn req(operator: NodeSelectorOperator, values: &[&str]) -> Requirement {
    requirement("key", operator, values)
}

fn set<const N: usize>(requirements: [Requirement; N]) -> Requirements {
    requirements.into_iter().collect()
}

fn entries(requirement: &Requirement) -> Vec<String> {
    let text = |entry: SelectorEntry| format!("{} {:?}", entry.operator.as_str(), entry.values);
    requirement.to_entries().into_iter().map(text).collect()
}

const MAX_I64: &str = "9223372036854775807";

#[test]
fn spec_02_19_bounds_allow_integers_only() {
    let above = req(Gt, &["1"]);
    assert!(above.has("2") && !above.has("1") && !above.has("A"));
    assert_eq!(above.to_string(), "key Exists >=2");
    assert_eq!(entries(&above), ["Gte [\"2\"]"]);
    let below = req(Lt, &["1"]);
    assert!(below.has("0") && !below.has("1"));
    assert_eq!(below.to_string(), "key Exists <=0");
}

#[test]
fn spec_02_20_contradicting_bounds_are_does_not_exist() {
    let none = req(Gt, &["9"]).intersection(&req(Lt, &["1"]));
    assert_eq!(none, req(DoesNotExist, &[]));
    assert_eq!(none.operator(), EffectiveOperator::DoesNotExist);
    let above_max = req(Gt, &[MAX_I64]);
    assert_eq!((above_max.operator(), above_max.value_count()), (EffectiveOperator::DoesNotExist, 0));
    let below_min = req(Lt, &["-9223372036854775808"]);
    assert_eq!(below_min.operator(), EffectiveOperator::DoesNotExist);
}

#[test]
fn spec_02_21_bounds_tighten() {
    for (a, b, both) in [
        (req(Gt, &["4"]), req(Gte, &["5"]), req(Gte, &["5"])),
        (req(Gt, &["5"]), req(Gte, &["5"]), req(Gte, &["6"])),
        (req(Lt, &["5"]), req(Lte, &["5"]), req(Lte, &["4"])),
        (req(Lt, &["9"]), req(Lte, &["5"]), req(Lte, &["5"])),
    ] {
        assert_eq!(a.intersection(&b), both);
        assert_eq!(b.intersection(&a), both);
    }
}

#[test]
fn spec_02_22_two_bounds_are_two_entries() {
    let eight = req(Gte, &["8"]).intersection(&req(Lte, &["8"]));
    assert_eq!(entries(&eight), ["Gte [\"8\"]", "Lte [\"8\"]"]);
    assert_eq!(eight.to_string(), "key Exists >=8 <=8");
}

#[test]
fn spec_02_23_a_finite_set_loses_its_bounds() {
    let one = req(In, &["1", "9"]).intersection(&req(Lt, &["9"]));
    assert_eq!(one, req(In, &["1"]));
    assert_eq!((one.gte(), one.lte()), (None, None));
    assert_eq!(req(In, &["A"]).intersection(&req(Gt, &["1"])), req(DoesNotExist, &[]));
}

#[test]
fn spec_02_24_the_larger_min_values_counts() {
    let one = req(Exists, &[]).with_min_values(Some(1));
    let two = req(In, &["a", "b"]).with_min_values(Some(2));
    assert_eq!(one.intersection(&two).min_values(), Some(2));
    assert_eq!(two.intersection(&one).min_values(), Some(2));
    assert_eq!(two.intersection(&req(Exists, &[])).min_values(), Some(2));
    let contradiction = req(Gt, &["9"]).with_min_values(Some(3)).intersection(&req(Lt, &["1"]));
    assert_eq!(contradiction.min_values(), Some(3));
    assert_eq!(two.to_string(), "key In [a b] minValues 2");
}

#[test]
fn spec_02_25_well_known_keys_need_not_be_defined() {
    let rules = LabelRules::aws();
    let required = set([requirement("topology.kubernetes.io/zone", In, &["a"])]);
    let nothing = Requirements::default();
    assert!(nothing.compatible(&required, UndefinedLabels::AllowWellKnown(&rules)).is_ok());
    assert!(nothing.compatible(&required, UndefinedLabels::Reject).is_err());
}

#[test]
fn spec_02_26_undefined_custom_keys_can_only_be_absent() {
    let rules = LabelRules::aws();
    let nothing = Requirements::default();
    for undefined in [UndefinedLabels::AllowWellKnown(&rules), UndefinedLabels::Reject] {
        for (required, fits) in [
            (req(In, &["a"]), false),
            (req(Exists, &[]), false),
            (req(Gt, &["1"]), false),
            (req(NotIn, &["a"]), true),
            (req(DoesNotExist, &[]), true),
        ] {
            assert_eq!(nothing.compatible(&set([required.clone()]), undefined).is_ok(), fits, "{required}");
        }
    }
}

#[test]
fn spec_02_27_absence_fits_absence() {
    let compatible = |a: &Requirement, b: &Requirement| {
        set([a.clone()]).compatible(&set([b.clone()]), UndefinedLabels::Reject).is_ok()
    };
    let (absent, not_a) = (req(DoesNotExist, &[]), req(NotIn, &["a"]));
    assert!(compatible(&absent, &not_a) && compatible(&not_a, &absent) && compatible(&absent, &absent));
    assert!(!compatible(&req(In, &["a"]), &absent));
    assert!(!compatible(&req(Gte, &["1"]), &absent));
    assert!(!compatible(&req(Exists, &[]), &absent));
}

#[test]
fn spec_02_28_unknown_labels_come_with_a_hint() {
    let rules = LabelRules::aws();
    let undefined = |offered: Requirements, key: &str, undefined: UndefinedLabels<'_>| {
        offered.compatible(&set([requirement(key, In, &["x"])]), undefined).unwrap_err().to_string()
    };
    let loose = UndefinedLabels::AllowWellKnown(&rules);
    let nothing = Requirements::default;
    for (key, meant) in [
        ("zone", "topology.kubernetes.io/zone"),
        ("region", "topology.kubernetes.io/region"),
        ("nodepool", "karpenter.sh/nodepool"),
        ("example.com/zone", "topology.kubernetes.io/zone"),
        ("topology.kubernetes.io/zon", "topology.kubernetes.io/zone"),
        ("instance-type", "node.kubernetes.io/instance-type"),
        // No known label has an equal name: the hint is the first in alphabetical order that
        // contains the key.
        ("instance-c", "karpenter.k8s.aws/instance-capability-flex"),
    ] {
        assert_eq!(
            undefined(nothing(), key, loose),
            format!("label \"{key}\" does not have known values (typo of \"{meant}\"?)")
        );
    }
    assert_eq!(
        undefined(nothing(), "deployment", UndefinedLabels::Reject),
        "label \"deployment\" does not have known values"
    );
    assert_eq!(undefined(nothing(), "zone", UndefinedLabels::Reject), "label \"zone\" does not have known values");
    let offered = set([requirement("example.com/team", In, &["a"])]);
    for mode in [loose, UndefinedLabels::Reject] {
        let text = undefined(offered.clone(), "team", mode);
        assert_eq!(text, "label \"team\" does not have known values (typo of \"example.com/team\"?)");
    }
}

#[test]
fn spec_02_29_old_spellings_are_stored_under_the_new_key() {
    let zone = requirement("failure-domain.beta.kubernetes.io/zone", In, &["a"]);
    assert_eq!(zone.key(), "topology.kubernetes.io/zone");
    let rules = LabelRules::aws();
    let labels = Labels::from([("beta.kubernetes.io/arch", "arm64"), ("topology.ebs.csi.aws.com/zone", "a")]);
    let keys: Vec<_> = Requirements::from_labels(&rules, &labels).iter().map(|r| r.key().clone()).collect();
    assert_eq!(keys, ["kubernetes.io/arch", "topology.kubernetes.io/zone"]);
    let expression =
        NodeSelectorRequirement { key: "beta.kubernetes.io/os".into(), operator: In, values: vec!["linux".into()] };
    assert_eq!(Requirement::from_expression(&rules, &expression).unwrap().key(), "kubernetes.io/os");
}

#[test]
fn conflicts_of_all_keys_are_listed_sorted() {
    let offered = set([requirement("a", In, &["1"]), requirement("b", Exists, &[]), requirement("c", NotIn, &["x"])]);
    let required =
        set([requirement("a", In, &["2", "3"]), requirement("b", DoesNotExist, &[]), requirement("c", In, &["x"])]);
    assert_eq!(
        offered.intersects(&required).unwrap_err().to_string(),
        "key a, a In [2 3] not in a In [1]; key b, b DoesNotExist not in b Exists; key c, c In [x] not in c NotIn [x]"
    );
    assert!(offered.intersects(&set([requirement("elsewhere", In, &["x"])])).is_ok());
}

#[test]
fn invalid_expressions_are_errors() {
    let rules = LabelRules::aws();
    let new = |operator, values: &[&str]| {
        let values: Vec<Str> = values.iter().map(Str::new).collect();
        Requirement::new(&rules, "beta.kubernetes.io/os", &operator, &values, None)
    };
    for operator in [Gt, Lt, Gte, Lte] {
        for values in [&[][..], &["1", "2"], &["a"], &["1.5"], &["9223372036854775808"]] {
            let error = new(operator.clone(), values).unwrap_err();
            let name = operator.as_str();
            assert_eq!(
                error.to_string(),
                format!("key kubernetes.io/os with operator {name} must have a single positive integer value")
            );
        }
    }
    let error = new(NodeSelectorOperator::Unsupported("Like".into()), &["a"]).unwrap_err();
    assert!(error.to_string().starts_with("key kubernetes.io/os has an unsupported operator Like not in [In NotIn "));
}

#[test]
fn sets_render_sorted_without_the_hostname() {
    let requirements = set([
        requirement("c", NotIn, &["z"]),
        requirement("a", Gte, &["2"]).intersection(&requirement("a", Lte, &["8"])),
        requirement("kubernetes.io/hostname", In, &["n"]),
        requirement("b", In, &["y", "x"]),
    ]);
    assert_eq!(requirements.to_string(), "a Exists >=2 <=8, b In [x y], c NotIn [z]");
    let many = req(In, &["1", "2", "3", "4", "5", "6", "7"]);
    assert_eq!(many.to_string(), "key In [1 2 3 4 5 and 2 others]");
    assert_eq!(req(In, &["1", "2", "3", "4", "5"]).to_string(), "key In [1 2 3 4 5]");
}

// spec 01 §9.3
#[test]
fn entries_of_a_node_claim() {
    for (requirement, written) in [
        (req(In, &["b", "a"]), &["In [\"a\", \"b\"]"][..]),
        (req(NotIn, &["b", "a"]), &["NotIn [\"a\", \"b\"]"]),
        (req(Exists, &[]), &["Exists []"]),
        (req(DoesNotExist, &[]), &["DoesNotExist []"]),
        (req(Lte, &["3"]), &["Lte [\"3\"]"]),
        // Q5: exclusions besides a bound are stored, too.
        (req(Gte, &["3"]).intersection(&req(NotIn, &["5", "1", "x"])), &["Gte [\"3\"]", "NotIn [\"5\"]"]),
        (req(Gt, &["-5"]), &["Gte [\"0\"]"]),
    ] {
        assert_eq!(entries(&requirement), written);
    }
    let all = set([requirement("b", Exists, &[]).with_min_values(Some(2)), requirement("a", In, &["x"])]).to_entries();
    assert_eq!(
        all.iter().map(|entry| (&*entry.key, entry.min_values)).collect::<Vec<_>>(),
        [("a", None), ("b", Some(2))]
    );
    assert!(req(Lt, &["0"]).is_below_zero() && !req(Lt, &["1"]).is_below_zero());
}

// spec 01 §9.4
#[test]
fn picked_values_are_the_smallest_allowed() {
    let picked = |requirement: Requirement| requirement.pick_value().map(|value| value.to_string());
    assert_eq!(picked(req(In, &["b", "a"])).as_deref(), Some("a"));
    assert_eq!(picked(req(Exists, &[])).as_deref(), Some("0"));
    assert_eq!(picked(req(NotIn, &["0", "1", "a"])).as_deref(), Some("2"));
    assert_eq!(picked(req(Gt, &["7"])).as_deref(), Some("8"));
    assert_eq!(picked(req(Gte, &["-7"])).as_deref(), Some("0"));
    assert_eq!(picked(req(DoesNotExist, &[])), None);
    // Q4: an empty range has no value, and an excluded value is never picked.
    assert_eq!(picked(req(Lt, &["0"])), None);
    let used_up = req(Gte, &["3"]).intersection(&req(Lte, &["4"])).intersection(&req(NotIn, &["3", "4"]));
    assert_eq!(picked(used_up), None);
    assert_eq!(picked(req(Gte, &[MAX_I64]).intersection(&req(NotIn, &[MAX_I64]))), None);
}

// spec 02 §3.9
#[test]
fn min_values_over_types() {
    let a_type = |name: &str, family: &str| {
        set([requirement("node.kubernetes.io/instance-type", In, &[name]), requirement("family", In, &[family])])
    };
    let types =
        [a_type("c5.large", "c5"), a_type("c5.xlarge", "c5"), a_type("m5.large", "m5"), a_type("r5.large", "r5")];
    let asks = |types: u32, families: u32| {
        set([
            requirement("node.kubernetes.io/instance-type", Exists, &[]).with_min_values(Some(types)),
            requirement("family", In, &["c5", "x", "y", "z"]).with_min_values(Some(families)),
            requirement("other", Exists, &[]),
        ])
    };
    assert_eq!(check_min_values(&types, &asks(1, 1)), MinValues::Met { types_needed: 1 });
    assert_eq!(check_min_values(&types, &asks(2, 1)), MinValues::Met { types_needed: 2 });
    assert_eq!(check_min_values(&types, &asks(1, 2)), MinValues::Met { types_needed: 3 });
    assert_eq!(check_min_values(&types, &Requirements::default()), MinValues::Met { types_needed: 0 });
    assert_eq!(check_min_values([], &asks(5, 5)), MinValues::Met { types_needed: 0 });
    let MinValues::Unmet(unmet) = check_min_values(&types, &asks(5, 4)) else { panic!("too few") };
    assert_eq!(unmet.reached, [("family".into(), 3), ("node.kubernetes.io/instance-type".into(), 4)]);
    assert_eq!(
        unmet.to_string(),
        "minValues requirement is not met for label(s) (label(s)=[family node.kubernetes.io/instance-type])"
    );
    // A type that only excludes values offers none.
    let vague = set([requirement("family", NotIn, &["x", "y"])]);
    let MinValues::Unmet(unmet) = check_min_values([&vague], &asks(1, 1)) else { panic!("too few") };
    assert_eq!(unmet.reached[0], ("family".into(), 0));
    // The API server rejects a claim that lists fewer values, whatever the types offer (Q18).
    let narrow = set([requirement("family", In, &["c5"]).with_min_values(Some(2))]);
    let MinValues::Unmet(unmet) = check_min_values(&types, &narrow) else { panic!("too few") };
    assert_eq!(unmet.reached, [("family".into(), 1)]);
}

// spec 01 §9.3
#[test]
fn an_impossible_requirement_does_not_allow_absence() {
    let no_label = set([req(DoesNotExist, &[])]);
    let below = [req(Lt, &["0"]), req(Lte, &["-1"]), req(NotIn, &["-7"]).intersection(&req(Lt, &["0"]))];
    for nothing in below.into_iter().chain([req(Gt, &[MAX_I64]), Requirement::impossible("key")]) {
        assert!(nothing.is_unsatisfiable() && !nothing.may_be_absent(), "{nothing}");
        for offered in [set([req(Exists, &[])]), set([req(NotIn, &["a"])]), set([req(In, &["0"])]), no_label.clone()] {
            let required = set([nothing.clone()]);
            assert!(offered.compatible(&required, UndefinedLabels::Reject).is_err(), "{nothing} in {offered}");
        }
        assert!(nothing.intersection(&req(Exists, &[])).is_unsatisfiable(), "{nothing}");
        assert_eq!(nothing.pick_value(), None);
    }
    assert_eq!(Requirement::impossible("key").to_string(), "key DoesNotExist");
    assert!(req(DoesNotExist, &[]).may_be_absent() && !req(Lt, &["1"]).is_unsatisfiable());
}

#[test]
fn sets_keep_one_requirement_for_each_key() {
    let mut requirements = set([req(In, &["a", "b"]), req(NotIn, &["a"])]);
    assert_eq!(requirements.get("key"), Some(&req(In, &["b"])));
    assert_eq!(requirements.get("other"), None);
    requirements.add_all(&set([req(In, &["c"]), requirement("other", Exists, &[])]));
    assert_eq!(requirements.get("key").unwrap().operator(), EffectiveOperator::DoesNotExist);
    assert_eq!(requirements.len(), 2);
    requirements.replace(req(In, &["z"]));
    assert_eq!(requirements.remove("key"), Some(req(In, &["z"])));
    assert!(!requirements.contains_key("key") && !requirements.is_empty());
    assert_eq!(req(NotIn, &["a", "b"]).value_count(), i64::MAX - 2);
    assert_eq!(req(In, &["a", "a"]).value_count(), 1);
}
