//! The machinery that controllers run on, without a word of the domain: the clock, watches, the ordered queue, back-off, the
//! lease. The controllers, the providers and the sandbox all run on it, on one clock that tests can stop and turn by hand.

mod backoff;
mod causes;
mod clock;
mod lease;
mod patch;
mod queue;
mod shutdown;
mod throttle;
mod watch;

pub use backoff::{Backoff, Rate, Rng};
pub use causes::Causes;
pub use clock::Clock;
pub use lease::{Lease, LeaseLost, LeaseSettings};
pub use patch::{ApiError, MergePatch, OptimisticLock, PatchTarget, merge_patch_between, with_retries};
pub use queue::{Queue, QueueSettings, QueueStats, ReconcileAction};
pub use shutdown::{Shutdown, ShutdownSignal, termination_signal};
pub use throttle::{Throttle, Throttled};
pub use watch::{WatchHandle, WatchPhase, WatchProgress, WatchSettings, WatchUpdate, WatchedKind, watch};
