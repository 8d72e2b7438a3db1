//! Plans of EC2NodeClasses that the controller would not make ready, that have no image for their
//! NodePools, or whose input names zones and values that the plan does not know.

use insta::assert_snapshot;
use serde_json::Value;

use crate::program::{KerfCommand, RunResult, kerf};

/// Returns `kerf plan` for a manifest, without measurements, at a fixed time.
fn plan_command(manifest: &str, arguments: &[&str]) -> KerfCommand {
    let base = ["plan", "-f", "-", "--at", "2026-11-18T12:00:00Z", "--no-stats"];
    kerf(&[&base, arguments].concat()).stdin(manifest)
}

fn plan(manifest: &str, arguments: &[&str]) -> RunResult {
    plan_command(manifest, arguments).run()
}

/// Returns a NodePool with requirements, its class and a Deployment of two pods with a selector.
fn manifest(requirements: &str, class: &str, selector: &str) -> String {
    format!("{}---\n{class}---\n{}", pool("p", requirements), deployment(selector))
}

fn pool(name: &str, requirements: &str) -> String {
    format!(
        "apiVersion: karpenter.sh/v1\nkind: NodePool\nmetadata: {{name: {name}}}\nspec:\n  template:\n    spec:\n      \
         nodeClassRef: {{group: karpenter.k8s.aws, kind: EC2NodeClass, name: c}}\n      requirements: [{requirements}]\n"
    )
}

fn deployment(selector: &str) -> String {
    format!(
        "apiVersion: apps/v1\nkind: Deployment\nmetadata: {{name: web}}\nspec:\n  replicas: 2\n  template:\n    \
         metadata: {{labels: {{app: web}}}}\n    spec:\n      nodeSelector: {{{selector}}}\n      containers: \
         [{{name: web, resources: {{requests: {{cpu: \"1\", memory: 5Gi}}}}}}]\n"
    )
}

/// Returns an EC2NodeClass with an alias. `rest` has further lines of the object.
fn class(alias: &str, rest: &str) -> String {
    format!(
        "apiVersion: karpenter.k8s.aws/v1\nkind: EC2NodeClass\nmetadata: {{name: c}}\nspec:\n  role: r\n  \
         amiSelectorTerms: [{{alias: {alias}}}]\n  subnetSelectorTerms: [{{tags: {{a: b}}}}]\n  \
         securityGroupSelectorTerms: [{{tags: {{a: b}}}}]\n{rest}"
    )
}

/// Returns a status with one subnet of us-west-2 and an image for an architecture.
fn status(zone_id: &str, arch: &str) -> String {
    format!(
        "status:\n  subnets: [{{id: subnet-1, zone: us-west-2a, zoneID: {zone_id}}}]\n  amis:\n  - id: ami-1\n    \
         requirements: [{{key: kubernetes.io/arch, operator: In, values: [{arch}]}}]\n"
    )
}

fn parsed(output: &RunResult) -> Value {
    serde_json::from_str(&output.stdout).unwrap()
}

fn claims(output: &RunResult) -> Vec<Value> {
    parsed(output)["provisioning"]["nodeClaims"].as_array().unwrap().clone()
}

/// Returns the warnings that are not about assumptions.
fn warnings(output: &RunResult) -> String {
    let mut warnings = String::new();
    for line in output.stderr.lines() {
        if line.starts_with("warning: ") && !line.contains("so the plan assumes") {
            warnings.push_str(line);
            warnings.push('\n');
        }
    }
    warnings
}

