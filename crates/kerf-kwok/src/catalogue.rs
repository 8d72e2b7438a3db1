//! Instance types of the simulated provider: the JSON format of KWOK's file, and the built-in set
//! (spec 04 §14.2).
//!
//! A file is accepted only if every type is valid; otherwise all problems are listed. Offerings
//! with `Available: false` are kept as unavailable. Keys match in any case, because Go's decoder
//! does that and existing files rely on it.

use std::collections::BTreeSet;
use std::sync::Arc;

use kerf_api::labels::{self, LabelRules, kwok};
use kerf_api::quantity::Quantity;
use kerf_api::slim::{NodeSelectorOperator, ResourceList, Str};
use kerf_engine::Price;
use kerf_engine::catalogue::{InstanceType, InstanceTypes, Offering, OfferingState, Overhead};
use kerf_engine::requirement::{EffectiveOperator, Requirement, Requirements};
use serde_json::{Map, Value};

/// Instance types and the rules about their labels.
#[derive(Debug, Clone)]
pub struct Catalogue {
    /// Instance types, sorted by name.
    pub types: InstanceTypes,
    /// The simulated provider's label rules. Every label key that an offering names is well known.
    pub label_rules: LabelRules,
}

/// One problem in an instance type file.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{path}{}{message}", if .path.is_empty() { "" } else { ": " })]
pub struct CatalogueProblem {
    /// JSON path of the problem, for example `[3].offerings[0].Price`; empty for the whole file.
    pub path: String,
    /// Description of the problem and of the expected value.
    pub message: String,
}

/// Parses an instance type file. On failure returns every problem of the file.
pub fn parse_catalogue(text: &str) -> Result<Catalogue, Vec<CatalogueProblem>> {
    let problem = |path: &str, message: String| vec![CatalogueProblem { path: path.into(), message }];
    let value: Value = serde_json::from_str(text).map_err(|e| problem("", format!("is not JSON: {e}")))?;
    let Value::Array(entries) = value else {
        return Err(problem("", "expected a JSON list of instance types".into()));
    };
    let mut reader = CatalogueReader { problems: Vec::new(), names: BTreeSet::new(), label_rules: LabelRules::kwok() };
    let parsed = entries.iter().enumerate().filter_map(|(i, entry)| reader.instance_type(&format!("[{i}]"), entry));
    let mut types: Vec<(InstanceType, Vec<OfferingState>)> = parsed.collect();
    if !reader.problems.is_empty() {
        return Err(reader.problems);
    }
    types.sort_by(|(a, _), (b, _)| a.name.cmp(&b.name));
    Ok(Catalogue { types: types.into_iter().collect(), label_rules: reader.label_rules })
}

struct CatalogueReader {
    problems: Vec<CatalogueProblem>,
    /// Names of the types read so far, to find duplicates.
    names: BTreeSet<String>,
    label_rules: LabelRules,
}

impl CatalogueReader {
    fn add_problem(&mut self, path: &str, message: String) {
        self.problems.push(CatalogueProblem { path: path.into(), message });
    }

    fn instance_type(&mut self, path: &str, entry: &Value) -> Option<(InstanceType, Vec<OfferingState>)> {
        let Some(fields) = entry.as_object() else {
            self.add_problem(
                path,
                "expected an object with name, architecture, operatingSystems, resources, offerings".into(),
            );
            return None;
        };
        // Read every field before returning, so that all problems are reported.
        let name = self.text(path, fields, "name");
        if let Some(name) = name.as_ref().filter(|name| !self.names.insert((*name).clone())) {
            self.add_problem(&format!("{path}.name"), format!("another instance type has the name {name:?} too"));
        }
        let arch = self.text(path, fields, "architecture");
        let systems = self.texts(path, fields, "operatingSystems");
        let resources = self.resources(path, fields);
        let offerings: Vec<(Offering, OfferingState)> = match field_ignoring_case(fields, "offerings") {
            Some(Value::Array(list)) => list
                .iter()
                .enumerate()
                .filter_map(|(i, o)| self.offering(&format!("{path}.offerings[{i}]"), o))
                .collect(),
            Some(Value::Null) | None => Vec::new(),
            Some(other) => {
                self.add_problem(&format!("{path}.offerings"), format!("expected a list, found {other}"));
                Vec::new()
            }
        };
        let (offerings, states) = offerings.into_iter().unzip();
        Some((build_instance_type(Str::from(name?), &arch?, &systems, resources?, offerings), states))
    }

