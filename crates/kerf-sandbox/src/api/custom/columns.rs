//! Columns of `kubectl get` that a CRD declares (`additionalPrinterColumns`).

use jiff::Timestamp;
use kerf_api::admission::PrinterColumn;
use serde_json::{Value, json};

use super::{CustomKind, JsonPath};
use crate::api::table::{TableRow, human_duration};

pub(super) struct CustomColumn {
    definition: Value,
    kind: String,
    path: Option<JsonPath>,
}

impl CustomColumn {
    pub(super) fn new(column: &PrinterColumn) -> Self {
        let default_description =
            format!("Custom resource definition column (in JSONPath format): {}", column.json_path);
        let definition = json!({
            "name": column.name, "type": column.type_, "format": column.format.as_deref().unwrap_or_default(),
            "description": column.description.clone().filter(|text| !text.is_empty()).unwrap_or(default_description), "priority": column.priority,
        });
        Self { definition, kind: column.type_.clone(), path: JsonPath::parse(&column.json_path) }
    }

    fn cell(&self, row: &TableRow<'_>) -> Value {
        let Some(value) = self.path.as_ref().and_then(|path| path.find(row.object)) else { return Value::Null };
        match (self.kind.as_str(), value) {
            ("integer", Value::Number(number)) => {
                number.as_i64().or_else(|| number.as_f64().map(|number| number as i64)).map_or(Value::Null, Value::from)
            }
            ("number", Value::Number(_)) | ("boolean", Value::Bool(_)) | ("string", Value::String(_)) => value.clone(),
            ("date", Value::String(text)) => match text.parse::<Timestamp>() {
                Ok(at) => human_duration(row.now.duration_since(at).as_secs()).into(),
                Err(_) => "<invalid>".into(),
            },
            ("string", other) => other.to_string().into(),
            _ => Value::Null,
        }
    }
}

/// Returns the columns of a version. A CRD without columns gets the column `Age`.
pub(crate) fn columns(kind: &CustomKind) -> Value {
    let name = json!({"name": "Name", "type": "string", "format": "name", "description": "", "priority": 0});
    let age = json!({"name": "Age", "type": "date", "format": "", "description": "", "priority": 0});
    let own = kind.columns.iter().map(|column| column.definition.clone());
    let age = if kind.columns.is_empty() { Some(age) } else { None };
    [name].into_iter().chain(own).chain(age).collect()
}

/// Returns the cells of one row, in the order of [`columns`].
pub(crate) fn cells(kind: &CustomKind, row: &TableRow<'_>) -> Vec<Value> {
    let own = kind.columns.iter().map(|column| column.cell(row));
    let age = if kind.columns.is_empty() { Some(row.age()) } else { None };
    [row.name()].into_iter().chain(own).chain(age).collect()
}
