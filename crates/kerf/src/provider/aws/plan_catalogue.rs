//! The instance types of EC2 for plans: types, zones and prices that Kerf ships, for the node
//! classes of an input. No AWS account is called.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use kerf_api::ec2nodeclass::{EC2NodeClass, EC2NodeClassStatus, Subnet};
use kerf_api::labels::{self, LabelRules};
use kerf_api::nodepool::NodeClassReference;
use kerf_api::requirement::Operator;
use kerf_aws::instance_types::{InstanceTypeCatalogue, InstanceTypeSettings};
use kerf_aws::pricing::Pricing;
use kerf_aws::unavailable_offerings::UnavailableOfferings;
use kerf_aws::{AwsSettings, data};
use kerf_engine::catalogue::InstanceTypes;
use kerf_runtime::Clock;

use super::is_ec2_node_class;
use super::plan_region::{PlanRegion, RegionOrigin};
use crate::exit::Problem;
use crate::input::Objects;
use crate::program::ProviderName;
use crate::provider::{PlanCatalogue, PlanNotice};

/// Largest number of names in one notice.
const NAMES_MAX: usize = 5;

/// The shipped instance types for the node classes of an input.
pub(in crate::provider) struct Ec2PlanCatalogue {
    label_rules: LabelRules,
    /// The types of each class, by its name; `None` if the class cannot be used.
    lists: BTreeMap<String, Option<InstanceTypes>>,
    notices: Vec<PlanNotice>,
}

impl Ec2PlanCatalogue {
    /// Resolves the types of all classes of the input. `region` is that of the user. Fails if Kerf
    /// ships no types of the region of the input.
    pub(in crate::provider) fn new(
        region: Option<&str>,
        settings: &AwsSettings,
        objects: &Objects,
    ) -> Result<Self, Problem> {
        let region = PlanRegion::of(region, objects)?;
        Ok(Self::of_types(&shipped_types(&region.name, settings), &region, objects))
    }

    /// Resolves the types of all classes of the input from those of a region.
    pub(super) fn of_types(types: &InstanceTypeCatalogue, region: &PlanRegion, objects: &Objects) -> Self {
        let mut notices = vec![source_note(region)];
        notices.extend(region_warning(region));
        let mut lists = BTreeMap::new();
        for class in objects.ec2_node_classes.iter().map(|class| &class.object) {
            let name = class.metadata.name.clone().unwrap_or_default();
            let list = types.list(&planned_class(class, &region.name));
            notices.extend(class_warnings(&name, class, &region.name));
            if let Err(error) = &list {
                notices.push(PlanNotice::Warning(format!("EC2NodeClass `{name}` has no instance types: {error}")));
            }
            lists.insert(name, list.ok());
        }
        notices.extend(named_types_warnings(objects, &region.name));
        Self { label_rules: LabelRules::aws(), lists, notices }
    }
}

impl Ec2PlanCatalogue {
    /// Replaces the lists of all classes.
    pub(in crate::provider) fn change_lists(&mut self, change: impl Fn(&InstanceTypes) -> InstanceTypes) {
        for list in self.lists.values_mut().flatten() {
            *list = change(list);
        }
    }
}

impl PlanCatalogue for Ec2PlanCatalogue {
    fn label_rules(&self) -> &LabelRules {
        &self.label_rules
    }

    fn instance_types(&self, class: &NodeClassReference) -> Option<InstanceTypes> {
        if is_ec2_node_class(class) { self.lists.get(&class.name).cloned().flatten() } else { None }
    }

    fn providers(&self) -> &'static [ProviderName] {
        &[ProviderName::Aws]
    }

    fn notices(&self) -> &[PlanNotice] {
        &self.notices
    }
}

/// Returns the shipped instance types of a region, with their prices.
pub(super) fn shipped_types(region: &str, settings: &AwsSettings) -> InstanceTypeCatalogue {
    let clock = Clock::system();
    let settings = InstanceTypeSettings::new(region, settings);
    let unavailable = Arc::new(UnavailableOfferings::new(clock));
    let types = InstanceTypeCatalogue::new(settings, Arc::new(Pricing::new(region)), unavailable, clock);
    let shipped = data::region_catalogue(region).unwrap_or_default();
    types.set_catalogue(shipped.instance_types, shipped.offerings);
    types
}

/// Returns the line that names region, dates and sources.
fn source_note(region: &PlanRegion) -> PlanNotice {
    let name = &region.name;
    let how = match region.origin {
        RegionOrigin::Default => " (the default; --region selects another)",
        RegionOrigin::Flag | RegionOrigin::Zones(_) => "",
    };
    let of =
        |file| data::source_of(file).map(|source| format!("{} ({} {})", source.date, source.source, source.version));
    let (types, prices) = (of(data::TYPES_FILE).unwrap_or_default(), of(data::PRICES_FILE).unwrap_or_default());
    let priced = match data::price_region(name) {
        own if own == name => "on-demand prices".to_owned(),
        other => format!("on-demand prices of {other}, as none of {name} are shipped,"),
    };
    PlanNotice::Note(format!(
        "EC2 in {name}{how}: instance types of {types}, {priced} of {prices}; spot is priced as on-demand"
    ))
}

fn region_warning(region: &PlanRegion) -> Option<PlanNotice> {
    match &region.origin {
        RegionOrigin::Zones(others) if !others.is_empty() => Some(PlanNotice::Warning(format!(
            "the input also has zones of {}: the plan knows only those of {}; --region selects another",
            others.join(", "),
            region.name
        ))),
        RegionOrigin::Zones(_) | RegionOrigin::Flag | RegionOrigin::Default => None,
    }
}

