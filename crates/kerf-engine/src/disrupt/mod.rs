//! Which nodes may go, which must be replaced and by what (spec 03).

mod input;

pub use input::{ClaimLifecycle, LaunchBackoff, PoolDisruption, TemplateHash};
