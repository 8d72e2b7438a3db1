//! `CreateFleet` of type `instant`: chooses among the overrides and launches.

use std::cmp::Ordering;
use std::sync::Arc;

use jiff::Timestamp;
use kerf_engine::Price;

use super::AwsFailure;
use super::instances::check_tag_keys;
use super::market::{CapacityPool, Stock};
use super::records::{LaunchedInstance, StoredTemplate};
use super::reserved_launches::{CAPACITY_BLOCK, RESERVED_CAPACITY, needs_free_slot, no_free_slot, used_reservation};
use super::state::{AwsState, Transition};
use crate::ports::Tags;
use crate::ports::ec2::{
    CreateFleet, Ec2Instance, FleetAnswer, FleetConfig, FleetError, FleetInstance, FleetOverride, FleetTarget,
    InstanceStateName, InstanceTypeOffering, LaunchTemplateData, RunInstances, Subnet,
};

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
        let Ok(wanted @ 1..) = usize::try_from(request.target_capacity) else {
            let message = format!("Value ({}) for parameter TotalTargetCapacity is invalid.", request.target_capacity);
            return Err(AwsFailure::invalid_value(message));
        };
        for specification in &request.tags {
            check_tag_keys(&specification.tags)?;
        }
        if !request.is_dry_run
            && let Some(answer) = self.fleet_tokens.earlier_answer(&request.client_token, &request)?
        {
            return Ok(answer);
        }
        let mut candidates = self.candidates(&request)?;
        if request.is_dry_run {
            return Err(AwsFailure::dry_run());
        }
        candidates.sort_by(|one, two| strategy.compare(one, two));
        let mut answer = FleetAnswer { fleet_id: self.new_fleet_id(), ..FleetAnswer::default() };
        let mut missing = wanted;
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
                        answer.errors.push(candidate.error(self.shortage(candidate)));
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
            check_tag_keys(&specification.tags)?;
        }
        let candidate = self.candidates(&fleet)?.remove(0);
        self.check_launch(&candidate, &fleet.target, now)?;
        if request.is_dry_run {
            return Err(AwsFailure::dry_run());
        }
        let mut ids = self.launch(&candidate, &fleet, 1, "", now)?;
        ids.pop().ok_or_else(|| self.shortage(&candidate))
    }

    fn new_fleet_id(&mut self) -> String {
        format!("fleet-{}", self.new_request_id())
    }

    /// Returns all overrides. Fails if there are none, or if a launch template does not exist.
    fn candidates(&self, request: &CreateFleet) -> Result<Vec<Candidate>, AwsFailure> {
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
                    price: self.market.price(&pool),
                    stock: self.market.stock(&pool),
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
        let available = slots.unwrap_or_else(|| self.market.stock(&candidate.pool).at_most(wanted));
        let count = available.min(wanted).min(by_addresses);
        if count == 0 {
            return Err(self.shortage(candidate));
        }
        if slots.is_none() {
            self.market.take(&candidate.pool, count);
        }
        Ok((0..count).map(|_| self.launch_one(candidate, request, &subnet, fleet_id, address_count, now)).collect())
    }

    /// Returns the error of an override from which no further instance can be launched.
    fn shortage(&self, candidate: &Candidate) -> AwsFailure {
        let CapacityPool { instance_type, zone, .. } = &candidate.pool;
        if needs_free_slot(&candidate.template.data, &candidate.pool) {
            return no_free_slot();
        }
        if self.market.stock(&candidate.pool).at_most(1) == 0 {
            return AwsFailure::new(
                500,
                "InsufficientInstanceCapacity",
                format!(
                    "We currently do not have sufficient {instance_type} capacity in the Availability Zone you \
                     requested ({zone}). Our system will be working on provisioning additional capacity."
                ),
            );
        }
        let subnet = &candidate.choice.subnet_id;
        AwsFailure::bad_request(
            "InsufficientFreeAddressesInSubnet",
            format!(
                "There are not enough free addresses in subnet '{subnet}' to satisfy the requested number of instances."
            ),
        )
    }

    /// Checks what EC2 checks at the launch, and returns the subnet.
    fn check_launch(&self, candidate: &Candidate, target: &FleetTarget, now: Timestamp) -> Result<Subnet, AwsFailure> {
        let (choice, data) = (&candidate.choice, &candidate.template.data);
        let Some(subnet) = self.account.subnets.get(&choice.subnet_id) else {
            let message = format!("The subnet ID '{}' does not exist", choice.subnet_id);
            return Err(AwsFailure::bad_request("InvalidSubnetID.NotFound", message));
        };
        if let Some(zone) = choice.zone.as_ref().filter(|zone| **zone != subnet.zone) {
            let message = format!("The subnet ID '{}' is not in the availability zone {zone}", subnet.id);
            return Err(AwsFailure::invalid_value(message));
        }
        self.check_image(candidate)?;
        self.check_type(candidate, target)?;
        for group in data.network_interfaces.iter().flat_map(|interface| &interface.security_group_ids) {
            match self.account.security_groups.get(group) {
                None => {
                    let message = format!("The security group '{group}' does not exist");
                    return Err(AwsFailure::bad_request("InvalidGroup.NotFound", message));
                }
                Some(found) if found.vpc_id != subnet.vpc_id => {
                    let message =
                        format!("Security group {group} and subnet {} belong to different networks.", subnet.id);
                    return Err(AwsFailure::bad_request("InvalidParameter", message));
                }
                Some(_) => {}
            }
        }
        let profile = &data.instance_profile;
        let is_known = self.profiles.get(profile).is_some_and(|stored| stored.visible_from <= now);
        if !profile.is_empty() && !is_known {
            return Err(AwsFailure::invalid_value(format!(
                "Value ({profile}) for parameter iamInstanceProfile.name is invalid. Invalid IAM Instance Profile name"
            )));
        }
        self.check_placement(data)?;
        self.check_reservation(data, &candidate.pool)?;
        Ok(subnet.clone())
    }

    fn check_image(&self, candidate: &Candidate) -> Result<(), AwsFailure> {
        let id = candidate.image_id();
        let Some(image) = self.account.images.get(id).filter(|image| image.state == "available") else {
            let message = format!("The image id '[{id}]' does not exist");
            return Err(AwsFailure::bad_request("InvalidAMIID.NotFound", message));
        };
        let info = self.account.instance_types.get(&candidate.pool.instance_type);
        let architectures = info.and_then(|info| info.processor.as_ref()).map(|own| &own.supported_architectures);
        match architectures {
            Some(own) if !own.is_empty() && !own.contains(&image.architecture) => {
                Err(AwsFailure::invalid_value(format!(
                    "The architecture '{}' of the specified instance type does not match the architecture '{}' of the \
                 specified AMI. Specify an instance type and an AMI that have matching architectures, and try again.",
                    own.join(","),
                    image.architecture
                )))
            }
            _ => Ok(()),
        }
    }

    fn check_type(&self, candidate: &Candidate, target: &FleetTarget) -> Result<(), AwsFailure> {
        let CapacityPool { instance_type, zone, .. } = &candidate.pool;
        let Some(info) = self.account.instance_types.get(instance_type) else {
            return Err(AwsFailure::invalid_value(format!("Invalid value '{instance_type}' for InstanceType.")));
        };
        let offering = InstanceTypeOffering { instance_type: instance_type.clone(), zone: zone.clone() };
        if !self.account.offerings.contains(&offering) {
            let message = format!(
                "Your requested instance type ({instance_type}) is not supported in your requested Availability Zone \
                 ({zone})."
            );
            return Err(AwsFailure::bad_request("Unsupported", message));
        }
        let usage_class = match target {
            FleetTarget::Spot { .. } => "spot",
            FleetTarget::OnDemand { .. } => "on-demand",
            FleetTarget::ReservedCapacity => "on-demand",
            FleetTarget::CapacityBlock => "capacity-block",
        };
        let classes = &info.supported_usage_classes;
        if !classes.is_empty() && !classes.iter().any(|class| class == usage_class) {
            let message = format!("The instance type {instance_type} is not supported as {usage_class}.");
            return Err(AwsFailure::bad_request("Unsupported", message));
        }
        Ok(())
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
        let after = |delay| now.saturating_add(delay).unwrap_or(Timestamp::MAX);
        let launched = LaunchedInstance {
            instance,
            template_name: template.template.name.clone(),
            template: Arc::clone(&template.data),
            private_address,
            vpc_id: subnet.vpc_id.clone(),
            visible_from: after(self.settings.instances_visible_after),
            address_count,
        };
        self.instances.insert(id.clone(), launched);
        self.instance_changes += 1;
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
mod tests {
    use super::super::testing::{SUBNETS, aws, aws_with, fleet, on_demand, spot, template};
    use super::super::{AwsFault, AwsFaultRule, MemoryAws, MemorySettings};
    use super::*;
    use crate::ports::ec2::FleetConfig;
    use crate::ports::{CreateInstanceProfile, Ec2 as _, Iam as _};

    fn price(dollars: &str) -> Price {
        Price::from_decimal(dollars).unwrap()
    }

    async fn aws_with_template() -> MemoryAws {
        let aws = aws();
        aws.create_launch_template(template(&aws, "demo")).await.unwrap();
        aws
    }

    /// Returns the launched (type, zone, count) and the errors (type, zone, code) of an answer.
    /// Code, instance type and subnet or zone of an error.
    type ErrorSummary<'a> = (&'a str, &'a str, &'a str);

    fn outcome(answer: &FleetAnswer) -> (Vec<(&str, &str, usize)>, Vec<ErrorSummary<'_>>) {
        let launched = |own: &'_ FleetInstance| own.ids.len();
        let instances =
            answer.instances.iter().map(|own| (own.instance_type.as_str(), own.zone.as_str(), launched(own))).collect();
        let errors = answer.errors.iter().map(|error| {
            (error.instance_type.as_deref().unwrap(), error.zone.as_deref().unwrap(), error.code.as_str())
        });
        (instances, errors.collect())
    }

    #[tokio::test(start_paused = true)]
    async fn on_demand_takes_the_lowest_price_and_spot_the_deepest_pool_first() {
        let aws = aws_with_template().await;
        aws.change_market(|market| {
            market.set_on_demand_price("m5.large", price("0.096"));
            market.set_on_demand_price("m5.xlarge", price("0.192"));
            market.set_spot_price("m5.xlarge", "us-west-2b", price("0.05"));
            market.set_stock(CapacityPool::new("m5.xlarge", "us-west-2b", "spot"), Stock::Limited(5));
        });
        let overrides = [("m5.xlarge", SUBNETS[1]), ("m5.large", SUBNETS[0])];
        let answer = aws.create_fleet(fleet(1, on_demand(), "demo", &overrides)).await.unwrap();
        assert_eq!(outcome(&answer), (vec![("m5.large", "us-west-2a", 1)], vec![]));
        let answer = aws.create_fleet(fleet(1, spot(), "demo", &overrides)).await.unwrap();
        assert_eq!(outcome(&answer), (vec![("m5.large", "us-west-2a", 1)], vec![]), "the cheaper pool is shallow");
        let lowest = FleetTarget::Spot { allocation_strategy: "lowest-price".into() };
        let answer = aws.create_fleet(fleet(1, lowest, "demo", &overrides)).await.unwrap();
        assert_eq!(outcome(&answer), (vec![("m5.xlarge", "us-west-2b", 1)], vec![]));
        assert_eq!(answer.instances[0].lifecycle, "spot");
    }

    // spec 05 #111
    #[tokio::test(start_paused = true)]
    async fn prioritized_follows_the_priorities() {
        let aws = aws_with_template().await;
        aws.change_market(|market| market.set_on_demand_price("m5.large", price("0.096")));
        let prioritized = FleetTarget::OnDemand { allocation_strategy: "prioritized".into() };
        let mut request = fleet(1, prioritized, "demo", &[("m5.large", SUBNETS[0]), ("m5.xlarge", SUBNETS[0])]);
        request.configs[0].overrides[0].priority = Some(0.2);
        request.configs[0].overrides[1].priority = Some(0.1);
        let answer = aws.create_fleet(request.clone()).await.unwrap();
        assert_eq!(outcome(&answer).0, [("m5.xlarge", "us-west-2a", 1)]);
        let optimized = FleetTarget::Spot { allocation_strategy: "capacity-optimized-prioritized".into() };
        let answer = aws.create_fleet(CreateFleet { target: optimized, ..request.clone() }).await.unwrap();
        assert_eq!(outcome(&answer).0, [("m5.xlarge", "us-west-2a", 1)]);
        let unknown = FleetTarget::OnDemand { allocation_strategy: "cheapest".into() };
        let error = aws.create_fleet(CreateFleet { target: unknown, ..request }).await.unwrap_err();
        assert!(error.has_code("InvalidParameterValue"), "{error}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_fleet_that_runs_out_of_stock_reports_instances_and_errors() {
        let aws = aws_with_template().await;
        let pool = |zone: &str| CapacityPool::new("m5.large", zone, "on-demand");
        aws.change_market(|market| {
            market.set_stock(pool("us-west-2a"), Stock::Insufficient);
            market.set_stock(pool("us-west-2b"), Stock::Limited(2));
        });
        let overrides = SUBNETS.map(|subnet| ("m5.large", subnet));
        let answer = aws.create_fleet(fleet(3, on_demand(), "demo", &overrides)).await.unwrap();
        let ice = "InsufficientInstanceCapacity";
        assert_eq!(
            outcome(&answer),
            (
                vec![("m5.large", "us-west-2b", 2), ("m5.large", "us-west-2c", 1)],
                vec![("m5.large", "us-west-2a", ice), ("m5.large", "us-west-2b", ice)]
            )
        );
        let answer = aws.create_fleet(fleet(1, on_demand(), "demo", &overrides[..2])).await.unwrap();
        assert_eq!(outcome(&answer).1.len(), 2, "the two are taken");
        assert_eq!(answer.instances, []);
    }

    // spec 05 #74
    #[tokio::test(start_paused = true)]
    async fn a_full_subnet_is_an_error_and_terminated_instances_free_their_addresses() {
        let aws = aws_with_template().await;
        aws.change_account(|account| account.subnets.get_mut(SUBNETS[0]).unwrap().available_ip_count = 1);
        let request = fleet(2, on_demand(), "demo", &[("m5.large", SUBNETS[0])]);
        let answer = aws.create_fleet(request.clone()).await.unwrap();
        let full = ("m5.large", "us-west-2a", "InsufficientFreeAddressesInSubnet");
        assert_eq!(outcome(&answer), (vec![("m5.large", "us-west-2a", 1)], vec![full]));
        aws.terminate_instances(answer.instances[0].ids.clone()).await.unwrap();
        assert_eq!(outcome(&aws.create_fleet(request.clone()).await.unwrap()), (vec![], vec![full]));
        tokio::time::advance(MemorySettings::default().shutting_down_for).await;
        assert_eq!(outcome(&aws.create_fleet(request).await.unwrap()).0, [("m5.large", "us-west-2a", 1)]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_prefix_takes_sixteen_addresses() {
        let aws = aws();
        let mut with_prefix = template(&aws, "prefix");
        with_prefix.data.network_interfaces[0].ipv4_prefix_count = Some(1);
        aws.create_launch_template(with_prefix).await.unwrap();
        aws.create_fleet(fleet(1, on_demand(), "prefix", &[("m5.large", SUBNETS[0])])).await.unwrap();
        let subnets = aws.describe_subnets(vec![], crate::ports::PageRequest::default()).await.unwrap();
        assert_eq!(subnets.items[0].available_ip_count, 8187 - 17);
    }

    // spec 05 #88
    #[tokio::test(start_paused = true)]
    async fn a_missing_template_fails_the_whole_call() {
        let aws = aws_with_template().await;
        let mut request = fleet(1, on_demand(), "demo", &[("m5.large", SUBNETS[0])]);
        request.configs.push(FleetConfig { template_name: "other".into(), overrides: vec![] });
        let error = aws.create_fleet(request).await.unwrap_err();
        assert!(error.has_code("InvalidLaunchTemplateName.NotFoundException"), "{error}");
        assert!(aws.instances().is_empty());
        let error = aws.create_fleet(fleet(1, on_demand(), "demo", &[])).await.unwrap_err();
        assert!(error.has_code("MissingParameter"), "{error}");
        let error = aws.create_fleet(fleet(0, on_demand(), "demo", &[("m5.large", SUBNETS[0])])).await.unwrap_err();
        assert!(error.has_code("InvalidParameterValue"), "{error}");
    }

    #[tokio::test(start_paused = true)]
    async fn each_reason_against_a_launch_is_an_error_of_its_override() {
        let aws = aws_with_template().await;
        aws.change_account(|account| {
            account.security_groups.get_mut("sg-00000000000000001").unwrap().vpc_id = "vpc-2".into();
            account
                .set_offerings([InstanceTypeOffering { instance_type: "m5.large".into(), zone: "us-west-2a".into() }]);
        });
        let code = async |change: &dyn Fn(&mut LaunchTemplateData), own: (&str, &str)| {
            let mut request = template(&aws, "changed");
            change(&mut request.data);
            aws.create_launch_template(request).await.unwrap();
            let answer = aws.create_fleet(fleet(1, on_demand(), "changed", &[own])).await.unwrap();
            aws.state().templates.remove("changed");
            answer
                .errors
                .into_iter()
                .map(|error| format!("{}: {}", error.code, error.message))
                .collect::<Vec<_>>()
                .join(";")
        };
        let good = ("m5.large", SUBNETS[0]);
        assert_eq!(code(&|_| {}, good).await, "");
        let missing_image = code(&|data| data.image_id = "ami-1".into(), good).await;
        assert_eq!(missing_image, "InvalidAMIID.NotFound: The image id '[ami-1]' does not exist");
        assert_eq!(
            code(&|data| data.instance_profile = "absent".into(), good).await,
            "InvalidParameterValue: Value (absent) for parameter iamInstanceProfile.name is invalid. \
             Invalid IAM Instance Profile name"
        );
        let groups = |group: &'static str| {
            move |data: &mut LaunchTemplateData| data.network_interfaces[0].security_group_ids = vec![group.to_owned()]
        };
        assert!(code(&groups("sg-9"), good).await.starts_with("InvalidGroup.NotFound"));
        assert_eq!(
            code(&groups("sg-00000000000000001"), good).await,
            "InvalidParameter: Security group sg-00000000000000001 and subnet subnet-01000000000000001 \
             belong to different networks."
        );
        assert!(code(&|_| {}, ("m5.large", "subnet-9")).await.starts_with("InvalidSubnetID.NotFound"));
        assert!(code(&|_| {}, ("m5.large", SUBNETS[1])).await.starts_with("Unsupported"), "not offered in the zone");
        assert!(code(&|_| {}, ("m9.large", SUBNETS[0])).await.starts_with("InvalidParameterValue"));
        assert!(code(&|_| {}, ("m6g.large", SUBNETS[0])).await.contains("The architecture 'arm64'"));
    }

    #[tokio::test(start_paused = true)]
    async fn a_new_profile_can_be_invisible_to_ec2_for_a_while() {
        let delay = std::time::Duration::from_secs(5);
        let aws = aws_with(MemorySettings { profiles_visible_after: delay, ..MemorySettings::default() });
        let mut request = template(&aws, "demo");
        request.data.instance_profile = "nodes".into();
        aws.create_launch_template(request).await.unwrap();
        let profile = CreateInstanceProfile { name: "nodes".into(), ..CreateInstanceProfile::default() };
        aws.create_instance_profile(profile).await.unwrap();
        let request = fleet(1, on_demand(), "demo", &[("m5.large", SUBNETS[0])]);
        assert_eq!(aws.create_fleet(request.clone()).await.unwrap().errors[0].code, "InvalidParameterValue");
        tokio::time::advance(delay).await;
        assert_eq!(aws.create_fleet(request).await.unwrap().errors, []);
    }

    #[tokio::test(start_paused = true)]
    async fn a_dry_run_checks_and_launches_nothing() {
        let aws = aws_with_template().await;
        let request = CreateFleet { is_dry_run: true, ..fleet(1, on_demand(), "demo", &[("m5.large", SUBNETS[0])]) };
        let error = aws.create_fleet(request.clone()).await.unwrap_err();
        assert_eq!((error.code.as_deref(), error.http_status), (Some("DryRunOperation"), Some(412)));
        assert!(aws.instances().is_empty());
        let mut missing = request;
        missing.configs[0].template_name = "other".into();
        assert!(aws.create_fleet(missing).await.unwrap_err().has_code("InvalidLaunchTemplateName.NotFoundException"));
    }

    // spec 05 #124
    #[tokio::test(start_paused = true)]
    async fn a_repeated_client_token_launches_nothing_twice() {
        let aws = aws_with_template().await;
        aws.set_faults(vec![AwsFaultRule::once("CreateFleet", AwsFault::LostAnswer)]);
        let request =
            CreateFleet { client_token: "one".into(), ..fleet(2, on_demand(), "demo", &[("m5.large", SUBNETS[0])]) };
        let lost = aws.create_fleet(request.clone()).await.unwrap_err();
        assert_eq!((lost.code, lost.is_retryable), (None, true));
        let answer = aws.create_fleet(request.clone()).await.unwrap();
        assert_eq!(aws.create_fleet(request.clone()).await.unwrap(), answer);
        assert_eq!(aws.instances().len(), 2);
        let error = aws.create_fleet(CreateFleet { target_capacity: 1, ..request }).await.unwrap_err();
        assert!(error.has_code("IdempotentParameterMismatch"), "{error}");
    }

    #[tokio::test(start_paused = true)]
    async fn an_instance_has_the_fleets_tags_a_dns_name_and_the_templates_user_data() {
        let aws = aws();
        let mut request = template(&aws, "demo");
        request.data.user_data = "aGVsbG8=".into();
        let template_id = aws.create_launch_template(request).await.unwrap().id;
        let answer = aws.create_fleet(fleet(1, spot(), "demo", &[("m5.large", SUBNETS[1])])).await.unwrap();
        let launched = aws.instances().remove(0);
        assert_eq!(launched.instance.id, answer.instances[0].ids[0]);
        assert_eq!((launched.template_name.as_str(), launched.template.user_data.as_str()), ("demo", "aGVsbG8="));
        let instance = launched.instance;
        assert_eq!(instance.private_dns_name, "ip-10-0-0-4.us-west-2.compute.internal");
        assert_eq!((instance.zone.as_str(), instance.zone_id.as_str()), ("us-west-2b", "usw2-az2"));
        assert_eq!(instance.lifecycle.as_deref(), Some("spot"));
        assert!(instance.spot_request_id.is_some());
        assert_eq!(instance.security_group_ids, ["sg-00000000000000002"]);
        assert_eq!(instance.tags["karpenter.sh/nodepool"], "default");
        assert_eq!(instance.tags["aws:ec2:fleet-id"], answer.fleet_id);
        assert_eq!(instance.tags["aws:ec2launchtemplate:id"], template_id);
    }
}
