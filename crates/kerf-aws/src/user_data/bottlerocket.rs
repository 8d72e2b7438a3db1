//! User data of Bottlerocket: settings in TOML, merged into those of the user (spec 05 §14.4).
//!
//! All tables below `settings` are kept, but `settings.kubernetes` keeps known keys only, because
//! Bottlerocket does not boot with keys that it does not know. Values of known keys are checked, so
//! that a mistake fails the launch and not the boot.

mod schema;

use std::collections::BTreeMap;

use kerf_api::ec2nodeclass::{Ami, AmiSelectorTerm};
use toml::{Table, Value};

use super::{UserDataError, UserDataInput};

/// Name of the bootstrap command that mounts local disks.
const MOUNT_COMMAND: &str = "000-mount-instance-storage";
/// Version from which `ephemeral-storage bind` has default folders.
const DEFAULT_BIND_SINCE: (u64, u64) = (1, 46);

/// The command by which an image mounts its ephemeral storage.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum BindCommand {
    /// The image has default folders.
    DefaultFolders,
    /// The folders must be listed.
    #[default]
    ListedFolders,
}

/// Reason why custom user data of Bottlerocket cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SettingsError {
    /// The text is not TOML.
    #[error("toml: {0}")]
    Syntax(String),
    /// A known key has a value of another type.
    #[error("toml: {path}: expected {expected}, found {found}")]
    WrongType {
        /// Path of the key, for example `settings.kubernetes.max-pods`.
        path: String,
        /// The type that Bottlerocket expects.
        expected: &'static str,
        /// Type of the value.
        found: &'static str,
    },
}

/// Returns the user data.
pub(super) fn render(input: &UserDataInput<'_>) -> Result<String, UserDataError> {
    let mut settings = custom_settings(input.custom.unwrap_or_default())?;
    let mut kubernetes = match settings.remove("kubernetes") {
        Some(Value::Table(own)) => schema::checked_kubernetes(own)?,
        Some(other) => return Err(schema::wrong_type("settings.kubernetes", "a table", &other).into()),
        None => Table::new(),
    };
    set_cluster(&mut kubernetes, input);
    set_kubelet(&mut kubernetes, input);
    kubernetes.retain(|key, value| key == schema::TOPOLOGY_MANAGER_POLICY_OPTIONS || !is_empty_collection(value));
    settings.insert("kubernetes".into(), Value::Table(kubernetes));
    add_bootstrap_commands(&mut settings, input)?;
    let document = Table::from_iter([("settings".to_owned(), Value::Table(settings))]);
    // A table of tables, texts, numbers and lists can always be written.
    Ok(toml::to_string(&document).map_err(|error| SettingsError::Syntax(error.to_string()))?)
}

/// Reads settings as an instance does. Unlike [`render`], it does not drop unknown keys.
pub(super) fn read_settings(user_data: &str) -> Result<serde_json::Value, String> {
    let settings = custom_settings(user_data).map_err(|error| error.to_string())?;
    if let Some(Value::Table(own)) = settings.get("kubernetes") {
        let known = schema::checked_kubernetes(own.clone()).map_err(|error| error.to_string())?;
        if let Some(key) = own.keys().find(|key| !known.contains_key(*key)) {
            return Err(format!("unknown setting settings.kubernetes.{key}"));
        }
    }
    serde_json::to_value(settings).map_err(|error| error.to_string())
}

/// Returns the table `settings` of custom user data. Other tables are dropped.
fn custom_settings(custom: &str) -> Result<Table, SettingsError> {
    let mut document: Table = custom.parse().map_err(|error: toml::de::Error| {
        // The error quotes the line over several lines; a condition has one line.
        SettingsError::Syntax(error.message().to_owned())
    })?;
    match document.remove("settings") {
        Some(Value::Table(settings)) => Ok(settings),
        Some(other) => Err(schema::wrong_type("settings", "a table", &other)),
        None => Ok(Table::new()),
    }
}

fn set_cluster(kubernetes: &mut Table, input: &UserDataInput<'_>) {
    kubernetes.insert("api-server".into(), Value::String(input.cluster.endpoint.clone()));
    kubernetes.insert("cluster-name".into(), Value::String(input.cluster_name.to_owned()));
    match &input.cluster.ca_bundle {
        Some(ca_bundle) => kubernetes.insert("cluster-certificate".into(), Value::String(ca_bundle.clone())),
        None => kubernetes.remove("cluster-certificate"),
    };
    let labels = kubernetes.entry("node-labels").or_insert_with(|| Value::Table(Table::new()));
    if let Value::Table(labels) = labels {
        labels.extend(input.labels.iter().map(|(key, value)| (key.clone(), Value::String(value.clone()))));
    }
    let mut taints: BTreeMap<&str, Vec<Value>> = BTreeMap::new();
    for taint in input.taints {
        let text = format!("{}:{}", taint.value.as_deref().unwrap_or_default(), taint.effect);
        taints.entry(&taint.key).or_default().push(Value::String(text));
    }
    let taints = taints.into_iter().map(|(key, values)| (key.to_owned(), Value::Array(values)));
    kubernetes.insert("node-taints".into(), Value::Table(taints.collect()));
}

