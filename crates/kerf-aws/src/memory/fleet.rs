//! `CreateFleet` of type `instant`: chooses among the overrides and launches.

mod checks;

use std::cmp::Ordering;
use std::sync::Arc;

use jiff::Timestamp;
use kerf_engine::Price;

use super::AwsFailure;
use super::market::{CAPACITY_BLOCK, CapacityPool, Stock};
use super::records::{LaunchedInstance, StoredTemplate};
use super::reserved_launches::{RESERVED_CAPACITY, used_reservation};
use super::state::{AwsState, Transition};
use super::validation::check_tags;
use crate::ports::Tags;
use crate::ports::ec2::{
    CreateFleet, Ec2Instance, FleetAnswer, FleetConfig, FleetError, FleetInstance, FleetOverride, FleetTarget,
    InstanceStateName, LaunchTemplateData, RunInstances, Subnet,
};

/// EC2's quota of instances per fleet.
const TARGET_CAPACITY_MAX: usize = 10_000;
/// Addresses of one IPv4 prefix.
const PREFIX_ADDRESSES: u32 = 16;

/// One override with what its choice depends on.
struct Candidate {
    template: Arc<StoredTemplate>,
    choice: FleetOverride,
    pool: CapacityPool,
    price: Option<Price>,
    stock: Stock,
}

/// The order in which the overrides of a fleet are tried.
#[derive(Clone, Copy)]
enum Strategy {
    LowestPrice,
    Prioritized,
    PriceCapacityOptimized,
    CapacityOptimized,
    CapacityOptimizedPrioritized,
}

impl Strategy {
    fn of(target: &FleetTarget) -> Result<Self, AwsFailure> {
        let invalid = |name: &str| {
            Err(AwsFailure::invalid_value(format!("Value ({name}) for parameter allocationStrategy is invalid.")))
        };
        match target {
            FleetTarget::OnDemand { allocation_strategy } => match allocation_strategy.as_str() {
                "lowest-price" | "" => Ok(Self::LowestPrice),
                "prioritized" => Ok(Self::Prioritized),
                name => invalid(name),
            },
            FleetTarget::Spot { allocation_strategy } => match allocation_strategy.as_str() {
                "lowest-price" | "" => Ok(Self::LowestPrice),
                "price-capacity-optimized" => Ok(Self::PriceCapacityOptimized),
                "capacity-optimized" => Ok(Self::CapacityOptimized),
                "capacity-optimized-prioritized" => Ok(Self::CapacityOptimizedPrioritized),
                name => invalid(name),
            },
            FleetTarget::CapacityBlock | FleetTarget::ReservedCapacity => Ok(Self::LowestPrice),
        }
    }

    /// Compares two candidates; the smaller is tried first.
    fn compare(self, one: &Candidate, two: &Candidate) -> Ordering {
        let by_price = || last_if_none(one.price, two.price, |a, b| a.cmp(&b));
        let by_priority = || last_if_none(one.choice.priority, two.choice.priority, |a, b| a.total_cmp(&b));
        let by_stock = || two.stock.cmp(&one.stock);
        match self {
            Self::LowestPrice => by_price(),
            Self::Prioritized => by_priority(),
            Self::PriceCapacityOptimized => depth(two.stock).cmp(&depth(one.stock)).then_with(by_price),
            Self::CapacityOptimized => by_stock(),
            Self::CapacityOptimizedPrioritized => depth(two.stock).cmp(&depth(one.stock)).then_with(by_priority),
        }
    }
}

/// Returns how deep a pool is: pools of one depth are chosen by price or priority.
fn depth(stock: Stock) -> u8 {
    match stock {
        Stock::Insufficient | Stock::Limited(0) => 0,
        Stock::Limited(_) => 1,
        Stock::Unlimited => 2,
    }
}

fn last_if_none<T>(one: Option<T>, two: Option<T>, compare: impl FnOnce(T, T) -> Ordering) -> Ordering {
    match (one, two) {
        (Some(one), Some(two)) => compare(one, two),
        (one, two) => two.is_some().cmp(&one.is_some()),
    }
}

