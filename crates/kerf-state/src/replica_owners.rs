//! Replica sets, stateful sets and replication controllers, for default spread constraints (spec 02 §8.9): who each is and whom it selects.
//! They are three types and not one, because the list of one kind says nothing about the others. Of their metadata only names are kept: there
//! are many of them, and a rollout that counts replicas changes nothing here.

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
            /// All that are told of, each with its kind.
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

/// What is used of an owner. An item of a list does not name its kind.
fn keep_names_and_selector(owner: ReplicaOwner, kind: &'static str) -> ReplicaOwner {
    let ObjectMeta { name, namespace, uid, .. } = owner.metadata;
    ReplicaOwner {
        metadata: ObjectMeta { name, namespace, uid, ..ObjectMeta::default() },
        kind: Str::new_static(kind),
        selector: owner.selector,
    }
}
