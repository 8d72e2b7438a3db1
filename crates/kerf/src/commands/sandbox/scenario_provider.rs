//! The provider of a scenario: the one that serves the node classes that its objects name.

use std::path::Path;

use serde_json::Value;

use crate::exit::Problem;
use crate::program::{ProviderChoice, ProviderName};

/// Returns the provider for the objects of a scenario. Fails if the user selected a provider that
/// serves none of the node classes, or selected none and the node classes need several.
pub(super) fn scenario_provider(
    scenario: &Value,
    path: &Path,
    choice: ProviderChoice,
) -> Result<ProviderName, Problem> {
    let mut named = Vec::new();
    add_named_providers(scenario, &mut named);
    let names = || named.iter().map(|provider| provider.name()).collect::<Vec<_>>().join(" and ");
    match (choice.selected, named.as_slice()) {
        (Some(selected), [needed, others @ ..]) if *needed != selected && !others.contains(&selected) => {
            let (path, needed_names, selected) = (path.display(), names(), selected.name());
            let message = format!("{path}: its NodePools are for the provider {needed_names}, not for {selected}");
            Err(Problem::new(message).with_hint(format!("run it with --provider {}", needed.name())))
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
        Value::Object(members) => {
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
        Value::Array(items) => items.iter().for_each(|item| add_named_providers(item, named)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn provider(groups: &[&str], selected: Option<ProviderName>) -> Result<ProviderName, (String, String)> {
        let pool = |group: &&str| json!({ "spec": { "template": { "spec": { "nodeClassRef": { "group": group } } } } });
        let objects: Vec<Value> = groups.iter().map(pool).collect();
        let scenario = json!({ "steps": [{ "at": "0s", "apply": objects }] });
        let choice = ProviderChoice { selected, default: ProviderName::Aws };
        scenario_provider(&scenario, Path::new("day.yaml"), choice)
            .map_err(|problem| (problem.to_string(), problem.hint().unwrap_or_default().to_owned()))
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
        let class = json!({ "apiVersion": "karpenter.kwok.sh/v1alpha1", "kind": "KWOKNodeClass" });
        let choice = ProviderChoice { selected: None, default: ProviderName::Aws };
        assert_eq!(scenario_provider(&class, Path::new("day.yaml"), choice), Ok(ProviderName::Kwok));
    }
}
