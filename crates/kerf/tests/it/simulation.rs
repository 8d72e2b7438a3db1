//! `kerf sandbox run` as users and scripts see it: scenarios in virtual time with Kerf, with and
//! without faults.

use serde_json::Value;

use crate::program::{RunResult, kerf, run_without_reader, temp_folder};

fn run_story(arguments: &[&str]) -> RunResult {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../scenarios/story.yaml");
    kerf(&[&["sandbox", "run", path], arguments].concat()).run()
}

fn story_report(arguments: &[&str]) -> Value {
    let output = run_story(&[arguments, &["-o", "json"]].concat());
    assert_eq!(output.code, 0, "{arguments:?}: {}{}", output.stdout, output.stderr);
    serde_json::from_str(&output.stdout).unwrap()
}

// Spec 09 section 3: a report, deterministic.
#[test]
fn two_runs_with_one_seed_have_equal_reports() {
    let part = ["--until", "4m", "--seed"];
    let of = |seed: &str| story_report(&[&part[..], &[seed]].concat());
    let (first, second) = (of("3"), of("3"));
    assert_eq!(first, second);
    assert_eq!(first["violations"], serde_json::json!([]));
    assert!(first["pods"]["ran"].as_u64() >= Some(50), "{first}");
    assert!(
        first["nodes"]["launched"].as_u64() > Some(0) && first["cost"]["spentMicroDollars"].as_u64() > Some(0),
        "{first}"
    );
    assert_ne!(of("4")["fingerprint"], first["fingerprint"], "random values depend on the seed");
}

#[test]
fn the_story_scenario_completes() {
    let output = run_story(&[]);
    assert_eq!(output.code, 0, "{}", output.stdout);
    assert!(
        output.stdout.contains("» 50 pods are created") && output.stdout.ends_with("Invariants  all held\n"),
        "{}",
        output.stdout
    );
}

// Instances take twenty seconds to start, and other passes run meanwhile. Each pass must find again
// the packing for which the instances were launched.
#[test]
fn no_further_nodes_are_launched_for_pods_whose_nodes_are_starting() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../scenarios/week.yaml");
    let output = kerf(&["sandbox", "run", path, "--until", "25s", "--log-level", "info"]).run();
    let created: Vec<&str> = output.stderr.lines().filter(|line| line.contains("created nodeclaim")).collect();
    let at = |line: &str, second: &str| line.starts_with(&format!("2026-01-01T00:00:{second}"));
    assert_eq!(created.iter().filter(|line| at(line, "01")).count(), 13, "{}", output.stderr);
    let meanwhile: Vec<&&str> = created.iter().filter(|line| at(line, "1") || at(line, "20")).collect();
    assert_eq!(meanwhile, Vec::<&&str>::new());
}

#[test]
fn all_invariants_hold_with_faults_of_the_api_server() {
    story_report(&[
        "--until",
        "5m",
        "--seed",
        "5",
        "--faults",
        "conflict,error,lost-response,dropped-watch,stale-read",
    ]);
}

#[test]
fn all_invariants_hold_with_faults_of_the_cloud() {
    story_report(&[
        "--until",
        "5m",
        "--seed",
        "6",
        "--faults",
        "stockout,throttling,never-joins,slow-boot,interruption",
    ]);
}

/// A pod of a thousand CPUs, which no instance type can hold. The scenario does not allow it to
/// stay pending.
const UNPLACEABLE_POD_SCENARIO: &str = "
name: Too big
until: 1m
steps:
  - at: 0s
    apply:
      - apiVersion: v1
        kind: Pod
        metadata: {name: giant}
        spec: {containers: [{name: c, image: i, resources: {requests: {cpu: 1000}}}]}
";

#[test]
fn a_broken_invariant_exits_with_1_and_prints_the_seed() {
    let folder = temp_folder(&[("big.yaml", UNPLACEABLE_POD_SCENARIO)]);
    let output = kerf(&["sandbox", "run", "big.yaml", "--seed", "9"]).current_dir(folder.path()).run();
    assert_eq!(output.code, 1, "{}", output.stderr);
    assert!(output.stdout.contains("1 violated (repeat with --seed 9)"), "{}", output.stdout);
    assert!(output.stdout.contains("every pod runs: 1 pending pod, for example default/giant"), "{}", output.stdout);
}

