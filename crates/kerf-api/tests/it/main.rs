//! Kerf's own CRDs asked what a cluster would say (spec 01 §14), and what the controllers would say after it; and what must hold
//! for every input of the parsers, however strange.
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
