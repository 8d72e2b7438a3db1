//! Assigns pods to classes, and builds for each class the chain of its relaxations.

use std::hash::{Hash, Hasher};
use std::rc::Rc;

use kerf_api::slim::{Affinity, Labels, NodeSelectorOperator, Pod, PodSpec, Str, TopologySpreadConstraint};
use kerf_api::validation::requirement::{self, RequirementRef};
use rustc_hash::{FxHashMap, FxHasher};
use smallvec::SmallVec;

use super::groups::{self, SpreadGroups};
use crate::cluster::{PreferencePolicy, needs_devices, ports, selection};
use crate::explain::{self, Reason};
use crate::pod::relax::{Relaxation, last_resorts, relax, relax_in_place};
use crate::pod::requests;
use crate::pod::requirements::{
    NodeRequirements, Preferences, node_affinity_alternatives, pod_requirements, require_label_presence,
};
use crate::pod::tolerations::tolerates_all;
use crate::requirement::Requirement;
use crate::requirement_table::RequirementSetIx;
use crate::resources::{Amounts, ResourceNames};
use crate::solve::class::{ClassIx, PodClass};
use crate::solve::free_capacity::coarse_requests;
use crate::solve::problem::{PodEntry, PodIx, SchedulingProblem};
use crate::solve::state::SolverState;

/// Classes by a hash of the pod fields that define them.
#[derive(Debug, Default)]
pub(crate) struct ClassTable {
    by_hash: FxHashMap<u64, SmallVec<[ClassIx; 1]>>,
    /// Class of the last pod. Checked first, because replicas of a workload usually follow each
    /// other.
    last: Option<ClassIx>,
}

/// Scheduling rules that a pod gets from the cluster, not from its spec.
struct ClusterAdditions {
    /// Alternative requirements of the pod's volumes; one must hold. Empty means no restriction.
    volume_alternatives: Vec<(RequirementSetIx, Option<Requirement>)>,
    /// Default spread constraints for the pod.
    default_spread: Rc<[TopologySpreadConstraint]>,
}

/// Adds a pending pod. A pod that breaks a rule of spec 02 §2.2 is excluded, with the reason. All
/// pods are excluded if no pool is usable (spec 02 §1.3).
pub(crate) fn add_pending_pod(
    problem: &mut SchedulingProblem,
    state: &mut SolverState,
    pod: &Pod,
    default_spread: Rc<[TopologySpreadConstraint]>,
) {
    let reason = exclusion_reason(problem, pod).or_else(|| problem.pools.is_empty().then(|| no_pools_reason(problem, pod)));
    if let Some(reason) = reason {
        problem.excluded_pods.push((pod.namespaced_name(), reason));
        return;
    }
    let ix = add_pod(problem, state, pod, default_spread);
    problem.pods_to_place.push(ix);
}

/// Adds a running pod. The caller then sets its node.
pub(crate) fn add_running_pod(
    problem: &mut SchedulingProblem,
    state: &mut SolverState,
    pod: &Pod,
    is_reschedulable: bool,
    default_spread: Rc<[TopologySpreadConstraint]>,
) -> PodIx {
    let is_unmovable = pod.is_owned_by_daemonset() || pod.is_mirror();
    let ix = if is_unmovable {
        add_unmovable_pod(problem, state, pod)
    } else {
        add_pod(problem, state, pod, default_spread)
    };
    problem.pods[ix.0 as usize].is_currently_reschedulable = is_reschedulable;
    if is_reschedulable && let Some(reason) = unplaceable_reason(problem, pod) {
        problem.unplaceable_pods.insert(ix, reason);
    }
    ix
}

/// Adds a pod that never moves. Only its requests and its anti-affinity matter; its requirements on
/// nodes are dropped. So all pods of a daemon set share one class, although each names its node.
fn add_unmovable_pod(problem: &mut SchedulingProblem, state: &mut SolverState, pod: &Pod) -> PodIx {
    let attachments = problem.cluster.storage.attachments(pod);
    let mut stripped = pod.clone();
    stripped.spec.node_selector = Labels::default();
    stripped.spec.tolerations = Vec::new();
    stripped.spec.topology_spread_constraints = Vec::new();
    stripped.spec.volumes = Vec::new();
    stripped.spec.affinity = stripped.spec.affinity.filter(|a| !a.pod_anti_affinity.required.is_empty()).map(|old| {
        let mut affinity = Affinity::default();
        affinity.pod_anti_affinity.required = old.pod_anti_affinity.required;
        Box::new(affinity)
    });
    let ix = add_pod(problem, state, &stripped, Rc::new([]));
    problem.pods[ix.0 as usize].attachments = attachments.into_boxed_slice();
    ix
}

