//! Writes the manifests of many pending pods to a folder, to measure `kerf plan` from start to
//! exit:
//!
//! ```text
//! cargo run -p kerf-referee --example mix -- 20000 /tmp/mix      # manifests.json, types.json
//! kerf plan -o json -f /tmp/mix/manifests.json --instance-types /tmp/mix/types.json
//! ```
//!
//! The pods are those of Karpenter's own scheduling benchmark, a fifth of each: without
//! constraints; spread over zones; spread over hosts; with zone affinity to pods with the same
//! label; with host anti-affinity to each other.

use std::error::Error;
use std::path::Path;

use kerf_referee::random::Random;
use serde_json::{Value, json};

const ZONE: &str = "topology.kubernetes.io/zone";
const HOST: &str = "kubernetes.io/hostname";

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [pods, folder] = arguments.as_slice() else { return Err("usage: mix <pods> <folder>".into()) };
    let mut random = Random::new(1);
    let pods = (0..pods.parse::<usize>()?).map(|number| pod(number, &mut random));
    let objects: Vec<Value> = [node_class(), pool()].into_iter().chain(pods).collect();
    let manifests = json!({"apiVersion": "v1", "kind": "List", "items": objects});
    let types: Vec<Value> = (1..=400).map(instance_type).collect();
    std::fs::create_dir_all(folder)?;
    std::fs::write(Path::new(folder).join("manifests.json"), manifests.to_string())?;
    Ok(std::fs::write(Path::new(folder).join("types.json"), Value::Array(types).to_string())?)
}

fn node_class() -> Value {
    json!({"apiVersion": "karpenter.kwok.sh/v1alpha1", "kind": "KWOKNodeClass", "metadata": {"name": "default"}})
}

fn pool() -> Value {
    json!({"apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": "default"}, "spec": {"template": {"spec": {
        "requirements": [], "nodeClassRef": {"group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": "default"},
    }}}})
}

fn pod(number: usize, random: &mut Random) -> Value {
    let values = ["a", "b", "c", "d", "e", "f", "g"];
    let own = *random.pick(&values);
    let mut spec = json!({"containers": [{"name": "c", "image": "example.com/app", "resources": {"requests": {
        "cpu": random.pick(&["100m", "250m", "500m", "1", "1500m"]),
        "memory": random.pick(&["100Mi", "256Mi", "512Mi", "1Gi", "2Gi", "4Gi"]),
    }}}]});
    let mut label = ("my-label", own);
    let spread = |key: &str, random: &mut Random| {
        json!([{"maxSkew": 1, "topologyKey": key, "whenUnsatisfiable": "DoNotSchedule",
                "labelSelector": {"matchLabels": {"my-label": random.pick(&values)}}}])
    };
    let term = |key: &str, label: (&str, &str)| {
        json!({"requiredDuringSchedulingIgnoredDuringExecution":
            [{"topologyKey": key, "labelSelector": {"matchLabels": {label.0: label.1}}}]})
    };
    match number % 5 {
        1 => spec["topologySpreadConstraints"] = spread(ZONE, random),
        2 => spec["topologySpreadConstraints"] = spread(HOST, random),
        3 => {
            label = ("my-affinity", own);
            spec["affinity"] = json!({"podAffinity": term(ZONE, label)});
        }
        4 => {
            label = ("app", "nginx");
            spec["affinity"] = json!({"podAntiAffinity": term(HOST, label)});
        }
        _ => {}
    }
    json!({"apiVersion": "v1", "kind": "Pod", "spec": spec,
           "metadata": {"name": format!("pod-{number}"), "namespace": "default", "labels": {label.0: label.1}}})
}

/// Returns the instance type with this number of CPUs. It has 2 GiB and ten pods per CPU, and is
/// offered as spot in two zones and on-demand in three.
fn instance_type(cpus: u32) -> Value {
    let gigabytes = f64::from(2 * cpus) * 1.073_741_824;
    let price = 0.1 * (f64::from(cpus) + gigabytes);
    let offers = [
        ("spot", "zone-1"),
        ("spot", "zone-2"),
        ("on-demand", "zone-1"),
        ("on-demand", "zone-2"),
        ("on-demand", "zone-3"),
    ];
    let offerings = offers.map(|(capacity, zone)| {
        json!({"Price": price, "Available": true, "Requirements": [
            {"key": "karpenter.sh/capacity-type", "operator": "In", "values": [capacity]},
            {"key": ZONE, "operator": "In", "values": [zone]},
        ]})
    });
    json!({"name": format!("type-{cpus}"), "architecture": "amd64", "operatingSystems": ["linux"], "offerings": offerings,
           "resources": {"cpu": cpus.to_string(), "memory": format!("{}Gi", 2 * cpus), "pods": (10 * cpus).to_string()}})
}
