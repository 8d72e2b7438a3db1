//! Instance types and their offerings, read from the KWOK provider's file (spec 04 §14.2).
//!
//! An offering with `Available: false` cannot be launched (spec 09 §2.1), nor can a reserved one
//! without free instances (spec 10 §2.3). An instance type has the
//! values that it can have for each label; the labels of one launched node follow from its type and
//! its offering.

use std::collections::{BTreeMap, BTreeSet};

use kerf_api::quantity::Quantity;
use serde::Deserialize;

use crate::price::Price;
use crate::resources::Resources;
use crate::selectors::Labels;

/// The label with the name of the instance type.
pub(crate) const INSTANCE_TYPE: &str = "node.kubernetes.io/instance-type";
/// The label with the zone.
pub(crate) const ZONE: &str = "topology.kubernetes.io/zone";
/// The label with the capacity type.
pub(crate) const CAPACITY_TYPE: &str = "karpenter.sh/capacity-type";

/// One way to buy an instance type.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Offering {
    /// Labels of a node that is bought this way: zone, capacity type, and the reservation ID if the
    /// offering is reserved.
    pub labels: Labels,
    /// Price per hour.
    pub price: Price,
    /// True if the offering is not known to be unavailable.
    pub is_available: bool,
    /// Number of instances left in the reservation; 0 if the offering is not reserved.
    pub reservation_capacity: i64,
}

impl Offering {
    /// Returns the zone, empty if the offering has none.
    pub fn zone(&self) -> &str {
        self.labels.get(ZONE).map_or("", String::as_str)
    }

    /// Returns `spot`, `on-demand` or `reserved`; empty if the offering has no capacity type.
    pub fn capacity_type(&self) -> &str {
        self.labels.get(CAPACITY_TYPE).map_or("", String::as_str)
    }

    /// Returns true if a node can be launched now: the offering is available, and if it is
    /// reserved, an instance is left (spec 10 §2.3).
    pub fn is_launchable(&self) -> bool {
        self.is_available && (self.capacity_type() != "reserved" || self.reservation_capacity > 0)
    }

    /// Returns the ID of the reservation, or `None` if the offering is not reserved.
    pub fn reservation_id(&self) -> Option<&str> {
        let id = self.labels.iter().find(|(key, _)| *key != ZONE && *key != CAPACITY_TYPE);
        id.filter(|_| self.capacity_type() == "reserved").map(|(_, id)| id.as_str())
    }
}

/// An instance type that can be launched.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InstanceType {
    /// Name, such as `m5.large`.
    pub name: String,
    /// Values that a node of this type can have, by label.
    pub values: BTreeMap<String, BTreeSet<String>>,
    /// All resources of an instance.
    pub capacity: Resources,
    /// Resources that pods can use.
    pub allocatable: Resources,
    /// Ways to buy the type.
    pub offerings: Vec<Offering>,
}

/// All instance types, by name.
pub type Catalogue = BTreeMap<String, InstanceType>;

/// Reads an instance-type file. Fails if the text is not JSON of the expected form.
pub fn read(text: &str) -> Result<Catalogue, serde_json::Error> {
    let types: Vec<WireType> = serde_json::from_str(text)?;
    Ok(types.into_iter().map(|wire| (wire.name.clone(), instance_type_from_wire(wire))).collect())
}

#[derive(Deserialize)]
struct WireType {
    #[serde(alias = "Name")]
    name: String,
    #[serde(alias = "Architecture", default)]
    architecture: String,
    #[serde(alias = "OperatingSystems", default)]
    #[serde(rename = "operatingSystems")]
    operating_systems: Vec<String>,
    #[serde(alias = "Resources", default)]
    resources: BTreeMap<String, serde_json::Value>,
    #[serde(alias = "Offerings", default)]
    offerings: Vec<WireOffering>,
}

#[derive(Deserialize)]
struct WireOffering {
    #[serde(rename = "Price", alias = "price", default)]
    price: Price,
    #[serde(rename = "Available", alias = "available")]
    available: Option<bool>,
    #[serde(rename = "ReservationCapacity", alias = "reservationCapacity", default)]
    reservation_capacity: i64,
    #[serde(rename = "Requirements", alias = "requirements", default)]
    requirements: Vec<WireRequirement>,
}

