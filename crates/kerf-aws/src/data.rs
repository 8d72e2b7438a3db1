//! Facts about EC2 that the program ships: instance types with their zones in many regions,
//! on-demand prices, limits of network interfaces, and network bandwidth (spec 05 §4.15, §7.1).
//! [`sources`] returns where each file is from; `hack/aws/data/update.py` makes the files.
//!
//! Each file is read on first use, once per process. The files are part of the program, so a file
//! that cannot be read is a defect of the build; a test reads all of them.

use std::collections::BTreeMap;
use std::io::Read as _;
use std::sync::OnceLock;

use flate2::read::GzDecoder;
use kerf_engine::Price;
use serde::Deserialize;
use serde::de::DeserializeOwned;

use crate::ports::ec2::{InstanceTypeInfo, InstanceTypeOffering};

/// Region whose prices are used for regions without a table of their own.
const FALLBACK_PRICE_REGION: &str = "us-east-1";

/// The instance types of one region, and the zones in which they are offered.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ShippedCatalogue {
    /// Descriptions of the instance types, sorted by name.
    pub instance_types: Vec<InstanceTypeInfo>,
    /// Zones of each type.
    pub offerings: Vec<InstanceTypeOffering>,
}

/// Limits of the network interfaces of an instance type.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct VpcLimits {
    /// IPv4 addresses of each interface.
    #[serde(rename = "ipv4PerInterface")]
    pub ipv4_per_interface: i64,
    /// True if the type can have branch interfaces.
    #[serde(rename = "trunking")]
    pub is_trunking_compatible: bool,
    /// Number of branch interfaces.
    pub branch_interfaces: i64,
}

/// Returns the instance types of us-west-2.
pub fn catalogue() -> &'static ShippedCatalogue {
    static CATALOGUE: OnceLock<ShippedCatalogue> = OnceLock::new();
    CATALOGUE.get_or_init(|| {
        let bytes = unpacked(include_bytes!("../data/catalogue-us-west-2.json.gz"));
        parse_catalogue(&bytes).expect("the file is part of the program, and a test decodes it")
    })
}

/// Returns the names of the regions whose types and zones are shipped, sorted.
pub fn regions() -> impl Iterator<Item = &'static str> {
    region_offerings().keys().map(String::as_str)
}

/// Returns the availability zones of a region, sorted. Returns an empty list for an unknown region.
pub fn zones(region: &str) -> &'static [String] {
    region_offerings().get(region).map_or(&[], |offerings| &offerings.zones)
}

/// Returns the names of the instance types that are offered in a region, sorted. Returns none for
/// an unknown region.
pub fn offered_types(region: &str) -> impl Iterator<Item = &'static str> {
    region_offerings().get(region).into_iter().flat_map(|offerings| offerings.types.keys().map(String::as_str))
}

/// Returns true if a type is offered in a zone of the region.
pub fn is_offered(region: &str, instance_type: &str) -> bool {
    region_offerings().get(region).is_some_and(|offerings| offerings.types.contains_key(instance_type))
}

/// Returns the instance types that are offered in a region, with their zones. Returns `None` for an
/// unknown region.
pub fn region_catalogue(region: &str) -> Option<ShippedCatalogue> {
    let offered = region_offerings().get(region)?;
    let instance_types = catalogue().instance_types.iter().filter(|info| offered.types.contains_key(&info.name));
    let offerings = offered.types.iter().flat_map(|(name, zones)| {
        let positions = zones.chars().filter_map(|digit| digit.to_digit(10));
        let zones = positions.filter_map(|position| offered.zones.get(position as usize));
        zones.map(|zone| InstanceTypeOffering { instance_type: name.clone(), zone: zone.clone() })
    });
    Some(ShippedCatalogue { instance_types: instance_types.cloned().collect(), offerings: offerings.collect() })
}

/// Zones of a region, and for each type the positions of its zones as digits.
#[derive(Debug, Deserialize)]
struct RegionOfferings {
    zones: Vec<String>,
    types: BTreeMap<String, String>,
}

fn region_offerings() -> &'static BTreeMap<String, RegionOfferings> {
    static OFFERINGS: OnceLock<BTreeMap<String, RegionOfferings>> = OnceLock::new();
    OFFERINGS.get_or_init(|| decode(&unpacked(include_bytes!("../data/offerings.json.gz"))))
}