/// Returns why a pod is excluded if Kerf serves no pool.
fn no_pools_reason(problem: &SchedulingProblem, pod: &Pod) -> Reason {
    let alternatives = node_affinity_alternatives(&pod.spec, &problem.cluster.label_rules);
    if explain::may_be_served(&problem.cluster, &alternatives, &pod.spec.tolerations) {
        Reason::OtherProvider(Vec::new())
    } else {
        Reason::NoPools
    }
}

/// Returns why a running pod cannot be placed on any target. `None` if it may be.
fn unplaceable_reason(problem: &SchedulingProblem, pod: &Pod) -> Option<Reason> {
    if problem.pools.is_empty() {
        return Some(Reason::NoPools);
    }
    problem.cluster.storage.topology_error(pod).map(Reason::Volume)
}

/// Returns why a pending pod is excluded from placing (spec 02 §2.2), with all causes. `None` if it
/// is not.
fn exclusion_reason(problem: &SchedulingProblem, pod: &Pod) -> Option<Reason> {
    let mut problems: Vec<String> = Vec::new();
    let rules = &problem.cluster.label_rules;
    for (key, value) in pod.spec.node_selector.iter() {
        let node_requirement = RequirementRef {
            key,
            operator: &NodeSelectorOperator::In,
            values: std::slice::from_ref(value),
            min_values: None,
        };
        problems.extend(requirement::failures(node_requirement, rules));
    }
    let terms = pod.spec.affinity.iter().filter_map(|a| a.node_affinity.required.as_deref()).flatten();
    for term in terms {
        if !term.match_fields.is_empty() {
            problems.push(requirement::MATCH_FIELDS_NOT_SUPPORTED.into());
        }
        for e in &term.match_expressions {
            let node_requirement =
                RequirementRef { key: &e.key, operator: &e.operator, values: &e.values, min_values: None };
            problems.extend(requirement::failures(node_requirement, rules));
        }
    }
    let volume = problem.cluster.storage.first_claim_error(pod);
    if selection::excludes_managed_nodes(pod, rules) {
        problems.extend(volume);
        return Some(Reason::OptedOut { further: problems });
    }
    if problems.is_empty() {
        return volume.map(Reason::Volume);
    }
    problems.extend(volume);
    Some(Reason::Invalid(problems.join("; ")))
}

fn add_pod(
    problem: &mut SchedulingProblem,
    state: &mut SolverState,
    pod: &Pod,
    default_spread: Rc<[TopologySpreadConstraint]>,
) -> PodIx {
    let alternatives = problem.cluster.storage.topology_alternatives(pod, &problem.cluster.label_rules);
    let volume_alternatives = alternatives.into_iter().map(|d| (state.table.intern(&d.labels), d.hostname)).collect();
    let additions = ClusterAdditions { volume_alternatives, default_spread };
    let class = match_last_class(problem, pod, &additions).unwrap_or_else(|| {
        let hash = hash(pod, &additions);
        find_class(problem, hash, pod, &additions).unwrap_or_else(|| {
            let class = add_class_with_relaxations(problem, state, pod, additions);
            problem.class_table.by_hash.entry(hash).or_default().push(class);
            class
        })
    });
    problem.class_table.last = Some(class);
    let attachments = problem.cluster.storage.attachments(pod);
    let entry = PodEntry::new(pod, class, attachments);
    if let Some(ix) = problem.free_pod_slots.pop() {
        problem.pods[ix.0 as usize] = entry;
        return ix;
    }
    problem.pods.push(entry);
    PodIx(problem.pods.len() as u32 - 1)
}

fn hash(pod: &Pod, additions: &ClusterAdditions) -> u64 {
    let mut hasher = FxHasher::default();
    pod.metadata.namespace.hash(&mut hasher);
    pod.metadata.labels.hash(&mut hasher);
    pod.spec.containers.hash(&mut hasher);
    pod.spec.node_selector.hash(&mut hasher);
    pod.spec.affinity.hash(&mut hasher);
    pod.spec.topology_spread_constraints.hash(&mut hasher);
    additions.default_spread.hash(&mut hasher);
    additions.volume_alternatives.hash(&mut hasher);
    hasher.finish()
}

