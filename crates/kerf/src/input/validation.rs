//! Validation of objects of built-in kinds by an API server's rules. These rules cover more fields
//! than decisions read, and checking every pod of a large cluster would take longer than planning.
//! So `kerf plan` validates only objects in which a field that decisions read is suspicious, and
//! `kerf validate` validates all. The rules are those of the sandbox's API server, which tests
//! compare with a real one.
//!
//! An object with a uid has passed an API server, perhaps a newer one, and is never suspicious.

use kerf_api::kwoknodeclass::KWOKNodeClass;
use kerf_api::labels::LabelRules;
use kerf_api::nodeclaim::NodeClaim;
use kerf_api::nodepool::NodePool;
use kerf_api::schedule::{BudgetError, BudgetProblem, budget_errors};
use kerf_api::slim::{
    DaemonSet, Node, Pod, PodDisruptionBudget, PodSpec, ResourceList, TaintEffect, Toleration, TolerationOperator,
    TopologySpreadConstraint,
};
use kerf_api::validation::{kwoknodeclass, nodeclaim, nodepool};
use kerf_sandbox::{DryCreateReport, dry_create_built_in};

use super::decode::{FieldProblem, remove_field_at};
use super::documents::ObjectBody;
use super::kind::{AWS_GROUP, InputKind};
use super::objects::{NamedObject, ReadObject, ReadResult, RejectedObject};
use super::suggestion::schedule_hint;
use super::workloads::Workload;

/// Selects the objects that are validated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ValidationScope {
    /// Objects with a suspicious field that some decision reads.
    SuspiciousOnly,
    /// All objects.
    All,
    /// All objects. Unknown fields, API groups that resemble a known one, and budgets that cannot be
    /// read are problems, too.
    Strict,
}

impl ValidationScope {
    /// Adds the errors and warnings of an API server's validation to the result of reading an
    /// object.
    pub(super) fn validate<T: NamedObject>(
        self,
        kind: InputKind,
        body: &ObjectBody<'_>,
        outcome: ReadResult<T>,
    ) -> ReadResult<T> {
        let is_validated = match self {
            Self::All | Self::Strict => true,
            Self::SuspiciousOnly => outcome.as_ref().is_ok_and(|read_object| read_object.object.is_suspicious()),
        };
        if !is_validated {
            return outcome;
        }
        let Ok(mut tree) = body.tree() else { return outcome };
        let reported = outcome.as_ref().err().map_or(&[][..], |rejected| &rejected.problems);
        for problem in reported {
            remove_field_at(&mut tree, &problem.path);
        }
        let Some(report) = dry_create_built_in(kind.api_version(), kind.name(), tree) else { return outcome };
        let DryCreateReport { errors, decode_error, unknown_fields } = report;
        let rejections =
            errors.iter().filter(|error| !reported.iter().any(|problem| concerns_same_field(problem, &error.path)));
        let rejections = rejections.map(ToString::to_string).chain(decode_error);
        let mut problems: Vec<_> = rejections.map(|message| FieldProblem { path: String::new(), message }).collect();
        let unknown_field_warnings = unknown_fields.iter().map(|path| format!("unknown field \"{path}\""));
        match outcome {
            Ok(ReadObject { object, mut warnings }) => {
                // A warning of the reader may concern a field that the API server rejects.
                let concerns =
                    |warning: &str, path: &str| warning.strip_prefix(path).is_some_and(|rest| rest.starts_with(':'));
                warnings.retain(|warning| !errors.iter().any(|error| concerns(warning, &error.path)));
                warnings.extend(unknown_field_warnings);
                if problems.is_empty() {
                    Ok(ReadObject { object, warnings })
                } else {
                    Err(RejectedObject { problems, warnings })
                }
            }
            Err(RejectedObject { problems: reported, mut warnings }) => {
                warnings.extend(unknown_field_warnings);
                problems.splice(..0, reported);
                Err(RejectedObject { problems, warnings })
            }
        }
    }
}

/// A kind that a controller checks before it uses an object, although the API server has accepted
/// the object. Durations without a value are an example.
pub(super) trait CheckedKind {
    /// The effect of an object that fails on a plan.
    const IN_PLAN: FailedObjectInPlan;

    /// Returns all failures of the object.
    fn failures(&self) -> Vec<String>;

    /// Returns the problems of fields that a controller uses as far as it can read them.
    fn unreadable_fields(&self) -> Vec<String> {
        Vec::new()
    }
}

/// The effect on a plan of an object that fails a controller's checks. `kerf validate` rejects it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FailedObjectInPlan {
    /// The plan uses no pool that depends on the object, and states why.
    UnusedPool,
    /// The plan uses the object without the fields that cannot be read, and has a warning.
    Warning,
}

impl CheckedKind for NodePool {
    const IN_PLAN: FailedObjectInPlan = FailedObjectInPlan::UnusedPool;

    fn failures(&self) -> Vec<String> {
        let is_aws = self.spec.template.spec.node_class_ref.group == AWS_GROUP;
        let rules = if is_aws { LabelRules::aws() } else { LabelRules::kwok() };
        nodepool::failures(&self.spec, &rules)
    }

