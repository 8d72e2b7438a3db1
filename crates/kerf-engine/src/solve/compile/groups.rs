//! Turns spread, affinity and anti-affinity rules into topology groups. Classes with equal rules
//! share a group.
//!
//! Classes and groups are added in any order and at any time. [`link_classes_to_groups`] then links
//! new classes to all groups and new groups to all classes, so that each class knows every group
//! that counts or constrains it.

use kerf_api::labels;
use kerf_api::slim::{
    LabelSelector, LabelSelectorOperator, LabelSelectorRequirement, NodeInclusionPolicy, PodAffinityTerm, PodSpec, Str,
    Toleration, TopologySpreadConstraint, WhenUnsatisfiable,
};
use rustc_hash::FxHashMap;
use smallvec::SmallVec;

use crate::cluster::PreferencePolicy;
use crate::pod::selector;
use crate::seeded_hash;
use crate::solve::class::{ClassIx, GroupConstraint, PodClass};
use crate::solve::problem::SchedulingProblem;
use crate::solve::state::SolverState;
use crate::topology::{FilterIx, Group, GroupIdentity, GroupIx, GroupKey, GroupKind, NodeFilter, TopologyKeyIx};

/// Groups by identity, and additions that are not linked yet.
#[derive(Debug, Default)]
pub(crate) struct GroupTable {
    index: FxHashMap<GroupIdentity, GroupIx>,
    filters: FxHashMap<NodeFilter, FilterIx>,
    node_count_index: FxHashMap<(TopologyKeyIx, FilterIx), usize>,
    finder: GroupFinder,
    unlinked_constraints: Vec<(ClassIx, GroupIx)>,
    unlinked_inverse_groups: Vec<(ClassIx, GroupIx)>,
    /// Group and node of running pods that own inverse anti-affinity groups and are not counted
    /// yet.
    pub(super) uncounted_inverse_pods: Vec<(GroupIx, usize)>,
    linked_classes: usize,
}

/// Number of constraints whose list is kept for the next call.
const KEPT_CONSTRAINTS_MAX: usize = 1024;

/// Returns the group with this identity, adding it if it is new.
fn get_or_add_group(problem: &mut SchedulingProblem, state: &SolverState, identity: GroupIdentity) -> GroupIx {
    let table = &mut problem.group_table;
    if let Some(ix) = table.index.get(&identity) {
        return *ix;
    }
    let ix = GroupIx(problem.groups.len());
    let filter = *table.filters.entry(identity.filter.clone()).or_insert_with(|| {
        problem.filters.push(identity.filter.clone());
        FilterIx(problem.filters.len() - 1)
    });
    let node_counts_ix = match identity.key {
        GroupKey::Hostname => None,
        GroupKey::Label(key) => Some(*table.node_count_index.entry((key, filter)).or_insert_with(|| {
            problem.node_count_keys.push((key, filter));
            problem.node_count_keys.len() - 1
        })),
    };
    let tie_break = tie_break(state, &identity);
    table.index.insert(identity.clone(), ix);
    problem.groups.push(Group { identity, tie_break, filter, node_counts_ix });
    ix
}

/// The groups of spread constraints, for a class and its relaxations. Each relaxation of a pod with
/// hundreds of constraints has almost all of them.
#[derive(Debug, Default)]
pub(super) struct SpreadGroups {
    /// The tolerations for which `groups` holds.
    tolerations: Vec<Toleration>,
    groups: FxHashMap<TopologySpreadConstraint, GroupIx>,
}

/// Adds the groups for the rules of a class (spec 02 §8.1). `spec` is the spec of the class.
pub(super) fn add_class_constraints(
    problem: &mut SchedulingProblem,
    state: &mut SolverState,
    class_ix: ClassIx,
    class: &PodClass,
    spec: &PodSpec,
    spread_groups: &mut SpreadGroups,
) {
    if spread_groups.tolerations != class.tolerations {
        *spread_groups = SpreadGroups { tolerations: class.tolerations.clone(), groups: FxHashMap::default() };
    }
    let respects_preferences = problem.cluster.settings.preference_policy == PreferencePolicy::Respect;
    for spread in &spec.topology_spread_constraints {
        if spread.when_unsatisfiable == WhenUnsatisfiable::DoNotSchedule || respects_preferences {
            let group = spread_groups.groups.get(spread).copied().unwrap_or_else(|| {
                let identity = spread_identity(problem, state, class, spread);
                let group = get_or_add_group(problem, state, identity);
                spread_groups.groups.insert(spread.clone(), group);
                group
            });
            problem.group_table.unlinked_constraints.push((class_ix, group));
        }
    }
    let Some(affinity) = spec.affinity.clone() else { return };
    let sides = [(&affinity.pod_affinity, GroupKind::Affinity), (&affinity.pod_anti_affinity, GroupKind::AntiAffinity)];
    for (terms, kind) in sides {
        let preferred = terms.preferred.iter().filter(|_| respects_preferences).map(|w| &w.pod_affinity_term);
        for term in terms.required.iter().chain(preferred) {
            let pool_tolerations = Some(class.tolerations.clone());
            let identity = term_identity(problem, state, &class.namespace, term, kind, pool_tolerations);
            let group = get_or_add_group(problem, state, identity);
            problem.group_table.unlinked_constraints.push((class_ix, group));
        }
    }
    for term in &affinity.pod_anti_affinity.required {
        let group = inverse_anti_affinity_group(problem, state, &class.namespace, term);
        problem.group_table.unlinked_inverse_groups.push((class_ix, group));
    }
}

