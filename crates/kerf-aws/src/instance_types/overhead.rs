//! Resources of an instance that are not available to pods (spec 05 §4.7).

use kerf_api::quantity::{Quantity, QuantityFormat};
use kerf_api::slim::{ResourceList, Str};
use kerf_engine::catalogue::Overhead;

use super::bytes::{MIB, bytes};
use super::capacity::{self, CapacitySettings};
use super::class_facts::NodeClassFacts;
use super::kubelet::{KubeletError, share_of};
use crate::ports::ec2::InstanceTypeInfo;

/// Memory that the kubelet keeps free by default.
const EVICTION_MEMORY_BYTES: i64 = 100 * MIB;
/// Part of the ephemeral storage that the kubelet keeps free by default.
const EVICTION_STORAGE_PERCENT: f64 = 10.0;
/// Ephemeral storage that is reserved for Kubernetes by default.
const RESERVED_STORAGE_BYTES: i64 = 1024 * MIB;

/// Returns the overhead of a type. `storage` is its ephemeral storage.
pub(super) fn overhead(
    info: &InstanceTypeInfo,
    class: &NodeClassFacts,
    settings: CapacitySettings,
    storage: Quantity,
) -> Result<Overhead, KubeletError> {
    // The percentage refers to the estimate, also where the memory of a node has been discovered.
    let memory_bytes = capacity::estimated_memory_bytes(info, settings);
    let memory = class.kubelet.eviction_threshold("memory.available", memory_bytes)?;
    let nodefs = class.kubelet.eviction_threshold("nodefs.available", storage.value())?;
    Ok(Overhead {
        kube_reserved: kube_reserved(info, class, settings),
        system_reserved: class.kubelet.system_reserved(),
        eviction_threshold: [
            ("memory", memory.unwrap_or(bytes(EVICTION_MEMORY_BYTES))),
            ("ephemeral-storage", nodefs.unwrap_or(share_of(storage.value(), EVICTION_STORAGE_PERCENT))),
        ]
        .into(),
    })
}

fn kube_reserved(info: &InstanceTypeInfo, class: &NodeClassFacts, settings: CapacitySettings) -> ResourceList {
    let pods = if class.family.reserves_for_eni_limited_pods {
        capacity::eni_limited_pods(info, class, 0)
    } else {
        capacity::pods(info, class, settings)
    };
    let defaults = [
        ("cpu", reserved_cpu(i64::from(info.vcpus.default_vcpus))),
        ("memory", bytes(pods.saturating_mul(11).saturating_add(255).saturating_mul(MIB))),
        ("ephemeral-storage", bytes(RESERVED_STORAGE_BYTES)),
    ];
    // Of two pairs with one name, the list keeps the last.
    let from_class = class.kubelet.kube_reserved();
    let defaults = defaults.into_iter().map(|(name, quantity)| (Str::new_static(name), quantity));
    defaults.chain(from_class.iter().map(|(name, quantity)| (name.clone(), quantity))).collect()
}

/// Returns the reserved CPU: 6% of the first core, 1% of the second, 0.5% of the next two and 0.25%
/// of all others, each rounded down to a thousandth of a core.
fn reserved_cpu(cores: i64) -> Quantity {
    /// End of each tier in thousandths of a core, and its share in hundredths of a percent.
    const TIERS: [(i64, i64); 4] = [(1_000, 600), (2_000, 100), (4_000, 50), (i64::MAX, 25)];
    let total = cores.saturating_mul(1_000);
    let mut start = 0;
    let mut reserved = 0;
    for (end, share) in TIERS {
        reserved += (total.min(end) - start).max(0) * share / 10_000;
        start = end;
    }
    Quantity::from_nanos(i128::from(reserved) * 1_000_000, QuantityFormat::DecimalSi)
}
