//! The EC2 provider without the AWS SDK: all rules about describing, choosing, launching and
//! deleting EC2 instances, with the AWS calls as traits. This crate never depends on the SDK, so
//! that it compiles and its tests run quickly.
