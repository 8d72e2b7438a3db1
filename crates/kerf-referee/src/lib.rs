//! The independent checker: decides whether a pod may run on a node, whether a plan breaks a rule,
//! and what a plan costs.
//!
//! There is one predicate per rule, in the terms of the Kubernetes documentation, obvious and slow.
//! The property tests check every plan of the engine with these predicates, and the sandbox's
//! scheduler uses them as filters.
//!
//! The referee never depends on the engine: neither could find an error that both share. It checks
//! plans and never decides what to do.
//!
//! | question | module or function |
//! |---|---|
//! | May kube-scheduler bind this pod to that node, and why not? | [`filters`] |
//! | Does this plan break a constraint? | [`check::check`] |
//! | May these nodes be removed, and are the savings correct? | [`disruption`] |
//! | Could a pod that this plan leaves out be added? | [`check::addable_pods`] |
//! | What is the best possible placement? | [`search::optimum`] |
//! | Which random clusters are tested? | [`generator`] |
//! | What does Kerf plan for a cluster? | [`program`] |
//! | Does a plan have the properties that every plan must have? | [`properties`] |
//! | How do Kerf's plans compare with Karpenter's? | [`differential`] |

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
