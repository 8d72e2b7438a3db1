//! Loading of whole inputs: objects, problems and warnings.

#![allow(clippy::unwrap_used, reason = "a test may fail by panicking")]

use super::*;
use crate::input::decode::TREES_BUILT;

const ONE: NonZeroUsize = NonZeroUsize::MIN;

/// Loads texts as if they were files.
fn load_texts(texts: &[(&str, &str)]) -> Result<Loaded, Vec<String>> {
    let sources: Vec<Source> =
        texts.iter().map(|(name, text)| Source { name: (*name).to_owned(), text: (*text).to_owned(), is_from_folder: false }).collect();
    let (loaded, problems) = load_sources(&sources, ValidationScope::SuspiciousOnly, ONE, WorkloadControllers::Absent);
    if problems.is_empty() { Ok(loaded) } else { Err(problems.iter().map(Problem::to_string).collect()) }
}

fn pod_names(loaded: &Loaded) -> Vec<String> {
    loaded.objects.pods.iter().map(|pod| pod.object.metadata.namespaced_name().to_string()).collect()
}

#[test]
fn objects_are_sorted_by_name_in_any_order_of_documents() {
    let a = "apiVersion: v1\nkind: Pod\nmetadata: {name: b}\n";
    let b = "apiVersion: v1\nkind: Pod\nmetadata: {name: a, namespace: z}\n";
    let c = "apiVersion: v1\nkind: Pod\nmetadata: {name: a}\n";
    let d = "apiVersion: v1\nkind: Node\nmetadata: {name: m, namespace: ignored}\n";
    let forward = load_texts(&[("x", &[a, b, c, d].join("---\n"))]).unwrap();
    let backward = load_texts(&[("x", d), ("y", &[c, b, a].join("---\n"))]).unwrap();
    assert_eq!(pod_names(&forward), ["default/a", "default/b", "z/a"]);
    assert_eq!(pod_names(&backward), pod_names(&forward));
    assert_eq!(forward.objects.nodes[0].object.metadata.namespace, "");
    assert_eq!((forward.counts[&InputKind::Pod], &backward.counts), (3, &forward.counts));
}

// spec 09 #7
#[test]
fn identical_duplicates_are_accepted_however_they_are_written() {
    let yaml = "apiVersion: v1\nkind: Pod\nmetadata: {name: a, labels: {x: z}}\nspec: {containers: []}\n";
    let json = r#"{"kind": "PodList", "apiVersion": "v1", "items": [{"spec": {"containers": []}, "metadata": {"labels": {"x": "z"}, "name": "a"}}]}"#;
    let loaded = load_texts(&[("a.yaml", yaml), ("b.yaml", yaml), ("c.json", json)]).unwrap();
    assert_eq!(pod_names(&loaded), ["default/a"]);
}

// spec 09 #7
#[test]
fn the_error_about_different_duplicates_names_both_origins() {
    let first = "apiVersion: v1\nkind: Pod\nmetadata: {name: a}\nspec: {containers: [{name: x, image: one}]}\n";
    // They differ in a field that no decision reads; they are still different objects.
    let second = "---\n# again\napiVersion: v1\nkind: Pod\nmetadata: {name: a, namespace: default}\nspec: {containers: [{name: x, image: two}]}\n";
    assert_eq!(
        load_texts(&[("a.yaml", first), ("b.yaml", second)]).unwrap_err(),
        [
            "b.yaml, document 1, line 3: Pod `default/a` is defined twice with different content, first at a.yaml, document 1, line 1"
        ]
    );
}

// spec 09 #7
#[test]
fn objects_of_one_name_in_two_namespaces_or_kinds_are_not_duplicates() {
    let text = "apiVersion: v1\nkind: Pod\nmetadata: {name: a}\n---\napiVersion: v1\nkind: Pod\nmetadata: {name: a, namespace: b}\n---\napiVersion: v1\nkind: Node\nmetadata: {name: a}\n";
    assert_eq!(load_texts(&[("x", text)]).unwrap().counts, BTreeMap::from([(InputKind::Pod, 2), (InputKind::Node, 1)]));
}

