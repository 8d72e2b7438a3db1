//! Explains why no NodePool accepts a pod: applies all rules to each pool once more and reports the
//! first rule that fails, in the words of spec 02.

use std::borrow::Cow;

use kerf_api::labels::HOSTNAME;
use kerf_api::slim::{ResourceList, Str};

use super::may_be_served;
use super::reason::{PlacementRule, PoolRejection, Reason, min_values_text};
use crate::bits::Bits;
use crate::cluster::ports;
use crate::pod::tolerations::{taint_text, tolerates};
use crate::requirement::{Requirement, UndefinedLabels as Labels};
use crate::requirement_table::{KeyIx, RequirementSetIx, UndefinedKeys};
use crate::resources::{Amounts, NANOS_PER_UNIT, ResourceIx};
use crate::solve::{ClassIx, PlacementPass, PlacementTarget, PodClass, Template, UNNAMED_HOST, limits, min_values};
use crate::topology::{GroupKind, TopologyKeyIx};

/// Maximum number of domains in a message.
const MAX_LISTED_DOMAINS: usize = 25;

/// Returns the rejection of every NodePool for the class after all its relaxations.
pub(crate) fn explain_rejection(pass: &mut PlacementPass<'_>, class: ClassIx) -> Reason {
    let problem = pass.problem;
    if problem.templates.is_empty() {
        return Reason::NoTypes;
    }
    let original = &problem.classes[class.0 as usize];
    let may_be_served_by_others = may_be_served(&problem.cluster, &original.unrelaxed_alternatives, &original.tolerations);
    let class = problem.most_relaxed(class);
    let facts = &problem.classes[class.0 as usize];
    let rejections: Vec<PoolRejection> = (0..problem.templates.len())
        .map(|ix| {
            let (rule, text) = pool_rejection(pass, class, facts, ix);
            PoolRejection { pool: problem.templates[ix].name.clone(), rule, text }
        })
        .collect();
    let is_for_other_pods = |rejection: &PoolRejection| match rejection.rule {
        PlacementRule::Taint | PlacementRule::Requirements => true,
        PlacementRule::Limits
        | PlacementRule::VolumeTopology
        | PlacementRule::Topology
        | PlacementRule::InstanceTypes
        | PlacementRule::MinValues
        | PlacementRule::HostPorts => false,
    };
    if may_be_served_by_others && rejections.iter().all(is_for_other_pods) {
        return Reason::OtherProvider(rejections);
    }
    Reason::RejectedByAllPools(rejections)
}

fn pool_rejection(
    pass: &mut PlacementPass<'_>,
    class: ClassIx,
    facts: &PodClass,
    ix: usize,
) -> (PlacementRule, String) {
    let problem = pass.problem;
    let template = &problem.templates[ix];
    if limits::is_node_limit_reached(&pass.state.limits[ix]) {
        return (
            PlacementRule::Limits,
            format!("node limits have been exhausted for nodepool (NodePool={})", template.name),
        );
    }
    let mut within = template.rows.clone();
    template.keep_within_limits(&mut within, &pass.state.limits[ix]);
    if within.is_empty() {
        let text = format!("all available instance types exceed limits for nodepool (NodePool={})", template.name);
        return (PlacementRule::Limits, text);
    }
    let untolerated: Vec<String> = template
        .taints
        .iter()
        .filter(|t| !tolerates(&facts.tolerations, t))
        .map(|t| format!("did not tolerate taint (taint={})", taint_text(t)))
        .collect();
    if !untolerated.is_empty() {
        return (PlacementRule::Taint, untolerated.join("; "));
    }
    let required = match join_requirements(
        pass,
        template.requirements,
        facts.requirements,
        facts.hostname.as_ref(),
        &facts.must_exist,
    ) {
        Ok(required) => required,
        Err(text) => return (PlacementRule::Requirements, format!("incompatible requirements, {text}")),
    };
    // If the volumes allow several alternatives, the message names the last one, because it is
    // tried last.
    let (volume, host) =
        facts.volume_alternatives.last().map_or((RequirementSetIx::EMPTY, None), |(set, host)| (*set, host.as_ref()));
    let set = match join_requirements(pass, required, volume, host, &[]) {
        Ok(set) => set,
        Err(text) => return (PlacementRule::VolumeTopology, format!("incompatible volume requirements, {text}")),
    };
    if let Some(text) = topology_rejection(pass, class, facts, set) {
        return (PlacementRule::Topology, text);
    }
    let set = match with_topology_labels(pass, class, set) {
        Ok(set) => set,
        Err(text) => return (PlacementRule::Topology, text),
    };
    let hosts = template.overhead_groups.iter().filter(|g| g.rows.intersects(&within));
    let all_taken = !facts.ports.is_empty()
        && hosts.clone().next().is_some()
        && hosts.clone().all(|g| ports::first_conflict(&facts.ports, &g.ports).is_some());
    let (rule, text) = instance_type_filter_text(pass, facts, template, &within, set);
    (if all_taken { PlacementRule::HostPorts } else { rule }, text)
}

