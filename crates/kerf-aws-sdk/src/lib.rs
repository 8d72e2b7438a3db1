//! The calls of the EC2 provider through the AWS SDK. This crate translates types and contains no
//! rules. The SDK takes longer to compile than the rest of Kerf together, so no other crate depends
//! on this one.
//!
//! [`connect`] reads region, credentials and settings as every program with an AWS SDK does, and
//! returns the services as [`AwsPorts`](kerf_aws::ports::AwsPorts). Each call of a port is one
//! operation of the SDK, which may make several attempts.

mod calls;
mod connect;
mod convert;
mod ec2;
mod eks;
mod http_client;
mod iam;
mod price_list;
mod sqs;
mod ssm;
mod zonal_shift;

pub use connect::{CallLimits, connect, ports};
pub use http_client::{TrustedRoots, http_client};
