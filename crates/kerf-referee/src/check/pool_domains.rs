//! The domains that pools could offer, whether or not a node exists. A topology spread counts them
//! as empty domains (spec 02 §8.2).

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::core::v1::{Pod, Taint};

use crate::catalogue::Catalogue;
use crate::manifests::{ClusterManifests, Pool};
use crate::taints::{prevents_scheduling, tolerates};

/// Which taints of pools and nodes a spread constraint honours.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TaintPolicy {
    /// All domains count, whatever the taints.
    Ignore,
    /// The pod must tolerate all taints, `PreferNoSchedule` included.
    HonourAll,
    /// The pod must tolerate taints that prevent scheduling. It has accepted `PreferNoSchedule`
    /// taints (spec 02 §6.4, step 6).
    HonourScheduling,
}

/// For each label and value, the taints of each pool that offers it.
#[derive(Debug, Clone, Default)]
pub(crate) struct PoolDomains {
    domains: BTreeMap<String, BTreeMap<String, Vec<Vec<Taint>>>>,
}

impl PoolDomains {
    pub(crate) fn of(cluster: &ClusterManifests, catalogue: &Catalogue) -> Self {
        let mut domains_of_pools = Self::default();
        for pool in cluster.pools.iter().filter(|pool| pool.is_usable && !catalogue.is_empty()) {
            for (key, values) in catalogue.values().flat_map(|instance_type| &instance_type.values) {
                for value in values.iter().filter(|value| pool_allows(pool, key, value)) {
                    domains_of_pools.add(key, value, pool);
                }
            }
            let required = pool.requirements.iter().filter(|requirement| requirement.operator == "In");
            for (key, value) in required.flat_map(|r| r.values.iter().map(|value| (&r.key, value))) {
                if pool_allows(pool, key, value) {
                    domains_of_pools.add(key, value, pool);
                }
            }
            for (key, value) in &pool.labels {
                domains_of_pools.add(key, value, pool);
            }
        }
        domains_of_pools
    }

    /// Returns the domains of a key that at least one pool offers whose taints the pod accepts.
    pub(crate) fn domains(&self, key: &str, pod: &Pod, taint_policy: TaintPolicy) -> BTreeSet<String> {
        let accepts = |taint: &Taint| match taint_policy {
            TaintPolicy::Ignore => true,
            TaintPolicy::HonourAll => tolerates(pod, taint),
            TaintPolicy::HonourScheduling => !prevents_scheduling(taint) || tolerates(pod, taint),
        };
        let any_pool_accepted = |pools: &Vec<Vec<Taint>>| pools.iter().any(|taints| taints.iter().all(accepts));
        let domains = self.domains.get(key).into_iter().flatten();
        domains.filter(|(_, pools)| any_pool_accepted(pools)).map(|(domain, _)| domain.clone()).collect()
    }

    fn add(&mut self, key: &str, value: &str, pool: &Pool) {
        let pools = self.domains.entry(key.to_owned()).or_default().entry(value.to_owned()).or_default();
        if !pools.contains(&pool.taints) {
            pools.push(pool.taints.clone());
        }
    }
}

fn pool_allows(pool: &Pool, key: &str, value: &str) -> bool {
    let requirements = pool.requirements.iter().filter(|requirement| requirement.key == key);
    requirements.into_iter().all(|requirement| requirement.allows(Some(value)))
        && pool.labels.get(key).is_none_or(|label| label == value)
}