// spec 06 §4.7.2 to §4.7.8
#[test]
fn spec_09_24_a_class_that_the_controller_does_not_make_ready_is_not_used() {
    let gate = ["--aws-feature-gates", "NodeClassCEL=true"];
    let large = format!("  userData: |\n    {}\n", "x".repeat(17_000));
    let cases: [(&str, &str, &str, &[&str]); 10] = [
        ("an expression without the gate", "al2023@latest", "  kubelet: {maxPods: \"min(110, vcpus * 8)\"}\n", &[]),
        ("an expression that does not compile", "al2023@latest", "  kubelet: {maxPods: \"vcpus *\"}\n", &gate),
        ("an expression without a value", "al2023@latest", "  kubelet: {maxPods: \"110 / (vcpus - 2)\"}\n", &gate),
        ("an unknown field", "al2023@latest", "  kubelet: {evictionHard: {\"memory.available\": \"-1Gi\"}}\n", &[]),
        ("a field that the family drops", "bottlerocket@latest", "  kubelet: {podsPerCore: 5}\n", &[]),
        ("no TOML", "bottlerocket@latest", "  userData: \"= =\"\n", &[]),
        ("a TOML value of a wrong type", "bottlerocket@latest", "  userData: \"settings = 1\"\n", &[]),
        ("no MIME archive", "al2023@latest", "  userData: \"MIME-Version: 1.0\\n\\nx\"\n", &[]),
        ("too much user data", "al2023@latest", &large, &[]),
        ("a tag of AWS", "al2023@latest", "  tags: {\"aws:a\": b}\n", &[]),
    ];
    let mut text = String::new();
    for (name, alias, rest, arguments) in cases {
        let output = plan(&manifest("", &class(alias, rest), ""), &[&["-o", "json"], arguments].concat());
        assert_eq!((output.code, claims(&output).len()), (0, 0), "{name}: {}", output.stderr);
        let why = parsed(&output)["provisioning"]["unschedulable"][0]["message"].as_str().unwrap().to_owned();
        assert!(why.contains("EC2NodeClass `c` is not ready: "), "{name}: {why}");
        text.extend([name, "\n", &warnings(&output), "\n"]);
    }
    assert_snapshot!("classes_that_are_not_ready", text);
    // With the gate, the same expression gives the number of pods.
    let expression = class("al2023@latest", "  kubelet: {maxPods: \"min(110, vcpus * 8)\"}\n");
    let output = plan(&manifest("", &expression, ""), &[&["-o", "json"], &gate[..]].concat());
    assert_eq!((claims(&output).len(), warnings(&output).as_str()), (1, ""));
    // A class that no pool uses has a line of its own.
    let unused = class("bottlerocket@latest", "  kubelet: {podsPerCore: 5}\n");
    assert!(warnings(&plan(&unused, &[])).starts_with("warning: EC2NodeClass `c` is not ready: Unsupported"));
}

// spec 05 §12.5
#[test]
fn spec_09_25_only_types_with_an_image_of_the_status_are_planned() {
    let types = "{key: node.kubernetes.io/instance-type, operator: In, values: [m5.large, m6g.2xlarge]}";
    let arm64 = class("al2023@latest", &status("usw2-az2", "arm64"));
    let output = plan(&manifest(types, &arm64, ""), &["-o", "json"]);
    assert_eq!(claims(&output)[0]["estimate"]["instanceType"], "m6g.2xlarge", "{}", output.stderr);
    assert_eq!(warnings(&output), "");
    // No NodePool has a type with an image: the controller cannot validate the class.
    let amd64_pool = "{key: kubernetes.io/arch, operator: In, values: [amd64]}";
    let output = plan(&manifest(amd64_pool, &arm64, ""), &["-o", "json"]);
    assert_eq!(claims(&output).len(), 0);
    assert_eq!(
        warnings(&output),
        "warning: NodePool `p` is not used: EC2NodeClass `c` is not ready: status.amis: no instance types satisfy \
         requirements of amis [ami-1]\n"
    );
    // Another pool has one.
    let both = format!("{}---\n{}", pool("any", ""), manifest(amd64_pool, &arm64, ""));
    let output = plan(&both, &["-o", "json"]);
    assert_eq!(claims(&output)[0]["nodePool"], "any");
    assert_eq!(
        warnings(&output),
        "warning: NodePool `p`: EC2NodeClass `c` has no image (status.amis) for its instance types, so no node of it \
         can be launched\n"
    );
}

#[test]
fn spec_09_26_zones_and_zone_ids_that_the_plan_does_not_know_are_listed() {
    let requirement = |key: &str, value: &str| format!("{{key: {key}, operator: In, values: [{value}]}}");
    let zone = |value: &str| requirement("topology.kubernetes.io/zone", value);
    let zone_id = requirement("topology.k8s.aws/zone-id", "euc1-az1");
    let plain = class("al2023@latest", "");
    let flag = ["--region", "eu-west-1"];
    let with_ids = class("al2023@latest", &status("usw2-az2", "amd64"));
    let cases: [(&str, String, &[&str]); 8] = [
        ("a zone of another region than the flag's", manifest(&zone("us-east-1a"), &plain, ""), &flag),
        ("a zone that the region does not have", manifest(&zone("us-east-1z"), &plain, ""), &[]),
        ("a name that is no zone", manifest(&zone("somewhere"), &plain, ""), &[]),
        ("a region", manifest(&requirement("topology.kubernetes.io/region", "eu-central-1"), &plain, ""), &[]),
        ("a zone of pods", manifest("", &plain, "topology.kubernetes.io/zone: ap-south-1b"), &[]),
        ("a zone ID", manifest(&zone_id, &plain, ""), &[]),
        ("a zone ID of pods", manifest("", &plain, "topology.k8s.aws/zone-id: use1-az4"), &[]),
        ("a zone ID, and subnets with zone IDs", manifest(&zone_id, &with_ids, ""), &[]),
    ];
    let mut text = String::new();
    for (name, manifest, arguments) in cases {
        text.extend([name, "\n", &warnings(&plan(&manifest, arguments)), "\n"]);
    }
    assert_snapshot!("zones_that_are_not_known", text);
}

