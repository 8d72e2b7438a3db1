//! `provisioner` and its triggers: pods that the scheduler cannot place are gathered into batches, the engine says which machines they
//! need, and claims are created for those (spec 02 §1).

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