/// Returns the group of the pods that an anti-affinity term of a pod in this namespace keeps away.
pub(crate) fn inverse_anti_affinity_group(
    problem: &mut SchedulingProblem,
    state: &mut SolverState,
    namespace: &Str,
    term: &PodAffinityTerm,
) -> GroupIx {
    let identity = term_identity(problem, state, namespace, term, GroupKind::InverseAntiAffinity, None);
    get_or_add_group(problem, state, identity)
}

/// Adds the groups for the required anti-affinity of running pods.
pub(crate) fn add_running_anti_affinity(problem: &mut SchedulingProblem, state: &mut SolverState) {
    for (namespace, term, node) in std::mem::take(&mut problem.cluster.running_anti_affinity) {
        let group = inverse_anti_affinity_group(problem, state, &namespace, &term);
        problem.group_table.uncounted_inverse_pods.push((group, node));
    }
}

/// Links classes and groups that were added since the last call. Groups from `first_new` on are
/// new.
pub(super) fn link_classes_to_groups(problem: &mut SchedulingProblem, state: &SolverState, first_new: usize) {
    let SchedulingProblem { groups, classes, group_table: table, .. } = problem;
    let mut new_groups = GroupFinder::default();
    for (ix, group) in groups.iter().enumerate().skip(first_new) {
        new_groups.add(GroupIx(ix), group);
        table.finder.add(GroupIx(ix), group);
    }
    let mut changed_classes: Vec<ClassIx> = Vec::new();
    let first_class = if first_new == groups.len() { table.linked_classes } else { 0 };
    // The relaxations of a class follow it and have its labels, so the groups are the same. Groups
    // are found in order of index, and later ones have a higher index: `counted_by` is sorted.
    let mut last: Option<(usize, bool, Vec<GroupIx>)> = None;
    for ix in first_class..classes.len() {
        let is_new = ix >= table.linked_classes;
        let is_like_last = last.as_ref().is_some_and(|(of, of_new, _)| {
            let (class, other) = (&classes[ix], &classes[*of]);
            *of_new == is_new && class.namespace == other.namespace && class.labels == other.labels
        });
        if !is_like_last {
            let finder = if is_new { &table.finder } else { &new_groups };
            last = Some((ix, is_new, finder.selecting(groups, &classes[ix].namespace, &classes[ix].labels)));
        }
        let class = &mut classes[ix];
        let selecting = last.as_ref().map_or(&[][..], |(_, _, selecting)| selecting);
        class.counted_by.reserve_exact(selecting.len());
        for group in selecting.iter().copied() {
            match groups[group.0].identity.kind {
                GroupKind::InverseAntiAffinity => {
                    add_constraint(class, groups, GroupConstraint { group, counts_self: true });
                    changed_classes.push(ClassIx(ix as u32));
                }
                GroupKind::Spread { .. } | GroupKind::Affinity | GroupKind::AntiAffinity => {
                    class.counted_by.push(group);
                }
            }
        }
    }
    table.linked_classes = classes.len();
    for (class_ix, group) in table.unlinked_constraints.drain(..) {
        let class = &mut classes[class_ix.0 as usize];
        let counts_self = class.counted_by.binary_search(&group).is_ok();
        add_constraint(class, groups, GroupConstraint { group, counts_self });
        if changed_classes.last() != Some(&class_ix) {
            changed_classes.push(class_ix);
        }
    }
    table.unlinked_constraints.shrink_to(KEPT_CONSTRAINTS_MAX);
    changed_classes.sort_unstable();
    changed_classes.dedup();
    for class in changed_classes {
        // Keys are narrowed in this order. It depends on their names, not on the order of the
        // input.
        let label_constraints = &mut classes[class.0 as usize].label_constraints;
        label_constraints.shrink_to_fit();
        label_constraints.sort_by(|a, b| state.keys.text(a.0).cmp(state.keys.text(b.0)));
    }
    for (class, group) in table.unlinked_inverse_groups.drain(..) {
        classes[class.0 as usize].inverse_groups.push(group);
    }
}

/// Returns a hash of the names in a rule, to decide ties independently of the order of the input.
fn tie_break(state: &SolverState, identity: &GroupIdentity) -> u64 {
    let key = match identity.key {
        GroupKey::Hostname => labels::HOSTNAME,
        GroupKey::Label(key) => state.keys.text(key),
    };
    let namespaces = identity.namespaces.iter().flatten().map(Str::as_str);
    let expressions = identity.selector.iter().flat_map(|s| &s.match_expressions);
    let selected = expressions.flat_map(|e| std::iter::once(&e.key).chain(&e.values)).map(Str::as_str);
    std::iter::once(key).chain(namespaces).chain(selected).fold(0, seeded_hash::hash_name)
}