#[derive(Deserialize)]
struct WireRequirement {
    key: String,
    operator: String,
    #[serde(default)]
    values: Vec<String>,
}

fn instance_type_from_wire(wire: WireType) -> InstanceType {
    let mut capacity = Resources::new();
    for (name, amount) in &wire.resources {
        let text = amount.as_str().map_or_else(|| amount.to_string(), str::to_owned);
        if let Ok(amount) = text.parse() {
            capacity.set(name, amount);
        }
    }
    if !capacity.contains("pods") {
        capacity.set("pods", Quantity::from_units(110));
    }
    let offerings: Vec<Offering> = wire.offerings.iter().map(offering_from_wire).collect();
    let all = |key: &str| offerings.iter().filter_map(|offering| offering.labels.get(key).cloned()).collect();
    let one = |value: String| BTreeSet::from([value]);
    let (cpu, memory) = (capacity.get("cpu").to_string(), capacity.get("memory").to_string());
    let values = BTreeMap::from([
        (INSTANCE_TYPE.to_owned(), one(wire.name.clone())),
        ("kubernetes.io/arch".to_owned(), one(wire.architecture)),
        ("kubernetes.io/os".to_owned(), wire.operating_systems.into_iter().collect()),
        (ZONE.to_owned(), all(ZONE)),
        (CAPACITY_TYPE.to_owned(), all(CAPACITY_TYPE)),
        ("karpenter.kwok.sh/instance-size".to_owned(), one(instance_size(&wire.name).unwrap_or(&cpu).to_owned())),
        ("karpenter.kwok.sh/instance-family".to_owned(), one(instance_family(&wire.name).to_owned())),
        ("karpenter.kwok.sh/instance-cpu".to_owned(), one(cpu)),
        ("karpenter.kwok.sh/instance-memory".to_owned(), one(memory)),
    ]);
    InstanceType { name: wire.name, values, allocatable: allocatable(&capacity), capacity, offerings }
}

fn offering_from_wire(wire: &WireOffering) -> Offering {
    let single = wire.requirements.iter().filter(|r| r.operator == "In");
    Offering {
        labels: single.filter_map(|r| Some((r.key.clone(), r.values.first()?.clone()))).collect(),
        price: wire.price,
        is_available: wire.available.unwrap_or(true),
        reservation_capacity: wire.reservation_capacity,
    }
}

/// Returns the capacity less what the kubelet reserves (100m CPU and 10Mi memory) and, for memory,
/// less all huge pages.
fn allocatable(capacity: &Resources) -> Resources {
    let mut reserved = Resources::new();
    reserved.set("cpu", Quantity::from_nanos(100_000_000, kerf_api::quantity::QuantityFormat::DecimalSi));
    reserved
        .set("memory", Quantity::from_nanos((10 << 20) * 1_000_000_000, kerf_api::quantity::QuantityFormat::BinarySi));
    let mut remaining = capacity.minus(&reserved);
    for (_, pages) in capacity.iter().filter(|(name, _)| name.starts_with("hugepages-")) {
        remaining.set("memory", (remaining.get("memory") - pages).max(Quantity::ZERO));
    }
    remaining
}

/// Returns `large` for `m5.large`, or `None` if the name does not have this form.
fn instance_size(name: &str) -> Option<&str> {
    let (family, size) = name.split_once('.')?;
    let word = !family.is_empty() && family.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    let known = matches!(size, "nano" | "micro" | "small" | "medium" | "large" | "metal")
        || size.strip_suffix("xlarge").is_some_and(|count| count.chars().all(|c| c.is_ascii_digit()));
    (word && known).then_some(size)
}

/// Returns the part of the name before the first dot or hyphen. Without one, returns the first
/// character.
fn instance_family(name: &str) -> &str {
    match name.find(['.', '-']) {
        Some(end) => &name[..end],
        None => name.char_indices().nth(1).map_or(name, |(end, _)| &name[..end]),
    }
}

#[cfg(test)]
mod tests;
