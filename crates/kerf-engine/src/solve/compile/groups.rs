//! Constraints become groups, shared by every class that means the same, and are counted over the running pods.

use kerf_api::labels;
use kerf_api::slim::{
    LabelSelector, LabelSelectorOperator, LabelSelectorRequirement, NodeInclusionPolicy, PodAffinityTerm, Str,
    Toleration, TopologySpreadConstraint, WhenUnsatisfiable,
};
use rustc_hash::FxHashMap;

use crate::chance;
use crate::pod::requirements::alternatives;
use crate::pod::selector;
use crate::solve::class::{Bound, Class, ClassIx};
use crate::solve::problem::Problem;
use crate::topology::{Counts, Group, GroupIdentity, GroupIx, GroupKey, GroupKind, NodeFilter};
use crate::world::PreferencePolicy;

/// Groups by identity, and which classes stand behind them.
#[derive(Default)]
pub(crate) struct GroupTable {
    index: FxHashMap<GroupIdentity, GroupIx>,
    owned: Vec<(ClassIx, GroupIx)>,
    repels: Vec<(ClassIx, GroupIx)>,
    /// Running pods behind inverse groups: group, node.
    repelling: Vec<(GroupIx, usize)>,
}

impl GroupTable {
    fn group(&mut self, problem: &mut Problem, identity: GroupIdentity) -> GroupIx {
        if let Some(ix) = self.index.get(&identity) {
            return *ix;
        }
        let ix = GroupIx(problem.groups.len());
        let turn = turn(problem, &identity);
        problem.groups.push(Group { identity: identity.clone(), turn });
        self.index.insert(identity, ix);
        ix
    }

    /// Registers the constraints of a class (spec 02 §8.1).
    pub(crate) fn add_owner(&mut self, problem: &mut Problem, class_ix: ClassIx, class: &Class) {
        let respect = problem.world.settings.preference_policy == PreferencePolicy::Respect;
        for spread in &class.spec.topology_spread_constraints {
            if spread.when_unsatisfiable == WhenUnsatisfiable::DoNotSchedule || respect {
                let identity = spread_identity(problem, class, spread);
                let group = self.group(problem, identity);
                self.owned.push((class_ix, group));
            }
        }
        let Some(affinity) = class.spec.affinity.clone() else { return };
        let sides =
            [(&affinity.pod_affinity, GroupKind::Affinity), (&affinity.pod_anti_affinity, GroupKind::AntiAffinity)];
        for (side, kind) in sides {
            let wished = side.preferred.iter().filter(|_| respect).map(|w| &w.pod_affinity_term);
            for term in side.required.iter().chain(wished) {
                let reach = Some(class.tolerations.clone());
                let identity = term_identity(problem, &class.namespace, term, kind, reach);
                let group = self.group(problem, identity);
                self.owned.push((class_ix, group));
            }
        }
        for term in &affinity.pod_anti_affinity.required {
            let identity = term_identity(problem, &class.namespace, term, GroupKind::InverseAntiAffinity, None);
            let group = self.group(problem, identity);
            self.repels.push((class_ix, group));
        }
    }