/// Adds a constraint to a class. Anti-affinity of other pods comes first, ordered by name hash; the
/// class's own rules follow in the order of the pod spec.
fn add_constraint(class: &mut PodClass, groups: &[Group], constraint: GroupConstraint) {
    let group = &groups[constraint.group.0];
    let list = match group.identity.key {
        GroupKey::Hostname => &mut class.host_constraints,
        GroupKey::Label(key) => {
            let at = class.label_constraints.iter().position(|(k, _)| *k == key).unwrap_or_else(|| {
                class.label_constraints.push((key, SmallVec::new()));
                class.label_constraints.len() - 1
            });
            &mut class.label_constraints[at].1
        }
    };
    if list.iter().any(|b| b.group == constraint.group) {
        return;
    }
    let is_inverse = |g: &Group| g.identity.kind == GroupKind::InverseAntiAffinity;
    let comes_before = |b: &GroupConstraint| {
        let other = &groups[b.group.0];
        is_inverse(other) && other.tie_break <= group.tie_break
    };
    let at = if is_inverse(group) { list.partition_point(comes_before) } else { list.len() };
    list.insert(at, constraint);
}

fn group_key(problem: &SchedulingProblem, state: &mut SolverState, topology_key: &Str) -> GroupKey {
    let normal = problem.cluster.label_rules.normalise(topology_key);
    if normal == labels::HOSTNAME {
        GroupKey::Hostname
    } else {
        GroupKey::Label(state.keys.get_or_add_key(&Str::from(normal), &mut state.table))
    }
}

fn spread_identity(
    problem: &SchedulingProblem,
    state: &mut SolverState,
    class: &PodClass,
    spread: &TopologySpreadConstraint,
) -> GroupIdentity {
    let selector = spread.label_selector.clone().map(|mut s| {
        for key in &spread.match_label_keys {
            if let Some(value) = class.labels.get(key) {
                s.match_expressions.push(LabelSelectorRequirement {
                    key: key.clone(),
                    operator: LabelSelectorOperator::In,
                    values: vec![Str::from(value)],
                });
            }
        }
        selector::canonical(&s)
    });
    let affinity = (spread.node_affinity_policy != Some(NodeInclusionPolicy::Ignore)).then(|| {
        class.unrelaxed_alternatives.iter().map(|d| (state.table.intern(&d.labels), d.hostname.clone())).collect()
    });
    let tolerations =
        (spread.node_taints_policy == Some(NodeInclusionPolicy::Honor)).then(|| class.tolerations.clone());
    GroupIdentity {
        kind: GroupKind::Spread { max_skew: spread.max_skew, min_domains: spread.min_domains },
        key: group_key(problem, state, &spread.topology_key),
        namespaces: Some(vec![class.namespace.clone()]),
        selector,
        pool_tolerations: tolerations.clone(),
        filter: NodeFilter { affinity, tolerations },
    }
}

fn term_identity(
    problem: &SchedulingProblem,
    state: &mut SolverState,
    namespace: &Str,
    term: &PodAffinityTerm,
    kind: GroupKind,
    pool_tolerations: Option<Vec<Toleration>>,
) -> GroupIdentity {
    GroupIdentity {
        kind,
        key: group_key(problem, state, &term.topology_key),
        namespaces: problem.cluster.namespaces_of(namespace, term),
        selector: term.label_selector.as_ref().map(selector::canonical),
        filter: NodeFilter::default(),
        pool_tolerations,
    }
}

/// Finds the groups that select given labels. Most selectors list one exact label, so few groups
/// have to be checked.
#[derive(Debug, Default)]
pub(super) struct GroupFinder {
    by_label: FxHashMap<(Str, Str), Vec<GroupIx>>,
    rest: Vec<GroupIx>,
}

impl GroupFinder {
    pub(super) fn add(&mut self, ix: GroupIx, group: &Group) {
        match group.identity.selector.as_ref().and_then(exact_label) {
            Some(label) => self.by_label.entry(label).or_default().push(ix),
            None => self.rest.push(ix),
        }
    }

    /// Returns the groups that select a pod with these labels in this namespace, in order of index.
    pub(super) fn selecting(&self, groups: &[Group], namespace: &Str, labels: &kerf_api::slim::Labels) -> Vec<GroupIx> {
        let mut selecting_groups: Vec<GroupIx> = labels
            .iter()
            .filter_map(|(k, v)| self.by_label.get(&(k.clone(), v.clone())))
            .flatten()
            .chain(&self.rest)
            .copied()
            .filter(|g| groups[g.0].selects(namespace, labels))
            .collect();
        selecting_groups.sort_unstable();
        selecting_groups
    }
}

/// Returns a label that the selector requires exactly. In canonical form this is an `In` with one
/// value.
fn exact_label(selector: &LabelSelector) -> Option<(Str, Str)> {
    selector
        .match_expressions
        .iter()
        .find(|e| e.operator == LabelSelectorOperator::In && e.values.len() == 1)
        .map(|e| (e.key.clone(), e.values[0].clone()))
}
