//! The funnel: how the rules reduce the instance types of each NodePool for one pod, as in `812
//! types → 41 after arch → 6 after zone → 0 fit 200 CPU`.
//!
//! It always assumes a new node and a pod that has given up all its preferences. If the pod was
//! placed, the funnel shows it as if it were the only pod to place. If not, all other pods are
//! placed first.

use std::fmt;

use kerf_api::quantity::Quantity;
use kerf_api::slim::Str;

use crate::bits::Bits;
use crate::cluster::{Input, Settings, ports};
use crate::pod::tolerations::{taint_text, tolerates};
use crate::requirement_table::{KeyIx, RequirementIx, RequirementSetIx, UndefinedKeys};
use crate::resources::{Amounts, ResourceIx};
use crate::solve::{ClassIx, PlacementPass, SchedulingProblem, Template, limits, min_values};

/// The instance types of each NodePool for a pod, in the order in which pools are tried.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Funnel {
    /// The pod as `namespace/name`.
    pub(crate) pod: Str,
    /// One entry for each NodePool that accepts pods and has instance types.
    pub(crate) pools: Vec<PoolFunnel>,
}

/// The funnel of one NodePool.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PoolFunnel {
    /// Name of the NodePool.
    pub(crate) pool: Str,
    /// Number of instance types that the pool's own requirements leave.
    pub(crate) types: usize,
    /// The rules that excluded types, up to the one that excluded the last.
    pub(crate) steps: Vec<FunnelStep>,
}

/// A rule that excluded instance types.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct FunnelStep {
    /// The rule that excluded types.
    pub(crate) rule: FunnelRule,
    /// Number of instance types that remain after the rule.
    pub(crate) types_left: usize,
}

/// A rule that can exclude instance types.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum FunnelRule {
    /// The limits of the NodePool.
    Limits,
    /// A taint that the pod does not tolerate, as `key=value:effect`.
    Taint(String),
    /// A requirement of the pod or its volumes on this label.
    Label(Str),
    /// A spread, affinity or anti-affinity constraint on this label.
    Topology(Str),
    /// No available offering is compatible.
    Offering,
    /// A daemon uses a host port of the pod.
    HostPorts,
    /// Too little of a resource remains after daemons.
    Resource {
        /// Name of the resource.
        name: Str,
        /// Amount that the pod requests.
        amount: Quantity,
    },
    /// Too few values of these labels would remain for the pool's `minValues`.
    MinValues(Vec<Str>),
}

impl fmt::Display for FunnelStep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ", self.types_left)?;
        match &self.rule {
            FunnelRule::Limits => f.write_str("within limits"),
            FunnelRule::Taint(taint) => write!(f, "after taint {taint}"),
            FunnelRule::Label(key) => write!(f, "after {}", label_short_name(key)),
            FunnelRule::Topology(key) => write!(f, "after topology of {}", label_short_name(key)),
            FunnelRule::Offering => f.write_str("on offer"),
            FunnelRule::HostPorts => f.write_str("with host ports free"),
            FunnelRule::Resource { name, amount } if name == "cpu" => write!(f, "fit {amount} CPU"),
            FunnelRule::Resource { name, amount } => write!(f, "fit {amount} {name}"),
            FunnelRule::MinValues(keys) => {
                let keys: Vec<&str> = keys.iter().map(|key| label_short_name(key)).collect();
                write!(f, "after minValues of {}", keys.join(", "))
            }
        }
    }
}

impl fmt::Display for PoolFunnel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} types", self.types)?;
        self.steps.iter().try_for_each(|step| write!(f, " → {step}"))
    }
}

impl fmt::Display for Funnel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, pool) in self.pools.iter().enumerate() {
            write!(f, "{}{}: {pool}", if i == 0 { "" } else { "\n" }, pool.pool)?;
        }
        Ok(())
    }
}

/// Returns the name of a label without its domain.
fn label_short_name(key: &str) -> &str {
    key.rsplit_once('/').map_or(key, |(_, name)| name)
}

