//! Pods become classes, each with the chain of what it turns into as it gives up its wishes.

use std::hash::{Hash, Hasher};
use std::rc::Rc;

use kerf_api::slim::{Affinity, Labels, NodeSelectorOperator, Pod, PodSpec, Str, TopologySpreadConstraint};
use kerf_api::validation::requirement::{self, RequirementRef};
use rustc_hash::{FxHashMap, FxHasher};
use smallvec::SmallVec;

use super::groups;
use crate::cluster::{PreferencePolicy, needs_devices, ports, selection};
use crate::explain::Reason;
use crate::pod::relax::{Relaxation, last_resorts, relax};
use crate::pod::requests;
use crate::pod::requirements::{NodeRequirements, Preferences, alternatives, of_pod, sharpen};
use crate::pod::tolerations::tolerates_all;
use crate::requirement::Requirement;
use crate::requirement_table::RequirementSetIx;
use crate::resources::{Amounts, ResourceNames};
use crate::solve::class::{ClassIx, PodClass};
use crate::solve::free_capacity::coarse_need;
use crate::solve::problem::{PodEntry, PodIx, SchedulingProblem};
use crate::solve::state::SolverState;

/// Classes by a hash of what makes them.
#[derive(Debug, Default)]
pub(crate) struct ClassTable {
    by_hash: FxHashMap<u64, SmallVec<[ClassIx; 1]>>,
    /// The class of the last pod: replicas come in rows.
    last: Option<ClassIx>,
}

/// What the cluster adds to a pod's spec.
struct ClusterAdditions {
    /// Where its volumes let it run.
    volumes: Vec<(RequirementSetIx, Option<Requirement>)>,
    /// Default spread constraints.
    spread: Rc<[TopologySpreadConstraint]>,
}

/// A pod that waits for a place. One that breaks a rule of spec 02 §2.2 is refused with its reason; without a usable pool a pass
/// decides nothing (§1.3).
pub(crate) fn pending_pod(
    problem: &mut SchedulingProblem,
    state: &mut SolverState,
    pod: &Pod,
    spread: Rc<[TopologySpreadConstraint]>,
) {
    let reason = refusal(problem, pod).or_else(|| problem.pools.is_empty().then_some(Reason::NoPools));
    if let Some(reason) = reason {
        problem.refused.push((pod.namespaced_name(), reason));
        return;
    }
    let ix = add(problem, state, pod, spread);
    problem.waiting.push(ix);
}

/// A pod that runs, before it is said where.
pub(crate) fn running_pod(
    problem: &mut SchedulingProblem,
    state: &mut SolverState,
    pod: &Pod,
    may_move: bool,
    spread: Rc<[TopologySpreadConstraint]>,
) -> PodIx {
    let is_fixed = pod.is_owned_by_daemonset() || pod.is_mirror();
    let ix = if is_fixed { add_fixed(problem, state, pod) } else { add(problem, state, pod, spread) };
    problem.pods[ix.0 as usize].may_move = may_move;
    if may_move && let Some(reason) = stuck(problem, pod) {
        problem.stuck.insert(ix, reason);
    }
    ix
}

/// A pod that never moves. What it asks of its node does not matter any more, only what it takes and whom it keeps away; so the pods
/// of a daemon set are of one class, though each names its node.
fn add_fixed(problem: &mut SchedulingProblem, state: &mut SolverState, pod: &Pod) -> PodIx {
    let attachments = problem.world.storage.attachments(pod);
    let mut lean = pod.clone();
    lean.spec.node_selector = Labels::default();
    lean.spec.tolerations = Vec::new();
    lean.spec.topology_spread_constraints = Vec::new();
    lean.spec.volumes = Vec::new();
    lean.spec.affinity = lean.spec.affinity.filter(|a| !a.pod_anti_affinity.required.is_empty()).map(|old| {
        let mut affinity = Affinity::default();
        affinity.pod_anti_affinity.required = old.pod_anti_affinity.required;
        Box::new(affinity)
    });
    let ix = add(problem, state, &lean, Rc::new([]));
    problem.pods[ix.0 as usize].attachments = attachments.into_boxed_slice();
    ix
}

/// Why a pod that runs cannot be placed elsewhere, whatever is tried.
fn stuck(problem: &SchedulingProblem, pod: &Pod) -> Option<Reason> {
    if problem.pools.is_empty() {
        return Some(Reason::NoPools);
    }
    problem.world.storage.unreadable(pod).map(Reason::Volume)
}

