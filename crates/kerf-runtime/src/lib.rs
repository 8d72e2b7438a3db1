//! The machinery that controllers run on, without a word of the domain: the clock, watches, the ordered queue, back-off, the
//! lease. The controllers, the providers and the sandbox all run on it, on one clock that tests can stop and turn by hand.

mod clock;

pub use clock::Clock;
