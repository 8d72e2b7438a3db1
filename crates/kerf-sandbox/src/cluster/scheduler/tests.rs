//! Tests of the scheduler: rules as tables of small clusters, agreement with the referee on random
//! clusters, and runs in virtual time.

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
