//! The loaded objects by kind, and the result types of reading one object.

use k8s_openapi::Metadata;
use k8s_openapi::apimachinery::pkg::apis::meta::v1 as meta;
use kerf_api::capacitybuffer::CapacityBuffer;
use kerf_api::ec2nodeclass::EC2NodeClass;
use kerf_api::kwoknodeclass::KWOKNodeClass;
use kerf_api::nodeclaim::NodeClaim;
use kerf_api::nodeoverlay::NodeOverlay;
use kerf_api::nodepool::NodePool;
use kerf_api::slim::{
    CsiNode, DaemonSet, Namespace, Node, PersistentVolume, PersistentVolumeClaim, Pod, PodDisruptionBudget,
    ReplicaOwner, Service, StorageClass, Str, VolumeAttachment,
};

use super::decode::FieldProblem;
use super::pod_defaults::PriorityClass;
use super::runtime_class::RuntimeClass;
use super::source::ObjectOrigin;
use super::validation;
use super::workloads::{CreatedObjects, Workload};

/// An object and its origin.
#[derive(Debug, Clone)]
pub(crate) struct WithOrigin<T> {
    pub(crate) origin: ObjectOrigin,
    pub(crate) object: T,
}

/// All loaded objects. Each list is sorted by namespace and name and has no duplicates.
#[derive(Debug, Default)]
pub(crate) struct Objects {
    pub(crate) node_pools: Vec<WithOrigin<NodePool>>,
    pub(crate) node_claims: Vec<WithOrigin<NodeClaim>>,
    pub(crate) kwok_node_classes: Vec<WithOrigin<KWOKNodeClass>>,
    pub(crate) ec2_node_classes: Vec<WithOrigin<EC2NodeClass>>,
    pub(crate) nodes: Vec<WithOrigin<Node>>,
    pub(crate) pods: Vec<WithOrigin<Pod>>,
    pub(crate) daemon_sets: Vec<WithOrigin<DaemonSet>>,
    pub(crate) volume_claims: Vec<WithOrigin<PersistentVolumeClaim>>,
    pub(crate) volumes: Vec<WithOrigin<PersistentVolume>>,
    pub(crate) storage_classes: Vec<WithOrigin<StorageClass>>,
    pub(crate) csi_nodes: Vec<WithOrigin<CsiNode>>,
    pub(crate) disruption_budgets: Vec<WithOrigin<PodDisruptionBudget>>,
    pub(crate) namespaces: Vec<WithOrigin<Namespace>>,
    pub(crate) services: Vec<WithOrigin<Service>>,
    /// All kinds of replica owners, one kind after another; sorted within a kind.
    pub(crate) replica_owners: Vec<WithOrigin<ReplicaOwner>>,
}

impl Objects {
    /// Adds the objects that workload controllers would have created.
    pub(super) fn add_created(&mut self, created: CreatedObjects) {
        self.pods.extend(created.pods);
        self.volume_claims.extend(created.volume_claims);
        sort(&mut self.pods);
        sort(&mut self.volume_claims);
    }
}

fn sort<T: NamedObject>(list: &mut [WithOrigin<T>]) {
    list.sort_by(|a, b| a.object.identity().cmp(&b.object.identity()));
}

/// An object with its warnings.
#[derive(Debug)]
pub(super) struct ReadObject<T> {
    pub(super) object: T,
    pub(super) warnings: Vec<String>,
}

impl<T> ReadObject<T> {
    /// Returns an object without warnings.
    pub(super) fn of(object: T) -> Self {
        Self { object, warnings: Vec::new() }
    }
}

/// The problems for which an object is rejected, with its warnings.
#[derive(Debug)]
pub(super) struct RejectedObject {
    pub(super) problems: Vec<FieldProblem>,
    pub(super) warnings: Vec<String>,
}

impl From<Vec<FieldProblem>> for RejectedObject {
    fn from(problems: Vec<FieldProblem>) -> Self {
        Self { problems, warnings: Vec::new() }
    }
}

/// Result of reading one object.
pub(super) type ReadResult<T> = Result<ReadObject<T>, RejectedObject>;

/// An object with namespace and name.
pub(super) trait NamedObject {
    /// Returns namespace and name, which are unique within a kind. The namespace is empty for
    /// cluster-scoped objects.
    fn identity(&self) -> (&str, &str);

    /// Sets the namespace; empty removes it.
    fn set_namespace(&mut self, namespace: &'static str);

    /// Returns true if a field that decisions read has a value that an API server would probably
    /// reject.
    fn is_suspicious(&self) -> bool {
        false
    }
}

/// Returns `namespace/name`, or only the name of a cluster-scoped object.
pub(super) fn full_name(object: &impl NamedObject) -> String {
    match object.identity() {
        ("", name) => name.to_owned(),
        (namespace, name) => format!("{namespace}/{name}"),
    }
}

macro_rules! impl_named_for_slim_types {
    ($($type:ty $(: $check:path)?),+ $(,)?) => {
        $(impl NamedObject for $type {
            fn identity(&self) -> (&str, &str) {
                (&self.metadata.namespace, &self.metadata.name)
            }

            fn set_namespace(&mut self, namespace: &'static str) {
                self.metadata.namespace = Str::new_static(namespace);
            }

            fn is_suspicious(&self) -> bool {
                let checks: &[fn(&Self) -> bool] = &[$($check)?];
                let is_suspicious =
                    validation::is_suspicious_namespace(&self.metadata.namespace) || checks.iter().any(|check| check(self));
                is_suspicious && self.metadata.uid.is_empty()
            }
        })+
    };
}

macro_rules! impl_named_for_custom_kinds {
    ($($type:ty),+ $(,)?) => {
        $(impl NamedObject for $type {
            fn identity(&self) -> (&str, &str) {
                let meta::ObjectMeta { namespace, name, .. } = self.metadata();
                (namespace.as_deref().unwrap_or_default(), name.as_deref().unwrap_or_default())
            }

            fn set_namespace(&mut self, namespace: &'static str) {
                self.metadata_mut().namespace = Some(namespace.to_owned()).filter(|namespace| !namespace.is_empty());
            }
        })+
    };
}

impl_named_for_slim_types!(
    CsiNode,
    DaemonSet: validation::is_suspicious_daemon_set,
    Namespace,
    Node: validation::is_suspicious_node,
    PersistentVolume,
    PersistentVolumeClaim,
    Pod: validation::is_suspicious_pod,
    PodDisruptionBudget: validation::is_suspicious_budget,
    ReplicaOwner,
    Service,
    StorageClass,
    VolumeAttachment,
    Workload: validation::is_suspicious_workload,
);

macro_rules! impl_named_for_classes {
    ($($type:ty),+ $(,)?) => {
        $(impl NamedObject for $type {
            fn identity(&self) -> (&str, &str) {
                ("", &self.name)
            }

            /// Classes are cluster-scoped.
            fn set_namespace(&mut self, _: &'static str) {}
        })+
    };
}

impl_named_for_classes!(PriorityClass, RuntimeClass);

impl_named_for_custom_kinds!(CapacityBuffer, EC2NodeClass, KWOKNodeClass, NodeClaim, NodeOverlay, NodePool);
