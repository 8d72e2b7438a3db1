//! The types of the built-in kinds, compiled from the schemas of `k8s-openapi` once per process.
//! The JSON schemas are kept for the OpenAPI documents.

use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock};

use schemars::generate::SchemaSettings;
use schemars::{JsonSchema, SchemaGenerator};
use serde_json::{Map, Value};
use smol_str::SmolStr;

use super::merge_keys::{ATOMIC_TYPES, FIELD_ATOMICITY, MERGE_KEYS, MergeKeyRow, short_name};
use super::{
    FieldType, ListKey, ListMergeType, PatchStrategy, ScalarType, Schema, StructField, StructType, TypeArena, TypeIx,
};
use crate::api::kinds;

/// All built-in types, compiled and as JSON schemas.
pub(crate) struct Definitions {
    types: Arc<TypeArena>,
    by_name: BTreeMap<String, TypeIx>,
    /// JSON schemas by definition name. References have the form `#/components/schemas/NAME`.
    pub(crate) json_schemas: Map<String, Value>,
}

/// The prefix of references between JSON schemas.
pub(crate) const SCHEMA_REF_PREFIX: &str = "#/components/schemas/";

static DEFINITIONS: LazyLock<Definitions> = LazyLock::new(|| {
    let mut settings = SchemaSettings::draft2020_12();
    settings.definitions_path = "/components/schemas".into();
    settings.transforms.clear();
    let mut generator = settings.into_generator();
    for register in kinds::schema_registrations() {
        register(&mut generator);
    }
    let json_schemas = generator.take_definitions(false);
    let mut compiler = Compiler { json_schemas: &json_schemas, types: TypeArena::new(), by_name: BTreeMap::new() };
    for name in json_schemas.keys() {
        compiler.compile_definition(name);
    }
    let Compiler { types, by_name, .. } = compiler;
    Definitions { types: Arc::new(types), by_name, json_schemas }
});

/// Returns the built-in types.
pub(crate) fn definitions() -> &'static Definitions {
    &DEFINITIONS
}

/// A function that adds the schemas of one kind's types to a generator.
pub(crate) type RegisterSchema = fn(&mut SchemaGenerator);

/// Adds the schemas of `T` and of all types in it.
pub(crate) fn register_schema<T: JsonSchema>(generator: &mut SchemaGenerator) {
    generator.subschema_for::<T>();
}

impl Definitions {
    /// Returns the schema of a definition. An unknown name gives a schema that allows any value.
    pub(crate) fn schema(&self, definition: &str) -> Schema {
        Schema { types: self.types.clone(), root: self.type_ix(definition) }
    }

    /// Returns the index of a definition's type, or [`TypeArena::ANY`] for an unknown name.
    pub(super) fn type_ix(&self, definition: &str) -> TypeIx {
        self.by_name.get(definition).copied().unwrap_or(TypeArena::ANY)
    }

    pub(super) fn types(&self) -> &TypeArena {
        &self.types
    }
}

struct Compiler<'a> {
    json_schemas: &'a Map<String, Value>,
    types: TypeArena,
    by_name: BTreeMap<String, TypeIx>,
}