/// Returns how the rules reduce the instance types of each NodePool for this pod, given as
/// `namespace/name`. Returns `None` if a scheduling pass would not place such a pod.
///
/// Places all pods of the input once, so it costs as much as first fit.
pub(crate) fn funnel(input: &Input, settings: &Settings, pod: &str) -> Option<Funnel> {
    let (problem, state) = SchedulingProblem::new(input, settings);
    let ix = problem.pods.iter().position(|p| p.name == pod)?;
    let mut pass = PlacementPass::new(&problem, state);
    pass.run(&problem.queue());
    if pass.state.placements[ix].is_some() {
        pass.state.roll_back();
    }
    let class = problem.most_relaxed(problem.pods[ix].class);
    let pools = (0..problem.templates.len()).map(|ix| FunnelBuilder::new(&mut pass, class, ix).run()).collect();
    Some(Funnel { pod: Str::new(pod), pools })
}

/// The rows of one NodePool while the rules are applied.
struct FunnelBuilder<'s, 'p> {
    pass: &'s mut PlacementPass<'p>,
    class: ClassIx,
    template_ix: usize,
    rows: Bits,
    set: RequirementSetIx,
    steps: Vec<FunnelStep>,
}

impl<'s, 'p> FunnelBuilder<'s, 'p> {
    fn new(pass: &'s mut PlacementPass<'p>, class: ClassIx, ix: usize) -> Self {
        let template = &pass.problem.templates[ix];
        Self {
            rows: template.rows.clone(),
            set: template.requirements,
            steps: Vec::new(),
            pass,
            class,
            template_ix: ix,
        }
    }

    fn run(mut self) -> PoolFunnel {
        let template = self.template();
        let (pool, types) = (template.name.clone(), self.type_count());
        for rule in [
            Self::limits,
            Self::taints,
            Self::labels,
            Self::topology,
            Self::offerings,
            Self::ports,
            Self::resources,
            Self::min_values,
        ] {
            if !self.rows.is_empty() {
                rule(&mut self);
            }
        }
        PoolFunnel { pool, types, steps: self.steps }
    }

