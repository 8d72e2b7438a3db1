//! Settings of the controller that change decisions (spec 07 section 2). Each is a flag and an
//! environment variable of the same name. A flag wins over its variable, a variable over the
//! default. All invalid values are reported together.

use std::fmt;
use std::time::Duration;

use clap::Args;
use kerf_api::duration::DurationError;
use kerf_api::scheduler_config;
use kerf_api::slim::TopologySpreadConstraint;
use kerf_aws::AwsSettings;

use crate::exit::Problem;

/// Looks up an environment variable by name; `None` if the variable is not set.
pub(super) type Environment<'e> = &'e dyn Fn(&str) -> Option<String>;

/// The settings as flags. Their help texts are `help` attributes instead of doc comments, because
/// they name environment variables as a shell writes them, without backticks.
#[derive(Debug, Args)]
#[command(next_help_heading = "Settings of the controller")]
pub(super) struct TypedSettings {
    #[arg(
        long,
        value_name = "NAME=BOOL,...",
        help = "Feature gates, for example SpotToSpotConsolidation=true,NodeOverlay=true [env: FEATURE_GATES]"
    )]
    feature_gates: Option<String>,
    #[arg(
        long,
        value_name = "POLICY",
        help = "Respect the preferences (soft constraints) of pods where possible, or ignore them: Respect or Ignore [env: PREFERENCE_POLICY] [default: Respect]"
    )]
    preference_policy: Option<String>,
    #[arg(
        long,
        value_name = "POLICY",
        help = "Require minValues, or lower them if they cannot be met: Strict or BestEffort [env: MIN_VALUES_POLICY] [default: Strict]"
    )]
    min_values_policy: Option<String>,
    #[arg(
        long,
        value_name = "BOOL",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "true",
        help = "Leave pods with dynamic resource claims pending; false places them without checking devices [env: IGNORE_DRA_REQUESTS] [default: true]"
    )]
    ignore_dra_requests: Option<String>,
    #[arg(
        long,
        value_name = "YAML",
        help = "Configuration of the cluster's scheduler, as YAML or JSON: podTopologySpread.defaultConstraints are the spread \
                constraints of pods that have none [env: SCHEDULER_CONFIG]"
    )]
    scheduler_config: Option<String>,
}

/// Validated settings that change decisions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Settings {
    pub(crate) feature_gates: FeatureGates,
    /// Treatment of soft constraints.
    pub(crate) preference_policy: PreferencePolicy,
    /// Treatment of `minValues` that cannot be satisfied.
    pub(crate) min_values_policy: MinValuesPolicy,
    /// True if pods with dynamic resource claims stay pending; false if they are placed without
    /// checking their devices.
    pub(crate) ignore_dra_requests: bool,
    /// Topology spread constraints of pods that have none of their own.
    pub(crate) default_spread: Vec<TopologySpreadConstraint>,
    /// Messages about values that were ignored.
    pub(crate) warnings: Vec<String>,
}

impl Settings {
    /// Writes the settings that the AWS provider needs too.
    pub(crate) fn apply_to_aws(&self, aws: &mut AwsSettings) {
        aws.reserved_capacity = self.feature_gates.reserved_capacity;
        aws.min_values_best_effort = self.min_values_policy == MinValuesPolicy::BestEffort;
    }
}

#[cfg(test)]
impl Settings {
    /// Returns the settings of a controller without flags and variables.
    pub(crate) fn defaults() -> Self {
        Self {
            feature_gates: FeatureGates::default(),
            preference_policy: PreferencePolicy::Respect,
            min_values_policy: MinValuesPolicy::Strict,
            ignore_dra_requests: true,
            default_spread: Vec::new(),
            warnings: Vec::new(),
        }
    }
}

/// Treatment of soft constraints.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PreferencePolicy {
    /// Soft constraints are required until a pod cannot be placed with them.
    Respect,
    /// Soft constraints are ignored.
    Ignore,
}

/// Treatment of `minValues` that cannot be satisfied.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum MinValuesPolicy {
    /// The pod is not placed.
    Strict,
    /// The `minValues` are lowered.
    BestEffort,
}

