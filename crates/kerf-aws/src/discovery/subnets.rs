//! Subnets of a node class, and the choice of one subnet per zone at launch (spec 05 §10).
//!
//! EC2 reports the free addresses of a subnet only when it is described. Until the next answer, the
//! addresses of launches are subtracted here, so that launches in quick succession do not all use
//! one subnet.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use kerf_api::ec2nodeclass::{EC2NodeClass, SubnetSelectorTerm};
use kerf_api::labels;
use kerf_api::quantity::Quantity;
use kerf_engine::catalogue::InstanceTypeRef;
use kerf_runtime::Clock;

use super::filters::tag_filters;
use super::{CLASSES_MAX, class_cache_key};
use crate::cache_metrics::CacheMetrics;
use crate::ports::ec2::{Ec2, Subnet};
use crate::ports::{AwsError, Filter, all_pages};
use crate::settings::AwsSettings;
use crate::ttl_cache::TtlCache;

/// Page size of `DescribeSubnets`.
const PAGE_SIZE: i32 = 500;
/// Number of subnets whose free addresses are known.
const SUBNETS_MAX: usize = 10_000;
/// Shortest time for which the free addresses of a subnet are known.
const FREE_ADDRESSES_TTL_MIN: Duration = Duration::from_mins(5);
/// Time for which free addresses are known beyond the time between two descriptions.
const FREE_ADDRESSES_EXTRA_TTL: Duration = Duration::from_mins(4);

/// The status of the node class has no subnets.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("no subnets matched selector for nodeclass {class}")]
pub(crate) struct NoSubnetsError {
    /// Name of the node class.
    pub(crate) class: String,
}

/// The subnet of a zone that a launch uses.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SubnetChoice {
    /// ID of the subnet.
    pub(crate) id: String,
    /// Name of the zone.
    pub(crate) zone: String,
    /// ID of the zone; `None` if unknown.
    pub(crate) zone_id: Option<String>,
    /// Free addresses as EC2 reported them, when the subnet was chosen; `None` if unknown.
    reported_addresses: Option<i64>,
    /// Addresses that the launch has subtracted.
    taken_addresses: i64,
}

/// The subnets of node classes, and their free addresses.
pub(crate) struct Subnets {
    ec2: Arc<dyn Ec2>,
    /// Answers by class.
    by_class: TtlCache<String, Arc<[Subnet]>>,
    /// Free addresses by subnet, as EC2 reported them.
    free_addresses: TtlCache<String, i64>,
    /// Free addresses by subnet, less those of launches since EC2's last report. At most
    /// [`SUBNETS_MAX`] entries.
    remaining_addresses: Mutex<BTreeMap<String, i64>>,
}

impl std::fmt::Debug for Subnets {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Subnets").finish_non_exhaustive()
    }
}

impl Subnets {
    /// Creates the provider without any answer.
    pub(crate) fn new(ec2: Arc<dyn Ec2>, settings: &AwsSettings, clock: Clock) -> Self {
        let refresh = settings.subnet_refresh_interval;
        let free_ttl = FREE_ADDRESSES_TTL_MIN.max(refresh.saturating_add(FREE_ADDRESSES_EXTRA_TTL));
        Self {
            ec2,
            by_class: TtlCache::new(clock, refresh, CLASSES_MAX),
            free_addresses: TtlCache::new(clock, free_ttl, SUBNETS_MAX),
            remaining_addresses: Mutex::default(),
        }
    }

    /// Publishes the number of entries of the caches from now on.
    pub(crate) fn measure(&self, metrics: &CacheMetrics) {
        self.by_class.measure(metrics.of("subnets"));
        self.free_addresses.measure(metrics.of("free_addresses"));
    }

    /// Returns the subnets that the terms of a class select, sorted by ID. Without terms it calls
    /// nothing and returns none.
    pub(crate) async fn list(&self, class: &EC2NodeClass) -> Result<Arc<[Subnet]>, AwsError> {
        let terms = class.spec.as_ref().map_or(&[][..], |spec| &spec.subnet_selector_terms);
        let queries = queries(terms);
        if queries.is_empty() {
            return Ok(Arc::default());
        }
        let key = class_cache_key(class);
        if let Some(subnets) = self.by_class.get(&key) {
            return Ok(subnets);
        }
        let mut subnets: BTreeMap<String, Subnet> = BTreeMap::new();
        for filters in queries {
            let answer = all_pages(Some(PAGE_SIZE), |page| self.ec2.describe_subnets(filters.clone(), page)).await?;
            subnets.extend(answer.into_iter().map(|subnet| (subnet.id.clone(), subnet)));
        }
        let subnets: Arc<[Subnet]> = subnets.into_values().collect();
        let mut remaining = self.lock();
        for subnet in subnets.iter() {
            self.free_addresses.insert(subnet.id.clone(), i64::from(subnet.available_ip_count));
            remaining.remove(&subnet.id);
        }
        drop(remaining);
        self.by_class.insert(key, subnets.clone());
        Ok(subnets)
    }

