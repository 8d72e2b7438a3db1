//! The requirements of a pod in the engine's terms: resource requests, node requirements,
//! tolerations, label selectors, default spread constraints, and the order of relaxations.

pub(crate) mod default_spread;
pub(crate) mod relax;
pub(crate) mod requests;
pub(crate) mod requirements;
pub(crate) mod selector;
pub(crate) mod tolerations;