/// Feature gates (spec 07 section 2.4). True means enabled.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct FeatureGates {
    /// Capacity reservations are used.
    pub(crate) reserved_capacity: bool,
    /// Spot nodes may be consolidated into cheaper spot nodes.
    pub(crate) spot_to_spot_consolidation: bool,
    /// Nodes are repaired according to the provider's repair policies.
    pub(crate) node_repair: bool,
    /// NodeOverlay objects have an effect.
    pub(crate) node_overlay: bool,
    /// NodePools may have `replicas`.
    pub(crate) static_capacity: bool,
    /// CapacityBuffer objects have an effect.
    pub(crate) capacity_buffer: bool,
}

impl Default for FeatureGates {
    fn default() -> Self {
        Self {
            reserved_capacity: true,
            spot_to_spot_consolidation: false,
            node_repair: false,
            node_overlay: false,
            static_capacity: false,
            capacity_buffer: false,
        }
    }
}

impl FeatureGates {
    /// Names of all gates.
    const NAMES: [&'static str; 6] = [
        "ReservedCapacity",
        "SpotToSpotConsolidation",
        "NodeRepair",
        "NodeOverlay",
        "StaticCapacity",
        "CapacityBuffer",
    ];

    /// Returns the names of the enabled gates that have no effect in this version.
    pub(crate) fn enabled_without_effect(&self) -> Vec<&'static str> {
        let gates = [("NodeOverlay", self.node_overlay), ("CapacityBuffer", self.capacity_buffer)];
        gates.into_iter().filter(|(_, is_enabled)| *is_enabled).map(|(name, _)| name).collect()
    }
}

impl TypedSettings {
    /// Combines flags, environment variables and defaults. The error lists every invalid value.
    pub(super) fn resolve(self, environment: Environment<'_>) -> Result<Settings, Vec<Problem>> {
        // An empty variable counts as absent: charts set variables that have no value.
        let variable = |name: &str| environment(name).filter(|value| !value.trim().is_empty());
        let (mut problems, mut warnings) = (Vec::new(), Vec::new());
        let mut report_invalid = |name: &str, value: &str| {
            problems.push(Problem::new(format!("validating cli flags / env vars, invalid {name} \"{value}\"")));
        };

        let preference_policy = match self.preference_policy.or_else(|| variable("PREFERENCE_POLICY")).as_deref() {
            None | Some("Respect") => PreferencePolicy::Respect,
            Some("Ignore") => PreferencePolicy::Ignore,
            Some(other) => {
                report_invalid("PREFERENCE_POLICY", other);
                PreferencePolicy::Respect
            }
        };
        let min_values_policy = match self.min_values_policy.or_else(|| variable("MIN_VALUES_POLICY")).as_deref() {
            None | Some("Strict") => MinValuesPolicy::Strict,
            Some("BestEffort") => MinValuesPolicy::BestEffort,
            Some(other) => {
                report_invalid("MIN_VALUES_POLICY", other);
                MinValuesPolicy::Strict
            }
        };
        let ignore_dra_requests = match self.ignore_dra_requests.as_deref() {
            Some("true") => true,
            Some("false") => false,
            Some(other) => {
                let message = format!("--ignore-dra-requests: \"{other}\" is not a valid value, must be true or false");
                problems.push(Problem::new(message));
                true
            }
            // An invalid variable falls back to the default, as in Karpenter.
            None => variable("IGNORE_DRA_REQUESTS").is_none_or(|value| {
                parse_bool(&value).unwrap_or_else(|| {
                    warnings.push(ignored_variable("IGNORE_DRA_REQUESTS", &value, "true"));
                    true
                })
            }),
        };
        let feature_gates = match self.feature_gates.or_else(|| variable("FEATURE_GATES")) {
            None => FeatureGates::default(),
            Some(text) => FeatureGates::parse(&text, &mut warnings).unwrap_or_else(|cause| {
                problems.push(Problem::new(format!("parsing feature gates, {cause}")));
                FeatureGates::default()
            }),
        };
        let scheduler_config = self.scheduler_config.or_else(|| variable("SCHEDULER_CONFIG")).unwrap_or_default();
        let default_spread = scheduler_config::parse_default_spread(&scheduler_config).unwrap_or_else(|failures| {
            problems.extend(failures.into_iter().map(Problem::new));
            Vec::new()
        });
        if problems.is_empty() {
            Ok(Settings {
                feature_gates,
                preference_policy,
                min_values_policy,
                ignore_dra_requests,
                default_spread,
                warnings,
            })
        } else {
            Err(problems)
        }
    }
}

impl FeatureGates {
    /// Parses `Name=bool,…`. Unknown names are ignored with a warning, because charts are often
    /// newer than the program.
    fn parse(text: &str, warnings: &mut Vec<String>) -> Result<Self, String> {
        let mut warn = |name: &str| warnings.push(format!("feature gates: {name} is unknown and has no effect"));
        Self::parse_known(text, &mut warn)
    }

