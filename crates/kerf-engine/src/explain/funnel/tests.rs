//! Tests of the funnel: how many instance types each rule leaves.

use super::{FunnelRule, funnel};
use crate::fixture::Fixture;

fn funnel_text(fixture: &str, pod: &str) -> Option<String> {
    let fixture = Fixture::new(fixture);
    funnel(&fixture.input, &fixture.settings, pod).map(|f| f.to_string())
}

const TYPES: &str =
    "type a cpu=2 \n type b cpu=4 zones=a \n type c cpu=8 arch=arm64 \n type d cpu=16 arch=arm64 zones=b,c";

#[test]
fn each_rule_reports_how_many_types_remain() {
    for (pool, pod, steps) in [
        ("", "cpu=1", "4 types"),
        ("", "cpu=3", "4 types → 3 fit 3 CPU"),
        ("", "cpu=200 sel=arch:arm64,zone:a", "4 types → 2 after arch → 1 after zone → 0 fit 200 CPU"),
        ("", "mem=64Gi", "4 types → 0 fit 64Gi memory"),
        ("", "res=gpu:1", "4 types → 0 fit 1 gpu"),
        ("", "sel=team:x", "4 types → 0 after team"),
        ("req=\"arch In arm64\"", "cpu=12", "2 types → 1 fit 12 CPU"),
        ("taint=k=v:NoSchedule", "cpu=1", "4 types → 0 after taint k=v:NoSchedule"),
        ("limit=cpu:4", "cpu=3", "4 types → 2 within limits → 1 fit 3 CPU"),
        ("limit=nodes:0", "cpu=1", "4 types → 0 within limits"),
        ("", "cpu=1 aff=zone:app=none", "4 types → 0 after topology of zone"),
        ("", "cpu=1 aff=host:app=none", "4 types → 0 after topology of hostname"),
        ("req=\"type Exists min 3\"", "cpu=8", "4 types → 2 fit 8 CPU → 0 after minValues of instance-type"),
    ] {
        let fixture = format!("{TYPES} \n pool p {pool} \n pod x {pod}");
        assert_eq!(funnel_text(&fixture, "default/x").unwrap(), format!("p: {steps}"), "{pod}");
    }
}

#[test]
fn offerings_and_host_ports_are_steps_of_the_funnel() {
    let out = "type a zones=a,b out=b/on-demand \n type b zones=a,b \n pool p \n pod x cpu=1 sel=zone:b";
    assert_eq!(funnel_text(out, "default/x").unwrap(), "p: 2 types → 1 on offer");
    let ports = "type a \n type b \n pool p \n daemonset d port=80 sel=type:b \n pod x cpu=1 port=80";
    assert_eq!(funnel_text(ports, "default/x").unwrap(), "p: 2 types → 1 with host ports free");
}

#[test]
fn every_pool_has_a_line_in_the_order_in_which_pools_are_tried() {
    let fixture = format!("{TYPES} \n pool light \n pool heavy weight=9 taint=k=v:NoSchedule \n pod x cpu=100");
    assert_eq!(
        funnel_text(&fixture, "default/x").unwrap(),
        "heavy: 4 types → 0 after taint k=v:NoSchedule\nlight: 4 types → 0 fit 100 CPU"
    );
}

#[test]
fn limits_used_by_other_pods_appear_only_for_unplaced_pods() {
    let fixture = "type t cpu=4 \n pool p limit=nodes:1 \n pod x x2 cpu=4";
    assert_eq!(funnel_text(fixture, "default/x-1").unwrap(), "p: 1 types");
    assert_eq!(funnel_text(fixture, "default/x-2").unwrap(), "p: 1 types → 0 within limits");
}

#[test]
fn only_pods_to_be_placed_have_a_funnel() {
    let fixture = "pool p \n node n1 \n pod bound cpu=1 on=n1 \n pod bad cpu=1 pvc=none";
    for pod in ["default/none", "default/bound", "default/bad", "bad"] {
        assert_eq!(funnel_text(fixture, pod), None, "{pod}");
    }
}

#[test]
fn steps_carry_resource_and_amount() {
    let fixture = Fixture::new("type t cpu=4 \n pool p \n pod x cpu=5");
    let funnel = funnel(&fixture.input, &fixture.settings, "default/x").unwrap();
    let step = &funnel.pools[0].steps[0];
    let FunnelRule::Resource { name, amount } = &step.rule else { panic!("{step:?}") };
    assert_eq!((&**name, amount.to_string().as_str(), step.types_left), ("cpu", "5", 0));
}