/// The source of a shipped file.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct DataSource {
    /// Name of the file.
    pub file: String,
    /// The facts in it, in a few words.
    pub content: String,
    /// The package that the facts are from.
    pub source: String,
    /// Version of the package.
    pub version: String,
    /// Date of the facts, for example `2026-07-06`.
    pub date: jiff::civil::Date,
    /// Licence of the package.
    pub licence: String,
}

/// File of [`prices`] in [`sources`].
pub const PRICES_FILE: &str = "prices.json.gz";
/// File of the types of [`catalogue`] in [`sources`].
pub const TYPES_FILE: &str = "catalogue-us-west-2.json.gz";

/// Returns the sources of all shipped files, sorted by file.
pub fn sources() -> &'static [DataSource] {
    static SOURCES: OnceLock<Vec<DataSource>> = OnceLock::new();
    SOURCES.get_or_init(|| decode(include_bytes!("../data/sources.json")))
}

/// Returns the source of a shipped file.
pub fn source_of(file: &str) -> Option<&'static DataSource> {
    sources().iter().find(|source| source.file == file)
}

/// Reads a catalogue: a JSON object with `instanceTypes` and `offerings`, in the shapes of the AWS
/// command line.
pub fn parse_catalogue(json: &[u8]) -> Result<ShippedCatalogue, serde_json::Error> {
    let file: CatalogueFile = serde_json::from_slice(json)?;
    let mut instance_types = file.instance_types;
    instance_types.sort_by(|a, b| a.name.cmp(&b.name));
    let offerings = file.offerings.into_iter();
    Ok(ShippedCatalogue {
        instance_types,
        offerings: offerings
            .map(|offering| InstanceTypeOffering { instance_type: offering.instance_type, zone: offering.location })
            .collect(),
    })
}

/// Returns the hourly on-demand price of each type in a region, in US dollars (in yuan in regions
/// that begin with `cn-`). A region without a table has the prices of us-east-1.
pub fn prices(region: &str) -> &'static BTreeMap<String, Price> {
    static NO_PRICES: BTreeMap<String, Price> = BTreeMap::new();
    price_tables().get(price_region(region)).unwrap_or(&NO_PRICES)
}

/// Returns the region whose price table is used for a region: its own, or us-east-1.
pub fn price_region(region: &str) -> &'static str {
    price_tables().get_key_value(region).map_or(FALLBACK_PRICE_REGION, |(own, _)| own.as_str())
}

/// Returns the currency of a region's prices.
pub fn currency(region: &str) -> &'static str {
    if region.starts_with("cn-") { "CNY" } else { "USD" }
}

/// Returns the regions with a price table of their own, with the number of types in it, sorted.
pub fn price_table_sizes() -> impl Iterator<Item = (&'static str, usize)> {
    price_tables().iter().map(|(region, prices)| (region.as_str(), prices.len()))
}

fn price_tables() -> &'static BTreeMap<String, BTreeMap<String, Price>> {
    static PRICES: OnceLock<BTreeMap<String, BTreeMap<String, Price>>> = OnceLock::new();
    PRICES.get_or_init(|| {
        let file: BTreeMap<String, BTreeMap<String, f64>> = decode(&unpacked(include_bytes!("../data/prices.json.gz")));
        let exact = |prices: BTreeMap<String, f64>| {
            prices.into_iter().filter_map(|(name, dollars)| Some((name, Price::from_dollars(dollars)?))).collect()
        };
        file.into_iter().map(|(region, prices)| (region, exact(prices))).collect()
    })
}

/// Returns the limits of network interfaces by instance type. New types may be missing.
pub fn vpc_limits() -> &'static BTreeMap<String, VpcLimits> {
    static LIMITS: OnceLock<BTreeMap<String, VpcLimits>> = OnceLock::new();
    LIMITS.get_or_init(|| decode(include_bytes!("../data/vpc-limits.json")))
}

