//! The scheduler's rules as tables of small clusters, its random agreement with the referee, and its runs in virtual time.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on should stop there")]

mod fixture;
mod messages;
mod placement;
mod preemption;
mod queue;
mod recorded;
mod referee;
mod run;
mod scores;