/// Why a pending pod is not looked at (spec 02 §2.2); all causes at once.
fn refusal(problem: &SchedulingProblem, pod: &Pod) -> Option<Reason> {
    let mut problems: Vec<String> = Vec::new();
    let rules = &problem.world.label_rules;
    for (key, value) in pod.spec.node_selector.iter() {
        let facts = RequirementRef {
            key,
            operator: &NodeSelectorOperator::In,
            values: std::slice::from_ref(value),
            min_values: None,
        };
        problems.extend(requirement::failures(facts, rules));
    }
    let terms = pod.spec.affinity.iter().filter_map(|a| a.node_affinity.required.as_deref()).flatten();
    for term in terms {
        if !term.match_fields.is_empty() {
            problems.push(requirement::MATCH_FIELDS_NOT_SUPPORTED.into());
        }
        for e in &term.match_expressions {
            let facts = RequirementRef { key: &e.key, operator: &e.operator, values: &e.values, min_values: None };
            problems.extend(requirement::failures(facts, rules));
        }
    }
    let volume = problem.world.storage.problem(pod);
    if selection::refuses_our_nodes(pod, rules) {
        problems.extend(volume);
        return Some(Reason::RefusesOurNodes { further: problems });
    }
    if problems.is_empty() {
        return volume.map(Reason::Volume);
    }
    problems.extend(volume);
    Some(Reason::Invalid(problems.join("; ")))
}

fn add(
    problem: &mut SchedulingProblem,
    state: &mut SolverState,
    pod: &Pod,
    spread: Rc<[TopologySpreadConstraint]>,
) -> PodIx {
    let demands = problem.world.storage.alternatives(pod, &problem.world.label_rules);
    let volumes = demands.into_iter().map(|d| (state.table.intern(&d.labels), d.hostname)).collect();
    let extras = ClusterAdditions { volumes, spread };
    let class = like_the_last(problem, pod, &extras).unwrap_or_else(|| {
        let hash = hash(pod, &extras);
        find(problem, hash, pod, &extras).unwrap_or_else(|| {
            let class = new_class(problem, state, pod, extras);
            problem.class_book.by_hash.entry(hash).or_default().push(class);
            class
        })
    });
    problem.class_book.last = Some(class);
    let attachments = problem.world.storage.attachments(pod);
    let entry = PodEntry::new(pod, class, attachments);
    if let Some(ix) = problem.free.pop() {
        problem.pods[ix.0 as usize] = entry;
        return ix;
    }
    problem.pods.push(entry);
    PodIx(problem.pods.len() as u32 - 1)
}

fn hash(pod: &Pod, extras: &ClusterAdditions) -> u64 {
    let mut hasher = FxHasher::default();
    pod.metadata.namespace.hash(&mut hasher);
    pod.metadata.labels.hash(&mut hasher);
    pod.spec.containers.hash(&mut hasher);
    pod.spec.node_selector.hash(&mut hasher);
    pod.spec.affinity.hash(&mut hasher);
    pod.spec.topology_spread_constraints.hash(&mut hasher);
    extras.spread.hash(&mut hasher);
    extras.volumes.hash(&mut hasher);
    hasher.finish()
}

fn like_the_last(problem: &mut SchedulingProblem, pod: &Pod, extras: &ClusterAdditions) -> Option<ClassIx> {
    let last = problem.class_book.last?;
    is_of(&problem.classes[last.0 as usize], pod, extras, &mut problem.world.names).then_some(last)
}

fn find(problem: &mut SchedulingProblem, hash: u64, pod: &Pod, extras: &ClusterAdditions) -> Option<ClassIx> {
    let candidates = problem.class_book.by_hash.get(&hash)?;
    let (classes, names) = (&problem.classes, &mut problem.world.names);
    candidates.iter().copied().find(|ix| is_of(&classes[ix.0 as usize], pod, extras, names))
}

/// Whether no rule can tell the pod from those of the class. The node that it runs on does not matter.
fn is_of(class: &PodClass, pod: &Pod, extras: &ClusterAdditions, names: &mut ResourceNames) -> bool {
    let (x, y) = (&class.spec, &pod.spec);
    let spread = y.topology_spread_constraints.iter().chain(extras.spread.iter());
    class.namespace == pod.metadata.namespace
        && class.labels == pod.metadata.labels
        && x.containers == y.containers
        && x.init_containers == y.init_containers
        && x.node_selector == y.node_selector
        && x.affinity == y.affinity
        && x.tolerations == y.tolerations
        && x.topology_spread_constraints.iter().eq(spread)
        && x.overhead == y.overhead
        && x.pod_requests == y.pod_requests
        && class.needs_devices == needs_devices(pod)
        && class.volumes == extras.volumes
        // Only a resize makes the same containers ask for something else.
        && ((class.is_as_asked && requests::is_as_asked(pod)) || class.requests == requests::effective(pod, names))
}

