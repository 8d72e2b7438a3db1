//! The AWS provider: how EC2 instances are described, chosen, launched and cleaned up (specs 05 and
//! 06). AWS is reached through [`ports`] only; this crate never uses the AWS SDK.

pub mod data;
pub mod ports;
mod settings;

pub use settings::{AwsSettings, ClusterFacts};
