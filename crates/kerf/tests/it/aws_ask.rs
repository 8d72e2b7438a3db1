//! `kerf aws ask` (spec 11): answers on documents, and recorded answers of Karpenter 1.14.1.

use std::path::Path;
use std::process::Command;

use serde_json::Value;

/// Runs the command with this standard input. Returns exit code, answers and stderr.
fn ask(arguments: &[&str], input: &str) -> (i32, Vec<Value>, String) {
    let mut command = assert_cmd::Command::new(env!("CARGO_BIN_EXE_kerf"));
    let output = command.args(["aws", "ask"]).args(arguments).write_stdin(input).output().unwrap();
    let answers = String::from_utf8(output.stdout).unwrap();
    let answers = answers.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    (output.status.code().unwrap(), answers, String::from_utf8(output.stderr).unwrap())
}

const M5_LARGE: &str = r#"{"instanceTypes": ["m5.large"], "nodeClass": {"spec": {"amiSelectorTerms": [{"alias": "al2023@latest"}]},
    "status": {"subnets": [{"id": "subnet-1", "zone": "us-west-2a", "zoneID": "usw2-az2"}]}}, "prices": PRICES, "surprise": 1}"#;

// spec 11 #1, #3
#[test]
fn each_document_has_an_answer_of_its_own() {
    let input = format!("{{}}\n{}", M5_LARGE.replace("PRICES", "null"));
    let (code, answers, _) = ask(&["instance-types"], &input);
    assert_eq!((code, answers.len()), (0, 2));
    assert_eq!(answers[0]["error"]["class"], "Other");
    let m5_large = &answers[1]["instanceTypes"][0];
    assert_eq!((m5_large["name"].as_str(), m5_large["allocatable"]["cpu"].as_str()), (Some("m5.large"), Some("1930m")));
    assert_eq!(m5_large["offerings"].as_array().unwrap().len(), 2);
}

// spec 11 #2
#[test]
fn input_that_is_not_json_names_the_document() {
    let (code, answers, stderr) = ask(&["hash"], "{\"nodeClass\": {}} {");
    assert_eq!((code, answers.len()), (2, 1));
    assert_eq!(answers[0]["version"], "v5");
    assert!(stderr.contains("standard input: document 2: EOF"), "{stderr}");
}

// spec 11 #6
#[test]
fn spec_11_6_a_member_of_another_type_fails_one_document() {
    let good = M5_LARGE.replace("PRICES", "null");
    let bad = good.replacen('{', "{\"options\": {\"reservedENIs\": -1}, ", 1);
    let (code, answers, stderr) = ask(&["instance-types"], &format!("{bad} 5 null {good}"));
    assert_eq!((code, answers.len()), (0, 4), "{stderr}");
    assert_eq!(answers[0]["error"]["class"], "Other");
    let text = answers[0]["error"]["text"].as_str().unwrap();
    assert!(text.contains("`-1`"), "{text}");
    assert_eq!((&answers[1]["error"]["class"], &answers[2]["error"]["class"]), (&"Other".into(), &"Other".into()));
    assert_eq!(answers[3]["instanceTypes"][0]["name"], "m5.large");
}

// spec 05 §7.2: a price of zero keeps the static one; spec 11 §4: so does a negative price
#[test]
fn spec_05_7_an_on_demand_price_of_zero_is_skipped() {
    for price in ["0", "0.0", "-1"] {
        let prices = format!("{{\"onDemand\": {{\"m5.large\": {price}}}}}");
        let (_, answers, _) = ask(&["instance-types"], &M5_LARGE.replace("PRICES", &prices));
        let offering = &answers[0]["instanceTypes"][0]["offerings"][0];
        assert_eq!((offering["price"].as_f64(), &offering["available"]), (Some(0.096), &true.into()), "{price}");
    }
}

