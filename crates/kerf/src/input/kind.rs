//! Which objects Kerf reads (spec 09 section 2.1). The table is the one place that knows them; an object of any other kind or version is
//! counted and left alone.

/// A kind of object that some decision reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Kind {
    NodePool,
    NodeClaim,
    NodeOverlay,
    CapacityBuffer,
    KwokNodeClass,
    Ec2NodeClass,
    Node,
    Pod,
    Deployment,
    ReplicaSet,
    StatefulSet,
    ReplicationController,
    DaemonSet,
    Job,
    PersistentVolumeClaim,
    PersistentVolume,
    StorageClass,
    CsiNode,
    VolumeAttachment,
    PodDisruptionBudget,
    PriorityClass,
    RuntimeClass,
    Service,
    Namespace,
}

/// Whether objects of a kind live in namespaces.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Scope {
    Cluster,
    Namespaced,
}

use Scope::{Cluster, Namespaced};

/// Every kind with its group and version, its name and its scope.
const KINDS: [(Kind, &str, &str, Scope); 24] = [
    (Kind::NodePool, "karpenter.sh/v1", "NodePool", Cluster),
    (Kind::NodeClaim, "karpenter.sh/v1", "NodeClaim", Cluster),
    (Kind::NodeOverlay, "karpenter.sh/v1alpha1", "NodeOverlay", Cluster),
    (Kind::CapacityBuffer, "autoscaling.x-k8s.io/v1beta1", "CapacityBuffer", Namespaced),
    (Kind::KwokNodeClass, "karpenter.kwok.sh/v1alpha1", "KWOKNodeClass", Cluster),
    (Kind::Ec2NodeClass, "karpenter.k8s.aws/v1", "EC2NodeClass", Cluster),
    (Kind::Node, "v1", "Node", Cluster),
    (Kind::Pod, "v1", "Pod", Namespaced),
    (Kind::Deployment, "apps/v1", "Deployment", Namespaced),
    (Kind::ReplicaSet, "apps/v1", "ReplicaSet", Namespaced),
    (Kind::StatefulSet, "apps/v1", "StatefulSet", Namespaced),
    (Kind::ReplicationController, "v1", "ReplicationController", Namespaced),
    (Kind::DaemonSet, "apps/v1", "DaemonSet", Namespaced),
    (Kind::Job, "batch/v1", "Job", Namespaced),
    (Kind::PersistentVolumeClaim, "v1", "PersistentVolumeClaim", Namespaced),
    (Kind::PersistentVolume, "v1", "PersistentVolume", Cluster),
    (Kind::StorageClass, "storage.k8s.io/v1", "StorageClass", Cluster),
    (Kind::CsiNode, "storage.k8s.io/v1", "CSINode", Cluster),
    (Kind::VolumeAttachment, "storage.k8s.io/v1", "VolumeAttachment", Cluster),
    (Kind::PodDisruptionBudget, "policy/v1", "PodDisruptionBudget", Namespaced),
    (Kind::PriorityClass, "scheduling.k8s.io/v1", "PriorityClass", Cluster),
    (Kind::RuntimeClass, "node.k8s.io/v1", "RuntimeClass", Cluster),
    (Kind::Service, "v1", "Service", Namespaced),
    (Kind::Namespace, "v1", "Namespace", Cluster),
];

impl Kind {
    /// The kind that an object says it is.
    pub(crate) fn of(api_version: &str, name: &str) -> Option<Self> {
        let known = KINDS.iter().find(|(_, version, known, _)| *known == name && *version == api_version);
        known.map(|(kind, ..)| *kind)
    }

    /// The version that this group serves of a kind, for objects that name another one.
    pub(crate) fn served_version(api_version: &str, name: &str) -> Option<&'static str> {
        let group = group(api_version);
        KINDS
            .iter()
            .find(|(_, version, known, _)| *known == name && self::group(version) == group)
            .map(|(_, version, ..)| *version)
    }

    /// The kind as it is written.
    pub(crate) fn name(self) -> &'static str {
        self.row().2
    }

    /// Several of the kind, in a sentence.
    pub(crate) fn plural(self) -> String {
        let name = self.name();
        if name.ends_with('s') { format!("{name}es") } else { format!("{name}s") }
    }

    /// Group and version as they are written.
    pub(crate) fn api_version(self) -> &'static str {
        self.row().1
    }

    /// Whether its objects live in namespaces.
    pub(crate) fn is_namespaced(self) -> bool {
        self.row().3 == Namespaced
    }

    fn row(self) -> &'static (Self, &'static str, &'static str, Scope) {
        KINDS.iter().find(|(kind, ..)| *kind == self).expect("a test checks that the table has every kind")
    }
}

fn group(api_version: &str) -> &str {
    api_version.rsplit_once('/').map_or("", |(group, _)| group)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_has_every_kind_once_and_in_order() {
        for (index, (kind, ..)) in KINDS.iter().enumerate() {
            assert_eq!(*kind as usize, index);
        }
        assert_eq!(KINDS.len(), Kind::Namespace as usize + 1);
    }

    #[test]
    fn several_are_named_as_people_name_them() {
        let plurals = [Kind::Pod, Kind::StorageClass, Kind::KwokNodeClass].map(Kind::plural);
        assert_eq!(plurals, ["Pods", "StorageClasses", "KWOKNodeClasses"]);
    }

    #[test]
    fn kinds_are_told_by_group_version_and_name() {
        assert_eq!(Kind::of("karpenter.sh/v1", "NodePool"), Some(Kind::NodePool));
        assert_eq!(Kind::of("karpenter.sh/v1beta1", "NodePool"), None);
        assert_eq!(Kind::served_version("karpenter.sh/v1beta1", "NodePool"), Some("karpenter.sh/v1"));
        assert_eq!(Kind::of("example.com/v1", "Pod"), None);
        assert_eq!(Kind::served_version("example.com/v1", "Pod"), None);
        assert!(Kind::Pod.is_namespaced() && !Kind::Node.is_namespaced());
    }
}
