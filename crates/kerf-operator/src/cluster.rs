//! The cluster index behind a lock, shared by all controllers of a process.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use kerf_state::Cluster;

/// The cluster index, shared by all controllers. Hold the lock only while reading or updating the
/// index, never across an `await`.
#[derive(Clone, Debug, Default)]
pub struct SharedCluster(Arc<Mutex<Cluster>>);

impl SharedCluster {
    /// Locks the index and returns it.
    pub fn lock(&self) -> MutexGuard<'_, Cluster> {
        // If a thread panicked while it held the lock, the index misses at most one event. The next
        // full list of that kind repairs it.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