// spec 11 §1.2, §1.3: reservations, placement groups, zonal shifts and marks
#[test]
fn offerings_have_reservations_partitions_shifts_and_scoped_marks() {
    let document = serde_json::json!({
        "instanceTypes": ["m5.large"],
        "nodeClass": {
            "spec": {"amiSelectorTerms": [{"alias": "al2023@latest"}], "placementGroupSelector": {"name": "racks"}},
            "status": {
                "subnets": [
                    {"id": "subnet-1", "zone": "us-west-2a", "zoneID": "usw2-az2"},
                    {"id": "subnet-2", "zone": "us-west-2b", "zoneID": "usw2-az1"},
                ],
                "capacityReservations": [{
                    "id": "cr-1", "availabilityZone": "us-west-2a", "instanceType": "m5.large", "ownerID": "123456789012",
                    "instanceMatchCriteria": "open", "reservationType": "default",
                }],
            },
        },
        "placementGroups": [{"GroupId": "pg-1", "GroupName": "racks", "Strategy": "partition", "PartitionCount": 2}],
        "shiftedZones": ["usw2-az1"],
        "reservations": {"cr-1": 3},
        "unavailable": [{"capacityType": "spot", "instanceType": "m5.large", "zone": "us-west-2a",
            "placementGroup": "pg-1", "partition": "2"}],
    });
    let (_, answers, _) = ask(&["instance-types"], &document.to_string());
    let offerings = answers[0]["instanceTypes"][0]["offerings"].as_array().unwrap();
    let shown: Vec<String> = offerings
        .iter()
        .map(|own| {
            let text = |key: &str| own[key].as_str().unwrap_or_default().to_owned();
            let slots = own["reservationCapacity"].as_i64().unwrap_or_default();
            let zone = text("zone").replace("us-west-2", "");
            format!("{} {zone} {} {slots} {}", text("capacityType"), text("partition"), own["available"])
        })
        .collect();
    let expected = [
        "on-demand a 1 0 true",
        "on-demand a 2 0 true",
        "on-demand b 1 0 false",
        "on-demand b 2 0 false",
        "reserved a 1 3 true",
        "reserved a 2 3 true",
        "spot a 1 0 true",
        "spot a 2 0 false",
        "spot b 1 0 false",
        "spot b 2 0 false",
    ];
    assert_eq!(shown, expected);
}

// spec 11 #4
#[test]
fn an_update_without_spot_prices_has_failed() {
    let (_, answers, _) = ask(&["instance-types"], &M5_LARGE.replace("PRICES", "{\"spot\": {}}"));
    assert_eq!(answers[0]["error"]["text"], "no spot pricing found");
}

// spec 11 #5
#[test]
fn a_catalogue_that_cannot_be_read_is_named() {
    let (code, answers, stderr) = ask(&["hash", "--catalogue", "no-such.json"], "{}");
    assert_eq!((code, answers.len()), (2, 0));
    assert!(stderr.contains("--catalogue no-such.json: "), "{stderr}");
}

/// A node class that needs AL2023 images, with one image, a subnet, a group and a role.
const NODE_CLASS: &str = r#"{"nodeClass": {"spec": {"amiSelectorTerms": [{"id": "ami-1"}], "amiFamily": "AL2023", "role": "role-1",
      "subnetSelectorTerms": [{"tags": {"team": "a*"}}], "securityGroupSelectorTerms": [{"name": "group-1"}] MORE},
      "status": {"instanceProfile": "profile-1"}},
    "options": {"featureGates": {"NodeClassCEL": true}}, "instanceTypes": ["m5.large"], "profiles": {"profile-1": "role-1"},
    "images": [{"ImageId": "ami-1", "Name": "one", "Architecture": "ARCH", "CreationDate": "2026-01-01T00:00:00.000Z"},
               {"ImageId": "ami-2", "Name": "two", "Architecture": "ARCH", "CreationDate": "2026-02-01T00:00:00.000Z"}],
    "securityGroups": [{"GroupId": "sg-1", "GroupName": "group-1"}],
    "subnets": [{"SubnetId": "subnet-1", "AvailabilityZone": "us-west-2a", "AvailabilityZoneId": "usw2-az1",
                 "AvailableIpAddressCount": 9, "Tags": [{"Key": "team", "Value": "ab"}]}]}"#;

/// Runs the controller for a class of `x86_64` images with further fields of the spec. Returns the
/// answer, and status, reason and message of a condition.
fn node_class(change: impl FnOnce(String) -> String, more: &str, condition: &str) -> (Value, String) {
    let document = change(NODE_CLASS.replace("MORE", more)).replace("ARCH", "x86_64");
    let (code, answers, stderr) = ask(&["nodeclass"], &document);
    assert_eq!((code, answers.len()), (0, 1), "{stderr}");
    let answer = answers[0].clone();
    let conditions = answer["conditions"].as_array().unwrap();
    let found = conditions.iter().find(|entry| entry["type"] == condition).unwrap();
    let text = |member: &str| found[member].as_str().unwrap_or_default();
    let shown = format!("{} {}: {}", text("status"), text("reason"), text("message"));
    (answer, shown)
}

