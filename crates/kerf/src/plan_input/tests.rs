//! Namespaces and pods that files omit, and prices of managed nodes.

#![allow(clippy::unwrap_used, reason = "a test may fail by panicking")]

use std::num::NonZeroUsize;

use super::*;
use crate::input::load_text;

const CLAIM: &str = "\
---
apiVersion: karpenter.sh/v1
kind: NodeClaim
metadata: {name: c, labels: {node.kubernetes.io/instance-type: c-1x-amd64-linux, topology.kubernetes.io/zone: test-zone-a, karpenter.sh/capacity-type: on-demand}}
spec: {nodeClassRef: {group: karpenter.kwok.sh, kind: KWOKNodeClass, name: default}, requirements: []}
status: {providerID: \"kwok://n\"}
";

fn plan_input_of(manifest: &str) -> PlanInput {
    let objects = load_text(manifest, NonZeroUsize::MIN).unwrap();
    PlanInput::new(
        objects,
        crate::provider::built_in_kwok_types().as_ref(),
        Timestamp::UNIX_EPOCH,
        PlanOrigin::default(),
    )
}

fn node(rest: &str) -> String {
    format!("---\napiVersion: v1\nkind: Node\nmetadata: {{name: n1{rest}}}\nspec: {{providerID: \"kwok://n\"}}\n")
}

#[test]
fn managed_nodes_have_their_catalogue_price() {
    let price = |manifest: &str| plan_input_of(manifest).current_price;
    assert_eq!(price(CLAIM), Price::from_nanos(27_147_484));
    // The labels of the node win over those of the claim.
    let labels = ", labels: {node.kubernetes.io/instance-type: c-2x-amd64-linux, topology.kubernetes.io/zone: test-zone-b, karpenter.sh/capacity-type: on-demand}";
    assert_eq!(price(&format!("{CLAIM}{}", node(labels))), Price::from_nanos(54_294_967));
    // A node without a claim is not managed.
    assert_eq!(price(&node(labels)), Price::ZERO);
    // A claim that was never launched costs nothing yet.
    let unlaunched =
        CLAIM.replace("status: {providerID: \"kwok://n\"}", "status: {}").replace("c-1x-amd64-linux", "unknown");
    let unlaunched = plan_input_of(&unlaunched);
    assert!(unlaunched.current_price == Price::ZERO && unlaunched.warnings.is_empty());
}

#[test]
fn a_node_that_is_not_in_the_catalogue_is_reported() {
    let unknown = CLAIM.replace("c-1x-amd64-linux", "m5.large");
    assert_eq!(
        plan_input_of(&unknown).warnings,
        ["the cost does not include 1 managed node (c): no matching instance type and offering in the catalogue"]
    );
}

#[test]
fn namespaces_of_pods_are_added_and_have_their_name_label() {
    let manifest = "apiVersion: v1\nkind: Pod\nmetadata: {name: a, namespace: x}\n---\napiVersion: v1\nkind: Namespace\nmetadata: {name: z, labels: {team: t}}\n";
    let namespaces = plan_input_of(manifest).input.namespaces;
    let name_labels: Vec<_> = namespaces
        .iter()
        .map(|namespace| (namespace.metadata.name.as_str(), namespace.metadata.labels.get(NAMESPACE_NAME)))
        .collect();
    assert_eq!(name_labels, [("x", Some("x")), ("z", Some("z"))]);
    assert!(namespaces[1].metadata.labels.has_value("team", "t"));
}

// spec 09 #8
#[test]
fn the_warning_about_pods_on_unknown_nodes_lists_five() {
    let pods: Vec<String> = (0..7)
        .map(|n| format!("apiVersion: v1\nkind: Pod\nmetadata: {{name: p{n}}}\nspec: {{nodeName: gone}}\n"))
        .collect();
    let plan_input = plan_input_of(&pods.join("---\n"));
    assert!(plan_input.input.pods.is_empty());
    assert!(plan_input.warnings[0].ends_with("7 pods (default/p0 on gone, default/p1 on gone, default/p2 on gone, default/p3 on gone, default/p4 on gone, …)"), "{:?}", plan_input.warnings);
}

#[test]
fn a_pool_that_a_controller_would_not_use_is_not_used() {
    let manifest = "\
apiVersion: karpenter.kwok.sh/v1alpha1
kind: KWOKNodeClass
metadata: {name: default}
---
apiVersion: karpenter.sh/v1
kind: NodePool
metadata: {name: a}
spec: {template: {spec: {nodeClassRef: {group: karpenter.kwok.sh, kind: KWOKNodeClass, name: default}, requirements: [], expireAfter: 87600000h}}}
";
    assert_eq!(
        plan_input_of(manifest).warnings,
        [r#"NodePool `a` is not used: invalid value: time: invalid duration "87600000h" in expireAfter"#]
    );
}
