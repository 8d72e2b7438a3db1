//! Controllers that reconcile Nodes: repair, label hydration and termination.

pub(crate) mod health;
pub(crate) mod hydration;
pub(crate) mod termination;
