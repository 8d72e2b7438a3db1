//! `kerf plan` on files (spec 09 section 2 and its edge cases).

use insta::assert_snapshot;
use serde_json::Value;

use crate::program::{KerfCommand, RunResult, kerf, temp_folder};

const POOL: &str = "\
apiVersion: karpenter.sh/v1
kind: NodePool
metadata: {name: default}
spec:
  template:
    spec:
      requirements: []
      nodeClassRef: {group: karpenter.kwok.sh, kind: KWOKNodeClass, name: default}
";
const NODE_CLASS: &str =
    "---\napiVersion: karpenter.kwok.sh/v1alpha1\nkind: KWOKNodeClass\nmetadata: {name: default}\n";
const DEPLOYMENT: &str = "\
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: 3
  template:
    metadata: {labels: {app: web}}
    spec: {containers: [{name: web, resources: {requests: {cpu: 500m, memory: 1Gi}}}]}
";
const UNPLACEABLE_POD: &str = "---\napiVersion: v1\nkind: Pod\nmetadata: {name: big}\nspec: {containers: [{name: a, resources: {requests: {cpu: \"1000\"}}}]}\n";

/// Returns `kerf plan` for one manifest, at a fixed time and without measurements.
fn plan(manifest: &str, arguments: &[&str]) -> KerfCommand {
    let base = ["plan", "-f", "-", "--at", "2026-03-04T12:00:00Z", "--no-stats"];
    kerf(&[&base, arguments].concat()).stdin(manifest)
}

fn parse_stdout(output: &RunResult) -> Value {
    serde_json::from_str(&output.stdout).unwrap()
}

