//! Pods become classes, each with the chain of what it turns into as it gives up its wishes.

use std::hash::{Hash, Hasher};
use std::rc::Rc;

use kerf_api::slim::{Labels, NodeSelectorOperator, Pod, PodSpec, Str, TopologySpreadConstraint};
use kerf_api::validation::requirement::{self, RequirementFacts};
use rustc_hash::{FxHashMap, FxHasher};
use smallvec::SmallVec;

use super::groups::GroupTable;
use crate::explain::Reason;
use crate::pod::default_spread::DefaultSpread;
use crate::pod::relax::relax;
use crate::pod::requests;
use crate::pod::requirements::{Demands, Preferences, of_pod};
use crate::pod::tolerations::tolerates_all;
use crate::solve::class::{Class, ClassIx};
use crate::solve::problem::{PodEntry, Problem};
use crate::world::{PreferencePolicy, needs_devices, ports, selection};

/// Classes seen so far, found by hash and then compared.
#[derive(Default)]
struct Seen<'a> {
    by_hash: FxHashMap<u64, SmallVec<[Known<'a>; 1]>>,
}

/// A class and the pod that it was made from.
struct Known<'a> {
    class: ClassIx,
    pod: &'a Pod,
    extras: Extras,
}

/// What the cluster adds to a pod's spec.
#[derive(PartialEq, Eq, Hash)]
struct Extras {
    /// Where its volumes let it run.
    volumes: Vec<Demands>,
    /// Default spread constraints.
    spread: Rc<[TopologySpreadConstraint]>,
}

/// Sorts pending and leaving pods into classes; pods that break a rule of spec 02 §2.2 are refused with their reason. Without a usable
/// pool a pass decides nothing (§1.3).
pub(crate) fn classes<'a>(
    problem: &mut Problem,
    defaults: &mut DefaultSpread<'a>,
    pending: impl Iterator<Item = &'a Pod>,
    leaving: impl Iterator<Item = &'a Pod>,
) {
    let mut seen = Seen::default();
    let mut groups = GroupTable::default();
    for pod in pending {
        let name = pod.namespaced_name();
        if let Some(reason) = refusal(problem, pod) {
            problem.refused.push((name, reason));
            continue;
        }
        if !problem.has_pools {
            problem.refused.push((name, Reason::NoPools));
            continue;
        }
        add(problem, &mut seen, &mut groups, pod, defaults.of(pod));
    }
    for pod in leaving {
        if !problem.has_pools {
            problem.refused.push((pod.namespaced_name(), Reason::NoPools));
            continue;
        }
        if let Some(missing) = problem.world.storage.unreadable(pod) {
            problem.refused.push((pod.namespaced_name(), Reason::Volume(missing)));
            continue;
        }
        add(problem, &mut seen, &mut groups, pod, defaults.of(pod));
    }
    groups.finish(problem);
}