    fn unreadable_fields(&self) -> Vec<String> {
        let budgets = self.spec.disruption.as_ref().and_then(|disruption| disruption.budgets.as_deref());
        let budgets = budgets.unwrap_or_default();
        let errors = budget_errors(budgets).into_iter();
        let text = |error: BudgetError| {
            let hint = match &error.problem {
                BudgetProblem::Schedule { text, .. } => schedule_hint(text),
                BudgetProblem::Duration(_) | BudgetProblem::Nodes(_) => None,
            };
            let hint = hint.map(|hint| format!("; {hint}")).unwrap_or_default();
            let field = match &error.problem {
                BudgetProblem::Schedule { .. } => "schedule",
                BudgetProblem::Duration(_) => "duration",
                BudgetProblem::Nodes(_) => "nodes",
            };
            format!("spec.disruption.budgets[{}].{field}: {}{hint}", error.index, error.problem)
        };
        errors.map(text).collect()
    }
}

impl CheckedKind for KWOKNodeClass {
    const IN_PLAN: FailedObjectInPlan = FailedObjectInPlan::UnusedPool;

    fn failures(&self) -> Vec<String> {
        self.spec.as_ref().map(kwoknodeclass::failures).unwrap_or_default()
    }
}

impl CheckedKind for NodeClaim {
    const IN_PLAN: FailedObjectInPlan = FailedObjectInPlan::Warning;

    fn failures(&self) -> Vec<String> {
        nodeclaim::failures(&self.spec)
    }
}

impl ValidationScope {
    /// Checks what a controller checks before it uses the object. If all objects are validated, one
    /// that fails is rejected.
    pub(super) fn check<K: CheckedKind>(self, mut read_object: ReadObject<K>) -> ReadResult<K> {
        let mut failures = read_object.object.failures();
        if self == Self::Strict {
            failures.extend(read_object.object.unreadable_fields());
        }
        if failures.is_empty() {
            return Ok(read_object);
        }
        match (self, K::IN_PLAN) {
            (Self::SuspiciousOnly, FailedObjectInPlan::UnusedPool) => Ok(read_object),
            (Self::SuspiciousOnly, FailedObjectInPlan::Warning) => {
                read_object.warnings.extend(failures.into_iter().map(|failure| format!("{failure}; it has no effect")));
                Ok(read_object)
            }
            (Self::All | Self::Strict, _) => {
                let problem = |message: String| FieldProblem { path: String::new(), message };
                let problems = failures.into_iter().map(problem).collect();
                Err(RejectedObject { problems, warnings: read_object.warnings })
            }
        }
    }
}

/// Returns true if a reported problem concerns the field at `path`, a field above it or a field
/// below.
fn concerns_same_field(problem: &FieldProblem, path: &str) -> bool {
    !problem.path.is_empty() && (path.starts_with(&problem.path) || problem.path.starts_with(path))
}

pub(super) fn is_suspicious_pod(pod: &Pod) -> bool {
    is_suspicious_pod_spec(&pod.spec)
}

pub(super) fn is_suspicious_daemon_set(set: &DaemonSet) -> bool {
    is_suspicious_pod_spec(&set.template.spec)
}

pub(super) fn is_suspicious_workload(workload: &Workload) -> bool {
    is_suspicious_pod_spec(&workload.template.spec)
}

pub(super) fn is_suspicious_node(node: &Node) -> bool {
    let is_taint = |key: &str, effect: &TaintEffect| !key.is_empty() && !matches!(effect, TaintEffect::Unsupported(_));
    !node.spec.taints.iter().all(|taint| is_taint(&taint.key, &taint.effect))
}

pub(super) fn is_suspicious_budget(budget: &PodDisruptionBudget) -> bool {
    budget.min_available.is_some() && budget.max_unavailable.is_some()
}

/// Returns true if no namespace can have this name. Checked for all namespaced objects.
pub(super) fn is_suspicious_namespace(name: &str) -> bool {
    let is_inner = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    name.len() > 63 || !name.bytes().all(is_inner) || name.starts_with('-') || name.ends_with('-')
}

fn is_suspicious_pod_spec(spec: &PodSpec) -> bool {
    let negative = |list: &ResourceList| list.iter().any(|(_, quantity)| quantity.is_negative());
    let mut containers = spec.containers.iter().chain(&spec.init_containers);
    let spread = |constraint: &TopologySpreadConstraint| {
        constraint.max_skew <= 0
            || constraint.min_domains.is_some_and(|domains| domains <= 0)
            || constraint.topology_key.is_empty()
    };
    let toleration = |toleration: &Toleration| match &toleration.operator {
        TolerationOperator::Exists => false,
        TolerationOperator::Unsupported(_) => true,
        TolerationOperator::Equal | TolerationOperator::Lt | TolerationOperator::Gt => toleration.key.is_empty(),
    };
    let has_term_without_key = spec.affinity.as_ref().is_some_and(|affinity| {
        [&affinity.pod_affinity, &affinity.pod_anti_affinity].into_iter().any(|terms| {
            let preferred = terms.preferred.iter().map(|weighted| &weighted.pod_affinity_term);
            terms.required.iter().chain(preferred).any(|term| term.topology_key.is_empty())
        })
    });
    containers.any(|container| negative(&container.resources.requests) || negative(&container.resources.limits))
        || negative(&spec.pod_requests)
        || spec.topology_spread_constraints.iter().any(spread)
        || spec.tolerations.iter().any(toleration)
        || has_term_without_key
}
