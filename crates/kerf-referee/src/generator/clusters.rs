//! Random clusters from which nodes could be removed: underused, empty and drifted nodes, spot and
//! on-demand, with disruption budgets, PodDisruptionBudgets, and pods and nodes with
//! do-not-disrupt.
//!
//! [`disruption_cluster`] is a pure function of its seed. Karpenter reads the conditions
//! `Consolidatable` and `Drifted`, and Kerf computes them; the manifests agree with both.

use serde_json::{Map, Value, json};

use super::instance_types::InstanceTypeSpec;
use super::pools::{TIER, node_class_ref};
use super::{ClusterDraft, ClusterSize, GeneratedCluster, set_unless_empty};

/// Last pod event of most nodes, four hours before [`PLAN_TIME`](crate::program::PLAN_TIME).
const OLD_TIMESTAMP: &str = "2026-03-04T08:00:00Z";
/// Last pod event of the other nodes, 20 seconds before [`PLAN_TIME`](crate::program::PLAN_TIME).
const RECENT_TIMESTAMP: &str = "2026-03-04T11:59:40Z";

/// A pool of a disruption cluster.
#[derive(Debug, Clone)]
struct ClusterPool {
    name: String,
    capacity_type: Option<&'static str>,
    /// True if nodes must have the tier label `gold`; drifted nodes have `silver`.
    requires_tier: bool,
    /// Time after the last pod event from which a node may be consolidated.
    consolidate_after: ConsolidateAfter,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ConsolidateAfter {
    Zero,
    OneMinute,
    Never,
}

/// A workload of a disruption cluster.
#[derive(Debug, Clone)]
struct ClusterWorkload {
    name: String,
    cpu_millis: usize,
    memory_mib: usize,
    constraint: WorkloadConstraint,
    /// Value of the annotation `karpenter.sh/do-not-disrupt` on some of its pods; `None` for no
    /// annotation.
    do_not_disrupt: Option<&'static str>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum WorkloadConstraint {
    None,
    ZoneSelector,
    HostAntiAffinity,
    ZoneSpread,
}

/// Free capacity of a node while pods are added to it.
struct NodeFreeCapacity {
    cpu_millis: usize,
    memory_mib: usize,
    pods: usize,
}

/// Generates a cluster from which nodes could be removed.
pub fn disruption_cluster(seed: u64) -> GeneratedCluster {
    let mut draft = ClusterDraft::new(seed ^ 0x00c1_0573, ClusterSize::Medium);
    draft.add_instance_types();
    let pools = draft.add_cluster_pools();
    let workloads = draft.random_workloads();
    draft.add_pod_disruption_budgets(&workloads);
    let daemon = draft.random.happens_percent(40);
    if daemon {
        draft.objects.push(json!({
            "apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": {"name": "agent", "namespace": "default"},
            "spec": {
                "selector": {"matchLabels": {"daemon": "agent"}},
                "template": {"metadata": {"labels": {"daemon": "agent"}}, "spec": {"containers": [agent_container()]}},
            },
        }));
    }
    for index in 0..draft.random.between(2, 14) {
        draft.add_cluster_node(&format!("node-{index}"), &pools, &workloads, daemon);
    }
    if draft.random.happens_percent(10) {
        draft.objects.push(json!({
            "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "too-big", "namespace": "default"},
            "spec": {"containers": [container("500", "1Gi")]},
        }));
    }
    GeneratedCluster::new(seed, ClusterSize::Medium, &draft)
}

impl ClusterDraft {
    fn add_cluster_pools(&mut self) -> Vec<ClusterPool> {
        let number = self.random.between(1, 2);
        (0..number).map(|index| self.add_cluster_pool(format!("pool-{index}"))).collect()
    }