impl AwsState {
    pub(super) fn create_fleet(&mut self, request: CreateFleet, now: Timestamp) -> Result<FleetAnswer, AwsFailure> {
        let strategy = Strategy::of(&request.target)?;
        let Ok(wanted @ 1..=TARGET_CAPACITY_MAX) = usize::try_from(request.target_capacity) else {
            let message = format!(
                "Value ({}) for parameter TotalTargetCapacity is invalid. It must be between 1 and {TARGET_CAPACITY_MAX}.",
                request.target_capacity
            );
            return Err(AwsFailure::invalid_value(message));
        };
        for specification in &request.tags {
            check_tags(&specification.tags)?;
        }
        if !request.is_dry_run
            && let Some(answer) = self.fleet_tokens.earlier_answer(&request.client_token, &request)?
        {
            return Ok(answer);
        }
        let mut candidates = self.candidates(&request, now)?;
        if request.is_dry_run {
            return Err(AwsFailure::dry_run());
        }
        candidates.sort_by(|one, two| strategy.compare(one, two));
        let mut answer = FleetAnswer { fleet_id: self.new_fleet_id(), ..FleetAnswer::default() };
        // A fleet can answer with neither an instance nor an error.
        let mut missing = if self.market.take_empty_answer() { 0 } else { wanted };
        for candidate in &candidates {
            if missing == 0 {
                break;
            }
            match self.launch(candidate, &request, missing, &answer.fleet_id, now) {
                Ok(ids) => {
                    missing -= ids.len();
                    let is_short = missing > 0;
                    answer.instances.push(candidate.launched(ids));
                    if is_short {
                        answer.errors.push(candidate.error(self.shortage(candidate, now)));
                    }
                }
                Err(failure) => answer.errors.push(candidate.error(failure)),
            }
        }
        let token = request.client_token.clone();
        self.fleet_tokens.remember(&token, request, answer.clone());
        Ok(answer)
    }

    /// Launches one on-demand instance from a template. All network interfaces must be in one
    /// subnet.
    pub(super) fn run_instances(&mut self, request: &RunInstances, now: Timestamp) -> Result<String, AwsFailure> {
        let subnet_id = request.network_interfaces.first().map(|interface| interface.subnet_id.clone());
        let fleet = CreateFleet {
            target_capacity: 1,
            target: FleetTarget::OnDemand { allocation_strategy: String::new() },
            configs: vec![FleetConfig {
                template_name: request.template_name.clone(),
                overrides: vec![FleetOverride {
                    instance_type: request.instance_type.clone(),
                    subnet_id: subnet_id.ok_or_else(|| AwsFailure::missing("NetworkInterfaces"))?,
                    ..FleetOverride::default()
                }],
            }],
            tags: request.tags.clone(),
            context: None,
            client_token: String::new(),
            is_dry_run: request.is_dry_run,
        };
        for specification in &request.tags {
            check_tags(&specification.tags)?;
        }
        let candidate = self.candidates(&fleet, now)?.remove(0);
        self.check_launch(&candidate, &fleet.target, now)?;
        if request.is_dry_run {
            return Err(AwsFailure::dry_run());
        }
        let mut ids = self.launch(&candidate, &fleet, 1, "", now)?;
        ids.pop().ok_or_else(|| self.shortage(&candidate, now))
    }

    fn new_fleet_id(&mut self) -> String {
        format!("fleet-{}", self.new_request_id())
    }