fn new_class(problem: &mut SchedulingProblem, state: &mut SolverState, pod: &Pod, extras: ClusterAdditions) -> ClassIx {
    let mut facts = ClassBase {
        namespace: pod.metadata.namespace.clone(),
        labels: pod.metadata.labels.clone(),
        requests: requests::effective(pod, &mut problem.world.names),
        is_as_asked: requests::is_as_asked(pod),
        volumes: extras.volumes,
        needs_devices: needs_devices(pod),
        wanted: Vec::new(),
    };
    let mut spec = PodSpec { node_name: None, ..pod.spec.clone() };
    spec.topology_spread_constraints.extend(extras.spread.iter().cloned());
    facts.wanted = alternatives(&spec, &problem.world.label_rules);
    let affinity = spec.affinity.as_ref();
    let terms = affinity.and_then(|a| a.node_affinity.required.clone()).unwrap_or_default();
    let first = push(problem, state, &facts, spec.clone());
    let alike = first.0..first.0 + terms.len().max(1) as u32;
    problem.classes[first.0 as usize].alternatives = alike.clone();
    let mut last = first;
    let mut steps = 0;
    while let Some((_, next)) = next_step(problem, &spec) {
        spec = next;
        let relaxed = push(problem, state, &facts, spec.clone());
        problem.classes[last.0 as usize].relaxed = Some(relaxed);
        last = relaxed;
        steps += 1;
        // The first steps exchange one alternative of the node affinity for the next.
        let class = &mut problem.classes[last.0 as usize];
        class.given_up = (steps + 1_usize).saturating_sub(terms.len().max(1));
        class.alternatives = if class.given_up == 0 { alike.clone() } else { last.0..last.0 + 1 };
    }
    // Without wishes every alternative has been tried for its own sake.
    if steps >= terms.len() {
        let (given_up, start) = (problem.classes[last.0 as usize].given_up, last.0);
        for resort in last_resorts(&terms, &spec) {
            let next = push(problem, state, &facts, resort);
            problem.classes[next.0 as usize].is_last_resort = true;
            problem.classes[next.0 as usize].given_up = given_up;
            problem.classes[last.0 as usize].relaxed = Some(next);
            last = next;
        }
        for class in &mut problem.classes[start as usize..] {
            class.alternatives = start..last.0 + 1;
        }
    }
    first
}

/// What a pod of this spec gives up next in this problem, and what it is then.
pub(crate) fn next_step(problem: &SchedulingProblem, spec: &PodSpec) -> Option<(Relaxation, PodSpec)> {
    let ignore = problem.world.settings.preference_policy == PreferencePolicy::Ignore;
    // A pool that has no type to offer has a say, too: its nodes may still be there.
    let mut taints = problem.pools.iter().flat_map(|pool| &problem.world.pools[*pool].taints);
    let prefers = taints.any(|t| t.effect == kerf_api::slim::TaintEffect::PreferNoSchedule);
    relax(spec, ignore, prefers)
}

/// What relaxation does not change.
struct ClassBase {
    namespace: Str,
    labels: Labels,
    requests: Amounts,
    is_as_asked: bool,
    volumes: Vec<(RequirementSetIx, Option<Requirement>)>,
    needs_devices: bool,
    /// Which nodes count for its spreads: those that it asks for before it gives anything up, as for kube-scheduler.
    wanted: Vec<NodeRequirements>,
}

fn push(problem: &mut SchedulingProblem, state: &mut SolverState, facts: &ClassBase, spec: PodSpec) -> ClassIx {
    let ignore = problem.world.settings.preference_policy == PreferencePolicy::Ignore;
    let rules = &problem.world.label_rules;
    let wishes = if ignore { Preferences::Excluded } else { Preferences::Included };
    let mut all = of_pod(&spec, wishes, rules);
    let must_exist = sharpen(&mut all, &spec, wishes, rules);
    let mut strict = of_pod(&spec, Preferences::Excluded, rules);
    sharpen(&mut strict, &spec, Preferences::Excluded, rules);
    let ix = ClassIx(problem.classes.len() as u32);
    let class = PodClass {
        namespace: facts.namespace.clone(),
        labels: facts.labels.clone(),
        requests: facts.requests.clone(),
        need: coarse_need(&facts.requests),
        is_as_asked: facts.is_as_asked,
        demands: state.table.intern(&all.labels),
        hostname: all.hostname,
        must_exist: must_exist.iter().map(|key| state.table.key(key)).collect(),
        wanted: facts.wanted.clone(),
        strict: state.table.intern(&strict.labels),
        tolerations: spec.tolerations.clone(),
        volumes: facts.volumes.clone(),
        ports: ports::of_pod(&spec),
        keyed: Vec::new(),
        hosts: Vec::new(),
        counted_by: Vec::new(),
        repels: Vec::new(),
        relaxed: None,
        given_up: 0,
        alternatives: ix.0..ix.0 + 1,
        is_last_resort: false,
        tolerates: problem.templates.iter().map(|t| tolerates_all(&spec.tolerations, &t.taints)).collect(),
        needs_devices: facts.needs_devices,
        spec,
    };
    groups::add_owner(problem, state, ix, &class);
    problem.classes.push(class);
    ix
}
