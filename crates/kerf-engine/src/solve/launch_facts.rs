//! Facts about earlier launches, which callers that solve repeatedly pass to a solve.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use kerf_api::slim::Str;

/// Facts about earlier launches that the caller remembers, by pod (`namespace/name`).
#[derive(Debug, Clone, Default)]
pub struct LaunchFacts {
    /// Provider ID of the instance that was launched for a pod. The pod is offered this node first,
    /// because first fit may not find the packing again for which the instances were launched.
    pub provider_ids: BTreeMap<Str, Str>,
    /// Pods of claims that are not launched yet. They are left out: the capacity of such a claim is
    /// not known, and another claim would launch capacity for these pods twice.
    pub on_unlaunched_claims: BTreeSet<Str>,
    /// Pods for which no claim is created now, because pods of their owner did not start on the
    /// nodes that were launched for them. They may still be placed on existing nodes.
    pub waits: BTreeMap<Str, LaunchWait>,
}

/// A wait before the next claim for the pods of an owner.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LaunchWait {
    /// The end of the wait.
    pub end: LaunchWaitEnd,
    /// Number of nodes in a row on which none of the pods started.
    pub nodes: u32,
}

/// The end of a wait before the next claim for the pods of an owner.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LaunchWaitEnd {
    /// A time.
    At(Timestamp),
    /// The outcome of the claim of another pod of the owner. The caller removes the wait then.
    OtherPod,
}

impl LaunchWait {
    /// Returns true if the wait still holds at this time.
    pub fn holds_at(&self, now: Timestamp) -> bool {
        match self.end {
            LaunchWaitEnd::At(until) => now < until,
            LaunchWaitEnd::OtherPod => true,
        }
    }
}
