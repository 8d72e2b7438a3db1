//! The keys of Bottlerocket's settings that Kerf knows, with their types.

use toml::{Table, Value};
use tracing::error;

use super::SettingsError;

/// Value that a key may have.
#[derive(Debug, Clone, Copy)]
enum SettingType {
    Text,
    Integer,
    /// An integer from 0 to 2^32 - 1.
    Unsigned,
    Boolean,
    TextList,
    TextMap,
    /// A table of lists of texts.
    TextListMap,
    /// A list of lists of texts.
    CommandList,
    /// A table with these keys. Other keys are dropped.
    Fields(&'static [(&'static str, SettingType)]),
    /// A table of tables with these keys.
    FieldsMap(&'static [(&'static str, SettingType)]),
}

use SettingType::{Boolean, CommandList, Fields, FieldsMap, Integer, Text, TextList, TextListMap, TextMap, Unsigned};

const KUBERNETES: &[(&str, SettingType)] = &[
    ("allowed-unsafe-sysctls", TextList),
    ("api-server", Text),
    ("cloud-provider", Text),
    ("cluster-certificate", Text),
    ("cluster-dns-ip", Text),
    ("cluster-domain", Text),
    ("cluster-name", Text),
    ("container-log-max-files", Integer),
    ("container-log-max-size", Text),
    ("container-log-max-workers", Integer),
    ("container-log-monitor-interval", Text),
    ("cpu-cfs-quota-enforced", Boolean),
    ("cpu-manager-policy", Text),
    ("cpu-manager-policy-options", TextList),
    ("cpu-manager-reconcile-period", Text),
    (CREDENTIAL_PROVIDERS, FieldsMap(CREDENTIAL_PROVIDER)),
    ("device-ownership-from-security-context", Boolean),
    ("event-burst", Integer),
    ("event-qps", Integer),
    ("eviction-hard", TextMap),
    ("eviction-max-pod-grace-period", Integer),
    ("eviction-soft", TextMap),
    ("eviction-soft-grace-period", TextMap),
    ("hostname-override-source", Text),
    ("ids-per-pod", Integer),
    ("image-gc-high-threshold-percent", Text),
    ("image-gc-low-threshold-percent", Text),
    ("kube-api-burst", Integer),
    ("kube-api-qps", Integer),
    ("kube-reserved", TextMap),
    ("log-level", Unsigned),
    ("max-pods", Integer),
    ("memory-manager-policy", Text),
    ("memory-manager-reserved-memory", FieldsMap(RESERVED_MEMORY)),
    ("node-labels", TextMap),
    ("node-taints", TextListMap),
    ("pod-pids-limit", Integer),
    ("registry-burst", Integer),
    ("registry-qps", Integer),
    ("seccomp-default", Boolean),
    ("server-tls-bootstrap", Boolean),
    ("shutdown-grace-period", Text),
    ("shutdown-grace-period-for-critical-pods", Text),
    ("single-process-oom-kill", Boolean),
    ("static-pods", FieldsMap(STATIC_POD)),
    ("system-reserved", TextMap),
    ("topology-manager-policy", Text),
    (TOPOLOGY_MANAGER_POLICY_OPTIONS, Fields(TOPOLOGY_OPTIONS)),
    ("topology-manager-scope", Text),
];

/// Key whose table is kept even if it is empty, as in Karpenter.
pub(super) const TOPOLOGY_MANAGER_POLICY_OPTIONS: &str = "topology-manager-policy-options";
const CREDENTIAL_PROVIDERS: &str = "credential-providers";

const CREDENTIAL_PROVIDER: &[(&str, SettingType)] =
    &[("enabled", Boolean), ("cache-duration", Text), ("image-patterns", TextList), ("environment", TextMap)];
const RESERVED_MEMORY: &[(&str, SettingType)] =
    &[("enabled", Boolean), ("memory", Text), ("hugepages-2Mi", Text), ("hugepages-1Gi", Text)];
const STATIC_POD: &[(&str, SettingType)] = &[("enabled", Boolean), ("manifest", Text)];
const TOPOLOGY_OPTIONS: &[(&str, SettingType)] =
    &[("prefer-closest-numa-nodes", Boolean), ("max-allowable-numa-nodes", Integer)];
const BOOTSTRAP_COMMAND: &[(&str, SettingType)] = &[("commands", CommandList), ("mode", Text), ("essential", Boolean)];

