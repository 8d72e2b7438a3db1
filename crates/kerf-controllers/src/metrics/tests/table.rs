//! Compares the tables of spec 07 §6 with what `/metrics` can serve: every name with type, labels
//! and buckets. Names that are not served yet are listed here, so that none is missing by accident.

use std::collections::{BTreeMap, BTreeSet};

use kerf_state::{NodeClass, TrackedClaim};

use super::super::status::StatusFamilies;
use super::*;
use kerf_operator::metrics::FamilyDescription;

const SPEC: &str = include_str!("../../../../../docs/spec/07-operations.md");

/// Names of metrics that are not implemented yet.
const NOT_YET_SERVED: [&str; 15] = [
    // The EC2 provider.
    "karpenter_cloudprovider_instance_launch_failures_total",
    "karpenter_cloudprovider_instance_termination_failures_total",
    "karpenter_cloudprovider_batcher_batch_time_seconds",
    "karpenter_cloudprovider_batcher_batch_size",
    "karpenter_interruption_received_messages_total",
    "karpenter_interruption_deleted_messages_total",
    "karpenter_interruption_message_queue_duration_seconds",
    "karpenter_interruption_instance_status_unhealthy_total",
    "karpenter_ec2nodeclasses_userdata_bytes",
    "kerf_aws_cache_entries",
    "aws_sdk_go_request_total",
    "aws_sdk_go_request_attempt_total",
    "aws_sdk_go_request_duration_seconds",
    "aws_sdk_go_request_attempt_duration_seconds",
    "aws_sdk_go_request_retry_count",
];

/// Names that only Kerf has, not Karpenter.
const KERF_ONLY: [&str; 2] =
    ["karpenter_voluntary_disruption_drift_backoffs_total", "karpenter_nodepools_drift_backoff_seconds"];

/// A metric as a table of the spec describes it.
#[derive(Debug)]
struct SpecMetric {
    name: String,
    /// Counter, gauge, histogram or summary. Empty if the table does not say.
    kind: String,
    labels: BTreeSet<String>,
    /// True if the metric has the labels of a node in addition to `labels`.
    has_node_labels: bool,
    /// The buckets as the type column describes them.
    buckets: String,
}

/// Returns the words in backticks.
fn quoted(text: &str) -> Vec<String> {
    text.split('`').skip(1).step_by(2).map(str::to_owned).collect()
}

/// Removes text in parentheses, except text that begins with `+`.
fn without_parentheses(text: &str) -> String {
    let mut out = String::new();
    for part in text.split('(') {
        match part.split_once(')') {
            Some((inside, rest)) => {
                out += if inside.starts_with('+') { inside } else { "" };
                out += rest;
            }
            None => out += part,
        }
    }
    out
}

/// Returns all metric names of a cell. A name that begins with an underscore replaces the end of
/// the first name.
fn names(cell: &str) -> Vec<String> {
    let mut all: Vec<String> = Vec::new();
    for name in quoted(&without_parentheses(cell)) {
        let full = match (all.first(), name.strip_prefix('_')) {
            (Some(first), Some(end)) if first.starts_with("controller_runtime_") => format!("controller_runtime_{end}"),
            (Some(first), Some(end)) if first.starts_with("aws_") => format!("aws_sdk_go_request_{end}"),
            (Some(first), Some(end)) if first.starts_with("workqueue_") => format!("workqueue_{end}"),
            (Some(first), Some(end)) => {
                let (kept, replaced): (Vec<&str>, usize) = (first.split('_').collect(), end.split('_').count());
                format!("{}_{end}", kept[..kept.len() - replaced].join("_"))
            }
            (_, None) => name,
            (None, Some(_)) => panic!("{cell}: the first name must be complete"),
        };
        all.push(full);
    }
    all
}