fn match_last_class(problem: &mut SchedulingProblem, pod: &Pod, additions: &ClusterAdditions) -> Option<ClassIx> {
    let last = problem.class_table.last?;
    matches_class(&problem.classes[last.0 as usize], pod, additions, &mut problem.cluster.resource_names)
        .then_some(last)
}

fn find_class(problem: &mut SchedulingProblem, hash: u64, pod: &Pod, additions: &ClusterAdditions) -> Option<ClassIx> {
    let candidates = problem.class_table.by_hash.get(&hash)?;
    let (classes, resource_names) = (&problem.classes, &mut problem.cluster.resource_names);
    candidates.iter().copied().find(|ix| matches_class(&classes[ix.0 as usize], pod, additions, resource_names))
}

/// Returns true if no scheduling rule can tell the pod from those of the class. The node that it
/// runs on does not matter.
fn matches_class(
    class: &PodClass,
    pod: &Pod,
    additions: &ClusterAdditions,
    resource_names: &mut ResourceNames,
) -> bool {
    let (class_spec, pod_spec) = (&class.spec, &pod.spec);
    let all_spreads = pod_spec.topology_spread_constraints.iter().chain(additions.default_spread.iter());
    class.namespace == pod.metadata.namespace
        && class.labels == pod.metadata.labels
        && class_spec.containers == pod_spec.containers
        && class_spec.init_containers == pod_spec.init_containers
        && class_spec.node_selector == pod_spec.node_selector
        && class_spec.affinity == pod_spec.affinity
        && class_spec.tolerations == pod_spec.tolerations
        && class_spec.topology_spread_constraints.iter().eq(all_spreads)
        && class_spec.overhead == pod_spec.overhead
        && class_spec.pod_requests == pod_spec.pod_requests
        && class.needs_devices == needs_devices(pod)
        && class.volume_alternatives == additions.volume_alternatives
        // Equal containers have other requests only during a resize.
        && ((class.has_spec_requests && requests::has_spec_requests(pod)) || class.requests == requests::effective_requests(pod, resource_names))
}

/// Adds a class and all its relaxations, linked by `next_relaxed`, and then its last resorts.
fn add_class_with_relaxations(
    problem: &mut SchedulingProblem,
    state: &mut SolverState,
    pod: &Pod,
    additions: ClusterAdditions,
) -> ClassIx {
    let mut base = ClassBase {
        namespace: pod.metadata.namespace.clone(),
        labels: pod.metadata.labels.clone(),
        requests: requests::effective_requests(pod, &mut problem.cluster.resource_names),
        has_spec_requests: requests::has_spec_requests(pod),
        volume_alternatives: additions.volume_alternatives,
        needs_devices: needs_devices(pod),
        unrelaxed_alternatives: Vec::new(),
    };
    let mut spec = PodSpec { node_name: None, ..pod.spec.clone() };
    spec.topology_spread_constraints.extend(additions.default_spread.iter().cloned());
    base.unrelaxed_alternatives = node_affinity_alternatives(&spec, &problem.cluster.label_rules);
    let affinity = spec.affinity.as_ref();
    let terms = affinity.and_then(|a| a.node_affinity.required.clone()).unwrap_or_default();
    let mut spread_groups = SpreadGroups::default();
    let first = push_class(problem, state, &base, &spec, &mut spread_groups);
    problem.classes[first.0 as usize].spec = spec.clone();
    let alternatives = first.0..first.0 + terms.len().max(1) as u32;
    problem.classes[first.0 as usize].alternative_classes = alternatives.clone();
    let mut last = first;
    let mut steps = 0;
    let (ignores_preferences, has_prefer_no_schedule) = relaxation_rules(problem);
    while relax_in_place(&mut spec, ignores_preferences, has_prefer_no_schedule).is_some() {
        let relaxed = push_class(problem, state, &base, &spec, &mut spread_groups);
        problem.classes[last.0 as usize].next_relaxed = Some(relaxed);
        last = relaxed;
        steps += 1;
        // The first steps replace one alternative of the node affinity by the next.
        let class = &mut problem.classes[last.0 as usize];
        class.relaxation_count = (steps + 1_usize).saturating_sub(terms.len().max(1));
        class.alternative_classes = if class.relaxation_count == 0 { alternatives.clone() } else { last.0..last.0 + 1 };
    }
    // If there was no preference to give up, every alternative has already been tried as it is.
    if steps >= terms.len() {
        let (relaxation_count, start) = (problem.classes[last.0 as usize].relaxation_count, last.0);
        for last_resort in last_resorts(&terms, &spec) {
            let next = push_class(problem, state, &base, &last_resort, &mut spread_groups);
            problem.classes[next.0 as usize].is_last_resort = true;
            problem.classes[next.0 as usize].relaxation_count = relaxation_count;
            problem.classes[last.0 as usize].next_relaxed = Some(next);
            last = next;
        }
        for class in &mut problem.classes[start as usize..] {
            class.alternative_classes = start..last.0 + 1;
        }
    }
    first
}

