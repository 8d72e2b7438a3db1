//! Reads a few fields of an object: each field is decoded by itself from the object's tree, and
//! errors carry the full path of the field.

use serde::de::DeserializeOwned;
use serde_json::Value;

use super::decode::{FieldProblem, decode_tree};
use super::documents::ObjectBody;

/// Reader of single fields of an object; collects problems until [`FieldReader::finish`].
pub(super) struct FieldReader {
    tree: Value,
    problems: Vec<FieldProblem>,
}

impl FieldReader {
    /// Parses an object.
    pub(super) fn of(body: &ObjectBody<'_>) -> Result<Self, Vec<FieldProblem>> {
        let tree = body.tree().map_err(|problem| vec![problem])?;
        Ok(Self { tree, problems: Vec::new() })
    }

    /// Applies `change` to the value at a JSON pointer. Returns `None` if there is no such value.
    pub(super) fn change<R>(&mut self, pointer: &str, change: impl FnOnce(&mut Value) -> R) -> Option<R> {
        self.tree.pointer_mut(pointer).map(change)
    }

    /// Decodes the field at a path such as `spec.template`; returns the default if the field is
    /// missing or invalid.
    pub(super) fn get<T: DeserializeOwned + Default>(&mut self, path: &str) -> T {
        let mut value = &self.tree;
        for (depth, step) in path.split('.').enumerate() {
            match value {
                Value::Object(fields) => value = fields.get(step).unwrap_or(&Value::Null),
                Value::Null => return T::default(),
                _ => {
                    let parent = path.split('.').take(depth).collect::<Vec<_>>().join(".");
                    self.add_problem(FieldProblem { path: parent, message: "expected an object".to_owned() });
                    return T::default();
                }
            }
        }
        if value.is_null() {
            return T::default();
        }
        decode_tree(value.clone()).unwrap_or_else(|problems| {
            for FieldProblem { path: subpath, message } in problems {
                let separator = if subpath.is_empty() || subpath.starts_with('[') { "" } else { "." };
                self.add_problem(FieldProblem { path: format!("{path}{separator}{subpath}"), message });
            }
            T::default()
        })
    }

    /// Decodes a count, which must not be negative; `None` if the field is missing or invalid.
    pub(super) fn count(&mut self, path: &str) -> Option<u32> {
        let count: Option<i32> = self.get(path);
        let count = count?;
        u32::try_from(count)
            .inspect_err(|_| {
                let message = format!("Invalid value: {count}: must be greater than or equal to 0");
                self.add_problem(FieldProblem { path: path.to_owned(), message });
            })
            .ok()
    }

    /// Returns `object`, or all problems if any field was invalid.
    pub(super) fn finish<T>(self, object: T) -> Result<T, Vec<FieldProblem>> {
        if self.problems.is_empty() { Ok(object) } else { Err(self.problems) }
    }

    /// Adds a problem once: two fields below the same invalid parent report the same problem.
    fn add_problem(&mut self, problem: FieldProblem) {
        if !self.problems.contains(&problem) {
            self.problems.push(problem);
        }
    }
}
