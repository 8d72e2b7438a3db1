//! Checks of objects of built-in kinds as if they were created, without a server, for tools that
//! have manifests and no cluster. Only the object itself is checked. Rules that depend on other
//! objects (whether the namespace exists, whether the name is taken) are not.

use kerf_api::admission::FieldError;
use serde_json::Value;

use super::field;
use super::names::NameRule;
use super::object;
use super::registry::BUILT_IN_KINDS;
use super::schema;
use super::write::validate_metadata;

/// The problems of one object, as a create request would report them.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DryCreateReport {
    /// All validation errors. Empty if the object is valid.
    pub errors: Vec<FieldError>,
    /// The server's decoding error, if the object cannot be decoded. Nothing else is checked then.
    pub decode_error: Option<String>,
    /// The paths of fields that the kind does not declare.
    pub unknown_fields: Vec<String>,
}

/// Decodes, defaults and validates an object as in a create request. Returns `None` if the kind is
/// not built in.
pub fn dry_create_built_in(api_version: &str, kind: &str, mut object: Value) -> Option<DryCreateReport> {
    let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
    let kind =
        BUILT_IN_KINDS.iter().find(|known| (known.group, known.version, known.kind) == (group, version, kind))?;
    let unknown_fields = match schema::decode(&schema::definitions().schema(&kind.openapi_definition), &mut object) {
        Ok(unknown) => unknown,
        Err(problem) => {
            return Some(DryCreateReport { decode_error: Some(problem), ..DryCreateReport::default() });
        }
    };
    (kind.strategy.default)(&mut object);
    let mut errors = Vec::new();
    validate_metadata(kind.name_rule, &object, None, &mut errors);
    let namespace = object::namespace(&object);
    if kind.namespaced && !namespace.is_empty() {
        let problems = NameRule::Label.problems(namespace, false);
        errors.extend(problems.into_iter().map(|problem| field::invalid("metadata.namespace", namespace, problem)));
    }
    (kind.strategy.validate)(&object, None, &mut errors);
    Some(DryCreateReport { errors, decode_error: None, unknown_fields })
}

/// Returns the names of the fields that an object of a built-in kind can have at a path, such as
/// `spec.containers[0]`. Empty if the kind is not built in or declares no fields there.
pub fn built_in_field_names(api_version: &str, kind: &str, path: &str) -> Vec<String> {
    let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
    let mut kinds = BUILT_IN_KINDS.iter();
    let Some(kind) = kinds.find(|known| (known.group, known.version, known.kind) == (group, version, kind)) else {
        return Vec::new();
    };
    let definitions = &schema::definitions().json_schemas;
    let resolve = |schema: &Value| -> Option<Value> {
        let reference = schema.get("$ref").or_else(|| schema["allOf"].get(0)?.get("$ref"));
        match reference.and_then(Value::as_str) {
            Some(reference) => definitions.get(reference.strip_prefix(schema::SCHEMA_REF_PREFIX)?).cloned(),
            None => Some(schema.clone()),
        }
    };
    let root = definitions.get(&kind.openapi_definition).cloned();
    let schema = path.split('.').filter(|step| !step.is_empty()).try_fold(root, |schema, step| {
        let (name, index) = step.split_once('[').map_or((step, None), |(name, index)| (name, Some(index)));
        let property = resolve(schema?["properties"].get(name)?)?;
        Some(if index.is_some() { resolve(&property["items"]) } else { Some(property) })
    });
    let names = schema.flatten().and_then(|schema| schema["properties"].as_object().cloned());
    names.into_iter().flatten().map(|(name, _)| name).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn errors(api_version: &str, kind: &str, object: Value) -> Vec<String> {
        let report = dry_create_built_in(api_version, kind, object).unwrap_or_default();
        report.errors.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn all_errors_are_reported() {
        let container = json!({"name": "c", "image": "i", "resources": {"requests": {"cpu": -1}}});
        let pod = json!({"metadata": {"name": "a", "namespace": "UPPER"}, "spec": {
            "containers": [container], "tolerations": [{"operator": "Maybe"}],
            "topologySpreadConstraints": [{"maxSkew": 0, "topologyKey": "", "whenUnsatisfiable": "DoNotSchedule", "minDomains": 0}],
        }});
        let paths = |errors: &[String]| {
            let path = |error: &String| error.split(": ").next().unwrap_or_default().to_owned();
            errors.iter().map(path).collect::<Vec<_>>()
        };
        assert_eq!(
            paths(&errors("v1", "Pod", pod)),
            [
                "metadata.namespace",
                "spec.containers[0].resources.requests[cpu]",
                "spec.tolerations[0].operator",
                "spec.tolerations[0].operator",
                "spec.topologySpreadConstraints[0].maxSkew",
                "spec.topologySpreadConstraints[0].topologyKey",
                "spec.topologySpreadConstraints[0].minDomains",
            ]
        );
        assert_eq!(errors("v1", "Pod", json!({"metadata": {"name": "a"}})), ["spec.containers: Required value"]);
        let budget = json!({"metadata": {"name": "p"}, "spec": {"minAvailable": 1, "maxUnavailable": 1}});
        assert_eq!(paths(&errors("policy/v1", "PodDisruptionBudget", budget)), ["spec"]);
    }

    #[test]
    fn decode_errors_unknown_fields_and_unknown_kinds_are_reported() {
        let pod = json!({"metadata": {"name": "a"}, "spec": {"containers": 3}});
        let report = dry_create_built_in("v1", "Pod", pod).unwrap_or_default();
        assert!(report.decode_error.is_some() && report.errors.is_empty());
        let pod =
            json!({"metadata": {"name": "a"}, "spec": {"containers": [{"name": "c", "image": "i"}], "nodeNmae": "n"}});
        let report = dry_create_built_in("v1", "Pod", pod).unwrap_or_default();
        assert_eq!((report.errors, report.unknown_fields), (vec![], vec!["spec.nodeNmae".to_owned()]));
        assert_eq!(dry_create_built_in("karpenter.sh/v1", "NodePool", json!({})), None);
    }
}