    /// Returns all overrides. Fails if there are none, or if a launch template does not exist.
    fn candidates(&self, request: &CreateFleet, now: Timestamp) -> Result<Vec<Candidate>, AwsFailure> {
        let mut candidates = Vec::new();
        for config in &request.configs {
            let Some(template) = self.templates.get(&config.template_name) else {
                let name = &config.template_name;
                let message = format!("The specified launch template, with template name {name}, does not exist.");
                return Err(AwsFailure::bad_request("InvalidLaunchTemplateName.NotFoundException", message));
            };
            let template = Arc::new(template.clone());
            for choice in &config.overrides {
                let subnet_zone = self.account.subnets.get(&choice.subnet_id).map(|subnet| subnet.zone.clone());
                let zone = subnet_zone.or_else(|| choice.zone.clone()).unwrap_or_default();
                let pool = CapacityPool::new(&choice.instance_type, zone, capacity_type(&request.target));
                candidates.push(Candidate {
                    template: Arc::clone(&template),
                    choice: choice.clone(),
                    price: self.market.price(&pool, now),
                    stock: self.stock(&pool, now),
                    pool,
                });
            }
        }
        if candidates.is_empty() { Err(AwsFailure::missing("LaunchTemplateConfigs")) } else { Ok(candidates) }
    }

    /// Launches at most `wanted` instances of one override. Fails if none can be launched.
    fn launch(
        &mut self,
        candidate: &Candidate,
        request: &CreateFleet,
        wanted: usize,
        fleet_id: &str,
        now: Timestamp,
    ) -> Result<Vec<String>, AwsFailure> {
        let subnet = self.check_launch(candidate, &request.target, now)?;
        let address_count = address_count(&candidate.template.data);
        let by_addresses = (self.free_addresses(&subnet) / address_count.max(1)) as usize;
        // Reserved capacity is there whatever others take from the market.
        let slots = self.free_slots(&candidate.template.data, &candidate.pool);
        let available = slots.unwrap_or_else(|| self.stock(&candidate.pool, now).at_most(wanted));
        let by_quota = self.launchable_by_quota(&candidate.pool).unwrap_or(wanted);
        let count = available.min(wanted).min(by_addresses).min(by_quota);
        if count == 0 {
            return Err(self.shortage(candidate, now));
        }
        if slots.is_none() {
            self.market.take(&candidate.pool, count);
        }
        Ok((0..count).map(|_| self.launch_one(candidate, request, &subnet, fleet_id, address_count, now)).collect())
    }

    fn launch_one(
        &mut self,
        candidate: &Candidate,
        request: &CreateFleet,
        subnet: &Subnet,
        fleet_id: &str,
        address_count: u32,
        now: Timestamp,
    ) -> String {
        let template = &candidate.template;
        let id = self.new_id("i");
        let private_address = self.take_addresses(&subnet.id, address_count);
        let is_spot = matches!(request.target, FleetTarget::Spot { .. });
        let interfaces = &template.data.network_interfaces;
        let groups = interfaces.iter().flat_map(|interface| interface.security_group_ids.clone());
        let mut security_group_ids: Vec<String> = groups.collect();
        security_group_ids.sort();
        security_group_ids.dedup();
        let interface_type = |own: Option<&String>| own.cloned().unwrap_or_else(|| "interface".to_owned());
        let tenancy = &template.data.placement.tenancy;
        let instance = Ec2Instance {
            id: id.clone(),
            instance_type: candidate.pool.instance_type.clone(),
            image_id: candidate.image_id().to_owned(),
            zone: subnet.zone.clone(),
            zone_id: subnet.zone_id.clone(),
            subnet_id: subnet.id.clone(),
            security_group_ids,
            state: InstanceStateName::Pending,
            state_reason: None,
            state_message: None,
            launched_at: Some(now),
            private_dns_name: self.private_dns_name(private_address),
            spot_request_id: is_spot.then(|| self.new_id("sir")),
            lifecycle: self.lifecycle(&template.data, &candidate.pool).map(str::to_owned),
            capacity_reservation_id: used_reservation(&template.data, &candidate.pool).map(str::to_owned),
            capacity_reservation_preference: template
                .data
                .capacity_reservation
                .as_ref()
                .map(|own| own.preference.clone()),
            tenancy: if tenancy.is_empty() { "default".to_owned() } else { tenancy.clone() },
            partition_number: self.partition(&template.data),
            interface_types: if interfaces.is_empty() {
                vec![interface_type(None)]
            } else {
                interfaces.iter().map(|interface| interface_type(interface.interface_type.as_ref())).collect()
            },
            tags: instance_tags(template, request, fleet_id),
        };
        let fails_with = self.launch_failure(&template.data, &candidate.pool);
        let after = |delay| now.saturating_add(delay).unwrap_or(Timestamp::MAX);
        let launched = LaunchedInstance {
            instance,
            template_name: template.template.name.clone(),
            template: Arc::clone(&template.data),
            private_address,
            vpc_id: subnet.vpc_id.clone(),
            visible_from: after(self.settings.instances_visible_after),
            address_count,
            fails_with,
            is_reclaimed: false,
        };
        self.instances.insert(id.clone(), launched);
        self.instance_changes += 1;
        self.publish_state(&id, InstanceStateName::Pending, now);
        self.schedule(after(self.settings.pending_for), &id, Transition::Run);
        id
    }

