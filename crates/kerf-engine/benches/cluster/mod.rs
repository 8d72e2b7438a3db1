//! The cluster of the benchmarks: pods in the mix of Karpenter's own scheduling benchmark, 400
//! instance types, nodes of one size.

use std::sync::Arc;
use std::time::Instant;

use kerf_api::labels::{self, LabelRules};
use kerf_api::quantity::Quantity;
use kerf_api::slim::{
    Affinity, Container, LabelSelector, Labels, Node, Pod, PodAffinityTerm, ResourceList, Str, TopologySpreadConstraint,
};
use kerf_engine::catalogue::{InstanceType, Offering, Overhead};
use kerf_engine::requirement::{Requirement, Requirements};
use kerf_engine::{
    Effort, Input, MinValuesPolicy, PoolAvailability, PoolInput, PreferencePolicy, Price, ReservedMode, Settings,
    UnsupportedStorage,
};

pub(crate) fn settings(effort: Effort) -> Settings {
    Settings {
        preference_policy: PreferencePolicy::Respect,
        min_values_policy: MinValuesPolicy::Strict,
        reserved_capacity: true,
        reserved_mode: ReservedMode::Strict,
        default_spread: Vec::new(),
        ignore_dra: true,
        require_unschedulable: false,
        max_instance_types: 600,
        seed: 0,
        threads: 2,
        effort,
    }
}

/// Measures the CPU time of this thread, so that other processes do not count. The work of other
/// threads does not count either.
pub(crate) struct Stopwatch {
    wall: Instant,
    start_cpu_seconds: Option<f64>,
}

impl Stopwatch {
    pub(crate) fn start() -> Self {
        Self { wall: Instant::now(), start_cpu_seconds: thread_cpu_seconds() }
    }

    /// Returns the seconds since the start: CPU time, or wall-clock time if the system does not
    /// report CPU time.
    pub(crate) fn seconds(&self) -> f64 {
        self.start_cpu_seconds
            .zip(thread_cpu_seconds())
            .map_or_else(|| self.wall.elapsed().as_secs_f64(), |(start, now)| now - start)
    }
}

fn thread_cpu_seconds() -> Option<f64> {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").ok()?;
    text.split_whitespace().next()?.parse::<f64>().ok().map(|nanos| nanos / 1e9)
}

/// A small deterministic random number generator (splitmix64).
pub(crate) struct SplitMix64(pub(crate) u64);

impl SplitMix64 {
    pub(crate) fn below(&mut self, n: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) % n as u64) as usize
    }

    pub(crate) fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.below(from.len())]
    }
}

pub(crate) fn quantity(text: &str) -> Quantity {
    text.parse().unwrap_or_default()
}

pub(crate) fn resources(pairs: &[(&str, &str)]) -> ResourceList {
    pairs.iter().map(|(name, amount)| (Str::from(*name), quantity(amount))).collect()
}

pub(crate) fn pod(name: String, label: &str, cpu: &str, memory: &str) -> Pod {
    let mut pod = Pod::default();
    pod.metadata.name = name.clone().into();
    pod.metadata.namespace = "default".into();
    pod.metadata.uid = name.into();
    pod.metadata.labels = [(Str::from("my-label"), Str::from(label))].into_iter().collect();
    let mut container = Container::default();
    container.resources.requests = resources(&[("cpu", cpu), ("memory", memory)]);
    pod.spec.containers.push(container);
    pod
}

pub(crate) const LABELS: [&str; 7] = ["a", "b", "c", "d", "e", "f", "g"];

pub(crate) fn selector(label: &str) -> LabelSelector {
    LabelSelector {
        match_labels: [(Str::from("my-label"), Str::from(label))].into_iter().collect(),
        match_expressions: Vec::new(),
    }
}

pub(crate) fn spread(pod: &mut Pod, key: &str, label: &str) {
    pod.spec.topology_spread_constraints.push(TopologySpreadConstraint {
        max_skew: 1,
        topology_key: key.into(),
        label_selector: Some(selector(label)),
        ..TopologySpreadConstraint::default()
    });
}

pub(crate) fn term(key: &str, label: &str) -> PodAffinityTerm {
    PodAffinityTerm { label_selector: Some(selector(label)), topology_key: key.into(), ..PodAffinityTerm::default() }
}

pub(crate) fn diverse(count: usize) -> Vec<Pod> {
    let mut rng = SplitMix64(7);
    (0..count)
        .map(|i| {
            let cpu = rng.pick(&["100m", "250m", "500m", "1", "1500m"]);
            let memory = rng.pick(&["100Mi", "256Mi", "512Mi", "1Gi", "2Gi", "4Gi"]);
            let label = rng.pick(&LABELS);
            let name = format!("pod-{i:06}");
            match i % 5 {
                0 => pod(name, label, cpu, memory),
                1 => {
                    let mut p = pod(name, label, cpu, memory);
                    spread(&mut p, labels::ZONE, rng.pick(&LABELS));
                    p
                }
                2 => {
                    let mut p = pod(name, label, cpu, memory);
                    spread(&mut p, labels::HOSTNAME, rng.pick(&LABELS));
                    p
                }
                3 => {
                    let mut p = pod(name, label, cpu, memory);
                    let mut affinity = Affinity::default();
                    affinity.pod_affinity.required.push(term(labels::ZONE, label));
                    p.spec.affinity = Some(Box::new(affinity));
                    p
                }
                _ => {
                    let mut p = pod(name, "alone", cpu, memory);
                    let mut affinity = Affinity::default();
                    affinity.pod_anti_affinity.required.push(term(labels::HOSTNAME, "alone"));
                    p.spec.affinity = Some(Box::new(affinity));
                    p
                }
            }
        })
        .collect()
}

