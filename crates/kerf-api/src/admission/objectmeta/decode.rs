//! Decodes metadata into the form in which it is stored: only the fields of `ObjectMeta`, empty
//! fields omitted, timestamps in UTC with seconds. A field with a wrong type rejects the whole
//! object with the error text of Go's JSON decoder.

use serde_json::{Map, Value};

use super::super::number::{JsonNumber, whole_i64};
use super::super::{text, time};

/// Decoded metadata, and the paths (inside `metadata`) of fields that `ObjectMeta` does not have.
pub(crate) struct DecodedMetadata {
    pub(crate) metadata: Map<String, Value>,
    pub(crate) unknown: Vec<String>,
}

/// Decodes the value of an object's `metadata`. Null or an absent value gives empty metadata.
pub(crate) fn decode(metadata: &Value) -> Result<DecodedMetadata, String> {
    let mut unknown = Vec::new();
    let metadata = match metadata {
        Value::Null => Map::new(),
        Value::Object(fields) => decode_struct(&OBJECT_META, fields, "", &mut unknown)?,
        other => {
            return Err(format!("json: cannot unmarshal {} into Go value of type v1.ObjectMeta", json_type(other)));
        }
    };
    Ok(DecodedMetadata { metadata, unknown })
}

struct GoStruct {
    go_name: &'static str,
    fields: &'static [GoField],
}

struct GoField {
    name: &'static str,
    field_type: GoFieldType,
    /// True if the zero value is omitted when the object is written.
    omit_empty: bool,
}