// spec 11 §2.8
#[test]
fn one_run_of_the_controller_shows_status_and_calls() {
    let (answer, ready) = node_class(|document| document, "", "Ready");
    assert_eq!(ready, "True Ready: ");
    assert_eq!(answer["amis"][0]["id"], "ami-1");
    assert_eq!(answer["subnets"][0]["id"], "subnet-1");
    let calls = answer["calls"].as_array().unwrap();
    let operations: Vec<&str> = calls.iter().map(|call| call["operation"].as_str().unwrap()).collect();
    let expected = [
        "DescribeImages",
        "DescribeSubnets",
        "DescribeSecurityGroups",
        "GetInstanceProfile",
        "CreateLaunchTemplate",
        "DescribeLaunchTemplates",
        "CreateFleet(dry run)",
        "RunInstances(dry run)",
    ];
    for operation in expected {
        assert!(operations.contains(&operation), "{operation} in {operations:?}");
    }
    assert_eq!(
        (&answer["requeueAfterSeconds"], &answer["finalizers"]),
        (&60.0.into(), &serde_json::json!(["karpenter.k8s.aws/termination"]))
    );
}

// The bad input of node classes: spec 05 #78, spec 06 #4, #10, #63, #122.
#[test]
fn bad_input_of_a_node_class_is_a_condition_or_an_error() {
    let (answer, subnets) = node_class(|document| document.replace("a*", "b*"), "", "SubnetsReady");
    assert_eq!(subnets, "False SubnetsNotFound: SubnetSelector did not match any Subnets");
    assert_eq!(answer["subnets"].as_array().unwrap().len(), 0);
    let (_, groups) =
        node_class(|document| document.replace("\"name\": \"group-1\"", "\"name\": \"x\""), "", "SecurityGroupsReady");
    assert_eq!(groups, "False SecurityGroupsNotFound: SecurityGroupSelector did not match any SecurityGroups");
    let (_, amis) =
        node_class(|document| document.replace("[{\"id\": \"ami-1\"}]", "[{\"id\": \"ami-9\"}]"), "", "AMIsReady");
    assert_eq!(amis, "False AMINotFound: AMISelector did not match any AMIs");
    // Of two images of one architecture the newer is used.
    let two =
        |document: String| document.replace("[{\"id\": \"ami-1\"}]", "[{\"id\": \"ami-1\"}, {\"id\": \"ami-2\"}]");
    let (answer, _) = node_class(two, "", "AMIsReady");
    assert_eq!(answer["amis"].as_array().unwrap().iter().map(|ami| &ami["id"]).collect::<Vec<_>>(), ["ami-2"]);
    // Only images for arm64 while the type is for amd64: an error, and the status is written.
    let (answer, validation) = node_class(|document| document.replace("ARCH", "arm64"), "", "ValidationSucceeded");
    assert_eq!(validation, "Unknown AwaitingReconciliation: object is awaiting reconciliation");
    let text = answer["error"]["text"].as_str().unwrap();
    assert!(text.contains("no instance types satisfy requirements of amis"), "{text}");
    assert_eq!((&answer["terminal"], answer["amis"][0]["id"].as_str()), (&Value::Bool(false), Some("ami-1")));
    let (answer, validation) =
        node_class(|document| document, ", \"kubelet\": {\"maxPods\": \"vcpu * 8\"}", "ValidationSucceeded");
    assert!(
        validation.starts_with("False KubeletExpressionInvalid: compiling expression \"vcpu * 8\""),
        "{validation}"
    );
    assert_eq!(answer["terminal"], true);
    let (_, validation) =
        node_class(|document| document, ", \"kubelet\": {\"maxPods\": \"0 - vcpus\"}", "ValidationSucceeded");
    assert!(validation.starts_with("False KubeletExpressionEvaluationFailed: resolving maxPods"), "{validation}");
}

