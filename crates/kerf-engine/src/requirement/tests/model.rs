//! A brute-force model of requirements: checks every value of a small universe one by one.

use proptest::prelude::*;

use super::*;

/// Words, integers around the tested bounds, other spellings of integers, and one value that no
/// requirement lists.
const UNIVERSE: [&str; 16] =
    ["a", "b", "c", "-1", "0", "1", "2", "3", "4", "5", "6", "+3", "007", "1.5", "", "not listed"];
const NAMED_VALUE_COUNT: usize = UNIVERSE.len() - 1;

/// An expression as it is written. [`Self::allows`] applies the definition of its operator.
#[derive(Debug, Clone)]
struct Expression {
    operator: NodeSelectorOperator,
    values: Vec<&'static str>,
}

impl Expression {
    fn allows(&self, value: &str) -> bool {
        let bound = || self.values[0].parse::<i64>().unwrap();
        let number = value.parse::<i64>();
        match self.operator {
            In => self.values.contains(&value),
            NotIn => !self.values.contains(&value),
            Exists => true,
            DoesNotExist => false,
            Gt => number.is_ok_and(|number| number > bound()),
            Lt => number.is_ok_and(|number| number < bound()),
            Gte => number.is_ok_and(|number| number >= bound()),
            Lte => number.is_ok_and(|number| number <= bound()),
            NodeSelectorOperator::Unsupported(_) => unreachable!("not generated"),
        }
    }

    fn requirement(&self) -> Requirement {
        req(self.operator.clone(), &self.values)
    }
}

fn expression() -> impl Strategy<Value = Expression> {
    let values = prop::collection::vec(prop::sample::select(&UNIVERSE[..NAMED_VALUE_COUNT]), 1..5);
    let number = prop::sample::select(vec!["-1", "0", "1", "2", "3", "4", "5", "6"]);
    prop_oneof![
        values.clone().prop_map(|values| Expression { operator: In, values }),
        values.prop_map(|values| Expression { operator: NotIn, values }),
        Just(Expression { operator: Exists, values: vec![] }),
        Just(Expression { operator: DoesNotExist, values: vec![] }),
        (prop::sample::select(vec![Gt, Lt, Gte, Lte]), number)
            .prop_map(|(operator, number)| Expression { operator, values: vec![number] }),
    ]
}

/// Generates the expressions on one side of a label, all of which must be satisfied.
fn expressions() -> impl Strategy<Value = Vec<Expression>> {
    prop::collection::vec(expression(), 1..4)
}

fn intersected(expressions: &[Expression]) -> Requirement {
    expressions.iter().map(Expression::requirement).reduce(|a, b| a.intersection(&b)).unwrap()
}

fn allowed(expressions: &[Expression]) -> Vec<&'static str> {
    UNIVERSE.into_iter().filter(|value| expressions.iter().all(|expression| expression.allows(value))).collect()
}

/// Returns true if no expression lists the allowed values, so that values outside of the universe
/// are allowed, too.
fn is_infinite(expressions: &[Expression]) -> bool {
    let finite = |expression: &Expression| matches!(expression.operator, In | DoesNotExist);
    let contradicting = allowed_bounds(expressions).is_none();
    !expressions.iter().any(finite) && !contradicting
}

/// Returns the range of integers that the bounds allow, or `None` if they contradict each other.
fn allowed_bounds(expressions: &[Expression]) -> Option<(i64, i64)> {
    let (mut min, mut max) = (i64::MIN, i64::MAX);
    for expression in expressions {
        let bound = || expression.values[0].parse::<i64>().unwrap();
        match expression.operator {
            Gt => min = min.max(bound() + 1),
            Gte => min = min.max(bound()),
            Lt => max = max.min(bound() - 1),
            Lte => max = max.min(bound()),
            _ => {}
        }
    }
    (min <= max).then_some((min, max))
}

/// Returns true if the bounds allow no label value, because label values are never negative.
fn is_below_zero(expressions: &[Expression]) -> bool {
    is_infinite(expressions) && allowed_bounds(expressions).is_some_and(|(_, max)| max < 0)
}

/// Returns true if some value satisfies all expressions.
fn is_possible(expressions: &[Expression]) -> bool {
    !is_below_zero(expressions) && (is_infinite(expressions) || !allowed(expressions).is_empty())
}

