//! Label values of an instance type (spec 05 §4.3). Every label that the provider knows has an
//! entry; a label without a value for a type must be absent, so that `DoesNotExist` and `NotIn`
//! match.

use std::collections::BTreeSet;

use kerf_api::ec2nodeclass::ReservationType;
use kerf_api::labels::{self, aws};
use kerf_api::slim::Str;
use kerf_engine::requirement::Requirement;

use super::class_facts::NodeClassFacts;
use crate::data;
use crate::offerings::OpenCapacityType;
use crate::ports::ec2::InstanceTypeInfo;

/// The values of one label; without a value the label is absent.
type LabelValues = (&'static str, Vec<Str>);

/// Returns the requirements of a type that are equal for all classes.
pub(super) fn type_requirements(info: &InstanceTypeInfo) -> impl Iterator<Item = Requirement> {
    to_requirements(type_labels(info))
}

fn to_requirements(values: Vec<LabelValues>) -> impl Iterator<Item = Requirement> {
    values.into_iter().map(|(key, values)| Requirement::one_of(Str::new_static(key), values))
}

/// Returns the requirements of a type that depend on the class. `zones` are the zones in which EC2
/// offers the type and the class has subnets.
pub(super) fn class_requirements(
    info: &InstanceTypeInfo,
    class: &NodeClassFacts,
    region: &str,
    zones: &BTreeSet<Str>,
) -> impl Iterator<Item = Requirement> {
    let mut values = class_labels(info, class, region, zones);
    let zone_ids: Vec<Str> =
        class.zones.iter().filter(|zone| zones.contains(&zone.name)).filter_map(|zone| zone.id.clone()).collect();
    if !zone_ids.is_empty() {
        values.push((aws::ZONE_ID, zone_ids));
    }
    // Unlike all other labels these two are not set at all without a value.
    if let Some(group) = &class.group {
        values.push((aws::PLACEMENT_GROUP_ID, vec![Str::new(&group.id)]));
        let partitions: Vec<Str> = group.partitions().map(|partition| Str::from(partition.to_string())).collect();
        if !partitions.is_empty() {
            values.push((aws::PLACEMENT_GROUP_PARTITION, partitions));
        }
    }
    to_requirements(values)
}

/// Returns the architecture of a type in Kubernetes' words. Returns `None` if EC2 reports none that
/// Kubernetes has.
pub(super) fn architecture(info: &InstanceTypeInfo) -> Option<&'static str> {
    let architectures = info.processor.iter().flat_map(|processor| &processor.supported_architectures);
    architectures.into_iter().find_map(|architecture| match architecture.as_str() {
        "x86_64" => Some("amd64"),
        "arm64" => Some("arm64"),
        _ => None,
    })
}

/// Returns true if nodes of the type run Windows.
pub(super) fn runs_windows(info: &InstanceTypeInfo, class: &NodeClassFacts) -> bool {
    class.family.windows_build.is_some() && architecture(info) == Some("amd64")
}

/// Returns the capacity types that need no reservation.
pub(super) fn open_capacity_types(info: &InstanceTypeInfo) -> BTreeSet<OpenCapacityType> {
    info.supported_usage_classes.iter().filter_map(|name| OpenCapacityType::from_usage_class(name)).collect()
}

fn class_labels(
    info: &InstanceTypeInfo,
    class: &NodeClassFacts,
    region: &str,
    zones: &BTreeSet<Str>,
) -> Vec<LabelValues> {
    let reservations = || class.reservations.iter().filter(|reservation| reservation.instance_type == info.name);
    let mut capacity_types: Vec<Str> =
        open_capacity_types(info).into_iter().map(|open| Str::new_static(open.as_str())).collect();
    if reservations().next().is_some() {
        capacity_types.push(Str::new_static(labels::CAPACITY_TYPE_RESERVED));
    }
    let os = match class.family.windows_build {
        None => Some("linux"),
        Some(_) if runs_windows(info, class) => Some("windows"),
        Some(_) => None,
    };
    let reservation_type =
        |kind: &Option<ReservationType>| Str::new(kind.as_ref().map_or("default", |kind| kind.as_str()));
    vec![
        (labels::OS, one(os)),
        (labels::ZONE, zones.iter().cloned().collect()),
        (labels::REGION, one(Some(region))),
        (labels::WINDOWS_BUILD, one(class.family.windows_build)),
        (labels::CAPACITY_TYPE, capacity_types),
        (aws::CAPACITY_RESERVATION_ID, reservations().map(|reservation| Str::new(&reservation.id)).collect()),
        (
            aws::CAPACITY_RESERVATION_TYPE,
            reservations().map(|reservation| reservation_type(&reservation.reservation_type)).collect(),
        ),
        (
            aws::CAPACITY_RESERVATION_INTERRUPTIBLE,
            reservations().map(|reservation| boolean(reservation.interruptible == Some(true))).collect(),
        ),
    ]
}

