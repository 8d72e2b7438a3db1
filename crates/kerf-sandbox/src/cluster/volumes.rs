//! Persistent volumes: the part of kube-controller-manager that binds claims to volumes, and a
//! provisioner for every storage class that names one. In this module, *claim* means
//! PersistentVolumeClaim and *volume* means PersistentVolume.
//!
//! A claim with immediate binding gets the smallest volume that satisfies it, or a new one. A claim
//! with `WaitForFirstConsumer` waits until the scheduler has chosen. The scheduler chooses an
//! existing volume (its `claimRef`), or a node for which to create one (the claim's `selected-node`
//! annotation). A new volume gets a node affinity for the topology of that node. This controller
//! also creates the claims of ephemeral volumes. Finalizers protect claims and volumes in use. A
//! volume is deleted with its claim if its reclaim policy demands that.
//!
//! Invariants: a volume belongs to at most one claim, and a claim to at most one volume. Every step
//! is a write that can be read back, so a controller that is stopped between two writes continues
//! where it was.

mod claims;
mod events;
mod matching;
mod pod_claims;
mod protection;
mod provision;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use k8s_openapi::api::core::v1::{Node, PersistentVolume, PersistentVolumeClaim, Pod};
use k8s_openapi::api::storage::v1::{CSINode, StorageClass};
use kerf_referee::selectors::Labels;
use serde::de::DeserializeOwned;
use smol_str::SmolStr;
use tokio::time::Instant;

use self::events::EventRecorder;
use super::in_process_client::{ChangeFeed, InProcessClient, RawChange, wait_for_changes};
use crate::api::ApiServer;

pub(crate) use matching::{CLAIM_SELECTED_NODE, best_match, is_bound, requested_storage};

/// Binds claims to volumes, and provisions volumes.
///
/// It reads and writes through the store of its [`ApiServer`] in this process. A cluster must have
/// only one.
pub struct VolumeController {
    client: InProcessClient,
    feeds: Feeds,
    event_recorder: EventRecorder,
    /// Time to provision a volume.
    provision_delay: Duration,
    claims: BTreeMap<SmolStr, PersistentVolumeClaim>,
    volumes: BTreeMap<SmolStr, PersistentVolume>,
    classes: BTreeMap<SmolStr, StorageClass>,
    nodes: BTreeMap<SmolStr, Labels>,
    /// Labels in which a driver describes a node's topology, by node and driver.
    topology_keys: BTreeMap<SmolStr, BTreeMap<String, Vec<String>>>,
    /// Claims that each pod uses.
    claims_by_pod: BTreeMap<SmolStr, BTreeSet<SmolStr>>,
    /// Number of pods that use each claim. Unused claims have no entry.
    claim_use_counts: BTreeMap<SmolStr, usize>,
    /// Pods that need claims for their ephemeral volumes.
    pods_with_ephemeral_volumes: BTreeMap<SmolStr, Pod>,
    /// Objects to reconcile, in this order.
    queue: BTreeSet<QueuedObject>,
    /// Time at which the volume of each claim will be provisioned.
    provisioning_done_at: BTreeMap<SmolStr, Instant>,
}

/// An object to reconcile. Pods come first, because they may need new claims; volumes come last,
/// because their state depends on claims.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum QueuedObject {
    Pod(SmolStr),
    Claim(SmolStr),
    Volume(SmolStr),
}

struct Feeds {
    claims: ChangeFeed,
    volumes: ChangeFeed,
    classes: ChangeFeed,
    nodes: ChangeFeed,
    csi_nodes: ChangeFeed,
    pods: ChangeFeed,
}

impl std::fmt::Debug for VolumeController {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("VolumeController").field("volumes", &self.volumes.len()).finish_non_exhaustive()
    }
}

