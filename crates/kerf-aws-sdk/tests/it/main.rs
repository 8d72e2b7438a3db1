//! Tests of the calls over HTTP: against a server with canned answers, and against the EC2 in
//! memory.

#![allow(clippy::unwrap_used, reason = "a test may fail by panicking")]

mod canned_server;
mod clients;
mod failures;
mod program;
mod round_trip;