// A failed step is a violation that names the step by its path in the file.
#[test]
fn a_step_that_fails_is_reported_with_its_path() {
    let text = "
name: Failures
until: 1m
steps:
  - {at: 0s, apply: [{apiVersion: v1, kind: Foo, metadata: {name: a}}]}
  - {at: 1s, scale: {kind: Deployment, name: web, replicas: 2}}
  - {at: 2s, interrupt: {capacityType: foo, count: 1}}
";
    let folder = temp_folder(&[("failures.yaml", text)]);
    let output = kerf(&["sandbox", "run", "failures.yaml"]).current_dir(folder.path()).run();
    assert_eq!(output.code, 1, "{}", output.stderr);
    let (_, invariants) = output.stdout.split_once("Invariants").unwrap();
    insta::assert_snapshot!(invariants, @r#"
      3 violated (repeat with --seed 0)
      00:00:00  every step succeeds: steps[0].apply[0]: the cluster does not serve the kind Foo
      00:00:01  every step succeeds: steps[1].scale: deployments.apps "web" not found
      00:00:02  every step succeeds: steps[2].interrupt: no node has the capacity type foo
    "#);
}

// Spec 09 section 1: a pipe that closes early ends the program with the right code. A scenario that
// was cut short has not passed; a scenario that ran to its end keeps its verdict, even if no
// process reads the report.
#[test]
fn a_scenario_whose_reader_closes_stdout_has_not_passed() {
    // To its end it would take minutes.
    let endless = "{name: Endless, until: 1000h, steps: [{at: 0s, every: 10s, say: tick}]}";
    let files = temp_folder(&[("endless.yaml", endless), ("big.yaml", UNPLACEABLE_POD_SCENARIO)]);
    let path = |name: &str| files.path().join(name).to_str().unwrap().to_owned();
    let (code, stderr) = run_without_reader(&["sandbox", "run", &path("endless.yaml")], "");
    assert_eq!(code, Some(1));
    assert_eq!(stderr, "error: the scenario did not run to its end: stdout was closed\n");
    assert_eq!(run_without_reader(&["sandbox", "run", &path("big.yaml"), "-o", "json"], ""), (Some(1), String::new()));
}

/// Runs forty minutes of constant demand: jobs every five minutes, a deployment that is restarted,
/// and one that shrinks at the beginning. Costs are compared while a job runs, because its capacity
/// is part of the demand. `scenarios/week.yaml` is the long version (`make week`).
fn run_steady_scenario(consolidate_after: &str, until: &str) -> RunResult {
    let workload = |name: &str, replicas: u32, cpu: &str| {
        format!(
            "{{apiVersion: apps/v1, kind: Deployment, metadata: {{name: {name}}}, spec: {{replicas: {replicas}, \
             selector: {{matchLabels: {{app: {name}}}}}, template: {{metadata: {{labels: {{app: {name}}}}}, spec: \
             {{containers: [{{name: c, image: i, resources: {{requests: {{cpu: {cpu}}}}}}}]}}}}}}}}"
        )
    };
    let text = format!(
        "
name: Steady
until: 40m
steady: {{from: 15m30s, every: 5m, unchangedFor: 10m, costWithinPercent: 3}}
steps:
  - at: 0s
    apply:
      - {{apiVersion: karpenter.kwok.sh/v1alpha1, kind: KWOKNodeClass, metadata: {{name: default}}, spec: {{}}}}
      - apiVersion: karpenter.sh/v1
        kind: NodePool
        metadata: {{name: general}}
        spec:
          disruption: {{consolidateAfter: {consolidate_after}}}
          template:
            spec:
              nodeClassRef: {{group: karpenter.kwok.sh, kind: KWOKNodeClass, name: default}}
              requirements: [{{key: karpenter.sh/capacity-type, operator: In, values: [on-demand]}}]
      - {api}
      - {web}
      - {idle}
      - apiVersion: batch/v1
        kind: CronJob
        metadata: {{name: sync}}
        spec:
          schedule: '*/5 * * * *'
          jobTemplate:
            spec:
              template:
                metadata: {{annotations: {{pod-complete.stage.kwok.x-k8s.io/delay: 60s}}}}
                spec:
                  restartPolicy: Never
                  containers: [{{name: c, image: i, resources: {{requests: {{cpu: 250m}}}}}}]
  - {{at: 5m, scale: {{kind: Deployment, name: idle, replicas: 0}}}}
  - {{at: 17m, every: 10m, restart: {{kind: Deployment, name: web}}}}
",
        api = workload("api", 6, "1500m"),
        web = workload("web", 4, "700m"),
        idle = workload("idle", 3, "3"),
    );
    let folder = temp_folder(&[("steady.yaml", &text)]);
    kerf(&["sandbox", "run", "steady.yaml", "--until", until, "-o", "json"]).current_dir(folder.path()).run()
}

#[test]
fn a_cluster_with_constant_demand_becomes_steady() {
    let output = run_steady_scenario("0s", "40m");
    let report: Value = serde_json::from_str(&output.stdout).unwrap();
    assert_eq!((output.code, &report["violations"]), (0, &serde_json::json!([])), "{report:#}");
    let steady = &report["steady"];
    assert_eq!((&steady["unchangedEvicted"], &steady["appraisals"]), (&0.into(), &5.into()), "{steady}");
    assert!(report["moves"].as_object().is_some_and(|moves| !moves.is_empty()), "{report:#}");
    // Spec 09 section 3: evictions by reason, and none without one.
    let by_reason = report["evictionsByReason"].as_object().unwrap();
    let total: u64 = by_reason.values().filter_map(Value::as_u64).sum();
    assert_eq!((Some(total), by_reason.get("Other")), (report["evictions"].as_u64(), None), "{by_reason:?}");
    assert!(total > 0 && by_reason.contains_key("Underutilized"), "{by_reason:?}");
}

#[test]
fn a_cluster_that_keeps_idle_nodes_is_too_expensive() {
    let output = run_steady_scenario("Never", "21m");
    assert_eq!(output.code, 1, "{}", output.stdout);
    assert!(output.stdout.contains("cost is close to the best plan"), "{}", output.stdout);
}

#[test]
fn an_unreadable_scenario_is_rejected_with_all_problems() {
    let text = "
name: x
until: 1m
sped: fast
faults: [rain]
steps:
  - {at: -1s, scale: {kind: Deployment, name: web, replicas: -1}, faults: [hail]}
  - {say: hello}
";
    let folder = temp_folder(&[("sc.yaml", text)]);
    let output = kerf(&["sandbox", "run", "sc.yaml"]).current_dir(folder.path()).run();
    assert_eq!((output.code, output.stdout.as_str()), (2, ""));
    let places: Vec<&str> = output
        .stderr
        .lines()
        .map(|line| line.trim_start_matches("error: sc.yaml, line "))
        .map(|line| {
            let mut parts = line.splitn(3, ": ");
            parts.next().and(parts.next()).unwrap_or_default()
        })
        .collect();
    let expected = ["sped", "faults[0]", "steps[0].at", "steps[0].faults[0]", "steps[0].scale.replicas", "steps[1].at"];
    assert_eq!(places, expected, "{}", output.stderr);
}

/// Runs a shipped scenario, and returns its report. Fails if an invariant is violated.
fn shipped_report(name: &str, arguments: &[&str]) -> Value {
    let path = format!("{}/../../scenarios/{name}.yaml", env!("CARGO_MANIFEST_DIR"));
    let output = kerf(&[&["sandbox", "run", &path, "-o", "json"], arguments].concat()).run();
    let report: Value = serde_json::from_str(&output.stdout).unwrap_or_else(|_| panic!("{}", output.stderr));
    assert_eq!((output.code, &report["violations"]), (0, &serde_json::json!([])), "{name}: {report:#}");
    report
}

// The short form of `make scenarios`: one seed, and the scenarios that take little time.
#[test]
fn shipped_scenarios_hold_with_one_seed() {
    for name in ["scale-out", "limit-range", "kill-during-scale-out", "stopped-leader", "clock-jump", "expired-watches"]
    {
        shipped_report(name, &["--seed", "1"]);
    }
}

#[test]
fn two_runs_with_processes_that_are_killed_and_stopped_are_equal() {
    let run = || shipped_report("stopped-leader", &["--until", "10m", "--seed", "3"]);
    assert_eq!(run(), run());
}

#[test]
fn an_expectation_that_does_not_hold_is_a_violation() {
    let text = "{name: x, until: 1m, steps: [{at: 30s, expect: {podsRunning: 1, nodes: 0}}]}";
    let folder = temp_folder(&[("expect.yaml", text)]);
    let output = kerf(&["sandbox", "run", "expect.yaml"]).current_dir(folder.path()).run();
    assert_eq!(output.code, 1, "{}", output.stdout);
    let violation = "expectations hold: steps[0].expect: podsRunning is 0, expected is 1";
    assert!(output.stdout.contains(violation) && output.stdout.contains("1 violated"), "{}", output.stdout);
}

// Without an account, the instances are the Nodes that the provider has created.
#[test]
fn instances_of_the_simulated_provider_are_counted() {
    let folder = temp_folder(&[("instances.yaml", INSTANCES_SCENARIO)]);
    let output = kerf(&["sandbox", "run", "instances.yaml"]).current_dir(folder.path()).run();
    assert_eq!(output.code, 1, "{}", output.stdout);
    let (_, invariants) = output.stdout.split_once("Invariants").unwrap();
    assert!(invariants.contains("5 violated"), "{invariants}");
    for violation in [
        "00:02:00  expectations hold: steps[3].expect: instances is 1, expected is 0",
        " is default, expected is missing",
        " is missing, expected is hockey",
        " is shop, expected is bank",
        "steps[4].expect: labels of Node: NodePool other has no Node",
    ] {
        assert!(invariants.contains(violation), "{violation}: {invariants}");
    }
}

/// A scenario with one node of Kerf beside two others.
const INSTANCES_SCENARIO: &str = "
name: Instances
until: 3m
nodes: 2
steps:
  - at: 0s
    apply:
      - {apiVersion: karpenter.kwok.sh/v1alpha1, kind: KWOKNodeClass, metadata: {name: default}, spec: {}}
      - apiVersion: karpenter.sh/v1
        kind: NodePool
        metadata: {name: default}
        spec:
          template:
            metadata: {labels: {team: shop}}
            spec: {nodeClassRef: {group: karpenter.kwok.sh, kind: KWOKNodeClass, name: default}, requirements: []}
      - apiVersion: v1
        kind: Pod
        metadata: {name: web}
        spec: {nodeSelector: {team: shop}, containers: [{name: c, image: i, resources: {requests: {cpu: 1}}}]}
  - {at: 0s, expect: {instances: 0}}
  - at: 2m
    expect:
      nodes: 3
      instances: 1
      labels: [{kind: Node, pool: default, labels: {team: shop, sports: ''}}]
  - at: 2m
    expect:
      instances: 0
      labels: [{kind: NodeClaim, pool: default, labels: {team: bank, sports: hockey, karpenter.sh/nodepool: ''}}]
  - {at: 2m, expect: {labels: [{kind: Node, pool: other, labels: {a: b}}]}}
";

#[test]
fn a_target_without_objects_is_a_violation() {
    let text =
        "{name: x, until: 1m, steps: [{at: 1s, delete: {kind: Node, pool: none}, interrupt: {pool: none, count: 1}}]}";
    let folder = temp_folder(&[("none.yaml", text)]);
    let output = kerf(&["sandbox", "run", "none.yaml"]).current_dir(folder.path()).run();
    for violation in ["steps[0].delete: NodePool none has no Node", "steps[0].interrupt: NodePool none has no node"] {
        assert!(output.stdout.contains(violation), "{}", output.stdout);
    }
}

#[test]
fn a_contradictory_scenario_is_rejected_with_all_problems() {
    let folder = temp_folder(&[
        ("order.yaml", "{name: x, until: 1m, steps: [{at: 2m, say: late}, {at: 1s}]}"),
        ("typo.yaml", "{name: x, until: 1m, stepps: []}"),
    ]);
    let output = kerf(&["sandbox", "run", "order.yaml"]).current_dir(folder.path()).run();
    assert_eq!((output.code, output.stdout.as_str()), (2, ""));
    assert!(
        output
            .stderr
            .contains("order.yaml, line 1: steps[0].at: must not be later than `until`, the end of the scenario"),
        "{}",
        output.stderr
    );
    assert!(output.stderr.contains("order.yaml, line 1: steps[1]: the step has no action"), "{}", output.stderr);
    let output = kerf(&["sandbox", "run", "typo.yaml"]).current_dir(folder.path()).run();
    assert_eq!(output.code, 2);
    assert!(output.stderr.contains("typo.yaml, line 1: stepps: there is no such field"), "{}", output.stderr);
    let output = kerf(&["sandbox", "run", "missing.yaml"]).current_dir(folder.path()).run();
    assert_eq!(output.code, 2);
    let output = kerf(&["sandbox", "run", "order.yaml", "--faults", "rain"]).current_dir(folder.path()).run();
    assert_eq!(output.code, 2);
    assert!(output.stderr.contains("unknown fault \"rain\"; use one of: conflict, "), "{}", output.stderr);
}
