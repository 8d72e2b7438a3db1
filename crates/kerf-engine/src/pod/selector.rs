//! Label selectors. A missing or invalid selector selects nothing; an empty one selects everything
//! (spec 02 Q10).

use kerf_api::slim::{LabelSelector, LabelSelectorOperator, LabelSelectorRequirement, Labels};

/// Returns true if the selector selects these labels.
pub(crate) fn selects(selector: &LabelSelector, labels: &Labels) -> bool {
    is_valid(selector)
        && selector.match_labels.iter().all(|(key, value)| labels.has_value(key, value))
        && selector.match_expressions.iter().all(|e| matches_expression(e, labels))
}

/// Returns true if every expression of the selector is valid.
pub(crate) fn is_valid(selector: &LabelSelector) -> bool {
    selector.match_expressions.iter().all(|e| match e.operator {
        LabelSelectorOperator::In | LabelSelectorOperator::NotIn => !e.values.is_empty(),
        LabelSelectorOperator::Exists | LabelSelectorOperator::DoesNotExist => e.values.is_empty(),
        LabelSelectorOperator::Unsupported(_) => false,
    })
}

fn matches_expression(expression: &LabelSelectorRequirement, labels: &Labels) -> bool {
    let value = labels.get(&expression.key);
    let listed = || value.is_some_and(|v| expression.values.iter().any(|w| w == v));
    match expression.operator {
        LabelSelectorOperator::In => listed(),
        LabelSelectorOperator::NotIn => !listed(),
        LabelSelectorOperator::Exists => value.is_some(),
        LabelSelectorOperator::DoesNotExist => value.is_none(),
        LabelSelectorOperator::Unsupported(_) => false,
    }
}

/// Returns the selector in a canonical form, as sorted expressions only. So selectors that are
/// written differently and mean the same belong to one topology group.
pub(crate) fn canonical(selector: &LabelSelector) -> LabelSelector {
    let mut expressions: Vec<LabelSelectorRequirement> = selector
        .match_labels
        .iter()
        .map(|(key, value)| LabelSelectorRequirement {
            key: key.clone(),
            operator: LabelSelectorOperator::In,
            values: vec![value.clone()],
        })
        .chain(selector.match_expressions.iter().cloned())
        .map(|mut e| {
            e.values.sort_unstable();
            e.values.dedup();
            e
        })
        .collect();
    let rank = |e: &LabelSelectorRequirement| match e.operator {
        LabelSelectorOperator::In => 0,
        LabelSelectorOperator::NotIn => 1,
        LabelSelectorOperator::Exists => 2,
        LabelSelectorOperator::DoesNotExist => 3,
        LabelSelectorOperator::Unsupported(_) => 4,
    };
    expressions.sort_by(|a, b| a.key.cmp(&b.key).then(rank(a).cmp(&rank(b))).then_with(|| a.values.cmp(&b.values)));
    expressions.dedup();
    LabelSelector { match_labels: Labels::default(), match_expressions: expressions }
}
