//! Compares the results with those of kubectl's YAML library (`oracle/yaml` records them), and
//! tests what that library leaves open.

use serde_json::{Value, json};

use super::*;

fn errors(text: &str) -> Vec<String> {
    parse(text).unwrap_err().iter().map(|error| format!("line {}: {error}", error.line)).collect()
}

/// Returns true if the values are equal. A large number may be an integer in one and a float in the
/// other.
fn is_same(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Array(a), Value::Array(b)) => a.len() == b.len() && a.iter().zip(b).all(|(a, b)| is_same(a, b)),
        (Value::Object(a), Value::Object(b)) => {
            a.len() == b.len() && a.iter().all(|(key, a)| b.get(key).is_some_and(|b| is_same(a, b)))
        }
        (Value::Number(a), Value::Number(b)) => a == b || (!a.is_i64() && a.as_f64() == b.as_f64()),
        (a, b) => a == b,
    }
}

#[test]
fn documents_are_parsed_as_kubectl_parses_them() {
    let recordings = include_str!("testdata/sigs-yaml.jsonl");
    let mut differences = Vec::new();
    for line in recordings.lines() {
        let recording: Value = serde_json::from_str(line).unwrap();
        let text = recording["in"].as_str().unwrap();
        let parsed = parse(text);
        let is_equal = match recording.get("out") {
            Some(expected) => parsed.as_ref().is_ok_and(|parsed| is_same(parsed, expected)),
            None => parsed.is_err(),
        };
        if !is_equal {
            differences.push(format!("{line}\n    here: {parsed:?}"));
        }
    }
    assert!(recordings.lines().count() > 2000 && differences.is_empty(), "{}", differences.join("\n"));
}

#[test]
fn values_that_json_cannot_represent_are_reported_with_their_line() {
    assert_eq!(
        errors("a: .inf\nb: [1,\n  .NaN]\n~: 1\nc: !!int x\n? [1]\n: 2\nd: !!binary x\n"),
        [
            "line 1: cannot be converted to JSON: unsupported value: +Inf: numbers must be finite",
            "line 3: cannot be converted to JSON: unsupported value: NaN: numbers must be finite",
            "line 4: cannot be converted to JSON: null cannot be the name of a field",
            "line 5: cannot be converted to JSON: cannot decode !!str `x` as a !!int",
            "line 6: cannot be converted to JSON: a list cannot be the name of a field",
            "line 8: cannot be converted to JSON: !!binary value contains invalid base64 data",
        ]
    );
}

#[test]
fn text_after_the_document_is_an_error() {
    assert_eq!(
        errors("a: b\n...\nc: d\n"),
        ["line 3: is not valid YAML: a second document begins without `---` before it"]
    );
    assert_eq!(parse("a: b\n...\n# the end\n").unwrap(), json!({"a": "b"}));
}

#[test]
fn tabs_may_not_indent_but_may_occur_elsewhere() {
    for (text, line) in
        [("a:\n\tb: 1\n", 2), ("a: 1\n \t\nb: 2\n", 2), ("- a\n\t# b\n", 2), ("a: |\n  b\nc:\n\t- d\n", 4)]
    {
        let rejections = errors(text);
        assert!(rejections[0].starts_with(&format!("line {line}: is not valid YAML: tab")), "{text:?}: {rejections:?}");
    }
    for text in ["a: \tb\n", "a: {b: 1,\n\tc: [2]\n\t}\n", "a: |\n  b\n  \tc\n", "a: 'b\n  \tc'\n", "a: b\t# c\n"] {
        assert!(parse(text).is_ok(), "{text:?}: {:?}", parse(text));
    }
}

#[test]
fn no_text_makes_the_parser_hang_or_overflow() {
    for deep in ["[".repeat(100_000), "{a: ".repeat(100_000), "- ".repeat(100_000), "? ".repeat(10_000)] {
        assert!(parse(&deep).is_err());
    }
    // A billion strings in a few lines.
    let tenfold =
        (1..10).map(|level| format!("a{level}: &a{level} [{}]\n", vec![format!("*a{}", level - 1); 10].join(", ")));
    let text: String = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n".to_owned()].into_iter().chain(tenfold).collect();
    assert_eq!(errors(&text), ["line 6: is not valid YAML: document contains excessive aliasing"]);
    // Each level is flat in the text.
    let deeper = (1..1000).map(|level| format!("a{level}: &a{level} [*a{}]\n", level - 1));
    let text: String = ["a0: &a0 [x]\n".to_owned()].into_iter().chain(deeper).collect();
    let rejections = errors(&text);
    assert!(rejections[0].contains("nested more than 128 levels deep"), "{rejections:?}");
}

#[test]
fn nesting_is_checked_without_reading_further_than_needed() {
    assert_eq!(check_nesting(&format!("a: {}{}", "[".repeat(127), "]".repeat(127))), Ok(()));
    // The text after the first value that is nested too deeply is not read: it is not valid.
    let deep = format!("{}\n\t: ]]}}", "[".repeat(100_000));
    assert_eq!(check_nesting(&deep), Err(NestingError::TooDeep(DEPTH_MAX)));
    assert!(matches!(check_nesting("a: [1"), Err(NestingError::Syntax(_))));
}