/// Returns the requirements of a new node with `required` added to `offered`, or a text that says
/// why they are not compatible. The new node has a placeholder as its hostname. The labels in
/// `must_exist` have to be defined in any case.
fn join_requirements(
    pass: &mut PlacementPass<'_>,
    offered: RequirementSetIx,
    required: RequirementSetIx,
    host: Option<&Requirement>,
    must_exist: &[KeyIx],
) -> Result<RequirementSetIx, String> {
    let table = &mut pass.state.table;
    let missing_key = must_exist.iter().find(|key| !table.is_well_known(**key) && table.get(offered, **key).is_none());
    let missing = missing_key.map(|key| Requirement::exists(table.key_text(*key).clone()));
    let excludes_new_host = host.is_some_and(|host| !host.has(UNNAMED_HOST));
    match table.intersect_sets(offered, required, UndefinedKeys::AllowWellKnown) {
        Some(set) if missing.is_none() && !excludes_new_host => return Ok(set),
        Some(_) | None => {}
    }
    let (mut offered, mut required) = (table.requirements(offered), table.requirements(required));
    offered.replace(Requirement::one_of(HOSTNAME, [Str::from(placeholder_hostname(claim_count(pass)))]));
    required.extend(host.cloned());
    if let Some(exists) = missing {
        required.replace(exists);
    }
    let rules = &pass.problem.cluster.label_rules;
    Err(offered.compatible(&required, Labels::AllowWellKnown(rules)).err().map_or_else(String::new, |e| e.to_string()))
}

/// Returns the set restricted to the topology domains that would be chosen first (spec 02 §6.7).
fn with_topology_labels(
    pass: &mut PlacementPass<'_>,
    class: ClassIx,
    set: RequirementSetIx,
) -> Result<RequirementSetIx, String> {
    let mut set = set;
    for key in pass.allowed_domains(class) {
        let label = pass.state.keys.label_key(key.key);
        let by_node = pass.state.table.get(set, label);
        let mut allowed = key.allowed;
        allowed.and_with(pass.state.keys.domains_accepted_by(key.key, by_node, &pass.state.table));
        let chosen =
            key.pick_one.and_then(|group| pass.domains_by_preference(key.key, group, &allowed).into_iter().next());
        let requirement =
            pass.state.keys.requirement_for_domains(key.key, &chosen.unwrap_or(allowed), &mut pass.state.table);
        let only = pass.state.table.single_requirement_set(label, requirement);
        set = join_requirements(pass, set, only, None, &[])?;
    }
    Ok(set)
}

/// Returns a text for the first topology constraint that no domain satisfies.
fn topology_rejection(
    pass: &mut PlacementPass<'_>,
    class: ClassIx,
    facts: &PodClass,
    set: RequirementSetIx,
) -> Option<String> {
    let domains = pass.allowed_domains(class);
    for key in &domains {
        let label = pass.state.keys.label_key(key.key);
        let by_node = pass.state.table.get(set, label);
        let mut allowed = key.allowed.clone();
        allowed.and_with(pass.state.keys.domains_accepted_by(key.key, by_node, &pass.state.table));
        if !allowed.is_empty() {
            continue;
        }
        let constraints = &facts.label_constraints.iter().find(|(k, _)| *k == key.key)?.1;
        let group = constraints.iter().map(|c| c.group).find(|g| !is_group_satisfiable(pass, class, *g, key.key, set));
        let group = group.or_else(|| constraints.first().map(|c| c.group))?;
        let text = |requirement: Option<crate::requirement_table::RequirementIx>| {
            requirement.map_or_else(
                || format!("{} Exists", pass.state.keys.text(key.key)),
                |o| pass.state.table.requirement(o).to_string(),
            )
        };
        return Some(format!(
            "unsatisfiable topology constraint for {}, key={} (counts = {}, podDomains = {}, nodeDomains = {}",
            pass.problem.groups[group.0].constraint_name(),
            pass.state.keys.text(key.key),
            counts_text(pass, group, key.key),
            text(pass.state.table.get(facts.strict_requirements, label)),
            text(by_node),
        ));
    }
    let violated = facts.host_constraints.iter().find(|constraint| {
        match pass.problem.groups[constraint.group.0].identity.kind {
            GroupKind::Spread { max_skew, .. } => i32::from(constraint.counts_self) > max_skew,
            GroupKind::Affinity => {
                !(constraint.counts_self && pass.state.group_counts[constraint.group.0].no_host_is_occupied())
            }
            GroupKind::AntiAffinity | GroupKind::InverseAntiAffinity => false,
        }
    })?;
    Some(format!(
        "unsatisfiable topology constraint for {}, key={HOSTNAME} (counts = {}, podDomains = {HOSTNAME} Exists, nodeDomains = \
         {HOSTNAME} In [{}]",
        pass.problem.groups[violated.group.0].constraint_name(),
        hosts_text(pass, violated.group),
        placeholder_hostname(claim_count(pass)),
    ))
}

