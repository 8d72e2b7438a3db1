//! Objects that are read for a few of their fields only: each part is decoded by itself from the object's tree, and what does not decode is
//! named with its whole path.

use serde::de::DeserializeOwned;
use serde_json::Value;

use super::decode::{FieldProblem, decode_tree};
use super::documents::ObjectBody;

/// An object that is being taken apart.
pub(super) struct FieldReader {
    tree: Value,
    problems: Vec<FieldProblem>,
}

impl FieldReader {
    /// Begins with an object.
    pub(super) fn of(body: &ObjectBody<'_>) -> Result<Self, Vec<FieldProblem>> {
        let tree = body.tree().map_err(|problem| vec![problem])?;
        Ok(Self { tree, problems: Vec::new() })
    }

    /// Changes the part at a JSON pointer, if there is one.
    pub(super) fn change<R>(&mut self, pointer: &str, change: impl FnOnce(&mut Value) -> R) -> Option<R> {
        self.tree.pointer_mut(pointer).map(change)
    }

    /// The part at a path like `spec.template`; its default if there is none.
    pub(super) fn get<T: DeserializeOwned + Default>(&mut self, path: &str) -> T {
        let mut at = &self.tree;
        for (depth, step) in path.split('.').enumerate() {
            match at {
                Value::Object(fields) => at = fields.get(step).unwrap_or(&Value::Null),
                Value::Null => return T::default(),
                _ => {
                    let parent = path.split('.').take(depth).collect::<Vec<_>>().join(".");
                    self.add_problem(FieldProblem { path: parent, message: "expected an object".to_owned() });
                    return T::default();
                }
            }
        }
        if at.is_null() {
            return T::default();
        }
        decode_tree(at.clone()).unwrap_or_else(|problems| {
            for FieldProblem { path: below, message } in problems {
                let between = if below.is_empty() || below.starts_with('[') { "" } else { "." };
                self.add_problem(FieldProblem { path: format!("{path}{between}{below}"), message });
            }
            T::default()
        })
    }

    /// A number of things, which cannot be negative.
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

    /// Ends with what was put together from the parts, if all of them were as they should be.
    pub(super) fn finish<T>(self, object: T) -> Result<T, Vec<FieldProblem>> {
        if self.problems.is_empty() { Ok(object) } else { Err(self.problems) }
    }

    /// Two parts below the same wrong parent name it once.
    fn add_problem(&mut self, problem: FieldProblem) {
        if !self.problems.contains(&problem) {
            self.problems.push(problem);
        }
    }
}
