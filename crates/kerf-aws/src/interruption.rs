//! Interruptions of instances (spec 06 §9 and §10): messages of the interruption queue, and failed
//! status checks. Both delete the NodeClaims of the instances, which drains their nodes.
//!
//! Disruption budgets and do-not-disrupt annotations are never consulted: EC2 takes the instance
//! whatever they say. Every step may be repeated, so a message that is received twice does no harm.

mod handling;
mod instance_status;
mod message;
mod metrics;
mod queue;

pub use message::{InterruptionKind, InterruptionMessage, MessageError, parse_message};

pub(crate) use instance_status::InstanceStatusChecks;
pub(crate) use queue::InterruptionQueue;

#[cfg(test)]
mod tests;
