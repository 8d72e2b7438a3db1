//! Splitting of streams: which objects are found, and at which origin.

#![allow(clippy::unwrap_used, reason = "a test may fail by panicking")]

use super::*;

/// Kind, document, item and line of an object.
type ObjectRow = (String, u32, u32, u32);
/// Document, line and message of an unreadable document.
type UnreadableRow = (u32, u32, String);

fn outline(text: &str) -> (Vec<ObjectRow>, Vec<UnreadableRow>) {
    let SplitText { objects, unreadable } = split(0, text);
    let objects = objects
        .iter()
        .map(|object| (object.kind.to_string(), object.origin.document, object.origin.item, object.origin.line));
    let unreadable =
        unreadable.into_iter().map(|document| (document.origin.document, document.origin.line, document.message));
    (objects.collect(), unreadable.collect())
}

fn objects(text: &str) -> Vec<ObjectRow> {
    let (objects, unreadable) = outline(text);
    assert_eq!(unreadable, [], "{text}");
    objects
}

fn object_row(kind: &str, document: u32, item: u32, line: u32) -> ObjectRow {
    (kind.to_owned(), document, item, line)
}

#[test]
fn yaml_documents_have_numbers_and_lines() {
    let text = "# head\n---\nkind: A\n---\n\n# note\nkind: B\n--- {kind: C}\n---\n# only a comment\n---\nkind: D\n";
    assert_eq!(
        objects(text),
        [object_row("A", 1, 0, 3), object_row("B", 2, 0, 7), object_row("C", 3, 0, 8), object_row("D", 5, 0, 12)]
    );
    assert_eq!(objects("kind: A\r\n---\r\nkind: B\r\n"), [object_row("A", 1, 0, 1), object_row("B", 2, 0, 3)]);
    assert_eq!(
        objects("%YAML 1.2\n---\nkind: A\n...\n---\nkind: B\n"),
        [object_row("A", 1, 0, 3), object_row("B", 2, 0, 6)]
    );
}

#[test]
fn an_indented_marker_in_a_block_scalar_is_not_a_marker() {
    assert_eq!(
        objects("kind: A\ntext: |\n  ---\n  more\n---\nkind: B\n"),
        [object_row("A", 1, 0, 1), object_row("B", 2, 0, 6)]
    );
}

// spec 09 #2: files without an object
#[test]
fn a_text_without_objects_yields_none() {
    for text in ["", "\n", "# a comment\n", "---\n", "---\n---\n# nothing\n", "null\n"] {
        assert_eq!(objects(text), [], "{text:?}");
    }
}

// spec 09 #3
#[test]
fn a_syntax_error_names_document_and_line_and_hides_no_other_document() {
    let (objects, unreadable) = outline("kind: A\n---\nkind: B\n---\nkind: C\nmeta:\n  - x\n bad: [\n---\nkind: D\n");
    assert_eq!(objects, [object_row("A", 1, 0, 1), object_row("B", 2, 0, 3), object_row("D", 4, 0, 10)]);
    let (document, line, message) = &unreadable[0];
    assert_eq!((*document, *line, unreadable.len()), (3, 8, 1), "{message}");
    assert!(message.starts_with("is not valid YAML: "), "{message}");
}

#[test]
fn lists_are_split_in_yaml_and_json() {
    let yaml =
        "kind: List\napiVersion: v1\nitems:\n- kind: Pod\n- {kind: Node}\n- kind: List\n  items: [{kind: Job}]\n";
    assert_eq!(objects(yaml), [object_row("Pod", 1, 1, 1), object_row("Node", 1, 2, 1), object_row("Job", 1, 3, 1)]);
    let json = "\n{\"kind\": \"List\", \"items\": [\n{\"kind\":\"Pod\",\"apiVersion\":\"v1\"},\n{\"metadata\":{},\"kind\":\"Node\"},\n{\"kind\":\"List\",\"items\":[\n{\"kind\":\"Job\"}]}]}\n{\"kind\":\"Last\"}";
    assert_eq!(
        objects(json),
        [
            object_row("Pod", 1, 1, 3),
            object_row("Node", 1, 2, 4),
            object_row("Job", 1, 3, 6),
            object_row("Last", 2, 0, 7)
        ]
    );
}

#[test]
fn items_of_a_typed_list_get_their_kind_from_the_list() {
    for text in [
        "{\"kind\": \"PodList\", \"apiVersion\": \"v1\", \"items\": [{\"metadata\": {}}]}",
        "kind: PodList\napiVersion: v1\nitems:\n- metadata: {}\n",
    ] {
        let objects = split(0, text).objects;
        assert_eq!((objects[0].api_version.as_ref(), objects[0].kind.as_ref()), ("v1", "Pod"), "{text}");
    }
}

#[test]
fn an_empty_list_has_no_objects_and_no_problems() {
    assert_eq!(objects("{\"kind\":\"List\",\"apiVersion\":\"v1\",\"items\":[]}"), []);
    assert_eq!(objects("kind: List\napiVersion: v1\nitems: []\n"), []);
}

#[test]
fn json_documents_may_be_separated_by_yaml_markers() {
    assert_eq!(
        objects("{\"kind\": \"A\"}\n---\n{\"kind\": \"B\"}\n"),
        [object_row("A", 1, 0, 1), object_row("B", 2, 0, 3)]
    );
    assert_eq!(objects("{kind: A, note: flow}\n---\nkind: B\n"), [object_row("A", 1, 0, 1), object_row("B", 2, 0, 3)]);
}

#[test]
fn merge_keys_and_anchors_are_resolved() {
    let SplitText { objects, unreadable } = split(0, "base: &b {x: 1}\nkind: A\nmore:\n  <<: *b\n  z: 2\n");
    assert_eq!(unreadable, []);
    assert_eq!(objects[0].body.tree().unwrap()["more"], serde_json::json!({"x": 1, "z": 2}));
}

#[test]
fn a_value_that_is_not_an_object_is_reported() {
    for (text, start) in [
        ("[1, 2]", "is not a Kubernetes object: expected fields like `apiVersion` and `kind`, found a list"),
        ("just text", "is not a Kubernetes object: expected fields like `apiVersion` and `kind`, found a string"),
        ("kind: [A]", "is not a Kubernetes object: kind: expected a string, found a list"),
        ("{\"kind\": 1}", "is not a Kubernetes object: "),
        ("{\"kind\": \"A\"", "is not valid JSON: "),
        ("{\"kind\": \"List\", \"items\": 3}", "is not a Kubernetes object: "),
        ("{\"kind\": \"List\", \"items\": [3]}", "is not a Kubernetes object: "),
        ("a: *missing", "is not valid YAML: "),
    ] {
        let (objects, unreadable) = outline(text);
        assert!(objects.is_empty() && unreadable.len() == 1, "{text}: {objects:?} {unreadable:?}");
        assert!(unreadable[0].2.starts_with(start), "{text}: {}", unreadable[0].2);
    }
}

#[test]
fn the_nesting_of_lists_is_limited() {
    let mut text = "{\"kind\":\"Pod\",\"apiVersion\":\"v1\"}".to_owned();
    for _ in 0..100 {
        text = format!("{{\"kind\":\"List\",\"apiVersion\":\"v1\",\"items\":[{text}]}}");
    }
    let (objects, unreadable) = outline(&text);
    assert!(objects.is_empty());
    assert_eq!(unreadable[0].2, "lists are nested more than 8 levels deep");
}