    fn private_dns_name(&self, address: std::net::Ipv4Addr) -> String {
        let host = address.to_string().replace('.', "-");
        match self.account.region.as_str() {
            "us-east-1" => format!("ip-{host}.ec2.internal"),
            region => format!("ip-{host}.{region}.compute.internal"),
        }
    }
}

impl Candidate {
    fn image_id(&self) -> &str {
        self.choice.image_id.as_deref().unwrap_or(&self.template.data.image_id)
    }

    fn launched(&self, ids: Vec<String>) -> FleetInstance {
        FleetInstance {
            ids,
            instance_type: self.pool.instance_type.clone(),
            subnet_id: self.choice.subnet_id.clone(),
            zone: self.pool.zone.clone(),
            image_id: self.choice.image_id.clone().unwrap_or_default(),
            lifecycle: self.pool.capacity_type.clone(),
        }
    }

    fn error(&self, failure: AwsFailure) -> FleetError {
        FleetError {
            code: failure.code,
            message: failure.message,
            instance_type: Some(self.pool.instance_type.clone()),
            subnet_id: Some(self.choice.subnet_id.clone()),
            zone: Some(self.pool.zone.clone()),
        }
    }
}

fn capacity_type(target: &FleetTarget) -> &'static str {
    match target {
        FleetTarget::Spot { .. } => "spot",
        FleetTarget::OnDemand { .. } => "on-demand",
        FleetTarget::CapacityBlock => CAPACITY_BLOCK,
        FleetTarget::ReservedCapacity => RESERVED_CAPACITY,
    }
}

/// Returns the number of IPv4 addresses of one instance.
fn address_count(data: &LaunchTemplateData) -> u32 {
    let interfaces = data.network_interfaces.iter();
    let of_interface = |prefixes: Option<i32>| 1 + PREFIX_ADDRESSES * u32::try_from(prefixes.unwrap_or(0)).unwrap_or(0);
    // An `efa-only` interface has no IP address.
    let with_address = interfaces.filter(|interface| interface.interface_type.as_deref() != Some("efa-only"));
    with_address.map(|interface| of_interface(interface.ipv4_prefix_count)).sum::<u32>().max(1)
}

/// Returns the tags of an instance: those of the template, those of the fleet, and AWS's own.
fn instance_tags(template: &StoredTemplate, request: &CreateFleet, fleet_id: &str) -> Tags {
    let specifications = template.data.tags.iter().chain(&request.tags);
    let mut tags: Tags = specifications
        .filter(|specification| specification.resource_type == "instance")
        .flat_map(|specification| specification.tags.clone())
        .collect();
    tags.extend([
        ("aws:ec2:fleet-id".to_owned(), fleet_id.to_owned()),
        ("aws:ec2launchtemplate:id".to_owned(), template.template.id.clone()),
        ("aws:ec2launchtemplate:version".to_owned(), "1".to_owned()),
    ]);
    tags
}

#[cfg(test)]
mod tests;