    fn offering(&mut self, path: &str, entry: &Value) -> Option<(Offering, OfferingState)> {
        let Some(fields) = entry.as_object() else {
            self.add_problem(path, "expected an object with Price, Available and Requirements".into());
            return None;
        };
        let before = self.problems.len();
        let price = match field_ignoring_case(fields, "Price") {
            None | Some(Value::Null) => Some(Price::ZERO),
            Some(Value::Number(number)) => Price::from_decimal(&number.to_string()),
            Some(_) => None,
        };
        if price.is_none() {
            self.add_problem(&format!("{path}.Price"), "expected a price in dollars per hour, 0 or more".into());
        }
        let is_available = match field_ignoring_case(fields, "Available") {
            None | Some(Value::Null) => true,
            Some(Value::Bool(is_available)) => *is_available,
            Some(other) => {
                self.add_problem(&format!("{path}.Available"), format!("expected true or false, found {other}"));
                false
            }
        };
        let reservation_capacity = match field_ignoring_case(fields, "ReservationCapacity") {
            None | Some(Value::Null) => 0,
            Some(value) => value.as_i64().and_then(|n| i32::try_from(n).ok()).unwrap_or_else(|| {
                self.add_problem(
                    &format!("{path}.ReservationCapacity"),
                    format!("expected a 32-bit integer, found {value}"),
                );
                0
            }),
        };
        let requirements = self.requirements(path, fields);
        for key in labels::OFFERING_LABELS {
            if requirements.get(key).is_none_or(|r| r.operator() != EffectiveOperator::In) {
                self.add_problem(&format!("{path}.Requirements"), format!("expected a requirement {key} In [...]"));
            }
        }
        let offering = Offering {
            requirements: requirements.into(),
            price: price.unwrap_or_default(),
            capacity_override: None,
            overhead_override: None,
        };
        (self.problems.len() == before).then_some((offering, OfferingState { is_available, reservation_capacity }))
    }

    fn requirements(&mut self, path: &str, fields: &Map<String, Value>) -> Requirements {
        let mut all = Requirements::default();
        let list = match field_ignoring_case(fields, "Requirements") {
            Some(Value::Array(list)) => list.as_slice(),
            _ => &[],
        };
        for (i, entry) in list.iter().enumerate() {
            let at = format!("{path}.Requirements[{i}]");
            let Some(entry) = entry.as_object() else {
                self.add_problem(&at, "expected an object with key, operator and values".into());
                continue;
            };
            let (Some(key), Some(operator)) = (self.text(&at, entry, "key"), self.text(&at, entry, "operator")) else {
                continue;
            };
            let values: Vec<Str> = self.texts(&at, entry, "values").into_iter().map(Str::from).collect();
            let operator = NodeSelectorOperator::from(operator.as_str());
            match Requirement::new(&self.label_rules, &key, &operator, &values, None) {
                Ok(requirement) => {
                    self.label_rules.add_well_known(requirement.key().as_str());
                    all.add(requirement);
                }
                Err(e) => self.add_problem(&at, e.to_string()),
            }
        }
        all
    }

    fn resources(&mut self, path: &str, fields: &Map<String, Value>) -> Option<Vec<(Str, Quantity)>> {
        let at = format!("{path}.resources");
        let Some(Value::Object(map)) = field_ignoring_case(fields, "resources") else {
            self.add_problem(&at, "expected an object of quantities".into());
            return None;
        };
        let mut all = Vec::new();
        for (name, value) in map {
            let text = match value {
                Value::String(text) => text.clone(),
                other => other.to_string(),
            };
            match text.parse::<Quantity>() {
                Ok(quantity) if !quantity.is_negative() => all.push((Str::from(name.as_str()), quantity)),
                Ok(_) => self.add_problem(&format!("{at}.{name}"), format!("{text} is negative")),
                Err(e) => self.add_problem(&format!("{at}.{name}"), e.to_string()),
            }
        }
        if !all.iter().any(|(name, _)| *name == "pods") {
            all.push((Str::new_static("pods"), Quantity::from_units(110)));
        }
        Some(all)
    }