#[test]
fn json_has_every_published_field() {
    let types = r#"[{"name": "s", "architecture": "amd64", "operatingSystems": ["linux"], "resources": {"cpu": "4", "memory": "8Gi"},
        "offerings": [{"Price": 0.1, "Requirements": [{"key": "topology.kubernetes.io/zone", "operator": "In", "values": ["a"]},
            {"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["spot"]}]}]}]"#;
    let folder = temp_folder(&[("types.json", types)]);
    let manifest = format!("{POOL}{NODE_CLASS}{DEPLOYMENT}{UNPLACEABLE_POD}");
    let output = plan(&manifest, &["-o", "json", "--instance-types", "types.json"]).current_dir(folder.path()).run();
    assert_snapshot!(output.stdout, @r#"
    {
      "apiVersion": "kerf.sh/v1alpha1",
      "kind": "Plan",
      "at": "2026-03-04T12:00:00Z",
      "provisioning": {
        "nodeClaims": [{
          "nodePool": "default",
          "pods": ["default/web-0", "default/web-1", "default/web-2"],
          "instanceTypes": ["s"],
          "requirements": [{
            "key": "karpenter.kwok.sh/kwoknodeclass",
            "operator": "In",
            "values": ["default"]
          }, {
            "key": "karpenter.sh/capacity-type",
            "operator": "In",
            "values": ["spot"]
          }, {
            "key": "karpenter.sh/nodepool",
            "operator": "In",
            "values": ["default"]
          }, {
            "key": "node.kubernetes.io/instance-type",
            "operator": "In",
            "values": ["s"]
          }],
          "requests": {
            "cpu": "1500m",
            "memory": "3Gi",
            "pods": "3"
          },
          "estimate": {
            "instanceType": "s",
            "zone": "a",
            "capacityType": "spot",
            "pricePerHour": 0.1
          }
        }],
        "existingNodes": [],
        "unschedulable": [{
          "pod": "default/big",
          "code": "NoInstanceTypeFits",
          "message": "no instance type has enough resources, requirements=karpenter.kwok.sh/kwoknodeclass In [default], karpenter.sh/initialized In [true], karpenter.sh/nodepool In [default], karpenter.sh/registered In [true], resources={\"cpu\":\"1k\",\"pods\":\"1\"}"
        }]
      },
      "disruption": {
        "commands": [],
        "blocked": []
      },
      "cost": {
        "currentPerHour": 0.0,
        "plannedPerHour": 0.1
      }
    }
    "#);
}

#[test]
fn the_table_lists_new_nodes_and_unplaced_pods() {
    assert_snapshot!(plan(&format!("{POOL}{NODE_CLASS}{DEPLOYMENT}{UNPLACEABLE_POD}"), &[]).transcript(), @r#"
    exit code 0
    --- stdout
    New nodes

    NODES  POOL     TYPE                   ZONE         CAPACITY  $/HOUR EACH  PODS
    1      default  c-2x-amd64-linux +131  test-zone-a  spot      0.0380       3

    Unschedulable pods

    PODS         CODE                WHY
    default/big  NoInstanceTypeFits  no instance type has enough resources,
                                     requirements=karpenter.kwok.sh/kwoknodeclass In [default],
                                     karpenter.sh/initialized In [true], karpenter.sh/nodepool In
                                     [default], karpenter.sh/registered In [true],
                                     resources={"cpu":"1k","pods":"1"}

    Cost: $0.0000/hour now, $0.0380/hour after this plan (+$0.0380).
    "#);
}

#[test]
fn yaml_has_the_same_content_as_json() {
    let manifest = format!("{POOL}{NODE_CLASS}{DEPLOYMENT}{UNPLACEABLE_POD}");
    let yaml = plan(&manifest, &["-o", "yaml"]).run();
    let from_yaml: Value = serde_yaml_ng::from_str(&yaml.stdout).unwrap();
    assert_eq!(from_yaml, parse_stdout(&plan(&manifest, &["-o", "json"]).run()));
    // Without quotes a reader of YAML 1.1 would parse it as a timestamp.
    assert!(yaml.stdout.contains("\nat: \"2026-03-04T12:00:00Z\"\n"), "{}", yaml.stdout);
}

#[test]
fn spec_09_1_no_input_and_no_kubeconfig() {
    assert_snapshot!(kerf(&["plan"]).transcript(), @r"
    exit code 2
    --- stderr
    error: no input: give manifests with -f, or a cluster with KUBECONFIG or ~/.kube/config
    hint:  kubectl get nodepools,nodeclaims,kwoknodeclasses,nodes,pods,daemonsets -A -o json | kerf plan -f -
    ");
}

// Spec 09 section 2.1: a value that an API server would reject and that a decision reads is bad
// input of a plan too.
#[test]
fn a_value_that_an_api_server_rejects_is_bad_input() {
    let container = "containers: [{name: c, image: i, resources: {requests: {cpu: \"1\"}}}]";
    let spread = "topologyKey: zone, whenUnsatisfiable: DoNotSchedule";
    let pod = |spec: &str| format!("---\napiVersion: v1\nkind: Pod\nmetadata: {{name: a}}\nspec: {{{spec}}}\n");
    let cases = [
        (pod(&container.replace("\"1\"", "-1")), "spec.containers[0].resources.requests[cpu]: Invalid value: \"-1\""),
        (
            pod(&format!("{container}, topologySpreadConstraints: [{{maxSkew: 0, {spread}}}]")),
            "maxSkew: Invalid value: 0",
        ),
        (
            pod(&format!("{container}, topologySpreadConstraints: [{{maxSkew: 1, minDomains: 0, {spread}}}]")),
            "minDomains: Invalid value: 0",
        ),
        (
            pod(&format!(
                "{container}, affinity: {{podAffinity: {{requiredDuringSchedulingIgnoredDuringExecution: [{{topologyKey: ''}}]}}}}"
            )),
            "topologyKey: Required value",
        ),
        (pod(&format!("{container}, tolerations: [{{operator: Maybe}}]")), "operator: Unsupported value: \"Maybe\""),
        (
            pod(container).replace("name: a", "name: a, namespace: UPPER"),
            "metadata.namespace: Invalid value: \"UPPER\"",
        ),
        (
            "---\napiVersion: v1\nkind: Node\nmetadata: {name: node}\nspec: {taints: [{key: a, effect: Foo}]}\n"
                .to_owned(),
            "Foo",
        ),
    ];
    for (object, expected) in cases {
        let output = plan(&format!("{POOL}{NODE_CLASS}{object}"), &[]).run();
        assert_eq!((output.code, output.stdout.as_str()), (2, ""), "{object}");
        assert!(output.stderr.contains(expected), "{object}: {}", output.stderr);
        // An object with a uid has passed an API server, perhaps a newer one.
        let from_cluster = object.replace("{name: ", "{uid: u, name: ");
        assert_eq!(plan(&format!("{POOL}{NODE_CLASS}{from_cluster}"), &[]).run().code, 0, "{from_cluster}");
    }
    let empty = plan(&format!("{POOL}{NODE_CLASS}{}", pod("containers: []")), &[]).run();
    assert_eq!(empty.code, 0);
    assert!(empty.stderr.contains("an API server rejects a pod without containers"), "{}", empty.stderr);
}

#[test]
fn an_unreachable_server_is_named_with_its_kubeconfig() {
    let config =
        "{apiVersion: v1, kind: Config, current-context: c, contexts: [{name: c, context: {cluster: c, user: c}}],
        users: [{name: c, user: {token: t}}], clusters: [{name: c, cluster: {server: 'https://127.0.0.1:1'}}]}";
    let folder = temp_folder(&[("config", config)]);
    assert_snapshot!(kerf(&["plan"]).env("KUBECONFIG", "config").current_dir(folder.path()).transcript(), @r"
    exit code 1
    --- stderr
    error: cannot reach https://127.0.0.1:1 (KUBECONFIG config): connection refused
    hint:  check with `kubectl version` that the API server runs, or set KUBECONFIG to another file
    ");
}

#[test]
fn a_controller_without_a_cluster_is_reported() {
    let folder = temp_folder(&[("malformed", "a: [b")]);
    let controller =
        |name: &str, value: &str| kerf(&["controller"]).env(name, value).current_dir(folder.path()).transcript();
    assert_snapshot!(controller("HOME", "home") + &controller("KUBECONFIG", "malformed"), @r"
    exit code 2
    --- stderr
    error: no cluster: give one with KUBECONFIG or ~/.kube/config
    hint:  set KUBECONFIG, or run in a pod with a service account
    exit code 2
    --- stderr
    error: malformed: cannot be used: failed to parse kubeconfig YAML: error: line 1 column 4: unclosed bracket '['
    hint:  fix the file, or set KUBECONFIG to another file
    ");
}

#[test]
fn values_of_the_wrong_form_are_reported_with_an_example() {
    let of = |arguments: &[&str]| kerf(&[&["plan", "-f", "a.yaml"], arguments].concat()).transcript();
    assert_snapshot!(of(&["--at", "now"]) + &of(&["--threads", "0"]), @r"
    exit code 2
    --- stderr
    error: invalid value 'now' for '--at <TIME>': expected a date and time with a time zone, for example 2026-03-04T12:00:00Z

    For more information, try '--help'.
    exit code 2
    --- stderr
    error: invalid value '0' for '--threads <NUMBER>': expected a number of at least 1

    For more information, try '--help'.
    ");
}

#[test]
fn an_unknown_feature_gate_is_a_warning() {
    let output = kerf(&["plan", "-f", "-", "--feature-gates", "Foo=true"])
        .stdin("apiVersion: v1\nkind: Namespace\nmetadata: {name: a}\n")
        .run();
    assert_eq!(
        (output.code, output.stderr.as_str()),
        (0, "warning: feature gates: Foo is unknown and has no effect\n")
    );
}

// Spec 09 section 1: bad input names the file and what was expected.
#[test]
fn an_invalid_kubeconfig_is_reported() {
    let context = "apiVersion: v1\nkind: Config\ncurrent-context: gone\n";
    let folder = temp_folder(&[("malformed", "a: [b"), ("context", context), ("home/.kube/config", context)]);
    let with = |name: &str, value: &str| kerf(&["plan"]).env(name, value).current_dir(folder.path()).transcript();
    let output = ["none", "malformed", "context"].map(|path| with("KUBECONFIG", path)).concat() + &with("HOME", "home");
    assert_snapshot!(output, @r"
    exit code 2
    --- stderr
    error: none: cannot be read: No such file or directory (os error 2)
    hint:  fix the file, set KUBECONFIG to another file, or give manifests with -f
    exit code 2
    --- stderr
    error: malformed: cannot be used: failed to parse kubeconfig YAML: error: line 1 column 4: unclosed bracket '['
    hint:  fix the file, set KUBECONFIG to another file, or give manifests with -f
    exit code 2
    --- stderr
    error: context: cannot be used: failed to load current context: gone
    hint:  fix the file, set KUBECONFIG to another file, or give manifests with -f
    exit code 2
    --- stderr
    error: ~/.kube/config: cannot be used: failed to load current context: gone
    hint:  fix the file, set KUBECONFIG to another file, or give manifests with -f
    ");
}

#[test]
fn spec_09_4_two_invalid_fields_are_both_reported() {
    let pool =
        POOL.replace("spec:\n  template", "spec:\n  weight: 1000\n  disruption: {consolidateAfter: never}\n  template");
    assert_snapshot!(plan(&format!("{pool}{NODE_CLASS}"), &[]).transcript(), @r#"
    exit code 2
    --- stderr
    error: stdin, document 1, line 1: NodePool `default`: spec.disruption.consolidateAfter: Invalid value: "never": spec.disruption.consolidateAfter in body should match '^(([0-9]+(s|m|h))+|Never)$'
    error: stdin, document 1, line 1: NodePool `default`: spec.weight: Invalid value: 1000: spec.weight in body should be less than or equal to 100
    "#);
}

#[test]
fn spec_09_5_an_unknown_field_is_a_warning() {
    let pool = POOL.replace("spec:\n  template", "spec:\n  wieght: 10\n  template");
    let output = plan(&format!("{pool}{NODE_CLASS}"), &["-o", "json"]).run();
    assert_eq!(output.code, 0);
    assert_snapshot!(output.stderr, @r#"warning: stdin, document 1, line 1: NodePool `default`: unknown field "spec.wieght""#);
}

#[test]
fn spec_09_6_a_pool_without_its_class_is_not_used_and_the_pods_messages_name_it() {
    let output = plan(&format!("{POOL}{DEPLOYMENT}{UNPLACEABLE_POD}"), &["-o", "json"]).run();
    let unschedulable = parse_stdout(&output)["provisioning"]["unschedulable"].clone();
    let messages: Vec<&str> =
        unschedulable.as_array().unwrap().iter().map(|pod| pod["message"].as_str().unwrap()).collect();
    // The pool could not have served the big pod even if it were ready, so its message does not
    // name the pool.
    assert_snapshot!(messages.join("\n"), @r"
    no dynamic nodepools found
    no dynamic nodepools found; NodePool `default` could launch a node for it, but is not ready: NodeClass not found on cluster
    no dynamic nodepools found; NodePool `default` could launch a node for it, but is not ready: NodeClass not found on cluster
    no dynamic nodepools found; NodePool `default` could launch a node for it, but is not ready: NodeClass not found on cluster
    ");
    assert_snapshot!(output.stderr, @"warning: NodePool `default` is not used: NodeClass not found on cluster");
    // A second pool that is ready does not change this.
    let both = format!(
        "{POOL}{NODE_CLASS}---\n{}",
        POOL.replace("name: default}\nspec", "name: other}\nspec")
            .replace("KWOKNodeClass, name: default", "KWOKNodeClass, name: missing")
    );
    let used = parse_stdout(&plan(&format!("{both}{DEPLOYMENT}"), &["-o", "json"]).run());
    assert_eq!(used["provisioning"]["nodeClaims"][0]["nodePool"], "default");
}

#[test]
fn spec_09_8_a_pod_on_an_unknown_node_is_ignored() {
    let pod = "---\napiVersion: v1\nkind: Pod\nmetadata: {name: lost}\nspec: {nodeName: n9, containers: []}\n";
    let output = plan(&format!("{POOL}{NODE_CLASS}{pod}"), &["-o", "json"]).run();
    assert_eq!(
        (output.code, parse_stdout(&output)["provisioning"]["unschedulable"].clone()),
        (0, Value::Array(Vec::new()))
    );
    assert_snapshot!(output.stderr, @"warning: ignored, because their nodes are not in the input: 1 pod (default/lost on n9)");
}

// spec 09 #9
#[test]
fn a_time_before_all_timestamps_is_accepted() {
    let manifest = format!("{POOL}{NODE_CLASS}{DEPLOYMENT}")
        .replace("{name: web}", "{name: web, creationTimestamp: \"2026-01-01T00:00:00Z\"}");
    let output = kerf(&["plan", "-f", "-", "--at", "1971-01-01T00:00:00Z", "-o", "json"]).stdin(&manifest).run();
    assert_eq!(
        (output.code, parse_stdout(&output)["at"].as_str()),
        (0, Some("1971-01-01T00:00:00Z")),
        "{}",
        output.stderr
    );
}

#[test]
fn spec_09_10_every_problem_of_the_instance_types_is_named() {
    let offering = |price: &str| {
        format!(
            r#"{{"Price": {price}, "Requirements": [{{"key": "topology.kubernetes.io/zone", "operator": "In", "values": ["a"]}},
            {{"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["spot"]}}]}}"#
        )
    };
    let instance_type = |name: &str, price: &str| {
        format!(
            r#"{{"name": "{name}", "architecture": "amd64", "operatingSystems": ["linux"], "resources": {{"cpu": "1"}}, "offerings": [{}]}}"#,
            offering(price)
        )
    };
    let bad = format!("[{}, {}, {}]", instance_type("a", "1"), instance_type("a", "1"), instance_type("b", "-1"));
    let folder = temp_folder(&[("text.json", "no JSON"), ("bad.json", &bad), ("pool.yaml", POOL)]);
    let output = |types: &str| {
        kerf(&["plan", "-f", "pool.yaml", "--instance-types", types]).current_dir(folder.path()).transcript()
    };
    assert_snapshot!(output("text.json"), @r"
    exit code 2
    --- stderr
    error: text.json: is not JSON: expected ident at line 1 column 2
    ");
    assert_snapshot!(output("bad.json"), @r#"
    exit code 2
    --- stderr
    error: bad.json: [1].name: another instance type has the name "a" too
    error: bad.json: [2].offerings[0].Price: expected a price in dollars per hour, 0 or more
    "#);
    assert_snapshot!(output("missing.json"), @r"
    exit code 2
    --- stderr
    error: missing.json: cannot be read: No such file or directory (os error 2)
    ");
}

#[test]
fn spec_09_11_and_12_same_bytes_for_runs_threads_and_orders() {
    let documents = [POOL, &NODE_CLASS[4..], &DEPLOYMENT[4..], &UNPLACEABLE_POD[4..]];
    let stream = |documents: &[&str]| documents.join("---\n");
    let first = plan(&stream(&documents), &["-o", "json", "--threads", "1"]).run().stdout;
    assert_eq!(plan(&stream(&documents), &["-o", "json", "--threads", "1"]).run().stdout, first);
    assert_eq!(plan(&stream(&documents), &["-o", "json", "--threads", "2"]).run().stdout, first);
    let mut backwards = documents;
    backwards.reverse();
    assert_eq!(plan(&stream(&backwards), &["-o", "json"]).run().stdout, first);
}

#[test]
fn spec_09_18_nothing_to_do_is_valid_json_with_every_list() {
    assert_snapshot!(plan(&format!("{POOL}{NODE_CLASS}"), &["-o", "json"]).transcript(), @r#"
    exit code 0
    --- stdout
    {
      "apiVersion": "kerf.sh/v1alpha1",
      "kind": "Plan",
      "at": "2026-03-04T12:00:00Z",
      "provisioning": {
        "nodeClaims": [],
        "existingNodes": [],
        "unschedulable": []
      },
      "disruption": {
        "commands": [],
        "blocked": []
      },
      "cost": {
        "currentPerHour": 0.0,
        "plannedPerHour": 0.0
      }
    }
    "#);
    assert_snapshot!(plan(&format!("{POOL}{NODE_CLASS}"), &[]).transcript(), @r"
    exit code 0
    --- stdout
    Nothing to do.

    Cost: $0.0000/hour now, $0.0000/hour after this plan (+$0.0000).
    ");
}

#[test]
fn measurements_are_printed_unless_no_stats_is_set() {
    let with = kerf(&["plan", "-f", "-", "-o", "json"]).stdin(POOL).run();
    let stats = parse_stdout(&with)["stats"].clone();
    assert!(stats["loadSeconds"].is_f64() && stats["instanceTypes"] == 144, "{stats}");
    assert!(parse_stdout(&plan(POOL, &["-o", "json"]).run()).get("stats").is_none());
}

#[test]
fn gates_trip_with_3_and_the_plan_is_still_printed() {
    let manifest = format!("{POOL}{NODE_CLASS}{DEPLOYMENT}{UNPLACEABLE_POD}");
    let code = |gate: &str, manifest: &str| plan(manifest, &["-o", "json", "--fail-on", gate]).run().code;
    assert_eq!(
        (code("unschedulable", &manifest), code("cost-increase", &manifest), code("disruption", &manifest)),
        (3, 3, 0)
    );
    assert_eq!(code("unschedulable", &format!("{POOL}{NODE_CLASS}{DEPLOYMENT}")), 0);
    assert_eq!(code("cost-increase", &format!("{POOL}{NODE_CLASS}")), 0);
    let output = plan(&manifest, &["--fail-on", "unschedulable"]).run();
    assert!(
        output.stdout.contains("New nodes")
            && output.stderr == "warning: --fail-on unschedulable: 1 pod would stay pending\n",
        "{}",
        output.stderr
    );
}

#[test]
fn one_part_can_be_planned_alone() {
    let manifest = format!("{POOL}{NODE_CLASS}{DEPLOYMENT}");
    let claims = |part: &str| {
        parse_stdout(&plan(&manifest, &["-o", "json", "--only", part]).run())["provisioning"]["nodeClaims"]
            .as_array()
            .unwrap()
            .len()
    };
    assert_eq!((claims("provisioning"), claims("disruption")), (1, 0));
}

#[test]
fn a_feature_gate_without_effect_is_a_warning() {
    let output =
        plan(&format!("{POOL}{NODE_CLASS}"), &["--feature-gates", "NodeOverlay=true,ReservedCapacity=false"]).run();
    assert_eq!(
        (output.code, output.stderr.as_str()),
        (0, "warning: the feature gate NodeOverlay has no effect on a plan yet\n")
    );
}

#[test]
fn settings_are_flags_and_variables() {
    assert_snapshot!(plan(POOL, &["--preference-policy", "Maybe", "--feature-gates", "NodeRepair"]).transcript(), @r#"
    exit code 2
    --- stderr
    error: validating cli flags / env vars, invalid PREFERENCE_POLICY "Maybe"
    error: parsing feature gates, missing bool value for NodeRepair
    "#);
}

// spec 02 #105, on the command line
#[test]
fn pods_are_spread_as_the_scheduler_is_configured() {
    let config = "podTopologySpread: {defaultConstraints: [{maxSkew: 1, topologyKey: topology.kubernetes.io/zone, whenUnsatisfiable: DoNotSchedule}]}";
    let count_planned_claims = |manifest: &str, arguments: &[&str]| {
        let manifest = format!("{POOL}{NODE_CLASS}{manifest}");
        let output = plan(&manifest, &[&["-o", "json"], arguments].concat()).run();
        assert_eq!(output.code, 0, "{}", output.stderr);
        parse_stdout(&output)["provisioning"]["nodeClaims"].as_array().unwrap().len()
    };
    let deployment_with_selector =
        DEPLOYMENT.replace("  replicas: 3", "  replicas: 3\n  selector: {matchLabels: {app: web}}");
    let service = "---\napiVersion: v1\nkind: Service\nmetadata: {name: web}\nspec: {selector: {app: web}}\n";
    let configured = ["--scheduler-config", config];
    assert_eq!(count_planned_claims(&deployment_with_selector, &[]), 1);
    assert_eq!(count_planned_claims(&deployment_with_selector, &configured), 3, "its replica set selects them");
    assert_eq!(count_planned_claims(DEPLOYMENT, &configured), 1, "no workload selects the pods");
    assert_eq!(count_planned_claims(&format!("{DEPLOYMENT}{service}"), &configured), 3, "a service selects them");
}

/// The NodePool of the README with limits, and this many pods that are spread over zones.
fn spread_pods(limits: &str, replicas: u32) -> String {
    let pool = POOL.replace("spec:\n  template:", &format!("spec:\n{limits}  template:")).replace(
        "requirements: []",
        "requirements: [{key: kubernetes.io/arch, operator: In, values: [amd64]}, {key: kubernetes.io/os, operator: In, values: [linux]}]",
    );
    let spread = "topologySpreadConstraints: [{maxSkew: 1, topologyKey: topology.kubernetes.io/zone, whenUnsatisfiable: DoNotSchedule, labelSelector: {matchLabels: {app: web}}}], containers:";
    let pods = DEPLOYMENT
        .replace("replicas: 3", &format!("replicas: {replicas}"))
        .replace("containers:", spread)
        .replace("memory: 1Gi", "memory: 512Mi");
    format!("{pool}{NODE_CLASS}{pods}")
}

// spec 02 #126
#[test]
fn spec_02_126_a_thousand_pods_get_the_nodes_that_they_get_without_limits() {
    let nodes = |limits: &str, replicas| {
        let output = plan(&spread_pods(limits, replicas), &["-o", "json", "--max-passes", "1"]).run();
        let plan = parse_stdout(&output);
        assert_eq!(plan["provisioning"]["unschedulable"], serde_json::json!([]), "{limits}");
        let claims = plan["provisioning"]["nodeClaims"].as_array().unwrap().iter();
        claims.map(|claim| (claim["pods"].clone(), claim["estimate"].clone())).collect::<Vec<_>>()
    };
    let readme = "  limits: {cpu: 1000, memory: 4000Gi}\n";
    assert_eq!(nodes(readme, 50), nodes("", 50));
    assert_eq!(nodes("  limits: {cpu: 1000, memory: 1000Gi}\n", 50), nodes("", 50));
    assert_eq!(nodes(readme, 1000), nodes("", 1000));
}

// spec 09 #26
#[test]
fn spec_09_26_a_plan_has_all_passes_that_the_controller_needs() {
    let pods = DEPLOYMENT.replace(
        "containers:",
        "affinity: {podAntiAffinity: {requiredDuringSchedulingIgnoredDuringExecution: [{topologyKey: topology.kubernetes.io/zone, labelSelector: {matchLabels: {app: web}}}]}}, containers:",
    );
    let manifest = format!("{POOL}{NODE_CLASS}{pods}");
    let all = plan(&manifest, &["-o", "json", "--only", "provisioning"]).run();
    let provisioning = &parse_stdout(&all)["provisioning"];
    assert_eq!(provisioning["nodeClaims"].as_array().unwrap().len(), 3);
    assert_eq!(
        all.stderr,
        "note: the controller needs 3 passes for these pods; from the second on, the plan assumes that nodes were launched as \
         estimated\n"
    );
    let two = plan(&manifest, &["-o", "json", "--only", "provisioning", "--max-passes", "2"]).run();
    assert_eq!(parse_stdout(&two)["provisioning"]["nodeClaims"].as_array().unwrap().len(), 2);
    assert_eq!(
        two.stderr,
        "note: provisioning is planned for 2 passes and not further; 1 pod is still pending and may be placed by later passes\n"
    );
    let one = plan(&manifest, &["-o", "json", "--only", "provisioning", "--max-passes", "1"]).run();
    assert_eq!(parse_stdout(&one)["provisioning"]["nodeClaims"].as_array().unwrap().len(), 1);
    let none = plan(&manifest, &["--max-passes", "0"]).run();
    assert!(none.code == 2 && none.stderr.contains("expected a number from 1 to 100"), "{}", none.stderr);
}

/// Two nodes of a pool with 4 CPUs each. The first has a pod, the second has none.
fn two_nodes(taint: &str, condition: &str) -> String {
    let mut manifest = format!("{POOL}  disruption: {{consolidateAfter: 0s, budgets: [{{nodes: \"1\"}}]}}\n{NODE_CLASS}");
    for (name, taint, condition) in [("old", taint, condition), ("new", "", "")] {
        let labels = format!(
            "karpenter.sh/nodepool: default, node.kubernetes.io/instance-type: c-4x-amd64-linux, topology.kubernetes.io/zone: test-zone-a, \
             karpenter.sh/capacity-type: on-demand, kubernetes.io/arch: amd64, kubernetes.io/os: linux, karpenter.sh/registered: \"true\", \
             karpenter.sh/initialized: \"true\", kubernetes.io/hostname: {name}"
        );
        let conditions = ["Launched", "Registered", "Initialized", "Ready"]
            .map(|kind| format!("{{type: {kind}, status: \"True\", reason: {kind}, message: \"\", lastTransitionTime: \"2026-03-01T00:00:00Z\"}}"));
        manifest += &format!(
            "---\napiVersion: karpenter.sh/v1\nkind: NodeClaim\nmetadata: {{name: {name}-claim, creationTimestamp: \"2026-03-01T00:00:00Z\", labels: {{{labels}}}}}\n\
             spec: {{nodeClassRef: {{group: karpenter.kwok.sh, kind: KWOKNodeClass, name: default}}, requirements: []}}\n\
             status: {{providerID: \"kwok://{name}\", nodeName: {name}, conditions: [{}{condition}]}}\n\
             ---\napiVersion: v1\nkind: Node\nmetadata: {{name: {name}, creationTimestamp: \"2026-03-01T00:00:00Z\", labels: {{{labels}}}}}\n\
             spec: {{providerID: \"kwok://{name}\"{taint}}}\n\
             status: {{capacity: {{cpu: \"4\", memory: 8Gi, pods: \"110\"}}, allocatable: {{cpu: \"4\", memory: 8Gi, pods: \"110\"}}, conditions: [{{type: Ready, status: \"True\"}}]}}\n",
            conditions.join(", ")
        );
    }
    manifest
        + "---\napiVersion: v1\nkind: Pod\nmetadata: {name: web, ownerReferences: [{apiVersion: apps/v1, kind: ReplicaSet, name: web, uid: u, controller: true}]}\n\
           spec: {nodeName: old, containers: [{name: c, image: i, resources: {requests: {cpu: \"3\"}}}]}\nstatus: {phase: Running}\n"
}

// spec 09 #27
#[test]
fn spec_09_27_a_node_that_a_controller_replaces_is_not_planned_for() {
    let disruption = |manifest: &str, arguments: &[&str]| {
        let plan = parse_stdout(&plan(manifest, &[&["-o", "json"], arguments].concat()).run());
        let removed: Vec<Value> =
            plan["disruption"]["commands"].as_array().unwrap().iter().map(|command| command["nodes"].clone()).collect();
        let blocked = plan["disruption"]["blocked"].as_array().unwrap().iter();
        let codes = blocked.map(|block| format!("{} {}", block["node"].as_str().unwrap(), block["code"].as_str().unwrap()));
        (removed, codes.collect::<Vec<_>>(), plan["provisioning"]["existingNodes"].clone())
    };
    // Without marks the empty node is removed.
    let (removed, _, _) = disruption(&two_nodes("", ""), &[]);
    assert_eq!(removed, [serde_json::json!(["new"])]);
    let taint = ", taints: [{key: karpenter.sh/disrupted, effect: NoSchedule}]";
    let condition = ", {type: DisruptionReason, status: \"True\", reason: Drifted, message: Drifted, lastTransitionTime: \"2026-03-01T00:00:00Z\"}";
    for marked in [two_nodes(taint, ""), two_nodes("", condition), two_nodes(taint, condition)] {
        let (removed, codes, existing) = disruption(&marked, &[]);
        assert_eq!(removed, [] as [Value; 0], "the empty node is the replacement");
        assert!(codes.contains(&"old AlreadyDisrupting".to_owned()) && codes.contains(&"new Nominated".to_owned()), "{codes:?}");
        assert_eq!(existing, serde_json::json!([{"node": "new", "pods": ["default/web"]}]));
        assert_eq!(disruption(&marked, &["--only", "disruption"]).0, [] as [Value; 0]);
        let table = plan(&marked, &[]).run().stdout;
        let (being_removed, staying) = table.split_once("Nodes that stay").unwrap();
        assert!(being_removed.contains("Nodes that are being removed") && being_removed.contains("AlreadyDisrupting"), "{table}");
        assert!(!staying.contains("old "), "{table}");
    }
}

// spec 09 #27: the budget allows one node, which the controller is removing.
#[test]
fn spec_09_27_nodes_under_disruption_count_against_budgets() {
    let taint = ", taints: [{key: karpenter.sh/disrupted, effect: NoSchedule}]";
    let without_pod = two_nodes(taint, "").split("---\napiVersion: v1\nkind: Pod").next().unwrap().to_owned();
    let plan = parse_stdout(&plan(&without_pod, &["-o", "json"]).run());
    assert_eq!(plan["disruption"]["commands"], serde_json::json!([]));
    let codes: Vec<&str> =
        plan["disruption"]["blocked"].as_array().unwrap().iter().map(|block| block["code"].as_str().unwrap()).collect();
    assert_eq!(codes, ["DisruptionBudget", "AlreadyDisrupting"]);
}

// spec 09 #28
#[test]
fn spec_09_28_pools_of_other_providers_are_left_out() {
    let auto = POOL
        .replace("name: default}\nspec", "name: auto}\nspec")
        .replace("{group: karpenter.kwok.sh, kind: KWOKNodeClass, name: default}", "{group: eks.amazonaws.com, kind: NodeClass, name: default}");
    let claim = "---\napiVersion: karpenter.sh/v1\nkind: NodeClaim\nmetadata: {name: auto-1, labels: {karpenter.sh/nodepool: auto, node.kubernetes.io/instance-type: c6g.large}}\n\
        spec: {nodeClassRef: {group: eks.amazonaws.com, kind: NodeClass, name: default}, requirements: []}\nstatus: {providerID: \"aws:///a/i-1\"}\n\
        ---\napiVersion: v1\nkind: Node\nmetadata: {name: node-1, labels: {karpenter.sh/nodepool: auto}}\nspec: {providerID: \"aws:///a/i-1\"}\n";
    let only_auto = format!("{auto}{claim}{}", &DEPLOYMENT.replace("replicas: 3", "replicas: 1"));
    let output = plan(&only_auto, &["-o", "json"]).run();
    assert_eq!(output.stderr, "");
    let json = parse_stdout(&output);
    let unschedulable = &json["provisioning"]["unschedulable"][0];
    assert_eq!(unschedulable["code"], "OtherProvider");
    assert_eq!(unschedulable["message"], "no dynamic nodepools found; not considered: 1 NodePool of eks.amazonaws.com");
    assert_eq!(json["disruption"]["blocked"][0]["code"], "OtherProvider");
    assert_eq!(json["disruption"]["commands"], serde_json::json!([]));
    // Beside a pool of Kerf, only the message of a pod that does not fit names it.
    let both = format!("{POOL}---\n{auto}{NODE_CLASS}{DEPLOYMENT}{UNPLACEABLE_POD}");
    let output = plan(&both, &["-o", "json"]).run();
    assert_eq!(output.stderr, "");
    let json = parse_stdout(&output);
    assert_eq!(json["provisioning"]["nodeClaims"].as_array().unwrap().len(), 1);
    let message = json["provisioning"]["unschedulable"][0]["message"].as_str().unwrap();
    assert!(message.ends_with("; not considered: 1 NodePool of eks.amazonaws.com"), "{message}");
}