impl Compiler<'_> {
    /// Returns the type of a definition, compiled once.
    fn compile_definition(&mut self, name: &str) -> TypeIx {
        if let Some(ix) = self.by_name.get(name) {
            return *ix;
        }
        let ix = self.types.reserve();
        self.by_name.insert(name.into(), ix);
        let json_schemas = self.json_schemas;
        let ty = match name.rsplit('.').next().unwrap_or(name) {
            "Quantity" => FieldType::Scalar(ScalarType::Quantity),
            "IntOrString" => FieldType::Scalar(ScalarType::IntOrString),
            "Time" => FieldType::Scalar(ScalarType::Time),
            "MicroTime" => FieldType::Scalar(ScalarType::MicroTime),
            // Types with several shapes or none: values are kept unchanged.
            "JSON"
            | "JSONSchemaPropsOrArray"
            | "JSONSchemaPropsOrBool"
            | "JSONSchemaPropsOrStringArray"
            | "FieldsV1"
            | "RawExtension" => FieldType::Any,
            _ => json_schemas
                .get(name)
                .map_or(FieldType::Any, |schema| self.type_of_schema(schema, short_name(name), None)),
        };
        self.types.fill(ix, ty);
        ix
    }

    /// Returns the type of a schema that is a reference or an inline schema.
    fn compile_inline_schema(&mut self, schema: &Value, row: Option<&'static MergeKeyRow>) -> TypeIx {
        if let Some(reference) = schema.get("$ref").and_then(Value::as_str) {
            return self.compile_definition(reference.strip_prefix(SCHEMA_REF_PREFIX).unwrap_or(reference));
        }
        let ty = self.type_of_schema(schema, "", row);
        self.types.add(ty)
    }

    fn type_of_schema(&mut self, schema: &Value, name: &str, row: Option<&'static MergeKeyRow>) -> FieldType {
        let text = |key: &str| schema.get(key).and_then(Value::as_str).unwrap_or_default();
        match (text("type"), text("format")) {
            ("string", "byte") => FieldType::Scalar(ScalarType::Bytes),
            ("string", _) => FieldType::Scalar(ScalarType::String),
            ("boolean", _) => FieldType::Scalar(ScalarType::Boolean),
            ("integer", "int32") => FieldType::Scalar(ScalarType::Int32),
            ("integer", _) => FieldType::Scalar(ScalarType::Int64),
            ("number", _) => FieldType::Scalar(ScalarType::Number),
            ("array", _) => {
                let item = schema.get("items").map_or(TypeArena::ANY, |items| self.compile_inline_schema(items, None));
                FieldType::List { item, kind: row.map_or(ListMergeType::Atomic, list_merge_type) }
            }
            ("object", _) => {
                if let Some(properties) = schema.get("properties").and_then(Value::as_object) {
                    let fields = properties
                        .iter()
                        .map(|(key, property)| (SmolStr::from(key), self.field(name, key, property)))
                        .collect();
                    FieldType::Struct(StructType {
                        name: name.rsplit('.').next().unwrap_or(name).into(),
                        fields,
                        atomic: ATOMIC_TYPES.contains(&name),
                        preserves_unknown_fields: false,
                    })
                } else if let Some(values) = schema.get("additionalProperties") {
                    FieldType::Map { value: self.compile_inline_schema(values, None), atomic: false }
                } else {
                    FieldType::Any
                }
            }
            _ => FieldType::Any,
        }
    }

    fn field(&mut self, ty: &str, key: &str, property: &Value) -> StructField {
        let row = MERGE_KEYS.iter().find(|row| row.ty == ty && row.field == key);
        let atomic = FIELD_ATOMICITY
            .iter()
            .find(|(owner, field, _)| *owner == ty && *field == key)
            .map(|(_, _, atomic)| *atomic);
        let patch = row.map_or_else(PatchStrategy::default, |row| PatchStrategy {
            merge: row.merge_key(),
            retain_keys: row.retains_keys(),
            replace: row.replaces(),
        });
        StructField { ty: self.compile_inline_schema(property, row), patch, atomic }
    }
}

fn list_merge_type(row: &'static MergeKeyRow) -> ListMergeType {
    match row.keys {
        "" => ListMergeType::Atomic,
        "*" => ListMergeType::Set,
        keys => ListMergeType::Map(keys.split(',').map(list_key).collect()),
    }
}

fn list_key(text: &str) -> ListKey {
    match text.split_once('=') {
        Some((name, default)) => ListKey { name: name.into(), default: Some(default.into()) },
        None => ListKey { name: text.into(), default: None },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pod() -> Schema {
        definitions().schema("io.k8s.api.core.v1.Pod")
    }

    #[test]
    fn every_row_of_the_table_names_a_field_that_exists() {
        let has_field = |ty: &str, field: &str| {
            let definition = definitions().json_schemas.iter().find(|(name, _)| short_name(name) == ty);
            definition.is_some_and(|(_, schema)| schema["properties"].get(field).is_some())
        };
        for row in MERGE_KEYS {
            assert!(has_field(row.ty, row.field), "{}.{}", row.ty, row.field);
        }
        for (ty, field, _) in FIELD_ATOMICITY {
            assert!(has_field(ty, field), "{ty}.{field}");
        }
        for ty in ATOMIC_TYPES {
            assert!(definitions().json_schemas.keys().any(|name| short_name(name) == *ty), "{ty}");
        }
    }

    #[test]
    fn a_pods_lists_have_their_keys() {
        let schema = pod();
        let spec = schema.root().at_key("spec");
        let keys = |at: super::super::SchemaCursor<'_>| match at.list_merge_type() {
            ListMergeType::Map(keys) => keys.iter().map(|key| key.name.to_string()).collect::<Vec<_>>().join(","),
            ListMergeType::Set => "*".into(),
            ListMergeType::Atomic => String::new(),
        };
        assert_eq!(keys(spec.at_key("containers")), "name");
        assert_eq!(keys(spec.at_key("containers").at_item().at_key("ports")), "containerPort,protocol");
        assert_eq!(keys(spec.at_key("tolerations")), "");
        assert_eq!(keys(schema.root().at_key("metadata").at_key("finalizers")), "*");
        assert!(spec.at_key("nodeSelector").is_atomic());
        assert!(!schema.root().at_key("metadata").at_key("labels").is_atomic());
        assert!(
            spec.at_key("affinity")
                .at_key("nodeAffinity")
                .at_key("requiredDuringSchedulingIgnoredDuringExecution")
                .is_atomic()
        );
        assert!(!spec.at_key("affinity").is_atomic());
    }

    #[test]
    fn a_type_may_contain_itself() {
        let schema =
            definitions().schema("io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.CustomResourceDefinition");
        let props =
            schema.root().at_key("spec").at_key("versions").at_item().at_key("schema").at_key("openAPIV3Schema");
        let deep = props.at_key("properties").at_key("a").at_key("properties").at_key("b");
        assert!(deep.has_field("x-kubernetes-validations"));
    }
}