    /// Parses `Name=bool,…` of a file that is written for this program. Unknown names are an error.
    pub(crate) fn parse_strictly(text: &str) -> Result<Self, String> {
        let mut unknown = Vec::new();
        let gates = Self::parse_known(text, &mut |name| unknown.push(name.to_owned()))?;
        if unknown.is_empty() {
            return Ok(gates);
        }
        let names = Self::NAMES.join(", ");
        Err(format!("there is no feature gate {}; the feature gates are {names}", unknown.join(", ")))
    }

    fn parse_known(text: &str, on_unknown: &mut impl FnMut(&str)) -> Result<Self, String> {
        let mut gates = Self::default();
        for token in text.split(',').map(str::trim).filter(|token| !token.is_empty()) {
            let (name, value) = token.split_once('=').ok_or_else(|| format!("missing bool value for {token}"))?;
            let value = value.trim();
            let value =
                parse_bool(value).ok_or_else(|| format!("invalid value of {token}: \"{value}\" is not a boolean"))?;
            match gates.gate(name.trim()) {
                Some(gate) => *gate = value,
                None => on_unknown(name.trim()),
            }
        }
        Ok(gates)
    }

    /// Returns the gate of a name. Returns `None` for an unknown name.
    fn gate(&mut self, name: &str) -> Option<&mut bool> {
        match name {
            "ReservedCapacity" => Some(&mut self.reserved_capacity),
            "SpotToSpotConsolidation" => Some(&mut self.spot_to_spot_consolidation),
            "NodeRepair" => Some(&mut self.node_repair),
            "NodeOverlay" => Some(&mut self.node_overlay),
            "StaticCapacity" => Some(&mut self.static_capacity),
            "CapacityBuffer" => Some(&mut self.capacity_buffer),
            _ => None,
        }
    }
}

/// Returns a warning about an environment variable whose value is ignored.
pub(super) fn ignored_variable(name: &str, value: &str, default: impl fmt::Display) -> String {
    format!("{name}: \"{value}\" is not a valid value; the default, {default}, is used")
}

/// Parses a duration as Kubernetes writes it (`1h30m`); negative durations are rejected.
pub(super) fn parse_duration(text: &str) -> Result<Duration, String> {
    let parsed: kerf_api::duration::Duration = text.parse().map_err(|why: DurationError| why.to_string())?;
    parsed.to_std().ok_or_else(|| "must not be negative".to_owned())
}