    fn add_cluster_pool(&mut self, name: String) -> ClusterPool {
        let random = &mut self.random;
        let capacity_type = match random.below(100) {
            0..15 => Some("on-demand"),
            15..25 => Some("spot"),
            _ => None,
        };
        let consolidate_after = match random.below(100) {
            0..70 => ConsolidateAfter::Zero,
            70..92 => ConsolidateAfter::OneMinute,
            _ => ConsolidateAfter::Never,
        };
        let pool = ClusterPool { name, capacity_type, requires_tier: random.happens_percent(30), consolidate_after };
        let mut requirements = Vec::new();
        if let Some(capacity_type) = pool.capacity_type {
            let only = json!({"key": "karpenter.sh/capacity-type", "operator": "In", "values": [capacity_type]});
            requirements.push(only);
        }
        if pool.requires_tier {
            requirements.push(json!({"key": TIER, "operator": "In", "values": ["gold"]}));
        }
        let policy = match random.below(100) {
            0..80 => "WhenEmptyOrUnderutilized",
            80..90 => "WhenEmpty",
            _ => "Balanced",
        };
        let after = match pool.consolidate_after {
            ConsolidateAfter::Zero => "0s",
            ConsolidateAfter::OneMinute => "1m",
            ConsolidateAfter::Never => "Never",
        };
        let mut disruption = Map::new();
        disruption.insert("consolidationPolicy".to_owned(), json!(policy));
        disruption.insert("consolidateAfter".to_owned(), json!(after));
        set_unless_empty(&mut disruption, "budgets", random_disruption_budgets(random));
        let mut spec = json!({
            "template": {"spec": {"requirements": requirements, "nodeClassRef": node_class_ref(), "expireAfter": "Never"}},
            "disruption": disruption,
        });
        if random.happens_percent(30) {
            spec["weight"] = json!(*random.pick(&[1, 10, 50]));
        }
        self.objects.push(json!({
            "apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": pool.name}, "spec": spec,
        }));
        pool
    }

    fn random_workloads(&mut self) -> Vec<ClusterWorkload> {
        let number = self.random.between(1, 5);
        (0..number)
            .map(|index| {
                let random = &mut self.random;
                ClusterWorkload {
                    name: format!("app-{index}"),
                    cpu_millis: *random.pick(&[100, 250, 500, 500, 1000, 2000]),
                    memory_mib: *random.pick(&[64, 256, 512, 1024, 4096]),
                    constraint: match random.below(100) {
                        0..10 => WorkloadConstraint::ZoneSelector,
                        10..20 => WorkloadConstraint::HostAntiAffinity,
                        20..30 => WorkloadConstraint::ZoneSpread,
                        _ => WorkloadConstraint::None,
                    },
                    do_not_disrupt: match random.below(100) {
                        0..8 => Some("true"),
                        8..11 => Some("6h"),
                        11..14 => Some("1m"),
                        14..16 => Some("no"),
                        _ => None,
                    },
                }
            })
            .collect()
    }

