//! Tests of reading the instance-type file (spec 04 §14.2).

use super::*;

const FILE: &str = r#"[
  {"name": "c-2x", "architecture": "amd64", "operatingSystems": ["linux"],
   "resources": {"cpu": "2", "memory": "4Gi", "hugepages-2Mi": "1Gi"},
   "offerings": [
     {"Price": 0.07, "Available": true, "Requirements": [
       {"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["spot"]},
       {"key": "topology.kubernetes.io/zone", "operator": "In", "values": ["zone-a"]}]},
     {"price": 0.1, "available": false, "requirements": [
       {"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["on-demand"]},
       {"key": "topology.kubernetes.io/zone", "operator": "In", "values": ["zone-b"]}]}]}
]"#;

#[test]
fn types_are_read_from_the_file() -> Result<(), serde_json::Error> {
    let catalogue = read(FILE)?;
    let c = &catalogue["c-2x"];
    assert_eq!(c.offerings[0].zone(), "zone-a");
    assert_eq!(c.offerings[0].capacity_type(), "spot");
    assert_eq!(c.offerings[1].price, Price::from_wire(0.1));
    assert!(c.offerings[0].is_available && !c.offerings[1].is_available);
    assert_eq!(c.capacity.get("pods"), Quantity::from_units(110));
    assert_eq!(c.allocatable.to_string(), "{cpu: 1900m, hugepages-2Mi: 1Gi, memory: 3062Mi, pods: 110}");
    assert_eq!(c.values[ZONE].len(), 2);
    assert!(c.values["karpenter.kwok.sh/instance-family"].contains("c"));
    assert!(c.values["karpenter.kwok.sh/instance-size"].contains("2"));
    Ok(())
}

#[test]
fn spec_02_39_huge_pages_never_make_memory_negative() {
    let mut capacity = Resources::new();
    capacity.set("memory", Quantity::from_units(1 << 30));
    capacity.set("hugepages-2Mi", Quantity::from_units(2 << 30));
    assert_eq!(allocatable(&capacity).get("memory"), Quantity::ZERO);
}

#[test]
fn sizes_and_families_come_from_the_name() {
    assert_eq!(instance_size("m5.large"), Some("large"));
    assert_eq!(instance_size("m5.24xlarge"), Some("24xlarge"));
    assert_eq!(instance_size("c-4x-amd64-linux"), None);
    assert_eq!(instance_size("m5.huge"), None);
    assert_eq!(
        (instance_family("m5.large"), instance_family("c-4x"), instance_family("small"), instance_family("")),
        ("m5", "c", "s", "")
    );
}
