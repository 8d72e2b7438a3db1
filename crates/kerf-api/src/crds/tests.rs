//! Compares the CRDs with the tables of the specification: the fields of `01-api-fields.csv`, and
//! the names and printer columns of spec 01 §1.

mod fields;
mod spec_tables;

use std::path::PathBuf;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    CustomResourceDefinition, JSONSchemaProps, JSONSchemaPropsOrArray, JSONSchemaPropsOrBool,
};

use super::*;

/// Returns the schema fields of all kinds that the table lists.
fn rows(variant: CrdVariant) -> Vec<fields::FieldRow> {
    all(variant).iter().filter(|crd| crd.kind != "KWOKNodeClass").flat_map(fields::schema_fields).collect()
}

#[test]
fn the_schemas_have_every_field_of_the_specification_and_no_other() {
    let (mut specified, mut generated) = (fields::specified_fields(), rows(CrdVariant::Aws));
    specified.sort();
    generated.sort();
    let show = |rows: &[fields::FieldRow]| rows.iter().map(ToString::to_string).collect::<Vec<_>>();
    let (specified, generated) = (show(&specified), show(&generated));
    let missing: Vec<_> = specified.iter().filter(|row| !generated.contains(row)).collect();
    let extra: Vec<_> = generated.iter().filter(|row| !specified.contains(row)).collect();
    assert!(missing.is_empty() && extra.is_empty(), "missing: {missing:#?}\nextra: {extra:#?}");
    assert_eq!(specified.len(), generated.len(), "each field once");
    assert!(specified.len() > 200, "the table of the specification was parsed");
}

