//! Values of instance type labels that an input names and with which a plan can launch nothing: no
//! instance type of the region has them, or none of these types has a known price.

use std::collections::{BTreeMap, BTreeSet};

use kerf_api::labels;
use kerf_api::nodepool::NodePool;
use kerf_api::requirement::Operator;
use kerf_aws::data;
use kerf_engine::catalogue::InstanceTypes;

use super::named_values::{self, listed};
use super::plan_region::PlanRegion;
use crate::input::Objects;

/// Prefix of the labels that describe an instance type.
const INSTANCE_PREFIX: &str = "karpenter.k8s.aws/instance-";

/// Why a plan cannot use a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum ValueProblem {
    /// No type of the region has it.
    Unknown,
    /// Types have it, and none of them has a price.
    NoPrice,
}

/// The problems of values of one pool or of the pods: the values by problem and key.
type ValueProblems<'o> = BTreeMap<(ValueProblem, &'o str), BTreeSet<&'o str>>;

/// Returns warnings about values that pools and pending pods name. `list_of` returns the instance
/// types of a pool's class.
pub(super) fn value_warnings<'l>(
    objects: &Objects,
    pools: &[std::sync::Arc<NodePool>],
    region: &PlanRegion,
    list_of: impl Fn(&NodePool) -> Option<&'l InstanceTypes>,
) -> Vec<String> {
    let mut warnings = Vec::new();
    let mut lists: Vec<&InstanceTypes> = Vec::new();
    for pool in pools {
        let Some(list) = list_of(pool) else { continue };
        lists.push(list);
        let mut problems = ValueProblems::new();
        let requirements = &pool.spec.template.spec.requirements;
        for requirement in requirements.iter().filter(|requirement| requirement.operator == Operator::In) {
            for value in requirement.values.iter().flatten() {
                record(&mut problems, &[list], region, &requirement.key, value);
            }
        }
        let name = pool.metadata.name.as_deref().unwrap_or_default();
        warnings.extend(problems.into_iter().map(|problem| text(&format!("NodePool `{name}`"), problem, region)));
    }
    let mut problems = ValueProblems::new();
    let pods = objects.pods.iter().map(|pod| &pod.object.spec).filter(|spec| spec.node_name.is_none());
    let keys: BTreeSet<&str> = pods
        .flat_map(|spec| spec.node_selector.iter())
        .map(|(key, _)| key.as_str())
        .filter(|key| is_checked(key))
        .collect();
    for key in keys {
        for value in named_values::of_pending_pods(objects, key).collect::<BTreeSet<_>>() {
            record(&mut problems, &lists, region, key, value);
        }
    }
    warnings.extend(problems.into_iter().map(|problem| text("pending pods", problem, region)));
    warnings
}

/// Returns true for the labels that are checked. Instance types by name have warnings of their own.
fn is_checked(key: &str) -> bool {
    key.starts_with(INSTANCE_PREFIX) || [labels::ARCH, labels::OS, labels::CAPACITY_TYPE].contains(&key)
}

fn record<'o>(
    problems: &mut ValueProblems<'o>,
    lists: &[&InstanceTypes],
    region: &PlanRegion,
    key: &'o str,
    value: &'o str,
) {
    // Reserved capacity depends on the class and not on the types.
    if !is_checked(key) || value == labels::CAPACITY_TYPE_RESERVED {
        return;
    }
    let types = || lists.iter().flat_map(|list| list.types());
    if !types().any(|known| known.requirements.get(key).is_some()) {
        return;
    }
    let mut with_value =
        types().filter(|known| known.requirements.get(key).is_some_and(|own| own.has(value))).peekable();
    let prices = data::prices(&region.name);
    let problem = if with_value.peek().is_none() {
        ValueProblem::Unknown
    } else if !with_value.any(|known| prices.contains_key(known.name.as_str())) {
        ValueProblem::NoPrice
    } else {
        return;
    };
    problems.entry((problem, key)).or_default().insert(value);
}

fn text(owner: &str, ((problem, key), values): ((ValueProblem, &str), BTreeSet<&str>), region: &PlanRegion) -> String {
    let (values, region) = (listed(values.iter().copied()), &region.name);
    match problem {
        ValueProblem::Unknown => format!("{owner}: no instance type in {region} has {key}: {values}"),
        ValueProblem::NoPrice => {
            format!(
                "{owner}: no price in {region} is known for instance types with {key}: {values}; the plan cannot use them"
            )
        }
    }
}