fn set_kubelet(kubernetes: &mut Table, input: &UserDataInput<'_>) {
    let settings = input.resolved_kubelet.settings();
    kubernetes.insert("max-pods".into(), Value::Integer(input.node_max_pods()));
    if let Some(address) = input.cluster_dns().into_iter().next() {
        kubernetes.insert("cluster-dns-ip".into(), Value::String(address));
    }
    let grace_periods = settings.eviction_soft_grace_period.iter();
    let grace_periods = grace_periods.map(|(signal, period)| (signal.clone(), period.to_string())).collect();
    for (field, key, values) in [
        ("systemReserved", "system-reserved", &settings.system_reserved),
        ("kubeReserved", "kube-reserved", &settings.kube_reserved),
        ("evictionHard", "eviction-hard", &settings.eviction_hard),
        ("evictionSoft", "eviction-soft", &settings.eviction_soft),
        ("evictionSoftGracePeriod", "eviction-soft-grace-period", &grace_periods),
    ] {
        // An empty map of the class replaces the user's too.
        if input.kubelet.is_some_and(|kubelet| kubelet.get(field).is_some_and(|value| !value.is_null())) {
            let values = values.iter().map(|(key, value)| (key.clone(), Value::String(value.clone())));
            kubernetes.insert(key.into(), Value::Table(values.collect()));
        }
    }
    let text = |value: i64| Value::String(value.to_string());
    for (key, value) in [
        ("eviction-max-pod-grace-period", settings.eviction_max_pod_grace_period.map(Value::Integer)),
        ("image-gc-high-threshold-percent", settings.image_gc_high_threshold_percent.map(text)),
        ("image-gc-low-threshold-percent", settings.image_gc_low_threshold_percent.map(text)),
        ("cpu-cfs-quota-enforced", settings.cpu_cfs_quota.map(Value::Boolean)),
    ] {
        if let Some(value) = value {
            kubernetes.insert(key.into(), value);
        }
    }
}

fn is_empty_collection(value: &Value) -> bool {
    value.as_table().is_some_and(Table::is_empty) || value.as_array().is_some_and(Vec::is_empty)
}

/// Checks the user's bootstrap commands and adds the one that mounts local disks.
fn add_bootstrap_commands(settings: &mut Table, input: &UserDataInput<'_>) -> Result<(), SettingsError> {
    const KEY: &str = "bootstrap-commands";
    let mut commands = match settings.remove(KEY) {
        Some(own) => Some(schema::checked_bootstrap_commands(own)?),
        None => None,
    };
    if input.uses_raid0 {
        commands.get_or_insert_default().insert(MOUNT_COMMAND.into(), mount_command(input.bind_command));
    }
    if let Some(commands) = commands {
        settings.insert(KEY.into(), Value::Table(commands));
    }
    Ok(())
}

fn mount_command(bind: BindCommand) -> Value {
    let words = |words: &[&str]| Value::Array(words.iter().map(|word| Value::String((*word).to_owned())).collect());
    let bind = match bind {
        BindCommand::DefaultFolders => words(&["apiclient", "ephemeral-storage", "bind"]),
        BindCommand::ListedFolders => words(&[
            "apiclient",
            "ephemeral-storage",
            "bind",
            "--dirs",
            "/var/lib/containerd",
            "/var/lib/kubelet",
            "/var/log/pods",
        ]),
    };
    Value::Table(Table::from_iter([
        ("commands".to_owned(), Value::Array(vec![words(&["apiclient", "ephemeral-storage", "init"]), bind])),
        ("mode".to_owned(), Value::String("always".to_owned())),
        ("essential".to_owned(), Value::Boolean(true)),
    ]))
}

/// Returns the command that the images of a class support. Their version comes from the alias, the
/// name of a term, the resolved image of a term's ID, or any resolved image, in this order.
pub fn bind_command(terms: &[AmiSelectorTerm], amis: &[Ami]) -> BindCommand {
    let of_alias = terms.iter().filter_map(|term| term.alias.as_deref()).find_map(|alias| {
        let (_, version) = alias.split_once('@')?;
        if version.is_empty() || version.contains('@') { None } else { Some(version) }
    });
    let of_name = || terms.iter().filter_map(|term| term.name.as_deref()).find_map(version_in_name);
    let of_id = || {
        let ids = terms.iter().filter_map(|term| term.id.as_deref());
        ids.filter_map(|id| images_of_family(amis).find(|ami| ami.id == id))
            .find_map(|ami| version_in_name(ami.name.as_deref().unwrap_or_default()))
    };
    let of_any = || images_of_family(amis).find_map(|ami| version_in_name(ami.name.as_deref().unwrap_or_default()));
    match of_alias.or_else(of_name).or_else(of_id).or_else(of_any) {
        Some(version) if has_default_folders(version) => BindCommand::DefaultFolders,
        Some(_) | None => BindCommand::ListedFolders,
    }
}

fn images_of_family(amis: &[Ami]) -> impl Iterator<Item = &Ami> {
    amis.iter().filter(|ami| ami.name.as_deref().is_some_and(|name| name.contains("bottlerocket")))
}

/// Returns the version in a name such as `bottlerocket-aws-k8s-1.34-x86_64-v1.52.0-6ef1139f`.
fn version_in_name(name: &str) -> Option<&str> {
    name.split('-').find(|part| part.starts_with('v') && part.contains('.'))
}

fn has_default_folders(version: &str) -> bool {
    if version == "latest" {
        return true;
    }
    let mut parts = version.trim_start_matches('v').split('.');
    let mut number = || parts.next().and_then(|part| part.parse::<u64>().ok());
    match (number(), number()) {
        (Some(major), Some(minor)) => parts.next().is_some() && (major, minor) >= DEFAULT_BIND_SINCE,
        (Some(_), None) | (None, Some(_) | None) => false,
    }
}
