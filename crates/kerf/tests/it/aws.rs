//! Commands with the AWS provider, in the program that has no AWS SDK.

use serde_json::Value;

use crate::program::kerf;

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

#[test]
fn a_plan_uses_the_shipped_instance_types_and_says_so() {
    let arguments = [&["plan", "--provider", "aws", "-o", "json", "--no-stats"], &EXAMPLE[..]].concat();
    let output = kerf(&arguments).run();
    assert_eq!(
        output.stderr,
        "warning: EC2NodeClass `default` has no subnets in its status: the plan assumes all zones of us-west-2\n\
         warning: instance types and prices are those that Kerf ships for us-west-2; spot costs as on-demand\n"
    );
    let plan: Value = serde_json::from_str(&output.stdout).unwrap();
    let claims = plan["provisioning"]["nodeClaims"].as_array().unwrap();
    assert_eq!((claims.len(), plan["provisioning"]["unschedulable"].as_array().unwrap().len()), (1, 0), "{plan:#}");
    let estimate = &claims[0]["estimate"];
    assert_eq!(estimate["capacityType"], "on-demand");
    assert!(estimate["zone"].as_str().unwrap().starts_with("us-west-2"), "{estimate}");
    assert!(estimate["pricePerHour"].as_f64().unwrap() > 0.0, "{estimate}");
    let types = claims[0]["instanceTypes"].as_array().unwrap();
    let category = |name: &Value| name.as_str().and_then(|name| name.chars().next());
    assert!(types.iter().all(|name| [Some('c'), Some('m'), Some('r')].contains(&category(name))), "{types:?}");
}

#[test]
fn instance_types_of_a_file_are_for_the_simulated_provider() {
    let arguments = [&["plan", "--provider", "aws", "--instance-types", "types.json"], &EXAMPLE[..]].concat();
    let output = kerf(&arguments).run();
    assert_eq!(output.code, 2);
    assert!(output.stderr.contains("instance types cannot be given for the provider aws"), "{}", output.stderr);
}

#[test]
fn the_served_account_needs_a_valid_endpoint() {
    let output = kerf(&["aws", "serve", "--cluster-endpoint", "localhost"]).run();
    assert_eq!(output.code, 2);
    assert!(output.stderr.contains("--cluster-endpoint: \"localhost\" is not a URL"), "{}", output.stderr);
}
