//! Which nodes may go, which must be replaced and by what (spec 03).

mod input;
#[cfg_attr(not(test), expect(dead_code, reason = "the methods that ask come next"))]
mod simulate;

pub use input::{ClaimLifecycle, LaunchBackoff, PoolDisruption, TemplateHash};
