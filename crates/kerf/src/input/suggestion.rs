//! Hints for fields and schedules with typing errors.

use kerf_api::kind::CustomKind;
use kerf_sandbox::built_in_field_names;
use serde_json::Value;

use super::kind::InputKind;
use super::similar_name::most_similar;

/// Returns a hint for an unknown field of an object, such as ` (did you mean "spec.weight"?)`. Empty
/// if no field is similar.
pub(super) fn field_hint(kind: InputKind, path: &str) -> String {
    let (parent, name) = path.rsplit_once('.').unwrap_or(("", path));
    let names = field_names(kind, parent);
    let suggestion = most_similar(name, names.iter().map(String::as_str)).map(|similar| {
        if parent.is_empty() { similar.to_owned() } else { format!("{parent}.{similar}") }
    });
    let suggestion = suggestion.or_else(|| path_of_equal_name(kind, name));
    suggestion.map(|suggestion| format!(" (did you mean \"{suggestion}\"?)")).unwrap_or_default()
}

/// Returns the names of the fields that an object of the kind can have at a path.
fn field_names(kind: InputKind, path: &str) -> Vec<String> {
    let Some(schema) = custom_schema(kind) else {
        return built_in_field_names(kind.api_version(), kind.name(), path);
    };
    let names = property_at(&schema, path).and_then(|schema| schema["properties"].as_object());
    names.into_iter().flatten().map(|(name, _)| name.clone()).collect()
}

/// Returns the path of the only field with this name, of a kind of Kerf's CRDs. The field may have
/// been written in the wrong object, such as `spec.expireAfter`.
fn path_of_equal_name(kind: InputKind, name: &str) -> Option<String> {
    let schema = custom_schema(kind)?;
    let mut paths = Vec::new();
    collect_paths(&schema["properties"]["spec"], "spec", name, &mut paths);
    match paths.as_slice() {
        [path] => Some(path.clone()),
        [] | [_, _, ..] => None,
    }
}

fn collect_paths(schema: &Value, path: &str, name: &str, paths: &mut Vec<String>) {
    for (field, property) in schema["properties"].as_object().into_iter().flatten() {
        let field_path = format!("{path}.{field}");
        if field == name {
            paths.push(field_path.clone());
        }
        collect_paths(property, &field_path, name, paths);
    }
}

/// Returns the schema of the field at a path such as `spec.requirements[0]`.
fn property_at<'s>(schema: &'s Value, path: &str) -> Option<&'s Value> {
    path.split('.').filter(|step| !step.is_empty()).try_fold(schema, |schema, step| {
        let (name, index) = step.split_once('[').map_or((step, None), |(name, index)| (name, Some(index)));
        let property = schema["properties"].get(name)?;
        Some(if index.is_some() { &property["items"] } else { property })
    })
}

/// Returns the OpenAPI schema of a kind of Kerf's CRDs, in the version that Kerf reads.
fn custom_schema(kind: InputKind) -> Option<Value> {
    use kerf_api::crds::{CrdVariant, of};
    fn schema<K: CustomKind>(variant: CrdVariant) -> Option<Value> {
        let crd = of::<K>(variant);
        let versions = crd.json()["spec"]["versions"].as_array()?;
        let served = versions.iter().find(|version| version["name"] == K::VERSION)?;
        Some(served["schema"]["openAPIV3Schema"].clone())
    }
    match kind {
        InputKind::NodePool => schema::<kerf_api::nodepool::NodePool>(CrdVariant::default()),
        InputKind::NodeClaim => schema::<kerf_api::nodeclaim::NodeClaim>(CrdVariant::default()),
        InputKind::NodeOverlay => schema::<kerf_api::nodeoverlay::NodeOverlay>(CrdVariant::default()),
        InputKind::CapacityBuffer => schema::<kerf_api::capacitybuffer::CapacityBuffer>(CrdVariant::default()),
        InputKind::KwokNodeClass => schema::<kerf_api::kwoknodeclass::KWOKNodeClass>(CrdVariant::Kwok),
        InputKind::Ec2NodeClass => schema::<kerf_api::ec2nodeclass::EC2NodeClass>(CrdVariant::Aws),
        _ => None,
    }
}

/// Returns a hint for a schedule with a range of hours that ends before it begins, such as
/// `0 19-8 * * *`: such a window needs a duration.
pub(super) fn schedule_hint(schedule: &str) -> Option<String> {
    let fields: Vec<&str> = schedule.split_whitespace().collect();
    let [minute, hours, rest @ ..] = fields.as_slice() else { return None };
    let (first, last) = hours.split_once('-')?;
    let (first, last): (u32, u32) = (first.parse().ok()?, last.parse().ok()?);
    let is_overnight = first < 24 && last < first && rest.len() == 3;
    is_overnight.then(|| {
        let duration = 24 - first + last;
        format!("did you mean schedule \"{minute} {first} {}\" with duration {duration}h?", rest.join(" "))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hints_name_the_path_of_the_field() {
        let hint = |path| field_hint(InputKind::NodePool, path);
        assert_eq!(hint("spec.wieght"), " (did you mean \"spec.weight\"?)");
        assert_eq!(
            hint("spec.template.spec.requirements[1].opreator"),
            " (did you mean \"spec.template.spec.requirements[1].operator\"?)"
        );
        assert_eq!(hint("spec.expireAfter"), " (did you mean \"spec.template.spec.expireAfter\"?)");
        assert_eq!(hint("spec.unheardOf"), "");
        assert_eq!(
            field_hint(InputKind::Pod, "spec.containers[0].resources.requets"),
            " (did you mean \"spec.containers[0].resources.requests\"?)"
        );
    }

    #[test]
    fn a_range_of_hours_over_midnight_needs_a_duration() {
        assert_eq!(
            schedule_hint("0 19-8 * * mon-fri").as_deref(),
            Some("did you mean schedule \"0 19 * * mon-fri\" with duration 13h?")
        );
        assert_eq!(schedule_hint("0 8-19 * * *"), None);
        assert_eq!(schedule_hint("@weekly"), None);
    }
}
