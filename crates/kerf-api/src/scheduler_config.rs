//! Configuration of the cluster's scheduler as far as Kerf needs it (spec 02 §8.9): the default
//! spread constraints, which apply to pods without constraints of their own.
//!
//! Kerf must predict what the scheduler does with pods. Therefore it rejects a configuration that
//! the scheduler would reject, with Karpenter's messages. All errors are reported at once.
//! Constraints that pass are valid and have no selector.

use serde::Deserialize;

use crate::admission::names;
use crate::admission::text::quote;
use crate::slim::{NodeInclusionPolicy, Str, TopologySpreadConstraint, WhenUnsatisfiable};

/// Parses the default spread constraints of a configuration in YAML or JSON. Returns an empty list
/// for an empty text. Fails with all errors of the configuration.
pub fn parse_default_spread(text: &str) -> Result<Vec<TopologySpreadConstraint>, Vec<String>> {
    if text.trim().is_empty() {
        return Ok(Vec::new());
    }
    let config: Option<SchedulerConfig> = serde_yaml_ng::from_str(text)
        .map_err(|cause| vec![format!("parsing scheduler config, decoding scheduler config, {cause}")])?;
    let constraints = config
        .and_then(|config| config.pod_topology_spread)
        .and_then(|spread| spread.default_constraints)
        .unwrap_or_default();
    let failures: Vec<String> = (0..constraints.len())
        .flat_map(|index| {
            let prefix = format!(
                "parsing scheduler config, validating scheduler config, podTopologySpread.defaultConstraints[{index}]"
            );
            violations(&constraints, index).into_iter().map(move |violation| format!("{prefix}{violation}"))
        })
        .collect();
    if failures.is_empty() {
        Ok(constraints.into_iter().map(Constraint::into_spread_constraint).collect())
    } else {
        Err(failures)
    }
}

/// Returns what is wrong with one constraint, including duplicates of earlier ones.
fn violations(constraints: &[Constraint], index: usize) -> Vec<String> {
    let constraint = &constraints[index];
    let (key, when) = (&constraint.topology_key, &constraint.when_unsatisfiable);
    let mut violations = Vec::new();
    if constraint.max_skew <= 0 {
        violations.push(".maxSkew must be greater than 0".to_owned());
    }
    let reasons = names::qualified_name(key).join(", ");
    if key.is_empty() {
        violations.push(".topologyKey must be set".to_owned());
    } else if !reasons.is_empty() {
        violations.push(format!(".topologyKey {} is not a valid label name, {reasons}", quote(key)));
    }
    if constraint.parsed_when_unsatisfiable().is_none() {
        let quoted = quote(when);
        violations.push(format!(".whenUnsatisfiable {quoted} must be one of \"DoNotSchedule\" or \"ScheduleAnyway\""));
    }
    if constraint.label_selector.is_some() {
        violations.push(".labelSelector must not be set, as selectors are deduced for each pod".to_owned());
    }
    if constraint.match_label_keys.as_ref().is_some_and(|keys| !keys.is_empty()) {
        violations.push(".matchLabelKeys must not be set, as it has no effect on default constraints".to_owned());
    }
    let is_same = |other: &Constraint| other.topology_key == *key && other.when_unsatisfiable == *when;
    if let Some(first) = constraints[..index].iter().position(is_same) {
        violations.push(format!(" is a duplicate of [{first}], {{{key}, {when}}}"));
    }
    violations
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, expecting = "an object with podTopologySpread")]
struct SchedulerConfig {
    pod_topology_spread: Option<PodTopologySpread>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, expecting = "an object with defaultConstraints")]
struct PodTopologySpread {
    default_constraints: Option<Vec<Constraint>>,
}

/// Constraint as in the file. The decoder accepts an absent field; validation then treats it as
/// empty.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Constraint {
    #[serde(default)]
    max_skew: i32,
    #[serde(default)]
    topology_key: String,
    #[serde(default)]
    when_unsatisfiable: String,
    label_selector: Option<serde_yaml_ng::Value>,
    min_domains: Option<i32>,
    node_affinity_policy: Option<NodeInclusionPolicy>,
    node_taints_policy: Option<NodeInclusionPolicy>,
    match_label_keys: Option<Vec<String>>,
}

impl Constraint {
    fn parsed_when_unsatisfiable(&self) -> Option<WhenUnsatisfiable> {
        match self.when_unsatisfiable.as_str() {
            "DoNotSchedule" => Some(WhenUnsatisfiable::DoNotSchedule),
            "ScheduleAnyway" => Some(WhenUnsatisfiable::ScheduleAnyway),
            _ => None,
        }
    }

    fn into_spread_constraint(self) -> TopologySpreadConstraint {
        TopologySpreadConstraint {
            max_skew: self.max_skew,
            when_unsatisfiable: self.parsed_when_unsatisfiable().unwrap_or_default(),
            topology_key: Str::from(self.topology_key),
            label_selector: None,
            min_domains: self.min_domains,
            node_affinity_policy: self.node_affinity_policy,
            node_taints_policy: self.node_taints_policy,
            match_label_keys: Vec::new(),
        }
    }
}

#[cfg(test)]
mod tests {

    use super::*;

    /// Returns a configuration with these constraints.
    fn config_with(constraints: &str) -> String {
        format!("podTopologySpread: {{defaultConstraints: [{constraints}]}}")
    }

    const ZONE: &str = "{maxSkew: 1, topologyKey: topology.kubernetes.io/zone, whenUnsatisfiable: DoNotSchedule}";

