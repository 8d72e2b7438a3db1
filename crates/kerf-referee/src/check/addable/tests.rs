//! A pod that has been left out is found a place if there is one, and only then.

use serde_json::{Value, json};

use super::*;
use crate::catalogue;
use crate::check::tests::{claim, node, plan, pod, pool, types};

fn could_add(objects: &[Value], plan: &Value) -> Vec<(String, String)> {
    let added = || -> Result<_, Box<dyn std::error::Error>> {
        let catalogue = catalogue::read(&types().to_string())?;
        Ok(addable(&World::decode(&json!(objects))?, &catalogue, &Plan::read(plan)?))
    };
    added().unwrap_or_default()
}

fn one(pod: &str, place: &str) -> Vec<(String, String)> {
    vec![(format!("default/{pod}"), place.to_owned())]
}

#[test]
fn a_pod_that_fits_somewhere_is_found_a_place() {
    let world =
        |room: &str| [pool(json!({})), node("n", "a", room), pod("x-0", "1", json!({})), pod("x-1", "1", json!({}))];
    let lazy = plan(&[claim(&["x-0"], &["s", "l"], &["a"])], json!([]), &["x-1"]);
    assert_eq!(could_add(&world("1"), &lazy), one("x-1", "n"));
    assert_eq!(could_add(&world("500m"), &lazy), one("x-1", "claim 0 (default)"), "narrowed to the larger type");
    let tight = plan(&[claim(&["x-0"], &["s"], &["a"])], json!([]), &["x-1"]);
    assert_eq!(could_add(&world("500m"), &tight), one("x-1", "a new node of pool default"));
}

#[test]
fn a_pod_that_fits_nowhere_is_not() {
    let objects = [
        pool(json!({"limits": {"nodes": "1"}})),
        pod("x-0", "1", json!({})),
        pod("x-1", "1", json!({})),
        pod("y-0", "100", json!({})),
    ];
    let full = plan(&[claim(&["x-0"], &["s"], &["a"])], json!([]), &["x-1", "y-0"]);
    assert_eq!(could_add(&objects, &full), Vec::new());
}

#[test]
fn spec_02_101_nobody_has_to_be_near_an_open_zone() {
    let near = json!({"affinity": {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [
        {"topologyKey": "topology.kubernetes.io/zone", "labelSelector": {"matchLabels": {"app": "x"}}},
    ]}}});
    let objects = [pool(json!({})), pod("x-0", "1", json!({})), pod("y-0", "1", near)];
    let open = plan(&[claim(&["x-0"], &["s"], &["a", "b"])], json!([]), &["y-0"]);
    assert_eq!(could_add(&objects, &open), Vec::new());
}
