//! Decisions. Given a world (nodes, pods, pools, instance types) the engine says which pods go where, which machines
//! to launch and which to take away; for everything that it does not do it can say why.
//!
//! It is pure: no IO, no clock, no randomness of its own, no logs, no async. The same input and seed give the same
//! answer on every machine and for any number of threads. Because it touches nothing outside, it cannot fail: trouble in
//! the input is part of the answer.

pub mod requirement;