#[test]
fn every_problem_of_every_file_is_listed_in_order() {
    let first = "apiVersion: v1\nkind: Pod\nmetadata: {}\n---\napiVersion: v1\nkind: Pod\nmetadata: {name: a, namespace: b}\nspec:\n  priority: high\n  containers: [{resources: {requests: {cpu: much}}}]\n---\nkind: Pod\n---\nx: [\n";
    let second = r#"{"apiVersion": "v1", "kind": "List", "items": [{"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d"}, "spec": {"replicas": -1, "template": {"spec": {"nodeName": 3}}}}, {"metadata": {}}]}"#;
    let problems = load_texts(&[("first.yaml", first), ("second.json", second)]).unwrap_err();
    insta::assert_snapshot!(problems.join("\n"), @r#"
    first.yaml, document 1, line 1: Pod: metadata.name: Required value: name is required
    first.yaml, document 2, line 5: Pod `b/a`: spec.containers[0].resources.requests[cpu]: invalid quantity "much": quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'
    first.yaml, document 2, line 5: Pod `b/a`: spec.priority: invalid type: string "high", expected i32
    first.yaml, document 3, line 12: apiVersion: Required value: every object must have apiVersion and kind
    first.yaml, document 4, line 14: is not valid YAML: unclosed bracket '['
    second.json, document 1, line 1, item 1: Deployment `d`: spec.replicas: Invalid value: -1: must be greater than or equal to 0
    second.json, document 1, line 1, item 1: Deployment `d`: spec.template.spec.nodeName: invalid type: integer `3`, expected a string
    second.json, document 1, line 1, item 2: kind: Required value: every object must have apiVersion and kind
    "#);
}

#[test]
fn ignored_kinds_are_one_warning() {
    let text = "apiVersion: v1\nkind: ConfigMap\n---\napiVersion: v1\nkind: ConfigMap\n---\napiVersion: policy/v1beta1\nkind: PodDisruptionBudget\n";
    let loaded = load_texts(&[("x", text)]).unwrap();
    assert_eq!(
        loaded.warnings,
        [
            "ignored 3 objects of kinds that Kerf does not read: 1 policy/v1beta1 PodDisruptionBudget (not policy/v1), 2 v1 ConfigMap"
        ]
    );
}

// spec 09 #11, for loading
#[test]
fn the_number_of_threads_does_not_change_the_result() {
    let items: Vec<String> = (0..3000)
        .map(|n| {
            format!(
                r#"{{"apiVersion":"v1","kind":"Pod","metadata":{{"name":"p{n}"}},"spec":{{"priority":{}}}}}"#,
                if n % 1000 == 7 { "\"x\"" } else { "1" }
            )
        })
        .collect();
    let text = format!(r#"{{"apiVersion":"v1","kind":"List","items":[{}]}}"#, items.join(",\n"));
    let sources = [Source { name: "x".to_owned(), text, is_from_folder: false }];
    let read = |threads: usize| {
        let (loaded, problems) = load_sources(
            &sources,
            ValidationScope::SuspiciousOnly,
            NonZeroUsize::new(threads).unwrap(),
            WorkloadControllers::Absent,
        );
        (pod_names(&loaded), problems)
    };
    let (names, problems) = read(1);
    assert_eq!((names.len(), problems.len()), (2997, 3));
    for threads in 2..5 {
        assert_eq!(read(threads), (names.clone(), problems.clone()));
    }
}

// Each unknown field is a warning. The object must not be parsed again for each of them.
#[test]
fn an_object_with_many_remarks_is_parsed_a_fixed_number_of_times() {
    let trees_built = |fields: usize| {
        let unknown = (0..fields).map(|field| format!("  unknown{field}: 1\n")).collect::<Vec<_>>().concat();
        let class = "apiVersion: karpenter.kwok.sh/v1alpha1\nkind: KWOKNodeClass\nmetadata: {name: default}\nspec:\n";
        TREES_BUILT.set(0);
        let loaded = load_texts(&[("x", &format!("{class}{unknown}"))]).unwrap();
        assert_eq!(loaded.warnings.len(), fields);
        TREES_BUILT.get()
    };
    assert_eq!(trees_built(200), trees_built(1));
}

const POOL_OF_10000_YEARS: &str = "apiVersion: karpenter.sh/v1
kind: NodePool
metadata: {name: a}
spec:
  template:
    spec:
      nodeClassRef: {group: karpenter.kwok.sh, kind: KWOKNodeClass, name: default}
      requirements: []
      expireAfter: 87600000h
";

// The pattern of the CRD accepts durations of more than 2^63 nanoseconds, but they have no value.
#[test]
fn a_duration_without_a_value_is_a_problem_if_all_objects_are_validated() {
    let sources = [Source { name: "x".to_owned(), text: POOL_OF_10000_YEARS.to_owned(), is_from_folder: false }];
    let (_, problems) = load_sources(&sources, ValidationScope::All, ONE, WorkloadControllers::Absent);
    let problems: Vec<String> = problems.iter().map(Problem::to_string).collect();
    assert_eq!(
        problems,
        [r#"x, document 1, line 1: NodePool `a`: invalid value: time: invalid duration "87600000h" in expireAfter"#]
    );
    assert_eq!(load_texts(&[("x", POOL_OF_10000_YEARS)]).unwrap().objects.node_pools.len(), 1);
}
