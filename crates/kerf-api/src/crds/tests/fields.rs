//! Reads the fields of a schema and those of `docs/spec/01-api-fields.csv` into one form.

use std::fmt;

use serde_json::Value;

use super::super::Crd;

const TABLE: &str = include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/spec/01-api-fields.csv"));

/// Properties of one field.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct FieldRow {
    pub(super) kind: String,
    pub(super) path: String,
    field_type: String,
    default: Option<String>,
    /// `None` for elements of lists and values of maps.
    is_required: Option<bool>,
    /// Validations in the wording of the table. CEL rules keep their order.
    pub(super) validations: Vec<String>,
}

impl fmt::Display for FieldRow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}: {}", self.kind, self.path, self.field_type)?;
        match self.is_required {
            Some(true) => f.write_str(", required")?,
            Some(false) => f.write_str(", optional")?,
            None => {}
        }
        if let Some(default) = &self.default {
            write!(f, ", default {default}")?;
        }
        self.validations.iter().try_for_each(|validation| write!(f, ", {validation}"))
    }
}

pub(super) fn specified_fields() -> Vec<FieldRow> {
    let mut records = csv_records(TABLE).into_iter();
    assert_eq!(records.next().unwrap(), ["kind", "path", "type", "default", "required", "validation"]);
    records
        // Fields inside `kubelet` are not in the schema: the controller checks them.
        .filter(|record| !record[1].starts_with("spec.kubelet."))
        .map(|record| {
            let [kind, path, field_type, default, required, validation] = <[String; 6]>::try_from(record).unwrap();
            let validations = sorted(
                split_validations(&validation)
                    .into_iter()
                    .filter(|text| is_in_schema(&path, text))
                    .map(|text| text.replace(" (declared on the array node, so inert)", ""))
                    .collect(),
            );
            let is_required = match required.as_str() {
                "yes" => Some(true),
                "no" => Some(false),
                "n/a" => None,
                other => panic!("{kind} {path}: required is {other}"),
            };
            let default = (!default.is_empty()).then(|| match serde_json::from_str::<Value>(&default) {
                Ok(json) => json.to_string(),
                Err(_) => Value::String(default).to_string(),
            });
            FieldRow { kind, path, field_type, default, is_required, validations }
        })
        .collect()
}

/// Returns false for remarks in a cell that are not part of the schema.
fn is_in_schema(path: &str, text: &str) -> bool {
    let is_remark = text.contains("immutable") && !text.starts_with("CEL")
        || text.starts_with("presence is")
        || text.starts_with("Karpenter 1.14.x")
        || text.ends_with("(scale subresource)");
    // The minimum of the number of nodes also belongs to the scale subresource.
    !(is_remark || path == "status.nodes" && text == "min 0")
}

/// Splits at `; `, but not inside the backticks of a message.
fn split_validations(cell: &str) -> Vec<String> {
    let mut parts = vec![String::new()];
    let mut is_quoted = false;
    let mut rest = cell;
    while let Some(next) = rest.chars().next() {
        if !is_quoted && rest.starts_with("; ") {
            parts.push(String::new());
            rest = &rest[2..];
            continue;
        }
        is_quoted ^= next == '`';
        parts.last_mut().unwrap().push(next);
        rest = &rest[next.len_utf8()..];
    }
    parts.retain(|part| !part.is_empty());
    parts
}

/// Sorts validations. CEL rules keep their order and come last.
fn sorted(mut validations: Vec<String>) -> Vec<String> {
    validations.sort_by_key(|text| if text.starts_with("CEL") { (true, String::new()) } else { (false, text.clone()) });
    validations
}

pub(super) fn schema_fields(crd: &Crd) -> Vec<FieldRow> {
    let schema = &crd.json["spec"]["versions"][0]["schema"]["openAPIV3Schema"];
    let mut rows = Vec::new();
    walk(crd.kind, schema, "", &mut rows);
    rows.retain(|row| !["apiVersion", "kind", "metadata"].contains(&row.path.as_str()));
    rows
}

fn walk(kind: &str, schema: &Value, path: &str, rows: &mut Vec<FieldRow>) {
    let required = schema["required"].as_array().cloned().unwrap_or_default();
    for (name, property) in schema["properties"].as_object().into_iter().flatten() {
        let path = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
        rows.push(row(kind, property, &path, Some(required.iter().any(|entry| entry == name))));
        walk_inside(kind, property, &path, rows);
    }
}

