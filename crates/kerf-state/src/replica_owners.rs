//! ReplicaSets, StatefulSets and replication controllers with their names and selectors, for
//! default topology spread constraints (spec 02 §8.9).
//!
//! They are three types, because each kind is listed on its own. Only names are kept of their
//! metadata: clusters have many of these objects, and a rollout that changes their replica counts
//! must not count as a change here.

use kerf_api::slim::{ObjectMeta, ReplicaOwner, Str};
use serde::{Deserialize, Deserializer};

use crate::cluster::Cluster;
use crate::kinds::Tracked;
use crate::object_table::{ObjectChange, ObjectTable};

macro_rules! replica_owners {
    ($($kind:ident => $table:ident),+ $(,)?) => {
        $(
            #[doc = concat!("A ", stringify!($kind), ".")]
            #[derive(Debug, Clone, Default, PartialEq, Eq)]
            pub struct $kind(ReplicaOwner);

            impl<'de> Deserialize<'de> for $kind {
                fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                    ReplicaOwner::deserialize(deserializer).map(|owner| Self(keep_names_and_selector(owner, stringify!($kind))))
                }
            }

            impl Tracked for $kind {
                fn key(&self) -> Str {
                    self.0.metadata.namespaced_name()
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
        )+

        impl Cluster {
            /// Returns all indexed owners of the three kinds, each with its kind.
            pub(crate) fn replica_owners(&self) -> Vec<ReplicaOwner> {
                let mut owners = Vec::new();
                $(owners.extend(self.$table.values().map(|owner| owner.0.clone()));)+
                owners
            }
        }
    };
}

replica_owners! {
    ReplicaSet => replica_sets,
    StatefulSet => stateful_sets,
    ReplicationController => replication_controllers,
}

/// Reduces an owner to name, namespace, UID and selector, and adds its kind, which items of a list
/// do not contain.
fn keep_names_and_selector(owner: ReplicaOwner, kind: &'static str) -> ReplicaOwner {
    let ObjectMeta { name, namespace, uid, .. } = owner.metadata;
    ReplicaOwner {
        metadata: ObjectMeta { name, namespace, uid, ..ObjectMeta::default() },
        kind: Str::new_static(kind),
        selector: owner.selector,
    }
}