// The bad user data of node classes: no TOML, no MIME, and more than EC2 takes (spec 06 #50).
#[test]
fn bad_user_data_of_a_node_class_is_an_error_or_a_condition() {
    let family = |name: &'static str| move |document: String| document.replace("\"AL2023\"", &format!("{name:?}"));
    let (answer, validation) =
        node_class(family("Bottlerocket"), ", \"userData\": \"not toml = = =\"", "ValidationSucceeded");
    assert_eq!(validation, "Unknown AwaitingReconciliation: object is awaiting reconciliation");
    assert!(answer["error"]["text"].as_str().unwrap().starts_with("validating ec2:CreateLaunchTemplate authorization"));
    let no_end = "MIME-Version: 1.0\\nContent-Type: multipart/mixed; boundary=X\\n\\n--X\\nno end";
    let (answer, _) = node_class(|document| document, &format!(", \"userData\": \"{no_end}\""), "ValidationSucceeded");
    assert!(answer["error"]["text"].as_str().unwrap().starts_with("validating ec2:CreateLaunchTemplate authorization"));
    let too_large = |document: String| {
        let failure = r#"{"fail": {"CreateLaunchTemplate": [{"code": "InvalidUserData.Malformed", "message": "User data is limited to 16384 bytes"}]}, "#;
        document.replacen('{', failure, 1)
    };
    let (_, validation) = node_class(too_large, "", "ValidationSucceeded");
    let expected =
        "False UserDataSizeLimitExceeded: ec2:CreateLaunchTemplate rejected the rendered user data as too large";
    assert!(validation.starts_with(expected), "{validation}");
}

// Spec 11 §2: `hack/oracle-aws/differential.py --record` has written the file.
#[test]
fn recorded_answers_of_karpenter_are_repeated() {
    assert_recorded("karpenter-1.14.1-answers.jsonl.gz", "124 passed, 0 failed\n");
    assert_recorded("karpenter-1.14.1-offerings.jsonl.gz", "25 passed, 0 failed\n");
}

// Spec 11 §2.5 and §2.8, written in the same way.
#[test]
fn recorded_answers_of_karpenter_about_node_classes_are_repeated() {
    assert_recorded("karpenter-1.14.1-node-classes.jsonl.gz", "60 passed, 0 failed\n");
    assert_recorded("karpenter-1.14.1-reserved-capacity.jsonl.gz", "40 passed, 0 failed\n");
}

// Spec 11 §2.3, §2.6 and §2.7, written in the same way.
#[test]
fn recorded_answers_of_karpenter_about_instances_are_repeated() {
    assert_recorded("karpenter-1.14.1-instances.jsonl.gz", "108 passed, 0 failed\n");
}

/// A node class whose status is resolved, with one image and one subnet, and a NodePool.
const RESOLVED: &str = r#""instanceTypes": ["m5.large"], "nodePools": [{}],
    "nodeClass": {"spec": {"amiSelectorTerms": [{"id": "ami-1"}], "amiFamily": "AL2023"}, "status": {
      "amis": [{"id": "ami-1", "name": "one", "requirements": []}], "securityGroups": [{"id": "sg-1"}],
      "subnets": [{"id": "subnet-1", "zone": "us-west-2a", "zoneID": "usw2-az2"}], "instanceProfile": "profile-1"}}"#;

// spec 11 §2.3
#[test]
fn steps_of_a_launch_share_one_memory() {
    let claim = r#"{"metadata": {"labels": {"karpenter.sh/nodepool": "default"}}, "spec": {"requirements": [
        {"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["on-demand"]}]}}"#;
    let full = r#"[{"code": "InsufficientInstanceCapacity", "message": "none left"}]"#;
    let document = format!(
        r#"{{{RESOLVED}, "steps": [{{"launch": [{claim}, {claim}]}}, {{"list": true}}, {{"ice": {full}, "launch": [{claim}]}},
           {{"launch": [{claim}]}}, {{"get": "aws:///us-west-2a/i-9"}},
           {{"delete": {{"status": {{"providerID": "aws:///us-west-2a/i-00000000000000001"}}}}}}]}}"#
    );
    let (code, answers, stderr) = ask(&["launch"], &document);
    assert_eq!((code, answers.len()), (0, 1), "{stderr}");
    let steps = answers[0]["steps"].as_array().unwrap();
    let operations = |step: usize| -> Vec<&str> {
        steps[step]["calls"].as_array().unwrap().iter().map(|call| call["operation"].as_str().unwrap()).collect()
    };
    // Equal claims of one moment share a fleet.
    assert_eq!(operations(0), ["CreateLaunchTemplate", "DescribeLaunchTemplates", "CreateFleet"]);
    let ids: Vec<&str> =
        steps[0]["results"].as_array().unwrap().iter().map(|claim| claim["providerID"].as_str().unwrap()).collect();
    assert_eq!(ids, ["aws:///us-west-2a/i-00000000000000001", "aws:///us-west-2a/i-00000000000000002"]);
    assert_eq!(steps[1]["results"][0]["list"].as_array().unwrap().len(), 2);
    let class = |step: usize| steps[step]["results"][0]["error"]["class"].as_str().unwrap();
    assert_eq!((class(2), operations(2)), ("InsufficientCapacity", vec!["CreateFleet"]));
    assert_eq!(steps[2]["unavailable"], serde_json::json!(["on-demand:m5.large:us-west-2a"]));
    // The pool is marked, so no call is made.
    assert_eq!((class(3), operations(3).len()), ("InsufficientCapacity", 0));
    assert_eq!(class(4), "NodeClaimNotFound");
    assert_eq!(operations(5), ["DescribeInstances", "TerminateInstances"]);
}

