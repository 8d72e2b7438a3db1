//! Commands with the AWS provider, in the program that has no AWS SDK.

use insta::assert_snapshot;
use serde_json::{Value, json};

use crate::program::{KerfCommand, RunResult, kerf};

/// The example for AWS, as arguments of a command.
const EXAMPLE: [&str; 4] = [
    "-f",
    concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/aws/getting-started.yaml"),
    "-f",
    concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/aws/inflate.yaml"),
];

#[test]
fn the_controller_needs_the_program_with_the_aws_sdk() {
    let output = kerf(&["controller", "--provider", "aws"]).run();
    assert_eq!((output.code, output.stdout.as_str()), (2, ""));
    assert_eq!(output.stderr, "error: --provider aws: this program has no AWS SDK\nhint:  run `kerf-aws controller`\n");
}

#[test]
fn the_example_is_valid() {
    let output = kerf(&[&["validate"], &EXAMPLE[..]].concat()).run();
    assert_eq!((output.code, output.stderr.as_str()), (0, ""));
    assert_eq!(output.stdout, "      1 NodePool\n      1 EC2NodeClass\n      1 Deployment\n");
}

/// Returns `kerf plan` without measurements, at a fixed time.
fn plan_command(arguments: &[&str]) -> KerfCommand {
    let base = ["plan", "--at", "2026-11-18T12:00:00Z", "--no-stats"];
    kerf(&[&base, arguments].concat())
}

fn plan(arguments: &[&str]) -> RunResult {
    plan_command(arguments).run()
}

#[test]
fn a_plan_uses_the_shipped_instance_types_and_says_so() {
    let output = plan(&[&["-o", "json"], &EXAMPLE[..]].concat());
    assert_eq!(
        output.stderr,
        "note: EC2 in us-east-1 (the default; --region selects another): instance types of 2026-10-27 (moto 5.2.5), \
         on-demand prices of 2026-07-06 (Karpenter AWS provider v1.14.1); spot is priced as on-demand\n\
         warning: EC2NodeClass `default`: its status does not tell, so the plan assumes: subnets (all zones of \
         us-east-1), images (amd64 and arm64)\n"
    );
    let plan: Value = serde_json::from_str(&output.stdout).unwrap();
    let claims = plan["provisioning"]["nodeClaims"].as_array().unwrap();
    assert_eq!((claims.len(), plan["provisioning"]["unschedulable"].as_array().unwrap().len()), (1, 0), "{plan:#}");
    let estimate = &claims[0]["estimate"];
    assert_eq!(estimate["capacityType"], "on-demand");
    assert!(estimate["zone"].as_str().unwrap().starts_with("us-east-1"), "{estimate}");
    assert!(estimate["pricePerHour"].as_f64().unwrap() > 0.0, "{estimate}");
    let types = claims[0]["instanceTypes"].as_array().unwrap();
    let category = |name: &Value| name.as_str().and_then(|name| name.chars().next());
    assert!(types.iter().all(|name| [Some('c'), Some('m'), Some('r')].contains(&category(name))), "{types:?}");
}

#[test]
fn the_provider_flag_changes_nothing_for_ec2_node_classes() {
    let with_flag = plan(&[&["--provider", "aws", "-o", "json"], &EXAMPLE[..]].concat());
    let without = plan(&[&["-o", "json"], &EXAMPLE[..]].concat());
    assert_eq!((with_flag.stdout, with_flag.stderr), (without.stdout, without.stderr));
}

#[test]
fn a_pool_of_another_provider_names_the_provider_that_serves_it() {
    for provider in ["aws", "kwok"] {
        let base = ["plan", "-f", "-", "--at", "2026-11-18T12:00:00Z", "--no-stats", "--provider", provider];
        assert_snapshot!(format!("pools_of_both_providers_for_{provider}"), kerf(&base).stdin(MIXED).transcript());
    }
    let foreign = MIXED.replace("karpenter.kwok.sh, kind: KWOKNodeClass", "example.com, kind: OtherNodeClass");
    let output = kerf(&["plan", "-f", "-", "--no-stats"]).stdin(&foreign).run();
    let expected = "warning: NodePool `kwok` is not used: no provider of Kerf serves its node class (OtherNodeClass of \
                    example.com)\n";
    assert!(output.stderr.contains(expected), "{}", output.stderr);
}