    /// Adds PodDisruptionBudgets: some allow an eviction, some do not, and some workloads have two.
    fn add_pod_disruption_budgets(&mut self, workloads: &[ClusterWorkload]) {
        for workload in workloads {
            let number = match self.random.below(100) {
                0..16 => 1,
                16..18 => 2,
                _ => 0,
            };
            for index in 0..number {
                let allowed = i32::from(self.random.happens_percent(50));
                self.objects.push(json!({
                    "apiVersion": "policy/v1", "kind": "PodDisruptionBudget",
                    "metadata": {"name": format!("{}-{index}", workload.name), "namespace": "default"},
                    "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": workload.name}}},
                    "status": {
                        "disruptionsAllowed": allowed, "currentHealthy": 1, "desiredHealthy": 1, "expectedPods": 1,
                    },
                }));
            }
        }
    }

    fn add_cluster_node(&mut self, name: &str, pools: &[ClusterPool], workloads: &[ClusterWorkload], daemon: bool) {
        let pool = self.random.pick(pools).clone();
        let instance_type = self.random.pick(&self.types).clone();
        let fits = |capacity_type: &str| pool.capacity_type.is_none_or(|only| only == capacity_type);
        let offerings: Vec<_> = instance_type.offerings.iter().filter(|o| fits(o.capacity_type)).collect();
        if offerings.is_empty() {
            return;
        }
        let offering = (*self.random.pick(&offerings)).clone();
        let drifted = pool.requires_tier && self.random.happens_percent(15);
        let mut labels = json!({
            "karpenter.sh/nodepool": pool.name, "karpenter.kwok.sh/kwoknodeclass": "default",
            "node.kubernetes.io/instance-type": instance_type.name,
            "kubernetes.io/arch": instance_type.arch, "kubernetes.io/os": "linux",
            "topology.kubernetes.io/zone": offering.zone, "karpenter.sh/capacity-type": offering.capacity_type,
            "karpenter.kwok.sh/instance-family": instance_type.family,
            "karpenter.kwok.sh/instance-size": instance_type.cpu.to_string(),
            "karpenter.kwok.sh/instance-cpu": instance_type.cpu.to_string(),
            "karpenter.kwok.sh/instance-memory": format!("{}Gi", instance_type.memory_gib),
            "karpenter.sh/registered": "true", "karpenter.sh/initialized": "true",
        });
        if pool.requires_tier {
            labels[TIER] = json!(if drifted { "silver" } else { "gold" });
        }
        let last_pod_event = if self.random.happens_percent(25) { RECENT_TIMESTAMP } else { OLD_TIMESTAMP };
        let claim = self.cluster_node_claim(name, &pool, &instance_type, &labels, last_pod_event, drifted);
        self.objects.push(claim);
        labels["kubernetes.io/hostname"] = json!(name);
        let mut metadata = json!({"name": name, "labels": labels, "creationTimestamp": OLD_TIMESTAMP});
        if self.random.happens_percent(6) {
            let value = if self.random.happens_percent(70) { "true" } else { "false" };
            metadata["annotations"] = json!({"karpenter.sh/do-not-disrupt": value});
        }
        let ready = if self.random.happens_percent(3) { "False" } else { "True" };
        self.objects.push(json!({
            "apiVersion": "v1", "kind": "Node", "metadata": metadata, "spec": {"providerID": format!("kwok://{name}")},
            "status": {
                "capacity": instance_type.capacity(), "allocatable": instance_type.allocatable(),
                "conditions": [{"type": "Ready", "status": ready, "lastTransitionTime": OLD_TIMESTAMP}],
            },
        }));
        self.add_workload_pods(name, &instance_type, &offering.zone, workloads, daemon);
    }

    fn cluster_node_claim(
        &mut self,
        name: &str,
        pool: &ClusterPool,
        instance_type: &InstanceTypeSpec,
        labels: &Value,
        last_pod_event: &str,
        drifted: bool,
    ) -> Value {
        let is_consolidatable = match pool.consolidate_after {
            ConsolidateAfter::Zero => true,
            ConsolidateAfter::OneMinute => last_pod_event == OLD_TIMESTAMP,
            ConsolidateAfter::Never => false,
        };
        let mut true_conditions = vec!["Launched", "Registered", "Initialized", "Ready"];
        true_conditions.extend(is_consolidatable.then_some("Consolidatable"));
        true_conditions.extend(drifted.then_some("Drifted"));
        let conditions: Vec<Value> = true_conditions
            .iter()
            .map(|kind| {
                let reason = if *kind == "Drifted" { "RequirementsDrifted" } else { kind };
                json!({
                    "type": kind, "status": "True", "reason": reason, "message": "", "lastTransitionTime": OLD_TIMESTAMP,
                })
            })
            .collect();
        let mut spec = json!({
            "nodeClassRef": node_class_ref(), "expireAfter": "Never",
            "requirements": [
                {"key": "node.kubernetes.io/instance-type", "operator": "In", "values": [instance_type.name]},
            ],
        });
        if self.random.happens_percent(15) {
            spec["terminationGracePeriod"] = json!("1h");
        }
        json!({
            "apiVersion": "karpenter.sh/v1", "kind": "NodeClaim",
            "metadata": {"name": format!("claim-{name}"), "labels": labels, "creationTimestamp": OLD_TIMESTAMP},
            "spec": spec,
            "status": {
                "providerID": format!("kwok://{name}"), "nodeName": name, "lastPodEventTime": last_pod_event,
                "capacity": instance_type.capacity(), "allocatable": instance_type.allocatable(), "conditions": conditions,
            },
        })
    }

    /// Adds pods to a node, few enough that most nodes have free capacity.
    fn add_workload_pods(
        &mut self,
        node: &str,
        instance_type: &InstanceTypeSpec,
        zone: &str,
        workloads: &[ClusterWorkload],
        daemon: bool,
    ) {
        let mut free_capacity = NodeFreeCapacity {
            cpu_millis: instance_type.cpu * 1000 - 100,
            memory_mib: instance_type.memory_gib * 1024 - 10,
            pods: instance_type.pods,
        };
        if daemon {
            let mut pod = owned_pod(&format!("agent-{node}"), node, &json!({"daemon": "agent"}), "DaemonSet", "agent");
            pod["spec"]["containers"] = json!([agent_container()]);
            self.objects.push(pod);
            free_capacity.cpu_millis -= 100;
            free_capacity.memory_mib -= 64;
            free_capacity.pods -= 1;
        }
        let max_pods = match self.random.below(100) {
            0..18 => 0,
            18..80 => self.random.between(1, 3),
            _ => self.random.between(3, 8),
        };
        let mut anti_affine_workloads: Vec<&str> = Vec::new();
        for index in 0..max_pods {
            let workload = self.random.pick(workloads);
            let fits = workload.cpu_millis <= free_capacity.cpu_millis
                && workload.memory_mib <= free_capacity.memory_mib
                && free_capacity.pods > 0;
            if !fits || anti_affine_workloads.contains(&workload.name.as_str()) {
                continue;
            }
            if workload.constraint == WorkloadConstraint::HostAntiAffinity {
                anti_affine_workloads.push(&workload.name);
            }
            free_capacity.cpu_millis -= workload.cpu_millis;
            free_capacity.memory_mib -= workload.memory_mib;
            free_capacity.pods -= 1;
            let has_annotation = self.random.happens_percent(40);
            self.objects.push(workload.pod(&format!("{}-{node}-{index}", workload.name), node, zone, has_annotation));
        }
    }
}

