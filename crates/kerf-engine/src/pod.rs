//! What a pod asks for, in the engine's terms: requests, requirements, tolerations, selectors, and how it is relaxed.

pub(crate) mod default_spread;
pub(crate) mod relax;
pub(crate) mod requests;
pub(crate) mod requirements;
pub(crate) mod selector;
pub(crate) mod tolerations;
