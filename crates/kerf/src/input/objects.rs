//! What was read, by kind, and how an object of each kind is read.

use kerf_api::slim::{
    CsiNode, DaemonSet, Namespace, Node, ObjectMeta, PersistentVolume, PersistentVolumeClaim, Pod, PodDisruptionBudget,
    StorageClass, Str, VolumeAttachment,
};

use super::decode::{FieldProblem, decode};
use super::documents::Body;
use super::kind::Kind;
use super::source::Origin;
use super::workloads::Created;

/// An object and where it came from.
#[derive(Debug, Clone)]
pub(crate) struct Given<T> {
    /// Where it stands.
    pub(crate) origin: Origin,
    /// What it says.
    pub(crate) object: T,
}

/// Everything that was read. Each list is sorted by namespace and name and names nothing twice.
#[derive(Debug, Default)]
pub(crate) struct Objects {
    pub(crate) nodes: Vec<Given<Node>>,
    pub(crate) pods: Vec<Given<Pod>>,
    pub(crate) daemon_sets: Vec<Given<DaemonSet>>,
    pub(crate) volume_claims: Vec<Given<PersistentVolumeClaim>>,
    pub(crate) volumes: Vec<Given<PersistentVolume>>,
    pub(crate) storage_classes: Vec<Given<StorageClass>>,
    pub(crate) csi_nodes: Vec<Given<CsiNode>>,
    pub(crate) volume_attachments: Vec<Given<VolumeAttachment>>,
    pub(crate) disruption_budgets: Vec<Given<PodDisruptionBudget>>,
    pub(crate) namespaces: Vec<Given<Namespace>>,
}

impl Objects {
    /// How many there are of each kind.
    pub(crate) fn counts(&self) -> Vec<(Kind, usize)> {
        vec![
            (Kind::Node, self.nodes.len()),
            (Kind::Pod, self.pods.len()),
            (Kind::DaemonSet, self.daemon_sets.len()),
            (Kind::PersistentVolumeClaim, self.volume_claims.len()),
            (Kind::PersistentVolume, self.volumes.len()),
            (Kind::StorageClass, self.storage_classes.len()),
            (Kind::CsiNode, self.csi_nodes.len()),
            (Kind::VolumeAttachment, self.volume_attachments.len()),
            (Kind::PodDisruptionBudget, self.disruption_budgets.len()),
            (Kind::Namespace, self.namespaces.len()),
        ]
    }

    /// Puts what workload controllers would have created with what was read.
    pub(super) fn add(&mut self, created: Created) {
        self.pods.extend(created.pods);
        self.volume_claims.extend(created.volume_claims);
        sort(&mut self.pods);
        sort(&mut self.volume_claims);
    }
}

fn sort<T: Readable>(list: &mut [Given<T>]) {
    list.sort_by(|a, b| a.object.identity().cmp(&b.object.identity()));
}

/// A type that objects are read into.
pub(crate) trait Readable: Sized + Send {
    /// Reads an object, or says everything that keeps it from being one.
    fn read(body: &Body<'_>) -> Result<Self, Vec<FieldProblem>>;

    /// Its names.
    fn metadata(&self) -> &ObjectMeta;

    /// Its names, to be completed.
    fn metadata_mut(&mut self) -> &mut ObjectMeta;

    /// Namespace and name: what no two objects of a kind share.
    fn identity(&self) -> (&Str, &Str) {
        (&self.metadata().namespace, &self.metadata().name)
    }
}

/// For types whose names are in `metadata`, given how each is read.
macro_rules! readable {
    ($($type:ty: $read:expr),+ $(,)?) => {
        $(impl $crate::input::objects::Readable for $type {
            fn read(body: &$crate::input::documents::Body<'_>) -> Result<Self, Vec<$crate::input::decode::FieldProblem>> {
                $read(body)
            }

            fn metadata(&self) -> &kerf_api::slim::ObjectMeta {
                &self.metadata
            }

            fn metadata_mut(&mut self) -> &mut kerf_api::slim::ObjectMeta {
                &mut self.metadata
            }
        })+
    };
}

pub(super) use readable;

readable!(
    CsiNode: decode,
    DaemonSet: decode,
    Namespace: decode,
    Node: decode,
    PersistentVolume: decode,
    PersistentVolumeClaim: decode,
    Pod: decode,
    PodDisruptionBudget: decode,
    StorageClass: decode,
    VolumeAttachment: decode,
);