impl ClusterWorkload {
    fn pod(&self, name: &str, node: &str, zone: &str, has_annotation: bool) -> Value {
        let mut pod = owned_pod(name, node, &json!({"app": self.name}), "ReplicaSet", &self.name);
        let amounts = (format!("{}m", self.cpu_millis), format!("{}Mi", self.memory_mib));
        pod["spec"]["containers"] = json!([container(&amounts.0, &amounts.1)]);
        let own = json!({"matchLabels": {"app": self.name}});
        match self.constraint {
            WorkloadConstraint::None => {}
            WorkloadConstraint::ZoneSelector => {
                pod["spec"]["nodeSelector"] = json!({"topology.kubernetes.io/zone": zone});
            }
            WorkloadConstraint::HostAntiAffinity => {
                pod["spec"]["affinity"] = json!({"podAntiAffinity": {
                    "requiredDuringSchedulingIgnoredDuringExecution":
                        [{"labelSelector": own, "topologyKey": "kubernetes.io/hostname"}],
                }});
            }
            WorkloadConstraint::ZoneSpread => {
                pod["spec"]["topologySpreadConstraints"] = json!([{
                    "maxSkew": 3, "topologyKey": "topology.kubernetes.io/zone", "whenUnsatisfiable": "DoNotSchedule",
                    "labelSelector": own,
                }]);
            }
        }
        if let Some(value) = self.do_not_disrupt.filter(|_| has_annotation) {
            pod["metadata"]["annotations"] = json!({"karpenter.sh/do-not-disrupt": value});
        }
        pod
    }
}

/// Returns the budgets of a pool. Null means the default of 10%.
fn random_disruption_budgets(random: &mut crate::random::Random) -> Value {
    match random.below(100) {
        0..25 => Value::Null,
        25..55 => json!([{"nodes": "100%"}]),
        55..70 => json!([{"nodes": random.between(1, 3).to_string()}]),
        70..78 => json!([{"nodes": "50%"}, {"nodes": "0", "reasons": ["Drifted"]}]),
        78..86 => json!([{"nodes": "100%"}, {"nodes": "1", "reasons": ["Empty", "Underutilized"]}]),
        86..92 => json!([{"nodes": "100%"}, {"nodes": "0", "schedule": "0 11 * * *", "duration": "2h"}]),
        92..97 => json!([{"nodes": "100%"}, {"nodes": "0", "schedule": "@daily", "duration": "30m"}]),
        _ => json!([{"nodes": "0"}]),
    }
}

fn container(cpu: &str, memory: &str) -> Value {
    let requests = json!({"cpu": cpu, "memory": memory});
    json!({"name": "c", "image": "example.com/app", "resources": {"requests": requests}})
}

fn agent_container() -> Value {
    container("100m", "64Mi")
}

fn owned_pod(name: &str, node: &str, labels: &Value, kind: &str, owner: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {
            "name": name, "namespace": "default", "labels": labels, "creationTimestamp": OLD_TIMESTAMP,
            "ownerReferences": [{
                "apiVersion": "apps/v1", "kind": kind, "name": owner, "uid": format!("uid-{owner}"), "controller": true,
            }],
        },
        "spec": {"nodeName": node},
        "status": {"phase": "Running", "startTime": "2026-03-04T08:00:00Z"},
    })
}