/// Returns the number of claims that the pass has opened, from the placements of its pods. The
/// claims themselves may have been moved out of the state already.
fn claim_count(pass: &PlacementPass<'_>) -> usize {
    let targets = pass.state.queue.iter().filter_map(|pod| pass.state.placements[pod.0 as usize]);
    let opened = targets.filter_map(|target| match target {
        PlacementTarget::Claim(claim) => Some(claim + 1),
        PlacementTarget::Node(_) => None,
    });
    opened.max().unwrap_or(0)
}

/// Returns the placeholder hostname of a node that does not exist yet.
fn placeholder_hostname(claim: usize) -> String {
    format!("hostname-placeholder-{:04}", claim + 1)
}

/// Returns the number of matching pods per host: of nodes that accept pods, of nodes that are being
/// removed and still have some, and of new claims.
fn hosts_text(pass: &PlacementPass<'_>, group: crate::topology::GroupIx) -> String {
    let counts = &pass.state.group_counts[group.0];
    let nodes = pass.problem.cluster.nodes.iter().enumerate();
    let is_removed = |node: usize| {
        pass.state.removed_nodes.contains(node) || pass.problem.cluster.nodes[node].is_marked_for_deletion
    };
    let on_nodes = nodes.map(|(ix, node)| (Cow::from(node.hostname.as_str()), counts.nodes.get(ix), is_removed(ix)));
    let on_nodes =
        on_nodes.filter(|(_, count, is_removed)| *count > 0 || !is_removed).map(|(name, count, _)| (name, count));
    let on_claims =
        (0..claim_count(pass)).map(|claim| (Cow::from(placeholder_hostname(claim)), counts.claims.get(claim)));
    format_counts(on_nodes.chain(on_claims).collect())
}

fn is_group_satisfiable(
    pass: &mut PlacementPass<'_>,
    class: ClassIx,
    group: crate::topology::GroupIx,
    key: TopologyKeyIx,
    set: RequirementSetIx,
) -> bool {
    let label = pass.state.keys.label_key(key);
    let by_node = pass.state.table.get(set, label);
    let accepted = pass.state.keys.domains_accepted_by(key, by_node, &pass.state.table).clone();
    pass.domains_allowed_by_group(class, key, group).is_some_and(|allowed| allowed.intersects(&accepted))
}

fn counts_text(pass: &PlacementPass<'_>, group: crate::topology::GroupIx, key: TopologyKeyIx) -> String {
    let counts = &pass.state.group_counts[group.0];
    let count_of = |domain: usize| (Cow::from(pass.state.keys.domain_text(key, domain).as_str()), counts.get(domain));
    format_counts(pass.known_domains(group).iter().map(count_of).collect())
}

