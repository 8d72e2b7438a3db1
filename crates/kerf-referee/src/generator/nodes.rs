//! Existing nodes: managed ones in every phase and unmanaged ones, with pods and DaemonSet pods.

use serde_json::{Map, Value, json};

use super::pools::{TEAM, TIER, node_class_ref};
use super::{ClusterDraft, set_unless_empty};

/// How far the generator takes a NodeClaim and its Node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ManagedNodePhase {
    /// A NodeClaim with an instance, but no Node.
    Launched,
    /// The Node is registered and waits for its startup taints to be removed.
    Registered,
    /// Ready for pods.
    Initialized,
    /// Ready, but being deleted.
    Deleting,
}

impl ClusterDraft {
    pub(super) fn add_nodes(&mut self) {
        for index in 0..self.random.between(0, self.size.by_size(2, 6, 18)) {
            let name = format!("node-{index}");
            let managed = if self.random.happens_percent(65) { self.add_managed_node(&name) } else { None };
            match managed {
                Some(ManagedNodePhase::Launched) => {}
                Some(ManagedNodePhase::Registered | ManagedNodePhase::Initialized | ManagedNodePhase::Deleting) => {
                    self.add_bound_pods(&name);
                }
                None => {
                    self.add_unmanaged_node(&name);
                    self.add_bound_pods(&name);
                }
            }
        }
    }

    /// Adds a node of a pool. Returns `None` if the pool could not have launched the chosen type.
    fn add_managed_node(&mut self, name: &str) -> Option<ManagedNodePhase> {
        let pool = self.random.pick(&self.pools).clone();
        let instance_type = self.random.pick(&self.types).clone();
        let offerings: Vec<_> = instance_type
            .offerings
            .iter()
            .filter(|o| pool.allows_offering(&instance_type, &o.zone, o.capacity_type))
            .collect();
        if offerings.is_empty() {
            return None;
        }
        let offering = *self.random.pick(&offerings);
        let phase = match self.random.below(100) {
            0..8 => ManagedNodePhase::Launched,
            8..18 => ManagedNodePhase::Registered,
            18..24 => ManagedNodePhase::Deleting,
            _ => ManagedNodePhase::Initialized,
        };
        let mut labels = json!({
            "karpenter.sh/nodepool": pool.name,
            "karpenter.kwok.sh/kwoknodeclass": "default",
            "node.kubernetes.io/instance-type": instance_type.name,
            "kubernetes.io/arch": instance_type.arch, "kubernetes.io/os": "linux",
            "topology.kubernetes.io/zone": offering.zone, "karpenter.sh/capacity-type": offering.capacity_type,
            "karpenter.kwok.sh/instance-family": instance_type.family,
            "karpenter.kwok.sh/instance-size": instance_type.cpu.to_string(),
            "karpenter.kwok.sh/instance-cpu": instance_type.cpu.to_string(),
            "karpenter.kwok.sh/instance-memory": format!("{}Gi", instance_type.memory_gib),
        });
        if let Some(tiers) = &pool.tiers {
            labels[TIER] = json!(self.random.pick(tiers));
        }
        if let Some(team) = pool.team {
            labels[TEAM] = json!(team);
        }
        let provider_id = format!("kwok://{name}");
        self.add_node_claim(&format!("{}-{name}", pool.name), &pool, &instance_type, &labels, &provider_id, phase);
        if phase != ManagedNodePhase::Launched {
            labels["kubernetes.io/hostname"] = json!(name);
            labels["karpenter.sh/registered"] = json!("true");
            let mut taints = pool.taints.clone();
            let mut allocatable = instance_type.allocatable();
            if phase == ManagedNodePhase::Registered {
                taints.extend(pool.startup_taints.clone());
                taints.push(json!({"key": "node.kubernetes.io/not-ready", "effect": "NoExecute"}));
                if instance_type.gpus > 0 {
                    allocatable[super::instance_types::GPU] = json!("0");
                }
            } else {
                labels["karpenter.sh/initialized"] = json!("true");
            }
            let mut spec = Map::new();
            spec.insert("providerID".to_owned(), json!(provider_id));
            set_unless_empty(&mut spec, "taints", Value::Array(taints));
            self.objects.push(json!({
                "apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels}, "spec": spec,
                "status": {"capacity": instance_type.capacity(), "allocatable": allocatable},
            }));
        }
        Some(phase)
    }

    fn add_node_claim(
        &mut self,
        name: &str,
        pool: &super::pools::PoolDraft,
        instance_type: &super::instance_types::InstanceTypeSpec,
        labels: &Value,
        provider_id: &str,
        phase: ManagedNodePhase,
    ) {
        let mut spec = Map::new();
        spec.insert("nodeClassRef".to_owned(), node_class_ref());
        spec.insert(
            "requirements".to_owned(),
            json!([{"key": "node.kubernetes.io/instance-type", "operator": "In", "values": [instance_type.name]}]),
        );
        set_unless_empty(&mut spec, "taints", json!(pool.taints));
        set_unless_empty(&mut spec, "startupTaints", json!(pool.startup_taints));
        let mut metadata = json!({"name": name, "labels": labels});
        if phase == ManagedNodePhase::Deleting {
            metadata["deletionTimestamp"] = json!("2026-03-04T11:00:00Z");
            metadata["finalizers"] = json!(["karpenter.sh/termination"]);
        }
        let condition = |kind: &str, is_true: bool| {
            json!({
                "type": kind, "status": if is_true { "True" } else { "Unknown" }, "reason": kind, "message": "",
                "lastTransitionTime": "2026-03-04T10:00:00Z",
            })
        };
        let initialized = matches!(phase, ManagedNodePhase::Initialized | ManagedNodePhase::Deleting);
        let conditions = [
            condition("Launched", true),
            condition("Registered", phase != ManagedNodePhase::Launched),
            condition("Initialized", initialized),
            condition("Ready", initialized),
        ];
        self.objects.push(json!({
            "apiVersion": "karpenter.sh/v1", "kind": "NodeClaim", "metadata": metadata, "spec": spec,
            "status": {
                "providerID": provider_id, "capacity": instance_type.capacity(), "allocatable": instance_type.allocatable(),
                "conditions": conditions,
            },
        }));
    }

