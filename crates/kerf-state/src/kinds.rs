//! The tracked kinds: the key of each, its table in [`Cluster`], and the indexes that a change
//! updates.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kerf_api::nodepool::NodePool;
use kerf_api::slim::{
    CsiNode, DaemonSet, Namespace, Node, PersistentVolume, PersistentVolumeClaim, Pod, PodDisruptionBudget, Service,
    StorageClass, Str, VolumeAttachment,
};

use crate::claims::TrackedClaim;
use crate::cluster::Cluster;
use crate::node_classes::{NodeClass, node_class_key};
use crate::object_table::{ObjectChange, ObjectTable};

/// A kind that [`Cluster`] stores.
pub trait Tracked: Sized + PartialEq {
    /// Returns the key of the object: its name, or `namespace/name`.
    fn key(&self) -> Str;

    /// Returns the resource version, for kinds that Kerf writes itself. The response to a write may
    /// be newer than the next watch event. `None` for all other kinds.
    fn version(&self) -> Option<u64> {
        None
    }

    /// Returns the table that holds the objects of this kind.
    fn table(cluster: &Cluster) -> &ObjectTable<Self>;

    /// Returns the table that holds the objects of this kind, for changes.
    fn table_mut(cluster: &mut Cluster) -> &mut ObjectTable<Self>;

    /// Updates the indexes and the solver cache after a change of an object of this kind.
    fn update_indexes(_cluster: &mut Cluster, _change: &ObjectChange<Self>) {}

    /// Returns true if the object stays although a complete list does not contain it, because Kerf
    /// has just created it and the list may be older.
    fn survives_relist(&self, _cluster: &Cluster) -> bool {
        false
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

    fn update_indexes(cluster: &mut Cluster, change: &ObjectChange<Self>) {
        if let (Some(pool), None) = (&change.before, &change.after) {
            cluster.intents.forget_pool(&pool.key());
        }
    }
}

impl Tracked for NodeClass {
    fn key(&self) -> Str {
        node_class_key(self.group(), &self.kind, self.name())
    }

    fn version(&self) -> Option<u64> {
        version(&self.metadata)
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

impl Tracked for PodDisruptionBudget {
    fn key(&self) -> Str {
        self.metadata.namespaced_name()
    }

    fn table(cluster: &Cluster) -> &ObjectTable<Self> {
        &cluster.disruption_budgets
    }

    fn table_mut(cluster: &mut Cluster) -> &mut ObjectTable<Self> {
        &mut cluster.disruption_budgets
    }

    fn update_indexes(cluster: &mut Cluster, change: &ObjectChange<Self>) {
        if let Some(budget) = &change.after {
            cluster.own_evictions.on_budget(budget);
        }
        cluster.invalidate_cache();
    }
}

/// Implements [`Tracked`] for kinds that change rarely: the key is `namespace/name`, and every
/// change invalidates the solver cache.
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
    PersistentVolumeClaim => volume_claims,
    PersistentVolume => volumes,
    StorageClass => storage_classes,
    CsiNode => csi_nodes,
    VolumeAttachment => volume_attachments,
    Namespace => namespaces,
    Service => services,
}
