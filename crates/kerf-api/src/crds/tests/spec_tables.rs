//! Reads the two tables of spec 01 §1: the inventory and the printer columns.

use serde_json::Value;

use super::super::Crd;

const SPECIFICATION: &str = include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/spec/01-api.md"));

/// Names, scope and subresources of a kind.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct InventoryRow {
    pub(super) kind: String,
    pub(super) version: String,
    pub(super) scope: String,
    plural: String,
    singular: String,
    pub(super) short_names: Vec<String>,
    category: String,
    subresources: Vec<String>,
}

impl InventoryRow {
    pub(super) fn of(crd: &Crd) -> Self {
        let spec = &crd.json["spec"];
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        let names = &spec["names"];
        assert_eq!(text(&names["listKind"]), format!("{}List", text(&names["kind"])));
        assert_eq!(text(&crd.json["metadata"]["name"]), format!("{}.{}", text(&names["plural"]), text(&spec["group"])));
        assert_eq!(spec["versions"].as_array().unwrap().len(), 1);
        let [category] = names["categories"].as_array().unwrap().as_slice() else { panic!("{names}") };
        Self {
            kind: text(&names["kind"]),
            version: format!("{}/{}", text(&spec["group"]), text(&spec["versions"][0]["name"])),
            scope: text(&spec["scope"]),
            plural: text(&names["plural"]),
            singular: text(&names["singular"]),
            short_names: names["shortNames"].as_array().into_iter().flatten().map(text).collect(),
            category: text(category),
            subresources: spec["versions"][0]["subresources"].as_object().unwrap().keys().cloned().collect(),
        }
    }
}

pub(super) fn inventory() -> Vec<InventoryRow> {
    table("| Kind | Group/version |")
        .into_iter()
        .map(|row| {
            let [kind, version, scope, names, short_names, category, subresources] =
                <[String; 7]>::try_from(row).unwrap();
            let list =
                |cell: &str| -> Vec<String> { cell.split(", ").map(unquoted).filter(|name| name != "–").collect() };
            let (plural, singular) = names.split_once(" / ").unwrap();
            let mut subresources = list(&subresources);
            subresources.sort();
            InventoryRow {
                kind: unquoted(&kind),
                version: unquoted(&version),
                scope: unquoted(&scope),
                plural: unquoted(plural),
                singular: unquoted(singular),
                short_names: list(&short_names),
                category: unquoted(&category),
                subresources,
            }
        })
        .collect()
}

/// Returns kind, name, type, path and priority of each printer column.
pub(super) fn columns() -> Vec<[String; 5]> {
    let mut kind = String::new();
    table("| Kind | Column | Type | jsonPath |")
        .into_iter()
        .map(|row| {
            let [row_kind, name, column_type, path, priority] = <[String; 5]>::try_from(row).unwrap();
            if !row_kind.is_empty() {
                kind = row_kind;
            }
            [kind.clone(), name, column_type, unquoted(&path), priority]
        })
        .collect()
}

pub(super) fn columns_of(crd: &Crd) -> Vec<[String; 5]> {
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let columns = crd.json["spec"]["versions"][0]["additionalPrinterColumns"].as_array().unwrap();
    columns
        .iter()
        .map(|column| {
            let priority = column.get("priority").map_or_else(|| "0".to_owned(), Value::to_string);
            [crd.kind.to_owned(), text(&column["name"]), text(&column["type"]), text(&column["jsonPath"]), priority]
        })
        .collect()
}

/// Returns the cells of the table whose header line starts with `head`.
fn table(head: &str) -> Vec<Vec<String>> {
    SPECIFICATION
        .lines()
        .skip_while(|line| !line.starts_with(head))
        .skip(2)
        .take_while(|line| line.starts_with('|'))
        .map(|line| line.trim_matches('|').split('|').map(|cell| cell.trim().to_owned()).collect())
        .collect()
}

fn unquoted(cell: &str) -> String {
    cell.trim_matches('`').to_owned()
}