    fn add_unmanaged_node(&mut self, name: &str) {
        let random = &mut self.random;
        let cpu = random.between(1, 8);
        let mut labels = json!({
            "kubernetes.io/hostname": name, "kubernetes.io/os": "linux",
            "kubernetes.io/arch": if random.happens_percent(85) { "amd64" } else { "arm64" },
        });
        if random.happens_percent(90) {
            labels["topology.kubernetes.io/zone"] = json!(random.pick(&self.zones));
        }
        let mut spec = Map::new();
        if random.happens_percent(10) {
            spec.insert("unschedulable".to_owned(), json!(true));
            let taint = json!([{"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}]);
            spec.insert("taints".to_owned(), taint);
        } else if random.happens_percent(15) {
            let taint = json!([{"key": "example.com/dedicated", "value": "batch", "effect": "NoSchedule"}]);
            spec.insert("taints".to_owned(), taint);
        }
        let capacity =
            json!({"cpu": cpu.to_string(), "memory": format!("{}Gi", cpu * random.between(1, 4)), "pods": "20"});
        self.objects.push(json!({
            "apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels}, "spec": spec,
            "status": {"capacity": capacity, "allocatable": capacity},
        }));
        if random.happens_percent(30) {
            let driver =
                json!({"name": "disk.example.com", "nodeID": name, "allocatable": {"count": random.between(1, 2)}});
            self.objects.push(json!({
                "apiVersion": "storage.k8s.io/v1", "kind": "CSINode", "metadata": {"name": name},
                "spec": {"drivers": [driver]},
            }));
        }
    }

    /// Adds pods to a node: DaemonSet pods, pods of the apps, and others.
    fn add_bound_pods(&mut self, node: &str) {
        for daemon in self.daemons.clone() {
            if self.random.happens_percent(60) {
                let mut spec = daemon.spec.clone();
                spec["nodeName"] = json!(node);
                // The API server fills in missing requests from limits. A pod may be older than its
                // template.
                let resources = &mut spec["containers"][0]["resources"];
                if resources["requests"].is_null() {
                    resources["requests"] = resources["limits"].clone();
                } else if self.random.happens_percent(15) {
                    resources["requests"]["cpu"] = json!("20m");
                }
                let second = self.objects.len();
                let created = format!("2026-03-01T{:02}:{:02}:{:02}Z", second / 3600, second / 60 % 60, second % 60);
                self.objects.push(json!({
                    "apiVersion": "v1", "kind": "Pod",
                    "metadata": {
                        "name": format!("{}-{node}", daemon.name), "namespace": "default",
                        "labels": {"daemon": daemon.name}, "creationTimestamp": created,
                        "ownerReferences": [{
                            "apiVersion": "apps/v1", "kind": "DaemonSet", "name": daemon.name, "controller": true,
                            "uid": format!("uid-{}", daemon.name),
                        }],
                    },
                    "spec": spec,
                }));
            }
        }
        for n in 0..self.random.between(0, 3) {
            let name = format!("run-{node}-{n}");
            let mut pod = if self.random.happens_percent(50) && !self.apps.is_empty() {
                let app = self.random.pick(&self.apps).clone();
                app.pod(&name, Some(node))
            } else {
                let requests = json!({"cpu": self.random.pick(&["100m", "500m", "1"]), "memory": "256Mi"});
                json!({
                    "apiVersion": "v1", "kind": "Pod",
                    "metadata": {"name": name, "namespace": "default", "labels": {"app": "other", "tier": "back"}},
                    "spec": {
                        "nodeName": node,
                        "containers": [{"name": "c", "image": "example.com/other", "resources": {"requests": requests}}],
                    },
                })
            };
            // Running pods fit on their node. The few apps that request more than any instance has
            // would exceed it, so their running pods request less.
            if pod["spec"]["containers"][0]["resources"]["requests"]["cpu"] == "500" {
                pod["spec"]["containers"][0]["resources"]["requests"]["cpu"] = json!("250m");
            }
            match self.random.below(100) {
                0..3 => pod["status"] = json!({"phase": "Succeeded"}),
                3..6 => {
                    pod["metadata"]["deletionTimestamp"] = json!("2026-03-04T11:59:00Z");
                    pod["metadata"]["finalizers"] = json!(["example.com/keep"]);
                }
                _ => pod["status"] = json!({"phase": "Running"}),
            }
            self.objects.push(pod);
        }
    }
}
