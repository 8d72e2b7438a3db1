//! The subset of `JSONPath` that printer columns, scales and selectable fields use: keys, indices,
//! wildcards and filters for equality. Examples: `.status.conditions[?(@.type=="Ready")].status`,
//! `.metadata.labels.karpenter\.sh/nodepool`, `.spec['a.b'][0]`.

use serde_json::Value;
use smol_str::SmolStr;

#[derive(Clone, Debug, PartialEq)]
enum JsonPathStep {
    Key(SmolStr),
    Index(i64),
    Wildcard,
    /// Selects items whose value at `path` equals `text` (or differs, if `equal` is false).
    Filter {
        path: Vec<SmolStr>,
        equal: bool,
        text: SmolStr,
    },
}

/// A parsed path.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct JsonPath(Vec<JsonPathStep>);

impl JsonPath {
    /// Parses a path. Returns `None` if it is invalid or not supported.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let mut rest = text.trim();
        rest = rest.strip_prefix('$').unwrap_or(rest);
        let mut steps = Vec::new();
        while !rest.is_empty() {
            if let Some(after) = rest.strip_prefix('[') {
                let end = closing_bracket(after)?;
                steps.push(bracket(&after[..end])?);
                rest = &after[end + 1..];
            } else {
                let (key, after) = key(rest.strip_prefix('.').unwrap_or(rest));
                match key.as_str() {
                    "" if after.is_empty() && steps.is_empty() => break,
                    "" => return None,
                    "*" => steps.push(JsonPathStep::Wildcard),
                    _ => steps.push(JsonPathStep::Key(key)),
                }
                rest = after;
            }
        }
        Some(Self(steps))
    }

    /// Returns the first value other than null that the path selects.
    pub(crate) fn find<'a>(&self, value: &'a Value) -> Option<&'a Value> {
        let mut values = vec![value];
        for step in &self.0 {
            values = values.into_iter().flat_map(|value| step.select(value)).collect();
        }
        values.into_iter().find(|value| !value.is_null())
    }

    /// Returns the keys of a path that consists of keys only; otherwise nothing.
    pub(crate) fn keys(&self) -> Vec<SmolStr> {
        let keys = self.0.iter().map(|step| match step {
            JsonPathStep::Key(key) => Some(key.clone()),
            JsonPathStep::Index(_) | JsonPathStep::Wildcard | JsonPathStep::Filter { .. } => None,
        });
        keys.collect::<Option<Vec<_>>>().unwrap_or_default()
    }
}

impl JsonPathStep {
    fn select<'a>(&self, value: &'a Value) -> Vec<&'a Value> {
        match (self, value) {
            (Self::Key(key), Value::Object(fields)) => fields.get(key.as_str()).into_iter().collect(),
            (Self::Index(index), Value::Array(items)) => {
                let index = if *index < 0 { items.len() as i64 + index } else { *index };
                usize::try_from(index).ok().and_then(|index| items.get(index)).into_iter().collect()
            }
            (Self::Wildcard, Value::Array(items)) => items.iter().collect(),
            (Self::Wildcard, Value::Object(fields)) => fields.values().collect(),
            (Self::Filter { path, equal, text }, Value::Array(items)) => {
                let matches = |item: &&Value| {
                    let actual = path.iter().try_fold(*item, |value, key| value.get(key.as_str()));
                    actual.is_some_and(|actual| (value_text(actual) == text.as_str()) == *equal)
                };
                items.iter().filter(matches).collect()
            }
            _ => Vec::new(),
        }
    }
}

fn value_text(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_string)
}

/// Splits off a key, up to the next dot or bracket. A backslash escapes the next character.
fn key(text: &str) -> (SmolStr, &str) {
    let mut key = String::new();
    let mut letters = text.char_indices();
    while let Some((index, letter)) = letters.next() {
        match letter {
            '\\' => key.extend(letters.next().map(|(_, letter)| letter)),
            '.' | '[' => return (key.into(), &text[index..]),
            _ => key.push(letter),
        }
    }
    (key.into(), "")
}

/// Returns the index of the closing bracket. Brackets in quotes are ignored.
fn closing_bracket(text: &str) -> Option<usize> {
    let mut quote = None;
    for (index, letter) in text.char_indices() {
        match (quote, letter) {
            (None, ']') => return Some(index),
            (None, '\'' | '"') => quote = Some(letter),
            (Some(open), letter) if letter == open => quote = None,
            _ => {}
        }
    }
    None
}

fn bracket(text: &str) -> Option<JsonPathStep> {
    let text = text.trim();
    if text == "*" {
        return Some(JsonPathStep::Wildcard);
    }
    if let Some(filter) = text.strip_prefix("?(").and_then(|text| text.strip_suffix(')')) {
        let (left, equal, right) = match (filter.split_once("=="), filter.split_once("!=")) {
            (Some((left, right)), _) => (left, true, right),
            (None, Some((left, right))) => (left, false, right),
            (None, None) => return None,
        };
        let path = JsonPath::parse(left.trim().strip_prefix('@')?)?.keys();
        return Some(JsonPathStep::Filter { path, equal, text: unquote(right.trim()).into() });
    }
    match text.parse() {
        Ok(index) => Some(JsonPathStep::Index(index)),
        Err(_) if text.starts_with(['\'', '"']) => Some(JsonPathStep::Key(unquote(text).into())),
        Err(_) => None,
    }
}

fn unquote(text: &str) -> &str {
    let quoted = |quote: char| text.strip_prefix(quote).and_then(|text| text.strip_suffix(quote));
    quoted('"').or_else(|| quoted('\'')).unwrap_or(text)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn paths_select_values() {
        let object = json!({
            "metadata": {"labels": {"karpenter.sh/nodepool": "a"}},
            "spec": {"a.b": [1, {"c": 2}], "list": [{"x": "one"}, {"x": "two"}]},
            "status": {"conditions": [{"type": "Ready", "status": "False"}, {"type": "Up", "status": "True"}]},
        });
        for (path, value) in [
            (".status.conditions[?(@.type==\"Up\")].status", Some(json!("True"))),
            (".status.conditions[?(@.type=='Ready')].status", Some(json!("False"))),
            (".status.conditions[?(@.type!=\"Ready\")].status", Some(json!("True"))),
            (".status.conditions[?(@.type==\"No\")].status", None),
            (".metadata.labels.karpenter\\.sh/nodepool", Some(json!("a"))),
            (".metadata.labels['karpenter.sh/nodepool']", Some(json!("a"))),
            (".spec['a.b'][1].c", Some(json!(2))),
            (".spec.list[-1].x", Some(json!("two"))),
            (".spec.list[*].x", Some(json!("one"))),
            ("$.spec.list[0].x", Some(json!("one"))),
            (".spec.nothing.there", None),
            (".spec.list[7]", None),
        ] {
            let parsed = JsonPath::parse(path);
            assert_eq!(parsed.as_ref().and_then(|path| path.find(&object)).cloned(), value, "{path}");
        }
        for path in ["..a", ".a[", ".a[?(x)]", ".a[b]", ".a[?(@.b)]"] {
            assert_eq!(JsonPath::parse(path), None, "{path}");
        }
    }
}
