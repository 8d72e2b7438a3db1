//! Kerf's own CRDs asked what a cluster would say (spec 01 §14), and what the controllers would say after it.
#![allow(clippy::unwrap_used, reason = "a failing test may panic")]

mod admit;
mod capacitybuffer;
mod ec2nodeclass;
mod examples;
mod kubelet;
mod kwoknodeclass;
mod manifests;
mod nodeclaim;
mod nodeoverlay;
mod nodepool;
mod nodepool_runtime;
