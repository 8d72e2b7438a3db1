//! The type of one version of a custom resource, compiled from the schema in its CRD. It contains
//! only what ownership and merging need; admission validates the values.

use std::sync::Arc;

use serde_json::Value;
use smol_str::SmolStr;

use super::{
    FieldType, ListKey, ListMergeType, PatchStrategy, ScalarType, Schema, StructField, StructType, TypeArena, TypeIx,
    definitions,
};

/// The nesting depth below which a schema counts as any value. It is far beyond real schemas and
/// bounds the recursion.
const MAX_SCHEMA_DEPTH: usize = 100;

pub(super) fn compile(open_api: Option<&Value>) -> Schema {
    let mut types = TypeArena::new();
    let metadata =
        types.add(FieldType::BuiltIn(definitions().type_ix("io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta")));
    let root = open_api.map_or(TypeArena::ANY, |schema| compile_type(&mut types, schema, MAX_SCHEMA_DEPTH));
    let mut fields = std::collections::BTreeMap::new();
    let mut preserves_unknown_fields = true;
    if let FieldType::Struct(inner) = std::mem::replace(&mut types.0[root.0 as usize], FieldType::Any) {
        fields = inner.fields;
        preserves_unknown_fields = inner.preserves_unknown_fields;
    }
    fields.insert("metadata".into(), field(metadata));
    for key in ["apiVersion", "kind"] {
        let text = types.add(FieldType::Scalar(ScalarType::String));
        fields.insert(key.into(), field(text));
    }
    let root = types.add(FieldType::Struct(StructType { fields, preserves_unknown_fields, ..StructType::default() }));
    Schema { types: Arc::new(types), root }
}

fn field(ty: TypeIx) -> StructField {
    StructField { ty, patch: PatchStrategy::default(), atomic: None }
}

fn compile_type(types: &mut TypeArena, schema: &Value, depth: usize) -> TypeIx {
    if depth == 0 {
        return TypeArena::ANY;
    }
    let text = |key: &str| schema.get(key).and_then(Value::as_str).unwrap_or_default();
    let flag = |key: &str| schema.get(key).and_then(Value::as_bool).unwrap_or_default();
    if flag("x-kubernetes-int-or-string") {
        return types.add(FieldType::Scalar(ScalarType::IntOrString));
    }
    if schema.get("$ref").is_some() {
        return TypeArena::ANY;
    }
    let atomic = text("x-kubernetes-map-type") == "atomic";
    match text("type") {
        "string" => types.add(FieldType::Scalar(ScalarType::String)),
        "boolean" => types.add(FieldType::Scalar(ScalarType::Boolean)),
        "integer" => types.add(FieldType::Scalar(ScalarType::Int64)),
        "number" => types.add(FieldType::Scalar(ScalarType::Number)),
        "array" => {
            let items = schema.get("items");
            let item = items.map_or(TypeArena::ANY, |items| compile_type(types, items, depth - 1));
            let kind = match text("x-kubernetes-list-type") {
                "set" => ListMergeType::Set,
                "map" => ListMergeType::Map(list_keys(schema, items)),
                _ => ListMergeType::Atomic,
            };
            types.add(FieldType::List { item, kind })
        }
        "object" => {
            if let Some(properties) = schema.get("properties").and_then(Value::as_object) {
                let preserves_unknown_fields =
                    flag("x-kubernetes-preserve-unknown-fields") || schema.get("additionalProperties").is_some();
                let fields = properties
                    .iter()
                    .map(|(key, property)| (SmolStr::from(key), field(compile_type(types, property, depth - 1))))
                    .collect();
                types.add(FieldType::Struct(StructType {
                    fields,
                    atomic,
                    preserves_unknown_fields,
                    ..StructType::default()
                }))
            } else {
                let value = schema.get("additionalProperties").filter(|values| values.is_object());
                let value = value.map_or(TypeArena::ANY, |values| compile_type(types, values, depth - 1));
                types.add(FieldType::Map { value, atomic })
            }
        }
        _ => TypeArena::ANY,
    }
}

fn list_keys(schema: &Value, items: Option<&Value>) -> Box<[ListKey]> {
    let names = schema.get("x-kubernetes-list-map-keys").and_then(Value::as_array).into_iter().flatten();
    let key = |name: &str| {
        let default = items.and_then(|items| items.get("properties")?.get(name)?.get("default")).cloned();
        ListKey { name: name.into(), default }
    };
    names.filter_map(Value::as_str).map(key).collect()
}