fn subnets(class: &EC2NodeClass) -> &[Subnet] {
    class.status.as_ref().and_then(|status| status.subnets.as_deref()).unwrap_or_default()
}

/// Returns the class as a plan sees it: a class whose subnets are not known yet has one in every
/// zone.
fn planned_class(class: &EC2NodeClass, region: &str) -> EC2NodeClass {
    let mut class = class.clone();
    if subnets(&class).is_empty() {
        let subnet = |zone: &String| Subnet { id: format!("subnet-{zone}"), zone: zone.clone(), zone_id: None };
        let status = class.status.get_or_insert_with(EC2NodeClassStatus::default);
        status.subnets = Some(data::zones(region).iter().map(subnet).collect());
    }
    class
}

/// Returns one line with all facts that the class does not state, and one with its unknown zones.
fn class_warnings(name: &str, class: &EC2NodeClass, region: &str) -> Vec<PlanNotice> {
    let (spec, status) = (class.spec.as_ref(), class.status.as_ref());
    let mut assumed = Vec::new();
    if subnets(class).is_empty() {
        assumed.push(format!("subnets (all zones of {region})"));
    }
    if status.and_then(|status| status.amis.as_deref()).unwrap_or_default().is_empty() {
        let is_windows = spec.is_some_and(|spec| spec.effective_ami_family().as_str().starts_with("Windows"));
        assumed.push(if is_windows { "images (amd64)" } else { "images (amd64 and arm64)" }.to_owned());
    }
    let has_terms = spec.is_some_and(|spec| spec.capacity_reservation_selector_terms.iter().flatten().next().is_some());
    if has_terms && status.and_then(|status| status.capacity_reservations.as_ref()).is_none() {
        assumed.push("capacity reservations (none)".to_owned());
    }
    if status.is_some_and(|status| status.capacity_reservations.iter().flatten().next().is_some()) {
        assumed.push("free slots of its capacity reservations (none)".to_owned());
    }
    if spec.is_some_and(|spec| spec.placement_group_selector.is_some()) {
        assumed.push("placement group (none)".to_owned());
    }
    let mut warnings = Vec::new();
    if !assumed.is_empty() {
        warnings.push(format!(
            "EC2NodeClass `{name}`: its status does not tell, so the plan assumes: {}",
            assumed.join(", ")
        ));
    }
    let zones = data::zones(region);
    let foreign: BTreeSet<&str> = subnets(class)
        .iter()
        .map(|subnet| subnet.zone.as_str())
        .filter(|zone| !zones.iter().any(|known| known == zone))
        .collect();
    if !foreign.is_empty() {
        let listed = listed(foreign.iter().copied());
        warnings.push(format!("EC2NodeClass `{name}` has subnets in {listed}: the plan knows no instance types there"));
    }
    warnings.into_iter().map(PlanNotice::Warning).collect()
}

/// Returns warnings about instance types that pools and pods name, and that the plan cannot use.
fn named_types_warnings(objects: &Objects, region: &str) -> Vec<PlanNotice> {
    let mut by_reason: BTreeMap<UnusableReason, BTreeSet<&str>> = BTreeMap::new();
    let catalogue = data::catalogue();
    let prices = data::prices(region);
    for name in named_types(objects) {
        let is_described = catalogue.instance_types.binary_search_by(|info| info.name.as_str().cmp(name)).is_ok();
        let reason = if !is_described {
            UnusableReason::NotDescribed
        } else if !data::is_offered(region, name) {
            UnusableReason::NotOffered
        } else if !prices.contains_key(name) {
            UnusableReason::NoPrice
        } else {
            continue;
        };
        by_reason.entry(reason).or_default().insert(name);
    }
    let text = |(reason, names): (UnusableReason, BTreeSet<&str>)| {
        let names = listed(names.iter().copied());
        PlanNotice::Warning(match reason {
            UnusableReason::NotDescribed => {
                format!("instance types that the input names and Kerf does not know: {names}")
            }
            UnusableReason::NotOffered => {
                format!("instance types that the input names and {region} does not offer: {names}")
            }
            UnusableReason::NoPrice => {
                format!("instance types that the input names and that have no known price: {names}")
            }
        })
    };
    by_reason.into_iter().map(text).collect()
}

/// Why a plan cannot use an instance type.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum UnusableReason {
    NotDescribed,
    NotOffered,
    NoPrice,
}

/// Returns the instance types that pools of EC2 and pending pods require by name.
fn named_types(objects: &Objects) -> BTreeSet<&str> {
    let pools = objects.node_pools.iter().map(|pool| &pool.object.spec.template.spec);
    let of_pools = pools
        .filter(|spec| is_ec2_node_class(&spec.node_class_ref))
        .flat_map(|spec| &spec.requirements)
        .filter(|requirement| requirement.key == labels::INSTANCE_TYPE && requirement.operator == Operator::In)
        .flat_map(|requirement| requirement.values.iter().flatten())
        .map(String::as_str);
    let pods = objects.pods.iter().map(|pod| &pod.object.spec).filter(|spec| spec.node_name.is_none());
    let of_pods = pods.filter_map(|spec| spec.node_selector.get(labels::INSTANCE_TYPE));
    of_pools.chain(of_pods).collect()
}

/// Returns the names, at most [`NAMES_MAX`] of them, with the number of the others.
fn listed<'a>(names: impl ExactSizeIterator<Item = &'a str>) -> String {
    let more = names.len().saturating_sub(NAMES_MAX);
    let text = names.take(NAMES_MAX).collect::<Vec<_>>().join(", ");
    if more == 0 { text } else { format!("{text} and {more} more") }
}

#[cfg(test)]
mod tests;