    fn text(&mut self, path: &str, fields: &Map<String, Value>, key: &str) -> Option<String> {
        match field_ignoring_case(fields, key) {
            Some(Value::String(text)) if !text.is_empty() => Some(text.clone()),
            _ => {
                self.add_problem(&format!("{path}.{key}"), "expected a string that is not empty".into());
                None
            }
        }
    }

    fn texts(&mut self, path: &str, fields: &Map<String, Value>, key: &str) -> Vec<String> {
        match field_ignoring_case(fields, key) {
            Some(Value::Array(list)) if list.iter().all(Value::is_string) => {
                list.iter().filter_map(Value::as_str).map(str::to_owned).collect()
            }
            None | Some(Value::Null) => Vec::new(),
            Some(other) => {
                self.add_problem(&format!("{path}.{key}"), format!("expected a list of strings, found {other}"));
                Vec::new()
            }
        }
    }
}

fn field_ignoring_case<'a>(fields: &'a Map<String, Value>, key: &str) -> Option<&'a Value> {
    fields.get(key).or_else(|| fields.iter().find(|(k, _)| k.eq_ignore_ascii_case(key)).map(|(_, v)| v))
}

/// Builds the instance type of an entry, with the labels that follow from its name and resources.
fn build_instance_type(
    name: Str,
    arch: &str,
    systems: &[String],
    resources: Vec<(Str, Quantity)>,
    offerings: Vec<Offering>,
) -> InstanceType {
    let text_of = |resource: &str| {
        resources.iter().find(|(name, _)| name == resource).map_or_else(String::new, |(_, q)| q.to_string())
    };
    let (cpu, memory) = (text_of("cpu"), text_of("memory"));
    let values_of = |key: &str| -> Vec<Str> {
        let all: BTreeSet<Str> = offerings
            .iter()
            .filter_map(|o| o.requirements.get(key))
            .flat_map(|r| r.allowed_values().unwrap_or_default().iter().cloned())
            .collect();
        all.into_iter().collect()
    };
    let requirements: Requirements = [
        Requirement::one_of(labels::INSTANCE_TYPE, [name.clone()]),
        Requirement::one_of(labels::ARCH, [Str::from(arch)]),
        Requirement::one_of(labels::OS, systems.iter().map(Str::from)),
        Requirement::one_of(labels::ZONE, values_of(labels::ZONE)),
        Requirement::one_of(labels::CAPACITY_TYPE, values_of(labels::CAPACITY_TYPE)),
        Requirement::one_of(kwok::INSTANCE_SIZE, [Str::from(instance_size(&name, &cpu))]),
        Requirement::one_of(kwok::INSTANCE_FAMILY, [Str::from(instance_family(&name))]),
        Requirement::one_of(kwok::INSTANCE_CPU, [Str::from(cpu.as_str())]),
        Requirement::one_of(kwok::INSTANCE_MEMORY, [Str::from(memory.as_str())]),
    ]
    .into_iter()
    .collect();
    InstanceType {
        requirements: requirements.into(),
        name,
        offerings: offerings.into(),
        capacity: resources.into_iter().collect(),
        overhead: overhead(),
        volume_limits: Arc::default(),
    }
}

/// Returns the resources that the simulated kubelet reserves for itself.
fn overhead() -> Overhead {
    let reserved: ResourceList = [
        (Str::new_static("cpu"), Quantity::from_nanos(100_000_000, kerf_api::quantity::QuantityFormat::DecimalSi)),
        (Str::new_static("memory"), Quantity::from_units(10 * 1024 * 1024)),
    ]
    .into_iter()
    .collect();
    Overhead { kube_reserved: reserved, ..Overhead::default() }
}