/// Parses a boolean in one of the spellings that Karpenter accepts.
pub(super) fn parse_bool(text: &str) -> Option<bool> {
    match text {
        "1" | "t" | "T" | "TRUE" | "true" | "True" => Some(true),
        "0" | "f" | "F" | "FALSE" | "false" | "False" => Some(false),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test may fail by panicking")]

    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct SettingsCli {
        #[command(flatten)]
        settings: TypedSettings,
    }

    fn resolve(arguments: &[&str], variables: &[(&str, &str)]) -> Result<Settings, Vec<String>> {
        let program =
            SettingsCli::try_parse_from([&["kerf"], arguments].concat()).map_err(|cause| vec![cause.to_string()])?;
        let environment =
            |name: &str| variables.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned());
        program.settings.resolve(&environment).map_err(|problems| problems.iter().map(Problem::to_string).collect())
    }

    #[test]
    fn the_defaults_apply_without_flags_and_variables() {
        assert_eq!(resolve(&[], &[("PREFERENCE_POLICY", ""), ("FEATURE_GATES", " ")]).unwrap(), Settings::defaults());
    }

    // spec 07 #2
    #[test]
    fn a_flag_wins_over_its_variable_and_other_variables_still_count() {
        let variables =
            [("PREFERENCE_POLICY", "Ignore"), ("MIN_VALUES_POLICY", "BestEffort"), ("IGNORE_DRA_REQUESTS", "f")];
        let settings = resolve(&["--preference-policy", "Respect"], &variables).unwrap();
        let expected = Settings {
            min_values_policy: MinValuesPolicy::BestEffort,
            ignore_dra_requests: false,
            ..Settings::defaults()
        };
        assert_eq!(settings, expected);
    }

    // Spec 07 section 2.1.
    #[test]
    fn an_invalid_boolean_is_an_error_as_a_flag_and_ignored_as_a_variable() {
        let warnings =
            vec!["IGNORE_DRA_REQUESTS: \"maybe\" is not a valid value; the default, true, is used".to_owned()];
        assert_eq!(
            resolve(&[], &[("IGNORE_DRA_REQUESTS", "maybe")]).unwrap(),
            Settings { warnings, ..Settings::defaults() }
        );
        assert_eq!(
            resolve(&["--ignore-dra-requests=yes"], &[]).unwrap_err(),
            ["--ignore-dra-requests: \"yes\" is not a valid value, must be true or false"]
        );
        assert!(resolve(&["--ignore-dra-requests"], &[("IGNORE_DRA_REQUESTS", "false")]).unwrap().ignore_dra_requests);
        assert!(!resolve(&["--ignore-dra-requests=false"], &[]).unwrap().ignore_dra_requests);
    }

    // spec 07 #7 and #8
    #[test]
    fn unknown_feature_gates_are_ignored_and_missing_ones_keep_their_defaults() {
        let variables = [("FEATURE_GATES", "Hello=true,SpotToSpotConsolidation\t= true,World=true")];
        let settings = resolve(&[], &variables).unwrap();
        let warning = |name: &str| format!("feature gates: {name} is unknown and has no effect");
        assert_eq!(settings.warnings, [warning("Hello"), warning("World")]);
        let gates = settings.feature_gates;
        assert_eq!(gates, FeatureGates { spot_to_spot_consolidation: true, ..FeatureGates::default() });
        let off = resolve(&[], &[("FEATURE_GATES", "SpotToSpotConsolidation\t= false")]).unwrap().feature_gates;
        assert_eq!(off, FeatureGates::default());
        let gates = resolve(&["--feature-gates", "NodeRepair=true"], &[]).unwrap().feature_gates;
        assert!(gates.node_repair && gates.reserved_capacity);
    }

    #[test]
    fn a_file_for_this_program_has_only_known_feature_gates() {
        for name in FeatureGates::NAMES {
            assert!(FeatureGates::parse_strictly(&format!("{name}=false")).is_ok(), "{name}");
        }
        assert_eq!(
            FeatureGates::parse_strictly("Hello=true,NodeRepair=true,World=true").unwrap_err(),
            "there is no feature gate Hello, World; the feature gates are ReservedCapacity, SpotToSpotConsolidation, \
             NodeRepair, NodeOverlay, StaticCapacity, CapacityBuffer"
        );
        assert_eq!(FeatureGates::parse_strictly("NodeRepair").unwrap_err(), "missing bool value for NodeRepair");
    }

    // spec 07 #12
    #[test]
    fn the_scheduler_configuration_is_parsed_strictly() {
        let config = "podTopologySpread: {defaultConstraints: [{maxSkew: 1, topologyKey: zone, whenUnsatisfiable: DoNotSchedule}]}";
        let by_flag = resolve(&["--scheduler-config", config], &[("SCHEDULER_CONFIG", "nonsense")]).unwrap();
        assert_eq!(resolve(&[], &[("SCHEDULER_CONFIG", config)]).unwrap(), by_flag);
        assert_eq!(by_flag.default_spread.len(), 1);
        assert_eq!(resolve(&["--scheduler-config="], &[("SCHEDULER_CONFIG", config)]).unwrap(), Settings::defaults());
        let list = resolve(&["--scheduler-config", "[]"], &[]).unwrap_err();
        assert!(list[0].contains("expected an object with podTopologySpread"), "{list:?}");
        let zero = config.replace("maxSkew: 1", "maxSkew: 0");
        assert_eq!(
            resolve(&[], &[("SCHEDULER_CONFIG", &zero)]).unwrap_err(),
            [
                "parsing scheduler config, validating scheduler config, podTopologySpread.defaultConstraints[0].maxSkew must be greater than 0"
            ]
        );
    }

    #[test]
    fn all_invalid_values_are_reported_together() {
        let variables = [("PREFERENCE_POLICY", "x"), ("MIN_VALUES_POLICY", "y"), ("FEATURE_GATES", "NodeRepair")];
        assert_eq!(
            resolve(&[], &variables).unwrap_err(),
            [
                "validating cli flags / env vars, invalid PREFERENCE_POLICY \"x\"",
                "validating cli flags / env vars, invalid MIN_VALUES_POLICY \"y\"",
                "parsing feature gates, missing bool value for NodeRepair",
            ]
        );
    }
}