/// Returns the next relaxation of a pod with this spec, and the relaxed spec. `None` if nothing is
/// left to relax.
pub(crate) fn next_relaxation(problem: &SchedulingProblem, spec: &PodSpec) -> Option<(Relaxation, PodSpec)> {
    let (ignores_preferences, has_prefer_no_schedule) = relaxation_rules(problem);
    relax(spec, ignores_preferences, has_prefer_no_schedule)
}

/// Returns true for the first value if preferences are ignored, and for the second one if some pool
/// has a taint with the effect `PreferNoSchedule`.
fn relaxation_rules(problem: &SchedulingProblem) -> (bool, bool) {
    let ignores_preferences = problem.cluster.settings.preference_policy == PreferencePolicy::Ignore;
    // Pools without instance types count too, because they may still have nodes.
    let mut taints = problem.pools.iter().flat_map(|pool| &problem.cluster.pools[*pool].taints);
    (ignores_preferences, taints.any(|t| t.effect == kerf_api::slim::TaintEffect::PreferNoSchedule))
}

/// The part of a class that relaxation does not change.
struct ClassBase {
    namespace: Str,
    labels: Labels,
    requests: Amounts,
    has_spec_requests: bool,
    volume_alternatives: Vec<(RequirementSetIx, Option<Requirement>)>,
    needs_devices: bool,
    /// Alternatives of the required node affinity before any relaxation. As in kube-scheduler, they
    /// decide which nodes count for the pod's spreads.
    unrelaxed_alternatives: Vec<NodeRequirements>,
}

/// Adds a class for a spec. The class does not keep the spec.
fn push_class(
    problem: &mut SchedulingProblem,
    state: &mut SolverState,
    base: &ClassBase,
    spec: &PodSpec,
    spread_groups: &mut SpreadGroups,
) -> ClassIx {
    let ignores_preferences = problem.cluster.settings.preference_policy == PreferencePolicy::Ignore;
    let rules = &problem.cluster.label_rules;
    let preferences = if ignores_preferences { Preferences::Excluded } else { Preferences::Included };
    let mut all = pod_requirements(spec, preferences, rules);
    let must_exist = require_label_presence(&mut all, spec, preferences, rules);
    let mut strict = pod_requirements(spec, Preferences::Excluded, rules);
    require_label_presence(&mut strict, spec, Preferences::Excluded, rules);
    let ix = ClassIx(problem.classes.len() as u32);
    let class = PodClass {
        namespace: base.namespace.clone(),
        labels: base.labels.clone(),
        requests: base.requests.clone(),
        coarse_requests: coarse_requests(&base.requests),
        has_spec_requests: base.has_spec_requests,
        requirements: state.table.intern(&all.labels),
        hostname: all.hostname,
        must_exist: must_exist.iter().map(|key| state.table.intern_key(key)).collect(),
        unrelaxed_alternatives: base.unrelaxed_alternatives.clone(),
        strict_requirements: state.table.intern(&strict.labels),
        tolerations: spec.tolerations.clone(),
        volume_alternatives: base.volume_alternatives.clone(),
        ports: ports::host_ports_of_spec(spec),
        label_constraints: Vec::new(),
        host_constraints: SmallVec::new(),
        counted_by: Vec::new(),
        inverse_groups: Vec::new(),
        next_relaxed: None,
        relaxation_count: 0,
        alternative_classes: ix.0..ix.0 + 1,
        is_last_resort: false,
        tolerates_template: problem.templates.iter().map(|t| tolerates_all(&spec.tolerations, &t.taints)).collect(),
        needs_devices: base.needs_devices,
        spec: PodSpec::default(),
    };
    groups::add_class_constraints(problem, state, ix, &class, spec, spread_groups);
    problem.classes.push(class);
    ix
}
