//! From an object's text or tree to the type that decisions read. A value of the wrong type is an error that carries its path; when there
//! is one, the object is read again without that field until every such field is known: a person wants to mend a manifest once.

use std::fmt;

use serde::de::DeserializeOwned;
use serde_json::Value;

use super::documents::ObjectBody;

/// The most problems that are listed of one object; beyond that it is not what it says it is.
const PROBLEMS_MAX: usize = 20;

/// A field that does not decode.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct FieldProblem {
    /// `spec.containers[0].resources`; empty for the object itself.
    pub(crate) path: String,
    /// What was found and what was expected.
    pub(crate) message: String,
}

impl FieldProblem {
    /// A field that must be there and is not, in the API server's words.
    pub(crate) fn required(path: &str, message: &str) -> Self {
        Self { path: path.to_owned(), message: format!("Required value: {message}") }
    }
}

impl fmt::Display for FieldProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.path.is_empty() { f.write_str(&self.message) } else { write!(f, "{}: {}", self.path, self.message) }
    }
}

/// Decodes an object, or says everything that keeps it from being one.
pub(crate) fn decode<T: DeserializeOwned>(body: &ObjectBody<'_>) -> Result<T, Vec<FieldProblem>> {
    let tree = match body {
        ObjectBody::Json(text) => match serde_json::from_str(text) {
            Ok(object) => return Ok(object),
            // Again from the tree, whose errors have no line within the object.
            Err(_) => body.tree().map_err(|problem| vec![problem])?,
        },
        ObjectBody::Tree(tree) => match T::deserialize(tree) {
            Ok(object) => return Ok(object),
            Err(_) => tree.clone(),
        },
    };
    decode_tree(tree)
}

/// Decodes a tree; on the way it loses the fields that do not decode.
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

impl ObjectBody<'_> {
    /// The object as a tree.
    pub(crate) fn tree(&self) -> Result<Value, FieldProblem> {
        match self {
            Self::Json(text) => serde_json::from_str(text)
                .map_err(|cause| FieldProblem { path: String::new(), message: cause.to_string() }),
            Self::Tree(tree) => Ok(tree.clone()),
        }
    }
}

/// Takes `.spec.ports[0]: cause` apart. A cause begins with a letter, a path with a dot or a bracket.
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

/// Takes the field at the path of a problem out of the tree.
pub(crate) fn remove_field_at(tree: &mut Value, path: &str) {
    let (steps, _) = split_error_path(&format!(".{path}"));
    remove_field(tree, &steps);
}

/// Takes the field that a path leads to out of the tree. For an element of a list that is the whole list: without the element alone the
/// others would answer to wrong numbers.
fn remove_field(tree: &mut Value, path: &[String]) -> bool {
    let Some((step, rest)) = path.split_first() else { return false };
    match tree {
        Value::Object(fields) => {
            let is_deeper = !rest.is_empty() && fields.get_mut(step).is_some_and(|field| remove_field(field, rest));
            is_deeper || fields.remove(step).is_some()
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
    fn every_field_that_does_not_decode_is_named() {
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
    fn an_object_that_is_none_is_one_problem() {
        let problems = decode::<Pod>(&ObjectBody::Json("[1]")).unwrap_err();
        assert_eq!((problems.len(), problems[0].path.as_str()), (1, ""));
    }

    #[test]
    fn a_nonsensical_object_ends_too() {
        let containers: Vec<Value> = (0..100).map(|_| json!({"name": 1})).collect();
        assert_eq!(
            decode::<Pod>(&ObjectBody::Tree(json!({"spec": {"containers": containers}}))).unwrap_err().len(),
            PROBLEMS_MAX
        );
    }
}
