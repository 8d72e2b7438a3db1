//! Merge keys of lists and ownership of objects, from the published API of Kubernetes 1.36.
//!
//! Merge keys identify the items of a list for server-side apply and strategic merge patches. Lists
//! that are not in the table are replaced as a whole. Objects that are not in the tables are merged
//! field by field.

use super::MergeKey;

/// The merge rules of one field of one type.
pub(super) struct MergeKeyRow {
    /// The type's name without its package.
    pub(super) ty: &'static str,
    pub(super) field: &'static str,
    /// Key fields of the items for server-side apply, separated by commas. `*`: a set of values.
    /// Empty: an atomic list.
    pub(super) keys: &'static str,
    /// The behaviour in a strategic merge patch. See [`MERGE_KEYS`] for the notation.
    pub(super) patch: &'static str,
}

const fn row(ty: &'static str, field: &'static str, keys: &'static str, patch: &'static str) -> MergeKeyRow {
    MergeKeyRow { ty, field, keys, patch }
}

/// The rows. Notation of `patch`: a merge key; `*` a merged list of scalars; `!` replaced as a
/// whole; `~` the strategy "retain keys", followed by the merge key if there is one.
#[rustfmt::skip]
pub(super) const MERGE_KEYS: &[MergeKeyRow] = &[
    row("meta.v1.ObjectMeta", "finalizers", "*", "*"),
    row("meta.v1.ObjectMeta", "ownerReferences", "uid", "uid"),
    row("apps.v1.DaemonSetStatus", "conditions", "type", "type"),
    row("apps.v1.DeploymentSpec", "strategy", "", "~"),
    row("apps.v1.DeploymentStatus", "conditions", "type", "type"),
    row("apps.v1.ReplicaSetStatus", "conditions", "type", "type"),
    row("apps.v1.StatefulSetStatus", "conditions", "type", "type"),
    row("autoscaling.v2.HorizontalPodAutoscalerStatus", "conditions", "type", "type"),
    row("batch.v1.JobStatus", "conditions", "", "type"),
    row("batch.v1.PodFailurePolicyOnExitCodesRequirement", "values", "*", ""),
    row("batch.v1.UncountedTerminatedPods", "failed", "*", ""),
    row("batch.v1.UncountedTerminatedPods", "succeeded", "*", ""),
    row("core.v1.Container", "env", "name", "name"),
    row("core.v1.Container", "ports", "containerPort,protocol=TCP", "containerPort"),
    row("core.v1.Container", "volumeDevices", "devicePath", "devicePath"),
    row("core.v1.Container", "volumeMounts", "mountPath", "mountPath"),
    row("core.v1.ContainerRestartRuleOnExitCodes", "values", "*", ""),
    row("core.v1.ContainerStatus", "allocatedResourcesStatus", "name", "name"),
    row("core.v1.ContainerStatus", "volumeMounts", "mountPath", "mountPath"),
    row("core.v1.EphemeralContainer", "env", "name", "name"),
    row("core.v1.EphemeralContainer", "ports", "containerPort,protocol=TCP", "containerPort"),
    row("core.v1.EphemeralContainer", "volumeDevices", "devicePath", "devicePath"),
    row("core.v1.EphemeralContainer", "volumeMounts", "mountPath", "mountPath"),
    row("core.v1.NamespaceStatus", "conditions", "type", "type"),
    row("core.v1.NodeAllocatableResourceClaimStatus", "containers", "*", ""),
    row("core.v1.NodeSpec", "podCIDRs", "*", "*"),
    row("core.v1.NodeStatus", "addresses", "type", "type"),
    row("core.v1.NodeStatus", "conditions", "type", "type"),
    row("core.v1.PersistentVolumeClaimStatus", "conditions", "type", "type"),
    row("core.v1.PodSpec", "containers", "name", "name"),
    row("core.v1.PodSpec", "ephemeralContainers", "name", "name"),
    row("core.v1.PodSpec", "hostAliases", "ip", "ip"),
    row("core.v1.PodSpec", "imagePullSecrets", "name=", "name"),
    row("core.v1.PodSpec", "initContainers", "name", "name"),
    row("core.v1.PodSpec", "resourceClaims", "name", "~name"),
    row("core.v1.PodSpec", "schedulingGates", "name", "name"),
    row("core.v1.PodSpec", "topologySpreadConstraints", "topologyKey,whenUnsatisfiable", "topologyKey"),
    row("core.v1.PodSpec", "volumes", "name", "~name"),
    row("core.v1.PodStatus", "conditions", "type", "type"),
    row("core.v1.PodStatus", "hostIPs", "", "ip"),
    row("core.v1.PodStatus", "podIPs", "ip", "ip"),
    row("core.v1.PodStatus", "resourceClaimStatuses", "name", "~name"),
    row("core.v1.ReplicationControllerStatus", "conditions", "type", "type"),
    row("core.v1.ResourceRequirements", "claims", "name", ""),
    row("core.v1.ResourceStatus", "resources", "resourceID", ""),
    row("core.v1.ServiceAccount", "secrets", "name", "name"),
    row("core.v1.ServiceSpec", "ports", "port,protocol=TCP", "port"),
    row("core.v1.ServiceStatus", "conditions", "type", "type"),
    row("discovery.v1.Endpoint", "addresses", "*", ""),
    row("policy.v1.PodDisruptionBudgetSpec", "selector", "", "!"),
    row("policy.v1.PodDisruptionBudgetStatus", "conditions", "type", "type"),
    row("resource.v1.AllocatedDeviceStatus", "conditions", "type", ""),
    row("resource.v1.ResourceClaimStatus", "devices", "driver,device,pool,shareID", ""),
    row("resource.v1.ResourceClaimStatus", "reservedFor", "uid", "uid"),
    row("storage.v1.CSIDriverSpec", "volumeLifecycleModes", "*", ""),
    row("storage.v1.CSINodeSpec", "drivers", "name", "name"),
    row("apiextensions.v1.CustomResourceDefinitionStatus", "conditions", "type", ""),
    row("apiextensions.v1.JSONSchemaProps", "x-kubernetes-validations", "rule", "rule"),
];

