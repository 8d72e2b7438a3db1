//! Columns of each kind and the functions that fill them. A kind without a [`TableLayout`] has the
//! columns name and creation time.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::{age, cluster, node, pod, storage, workload};
use crate::api::custom;
use crate::api::object;
use crate::api::registry::{Resource, ResourceOrigin};

/// An object to show, and the current time.
pub(crate) struct TableRow<'a> {
    pub(crate) object: &'a Value,
    pub(crate) now: Timestamp,
}

impl TableRow<'_> {
    pub(crate) fn name(&self) -> Value {
        object::name(self.object).into()
    }

    pub(crate) fn age(&self) -> Value {
        age(self.object, &["metadata", "creationTimestamp"], self.now).into()
    }

    /// Returns the text at `path`, or an empty text.
    pub(super) fn text(&self, path: &[&str]) -> Value {
        object::text(self.object, path).into()
    }

    /// Returns the text at `path`, or `none` if it is empty.
    pub(super) fn text_or(&self, path: &[&str], none: &str) -> Value {
        match object::text(self.object, path) {
            "" => none.into(),
            text => text.into(),
        }
    }

    /// Returns the number at `path`, or zero.
    pub(super) fn number(&self, path: &[&str]) -> i64 {
        object::number(self.object, path).unwrap_or_default()
    }

    /// Returns the number of items or entries at `path`.
    pub(super) fn count(&self, path: &[&str]) -> i64 {
        match object::at(self.object, path) {
            Some(Value::Array(items)) => items.len() as i64,
            Some(Value::Object(entries)) => entries.len() as i64,
            _ => 0,
        }
    }
}

/// The columns of a kind in `kubectl get` and the function that fills them. Prefix `*`: only with
/// `-o wide`. Suffix `#`: a number. Suffix `?`: a bool.
pub(super) struct TableLayout {
    pub(super) group: &'static str,
    pub(super) plural: &'static str,
    pub(super) columns: &'static [&'static str],
    pub(super) cells: fn(&TableRow<'_>) -> Vec<Value>,
}

const LAYOUTS_BY_FAMILY: [&[TableLayout]; 5] =
    [pod::LAYOUTS, node::LAYOUTS, workload::LAYOUTS, storage::LAYOUTS, cluster::LAYOUTS];

fn layout_of(resource: &Resource) -> Option<&'static TableLayout> {
    // Both API versions of Events share their layout, because they share the stored form.
    let group = if resource.plural == "events" { "" } else { resource.group.as_str() };
    LAYOUTS_BY_FAMILY
        .iter()
        .flat_map(|family| family.iter())
        .find(|layout| layout.group == group && layout.plural == resource.plural)
}

pub(super) fn columns(resource: &Resource) -> Value {
    if let ResourceOrigin::Custom(kind) = &resource.origin {
        return custom::columns(kind);
    }
    match layout_of(resource) {
        Some(layout) => layout.columns.iter().map(|column| column_definition(column)).collect(),
        None => {
            json!([column_definition("Name"), {"name": "Created At", "type": "date", "format": "", "description": "", "priority": 0}])
        }
    }
}

fn column_definition(column: &str) -> Value {
    let priority = i32::from(column.starts_with('*'));
    let (name, kind) = match column.trim_start_matches('*') {
        column if column.ends_with('#') => (column.trim_end_matches('#'), "integer"),
        column if column.ends_with('?') => (column.trim_end_matches('?'), "boolean"),
        column => (column, "string"),
    };
    let format = if name == "Name" { "name" } else { "" };
    json!({"name": name, "type": kind, "format": format, "description": "", "priority": priority})
}

pub(super) fn cells(resource: &Resource, row: &TableRow<'_>) -> Vec<Value> {
    if let ResourceOrigin::Custom(kind) = &resource.origin {
        return custom::cells(kind, row);
    }
    match layout_of(resource) {
        Some(layout) => (layout.cells)(row),
        None => vec![row.name(), row.text(&["metadata", "creationTimestamp"])],
    }
}

/// Returns the row conditions of completed pods, which `kubectl get` shows in grey.
pub(super) fn conditions(resource: &Resource, object: &Value) -> Option<Value> {
    if !resource.is("", "pods") {
        return None;
    }
    let (reason, message) = match object::text(object, &["status", "phase"]) {
        "Succeeded" => ("Succeeded", "The pod has completed successfully."),
        "Failed" => ("Failed", "The pod failed."),
        _ => return None,
    };
    Some(json!([{"type": "Completed", "status": "True", "reason": reason, "message": message}]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_layout_fills_its_columns_for_any_object() {
        let now = Timestamp::UNIX_EPOCH;
        for layout in LAYOUTS_BY_FAMILY.iter().flat_map(|family| family.iter()) {
            for object in [json!({}), json!([]), json!({"spec": 1, "status": [], "metadata": {"name": 3}})] {
                let cells = (layout.cells)(&TableRow { object: &object, now });
                assert_eq!(cells.len(), layout.columns.len(), "{}", layout.plural);
            }
        }
    }
}