fn type_labels(info: &InstanceTypeInfo) -> Vec<LabelValues> {
    let name = NameParts::new(&info.name);
    let processor = info.processor.as_ref();
    // EC2 reports no clock speed for some old types, such as c1.medium. Their label is 0.
    let clock_mhz =
        processor.map(|cpu| (cpu.sustained_clock_speed_in_ghz.unwrap_or_default() * 1_000.0).round() as i64);
    let ebs = info.ebs.as_ref().filter(|ebs| ebs.ebs_optimized_support == "default");
    let ebs_mbps = ebs.and_then(|ebs| ebs.ebs_optimized_info).map(|info| info.maximum_bandwidth_in_mbps);
    let storage = info.storage.as_ref().filter(|storage| storage.nvme_support != "unsupported");
    let gpu = match info.gpus.as_ref().map(|gpus| &gpus.gpus[..]) {
        Some([gpu]) => Some(gpu),
        Some(_) | None => None,
    };
    let accelerator = Accelerator::new(info);
    let accelerator = accelerator.as_ref();
    vec![
        (labels::INSTANCE_TYPE, one(Some(&info.name))),
        (labels::ARCH, one(architecture(info))),
        (aws::INSTANCE_CPU, number(Some(info.vcpus.default_vcpus))),
        (aws::INSTANCE_CPU_MANUFACTURER, kebab(processor.and_then(|cpu| cpu.manufacturer.as_deref()))),
        (aws::INSTANCE_CPU_SUSTAINED_CLOCK_SPEED_MHZ, number(clock_mhz)),
        (aws::INSTANCE_MEMORY, number(Some(info.memory.size_mib))),
        (aws::INSTANCE_EBS_BANDWIDTH, number(ebs_mbps)),
        (aws::INSTANCE_NETWORK_BANDWIDTH, number(data::bandwidth().get(&info.name))),
        (aws::INSTANCE_CATEGORY, one(name.category)),
        (aws::INSTANCE_GENERATION, one(name.generation)),
        (aws::INSTANCE_FAMILY, one(name.family)),
        (aws::INSTANCE_SIZE, one(name.size)),
        (aws::INSTANCE_CAPABILITY_FLEX, vec![boolean(name.is_flex)]),
        (aws::INSTANCE_LOCAL_NVME, number(storage.and_then(|storage| storage.total_size_gb))),
        (aws::INSTANCE_GPU_NAME, kebab(gpu.map(|gpu| gpu.name.as_str()))),
        (aws::INSTANCE_GPU_MANUFACTURER, kebab(gpu.map(|gpu| gpu.manufacturer.as_str()))),
        (aws::INSTANCE_GPU_COUNT, number(gpu.map(|gpu| gpu.count))),
        (aws::INSTANCE_GPU_MEMORY, number(gpu.map(|gpu| gpu.memory_info.size_mib))),
        (aws::INSTANCE_ACCELERATOR_NAME, kebab(accelerator.map(|accelerator| accelerator.name))),
        (aws::INSTANCE_ACCELERATOR_MANUFACTURER, kebab(accelerator.map(|accelerator| accelerator.manufacturer))),
        (aws::INSTANCE_ACCELERATOR_COUNT, number(accelerator.map(|accelerator| accelerator.count))),
        // Bare metal has an empty value: the label exists.
        (aws::INSTANCE_HYPERVISOR, one(Some(&info.hypervisor))),
        (aws::INSTANCE_ENCRYPTION_IN_TRANSIT_SUPPORTED, vec![boolean(info.network.encryption_in_transit_supported)]),
        (aws::NITRO_SANDBOX, vec![boolean(info.nitro_enclaves_support == "supported")]),
        (aws::INSTANCE_TENANCY, vec![Str::new_static(aws::TENANCY_DEFAULT), Str::new_static(aws::TENANCY_DEDICATED)]),
    ]
}

