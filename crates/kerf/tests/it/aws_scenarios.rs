//! The scenarios of `scenarios/aws/`: acceptance B to X of spec 07 §13, exercises of public guides
//! and bad input. Each file states the lines of the log, the Events and the counts that must hold.

use std::collections::BTreeSet;

use crate::program::{kerf, temp_folder};

/// Runs a scenario, which must hold.
fn run(file: &str) {
    let path = format!("{}/../../scenarios/aws/{file}.yaml", env!("CARGO_MANIFEST_DIR"));
    let output = kerf(&["sandbox", "run", &path]).run();
    assert_eq!(output.code, 0, "{}{}", output.stdout, output.stderr);
}

/// The scenario of `make spot`, which has a test of its own.
const SPOT_DAY: &str = "spot-day";

// No invariant is violated on the list of live EC2 instances, and the report has the figures.
#[test]
fn a_spot_fleet_survives_interruptions_and_a_stock_out() {
    let path = format!("{}/../../scenarios/aws/{SPOT_DAY}.yaml", env!("CARGO_MANIFEST_DIR"));
    let output = kerf(&["sandbox", "run", &path, "--until", "30m", "-o", "json"]).run();
    assert_eq!(output.code, 0, "{}{}", output.stdout, output.stderr);
    let report: serde_json::Value = serde_json::from_str(&output.stdout).unwrap();
    let count = |path: &str| report.pointer(path).and_then(serde_json::Value::as_u64).unwrap();
    assert!(count("/nodes/peak") >= 100, "{}", report["nodes"]);
    assert!(count("/evictions") > 0 && count("/pods/timeToRun/p50Millis") > 0, "{}", report["pods"]);
    assert_eq!(count("/planComparison/comparisons"), 1);
    let (paid, best) = (count("/cost/atEndMicroDollarsPerHour"), count("/planComparison/bestMicroDollarsPerHour"));
    assert!(best > 0 && paid < 3 * best, "{paid} {best}");
}

/// Returns the text of a shipped scenario.
fn shipped(file: &str) -> String {
    std::fs::read_to_string(format!("{}/../../scenarios/aws/{file}.yaml", env!("CARGO_MANIFEST_DIR"))).unwrap()
}

// The AWS provider and the controllers use the same gates.
#[test]
fn the_feature_gates_of_a_scenario_reach_the_aws_provider() {
    let text = shipped("reservations");
    let with_gates =
        text.replace("provider: aws\n", "provider: aws\ncontroller: {featureGates: ReservedCapacity=true}\n");
    let folder = temp_folder(&[("on.yaml", &with_gates), ("default.yaml", &text)]);
    let run = |file: &str| {
        let arguments = ["sandbox", "run", file, "--feature-gates", "ReservedCapacity=false"];
        kerf(&arguments).current_dir(folder.path()).run()
    };
    let output = run("on.yaml");
    assert_eq!(output.code, 0, "{}{}", output.stdout, output.stderr);
    let output = run("default.yaml");
    assert!(output.stdout.contains("no line of the log matches \"launched nodeclaim\""), "{}", output.stdout);
}

#[test]
fn a_feature_gate_of_a_scenario_without_effect_is_a_warning() {
    let text = "{name: x, until: 1m, controller: {featureGates: NodeOverlay=true}, steps: []}";
    let folder = temp_folder(&[("sc.yaml", text)]);
    let output = kerf(&["sandbox", "run", "sc.yaml"]).current_dir(folder.path()).run();
    let warning = "warning: the feature gate NodeOverlay has no effect in this version\n";
    assert_eq!((output.code, output.stderr.as_str()), (0, warning));
}

