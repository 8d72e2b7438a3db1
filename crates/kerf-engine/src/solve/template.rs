//! Pool templates, from which new claims start (spec 02 §5.3 and §5.4), including the overhead of
//! the daemons that will run on the node.

use kerf_api::labels::{self, LabelRules};
use kerf_api::slim::{HostPort, Labels, Str, Taint};

use super::limits::LimitedRows;
use crate::bits::Bits;
use crate::catalogue::{CompiledCatalogue, FitIndex};
use crate::cluster::{ClusterModel, PoolAvailability, PoolInput};
use crate::pod::requirements::expression_requirement;
use crate::requirement::{Requirement, Requirements};
use crate::requirement_table::{RequirementSetIx, RequirementTable};
use crate::resources::{Amounts, NANOS_PER_UNIT, ResourceIx};

/// A pool that can launch nodes.
#[derive(Debug, Clone)]
pub(crate) struct Template {
    pub(crate) name: Str,
    pub(crate) catalogue: usize,
    /// Labels of the pool's nodes.
    pub(crate) labels: Labels,
    /// Labels and requirements of the pool, plus `karpenter.sh/registered` and
    /// `karpenter.sh/initialized`, which only daemons select.
    pub(crate) requirements: RequirementSetIx,
    pub(crate) taints: Vec<Taint>,
    /// Rows that satisfy the pool's requirements.
    pub(crate) rows: Bits,
    pub(crate) fit: FitIndex,
    /// Rows grouped by the daemons that run on them.
    pub(crate) overhead_groups: Vec<OverheadGroup>,
    /// Remaining amount of each limited resource, in nano-units.
    pub(crate) limits: Vec<(ResourceIx, i128)>,
    /// Rows by what they take from the limits.
    pub(crate) limited_rows: LimitedRows,
}

/// Rows on which an equal set of daemons runs, with the daemons' total requests and host ports.
#[derive(Debug, Clone)]
pub(crate) struct OverheadGroup {
    pub(crate) rows: Bits,
    pub(crate) requests: Amounts,
    pub(crate) ports: Vec<HostPort>,
}

/// Returns the indices of ready pools in the order in which they are tried: highest weight first,
/// equal weights by name in descending order.
pub(crate) fn pools_in_order(pools: &[PoolInput]) -> Vec<usize> {
    let mut order: Vec<usize> =
        (0..pools.len()).filter(|i| pools[*i].availability == PoolAvailability::Ready).collect();
    order.sort_by(|a, b| {
        let (a, b) = (&pools[*a], &pools[*b]);
        b.weight.cmp(&a.weight).then_with(|| b.name.cmp(&a.name))
    });
    order
}

/// Returns the pool's labels and requirements as one set.
pub(crate) fn pool_requirement_set(
    pool: &PoolInput,
    rules: &LabelRules,
    table: &mut RequirementTable,
) -> RequirementSetIx {
    let mut all: Requirements = pool
        .requirements
        .iter()
        .map(|r| expression_requirement(&r.expression, rules).with_min_values(r.min_values))
        .collect();
    for (key, value) in pool.labels.iter() {
        all.add(Requirement::from_label(rules, key, value));
    }
    for key in [labels::REGISTERED, labels::INITIALIZED] {
        all.add(Requirement::one_of(key, [Str::new_static("true")]));
    }
    table.intern(&all)
}

impl Template {
    pub(crate) fn new(
        cluster: &ClusterModel,
        pool_ix: usize,
        requirements: RequirementSetIx,
        rows: Bits,
        table: &mut RequirementTable,
    ) -> Option<Self> {
        let pool = &cluster.pools[pool_ix];
        let catalogue_ix = pool.catalogue?;
        let catalogue = &cluster.catalogues[catalogue_ix];
        let overhead_groups = overhead_groups(cluster, catalogue, requirements, &pool.taints, table);
        let mut allocatable: Vec<Amounts> = catalogue.rows.iter().map(|r| r.allocatable.clone()).collect();
        for group in &overhead_groups {
            for row in group.rows.iter() {
                // A row with a negative amount stays negative, so no pod fits it.
                allocatable[row].sub(&group.requests);
            }
        }
        Some(Self {
            name: pool.name.clone(),
            labels: pool.labels.clone(),
            catalogue: catalogue_ix,
            requirements,
            taints: pool.taints.clone(),
            rows,
            fit: FitIndex::new(&allocatable),
            overhead_groups,
            limits: remaining_limits(cluster, pool),
            limited_rows: LimitedRows::new(catalogue, &spec_limits(cluster, pool)),
        })
    }