// spec 11 §2.6
#[test]
fn drift_needs_a_claim_and_names_the_reason() {
    let instance = r#"[{"InstanceId": "i-1", "InstanceType": "m5.large", "SubnetId": "subnet-9", "State": {"Name": "running"},
        "SecurityGroups": [{"GroupId": "sg-1"}], "Placement": {"AvailabilityZone": "us-west-2a"}}]"#;
    let claim = r#"{"metadata": {"labels": {"karpenter.sh/nodepool": "default", "node.kubernetes.io/instance-type": "m5.large"}},
        "status": {"providerID": "aws:///us-west-2a/i-1", "imageID": "ami-1"}}"#;
    let gone = claim.replace("/i-1", "/i-2");
    let input = [("", "null"), (instance, claim), (instance, gone.as_str())].map(|(instances, claim)| {
        let instances = if instances.is_empty() { "[]" } else { instances };
        format!(r#"{{{RESOLVED}, "instances": {instances}, "nodeClaim": {claim}}}"#)
    });
    let (_, answers, _) = ask(&["drift"], &input.join("\n"));
    assert_eq!(answers[0]["error"]["text"], "the document has no nodeClaim");
    assert_eq!(answers[1], serde_json::json!({ "drift": "SubnetDrift", "events": [] }));
    assert_eq!(answers[2]["error"]["class"], "NodeClaimNotFound");
}

// spec 11 §2.7
#[test]
fn a_message_is_a_text_an_object_or_nothing() {
    let document = r#"{"nodeClaims": [{"metadata": {"name": "a"}, "status": {"providerID": "aws:///us-west-2a/i-1"}}],
        "messages": [null, "no JSON", {"version": "0", "source": "aws.ec2", "detail-type": "EC2 Spot Instance Interruption Warning",
          "detail": {"instance-id": "i-1", "instance-action": "terminate"}}]}"#;
    let (_, answers, _) = ask(&["interruption"], document);
    let messages = answers[0]["messages"].as_array().unwrap();
    let shown: Vec<String> = messages
        .iter()
        .map(|own| format!("{} {} {} {}", own["kind"], own["parseError"], own["messageDeleted"], own["deletedClaims"]))
        .collect();
    let expected = ["null true true []", "null true true []", "\"spot_interrupted\" false true [\"a\"]"];
    assert_eq!(shown, expected);
}

/// Compares Kerf's answers with those in a file.
fn assert_recorded(file: &str, expected: &str) {
    let repository = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let venv = Path::new(env!("CARGO_TARGET_TMPDIR")).join("python-client");
    let install = Command::new(repository.join("hack/python-client.sh")).arg(&venv).output().unwrap();
    assert!(install.status.success(), "{}", String::from_utf8_lossy(&install.stderr));
    let compare = Command::new(venv.join("bin/python"))
        .arg(repository.join("hack/oracle-aws/differential.py"))
        .arg(env!("CARGO_BIN_EXE_kerf"))
        .arg("--recorded")
        .arg(repository.join("crates/kerf/tests/it").join(file))
        .output()
        .unwrap();
    let text = format!("{}{}", String::from_utf8_lossy(&compare.stdout), String::from_utf8_lossy(&compare.stderr));
    assert!(compare.status.success() && text.ends_with(expected), "{text}");
}