pub(crate) fn identical(count: usize) -> Vec<Pod> {
    (0..count).map(|i| pod(format!("pod-{i:06}"), "same", "500m", "1Gi")).collect()
}

pub(crate) fn repelling(count: usize) -> Vec<Pod> {
    (0..count)
        .map(|i| {
            let mut p = pod(format!("pod-{i:06}"), &format!("l{i}"), "100000", "1Gi");
            let mut affinity = Affinity::default();
            affinity.pod_anti_affinity.required.push(PodAffinityTerm {
                label_selector: Some(LabelSelector::default()),
                topology_key: labels::HOSTNAME.into(),
                ..PodAffinityTerm::default()
            });
            p.spec.affinity = Some(Box::new(affinity));
            p
        })
        .collect()
}

pub(crate) fn input(pods: Vec<Pod>, nodes: usize) -> Input {
    let pool = PoolInput {
        name: "default".into(),
        labels: [(Str::from(labels::NODEPOOL), Str::from("default"))].into_iter().collect(),
        catalogue: Some(0),
        availability: PoolAvailability::Ready,
        ..PoolInput::default()
    };
    Input {
        at: "2026-03-04T12:00:00Z".parse().unwrap_or_default(),
        pools: vec![pool],
        catalogues: vec![(1..=400).map(instance_type).collect()],
        label_rules: LabelRules::kwok(),
        node_claims: Vec::new(),
        nodes: (0..nodes).map(node).map(Arc::new).collect(),
        pods: pods.into_iter().map(Arc::new).collect(),
        daemon_sets: Vec::new(),
        volume_claims: Vec::new(),
        volumes: Vec::new(),
        storage_classes: Vec::new(),
        csi_nodes: Vec::new(),
        namespaces: Vec::new(),
        disruption_budgets: Vec::new(),
        services: Vec::new(),
        replica_owners: Vec::new(),
        unsupported_storage: UnsupportedStorage::default(),
        launch_backoffs: Vec::new(),
    }
}

pub(crate) fn node(i: usize) -> Node {
    let mut node = Node::default();
    node.metadata.name = format!("node-{i:05}").into();
    node.metadata.labels = [
        (labels::HOSTNAME, format!("node-{i:05}")),
        (labels::ZONE, format!("zone-{}", i % 3 + 1)),
        (labels::CAPACITY_TYPE, "on-demand".to_owned()),
        (labels::INSTANCE_TYPE, "t-8".to_owned()),
    ]
    .into_iter()
    .map(|(k, v)| (Str::from(k), Str::from(v)))
    .collect::<Labels>();
    node.status.allocatable = resources(&[("cpu", "4"), ("memory", "8Gi"), ("pods", "50")]);
    node.status.capacity = node.status.allocatable.clone();
    node
}

/// Type i has i CPUs, 2i GiB and capacity for 10i pods; spot in two zones, on-demand in three.
pub(crate) fn instance_type(i: i64) -> InstanceType {
    instance_type_with(&format!("t-{i}"), i, 2 * i, i * 100_000_000 + 2 * i * 1024 * 1024 * 1024 / 10)
}

/// Returns a type with `cpus` CPUs and `gibibytes` GiB that costs `nanos` nano-dollars per hour.
pub(crate) fn instance_type_with(name: &str, cpus: i64, gibibytes: i64, nanos: i64) -> InstanceType {
    let name = Str::from(name);
    let one = |key: &str, values: &[&str]| Requirement::one_of(key, values.iter().map(|v| Str::from(*v)));
    let memory = gibibytes * 1024 * 1024 * 1024;
    let price = Price::from_nanos(nanos);
    let offering = |zone: &str, capacity_type: &str| Offering {
        requirements: Arc::new(
            [one(labels::ZONE, &[zone]), one(labels::CAPACITY_TYPE, &[capacity_type])].into_iter().collect(),
        ),
        price,
        capacity_override: None,
        overhead_override: None,
    };
    InstanceType {
        requirements: [
            one(labels::INSTANCE_TYPE, &[&name]),
            one(labels::ARCH, &["amd64"]),
            one(labels::OS, &["linux"]),
            one(labels::ZONE, &["zone-1", "zone-2", "zone-3"]),
            one(labels::CAPACITY_TYPE, &["spot", "on-demand"]),
        ]
        .into_iter()
        .collect::<Requirements>()
        .into(),
        name,
        offerings: Arc::new([
            offering("zone-1", "spot"),
            offering("zone-2", "spot"),
            offering("zone-1", "on-demand"),
            offering("zone-2", "on-demand"),
            offering("zone-3", "on-demand"),
        ]),
        capacity: resources(&[
            ("cpu", &cpus.to_string()),
            ("memory", &memory.to_string()),
            ("pods", &(10 * cpus).to_string()),
        ]),
        overhead: Overhead::default(),
        volume_limits: Arc::default(),
    }
}