/// The accelerators that the labels of a type describe.
struct Accelerator<'a> {
    name: &'a str,
    manufacturer: &'a str,
    count: i32,
}

impl<'a> Accelerator<'a> {
    fn new(info: &'a InstanceTypeInfo) -> Option<Self> {
        match &info.neuron {
            Some(neuron) => match &neuron.neuron_devices[..] {
                [device] => Some(Self { name: &device.name, manufacturer: "aws", count: device.count }),
                _ => None,
            },
            None => match &info.accelerators.as_ref()?.accelerators[..] {
                [entry] => Some(Self { name: &entry.name, manufacturer: &entry.manufacturer, count: entry.count }),
                _ => None,
            },
        }
    }
}

/// The parts of an instance type's name.
#[derive(Debug, PartialEq, Eq)]
struct NameParts<'a> {
    category: Option<&'a str>,
    generation: Option<&'a str>,
    family: Option<&'a str>,
    size: Option<&'a str>,
    is_flex: bool,
}

impl<'a> NameParts<'a> {
    fn new(name: &'a str) -> Self {
        let (family, size) = match name.split_once('.') {
            Some((family, size)) if !size.contains('.') => (Some(family), Some(size)),
            Some(_) | None => (None, None),
        };
        let (category, generation) = category_and_generation(name).unzip();
        let is_flex = family.is_some_and(|family| family.contains("-flex"));
        Self { category, generation, family, size, is_flex }
    }
}

/// Returns the letters before the generation, and the generation:
/// `^([a-z]+)(-[0-9]+tb)?([0-9]+).*\.`
fn category_and_generation(name: &str) -> Option<(&str, &str)> {
    let (category, rest) = split_prefix(name, |byte| byte.is_ascii_lowercase())?;
    let after_terabytes = rest.strip_prefix('-').and_then(|rest| {
        let (_, rest) = split_prefix(rest, |byte| byte.is_ascii_digit())?;
        rest.strip_prefix("tb")
    });
    let (generation, rest) = split_prefix(after_terabytes.unwrap_or(rest), |byte| byte.is_ascii_digit())?;
    rest.contains('.').then_some((category, generation))
}

/// Splits off the longest prefix of these bytes. Returns `None` if it is empty.
fn split_prefix(text: &str, is_part: impl Fn(u8) -> bool) -> Option<(&str, &str)> {
    let length = text.bytes().position(|byte| !is_part(byte)).unwrap_or(text.len());
    if length == 0 { None } else { text.split_at_checked(length) }
}

fn one(value: Option<&str>) -> Vec<Str> {
    value.map(Str::new).into_iter().collect()
}

fn number(value: Option<impl ToString>) -> Vec<Str> {
    value.map(|value| Str::from(value.to_string())).into_iter().collect()
}

fn kebab(value: Option<&str>) -> Vec<Str> {
    value.map(|value| Str::from(value.replace(' ', "-").to_lowercase())).into_iter().collect()
}

fn boolean(value: bool) -> Str {
    Str::new_static(if value { "true" } else { "false" })
}

#[cfg(test)]
mod tests {
    use super::*;

    // spec 05 #3, #4
    #[test]
    fn category_and_generation_come_from_the_name() {
        for (name, expected) in [
            ("m5.large", Some(("m", "5"))),
            ("u-6tb1.metal", Some(("u", "1"))),
            ("u7i-12tb.224xlarge", Some(("u", "7"))),
            ("inf2.xlarge", Some(("inf", "2"))),
            ("m7i-flex.large", Some(("m", "7"))),
            ("u-6tb.metal", None),
            ("m5", None),
            ("5m.large", None),
            ("", None),
        ] {
            assert_eq!(category_and_generation(name), expected, "{name}");
        }
        let parts = NameParts::new("m7i-flex.large");
        assert_eq!((parts.family, parts.size, parts.is_flex), (Some("m7i-flex"), Some("large"), true));
        let parts = NameParts::new("a.b.c");
        assert_eq!((parts.family, parts.size), (None, None));
    }
}
