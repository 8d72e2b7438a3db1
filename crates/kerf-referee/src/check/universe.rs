//! The domains that pools could offer, whether or not a node is there: a spread must count them as empty (spec 02 §8.2).

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::core::v1::{Pod, Taint};

use crate::catalogue::Catalogue;
use crate::taints::tolerates;
use crate::world::{Pool, World};

/// For each label and value the taints of the pools that offer it.
#[derive(Debug, Clone, Default)]
pub(crate) struct Universe {
    domains: BTreeMap<String, BTreeMap<String, Vec<Vec<Taint>>>>,
}

impl Universe {
    pub(crate) fn of(world: &World, catalogue: &Catalogue) -> Self {
        let mut universe = Self::default();
        for pool in world.pools.iter().filter(|pool| pool.usable && !catalogue.is_empty()) {
            for (key, values) in catalogue.values().flat_map(|instance_type| &instance_type.values) {
                for value in values.iter().filter(|value| allows(pool, key, value)) {
                    universe.add(key, value, pool);
                }
            }
            let required = pool.requirements.iter().filter(|requirement| requirement.operator == "In");
            for (key, value) in required.flat_map(|r| r.values.iter().map(|value| (&r.key, value))) {
                if allows(pool, key, value) {
                    universe.add(key, value, pool);
                }
            }
            for (key, value) in &pool.labels {
                universe.add(key, value, pool);
            }
        }
        universe
    }

    /// The domains of a key; if taints matter, those alone for which the pod tolerates a pool that offers them.
    pub(crate) fn domains(&self, key: &str, pod: &Pod, honour_taints: bool) -> BTreeSet<String> {
        let welcome =
            |pools: &Vec<Vec<Taint>>| pools.iter().any(|taints| taints.iter().all(|taint| tolerates(pod, taint)));
        let domains = self.domains.get(key).into_iter().flatten();
        domains.filter(|(_, pools)| !honour_taints || welcome(pools)).map(|(domain, _)| domain.clone()).collect()
    }

    fn add(&mut self, key: &str, value: &str, pool: &Pool) {
        let pools = self.domains.entry(key.to_owned()).or_default().entry(value.to_owned()).or_default();
        if !pools.contains(&pool.taints) {
            pools.push(pool.taints.clone());
        }
    }
}

fn allows(pool: &Pool, key: &str, value: &str) -> bool {
    let demands = pool.requirements.iter().filter(|requirement| requirement.key == key);
    demands.into_iter().all(|demand| demand.allows(Some(value)))
        && pool.labels.get(key).is_none_or(|label| label == value)
}