/// Twenty small pods, and a pool of m5.large.
const SMALL_PODS: &str = "\
apiVersion: karpenter.sh/v1
kind: NodePool
metadata: {name: ec2}
spec: {template: {spec: {nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: d}, requirements: [
  {key: node.kubernetes.io/instance-type, operator: In, values: [m5.large]}]}}}
---
apiVersion: karpenter.k8s.aws/v1
kind: EC2NodeClass
metadata: {name: d}
spec: {role: r, amiSelectorTerms: [{alias: al2023@latest}], subnetSelectorTerms: [{tags: {a: b}}], securityGroupSelectorTerms: [{tags: {a: b}}]}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec: {replicas: 20, selector: {matchLabels: {a: b}}, template: {metadata: {labels: {a: b}}, spec: {containers: [
  {name: a, resources: {requests: {cpu: 10m, memory: 250Mi}}}]}}}
";

// spec 09 §1: settings that change a decision
#[test]
fn a_plan_uses_the_settings_on_which_instance_types_depend() {
    let nodes = |flags: &[&str], (variable, value): (&str, &str)| {
        let command = plan_command(&[&["-f", "-", "-o", "json"], flags].concat());
        let output = command.env(variable, value).stdin(SMALL_PODS).run();
        let plan: Value = serde_json::from_str(&output.stdout).unwrap();
        plan["provisioning"]["nodeClaims"].as_array().unwrap().len()
    };
    assert_eq!(nodes(&[], ("HOME", "/")), 1);
    // Half of 8 GiB holds 14 pods at most.
    assert_eq!(nodes(&["--vm-memory-overhead-percent", "0.5"], ("HOME", "/")), 2);
    assert_eq!(nodes(&[], ("VM_MEMORY_OVERHEAD_PERCENT", "0.5")), 2);
    // One interface of three leaves addresses for 11 pods.
    assert_eq!(nodes(&["--reserved-enis", "2"], ("HOME", "/")), 2);
    assert_eq!(nodes(&[], ("RESERVED_ENIS", "2")), 2);

    let output = plan(&["--reserved-enis", "-1"]);
    assert_eq!((output.code, output.stderr.as_str()), (2, "error: reserved-enis cannot be negative\n"));
    let output = plan(&["--reserved-enis", "-1", "--feature-gates", "NodeRepair"]);
    let problems = "error: reserved-enis cannot be negative\n\
                    error: parsing feature gates, missing bool value for NodeRepair\n";
    assert_eq!((output.code, output.stderr.as_str()), (2, problems), "all problems at once");
    let output = plan(&["--provider", "kwok", "--reserved-enis", "3", EXAMPLE[2], EXAMPLE[3]]);
    assert!(
        output.stderr.contains("warning: --reserved-enis has no effect with --provider kwok\n"),
        "{}",
        output.stderr
    );
}

#[test]
fn a_sandbox_runs_with_the_provider_that_its_pools_name() {
    let scenario = concat!(env!("CARGO_MANIFEST_DIR"), "/../../scenarios/scale-out.yaml");
    let output = kerf(&["sandbox", "run", scenario, "--provider", "aws"]).run();
    assert_eq!(
        (output.code, output.stderr),
        (
            2,
            format!(
                "error: {scenario}: its NodePools are for the provider kwok, not for aws\nhint:  run it with --provider kwok\n"
            )
        )
    );
    let output = kerf(&["sandbox", "--demo"]).env("KERF_PROVIDER", "aws").run();
    assert_eq!(
        (output.code, output.stderr.as_str()),
        (
            2,
            "error: the demo scenario: its NodePools are for the provider kwok, not for aws\n\
             hint:  run it with --provider kwok\n"
        )
    );
}

