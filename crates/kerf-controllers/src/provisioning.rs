//! `provisioner` and its triggers: pods that the scheduler cannot place are collected into batches,
//! the engine decides which instances they need, and NodeClaims are created for them (spec 02 §1).

mod batch;
pub(crate) mod claim;
mod decision_notes;
mod pass;
mod preference_warnings;
mod relaxation;
pub(crate) mod report;
mod trigger;

pub(crate) use batch::Batcher;
pub(crate) use pass::Provisioner;
pub(crate) use trigger::{NodeTrigger, PodTrigger, is_disrupted};