#[test]
fn the_fields_of_the_simulated_node_class_are_those_of_spec_04_14_1() {
    let rows: Vec<String> =
        fields::schema_fields(&of::<KWOKNodeClass>(CrdVariant::Kwok)).iter().map(ToString::to_string).collect();
    for row in [
        "KWOKNodeClass spec: object, optional",
        "KWOKNodeClass spec.nodeRegistrationDelay: string, optional, pattern ^([0-9]+(s|m|h))+$",
        "KWOKNodeClass status.conditions: array<object>, optional, list-type unset (treated as atomic)",
    ] {
        assert!(rows.iter().any(|r| r == row), "{row} is not in {rows:#?}");
    }
    let status = of::<KWOKNodeClass>(CrdVariant::Kwok).json["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["status"].clone();
    assert_eq!(status["default"]["conditions"][0]["lastTransitionTime"], "2024-01-01T01:01:01Z");
    assert_eq!(status["default"]["conditions"][0]["status"], "True");
}

#[test]
fn names_scopes_and_subresources_are_those_of_the_inventory() {
    let specified = spec_tables::inventory();
    assert_eq!(specified.len(), 5);
    for expected in specified {
        let crds = all(CrdVariant::Aws);
        let crd = crds.iter().find(|crd| crd.kind == expected.kind).unwrap();
        assert_eq!(spec_tables::InventoryRow::of(crd), expected);
    }
    let kwok = spec_tables::InventoryRow::of(&of::<KWOKNodeClass>(CrdVariant::Aws));
    assert_eq!((kwok.version.as_str(), kwok.scope.as_str()), ("karpenter.kwok.sh/v1alpha1", "Cluster"));
    assert_eq!(kwok.short_names, ["kwoknc", "kwokncs"]);
}

#[test]
fn printer_columns_are_those_of_the_specification() {
    let specified = spec_tables::columns();
    let generated: Vec<_> = ["NodePool", "NodeClaim", "NodeOverlay", "CapacityBuffer", "EC2NodeClass"]
        .into_iter()
        .flat_map(|kind| spec_tables::columns_of(all(CrdVariant::Aws).iter().find(|crd| crd.kind == kind).unwrap()))
        .collect();
    assert_eq!(generated, specified);
    assert_eq!(specified.len(), 31);
}

#[test]
fn every_field_is_described() {
    for crd in all(CrdVariant::Aws) {
        let schema = &crd.json["spec"]["versions"][0]["schema"]["openAPIV3Schema"];
        let undescribed = fields::undescribed(schema, String::new());
        assert_eq!(undescribed, [".metadata"], "{}", crd.kind);
        assert!(schema["description"].as_str().unwrap().starts_with(crd.kind));
    }
}

// spec 01 §10.2: the variants differ only in the provider's rule.
#[test]
fn variants_differ_only_in_the_protected_domain() {
    let without_provider_rules = |variant| {
        rows(variant)
            .into_iter()
            .map(|mut row| {
                row.validations.retain(|text| {
                    !text.contains("karpenter.k8s.aws\" is") && !text.contains("karpenter.kwok.sh\" is")
                });
                row
            })
            .collect::<Vec<_>>()
    };
    assert_eq!(without_provider_rules(CrdVariant::Aws), without_provider_rules(CrdVariant::Kwok));
    let protected_fields: Vec<String> = rows(CrdVariant::Kwok)
        .iter()
        .filter(|row| {
            row.validations.iter().any(|text| text.contains("label domain \"karpenter.kwok.sh\" is restricted"))
        })
        .map(|row| format!("{} {}", row.kind, row.path))
        .collect();
    assert_eq!(
        protected_fields,
        ["NodeClaim spec.requirements[].key", "NodePool spec.template.spec.requirements[].key"]
    );
    assert!(
        rows(CrdVariant::Kwok)
            .iter()
            .all(|row| row.validations.iter().all(|text| !text.contains("karpenter.k8s.aws\" is")))
    );
}

/// A keyword that the API's own type does not declare would be dropped silently.
#[test]
fn every_keyword_is_declared_by_the_api_server() {
    for variant in [CrdVariant::Aws, CrdVariant::Kwok] {
        for crd in all(variant) {
            let typed: CustomResourceDefinition = serde_json::from_value(crd.json.clone()).unwrap();
            let schema = typed.spec.versions[0].schema.as_ref().unwrap().open_api_v3_schema.as_ref().unwrap();
            check_no_keyword_is_dropped(
                schema,
                &crd.json["spec"]["versions"][0]["schema"]["openAPIV3Schema"],
                crd.kind,
            );
        }
    }
}

fn check_no_keyword_is_dropped(typed: &JSONSchemaProps, json: &Value, path: &str) {
    let typed_json = serde_json::to_value(typed).unwrap();
    let names = |value: &Value| value.as_object().unwrap().keys().cloned().collect::<Vec<_>>();
    assert_eq!(names(&typed_json), names(json), "{path}");
    for (name, property) in typed.properties.iter().flatten() {
        check_no_keyword_is_dropped(property, &json["properties"][name], &format!("{path}.{name}"));
    }
    if let Some(JSONSchemaPropsOrArray::Schema(items)) = &typed.items {
        check_no_keyword_is_dropped(items, &json["items"], &format!("{path}[]"));
    }
    if let Some(JSONSchemaPropsOrBool::Schema(values)) = &typed.additional_properties {
        check_no_keyword_is_dropped(values, &json["additionalProperties"], &format!("{path}{{}}"));
    }
}

fn deployed_path(crd: &Crd) -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../deploy/crds")).join(crd.file_name())
}

/// `KERF_UPDATE=1 cargo test -p kerf-api crds` writes the files.
#[test]
fn the_deployed_files_match_the_types() {
    for crd in all(CrdVariant::default()) {
        let yaml = crd.to_yaml();
        if std::env::var_os("KERF_UPDATE").is_some() {
            std::fs::write(deployed_path(&crd), &yaml).unwrap();
        }
        let stored = std::fs::read_to_string(deployed_path(&crd)).unwrap_or_default();
        assert!(
            stored == yaml,
            "deploy/crds/{} is out of date; run `KERF_UPDATE=1 cargo test -p kerf-api crds` to write it",
            crd.file_name()
        );
        assert_eq!(serde_yaml_ng::from_str::<Value>(&yaml).unwrap(), crd.json);
    }
    let names: Vec<String> = all(CrdVariant::default()).iter().map(Crd::file_name).collect();
    for entry in std::fs::read_dir(deployed_path(&all(CrdVariant::default())[0]).parent().unwrap()).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        assert!(names.contains(&name), "deploy/crds/{name} is not the CRD of any kind");
    }
}
