//! Instances.

use aws_sdk_ec2::types;
use kerf_aws::ports::ec2::{Ec2Instance, InstanceStateChange, InstanceStateName};

use crate::convert::{list, name, optional_name, tags, timestamp};

pub(super) fn instance(instance: types::Instance) -> Ec2Instance {
    let placement = instance.placement.unwrap_or_else(|| types::Placement::builder().build());
    let reservation = instance.capacity_reservation_specification;
    let interfaces = instance.network_interfaces.unwrap_or_default();
    let interface_types = interfaces.iter().filter_map(|interface| interface.interface_type.clone()).collect();
    // An instance without interfaces, such as a terminated one, may still name subnet and groups.
    let (subnet_id, groups) = match interfaces.into_iter().next() {
        Some(first) => (first.subnet_id.or(instance.subnet_id), first.groups.or(instance.security_groups)),
        None => (instance.subnet_id, instance.security_groups),
    };
    let (state_reason, state_message) =
        instance.state_reason.map_or((None, None), |reason| (reason.code, reason.message));
    Ec2Instance {
        id: instance.instance_id.unwrap_or_default(),
        instance_type: name(instance.instance_type),
        image_id: instance.image_id.unwrap_or_default(),
        zone: placement.availability_zone.unwrap_or_default(),
        zone_id: placement.availability_zone_id.unwrap_or_default(),
        subnet_id: subnet_id.unwrap_or_default(),
        security_group_ids: list(groups, |group| group.group_id.unwrap_or_default()),
        state: state_name(instance.state),
        state_reason,
        state_message,
        launched_at: instance.launch_time.and_then(timestamp),
        private_dns_name: instance.private_dns_name.unwrap_or_default(),
        spot_request_id: instance.spot_instance_request_id,
        lifecycle: optional_name(instance.instance_lifecycle),
        capacity_reservation_id: instance.capacity_reservation_id,
        capacity_reservation_preference: reservation
            .and_then(|reservation| optional_name(reservation.capacity_reservation_preference)),
        tenancy: name(placement.tenancy),
        partition_number: placement.partition_number.unwrap_or_default(),
        interface_types,
        tags: tags(instance.tags),
    }
}

pub(super) fn state_change(change: types::InstanceStateChange) -> InstanceStateChange {
    InstanceStateChange {
        id: change.instance_id.unwrap_or_default(),
        previous: state_name(change.previous_state),
        current: state_name(change.current_state),
    }
}

/// A missing or unknown state becomes `pending`: the instance exists, and no rule deletes it.
fn state_name(state: Option<types::InstanceState>) -> InstanceStateName {
    let name = state.and_then(|state| state.name);
    name.and_then(|name| InstanceStateName::from_name(name.as_str())).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_instance_without_fields_has_defaults() {
        assert_eq!(instance(types::Instance::builder().build()), Ec2Instance::default());
    }

    #[test]
    fn every_state_is_translated_and_an_unknown_one_is_pending() {
        let translated = |text: &str| state_name(Some(types::InstanceState::builder().name(text.into()).build()));
        for state in InstanceStateName::ALL {
            assert_eq!(translated(state.name()), state);
        }
        assert_eq!((translated("hibernating"), state_name(None)), Default::default());
    }

    #[test]
    fn subnet_and_groups_are_those_of_the_first_interface_if_there_is_one() {
        let group = |id: &str| types::GroupIdentifier::builder().group_id(id).build();
        let whole = types::Instance::builder().subnet_id("subnet-own").security_groups(group("sg-own"));
        let interface = types::InstanceNetworkInterface::builder().subnet_id("subnet-1").groups(group("sg-1"));
        let second = types::InstanceNetworkInterface::builder().interface_type("efa-only").build();
        let of = |it: types::builders::InstanceBuilder| {
            let translated = instance(it.build());
            (translated.subnet_id, translated.security_group_ids.concat(), translated.interface_types.concat())
        };
        let texts = |subnet: &str, group: &str, kind: &str| (subnet.to_owned(), group.to_owned(), kind.to_owned());
        assert_eq!(of(whole.clone()), texts("subnet-own", "sg-own", ""));
        let both = whole.network_interfaces(interface.build()).network_interfaces(second);
        assert_eq!(of(both), texts("subnet-1", "sg-1", "efa-only"));
    }
}
