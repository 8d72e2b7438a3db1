//! The controllers of NodeClaims: from launch to finalizer, and the small ones around them.

pub(crate) mod consistency;
pub(crate) mod disruption;
pub(crate) mod garbagecollection;
pub(crate) mod hydration;
pub(crate) mod lifecycle;
pub(crate) mod podevents;
pub(crate) mod stale;
