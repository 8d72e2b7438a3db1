//! Records of instances.

use super::*;
use crate::ports::ec2::Ec2Instance;

fn described() -> Ec2Instance {
    Ec2Instance { id: "i-1".into(), ..Ec2Instance::default() }
}

fn in_reservation(preference: &str, lifecycle: Option<&str>) -> Ec2Instance {
    Ec2Instance {
        capacity_reservation_id: Some("cr-1".into()),
        capacity_reservation_preference: Some(preference.into()),
        lifecycle: lifecycle.map(str::to_owned),
        ..described()
    }
}

// spec 05 §16, #119
#[test]
fn the_capacity_type_of_a_described_instance() {
    let record = |instance, uses_reservations| {
        let record = InstanceRecord::new(instance, uses_reservations);
        (record.capacity_type, record.reservation.map(|own| (own.reservation_type, own.is_interruptible)))
    };
    let only = "capacity-reservations-only";
    assert_eq!(record(described(), true), ("on-demand", None));
    let spot = Ec2Instance { spot_request_id: Some("sir-1".into()), ..described() };
    assert_eq!(record(spot, true), ("spot", None));
    assert_eq!(record(in_reservation(only, None), true), ("reserved", Some(("default", false))));
    assert_eq!(record(in_reservation(only, None), false), ("on-demand", None), "without the gate");
    assert_eq!(record(in_reservation("open", None), true), ("on-demand", None), "it slid into an open reservation");
    let block = in_reservation(only, Some("capacity-block"));
    assert_eq!(record(block, true), ("reserved", Some(("capacity-block", false))));
    let interruptible = in_reservation(only, Some("interruptible-capacity-reservation"));
    assert_eq!(record(interruptible, true), ("reserved", Some(("default", true))));
}

#[test]
fn missing_facts_have_defaults() {
    let interfaces = ["interface", "efa", "efa-only"].map(str::to_owned).into();
    let instance = Ec2Instance { interface_types: interfaces, ..described() };
    let record = InstanceRecord::new(instance, true);
    assert_eq!((record.tenancy.as_str(), record.efa_count), ("default", 2));
    assert_eq!(record.tag("karpenter.sh/nodepool"), None);
}