#[test]
fn a_cluster_needs_a_name() {
    let output = kerf(&["sandbox", "--provider", "aws", "--cluster-name", "", "--", "true"]).run();
    assert_eq!(
        (output.code, output.stderr.as_str()),
        (2, "error: missing field, cluster-name\nhint:  give the cluster a name, or leave --cluster-name away\n")
    );
    let output = kerf(&["sandbox", "--provider", "aws", "--cluster-name", "a b", "--", "true"]).run();
    assert!(output.stderr.starts_with("error: cluster-name: \"a b\" is not the name of an EKS cluster\nhint: "));
    let output = kerf(&["sandbox", "--provider", "kwok", "--cluster-name", "x", "--", "true"]).run();
    assert!(output.stderr.contains("--cluster-name has no effect with --provider kwok"), "{}", output.stderr);
}

/// An EC2NodeClass pool and a KWOKNodeClass pool, a pod for each, and a node that runs.
const MIXED: &str = "\
apiVersion: karpenter.sh/v1
kind: NodePool
metadata: {name: ec2}
spec: {template: {spec: {nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: d}, requirements: [
  {key: node.kubernetes.io/instance-type, operator: In, values: [m5.large, x9.large]},
  {key: karpenter.sh/capacity-type, operator: In, values: [on-demand]}]}}}
---
apiVersion: karpenter.k8s.aws/v1
kind: EC2NodeClass
metadata: {name: d}
spec: {role: r, amiSelectorTerms: [{alias: al2023@latest}], subnetSelectorTerms: [{tags: {a: b}}], securityGroupSelectorTerms: [{tags: {a: b}}]}
---
apiVersion: karpenter.sh/v1
kind: NodePool
metadata: {name: kwok}
spec: {template: {spec: {nodeClassRef: {group: karpenter.kwok.sh, kind: KWOKNodeClass, name: d}, requirements: [
  {key: karpenter.kwok.sh/instance-family, operator: In, values: [c]}]}}}
---
apiVersion: karpenter.kwok.sh/v1alpha1
kind: KWOKNodeClass
metadata: {name: d}
---
apiVersion: v1
kind: Pod
metadata: {name: for-ec2}
spec: {nodeSelector: {karpenter.k8s.aws/instance-family: m5}, containers: [{name: a, resources: {requests: {cpu: '1'}}}]}
---
apiVersion: v1
kind: Pod
metadata: {name: for-kwok}
spec: {nodeSelector: {karpenter.kwok.sh/instance-family: c}, containers: [{name: a, resources: {requests: {cpu: '1'}}}]}
";

// spec 09 #19
#[test]
fn node_classes_of_both_kinds_have_their_own_instance_types() {
    let base = ["plan", "-f", "-", "--at", "2026-11-18T12:00:00Z", "--no-stats"];
    let output = kerf(&base).stdin(MIXED);
    assert_snapshot!(output.transcript());
}

#[test]
fn running_ec2_nodes_are_priced_by_type_zone_and_capacity_type() {
    let node = |name: &str, instance_type: &str, capacity_type: &str| {
        let labels = format!(
            "{{node.kubernetes.io/instance-type: {instance_type}, topology.kubernetes.io/zone: eu-west-1b, \
             karpenter.sh/capacity-type: {capacity_type}, karpenter.sh/nodepool: ec2, karpenter.sh/registered: 'true'}}"
        );
        format!(
            "---\napiVersion: v1\nkind: Node\nmetadata: {{name: {name}, labels: {labels}}}\n\
             spec: {{providerID: 'aws:///eu-west-1b/i-{name}'}}\n\
             ---\napiVersion: karpenter.sh/v1\nkind: NodeClaim\nmetadata: {{name: {name}, labels: {labels}}}\n\
             spec: {{nodeClassRef: {{group: karpenter.k8s.aws, kind: EC2NodeClass, name: d}}, requirements: []}}\n\
             status: {{providerID: 'aws:///eu-west-1b/i-{name}', nodeName: {name}}}\n"
        )
    };
    let nodes = [node("a", "m5.large", "on-demand"), node("b", "c5.xlarge", "spot"), node("c", "x9.large", "spot")];
    let class = MIXED.split("---\n").nth(1).unwrap();
    let base =
        ["plan", "-f", "-", "--at", "2026-11-18T12:00:00Z", "--no-stats", "--only", "provisioning", "-o", "json"];
    let output = kerf(&base).stdin(&format!("{class}{}", nodes.concat())).run();
    assert!(output.stderr.starts_with("note: EC2 in eu-west-1: "), "{}", output.stderr);
    assert!(output.stderr.contains("the cost does not include 1 managed node (c)"), "{}", output.stderr);
    let plan: Value = serde_json::from_str(&output.stdout).unwrap();
    // m5.large costs 0.096, c5.xlarge 0.17; spot is priced as on-demand.
    assert_eq!(plan["cost"]["currentPerHour"], 0.266, "{plan:#}");
}

