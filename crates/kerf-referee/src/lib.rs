//! May this pod run there, is this plan lawful, what does it cost? The second opinion.
//!
//! One predicate per rule, in the words of the Kubernetes documentation, slow and obvious. The property tests ask it
//! about every answer of the engine, and the sandbox's scheduler uses its predicates as filters. It never depends on the
//! engine: an error that both share would be seen by neither.
//!
//! | question | door |
//! |---|---|
//! | may kube-scheduler bind this pod to that node, and why not? | [`filters`] |
//! | does this plan break a constraint? | [`check::check`] |
//! | may these nodes go, and does it save what is said? | [`disruption::faults`] |
//! | could a pod that this plan leaves out be added? | [`check::addable`] |
//! | what is the best that can be done? | [`search::optimum`] |
//! | what could a cluster look like? | [`worlds`] |
//! | what does Kerf answer? | [`program`] |
//! | does what must always hold, hold? | [`properties`] |
//! | how does Kerf compare with Karpenter? | [`differential`] |

pub mod catalogue;
pub mod check;
pub mod differential;
pub mod disruption;
pub mod filters;
pub mod generator;
pub mod manifests;
pub mod placement;
pub mod plan;
pub mod ports;
pub mod price;
pub mod program;
pub mod properties;
pub mod random;
pub mod resources;
pub mod search;
pub mod selectors;
pub mod storage;
pub mod taints;

#[cfg(test)]
mod fixtures;
