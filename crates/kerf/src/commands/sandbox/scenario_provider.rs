//! The provider of a scenario: the one that serves the node classes that its objects name.

use std::path::Path;

use kerf_sandbox::sim::{Scenario, ScenarioProvider};
use serde_json::{Map, Value};

use crate::exit::Problem;
use crate::program::{ProviderChoice, ProviderName};

/// Returns the provider for the objects of a scenario: the one that the user selected, or else the
/// scenario's `provider`, or else the one that serves the node classes. Fails if the selected
/// provider serves none of the node classes, or if none is selected and they need several.
pub(super) fn scenario_provider(
    scenario: &Scenario,
    path: &Path,
    choice: ProviderChoice,
) -> Result<ProviderName, Problem> {
    let mut named = Vec::new();
    for step in &scenario.steps {
        let objects = step.apply.iter().chain(step.patch.as_ref().map(|patch| &patch.merge));
        objects.for_each(|object| add_named_providers_of_object(object, &mut named));
    }
    let in_file = scenario.provider.map(|name| match name {
        ScenarioProvider::Kwok => ProviderName::Kwok,
        ScenarioProvider::Aws => ProviderName::Aws,
    });
    let names = || named.iter().map(|provider| provider.name()).collect::<Vec<_>>().join(" and ");
    match (choice.selected.or(in_file), named.as_slice()) {
        (Some(selected), [needed, others @ ..]) if *needed != selected && !others.contains(&selected) => {
            let (path, needed_names, selected) = (path.display(), names(), selected.name());
            let message = format!("{path}: its NodePools are for the provider {needed_names}, not for {selected}");
            let needed = needed.name();
            let hint = match choice.selected {
                Some(_) => format!("run it with --provider {needed}"),
                None => format!("write `provider: {needed}` in the file, or run it with --provider {needed}"),
            };
            Err(Problem::new(message).with_hint(hint))
        }
        (Some(selected), _) => Ok(selected),
        (None, []) => Ok(choice.default),
        (None, [needed]) => Ok(*needed),
        (None, [_, ..]) => {
            let message = format!("{}: its NodePools are for the providers {}", path.display(), names());
            Err(Problem::new(message).with_hint("choose one of them: --provider aws or --provider kwok"))
        }
    }
}

/// Adds the providers of all node classes in a tree, each once, in the order of their appearance.
fn add_named_providers(tree: &Value, named: &mut Vec<ProviderName>) {
    match tree {
        Value::Object(members) => add_named_providers_of_object(members, named),
        Value::Array(items) => items.iter().for_each(|item| add_named_providers(item, named)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

fn add_named_providers_of_object(members: &Map<String, Value>, named: &mut Vec<ProviderName>) {
    let class_reference = members.get("nodeClassRef").and_then(|reference| reference["group"].as_str());
    let version = members.get("apiVersion").and_then(Value::as_str);
    let own_group = version.and_then(|version| version.split_once('/')).map(|(group, _)| group);
    for provider in class_reference.into_iter().chain(own_group).filter_map(ProviderName::of_node_class_group) {
        if !named.contains(&provider) {
            named.push(provider);
        }
    }
    members.values().for_each(|member| add_named_providers(member, named));
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn scenario(steps: &Value, provider: Option<&str>) -> Scenario {
        let tree = json!({ "name": "x", "provider": provider, "until": "1m", "steps": steps });
        Scenario::read(tree).unwrap_or_else(|errors| panic!("{errors:?}"))
    }

    fn named_provider(scenario: &Scenario, selected: Option<ProviderName>) -> Result<ProviderName, (String, String)> {
        let choice = ProviderChoice { selected, default: ProviderName::Aws };
        scenario_provider(scenario, Path::new("day.yaml"), choice)
            .map_err(|problem| (problem.to_string(), problem.hint().unwrap_or_default().to_owned()))
    }

    fn scenario_of_groups(groups: &[&str], provider: Option<&str>) -> Scenario {
        let pool = |group: &&str| {
            let spec = json!({ "template": { "spec": { "nodeClassRef": { "group": group } } } });
            json!({ "apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": { "name": "a" }, "spec": spec })
        };
        let objects: Vec<Value> = groups.iter().map(pool).collect();
        scenario(&json!([{ "at": "0s", "apply": objects, "say": "a" }]), provider)
    }

    fn provider(groups: &[&str], selected: Option<ProviderName>) -> Result<ProviderName, (String, String)> {
        named_provider(&scenario_of_groups(groups, None), selected)
    }

    const EC2: &str = "karpenter.k8s.aws";
    const KWOK: &str = "karpenter.kwok.sh";

    #[test]
    fn the_node_classes_select_the_provider() {
        assert_eq!(provider(&[], None), Ok(ProviderName::Aws));
        assert_eq!(provider(&["example.com"], None), Ok(ProviderName::Aws));
        assert_eq!(provider(&[KWOK, KWOK], None), Ok(ProviderName::Kwok));
        assert_eq!(provider(&[EC2], None), Ok(ProviderName::Aws));
    }

    #[test]
    fn a_selected_provider_must_serve_one_of_the_node_classes() {
        assert_eq!(provider(&[], Some(ProviderName::Kwok)), Ok(ProviderName::Kwok));
        assert_eq!(provider(&[KWOK, EC2], Some(ProviderName::Kwok)), Ok(ProviderName::Kwok));
        let (message, hint) = provider(&[KWOK], Some(ProviderName::Aws)).unwrap_err();
        assert_eq!(message, "day.yaml: its NodePools are for the provider kwok, not for aws");
        assert_eq!(hint, "run it with --provider kwok");
        let (message, hint) = provider(&[KWOK, EC2], None).unwrap_err();
        assert_eq!(message, "day.yaml: its NodePools are for the providers kwok and aws");
        assert_eq!(hint, "choose one of them: --provider aws or --provider kwok");
    }

    #[test]
    fn a_node_class_without_pools_selects_its_provider() {
        let class = json!({ "apiVersion": "karpenter.kwok.sh/v1alpha1", "kind": "KWOKNodeClass",
            "metadata": { "name": "a" } });
        let scenario = scenario(&json!([{ "at": "0s", "apply": [class] }]), None);
        assert_eq!(named_provider(&scenario, None), Ok(ProviderName::Kwok));
    }

    #[test]
    fn a_patch_names_its_node_class_too() {
        let merge = json!({ "spec": { "template": { "spec": { "nodeClassRef": { "group": KWOK } } } } });
        let patch = json!({ "kind": "NodePool", "name": "a", "merge": merge });
        let scenario = scenario(&json!([{ "at": "0s", "patch": patch }]), None);
        assert_eq!(named_provider(&scenario, None), Ok(ProviderName::Kwok));
    }

    #[test]
    fn the_provider_of_the_file_counts_as_selected_unless_the_user_selects_one() {
        let of_ec2 = scenario_of_groups(&[EC2], Some("kwok"));
        let (message, hint) = named_provider(&of_ec2, None).unwrap_err();
        assert_eq!(message, "day.yaml: its NodePools are for the provider aws, not for kwok");
        assert_eq!(hint, "write `provider: aws` in the file, or run it with --provider aws");
        assert_eq!(named_provider(&of_ec2, Some(ProviderName::Aws)), Ok(ProviderName::Aws));
        let of_both = scenario_of_groups(&[EC2, KWOK], Some("kwok"));
        assert_eq!(named_provider(&of_both, None), Ok(ProviderName::Kwok));
        assert_eq!(named_provider(&scenario_of_groups(&[], Some("kwok")), None), Ok(ProviderName::Kwok));
    }
}