    fn template(&self) -> &'p Template {
        &self.pass.problem.templates[self.template_ix]
    }

    /// Returns the number of distinct instance types among the rows.
    fn type_count(&self) -> usize {
        let catalogue = &self.pass.problem.cluster.catalogues[self.template().catalogue];
        self.rows.iter().map(|row| catalogue.rows[row].type_ix).collect::<Bits>().iter().count()
    }

    /// Keeps these rows. Records the rule if it excluded a type.
    fn keep_rows(&mut self, rows: Bits, rule: impl FnOnce() -> FunnelRule) {
        let before = self.type_count();
        self.rows = rows;
        let left = self.type_count();
        if left < before {
            self.steps.push(FunnelStep { rule: rule(), types_left: left });
        }
    }

    fn limits(&mut self) {
        let limits = &self.pass.state.limits[self.template_ix];
        let mut rows = if limits::is_node_limit_reached(limits) { Bits::new() } else { self.rows.clone() };
        self.template().keep_within_limits(&mut rows, limits);
        self.keep_rows(rows, || FunnelRule::Limits);
    }

    fn taints(&mut self) {
        let facts = &self.pass.problem.classes[self.class.0 as usize];
        let untolerated = self.template().taints.iter().find(|taint| !tolerates(&facts.tolerations, taint));
        if let Some(taint) = untolerated {
            self.keep_rows(Bits::new(), || FunnelRule::Taint(taint_text(taint)));
        }
    }

    /// Applies the requirements of the pod and its volumes label by label, sorted by key.
    fn labels(&mut self) {
        let facts = &self.pass.problem.classes[self.class.0 as usize];
        let unnamed = crate::solve::UNNAMED_HOST;
        let excludes_new_hosts =
            |host: &Option<crate::requirement::Requirement>| host.as_ref().is_some_and(|h| !h.has(unnamed));
        let table = &mut self.pass.state.table;
        let mut compatible = facts.volume_alternatives.iter().filter(|(set, host)| {
            !excludes_new_hosts(host)
                && table.intersect_sets(facts.requirements, *set, UndefinedKeys::AllowWellKnown).is_some()
        });
        let volume = compatible.next().or(facts.volume_alternatives.last());
        if excludes_new_hosts(&facts.hostname) || volume.is_some_and(|(_, host)| excludes_new_hosts(host)) {
            return self.keep_rows(Bits::new(), || FunnelRule::Label(Str::new_static(kerf_api::labels::HOSTNAME)));
        }
        let sets = [Some(facts.requirements), volume.map(|v| v.0)];
        let mut required: Vec<(Str, KeyIx, RequirementIx)> = sets
            .into_iter()
            .flatten()
            .flat_map(|set| self.pass.state.table.pairs(set).to_vec())
            .map(|(key, requirement)| (self.pass.state.table.key_text(key).clone(), key, requirement))
            .collect();
        required.sort();
        for (text, key, requirement) in required {
            if self.rows.is_empty() {
                return;
            }
            let rows = self.with_label(key, requirement);
            self.keep_rows(rows, || FunnelRule::Label(text));
        }
    }

    /// Restricts the label and returns the rows that remain.
    fn with_label(&mut self, key: KeyIx, requirement: RequirementIx) -> Bits {
        let table = &mut self.pass.state.table;
        let only = table.single_requirement_set(key, requirement);
        let Some(set) = table.intersect_sets(self.set, only, UndefinedKeys::AllowWellKnown) else { return Bits::new() };
        self.set = set;
        let catalogue = &self.pass.problem.cluster.catalogues[self.pass.problem.templates[self.template_ix].catalogue];
        let required = table.get(set, key);
        self.rows
            .iter()
            .filter(|row| {
                match (table.get(catalogue.types[catalogue.rows[*row].type_ix].requirements, key), required) {
                    (Some(declared), Some(required)) => table.intersect_requirements(declared, required).1,
                    (None, _) | (_, None) => true,
                }
            })
            .collect()
    }

    fn topology(&mut self) {
        for key in self.pass.allowed_domains(self.class) {
            if self.rows.is_empty() {
                return;
            }
            let label = self.pass.state.keys.label_key(key.key);
            let text = self.pass.state.keys.text(key.key).clone();
            let current = self.pass.state.table.get(self.set, label);
            let mut allowed = key.allowed;
            allowed.and_with(self.pass.state.keys.domains_accepted_by(key.key, current, &self.pass.state.table));
            let rows = if allowed.is_empty() {
                Bits::new()
            } else {
                let requirement =
                    self.pass.state.keys.requirement_for_domains(key.key, &allowed, &mut self.pass.state.table);
                self.with_label(label, requirement)
            };
            self.keep_rows(rows, || FunnelRule::Topology(text));
        }
        if !self.pass.is_new_host_allowed(&self.pass.problem.classes[self.class.0 as usize]) {
            self.keep_rows(Bits::new(), || FunnelRule::Topology(Str::new_static(kerf_api::labels::HOSTNAME)));
        }
    }

    fn offerings(&mut self) {
        let mut rows = self.rows.clone();
        rows.and_with(&self.pass.view(self.template().catalogue, self.set).rows);
        self.keep_rows(rows, || FunnelRule::Offering);
    }

    fn ports(&mut self) {
        let wanted = &self.pass.problem.classes[self.class.0 as usize].ports;
        let mut rows = self.rows.clone();
        for group in &self.template().overhead_groups {
            if ports::first_conflict(wanted, &group.ports).is_some() {
                rows.and_not_with(&group.rows);
            }
        }
        self.keep_rows(rows, || FunnelRule::HostPorts);
    }

    /// Applies each requested resource by itself, CPU first.
    fn resources(&mut self) {
        let problem = self.pass.problem;
        let requests = &problem.classes[self.class.0 as usize].requests;
        for (resource, amount) in requests.iter() {
            let mut only = Amounts::default();
            only.set(resource, amount);
            let mut rows = self.rows.clone();
            self.template().fit.keep_fitting(&mut rows, &only);
            self.keep_rows(rows, || resource_rule(problem, resource, &only));
            if self.rows.is_empty() {
                return;
            }
        }
    }

    fn min_values(&mut self) {
        let catalogue = &self.pass.problem.cluster.catalogues[self.template().catalogue];
        let offerings = self.pass.view(self.template().catalogue, self.set).offerings.clone();
        let shortfalls =
            min_values::shortfalls(catalogue, &self.rows, self.set, Some(&offerings), &self.pass.state.table);
        if !shortfalls.is_empty() {
            self.keep_rows(Bits::new(), || FunnelRule::MinValues(shortfalls.into_iter().map(|s| s.key).collect()));
        }
    }
}

fn resource_rule(problem: &SchedulingProblem, resource: ResourceIx, amounts: &Amounts) -> FunnelRule {
    let name = problem.cluster.resource_names.name(resource).clone();
    let amount = problem.cluster.resource_names.to_resource_list(amounts).get(&name).unwrap_or_default();
    FunnelRule::Resource { name, amount }
}

#[cfg(test)]
mod tests;