impl VolumeController {
    /// Returns a controller for the cluster that `server` serves. `provision_delay` is the
    /// time to provision a volume.
    pub fn new(server: &ApiServer, provision_delay: Duration) -> Self {
        let client = InProcessClient::new(server, "kube-controller-manager");
        let feeds = Feeds {
            claims: client.feed("", "persistentvolumeclaims"),
            volumes: client.feed("", "persistentvolumes"),
            classes: client.feed("storage.k8s.io", "storageclasses"),
            nodes: client.feed("", "nodes"),
            csi_nodes: client.feed("storage.k8s.io", "csinodes"),
            pods: client.feed("", "pods"),
        };
        Self {
            event_recorder: EventRecorder::new(client.clone()),
            client,
            feeds,
            provision_delay,
            claims: BTreeMap::new(),
            volumes: BTreeMap::new(),
            classes: BTreeMap::new(),
            nodes: BTreeMap::new(),
            topology_keys: BTreeMap::new(),
            claims_by_pod: BTreeMap::new(),
            claim_use_counts: BTreeMap::new(),
            pods_with_ephemeral_volumes: BTreeMap::new(),
            queue: BTreeSet::new(),
            provisioning_done_at: BTreeMap::new(),
        }
    }

    /// Binds claims and provisions volumes until it is dropped. Dropping it at any time loses
    /// nothing.
    pub async fn run(mut self) {
        loop {
            self.apply_changes();
            while let Some(next) = self.queue.pop_first() {
                match next {
                    QueuedObject::Pod(key) => self.create_ephemeral_claims(&key),
                    QueuedObject::Claim(key) => self.sync_claim(&key),
                    QueuedObject::Volume(name) => self.sync_volume(&name),
                }
                // Apply what was just written before the next step.
                self.apply_changes();
            }
            let next = self.provisioning_done_at.values().min().copied();
            let feeds = [
                &self.feeds.claims,
                &self.feeds.volumes,
                &self.feeds.classes,
                &self.feeds.nodes,
                &self.feeds.csi_nodes,
                &self.feeds.pods,
            ];
            match next {
                Some(at) => tokio::select! {
                    biased;
                    () = wait_for_changes(&feeds) => {}
                    () = tokio::time::sleep_until(at) => {}
                },
                None => wait_for_changes(&feeds).await,
            }
            self.finish_provisioning(Instant::now());
        }
    }

    fn apply_changes(&mut self) {
        for change in self.feeds.nodes.take_changes() {
            let labels = decode_change(&change).map(|node: Node| node.metadata.labels.unwrap_or_default());
            put_or_remove(&mut self.nodes, &change, labels);
        }
        for change in self.feeds.csi_nodes.take_changes() {
            let keys = decode_change(&change).map(|node: CSINode| {
                let drivers = node.spec.drivers.into_iter();
                drivers.map(|driver| (driver.name, driver.topology_keys.unwrap_or_default())).collect()
            });
            put_or_remove(&mut self.topology_keys, &change, keys);
        }
        for change in self.feeds.classes.take_changes() {
            put_or_remove(&mut self.classes, &change, decode_change(&change));
            // Unbound claims may wait for this class.
            let waiting = self.claims.iter().filter(|(_, claim)| !is_bound(claim)).map(|(key, _)| key.clone());
            self.queue.extend(waiting.map(QueuedObject::Claim));
        }
        for change in self.feeds.volumes.take_changes() {
            put_or_remove(&mut self.volumes, &change, decode_change(&change));
            self.queue.insert(QueuedObject::Volume(object_key(&change)));
        }
        for change in self.feeds.claims.take_changes() {
            let before = self.claims.get(change.key.as_str());
            let volume = before.and_then(|claim| claim.spec.as_ref()?.volume_name.clone());
            self.queue.extend(volume.filter(|name| !name.is_empty()).map(|name| QueuedObject::Volume(name.into())));
            put_or_remove(&mut self.claims, &change, decode_change(&change));
            self.queue.insert(QueuedObject::Claim(object_key(&change)));
        }
        for change in self.feeds.pods.take_changes() {
            self.apply_pod_change(&change);
        }
    }
}

fn object_key(change: &RawChange) -> SmolStr {
    change.key.as_str().into()
}

fn decode_change<T: DeserializeOwned>(change: &RawChange) -> Option<T> {
    serde_json::from_slice(change.object.as_ref()?)
        .inspect_err(|problem| tracing::warn!(object = change.key.as_str(), %problem, "a stored object cannot be read"))
        .ok()
}

fn put_or_remove<T>(map: &mut BTreeMap<SmolStr, T>, change: &RawChange, object: Option<T>) {
    match object {
        Some(object) => drop(map.insert(object_key(change), object)),
        None => drop(map.remove(change.key.as_str())),
    }
}