/// Types whose values have one owner.
pub(super) const ATOMIC_TYPES: &[&str] = &[
    "autoscaling.v1.CrossVersionObjectReference",
    "core.v1.ConfigMapKeySelector",
    "core.v1.EndpointAddress",
    "core.v1.EndpointPort",
    "core.v1.FileKeySelector",
    "core.v1.LocalObjectReference",
    "core.v1.NodeSelector",
    "core.v1.NodeSelectorTerm",
    "core.v1.ObjectFieldSelector",
    "core.v1.ObjectReference",
    "core.v1.ResourceFieldSelector",
    "core.v1.ScopeSelector",
    "core.v1.SecretKeySelector",
    "core.v1.SecretReference",
    "core.v1.TopologySelectorTerm",
    "core.v1.TypedLocalObjectReference",
    "discovery.v1.EndpointPort",
    "networking.v1.ServiceBackendPort",
    "rbac.v1.RoleRef",
    "rbac.v1.Subject",
    "meta.v1.LabelSelector",
    "meta.v1.OwnerReference",
];

/// Fields that override whether their map or object has one owner (type, field, atomic).
pub(super) const FIELD_ATOMICITY: &[(&str, &str, bool)] = &[
    ("core.v1.PersistentVolumeSpec", "claimRef", false),
    ("core.v1.PodSpec", "nodeSelector", true),
    ("core.v1.ReplicationControllerSpec", "selector", true),
    ("core.v1.ServiceSpec", "selector", true),
    ("node.v1.Scheduling", "nodeSelector", true),
];

impl MergeKeyRow {
    pub(super) fn merge_key(&self) -> Option<MergeKey> {
        match self.patch.trim_start_matches('~') {
            "" | "!" => None,
            "*" => Some(MergeKey::WholeItem),
            key => Some(MergeKey::Field(key.into())),
        }
    }

    pub(super) fn retains_keys(&self) -> bool {
        self.patch.starts_with('~')
    }

    pub(super) fn replaces(&self) -> bool {
        self.patch == "!"
    }
}

/// Returns a definition's name without the common package prefixes: `core.v1.Pod` for
/// `io.k8s.api.core.v1.Pod`.
pub(super) fn short_name(definition: &str) -> &str {
    const PACKAGES: [&str; 4] = [
        "io.k8s.api.",
        "io.k8s.apimachinery.pkg.apis.",
        "io.k8s.apiextensions-apiserver.pkg.apis.",
        "io.k8s.apimachinery.pkg.",
    ];
    PACKAGES.into_iter().find_map(|package| definition.strip_prefix(package)).unwrap_or(definition)
}
