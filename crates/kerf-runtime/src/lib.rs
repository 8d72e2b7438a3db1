//! Runtime of the controllers: clock, watches, ordered work queue, back-off, leader election and
//! patches.
//!
//! The controllers, the cloud providers and the sandbox use it. All of them share one clock, which
//! tests can pause and advance. Nothing here knows NodePools or other objects of Kerf's domain.

mod backoff;
mod causes;
mod clock;
mod lease;
mod patch;
mod queue;
mod rng;
mod shutdown;
mod suspend;
mod throttle;
mod watch;
mod write_gate;

pub use backoff::{Backoff, Rate};
pub use causes::Causes;
pub use clock::Clock;
pub use lease::{Lease, LeaseLost, LeaseSettings};
pub use patch::{ApiError, MergePatch, OptimisticLock, PatchTarget, merge_patch_between, with_retries};
pub use queue::{Queue, QueueSettings, QueueStats, ReconcileAction};
pub use rng::Rng;
pub use shutdown::{Shutdown, ShutdownSignal, termination_signal};
pub use suspend::{ProcessTask, SimulatedProcess, same_process};
pub use throttle::{Throttle, Throttled};
pub use watch::{WatchHandle, WatchPhase, WatchProgress, WatchSettings, WatchUpdate, WatchedKind, watch};
pub use write_gate::{Gated, LeaseExpired, WriteGate};
