//! The AWS provider: how EC2 instances are described, chosen, launched and cleaned up (specs 05 and
//! 06). AWS is reached through [`ports`] only; this crate never uses the AWS SDK.

mod aws_errors;
mod context;
pub mod data;
pub mod instance_types;
pub mod launch_templates;
pub mod memory;
pub mod offerings;
pub mod ports;
pub mod pricing;
mod provider;
mod settings;
pub mod unavailable_offerings;
pub mod user_data;

pub use provider::{AwsParts, AwsProvider};
pub use settings::{AwsSettings, ClusterFacts};