// spec 09 #20
#[test]
fn an_unknown_region_is_bad_input() {
    let output = plan(&[&["--region", "eu-west-9"], &EXAMPLE[..]].concat());
    assert_eq!((output.code, output.stdout.as_str()), (2, ""));
    assert!(
        output.stderr.starts_with(
            "error: --region eu-west-9: Kerf ships no instance types of this region\nhint:  use one of: af-south-1, "
        ),
        "{}",
        output.stderr
    );
    let output = plan(&[&["--region", "eu-west-1", "--provider", "kwok"], &EXAMPLE[..]].concat());
    assert_eq!(output.code, 2);
    assert!(output.stderr.contains("the simulated provider has no regions"), "{}", output.stderr);
}

#[test]
fn timings_name_the_stages() {
    let output = plan(&[&["--timings"], &EXAMPLE[..]].concat());
    let line = output.stderr.lines().find(|line| line.starts_with("note: loading ")).unwrap();
    assert!(line.contains(" s, resolving ") && line.contains(" s, solving "), "{line}");
}

/// Returns validation and plan of an example, as a user sees them.
fn example(name: &str) -> String {
    let path = format!("{}/../../examples/aws/{name}.yaml", env!("CARGO_MANIFEST_DIR"));
    let valid = kerf(&["validate", "-f", &path]).run();
    assert_eq!((valid.code, valid.stderr.as_str()), (0, ""), "{name}");
    plan_command(&["-f", &path]).transcript()
}

#[test]
fn examples_plan_instance_types_that_an_ec2_user_expects() {
    for name in ["general-purpose", "gpu", "spot", "arm64", "bottlerocket", "windows", "reserved", "placement-group"] {
        assert_snapshot!(format!("example_{name}"), example(name));
    }
}

/// Returns the EC2NodeClass of an example, with a status.
fn example_class(name: &str, status: &Value) -> Value {
    let path = format!("{}/../../examples/aws/{name}.yaml", env!("CARGO_MANIFEST_DIR"));
    let text = std::fs::read_to_string(path).unwrap();
    let class = text.split("\n---\n").find(|document| document.contains("\nkind: EC2NodeClass")).unwrap();
    let mut class: Value = serde_yaml_ng::from_str(class).unwrap();
    class["status"] = status.clone();
    class
}

/// Returns the offerings of a class, one per line.
fn offerings(document: &Value) -> String {
    let output = kerf(&["aws", "ask", "instance-types"]).stdin(&document.to_string()).run();
    let answer: Value = serde_json::from_str(&output.stdout).unwrap();
    let lines = answer["instanceTypes"].as_array().unwrap().iter().flat_map(|instance_type| {
        instance_type["offerings"].as_array().unwrap().iter().map(move |offering| {
            let text = |key: &str| offering[key].as_str().map(|value| format!(" {value}")).unwrap_or_default();
            let (name, zone) = (instance_type["name"].as_str().unwrap(), offering["zone"].as_str().unwrap());
            let free = offering["reservationCapacity"].as_i64().map(|free| format!(" free={free}")).unwrap_or_default();
            let (price, is_available) = (offering["price"].as_f64().unwrap(), offering["available"].as_bool().unwrap());
            let availability = if is_available { "available" } else { "unavailable" };
            format!(
                "{name} {zone}{} ${price:.9} {availability}{}{}{free}{}\n",
                text("capacityType"),
                text("reservationID"),
                text("reservationType"),
                text("partition"),
            )
        })
    });
    lines.collect()
}