/// Returns `a: 1, b: 0`, sorted, with at most 25 entries.
fn format_counts(mut all: Vec<(Cow<'_, str>, i32)>) -> String {
    let more = all.len().saturating_sub(MAX_LISTED_DOMAINS);
    if more > 0 {
        // There can be thousands of hosts, and this runs in each of many simulations. So only the
        // listed entries are sorted.
        all.select_nth_unstable(MAX_LISTED_DOMAINS);
        all.truncate(MAX_LISTED_DOMAINS);
    }
    all.sort_unstable();
    let shown: Vec<String> = all.iter().map(|(domain, count)| format!("{domain}: {count}")).collect();
    if more == 0 { shown.join(", ") } else { format!("{} and {more} other(s)", shown.join(", ")) }
}

/// Returns the diagnostic of spec 02 §7.2: which of requirements, resources and offerings no
/// instance type satisfies.
fn instance_type_filter_text(
    pass: &mut PlacementPass<'_>,
    facts: &PodClass,
    template: &Template,
    within: &Bits,
    set: RequirementSetIx,
) -> (PlacementRule, String) {
    let view = pass.view(template.catalogue, set).clone();
    let catalogue = &pass.problem.cluster.catalogues[template.catalogue];
    let mut rows = within.clone();
    for group in &template.overhead_groups {
        if !facts.ports.is_empty() && ports::first_conflict(&facts.ports, &group.ports).is_some() {
            rows.and_not_with(&group.rows);
        }
    }
    let with_offering: Bits = view.offerings.iter().map(|o| catalogue.offerings[o].row).collect();
    let mut fitting = rows.clone();
    template.fit.keep_fitting(&mut fitting, &facts.requests);
    fitting.and_with(&with_offering);
    let mut kept = fitting.clone();
    kept.and_with(&view.compatible);
    let any = |predicate: &dyn Fn(usize) -> bool| rows.iter().any(predicate);
    let (any_compatible, any_offered, any_fitting) =
        (any(&|r| view.compatible.contains(r)), any(&|r| with_offering.contains(r)), any(&|r| fitting.contains(r)));
    let resources = resources_text(pass, facts, template, &rows);
    let requirements = pass.state.table.requirements(set).to_string();
    let shortfalls = min_values::shortfalls(catalogue, &kept, set, Some(&view.offerings), &pass.state.table);
    if !shortfalls.is_empty() {
        let text = min_values_text(&shortfalls.into_iter().map(|s| s.key).collect::<Vec<_>>());
        return (PlacementRule::MinValues, format!("{text}, requirements={requirements}, resources={resources}"));
    }
    let fits_but_incompatible = any(&|r| fitting.contains(r) && !view.compatible.contains(r));
    let compatible_but_too_small =
        any(&|r| view.compatible.contains(r) && with_offering.contains(r) && !fitting.contains(r));
    let message = match (any_compatible, any_fitting, any_offered) {
        (false, false, false) => {
            "no instance type met the scheduling requirements or had enough resources or had a required offering"
        }
        (false, false, true) => "no instance type met the scheduling requirements or had enough resources",
        (false, true, false) => "no instance type met the scheduling requirements or had a required offering",
        (true, false, false) => "no instance type had enough resources or had a required offering",
        (false, true, true) => "no instance type met all requirements",
        (true, false, true) => "no instance type has enough resources",
        (true, true, false) => "no instance type has the required offering",
        (true, true, true) if fits_but_incompatible => {
            "no instance type which had enough resources and the required offering met the scheduling requirements"
        }
        (true, true, true) if compatible_but_too_small => {
            "no instance type which met the scheduling requirements and the required offering had the required resources"
        }
        (true, true, true) => "no instance type met the requirements/resources/offering tuple",
    };
    let is_huge = any_compatible
        && !any_fitting
        && any_offered
        && facts.requests.get(ResourceIx::CPU) >= 1_000_000 * NANOS_PER_UNIT;
    let typo = if is_huge { " (CPU request >= 1 Million, m vs M typo?)" } else { "" };
    (PlacementRule::InstanceTypes, format!("{message}, requirements={requirements}, resources={resources}{typo}"))
}

fn resources_text(pass: &PlacementPass<'_>, facts: &PodClass, template: &Template, rows: &Bits) -> String {
    let names = &pass.problem.cluster.resource_names;
    let overheads: Vec<&Amounts> = template
        .overhead_groups
        .iter()
        .filter(|g| g.rows.intersects(rows) && g.requests != Amounts::default())
        .map(|g| &g.requests)
        .collect();
    let total = |overhead: Option<&Amounts>| {
        let amounts = overhead.map_or_else(|| facts.requests.clone(), |o| facts.requests.plus(o));
        resources_json(&names.to_resource_list(&amounts))
    };
    let (mut min, mut max) = (overheads.first().map(|a| (*a).clone()), overheads.first().map(|a| (*a).clone()));
    for overhead in overheads.iter().skip(1) {
        if let (Some(min), Some(max)) = (&mut min, &mut max) {
            min.min_with(overhead);
            max.max_with(overhead);
        }
    }
    let (min, max) = (total(min.as_ref()), total(max.as_ref()));
    if min == max { min } else { format!("min={min}, max={max}") }
}

/// Returns `{"cpu":"1","pods":"1"}` with sorted keys.
fn resources_json(list: &ResourceList) -> String {
    let parts: Vec<String> = list.iter().map(|(name, quantity)| format!("\"{name}\":\"{quantity}\"")).collect();
    format!("{{{}}}", parts.join(","))
}