#[test]
fn the_provider_of_a_scenario_must_serve_its_node_classes() {
    let text = shipped("b-scale-up").replace("provider: aws\n", "provider: kwok\n");
    let folder = temp_folder(&[("sc.yaml", &text)]);
    let output = kerf(&["sandbox", "run", "sc.yaml"]).current_dir(folder.path()).run();
    assert_eq!(output.code, 2, "{}", output.stdout);
    insta::assert_snapshot!(output.stderr, @r"
    error: sc.yaml: its NodePools are for the provider aws, not for kwok
    hint:  write `provider: aws` in the file, or run it with --provider aws
    ");
}

/// A spot fleet, and prices that change every five minutes.
const MOVING_PRICES: &str = "  - { at: 0s, aws: { spotMarket: { changeEvery: 5m } } }\n";

// The nodes stay; the cost follows the prices.
#[test]
fn the_cost_follows_the_spot_prices() {
    let text = shipped("b-scale-up");
    let (head, _) = text.split_once("  - { at: 1m").unwrap();
    let scale = "  - { at: 1m, scale: { kind: Deployment, name: inflate, namespace: workshop, replicas: 5 } }\n";
    let head = head
        .replace("until: 5m", "until: 50m")
        .replace("values: [on-demand]", "values: [spot]")
        .replace("WhenEmptyOrUnderutilized", "WhenEmpty");
    let end = "  - { at: 50m, expect: { instances: 1 } }\n";
    let prices = |steps: &str| -> BTreeSet<u64> {
        let folder = temp_folder(&[("sc.yaml", &format!("{head}{steps}{scale}{end}"))]);
        let arguments = ["sandbox", "run", "sc.yaml", "-o", "json"];
        let output = kerf(&arguments).current_dir(folder.path()).run();
        assert_eq!(output.code, 0, "{}{}", output.stdout, output.stderr);
        let report: serde_json::Value = serde_json::from_str(&output.stdout).unwrap();
        assert_eq!(report["nodes"]["launched"], 4, "three of them are not Kerf's");
        let samples = report["timeline"].as_array().unwrap().iter();
        let late = samples.filter(|sample| sample["atSeconds"].as_u64() > Some(600));
        late.map(|sample| sample["microDollarsPerHour"].as_u64().unwrap()).collect()
    };
    assert_eq!(prices("").len(), 1);
    assert!(prices(MOVING_PRICES).len() >= 6, "{:?}", prices(MOVING_PRICES));
}

/// Tests that run one scenario each.
macro_rules! scenarios {
    ($($(#[$comment:meta])* $name:ident: $file:literal,)*) => {
        $(
            $(#[$comment])*
            #[test]
            fn $name() {
                run($file);
            }
        )*

        #[test]
        fn every_shipped_scenario_has_a_test() {
            let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../scenarios/aws");
            let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
            let mut shipped: Vec<String> =
                entries.map(|path| path.file_stem().unwrap().to_string_lossy().into_owned()).collect();
            let mut tested: Vec<String> = [$($file),*, SPOT_DAY].map(str::to_owned).to_vec();
            shipped.sort();
            tested.sort();
            assert_eq!(shipped, tested);
        }
    };
}

scenarios! {
    /// spec 07 §13 A
    a_fresh_installation_is_ready: "a-install",
    /// spec 07 §13 B
    five_pods_get_one_node: "b-scale-up",
    /// spec 07 §13 C
    a_limit_leaves_pods_pending_until_it_is_raised: "c-limits",
    /// spec 07 §13 D
    an_empty_node_is_removed: "d-scale-down",
    /// spec 07 §13 E
    a_pool_with_another_class_replaces_its_nodes: "e-drift-by-node-class",
    /// spec 07 §13 F
    a_new_image_replaces_nodes_within_the_budget: "f-ami-drift",
    /// spec 07 §13 G
    spread_pods_are_consolidated: "g-consolidation",
    /// spec 07 §13 H
    an_expired_node_is_replaced: "h-expiration",
    /// spec 07 §13 I
    a_spot_interruption_drains_the_node: "i-spot-interruption",
    /// spec 07 §13 J
    an_instance_stopped_by_hand_is_replaced: "j-stopped-by-hand",
    /// spec 07 §13 K
    a_rebalance_recommendation_is_only_an_event: "k-rebalance",
    /// spec 07 §13 L
    another_offering_is_used_if_one_is_out_of_stock: "l-insufficient-capacity",
    /// spec 07 §13 M
    a_broken_node_class_launches_nothing: "m-broken-node-class",
    /// spec 07 §13 N
    a_missing_permission_is_a_condition: "n-missing-iam",
    /// spec 07 §13 O
    objects_deleted_by_hand_are_drained: "o-manual-deletion",
    /// spec 07 §13 P
    a_budget_that_never_allows_holds_until_the_grace_period: "p-pdb-that-never-allows",
    /// spec 07 §13 Q
    a_node_that_never_registers_is_given_up: "q-never-registers",
    /// spec 07 §13 R
    another_replica_continues_after_a_kill: "r-leader-failover",
    /// spec 07 §13 S
    a_restart_during_a_launch_leaves_nothing_over: "s-restart-during-launch",
    /// spec 07 §13 T
    pods_with_gpus_and_for_arm64_get_their_nodes: "t-gpu-and-arm64",
    /// spec 07 §13 U
    the_heavier_pool_is_used_first: "u-weights",
    /// spec 07 §13 V
    an_unhealthy_node_is_repaired: "v-node-repair",
    /// spec 07 §13 W
    a_zonal_shift_keeps_nodes_away: "w-zonal-shift",
    /// spec 07 §13 X
    metrics_have_the_expected_values: "x-observability",
    /// spec 06 §11.5
    a_reservation_is_used_and_expires: "reservations",
    /// spec 06 §9.4
    mistakes_by_hand_stop_nothing_else: "bad-input",
}