enum GoFieldType {
    Text,
    Uid,
    Int64,
    Int64Pointer,
    BoolPointer,
    Instant,
    TextMap,
    TextList,
    List(&'static GoStruct),
    /// Raw JSON, kept unchanged.
    Raw,
}

const fn omit_empty_field(name: &'static str, field_type: GoFieldType) -> GoField {
    GoField { name, field_type, omit_empty: true }
}

const fn always_written_field(name: &'static str, field_type: GoFieldType) -> GoField {
    GoField { name, field_type, omit_empty: false }
}

static OBJECT_META: GoStruct = GoStruct {
    go_name: "ObjectMeta",
    fields: &[
        omit_empty_field("name", GoFieldType::Text),
        omit_empty_field("generateName", GoFieldType::Text),
        omit_empty_field("namespace", GoFieldType::Text),
        omit_empty_field("selfLink", GoFieldType::Text),
        omit_empty_field("uid", GoFieldType::Uid),
        omit_empty_field("resourceVersion", GoFieldType::Text),
        omit_empty_field("generation", GoFieldType::Int64),
        omit_empty_field("creationTimestamp", GoFieldType::Instant),
        omit_empty_field("deletionTimestamp", GoFieldType::Instant),
        omit_empty_field("deletionGracePeriodSeconds", GoFieldType::Int64Pointer),
        omit_empty_field("labels", GoFieldType::TextMap),
        omit_empty_field("annotations", GoFieldType::TextMap),
        omit_empty_field("ownerReferences", GoFieldType::List(&OWNER_REFERENCE)),
        omit_empty_field("finalizers", GoFieldType::TextList),
        omit_empty_field("managedFields", GoFieldType::List(&MANAGED_FIELDS)),
    ],
};

static OWNER_REFERENCE: GoStruct = GoStruct {
    go_name: "OwnerReference",
    fields: &[
        always_written_field("apiVersion", GoFieldType::Text),
        always_written_field("kind", GoFieldType::Text),
        always_written_field("name", GoFieldType::Text),
        always_written_field("uid", GoFieldType::Uid),
        omit_empty_field("controller", GoFieldType::BoolPointer),
        omit_empty_field("blockOwnerDeletion", GoFieldType::BoolPointer),
    ],
};

static MANAGED_FIELDS: GoStruct = GoStruct {
    go_name: "ManagedFieldsEntry",
    fields: &[
        omit_empty_field("manager", GoFieldType::Text),
        omit_empty_field("operation", GoFieldType::Text),
        omit_empty_field("apiVersion", GoFieldType::Text),
        omit_empty_field("time", GoFieldType::Instant),
        omit_empty_field("fieldsType", GoFieldType::Text),
        omit_empty_field("fieldsV1", GoFieldType::Raw),
        omit_empty_field("subresource", GoFieldType::Text),
    ],
};

fn decode_struct(
    go_struct: &GoStruct,
    fields: &Map<String, Value>,
    path: &str,
    unknown: &mut Vec<String>,
) -> Result<Map<String, Value>, String> {
    let mut decoded = Map::new();
    for (name, value) in fields {
        let at = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
        let Some(known_field) = go_struct.fields.iter().find(|field| field.name == name) else {
            unknown.push(at);
            continue;
        };
        let context = format!("{}.{}", "ObjectMeta", strip_indices(&at));
        if let Some(value) = decode_field(&known_field.field_type, value, &at, &context, unknown)?
            && !(known_field.omit_empty && is_empty(&value, &known_field.field_type))
        {
            decoded.insert(name.clone(), value);
        }
    }
    for required in go_struct.fields.iter().filter(|field| !field.omit_empty) {
        decoded.entry(required.name).or_insert_with(|| Value::String(String::new()));
    }
    Ok(decoded)
}

/// Decodes one field. Returns `None` for null, which leaves the field at its zero value.
fn decode_field(
    field_type: &GoFieldType,
    value: &Value,
    at: &str,
    context: &str,
    unknown: &mut Vec<String>,
) -> Result<Option<Value>, String> {
    let type_error = |value: &Value, go_type: &str| {
        Err(format!("json: cannot unmarshal {} into Go struct field {context} of type {go_type}", json_type(value)))
    };
    let string_or_error = |value: &Value, go_type: &str| match value {
        Value::String(_) => Ok(Some(value.clone())),
        Value::Null => Ok(Some(Value::String(String::new()))),
        other => type_error(other, go_type),
    };
    if value.is_null() {
        return Ok(None);
    }
    match (field_type, value) {
        (GoFieldType::Raw, value) => Ok(Some(value.clone())),
        (GoFieldType::Text, value) => string_or_error(value, "string"),
        (GoFieldType::Uid, value) => string_or_error(value, "types.UID"),
        (GoFieldType::BoolPointer, Value::Bool(_)) => Ok(Some(value.clone())),
        (GoFieldType::BoolPointer, other) => type_error(other, "bool"),
        (GoFieldType::Int64 | GoFieldType::Int64Pointer, Value::Number(number)) => match JsonNumber::of(number) {
            JsonNumber::Int(n) => Ok(Some(n.into())),
            // The API server converts metadata to JSON text once more, which writes a whole float
            // without a decimal point.
            JsonNumber::Float(f) => match whole_i64(f) {
                Some(n) => Ok(Some(n.into())),
                None => Err(format!(
                    "json: cannot unmarshal number {} into Go struct field {context} of type int64",
                    text::json_number(number)
                )),
            },
        },
        (GoFieldType::Int64 | GoFieldType::Int64Pointer, other) => type_error(other, "int64"),
        (GoFieldType::Instant, Value::String(instant)) => decode_instant(instant).map(Some),
        (GoFieldType::Instant, other) => type_error(other, "string"),
        (GoFieldType::TextMap, Value::Object(entries)) => {
            let mut decoded = Map::new();
            for (key, value) in entries {
                if let Some(value) = string_or_error(value, "string")? {
                    decoded.insert(key.clone(), value);
                }
            }
            Ok(Some(Value::Object(decoded)))
        }
        (GoFieldType::TextMap, other) => type_error(other, "map[string]string"),
        (GoFieldType::TextList, Value::Array(items)) => {
            let items: Result<Vec<Option<Value>>, String> =
                items.iter().map(|item| string_or_error(item, "string")).collect();
            Ok(Some(items?.into_iter().flatten().collect()))
        }
        (GoFieldType::TextList, other) => type_error(other, "[]string"),
        (GoFieldType::List(element), Value::Array(items)) => {
            let mut decoded = Vec::with_capacity(items.len());
            for (i, item) in items.iter().enumerate() {
                let at = format!("{at}[{i}]");
                decoded.push(Value::Object(match item {
                    Value::Object(fields) => decode_struct(element, fields, &at, unknown)?,
                    Value::Null => decode_struct(element, &Map::new(), &at, unknown)?,
                    other => return type_error(other, &format!("v1.{}", element.go_name)),
                }));
            }
            Ok(Some(Value::Array(decoded)))
        }
        (GoFieldType::List(element), other) => type_error(other, &format!("[]v1.{}", element.go_name)),
    }
}

/// Parses a timestamp and formats it as Kubernetes stores it: in UTC, without fractions of a
/// second.
fn decode_instant(instant: &str) -> Result<Value, String> {
    const LAYOUT: &str = "\"2006-01-02T15:04:05Z07:00\"";
    let zoned = instant.ends_with('Z') || instant.get(19..).is_some_and(|rest| rest.contains(['+', '-']));
    if let Some(timestamp) = time::parse_timestamp(instant).filter(|_| zoned) {
        Ok(timestamp.strftime("%Y-%m-%dT%H:%M:%SZ").to_string().into())
    } else {
        let quoted = text::quote(instant);
        Err(format!("parsing time {quoted} as {LAYOUT}: cannot parse {quoted} as \"2006\""))
    }
}

fn is_empty(value: &Value, field_type: &GoFieldType) -> bool {
    match value {
        Value::String(text) => text.is_empty(),
        Value::Object(entries) => entries.is_empty() && !matches!(field_type, GoFieldType::Raw),
        Value::Array(items) => items.is_empty(),
        Value::Number(number) => matches!(field_type, GoFieldType::Int64) && number.as_i64() == Some(0),
        Value::Null | Value::Bool(_) => false,
    }
}

fn strip_indices(path: &str) -> String {
    let mut out = String::with_capacity(path.len());
    let mut inside = false;
    for c in path.chars() {
        match c {
            '[' => inside = true,
            ']' => inside = false,
            c if !inside => out.push(c),
            _ => {}
        }
    }
    out
}

fn json_type(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "bool",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}