    /// Adds the rules of running pods and ties groups and classes together.
    pub(crate) fn finish(mut self, problem: &mut Problem) {
        let running = std::mem::take(&mut problem.world.repelling);
        for (namespace, term, node) in &running {
            let identity = term_identity(problem, namespace, term, GroupKind::InverseAntiAffinity, None);
            let group = self.group(problem, identity);
            self.repelling.push((group, *node));
        }
        problem.world.repelling = running;
        problem.counts = vec![Counts::default(); problem.groups.len()];
        let finder = GroupFinder::new(&problem.groups);
        let groups = &problem.groups;
        let mut bounds: Vec<(ClassIx, Bound)> = Vec::new();
        for (ix, class) in problem.classes.iter_mut().enumerate() {
            for group in finder.selecting(groups, &class.namespace, &class.labels) {
                match groups[group.0].identity.kind {
                    GroupKind::InverseAntiAffinity => {
                        bounds.push((ClassIx(ix as u32), Bound { group, counts_self: true }));
                    }
                    GroupKind::Spread { .. } | GroupKind::Affinity | GroupKind::AntiAffinity => {
                        class.counted_by.push(group);
                    }
                }
            }
        }
        for (class, group) in self.owned {
            let counts_self = problem.classes[class.0 as usize].counted_by.contains(&group);
            bounds.push((class, Bound { group, counts_self }));
        }
        for (class, bound) in bounds {
            bind(&mut problem.classes[class.0 as usize], problem.groups[bound.group.0].identity.key, bound);
        }
        // The keys are settled in this order: their names decide it, not the order of the input.
        let keys = &problem.keys;
        for class in &mut problem.classes {
            class.keyed.sort_by(|a, b| keys.text(a.0).cmp(keys.text(b.0)));
        }
        for (class, group) in self.repels {
            problem.classes[class.0 as usize].repels.push(group);
        }
        for (group, node) in self.repelling {
            problem.world.nodes[node].repels.push(group);
        }
    }
}

/// A number that only the names in a constraint decide.
fn turn(problem: &Problem, identity: &GroupIdentity) -> u64 {
    let key = match identity.key {
        GroupKey::Hostname => labels::HOSTNAME,
        GroupKey::Label(key) => problem.keys.text(key),
    };
    let namespaces = identity.namespaces.iter().flatten().map(Str::as_str);
    let expressions = identity.selector.iter().flat_map(|s| &s.match_expressions);
    let selected = expressions.flat_map(|e| std::iter::once(&e.key).chain(&e.values)).map(Str::as_str);
    std::iter::once(key).chain(namespaces).chain(selected).fold(0, chance::name)
}

fn bind(class: &mut Class, key: GroupKey, bound: Bound) {
    let list = match key {
        GroupKey::Hostname => &mut class.hosts,
        GroupKey::Label(key) => {
            let at = class.keyed.iter().position(|(k, _)| *k == key).unwrap_or_else(|| {
                class.keyed.push((key, Vec::new()));
                class.keyed.len() - 1
            });
            &mut class.keyed[at].1
        }
    };
    if !list.iter().any(|b| b.group == bound.group) {
        list.push(bound);
    }
}

fn group_key(problem: &mut Problem, topology_key: &Str) -> GroupKey {
    let normal = problem.world.label_rules.normalise(topology_key);
    if normal == labels::HOSTNAME {
        GroupKey::Hostname
    } else {
        GroupKey::Label(problem.keys.key(&Str::from(normal), &mut problem.table))
    }
}

fn spread_identity(problem: &mut Problem, class: &Class, spread: &TopologySpreadConstraint) -> GroupIdentity {
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
        alternatives(&class.spec, &problem.world.label_rules)
            .into_iter()
            .map(|d| (problem.table.intern(&d.labels), d.hostname))
            .collect()
    });
    let tolerations =
        (spread.node_taints_policy == Some(NodeInclusionPolicy::Honor)).then(|| class.tolerations.clone());
    GroupIdentity {
        kind: GroupKind::Spread { max_skew: spread.max_skew, min_domains: spread.min_domains },
        key: group_key(problem, &spread.topology_key),
        namespaces: Some(vec![class.namespace.clone()]),
        selector,
        reach: tolerations.clone(),
        filter: NodeFilter { affinity, tolerations },
    }
}

fn term_identity(
    problem: &mut Problem,
    own: &Str,
    term: &PodAffinityTerm,
    kind: GroupKind,
    reach: Option<Vec<Toleration>>,
) -> GroupIdentity {
    GroupIdentity {
        kind,
        key: group_key(problem, &term.topology_key),
        namespaces: problem.world.namespaces_of(own, term),
        selector: term.label_selector.as_ref().map(selector::canonical),
        filter: NodeFilter::default(),
        reach,
    }
}

/// Finds the groups that select given labels without asking each of them: most selectors name one exact label.
struct GroupFinder {
    by_label: FxHashMap<(Str, Str), Vec<GroupIx>>,
    rest: Vec<GroupIx>,
}

