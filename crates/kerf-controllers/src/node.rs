//! The controllers of Nodes.

pub(crate) mod health;
pub(crate) mod hydration;
pub(crate) mod termination;
