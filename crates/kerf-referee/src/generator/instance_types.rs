//! Instance types: three families, several sizes, two architectures, spot and on-demand in some
//! zones. Some offerings are unavailable.

use serde_json::{Value, json};

use super::{ClusterDraft, ClusterSize};
use crate::random::Random;

/// The extended resource that some instance types have.
pub(super) const GPU: &str = "example.com/gpu";

/// A generated instance type.
#[derive(Debug, Clone)]
pub(super) struct InstanceTypeSpec {
    pub(super) name: String,
    pub(super) family: &'static str,
    pub(super) arch: &'static str,
    pub(super) cpu: usize,
    pub(super) memory_gib: usize,
    pub(super) pods: usize,
    pub(super) gpus: usize,
    pub(super) offerings: Vec<OfferingSpec>,
}

/// A generated offering.
#[derive(Debug, Clone)]
pub(super) struct OfferingSpec {
    pub(super) zone: String,
    pub(super) capacity_type: &'static str,
    price_micro_dollars: usize,
    pub(super) is_available: bool,
}

impl InstanceTypeSpec {
    /// Returns the entry of the instance-type file.
    pub(super) fn render(&self) -> Value {
        let offerings: Vec<Value> = self
            .offerings
            .iter()
            .map(|offering| {
                json!({
                    "Price": offering.price_micro_dollars as f64 / 1e6,
                    "Available": offering.is_available,
                    "Requirements": [
                        {"key": "karpenter.sh/capacity-type", "operator": "In", "values": [offering.capacity_type]},
                        {"key": "topology.kubernetes.io/zone", "operator": "In", "values": [offering.zone]},
                    ],
                })
            })
            .collect();
        json!({
            "name": self.name, "architecture": self.arch, "operatingSystems": ["linux"],
            "resources": self.capacity(), "offerings": offerings,
        })
    }

    /// Returns all resources of an instance.
    pub(super) fn capacity(&self) -> Value {
        let mut resources = json!({
            "cpu": self.cpu.to_string(), "memory": format!("{}Gi", self.memory_gib), "pods": self.pods.to_string(),
            "ephemeral-storage": "20Gi",
        });
        if self.gpus > 0 {
            resources[GPU] = json!(self.gpus.to_string());
        }
        resources
    }

    /// Returns the resources that pods can use.
    pub(super) fn allocatable(&self) -> Value {
        let mut resources = self.capacity();
        resources["cpu"] = json!(format!("{}m", self.cpu * 1000 - 100));
        resources["memory"] = json!(format!("{}Mi", self.memory_gib * 1024 - 10));
        resources
    }
}

impl ClusterDraft {
    pub(super) fn add_instance_types(&mut self) {
        let random = &mut self.random;
        let number = random.between(2, self.size.by_size(6, 15, 40));
        let sizes: &[usize] = match self.size {
            ClusterSize::Small => &[1, 2, 4, 8, 16],
            ClusterSize::Medium | ClusterSize::Large => &[1, 2, 4, 8, 16, 32, 48],
        };
        let mut types: Vec<InstanceTypeSpec> = Vec::new();
        for _ in 0..number {
            let (family, per_cpu) = *random.pick(&[("c", 2), ("s", 4), ("m", 8)]);
            let arch = if random.happens_percent(20) { "arm64" } else { "amd64" };
            let cpu = *random.pick(sizes);
            let gpus = if random.happens_percent(8) { random.between(1, 4) } else { 0 };
            let name = format!("{family}-{cpu}x-{arch}{}", if gpus > 0 { "-gpu" } else { "" });
            if types.iter().all(|t| t.name != name) {
                let pods = if random.happens_percent(15) { random.between(3, 12) } else { (cpu * 16).min(110) };
                let memory_gib = cpu * per_cpu;
                let offerings = random_offerings(random, &self.zones, cpu, memory_gib, gpus);
                types.push(InstanceTypeSpec { name, family, arch, cpu, memory_gib, pods, gpus, offerings });
            }
        }
        self.types = types;
    }
}

fn random_offerings(
    random: &mut Random,
    zones: &[String],
    cpu: usize,
    memory_gib: usize,
    gpus: usize,
) -> Vec<OfferingSpec> {
    let base = (cpu * 25_000 + memory_gib * 1_100 + gpus * 400_000) * random.between(80, 130) / 100;
    let discount = random.between(30, 90);
    let least = if random.happens_percent(70) { zones.len() } else { 1 };
    let zones = random.pick_subset(zones, least);
    let on_demand_only = random.happens_percent(10);
    let unavailable_percent = if random.happens_percent(30) { 25 } else { 0 };
    let mut offerings = Vec::new();
    for zone in zones {
        for (capacity_type, percent) in [("on-demand", 100), ("spot", discount)] {
            if on_demand_only && capacity_type == "spot" {
                continue;
            }
            let noise = random.between(97, 103);
            let is_available = !random.happens_percent(unavailable_percent);
            let price_micro_dollars = base * percent / 100 * noise / 100;
            offerings.push(OfferingSpec { zone: zone.clone(), capacity_type, price_micro_dollars, is_available });
        }
    }
    offerings
}