const STATUS_SUBNETS: &str = r#"[{"id": "subnet-a", "zone": "us-west-2a", "zoneID": "usw2-az2"}, {"id": "subnet-b", "zone": "us-west-2b", "zoneID": "usw2-az1"}]"#;

#[test]
fn the_reserved_example_has_offerings_of_its_reservation() {
    let subnets: Value = serde_json::from_str(STATUS_SUBNETS).unwrap();
    let reservation = json!({
        "id": "cr-0123456789abcdef0", "availabilityZone": "us-west-2a", "instanceType": "m5.xlarge", "instanceMatchCriteria": "targeted",
        "interruptible": false, "ownerID": "123456789012", "reservationType": "default", "state": "active",
    });
    let class = example_class("reserved", &json!({ "subnets": subnets, "capacityReservations": [reservation] }));
    let mut document = json!({ "instanceTypes": ["m5.large", "m5.xlarge"], "nodeClass": class });
    document["reservations"] = json!({ "cr-0123456789abcdef0": 3 });
    let free = offerings(&document);
    document["reservations"] = json!({ "cr-0123456789abcdef0": 0 });
    let full = offerings(&document);
    assert_snapshot!(format!("three slots are free\n{free}\nno slot is free\n{full}"));

    // A plan does not know the free slots, and says so.
    let path = format!("{}/../../examples/aws/reserved.yaml", env!("CARGO_MANIFEST_DIR"));
    let text = std::fs::read_to_string(path).unwrap();
    let others = text.split("\n---\n").filter(|document| !document.contains("\nkind: EC2NodeClass"));
    let class = serde_yaml_ng::to_string(&class).unwrap();
    let manifest = others.chain([class.as_str()]).collect::<Vec<_>>().join("\n---\n");
    assert_snapshot!(plan_command(&["-f", "-"]).stdin(&manifest).transcript());
}

#[test]
fn the_placement_group_example_has_offerings_of_its_group() {
    let class =
        example_class("placement-group", &json!({ "subnets": serde_json::from_str::<Value>(STATUS_SUBNETS).unwrap() }));
    let mut text = String::new();
    for (strategy, partitions) in [("cluster", Value::Null), ("partition", json!(2)), ("spread", Value::Null)] {
        let group = json!({
            "GroupId": "pg-1", "GroupName": "my-cluster-group", "Strategy": strategy, "PartitionCount": partitions,
        });
        let types = ["c5n.large", "c6in.large", "t3.micro"];
        let document = json!({ "instanceTypes": types, "nodeClass": class, "placementGroups": [group] });
        text.extend([strategy, "\n", &offerings(&document), "\n"]);
    }
    assert_snapshot!(text);
}

#[test]
fn instance_types_of_a_file_are_for_the_simulated_provider() {
    let arguments = [&["plan", "--provider", "aws", "--instance-types", "types.json"], &EXAMPLE[..]].concat();
    let output = kerf(&arguments).run();
    assert_eq!(output.code, 2);
    assert!(output.stderr.contains("instance types cannot be given for the provider aws"), "{}", output.stderr);
}

#[test]
fn the_served_account_needs_a_name_a_valid_endpoint_and_a_version() {
    let invalid = ["--cluster-name=", "--cluster-endpoint=localhost", "--kubernetes-version=foo"];
    let output = kerf(&[&["aws", "serve"], &invalid[..]].concat()).run();
    assert_eq!(
        (output.code, output.stderr.as_str()),
        (
            2,
            "error: --cluster-name must not be empty\n\
             error: --cluster-endpoint: \"localhost\" is not a URL with scheme and host\n\
             hint:  give for example https://127.0.0.1:6443\n\
             error: --kubernetes-version: \"foo\" is not a version of EKS\n\
             hint:  give major and minor version, for example 1.36\n"
        )
    );
}