impl GroupFinder {
    fn new(groups: &[Group]) -> Self {
        let mut finder = Self { by_label: FxHashMap::default(), rest: Vec::new() };
        for (ix, group) in groups.iter().enumerate() {
            let exact = group.identity.selector.as_ref().and_then(exact_label);
            match exact {
                Some(label) => finder.by_label.entry(label).or_default().push(GroupIx(ix)),
                None => finder.rest.push(GroupIx(ix)),
            }
        }
        finder
    }

    fn selecting(&self, groups: &[Group], namespace: &Str, labels: &kerf_api::slim::Labels) -> Vec<GroupIx> {
        let mut found: Vec<GroupIx> = labels
            .iter()
            .filter_map(|(k, v)| self.by_label.get(&(k.clone(), v.clone())))
            .flatten()
            .chain(&self.rest)
            .copied()
            .filter(|g| groups[g.0].selects(namespace, labels))
            .collect();
        found.sort_unstable();
        found
    }
}

/// In canonical form every exact label is an `In` with one value.
fn exact_label(selector: &LabelSelector) -> Option<(Str, Str)> {
    selector
        .match_expressions
        .iter()
        .find(|e| e.operator == LabelSelectorOperator::In && e.values.len() == 1)
        .map(|e| (e.key.clone(), e.values[0].clone()))
}

/// Counts what runs (spec 02 §8.3). Domains must be known by now.
pub(crate) fn counts(problem: &mut Problem) {
    let Problem { world, table, keys, groups, counts, node_domains, .. } = problem;
    for (group, counts) in groups.iter().zip(counts.iter_mut()) {
        let identity = &group.identity;
        if let GroupKey::Label(key) = identity.key {
            for domain in 0..keys.domain_count(key) {
                let pools = keys.offered_by(key, domain);
                let counted = match &identity.reach {
                    Some(tolerations) => pools
                        .iter()
                        .any(|pool| crate::pod::tolerations::tolerates_all(tolerations, &world.pools[*pool].taints)),
                    None => !pools.is_empty(),
                };
                if counted {
                    counts.know(domain);
                }
            }
        }
    }
    let finder = GroupFinder::new(groups);
    let mut accepted: FxHashMap<(GroupIx, usize), bool> = FxHashMap::default();
    let mut accepts = |group: GroupIx, node: usize, table: &mut crate::narrow::Narrowing| {
        *accepted.entry((group, node)).or_insert_with(|| {
            let state = &world.nodes[node];
            state.own_taints.as_ref().is_some_and(|taints| {
                groups[group.0].identity.filter.accepts(state.set, Some(&state.hostname), taints, table)
            })
        })
    };
    for (ix, group) in groups.iter().enumerate() {
        let GroupKey::Label(key) = group.identity.key else { continue };
        for (node, domain) in node_domains[key.0].iter().enumerate() {
            if let Some(domain) = domain
                && !world.nodes[node].is_leaving
                && accepts(GroupIx(ix), node, table)
            {
                counts[ix].know(*domain as usize);
            }
        }
    }
    for class in &world.running {
        for group in finder.selecting(groups, &class.namespace, &class.labels) {
            let identity = &groups[group.0].identity;
            if identity.kind == GroupKind::InverseAntiAffinity {
                continue;
            }
            for (node, pods) in &class.on {
                let node = *node as usize;
                if !accepts(group, node, table) {
                    continue;
                }
                match identity.key {
                    GroupKey::Hostname => counts[group.0].add_node(node, *pods, identity.kind),
                    GroupKey::Label(key) => {
                        if let Some(domain) = node_domains[key.0][node] {
                            counts[group.0].add(domain as usize, *pods);
                        }
                    }
                }
            }
        }
    }
    for (node, state) in world.nodes.iter().enumerate() {
        for group in &state.repels {
            let identity = &groups[group.0].identity;
            match identity.key {
                GroupKey::Hostname => counts[group.0].add_node(node, 1, identity.kind),
                GroupKey::Label(key) => {
                    if let Some(domain) = node_domains[key.0][node] {
                        counts[group.0].add(domain as usize, 1);
                    }
                }
            }
        }
    }
}
