//! Decodes an object's text or tree into the type that decisions read. A value of the wrong type is
//! an error with its path. After an error the object is decoded again without that field, until all
//! such fields are known, so that a user can fix a manifest in one pass.

use std::fmt;

use serde::de::DeserializeOwned;
use serde_json::Value;

use super::documents::ObjectBody;

/// Maximum number of problems that are listed for one object. An object with more problems is
/// probably not of the kind that it names.
const PROBLEMS_MAX: usize = 20;

/// A field that cannot be decoded, or that a rule rejects.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct FieldProblem {
    /// Path such as `spec.containers[0].resources`; empty for the object itself.
    pub(crate) path: String,
    /// The value that was found and the value that was expected.
    pub(crate) message: String,
}

impl FieldProblem {
    /// Returns the problem of a missing required field, in the API server's words.
    pub(crate) fn required(path: &str, message: &str) -> Self {
        Self { path: path.to_owned(), message: format!("Required value: {message}") }
    }
}

impl fmt::Display for FieldProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.path.is_empty() { f.write_str(&self.message) } else { write!(f, "{}: {}", self.path, self.message) }
    }
}

/// Decodes an object. The error lists every field that cannot be decoded.
pub(crate) fn decode<T: DeserializeOwned>(body: &ObjectBody<'_>) -> Result<T, Vec<FieldProblem>> {
    let tree = match body {
        ObjectBody::Json(text) => match serde_json::from_str(text) {
            Ok(object) => return Ok(object),
            // Decode the tree instead: its errors contain no line numbers relative to the object.
            Err(_) => body.tree().map_err(|problem| vec![problem])?,
        },
        ObjectBody::Tree(tree) => match T::deserialize(tree) {
            Ok(object) => return Ok(object),
            Err(_) => tree.clone(),
        },
    };
    decode_tree(tree)
}

/// Decodes a tree, removing the fields that cannot be decoded until the rest can.
pub(crate) fn decode_tree<T: DeserializeOwned>(mut tree: Value) -> Result<T, Vec<FieldProblem>> {
    let mut problems = Vec::new();
    loop {
        match T::deserialize(&tree) {
            Ok(object) if problems.is_empty() => return Ok(object),
            Ok(_) => return Err(problems),
            Err(cause) => {
                let (path, problem) = split_error_path(&cause.to_string());
                problems.push(problem);
                if problems.len() == PROBLEMS_MAX || !remove_field(&mut tree, &path) {
                    return Err(problems);
                }
            }
        }
    }
}

#[cfg(test)]
thread_local! {
    /// Number of calls of [`ObjectBody::tree`] on this thread.
    pub(super) static TREES_BUILT: std::cell::Cell<usize> = const { std::cell::Cell::new(0) };
}

impl ObjectBody<'_> {
    /// Returns the object as a tree. The cost grows with the size of the object, so callers must
    /// not call this for each remark on an object.
    pub(crate) fn tree(&self) -> Result<Value, FieldProblem> {
        #[cfg(test)]
        TREES_BUILT.set(TREES_BUILT.get() + 1);
        match self {
            Self::Json(text) => serde_json::from_str(text)
                .map_err(|cause| FieldProblem { path: String::new(), message: cause.to_string() }),
            Self::Tree(tree) => Ok(tree.clone()),
        }
    }
}

/// Splits `.spec.ports[0]: cause` into the steps of the path and the problem. A cause begins with a
/// letter, a path with a dot or a bracket.
fn split_error_path(text: &str) -> (Vec<String>, FieldProblem) {
    let mut steps = Vec::new();
    let mut rest = text;
    loop {
        let step = if let Some(name) = rest.strip_prefix('.') {
            let end = name.find(['.', '[', ':']).unwrap_or(name.len());
            Some((&name[..end], &name[end..]))
        } else {
            rest.strip_prefix('[').and_then(|key| key.split_once(']'))
        };
        let Some((step, after)) = step else { break };
        steps.push(step.to_owned());
        rest = after;
    }
    let path = text[..text.len() - rest.len()].trim_start_matches('.').to_owned();
    (steps, FieldProblem { path, message: rest.trim_start_matches(": ").to_owned() })
}

/// Removes the field at the path of a problem from the tree.
pub(crate) fn remove_field_at(tree: &mut Value, path: &str) {
    let (steps, _) = split_error_path(&format!(".{path}"));
    remove_field(tree, &steps);
}

/// Removes the field at a path from the tree and returns true if it existed. For an element of a
/// list it removes the whole list: without the element, the indexes of later elements would be
/// wrong.
fn remove_field(tree: &mut Value, path: &[String]) -> bool {
    let Some((step, rest)) = path.split_first() else { return false };
    match tree {
        Value::Object(fields) => {
            let is_removed_below =
                !rest.is_empty() && fields.get_mut(step).is_some_and(|field| remove_field(field, rest));
            is_removed_below || fields.remove(step).is_some()
        }
        Value::Array(elements) => {
            let element = step.parse().ok().and_then(|index: usize| elements.get_mut(index));
            element.is_some_and(|element| remove_field(element, rest))
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => false,
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test may fail by panicking")]

    use kerf_api::slim::Pod;
    use serde_json::json;

    use super::*;

    #[test]
    fn every_invalid_field_is_reported() {
        let object = json!({"metadata": {"name": 1}, "spec": {
            "containers": [{"name": "a"}, {"resources": {"requests": {"cpu": "much", "memory": "1Gi", "x.y/z": []}}}],
            "tolerations": [{}, 3, 4],
            "priority": "high",
        }});
        let text = object.to_string();
        let from_text = decode::<Pod>(&ObjectBody::Json(&text)).unwrap_err();
        assert_eq!(decode::<Pod>(&ObjectBody::Tree(object)).unwrap_err(), from_text);
        let mut paths: Vec<_> = from_text.iter().map(|problem| problem.path.as_str()).collect();
        paths.sort_unstable();
        let requests = "spec.containers[1].resources.requests";
        let expected = [
            "metadata.name",
            "spec.containers[1].resources.requests[cpu]",
            &format!("{requests}[x.y/z]"),
            "spec.priority",
            "spec.tolerations[1]",
        ];
        assert_eq!(paths, expected);
    }

    #[test]
    fn a_value_that_is_not_an_object_is_one_problem() {
        let problems = decode::<Pod>(&ObjectBody::Json("[1]")).unwrap_err();
        assert_eq!((problems.len(), problems[0].path.as_str()), (1, ""));
    }

    #[test]
    fn the_number_of_problems_is_limited() {
        let containers: Vec<Value> = (0..100).map(|_| json!({"name": 1})).collect();
        assert_eq!(
            decode::<Pod>(&ObjectBody::Tree(json!({"spec": {"containers": containers}}))).unwrap_err().len(),
            PROBLEMS_MAX
        );
    }
}
