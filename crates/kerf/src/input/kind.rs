//! The kinds that Kerf reads (spec 09 section 2.1). All of them are in one table. Objects of any
//! other kind or version are counted and ignored.

use super::similar_name::most_similar;

/// API group of the AWS node classes.
pub(super) const AWS_GROUP: &str = "karpenter.k8s.aws";

/// API group of the simulated provider's node classes.
pub(super) const KWOK_GROUP: &str = "karpenter.kwok.sh";

/// A kind of object that some decision reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum InputKind {
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

/// Scope of the objects of a kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum KindScope {
    Cluster,
    Namespaced,
}

use KindScope::{Cluster, Namespaced};

/// Every kind with its API version, name and scope.
const KINDS: [(InputKind, &str, &str, KindScope); 24] = [
    (InputKind::NodePool, "karpenter.sh/v1", "NodePool", Cluster),
    (InputKind::NodeClaim, "karpenter.sh/v1", "NodeClaim", Cluster),
    (InputKind::NodeOverlay, "karpenter.sh/v1alpha1", "NodeOverlay", Cluster),
    (InputKind::CapacityBuffer, "autoscaling.x-k8s.io/v1beta1", "CapacityBuffer", Namespaced),
    (InputKind::KwokNodeClass, "karpenter.kwok.sh/v1alpha1", "KWOKNodeClass", Cluster),
    (InputKind::Ec2NodeClass, "karpenter.k8s.aws/v1", "EC2NodeClass", Cluster),
    (InputKind::Node, "v1", "Node", Cluster),
    (InputKind::Pod, "v1", "Pod", Namespaced),
    (InputKind::Deployment, "apps/v1", "Deployment", Namespaced),
    (InputKind::ReplicaSet, "apps/v1", "ReplicaSet", Namespaced),
    (InputKind::StatefulSet, "apps/v1", "StatefulSet", Namespaced),
    (InputKind::ReplicationController, "v1", "ReplicationController", Namespaced),
    (InputKind::DaemonSet, "apps/v1", "DaemonSet", Namespaced),
    (InputKind::Job, "batch/v1", "Job", Namespaced),
    (InputKind::PersistentVolumeClaim, "v1", "PersistentVolumeClaim", Namespaced),
    (InputKind::PersistentVolume, "v1", "PersistentVolume", Cluster),
    (InputKind::StorageClass, "storage.k8s.io/v1", "StorageClass", Cluster),
    (InputKind::CsiNode, "storage.k8s.io/v1", "CSINode", Cluster),
    (InputKind::VolumeAttachment, "storage.k8s.io/v1", "VolumeAttachment", Cluster),
    (InputKind::PodDisruptionBudget, "policy/v1", "PodDisruptionBudget", Namespaced),
    (InputKind::PriorityClass, "scheduling.k8s.io/v1", "PriorityClass", Cluster),
    (InputKind::RuntimeClass, "node.k8s.io/v1", "RuntimeClass", Cluster),
    (InputKind::Service, "v1", "Service", Namespaced),
    (InputKind::Namespace, "v1", "Namespace", Cluster),
];

/// Number of kinds at the beginning of the table that are defined by Kerf's CRDs.
const CUSTOM_KIND_COUNT: usize = 6;

/// API groups whose kinds are all defined by Kerf's CRDs.
const GROUPS_DEFINED_BY_KERF: [&str; 3] = ["karpenter.sh", "karpenter.kwok.sh", "karpenter.k8s.aws"];

impl InputKind {
    /// Returns the kind with this API version and name, or `None` if Kerf does not read it.
    pub(crate) fn of(api_version: &str, name: &str) -> Option<Self> {
        let known = KINDS.iter().find(|(_, version, known, _)| *known == name && *version == api_version);
        known.map(|(kind, ..)| *kind)
    }

