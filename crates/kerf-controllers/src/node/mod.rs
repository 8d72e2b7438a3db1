//! The controllers of Nodes.

pub(crate) mod hydration;
