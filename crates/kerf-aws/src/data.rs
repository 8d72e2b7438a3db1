//! Facts about EC2 that the program ships: a catalogue of instance types, on-demand prices, limits
//! of network interfaces, and network bandwidth (spec 05 §4.15, §7.1). `data/README.md` names the
//! sources.
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
    static PRICES: OnceLock<BTreeMap<String, BTreeMap<String, Price>>> = OnceLock::new();
    static NO_PRICES: BTreeMap<String, Price> = BTreeMap::new();
    let tables = PRICES.get_or_init(|| {
        let file: BTreeMap<String, BTreeMap<String, f64>> = decode(&unpacked(include_bytes!("../data/prices.json.gz")));
        let exact = |prices: BTreeMap<String, f64>| {
            prices.into_iter().filter_map(|(name, dollars)| Some((name, Price::from_dollars(dollars)?))).collect()
        };
        file.into_iter().map(|(region, prices)| (region, exact(prices))).collect()
    });
    tables.get(region).or_else(|| tables.get(FALLBACK_PRICE_REGION)).unwrap_or(&NO_PRICES)
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

    // spec 05 #66
    #[test]
    fn a_region_without_a_price_table_has_the_prices_of_us_east_1() {
        assert_eq!(prices("eu-west-9"), prices("us-east-1"));
        assert_ne!(prices("cn-north-1"), prices("us-east-1"));
    }
}
