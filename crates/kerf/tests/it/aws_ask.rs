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

// Spec 11 §2: `hack/oracle-aws/differential.py --record` has written the files.
#[test]
fn recorded_answers_of_karpenter_are_repeated() {
    for (file, count) in [("karpenter-1.14.1-answers.jsonl.gz", 124), ("karpenter-1.14.1-offerings.jsonl.gz", 25)] {
        check_recorded(file, count);
    }
}

fn check_recorded(file: &str, count: usize) {
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
    assert!(compare.status.success() && text.ends_with(&format!("{count} passed, 0 failed\n")), "{text}");
}
