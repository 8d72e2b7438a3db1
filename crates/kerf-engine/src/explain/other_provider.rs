//! NodePools of other providers: which pods they might serve, and how a message mentions them.
//!
//! Their instance types are not known. So a pool of another provider might serve every pod that
//! tolerates its taints and requires no label that its nodes cannot have.

use std::fmt;

use kerf_api::slim::{Str, Taint, Toleration};

use crate::cluster::{ClusterModel, PoolAvailability, PoolInput};
use crate::pod::requirements::{NodeRequirements, expression_requirement};
use crate::pod::tolerations::tolerates;
use crate::requirement::{Requirement, Requirements, UndefinedLabels};

/// The NodePools whose node classes belong to one API group that Kerf does not serve.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OtherProviderPools {
    /// API group of their node classes, for example `eks.amazonaws.com`.
    pub group: Str,
    /// Number of NodePools.
    pub pools: usize,
}

impl fmt::Display for OtherProviderPools {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let plural = if self.pools == 1 { "" } else { "s" };
        write!(f, "{} NodePool{plural} of {}", self.pools, self.group)
    }
}

/// Returns the pools of other providers, by API group.
pub(crate) fn other_provider_pools(pools: &[PoolInput]) -> Vec<OtherProviderPools> {
    let mut groups: Vec<&Str> = pools.iter().filter_map(group_of_other_provider).collect();
    groups.sort_unstable();
    groups
        .chunk_by(|a, b| a == b)
        .map(|equal| OtherProviderPools { group: equal[0].clone(), pools: equal.len() })
        .collect()
}

/// Returns true if a pool of another provider might serve a pod with these alternative requirements
/// and these tolerations.
pub(crate) fn may_be_served(cluster: &ClusterModel, pod: &[NodeRequirements], tolerations: &[Toleration]) -> bool {
    cluster.pools.iter().any(|pool| {
        group_of_other_provider(pool).is_some_and(|group| {
            let is_tolerated = |taint: &Taint| tolerates(tolerations, taint);
            pool.taints.iter().all(is_tolerated) && pod.iter().any(|required| accepts(cluster, pool, group, required))
        })
    })
}

/// Returns true if nodes of the pool may have the required labels. Labels of the provider's own
/// domain count as defined.
fn accepts(cluster: &ClusterModel, pool: &PoolInput, group: &str, required: &NodeRequirements) -> bool {
    let rules = &cluster.label_rules;
    let mut offered: Requirements =
        pool.requirements.iter().map(|requirement| expression_requirement(&requirement.expression, rules)).collect();
    for (key, value) in pool.labels.iter() {
        offered.add(Requirement::from_label(rules, key, value));
    }
    let is_own_label = |key: &str| {
        let domain = key.split_once('/').map_or("", |(domain, _)| domain);
        domain == group || domain.strip_suffix(group).is_some_and(|prefix| prefix.ends_with('.'))
    };
    let is_checked = |requirement: &&Requirement| {
        offered.get(requirement.key()).is_some() || !is_own_label(requirement.key())
    };
    let checked: Requirements = required.labels.iter().filter(is_checked).cloned().collect();
    required.hostname.is_none() && offered.compatible(&checked, UndefinedLabels::AllowWellKnown(rules)).is_ok()
}

/// Returns the API group of the pool's node class, if another controller serves it.
pub(crate) fn group_of_other_provider(pool: &PoolInput) -> Option<&Str> {
    match &pool.availability {
        PoolAvailability::OtherProvider(group) => Some(group),
        PoolAvailability::Ready
        | PoolAvailability::Static
        | PoolAvailability::NotReady(_)
        | PoolAvailability::AwaitingLaunch(_)
        | PoolAvailability::Deleting => None,
    }
}
