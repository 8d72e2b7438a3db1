//! May this pod run there, is this plan lawful, what does it cost? The second opinion.
//!
//! One predicate per rule, in the words of the Kubernetes documentation, slow and obvious. The property tests ask it
//! about every answer of the engine, and the sandbox's scheduler uses its predicates as filters. It never depends on the
//! engine: an error that both share would be seen by neither.
//!
//! | question | door |
//! |---|---|
//! | may kube-scheduler bind this pod to that node, and why not? | [`filters`] |

pub mod filters;
pub mod placement;
pub mod ports;
pub mod resources;
pub mod selectors;
pub mod storage;
pub mod taints;

#[cfg(test)]
mod fixtures;
