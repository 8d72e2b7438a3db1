//! The kinds that are tracked: how each is keyed, where it is kept, and what else its coming and going changes.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kerf_api::conditions::Condition;
use kerf_api::nodepool::NodePool;
use kerf_api::slim::{
    CsiNode, DaemonSet, Namespace, Node, PersistentVolume, PersistentVolumeClaim, Pod, PodDisruptionBudget, Service,
    StorageClass, Str, VolumeAttachment,
};
use serde::Deserialize;

use crate::claims::TrackedClaim;
use crate::cluster::Cluster;
use crate::object_table::{ObjectChange, ObjectTable};
use crate::pools::{NodeClassState, node_class_state};

/// A kind that is tracked.
pub trait Tracked: Sized + PartialEq {
    /// What the object is found by.
    fn key(&self) -> Str;

    /// The object's version, for kinds that we write ourselves: our own news may be ahead of the watch's.
    fn version(&self) -> Option<u64> {
        None
    }

    /// Where objects of the kind are kept.
    fn table(cluster: &Cluster) -> &ObjectTable<Self>;

    /// Where objects of the kind are kept, to be changed.
    fn table_mut(cluster: &mut Cluster) -> &mut ObjectTable<Self>;

    /// What else a change changes.
    fn update_indexes(_cluster: &mut Cluster, _change: &ObjectChange<Self>) {}

    /// Whether the object stays although a list does not name it, because we know better.
    fn survives_relist(&self, _cluster: &Cluster) -> bool {
        false
    }
}

/// A node class of whatever kind: all that the controllers of pools want to know of one.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
pub struct NodeClass {
    /// Names, generation, whether it is on its way out.
    #[serde(default)]
    pub metadata: ObjectMeta,
    /// What is known of it.
    #[serde(default)]
    pub status: NodeClassStatus,
}

/// The part of a node class's status that every kind has.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
pub struct NodeClassStatus {
    /// Its conditions.
    #[serde(default)]
    pub conditions: Vec<Condition>,
}

impl NodeClass {
    /// What it means for pools that refer to it.
    pub fn state(&self) -> NodeClassState {
        node_class_state(self.metadata.deletion_timestamp.as_ref(), &self.status.conditions)
    }
}

fn version(metadata: &ObjectMeta) -> Option<u64> {
    metadata.resource_version.as_ref()?.parse().ok()
}

impl PartialEq for TrackedClaim {
    fn eq(&self, other: &Self) -> bool {
        self.object == other.object
    }
}

impl Tracked for TrackedClaim {
    fn key(&self) -> Str {
        self.engine_claim.name.clone()
    }

    fn version(&self) -> Option<u64> {
        version(&self.object.metadata)
    }

    fn table(cluster: &Cluster) -> &ObjectTable<Self> {
        &cluster.claims
    }

    fn table_mut(cluster: &mut Cluster) -> &mut ObjectTable<Self> {
        &mut cluster.claims
    }

    fn update_indexes(cluster: &mut Cluster, change: &ObjectChange<Self>) {
        cluster.index_claim(change);
    }

    fn survives_relist(&self, cluster: &Cluster) -> bool {
        cluster.intents.is_unobserved(&self.engine_claim.name)
    }
}

impl Tracked for NodePool {
    fn key(&self) -> Str {
        Str::from(self.metadata.name.as_deref().unwrap_or_default())
    }

    fn version(&self) -> Option<u64> {
        version(&self.metadata)
    }

    fn table(cluster: &Cluster) -> &ObjectTable<Self> {
        &cluster.pools
    }

    fn table_mut(cluster: &mut Cluster) -> &mut ObjectTable<Self> {
        &mut cluster.pools
    }
}

impl Tracked for NodeClass {
    fn key(&self) -> Str {
        Str::from(self.metadata.name.as_deref().unwrap_or_default())
    }

    fn table(cluster: &Cluster) -> &ObjectTable<Self> {
        &cluster.node_classes
    }

    fn table_mut(cluster: &mut Cluster) -> &mut ObjectTable<Self> {
        &mut cluster.node_classes
    }
}

impl Tracked for Pod {
    fn key(&self) -> Str {
        self.namespaced_name()
    }

    fn table(cluster: &Cluster) -> &ObjectTable<Self> {
        &cluster.pods
    }

    fn table_mut(cluster: &mut Cluster) -> &mut ObjectTable<Self> {
        &mut cluster.pods
    }

    fn update_indexes(cluster: &mut Cluster, change: &ObjectChange<Self>) {
        cluster.index_pod(change);
    }
}

impl Tracked for Node {
    fn key(&self) -> Str {
        self.metadata.name.clone()
    }

    fn table(cluster: &Cluster) -> &ObjectTable<Self> {
        &cluster.nodes
    }

    fn table_mut(cluster: &mut Cluster) -> &mut ObjectTable<Self> {
        &mut cluster.nodes
    }

    fn update_indexes(cluster: &mut Cluster, change: &ObjectChange<Self>) {
        cluster.index_node(change);
    }
}

/// Kinds that change seldom: kept, found by `namespace/name`, and a reason to open new books.
macro_rules! impl_tracked {
    ($($kind:ty => $table:ident),+ $(,)?) => {$(
        impl Tracked for $kind {
            fn key(&self) -> Str {
                self.metadata.namespaced_name()
            }

            fn table(cluster: &Cluster) -> &ObjectTable<Self> {
                &cluster.$table
            }

            fn table_mut(cluster: &mut Cluster) -> &mut ObjectTable<Self> {
                &mut cluster.$table
            }

            fn update_indexes(cluster: &mut Cluster, _change: &ObjectChange<Self>) {
                cluster.invalidate_cache();
            }
        }
    )+};
}

impl_tracked! {
    DaemonSet => daemon_sets,
    PodDisruptionBudget => disruption_budgets,
    PersistentVolumeClaim => volume_claims,
    PersistentVolume => volumes,
    StorageClass => storage_classes,
    CsiNode => csi_nodes,
    VolumeAttachment => volume_attachments,
    Namespace => namespaces,
    Service => services,
}