/// Returns the rows of a section's tables as cells.
fn cells(section: &str) -> Vec<Vec<&'static str>> {
    let (_, rest) = SPEC.split_once(&format!("### {section} ")).unwrap();
    let end = rest.find("\n### ").unwrap_or(rest.len()).min(rest.find("\n## ").unwrap_or(rest.len()));
    let rows = rest[..end].lines().filter(|line| line.starts_with("| `"));
    rows.map(|line| line.trim_matches('|').split('|').map(str::trim).collect()).collect()
}

/// Returns all metrics of the tables.
fn table() -> Vec<SpecMetric> {
    let mut rows: Vec<SpecMetric> = Vec::new();
    for section in ["6.2", "6.4", "6.5"] {
        for cells in cells(section) {
            let labels = without_parentheses(cells[2]);
            let mut own: BTreeSet<String> = quoted(&labels).into_iter().collect();
            let before = rows.last().map(|row| (row.labels.clone(), row.has_node_labels)).unwrap_or_default();
            let adds_labels = labels.starts_with("same") || labels.starts_with('+') || labels.contains("+ above");
            if adds_labels {
                own.extend(before.0);
            }
            if labels == "as disrupted_total" {
                let like = rows.iter().find(|row| row.name.ends_with("nodeclaims_disrupted_total")).unwrap();
                own.clone_from(&like.labels);
            }
            for name in names(cells[0]) {
                rows.push(SpecMetric {
                    name,
                    kind: cells[1].split_whitespace().next().unwrap().to_owned(),
                    labels: own.clone(),
                    has_node_labels: labels.contains("*node labels*") || (labels == "same" && before.1),
                    buckets: cells[1].to_owned(),
                });
            }
        }
    }
    rows.extend(conditions());
    for cells in cells("6.7").into_iter().filter(|cells| !cells[0].starts_with("`process_")) {
        for name in names(cells[0]) {
            let is_histogram = name.ends_with("_duration_seconds") || name.ends_with("_time_seconds");
            let labels = quoted(&without_parentheses(cells[1])).into_iter().collect();
            let buckets = if is_histogram { cells[0].to_owned() } else { String::new() };
            rows.push(SpecMetric { name, kind: String::new(), labels, has_node_labels: false, buckets });
        }
    }
    rows
}

/// Returns the metrics of §6.6 for each kind, and under the names that all kinds share.
fn conditions() -> Vec<SpecMetric> {
    let claim = ["karpenter_kwok_sh_kwoknodeclass", "karpenter_sh_nodepool"];
    let kinds: [(&str, Vec<&str>); 5] = [
        ("operator_nodeclaim_", claim.to_vec()),
        ("operator_nodepool_", Vec::new()),
        ("operator_ec2nodeclass_", Vec::new()),
        ("operator_node_", claim.into_iter().chain(["karpenter_sh_initialized"]).collect()),
        ("operator_", vec!["group", "kind"]),
    ];
    let (mut rows, mut before) = (Vec::new(), BTreeSet::new());
    for cells in cells("6.6") {
        let own: BTreeSet<String> = if cells[2] == "same" { before } else { quoted(cells[2]).into_iter().collect() };
        for (prefix, extra) in &kinds {
            rows.push(SpecMetric {
                name: quoted(cells[0])[0].replace("operator_K_", prefix),
                kind: cells[1].split_whitespace().next().unwrap().to_owned(),
                labels: own.iter().cloned().chain(extra.iter().map(|label| (*label).to_owned())).collect(),
                has_node_labels: false,
                buckets: match (cells[1], *prefix) {
                    ("histogram", "operator_ec2nodeclass_") => "DEF".to_owned(),
                    ("histogram", _) => "EXP15".to_owned(),
                    _ => String::new(),
                },
            });
        }
        before = own;
    }
    rows
}

