//! Tests of Kerf's CRDs by admission as in a cluster (spec 01 §14), of the controllers' validation,
//! and of properties that hold for every input of the parsers.
#![allow(clippy::unwrap_used, reason = "a failing test may panic")]

mod admit;
mod capacitybuffer;
mod ec2nodeclass;
mod examples;
mod fuzz;
mod kubelet;
mod kwoknodeclass;
mod manifests;
mod mutation;
mod nodeclaim;
mod nodeoverlay;
mod nodepool;
mod nodepool_runtime;
mod properties;
