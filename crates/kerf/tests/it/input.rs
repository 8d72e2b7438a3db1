//! Input options, and messages about bad input (spec 09 sections 1 and 2.1).

use insta::assert_snapshot;

use crate::program::{kerf, temp_folder};

const POD: &str = "apiVersion: v1\nkind: Pod\nmetadata: {name: a}\nspec: {containers: [{name: c, image: i}]}\n";

fn validate(files: &[(&str, &str)], arguments: &[&str]) -> String {
    let folder = temp_folder(files);
    kerf(&[&["validate"], arguments].concat()).current_dir(folder.path()).transcript()
}

#[test]
fn files_folders_and_stdin_can_be_mixed() {
    let folder = temp_folder(&[
        ("a.yaml", POD),
        ("deep/er/b.yml", &POD.replace("name: a", "name: b")),
        (
            "deep/c.json",
            r#"{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "c"}, "spec": {"containers": [{"name": "c", "image": "i"}]}}"#,
        ),
        ("deep/notes.txt", "not: [read"),
    ]);
    let stdin = "apiVersion: v1\nkind: Node\nmetadata: {name: m}\n";
    let output = kerf(&["validate", "-f", "a.yaml", "-f", "deep", "-f", "-"])
        .current_dir(folder.path())
        .stdin(stdin)
        .transcript();
    assert_snapshot!(output, @r"
    exit code 0
    --- stdout
          1 Node
          3 Pod
    ");
}

// spec 09 #2
#[test]
fn an_input_without_objects_is_bad_input() {
    for (files, arguments) in [
        (&[("empty.yaml", "")][..], &["-f", "empty.yaml"][..]),
        (&[("comments.yaml", "# nothing\n---\n# here\n")], &["-f", "comments.yaml"]),
        (&[("folder/readme.txt", "x")], &["-f", "folder"]),
    ] {
        let output = validate(files, arguments);
        assert!(output.starts_with("exit code 2\n--- stderr\nerror: no object found in "), "{output}");
    }
    assert_snapshot!(validate(&[("a/x.txt", ""), ("b.yaml", "---\n")], &["-f", "a", "-f", "b.yaml"]), @r"
    exit code 2
    --- stderr
    error: no object found in a, b.yaml
    hint:  folders are searched for *.yaml, *.yml and *.json; `-f -` reads stdin
    ");
}

#[test]
fn a_missing_input_has_a_hint() {
    assert_snapshot!(validate(&[], &[]), @r"
    exit code 2
    --- stderr
    error: no input: give manifests with -f
    hint:  -f takes files and folders; `-f -` reads stdin
    ");
}

/// Objects of built-in kinds that an API server rejects.
const REJECTED_OBJECTS: &str = "\
apiVersion: v1
kind: Pod
metadata: {name: none}
spec: {containers: []}
---
apiVersion: v1
kind: Pod
metadata: {name: odd, namespace: UPPER}
spec: {containers: [{name: c, image: i, resources: {requests: {cpu: abc, memory: -1}}}], tolerations: [{key: k, operator: Maybe}]}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec: {replicas: -2, template: {metadata: {labels: {app: web}}, spec: {containers: [{name: c, image: i}]}}}
---
apiVersion: v1
kind: Node
metadata: {name: node}
spec: {taints: [{key: '', effect: Foo}]}
---
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata: {name: p}
spec: {minAvailable: 1, maxUnavailable: 1}
---
apiVersion: v1
kind: Pod
metadata: {name: typo}
spec: {containers: [{name: c, image: i}], nodeNmae: n}
";

// Spec 09 section 2.1: the rules that the API server would check. Section 1: all problems at once.
#[test]
fn built_in_kinds_are_validated_by_the_rules_of_an_api_server() {
    assert_snapshot!(validate(&[("v.yaml", REJECTED_OBJECTS)], &["-f", "v.yaml"]), @r##"
    exit code 2
    --- stderr
    error: v.yaml, document 1, line 1: Pod `none`: spec.containers: Required value
    error: v.yaml, document 2, line 6: Pod `UPPER/odd`: metadata.namespace: Invalid value: "UPPER": a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')
    error: v.yaml, document 2, line 6: Pod `UPPER/odd`: spec.containers[0].resources.requests[cpu]: invalid quantity "abc": quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'
    error: v.yaml, document 2, line 6: Pod `UPPER/odd`: spec.containers[0].resources.requests[memory]: Invalid value: "-1": must be greater than or equal to 0
    error: v.yaml, document 2, line 6: Pod `UPPER/odd`: spec.tolerations[0].operator: Unsupported value: "Maybe": supported values: "Equal", "Exists"
    error: v.yaml, document 3, line 11: Deployment `web`: spec.replicas: Invalid value: -2: must be greater than or equal to 0
    error: v.yaml, document 3, line 11: Deployment `web`: spec.selector: Required value
    error: v.yaml, document 3, line 11: Deployment `web`: spec.template.metadata.labels: Invalid value: {"app":"web"}: `selector` does not match template `labels`
    error: v.yaml, document 4, line 16: Node `node`: metadata.taints[0].effect: Unsupported value: "Foo": supported values: "NoSchedule", "PreferNoSchedule", "NoExecute"
    error: v.yaml, document 4, line 16: Node `node`: metadata.taints[0].key: Invalid value: "": name part must be non-empty
    error: v.yaml, document 4, line 16: Node `node`: metadata.taints[0].key: Invalid value: "": name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')
    error: v.yaml, document 5, line 21: PodDisruptionBudget `p`: spec: Invalid value: {"maxUnavailable":1,"minAvailable":1}: minAvailable and maxUnavailable cannot be both set
    warning: v.yaml, document 6, line 26: Pod `typo`: unknown field "spec.nodeNmae"
    "##);
    let typo = REJECTED_OBJECTS.rsplit("---\n").next().unwrap();
    assert_snapshot!(validate(&[("v.yaml", typo)], &["-f", "v.yaml"]), @r#"
    exit code 0
    --- stdout
          1 Pod
    --- stderr
    warning: v.yaml, document 1, line 1: Pod `typo`: unknown field "spec.nodeNmae"
    "#);
}

// spec 09 #3
#[test]
fn a_syntax_error_names_file_document_and_line() {
    let text = format!("{POD}---\n{}---\nkind: Pod\n  bad: indent\n", POD.replace("name: a", "name: b"));
    assert_snapshot!(validate(&[("pods.yaml", &text)], &["-f", "pods.yaml"]), @r"
    exit code 2
    --- stderr
    error: pods.yaml, document 3, line 12: is not valid YAML: mapping values are not allowed in this context
    ");
}

#[test]
fn unreadable_files_are_listed_with_all_other_problems() {
    let folder = temp_folder(&[("bad.yaml", "kind: Pod\n")]);
    std::fs::write(folder.path().join("binary.yaml"), [b'a', 0xff]).unwrap();
    let output = kerf(&["validate", "-f", "missing.yaml", "-f", "bad.yaml", "-f", "binary.yaml", "-f", "-", "-f", "-"])
        .current_dir(folder.path())
        .stdin("")
        .transcript();
    assert_snapshot!(output, @r"
    exit code 2
    --- stderr
    error: missing.yaml: cannot be read: No such file or directory (os error 2)
    error: binary.yaml: is not text: byte 2 is not UTF-8
    error: stdin: can be read only once, and `-f -` was given twice
    error: bad.yaml, document 1, line 1: apiVersion: Required value: every object must have apiVersion and kind
    ");
}

// spec 09 #7
#[test]
fn the_error_about_duplicates_names_both_origins() {
    let other = POD.replace("{name: a}", "{name: a, labels: {x: z}}");
    assert_snapshot!(validate(&[("a.yaml", POD), ("b.yaml", &other)], &["-f", "."]), @r"
    exit code 2
    --- stderr
    error: ./b.yaml, document 1, line 1: Pod `default/a` is defined twice with different content, first at ./a.yaml, document 1, line 1
    ");
}

#[test]
fn ignored_kinds_are_one_warning() {
    let text = format!("{POD}---\napiVersion: v1\nkind: ConfigMap\nmetadata: {{name: a}}\n");
    assert_snapshot!(validate(&[("a.yaml", &text)], &["-f", "a.yaml"]), @r"
    exit code 0
    --- stdout
          1 Pod
    --- stderr
    warning: ignored 1 object of kinds that Kerf does not read: 1 v1 ConfigMap
    ");
}

const POOL: &str = "\
apiVersion: karpenter.sh/v1
kind: NodePool
metadata: {name: a}
spec:
  template: {spec: {nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: d}, requirements: []}}
";

#[test]
fn yaml_is_parsed_as_kubectl_parses_it() {
    // An octal number, a digit separator, a whole float: an API server reads all of them as
    // integers.
    for weight in ["010", "1_0", "0x_a", "1e1", "08", "+10.0"] {
        let text = format!("{POOL}  weight: {weight}\n");
        let output = validate(&[("a.yaml", &text)], &["-f", "a.yaml"]);
        assert!(output.starts_with("exit code 0\n"), "{weight}: {output}");
    }
    let class = "\
apiVersion: karpenter.k8s.aws/v1
kind: EC2NodeClass
metadata: {name: d}
spec:
  role: r
  associatePublicIPAddress: no
  amiSelectorTerms: [{alias: al2023@latest}]
  subnetSelectorTerms: [{id: subnet-1}]
  securityGroupSelectorTerms: [{id: sg-1}]
";
    let output = validate(&[("a.yaml", class)], &["-f", "a.yaml"]);
    assert!(output.starts_with("exit code 0\n"), "{output}");

    let labels = format!("{POOL}---\n{POD}").replace("{name: a}", "{name: a, labels: {b: yes, c: 1_000, d: 'on'}}");
    assert_snapshot!(validate(&[("a.yaml", &labels)], &["-f", "a.yaml"]), @r"
    exit code 2
    --- stderr
    error: a.yaml, document 1, line 1: NodePool `a`: json: cannot unmarshal bool into Go struct field ObjectMeta.labels of type string
    error: a.yaml, document 2, line 7: Pod `a`: metadata.labels[b]: invalid type: boolean `true`, expected a string
    error: a.yaml, document 2, line 7: Pod `a`: metadata.labels[c]: invalid type: integer `1000`, expected a string
    ");
    let infinite = format!("{POOL}  weight: .inf\n  limits: {{cpu: .nan}}\n");
    assert_snapshot!(validate(&[("a.yaml", &infinite)], &["-f", "a.yaml"]), @r"
    exit code 2
    --- stderr
    error: a.yaml, document 1, line 6: cannot be converted to JSON: unsupported value: +Inf: numbers must be finite
    error: a.yaml, document 1, line 7: cannot be converted to JSON: unsupported value: NaN: numbers must be finite
    ");
}

// spec 09 section 1: all problems at once
#[test]
fn warnings_of_a_rejected_object_are_printed_too() {
    let text = format!("{POOL}  weigth: 5\n  weight: 500\n---\napiVersion: v1\nkind: ConfigMap\n");
    assert_snapshot!(validate(&[("a.yaml", &text)], &["-f", "a.yaml"]), @r#"
    exit code 2
    --- stderr
    error: a.yaml, document 1, line 1: NodePool `a`: spec.weight: Invalid value: 500: spec.weight in body should be less than or equal to 100
    warning: a.yaml, document 1, line 1: NodePool `a`: unknown field "spec.weigth"
    warning: ignored 1 object of kinds that Kerf does not read: 1 v1 ConfigMap
    "#);
}

#[test]
fn unchecked_rules_are_the_last_warning() {
    let text = POOL.replace("nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: d}, ", "");
    assert_snapshot!(validate(&[("a.yaml", &text)], &["-f", "a.yaml"]), @r"
    exit code 2
    --- stderr
    error: a.yaml, document 1, line 1: NodePool `a`: spec.template.spec.nodeClassRef: Required value
    warning: a.yaml, document 1, line 1: NodePool `a`: some validation rules were not checked because the object was invalid; correct the existing errors to complete validation
    ");
}

#[test]
fn kinds_and_versions_that_kerfs_crds_do_not_serve_are_errors() {
    let text = [
        POOL.replace("NodePool", "NodePol"),
        POOL.replace("karpenter.sh/v1", "karpenter.sh/v1beta1"),
        "apiVersion: karpenter.azure.com/v1beta1\nkind: AKSNodeClass\nmetadata: {name: a}\n".to_owned(),
    ];
    assert_snapshot!(validate(&[("a.yaml", &text.join("---\n"))], &["-f", "a.yaml"]), @r#"
    exit code 2
    --- stderr
    error: a.yaml, document 1, line 1: NodePol `a`: no matches for kind "NodePol" in version "karpenter.sh/v1": Kerf serves karpenter.sh/v1 NodePool, karpenter.sh/v1 NodeClaim, karpenter.sh/v1alpha1 NodeOverlay
    error: a.yaml, document 2, line 7: NodePool `a`: no matches for kind "NodePool" in version "karpenter.sh/v1beta1": it is served as karpenter.sh/v1
    warning: ignored 1 object of kinds that Kerf does not read: 1 karpenter.azure.com/v1beta1 AKSNodeClass
    "#);
}

// spec 01 section 10.2, rule 4
#[test]
fn an_overlay_is_validated_for_aws_unless_the_input_uses_only_kwok() {
    let overlay = "\
apiVersion: karpenter.sh/v1alpha1
kind: NodeOverlay
metadata: {name: o}
spec:
  price: '1'
  requirements:
  - {key: karpenter.k8s.aws/foo, operator: Exists}
  - {key: karpenter.k8s.aws/instance-tenancy, operator: Exists}
  - {key: karpenter.k8s.aws/instance-family, operator: Exists}
";
    let kwok = POOL.replace("karpenter.k8s.aws", "karpenter.kwok.sh").replace("EC2NodeClass", "KWOKNodeClass");
    assert_snapshot!(validate(&[("a.yaml", overlay)], &["-f", "a.yaml"]), @r#"
    exit code 2
    --- stderr
    error: a.yaml, document 1, line 1: NodeOverlay `o`: spec.requirements[0].key: Invalid value: "karpenter.k8s.aws/foo": label domain "karpenter.k8s.aws" is restricted
    error: a.yaml, document 1, line 1: NodeOverlay `o`: spec.requirements[1].key: Invalid value: "karpenter.k8s.aws/instance-tenancy": label domain "karpenter.k8s.aws" is restricted
    "#);
    let class = "apiVersion: karpenter.kwok.sh/v1alpha1\nkind: KWOKNodeClass\nmetadata: {name: d}\n";
    for (others, code) in [
        (vec![POOL], 2),
        (vec![kwok.as_str()], 0),
        (vec![class], 0),
        (vec![&kwok, class], 0),
        (vec![POOL, class], 2),
        (vec![POD], 2),
    ] {
        let text = [vec![overlay], others.clone()].concat().join("---\n");
        let output = validate(&[("a.yaml", &text)], &["-f", "a.yaml"]);
        assert!(output.starts_with(&format!("exit code {code}\n")), "{others:?}: {output}");
    }
}

#[test]
fn the_examples_are_valid() {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let output = kerf(&["validate", "-f", "examples"]).current_dir(&root).run();
    assert_eq!(output.code, 0, "{}", output.stderr);
}

/// A KWOKNodeClass, its NodePool, a NodeClaim and a pod. The durations of class and claim exceed
/// 2^63 ns, about 292 years.
const DURATIONS_OUT_OF_RANGE: &str = "
apiVersion: karpenter.kwok.sh/v1alpha1
kind: KWOKNodeClass
metadata: {name: default}
spec: {nodeRegistrationDelay: 99999999h}
---
apiVersion: karpenter.sh/v1
kind: NodePool
metadata: {name: general}
spec:
  template:
    spec:
      nodeClassRef: {group: karpenter.kwok.sh, kind: KWOKNodeClass, name: default}
      requirements: []
---
apiVersion: karpenter.sh/v1
kind: NodeClaim
metadata: {name: general-1}
spec:
  nodeClassRef: {group: karpenter.kwok.sh, kind: KWOKNodeClass, name: default}
  requirements: []
  expireAfter: 99999999h
  terminationGracePeriod: 9999999999s
---
apiVersion: v1
kind: Pod
metadata: {name: a}
spec: {containers: [{name: c, image: i, resources: {requests: {cpu: 1}}}]}
";

// Spec 09 section 2.1: every command reports durations that no controller can use.
#[test]
fn durations_out_of_range_are_reported_by_validate_and_plan() {
    let files = [("all.yaml", DURATIONS_OUT_OF_RANGE)];
    assert_snapshot!(validate(&files, &["-f", "all.yaml"]), @r#"
    exit code 2
    --- stderr
    error: all.yaml, document 1, line 2: KWOKNodeClass `default`: invalid value: time: invalid duration "99999999h" in nodeRegistrationDelay
    error: all.yaml, document 3, line 16: NodeClaim `general-1`: invalid value: time: invalid duration "9999999999s" in terminationGracePeriod
    error: all.yaml, document 3, line 16: NodeClaim `general-1`: invalid value: time: invalid duration "99999999h" in expireAfter
    "#);
    let folder = temp_folder(&files);
    let plan = kerf(&["plan", "--provider", "kwok", "-f", "all.yaml"]).current_dir(folder.path()).transcript();
    assert_snapshot!(plan, @r#"
    exit code 0
    --- stdout
    Unschedulable pods

    PODS       CODE        WHY
    default/a  NoNodePool  no dynamic nodepools found; NodePool `general` could launch a node for it,
                           but is not ready: KWOKNodeClass `default`: invalid value: time: invalid
                           duration "99999999h" in nodeRegistrationDelay

    Nodes that stay

    NODES      CODE             WHY
    general-1  NoNode           Nodeclaim does not have an associated node
    general-1  NoNodePoolLabel  Node doesn't have required label (label=karpenter.sh/nodepool)

    Cost: $0.0000/hour now, $0.0000/hour after this plan (+$0.0000).
    --- stderr
    warning: all.yaml, document 3, line 16: NodeClaim `general-1`: invalid value: time: invalid duration "9999999999s" in terminationGracePeriod; it has no effect
    warning: all.yaml, document 3, line 16: NodeClaim `general-1`: invalid value: time: invalid duration "99999999h" in expireAfter; it has no effect
    warning: NodePool `general` is not used: KWOKNodeClass `default`: invalid value: time: invalid duration "99999999h" in nodeRegistrationDelay
    "#);
}

/// A NodePool with a typing error, one of another group, and one with a schedule that cannot be read.
const TYPING_ERRORS: &str = "\
apiVersion: karpenter.sh/v1
kind: NodePool
metadata:
  name: a
spec:
  wieght: 10
  expireAfter: 720h
  template:
    spec:
      nodeClassRef:
        group: karpenter.kwok.sh
        kind: KWOKNodeClass
        name: default
      requirements:
        - key: kubernetes.io/os
          operator: In
          valuse: [linux]
---
apiVersion: kapenter.sh/v1
kind: NodePool
metadata:
  name: b
---
apiVersion: karpenter.sh/v1
kind: NodePool
metadata:
  name: c
spec:
  disruption:
    budgets:
      - nodes: \"1\"
      - nodes: \"0\"
        duration: 8h
        schedule: 0 19-8 * * *
  template:
    spec:
      nodeClassRef:
        group: karpenter.kwok.sh
        kind: KWOKNodeClass
        name: default
      requirements: []
---
apiVersion: v1
kind: Pod
metadata:
  name: p
spec:
  containers:
    - name: c
      image: i
      resources:
        requets: {cpu: 1}
";

// spec 09 #24
#[test]
fn spec_09_24_typing_errors_are_errors_with_a_suggestion_and_the_line() {
    assert_snapshot!(validate(&[("a.yaml", TYPING_ERRORS)], &["-f", "a.yaml"]), @"");
    assert_snapshot!(validate(&[("a.yaml", TYPING_ERRORS)], &["-f", "a.yaml", "--strict=false"]), @"");
    // The items of a list have their own lines, in YAML and in JSON.
    let pool = "{\"apiVersion\": \"karpenter.sh/v1\", \"kind\": \"NodePool\", \"metadata\": {\"name\": \"x\"},\n\"spec\": {\"template\": {\"spec\": {\"requirements\": [],\n\
        \"nodeClassRef\": {\"group\": \"karpenter.kwok.sh\", \"kind\": \"KWOKNodeClass\", \"name\": \"d\"}}},\n\"wieght\": 1}}";
    let json = format!("{{\"apiVersion\": \"v1\", \"kind\": \"List\", \"items\": [\n{},\n{pool}]}}", pool.replace("wieght", "weight").replace("\"x\"", "\"y\""));
    let yaml = "apiVersion: v1\nkind: List\nitems:\n- apiVersion: v1\n  kind: Pod\n  metadata: {name: a}\n  spec:\n    nodeNmae: n\n    containers: [{name: c, image: i}]\n\
        - apiVersion: v1\n  kind: Pod\n  metadata: {name: b}\n  spec:\n    containers: [{name: c, image: i}]\n    nodeNmae: n\n";
    assert_snapshot!(validate(&[("a.json", &json), ("b.yaml", yaml)], &["-f", "."]), @"");
    // An API server has accepted this object, perhaps a newer one than Kerf knows.
    let stored = TYPING_ERRORS.rsplit("---\n").next().unwrap().replace("name: p\n", "name: p\n  uid: u\n");
    assert!(validate(&[("a.yaml", &stored)], &["-f", "a.yaml"]).starts_with("exit code 0"));
}

// spec 09 #5 and #24
#[test]
fn spec_09_24_a_plan_only_warns_about_typing_errors() {
    let folder = temp_folder(&[("a.yaml", TYPING_ERRORS.split("---\n").next().unwrap())]);
    let plan = kerf(&["plan", "-f", "a.yaml", "--no-stats"]).current_dir(folder.path()).transcript();
    assert!(plan.starts_with("exit code 0"), "{plan}");
    assert!(plan.contains("warning: a.yaml, document 1, line 6: NodePool `a`: unknown field \"spec.wieght\"\n"), "{plan}");
}

// spec 09 #25
#[test]
fn spec_09_25_files_of_ordinary_repositories_are_skipped() {
    let files = [
        ("repo/pod.yaml", POD),
        ("repo/kustomization.yaml", "resources: [pod.yaml]\n"),
        ("repo/package.json", "{\"name\": \"app\", \"version\": \"1.0.0\"}\n"),
        ("repo/tsconfig.json", "{\n  // comments\n  \"files\": []\n}\n"),
        ("repo/chart/Chart.yaml", "apiVersion: v2\nname: chart\nversion: 0.1.0\n"),
        ("repo/chart/values.yaml", "replicas: 1\n"),
        ("repo/chart/templates/deployment.yaml", "apiVersion: apps/v1\nkind: Deployment\nmetadata:\n  name: {{ .Release.Name }}\n{{- if .Values.x }}\n"),
        ("repo/.github/workflows/ci.yml", "on: [push]\njobs: {}\n"),
    ];
    assert_snapshot!(validate(&files, &["-f", "repo"]), @"");
    // A file that is named itself is a mistake.
    assert_snapshot!(validate(&files, &["-f", "repo/chart/values.yaml"]), @"");
    // A manifest with a syntax error is not skipped, and a folder without manifests has no objects.
    assert_snapshot!(validate(&[("repo/a.yaml", "apiVersion: v1\nkind: Pod\n  bad: indent\n")], &["-f", "repo"]), @"");
    assert_snapshot!(validate(&files[1..], &["-f", "repo"]), @"");
}