/// Creates a cluster with at least one object behind every gauge.
fn full_cluster(metrics: &Metrics) -> SharedCluster {
    let cluster = SharedCluster::default();
    let conditions = json!([{"type": "Ready", "status": "True", "reason": "Ready", "message": "",
        "lastTransitionTime": "2026-01-01T11:00:00Z"}]);
    let class = json!({"group": "g", "kind": "k", "name": "n"});
    let deleted = "2026-01-01T11:30:00Z";
    apply_object::<NodePool>(
        &cluster,
        json!({"metadata": {"name": "a", "deletionTimestamp": deleted}, "spec": {"limits": {"cpu": "1"}, "template": {"spec":
            {"requirements": [], "nodeClassRef": class}}}, "status": {"resources": {"cpu": "1"}, "conditions": conditions}}),
    );
    apply_object::<TrackedClaim>(
        &cluster,
        json!({"metadata": {"name": "c", "deletionTimestamp": deleted}, "spec": {"requirements": [], "nodeClassRef": class},
            "status": {"conditions": conditions}}),
    );
    apply_object::<Node>(
        &cluster,
        json!({"metadata": {"name": "n", "creationTimestamp": deleted, "deletionTimestamp": deleted},
            "status": {"capacity": {"cpu": "2"}, "allocatable": {"cpu": "1"}, "conditions": conditions}}),
    );
    apply_object::<NodeClass>(
        &cluster,
        json!({"apiVersion": "karpenter.k8s.aws/v1", "kind": "EC2NodeClass",
            "metadata": {"name": "n", "deletionTimestamp": deleted}, "status": {"conditions": conditions}}),
    );
    let owner = json!([{"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "d", "uid": "d", "controller": true}]);
    let resources = json!({"requests": {"cpu": "1"}, "limits": {"cpu": "1"}});
    apply_object::<Pod>(
        &cluster,
        json!({"metadata": {"name": "d", "namespace": "ns", "ownerReferences": owner}, "spec": {"nodeName": "n",
            "containers": [{"name": "c", "resources": resources}]}, "status": {"phase": "Running"}}),
    );
    let change = |name: &str| {
        let pod = json!({"metadata": {"name": name, "namespace": "ns", "uid": name, "creationTimestamp": deleted},
            "spec": {"containers": []}, "status": {"phase": "Pending"}});
        let change = cluster.lock().apply::<Pod>(serde_json::from_value(pod).unwrap()).unwrap();
        metrics.pod_changed(&change, noon());
        metrics.pod_acknowledged(&format!("ns/{name}"), noon());
    };
    change("undecided");
    change("decided");
    let decided = [kerf_api::slim::Str::new_static("ns/decided")];
    metrics.pods_decided(decided.iter(), std::iter::empty(), noon());
    let types = [offerings::instance_type("t", &[("spot", "z", 1, true)])];
    metrics.offerings.set_pool_types("a", &types.into_iter().collect());
    cluster
}

/// Returns everything that can be served: registered metrics, and gauges computed from the cluster.
fn served() -> BTreeMap<String, FamilyDescription> {
    let metrics = Metrics::new();
    for row in ["nodeclaim", "nodepool", "node", "ec2nodeclass"] {
        let keys: Vec<String> = match row {
            "nodeclaim" => conditions::claim_keys(&class()).map(conditions::label_name).collect(),
            "node" => conditions::node_keys(&class()).map(conditions::label_name).collect(),
            _ => Vec::new(),
        };
        let buckets = if row == "ec2nodeclass" { CALL_BUCKETS.to_vec() } else { status::default_buckets() };
        StatusFamilies::new(metrics.registry(), &format!("operator_{row}"), &keys, &buckets);
    }
    let mut all: BTreeMap<String, FamilyDescription> =
        metrics.registry().describe().into_iter().map(|family| (family.name.clone(), family)).collect();
    let text = state_metrics_at(&full_cluster(&metrics), &metrics, noon());
    for (header, series) in text.lines().zip(text.lines().skip(1)).filter(|(header, _)| header.starts_with("# TYPE ")) {
        let (name, kind) = header.trim_start_matches("# TYPE ").split_once(' ').unwrap();
        assert_eq!(kind, "gauge");
        let pairs = series.split_once('{').map_or("", |(_, rest)| rest.rsplit_once('}').unwrap().0);
        let labels = pairs.split("\",").filter_map(|pair| Some(pair.split_once('=')?.0.to_owned())).collect();
        let family = FamilyDescription { name: name.to_owned(), kind: "gauge", labels, bounds: Vec::new() };
        assert_eq!(all.insert(name.to_owned(), family), None, "{name} is served twice");
    }
    all
}

fn class() -> [String; 1] {
    ["karpenter.kwok.sh/kwoknodeclass".to_owned()]
}

// spec 07 §6
#[test]
fn every_name_of_the_tables_is_served_with_its_type_and_labels() {
    let (table, served) = (table(), served());
    assert!(table.len() > 100, "{}", table.len());
    for row in &table {
        let Some(family) = served.get(&row.name) else {
            assert!(NOT_YET_SERVED.contains(&row.name.as_str()), "{} is not served", row.name);
            continue;
        };
        assert!(!NOT_YET_SERVED.contains(&row.name.as_str()), "{} is served already", row.name);
        assert!(
            row.kind.is_empty() || row.kind == family.kind,
            "{}: {} instead of {}",
            row.name,
            family.kind,
            row.kind
        );
        let labels: BTreeSet<String> = family.labels.iter().cloned().collect();
        if row.has_node_labels {
            let all =
                row.labels.iter().map(String::as_str).chain(["node_name", "phase", "managed", "nodepool", "zone"]);
            assert_eq!(labels, all.map(str::to_owned).collect(), "{}", row.name);
        } else {
            assert_eq!(labels, row.labels, "{}", row.name);
        }
        assert_eq!(family.bounds, bounds(row), "{}", row.name);
    }
    let spec_names: BTreeSet<&str> = table.iter().map(|row| row.name.as_str()).collect();
    for name in served.keys().map(String::as_str).filter(|name| !KERF_ONLY.contains(name)) {
        assert!(spec_names.contains(name), "{name} is not in the tables");
    }
    for name in NOT_YET_SERVED {
        assert!(spec_names.contains(name), "{name} is not in the tables");
    }
}

/// Returns the buckets that the table requires.
fn bounds(row: &SpecMetric) -> Vec<f64> {
    let text = row.buckets.as_str();
    let rest = text.trim_start_matches("histogram").trim();
    if row.name.starts_with("workqueue_") && !text.is_empty() {
        // The buckets of client-go, which the table omits.
        return (-8..=3).map(|tens| 10_f64.powi(tens)).collect();
    }
    match rest {
        _ if text.contains("0.005 … 60") => {
            vec![0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0]
        }
        _ if text.contains("0.001·1.5^k") => {
            std::iter::successors(Some(0.001), |bound| Some(bound * 1.5)).take(20).collect()
        }
        "DUR" => listed_buckets("`DUR` buckets:"),
        "DEF" => listed_buckets("`DEF` buckets:"),
        "EXP15" => (0..15).map(|k| 0.5 * 2_f64.powi(k)).collect(),
        _ if rest.starts_with("1·2^k") => {
            let last: i32 = rest.rsplit_once("..").unwrap().1.parse().unwrap();
            (0..=last).map(|k| 2_f64.powi(k)).collect()
        }
        _ if rest.starts_with("(15m") => rest
            .trim_start_matches('(')
            .split([' ', ','])
            .take_while(|word| *word != "in")
            .filter(|word| !word.is_empty())
            .map(|word| {
                let (number, unit) = word.split_at(word.len() - 1);
                number.parse::<f64>().unwrap()
                    * match unit {
                        "m" => 60.0,
                        "h" => 3600.0,
                        _ => 86_400.0,
                    }
            })
            .collect(),
        // The numbers in the cell, if there are any.
        _ => rest.split_whitespace().map_while(|word| word.parse().ok()).collect(),
    }
}

/// Returns the numbers that follow `words` in §6.1.
fn listed_buckets(words: &str) -> Vec<f64> {
    let (_, rest) = SPEC.split_once(words).unwrap();
    let text = rest.split_once("\n*").unwrap().0;
    text.split_whitespace().map(|word| word.trim_end_matches('.').parse().unwrap()).collect()
}
