//! NodePools: weights, requirements, labels, taints, limits, `minValues`. The first pool has fewer
//! restrictions than the others.

use serde_json::{Map, Value, json};

use super::instance_types::InstanceTypeSpec;
use super::{ClusterDraft, set_unless_empty};

/// A label that nodes get from a pool's requirements.
pub(super) const TIER: &str = "example.com/tier";
/// A label that nodes get from a pool's template.
pub(super) const TEAM: &str = "example.com/team";

/// The properties of a pool that other parts of the generator need.
#[derive(Debug, Clone, Default)]
pub(super) struct PoolDraft {
    pub(super) name: String,
    pub(super) arch: Option<&'static str>,
    pub(super) zones: Option<Vec<String>>,
    pub(super) capacity_types: Option<Vec<&'static str>>,
    pub(super) families: Option<Vec<&'static str>>,
    pub(super) tiers: Option<Vec<&'static str>>,
    pub(super) team: Option<&'static str>,
    pub(super) taints: Vec<Value>,
    pub(super) startup_taints: Vec<Value>,
}

impl PoolDraft {
    /// Returns true if the pool allows this type in this zone and capacity type.
    pub(super) fn allows_offering(&self, instance_type: &InstanceTypeSpec, zone: &String, capacity_type: &str) -> bool {
        self.arch.is_none_or(|arch| arch == instance_type.arch)
            && self.zones.as_ref().is_none_or(|zones| zones.contains(zone))
            && self.capacity_types.as_ref().is_none_or(|types| types.contains(&capacity_type))
            && self.families.as_ref().is_none_or(|families| families.contains(&instance_type.family))
    }
}

impl ClusterDraft {
    pub(super) fn add_pools(&mut self) {
        for index in 0..self.random.between(1, self.size.by_size(1, 3, 4)) {
            let pool = self.random_pool(index);
            let object = self.pool_manifest(&pool);
            self.pools.push(pool);
            self.objects.push(object);
        }
    }

    fn random_pool(&mut self, index: usize) -> PoolDraft {
        let random = &mut self.random;
        let mut pool = PoolDraft { name: format!("pool-{index}"), ..PoolDraft::default() };
        let special = if index == 0 { 50 } else { 100 };
        if random.happens_percent(40) {
            pool.arch = Some(if random.happens_percent(80) { "amd64" } else { "arm64" });
        }
        if random.happens_percent(25 * special / 100) {
            pool.zones = Some(random.pick_subset(&self.zones, 1));
        }
        if random.happens_percent(35) {
            pool.capacity_types = Some(random.pick_subset(&["on-demand", "spot"], 1));
        }
        if random.happens_percent(15) {
            pool.families = Some(random.pick_subset(&["c", "s", "m"], 1));
        }
        if random.happens_percent(25) {
            pool.tiers = Some(random.pick_subset(&["gold", "silver"], 1));
        }
        if random.happens_percent(25) {
            pool.team = Some(*random.pick(&["red", "green"]));
        }
        if random.happens_percent(30 * special / 100) {
            let value = *random.pick(&["batch", "web"]);
            let effect = if random.happens_percent(85) { "NoSchedule" } else { "NoExecute" };
            pool.taints.push(json!({"key": "example.com/dedicated", "value": value, "effect": effect}));
        }
        if random.happens_percent(5) {
            pool.taints.push(json!({"key": "example.com/slow", "value": "true", "effect": "PreferNoSchedule"}));
        }
        if random.happens_percent(10) {
            pool.startup_taints.push(json!({"key": "example.com/agent", "value": "starting", "effect": "NoSchedule"}));
        }
        pool
    }

    fn pool_manifest(&mut self, pool: &PoolDraft) -> Value {
        let random = &mut self.random;
        let mut requirements = Vec::new();
        let one_of = |key: &str, values: Value| json!({"key": key, "operator": "In", "values": values});
        if let Some(arch) = pool.arch {
            requirements.push(one_of("kubernetes.io/arch", json!([arch])));
        }
        if let Some(zones) = &pool.zones {
            requirements.push(one_of("topology.kubernetes.io/zone", json!(zones)));
        }
        if let Some(types) = &pool.capacity_types {
            requirements.push(one_of("karpenter.sh/capacity-type", json!(types)));
        }
        if let Some(families) = &pool.families {
            requirements.push(one_of("karpenter.kwok.sh/instance-family", json!(families)));
        }
        if let Some(tiers) = &pool.tiers {
            requirements.push(one_of(TIER, json!(tiers)));
        }
        if random.happens_percent(12) {
            let (operator, bound) = *random.pick(&[("Gt", "1"), ("Gt", "3"), ("Lt", "17"), ("Lt", "5")]);
            requirements
                .push(json!({"key": "karpenter.kwok.sh/instance-cpu", "operator": operator, "values": [bound]}));
        }
        if random.happens_percent(8) {
            requirements
                .push(json!({"key": "karpenter.kwok.sh/instance-memory", "operator": "NotIn", "values": ["8Gi"]}));
        }
        if random.happens_percent(12) {
            let key = *random.pick(&["node.kubernetes.io/instance-type", "karpenter.kwok.sh/instance-size"]);
            requirements.push(json!({"key": key, "operator": "Exists", "minValues": random.between(2, 3)}));
        }
        let mut spec = Map::new();
        let mut template = Map::new();
        set_unless_empty(&mut template, "requirements", json!(requirements));
        template.entry("requirements").or_insert_with(|| json!([]));
        set_unless_empty(&mut template, "taints", json!(pool.taints));
        set_unless_empty(&mut template, "startupTaints", json!(pool.startup_taints));
        template.insert("nodeClassRef".to_owned(), node_class_ref());
        let labels = pool.team.map(|team| json!({TEAM: team}));
        let metadata = labels.map_or_else(|| json!({}), |labels| json!({"labels": labels}));
        spec.insert("template".to_owned(), json!({"metadata": metadata, "spec": template}));
        if random.happens_percent(40) {
            spec.insert("weight".to_owned(), json!(*random.pick(&[1, 10, 10, 50, 100])));
        }
        let mut limits = Map::new();
        if random.happens_percent(20) {
            limits.insert("cpu".to_owned(), json!(random.pick(&[2, 4, 8, 16, 32, 64, 128, 1000]).to_string()));
        }
        if random.happens_percent(6) {
            limits.insert("memory".to_owned(), json!(*random.pick(&["16Gi", "64Gi", "256Gi"])));
        }
        if random.happens_percent(6) {
            limits.insert("nodes".to_owned(), json!(random.between(1, 6).to_string()));
        }
        set_unless_empty(&mut spec, "limits", Value::Object(limits));
        json!({"apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": pool.name}, "spec": spec})
    }
}

/// Returns the reference to the node class of all pools.
pub(super) fn node_class_ref() -> Value {
    json!({"group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": "default"})
}