    /// Returns the subnet with the most free addresses of each zone in the status of a class, by
    /// name of the zone. Subtracts the addresses that the smallest suitable type needs from each of
    /// them. `types` are the types of the launch.
    pub(crate) fn choose_for_launch(
        &self,
        class: &EC2NodeClass,
        types: &[InstanceTypeRef<'_>],
        capacity_type: &str,
    ) -> Result<BTreeMap<String, SubnetChoice>, NoSubnetsError> {
        let subnets = class.status.as_ref().and_then(|status| status.subnets.as_deref()).unwrap_or_default();
        if subnets.is_empty() {
            return Err(NoSubnetsError { class: class.metadata.name.clone().unwrap_or_default() });
        }
        let mut remaining = self.lock();
        let mut choices: BTreeMap<String, (i64, SubnetChoice)> = BTreeMap::new();
        for subnet in subnets {
            let reported = self.free_addresses.get(&subnet.id);
            let figure = remaining.get(&subnet.id).copied().or(reported).unwrap_or(0);
            // The first of equal subnets is kept.
            if choices.get(&subnet.zone).is_some_and(|(kept, _)| *kept >= figure) {
                continue;
            }
            let choice = SubnetChoice {
                id: subnet.id.clone(),
                zone: subnet.zone.clone(),
                zone_id: subnet.zone_id.clone().filter(|id| !id.is_empty()),
                reported_addresses: reported,
                taken_addresses: addresses_of_smallest(types, capacity_type, &subnet.zone),
            };
            choices.insert(subnet.zone.clone(), (figure, choice));
        }
        for (figure, choice) in choices.values() {
            if remaining.len() < SUBNETS_MAX || remaining.contains_key(&choice.id) {
                remaining.insert(choice.id.clone(), figure.saturating_sub(choice.taken_addresses));
            }
        }
        Ok(choices.into_iter().map(|(zone, (_, choice))| (zone, choice)).collect())
    }

    /// Adds back the addresses of subnets that a fleet request named and in which it launched no
    /// instance. Called after each `CreateFleet`, whether it succeeded or failed. A subnet that EC2
    /// has described since it was chosen is left alone: its figure is right already. So is one
    /// whose free addresses are unknown.
    pub(crate) fn record_launch(
        &self,
        choices: &BTreeMap<String, SubnetChoice>,
        requested_subnets: &BTreeSet<String>,
        launched_subnets: &BTreeSet<String>,
    ) {
        let mut remaining = self.lock();
        let unused =
            choices.values().filter(|c| requested_subnets.contains(&c.id) && !launched_subnets.contains(&c.id));
        for choice in unused {
            let reported = self.free_addresses.get(&choice.id);
            if reported.is_none() || reported != choice.reported_addresses {
                continue;
            }
            if let Some(figure) = remaining.get_mut(&choice.id) {
                *figure = figure.saturating_add(choice.taken_addresses);
            }
        }
    }

    /// Records that a subnet has no free address, until EC2 describes it again.
    pub(crate) fn mark_full(&self, subnet_id: &str) {
        let mut remaining = self.lock();
        self.free_addresses.insert(subnet_id.to_owned(), 0);
        remaining.remove(subnet_id);
    }

    /// Sets the free addresses of a subnet as EC2 reported them last.
    pub(crate) fn set_free_addresses(&self, subnet_id: &str, count: i32) {
        let mut remaining = self.lock();
        self.free_addresses.insert(subnet_id.to_owned(), i64::from(count));
        remaining.remove(subnet_id);
    }

    /// Returns the free addresses of a subnet, less those of launches since EC2's last report.
    #[cfg(test)]
    pub(crate) fn remaining(&self, subnet_id: &str) -> Option<i64> {
        self.lock().get(subnet_id).copied()
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, i64>> {
        self.remaining_addresses.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns the filters of each call: one call for all IDs, one for each term without an ID.
fn queries(terms: &[SubnetSelectorTerm]) -> Vec<Vec<Filter>> {
    let ids: Vec<&str> = terms.iter().filter_map(|term| non_empty(term.id.as_deref())).collect();
    let by_id = (!ids.is_empty()).then(|| vec![Filter::any_of("subnet-id", ids)]);
    let by_tags = terms.iter().filter(|term| non_empty(term.id.as_deref()).is_none());
    by_tags.map(|term| tag_filters(term.tags.as_ref())).chain(by_id).collect()
}

fn non_empty(text: Option<&str>) -> Option<&str> {
    text.filter(|text| !text.is_empty())
}

/// Returns the smallest number of pods of the types that can be launched in a zone with a capacity
/// type, which is the number of addresses that a launch uses at least. Zero if there is no type.
fn addresses_of_smallest(types: &[InstanceTypeRef<'_>], capacity_type: &str, zone: &str) -> i64 {
    let is_offered = |instance_type: &&InstanceTypeRef<'_>| {
        instance_type.offerings().any(|offering| {
            let has = |key: &str, value: &str| offering.requirements.get(key).is_some_and(|own| own.has(value));
            offering.is_available() && has(labels::CAPACITY_TYPE, capacity_type) && has(labels::ZONE, zone)
        })
    };
    let pods = |instance_type: &InstanceTypeRef<'_>| instance_type.capacity.get("pods").map_or(0, Quantity::value);
    types.iter().filter(is_offered).map(pods).min().unwrap_or(0)
}

#[cfg(test)]
mod tests;