    #[test]
    fn spec_07_12_every_violation_is_reported() {
        let at = |index: usize, suffix: &str| {
            format!(
                "parsing scheduler config, validating scheduler config, podTopologySpread.defaultConstraints[{index}]{suffix}"
            )
        };
        let zone_with = |field: &str| ZONE.replace('}', &format!(", {field}}}"));
        let cases = [
            (ZONE.replace("maxSkew: 1", "maxSkew: 0"), ".maxSkew must be greater than 0"),
            (ZONE.replace("maxSkew: 1", "maxSkew: -1"), ".maxSkew must be greater than 0"),
            (ZONE.replace("maxSkew: 1, ", ""), ".maxSkew must be greater than 0"),
            (ZONE.replace("topologyKey: topology.kubernetes.io/zone, ", ""), ".topologyKey must be set"),
            (
                ZONE.replace("topology.kubernetes.io/zone", "\"a zone\""),
                ".topologyKey \"a zone\" is not a valid label name, name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')",
            ),
            (
                ZONE.replace("DoNotSchedule", "Perhaps"),
                ".whenUnsatisfiable \"Perhaps\" must be one of \"DoNotSchedule\" or \"ScheduleAnyway\"",
            ),
            (
                ZONE.replace(", whenUnsatisfiable: DoNotSchedule", ""),
                ".whenUnsatisfiable \"\" must be one of \"DoNotSchedule\" or \"ScheduleAnyway\"",
            ),
            (zone_with("labelSelector: {}"), ".labelSelector must not be set, as selectors are deduced for each pod"),
            (
                zone_with("matchLabelKeys: [a]"),
                ".matchLabelKeys must not be set, as it has no effect on default constraints",
            ),
        ];
        for (constraint, suffix) in cases {
            assert_eq!(parse_default_spread(&config_with(&constraint)).unwrap_err(), [at(0, suffix)], "{constraint}");
        }
        let twice = config_with(&format!("{ZONE}, {}", ZONE.replace("maxSkew: 1", "maxSkew: 2")));
        let duplicate = at(1, " is a duplicate of [0], {topology.kubernetes.io/zone, DoNotSchedule}");
        assert_eq!(parse_default_spread(&twice).unwrap_err(), [duplicate]);
        let invalid =
            config_with("{}, {maxSkew: 1, topologyKey: a/b/c, whenUnsatisfiable: ScheduleAnyway, labelSelector: {}}");
        assert_eq!(parse_default_spread(&invalid).unwrap_err().len(), 5, "all problems are reported at once");
    }

    #[test]
    fn spec_07_12_other_documents_are_rejected_by_the_decoder() {
        for text in [
            "podTopologySpread: {defaultConstraints: []}\nextra: 1",
            "podTopologySpread: {constraints: []}",
            &config_with("{maxSkew: 1, topologykey: zone}"),
            &config_with("{maxSkew: \"1\"}"),
            &config_with("{nodeTaintsPolicy: Perhaps}"),
            &config_with("{maxSkew: 1, maxSkew: 2}"),
            "podTopologySpread: [",
            "[]",
            "a text",
        ] {
            let failures = parse_default_spread(text).unwrap_err();
            assert_eq!(failures.len(), 1, "{text}");
            assert!(
                failures[0].starts_with("parsing scheduler config, decoding scheduler config, "),
                "{text}: {failures:?}"
            );
        }
        assert!(parse_default_spread("extra: 1").unwrap_err()[0].contains("unknown field `extra`"));
    }

    #[test]
    fn spec_07_12_one_key_may_be_required_and_preferred() {
        let soft = ZONE.replace("DoNotSchedule", "ScheduleAnyway");
        let constraints = parse_default_spread(&config_with(&format!("{ZONE}, {soft}"))).unwrap();
        let expected = |when_unsatisfiable| TopologySpreadConstraint {
            max_skew: 1,
            topology_key: "topology.kubernetes.io/zone".into(),
            when_unsatisfiable,
            ..TopologySpreadConstraint::default()
        };
        let both = [WhenUnsatisfiable::DoNotSchedule, WhenUnsatisfiable::ScheduleAnyway].map(expected);
        assert_eq!(constraints, both);
    }

    #[test]
    fn yaml_and_json_are_equivalent_and_an_empty_text_has_no_constraints() {
        let yaml = config_with(
            "{maxSkew: 2, minDomains: 3, topologyKey: rack, whenUnsatisfiable: DoNotSchedule, nodeAffinityPolicy: Ignore, nodeTaintsPolicy: Honor, matchLabelKeys: [], labelSelector: null}",
        );
        let json = r#"{"podTopologySpread": {"defaultConstraints": [{"maxSkew": 2, "minDomains": 3, "topologyKey": "rack",
            "whenUnsatisfiable": "DoNotSchedule", "nodeAffinityPolicy": "Ignore", "nodeTaintsPolicy": "Honor"}]}}"#;
        let constraints = parse_default_spread(&yaml).unwrap();
        assert_eq!(parse_default_spread(json).unwrap(), constraints);
        assert_eq!((constraints[0].min_domains, constraints[0].max_skew), (Some(3), 2));
        assert_eq!(constraints[0].node_affinity_policy, Some(NodeInclusionPolicy::Ignore));
        assert_eq!(constraints[0].node_taints_policy, Some(NodeInclusionPolicy::Honor));
        for empty in ["", " \n", "{}", "null", "podTopologySpread: {}", "podTopologySpread: {defaultConstraints: null}"]
        {
            assert_eq!(parse_default_spread(empty).unwrap(), [], "{empty:?}");
        }
    }
}