/// Returns the size in a name (`8xlarge` of `m5.8xlarge`). Returns the number of CPUs for other
/// names.
fn instance_size<'a>(name: &'a str, cpu: &'a str) -> &'a str {
    let after_dot = name.split_once('.').filter(|(before, _)| is_word(before)).map(|(_, after)| after);
    let named = after_dot.filter(|after| {
        matches!(*after, "nano" | "micro" | "small" | "medium" | "large" | "metal")
            || after.strip_suffix("xlarge").is_some_and(|n| n.bytes().all(|b| b.is_ascii_digit()))
    });
    named.unwrap_or(cpu)
}

fn is_word(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')
}

/// Returns the text before the first `.` or `-`. Without either, returns the first character.
fn instance_family(name: &str) -> &str {
    match name.find(['.', '-']) {
        Some(end) => &name[..end],
        None => name.chars().next().map_or("", |c| &name[..c.len_utf8()]),
    }
}

/// Returns the instance types that are used if no file is given: 12 sizes, three ratios of memory
/// to CPU, two operating systems, two architectures.
pub fn built_in_catalogue() -> Catalogue {
    let mut types = Vec::new();
    for cpus in [1_i64, 2, 4, 8, 16, 32, 48, 64, 96, 128, 192, 256] {
        for (ratio, family) in [(2, "c"), (4, "s"), (8, "m")] {
            for system in ["linux", "windows"] {
                for arch in ["amd64", "arm64"] {
                    types.push(built_in_type(cpus, ratio, family, system, arch));
                }
            }
        }
    }
    types.sort_by(|a, b| a.name.cmp(&b.name));
    Catalogue { types: types.into_iter().collect(), label_rules: LabelRules::kwok() }
}

