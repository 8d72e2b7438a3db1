//! Fleets and instances of the account of a document (spec 11 §1.4).

use std::time::Duration;

use jiff::Timestamp;
use kerf_aws::ports::AwsError;
use kerf_aws::ports::ec2::{
    CreateFleet, DescribeInstances, Ec2Instance, FleetAnswer, FleetError, FleetInstance, FleetOverride, FleetTarget,
    InstanceStateChange, InstanceStateName, LaunchTemplateData,
};

use super::super::document::FleetRule;
use super::super::filters::matches;
use super::{AccountState, EC2};

/// An override of a fleet with its template.
struct FleetOption<'a> {
    choice: &'a FleetOverride,
    template: &'a LaunchTemplateData,
}

impl FleetOption<'_> {
    /// Returns the order of the overrides: the lowest priority first, then type, zone and subnet.
    fn key(&self) -> (f64, String) {
        let FleetOverride { instance_type, subnet_id, zone, priority, .. } = self.choice;
        let zone = zone.as_deref().unwrap_or_default();
        (priority.unwrap_or_default(), format!("{instance_type}/{zone}/{subnet_id}"))
    }

    fn reservation(&self) -> &str {
        let reservation = self.template.capacity_reservation.as_ref();
        reservation.and_then(|own| own.reservation_id.as_deref()).unwrap_or_default()
    }

    fn is_matched_by(&self, rule: &FleetRule, capacity_type: &str) -> bool {
        let is = |wanted: &Option<String>, actual: &str| {
            wanted.as_deref().is_none_or(|wanted| wanted.is_empty() || wanted == actual)
        };
        is(&rule.capacity_type, capacity_type)
            && is(&rule.instance_type, &self.choice.instance_type)
            && is(&rule.zone, self.choice.zone.as_deref().unwrap_or_default())
            && is(&rule.subnet, &self.choice.subnet_id)
            && is(&rule.reservation, self.reservation())
    }

    fn instance(&self, id: String, request: &CreateFleet, capacity_type: &str, now: Timestamp) -> Ec2Instance {
        let data = self.template;
        let tags = request.tags.iter().find(|specification| specification.resource_type == "instance");
        let reservation = Some(self.reservation()).filter(|id| !id.is_empty()).map(str::to_owned);
        let interfaces = &data.network_interfaces;
        Ec2Instance {
            instance_type: self.choice.instance_type.clone(),
            image_id: self.choice.image_id.clone().unwrap_or_default(),
            zone: self.choice.zone.clone().unwrap_or_default(),
            subnet_id: self.choice.subnet_id.clone(),
            security_group_ids: interfaces.last().map(|own| own.security_group_ids.clone()).unwrap_or_default(),
            state: InstanceStateName::Running,
            launched_at: now.saturating_add(Duration::from_secs(1)).ok(),
            spot_request_id: (capacity_type == "spot").then(|| format!("sir-{id}")),
            capacity_reservation_preference: reservation.as_ref().map(|_| "capacity-reservations-only".to_owned()),
            capacity_reservation_id: reservation,
            tenancy: data.placement.tenancy.clone(),
            partition_number: data.placement.partition_number.unwrap_or_default(),
            interface_types: interfaces.iter().map(|own| own.interface_type.clone().unwrap_or_default()).collect(),
            tags: tags.map(|specification| specification.tags.clone()).unwrap_or_default(),
            id,
            ..Ec2Instance::default()
        }
    }
}

/// Returns the default target capacity type as the API names it.
fn capacity_type_name(target: &FleetTarget) -> &'static str {
    match target {
        FleetTarget::Spot { .. } => "spot",
        FleetTarget::OnDemand { .. } => "on-demand",
        FleetTarget::CapacityBlock => "capacity-block",
        FleetTarget::ReservedCapacity => "reserved-capacity",
    }
}

impl AccountState {
    /// Launches the whole target capacity from the first override that no rule matches.
    pub(super) fn launch_fleet(&mut self, request: &CreateFleet, now: Timestamp) -> Result<FleetAnswer, AwsError> {
        let capacity_type = capacity_type_name(&request.target);
        self.fleets += 1;
        let mut options = Vec::new();
        for config in &request.configs {
            let Some(template) = self.templates.get(&config.template_name) else {
                let message = "The specified launch template does not exist.";
                let code = "InvalidLaunchTemplateName.NotFoundException";
                return Err(AwsError::api(EC2, "CreateFleet", 400, code, message));
            };
            options.extend(config.overrides.iter().map(|choice| FleetOption { choice, template: &template.data }));
        }
        options.sort_by(|one, two| {
            let ((price, place), (other_price, other_place)) = (one.key(), two.key());
            price.total_cmp(&other_price).then(place.cmp(&other_place))
        });
        let mut answer = FleetAnswer { fleet_id: format!("fleet-{}", self.fleets), ..FleetAnswer::default() };
        let mut launched = Vec::new();
        for option in options {
            let choice = option.choice;
            if let Some(rule) = self.rules.iter().find(|rule| option.is_matched_by(rule, capacity_type)) {
                answer.errors.push(FleetError {
                    code: rule.code.clone().unwrap_or_default(),
                    message: rule.message.clone().unwrap_or_default(),
                    instance_type: Some(choice.instance_type.clone()),
                    subnet_id: Some(choice.subnet_id.clone()),
                    zone: choice.zone.clone(),
                });
            } else if answer.instances.is_empty() {
                let count = usize::try_from(request.target_capacity).unwrap_or_default();
                let ids: Vec<String> = (1..=count).map(|number| format!("i-{:017}", self.launched + number)).collect();
                launched.extend(ids.iter().map(|id| option.instance(id.clone(), request, capacity_type, now)));
                answer.instances.push(FleetInstance {
                    ids,
                    instance_type: choice.instance_type.clone(),
                    subnet_id: choice.subnet_id.clone(),
                    zone: choice.zone.clone().unwrap_or_default(),
                    image_id: choice.image_id.clone().unwrap_or_default(),
                    lifecycle: capacity_type.to_owned(),
                });
            }
        }
        self.launched += launched.len();
        self.instances.extend(launched);
        Ok(answer)
    }

    /// Returns the instances of a request. An ID that never existed fails it.
    pub(super) fn describe(&self, request: &DescribeInstances) -> Result<Vec<Ec2Instance>, AwsError> {
        if let Some(id) = request.ids.iter().find(|id| self.instances.iter().all(|own| own.id != **id)) {
            let message = format!("The instance ID '{id}' does not exist");
            return Err(AwsError::api(EC2, "DescribeInstances", 400, "InvalidInstanceID.NotFound", message));
        }
        let is_found = |instance: &&Ec2Instance| {
            let attributes = [("instance-state-name", instance.state.name())];
            (request.ids.is_empty() || request.ids.contains(&instance.id))
                && matches(&request.filters, &attributes, &instance.tags)
        };
        Ok(self.instances.iter().filter(is_found).cloned().collect())
    }

    /// Begins the termination of instances. Unknown ones are missing in the answer.
    pub(super) fn terminate(&mut self, ids: &[String]) -> Vec<InstanceStateChange> {
        let mut changes = Vec::new();
        for instance in self.instances.iter_mut().filter(|instance| ids.contains(&instance.id)) {
            let previous = std::mem::replace(&mut instance.state, InstanceStateName::ShuttingDown);
            changes.push(InstanceStateChange { id: instance.id.clone(), previous, current: instance.state });
        }
        changes
    }
}
