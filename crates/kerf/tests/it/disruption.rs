//! The disruption part of `kerf plan` (spec 09 section 2): commands, nodes that stay with their
//! reasons, and cost.

use insta::assert_snapshot;
use serde_json::{Value, json};

use crate::program::{KerfCommand, kerf};

const AT_FLAG: [&str; 2] = ["--at", "2026-03-04T12:00:00Z"];

/// Returns `kerf plan` for `examples/underused.yaml`, without measurements.
fn plan(arguments: &[&str]) -> KerfCommand {
    let example = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/underused.yaml");
    kerf(&[&["plan", "-f", example, "--no-stats"], arguments].concat())
}

fn plan_json(arguments: &[&str]) -> Value {
    serde_json::from_str(&plan(&[&["-o", "json"], arguments].concat()).run().stdout).unwrap()
}

#[test]
fn the_table_lists_commands_blocked_nodes_and_savings() {
    assert_snapshot!(plan(&AT_FLAG).run().stdout, @r"
    Nodes to remove

    REASON         DECISION  NODES      PODS  NEW NODES         $/HOUR SAVED
    Empty          delete    node-c     0                       0.1086
    Underutilized  replace   node-a +1  3     c-8x-amd64-linux  0.1258

    Nodes that stay

    NODES   CODE                 WHY
    node-d  PodDisruptionBudget  Pdb prevents pod evictions (PodDisruptionBudget=[shop/db])

    Cost: $0.5687/hour now, $0.3344/hour after this plan (-$0.2344).
    ");
}

#[test]
fn json_has_every_published_field() {
    let mut disruption = plan_json(&AT_FLAG)["disruption"].take();
    let replacement = disruption["commands"][1]["replacements"][0].take();
    assert_eq!(
        disruption,
        json!({
            "commands": [
                {
                    "reason": "Empty", "decision": "delete", "nodes": ["node-c"], "pods": [], "replacements": [],
                    "existingNodes": [], "savingsPerHour": 0.108_589_935,
                },
                {
                    "reason": "Underutilized", "decision": "replace", "nodes": ["node-a", "node-b"],
                    "pods": ["shop/web-1", "shop/web-2", "shop/web-3"], "replacements": [null],
                    "existingNodes": [], "savingsPerHour": 0.125_769_804,
                },
            ],
            "blocked": [{
                "node": "node-d", "code": "PodDisruptionBudget",
                "message": "Pdb prevents pod evictions (PodDisruptionBudget=[shop/db])",
            }],
        })
    );
    assert_eq!(replacement["nodePool"], "underused");
    assert_eq!(replacement["name"], "underused-replacement-1");
    assert_eq!(replacement["pods"], json!(["shop/web-1", "shop/web-2", "shop/web-3"]));
    assert_eq!(replacement["instanceTypes"], json!(["c-8x-amd64-linux"]));
    let first = json!({"key": "karpenter.kwok.sh/kwoknodeclass", "operator": "In", "values": ["underused"]});
    assert_eq!(replacement["requirements"][0], first);
    let estimate = json!({
        "instanceType": "c-8x-amd64-linux", "zone": "test-zone-a", "capacityType": "on-demand",
        "pricePerHour": 0.217_179_869,
    });
    assert_eq!(replacement["estimate"], estimate);
}

#[test]
fn the_planned_price_is_the_current_price_minus_the_savings() {
    let plan = plan_json(&AT_FLAG);
    let saved: f64 = plan["disruption"]["commands"]
        .as_array()
        .unwrap()
        .iter()
        .map(|command| command["savingsPerHour"].as_f64().unwrap())
        .sum();
    let cost = |key: &str| plan["cost"][key].as_f64().unwrap();
    assert!(saved > 0.0);
    assert!((cost("currentPerHour") - saved - cost("plannedPerHour")).abs() < 1e-9);
}

#[test]
fn provisioning_alone_disrupts_nothing_and_does_not_trip_the_gate() {
    let provisioning_plan = plan_json(&[AT_FLAG[0], AT_FLAG[1], "--only", "provisioning"]);
    assert_eq!(provisioning_plan["disruption"], json!({"commands": [], "blocked": []}));
    assert_eq!(plan(&[AT_FLAG[0], AT_FLAG[1], "--only", "provisioning", "--fail-on", "disruption"]).run().code, 0);
    assert_eq!(plan(&[AT_FLAG[0], AT_FLAG[1], "--fail-on", "disruption"]).run().code, 3);
}

#[test]
fn consolidate_after_keeps_the_nodes() {
    let early = plan_json(&["--at", "2026-03-01T08:00:30Z"]);
    assert_eq!(early["disruption"]["commands"], json!([]));
    let codes: Vec<&str> = early["disruption"]["blocked"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|entry| entry["node"] == "node-c")
        .map(|entry| entry["code"].as_str().unwrap())
        .collect();
    assert_eq!(codes, ["ConsolidateAfter"]);
}