/// Implements the table of spec 02 §3.4 on the enumerated sets.
fn fits(offered: &[Expression], required: &[Expression]) -> bool {
    is_possible(&[offered, required].concat()) || (may_be_absent(offered) && may_be_absent(required))
}

fn may_be_absent(expressions: &[Expression]) -> bool {
    if is_below_zero(expressions) {
        false
    } else if is_infinite(expressions) {
        // `NotIn` allows absence unless the bounds already exclude all its values.
        let (min, max) = allowed_bounds(expressions).unwrap();
        let is_bounded = (min, max) != (i64::MIN, i64::MAX);
        let excluded = expressions.iter().filter(|e| e.operator == NotIn).flat_map(|e| &e.values);
        excluded
            .into_iter()
            .any(|value| !is_bounded || value.parse::<i64>().is_ok_and(|number| (min..=max).contains(&number)))
    } else {
        allowed(expressions).is_empty()
    }
}

proptest! {
    #[test]
    fn a_requirement_allows_the_values_of_its_operator(expression in expression()) {
        let requirement = expression.requirement();
        for value in UNIVERSE {
            prop_assert_eq!(requirement.has(value), expression.allows(value), "{} {}", requirement, value);
        }
    }

    #[test]
    fn an_intersection_allows_what_all_sides_allow(expressions in expressions()) {
        let requirement = intersected(&expressions);
        for value in UNIVERSE {
            let all = expressions.iter().all(|expression| expression.allows(value));
            prop_assert_eq!(requirement.has(value), all, "{} {:?}", requirement, value);
        }
        let mut reversed = expressions;
        reversed.reverse();
        prop_assert_eq!(intersected(&reversed), requirement);
    }

    #[test]
    fn has_intersection_agrees_with_the_enumerated_sets(a in expressions(), b in expressions()) {
        // Intersecting one side first loses only the information that a contradiction came from
        // bounds.
        let both = [a.clone(), b.clone()].concat();
        let expected = is_possible(&both);
        prop_assert_eq!(intersected(&a).has_intersection(&intersected(&b)), expected);
        prop_assert_eq!(intersected(&b).has_intersection(&intersected(&a)), expected);
    }

    #[test]
    fn compatibility_agrees_with_the_table(offered in prop::option::of(expressions()), required in expressions(), well_known in any::<bool>(), strict in any::<bool>()) {
        let rules = LabelRules::aws();
        let key = if well_known { "topology.kubernetes.io/zone" } else { "example.com/key" };
        let on_key = |expressions: &[Expression]| -> Requirements {
            expressions.iter().map(|e| requirement(key, e.operator.clone(), &e.values)).collect()
        };
        let offers = offered.as_deref().map(on_key).unwrap_or_default();
        let undefined = if strict { UndefinedLabels::Reject } else { UndefinedLabels::AllowWellKnown(&rules) };
        let expected = match &offered {
            Some(offered) => fits(offered, &required),
            None => (well_known && !strict) || may_be_absent(&required),
        };
        prop_assert_eq!(offers.compatible(&on_key(&required), undefined).is_ok(), expected);
        // Intersecting is symmetric.
        prop_assert_eq!(offers.intersects(&on_key(&required)).is_ok(), on_key(&required).intersects(&offers).is_ok());
    }

    #[test]
    fn entries_read_back_are_the_same_requirement(expressions in expressions()) {
        let requirement = intersected(&expressions);
        prop_assume!(!requirement.is_below_zero() && requirement.gte().is_none_or(|gte| gte >= 0));
        let entries = requirement.to_entries();
        let parsed = entries.iter().map(requirement_of).reduce(|a, b| a.intersection(&b)).unwrap();
        prop_assert_eq!(parsed, requirement);
    }

    #[test]
    fn a_picked_value_is_allowed(expressions in expressions()) {
        let requirement = intersected(&expressions);
        let Some(value) = requirement.pick_value() else {
            let none_of_the_naturals = (0..20).all(|number| !requirement.has(&number.to_string()));
            prop_assert!(none_of_the_naturals && requirement.values().iter().all(|value| !requirement.has(value)));
            return Ok(());
        };
        prop_assert!(requirement.has(&value));
    }
}

fn requirement_of(entry: &SelectorEntry) -> Requirement {
    Requirement::new(&LabelRules::aws(), &entry.key, &entry.operator, &entry.values, entry.min_values).unwrap()
}
