//! Launch templates (spec 05 §13): their content, their names, and their life in EC2.
//!
//! A template is named by a hash of its inputs, so that equal launches share one. A template that
//! is not used for a minute is deleted; templates that a crash left are found by their tags.

mod content;
mod input;
mod name;
mod store;

pub use content::LaunchTemplateContentError;
pub use input::{LaunchTemplateInput, TemplateReservation};
pub use store::{LaunchTemplateError, LaunchTemplateStore};

#[cfg(test)]
mod tests;
