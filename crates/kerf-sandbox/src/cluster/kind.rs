//! The built-in kinds that the control plane reads and writes, and their paths in the API.

use crate::api::storage::ObjectKey;

/// A built-in kind that the control plane reads or writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum ControlPlaneKind {
    Namespace,
    Node,
    Pod,
    Event,
    ServiceAccount,
    ConfigMap,
    PersistentVolumeClaim,
    PersistentVolume,
    Deployment,
    ReplicaSet,
    StatefulSet,
    DaemonSet,
    ControllerRevision,
    Job,
    CronJob,
    HorizontalPodAutoscaler,
    PodDisruptionBudget,
    Lease,
    VolumeAttachment,
    CsiNode,
}

impl ControlPlaneKind {
    pub(crate) const ALL: [Self; 20] = [
        Self::Namespace,
        Self::Node,
        Self::Pod,
        Self::Event,
        Self::ServiceAccount,
        Self::ConfigMap,
        Self::PersistentVolumeClaim,
        Self::PersistentVolume,
        Self::Deployment,
        Self::ReplicaSet,
        Self::StatefulSet,
        Self::DaemonSet,
        Self::ControllerRevision,
        Self::Job,
        Self::CronJob,
        Self::HorizontalPodAutoscaler,
        Self::PodDisruptionBudget,
        Self::Lease,
        Self::VolumeAttachment,
        Self::CsiNode,
    ];

    /// Returns API group, kind and plural.
    const fn names(self) -> (&'static str, &'static str, &'static str) {
        match self {
            Self::Namespace => ("", "Namespace", "namespaces"),
            Self::Node => ("", "Node", "nodes"),
            Self::Pod => ("", "Pod", "pods"),
            Self::Event => ("", "Event", "events"),
            Self::ServiceAccount => ("", "ServiceAccount", "serviceaccounts"),
            Self::ConfigMap => ("", "ConfigMap", "configmaps"),
            Self::PersistentVolumeClaim => ("", "PersistentVolumeClaim", "persistentvolumeclaims"),
            Self::PersistentVolume => ("", "PersistentVolume", "persistentvolumes"),
            Self::Deployment => ("apps", "Deployment", "deployments"),
            Self::ReplicaSet => ("apps", "ReplicaSet", "replicasets"),
            Self::StatefulSet => ("apps", "StatefulSet", "statefulsets"),
            Self::DaemonSet => ("apps", "DaemonSet", "daemonsets"),
            Self::ControllerRevision => ("apps", "ControllerRevision", "controllerrevisions"),
            Self::Job => ("batch", "Job", "jobs"),
            Self::CronJob => ("batch", "CronJob", "cronjobs"),
            Self::HorizontalPodAutoscaler => ("autoscaling", "HorizontalPodAutoscaler", "horizontalpodautoscalers"),
            Self::PodDisruptionBudget => ("policy", "PodDisruptionBudget", "poddisruptionbudgets"),
            Self::Lease => ("coordination.k8s.io", "Lease", "leases"),
            Self::VolumeAttachment => ("storage.k8s.io", "VolumeAttachment", "volumeattachments"),
            Self::CsiNode => ("storage.k8s.io", "CSINode", "csinodes"),
        }
    }

    pub(crate) fn group(self) -> &'static str {
        self.names().0
    }

    pub(crate) fn kind(self) -> &'static str {
        self.names().1
    }

    pub(crate) fn plural(self) -> &'static str {
        self.names().2
    }

    /// Returns the version in which the control plane reads and writes the kind.
    fn version(self) -> &'static str {
        if self == Self::HorizontalPodAutoscaler { "v2" } else { "v1" }
    }

    pub(crate) fn api_version(self) -> String {
        let version = self.version();
        if self.group().is_empty() { version.into() } else { format!("{}/{version}", self.group()) }
    }

    /// Returns the path of a collection. `namespace` is empty for cluster-scoped kinds and for all
    /// namespaces.
    pub(crate) fn collection_path(self, namespace: &str) -> String {
        collection_path(self.group(), self.version(), self.plural(), namespace)
    }

    /// Returns the path of one object.
    pub(crate) fn path(self, key: &ObjectKey) -> String {
        let (namespace, name) = key.parts();
        format!("{}/{}", self.collection_path(namespace), escape_path_segment(name))
    }
}

/// Returns the path of a collection of any resource. `namespace` is empty for cluster-scoped
/// resources.
pub(crate) fn collection_path(group: &str, version: &str, plural: &str, namespace: &str) -> String {
    let root = if group.is_empty() { format!("/api/{version}") } else { format!("/apis/{group}/{version}") };
    if namespace.is_empty() { format!("{root}/{plural}") } else { format!("{root}/namespaces/{namespace}/{plural}") }
}

/// Percent-encodes a name for a URL path. Some kinds allow names with characters that a path must
/// escape.
pub(crate) fn escape_path_segment(name: &str) -> String {
    let mut path = String::with_capacity(name.len());
    for byte in name.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~:@".contains(&byte) {
            path.push(char::from(byte));
        } else {
            use std::fmt::Write as _;
            // Writing to a String cannot fail.
            let _ = write!(path, "%{byte:02X}");
        }
    }
    path
}
