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

pub use backoff::{Backoff, Chance, Rate};
pub use causes::Causes;
pub use clock::Clock;
pub use lease::{Lease, LeaseSettings, Lost};
pub use patch::{Failure, Lock, Target, Write, difference, retried};
pub use queue::{Next, Queue, QueueSettings, QueueStats};
pub use shutdown::{Shutdown, Stop, signal};
pub use throttle::{Throttle, Throttled};
pub use watch::{Event, Kind, Phase, Progress, Watch, WatchSettings, watch};