/// Why a pending pod is not looked at (spec 02 §2.2); all causes at once.
fn refusal(problem: &Problem, pod: &Pod) -> Option<Reason> {
    let mut problems: Vec<String> = Vec::new();
    let rules = &problem.world.label_rules;
    for (key, value) in pod.spec.node_selector.iter() {
        let facts = RequirementFacts {
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
            let facts = RequirementFacts { key: &e.key, operator: &e.operator, values: &e.values, min_values: None };
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

fn add<'a>(
    problem: &mut Problem,
    seen: &mut Seen<'a>,
    groups: &mut GroupTable,
    pod: &'a Pod,
    spread: Rc<[TopologySpreadConstraint]>,
) {
    let volumes = problem.world.storage.alternatives(pod, &problem.world.label_rules);
    let extras = Extras { volumes, spread };
    let hash = hash(pod, &extras);
    let class = seen.find(hash, pod, &extras).unwrap_or_else(|| {
        let class = new_class(problem, groups, pod, &extras);
        seen.by_hash.entry(hash).or_default().push(Known { class, pod, extras });
        class
    });
    let attachments = problem.world.storage.attachments(pod);
    problem.pods.push(PodEntry {
        name: pod.namespaced_name(),
        class,
        created: pod.metadata.creation_timestamp,
        uid: pod.metadata.uid.clone(),
        attachments,
        lets_rest: false,
    });
}

fn hash(pod: &Pod, extras: &Extras) -> u64 {
    let mut hasher = FxHasher::default();
    pod.metadata.namespace.hash(&mut hasher);
    pod.metadata.labels.hash(&mut hasher);
    pod.spec.containers.hash(&mut hasher);
    pod.spec.node_selector.hash(&mut hasher);
    pod.spec.affinity.hash(&mut hasher);
    pod.spec.topology_spread_constraints.hash(&mut hasher);
    extras.hash(&mut hasher);
    hasher.finish()
}

impl Seen<'_> {
    fn find(&self, hash: u64, pod: &Pod, extras: &Extras) -> Option<ClassIx> {
        let candidates = self.by_hash.get(&hash)?;
        candidates.iter().find(|known| known.extras == *extras && alike(known.pod, pod)).map(|known| known.class)
    }
}

/// Whether no rule can tell the two pods apart. The node that a leaving pod runs on does not matter.
fn alike(a: &Pod, b: &Pod) -> bool {
    let (x, y) = (&a.spec, &b.spec);
    a.metadata.namespace == b.metadata.namespace
        && a.metadata.labels == b.metadata.labels
        && x.containers == y.containers
        && x.init_containers == y.init_containers
        && x.node_selector == y.node_selector
        && x.affinity == y.affinity
        && x.tolerations == y.tolerations
        && x.topology_spread_constraints == y.topology_spread_constraints
        && x.overhead == y.overhead
        && x.pod_requests == y.pod_requests
        && x.has_resource_claims == y.has_resource_claims
        && a.status.container_statuses == b.status.container_statuses
        && a.status.init_container_statuses == b.status.init_container_statuses
        && requests::resize_is_infeasible(a) == requests::resize_is_infeasible(b)
}

fn new_class(problem: &mut Problem, groups: &mut GroupTable, pod: &Pod, extras: &Extras) -> ClassIx {
    let mut names = std::mem::take(&mut problem.world.names);
    let requests = requests::effective(pod, &mut names);
    problem.world.names = names;
    let volumes: Vec<_> =
        extras.volumes.iter().map(|d| (problem.table.intern(&d.labels), d.hostname.clone())).collect();
    let facts = Facts {
        namespace: pod.metadata.namespace.clone(),
        labels: pod.metadata.labels.clone(),
        requests,
        volumes,
        needs_devices: needs_devices(pod),
    };
    let ignore = problem.world.settings.preference_policy == PreferencePolicy::Ignore;
    let prefers = problem
        .templates
        .iter()
        .flat_map(|t| &t.taints)
        .any(|t| t.effect == kerf_api::slim::TaintEffect::PreferNoSchedule);
    let mut spec = PodSpec { node_name: None, ..pod.spec.clone() };
    spec.topology_spread_constraints.extend(extras.spread.iter().cloned());
    let first = push(problem, groups, &facts, spec.clone());
    let mut last = first;
    while let Some(next) = relax(&spec, ignore, prefers) {
        spec = next;
        let relaxed = push(problem, groups, &facts, spec.clone());
        problem.classes[last.0 as usize].relaxed = Some(relaxed);
        last = relaxed;
    }
    first
}

/// What relaxation does not change.
struct Facts {
    namespace: Str,
    labels: Labels,
    requests: crate::resources::Amounts,
    volumes: Vec<(crate::narrow::SetIx, Option<crate::requirement::Requirement>)>,
    needs_devices: bool,
}

fn push(problem: &mut Problem, groups: &mut GroupTable, facts: &Facts, spec: PodSpec) -> ClassIx {
    let ignore = problem.world.settings.preference_policy == PreferencePolicy::Ignore;
    let rules = &problem.world.label_rules;
    let all = of_pod(&spec, if ignore { Preferences::Excluded } else { Preferences::Included }, rules);
    let strict = of_pod(&spec, Preferences::Excluded, rules);
    let ix = ClassIx(problem.classes.len() as u32);
    let class = Class {
        namespace: facts.namespace.clone(),
        labels: facts.labels.clone(),
        requests: facts.requests.clone(),
        demands: problem.table.intern(&all.labels),
        hostname: all.hostname,
        strict: problem.table.intern(&strict.labels),
        tolerations: spec.tolerations.clone(),
        volumes: facts.volumes.clone(),
        ports: ports::of_pod(&spec),
        keyed: Vec::new(),
        hosts: Vec::new(),
        counted_by: Vec::new(),
        repels: Vec::new(),
        relaxed: None,
        tolerates: problem.templates.iter().map(|t| tolerates_all(&spec.tolerations, &t.taints)).collect(),
        needs_devices: facts.needs_devices,
        spec,
    };
    groups.add_owner(problem, ix, &class);
    problem.classes.push(class);
    ix
}