#[test]
fn spec_09_6_a_missing_class_is_named_and_the_pods_that_wait_for_it_say_so() {
    let manifest = format!("{}---\n{}", pool("p", ""), deployment(""));
    let output = plan(&manifest, &["-o", "json"]);
    assert_eq!(warnings(&output), "warning: NodePool `p` is not used: its EC2NodeClass `c` is not in the input\n");
    assert_eq!(
        parsed(&output)["provisioning"]["unschedulable"][0]["message"],
        "no dynamic nodepools found; NodePool `p` could launch a node for it, but is not ready: its EC2NodeClass `c` \
         is not in the input"
    );
}

#[test]
fn spec_09_22_values_without_types_or_prices_are_listed() {
    let requirement = |key: &str, values: &str| format!("{{key: {key}, operator: In, values: [{values}]}}");
    let of_instances = |key: &str, values: &str| requirement(&format!("karpenter.k8s.aws/instance-{key}"), values);
    let plain = class("al2023@latest", "");
    let capacity_type = |values: &str| requirement("karpenter.sh/capacity-type", values);
    let in_ohio = ["--region", "us-east-2"];
    let cases: [(&str, String, &[&str]); 6] = [
        ("a family without prices", manifest(&of_instances("family", "hpc7a"), &plain, ""), &in_ohio),
        ("an unknown family", manifest(&of_instances("family", "m5, m99"), &plain, ""), &[]),
        (
            "an unknown size and capacity type",
            manifest(&[of_instances("size", "xlarg"), capacity_type("Spot, reserved")].join(", "), &plain, ""),
            &[],
        ),
        ("a GPU in capitals", manifest(&of_instances("gpu-name", "H100"), &plain, ""), &[]),
        ("a family of pods", manifest("", &plain, "karpenter.k8s.aws/instance-family: m99"), &[]),
        (
            "known values",
            manifest(
                &[of_instances("family", "m5"), capacity_type("spot, on-demand, reserved")].join(", "),
                &plain,
                "",
            ),
            &[],
        ),
    ];
    let mut text = String::new();
    for (name, manifest, arguments) in cases {
        text.extend([name, "\n", &warnings(&plan(&manifest, arguments)), "\n"]);
    }
    assert_snapshot!("values_that_the_plan_cannot_use", text);
}

#[test]
fn all_examples_together_keep_linux_pods_off_windows_nodes() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/aws/");
    let base = ["plan", "-f", folder, "--region", "eu-west-1", "--at", "2026-11-18T12:00:00Z", "--no-stats"];
    // The pool `windows` has the two pods of the Windows example.
    assert_snapshot!("all_examples_in_another_region", kerf(&base).transcript());
}

#[test]
fn the_variable_that_selects_the_provider_is_named() {
    let manifest = manifest("", &class("al2023@latest", ""), "");
    let expected = |why: &str| {
        format!(
            "warning: NodePool `p` is not used: the provider aws serves its node class (EC2NodeClass), and this plan \
             is for kwok{why}\n"
        )
    };
    let output = plan_command(&manifest, &[]).env("KERF_PROVIDER", "kwok").run();
    let why = ", which KERF_PROVIDER selects; use --provider aws, or unset KERF_PROVIDER";
    assert_eq!(warnings(&output), expected(why));
    let output = plan_command(&manifest, &["--provider", "kwok"]).env("KERF_PROVIDER", "aws").run();
    assert_eq!(warnings(&output), expected("; use --provider aws, or leave --provider away"));
}

#[test]
fn spec_09_20_a_region_that_is_written_differently_is_proposed() {
    for (region, expected) in [
        ("EU-WEST-1", "hint:  did you mean eu-west-1? `kerf aws data` lists all regions\n"),
        ("eu_west_1", "hint:  did you mean eu-west-1? `kerf aws data` lists all regions\n"),
        ("us-west-2a", "hint:  did you mean us-west-2? `kerf aws data` lists all regions\n"),
        ("", "error: --region \"\": the region is empty\nhint:  leave --region away, or name a region"),
    ] {
        let output = plan(&manifest("", &class("al2023@latest", ""), ""), &["--region", region]);
        assert_eq!(output.code, 2);
        assert!(output.stderr.contains(expected), "{}", output.stderr);
    }
}