/// Returns the baseline network bandwidth by instance type, in megabits per second. New types, and
/// types without a guaranteed bandwidth, are missing.
pub fn bandwidth() -> &'static BTreeMap<String, u64> {
    static BANDWIDTH: OnceLock<BTreeMap<String, u64>> = OnceLock::new();
    BANDWIDTH.get_or_init(|| decode(include_bytes!("../data/bandwidth.json")))
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct CatalogueFile {
    instance_types: Vec<InstanceTypeInfo>,
    offerings: Vec<OfferingEntry>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct OfferingEntry {
    instance_type: String,
    location: String,
}

fn unpacked(compressed: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    let result = GzDecoder::new(compressed).read_to_end(&mut bytes);
    result.expect("the file is part of the program, and a test unpacks it");
    bytes
}

fn decode<T: DeserializeOwned>(bytes: &[u8]) -> T {
    serde_json::from_slice(bytes).expect("the file is part of the program, and a test decodes it")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_files_can_be_read_and_have_the_counts_of_their_readme() {
        assert_eq!(catalogue().instance_types.len(), 1_386);
        assert_eq!(catalogue().offerings.len(), 5_070);
        assert_eq!(prices("us-east-1").len(), 1_361);
        assert_eq!(prices("us-gov-west-1").len(), 724);
        assert_eq!(prices("cn-north-1").len(), 316);
        assert_eq!(vpc_limits().len(), 1_346);
        assert_eq!(bandwidth().len(), 1_349);
    }

    #[test]
    fn the_facts_of_some_types_are_those_that_aws_publishes() {
        let find = |name: &str| catalogue().instance_types.iter().find(|info| info.name == name).unwrap();
        let m5_large = find("m5.large");
        assert_eq!((m5_large.vcpus.default_vcpus, m5_large.memory.size_mib), (2, 8_192));
        assert_eq!(m5_large.network.ipv4_addresses_per_interface, 10);
        assert_eq!(m5_large.network.network_cards[0].maximum_network_interfaces, 3);
        assert_eq!(find("inf2.48xlarge").neuron.as_ref().unwrap().neuron_devices[0].count, 12);
        assert_eq!(find("g5.12xlarge").gpus.as_ref().unwrap().gpus[0].count, 4);
        assert_eq!(prices("us-west-2")["m5.large"], Price::from_decimal("0.096").unwrap());
        let expected = VpcLimits { ipv4_per_interface: 10, is_trunking_compatible: true, branch_interfaces: 9 };
        assert_eq!(vpc_limits()["m5.large"], expected);
        assert_eq!(bandwidth()["c7g.xlarge"], 1_876);
    }

    #[test]
    fn each_region_has_its_zones_and_the_types_that_are_offered_there() {
        assert_eq!(regions().count(), 30);
        assert_eq!(zones("us-west-1"), ["us-west-1a", "us-west-1b"]);
        let catalogue_of = |region: &str| region_catalogue(region).unwrap();
        // The types for macOS are in the shipped answer, and Kerf does not ask for them.
        let described = |offering: &&InstanceTypeOffering| !offering.instance_type.starts_with("mac");
        let expected: Vec<_> = {
            let mut offerings: Vec<_> = catalogue().offerings.iter().filter(described).cloned().collect();
            offerings.sort();
            offerings
        };
        assert_eq!(catalogue_of("us-west-2").offerings, expected);
        for region in regions() {
            let catalogue = catalogue_of(region);
            assert_eq!(catalogue.instance_types.len(), offered_types(region).count(), "{region}");
            assert!(catalogue.instance_types.len() > 200 && zones(region).len() >= 2, "{region}");
            assert!(zones(region).iter().all(|zone| zone.starts_with(region)), "{region}");
        }
        let zones_of = |region: &str, name: &str| -> Vec<String> {
            let offerings = catalogue_of(region).offerings;
            offerings.into_iter().filter(|offering| offering.instance_type == name).map(|found| found.zone).collect()
        };
        assert_eq!(zones_of("us-west-1", "m5.large").len(), 2);
        assert_eq!(region_catalogue("eu-west-9"), None);
        assert_eq!((zones("eu-west-9").len(), offered_types("eu-west-9").count()), (0, 0));
    }

    #[test]
    fn each_file_has_a_source_with_a_date() {
        let files: Vec<&str> = sources().iter().map(|source| source.file.as_str()).collect();
        assert_eq!(files, ["bandwidth.json", TYPES_FILE, "offerings.json.gz", PRICES_FILE, "vpc-limits.json"]);
        let prices = source_of(PRICES_FILE).unwrap();
        assert_eq!((prices.version.as_str(), prices.date.to_string().as_str()), ("v1.14.1", "2026-07-06"));
        assert!(sources().iter().all(|source| source.licence == "Apache-2.0"));
    }

    // spec 05 #66
    #[test]
    fn a_region_without_a_price_table_has_the_prices_of_us_east_1() {
        assert_eq!(prices("eu-west-9"), prices("us-east-1"));
        assert_eq!((price_region("eu-west-9"), price_region("us-gov-west-1")), ("us-east-1", "us-gov-west-1"));
        assert_ne!(prices("cn-north-1"), prices("us-east-1"));
    }
}