    /// Keeps the rows whose capacity does not exceed the remaining limits, which are in the order of
    /// the template's.
    pub(crate) fn keep_within_limits(&self, rows: &mut Bits, limits: &[(ResourceIx, i128)]) {
        self.limited_rows.keep_within(rows, limits.iter().map(|(_, remaining)| *remaining));
    }

    /// Returns the element-wise minimum of the daemon overheads of these rows (spec 02 §6.8).
    pub(crate) fn least_overhead(&self, rows: &Bits) -> Amounts {
        let mut groups = self.overhead_groups.iter().filter(|g| g.rows.intersects(rows));
        let Some(first) = groups.next() else { return Amounts::default() };
        let mut minimum = first.requests.clone();
        for group in groups {
            minimum.min_with(&group.requests);
        }
        minimum
    }
}

fn overhead_groups(
    cluster: &ClusterModel,
    catalogue: &CompiledCatalogue,
    requirements: RequirementSetIx,
    taints: &[Taint],
    table: &mut RequirementTable,
) -> Vec<OverheadGroup> {
    let mut daemons_by_group: Vec<Bits> = Vec::new();
    let mut groups: Vec<OverheadGroup> = Vec::new();
    let daemons_by_type: Vec<Bits> = catalogue
        .types
        .iter()
        .map(|t| {
            (0..cluster.daemons.len())
                .filter(|d| {
                    let daemon = &cluster.daemons[*d];
                    !(cluster.settings.ignore_dra && daemon.needs_devices)
                        && daemon.runs_on_type(requirements, taints, t.requirements, table)
                })
                .collect()
        })
        .collect();
    for (row_ix, row) in catalogue.rows.iter().enumerate() {
        let daemons = &daemons_by_type[row.type_ix];
        let group_ix = daemons_by_group.iter().position(|k| k == daemons).unwrap_or_else(|| {
            let mut requests = Amounts::default();
            let mut ports = Vec::new();
            for daemon in daemons.iter().map(|d| &cluster.daemons[d]) {
                requests.add(&daemon.requests);
                ports.extend(daemon.ports.iter().cloned());
            }
            daemons_by_group.push(daemons.clone());
            groups.push(OverheadGroup { rows: Bits::new(), requests, ports });
            groups.len() - 1
        });
        groups[group_ix].rows.insert(row_ix);
    }
    groups
}

/// Returns the limits of the pool's spec. A resource that the cluster does not know yet gets an
/// index that no instance type uses.
fn spec_limits(cluster: &ClusterModel, pool: &PoolInput) -> Vec<(ResourceIx, i128)> {
    let mut names = cluster.resource_names.clone();
    pool.limits.iter().map(|(name, q)| (names.intern(name), q.nanos())).collect()
}

/// Returns the pool's limits less the capacity of its nodes (spec 02 §4.6).
fn remaining_limits(cluster: &ClusterModel, pool: &PoolInput) -> Vec<(ResourceIx, i128)> {
    let mut limits = spec_limits(cluster, pool);
    for node in cluster.nodes.iter().filter(|n| !n.is_marked_for_deletion && n.pool.as_ref() == Some(&pool.name)) {
        for (resource, remaining) in &mut limits {
            *remaining -= if *resource == ResourceIx::NODES { NANOS_PER_UNIT } else { node.capacity.get(*resource) };
        }
    }
    limits
}
