//! The instance types of EC2 for plans: types, zones and prices that Kerf ships, for the node
//! classes of an input. No AWS account is called.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use kerf_api::ec2nodeclass::{EC2NodeClass, EC2NodeClassSpec, EC2NodeClassStatus, Subnet};
use kerf_api::labels::{self, LabelRules};
use kerf_api::nodepool::{NodeClassReference, NodePool};
use kerf_aws::instance_types::{InstanceTypeCatalogue, InstanceTypeSettings};
use kerf_aws::pricing::Pricing;
use kerf_aws::unavailable_offerings::UnavailableOfferings;
use kerf_aws::{AwsSettings, PlannedClass, data, plan_class};
use kerf_engine::catalogue::InstanceTypes;
use kerf_runtime::Clock;

use super::named_values::listed;
use super::plan_region::{PlanRegion, RegionOrigin};
use super::{is_ec2_node_class, named_values, plan_values, plan_zones};
use crate::exit::Problem;
use crate::input::Objects;
use crate::program::ProviderName;
use crate::provider::{PlanCatalogue, PlanNotice};

/// The shipped instance types for the node classes of an input.
pub(in crate::provider) struct Ec2PlanCatalogue {
    label_rules: LabelRules,
    /// The types of each class, by its name; `None` if the class cannot be used.
    lists: BTreeMap<String, Option<InstanceTypes>>,
    /// Why the controller would not make a class ready, by its name.
    problems: BTreeMap<String, String>,
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
        Ok(Self::of_types(&shipped_types(&region.name, settings), &region, objects, &settings.cluster_name))
    }

    /// Resolves the types of all classes of the input from those of a region.
    pub(super) fn of_types(
        types: &InstanceTypeCatalogue,
        region: &PlanRegion,
        objects: &Objects,
        cluster_name: &str,
    ) -> Self {
        let mut notices = vec![source_note(region, objects)];
        let warn = |notices: &mut Vec<PlanNotice>, text| notices.push(PlanNotice::Warning(text));
        notices.extend(plan_zones::zone_warnings(objects, region).into_iter().map(PlanNotice::Warning));
        let pools = ec2_pools(objects);
        let (mut lists, mut problems) = (BTreeMap::new(), BTreeMap::new());
        for class in objects.ec2_node_classes.iter().map(|class| &class.object) {
            let name = class.metadata.name.clone().unwrap_or_default();
            let planned = plan_class(types, &planned_class(class, &region.name), &pools, cluster_name);
            notices.extend(class_warnings(&name, class, &region.name));
            let PlannedClass { problem, types: list, pools_without_image } = planned;
            if let Some(problem) = problem {
                let text = format!("EC2NodeClass `{name}` is not ready: {}", single_line(&problem));
                // Otherwise the warning about the pool has the text.
                if !pools.iter().any(|pool| pool.spec.template.spec.node_class_ref.name == name) {
                    warn(&mut notices, text.clone());
                }
                problems.insert(name.clone(), text);
            } else if let Err(error) = &list {
                warn(&mut notices, format!("EC2NodeClass `{name}` has no instance types: {error}"));
            } else {
                for pool in pools_without_image {
                    let text = "has no image (status.amis) for its instance types, so no node of it can be launched";
                    warn(&mut notices, format!("NodePool `{pool}`: EC2NodeClass `{name}` {text}"));
                }
            }
            // Types without the unusable settings decide which pods wait for the class.
            let without_kubelet = || types.list(&planned_class(&without_kubelet(class), &region.name)).ok();
            let list = list.ok().or_else(|| problems.contains_key(&name).then(without_kubelet).flatten());
            lists.insert(name, list);
        }
        for name in missing_classes(&pools, &lists) {
            // Types of a default class decide which pods wait for the missing one.
            let class = planned_class(&EC2NodeClass::default(), &region.name);
            lists.insert(name, types.list(&class).ok());
        }
        notices.extend(named_types_warnings(objects, &region.name));
        let of_values = plan_values::value_warnings(objects, &pools, region, |pool| {
            lists.get(&pool.spec.template.spec.node_class_ref.name)?.as_ref()
        });
        notices.extend(of_values.into_iter().map(PlanNotice::Warning));
        Self { label_rules: LabelRules::aws(), lists, problems, notices }
    }
}

