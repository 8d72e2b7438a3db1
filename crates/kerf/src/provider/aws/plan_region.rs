//! The AWS region of a plan: that of the user, else that of the zones in the input, else us-east-1
//! (spec 09 §2.1).

use std::collections::BTreeMap;

use kerf_api::labels;
use kerf_aws::data;

use super::named_values;
use crate::exit::Problem;
use crate::input::Objects;

/// Region of an input without zones.
const DEFAULT_REGION: &str = "us-east-1";
/// Region of the EC2 in memory.
const SANDBOX_REGION: &str = "us-west-2";

/// The region of a plan, and how it was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct PlanRegion {
    pub(super) name: String,
    pub(super) origin: RegionOrigin,
    /// Regions of the zones of subnets, nodes and EC2 NodePools in the input, sorted.
    pub(super) of_zones: Vec<String>,
}

/// How a region was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum RegionOrigin {
    /// The user gave it.
    Flag,
    /// The input has zones of it.
    Zones,
    /// The input has no zones.
    Default,
}

/// Returns the problem of a region for which Kerf ships no instance types.
pub(in crate::provider) fn check_region(region: &str) -> Result<(), Problem> {
    if data::regions().any(|known| known == region) {
        return Ok(());
    }
    if region.trim().is_empty() {
        let problem = Problem::new(format!("--region {region:?}: the region is empty"));
        return Err(problem.with_hint("leave --region away, or name a region, for example --region eu-west-1"));
    }
    let problem = Problem::new(format!("--region {region}: Kerf ships no instance types of this region"));
    if let Some(similar) = similar_region(region) {
        return Err(problem.with_hint(format!("did you mean {similar}? `kerf aws data` lists all regions")));
    }
    let regions: Vec<&str> = data::regions().collect();
    Err(problem.with_hint(format!("use one of: {}", regions.join(", "))))
}

/// Returns the region that is meant by a zone, by a name with other letter case, or with other
/// characters between its parts.
fn similar_region(text: &str) -> Option<&'static str> {
    let letters = |name: &str| -> String {
        name.chars().filter(char::is_ascii_alphanumeric).map(|char| char.to_ascii_lowercase()).collect()
    };
    let written = letters(text);
    data::regions().find(|region| {
        let known = letters(region);
        // A zone is its region and a letter.
        known == written || written.strip_prefix(&known).is_some_and(|zone| zone.len() == 1)
    })
}

impl PlanRegion {
    /// Returns the region of a sandbox's account.
    pub(super) fn of_sandbox() -> Self {
        Self { name: SANDBOX_REGION.to_owned(), origin: RegionOrigin::Flag, of_zones: Vec::new() }
    }

    /// Returns the region of an input. If the input has zones of several regions, the one with the
    /// most mentions is used. Fails if Kerf ships no instance types of it.
    pub(super) fn of(flag: Option<&str>, objects: &Objects) -> Result<Self, Problem> {
        let mut mentions: BTreeMap<&str, usize> = BTreeMap::new();
        for zone in zones(objects) {
            if let Some(region) = region_of_zone(zone) {
                *mentions.entry(region).or_default() += 1;
            }
        }
        let of_zones: Vec<String> = mentions.keys().map(|region| (*region).to_owned()).collect();
        if let Some(name) = flag {
            return Ok(Self { name: name.to_owned(), origin: RegionOrigin::Flag, of_zones });
        }
        // Of equal counts, the first region by name is used.
        let most = mentions.iter().rev().max_by_key(|(_, count)| **count).map(|(region, _)| *region);
        let Some(name) = most else {
            return Ok(Self { name: DEFAULT_REGION.to_owned(), origin: RegionOrigin::Default, of_zones });
        };
        if check_region(name).is_err() {
            return Err(Problem::new(format!(
                "the zones of the input are in {name}, and Kerf ships no instance types of this region"
            ))
            .with_hint("plan with the types of a similar region, for example --region us-east-1"));
        }
        Ok(Self { name: name.to_owned(), origin: RegionOrigin::Zones, of_zones })
    }
}

/// Returns the zones in the input: of subnets, of nodes, and of requirements of pools.
fn zones(objects: &Objects) -> impl Iterator<Item = &str> {
    let classes = objects.ec2_node_classes.iter().filter_map(|class| class.object.status.as_ref());
    let subnets = classes.flat_map(|status| status.subnets.iter().flatten()).map(|subnet| subnet.zone.as_str());
    let nodes = objects.nodes.iter().filter_map(|node| node.object.metadata.labels.get(labels::ZONE));
    subnets.chain(nodes).chain(named_values::of_pools(objects, labels::ZONE))
}

/// Returns the region of a zone such as `us-west-2a` or, for a local zone, `us-west-2-lax-1a`.
/// Returns `None` for a name that is no zone of AWS.
pub(super) fn region_of_zone(zone: &str) -> Option<&str> {
    // The region ends after its first part that is a number: `us-west-2`, `us-gov-west-1`.
    let mut end = 0;
    for (position, part) in zone.split('-').enumerate() {
        let digits = part.bytes().take_while(u8::is_ascii_digit).count();
        if digits > 0 {
            let is_region = position >= 2 && part.len() <= digits + 1;
            return is_region.then(|| &zone[..end + digits]);
        }
        let is_word = !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_lowercase());
        if !is_word || (position == 0 && part.len() != 2 && part != "eusc") {
            return None;
        }
        end += part.len() + 1;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_region_of_a_zone_is_found() {
        for (zone, expected) in [
            ("us-west-2a", Some("us-west-2")),
            ("us-gov-west-1b", Some("us-gov-west-1")),
            ("us-west-2-lax-1a", Some("us-west-2")),
            ("ap-southeast-1", Some("ap-southeast-1")),
            ("eusc-de-east-1a", Some("eusc-de-east-1")),
            ("test-zone-a", None),
            ("zone-1a", None),
            ("kwok-zone-1", None),
            ("us-west-2abc", None),
            ("", None),
        ] {
            assert_eq!(region_of_zone(zone), expected, "{zone}");
        }
    }
}