    /// Returns the API version in which Kerf reads a kind of the same group and name.
    pub(crate) fn served_version(api_version: &str, name: &str) -> Option<&'static str> {
        let group = group(api_version);
        KINDS
            .iter()
            .find(|(_, version, known, _)| *known == name && self::group(version) == group)
            .map(|(_, version, ..)| *version)
    }

    /// Returns kubectl's message if an API server with Kerf's CRDs does not serve this kind. Kerf's
    /// CRDs define all kinds of Karpenter's groups. Of other groups they define only some kinds:
    /// the group of CapacityBuffer also has kinds of others.
    pub(crate) fn unserved_message(api_version: &str, name: &str) -> Option<String> {
        let group = group(api_version);
        let of_group = || KINDS[..CUSTOM_KIND_COUNT].iter().filter(|(_, version, ..)| self::group(version) == group);
        // A list without items contains no object that could be rejected.
        let is_known = |known: &str| name == known || name.strip_suffix("List") == Some(known);
        let next_step = match of_group().find(|(_, _, known, _)| is_known(known)) {
            Some((_, version, known, _)) if name == *known => format!("it is served as {version}"),
            Some(_) => return None,
            None if GROUPS_DEFINED_BY_KERF.contains(&group) => {
                let kinds: Vec<String> =
                    of_group().map(|(_, version, known, _)| format!("{version} {known}")).collect();
                format!("Kerf serves {}", kinds.join(", "))
            }
            None => return None,
        };
        Some(format!("no matches for kind \"{name}\" in version \"{api_version}\": {next_step}"))
    }

    /// Returns the kind that was probably meant, if Kerf does not read a kind of this API version and
    /// name and one of both is written almost as one that Kerf reads.
    pub(crate) fn similar(api_version: &str, name: &str) -> Option<Self> {
        let written_group = group(api_version);
        let is_karpenter_group =
            || most_similar(written_group, GROUPS_DEFINED_BY_KERF).filter(|known| *known != written_group);
        if let Some(meant) = is_karpenter_group() {
            let mut of_group = KINDS.iter().filter(|(_, version, ..)| group(version) == meant);
            let exact = of_group.clone().find(|(_, _, known, _)| *known == name);
            return exact.or_else(|| of_group.next()).map(|(kind, ..)| *kind);
        }
        let is_similar_group = |version: &str| {
            let known = group(version);
            known != written_group && most_similar(written_group, [known]).is_some()
        };
        let of_similar_group = KINDS.iter().find(|(_, version, known, _)| *known == name && is_similar_group(version));
        let of_similar_kind = KINDS.iter().find(|(_, version, known, _)| {
            *version == api_version && *known != name && most_similar(name, [*known]).is_some()
        });
        of_similar_group.or(of_similar_kind).map(|(kind, ..)| *kind)
    }

    /// Returns the name of the kind, such as `NodePool`.
    pub(crate) fn name(self) -> &'static str {
        self.row().2
    }

    /// Returns the plural of the kind, for messages.
    pub(crate) fn plural(self) -> String {
        let name = self.name();
        if name.ends_with('s') { format!("{name}es") } else { format!("{name}s") }
    }

    /// Returns group and version, such as `apps/v1`.
    pub(crate) fn api_version(self) -> &'static str {
        self.row().1
    }

    pub(crate) fn is_namespaced(self) -> bool {
        self.row().3 == Namespaced
    }

    fn row(self) -> &'static (Self, &'static str, &'static str, KindScope) {
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
        assert_eq!(KINDS.len(), InputKind::Namespace as usize + 1);
    }

    #[test]
    fn plurals_follow_english_spelling() {
        let plurals = [InputKind::Pod, InputKind::StorageClass, InputKind::KwokNodeClass].map(InputKind::plural);
        assert_eq!(plurals, ["Pods", "StorageClasses", "KWOKNodeClasses"]);
    }

    #[test]
    fn kinds_are_identified_by_group_version_and_name() {
        assert_eq!(InputKind::of("karpenter.sh/v1", "NodePool"), Some(InputKind::NodePool));
        assert_eq!(InputKind::of("karpenter.sh/v1beta1", "NodePool"), None);
        assert_eq!(InputKind::served_version("karpenter.sh/v1beta1", "NodePool"), Some("karpenter.sh/v1"));
        assert_eq!(InputKind::of("example.com/v1", "Pod"), None);
        assert_eq!(InputKind::served_version("example.com/v1", "Pod"), None);
        assert!(InputKind::Pod.is_namespaced() && !InputKind::Node.is_namespaced());
    }

    // spec 09 #24
    #[test]
    fn spec_09_24_a_group_or_kind_with_typing_errors_resembles_a_known_one() {
        let similar = |version, name| InputKind::similar(version, name);
        assert_eq!(similar("kapenter.sh/v1", "NodePool"), Some(InputKind::NodePool));
        assert_eq!(similar("karpenter.k8s.asw/v1", "EC2NodeClass"), Some(InputKind::Ec2NodeClass));
        assert_eq!(similar("app/v1", "Deployment"), Some(InputKind::Deployment));
        assert_eq!(similar("apps/v1", "Deploymnet"), Some(InputKind::Deployment));
        for (version, name) in [
            ("serving.knative.dev/v1", "Service"),
            ("eks.amazonaws.com/v1", "NodeClass"),
            ("batch/v1", "CronJob"),
            ("v1", "ConfigMap"),
            ("extensions/v1beta1", "Deployment"),
            ("networking.k8s.io/v1", "Ingress"),
            ("policy/v1beta1", "PodDisruptionBudget"),
        ] {
            assert_eq!(similar(version, name), None, "{version} {name}");
        }
    }

    #[test]
    fn unserved_kinds_have_the_message_of_kubectl() {
        let why = |version, name| InputKind::unserved_message(version, name);
        assert_eq!(
            why("karpenter.sh/v1", "NodePol").as_deref(),
            Some(
                "no matches for kind \"NodePol\" in version \"karpenter.sh/v1\": Kerf serves karpenter.sh/v1 NodePool, \
                 karpenter.sh/v1 NodeClaim, karpenter.sh/v1alpha1 NodeOverlay"
            )
        );
        assert_eq!(
            why("karpenter.sh/v1beta1", "NodePool").as_deref(),
            Some(
                "no matches for kind \"NodePool\" in version \"karpenter.sh/v1beta1\": it is served as karpenter.sh/v1"
            )
        );
        for (version, name) in [
            ("autoscaling.x-k8s.io/v1alpha1", "CapacityBuffer"),
            ("karpenter.k8s.aws/v1beta1", "EC2NodeClass"),
            ("karpenter.kwok.sh/v1", "KWOKNodeClass"),
            ("karpenter.sh/v1alpha5", "Provisioner"),
        ] {
            assert!(why(version, name).is_some(), "{version} {name}");
        }
        for (version, name) in [
            ("autoscaling.x-k8s.io/v1", "ProvisioningRequest"),
            ("karpenter.azure.com/v1beta1", "AKSNodeClass"),
            ("policy/v1beta1", "PodDisruptionBudget"),
            ("karpenter.sh/v1", "NodePoolList"),
        ] {
            assert_eq!(why(version, name), None);
        }
    }

    #[test]
    fn the_custom_kinds_come_first() {
        let is_custom = |version: &str| version.contains("karpenter") || version.contains("x-k8s.io");
        for (index, (_, version, ..)) in KINDS.iter().enumerate() {
            assert_eq!(is_custom(version), index < CUSTOM_KIND_COUNT);
        }
    }
}