/// Returns the known keys of `settings.kubernetes`, and for each credential provider a list of
/// image patterns. Unknown keys are logged. Fails if a known key has a value of another type.
pub(super) fn checked_kubernetes(own: Table) -> Result<Table, SettingsError> {
    let mut known = checked_fields(own, "settings.kubernetes", KUBERNETES)?;
    if let Some(Value::Table(providers)) = known.get_mut(CREDENTIAL_PROVIDERS) {
        for (_, provider) in providers {
            if let Value::Table(provider) = provider {
                provider.entry("image-patterns").or_insert_with(|| Value::Array(Vec::new()));
            }
        }
    }
    Ok(known)
}

/// Returns the user's bootstrap commands, each with all three of its keys.
pub(super) fn checked_bootstrap_commands(own: Value) -> Result<Table, SettingsError> {
    let path = "settings.bootstrap-commands";
    let mut commands = match checked(own, path, FieldsMap(BOOTSTRAP_COMMAND))? {
        Value::Table(commands) => commands,
        other => return Err(wrong_type(path, "a table", &other)),
    };
    for (_, command) in &mut commands {
        if let Value::Table(command) = command {
            command.entry("commands").or_insert_with(|| Value::Array(Vec::new()));
            command.entry("mode").or_insert_with(|| Value::String(String::new()));
            command.entry("essential").or_insert(Value::Boolean(false));
        }
    }
    Ok(commands)
}

/// Returns the error for a value of an unexpected type.
pub(super) fn wrong_type(path: &str, expected: &'static str, value: &Value) -> SettingsError {
    SettingsError::WrongType { path: path.to_owned(), expected, found: value.type_str() }
}

fn checked(value: Value, path: &str, expected: SettingType) -> Result<Value, SettingsError> {
    match (expected, value) {
        (Text, value @ Value::String(_))
        | (Integer, value @ Value::Integer(_))
        | (Boolean, value @ Value::Boolean(_)) => Ok(value),
        (Unsigned, Value::Integer(number)) if u32::try_from(number).is_ok() => Ok(Value::Integer(number)),
        (TextList, Value::Array(items)) => checked_items(items, path, Text).map(Value::Array),
        (CommandList, Value::Array(items)) => checked_items(items, path, TextList).map(Value::Array),
        (TextMap, Value::Table(own)) => checked_values(own, path, Text).map(Value::Table),
        (TextListMap, Value::Table(own)) => checked_values(own, path, TextList).map(Value::Table),
        (Fields(fields), Value::Table(own)) => checked_fields(own, path, fields).map(Value::Table),
        (FieldsMap(fields), Value::Table(own)) => checked_values(own, path, Fields(fields)).map(Value::Table),
        (expected, value) => Err(wrong_type(path, expected.name(), &value)),
    }
}

fn checked_items(items: Vec<Value>, path: &str, expected: SettingType) -> Result<Vec<Value>, SettingsError> {
    items.into_iter().enumerate().map(|(ix, item)| checked(item, &format!("{path}[{ix}]"), expected)).collect()
}

fn checked_values(own: Table, path: &str, expected: SettingType) -> Result<Table, SettingsError> {
    own.into_iter().map(|(key, value)| Ok((key.clone(), checked(value, &format!("{path}.{key}"), expected)?))).collect()
}

fn checked_fields(
    own: Table,
    path: &str,
    fields: &'static [(&'static str, SettingType)],
) -> Result<Table, SettingsError> {
    let mut known = Table::new();
    for (key, value) in own {
        let path = format!("{path}.{key}");
        match fields.iter().find(|(name, _)| name.eq_ignore_ascii_case(&key)) {
            Some((name, expected)) => {
                known.insert((*name).to_owned(), checked(value, &path, *expected)?);
            }
            None => error!(parameter = path, "Unknown parameter in userData K8s settings"),
        }
    }
    Ok(known)
}

impl SettingType {
    fn name(self) -> &'static str {
        match self {
            Text => "a string",
            Integer => "an integer",
            Unsigned => "an integer from 0 to 4294967295",
            Boolean => "a boolean",
            TextList => "a list of strings",
            TextMap => "a table of strings",
            TextListMap => "a table of lists of strings",
            CommandList => "a list of lists of strings",
            Fields(_) => "a table",
            FieldsMap(_) => "a table of tables",
        }
    }
}
