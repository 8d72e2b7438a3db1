//! Checks of the class of the simulated provider. A class that fails has no instance types, so
//! nothing is launched for its pools (spec 04 §15.24).

use super::duration_failures;
use crate::kwoknodeclass::KWOKNodeClassSpec;

/// Returns all failures of a class; an empty list means that it is valid.
pub fn failures(spec: &KWOKNodeClassSpec) -> Vec<String> {
    duration_failures([("nodeRegistrationDelay", spec.node_registration_delay.as_ref())])
}