fn walk_inside(kind: &str, schema: &Value, path: &str, rows: &mut Vec<FieldRow>) {
    for (keyword, suffix) in [("items", "[]"), ("additionalProperties", "{}")] {
        let inner = &schema[keyword];
        let path = format!("{path}{suffix}");
        // A list of objects is described by the objects' fields. A value that preserves unknown
        // fields has no row.
        if inner.is_object() && inner["type"] != "object" && !inner["x-kubernetes-preserve-unknown-fields"].is_boolean()
        {
            rows.push(row(kind, inner, &path, None));
        }
        if inner.is_object() {
            walk_inside(kind, inner, &path, rows);
        }
    }
    walk(kind, schema, path, rows);
}

fn row(kind: &str, schema: &Value, path: &str, is_required: Option<bool>) -> FieldRow {
    FieldRow {
        kind: kind.to_owned(),
        path: path.to_owned(),
        field_type: type_of(schema),
        default: schema.get("default").map(Value::to_string),
        is_required,
        validations: sorted(validations(schema)),
    }
}

fn type_of(schema: &Value) -> String {
    if schema["x-kubernetes-int-or-string"] == true {
        return "int-or-string (quantity)".to_owned();
    }
    let Some(name) = schema["type"].as_str() else { return "any".to_owned() };
    match (name, schema["format"].as_str()) {
        ("object", _) if schema["additionalProperties"].is_object() => {
            format!("map<string,{}>", type_of(&schema["additionalProperties"]))
        }
        ("array", _) => format!("array<{}>", type_of(&schema["items"])),
        (name, Some(format)) => format!("{name}({format})"),
        (name, None) => name.to_owned(),
    }
}

fn validations(schema: &Value) -> Vec<String> {
    let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    let mut validations = Vec::new();
    for (keyword, word) in [
        ("pattern", "pattern"),
        ("minLength", "minLength"),
        ("maxLength", "maxLength"),
        ("minItems", "minItems"),
        ("maxItems", "maxItems"),
        ("maxProperties", "maxProperties"),
        ("minimum", "min"),
        ("maximum", "max"),
        ("x-kubernetes-map-type", "map-type"),
    ] {
        validations.extend(schema.get(keyword).map(|value| format!("{word} {}", text(value))));
    }
    if let Some(values) = schema["enum"].as_array() {
        validations.push(format!("enum {}", values.iter().map(text).collect::<Vec<_>>().join("|")));
    }
    if schema["x-kubernetes-preserve-unknown-fields"] == true {
        validations.push("preserve-unknown-fields".to_owned());
    }
    match (schema["x-kubernetes-list-type"].as_str(), schema["type"].as_str()) {
        (Some("map"), _) => {
            let keys = schema["x-kubernetes-list-map-keys"].as_array().unwrap();
            validations.push(format!("list-type map(key {})", keys.iter().map(text).collect::<Vec<_>>().join(",")));
        }
        (Some(list_type), _) => validations.push(format!("list-type {list_type}")),
        (None, Some("array")) => validations.push("list-type unset (treated as atomic)".to_owned()),
        (None, _) => {}
    }
    for rule in schema["x-kubernetes-validations"].as_array().into_iter().flatten() {
        let when = if text(&rule["rule"]).contains("oldSelf") { " (update only)" } else { "" };
        validations.push(format!("CEL{when}: `{}`", text(&rule["message"])));
    }
    validations
}

/// Returns the paths of properties without a description.
pub(super) fn undescribed(schema: &Value, path: String) -> Vec<String> {
    let mut paths = Vec::new();
    for (name, property) in schema["properties"].as_object().into_iter().flatten() {
        let path = format!("{path}.{name}");
        if property["description"].as_str().is_none_or(|text| text.len() < 10) {
            paths.push(path.clone());
        }
        paths.extend(undescribed(property, path.clone()));
        paths.extend(undescribed(&property["items"], format!("{path}[]")));
    }
    paths
}

/// Parses a comma-separated file with quoted cells.
fn csv_records(text: &str) -> Vec<Vec<String>> {
    text.lines()
        .map(|line| {
            let mut cells = vec![String::new()];
            let mut is_quoted = false;
            let mut characters = line.chars().peekable();
            while let Some(next) = characters.next() {
                match next {
                    '"' if is_quoted && characters.peek() == Some(&'"') => {
                        characters.next();
                        cells.last_mut().unwrap().push('"');
                    }
                    '"' => is_quoted = !is_quoted,
                    ',' if !is_quoted => cells.push(String::new()),
                    other => cells.last_mut().unwrap().push(other),
                }
            }
            cells
        })
        .collect()
}