fn built_in_type(cpus: i64, ratio: i64, family: &str, system: &str, arch: &str) -> InstanceType {
    let name = Str::from(format!("{family}-{cpus}x-{arch}-{system}"));
    let memory_bytes = cpus * ratio * 1024 * 1024 * 1024;
    let memory =
        Quantity::from_nanos(i128::from(memory_bytes) * 1_000_000_000, kerf_api::quantity::QuantityFormat::BinarySi);
    // Nano-dollars per hour: $0.025 per CPU and $0.001 per GB (10^9 bytes) of memory.
    let on_demand = cpus * 25_000_000 + (memory_bytes + 500) / 1000;
    let offerings = ["test-zone-a", "test-zone-b", "test-zone-c", "test-zone-d"]
        .into_iter()
        .flat_map(|zone| {
            [("spot", on_demand * 7 / 10), ("on-demand", on_demand)].map(|(kind, price)| (zone, kind, price))
        })
        .map(|(zone, kind, price)| Offering {
            requirements: [
                Requirement::one_of(labels::ZONE, [Str::new_static(zone)]),
                Requirement::one_of(labels::CAPACITY_TYPE, [Str::new_static(kind)]),
            ]
            .into_iter()
            .collect::<Requirements>()
            .into(),
            price: Price::from_nanos(price),
            capacity_override: None,
            overhead_override: None,
        })
        .collect();
    let storage =
        Quantity::from_nanos(20 * 1024 * 1024 * 1024 * 1_000_000_000, kerf_api::quantity::QuantityFormat::BinarySi);
    let resources = vec![
        (Str::new_static("cpu"), Quantity::from_units(cpus)),
        (Str::new_static("memory"), memory),
        (Str::new_static("pods"), Quantity::from_units((16 * cpus).min(1024))),
        (Str::new_static("ephemeral-storage"), storage),
    ];
    build_instance_type(name, arch, &[system.to_owned()], resources, offerings)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_built_in_set_has_its_published_size_and_prices() {
        let catalogue = built_in_catalogue();
        assert_eq!(catalogue.types.len(), 144);
        let small = catalogue.types.find("c-1x-amd64-linux").unwrap();
        assert_eq!(small.offerings.len(), 8);
        let highest_price = small.offerings.iter().map(|o| o.price).max().unwrap();
        assert_eq!(highest_price, Price::from_nanos(27_147_484));
        assert_eq!(small.requirements.get(kwok::INSTANCE_FAMILY).unwrap().values(), ["c"]);
        assert_eq!(small.requirements.get(kwok::INSTANCE_SIZE).unwrap().values(), ["1"]);
    }

    #[test]
    fn family_and_size_follow_from_the_name() {
        assert_eq!(instance_size("m5.8xlarge", "32"), "8xlarge");
        assert_eq!(instance_size("m5.xlarge", "4"), "xlarge");
        assert_eq!(instance_size("m5.weird", "4"), "4");
        assert_eq!(instance_size("c-4x-amd64-linux", "4"), "4");
        assert_eq!(instance_family("m5.8xlarge"), "m5");
        assert_eq!(instance_family("c-4x"), "c");
        assert_eq!(instance_family("plain"), "p");
        assert_eq!(instance_family(""), "");
    }

    // spec 09 #10: each problem is named, however many a type has
    #[test]
    fn all_problems_of_a_type_are_reported() {
        let text = r#"[{"name":"a","architecture":"amd64","operatingSystems":["linux"],"resources":{"cpu":"1","memory":"1Gi"}},
            {"name":"a","architecture":3,"operatingSystems":["linux"],"resources":{"cpu":"x","memory":"y"},"offerings":[{"Price":-1}]}]"#;
        let problems = parse_catalogue(text).unwrap_err();
        let paths: Vec<&str> = problems.iter().map(|problem| problem.path.as_str()).collect();
        let offering = "[1].offerings[0]";
        let expected = [
            "[1].name",
            "[1].architecture",
            "[1].resources.cpu",
            "[1].resources.memory",
            &format!("{offering}.Price"),
            &format!("{offering}.Requirements"),
            &format!("{offering}.Requirements"),
        ];
        assert_eq!(paths, expected, "{problems:?}");
    }

    #[test]
    fn keys_match_in_any_case_and_unavailable_offerings_are_kept() {
        let text = r#"[{"Name":"a","Architecture":"amd64","OperatingSystems":["linux"],"Resources":{"cpu":"2","memory":"4Gi"},
            "Offerings":[{"price":0.5,"available":false,"requirements":[
                {"key":"topology.kubernetes.io/zone","operator":"In","values":["z"]},
                {"key":"karpenter.sh/capacity-type","operator":"In","values":["spot"]},
                {"key":"example.com/rack","operator":"In","values":["r1"]}]}]}]"#;
        let catalogue = parse_catalogue(text).unwrap();
        let only_type = catalogue.types.iter().next().unwrap();
        assert!(!only_type.offerings().next().unwrap().is_available());
        assert_eq!(only_type.offerings[0].price, Price::from_nanos(500_000_000));
        assert_eq!(only_type.capacity.get("pods"), Some(Quantity::from_units(110)));
        assert!(catalogue.label_rules.is_well_known("example.com/rack"));
    }

    // spec 09 #10
    #[test]
    fn all_problems_of_a_file_are_reported() {
        assert!(parse_catalogue("nonsense").unwrap_err()[0].message.contains("is not JSON"));
        let offering = |price: &str| {
            format!(
                r#"{{"Price":{price},"Requirements":[{{"key":"topology.kubernetes.io/zone","operator":"In","values":["z"]}},
                {{"key":"karpenter.sh/capacity-type","operator":"In","values":["spot"]}}]}}"#
            )
        };
        let entry = |name: &str, price: &str| {
            format!(
                r#"{{"name":"{name}","architecture":"amd64","operatingSystems":["linux"],"resources":{{"cpu":"1"}},"offerings":[{}]}}"#,
                offering(price)
            )
        };
        let text = format!("[{},{},{{\"name\":\"b\"}}]", entry("a", "-1"), entry("a", "1"));
        let problems = parse_catalogue(&text).unwrap_err();
        let all: Vec<String> = problems.iter().map(ToString::to_string).collect();
        assert!(all.iter().any(|p| p.starts_with("[0].offerings[0].Price")), "{all:?}");
        assert!(all.iter().any(|p| p.contains("the name \"a\" too")), "{all:?}");
        assert!(all.iter().any(|p| p.starts_with("[2].architecture")), "{all:?}");
    }
}