/// Returns the NodePools whose node classes are those of EC2.
fn ec2_pools(objects: &Objects) -> Vec<Arc<NodePool>> {
    let pools = objects.node_pools.iter().map(|pool| &pool.object);
    pools.filter(|pool| is_ec2_node_class(&pool.spec.template.spec.node_class_ref)).cloned().map(Arc::new).collect()
}

/// Returns a class without `spec.kubelet`.
fn without_kubelet(class: &EC2NodeClass) -> EC2NodeClass {
    let mut class = class.clone();
    if let Some(spec) = &mut class.spec {
        spec.kubelet = None;
    }
    class
}

/// Returns the classes that pools name and the input does not have.
fn missing_classes(pools: &[Arc<NodePool>], lists: &BTreeMap<String, Option<InstanceTypes>>) -> BTreeSet<String> {
    let names = pools.iter().map(|pool| &pool.spec.template.spec.node_class_ref.name);
    names.filter(|name| !lists.contains_key(*name)).cloned().collect()
}

/// Returns a text without the lines that quote a CEL expression and mark a place in it; the first
/// line has the expression and the place.
fn single_line(text: &str) -> String {
    let mut lines = text.lines();
    let mut result = lines.next().unwrap_or_default().to_owned();
    for line in lines {
        let rest = match line.strip_prefix(" | ") {
            // Behind the mark stands the field.
            Some(quoted) => quoted.find(" (field=").map_or("", |start| &quoted[start..]),
            None => line,
        };
        if !rest.is_empty() && !rest.starts_with(' ') {
            result.push_str("; ");
        }
        result.push_str(rest);
    }
    result
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

    fn class_problem(&self, class: &NodeClassReference) -> Option<&str> {
        if is_ec2_node_class(class) { self.problems.get(&class.name).map(String::as_str) } else { None }
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
fn source_note(region: &PlanRegion, objects: &Objects) -> PlanNotice {
    let name = &region.name;
    let how = match region.origin {
        RegionOrigin::Default => " (the default; --region selects another)",
        RegionOrigin::Flag | RegionOrigin::Zones => "",
    };
    let of =
        |file| data::source_of(file).map(|source| format!("{} ({} {})", source.date, source.source, source.version));
    let (types, prices) = (of(data::TYPES_FILE).unwrap_or_default(), of(data::PRICES_FILE).unwrap_or_default());
    let priced = match data::price_region(name) {
        own if own == name => "on-demand prices".to_owned(),
        other => format!("on-demand prices of {other}, as none of {name} are shipped,"),
    };
    let mut specs = objects.ec2_node_classes.iter().filter_map(|class| class.object.spec.as_ref());
    let windows = if specs.any(is_windows) { ", Windows as Linux" } else { "" };
    PlanNotice::Note(format!(
        "EC2 in {name}{how}: instance types of {types}, {priced} of {prices}; spot is priced as on-demand{windows}"
    ))
}

/// Returns true if nodes of the class run Windows.
fn is_windows(spec: &EC2NodeClassSpec) -> bool {
    spec.effective_ami_family().as_str().starts_with("Windows")
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
        assumed
            .push(if spec.is_some_and(is_windows) { "images (amd64)" } else { "images (amd64 and arm64)" }.to_owned());
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
    let of_pools = named_values::of_pools(objects, labels::INSTANCE_TYPE);
    of_pools.chain(named_values::of_pending_pods(objects, labels::INSTANCE_TYPE)).collect()
}

#[cfg(test)]
mod tests;
